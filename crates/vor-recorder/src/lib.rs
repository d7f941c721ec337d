//! The recorder of vor: everything that runs inside the measured program.
//!
//! A scope in your code becomes a record in a ring of its thread ([`scope`], [`thread`]). The
//! worker drains the rings into batches and frames ([`drain`]), and hands them to every sink that
//! is on ([`sink`]). A module imports only modules declared above it.
//!
//! Programs use the facade crate `vor`; this crate is for sinks, viewers and bindings.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    feature = "off",
    allow(dead_code, reason = "the recorder is built, and nothing calls into it")
)]

pub(crate) mod sync;
mod os;
pub mod clock;
mod allocations;
mod hot;
mod heap;
pub mod metrics;
mod gpu;
pub mod drain;
mod sinks;
mod bridges;
pub mod setup;

#[cfg(feature = "tracing-layer")]
pub use bridges::layer;
pub use bridges::reader;
#[cfg(feature = "tracing")]
pub use bridges::{subscriber, tracing_in as traced};
pub use clock::cpu;
pub use hot::{args, callsite, flow, future, scope, task, thread};
pub use os::system;
pub use setup::{calibrate, config};
pub use vor_capture::filled;
pub use vor_capture::model::{batch, catalog, frame, measures as measure};
pub use vor_capture::{Error, error, format};
pub use vor_export as export;

/// Allocations and the heap in use, as the global allocator counts them.
pub mod alloc {
    pub use crate::allocations::{AllocCounts, process_allocations, thread_allocations, untracked};
    pub use crate::heap::*;
}

/// Statistics of frames and of scopes: those of `vor-capture`, and the sums that threads keep
/// themselves.
///
/// Where the program has its scopes [counted](crate::config::Config::aggregate) instead of
/// recorded, each thread keeps its sums itself, and there are no spans; [`ThreadStats`](stats::ThreadStats) are the
/// rows of one thread.
pub mod stats {
    pub use vor_capture::stats::{
        Block, Blocks, Bucket, Counted, FrameStats, Histogram, ScopeStats, StatsBuilder,
    };

    pub use crate::hot::sums::ThreadStats;
}

/// The sinks, by the name that users of vor know.
pub mod sink {
    pub use crate::sinks::*;
}

/// What the macros expand to, and what the facade reports with. Not for direct use.
#[doc(hidden)]
pub mod __private {
    pub use crate::__vor_call_site as call_site;
    pub use crate::clock::cpu::{
        init as init_cpu, off_cpu_ticks, off_cpu_ticks_at, off_of_span, source as cpu_source,
        user_sys_ns,
    };
    #[cfg(all(
        any(
            all(feature = "cuda", any(target_os = "linux", windows)),
            all(feature = "mac", target_os = "macos")
        ),
        not(feature = "off")
    ))]
    pub use crate::gpu::cards::Cards;
    pub use crate::hot::args::Arg;
    pub use crate::hot::callsite::CallSite;
    pub use crate::hot::future::ProfiledFuture;
    pub use crate::hot::scope::message;
    pub use crate::hot::scope::{CpuScope, PhaseChain, Scope, open, open_cpu, open_with};
    pub use crate::os::report::line as report_line;
}
