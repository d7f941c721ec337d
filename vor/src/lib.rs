//! A profiler that stays on in production.
//!
//! Mark a function, a block or an `impl`. Each scope becomes one 16-byte record in a ring of its
//! thread, at little more than the cost of reading the clock twice. A worker thread drains the
//! rings, makes a frame at each [`frame_mark`], and passes both to every sink that is on: a `.vor`
//! capture, puffin, a Perfetto or Chrome trace, your own [`FrameSink`](sinks::FrameSink).
//!
//! # Quick start
//!
//! ```
//! #[vor::profile]
//! fn work(items: &[u64]) -> u64 {
//!     vor::profile_scope!("sum", items = items.len());
//!     items.iter().sum()
//! }
//!
//! vor::enable(); // reads VOR_RECORD and the other variables
//! for step in 0..3 {
//!     let sum = work(&[1, 2, step]);
//!     vor::record_metric("sum", sum as f64);
//!     vor::frame_mark(); // a frame: a rendered one, a training step, a request, a batch
//! }
//! ```
//!
//! Two commands record this program and show where its time went:
//!
//! ```sh
//! cargo install vor --features cli    # the commands `vor` and `cargo vor`
//! cargo vor run                       # builds it, writes run.vor, lists its slowest scopes
//! ```
//!
//! # Find what you need
//!
//! | to | use |
//! |---|---|
//! | measure functions | [`#[profile]`](macro@profile), [`#[all_functions]`](macro@all_functions), [`#[skip]`](macro@skip) |
//! | measure a block, or consecutive phases | [`profile_scope!`], [`profile_scope_if!`], [`profile_scope_custom!`], [`profile_function!`], [`profile_function_if!`], [`scope`], [`profile_phase!`] |
//! | measure work that overlaps or moves between threads | [`async_span`], [`ProfileFuture::profiled`], [`flow()`] |
//! | record work that was timed elsewhere, such as passes of a GPU | [`record_async_span`] |
//! | measure requests of a server, and tasks of tokio | `tower::RequestLayer`, `tokio::named`, `tokio::watch` |
//! | record numbers and messages | [`record_metric`], [`Counter`], [`Histogram`], [`record_io`], [`io::Timed`], [`message!`] |
//! | end a frame | [`frame_mark`], [`frame_mark_named`](fn@frame_mark_named) |
//! | enable recording, with or without variables | [`enable`], [`Config`] |
//! | see who waited for which lock, and for whom | `vor::sync`: `Mutex`, `RwLock`, `Condvar` |
//! | measure CPU time | `profile_scope!("…", cpu)`, [`Config::cpu_time`], [`thread_cpu_ns`] |
//! | count allocations, and see the live heap | [`heap::TrackingAllocator`], [`heap::heap_snapshot`], [`heap::untracked`] |
//! | count scopes instead of recording them | [`Config::count_scopes`], `VOR_COUNT_SCOPES=1`, [`stats()`], [`stats_by_thread`] |
//! | inspect the running program | [`stats()`], [`open_scopes`], [`failed_sinks`], [`capture_path`] |
//! | read captures | [`capture::Reader`] streams, `capture::Capture` seeks |
//! | feed other tools | the sinks in [`sinks`], `puffin::PuffinSink`, a [`FrameSink`](sinks::FrameSink) of your own |
//! | write another format | the exporters in [`export`] |
//! | record a trace into memory | `sinks::TraceBuilder` |
//! | profile a criterion benchmark | `criterion::CriterionProfiler` |
//! | show a panel in the program, live or for a capture | `vor::viz` |
//! | hold a program to a budget in CI | [`calibrate`], [`SpanBudget`], [`stats::ScopeStats`] |
//!
//! # In signal handlers
//!
//! A handler may interrupt its thread anywhere, also inside vor. It may use the macros of scopes,
//! phases and messages, [`scope`], [`flow()`], [`async_span`], metrics, [`open_scopes`] and
//! [`heap::thread_allocations`]. It may create and enter `tracing` spans that it closes before it
//! returns.
//!
//! - A record that interrupts vor itself on the same thread is dropped, and counted as a dropped
//!   span. Additions to a [`Counter`] and by [`record_io`] are never lost. [`open_scopes`] returns
//!   nothing there.
//! - The first scope of a thread and the first use of a call site or a name take locks and
//!   allocate; [`open_scopes`] always does. vor never waits there for a lock of its own that the
//!   interrupted code holds, but the C library's `malloc` must not be called in a handler. So do
//!   the same things once outside of handlers.
//! - A [`heap::TrackingAllocator`] counts the allocations of a handler as far as the allocator
//!   below supports them; those that interrupt vor's own cold paths are not counted.
//! - A handler must return, and leave no scope open. All other functions ([`enable`], [`flush`],
//!   [`frame_mark`], sinks) must not be called in handlers.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `macros` | yes | the attributes `#[profile]`, `#[all_functions]` and `#[skip]` |
//! | `reader` | yes | `Reader`: captures frame by frame |
//! | `percentiles` | yes | [`Histogram`]: distributions of a program's values; [`FrameStats`]: percentiles of durations |
//! | `puffin` | yes | puffin frames, live and from a capture |
//! | `tracing` | yes | every scope of a macro is also a `tracing` span while a subscriber enables the level `TRACE` |
//! | `scheduler` | no | `Config::scheduler`: when threads ran and who woke them, on Linux |
//! | `rules` | yes | `Config::scopes`, `set_scopes`: rules that say which scopes are recorded, also while the program runs |
//! | `segments` | yes | `Config::segments`: a capture in segments; `Config::last`, `dump`: the newest records in memory, written on demand |
//! | `shared-memory` | yes | `Config::shared_memory`: rings from which a killed process is recovered |
//! | `tracing-subscriber` | no | `tracing::TracingSubscriber`: `tracing` spans as scopes |
//! | `tracing-layer` | no | `tracing::TracingLayer`: the same as a layer beside others, also for the crate `profiling` |
//! | `tower` | no | `tower::RequestLayer`: requests of axum, hyper and others as tasks |
//! | `tokio` | no | `tokio::named`: futures with the delay of their polls; `tokio::watch`: the numbers of a runtime |
//! | `live` | no | `Config::listen`: the program shows itself to `vor view`, `tail`, `top` and `record` while it runs |
//! | `seek` | no | `capture::Capture`: any frame of a capture |
//! | `stats` | no | `Config::stats`: sums per call site of what is recorded |
//! | `export` | no | the exporters in [`export`], `sinks::PerfettoSink`, `sinks::ChromeTraceSink`, `sinks::SamplySink`, `sinks::TraceBuilder` |
//! | `off` | no | compiles all instrumentation out: scopes, phases, messages, metrics and marks |
//! | `criterion` | no | `criterion::CriterionProfiler`: captures and flame graphs of benchmarks under `--profile-time` |
//! | `parquet` | no | captures as Parquet tables |
//! | `pprof` | no | `sinks::PprofSink`, `export::pprof`: profiles for `go tool pprof` |
//! | `pyroscope` | no | `sinks::PyroscopeSink`: profiles pushed to a Pyroscope server |
//! | `otlp` | no | `sinks::OtlpSink`: metrics and chosen spans to an OpenTelemetry collector |
//! | `viz` | no | `vor::viz`: the panel in an egui program, live or of a capture |
//! | `web` | no | `sinks::BrowserSink`: scopes in the browser's developer tools, and the page's memory as a metric |
//! | `locks` | no | `vor::sync`: locks and channels with std's interface that record who waited for whom; with `tokio` those of `tokio::sync` |
//! | `parking_lot` | no | `vor::sync::parking_lot`: the same for the locks of parking_lot |
//! | `crossbeam`, `flume` | no | `vor::sync::crossbeam`, `vor::sync::flume`: the same for the channels of these crates |
//! | `cuda` | no | NVIDIA cards as metrics, and scopes as NVTX ranges |
//! | `mac` | no | Apple's GPUs as metrics |
//! | `ship` | no | `vor::ship`: segments to object storage; with `cli` the command `vor ship` |
//! | `cli` | no | the `vor` command |
//! | `top` | no | `vor top`, the command's dashboard in the terminal |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "cli")]
pub mod command;
#[cfg(feature = "criterion")]
pub mod criterion;
#[cfg(all(feature = "ship", not(target_family = "wasm")))]
pub mod ship;
#[cfg(any(feature = "cli", all(feature = "ship", not(target_family = "wasm"))))]
mod writer;

pub use vor_capture::Error;
pub use vor_capture::model::measures::Measures;
#[cfg(feature = "macros")]
pub use vor_macros::{all_functions, profile, skip};
pub use vor_recorder::clock::cpu::thread_cpu_ns;
pub use vor_recorder::clock::ticks;
pub use vor_recorder::drain::{
    add_sink, capture_path, close_capture, failed_sinks, flush, flush_recording, frame_mark,
    frame_mark_named, scopes, stats, stats_by_thread,
};
pub use vor_recorder::hot::flow::{FlowId, flow};
pub use vor_recorder::hot::future::ProfileFuture;
#[cfg(feature = "rules")]
pub use vor_recorder::hot::rules::{ScopeRules, scope_rules, set_scopes};
pub use vor_recorder::hot::scope::{PhaseChain, ScopeGuard, scope};
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub use vor_recorder::hot::task::record_async_span;
pub use vor_recorder::hot::task::{AsyncScope, async_span};
pub use vor_recorder::hot::thread::{OpenScope, OpenThread, open_scopes};
#[cfg(feature = "percentiles")]
pub use vor_recorder::metrics::Histogram;
pub use vor_recorder::metrics::{
    Counter, IoTick, drain_io, record_io, record_metric, record_metric_unit,
};
pub use vor_recorder::os::system::{SystemSample, current_memory_bytes};
pub use vor_recorder::setup::{
    Config, SpanBudget, calibrate, clock_floor_ns, disable, empty_span_ns, enable, is_enabled,
};
#[cfg(feature = "segments")]
pub use vor_recorder::sinks::last::{DumpOn, Last, dump};
#[cfg(feature = "segments")]
pub use vor_recorder::sinks::segments::Segments;
pub use vor_recorder::{
    frame_mark_named, message, profile_function, profile_function_if, profile_phase, profile_scope,
    profile_scope_custom, profile_scope_if,
};

// Names of 0.2.1, which stay in the root beside those in their modules.
#[doc(no_inline)]
pub use crate::capture::MetricColumn;
#[cfg(feature = "reader")]
#[doc(no_inline)]
pub use crate::capture::{Frame, Reader};
#[cfg(feature = "web")]
#[doc(no_inline)]
pub use crate::sinks::BrowserSink;
#[cfg(all(feature = "export", not(target_arch = "wasm32")))]
#[doc(no_inline)]
pub use crate::sinks::ChromeTraceSink;
#[doc(no_inline)]
pub use crate::sinks::{Guard, Sink};
#[cfg(feature = "percentiles")]
#[doc(no_inline)]
pub use crate::stats::FrameStats;

/// The model of a capture, which sinks receive too, and the readers of captures.
///
/// [`Reader`] streams the frames of a file, `Capture` seeks in it.
///
/// Structs of the model may get more fields. To make one, for example to test a sink, use
/// [`filled!`](capture::filled) or set the fields of a default.
pub mod capture {
    pub use vor_capture::filled;
    pub use vor_capture::model::batch::{
        ArgValue, AsyncSpan, FlowPoint, FlowStage, Message, OpenStarts, SpanArgs, SpanBatch,
        TaskEvent, TaskEventKind, ThreadBatch,
    };
    pub use vor_capture::model::catalog::{
        Catalog, Column, DumpInfo, MachineInfo, MetricColumn, ProcessInfo, SegmentInfo, SiteId,
        SiteInfo, ThreadId, ThreadInfo,
    };
    pub use vor_capture::model::frame::{FrameSnapshot, MetricValue, Span, ThreadTree};
    pub use vor_capture::model::measures::Measured;
    pub use vor_capture::model::open_scopes::OpenScopes;
    pub use vor_capture::model::scope_modes::{ScopeMode, ScopeModeChange, ScopeModes};
    pub use vor_capture::model::timeline::{ClockSnapshot, ClockSync, Timeline};
    #[cfg(feature = "seek")]
    pub use vor_capture::reader::{
        Batches, Capture, FrameScan, FrameSummary, Frames, Info, Lookahead, Piece, Pieces,
        SegmentFollower, SegmentPieces, SegmentedCapture, Summaries,
    };
    #[cfg(feature = "reader")]
    pub use vor_capture::reader::{Damage, Event, Frame, Loss, Recovered};
    #[cfg(feature = "reader")]
    pub use vor_recorder::bridges::reader::Reader;
}

/// Exporters: sinks that write the format of another tool to any writer, live or from a capture.
pub mod export {
    #[cfg(feature = "cli")]
    pub use vor_export::firefox;
    #[cfg(feature = "parquet")]
    pub use vor_export::parquet;
    #[cfg(feature = "pprof")]
    pub use vor_export::pprof;
    pub use vor_export::{arg_name, thread_label};
    #[cfg(feature = "export")]
    pub use vor_export::{chrome, collapsed, csv, perfetto, samply, speedscope};
}

/// Allocations of threads and scopes, and the live heap.
///
/// They need a [`TrackingAllocator`](heap::TrackingAllocator) as the program's global allocator.
pub mod heap {
    pub use vor_capture::model::heap::{HeapChange, HeapMode, HeapScope, HeapSnapshot, HeapStack};
    pub use vor_recorder::allocations::{
        AllocCounts, process_allocations, thread_allocations, untracked,
    };
    pub use vor_recorder::heap::{DEFAULT_SAMPLE_BYTES, TrackingAllocator, heap_snapshot};
}

/// Readers and writers whose calls are scopes with their bytes, or tasks if they are asynchronous.
pub mod io {
    pub use vor_recorder::metrics::Timed;
}

/// Watching a running program: where it listens, and the stream that a client gets.
///
/// [`Config::listen`] takes a [`Listen`](live::Listen). The `vor` command is the usual client;
/// [`connect`](live::connect) is one for programs.
#[cfg(all(feature = "live", not(target_family = "wasm")))]
pub mod live {
    pub use vor_recorder::sinks::live::{
        Address, Choice, Connection, Ender, Listen, Token, ask, connect, listening,
    };
}

/// Sinks: outputs that receive batches and frames from the recorder.
///
/// A type of this module describes an output. Its `build` makes the sink for [`add_sink`] or
/// [`Config::sink`], or returns an error. [`Sink::install`] does all of that, and reports an error
/// as one line on stderr. Your own sink implements [`FrameSink`](sinks::FrameSink).
pub mod sinks {
    pub use vor_capture::sink::{FrameSink, Interest};
    #[cfg(feature = "export")]
    pub use vor_export::perfetto::{CounterTrack, CounterUnit};
    pub use vor_recorder::drain::SinkHandle;
    #[cfg(feature = "web")]
    pub use vor_recorder::sinks::browser::BrowserSink;
    #[cfg(all(feature = "export", not(target_arch = "wasm32")))]
    pub use vor_recorder::sinks::chrome::ChromeTraceSink;
    #[cfg(all(feature = "otlp", not(target_arch = "wasm32")))]
    pub use vor_recorder::sinks::otlp::{OtlpCounts, OtlpSink};
    #[cfg(feature = "export")]
    pub use vor_recorder::sinks::perfetto::{PerfettoSink, TraceBuilder};
    #[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
    pub use vor_recorder::sinks::pprof::PprofSink;
    #[cfg(all(feature = "pyroscope", not(target_arch = "wasm32")))]
    pub use vor_recorder::sinks::pyroscope::{Auth, PyroscopeCounts, PyroscopeSink};
    #[cfg(all(feature = "export", not(target_arch = "wasm32")))]
    pub use vor_recorder::sinks::samply::SamplySink;
    pub use vor_recorder::sinks::{Guard, Sink};
}

/// Statistics of frames and of scopes.
pub mod stats {
    #[cfg(feature = "percentiles")]
    pub use vor_capture::stats::FrameStats;
    pub use vor_capture::stats::ScopeStats;
    #[cfg(feature = "stats")]
    pub use vor_capture::stats::StatsBuilder;
    pub use vor_recorder::drain::ScopeState;
    pub use vor_recorder::hot::sums::ThreadStats;
}

/// Frames for the viewers of the crate `puffin`.
#[cfg(feature = "puffin")]
pub mod puffin {
    pub use vor_recorder::sinks::puffin::PuffinSink;
}

/// Spans of the crate `tracing` as scopes.
#[cfg(feature = "tracing-subscriber")]
pub mod tracing {
    #[cfg(feature = "tracing-layer")]
    pub use vor_recorder::bridges::layer::TracingLayer;
    pub use vor_recorder::bridges::subscriber::TracingSubscriber;
    pub use vor_recorder::bridges::tracing_in::{AlwaysSample, Probabilistic, Sampler};
}

/// Futures of a tokio program by name, with the delay of their polls, and the numbers of a runtime.
#[cfg(feature = "tokio")]
pub mod tokio {
    pub use vor_recorder::bridges::tokio::{Named, Watch, named, watch};
}

/// Requests of axum, hyper and other servers with the traits of the crate `tower` as tasks.
#[cfg(feature = "tower")]
pub mod tower {
    pub use vor_recorder::bridges::tower::{RequestFuture, RequestLayer, RequestService};
}

/// Locks with the interface of [`std::sync`] that record who waited for whom.
///
/// Replace `std::sync::Mutex` by `vor::sync::Mutex`, and see the waits with `vor locks`. The module
/// [`channel`](mod@sync::channel) replaces [`std::sync::mpsc`], and others replace the crates
/// `parking_lot`, `crossbeam-channel` and `flume`. With the feature `tokio`, the module `tokio`
/// replaces `tokio::sync`.
#[cfg(feature = "locks")]
pub mod sync {
    pub use std::sync::{
        LockResult, OnceState, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult,
    };

    #[doc(inline)]
    pub use vor_recorder::__vor_channel as channel;
    pub use vor_recorder::locks::barrier::{Barrier, BarrierWaitResult};
    pub use vor_recorder::locks::channel;
    #[cfg(feature = "crossbeam")]
    pub use vor_recorder::locks::channel::crossbeam;
    #[cfg(feature = "flume")]
    pub use vor_recorder::locks::channel::flume;
    pub use vor_recorder::locks::condvar::Condvar;
    pub use vor_recorder::locks::mutex::{Mutex, MutexGuard};
    pub use vor_recorder::locks::once::{Once, OnceLock};
    #[cfg(feature = "parking_lot")]
    pub use vor_recorder::locks::parking_lot;
    pub use vor_recorder::locks::rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub use vor_recorder::locks::semaphore::{Semaphore, SemaphoreGuard};

    /// Locks and channels with the interface of `tokio::sync` whose waits are tasks.
    ///
    /// Replace `tokio::sync::Mutex` by `vor::sync::tokio::Mutex`, and see the waits with
    /// `vor locks`.
    #[cfg(feature = "tokio")]
    pub mod tokio {
        pub use vor_recorder::locks::tokio::barrier::{Barrier, BarrierWaitResult};
        pub use vor_recorder::locks::tokio::mutex::{
            MappedMutexGuard, Mutex, MutexGuard, OwnedMutexGuard, TryLockError,
        };
        pub use vor_recorder::locks::tokio::notify::{Notified, Notify};
        pub use vor_recorder::locks::tokio::once_cell::{OnceCell, SetError};
        pub use vor_recorder::locks::tokio::rwlock::{
            OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, RwLockMappedWriteGuard,
            RwLockReadGuard, RwLockWriteGuard,
        };
        pub use vor_recorder::locks::tokio::semaphore::{
            AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError,
        };
        pub use vor_recorder::locks::tokio::{broadcast, mpsc, oneshot, watch};
    }
}

/// The panel, drawn by egui: the running program, or a capture of any length.
#[cfg(feature = "viz")]
pub mod viz {
    pub use vor_viz::bars::Thresholds;
    pub use vor_viz::panel::{Panel, Tab};
    pub use vor_viz::{Metric, PanelConfig, PanelState, ReplayState, show};
}

/// Items that the macros expand to. Not for direct use.
#[doc(hidden)]
pub use vor_recorder::__private;
