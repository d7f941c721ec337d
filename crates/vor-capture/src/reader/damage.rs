//! The losses of a capture.

/// Most losses in the list; the rest is only counted.
const MAX_LOSSES: usize = 1000;

/// All parts of a capture that could not be read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The first losses, in the order in which they were met.
    pub losses: Vec<Loss>,
    /// Number of losses, in the list or not.
    pub count: u64,
    /// Bytes of the file that were skipped.
    pub bytes: u64,
    /// The incomplete record at the end. In a file that still grows it is the record being written,
    /// in any other it is lost.
    pub tail: Option<Loss>,
}

/// One piece of a capture that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// Where it begins in the file.
    pub offset: u64,
    /// How many bytes were skipped; 0 when a missing record left no bytes, or when only a part of a
    /// record was lost.
    pub bytes: u64,
    /// The reason, in one line.
    pub reason: String,
}

impl Damage {
    /// Returns whether nothing was lost, not even at the end.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.count == 0 && self.tail.is_none()
    }

    pub(crate) fn add(&mut self, loss: Loss) {
        self.count += 1;
        self.bytes += loss.bytes;
        if self.losses.len() < MAX_LOSSES {
            self.losses.push(loss);
        }
    }
}
