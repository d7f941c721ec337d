//! What stands in a ring: 16-byte slots, and the records made of them.
//!
//! A record is one slot, or one slot followed by extension slots. A slot is two 64-bit words:
//!
//! ```text
//! span       word 0: start ticks       word 1: duration ticks (low 32) | tag and site (high 32)
//! extension  two more words of the same record
//! special    word 0: its own           word 1: length or site (low 32) | tag and kind (high 32)
//! ```
//!
//! The high 32 bits of word 1 hold an 8-bit tag above a 24-bit site id. In the tag, bit 7 marks a
//! special record, bit 6 a span whose duration needs more than 32 bits (its last extension slot
//! holds the high part), and the low bits count the extension slots: bits 0 to 5 of a special
//! record, bits 0 to 4 of a span. Bit 5 marks a span that is a poll of a task too, whose last
//! extension slot holds the task's id and its site; none has both bits. Arguments follow their span
//! in order, one word each; text arguments are keys of [`Special::Text`] records pushed before. A
//! key belongs to one span; with [`KEPT_TEXT`] it may belong to any number of spans, until
//! [`KEPT_TEXTS`] more such texts have been pushed.

mod memory;
pub(crate) mod queue;
#[cfg(all(test, loom))]
mod models;

pub(crate) use queue::Ring;

/// One slot: two words.
pub(crate) type Slot = [u64; 2];

/// Number of bits of a site id in a record.
pub(crate) const SITE_BITS: u32 = 24;
/// Largest site id; names beyond share it.
pub(crate) const MAX_SITE: u32 = (1 << SITE_BITS) - 1;
/// Tag bit of a record that is not a span.
pub(crate) const TAG_SPECIAL: u32 = 0x80 << SITE_BITS;
/// Tag bit of a span longer than 32 bits of ticks.
pub(crate) const TAG_LONG: u32 = 0x40 << SITE_BITS;
/// Tag bit of a span that is a poll of a task too.
pub(crate) const TAG_POLL: u32 = 0x20 << SITE_BITS;
/// Most extension slots of one record.
pub(crate) const MAX_EXTENSIONS: usize = 0x3f;
/// The same of a span.
const MAX_SPAN_EXTENSIONS: usize = 0x1f;

/// Marks the key of a text that may be the argument of any number of spans.
pub(crate) const KEPT_TEXT: u64 = 1 << 63;
/// Texts of a thread that are kept like that: a later one takes the place of the one so many
/// before.
pub(crate) const KEPT_TEXTS: u64 = 256;

/// Kinds of special records, in the site field of the tag word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Special {
    /// Text of an argument: word 0 is its key, low 32 bits of word 1 its length in bytes; bytes
    /// follow.
    Text = 1,
    /// A message: word 0 is its time in ticks, low 32 bits of word 1 its length in bytes; bytes
    /// follow.
    Message = 2,
    /// The life of a task: word 0 is its start in ticks, low 32 bits of word 1 its site; one slot
    /// follows with its id and its duration in ticks.
    Async = 3,
    /// A poll of a task: word 0 is its start in ticks, low 32 bits of word 1 the task's site; one
    /// slot follows with the task's id and the poll's duration in ticks.
    Poll = 4,
    /// A step of a task: word 0 is its time in ticks, low 32 bits of word 1 its site; one slot
    /// follows with the task's id and 0.
    Step = 5,
    /// The begin of a task that the program numbers: word 0 is its time in ticks, low 32 bits of
    /// word 1 the task's site; one slot follows with the task's id and the program's number.
    Begin = 6,
    /// A point of a flow: word 0 is its time in ticks, low 32 bits of word 1 its stage; one slot
    /// follows with the flow's id and 0.
    Flow = 7,
}

impl Special {
    pub(crate) fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Text),
            2 => Some(Self::Message),
            3 => Some(Self::Async),
            4 => Some(Self::Poll),
            5 => Some(Self::Step),
            6 => Some(Self::Begin),
            7 => Some(Self::Flow),
            _ => None,
        }
    }
}

/// Returns the number of extension slots that a tag word announces.
#[inline(always)]
pub(crate) fn extensions(tag_and_site: u32) -> usize {
    let most = if tag_and_site & TAG_SPECIAL != 0 {
        MAX_EXTENSIONS
    } else {
        MAX_SPAN_EXTENSIONS
    };
    (tag_and_site >> SITE_BITS) as usize & most
}

/// Packs word 1.
#[inline(always)]
pub(crate) fn word1(low: u32, tag_and_site: u32) -> u64 {
    u64::from(low) | u64::from(tag_and_site) << 32
}
