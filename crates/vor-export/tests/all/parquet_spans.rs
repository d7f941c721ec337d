//! The tables of spans, metrics and sketches, read by the `parquet` crate's reader.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::parquet_rows::{Row, args, buckets, int, ints, optional, rows, text};
use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, SpanArgs, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::frame::{FrameSnapshot, MetricValue, TreeBuilder};
use vor_capture::model::measures::Measures;
use vor_capture::model::timeline::{ClockSync, RATE_BITS, Timeline};
use vor_capture::sink::{FrameSink, Interest};
use vor_capture::stats::StatsBuilder;
use vor_export::parquet::{MetricsParquet, Origin, SketchParquet, SpanParquet};
use vor_fixtures::Random;

/// The input of a sink.
enum Piece {
    Batch(SpanBatch),
    Frame(Arc<FrameSnapshot>),
}

fn give(sink: &mut dyn FrameSink, pieces: &[Piece]) {
    for piece in pieces {
        match piece {
            Piece::Batch(batch) => sink.accept_batch(batch).unwrap(),
            Piece::Frame(frame) => sink.accept_frame(frame).unwrap(),
        }
    }
    sink.finish().unwrap();
}

fn origin() -> Origin {
    Origin::default().host("web-17").version("2.4.1")
}

fn span_rows(pieces: &[Piece]) -> Vec<Row> {
    let mut sink = SpanParquet::new(Vec::new(), origin()).unwrap();
    assert_eq!(sink.interest(), Interest::BATCHES);
    give(&mut sink, pieces);
    rows(sink.into_inner().unwrap())
}

fn sketch_rows(pieces: &[Piece]) -> Vec<Row> {
    let mut sink = SketchParquet::new(Vec::new(), origin()).unwrap();
    give(&mut sink, pieces);
    rows(sink.into_inner().unwrap())
}

/// A span of a test, with the values of its tree.
#[derive(Clone, Debug)]
struct TestSpan {
    start: u64,
    duration: u64,
    site: u32,
    /// Starts and durations of its children.
    children: Vec<(u64, u64)>,
    args: Vec<ArgValue>,
}

/// Makes a tree, children first; returns its start and duration.
fn grow(random: &mut Random, now: &mut u64, levels: usize, out: &mut Vec<TestSpan>) -> (u64, u64) {
    let start = *now;
    let mut children = Vec::new();
    *now += random.below(50) as u64;
    if levels > 0 {
        for _ in 0..random.below(4) {
            children.push(grow(random, now, levels - 1, out));
            *now += 1 + random.below(20) as u64;
        }
    }
    *now += 1 + random.below(1000) as u64;
    let duration = *now - start;
    let args = match random.below(5) {
        0 => vec![
            ArgValue::U64(random.next()),
            ArgValue::Str("größe, \"x\"".into()),
        ],
        1 => vec![ArgValue::I64(random.next() as i64)],
        _ => Vec::new(),
    };
    out.push(TestSpan {
        start,
        duration,
        site: 1 + random.below(3) as u32,
        children,
        args,
    });
    (start, duration)
}

/// Returns a catalog whose clock changed its rate a few times during the spans.
fn bent_catalog(random: &mut Random) -> Catalog {
    let mut timeline = Timeline::default();
    let mut sync = vor_fixtures::catalog().timeline.syncs()[0];
    for _ in 0..1 + random.below(5) {
        timeline.push(sync);
        let ticks = sync.ticks + 1 + random.below(6000) as u64;
        sync = filled!(ClockSync {
            ticks,
            unix_ns: timeline.unix_ns(ticks),
            rate: (1 << RATE_BITS) + random.below(1 << RATE_BITS) as u64,
            wall_ns: 0,
        });
    }
    filled!(Catalog {
        timeline: Arc::new(timeline),
        ..vor_fixtures::catalog()
    })
}

/// Splits the spans of two threads into random batches and frames; returns them with the frames'
/// trees.
fn cut(
    random: &mut Random,
    catalog: Catalog,
    threads: &[Vec<TestSpan>],
) -> (Vec<Piece>, Vec<Arc<FrameSnapshot>>) {
    let catalog = Arc::new(catalog);
    let (mut pieces, mut frames) = (Vec::new(), Vec::new());
    let mut done = vec![0; threads.len()];
    let mut builder = TreeBuilder::new(usize::MAX);
    while done
        .iter()
        .zip(threads)
        .any(|(&done, spans)| done < spans.len())
    {
        let mut batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: Vec::new(),
        });
        for (thread, (done, spans)) in done.iter_mut().zip(threads).enumerate() {
            let until = spans.len().min(*done + random.below(60));
            let part = &spans[*done..until];
            let with_args = |(i, span): (usize, &TestSpan)| {
                filled!(SpanArgs {
                    span: i as u32,
                    values: span.args.clone(),
                })
            };
            batch.threads.push(filled!(ThreadBatch {
                thread: ThreadId(thread as u32),
                start_ticks: part.iter().map(|span| span.start).collect(),
                duration_ticks: part.iter().map(|span| span.duration).collect(),
                sites: part.iter().map(|span| SiteId(span.site)).collect(),
                args: part
                    .iter()
                    .enumerate()
                    .filter(|(_, span)| !span.args.is_empty())
                    .map(with_args)
                    .collect()
            }));
            *done = until;
        }
        builder.add_batch(&batch);
        pieces.push(Piece::Batch(batch));
        if random.below(3) == 0 {
            let trees = builder.finish();
            let frame = filled!(FrameSnapshot {
                catalog: Arc::clone(&catalog),
                index: frames.len() as u64 * 2,
                span_count: trees.span_count,
                threads: trees.threads
            });
            let frame = Arc::new(frame);
            frames.push(Arc::clone(&frame));
            // A frame of a streamed capture has no trees either.
            pieces.push(Piece::Frame(Arc::new(filled!(FrameSnapshot {
                threads: Vec::new(),
                ..(*frame).clone()
            }))));
        }
    }
    let trees = builder.finish();
    frames.push(Arc::new(filled!(FrameSnapshot {
        catalog,
        index: u64::MAX,
        threads: trees.threads
    })));
    (pieces, frames)
}

/// A row by thread, start, negative duration, frame, depth, name, self time and arguments.
type SpanRow = (
    i64,
    i64,
    i64,
    Option<i64>,
    i64,
    String,
    i64,
    Vec<(String, String)>,
);

/// Returns the rows of the spans: self times from the tests' trees, all else from the frames'.
fn expected_rows(
    catalog: &Catalog,
    threads: &[Vec<TestSpan>],
    frames: &[Arc<FrameSnapshot>],
) -> Vec<SpanRow> {
    let duration_ns = |start, duration| catalog.timeline.duration_ns(start, duration) as i64;
    let mut rows = Vec::new();
    for frame in frames {
        for tree in &frame.threads {
            for span in &tree.spans {
                let times = (span.start_ticks, span.duration_ticks);
                let test_span = threads[tree.thread.0 as usize]
                    .iter()
                    .find(|span| (span.start, span.duration) == times)
                    .unwrap();
                let children = test_span.children.iter();
                let children_ns: i64 = children.map(|child| duration_ns(child.0, child.1)).sum();
                let dur_ns = duration_ns(times.0, times.1);
                let site = catalog.site(span.site).unwrap();
                let values = tree.args(span).iter().enumerate().map(|(i, value)| {
                    let name = site.arg_names.get(i).map(ToString::to_string);
                    let name = name.unwrap_or_else(|| format!("arg{i}"));
                    (name, value.to_string())
                });
                rows.push((
                    i64::from(tree.thread.0),
                    catalog.unix_ns(span.start_ticks),
                    -dur_ns,
                    (frame.index != u64::MAX).then_some(frame.index as i64),
                    i64::from(span.depth),
                    site.name.to_string(),
                    dur_ns - children_ns,
                    values.collect(),
                ));
            }
        }
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_trees_come_back_with_depths_and_self_times(seed in any::<u64>()) {
        let mut random = Random(seed);
        let threads: Vec<Vec<TestSpan>> = (0..2)
            .map(|_| {
                let (mut now, mut spans) = (2000, Vec::new());
                for _ in 0..random.below(12) {
                    grow(&mut random, &mut now, 5, &mut spans);
                }
                spans
            })
            .collect();
        let catalog = bent_catalog(&mut random);
        let (pieces, frames) = cut(&mut random, catalog.clone(), &threads);
        let mut expected = expected_rows(&catalog, &threads, &frames);
        let mut found: Vec<_> = span_rows(&pieces)
            .iter()
            .map(|row| {
                (
                    int(row, "tid"),
                    int(row, "start_ns"),
                    -int(row, "dur_ns"),
                    optional(row, "frame"),
                    int(row, "depth"),
                    text(row, "name").to_owned(),
                    int(row, "self_ns"),
                    args(row),
                )
            })
            .collect();
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected);
    }
}

fn one_thread(catalog: &Arc<Catalog>, batch: ThreadBatch) -> Piece {
    Piece::Batch(filled!(SpanBatch {
        catalog: Arc::clone(catalog),
        threads: vec![batch],
    }))
}

#[test]
fn waits_have_columns_where_they_were_measured() {
    let mut catalog = vor_fixtures::catalog();
    let arg_names = |names: &[&'static str]| names.iter().map(|name| (*name).into()).collect();
    let waits: Vec<&'static str> = Measures::WAITS.arg_names().collect();
    let sites = [arg_names(&waits), arg_names(&["n"])];
    let sites = sites.map(|arg_names| Some(Arc::new(filled!(SiteInfo { arg_names }))));
    catalog.sites = Arc::new(sites.to_vec());
    let measured = |span, off_cpu_ns, run_queue_ns| {
        let value = |name: &&str| match *name {
            "off_cpu_ns" => off_cpu_ns,
            "run_queue_ns" => run_queue_ns,
            _ => 0,
        };
        filled!(SpanArgs {
            span,
            values: waits
                .iter()
                .map(|name| ArgValue::U64(value(name)))
                .collect()
        })
    };
    let rows = span_rows(&[one_thread(
        &Arc::new(catalog),
        filled!(ThreadBatch {
            start_ticks: vec![1000, 1010, 1020, 1030],
            duration_ticks: vec![5; 4],
            sites: [1, 2, 2, 1].map(SiteId).to_vec(),
            args: vec![
                measured(0, 70, 20),
                filled!(SpanArgs {
                    span: 1,
                    values: vec![ArgValue::U64(9)],
                }),
                measured(3, 5, 5),
            ]
        }),
    )]);
    let columns = ["queued_ns", "blocked_ns"];
    let found: Vec<_> = (rows.iter())
        .map(|row| columns.map(|column| optional(row, column)))
        .collect();
    assert_eq!(
        found,
        [
            [Some(20), Some(50)],
            [None, None],
            [None, None],
            [Some(5), Some(0)]
        ]
    );
    let names: Vec<String> = args(&rows[0]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, waits);
}

#[test]
fn odd_names_and_values_are_unchanged() {
    let nasty = "a,\"b\"\r\n\0c 'größe' \u{1f980}";
    let mut catalog = vor_fixtures::catalog();
    let site = filled!(SiteInfo {
        name: nasty.into(),
        file: "src\\a b=c.rs".into(),
        arg_names: vec!["n".into(), "n".into(), "".into(), "arg1".into()]
    });
    catalog.sites = Arc::new(vec![Some(Arc::new(site)), None]);
    let catalog = Arc::new(catalog);
    let values = [
        ArgValue::F64(f64::NAN),
        ArgValue::U64(u64::MAX),
        ArgValue::Str("".into()),
        ArgValue::Bool(true),
        ArgValue::I64(i64::MIN),
        ArgValue::F64(-f64::INFINITY),
        ArgValue::Str(nasty.into()),
    ];
    let rows = span_rows(&[one_thread(
        &catalog,
        filled!(ThreadBatch {
            thread: ThreadId(7),
            start_ticks: vec![1000, 1000, 1000, 1000],
            duration_ticks: vec![0, 1, u64::MAX, 5],
            sites: [1, 2, 3, u32::MAX].map(SiteId).to_vec(),
            args: vec![
                filled!(SpanArgs {
                    span: 0,
                    values: values.to_vec(),
                }),
                filled!(SpanArgs {
                    span: 1,
                    values: Vec::new(),
                }),
                filled!(SpanArgs {
                    span: 3,
                    values: vec![ArgValue::Bool(false)],
                }),
            ]
        }),
    )]);
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        args(&rows[0]),
        [
            pair("n", "NaN"),
            pair("arg1", "18446744073709551615"),
            pair("", ""),
            pair("arg3", "true"),
            pair("arg4", "-9223372036854775808"),
            pair("arg5", "-inf"),
            pair("arg6", nasty),
        ]
    );
    assert_eq!(
        (text(&rows[0], "name"), text(&rows[0], "file")),
        (nasty, "src\\a b=c.rs")
    );
    assert_eq!(optional(&rows[0], "line"), None);
    assert_eq!(args(&rows[1]), []);
    assert_eq!(args(&rows[3]), [pair("arg0", "false")]);
    for row in &rows[1..] {
        assert_eq!((text(row, "name"), text(row, "file")), ("?", ""));
    }
    for row in &rows {
        assert_eq!(text(row, "host"), "web-17");
        assert_eq!(text(row, "process"), "made");
        assert_eq!(int(row, "pid"), 5);
        assert_eq!(text(row, "version"), "2.4.1");
        assert_eq!(text(row, "thread"), "thread #7");
        assert_eq!(optional(row, "frame"), None);
    }
    assert_eq!(
        int(&rows[2], "dur_ns"),
        i64::MAX - 1_700_000_000_000_000_000
    );
}

#[test]
fn empty_captures_are_tables_without_rows() {
    assert_eq!(span_rows(&[]), []);
    assert_eq!(sketch_rows(&[]), []);
    let mut metrics = MetricsParquet::new(Vec::new(), Origin::default()).unwrap();
    assert_eq!(metrics.interest(), Interest::METRICS);
    give(&mut metrics, &[Piece::Frame(Arc::default())]);
    assert_eq!(rows(metrics.into_inner().unwrap()), []);
}

#[test]
fn a_frame_beyond_the_bound_has_all_its_spans() {
    const SPANS: u64 = (1 << 20) + 100_000;
    let catalog = Arc::new(vor_fixtures::catalog());
    let frame = |index| {
        Piece::Frame(Arc::new(filled!(FrameSnapshot {
            catalog: Arc::clone(&catalog),
            index
        })))
    };
    let mut pieces = vec![frame(40)];
    // Leaves, and a span around them that ends last.
    for first in (0..SPANS).step_by(100_000) {
        let starts: Vec<u64> = (first..SPANS.min(first + 100_000))
            .map(|i| 2000 + 10 * i)
            .collect();
        pieces.push(one_thread(
            &catalog,
            filled!(ThreadBatch {
                duration_ticks: vec![4; starts.len()],
                sites: vec![SiteId(2); starts.len()],
                start_ticks: starts
            }),
        ));
    }
    pieces.push(one_thread(
        &catalog,
        filled!(ThreadBatch {
            start_ticks: vec![1990],
            duration_ticks: vec![SPANS * 10 + 20],
            sites: vec![SiteId(1)]
        }),
    ));
    pieces.push(frame(41));
    let mut sink = SpanParquet::new(Vec::new(), origin()).unwrap();
    give(&mut sink, &pieces);
    let file = sink.into_inner().unwrap();
    // A million rows are read as columns, because the test is not optimised.
    let [frames, depths] = ["frame", "depth"].map(|column| ints(&file, column));
    let [lengths, own] = ["dur_ns", "self_ns"].map(|column| ints(&file, column));
    assert_eq!(lengths.len() as u64, SPANS + 1);
    assert!(frames.iter().all(|&frame| frame == Some(41)));
    let unknown = depths.iter().filter(|depth| depth.is_none()).count();
    assert!(
        (1 << 20..depths.len()).contains(&unknown),
        "{unknown} depths are unknown, of a frame that holds 2^20 spans"
    );
    let (last, known) = depths[unknown..].split_last().unwrap();
    assert!(known.iter().all(|&depth| depth == Some(1)) && *last == Some(0));
    let sum = |values: &[Option<i64>]| values.iter().flatten().sum::<i64>();
    let root_ns = lengths.last().unwrap().unwrap();
    assert_eq!(
        sum(&own),
        root_ns,
        "self times of a root and its descendants add up to its duration"
    );
    assert_eq!(sum(&lengths), root_ns + SPANS as i64 * 8);
}

#[test]
fn metrics_have_a_row_per_value() {
    let catalog = Arc::new(vor_fixtures::catalog());
    let frame = |index, frame_set, values: &[(u32, f64)]| {
        let metric = |&(column, value): &(u32, f64)| filled!(MetricValue { column, value });
        Piece::Frame(Arc::new(filled!(FrameSnapshot {
            catalog: Arc::clone(&catalog),
            index,
            frame_set,
            start_ticks: 1000,
            end_ticks: 1500 + index,
            metrics: values.iter().map(metric).collect()
        })))
    };
    let mut sink = MetricsParquet::new(Vec::new(), Origin::default()).unwrap();
    give(
        &mut sink,
        &[
            frame(0, 0, &[(0, 16.25), (1, f64::NAN)]),
            frame(0, 1, &[(0, 99.0)]),
            frame(2, 0, &[(1, f64::NEG_INFINITY), (2, -0.0), (9, 1.5)]),
        ],
    );
    let rows = rows(sink.into_inner().unwrap());
    let value = |row: &Row| match &row["value"] {
        parquet::record::Field::Double(value) => value.to_bits(),
        other => panic!("expected a number, found {other:?}"),
    };
    let found: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                int(row, "frame"),
                text(row, "name"),
                text(row, "unit"),
                value(row),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (0, "frame_ms", "ms", 16.25_f64.to_bits()),
            (0, "loss", "nats", f64::NAN.to_bits()),
            (2, "loss", "nats", f64::NEG_INFINITY.to_bits()),
            (2, "memory_mb", "MB", (-0.0_f64).to_bits()),
            (2, "?", "", 1.5_f64.to_bits()),
        ]
    );
    assert_eq!(
        int(&rows[4], "time_ns"),
        1_700_000_000_000_000_000 + 2 * 502
    );
    assert_eq!(
        (text(&rows[0], "host"), text(&rows[0], "version")),
        ("unknown", "unknown")
    );
}

#[test]
fn merged_sketches_equal_the_statistics() {
    let mut random = Random(11);
    let (mut now, mut spans) = (2000, Vec::new());
    for _ in 0..300 {
        grow(&mut random, &mut now, 5, &mut spans);
        // A tick is 2 ns: some seconds pass, so that there are many minutes.
        now += random.below(4_000_000_000) as u64;
    }
    let (pieces, _) = cut(&mut random, vor_fixtures::catalog(), &[spans]);
    let mut stats = StatsBuilder::new();
    for piece in &pieces {
        if let Piece::Batch(batch) = piece {
            stats.add_batch(batch);
        }
    }
    let rows = sketch_rows(&pieces);
    let minutes: std::collections::BTreeSet<i64> =
        rows.iter().map(|row| int(row, "minute")).collect();
    assert!(minutes.len() > 5 && minutes.iter().all(|minute| minute % 60 == 0));
    let catalog = vor_fixtures::catalog();
    for expected in stats.scope_stats(&catalog) {
        let of_site: Vec<&Row> = rows
            .iter()
            .filter(|row| text(row, "name") == expected.name)
            .collect();
        let sum = |column: &str| {
            of_site
                .iter()
                .map(|row| int(row, column) as u64)
                .sum::<u64>()
        };
        assert_eq!(sum("count"), expected.count);
        // A sketch has single calls, including recursive ones, like the mean.
        let lengths_ns = (expected.mean_ns * expected.count as f64).round() as u64;
        assert_eq!(sum("sum_ns"), lengths_ns);
        assert!(lengths_ns >= expected.total_ns);
        assert_eq!(sum("self_sum_ns"), expected.self_ns);
        let least = of_site.iter().map(|row| int(row, "min_ns") as u64).min();
        let greatest = of_site.iter().map(|row| int(row, "max_ns") as u64).max();
        assert_eq!(
            (least, greatest),
            (Some(expected.min_ns), Some(expected.max_ns))
        );
        let mut merged: BTreeMap<i64, (i64, u64)> = BTreeMap::new();
        for [bucket, middle_ns, count] in of_site.iter().flat_map(|row| buckets(row)) {
            let entry = merged.entry(bucket).or_insert((middle_ns, 0));
            assert_eq!(entry.0, middle_ns, "buckets are the same in all sketches");
            entry.1 += count as u64;
            // The boundaries of the documentation.
            let (low, width) = match bucket {
                0..64 => (bucket, 1),
                _ => (
                    (bucket % 32 + 32) << (bucket / 32 - 1),
                    1 << (bucket / 32 - 1),
                ),
            };
            assert_eq!(middle_ns, low + (width - 1) / 2);
        }
        for (quantile, expected_ns) in [
            (0.5, expected.p50_ns),
            (0.95, expected.p95_ns),
            (0.99, expected.p99_ns),
        ] {
            let rank = (quantile * expected.count as f64).ceil() as u64;
            let mut seen = 0;
            let (middle_ns, _) = merged
                .values()
                .find(|(_, count)| {
                    seen += count;
                    seen >= rank
                })
                .unwrap();
            assert_eq!(
                (*middle_ns as u64).clamp(expected.min_ns, expected.max_ns),
                expected_ns
            );
        }
    }
}

/// A writer that accepts some bytes, and then no more.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.0.min(bytes.len()) {
            0 => Err(std::io::ErrorKind::StorageFull.into()),
            n => {
                self.0 -= n;
                Ok(n)
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_fails_is_an_error_in_one_line() {
    let made = vor_fixtures::make(3, 20, 200, true);
    let batch = |i: u64| {
        let starts: Vec<u64> = (0..50_000).map(|n| 2000 + i * 1_000_000 + n * 20).collect();
        filled!(SpanBatch {
            catalog: Arc::clone(&made.catalog),
            threads: vec![filled!(ThreadBatch {
                duration_ticks: (0..50_000).map(|n| 1 + n * 7919 % 19).collect(),
                sites: vec![SiteId(1); starts.len()],
                start_ticks: starts
            })],
        })
    };
    let mut sink = SpanParquet::new(Full(50_000), Origin::default()).unwrap();
    let error = (0..100)
        .find_map(|i| {
            sink.accept_batch(&batch(i)).unwrap();
            sink.accept_frame(&Arc::default()).err()
        })
        .expect("the writer takes 50 kB");
    assert!(error.is_io(), "{error:?}");
    assert!(
        error
            .to_string()
            .starts_with("cannot write the Parquet file: "),
        "{error}"
    );
    assert!(!error.to_string().contains('\n'));
}
