//! Values that the types of the model compute from their own fields.

use std::sync::Arc;

use vor_capture::model::batch::{
    ArgValue, AsyncSpan, FlowPoint, Message, SpanArgs, SpanBatch, TaskEvent, TaskEventKind,
    ThreadBatch,
};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::frame::{FrameSnapshot, Span};
use vor_capture::model::heap::{HeapMode, HeapScope, HeapSnapshot, HeapStack};
use vor_capture::model::measures::{Measured, Measures};
use vor_capture::model::scheduler::SchedulerBatch;
use vor_capture::model::timeline::{ClockSync, Timeline};
use vor_capture::sink::{FrameSink, Interest};
use vor_capture::stats::{ScopeStats, SpanMapper, SpanTimer, SpanTimes};
use vor_capture::{Error, filled};

fn batch(threads: Vec<ThreadBatch>) -> SpanBatch {
    filled!(SpanBatch { threads })
}

#[test]
fn a_batch_is_empty_without_any_content() {
    let spans = filled!(ThreadBatch {
        start_ticks: vec![1, 2],
        duration_ticks: vec![1, 2],
        sites: vec![SiteId(1); 2],
        args: vec![SpanArgs::default()],
    });
    let messages = filled!(ThreadBatch {
        messages: vec![Message::default()]
    });
    let tasks = filled!(ThreadBatch {
        async_spans: vec![AsyncSpan::default(); 3]
    });
    let events = filled!(ThreadBatch {
        task_events: vec![TaskEvent::default(); 4]
    });
    let flows = filled!(ThreadBatch {
        flows: vec![FlowPoint::default(); 5]
    });
    let drops = filled!(ThreadBatch { dropped_spans: 1 });
    // Each with: no content, no events.
    let threads = [
        (spans, false, true),
        (messages, false, true),
        (tasks, false, true),
        (events, false, false),
        (flows, false, false),
        (drops, true, true),
    ];
    for (thread, has_no_content, has_no_events) in &threads {
        assert!(!thread.is_empty(), "{thread:?}");
        assert_eq!(thread.has_no_content(), *has_no_content, "{thread:?}");
        assert_eq!(thread.has_no_events(), *has_no_events, "{thread:?}");
        assert!(!batch(vec![ThreadBatch::default(), thread.clone()]).is_empty());
        let mut cleared = thread.clone();
        cleared.clear();
        assert_eq!(cleared, ThreadBatch::default());
        assert!(cleared.is_empty());
    }
    let all = batch(threads.into_iter().map(|(thread, ..)| thread).collect());
    let counts = (all.span_count(), all.async_span_count(), all.event_count());
    assert_eq!(counts, (2, 3, 9));
    assert!(batch(vec![ThreadBatch::default()]).is_empty());
    assert_eq!(batch(vec![]).event_count(), 0);
}

#[test]
fn ends_are_starts_and_durations_up_to_the_last_tick() {
    for (start_ticks, duration_ticks, end) in [(7, 5, 12), (u64::MAX - 1, 5, u64::MAX)] {
        let span = filled!(Span {
            start_ticks,
            duration_ticks
        });
        let task = filled!(AsyncSpan {
            start_ticks,
            duration_ticks
        });
        let kind = TaskEventKind::Poll { duration_ticks };
        let poll = filled!(TaskEvent { start_ticks, kind });
        assert_eq!(
            [span.end_ticks(), task.end_ticks(), poll.end_ticks()],
            [end; 3]
        );
        assert_eq!(poll.duration_ticks(), duration_ticks);
        for kind in [TaskEventKind::Step, TaskEventKind::Begin { given_id: 3 }] {
            let event = filled!(TaskEvent { start_ticks, kind });
            assert_eq!(
                (event.duration_ticks(), event.end_ticks()),
                (0, start_ticks)
            );
        }
    }
}

#[test]
fn an_argument_is_shown_as_its_value() {
    let values = [
        ArgValue::Bool(true),
        ArgValue::I64(-5),
        ArgValue::U64(6),
        ArgValue::F64(2.5),
        ArgValue::Str("text".into()),
    ];
    assert_eq!(
        values.map(|value| value.to_string()),
        ["true", "-5", "6", "2.5", "text"]
    );
}

#[test]
fn a_sink_takes_frames_with_trees_and_refuses_nothing_by_default() {
    struct Sink;
    impl FrameSink for Sink {
        fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
            Err(Error::sink("full"))
        }
    }
    assert_eq!(Sink.interest(), Interest::FRAMES);
    assert!(Sink.reads_metrics() && Sink.takes_frames());
    assert!(!Sink.wants_open() && !Sink.writes_file());
    assert!(Sink.accept_batch(&SpanBatch::default()).is_ok());
    assert!(
        Sink.accept_heap(&HeapSnapshot::default(), &Arc::default())
            .is_ok()
    );
    assert!(
        Sink.accept_scheduler(&SchedulerBatch::default(), &Arc::default())
            .is_ok()
    );
    assert!(Sink.accept_frame(&Arc::default()).is_err());
}

#[test]
fn a_heap_adds_up_and_names_its_stacks() {
    let scope = |site| filled!(HeapScope { site: SiteId(site) });
    let stack = |sites: &[u32], bytes: u64, error: f64| {
        filled!(HeapStack {
            scopes: sites.iter().copied().map(scope).collect(),
            inuse_objects: 2 * bytes,
            inuse_bytes: bytes,
            samples: 3,
            objects_error: 2.0 * error,
            bytes_error: error,
        })
    };
    let stacks = vec![
        stack(&[2], 10, 3.0),
        stack(&[1, 2], 20, 4.0),
        stack(&[1], 20, 0.0),
    ];
    let mut heap = HeapSnapshot::new(HeapMode::Exact, 5, stacks);
    let paths = |heap: &HeapSnapshot| -> Vec<Vec<u32>> {
        let path = |stack: &HeapStack| stack.scopes.iter().map(|scope| scope.site.0).collect();
        heap.stacks.iter().map(path).collect()
    };
    assert_eq!(paths(&heap), [vec![1], vec![1, 2], vec![2]]);
    let total = filled!(HeapStack {
        samples: 9,
        ..stack(&[], 50, 5.0)
    });
    assert_eq!(heap.total(), total);
    let site = |name: &'static str| Some(Arc::new(filled!(SiteInfo { name: name.into() })));
    let catalog = filled!(Catalog {
        sites: Arc::new(vec![site("first"), site("second")])
    });
    heap.name_by(&catalog);
    let names: Vec<_> = heap.stacks.iter().map(HeapStack::name).collect();
    assert_eq!(names, ["first", "second", "second"]);
    assert_eq!(HeapStack::default().name(), "");
    // 1.96 standard errors to both sides.
    assert_eq!(stack(&[], 100, 10.0).bytes_interval(), 80..=120);
    assert_eq!(stack(&[], 100, 10.0).objects_interval(), 160..=240);
    assert_eq!(stack(&[], 5, 10.0).bytes_interval(), 0..=25);
}

#[test]
fn measures_join_and_read_all_their_values() {
    let all = Measures::CPU | Measures::CPU_SPLIT | Measures::ALLOC;
    assert_eq!(
        all,
        Measures::CPU
            .union(Measures::CPU_SPLIT)
            .union(Measures::ALLOC)
    );
    let site = filled!(SiteInfo {
        arg_names: all.arg_names().map(Into::into).collect()
    });
    assert_eq!(Measures::of(&site), all);
    let values: Vec<_> = (1..=7).map(ArgValue::U64).collect();
    let expected = filled!(Measured {
        off_cpu_ns: 1,
        cpu_user_ns: 2,
        cpu_sys_ns: 3,
        alloc_objects: 4,
        alloc_bytes: 5,
        free_objects: 6,
        free_bytes: 7,
    });
    assert_eq!(Measured::of(&site, &values), expected);
}

#[test]
fn statistics_have_cpu_time_where_it_was_measured() {
    let off_cpu = |off_cpu_ns| filled!(Measured { off_cpu_ns });
    let mut stats = filled!(ScopeStats {
        total_ns: 100,
        self_ns: 60,
        measured: off_cpu(30),
        self_measured: off_cpu(70),
    });
    assert_eq!((stats.cpu_ns(), stats.self_cpu_ns()), (None, None));
    stats.measures = Measures::ALLOC;
    assert_eq!((stats.cpu_ns(), stats.self_cpu_ns()), (None, None));
    stats.measures = Measures::ALLOC | Measures::CPU;
    assert_eq!((stats.cpu_ns(), stats.self_cpu_ns()), (Some(70), Some(0)));
}

#[test]
fn a_correction_changes_every_duration() {
    let stats = filled!(ScopeStats {
        count: 4,
        total_ns: 10_000,
        self_ns: 9_000,
        min_ns: 1_000,
        mean_ns: 2_500.0,
        p50_ns: 2_000,
        p95_ns: 3_000,
        p99_ns: 4_000,
        max_ns: 5_000,
        child_spans: 6,
        descendant_spans: 8,
        nested_spans: 1,
        nested_descendant_spans: 2,
    });
    // Half of 10 ns per span, and 10 ns per span inside: 100 ns in all, 25 in each.
    let expected = filled!(ScopeStats {
        total_ns: 10_000 - 3 * 5 - 6 * 10,
        self_ns: 9_000 - 4 * 5 - 6 * 5,
        min_ns: 975,
        mean_ns: 2_475.0,
        p50_ns: 1_975,
        p95_ns: 2_975,
        p99_ns: 3_975,
        max_ns: 4_975,
        ..stats.clone()
    });
    assert_eq!(stats.corrected(10), expected);
    assert_eq!(stats.corrected(0), stats);
}

/// Two lines that meet: a nanosecond per tick until tick 1000, then two.
fn two_lines() -> Timeline {
    let mut timeline = Timeline::default();
    for (ticks, unix_ns, rate) in [(0, 50, 1 << 40), (1_000, 1_050, 2 << 40)] {
        timeline.push(filled!(ClockSync {
            ticks,
            unix_ns,
            rate
        }));
    }
    timeline
}

#[test]
fn a_duration_is_the_difference_of_its_ends() {
    let timeline = two_lines();
    let mut mapper = SpanMapper::new(&timeline);
    let cases = [
        (10, 90, 60, 90),
        (900, 100, 950, 100),
        (900, 200, 950, 300),
        (1_000, 5, 1_050, 10),
        (1_100, 50, 1_250, 100),
        (20, 1, 70, 1),
        (21, 0, 71, 0),
    ];
    for (start_ticks, duration_ticks, unix_ns, ns) in cases {
        assert_eq!(timeline.duration_ns(start_ticks, duration_ticks), ns);
        assert_eq!(mapper.place(start_ticks, duration_ticks), (unix_ns, ns));
        let frame = filled!(FrameSnapshot {
            catalog: Arc::new(filled!(Catalog {
                timeline: Arc::new(timeline.clone())
            })),
            start_ticks,
            end_ticks: start_ticks + duration_ticks,
        });
        assert_eq!(frame.duration_ns(), ns as i64);
    }
}

#[test]
fn a_timer_knows_self_times_and_ends() {
    let thread = filled!(ThreadBatch {
        thread: ThreadId(1),
        // Two leaves in a parent, behind the parent a leaf.
        start_ticks: vec![10, 30, 0, 1_100],
        duration_ticks: vec![10, 20, 100, 50],
        sites: vec![SiteId(1); 4],
    });
    let mut timer = SpanTimer::default();
    let times: Vec<_> = timer.batch(&two_lines(), &thread).to_vec();
    let shown = |times: &SpanTimes| (times.end_unix_ns(), times.total_ns, times.self_ns);
    let expected = [
        (70, 10, 10),
        (100, 20, 20),
        (150, 100, 70),
        (1_350, 100, 100),
    ];
    assert_eq!(times.iter().map(shown).collect::<Vec<_>>(), expected);
    assert_eq!(timer.estimated_self_times(), 0);
}
