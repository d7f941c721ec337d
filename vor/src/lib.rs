//! Performance instrumentation that stays switched on.
//!
//! Tag a function, a block or an `impl`; each scope becomes one 16-byte record in a ring of its
//! thread, at very nearly the cost of reading the clock twice. At each [`frame_mark`] a worker
//! thread drains the rings into frames, and these reach every sink that is on: a `.vor` capture,
//! puffin, a Chrome trace, your own [`FrameSink`](sinks::FrameSink).
//!
//! # From nothing to a capture
//!
//! ```
//! #[vor::profile]
//! fn work(items: &[u64]) -> u64 {
//!     vor::profile_scope!("sum", items = items.len());
//!     items.iter().sum()
//! }
//!
//! vor::enable(); // reads VOR_RECORD and its like
//! for step in 0..3 {
//!     let sum = work(&[1, 2, step]);
//!     vor::record_metric("sum", sum as f64);
//!     vor::frame_mark(); // a frame: a rendered one, a training step, a request, a batch
//! }
//! ```
//!
//! With that in a program, two lines record it and say where its time went:
//!
//! ```sh
//! VOR_RECORD=run.vor VOR_RECORD_SPANS=1 cargo run --release
//! vor stats run.vor      # the command: cargo install vor --features cli
//! ```
//!
//! # What to reach for
//!
//! | to | use |
//! |---|---|
//! | measure functions | [`#[profile]`](macro@profile), [`#[all_functions]`](macro@all_functions), [`#[skip]`](macro@skip) |
//! | measure a block, or phases that follow each other | [`profile_scope!`], [`scope`], [`profile_phase!`] |
//! | follow what overlaps or moves between threads | [`async_span`], [`ProfileFuture::profiled`], [`flow()`] |
//! | record numbers and notes | [`record_metric`], [`Counter`], [`Histogram`], [`record_io`], [`message!`] |
//! | say where frames end | [`frame_mark`], [`frame_mark_named`](fn@frame_mark_named) |
//! | switch recording on, with or without variables | [`enable`], [`Config`] |
//! | measure processor time | `profile_scope!("…", cpu)`, [`Config::cpu_time`], [`thread_cpu_ns`] |
//! | count allocations, and see what is still in use | [`heap::TrackingAllocator`], [`heap::heap_snapshot`], [`heap::untracked`] |
//! | have scopes counted, without a capture | [`Config::count_scopes`], `VOR_COUNT_SCOPES=1`, [`stats()`], [`stats_by_thread`] |
//! | ask the running program | [`stats()`], [`open_scopes`], [`failed_sinks`], [`capture_path`] |
//! | read captures | [`capture::Reader`] streams, [`capture::Capture`] seeks |
//! | feed other tools | the sinks in [`sinks`], `puffin::PuffinSink`, a [`FrameSink`](sinks::FrameSink) of your own |
//! | write a format of your choice | the exporters in [`export`] |
//! | have a trace in memory | [`sinks::TraceBuilder`] |
//! | see what a criterion benchmark does | `criterion::CriterionProfiler` |
//! | see all of it in a window of the program, or of a capture | `vor::viz` |
//! | hold a program to a budget in CI | [`calibrate`], [`SpanBudget`], [`stats::ScopeStats`] |
//!
//! # In signal handlers
//!
//! A handler may interrupt its thread anywhere, also inside vor, and call the macros of scopes,
//! phases and messages, [`scope`], [`flow()`], [`async_span`], metrics, [`open_scopes`] and
//! [`heap::thread_allocations`], and it may make and enter `tracing` spans that it closes before it
//! returns.
//!
//! - What interrupts vor on its own thread is not recorded but counted as dropped, and so it is in
//!   every count of dropped spans. What a [`Counter`] and [`record_io`] add is never lost.
//!   [`open_scopes`] returns nothing there.
//! - What a thread does for the first time takes locks and allocates: its first scope, the first
//!   use of a call site or a name, [`open_scopes`] always. No lock of vor's is waited for that the
//!   interrupted code holds, but the C library's `malloc` may not be called in a handler. So do
//!   once outside of handlers what they do.
//! - A [`heap::TrackingAllocator`] counts what a handler allocates as well as the allocator below lets
//!   it; what interrupts vor's own cold paths is not counted.
//! - A handler returns, and leaves no scope open. Everything else ([`enable`], [`flush`],
//!   [`frame_mark`], sinks) is not for handlers.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `puffin` | yes | puffin frames, live and from a capture |
//! | `tracing` | yes | every scope of a macro is also a `tracing` span while a subscriber wants the level `TRACE`; `tracing::TracingSubscriber`: the other way round |
//! | `tracing-layer` | no | `tracing::TracingLayer`: `tracing` spans as scopes beside other layers, also those of the crate `profiling` |
//! | `off` | no | compiles all instrumentation out: scopes, phases, messages, metrics and marks |
//! | `criterion` | no | `criterion::CriterionProfiler`: captures and flame graphs of benchmarks, under `--profile-time` |
//! | `parquet` | no | captures as Parquet tables |
//! | `pprof` | no | `sinks::PprofSink`, `export::pprof`: profiles for `go tool pprof` |
//! | `pyroscope` | no | `sinks::PyroscopeSink`: profiles pushed to a Pyroscope server |
//! | `otlp` | no | `sinks::OtlpSink`: metrics and chosen spans to an OpenTelemetry collector |
//! | `viz` | no | `vor::viz`: the panel in an egui program, live or of a capture |
//! | `web` | no | `sinks::BrowserSink`: scopes in the browser's developer tools, and the page's memory as a metric |
//! | `cli` | no | the `vor` command |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "cli")]
pub mod command;
#[cfg(feature = "criterion")]
pub mod criterion;

pub use vor_capture::Error;
pub use vor_capture::model::measures::Measures;
pub use vor_macros::{all_functions, profile, skip};
pub use vor_recorder::clock::cpu::thread_cpu_ns;
pub use vor_recorder::clock::ticks;
pub use vor_recorder::drain::{
    add_sink, capture_path, close_capture, failed_sinks, flush, flush_recording, frame_mark,
    frame_mark_named, stats, stats_by_thread,
};
pub use vor_recorder::hot::flow::{FlowId, flow};
pub use vor_recorder::hot::future::ProfileFuture;
pub use vor_recorder::hot::scope::{PhaseChain, ScopeGuard, scope};
pub use vor_recorder::hot::task::{AsyncScope, async_span};
pub use vor_recorder::hot::thread::{OpenScope, OpenThread, open_scopes};
pub use vor_recorder::metrics::{
    Counter, Histogram, IoTick, drain_io, record_io, record_metric, record_metric_unit,
};
pub use vor_recorder::os::system::{SystemSample, current_memory_bytes};
pub use vor_recorder::setup::Config;
pub use vor_recorder::setup::{SpanBudget, calibrate, clock_floor_ns, empty_span_ns};
pub use vor_recorder::setup::{disable, enable, is_enabled};
pub use vor_recorder::{frame_mark_named, message, profile_phase, profile_scope};

// Names of 0.2.1, which stay beside those in their rooms.
#[doc(no_inline)]
pub use crate::capture::{Frame, MetricColumn, Reader};
#[cfg(feature = "web")]
#[doc(no_inline)]
pub use crate::sinks::BrowserSink;
#[cfg(not(target_arch = "wasm32"))]
#[doc(no_inline)]
pub use crate::sinks::ChromeTraceSink;
#[doc(no_inline)]
pub use crate::sinks::{Guard, Sink};
#[doc(no_inline)]
pub use crate::stats::FrameStats;

/// What a capture holds, and how it is read; sinks are handed the same.
///
/// These structs may get more fields. Who makes one, for a test of a sink, does that with
/// [`filled!`](capture::filled), or sets the fields of a default.
///
/// [`Reader`] streams the frames of a file, [`Capture`](capture::Capture) seeks in
/// it.
pub mod capture {
    pub use vor_capture::filled;
    pub use vor_capture::model::batch::{
        ArgValue, AsyncSpan, FlowPoint, FlowStage, Message, SpanArgs, SpanBatch, TaskEvent,
        TaskEventKind, ThreadBatch,
    };
    pub use vor_capture::model::catalog::{
        Catalog, MetricColumn, SiteId, SiteInfo, ThreadId, ThreadInfo,
    };
    pub use vor_capture::model::frame::{FrameSnapshot, MetricValue, Span, ThreadTree};
    pub use vor_capture::model::measures::Measured;
    pub use vor_capture::reader::{Capture, Damage, Frame, Info, Loss, Recovered};
    pub use vor_recorder::bridges::reader::Reader;
}

/// Exporters: each is a sink that writes a format of another tool to any writer, of a capture or
/// live.
pub mod export {
    pub use vor_export::*;
}

/// Allocations of threads and scopes, and what of the heap is in use.
///
/// They are counted where [`TrackingAllocator`](heap::TrackingAllocator) is the program's global
/// allocator.
pub mod heap {
    pub use vor_capture::model::heap::{HeapChange, HeapMode, HeapScope, HeapSnapshot, HeapStack};
    pub use vor_recorder::allocations::{
        AllocCounts, process_allocations, thread_allocations, untracked,
    };
    pub use vor_recorder::heap::{DEFAULT_SAMPLE_BYTES, TrackingAllocator, heap_snapshot};
}

/// Outputs: where the recorder hands what it drains.
///
/// Each of vor's sinks is a description of the output, from which `build` makes the sink for
/// [`add_sink`] or [`Config::sink`], or says why it cannot. [`Sink::install`] does all that, with
/// one line on stderr in place of an error. A type of your own is a sink where it is a
/// [`FrameSink`](sinks::FrameSink).
pub mod sinks {
    pub use vor_capture::sink::{FrameSink, Interest};
    pub use vor_export::perfetto::{CounterTrack, CounterUnit};
    pub use vor_recorder::drain::SinkHandle;
    #[cfg(feature = "web")]
    pub use vor_recorder::sinks::browser::BrowserSink;
    #[cfg(not(target_arch = "wasm32"))]
    pub use vor_recorder::sinks::chrome::ChromeTraceSink;
    #[cfg(all(feature = "otlp", not(target_arch = "wasm32")))]
    pub use vor_recorder::sinks::otlp::{OtlpCounts, OtlpSink};
    #[cfg(not(target_arch = "wasm32"))]
    pub use vor_recorder::sinks::perfetto::{PerfettoSink, TraceBuilder};
    #[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
    pub use vor_recorder::sinks::pprof::PprofSink;
    #[cfg(all(feature = "pyroscope", not(target_arch = "wasm32")))]
    pub use vor_recorder::sinks::pyroscope::{Auth, PyroscopeCounts, PyroscopeSink};
    #[cfg(not(target_arch = "wasm32"))]
    pub use vor_recorder::sinks::samply::SamplySink;
    pub use vor_recorder::sinks::{Guard, Sink};
}

/// Statistics of frames and of scopes.
pub mod stats {
    pub use vor_capture::stats::{FrameStats, ScopeStats};
    pub use vor_recorder::hot::sums::ThreadStats;
}

/// Frames for viewers of the crate `puffin`.
#[cfg(feature = "puffin")]
pub mod puffin {
    pub use vor_recorder::sinks::puffin::PuffinSink;
}

/// Spans of the crate `tracing` as scopes.
#[cfg(any(feature = "tracing", feature = "tracing-layer"))]
pub mod tracing {
    #[cfg(feature = "tracing-layer")]
    pub use vor_recorder::bridges::layer::TracingLayer;
    #[cfg(feature = "tracing")]
    pub use vor_recorder::bridges::subscriber::TracingSubscriber;
    #[cfg(feature = "tracing")]
    pub use vor_recorder::bridges::tracing_in::{AlwaysSample, Probabilistic, Sampler};
}

/// The panel: what the program does, drawn in it by egui while it runs, or a capture of any length.
#[cfg(feature = "viz")]
pub mod viz {
    pub use vor_viz::bars::Thresholds;
    pub use vor_viz::panel::{Panel, Tab};
    pub use vor_viz::{Metric, PanelConfig, PanelState, ReplayState, show};
}

/// What the macros expand to. Not for direct use.
#[doc(hidden)]
pub use vor_recorder::__private;
