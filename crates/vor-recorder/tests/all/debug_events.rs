//! The reasons that vor reports for debugging: its `tracing` events at the level `DEBUG`.

use std::fmt::Debug;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Calls `take` with each event from now on, in the whole process.
pub fn each(take: fn(String)) {
    tracing::subscriber::set_global_default(Events { take }).expect("no earlier subscriber");
}

struct Events {
    take: fn(String),
}

impl Visit for &Events {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        (self.take)(format!("{value:?}"));
    }
}

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::DEBUG
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        if *event.metadata().level() == Level::DEBUG && event.metadata().target() == "vor" {
            event.record(&mut &*self);
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
