//! Several captures as one: segments of a run, further runs with other ids and clocks, and files
//! that are missing, twice there, or no captures.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::format::{Declared, Encoder, Header, RecordRef};
use vor_capture::model::batch::{AsyncSpan, FlowPoint, Message, SpanBatch, TaskEvent, ThreadBatch};
use vor_capture::model::catalog::{
    Catalog, Column, MachineInfo, MetricColumn, SegmentInfo, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};
use vor_capture::model::heap::{HeapMode, HeapScope, HeapSnapshot, HeapStack};
use vor_capture::model::scheduler::{
    SchedulerBatch, SchedulerEvent, SchedulerEventKind, SchedulerTask,
};
use vor_capture::model::scope_modes::{ScopeMode, ScopeModeChange};
use vor_capture::model::timeline::{ClockSync, RATE_BITS};
use vor_capture::reader::{
    Columns, ColumnsBuilder, Loss, Piece, SegmentFollower, SegmentedCapture,
};

/// A capture with a frame for each of `frames`, of 1000 ticks from `start_ticks` on, each with a
/// span of the call site `sites[0]`.
#[derive(Clone)]
struct Made<'a> {
    segment: Option<(u64, u64)>,
    boot_id: &'a str,
    sites: &'a [&'a str],
    columns: &'a [&'a str],
    start_ticks: u64,
    start_ns: i64,
    ns_per_tick: u64,
    frames: std::ops::Range<u64>,
    /// Ticks and sites of scopes that are counted from then on.
    counted: &'a [(u64, u32)],
    /// Whether ids are declared before they are used, as a recorder does, not only in the index.
    is_declared: bool,
}

const FIRST: Made<'_> = Made {
    segment: None,
    boot_id: "boot",
    sites: &["a", "b"],
    columns: &["x", "y"],
    start_ticks: 5_000,
    start_ns: 1_000_000,
    ns_per_tick: 1,
    frames: 0..3,
    counted: &[],
    is_declared: false,
};

fn catalog(made: &Made<'_>) -> Catalog {
    let site = |name: &&str| {
        Some(Arc::new(filled!(SiteInfo {
            name: (*name).to_owned().into()
        })))
    };
    let column = |name: &&str| {
        let metric = MetricColumn {
            name: (*name).to_owned(),
            unit: String::new(),
        };
        filled!(Column { metric })
    };
    let mut catalog = filled!(Catalog {
        machine: Arc::new(filled!(MachineInfo {
            boot_id: made.boot_id.to_owned(),
            hardware_ticks: true
        })),
        segment: made
            .segment
            .map(|(run, number)| filled!(SegmentInfo { run, number })),
        sites: Arc::new(made.sites.iter().map(site).collect()),
        threads: Arc::new(vec![Some(Arc::new(ThreadInfo::default()))]),
        columns: Arc::new(made.columns.iter().map(column).collect()),
        frame_sets: Arc::new(vec![String::new()])
    });
    for &(ticks, site) in made.counted {
        let change = filled!(ScopeModeChange {
            ticks,
            site: SiteId(site),
            mode: ScopeMode::Count
        });
        Arc::make_mut(&mut catalog.scope_modes).insert(change);
    }
    Arc::make_mut(&mut catalog.timeline).push(filled!(ClockSync {
        ticks: made.start_ticks,
        unix_ns: made.start_ns,
        rate: made.ns_per_tick << RATE_BITS
    }));
    catalog
}

fn write(folder: &Path, name: &str, made: &Made<'_>) -> PathBuf {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(Header {
        file_id: name.len() as u64,
        pid: 1,
        flags: Header::KEEPS_SPANS,
        start_unix_ns: made.start_ns,
        start_ticks: made.start_ticks,
    });
    encoder.header(&mut bytes);
    let catalog = Arc::new(catalog(made));
    encoder.encode(RecordRef::Clock(&catalog.timeline.syncs()[0]), &mut bytes);
    if made.is_declared {
        let mut declared = Declared::default();
        declared.begin(&catalog, &mut encoder, &mut bytes);
        if let Some(segment) = &catalog.segment {
            encoder.encode(RecordRef::Segment(*segment), &mut bytes);
        }
        declared.put(&catalog, &mut encoder, &mut bytes);
        declared.put_modes(&catalog, true, &mut encoder, &mut bytes);
    }
    for (at, index) in made.frames.clone().enumerate() {
        let start_ticks = made.start_ticks + at as u64 * 1000;
        let thread = filled!(ThreadBatch {
            start_ticks: vec![start_ticks + 100],
            duration_ticks: vec![200],
            sites: vec![SiteId(1)],
            messages: vec![filled!(Message {
                ticks: start_ticks + 150,
                text: "m".into()
            })],
            async_spans: vec![filled!(AsyncSpan {
                id: 7,
                site: SiteId(2),
                start_ticks: start_ticks + 10,
                duration_ticks: 5
            })],
            task_events: vec![filled!(TaskEvent {
                task: 7,
                site: SiteId(2),
                start_ticks: start_ticks + 12
            })],
            flows: vec![filled!(FlowPoint {
                ticks: start_ticks + 20,
                flow: 9
            })]
        });
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: vec![thread]
        });
        encoder.encode(RecordRef::Batch(&batch), &mut bytes);
        let stack = filled!(HeapStack {
            scopes: vec![filled!(HeapScope { site: SiteId(1) })],
            inuse_bytes: 10
        });
        let heap = filled!(HeapSnapshot {
            mode: HeapMode::Exact,
            ticks: start_ticks + 30,
            stacks: vec![stack]
        });
        encoder.encode(RecordRef::Heap(&heap), &mut bytes);
        let wakes_itself = SchedulerEventKind::Waking {
            waker: 0,
            woken: 0,
            priority: 120,
            target_cpu: 0,
        };
        let scheduler = filled!(SchedulerBatch {
            tasks: vec![SchedulerTask::default()],
            events: vec![SchedulerEvent::new(start_ticks + 40, 0, wakes_itself)]
        });
        encoder.encode(RecordRef::Scheduler(&scheduler), &mut bytes);
        let value = |column| {
            let value = f64::from(column) + index as f64;
            filled!(MetricValue { column, value })
        };
        let frame = filled!(FrameSnapshot {
            index,
            start_ticks,
            end_ticks: start_ticks + 1000,
            span_count: 1,
            metrics: vec![value(0), value(1)]
        });
        encoder.encode(RecordRef::Frame(&frame), &mut bytes);
    }
    encoder.close(&catalog, &mut bytes);
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A frame: number, start in nanoseconds, site of its span and of its task, tick from the start to
/// span, message, task, event and flow, ids of task and flow, thread, metrics.
type Row = (
    u64,
    i64,
    String,
    String,
    [u64; 5],
    [u64; 3],
    u32,
    Vec<(String, f64)>,
);

/// Returns the frames of the pieces, and asserts that each frame by number is the same.
fn rows(segments: &mut SegmentedCapture) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut batches = Vec::new();
    let mut heap = HeapSnapshot::default();
    let mut scheduler = SchedulerBatch::default();
    let mut pieces = segments.pieces().unwrap();
    while let Some(piece) = pieces.next_piece().unwrap() {
        match piece {
            Piece::Batch(batch) => batches.push(batch),
            Piece::Heap { snapshot, .. } => heap = snapshot,
            Piece::Scheduler { batch, .. } => scheduler = batch,
            Piece::Frame(recovered) => {
                let frame = &recovered.frame;
                let catalog = &frame.catalog;
                let since = |ticks: u64| ticks - frame.start_ticks;
                assert_eq!(since(heap.ticks), 30);
                assert_eq!(since(scheduler.events[0].ticks), 40);
                let metric = |value: &MetricValue| {
                    let column = &catalog.columns[value.column as usize];
                    (column.metric.name.clone(), value.value)
                };
                assert!(frame.metrics.is_sorted_by_key(|value| value.column));
                // The events come in a batch of their own, before the spans.
                let thread = |i: usize| &batches[batches.len() - 2 + i].threads[0];
                let (events, spans) = (thread(0), thread(1));
                rows.push((
                    frame.index,
                    catalog.unix_ns(frame.start_ticks),
                    catalog.site_name(spans.sites[0]).to_owned(),
                    catalog.site_name(spans.async_spans[0].site).to_owned(),
                    [
                        since(spans.start_ticks[0]),
                        since(spans.messages[0].ticks),
                        since(spans.async_spans[0].start_ticks),
                        since(events.task_events[0].start_ticks),
                        since(events.flows[0].ticks),
                    ],
                    [
                        spans.async_spans[0].id,
                        events.task_events[0].task,
                        events.flows[0].flow,
                    ],
                    spans.thread.0,
                    frame.metrics.iter().map(metric).collect(),
                ));
                assert_eq!(
                    catalog.site_name(events.task_events[0].site),
                    rows[rows.len() - 1].3
                );
                assert_eq!(spans.thread, events.thread);
                let allocated_in = &heap.stacks[0].scopes[0].info.name;
                assert_eq!(*allocated_in, rows[rows.len() - 1].2);
            }
            _ => {}
        }
    }
    assert!(pieces.damage().is_none(), "{:?}", pieces.damage());
    assert_eq!(segments.frame_count(), rows.len() as u64);
    for (i, row) in (0..).zip(&rows) {
        let frame = segments.frame(i).unwrap();
        let catalog = &frame.catalog;
        let tree = &frame.threads[0];
        assert_eq!(
            (frame.index, catalog.unix_ns(frame.start_ticks)),
            (row.0, row.1)
        );
        assert_eq!(catalog.site_name(tree.spans[0].site), row.2);
        assert_eq!(tree.spans[0].start_ticks - frame.start_ticks, row.4[0]);
        assert_eq!(tree.thread, ThreadId(row.6));
        assert_eq!(tree.async_spans[0].id, row.5[0]);
        assert_eq!(tree.messages[0].ticks - frame.start_ticks, row.4[1]);
    }
    let summaries = segments.summaries().unwrap();
    assert_eq!(summaries.len(), rows.len());
    for (i, ((place, summary), row)) in (0..).zip(summaries.into_iter().zip(&rows)) {
        let unix_ns = segments.catalog().unix_ns(summary.start_ticks);
        assert_eq!((place, summary.index, unix_ns), (i, row.0, row.1));
        assert_eq!(summary.span_count, 1);
        let (recovered, threads) = segments.recovered_batches(place).unwrap();
        let frame = &recovered.frame;
        let ticks = [frame.start_ticks, frame.end_ticks];
        assert_eq!(ticks, [summary.start_ticks, summary.end_ticks]);
        let with_spans: Vec<_> = (threads.iter())
            .filter(|batch| !batch.sites.is_empty())
            .collect();
        let [batch] = with_spans[..] else {
            panic!("{with_spans:?}")
        };
        assert_eq!(segments.catalog().site_name(batch.sites[0]), row.2);
        assert_eq!(batch.start_ticks[0] - frame.start_ticks, row.4[0]);
        assert_eq!(batch.thread, ThreadId(row.6));
    }
    rows
}

/// Asserts that one file with everything has the same rows.
fn assert_same_as_one(segments: &mut SegmentedCapture, rows: &[Row]) {
    let mut bytes = Vec::new();
    segments.write_as_one(&mut bytes, |_, _| {}).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let mut one = SegmentedCapture::open(file.path()).unwrap();
    assert_eq!(self::rows(&mut one), rows);
    let (mut all, one) = (segments.info(), one.info());
    all.file_bytes = one.file_bytes;
    assert_eq!(one, all);
}

/// Everything that the pieces of a capture have.
#[derive(Debug, Default, PartialEq)]
struct Contents {
    catalog: Catalog,
    columns: Columns,
    frames: Vec<FrameSnapshot>,
    /// With the thread of each.
    events: Vec<(ThreadId, TaskEvent)>,
    flows: Vec<(ThreadId, FlowPoint)>,
    dropped_spans: u64,
    scheduler: Vec<SchedulerBatch>,
    heaps: Vec<HeapSnapshot>,
}

fn contents(path: &Path) -> Contents {
    let mut segments = SegmentedCapture::open(path).unwrap();
    // Where a file is in its run, and why it was written, is not what it has.
    let mut all = Contents {
        catalog: filled!(Catalog {
            segment: None,
            dump: None,
            ..(**segments.catalog()).clone()
        }),
        ..Contents::default()
    };
    let mut columns = ColumnsBuilder::default();
    let mut pieces = segments.pieces().unwrap();
    while let Some(piece) = pieces.next_piece().unwrap() {
        match piece {
            Piece::Batch(batch) => {
                for thread in &batch.threads {
                    let of = thread.thread;
                    all.events
                        .extend(thread.task_events.iter().map(|event| (of, *event)));
                    all.flows
                        .extend(thread.flows.iter().map(|flow| (of, *flow)));
                    all.dropped_spans += thread.dropped_spans;
                }
                columns.add_batch(batch);
            }
            Piece::Frame(recovered) => {
                if recovered.frame.frame_set == 0 {
                    columns.end_frame(recovered.frame.index);
                }
                all.frames.push(filled!(FrameSnapshot {
                    catalog: Arc::default(),
                    ..(*recovered.frame).clone()
                }));
            }
            Piece::Scheduler { batch, .. } => all.scheduler.push(batch),
            Piece::Heap { snapshot, .. } => all.heaps.push(snapshot),
            _ => {}
        }
    }
    all.columns = columns.finish();
    all
}

#[test]
fn one_file_has_everything_that_a_capture_has() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from.vor", "to.vor"].map(|name| folder.path().join(name));
    let captures = (1..4).flat_map(|seed| {
        let unmarked = vor_fixtures::captures::make_without_marks(seed, 5, 300, true);
        [
            vor_fixtures::captures::every_kind(seed, true),
            unmarked.bytes,
        ]
    });
    let mut has_events = false;
    for capture in captures {
        std::fs::write(&from, capture).unwrap();
        let mut segments = SegmentedCapture::open(&from).unwrap();
        let mut bytes = Vec::new();
        segments.write_as_one(&mut bytes, |_, _| {}).unwrap();
        std::fs::write(&to, bytes).unwrap();
        let expected = contents(&from);
        assert!(expected.columns.sites.len() > 300);
        has_events |= !expected.events.is_empty();
        assert_eq!(contents(&to), expected);
    }
    assert!(has_events);
}

const OFFSETS: [u64; 5] = [100, 150, 10, 12, 20];

#[test]
fn segments_of_a_run_are_in_the_order_of_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let segment = |number: u64, name: &str| {
        let made = Made {
            segment: Some((42, number)),
            // The clock of a run begins once.
            frames: 3 * number..3 * number + 3,
            ..FIRST
        };
        write(folder.path(), name, &made)
    };
    // Names say nothing.
    let paths = [
        segment(5, "z.vor"),
        segment(6, "b.vor"),
        segment(7, "y.vor"),
    ];
    std::fs::write(folder.path().join("notes.txt"), "no capture").unwrap();
    let mut segments = SegmentedCapture::open(folder.path()).unwrap();
    assert!(segments.paths().eq(paths.iter().map(|path| &**path)));
    assert_eq!(segments.problems(), [""; 0]);
    assert_eq!(segments.info().frames, 9);
    assert_eq!(segments.info().spans, 9);
    let all = rows(&mut segments);
    assert_same_as_one(&mut segments, &all);
    let indices = all.into_iter().map(|row| (row.0, row.6));
    assert!(indices.eq((15..24).map(|index| (index, 0))));
    // A copy, a gap and something else are reported, in a line each.
    std::fs::copy(&paths[0], folder.path().join("zz.vor")).unwrap();
    std::fs::remove_file(&paths[1]).unwrap();
    std::fs::write(folder.path().join("else.vor"), "no capture").unwrap();
    let mut segments = SegmentedCapture::open(folder.path()).unwrap();
    let problems = segments.problems().to_vec();
    assert_eq!(problems.len(), 3, "{problems:?}");
    for (found, expected) in problems.iter().zip([
        "not a vor capture",
        "it is a copy of",
        "1 segment is missing between",
    ]) {
        assert!(found.contains(expected), "{found}");
    }
    assert_eq!(rows(&mut segments).len(), 6);
}

#[test]
fn another_run_is_mapped_to_the_ids_and_the_time_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "1.vor", &FIRST);
    // After a reboot: other ticks, which are two nanoseconds long, and other ids.
    let second = Made {
        boot_id: "another boot",
        sites: &["c", "a"],
        columns: &["y", "z"],
        start_ticks: 77,
        start_ns: 9_000_000,
        ns_per_tick: 2,
        frames: 10..12,
        ..FIRST
    };
    write(folder.path(), "0.vor", &second);
    let mut segments = SegmentedCapture::open(folder.path()).unwrap();
    assert_eq!(segments.problems(), [""; 0]);
    let rows = rows(&mut segments);
    let metrics = |names: [&str; 2], values: [f64; 2]| {
        let pairs = names.into_iter().zip(values);
        pairs
            .map(|(name, value)| (name.to_owned(), value))
            .collect::<Vec<_>>()
    };
    let first = (0..3_i64).map(|i| {
        let metrics = metrics(["x", "y"], [i as f64, i as f64 + 1.0]);
        let (a, b) = ("a".to_owned(), "b".to_owned());
        (
            i as u64,
            1_000_000 + 1000 * i,
            a,
            b,
            OFFSETS,
            [7, 7, 9],
            0,
            metrics,
        )
    });
    let other = 1 << 48;
    let second = (0..2_i64).map(|i| {
        let metrics = metrics(["y", "z"], [10.0 + i as f64, 11.0 + i as f64]);
        let (c, a) = ("c".to_owned(), "a".to_owned());
        // The frames are numbered on, and last twice as long.
        let index = 3 + i as u64;
        let ids = [7 + other, 7 + other, 9 + other];
        (index, 9_000_000 + 2000 * i, c, a, OFFSETS, ids, 1, metrics)
    });
    assert_eq!(rows, first.chain(second).collect::<Vec<_>>());
    assert_same_as_one(&mut segments, &rows);
    assert_eq!(segments.catalog().sites.len(), 3);
    assert_eq!(segments.catalog().threads.len(), 2);
    let info = segments.info();
    assert_eq!((info.frames, info.spans, info.threads), (5, 5, 2));
    assert_eq!(info.duration_ns, 9_000_000 + 2 * 2000 - 1_000_000);
}

#[test]
fn runs_of_one_boot_may_overlap_and_others_may_not() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "1.vor", &FIRST);
    let second = Made {
        start_ticks: 5_500,
        start_ns: 1_000_500,
        ..FIRST
    };
    write(folder.path(), "2.vor", &second);
    let mut segments = SegmentedCapture::open(folder.path()).unwrap();
    let all = rows(&mut segments);
    assert_same_as_one(&mut segments, &all);
    let starts: Vec<i64> = all.iter().map(|row| row.1 - 1_000_000).collect();
    assert_eq!(starts, [0, 1000, 2000, 500, 1500, 2500]);
    let earlier = Made {
        boot_id: "another boot",
        start_ns: 900_000,
        ..FIRST
    };
    write(folder.path(), "3.vor", &earlier);
    let segments = SegmentedCapture::open(folder.path()).unwrap();
    assert_eq!(
        segments.problems(),
        [""; 0],
        "it ended before the others began"
    );
    let during = Made {
        boot_id: "another boot",
        start_ns: 1_000_100,
        ..FIRST
    };
    let later = Made {
        segment: None,
        start_ns: 2_000_000,
        start_ticks: 1_005_000,
        ..FIRST
    };
    std::fs::remove_file(folder.path().join("1.vor")).unwrap();
    std::fs::remove_file(folder.path().join("2.vor")).unwrap();
    write(
        folder.path(),
        "4.vor",
        &Made {
            boot_id: "another boot",
            start_ns: 899_999,
            ..FIRST
        },
    );
    write(folder.path(), "5.vor", &during);
    write(folder.path(), "6.vor", &later);
    let mut segments = SegmentedCapture::open(folder.path()).unwrap();
    // The ticks of one boot that are not in the order of its wall clock are those of one counter.
    assert_eq!(segments.frame_count(), rows(&mut segments).len() as u64);
}

#[test]
fn damage_in_a_segment_is_found_and_names_it() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "1.vor", &FIRST);
    let second = Made {
        start_ns: 9_000_000,
        start_ticks: 9_000_000,
        ..FIRST
    };
    let damaged = write(folder.path(), "2.vor", &second);
    let mut segments = SegmentedCapture::open(folder.path()).unwrap();
    assert!(segments.verify().unwrap().is_none());
    let mut bytes = std::fs::read(&damaged).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let damage = segments.verify().unwrap();
    assert!(damage.count > 0);
    let is_named = |loss: &Loss| loss.reason.contains("2.vor");
    assert!(damage.losses.iter().all(is_named), "{damage:?}");
    // A file that is gone costs itself. Windows keeps one that is open.
    drop(segments);
    std::fs::remove_file(&damaged).unwrap();
    let mut segments = SegmentedCapture::of_files([folder.path().join("1.vor"), damaged]).unwrap();
    assert!(segments.verify().unwrap().is_none());
    assert_eq!(segments.problems().len(), 1);
}

#[test]
fn changes_of_modes_are_those_of_all_files() {
    let folder = tempfile::tempdir().unwrap();
    let segment = |number| Made {
        segment: Some((42, number)),
        frames: 3 * number..3 * number + 3,
        ..FIRST
    };
    let early = Made {
        counted: &[(5_000, 2)],
        ..segment(0)
    };
    // The second segment has what holds at its beginning, too.
    let late = Made {
        counted: &[(5_000, 2), (6_000, 1)],
        ..segment(1)
    };
    let other_run = Made {
        sites: &["c", "b"],
        start_ticks: 9_000,
        start_ns: 1_004_000,
        counted: &[(9_500, 1)],
        ..FIRST
    };
    for (name, made) in [("0.vor", early), ("1.vor", late), ("2.vor", other_run)] {
        write(folder.path(), name, &made);
    }
    let segments = SegmentedCapture::open(folder.path()).unwrap();
    assert_eq!(segments.problems(), [""; 0]);
    let catalog = segments.catalog();
    let changes = catalog.scope_modes.after(None);
    let changes: Vec<_> = changes
        .map(|change| (change.ticks, catalog.site_name(change.site), change.mode))
        .collect();
    // The rules of a process end with it.
    let (count, record) = (ScopeMode::Count, ScopeMode::Record);
    let expected = [
        (5_000, "b", count),
        (6_000, "a", count),
        (9_000, "a", record),
        (9_000, "b", record),
        (9_500, "c", count),
    ];
    assert_eq!(changes, expected);
}

#[test]
fn patterns_choose_files() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["run-1.vor", "run-22.vor", "other-1.vor", "run-1.cap"] {
        write(folder.path(), name, &FIRST);
    }
    let names = |pattern: &str| {
        let paths = SegmentedCapture::list(&folder.path().join(pattern))
            .unwrap()
            .unwrap();
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        paths.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(""), "other-1.vor run-1.vor run-22.vor");
    assert_eq!(names("run-*"), "run-1.cap run-1.vor run-22.vor");
    assert_eq!(names("*-1.*"), "other-1.vor run-1.cap run-1.vor");
    assert_eq!(names("run-??.vor"), "run-22.vor");
    assert_eq!(names("*2*2*"), "run-22.vor");
    assert!(SegmentedCapture::list(&folder.path().join("*-3*")).is_err());
    assert_eq!(
        SegmentedCapture::list(&folder.path().join("run-1.vor")).unwrap(),
        None
    );
    let chosen = ["run-1.vor", "run-1.cap"].map(|name| folder.path().join(name));
    assert_eq!(SegmentedCapture::of_files(chosen).unwrap().frame_count(), 6);
    assert!(SegmentedCapture::of_files([]).is_err());
}

/// Writes an earlier run, and then the segments of a run byte by byte, in steps of `step` bytes.
/// Returns the one file of a follower, and what all segments have at the end.
fn follow(step: usize, has_earlier_run: bool) -> (Contents, Contents) {
    let (made, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if has_earlier_run {
        write(folder.path(), "0.vor", &FIRST);
    }
    let of_run = Made {
        boot_id: "another boot",
        start_ns: 9_000_000,
        is_declared: true,
        ..FIRST
    };
    // Each segment declares more, as a program does that goes on.
    let segments = [
        (&["c", "a"][..], &["y", "z"][..], 0..3),
        (&["c", "a", "d"], &["y", "z"], 3..4),
        (&["c", "a", "d", "b", "e"], &["y", "z", "v"], 4..9),
    ];
    let mut all = Vec::new();
    for (number, (sites, columns, frames)) in (0..).zip(segments) {
        let segment = Made {
            segment: Some((42, number)),
            sites,
            columns,
            start_ticks: 77 + 1000 * frames.start,
            start_ns: 9_000_000 + 1000 * frames.start as i64,
            frames,
            counted: &[(90, 2)],
            ..of_run
        };
        all.push(write(made.path(), &format!("{}.vor", number + 1), &segment));
    }
    let one = tempfile::NamedTempFile::new().unwrap();
    let mut out = one.reopen().unwrap();
    let mut follower: Option<SegmentFollower> = None;
    for path in &all {
        let bytes = std::fs::read(path).unwrap();
        let growing = folder.path().join(path.file_name().unwrap());
        let mut file = std::fs::File::create(&growing).unwrap();
        let mut is_new = true;
        for part in bytes.chunks(step) {
            std::io::Write::write_all(&mut file, part).unwrap();
            // The header must be there.
            if file.metadata().unwrap().len() < 300 {
                continue;
            }
            let follower = follower.get_or_insert_with(|| {
                is_new = false;
                let segments = SegmentedCapture::open(folder.path()).unwrap();
                segments.follow_as_one(&mut out, |_, _| {}).unwrap()
            });
            if std::mem::take(&mut is_new) {
                assert!(follower.is_closed(), "the one before is complete");
                assert_eq!(follower.go_on(&growing).unwrap(), Some(true));
            }
            assert_eq!(follower.newest(), growing);
            follower.write_more(&mut out).unwrap();
            let is_whole = file.metadata().unwrap().len() == bytes.len() as u64;
            assert_eq!(follower.is_closed(), is_whole);
        }
    }
    let mut follower = follower.unwrap();
    for (run, goes_on) in [(Some((43, 0)), Some(false)), (None, None)] {
        let other = Made {
            segment: run,
            ..of_run.clone()
        };
        let other = write(made.path(), "9.vor", &other);
        assert_eq!(
            follower.go_on(&other).unwrap(),
            goes_on,
            "it is another run"
        );
    }
    assert!(!follower.write_more(&mut out).unwrap());
    let damage = follower.close(&mut out).unwrap();
    assert!(damage.is_none(), "{damage:?}");
    assert!(SegmentedCapture::open(one.path()).unwrap().info().closed);
    (contents(one.path()), contents(folder.path()))
}

#[test]
fn a_segment_that_has_only_its_header_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let first = write(folder.path(), "1.vor", &FIRST);
    let header = std::fs::read(&first).unwrap();
    let header = &header[..vor_capture::format::HEADER_BYTES];
    let second = folder.path().join("2.vor");
    std::fs::write(&second, header).unwrap();
    let mut segments = SegmentedCapture::open(folder.path()).unwrap();
    assert!(segments.paths().eq([&*first]));
    assert_eq!(segments.problems(), [""; 0]);
    // It grows before the pieces are read.
    let later = Made {
        frames: 3..5,
        start_ticks: 9_000,
        is_declared: true,
        ..FIRST
    };
    write(folder.path(), "2.vor", &later);
    assert_eq!(rows(&mut segments).len(), 3);
    std::fs::write(&first, header).unwrap();
    std::fs::write(&second, header).unwrap();
    let none = SegmentedCapture::open(folder.path()).unwrap();
    assert_eq!((none.paths().len(), none.info().frames), (2, 0));
}

#[test]
fn a_follower_writes_what_the_segments_have_at_the_end() {
    for step in [31, 120, 1000, 1 << 20] {
        for has_earlier_run in [false, true] {
            let (one, all) = follow(step, has_earlier_run);
            assert_eq!(one, all, "{step} {has_earlier_run}");
            assert_eq!(one.frames.len(), if has_earlier_run { 12 } else { 9 });
        }
    }
}
