//! The frame that a span belongs to, and marks that come faster than the worker.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vor_capture::model::batch::{ArgValue, SpanBatch, ThreadBatch};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::metrics::{
    Counter, Histogram, drain_io, record_io, record_metric, record_metric_unit,
};
use vor_recorder::setup::Config;
use vor_recorder::{drain, profile_scope, setup};

/// A frame, and the ends of the spans that were delivered before it, by thread.
type RecordedFrame = (Arc<FrameSnapshot>, Vec<(u32, u64)>);

#[derive(Default)]
struct RecordingSink {
    ends: Vec<(u32, u64)>,
    seen: Arc<Mutex<Vec<RecordedFrame>>>,
    /// The sink's first frame waits until the other end is dropped.
    release: Option<Receiver<()>>,
}

impl FrameSink for RecordingSink {
    fn interest(&self) -> Interest {
        Interest::ALL
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), vor_capture::Error> {
        for thread in &batch.threads {
            self.ends
                .extend((0..thread.len()).map(|i| (thread.thread.0, thread.end_ticks(i))));
        }
        Ok(())
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        if let Some(release) = self.release.take() {
            let _ = release.recv();
        }
        let ends = if frame.frame_set == 0 {
            std::mem::take(&mut self.ends)
        } else {
            Vec::new()
        };
        self.seen.lock().unwrap().push((Arc::clone(frame), ends));
        Ok(())
    }
}

/// Runs `work` between two flushes, and returns the frames that ended in it. With `blocks_first`,
/// the sink blocks the worker until `work` is done.
fn frames_of(blocks_first: bool, work: impl FnOnce()) -> Vec<RecordedFrame> {
    let (done, release) = channel();
    let seen = Arc::new(Mutex::new(Vec::new()));
    Config::new().enable();
    drain::frame_mark();
    // Values left from an earlier test belong to the frame that ended there.
    let _ = drain_io();
    let handle = drain::add_sink(
        "keeps",
        RecordingSink {
            seen: Arc::clone(&seen),
            release: blocks_first.then_some(release),
            ..RecordingSink::default()
        },
    );
    work();
    drop(done);
    drain::flush();
    drop(handle);
    std::mem::take(&mut *seen.lock().unwrap())
}

#[test]
fn a_span_belongs_to_the_frame_in_which_it_ended() {
    own_process!();
    static STOP: AtomicBool = AtomicBool::new(false);
    static MADE: AtomicU64 = AtomicU64::new(0);
    const FRAMES: usize = 300;
    let frames = frames_of(false, || {
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    let mut made = 0;
                    while !STOP.load(Ordering::Relaxed) {
                        profile_scope!("outer");
                        for _ in 0..20 {
                            profile_scope!("inner");
                            made += 1;
                            std::hint::spin_loop();
                        }
                        made += 1;
                    }
                    MADE.fetch_add(made, Ordering::Relaxed);
                });
            }
            for _ in 0..FRAMES {
                std::thread::sleep(Duration::from_micros(500));
                drain::frame_mark();
            }
            STOP.store(true, Ordering::Relaxed);
        });
        drain::frame_mark();
    });
    let frames: Vec<_> = frames
        .into_iter()
        .filter(|(frame, _)| frame.frame_set == 0)
        .collect();
    assert_eq!(frames.len(), FRAMES + 1);
    let mut count = 0;
    for pair in frames.windows(2) {
        assert_eq!(pair[0].0.end_ticks, pair[1].0.start_ticks, "frames touch");
        assert_eq!(pair[0].0.index + 1, pair[1].0.index);
    }
    for (frame, ends) in &frames {
        assert_eq!(frame.span_count, ends.len() as u64);
        assert_eq!(
            frame
                .threads
                .iter()
                .map(|tree| tree.spans.len())
                .sum::<usize>(),
            ends.len()
        );
        count += frame.span_count + frame.dropped_spans;
        assert!(
            ends.iter().all(|(_, end)| *end <= frame.end_ticks),
            "no span that ended after the mark"
        );
        // A thread that loses its core between the clock and the ring delivers that one span late.
        // Only waiting for the thread could avoid that.
        let mut late: Vec<_> = ends
            .iter()
            .filter(|(_, end)| *end <= frame.start_ticks)
            .map(|(thread, _)| thread)
            .collect();
        let all = late.len();
        late.dedup();
        assert_eq!(late.len(), all, "a thread was late with more than one span");
    }
    assert_eq!(count, MADE.load(Ordering::Relaxed));
}

#[test]
fn a_storm_of_marks_merges_them_and_loses_nothing() {
    own_process!();
    static STORM: Counter = Counter::new("storm", "");
    static SIZES: Histogram = Histogram::new("sizes", "B");
    const MARKS: u64 = 10_000;
    let mut marks = Vec::new();
    let frames = frames_of(true, || {
        for i in 0..MARKS {
            {
                profile_scope!("between marks");
            }
            STORM.add(2);
            SIZES.record(i + 1);
            record_io(3, 5);
            record_metric("last", i as f64);
            drain::frame_mark();
            if i % 7 == 0 {
                drain::frame_mark_named("physics");
                marks.push(i);
            }
        }
    });
    let sum = |set: u32, of: &dyn Fn(&FrameSnapshot) -> u64| -> u64 {
        frames
            .iter()
            .filter(|(frame, _)| frame.frame_set == set)
            .map(|(frame, _)| of(frame))
            .sum()
    };
    let metric =
        |name: &'static str| move |frame: &FrameSnapshot| frame.metric(name).unwrap_or(0.0) as u64;
    let main = frames
        .iter()
        .filter(|(frame, _)| frame.frame_set == 0)
        .count() as u64;
    assert!(
        main < MARKS,
        "the sink blocks the worker, so marks are merged"
    );
    assert_eq!(sum(0, &|frame| 1 + frame.merged_marks), MARKS);
    let physics = frames
        .iter()
        .find(|(frame, _)| frame.frame_set != 0)
        .unwrap()
        .0
        .clone();
    assert_eq!(
        physics.catalog.frame_sets[physics.frame_set as usize],
        "physics"
    );
    assert_eq!(
        sum(physics.frame_set, &|frame| 1 + frame.merged_marks),
        marks.len() as u64
    );
    assert_eq!(sum(0, &|frame| frame.span_count), MARKS);
    assert_eq!(
        sum(0, &metric("storm")),
        2 * MARKS,
        "sums of merged marks are added"
    );
    let io_mb: f64 = frames
        .iter()
        .filter_map(|(frame, _)| frame.metric("io_MB"))
        .sum();
    assert!((io_mb * 1e6 - 5.0 * MARKS as f64).abs() < 1.0, "{io_mb}");
    let max = frames
        .iter()
        .filter_map(|(frame, _)| frame.metric("sizes.max"))
        .fold(0.0, f64::max);
    assert!((max - MARKS as f64).abs() <= MARKS as f64 / 500.0, "{max}");
    // A merged frame has the distribution of all its marks: in long stretches of growing values,
    // the medians are in the middle.
    let (widest, _) = frames
        .iter()
        .max_by_key(|(frame, _)| frame.merged_marks)
        .unwrap();
    let [p50, top] = ["sizes.p50", "sizes.max"].map(|name| widest.metric(name).unwrap());
    let width = widest.merged_marks as f64 + 1.0;
    assert!(
        top - p50 > width * 0.4,
        "p50 {p50} and maximum {top} of {width} values"
    );
    let last: Vec<_> = frames
        .iter()
        .filter_map(|(frame, _)| frame.metric("last"))
        .collect();
    assert!(
        last.is_sorted() && last.last() == Some(&((MARKS - 1) as f64)),
        "merged marks keep the last value"
    );
    for set in [0, physics.frame_set] {
        let ticks: Vec<_> = frames
            .iter()
            .filter(|(frame, _)| frame.frame_set == set)
            .map(|(frame, _)| frame.end_ticks)
            .collect();
        assert!(ticks.is_sorted());
    }
}

#[test]
fn a_later_sink_gets_no_spans_of_earlier_frames() {
    own_process!();
    Config::new().enable();
    let first = Arc::new(Mutex::new(Vec::new()));
    drain::frame_mark();
    let handle = drain::add_sink(
        "first",
        RecordingSink {
            seen: Arc::clone(&first),
            ..RecordingSink::default()
        },
    );
    {
        profile_scope!("for the first sink");
    }
    drain::flush();
    // The sink is removed in the middle of a frame that has spans.
    drop(handle);
    let frames = frames_of(false, || {
        {
            profile_scope!("for the second sink");
        }
        drain::frame_mark();
    });
    let spans: usize = frames
        .iter()
        .flat_map(|(frame, _)| &frame.threads)
        .map(|tree| tree.spans.len())
        .sum();
    assert_eq!(spans, 1);
}

#[test]
fn switching_off_and_on_keeps_only_open_scopes() {
    own_process!();
    let mut phases = None;
    let frames = frames_of(false, || {
        for _ in 0..100 {
            let open = vor_recorder::hot::scope::scope("open while switched off");
            phases = Some(vor_recorder::profile_phase!("phase before"));
            setup::disable();
            {
                profile_scope!("never");
                record_metric("never", 1.0);
            }
            if let Some(phases) = &mut phases {
                vor_recorder::profile_phase!(*phases, "phase while off");
            }
            phases = None;
            drain::frame_mark();
            drop(open);
            assert!(!setup::is_enabled());
            setup::enable();
        }
        drain::frame_mark();
    });
    assert_eq!(frames.len(), 1);
    let (frame, ends) = &frames[0];
    assert_eq!(
        ends.len(),
        200,
        "only the open scope and the open phase, each time"
    );
    let names = frame
        .threads
        .iter()
        .flat_map(|tree| &tree.spans)
        .map(|span| frame.catalog.site_name(span.site));
    assert_eq!(names.filter(|name| *name == "phase before").count(), 100);
    assert_eq!(frame.metric("never"), None);
}

#[test]
fn the_first_value_sets_the_unit() {
    own_process!();
    let frames = frames_of(false, || {
        record_metric_unit("speed", "m/s");
        record_metric("speed", 1.0);
        record_metric("bare", 2.0);
        drain::frame_mark();
        record_metric_unit("bare", "late");
        record_metric("bare", f64::NAN);
        record_metric("bare", 4.0);
        drain::frame_mark();
        drain::frame_mark();
    });
    let column = |name: &str| {
        let columns = &frames[2].0.catalog.columns;
        columns
            .iter()
            .find(|column| column.metric.name == name)
            .unwrap()
            .clone()
    };
    assert_eq!(
        (column("speed").metric.unit.as_str(), column("speed").system),
        ("m/s", false)
    );
    assert_eq!(column("bare").metric.unit, "");
    let values = |name: &str| {
        frames
            .iter()
            .map(|(frame, _)| frame.metric(name))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        values("speed"),
        [Some(1.0), None, None],
        "a value is in the frame in which it was recorded"
    );
    assert_eq!(
        values("bare"),
        [Some(2.0), Some(4.0), None],
        "the last write of a frame wins"
    );
}

#[test]
fn handles_with_one_name_are_one_metric() {
    own_process!();
    static COUNTERS: [Counter; 3] = [const { Counter::new("shared sum", "B") }; 3];
    static HISTOGRAMS: [Histogram; 2] = [const { Histogram::new("shared sizes", "B") }; 2];
    let frames = frames_of(false, || {
        for frame in 1..=3 {
            for counter in &COUNTERS {
                counter.add(frame);
            }
            for value in 1..=100 {
                HISTOGRAMS[value as usize % 2].record(value * frame);
            }
            drain::frame_mark();
        }
    });
    for (frame, n) in frames.iter().map(|(frame, _)| frame).zip(1_u32..) {
        let metric = |name: &str| frame.metric(name);
        assert_eq!(metric("shared sum"), Some(f64::from(3 * n)));
        let [p50, max] = ["shared sizes.p50", "shared sizes.max"].map(|name| metric(name).unwrap());
        assert_eq!((p50, max), (f64::from(50 * n), f64::from(100 * n)));
    }
    let names = frames[2]
        .0
        .catalog
        .columns
        .iter()
        .map(|column| &column.metric.name);
    assert_eq!(names.filter(|name| name.starts_with("shared")).count(), 4);
}

/// Values below 2048 have all their digits.
#[test]
fn a_histogram_has_rows_of_its_median_its_99th_percentile_and_its_maximum() {
    own_process!();
    static SIZES: Histogram = Histogram::new("spread", "B");
    let frames = frames_of(false, || {
        for n in [1, 2] {
            (1..=1000).rev().for_each(|value| SIZES.record(n * value));
            drain::frame_mark();
        }
        drain::frame_mark();
        SIZES.record(7);
        drain::frame_mark();
    });
    let rows = |frame: &FrameSnapshot| {
        ["spread.p50", "spread.p99", "spread.max"].map(|name| frame.metric(name))
    };
    let seen: Vec<_> = frames.iter().map(|(frame, _)| rows(frame)).collect();
    assert_eq!(
        seen,
        [
            [Some(500.0), Some(990.0), Some(1000.0)],
            [Some(1000.0), Some(1980.0), Some(2000.0)],
            // A frame without values has no rows.
            [None; 3],
            [Some(7.0); 3],
        ]
    );
    let catalog = &frames[0].0.catalog;
    let columns = catalog.columns.iter().map(|column| &column.metric);
    let units = columns.filter(|metric| metric.name.starts_with("spread."));
    assert!(units.map(|metric| &*metric.unit).eq(["B"; 3]));
}

/// The numbers of the spans of a batch, by thread, in order.
type Numbers = Vec<(u32, Vec<u64>)>;

#[derive(Clone, Default)]
struct NumbersSink {
    batches: Arc<Mutex<Vec<Numbers>>>,
    frames: Arc<Mutex<Vec<Arc<FrameSnapshot>>>>,
}

fn number(args: &[ArgValue]) -> u64 {
    match args {
        [ArgValue::U64(number)] => *number,
        other => panic!("{other:?}"),
    }
}

impl FrameSink for NumbersSink {
    fn interest(&self) -> Interest {
        Interest::ALL
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), vor_capture::Error> {
        let numbers = |share: &ThreadBatch| {
            // Every span has its number.
            assert_eq!(share.args.len(), share.len());
            let args = share.args.iter();
            (
                share.thread.0,
                args.map(|args| number(&args.values)).collect(),
            )
        };
        let numbers = batch.threads.iter().map(numbers).collect();
        self.batches.lock().unwrap().push(numbers);
        Ok(())
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        self.frames.lock().unwrap().push(Arc::clone(frame));
        Ok(())
    }
}

/// Only marks drain here, so a thread's spans before a mark fill several batches.
#[test]
fn a_frame_of_many_batches_has_all_its_spans_in_order() {
    own_process!();
    const MANY: u64 = 40_000;
    const FEW: u64 = 10_000;
    /// Most spans of a thread in a batch.
    const MAX_SHARE: usize = 1 << 13;
    fn make(numbers: std::ops::Range<u64>) {
        for number in numbers {
            profile_scope!("numbered", number = number);
        }
    }
    let sink = NumbersSink::default();
    Config::new()
        .inline_drain(true)
        .sink("numbers", sink.clone())
        .enable();
    // Either thread may be the first to record.
    fn longest_first(mut all: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
        all.sort_by_key(|numbers| std::cmp::Reverse(numbers.len()));
        all
    }
    // The numbers that each thread makes in a frame.
    let made = |frame: u64| {
        [MANY, FEW].map(|count| (frame * count..(frame + 1) * count).collect::<Vec<_>>())
    };
    for frame in 0..2 {
        let other = std::thread::spawn(move || make(frame * FEW..(frame + 1) * FEW));
        make(frame * MANY..(frame + 1) * MANY);
        other.join().unwrap();
        drain::frame_mark();
        let batches = std::mem::take(&mut *sink.batches.lock().unwrap());
        let mut by_thread = BTreeMap::<u32, Vec<u64>>::new();
        for (thread, numbers) in batches.iter().flatten() {
            assert!(numbers.len() <= MAX_SHARE);
            by_thread.entry(*thread).or_default().extend(numbers);
        }
        let all = by_thread.into_values().collect();
        assert!(
            longest_first(all) == made(frame),
            "in order, and none twice"
        );
        assert_eq!(batches.len(), (MANY as usize).div_ceil(MAX_SHARE));
    }
    drain::flush();
    let frames = std::mem::take(&mut *sink.frames.lock().unwrap());
    assert_eq!(frames.len(), 2);
    for (frame, index) in frames.iter().zip(0..) {
        assert_eq!((frame.span_count, frame.dropped_spans), (MANY + FEW, 0));
        // Spans of the same moment, as a coarse clock measures them, lie in each other in a tree.
        let trees = frame.threads.iter().map(|tree| {
            let spans = tree.spans.iter();
            let mut numbers: Vec<u64> = spans.map(|span| number(tree.args(span))).collect();
            numbers.sort_unstable();
            numbers
        });
        assert!(longest_first(trees.collect()) == made(index));
    }
}

#[test]
fn a_sink_may_call_vor_without_a_deadlock() {
    own_process!();
    struct NestedCallsSink(Arc<AtomicU64>);
    impl FrameSink for NestedCallsSink {
        fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
            profile_scope!("inside a sink");
            drain::flush();
            drain::frame_mark();
            drop(drain::add_sink("inner", RecordingSink::default()));
            Config::new().stats(true).enable();
            let calls = (
                drain::stats().len(),
                drain::catalog().is_none(),
                drain::failed_sinks(),
            );
            assert_eq!(calls, (0, true, 0));
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }
    let calls = Arc::new(AtomicU64::new(0));
    Config::new().enable();
    let handle = drain::add_sink("asks", NestedCallsSink(Arc::clone(&calls)));
    drain::frame_mark();
    drain::flush();
    drop(handle);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}
