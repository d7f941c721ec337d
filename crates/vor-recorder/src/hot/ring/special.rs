//! Records that are not spans, and the keys of texts.

/// Bit in the key of a text that any number of spans may have as an argument.
pub(crate) const KEPT_TEXT: u64 = 1 << 63;
/// Number of kept texts per thread. Each new one replaces the one pushed this many texts before.
pub(crate) const KEPT_TEXTS: u64 = 256;

/// Kinds of special records, in the site field of the tag word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Special {
    /// Text of an argument. Word 0: key; word 1, low: length in bytes; then the bytes.
    Text = 1,
    /// A message. Word 0: time in ticks; word 1, low: length in bytes; then the bytes.
    Message = 2,
    /// The life of a task. Word 0: start in ticks; word 1, low: site; one slot with the task's id
    /// and its duration in ticks.
    Async = 3,
    /// A poll of a task. Word 0: start in ticks; word 1, low: the task's site; one slot with the
    /// task's id and the poll's duration in ticks.
    Poll = 4,
    /// A step of a task. Word 0: time in ticks; word 1, low: the step's site; one slot with the
    /// task's id and 0.
    Step = 5,
    /// The start of a task that the program numbers. Word 0: time in ticks; word 1, low: the task's
    /// site; one slot with the task's id and the program's number.
    Begin = 6,
    /// A point of a flow. Word 0: time in ticks; word 1, low: stage; one slot with the flow's id
    /// and 0.
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
