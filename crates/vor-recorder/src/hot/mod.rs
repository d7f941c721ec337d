//! The path of a span, from a scope in the program to a record in the thread's ring.
//!
//! An empty `profile_scope!("x")` passes through `macros`, [`callsite`], [`scope`], [`thread`] and
//! `ring`. The drain then reads the record:
//!
//! ```text
//! open    CallSite::word > 0 ── thread::hot() ── clock ── ThreadState::push_open_at
//! close   ThreadState::begin_close ── Ring::reserve ── clock ── Ring::commit ── release
//! drain   worker ── Engine::pass ── Ring::consume ── collect ── Outputs::accept_batch
//! file    CaptureSink ── Encoder::encode ── OutputFile::write
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `record_state` | whether and how scopes are recorded |
//! | `modes` | how the scopes of each call site are recorded, where rules say so |
//! | [`callsite`] | the static beside each scope, and the registry of ids |
//! | [`args`] | arguments as 64-bit words |
//! | `ring` | the records, and the queue between a thread and the drain |
//! | `shared` | rings and declarations in a file of shared memory |
//! | `sums` | sums of scopes that are counted and not recorded |
//! | `hooks` | calls to the modules above, which register themselves |
//! | [`thread`] | a thread's state: its ring and its open scopes |
//! | [`scope`] | open, close, next phase |
//! | `named_site` | the site of scopes that are named after a value, such as a lock |
//! | [`task`], [`future`], [`flow`] | spans that move between threads, and arrows between scopes |
//! | `rules` | rules that say how the scopes of a site are recorded |
//! | `budget` | the sites whose scopes cost too much, which are then counted |
//! | `tracing_out`, `nvtx` | the same scope as a live `tracing` span or as an NVTX range |

pub(crate) mod record_state;
pub(crate) mod modes;
pub mod callsite;
pub mod args;
pub(crate) mod ring;
cfg_select! {
    feature = "shared-memory" => {
        pub(crate) mod shared;
    }
    _ => {
        pub(crate) mod shared_stub;
        pub(crate) use shared_stub as shared;
    }
}
pub mod sums;
pub(crate) mod hooks;
pub mod thread;
pub mod scope;
pub(crate) mod named_site;
pub mod task;
pub mod future;
pub mod flow;
pub(crate) mod tracing_out;
pub(crate) mod nvtx;
#[cfg(feature = "rules")]
pub mod rules;
pub(crate) mod budget;
mod macros;
#[cfg(all(test, loom))]
mod models;
