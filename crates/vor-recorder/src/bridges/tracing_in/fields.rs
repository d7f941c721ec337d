//! Fields of spans as the words of arguments.
//!
//! Numbers and truth values are words already. A text goes to the ring only when its scope ends, so
//! the span keeps it till then.

use std::fmt::{self, Write as _};

use std::sync::{Mutex, MutexGuard};
use tracing::field::{Field, Visit};

use super::site::Site;
use crate::hot::args::{self, Arg, ArgWord, MAX_STR_BYTES};
use crate::hot::callsite::{Kinds, MAX_ARGS};
use crate::sync::AtomicU64;
use crate::sync::{Ordering, lock};

/// The kinds of `count` arguments without a value.
pub(super) fn kinds_of_nothing(count: usize) -> Kinds {
    (0..count).fold(0, |kinds, arg| {
        with_kind(kinds, arg, None::<bool>.encode().kind)
    })
}

/// Returns `kinds` with another kind for one argument.
#[inline]
fn with_kind(kinds: Kinds, arg: usize, kind: u32) -> Kinds {
    let shift = arg as u32 * args::KIND_BITS;
    kinds & !(0xf << shift) | kind << shift
}

/// Returns `kinds` with another kind for one argument: the one that it has in `other`.
pub(super) fn with_kind_of(kinds: Kinds, arg: usize, other: Kinds) -> Kinds {
    with_kind(kinds, arg, other >> (arg as u32 * args::KIND_BITS) & 0xf)
}

/// Returns whether an argument is a text.
pub(super) fn is_text(kinds: Kinds, arg: usize) -> bool {
    kinds >> (arg as u32 * args::KIND_BITS) & 0xf == args::TEXT
}

/// Words of a span's arguments.
pub(super) type Words = [AtomicU64; MAX_ARGS];

/// Values of some fields of a span.
pub(super) struct Values<'a> {
    site: &'static Site,
    /// The words of the arguments that were given a value. No other thread has the span's id yet.
    words: &'a Words,
    pub(super) kinds: Kinds,
    /// Bits of the arguments that were given a value.
    pub(super) given: u8,
    pub(super) has_text: bool,
    /// Whether the memory of a text is more than the next span may keep.
    pub(super) has_large_text: bool,
    /// The span's texts. They are locked from the first text until all fields are visited; no other
    /// thread has the span's id yet.
    texts: &'a Mutex<Option<Box<Texts>>>,
    locked: Option<MutexGuard<'a, Option<Box<Texts>>>>,
}

impl<'a> Values<'a> {
    #[inline]
    pub(super) fn new(
        site: &'static Site,
        kinds: Kinds,
        words: &'a Words,
        texts: &'a Mutex<Option<Box<Texts>>>,
    ) -> Self {
        Self {
            site,
            words,
            kinds,
            given: 0,
            has_text: false,
            has_large_text: false,
            texts,
            locked: None,
        }
    }

    #[inline]
    fn put(&mut self, field: &Field, value: ArgWord) {
        if let Some(arg) = self.site.arg_of(field) {
            self.words[arg].store(value.word, Ordering::Relaxed);
            self.kinds = with_kind(self.kinds, arg, value.kind);
            self.given |= 1 << arg;
        }
    }

    /// Lets `write` write the text of a field into an empty string.
    fn put_text(&mut self, field: &Field, write: impl FnOnce(&mut TruncatedText<'_>)) {
        let Some(arg) = self.site.arg_of(field) else {
            return;
        };
        let texts = self.texts;
        let texts = self.locked.get_or_insert_with(|| lock(texts));
        let place = &mut texts.get_or_insert_default().0[arg];
        place.clear();
        write(&mut TruncatedText(place));
        self.has_text = true;
        self.has_large_text |= place.capacity() > KEPT_BYTES;
        let (word, kind) = (0, args::TEXT);
        self.put(field, ArgWord { word, kind });
    }
}

impl Visit for Values<'_> {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.encode());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.encode());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.encode());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.encode());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        // Text beyond an argument's maximum is rejected, and the part that fits is kept; also
        // below.
        self.put_text(field, |place| _ = place.write_str(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put_text(field, |place| _ = write!(place, "{value:?}"));
    }
}

/// The texts of a span's arguments.
#[derive(Debug, Default)]
pub(super) struct Texts([String; MAX_ARGS]);

/// Largest capacity of a text that is kept for the next span.
const KEPT_BYTES: usize = 128;

impl Texts {
    pub(super) fn get(&self, arg: usize) -> &str {
        self.0.get(arg).map_or("", String::as_str)
    }

    /// Swaps a text with that of `other`.
    pub(super) fn swap(&mut self, arg: usize, other: &mut Self) {
        std::mem::swap(&mut self.0[arg], &mut other.0[arg]);
    }
}

/// Takes text up to the maximum of an argument.
struct TruncatedText<'a>(&'a mut String);

impl fmt::Write for TruncatedText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = args::cut(text, MAX_STR_BYTES.saturating_sub(self.0.len()));
        self.0.push_str(fits);
        if fits.len() == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}
