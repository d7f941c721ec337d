//! Spans of `tracing` as scopes: what the layer and the subscriber share.
//!
//! A span that is new takes a slot of a table, with its call site and the words of its fields.
//! Entering it opens a scope and puts it on a stack of the thread; leaving it ends the scope, with
//! the fields as they are then. These paths need one slot and one stack: no lock, no
//! allocation, no look-up in the registry of `tracing-subscriber`.
//!
//! ```text
//! new ──▶ site (by its description) ──▶ slot: site, words of the fields
//! enter ─▶ slot by the span's id ──────▶ scope opens, entry on the thread's stack
//! exit ──▶ entry ──────────────────────▶ scope ends with the words of the slot
//! close ─▶ slot ───────────────────────▶ the task ends where it is one, the slot is free
//! ```
//!
//! Most spans are made, entered and left by one thread within a call; that one scope is their whole
//! record, and costs two readings of the clock. A span that lives otherwise (is entered again, or
//! by another thread, or has to wait for its turn) is a *task* as well, as a future under
//! `#[profile]` is: from its creation to its closing, with the times in which it was entered as
//! polls. So its whole time (`wall`) is the task's, `wall_busy` is the sum of its polls, and
//! `wall_idle` the rest. The kind of a span is not known when it is made: the first span of a call
//! site decides for those after it. So of the first one alone, the time from its creation to its
//! first entry is missing.

mod entered;
mod event;
mod fields;
mod life;
mod sampler;
mod site;
pub(crate) mod steps;
mod table;
#[cfg(feature = "tracing-layer")]
mod near;

pub use sampler::{AlwaysSample, Probabilistic, Sampler};

pub(crate) use entered::current;
pub(crate) use event::{is_heard, is_mark, record as record_event};
pub(crate) use life::{SpanOptions, is_event_sampled, is_sampled};
#[cfg(feature = "tracing-layer")]
pub(crate) use near::find_near;
pub(crate) use site::metadata_of;
pub(crate) use table::find;

use crate::sync::Ordering;
use crate::sync::global::AtomicU32;

/// Tells the spans of one layer or subscriber from those of another, which may give the same ids.
pub(crate) type Instance = u32;

/// Returns a number that no other layer or subscriber has.
pub(crate) fn new_instance() -> Instance {
    /// Any thread takes from it (relaxed): all that counts is that no number is taken twice.
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
