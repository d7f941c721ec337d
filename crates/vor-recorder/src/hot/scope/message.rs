//! Messages: a line of text at a moment of a thread.

use crate::clock;
use crate::hot::args;
use crate::hot::{record_state, thread};

/// Records a message on this thread, at this moment. Formats into a buffer on the stack. Text
/// beyond [`args::MAX_STR_BYTES`] is cut.
#[doc(hidden)]
pub fn message(text: std::fmt::Arguments<'_>) {
    if !record_state::is_on() || thread::drop_if_busy() {
        return;
    }
    let now = clock::ticks();
    if let Some(text) = text.as_str() {
        return thread::push_message(now, text);
    }
    let mut line = Line {
        bytes: [0; args::MAX_STR_BYTES],
        used: 0,
    };
    // An error means that the text did not fit; the line holds the part that did.
    let _ = std::fmt::write(&mut line, text);
    thread::push_message(now, line.as_str());
}

struct Line {
    bytes: [u8; args::MAX_STR_BYTES],
    used: usize,
}

impl Line {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.used]).unwrap_or("")
    }
}

impl std::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let fits = args::cut(text, self.bytes.len() - self.used);
        self.bytes[self.used..self.used + fits.len()].copy_from_slice(fits.as_bytes());
        self.used += fits.len();
        if fits.len() == text.len() {
            Ok(())
        } else {
            Err(std::fmt::Error)
        }
    }
}
