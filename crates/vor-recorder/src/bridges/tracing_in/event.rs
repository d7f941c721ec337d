//! Events of `tracing` as messages, and those that end frames.

use std::fmt;

use tracing::Event;
use tracing::field::{Field, Visit};

use crate::hot::{record_state, scope, thread};

/// The field by which events of `profiling`, of Bevy and of others end a frame.
const FRAME_MARK: &str = "tracy.frame_mark";

/// Returns whether an event ends a frame, or `None` if it lacks that field and is a message.
pub(crate) fn is_mark(event: &Event<'_>) -> Option<bool> {
    event.metadata().fields().field(FRAME_MARK)?;
    let mut mark = MarkVisitor(false);
    event.record(&mut mark);
    Some(mark.0)
}

struct MarkVisitor(bool);

impl Visit for MarkVisitor {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0 |= value && field.name() == FRAME_MARK;
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// Returns whether a message of this thread is recorded now; only then are its other fields read.
/// Inside vor the message is counted as dropped.
pub(crate) fn is_recording() -> bool {
    !cfg!(feature = "off") && record_state::is_on() && !thread::drop_if_busy()
}

/// Records an event as a message: its level, its target, its text, and its other fields.
#[inline(never)]
pub(crate) fn record(event: &Event<'_>) {
    scope::message(format_args!("{}", Line(event)));
}

struct Line<'a>(&'a Event<'a>);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metadata = self.0.metadata();
        write!(f, "{} {}:", metadata.level(), metadata.target())?;
        let mut message = MessageVisitor { f, result: Ok(()) };
        self.0.record(&mut message);
        let mut others = OtherVisitor {
            result: message.result,
            f,
        };
        self.0.record(&mut others);
        others.result
    }
}

/// The name of the field that holds an event's text.
const MESSAGE: &str = "message";

/// Writes the event's text.
struct MessageVisitor<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    result: fmt::Result,
}

impl Visit for MessageVisitor<'_, '_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == MESSAGE && self.result.is_ok() {
            self.result = write!(self.f, " {value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// Writes all other fields.
struct OtherVisitor<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    result: fmt::Result,
}

impl Visit for OtherVisitor<'_, '_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != MESSAGE && self.result.is_ok() {
            self.result = write!(self.f, " {}={value:?}", field.name());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
