//! The steps of a span's life, which the subscriber and the layer call.
//!
//! Both are generic, and so are compiled again in the program's own crate. There, a thread-local
//! is read through a function pointer, and a closure that uses it is a function too. The code here
//! is compiled once, in this crate, where thread-locals are read directly. This takes half of the
//! instructions, and a third of the code in the processor's cache.

use tracing::span::{Attributes, Record};

use super::life::{self, SpanOptions};
use super::{Instance, table};
use crate::hot::thread;
use crate::sync::Ordering;

/// Ends the scope of a span that is left.
#[inline(never)]
pub(crate) fn exit(key: u64, instance: Instance) {
    life::exit(key, instance);
}

/// Spans whose ids come from vor's table.
pub(crate) mod own {
    use super::{Attributes, Instance, Ordering, Record, SpanOptions, life, table, thread};

    /// Makes a span, and returns its id; `None` if it is not followed.
    #[inline(never)]
    pub(crate) fn make(
        attributes: &Attributes<'_>,
        instance: Instance,
        options: SpanOptions,
    ) -> Option<u64> {
        // Inside `tracing_out` the span is already a scope; a dropped span is not counted.
        if thread::drop_if_busy() {
            return None;
        }
        let (key, slot) = table::claim_next(instance)?;
        life::make(slot, key, attributes, options);
        Some(key)
    }

    /// Records fields of a span that was made before.
    #[inline(never)]
    pub(crate) fn record(key: u64, instance: Instance, values: &Record<'_>) {
        if let Some((_, slot)) = table::find(key, instance) {
            life::record(slot, values);
        }
    }

    /// Opens a scope for a span that is entered.
    #[inline(never)]
    pub(crate) fn enter(key: u64, instance: Instance) {
        if let Some((_, slot)) = table::find(key, instance) {
            life::enter(slot, key, instance);
        }
    }

    /// Counts one more handle of a span.
    #[inline(never)]
    pub(crate) fn clone_handle(key: u64, instance: Instance) {
        if let Some((_, slot)) = table::find(key, instance) {
            slot.handles.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Drops a handle of a span, and ends the span with the last one. Returns whether it did.
    #[inline(never)]
    pub(crate) fn drop_handle(key: u64, instance: Instance) -> bool {
        let Some((place, slot)) = table::find(key, instance) else {
            return false;
        };
        // If this is the only handle, no other thread can use it, and no atomic subtraction is
        // needed.
        let is_last = slot.handles.load(Ordering::Acquire) == 1
            || slot.handles.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            life::close(place, slot);
        }
        is_last
    }
}

/// Spans whose ids come from a registry.
#[cfg(feature = "tracing-layer")]
pub(crate) mod registered {
    use super::super::registered;
    use super::{Attributes, Instance, Record, SpanOptions, life};

    /// Makes a span, if there is room for it.
    #[inline(never)]
    pub(crate) fn make(
        key: u64,
        attributes: &Attributes<'_>,
        instance: Instance,
        options: SpanOptions,
    ) {
        if let Some((_, slot)) = registered::claim(key, instance) {
            life::make(slot, key, attributes, options);
        }
    }

    /// Records fields of a span that was made before.
    #[inline(never)]
    pub(crate) fn record(key: u64, instance: Instance, values: &Record<'_>) {
        if let Some((_, slot)) = registered::find_registered(key, instance) {
            life::record(slot, values);
        }
    }

    /// Opens a scope for a span that is entered.
    #[inline(never)]
    pub(crate) fn enter(key: u64, instance: Instance) {
        if let Some((_, slot)) = registered::find_registered(key, instance) {
            life::enter(slot, key, instance);
        }
    }

    /// Ends a span.
    #[inline(never)]
    pub(crate) fn close(key: u64, instance: Instance) {
        if let Some((place, slot)) = registered::find_registered(key, instance) {
            life::close(place, slot);
        }
    }
}
