//! The path of a span, from a scope in your code to a record in the thread's ring.
//!
//! | module | holds |
//! |---|---|
//! | [`args`] | values as 64-bit words |
//! | [`callsite`] | the static beside each scope, and the registry of ids |
//! | `record_state` | whether scopes may take the fast path |
//! | `ring` | the records, and the queue between a thread and the drain |
//! | [`thread`] | what a thread has: its ring, its open scopes |
//! | [`scope`] | open, close, next phase |
//! | [`task`], [`future`], [`flow`] | spans that move between threads, and arrows between scopes |
//! | `tracing_out`, `nvtx` | the same scope as a live `tracing` span, as a range of NVIDIA's tools |
//! | `hooks` | calls to the rooms above, which register themselves |
//! | `sums` | sums of scopes that are counted and not recorded |

pub(crate) mod record_state;
pub mod callsite;
pub mod args;
pub(crate) mod ring;
pub mod sums;
pub(crate) mod hooks;
pub mod thread;
pub mod scope;
pub mod task;
pub mod future;
pub mod flow;
pub(crate) mod tracing_out;
pub(crate) mod nvtx;
mod macros;
