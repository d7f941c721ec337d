//! Random programs as Perfetto traces: an independent reader of the wire format and of the schema's
//! sequences reads the same trees.
//!
//! With `VOR_ORACLE_OUT`, a trace of equal times is written into that folder, beside the recorded
//! spans as lines of JSON. Perfetto itself can then check it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::model::batch::{
    ArgValue, AsyncSpan, OpenStarts, SpanArgs, SpanBatch, TaskEvent, TaskEventKind, ThreadBatch,
};
use vor_capture::model::catalog::{
    Catalog, Column, MachineInfo, MetricColumn, ProcessInfo, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::frame::{FrameSnapshot, MetricValue, TreeBuilder};
use vor_capture::model::timeline::{ClockSnapshot, ClockSync, RATE_BITS, Timeline};
use vor_capture::reader::Lookahead;
use vor_capture::sink::FrameSink as _;
use vor_export::csv::SpanCsv;
use vor_export::perfetto::{CounterUnit, PerfettoExporter};
use vor_fixtures::perfetto::{Message, Slice, Trace, read};

const SITES: u32 = 200;

/// A tick of 1 ns, of 41 ns, as some clocks have, and of 1/64 ns, so that many ticks share a
/// nanosecond.
const NS: u64 = 1 << RATE_BITS;
const COARSE: u64 = 41 * NS;
const FINE: u64 = NS / 64;

/// Returns a catalog whose tick is `rate / NS` nanoseconds.
fn catalog(threads: u32, rate: u64) -> Arc<Catalog> {
    let site = |i: u32| {
        filled!(SiteInfo {
            name: Cow::Owned(format!("site \"{i}\"")),
            file: if i.is_multiple_of(3) {
                "".into()
            } else {
                "src/a.rs".into()
            },
            line: i,
            category: if i.is_multiple_of(5) {
                "io".into()
            } else {
                "".into()
            },
            arg_names: (0..i % 4)
                .map(|n| Cow::Owned(format!("arg {i} {n}")))
                .collect()
        })
    };
    let mut timeline = Timeline::default();
    timeline.push(filled!(ClockSync {
        ticks: 1000,
        unix_ns: 1_700_000_000_000_000_000,
        rate,
        wall_ns: 1_700_000_000_000_000_000,
    }));
    Arc::new(filled!(Catalog {
        process: Arc::new(filled!(ProcessInfo {
            pid: 77,
            name: "made".into(),
            recorder: "test".into(),
        })),
        machine: Arc::new(filled!(MachineInfo {
            clocks: Some(filled!(ClockSnapshot {
                ticks: 1000,
                monotonic_ns: 4_000_000,
                boottime_ns: 5_000_000,
            }))
        })),
        timeline: Arc::new(timeline),
        sites: Arc::new((1..=SITES).map(|i| Some(Arc::new(site(i)))).collect()),
        threads: Arc::new(
            (0..threads)
                .map(|i| {
                    Some(Arc::new(filled!(ThreadInfo {
                        os_id: 100 + u64::from(i),
                        name: format!("thread {i}"),
                    })))
                })
                .collect(),
        )
    }))
}

fn ns(ticks: u64, rate: u64) -> u64 {
    5_000_000 + ((u128::from(ticks - 1000) * u128::from(rate)) >> RATE_BITS) as u64
}

/// A span of a random program.
#[derive(Clone, Debug)]
struct TestSpan {
    site: u32,
    start: u64,
    end: u64,
    depth: usize,
}

/// Walks up and down a stack; returns the spans in the order of their ends. `wait` is the time
/// between two steps.
fn program(steps: &[(bool, u64, u32)]) -> Vec<TestSpan> {
    let (mut now, mut open, mut ended) = (1000, Vec::new(), Vec::new());
    let mut end = |open: &mut Vec<(u64, u32)>, now: u64| {
        if let Some((start, site)) = open.pop() {
            ended.push(TestSpan {
                site,
                start,
                end: now,
                depth: open.len(),
            });
        }
    };
    for (enter, wait, site) in steps {
        now += wait;
        if *enter {
            open.push((now, 1 + site % SITES));
        } else {
            end(&mut open, now);
        }
    }
    while !open.is_empty() {
        now += 1;
        end(&mut open, now);
    }
    ended
}

fn arg_value(site: u32, n: u32) -> ArgValue {
    match (site + n) % 5 {
        0 => ArgValue::Bool(n.is_multiple_of(2)),
        1 => ArgValue::I64(-i64::from(site)),
        2 => ArgValue::U64(u64::MAX - u64::from(site)),
        3 => ArgValue::F64(f64::from(site) / 7.0),
        _ => ArgValue::Str(format!("text \"{site}\"").into()),
    }
}

fn shown(value: &ArgValue) -> String {
    match value {
        ArgValue::F64(value) => format!("{value:?}"),
        value => value.to_string(),
    }
}

fn args_of(made: &TestSpan) -> Vec<(String, ArgValue)> {
    (0..made.site % 4)
        .map(|n| (format!("arg {} {n}", made.site), arg_value(made.site, n)))
        .collect()
}

/// Makes batches of the threads' spans, with these numbers of spans.
fn batches(catalog: &Arc<Catalog>, threads: &[Vec<TestSpan>], cuts: &[usize]) -> Vec<SpanBatch> {
    let mut done = vec![0; threads.len()];
    let mut made = Vec::new();
    let mut cuts = cuts.iter().copied().chain(std::iter::repeat(usize::MAX));
    while done
        .iter()
        .zip(threads)
        .any(|(done, spans)| *done < spans.len())
    {
        let mut batch = filled!(SpanBatch {
            catalog: Arc::clone(catalog),
            threads: Vec::new(),
        });
        for (thread, spans) in threads.iter().enumerate() {
            let count = cuts.next().unwrap().min(spans.len() - done[thread]);
            let part = &spans[done[thread]..done[thread] + count];
            done[thread] += count;
            let args = part
                .iter()
                .enumerate()
                .filter(|(_, made)| made.site % 4 > 0);
            batch.threads.push(filled!(ThreadBatch {
                thread: ThreadId(thread as u32),
                start_ticks: part.iter().map(|made| made.start).collect(),
                duration_ticks: part.iter().map(|made| made.end - made.start).collect(),
                sites: part.iter().map(|made| SiteId(made.site)).collect(),
                args: args
                    .map(|(i, made)| filled!(SpanArgs {
                        span: i as u32,
                        values: args_of(made).into_iter().map(|arg| arg.1).collect(),
                    }))
                    .collect()
            }));
        }
        made.push(batch);
    }
    made
}

fn export(batches: &[SpanBatch]) -> Vec<u8> {
    let mut exporter = PerfettoExporter::new(Vec::new());
    for batch in batches {
        exporter.accept_batch(batch).unwrap();
    }
    exporter.finish().unwrap();
    exporter.into_inner()
}

/// Like [`export`], with a report of the open scopes after each batch.
fn export_looking_ahead(batches: &[SpanBatch]) -> Vec<u8> {
    let mut ahead = Lookahead::default();
    batches.iter().for_each(|batch| ahead.add(batch));
    let mut exporter = PerfettoExporter::new(Vec::new());
    for batch in batches {
        exporter.accept_batch(batch).unwrap();
        exporter.accept_open(&ahead.after(batch)).unwrap();
    }
    exporter.finish().unwrap();
    exporter.into_inner()
}

/// Returns name, start, end, depth and arguments of a thread's slices, in the order of their ends,
/// parents last.
type Row = (String, u64, u64, usize, Vec<(String, String)>);

fn rows(trace: &Trace, tid: u64) -> Vec<Row> {
    let of_thread = |slice: &&Slice| {
        trace
            .threads
            .get(&slice.track)
            .is_some_and(|thread| thread.0 == tid)
    };
    let slices = trace.slices.iter().filter(of_thread);
    slices
        .map(|slice| {
            (
                slice.name.clone(),
                slice.start_ns,
                slice.end_ns,
                slice.depth,
                slice.args.clone(),
            )
        })
        .collect()
}

fn expected(spans: &[TestSpan], rate: u64) -> Vec<Row> {
    let row = |made: &TestSpan| {
        let args = args_of(made)
            .into_iter()
            .map(|(name, value)| (name, shown(&value)));
        let name = format!("site \"{}\"", made.site);
        (
            name,
            ns(made.start, rate),
            ns(made.end, rate),
            made.depth,
            args.collect(),
        )
    };
    spans.iter().map(row).collect()
}

/// Steps of a program; no two share a tick.
fn steps(wait: std::ops::Range<u64>) -> impl Strategy<Value = Vec<(bool, u64, u32)>> {
    vec((any::<bool>(), wait, any::<u32>()), 0..300)
}

proptest! {
    #[test]
    fn the_same_trees_come_back(
        programs in vec(steps(1..100_000), 1..4),
        cuts in vec(0..80_usize, 0..30),
    ) {
        let threads: Vec<_> = programs.iter().map(|steps| program(steps)).collect();
        let catalog = catalog(threads.len() as u32, NS);
        let trace = read(&export(&batches(&catalog, &threads, &cuts)));
        for (i, spans) in threads.iter().enumerate() {
            prop_assert_eq!(rows(&trace, 100 + i as u64), expected(spans, NS));
        }
    }

    /// With a tick of 41 ns or 1/64 ns many begins and ends have the same time. The nesting and the
    /// times stay.
    #[test]
    fn the_same_trees_come_back_where_times_are_equal(
        mut programs in vec(steps(0..3), 1..3),
        rate in prop_oneof![Just(COARSE), Just(FINE), Just(NS)],
        cuts in vec(0..20_usize, 0..60),
    ) {
        for (enter, wait, _) in programs.iter_mut().flatten() {
            // A span within one tick could also be a child of the next span of that tick.
            *wait += u64::from(!*enter);
        }
        let threads: Vec<_> = programs.iter().map(|steps| program(steps)).collect();
        let batches = batches(&catalog(threads.len() as u32, rate), &threads, &cuts);
        for bytes in [export(&batches), export_looking_ahead(&batches)] {
            let trace = read(&bytes);
            for (i, spans) in threads.iter().enumerate() {
                prop_assert_eq!(rows(&trace, 100 + i as u64), expected(spans, rate));
            }
        }
    }
}

/// Thousands of parents begin in the nanosecond of their children and end in a later batch:
/// duration, depth and name equal those of the CSV.
#[test]
fn thousands_of_equal_starts_match_the_csv() {
    let mut steps = vec![(true, 0, 7)];
    for i in 0..6_000 {
        steps.extend([(true, 200, i), (true, 1, i + 1), (true, 1, i + 2)]);
        steps.extend([
            (false, 90, 0),
            (false, 1, 0),
            (true, 1, i),
            (false, 70, 0),
            (false, 1, 0),
        ]);
    }
    let spans = program(&steps);
    let starts = spans.iter().map(|made| ns(made.start, FINE));
    let distinct = starts.collect::<std::collections::HashSet<_>>().len();
    assert!(
        spans.len() - distinct > 10_000,
        "{distinct} of {}",
        spans.len()
    );
    let catalog = catalog(1, FINE);
    let cuts: Vec<_> = (0..20_000).map(|i| 1 + i % 2).collect();
    let batches = batches(&catalog, std::slice::from_ref(&spans), &cuts);
    let mut trees = TreeBuilder::new(usize::MAX);
    batches.iter().for_each(|batch| trees.add_batch(batch));
    let frame = filled!(FrameSnapshot {
        catalog: Arc::clone(&catalog),
        threads: trees.finish().threads
    });
    let mut csv = SpanCsv::new(Vec::new());
    csv.accept_frame(&Arc::new(frame)).unwrap();
    csv.finish().unwrap();
    let csv = String::from_utf8(csv.into_inner()).unwrap();
    let mut expected: Vec<_> = csv
        .lines()
        .skip(1)
        .map(|line| line.replace("\"\"", "'"))
        .collect();
    expected.sort_unstable();
    let traces = [export(&batches), export_looking_ahead(&batches)];
    if let Some(folder) = std::env::var_os("VOR_ORACLE_OUT") {
        let folder = Path::new(&folder);
        for (name, bytes) in ["equal", "equal-ahead"].iter().zip(&traces) {
            std::fs::write(folder.join(format!("{name}.pftrace")), bytes).unwrap();
        }
        std::fs::write(folder.join("equal.jsonl"), json_rows(&catalog, &spans)).unwrap();
    }
    for bytes in traces {
        let trace = read(&bytes);
        let mut found: Vec<_> = rows(&trace, 100)
            .into_iter()
            .map(|(name, start, end, depth, _)| {
                let name = name.replace('"', "'");
                (depth, name, start - 5_000_000, end - start)
            })
            .collect();
        found.sort_unstable();
        let mut rows: Vec<_> = expected.iter().map(|line| csv_row(line)).collect();
        rows.sort_unstable();
        assert!(found == rows, "a slice differs from its row");
    }
}

/// Returns the spans of the first thread in the format of the oracle.
fn json_rows(catalog: &Catalog, spans: &[TestSpan]) -> String {
    let rows = spans.iter().map(|made| {
        let site = catalog.site(SiteId(made.site)).unwrap();
        let args = args_of(made);
        let args: serde_json::Map<_, _> = args
            .iter()
            .map(|(name, value)| (name.clone(), vor_fixtures::json::arg(value)))
            .collect();
        let start = ns(made.start, FINE);
        let row = serde_json::json!({
            "kind": "span",
            "name": site.name,
            "category": site.category,
            "file": site.file,
            "line": site.line,
            "tid": 100,
            "thread": "thread 0",
            "ts": start,
            "dur": ns(made.end, FINE) - start,
            "depth": made.depth,
            "args": args,
        });
        format!("{row}\n")
    });
    rows.collect()
}

/// Returns depth, name, start and duration of a row.
fn csv_row(line: &str) -> (usize, String, u64, u64) {
    let fields: Vec<&str> = line.split(',').collect();
    let number = |at: usize| fields[at].parse().unwrap();
    let name = fields[4].trim_matches('"').to_owned();
    (number(3) as usize, name, number(7), number(8))
}

/// A pending begin is written as soon as it is known to have no parent in its nanosecond.
#[test]
fn begins_wait_only_for_an_open_scope_of_their_nanosecond() {
    let catalog = catalog(1, FINE);
    let thread = filled!(ThreadBatch {
        start_ticks: vec![10_000, 10_700, 12_000],
        duration_ticks: vec![600, 600, 600],
        sites: vec![SiteId(1), SiteId(2), SiteId(4)]
    });
    let batch = filled!(SpanBatch {
        catalog,
        threads: vec![thread],
    });
    let mut exporter = PerfettoExporter::new(Vec::new());
    exporter.accept_batch(&batch).unwrap();
    let open = |starts: &[u64]| {
        filled!(OpenStarts {
            as_of_ticks: 13_000,
            threads: vec![(ThreadId(0), starts.to_vec())],
        })
    };
    // The second one shares its nanosecond with an open scope.
    exporter.accept_open(&open(&[9_000, 10_690])).unwrap();
    exporter.flush().unwrap();
    let begins = |bytes: &[u8]| {
        let packets = Message::new(bytes).messages(1);
        let events = packets.iter().filter_map(|packet| packet.message(11));
        events.filter(|event| event.number(9) == Some(1)).count()
    };
    assert_eq!(begins(&exporter.into_inner()), 2);
}

#[test]
fn long_batches_are_written_in_blocks_without_loss() {
    // A deep chain that outlives several blocks of leaves.
    let mut steps = vec![(true, 10, 1), (true, 10, 2), (true, 10, 3)];
    for i in 0..5000 {
        steps.extend([(true, 3, i), (true, 2, i + 1), (false, 5, 0), (false, 4, 0)]);
    }
    let spans = program(&steps);
    let catalog = catalog(1, NS);
    let bytes = export(&batches(&catalog, std::slice::from_ref(&spans), &[]));
    assert_eq!(rows(&read(&bytes), 100), expected(&spans, NS));
}

#[test]
fn tasks_do_not_overlap_on_a_track_and_contain_their_polls() {
    let catalog = catalog(2, NS);
    let poll = |task, start_ticks, duration_ticks| {
        filled!(TaskEvent {
            task,
            site: SiteId(1),
            start_ticks,
            kind: TaskEventKind::Poll { duration_ticks },
        })
    };
    let task = |id, start_ticks, duration_ticks| {
        filled!(AsyncSpan {
            id,
            site: SiteId(1),
            start_ticks,
            duration_ticks,
        })
    };
    let batch = filled!(SpanBatch {
        catalog: Arc::clone(&catalog),
        threads: vec![
            filled!(ThreadBatch {
                thread: ThreadId(0),
                task_events: vec![poll(1, 2000, 10), poll(2, 2020, 10), poll(3, 2100, 5)],
                async_spans: vec![task(1, 2000, 100), task(2, 2020, 30), task(9, 2030, 10)]
            }),
            filled!(ThreadBatch {
                thread: ThreadId(1),
                task_events: vec![
                    poll(1, 2090, 10),
                    filled!(TaskEvent {
                        task: 2,
                        site: SiteId(2),
                        start_ticks: 2040,
                        kind: TaskEventKind::Step,
                    }),
                ]
            }),
        ],
    });
    let trace = read(&export(&[batch]));
    let mut slices: Vec<_> = trace
        .slices
        .iter()
        .map(|slice| {
            (
                &*slice.name,
                slice.start_ns - 5_000_000 + 1000,
                slice.end_ns - 5_000_000 + 1000,
                slice.depth,
            )
        })
        .collect();
    slices.sort_unstable();
    let site = "site \"1\"";
    let expected = [
        ("poll", 2000, 2010, 1),
        ("poll", 2020, 2030, 1),
        ("poll", 2090, 2100, 1),
        ("poll", 2100, 2105, 1),
        (site, 2000, 2100, 0),
        (site, 2020, 2050, 0),
        (site, 2030, 2040, 0),
        // It was open when the trace ended.
        (site, 2100, 2105, 0),
        ("site \"2\"", 2040, 2040, 1),
    ];
    assert_eq!(slices, expected);
    let mut by_track: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
    for slice in trace.slices.iter().filter(|slice| slice.depth == 0) {
        by_track
            .entry(slice.track)
            .or_default()
            .push((slice.start_ns, slice.end_ns));
    }
    for spans in by_track.values_mut() {
        spans.sort_unstable();
        assert!(
            spans.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "{spans:?}"
        );
    }
}

#[test]
fn only_a_task_that_is_open_when_the_trace_ends_is_unfinished() {
    let catalog = catalog(1, NS);
    let poll = |task, start_ticks| {
        filled!(TaskEvent {
            task,
            site: SiteId(1),
            start_ticks,
            kind: TaskEventKind::Poll { duration_ticks: 10 },
        })
    };
    let ended = filled!(AsyncSpan {
        id: 1,
        site: SiteId(1),
        start_ticks: 2_000,
        duration_ticks: 50,
    });
    let thread = filled!(ThreadBatch {
        task_events: vec![poll(1, 2_000), poll(2, 2_100)],
        async_spans: vec![ended]
    });
    let trace = export(&[filled!(SpanBatch {
        catalog,
        threads: vec![thread],
    })]);
    // An end is an event of type 2, and an annotation has its name in field 10 and a flag in 2.
    let mut unfinished = Vec::new();
    for packet in Message::new(&trace).messages(1) {
        let Some(event) = packet
            .message(11)
            .filter(|event| event.number(9) == Some(2))
        else {
            continue;
        };
        let flags = event.messages(4).into_iter().map(|flag| {
            assert_eq!(flag.text(10).as_deref(), Some("unfinished"));
            flag.number(2) == Some(1)
        });
        unfinished.push((packet.number(8).unwrap(), flags.collect::<Vec<_>>()));
    }
    // The polls and the first task end, and then the second task with its poll.
    let at = |ticks| ns(ticks, NS);
    unfinished.sort();
    let expected = [
        (at(2_010), vec![]),
        (at(2_050), vec![]),
        (at(2_110), vec![]),
        (at(2_110), vec![true]),
    ];
    assert_eq!(unfinished, expected);
}

#[test]
fn each_thread_has_two_sequences() {
    let catalog = catalog(20, NS);
    let thread = |id| {
        filled!(ThreadBatch {
            thread: ThreadId(id),
            start_ticks: vec![2_000],
            duration_ticks: vec![10],
            sites: vec![SiteId(1)]
        })
    };
    let batch = filled!(SpanBatch {
        catalog,
        threads: (0..20).map(thread).collect(),
    });
    let mut exporter = PerfettoExporter::new(Vec::new());
    for _ in 0..2 {
        exporter.accept_batch(&batch).unwrap();
        assert_eq!(
            exporter.next_sequence(),
            2 + 2 * 20,
            "the first is the process's"
        );
    }
    exporter.finish().unwrap();
    assert_eq!(read(&exporter.into_inner()).slices.len(), 40);
}

#[test]
fn arguments_beyond_the_names_of_a_site_have_numbers() {
    // The second site has two names, and its iids are followed by those of the third one.
    let sites = [3, 2].map(SiteId);
    let args = (0..2).map(|span| {
        filled!(SpanArgs {
            span,
            values: vec![ArgValue::U64(7); 4],
        })
    });
    let thread = filled!(ThreadBatch {
        start_ticks: vec![2_000, 2_100],
        duration_ticks: vec![10; 2],
        sites: sites.to_vec(),
        args: args.collect()
    });
    let trace = read(&export(&[filled!(SpanBatch {
        catalog: catalog(1, NS),
        threads: vec![thread],
    })]));
    let names = trace.slices.iter().map(|slice| {
        let names = slice.args.iter().map(|(name, _)| name.as_str());
        names.collect::<Vec<_>>()
    });
    let expected = [
        ["arg 3 0", "arg 3 1", "arg 3 2", "arg3"],
        ["arg 2 0", "arg 2 1", "arg2", "arg3"],
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

#[test]
fn a_frame_has_the_number_of_merged_marks_if_there_are_any() {
    let mut exporter = PerfettoExporter::new(Vec::new());
    for (index, merged_marks) in [(4, 0), (5, 3)] {
        let frame = filled!(FrameSnapshot {
            catalog: catalog(1, NS),
            index,
            start_ticks: 1_000 + index * 100,
            end_ticks: 1_100 + index * 100,
            merged_marks
        });
        exporter.accept_frame(&Arc::new(frame)).unwrap();
    }
    exporter.finish().unwrap();
    let trace = read(&exporter.into_inner());
    let args: Vec<_> = trace
        .slices
        .iter()
        .map(|slice| slice.args.clone())
        .collect();
    let arg = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = [
        vec![arg("index", "4")],
        vec![arg("index", "5"), arg("merged_marks", "3")],
    ];
    assert_eq!(args, expected);
}

#[test]
fn metrics_are_counters_with_their_units() {
    let mut catalog = (*catalog(1, NS)).clone();
    let columns = [
        ("memory", "MB"),
        ("time", "ms"),
        ("load", "%"),
        ("things", ""),
        ("lost", "B"),
    ];
    catalog.columns = Arc::new(
        columns
            .map(|(name, unit)| {
                filled!(Column {
                    metric: MetricColumn {
                        name: name.into(),
                        unit: unit.into(),
                    },
                    system: false,
                })
            })
            .to_vec(),
    );
    let values = [1.5, 2.25, 42.5, 7.0, f64::NAN];
    let frame = filled!(FrameSnapshot {
        catalog: Arc::new(catalog),
        start_ticks: 1000,
        end_ticks: 2000,
        metrics: (0..)
            .zip(values)
            .map(|(column, value)| filled!(MetricValue { column, value }))
            .collect(),
        dropped_spans: 3
    });
    let mut exporter = PerfettoExporter::new(Vec::new());
    exporter.accept_frame(&Arc::new(frame)).unwrap();
    let counter = exporter.add_incremental_counter("rate", &CounterUnit::Custom("fps".into()), 3);
    exporter.put_counter(counter, 1500, 0.5);
    exporter.put_counter(counter, 1500, f64::INFINITY);
    exporter.finish().unwrap();
    let bytes = exporter.into_inner();
    let trace = read(&bytes);
    let about = |name: &str| trace.counters[name].clone();
    assert_eq!(about("memory"), (Some(3), None, 1_000_000, false));
    assert_eq!(about("time"), (None, Some("ms".into()), 1, false));
    assert_eq!(about("load"), (None, Some("%".into()), 1, false));
    assert_eq!(about("things"), (None, None, 1, false));
    assert_eq!(about("dropped_spans"), (Some(2), None, 1, false));
    assert_eq!(about("rate"), (None, Some("fps".into()), 3, true));
    let expected = [
        ("memory", 1.5),
        ("time", 2.25),
        ("load", 42.5),
        ("things", 7.0),
        ("dropped_spans", 3.0),
        ("rate", 0.5),
    ];
    assert_eq!(
        trace.values,
        expected.map(|(name, value)| (name.to_owned(), value))
    );
    let [frame] = &trace.slices[..] else {
        panic!("{:?}", trace.slices)
    };
    assert_eq!(
        (frame.name.as_str(), frame.start_ns, frame.end_ns),
        ("frame", 5_000_000, 5_001_000)
    );
}

#[test]
fn an_empty_trace_has_no_bytes_and_a_finished_one_accepts_no_more() {
    assert_eq!(export(&[]), b"");
    let mut exporter = PerfettoExporter::new(Vec::new());
    exporter.finish().unwrap();
    exporter.finish().unwrap();
    let error = exporter.accept_batch(&SpanBatch::default()).unwrap_err();
    assert_eq!(error.to_string(), "the Perfetto trace is already finished");
}

#[test]
fn undeclared_ids_are_unknown_and_harmless() {
    let catalog = catalog(0, NS);
    let batch = filled!(SpanBatch {
        catalog,
        threads: vec![filled!(ThreadBatch {
            thread: ThreadId(u32::MAX),
            start_ticks: vec![1000, 0, u64::MAX],
            duration_ticks: vec![5, u64::MAX, u64::MAX],
            sites: vec![SiteId(u32::MAX), SiteId(0), SiteId(SITES + 1)]
        })],
    });
    let trace = read(&export(&[batch]));
    assert_eq!(trace.slices.len(), 3);
    assert!(trace.slices.iter().all(|slice| slice.name == "?"));
}
