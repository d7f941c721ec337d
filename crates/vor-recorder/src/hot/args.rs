//! Arguments of scopes, and their encoding as words of a record.
//!
//! A value is one 64-bit word and its kind. The word of a number or a `bool` is its value. Text is
//! pushed into the thread's ring immediately, under a key, and the word is that key. So an open
//! scope borrows no argument and allocates nothing.

use std::borrow::Cow;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;

use vor_capture::model::batch::ArgValue;
use vor_capture::model::measures::{self, Measures};

use crate::clock;
use crate::hot::callsite::Kinds;
use crate::hot::ring::MAX_EXTENSIONS;
use crate::hot::thread;

/// Longest text of an argument or a message, in bytes. Longer text is cut at a character boundary.
pub const MAX_STR_BYTES: usize = (MAX_EXTENSIONS - 1) * 16;

/// An argument as a record holds it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ArgWord {
    pub(crate) word: u64,
    pub(crate) kind: u32,
}

const BOOL: u32 = 1;
const SIGNED: u32 = 2;
pub(crate) const UNSIGNED: u32 = 3;
pub(crate) const FLOAT: u32 = 4;
pub(crate) const TEXT: u32 = 5;
const NONE: u32 = 6;

/// Bits of one argument in [`Kinds`].
pub(crate) const KIND_BITS: u32 = 4;

/// A type that can be an argument of a scope.
///
/// Plain values are `bool`, integers up to 64 bits (`NonZero` ones included), floats, `char` and
/// text. A reference, box or shared pointer to an argument is an argument too. So is an `Option` of
/// one, which is recorded as its value or as the text `None`. The scope reads its arguments when it
/// opens. It does not move them, and borrows them no longer than that.
///
/// # Examples
///
/// ```
/// # use std::borrow::Cow;
/// let (name, size) = (String::from("a.bin"), &mut 4096_u32);
/// let from = Cow::Borrowed("disk");
/// vor_recorder::profile_scope!("read", name = name, size = size, from = from, retry = None::<u8>);
/// assert_eq!((name.len(), *size), (5, 4096));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a scope",
    note = "arguments are `bool`, integers up to 64 bits, floats, `char`, text, \
            and references and options of these"
)]
pub trait Arg: private::Sealed {
    /// Makes the record's word. Called only while recording is on.
    #[doc(hidden)]
    fn encode(&self) -> ArgWord;
}

mod private {
    pub trait Sealed {}
}

macro_rules! plain_args {
    ($($type:ty => $kind:ident, $word:expr;)*) => {$(
        impl private::Sealed for $type {}
        impl Arg for $type {
            #[inline(always)]
            fn encode(&self) -> ArgWord {
                let word: fn($type) -> u64 = $word;
                ArgWord { word: word(*self), kind: $kind }
            }
        }
    )*};
}

plain_args! {
    bool => BOOL, u64::from;
    i8 => SIGNED, |v| i64::from(v) as u64;
    i16 => SIGNED, |v| i64::from(v) as u64;
    i32 => SIGNED, |v| i64::from(v) as u64;
    i64 => SIGNED, |v| v as u64;
    isize => SIGNED, |v| v as i64 as u64;
    u8 => UNSIGNED, u64::from;
    u16 => UNSIGNED, u64::from;
    u32 => UNSIGNED, u64::from;
    u64 => UNSIGNED, |v| v;
    usize => UNSIGNED, |v| v as u64;
    f32 => FLOAT, |v| f64::from(v).to_bits();
    f64 => FLOAT, f64::to_bits;
}

macro_rules! nonzero_args {
    ($($type:ty)*) => {$(
        impl private::Sealed for NonZero<$type> {}
        impl Arg for NonZero<$type> {
            #[inline(always)]
            fn encode(&self) -> ArgWord {
                self.get().encode()
            }
        }
    )*};
}

nonzero_args! { i8 i16 i32 i64 isize u8 u16 u32 u64 usize }

impl private::Sealed for str {}
impl Arg for str {
    #[inline]
    fn encode(&self) -> ArgWord {
        ArgWord {
            word: thread::push_text(self),
            kind: TEXT,
        }
    }
}

impl private::Sealed for String {}
impl Arg for String {
    #[inline]
    fn encode(&self) -> ArgWord {
        self.as_str().encode()
    }
}

impl private::Sealed for char {}
impl Arg for char {
    #[inline]
    fn encode(&self) -> ArgWord {
        let mut bytes = [0; 4];
        let text: &str = self.encode_utf8(&mut bytes);
        text.encode()
    }
}

macro_rules! pointer_args {
    ($($pointer:ty)*) => {$(
        impl<T: private::Sealed + ?Sized> private::Sealed for $pointer {}
        impl<T: Arg + ?Sized> Arg for $pointer {
            #[inline(always)]
            fn encode(&self) -> ArgWord {
                (**self).encode()
            }
        }
    )*};
}

pointer_args! { &T &mut T Box<T> Rc<T> Arc<T> }

impl<T: private::Sealed + ToOwned + ?Sized> private::Sealed for Cow<'_, T> {}
impl<T: Arg + ToOwned + ?Sized> Arg for Cow<'_, T> {
    #[inline(always)]
    fn encode(&self) -> ArgWord {
        (**self).encode()
    }
}

impl<T: private::Sealed> private::Sealed for Option<T> {}
impl<T: Arg> Arg for Option<T> {
    #[inline]
    fn encode(&self) -> ArgWord {
        match self {
            Some(value) => value.encode(),
            None => ArgWord {
                word: 0,
                kind: NONE,
            },
        }
    }
}

/// Returns the kinds of arguments, the first lowest.
#[inline(always)]
pub(crate) fn kinds<const N: usize>(args: &[ArgWord; N]) -> Kinds {
    let mut kinds = 0;
    let mut i = N;
    while i > 0 {
        i -= 1;
        kinds = kinds << KIND_BITS | args[i].kind;
    }
    kinds
}

/// A numeric argument, by its kind, as the word of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// An `i64`.
    Signed(u64),
    /// A `u64`.
    Unsigned(u64),
    /// The bits of an `f64`.
    Float(u64),
}

/// Returns the word of the first numeric argument, or 0 if none is numeric. [`first_number`] finds
/// its kind. Only NVTX ranges use it.
#[inline(always)]
pub(crate) fn first_number_word<const N: usize>(args: &[ArgWord; N]) -> u64 {
    if cfg!(feature = "cuda") {
        args.iter()
            .find(|arg| is_number(arg))
            .map_or(0, |arg| arg.word)
    } else {
        0
    }
}

/// Returns whether an argument is a number.
#[inline(always)]
pub(crate) fn is_number(arg: &ArgWord) -> bool {
    matches!(arg.kind, SIGNED | UNSIGNED | FLOAT)
}

/// Returns the first numeric argument among these kinds; `word` is its word.
pub(crate) fn first_number(kinds: Kinds, word: u64) -> Option<Number> {
    let mut kinds = kinds;
    while kinds != 0 {
        match kinds & 0xf {
            SIGNED => return Some(Number::Signed(word)),
            UNSIGNED => return Some(Number::Unsigned(word)),
            FLOAT => return Some(Number::Float(word)),
            _ => kinds >>= KIND_BITS,
        }
    }
    None
}

/// Returns how many arguments `kinds` describes.
pub(crate) fn count(kinds: Kinds) -> usize {
    (32 - kinds.leading_zeros()).div_ceil(KIND_BITS) as usize
}

/// Decodes argument `i` of a site with `kinds` from its word, and appends it to `values`. `text`
/// returns the text that was pushed under a key, or the text `None` without a key.
///
/// Each kind has its own `push`. A value that is built first and then moved is read in one piece
/// before the stores of its parts complete.
#[inline]
pub(crate) fn decode(
    kinds: Kinds,
    i: usize,
    word: u64,
    values: &mut Vec<ArgValue>,
    text: impl FnOnce(Option<u64>) -> Arc<str>,
) {
    match kinds >> (i as u32 * KIND_BITS) & 0xf {
        BOOL => values.push(ArgValue::Bool(word != 0)),
        SIGNED => values.push(ArgValue::I64(word as i64)),
        FLOAT => values.push(ArgValue::F64(f64::from_bits(word))),
        TEXT => values.push(ArgValue::Str(text(Some(word)))),
        NONE => values.push(ArgValue::Str(text(None))),
        _ => values.push(ArgValue::U64(word)),
    }
}

/// Largest number of words of a record that hold measures.
pub(crate) const MAX_MEASURED_WORDS: usize = 9;

/// Converts the measured words of a record into the values of a span. Off-CPU time is converted
/// from ticks to nanoseconds; all other values are unchanged.
pub(crate) fn measured_values(
    measures: Measures,
    words: impl Iterator<Item = u64>,
) -> impl Iterator<Item = u64> {
    let value = |(name, word)| match name {
        measures::OFF_CPU_NS => clock::approximate_ns(word),
        _ => word,
    };
    measures.arg_names().zip(words).map(value)
}

/// Cuts text to at most `max` bytes, at a character boundary.
pub(crate) fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
