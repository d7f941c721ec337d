//! Other profilers that record the same two scopes: an empty one, and one with two integers.
//!
//! Each is set up according to its documentation, in its cheapest situation: scopes of puffin and
//! fastrace run inside an open one. Their recordings are discarded between rounds if they allow it;
//! [`Peer::data`] says what happens to them.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrace::prelude::{LocalSpan, Span, SpanContext, SpanRecord};

/// A profiler in the contest.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The name in tables.
    pub name: &'static str,
    /// Runs empty scopes.
    pub empty: fn(u32),
    /// Runs scopes with two integers.
    pub two_args: fn(u32),
    /// Discards the recording.
    pub discard: fn(),
    /// Returns whether it has recorded anything, once a recording was discarded. One that has not
    /// must not be compared.
    pub has_recorded: fn() -> bool,
    /// What happens to the recorded data.
    pub data: &'static str,
}

/// Spans that reached puffin's sinks and fastrace's reporter.
static PUFFIN_SPANS: AtomicU64 = AtomicU64::new(0);
static FASTRACE_SPANS: AtomicU64 = AtomicU64::new(0);

/// The clock of perfetto-recorder in this build.
pub const PERFETTO: &str = if cfg!(feature = "peers-fastant") {
    "perfetto-recorder + fastant"
} else {
    "perfetto-recorder"
};
/// The names of the other peers.
pub const PUFFIN: &str = "puffin";
/// The work of vor 0.2.1 in every scope, without a subscriber.
pub const PUFFIN_AND_TRACING: &str = "puffin + tracing span";

struct Ignore;

impl fastrace::collector::Reporter for Ignore {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        FASTRACE_SPANS.fetch_add(spans.len() as u64, Ordering::Relaxed);
    }
}

/// Starts all peers except `tracing`, whose subscriber would receive the others' spans too.
///
/// # Panics
///
/// Panics if a profiler does not start, because a comparison with one that does not record is
/// meaningless.
#[must_use]
pub fn start() -> Vec<Peer> {
    tracy_client::Client::start();
    puffin::set_scopes_on(true);
    puffin::GlobalProfiler::lock().add_sink(Box::new(|frame| {
        PUFFIN_SPANS.fetch_add(frame.meta().num_scopes as u64, Ordering::Relaxed);
    }));
    let puffin_has_recorded = || PUFFIN_SPANS.load(Ordering::Relaxed) > 0;
    assert!(
        perfetto_recorder::start().is_ok(),
        "perfetto-recorder is built with its feature `enable`"
    );
    fastrace::set_reporter(Ignore, fastrace::collector::Config::default());
    vec![
        Peer {
            name: "tracy-client",
            empty: tracy_empty,
            two_args: tracy_two_args,
            discard: || {},
            has_recorded: tracy_client::Client::is_running,
            data: "stays in memory: no server is connected",
        },
        Peer {
            name: PUFFIN,
            empty: puffin_empty,
            two_args: puffin_two_args,
            discard: puffin_discard,
            has_recorded: puffin_has_recorded,
            data: "one frame each four rounds, to a sink that counts",
        },
        Peer {
            name: PUFFIN_AND_TRACING,
            empty: both_empty,
            two_args: both_two_args,
            discard: puffin_discard,
            has_recorded: puffin_has_recorded,
            data: "as puffin's; no subscriber takes the spans",
        },
        Peer {
            name: PERFETTO,
            empty: perfetto_empty,
            two_args: perfetto_two_args,
            discard: perfetto_discard,
            // `start` above would have failed.
            has_recorded: || true,
            data: "taken from the thread and dropped, not converted",
        },
        Peer {
            name: "fastrace",
            empty: fastrace_empty,
            two_args: fastrace_two_args,
            discard: || {},
            has_recorded: || {
                fastrace::flush();
                FASTRACE_SPANS.load(Ordering::Relaxed) > 0
            },
            data: "to a reporter that counts",
        },
    ]
}

/// Returns perfetto-recorder with all memory allocated in advance, untimed. A program that knows
/// the size of its recording can do that; the examples in the documentation do not.
#[must_use]
pub fn perfetto_with_room() -> Peer {
    Peer {
        name: "perfetto-recorder, room made before",
        empty: perfetto_empty,
        two_args: perfetto_two_args,
        discard: perfetto_discard_and_reserve,
        has_recorded: || true,
        data: "taken from the thread and dropped, not converted",
    }
}

/// Runs `measure` with a `tracing` subscriber that writes a Chrome trace, which is discarded.
pub fn with_tracing_chrome<R>(measure: impl FnOnce(Peer) -> R) -> R {
    use tracing_subscriber::prelude::*;
    let (layer, guard) = tracing_chrome::ChromeLayerBuilder::new()
        .writer(std::io::sink())
        .include_args(true)
        .build();
    let peer = Peer {
        name: "tracing + tracing-chrome",
        empty: tracing_empty,
        two_args: tracing_two_args,
        discard: || {},
        has_recorded: || true,
        data: "as JSON by a thread of its own, to a writer that does nothing",
    };
    let result =
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            measure(peer)
        });
    drop(guard);
    result
}

fn tracy_empty(passes: u32) {
    for i in 0..passes {
        let _span = tracy_client::span!("empty");
        black_box(i);
    }
}

fn tracy_two_args(passes: u32) {
    for i in 0..passes {
        let span = tracy_client::span!("two_args");
        span.emit_value(u64::from(i));
        span.emit_value(4096);
        black_box(i);
    }
}

fn puffin_empty(passes: u32) {
    puffin::profile_scope!("outer");
    for i in 0..passes {
        puffin::profile_scope!("empty");
        black_box(i);
    }
}

fn puffin_two_args(passes: u32) {
    puffin::profile_scope!("outer");
    for i in 0..passes {
        puffin::profile_scope!("two_args", format!("index={i} bytes={}", 4096));
        black_box(i);
    }
}

fn puffin_discard() {
    puffin::GlobalProfiler::lock().new_frame();
}

fn both_empty(passes: u32) {
    puffin::profile_scope!("outer");
    for i in 0..passes {
        let _span = tracing::trace_span!("empty").entered();
        puffin::profile_scope!("empty");
        black_box(i);
    }
}

fn both_two_args(passes: u32) {
    puffin::profile_scope!("outer");
    for i in 0..passes {
        let _span = tracing::trace_span!("two_args", index = i, bytes = 4096).entered();
        puffin::profile_scope!("two_args", format!("index={i} bytes={}", 4096));
        black_box(i);
    }
}

fn perfetto_empty(passes: u32) {
    for i in 0..passes {
        perfetto_recorder::scope!("empty");
        black_box(i);
    }
}

fn perfetto_two_args(passes: u32) {
    for i in 0..passes {
        perfetto_recorder::scope!("two_args", index = u64::from(i), bytes = 4096_u64);
        black_box(i);
    }
}

fn perfetto_discard() {
    drop(perfetto_recorder::ThreadTraceData::take_current_thread());
}

fn perfetto_discard_and_reserve() {
    perfetto_discard();
    perfetto_recorder::current_thread_reserve(1 << 20);
}

fn fastrace_empty(passes: u32) {
    let root = Span::root("root", SpanContext::random());
    let _parent = root.set_local_parent();
    for i in 0..passes {
        let _span = LocalSpan::enter_with_local_parent("empty");
        black_box(i);
    }
}

fn fastrace_two_args(passes: u32) {
    let root = Span::root("root", SpanContext::random());
    let _parent = root.set_local_parent();
    for i in 0..passes {
        let _span = LocalSpan::enter_with_local_parent("two_args")
            .with_properties(|| [("index", i.to_string()), ("bytes", 4096.to_string())]);
        black_box(i);
    }
}

fn tracing_empty(passes: u32) {
    for i in 0..passes {
        let _span = tracing::trace_span!("empty").entered();
        black_box(i);
    }
}

fn tracing_two_args(passes: u32) {
    for i in 0..passes {
        let _span = tracing::trace_span!("two_args", index = i, bytes = 4096).entered();
        black_box(i);
    }
}
