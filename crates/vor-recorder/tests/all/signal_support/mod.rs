//! Shared code of the tests of signal handlers: operations for a handler and for the code that it
//! interrupts, a sink that adds up recorded and dropped records, and runs in a process of their
//! own.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(unsafe_code, reason = "a process that hangs is ended by a signal")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up should stop"
)]

#[cfg(target_arch = "x86_64")]
pub mod stepping;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use vor_capture::Error;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::SiteId;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::process::{is_child, run_alone};
use vor_recorder::hot::scope::manual;
use vor_recorder::hot::task::async_span;
use vor_recorder::hot::{callsite, flow, scope};
use vor_recorder::metrics::Counter;
use vor_recorder::setup::Config;
use vor_recorder::{drain, message, profile_phase, profile_scope};

/// A process that runs for so many seconds hangs.
const MAX_SECONDS: u32 = 600;

/// Runs `body` in a process of its own, because recording and its modes belong to the process.
/// `test` is the name of the calling test.
pub fn in_a_process(test: &str, body: impl FnOnce()) {
    if is_child() {
        // A deadlock ends the process.
        // SAFETY: the call sets a timer of the process, and nothing else.
        unsafe { libc::alarm(MAX_SECONDS) };
        return body();
    }
    run_alone(test);
}

/// The delivered records by name, and the number of dropped ones.
#[derive(Clone, Debug, Default)]
pub struct Delivered {
    pub records: BTreeMap<String, u64>,
    /// Tasks by name. A span of `tracing` that a handler delays is a task too.
    pub tasks: BTreeMap<String, u64>,
    pub dropped: u64,
    /// Number of texts for which a ring had no room.
    pub lost_texts: u64,
    pub metrics: BTreeMap<u32, f64>,
}

impl Delivered {
    /// Returns the number of records whose names begin with `prefix`.
    pub fn of(&self, prefix: &str) -> u64 {
        let named = self
            .records
            .iter()
            .filter(|(name, _)| name.starts_with(prefix));
        named.map(|(_, count)| count).sum()
    }

    /// Counts tasks as records.
    pub fn with_tasks(mut self) -> Self {
        for (name, count) in std::mem::take(&mut self.tasks) {
            self.add(&name, count);
        }
        self
    }

    fn add(&mut self, name: &str, count: u64) {
        *self.records.entry(name.to_owned()).or_default() += count;
    }
}

/// Adds up the records that the recorder delivers.
#[derive(Clone, Debug, Default)]
pub struct Adder(Arc<Mutex<Delivered>>);

impl Adder {
    /// Enables recording with this sink.
    pub fn enable(config: Config) -> Self {
        let adder = Self::default();
        config
            .ring_kib(16 << 10)
            .sink("adder", adder.clone())
            .enable();
        adder
    }

    /// Returns the records, after all of them were delivered.
    pub fn read(&self) -> Delivered {
        drain::frame_mark();
        drain::flush();
        self.0.lock().unwrap().clone()
    }
}

impl FrameSink for Adder {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        let mut delivered = self.0.lock().unwrap();
        for value in &frame.metrics {
            *delivered.metrics.entry(value.column).or_default() += value.value;
        }
        Ok(())
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        let mut delivered = self.0.lock().unwrap();
        for thread in &batch.threads {
            delivered.dropped += thread.dropped_spans;
            let ends = thread.start_ticks.iter().zip(&thread.duration_ticks);
            let ends: Vec<u64> = ends.map(|(start, length)| start + length).collect();
            assert!(ends.is_sorted(), "spans are in the order of their ends");
            let mut by_site = BTreeMap::<u32, (SiteId, u64)>::new();
            for site in &thread.sites {
                by_site.entry(site.0).or_insert((*site, 0)).1 += 1;
            }
            for (site, count) in by_site.values() {
                delivered.add(batch.catalog.site_name(*site), *count);
            }
            for message in &thread.messages {
                // Events begin with their level and target.
                let text = message.text.rsplit(": ").next().unwrap_or_default();
                delivered.add(text, 1);
            }
            delivered.add("flow", thread.flows.len() as u64);
            for task in &thread.async_spans {
                let name = batch.catalog.site_name(task.site).to_owned();
                *delivered.tasks.entry(name).or_default() += 1;
            }
            for args in &thread.args {
                let name = batch.catalog.site_name(thread.sites[args.span as usize]);
                let values = format!("{:?}", args.values);
                if values.contains("(lost") {
                    delivered.lost_texts += 1;
                    continue;
                }
                let are_its = match name {
                    "outer text" => values.contains("the outer text"),
                    "handler text" => values.contains("a handler's"),
                    _ => true,
                };
                assert!(are_its, "{name}: {values}");
            }
        }
        Ok(())
    }
}

/// A counter of both sides.
pub static COUNTER: Counter = Counter::new("counted by both", "");
/// The sum added to [`COUNTER`].
pub static ADDED: AtomicU64 = AtomicU64::new(0);

fn count() {
    COUNTER.add(3);
    ADDED.fetch_add(3, Ordering::Relaxed);
}

/// An operation, and the number of its records.
pub type Operation = (fn(), u64);

macro_rules! operations {
    ($side:literal, $phase:literal, $text:literal) => {
        [
            (
                || {
                    profile_scope!(concat!($side, " plain"));
                },
                1,
            ),
            (
                || {
                    profile_scope!(concat!($side, " numbers"), a = 1_u32, b = 2.5);
                },
                1,
            ),
            (
                || {
                    profile_scope!(concat!($side, " text"), text = $text);
                },
                1,
            ),
            (
                || {
                    profile_scope!(concat!($side, " around"));
                    profile_scope!(concat!($side, " inside"));
                },
                2,
            ),
            (
                || {
                    let mut phases = profile_phase!($phase);
                    profile_phase!(phases, $phase);
                    profile_phase!(phases, $phase);
                },
                3,
            ),
            (|| drop(scope::scope(concat!($side, " named"))), 1),
            (
                || {
                    profile_scope!(concat!($side, " cpu"), cpu);
                },
                1,
            ),
            (
                || {
                    static SITE: callsite::CallSite =
                        callsite::CallSite::new(concat!($side, " loose"), "", "", 0);
                    manual::begin(&SITE).end();
                },
                1,
            ),
            (
                || {
                    static SITE: callsite::CallSite =
                        callsite::CallSite::new(concat!($side, " a"), "", "", 0).with_args(&["a"]);
                    let (scope, args) = manual::begin_with(&SITE, |arg| {
                        arg(vor_recorder::hot::args::Arg::encode(&7_u32));
                    });
                    scope.end_with(&args);
                },
                1,
            ),
            (count, 0),
        ]
    };
}

/// Operations of the code around the handler.
pub const OUTER: [Operation; 10] = operations!("outer", "outer phase", "the outer text");
/// Operations of handlers.
pub const HANDLER: [Operation; 10] = operations!("handler", "handler phase", "a handler's");

/// Like [`OUTER`] and [`HANDLER`], for records other than scopes.
pub const OUTER_EVENTS: [Operation; 3] = [
    (|| message!("outer message {}", 1), 1),
    (|| flow::flow().end(), 2),
    (|| drop(async_span("outer task", 1)), 1),
];
pub const HANDLER_EVENTS: [Operation; 3] = [
    (|| message!("handler message {}", 1), 1),
    (|| flow::flow().end(), 2),
    (|| drop(async_span("handler task", 1)), 1),
];

/// Like [`OUTER`] and [`HANDLER`], for spans and events of `tracing`.
#[cfg(feature = "tracing-subscriber")]
macro_rules! traced_operations {
    ($span:literal, $around:literal, $fields:literal, $event:literal) => {
        [
            (|| drop(tracing::info_span!($span).entered()), 1),
            (
                || {
                    let _around = tracing::info_span!($around).entered();
                    let _fields = tracing::info_span!($fields, a = 1, text = "a text").entered();
                },
                2,
            ),
            (|| tracing::info!($event), 1),
        ]
    };
}

#[cfg(feature = "tracing-subscriber")]
pub const OUTER_TRACED: [Operation; 3] =
    traced_operations!("outer span", "outer around", "outer fields", "outer event");
#[cfg(feature = "tracing-subscriber")]
pub const HANDLER_TRACED: [Operation; 3] = traced_operations!(
    "handler span",
    "handler around",
    "handler fields",
    "handler event"
);
