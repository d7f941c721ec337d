//! The contents of a recording under the layer or the subscriber.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::{Arc, Mutex};

use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt;
use vor::capture::{AsyncSpan, FrameSnapshot, SpanBatch, TaskEvent, TaskEventKind};
use vor::sinks::{FrameSink, Interest};
use vor::{Config, Error};

/// A span of a batch.
#[derive(Clone, Debug)]
pub struct Span {
    pub name: String,
    pub thread: u32,
    pub start: u64,
    pub end: u64,
    /// Each is `name=value`.
    pub args: Vec<String>,
}

impl Span {
    /// Returns whether `other` lies within this span.
    pub fn has(&self, other: &Self) -> bool {
        self.thread == other.thread && self.start <= other.start && other.end <= self.end
    }
}

/// The contents of one recording.
#[derive(Debug, Default)]
pub struct Recording {
    /// In the order in which they ended, thread by thread.
    pub spans: Vec<Span>,
    pub tasks: Vec<(String, AsyncSpan)>,
    /// Each with its thread.
    pub events: Vec<(u32, TaskEvent)>,
    pub messages: Vec<String>,
    pub frames: u64,
    pub dropped: u64,
}

impl Recording {
    pub fn called(&self, name: &str) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }

    /// Returns the only span with this name.
    pub fn the(&self, name: &str) -> &Span {
        let all = self.called(name);
        assert_eq!(all.len(), 1, "spans called {name}: {all:?}");
        all[0]
    }

    pub fn names(&self) -> Vec<&str> {
        self.spans.iter().map(|span| span.name.as_str()).collect()
    }

    pub fn tasks_called(&self, name: &str) -> Vec<AsyncSpan> {
        let of_name = self.tasks.iter().filter(|task| task.0 == name);
        of_name.map(|task| task.1).collect()
    }

    /// Returns the polls of a task as thread, start and end, by their start.
    pub fn polls(&self, task: u64) -> Vec<(u32, u64, u64)> {
        let of_task = self.events.iter().filter(|(_, event)| event.task == task);
        let mut polls: Vec<_> = of_task
            .filter_map(|(thread, event)| match event.kind {
                TaskEventKind::Poll { duration_ticks } => Some((
                    *thread,
                    event.start_ticks,
                    event.start_ticks + duration_ticks,
                )),
                _ => None,
            })
            .collect();
        polls.sort_by_key(|poll| poll.1);
        polls
    }

    /// Returns the sum of a task's polls, in ticks.
    pub fn busy(&self, task: u64) -> u64 {
        self.polls(task)
            .iter()
            .map(|(_, start, end)| end - start)
            .sum()
    }
}

struct RecordingSink(Arc<Mutex<Recording>>);

impl FrameSink for RecordingSink {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        let mut kept = self.0.lock().unwrap();
        for thread in &batch.threads {
            let number = thread.thread.0;
            kept.dropped += thread.dropped_spans;
            kept.messages.extend(
                thread
                    .messages
                    .iter()
                    .map(|message| message.text.to_string()),
            );
            kept.events
                .extend(thread.task_events.iter().map(|event| (number, *event)));
            for task in &thread.async_spans {
                kept.tasks
                    .push((batch.catalog.site_name(task.site).to_owned(), *task));
            }
            for i in 0..thread.len() {
                let site = batch.catalog.site(thread.sites[i]).unwrap();
                let values = thread.args.iter().find(|args| args.span == i as u32);
                let args = values.into_iter().flat_map(|args| &args.values);
                let args = site.arg_names.iter().zip(args);
                kept.spans.push(Span {
                    name: site.name.to_string(),
                    thread: number,
                    start: thread.start_ticks[i],
                    end: thread.end_ticks(i),
                    args: args
                        .map(|(name, value)| format!("{name}={value}"))
                        .collect(),
                });
            }
        }
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.0.lock().unwrap().frames += 1;
        Ok(())
    }
}

/// Returns the records made while `work` ran under `dispatch`.
pub fn record(dispatch: &Dispatch, work: impl FnOnce()) -> Recording {
    Config::new()
        .inline_drain(true)
        .puffin(false)
        .stats(true)
        .enable();
    let kept = Arc::default();
    let sink = vor::add_sink("test", RecordingSink(Arc::clone(&kept)));
    tracing::dispatcher::with_default(dispatch, work);
    vor::flush();
    drop(sink);
    vor::disable();
    Arc::into_inner(kept).unwrap().into_inner().unwrap()
}

pub fn layer() -> Dispatch {
    Dispatch::new(tracing_subscriber::registry().with(vor::tracing::TracingLayer::new()))
}

pub fn subscriber() -> Dispatch {
    Dispatch::new(vor::tracing::TracingSubscriber::new())
}

/// Runs `work` under the layer and then under the subscriber, and checks both recordings with
/// `check`.
pub fn both(work: impl Fn(), check: impl Fn(&Recording)) {
    for dispatch in [layer(), subscriber()] {
        check(&record(&dispatch, &work));
    }
}
