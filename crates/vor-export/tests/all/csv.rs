//! CSV through a reader written from RFC 4180, field by field.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;

use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, SpanArgs, ThreadBatch};
use vor_capture::model::catalog::{
    Catalog, Column, MetricColumn, ProcessInfo, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::frame::{FrameSnapshot, MetricValue, TreeBuilder};
use vor_capture::model::timeline::{ClockSync, RATE_BITS, Timeline};
use vor_capture::sink::{FrameSink, Interest};
use vor_export::csv::{MetricsCsv, SpanCsv};

const NASTY: &str = "a,\"b\"\r\nc";

fn catalog() -> Arc<Catalog> {
    let thread = |name: &str| {
        Some(Arc::new(filled!(ThreadInfo {
            os_id: 5,
            name: name.into(),
        })))
    };
    let column = |name: &str| {
        filled!(Column {
            metric: MetricColumn {
                name: name.into(),
                unit: "ms".into(),
            },
            system: true,
        })
    };
    let site = filled!(SiteInfo {
        name: NASTY.into(),
        file: "src/a,b.rs".into(),
        line: 17,
        arg_names: vec!["n".into(), "text".into()]
    });
    let mut timeline = Timeline::default();
    timeline.push(filled!(ClockSync {
        ticks: 100,
        unix_ns: 1_700_000_000_000_000_000,
        rate: 2 << RATE_BITS,
        wall_ns: 0,
    }));
    Arc::new(filled!(Catalog {
        timeline: Arc::new(timeline),
        sites: Arc::new(vec![Some(Arc::new(site)), None]),
        threads: Arc::new(vec![thread("main"), thread("main"), None]),
        columns: Arc::new(vec![column("frame_ms"), column(NASTY)]),
        process: Arc::new(filled!(ProcessInfo {
            name: "app, 1".into()
        }))
    }))
}

fn parse(csv: Vec<u8>) -> Vec<Vec<String>> {
    let csv = String::from_utf8(csv).expect("UTF-8");
    let mut rows = Vec::new();
    let (mut row, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = csv.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            other => field.push(other),
        }
    }
    assert!(
        !quoted && field.is_empty() && row.is_empty(),
        "the last row ends"
    );
    rows
}

#[test]
fn spans_have_a_row_each_with_self_times_that_add_up() {
    let mut builder = TreeBuilder::new(100);
    // `[110, 200)` contains `[120, 150)` around `[125, 130)`, and `[150, 150)`.
    for thread in 0..3 {
        builder.add(&filled!(ThreadBatch {
            thread: ThreadId(thread),
            start_ticks: vec![125, 120, 150, 110],
            duration_ticks: vec![5, 30, 0, 90],
            sites: [1, 2, 1, 1].map(SiteId).to_vec(),
            args: vec![filled!(SpanArgs {
                span: 1,
                values: vec![ArgValue::I64(-3), ArgValue::Str(NASTY.into())],
            })]
        }));
    }
    let frame = Arc::new(filled!(FrameSnapshot {
        catalog: catalog(),
        index: 12,
        threads: builder.finish().threads
    }));
    let mut csv = SpanCsv::new(Vec::new());
    assert_eq!(csv.interest(), Interest::FRAMES);
    csv.accept_frame(&frame).expect("a writer that takes all");
    csv.finish().expect("a writer that takes all");
    let rows = parse(csv.into_inner());
    assert_eq!(
        rows[0].join(","),
        "process,frame,thread,depth,name,file,line,start_ns,dur_ns,self_ns,args"
    );
    let file = "src/a,b.rs";
    let args = format!("arg0=-3, arg1={NASTY}");
    for (thread, label) in ["main", "main (1)", "thread #2"].into_iter().enumerate() {
        let expected = [
            [
                "app, 1", "12", label, "0", NASTY, file, "17", "20", "180", "120", "",
            ],
            [
                "app, 1", "12", label, "1", "?", "", "", "40", "60", "50", &args,
            ],
            [
                "app, 1", "12", label, "2", NASTY, file, "17", "50", "10", "10", "",
            ],
            [
                "app, 1", "12", label, "1", NASTY, file, "17", "100", "0", "0", "",
            ],
        ];
        assert_eq!(rows[1 + 4 * thread..5 + 4 * thread], expected);
    }
    assert_eq!(rows.len(), 13);
}

#[test]
fn a_thread_has_the_name_of_the_frame_and_an_unknown_line_is_empty() {
    let frame = |name: &str| {
        let mut builder = TreeBuilder::new(100);
        builder.add(&filled!(ThreadBatch {
            start_ticks: vec![125],
            duration_ticks: vec![5],
            sites: vec![SiteId(1)]
        }));
        let mut catalog = Catalog::clone(&catalog());
        catalog.threads = Arc::new(vec![Some(Arc::new(filled!(ThreadInfo {
            name: name.into()
        })))]);
        catalog.sites = Arc::new(vec![Some(Arc::new(filled!(SiteInfo {
            name: "step".into(),
            file: "a.rs".into()
        })))]);
        Arc::new(filled!(FrameSnapshot {
            catalog: Arc::new(catalog),
            threads: builder.finish().threads
        }))
    };
    let mut csv = SpanCsv::new(Vec::new());
    for name in ["", "worker"] {
        csv.accept_frame(&frame(name)).unwrap();
    }
    csv.finish().unwrap();
    let rows = parse(csv.into_inner());
    let columns: Vec<_> = rows[1..].iter().map(|row| row[2..7].join(",")).collect();
    assert_eq!(columns, ["thread #0,0,step,a.rs,", "worker,0,step,a.rs,"]);
}

fn metrics_frame(index: u64, metrics: &[(u32, f64)]) -> Arc<FrameSnapshot> {
    let value = |&(column, value): &(u32, f64)| filled!(MetricValue { column, value });
    Arc::new(filled!(FrameSnapshot {
        index,
        metrics: metrics.iter().map(value).collect()
    }))
}

#[test]
fn metrics_have_a_row_per_frame_and_a_column_each() {
    let mut csv = MetricsCsv::new(Vec::new(), &catalog());
    assert_eq!(csv.interest(), Interest::METRICS);
    for frame in [
        metrics_frame(0, &[(0, 16.25), (1, f64::NAN)]),
        metrics_frame(1, &[]),
        metrics_frame(2, &[(1, -0.1)]),
    ] {
        csv.accept_frame(&frame).expect("a writer that takes all");
    }
    csv.finish().expect("a writer that takes all");
    assert_eq!(
        parse(csv.into_inner()),
        [
            ["frame", "frame_ms", NASTY],
            ["0", "16.25", "NaN"],
            ["1", "", ""],
            ["2", "", "-0.1"],
        ]
    );
}

#[test]
fn values_without_a_column_are_an_error() {
    let mut csv = MetricsCsv::new(Vec::new(), &catalog());
    let frame = metrics_frame(0, &[(1, 2.0), (2, 3.0)]);
    csv.accept_frame(&frame).expect("a writer that takes all");
    let error = csv.finish().expect_err("a value without a column");
    assert!(error.is_sink() && error.to_string().starts_with("1 values"));
    assert_eq!(parse(csv.into_inner())[1], ["0", "", "2"]);
}
