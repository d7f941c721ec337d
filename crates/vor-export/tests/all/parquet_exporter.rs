//! The behaviour that all tables share: flushes, counts of estimates, and their debug output.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::parquet_rows::{args, rows, text};
use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, SpanArgs, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::FrameSink;
use vor_export::parquet::{Dataset, MetricsParquet, Origin, SketchParquet, SpanParquet};

/// A writer that counts its flushes.
#[derive(Clone, Debug, Default)]
struct Flushes(Arc<AtomicUsize>);

impl Write for Flushes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn the_writer_is_flushed_with_the_table_and_at_its_end() {
    let writer = Flushes::default();
    let new = || (writer.clone(), Origin::default());
    let sinks: [Box<dyn FrameSink>; 3] = [
        Box::new(SpanParquet::new(new().0, new().1).unwrap()),
        Box::new(MetricsParquet::new(new().0, new().1).unwrap()),
        Box::new(SketchParquet::new(new().0, new().1).unwrap()),
    ];
    for mut sink in sinks {
        let flushes = || writer.0.load(Ordering::Relaxed);
        let before = flushes();
        sink.flush().unwrap();
        assert!(flushes() > before);
        let before = flushes();
        sink.finish().unwrap();
        assert!(flushes() > before);
    }
}

#[test]
fn an_exporter_is_shown_with_its_file() {
    let sink = MetricsParquet::new(io::sink(), Origin::default()).unwrap();
    assert!(format!("{sink:?}").contains("file: TableFile { .. }"));
}

/// The leaves before the begin of each span that ends last.
const LEAVES_BEFORE: [u64; 3] = [11, 7, 3];

/// Leaves that wait for a parent, and spans around nearly all of them: the self times of these are
/// estimates if it is unknown which scopes are open.
fn estimated_batches() -> [SpanBatch; 2] {
    const LEAVES: u64 = 100_000;
    let batch = |spans: Vec<(u64, u64)>| {
        let thread = filled!(ThreadBatch {
            start_ticks: spans.iter().map(|(start, _)| *start).collect(),
            duration_ticks: spans.iter().map(|(_, duration)| *duration).collect(),
            sites: vec![SiteId(1); spans.len()]
        });
        filled!(SpanBatch {
            threads: vec![thread]
        })
    };
    let leaves = (0..LEAVES).map(|leaf| (leaf * 10, 5)).collect();
    let around = LEAVES_BEFORE.map(|leaves| (leaves * 10 - 1, (LEAVES - leaves) * 10));
    [batch(leaves), batch(around.to_vec())]
}

#[test]
fn estimated_self_times_are_counted() {
    let batches = estimated_batches();
    let expected = LEAVES_BEFORE.len() as u64;
    let mut spans = SpanParquet::new(io::sink(), Origin::default()).unwrap();
    let mut metrics = MetricsParquet::new(io::sink(), Origin::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut dataset = Dataset::new(folder.path(), "run", &[], Origin::default()).unwrap();
    for batch in &batches {
        let sinks: [&mut dyn FrameSink; 3] = [&mut spans, &mut metrics, &mut dataset];
        for sink in sinks {
            sink.accept_batch(batch).unwrap();
        }
    }
    assert_eq!(spans.estimated_self_times(), expected);
    assert_eq!(dataset.estimated_self_times(), expected);
    assert_eq!(metrics.estimated_self_times(), 0, "a table without spans");
}

/// A record of the capture that declares the site was lost, and repeated later.
#[test]
fn arguments_have_the_names_of_a_late_declaration() {
    let site = Some(Arc::new(filled!(SiteInfo {
        name: "load".into(),
        arg_names: vec!["size".into()]
    })));
    let mut sink = SpanParquet::new(Vec::new(), Origin::default()).unwrap();
    for (start, site) in [(10, None), (20, site)] {
        let catalog = Arc::new(filled!(Catalog {
            sites: Arc::new(vec![site])
        }));
        let args = filled!(SpanArgs {
            span: 0,
            values: vec![ArgValue::U64(start)],
        });
        let thread = filled!(ThreadBatch {
            start_ticks: vec![start],
            duration_ticks: vec![5],
            sites: vec![SiteId(1)],
            args: vec![args]
        });
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: vec![thread],
        });
        sink.accept_batch(&batch).unwrap();
        let frame = filled!(FrameSnapshot { catalog });
        sink.accept_frame(&Arc::new(frame)).unwrap();
    }
    sink.finish().unwrap();
    let rows = rows(sink.into_inner().unwrap());
    let names: Vec<_> = rows.iter().map(|row| text(row, "name")).collect();
    assert_eq!(names, ["load", "load"]);
    let arg = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let found: Vec<_> = rows.iter().map(args).collect();
    assert_eq!(found, [arg("arg0", "10"), arg("size", "20")]);
}
