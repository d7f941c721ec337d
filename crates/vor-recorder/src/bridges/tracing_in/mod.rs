//! Spans of `tracing` as scopes: the code that the layer and the subscriber share.
//!
//! A new span takes a slot of a table, with its call site and the words of its fields. Entering it
//! opens a scope and pushes the span on a stack of the thread. Leaving it ends the scope, with the
//! fields as they are then. These paths need one slot and one stack: no lock, no allocation, no
//! look-up in the registry of `tracing-subscriber`.
//!
//! ```text
//! new ──▶ site (by its description) ──▶ slot: site, words of the fields
//! enter ─▶ slot by the span's id ──────▶ scope opens, entry on the thread's stack
//! exit ──▶ entry ──────────────────────▶ scope ends with the words of the slot
//! close ─▶ slot ───────────────────────▶ a task ends, the slot is free
//! ```
//!
//! Most spans are made, entered and left by one thread within a call. That one scope is their whole
//! record, and costs two readings of the clock. A span that is entered again, or by another thread,
//! or that waits first, is a *task* as well, like a future under `#[profile]`. The task lasts from
//! the span's creation to its closing, and the times in which it was entered are its polls. So the
//! task's duration is the whole time (`wall`), `wall_busy` is the sum of its polls, and `wall_idle`
//! the rest.
//!
//! The kind of a span is not known when it is made: the first span of a call site decides for those
//! after it. So only that first span lacks the time from its creation to its first entry.

mod entered;
mod event;
mod fields;
mod life;
mod sampler;
mod site;
pub(crate) mod steps;
mod table;
#[cfg(feature = "tracing-layer")]
mod registered;
#[cfg(all(test, loom, feature = "tracing-layer"))]
mod models;

pub use sampler::{AlwaysSample, Probabilistic, Sampler};

pub(crate) use entered::current;
pub(crate) use event::{is_mark, is_recording, record as record_event};
pub(crate) use life::{SpanOptions, is_event_sampled, is_sampled};
#[cfg(feature = "tracing-layer")]
pub(crate) use registered::find_registered;
pub(crate) use site::metadata_of;
pub(crate) use table::find;

use crate::sync::Ordering;
use crate::sync::global::AtomicU32;

/// Distinguishes the spans of one layer or subscriber from those of another, which may have the
/// same ids.
pub(crate) type Instance = u32;

/// Returns a number that no other layer or subscriber has.
pub(crate) fn new_instance() -> Instance {
    /// Any thread takes from it. Relaxed: no number may be taken twice, and nothing else matters.
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
