//! The recorder of vor: everything that runs inside the measured program.
//!
//! A scope in your code becomes a record in a ring of its thread ([`hot`]). The worker drains the
//! rings into batches and frames ([`drain`]), and hands them to every sink that is on ([`sinks`]).
//! A room, which is a module of this table, imports only rooms above it:
//!
//! | room | holds |
//! |---|---|
//! | `sync` | atomics and cells, of the standard library or of loom |
//! | [`os`] | lines on stderr, files, signals, values of the process |
//! | [`clock`] | ticks, their meaning in nanoseconds, the CPU time of threads |
//! | [`allocations`] | counts of allocations |
//! | [`hot`] | the path of a span: call sites, arguments, rings, threads, scopes, macros, rules |
//! | [`heap`] | the global allocator, the live heap by scope |
//! | [`metrics`] | numbers of the program and of graphics cards |
//! | `locks` | locks that record who waited for whom, channels that record their depth |
//! | [`drain`] | marks, the engine, the worker, the end of the process |
//! | [`sinks`] | the destinations: captures, traces, profiles, puffin, clients |
//! | [`bridges`] | spans of `tracing` as scopes, frames of a capture as puffin's |
//! | [`setup`] | settings, variables, switching recording on and off |
//!
//! Programs use the facade crate `vor`; this crate is for sinks, viewers and bindings.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    feature = "off",
    allow(dead_code, reason = "the recorder is built, and nothing calls into it")
)]
#![cfg_attr(
    not(all(feature = "rules", feature = "segments", feature = "shared-memory")),
    allow(dead_code, reason = "what only these features call is not compiled")
)]

mod sync;
pub mod os;
pub mod clock;
pub mod allocations;
pub mod hot;
pub mod heap;
pub mod metrics;
#[cfg(feature = "locks")]
pub mod locks;
pub mod drain;
pub mod sinks;
pub mod bridges;
pub mod setup;

/// Items that expanded macros use, and those by which the facade reports. Not for direct use.
#[doc(hidden)]
pub mod __private {
    pub use crate::__vor_call_site as call_site;
    #[cfg(not(feature = "off"))]
    pub use crate::__vor_scope as scope;
    pub use crate::clock::cpu::{
        init as init_cpu, off_cpu_ticks, off_cpu_ticks_at, off_of_span, source as cpu_source,
        user_sys_ns,
    };
    pub use crate::hot::args::Arg;
    pub use crate::hot::callsite::CallSite;
    pub use crate::hot::future::ProfiledFuture;
    pub use crate::hot::scope::message;
    pub use crate::hot::scope::{CpuScope, PhaseChain, Scope, open, open_cpu, open_with};
    pub use crate::hot::thread::stay_silent;
    #[cfg(all(
        any(
            all(feature = "cuda", any(target_os = "linux", windows)),
            all(feature = "mac", target_os = "macos")
        ),
        not(feature = "off")
    ))]
    pub use crate::metrics::gpu::cards::Cards;
    pub use crate::os::host::name as host_name;
    pub use crate::os::report::line as report_line;
    pub use crate::os::signals::for_new_thread;
    #[cfg(feature = "segments")]
    pub use crate::sinks::named_files::has_lock_file;
}
