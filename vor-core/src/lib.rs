//! The machinery of vor: from a scope in your code to a record in a ring, and from there to frames,
//! captures and sinks.
//!
//! The modules stand in the order in which the data passes them. Programs use the facade crate
//! `vor`; this crate is for sinks, viewers and bindings.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    feature = "off",
    allow(dead_code, reason = "the recorder is built, and nothing calls into it")
)]

pub(crate) mod sync;
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
mod js;
pub(crate) mod switch;
pub mod clock;
pub mod cpu;
pub(crate) mod tap;
pub(crate) mod nvtx;
pub mod callsite;
pub mod args;
mod ring;
pub mod thread;
pub mod scope;
pub mod task;
pub mod future;
pub mod flow;
#[cfg(feature = "tracing")]
pub mod traced;
#[cfg(feature = "tracing-layer")]
pub mod layer;
#[cfg(feature = "tracing")]
pub mod subscriber;
mod macros;
pub mod alloc;
pub mod metrics;
pub mod stats;
mod variables;
pub mod config;
pub mod drain;
pub mod calibrate;
pub mod system;
mod gpu;
pub mod sink;
pub mod reader;

pub use vor_capture::model::{batch, catalog, frame, measures as measure};
pub use vor_capture::{Error, error, format};
pub use vor_export as export;

/// What the macros expand to, and what the facade reports with. Not for direct use.
#[doc(hidden)]
pub mod __private {
    pub use crate::__vor_call_site as call_site;
    pub use crate::args::Arg;
    pub use crate::callsite::CallSite;
    pub use crate::cpu::{
        init as init_cpu, off_cpu_ticks, off_cpu_ticks_at, off_of_span, source as cpu_source, user_sys_ns,
    };
    pub use crate::drain::report::line as report_line;
    pub use crate::future::ProfiledFuture;
    #[cfg(all(
        any(
            all(feature = "cuda", any(target_os = "linux", windows)),
            all(feature = "mac", target_os = "macos")
        ),
        not(feature = "off")
    ))]
    pub use crate::gpu::chosen::Cards;
    pub use crate::scope::message;
    pub use crate::scope::{CpuScope, PhaseChain, Scope, open, open_cpu, open_with};
}
