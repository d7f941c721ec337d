//! The scope of a wait for something without a holder: a notification, a permit, a message.

use vor_capture::model::waits::{NO_HOLDER, PREFIX};

use crate::hot::named_site::{NamedSite, Shape, ValueName};
use crate::hot::scope::{Scope, open_registered};
use crate::hot::{record_state, thread};

/// The scope of a wait, with a text after the name of the value.
pub(super) const fn shape(suffix: &'static str) -> Shape {
    Shape {
        prefix: PREFIX,
        suffix,
        category: NO_HOLDER,
        arg_names: &[],
        kinds: 0,
    }
}

/// A wait for what the value is.
pub(super) const TO_GO_ON: &Shape = &shape("");
/// A wait for a message of a channel.
pub(super) const TO_RECEIVE: &Shape = &shape(" to receive");
/// A wait for room in a channel.
pub(super) const TO_SEND: &Shape = &shape(" to send");

/// Opens the scope of a wait, which has no arguments.
pub(super) fn begin_wait(site: &NamedSite, name: ValueName) -> Scope {
    if cfg!(feature = "off") || !record_state::is_on() || thread::drop_if_busy() {
        return Scope::off();
    }
    open_registered(site.id(name).0, [])
}
