//! Asynchronous tasks: what futures leave in batches, frames, captures and traces.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use crate::futures::{pause, poll};
use vor::capture::{
    AsyncSpan, Capture, FrameSnapshot, SpanBatch, TaskEvent, TaskEventKind, ThreadId,
};
use vor::sinks::{FrameSink, Interest};
use vor::{Config, Error, Reader};
use vor_fixtures::own_process;
use vor_recorder::clock::{approximate_ticks, ticks};

/// The contents of one recording.
#[derive(Debug, Default)]
struct Recording {
    /// Tasks with the names of their sites, and the thread on which each ended.
    tasks: Vec<(String, ThreadId, AsyncSpan)>,
    /// Name, thread, first and last tick of every span.
    polls: Vec<(String, ThreadId, u64, u64)>,
    /// Task events with their threads.
    events: Vec<(ThreadId, TaskEvent)>,
    dropped_spans: u64,
    frames: Vec<Arc<FrameSnapshot>>,
}

struct RecordingSink(Arc<Mutex<Recording>>);

impl FrameSink for RecordingSink {
    fn interest(&self) -> Interest {
        Interest::ALL
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        let mut kept = self.0.lock().unwrap();
        for thread in &batch.threads {
            kept.dropped_spans += thread.dropped_spans;
            let events = thread.task_events.iter();
            kept.events
                .extend(events.map(|event| (thread.thread, *event)));
            for task in &thread.async_spans {
                let name = batch.catalog.site_name(task.site).to_owned();
                kept.tasks.push((name, thread.thread, *task));
            }
            for span in 0..thread.len() {
                let name = batch.catalog.site_name(thread.sites[span]).to_owned();
                let (start, end) = (thread.start_ticks[span], thread.end_ticks(span));
                kept.polls.push((name, thread.thread, start, end));
            }
        }
        Ok(())
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.0.lock().unwrap().frames.push(Arc::clone(frame));
        Ok(())
    }
}

/// Size of the rings, small enough that a test can fill one.
const RING_SLOTS: usize = 64 * 1024 / 16;

/// Returns what was recorded while `work` ran. Rings are drained only at marks and at the end.
fn record(work: impl FnOnce()) -> Recording {
    Config::new().inline_drain(true).ring_kib(64).enable();
    let kept = Arc::default();
    let sink = vor::add_sink("test", RecordingSink(Arc::clone(&kept)));
    work();
    drop(sink);
    Arc::into_inner(kept).unwrap().into_inner().unwrap()
}

impl Recording {
    fn tasks_called(&self, name: &str) -> Vec<&(String, ThreadId, AsyncSpan)> {
        self.tasks.iter().filter(|task| task.0 == name).collect()
    }

    /// First and last tick of the polls called `name`.
    fn polls_called(&self, name: &str) -> Vec<(u64, u64)> {
        let of_name = self.polls.iter().filter(|poll| poll.0 == name);
        of_name.map(|poll| (poll.2, poll.3)).collect()
    }
}

#[vor::profile]
async fn fetch(pauses: u32) -> u32 {
    pause(pauses).await;
    pauses
}

#[vor::profile]
async fn store(pauses: u32) {
    pause(pauses).await;
}

#[test]
fn a_task_lasts_from_its_first_poll_to_its_completion() {
    own_process!();
    let mut before_first_poll = 0;
    let kept = record(|| {
        let mut future = pin!(fetch(2));
        thread::sleep(Duration::from_millis(1));
        before_first_poll = ticks();
        assert!(poll(future.as_mut()).is_pending());
        assert!(poll(future.as_mut()).is_pending());
        assert_eq!(poll(future.as_mut()), Poll::Ready(2));
    });
    let polls = kept.polls_called("fetch");
    assert_eq!(polls.len(), 3);
    let [(name, thread, task)] = kept.tasks.as_slice() else {
        panic!("expected one task, found {:?}", kept.tasks)
    };
    assert_eq!((name.as_str(), *thread), ("fetch", kept.polls[0].1));
    assert!(task.start_ticks >= before_first_poll);
    assert_eq!(
        (task.start_ticks, task.end_ticks()),
        (polls[0].0, polls[2].1)
    );
    assert_ne!(task.id, 0);
}

#[test]
fn interleaved_tasks_overlap_and_keep_apart() {
    own_process!();
    let kept = record(|| {
        let mut first = pin!(fetch(2));
        let mut second = pin!(store(1));
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_pending());
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_ready());
        assert!(poll(first.as_mut()).is_ready());
    });
    let names: Vec<_> = kept.tasks.iter().map(|task| task.0.as_str()).collect();
    assert_eq!(names, ["store", "fetch"]);
    let [store, fetch] = [kept.tasks[0].2, kept.tasks[1].2];
    assert!(fetch.start_ticks < store.start_ticks && store.start_ticks < fetch.end_ticks());
    assert!(store.end_ticks() < fetch.end_ticks());
    assert_ne!(store.id, fetch.id);
    for (name, task) in [("store", store), ("fetch", fetch)] {
        let polls = kept.polls_called(name);
        assert_eq!(task.start_ticks, polls[0].0);
        assert_eq!(task.end_ticks(), polls[polls.len() - 1].1);
    }
}

#[test]
fn a_task_ends_on_the_thread_that_polled_it_last() {
    own_process!();
    let kept = record(|| {
        let mut futures: Vec<Pin<Box<dyn Future<Output = u32> + Send>>> =
            (1..=40).map(|i| Box::pin(fetch(i % 3 + 1)) as _).collect();
        let mut round = 0;
        while !futures.is_empty() {
            let middle = futures.len() / 2;
            let mut other = futures.split_off(middle);
            if round % 2 == 0 {
                std::mem::swap(&mut futures, &mut other);
            }
            let run = |mut futures: Vec<Pin<Box<dyn Future<Output = u32> + Send>>>| {
                futures.retain_mut(|future| poll(future.as_mut()).is_pending());
                futures
            };
            let other = thread::spawn(move || run(other));
            futures = run(futures);
            futures.extend(other.join().unwrap());
            round += 1;
        }
    });
    let tasks = kept.tasks_called("fetch");
    assert_eq!(tasks.len(), 40);
    assert_eq!(kept.polls_called("fetch").len(), 14 * 3 + 13 * 4 + 13 * 2);
    let ids: HashSet<u64> = tasks.iter().map(|task| task.2.id).collect();
    assert_eq!(ids.len(), 40);
    let threads: HashSet<ThreadId> = tasks.iter().map(|task| task.1).collect();
    assert!(threads.len() > 1, "{threads:?}");
    // A task starts with a poll on any thread, and ends with a poll on its own thread.
    let starts: HashSet<u64> = kept.polls.iter().map(|poll| poll.2).collect();
    let ends: HashSet<(ThreadId, u64)> = kept.polls.iter().map(|poll| (poll.1, poll.3)).collect();
    for (_, thread, task) in tasks {
        assert!(starts.contains(&task.start_ticks), "{task:?}");
        assert!(ends.contains(&(*thread, task.end_ticks())), "{task:?}");
    }
}

/// Takes some time to drop.
struct Slow;

impl Drop for Slow {
    fn drop(&mut self) {
        vor::profile_scope!("drop of Slow");
        thread::sleep(Duration::from_millis(2));
    }
}

#[vor::profile]
async fn hold() {
    let _slow = Slow;
    pause(1).await;
}

#[vor::profile]
async fn fail() {
    pause(1).await;
    panic!("as it should");
}

#[test]
fn a_dropped_task_ends_with_its_values_and_an_unpolled_one_leaves_nothing() {
    own_process!();
    let kept = record(|| {
        let mut polled = Box::pin(hold());
        assert!(poll(polled.as_mut()).is_pending());
        drop(polled);
        drop(hold());
        drop(Box::pin(hold()));
    });
    let [(name, _, task)] = kept.tasks.as_slice() else {
        panic!("expected one task, found {:?}", kept.tasks)
    };
    assert_eq!(name, "hold");
    assert_eq!(task.start_ticks, kept.polls_called("hold")[0].0);
    let dropped = kept.polls_called("drop of Slow");
    assert_eq!(dropped.len(), 1);
    assert!(task.end_ticks() >= dropped[0].1);
}

#[test]
fn a_task_that_panics_ends_once() {
    own_process!();
    let kept = record(|| {
        let mut future = Box::pin(fail());
        assert!(poll(future.as_mut()).is_pending());
        let caught =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(future.as_mut())));
        assert!(caught.is_err());
        drop(future);
    });
    let polls = kept.polls_called("fail");
    assert_eq!((polls.len(), kept.tasks.len()), (2, 1));
    assert_eq!(kept.tasks[0].2.start_ticks, polls[0].0);
    assert!(kept.tasks[0].2.end_ticks() >= polls[1].1);
}

#[test]
fn a_task_is_recorded_if_it_began_while_recording_was_on() {
    own_process!();
    let kept = record(|| {
        let mut began = Box::pin(fetch(1));
        assert!(poll(began.as_mut()).is_pending());
        let mut dropped = Box::pin(hold());
        assert!(poll(dropped.as_mut()).is_pending());
        vor::disable();
        let mut late = Box::pin(store(2));
        assert!(poll(late.as_mut()).is_pending());
        assert_eq!(poll(began.as_mut()), Poll::Ready(1));
        drop(dropped);
        Config::new().enable();
        assert!(poll(late.as_mut()).is_pending());
        assert!(poll(late.as_mut()).is_ready());
    });
    let names: Vec<_> = kept.tasks.iter().map(|task| task.0.as_str()).collect();
    assert_eq!(names, ["fetch", "hold"]);
    assert_eq!(kept.polls_called("store").len(), 2);
    assert_eq!(kept.polls_called("fetch").len(), 1);
}

#[test]
fn a_task_belongs_to_the_frame_in_which_it_ends() {
    own_process!();
    let kept = record(|| {
        vor::frame_mark();
        let mut long = Box::pin(fetch(2));
        assert!(poll(long.as_mut()).is_pending());
        assert!(poll(pin!(store(0))).is_ready());
        vor::frame_mark();
        assert!(poll(long.as_mut()).is_pending());
        vor::frame_mark();
        assert!(poll(long.as_mut()).is_ready());
        vor::frame_mark();
    });
    let frames: Vec<Vec<&str>> = kept.frames[1..]
        .iter()
        .map(|frame| {
            let tasks = frame.threads.iter().flat_map(|tree| &tree.async_spans);
            tasks
                .map(|task| frame.catalog.site_name(task.site))
                .collect()
        })
        .collect();
    assert_eq!(frames, [vec!["store"], vec![], vec!["fetch"]]);
    let last = &kept.frames[3];
    let task = last.threads[0].async_spans[0];
    assert!(task.start_ticks < kept.frames[1].end_ticks && task.end_ticks() > last.start_ticks);
    // Tasks are not counted among the spans.
    assert_eq!((last.span_count, last.threads[0].spans.len()), (1, 1));
    assert_eq!(last.threads[0].async_span_count, 1);
}

#[test]
fn a_lost_task_is_counted() {
    own_process!();
    let count = RING_SLOTS;
    let kept = record(|| {
        assert!(poll(pin!(fetch(0))).is_ready());
        vor::frame_mark();
        for _ in 0..count {
            assert!(poll(pin!(store(0))).is_ready());
        }
    });
    let (tasks, polls) = (
        kept.tasks_called("store").len(),
        kept.polls_called("store").len(),
    );
    assert!(tasks > 100 && tasks < count, "{tasks}");
    assert!(polls > 100 && polls < count, "{polls}");
    let store = kept.tasks_called("store")[0].2.site;
    let events = kept
        .events
        .iter()
        .filter(|(_, event)| event.site == store)
        .count();
    assert_eq!(
        (tasks + polls + events) as u64 + kept.dropped_spans,
        3 * count as u64
    );
}

#[test]
fn captures_and_traces_hold_tasks_unchanged() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let (capture, trace) = (
        folder.path().join("run.vor"),
        folder.path().join("run.json"),
    );
    let kept = record(|| {
        // Spans recorded before the sinks were added belong to a frame that the sinks do not get.
        vor::frame_mark();
        let capture_sink = vor_recorder::sinks::capture::CaptureSink::create(
            &capture,
            vor_recorder::sinks::capture::CaptureOptions::default(),
        );
        let capture_sink = vor::add_sink("capture", capture_sink.unwrap());
        let trace_sink = vor::ChromeTraceSink {
            path: trace.clone(),
        }
        .build()
        .unwrap();
        let trace_sink = vor::add_sink("trace", trace_sink);
        let mut long = Box::pin(fetch(3));
        for _ in 0..3 {
            assert!(poll(long.as_mut()).is_pending());
            let mut short = Box::pin(store(1));
            assert!(poll(short.as_mut()).is_pending());
            thread::spawn(move || assert!(poll(short.as_mut()).is_ready()))
                .join()
                .unwrap();
            vor::frame_mark();
        }
        assert!(poll(long.as_mut()).is_ready());
        vor::frame_mark();
        drop((capture_sink, trace_sink));
    });
    assert_eq!(kept.tasks.len(), 4);
    let live: Vec<_> = kept.frames[1..]
        .iter()
        .map(|frame| frame.threads.clone())
        .collect();

    let mut read = Capture::open(&capture).unwrap();
    let frames: Vec<_> = read
        .frames(0..9)
        .map(|frame| frame.unwrap().threads.clone())
        .collect();
    assert_eq!(frames, live);
    assert!(
        frames
            .iter()
            .all(|trees| trees.iter().any(|tree| tree.async_spans.len() == 1))
    );
    let mut reader = Reader::open(&capture).unwrap();
    assert!(reader.flame_enabled());
    for live in &live {
        assert_eq!(
            reader.next_recovered().unwrap().unwrap().frame.threads,
            *live
        );
    }

    let events: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap();
    let mut found: HashMap<String, Vec<&serde_json::Value>> = HashMap::new();
    for event in events
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["cat"] == "task")
    {
        assert_eq!(event["pid"], std::process::id());
        let id = event["id2"]["local"].as_str().unwrap().to_owned();
        found.entry(id).or_default().push(event);
    }
    assert_eq!(found.len(), 4);
    for (name, _, task) in &kept.tasks {
        let all = &found[&task.id.to_string()];
        let [begin, polls @ .., end] = all.as_slice() else {
            panic!("expected a begin and an end of {task:?}")
        };
        let expected = kept
            .events
            .iter()
            .filter(|(_, event)| event.task == task.id)
            .count();
        assert_eq!(polls.len(), 2 * expected, "{task:?}");
        for poll in polls.chunks(2) {
            assert_eq!((&poll[0]["ph"], &poll[1]["ph"]), (&"b".into(), &"e".into()));
            assert_eq!(
                (&poll[0]["name"], &poll[1]["name"]),
                (&"poll".into(), &"poll".into())
            );
        }
        assert_eq!((&begin["ph"], &end["ph"]), (&"b".into(), &"e".into()));
        assert_eq!(
            (&begin["name"], &end["name"]),
            (&name.as_str().into(), &name.as_str().into())
        );
        let length_us = end["ts"].as_f64().unwrap() - begin["ts"].as_f64().unwrap();
        let catalog = read.catalog();
        let expected_ns = catalog.unix_ns(task.end_ticks()) - catalog.unix_ns(task.start_ticks);
        assert!(
            (length_us * 1000.0 - expected_ns as f64).abs() < 1.0,
            "{length_us} {expected_ns}"
        );
    }
}

#[test]
fn a_task_that_was_timed_elsewhere_has_its_times_and_its_number() {
    own_process!();
    let ms = Duration::from_millis;
    let (mut first_ticks, mut last_ticks) = (0, 0);
    let kept = record(|| {
        // The first conversion measures the clock.
        let (a_ms, start) = (approximate_ticks(1_000_000), ticks());
        let now = Instant::now();
        first_ticks = start - 30 * a_ms;
        vor::record_async_span("pass", 7, now - ms(30)..now - ms(10));
        vor::record_async_span("reversed", 8, now - ms(10)..now - ms(20));
        vor::record_async_span("future", 9, now - ms(10)..now + ms(60_000));
        last_ticks = ticks();
    });
    let a_ms = approximate_ticks(1_000_000);
    let [pass, reversed, future] = &kept.tasks[..] else {
        panic!("expected three tasks, found {:?}", kept.tasks)
    };
    // The test may lose its core between its two readings of the clock.
    let lost = last_ticks - first_ticks - 30 * a_ms;
    assert!(pass.2.duration_ticks.abs_diff(20 * a_ms) <= a_ms / 100);
    assert!(
        (first_ticks - a_ms / 100..=first_ticks + lost + a_ms / 100).contains(&pass.2.start_ticks)
    );
    assert_eq!(
        (reversed.0.as_str(), reversed.2.duration_ticks),
        ("reversed", 0)
    );
    // The end is the present, so that later records need not wait for it.
    assert!(future.2.end_ticks() <= last_ticks && future.2.duration_ticks >= 9 * a_ms);
    let begin = |number| TaskEventKind::Begin { given_id: number };
    let begins: Vec<_> = kept
        .events
        .iter()
        .map(|(_, event)| (event.task, event.kind))
        .collect();
    let expected =
        [(pass, 7), (reversed, 8), (future, 9)].map(|(task, number)| (task.2.id, begin(number)));
    assert_eq!(begins, expected);
}
