//! The number in an index of each frame, wherever damage moved its record.
//!
//! An index numbers the frames of the main set from 0 in the order in which they were written
//! (their *ordinals*), and has the places of some. A record has the number that the program gave
//! its frame; between two places whose numbers are as far apart as their ordinals, the ordinal
//! follows from it. Where the program left out numbers, it follows from the frame before, to which
//! the record leads.

use std::ops::Range;

use crate::format::{FrameRecord, Seek};

/// The main set's frames as a file's index has them.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) count: u64,
    seeks: Vec<Seek>,
}

impl Places {
    /// Takes the places of an index, which ascend, if they are valid: with numbers that are at
    /// least as far apart as their ordinals, within the records, and up to the last frame.
    pub(super) fn new(count: u64, seeks: Vec<Seek>, within: &Range<u64>) -> Option<Self> {
        let is_numbered = seeks.array_windows().all(|[a, b]| {
            let numbers = b.index.checked_sub(a.index);
            numbers.is_some_and(|numbers| numbers >= b.ordinal - a.ordinal)
        });
        let is_within = seeks.iter().all(|seek| within.contains(&seek.offset));
        let first = seeks.first().map_or(0, |seek| seek.ordinal);
        let end = seeks
            .last()
            .map_or(Some(0), |seek| seek.ordinal.checked_add(1));
        (is_numbered && is_within && first == 0 && end == Some(count))
            .then_some(Self { count, seeks })
    }

    /// Returns the last place at or before a frame.
    pub(super) fn before(&self, ordinal: u64) -> Option<&Seek> {
        let after = self.seeks.partition_point(|seek| seek.ordinal <= ordinal);
        self.seeks.get(after.checked_sub(1)?)
    }

    /// Returns the frame of the first place behind a frame, or the number of frames.
    pub(super) fn end(&self, ordinal: u64) -> u64 {
        let after = self.seeks.partition_point(|seek| seek.ordinal <= ordinal);
        self.seeks
            .get(after)
            .map_or(self.count, |seek| seek.ordinal)
    }

    /// Returns whether a record may belong to a frame.
    pub(super) fn allows(&self, ordinal: u64, record: &FrameRecord) -> bool {
        self.ordinals(record).contains(&ordinal)
    }

    /// Returns the frames to which a record may belong: one, except where the program left out
    /// numbers.
    fn ordinals(&self, record: &FrameRecord) -> Range<u64> {
        let after = self
            .seeks
            .partition_point(|seek| seek.index <= record.index);
        let Some(seek) = after.checked_sub(1).and_then(|at| self.seeks.get(at)) else {
            return 0..0;
        };
        let ahead = record.index - seek.index;
        if ahead == 0 {
            let is_it = record.start_ticks == seek.start_ticks;
            return seek.ordinal..seek.ordinal + u64::from(is_it);
        }
        let Some(next) = self.seeks.get(after) else {
            return 0..0;
        };
        if next.ordinal - seek.ordinal == next.index - seek.index {
            return seek.ordinal + ahead..seek.ordinal + ahead + 1;
        }
        seek.ordinal + 1..next.ordinal
    }
}

/// Most stretches in memory; a file needs one, and some more for each damage.
const MAX_STRETCHES: usize = 1 << 16;

/// The number in the order of the file of each frame of an index.
#[derive(Debug, Default)]
pub(super) struct Ordinals {
    /// Ascending by ordinal.
    stretches: Vec<Stretch>,
    /// Sequence number of the last record, and the frame to which it belongs.
    last: Option<(u64, u64)>,
}

/// Frames that follow one another both in the index and in the file.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    ordinal: u64,
    at: u64,
    len: u64,
}

impl Ordinals {
    /// Adds the record of frame `at` in the order of the file, whose sequence number is `seq`.
    pub(super) fn add(&mut self, places: &Places, at: u64, seq: u64, record: &FrameRecord) {
        let before = self.last.take();
        let may_be = places.ordinals(record);
        let ordinal = if may_be.end - may_be.start > 1 {
            // The record before it is that of the frame before it.
            before
                .filter(|(before, _)| before + 1 == record.first_whole_seq(seq))
                .map(|(_, ordinal)| ordinal + 1)
                .filter(|ordinal| may_be.contains(ordinal))
        } else {
            may_be.clone().next()
        };
        let Some(ordinal) = ordinal else { return };
        self.last = Some((seq, ordinal));
        let after = self
            .stretches
            .partition_point(|stretch| stretch.ordinal <= ordinal);
        if let Some(before) = after.checked_sub(1).and_then(|i| self.stretches.get_mut(i)) {
            if ordinal < before.ordinal + before.len {
                return;
            }
            if ordinal == before.ordinal + before.len && at == before.at + before.len {
                before.len += 1;
                return;
            }
        }
        if self.stretches.len() < MAX_STRETCHES {
            let len = 1;
            self.stretches.insert(after, Stretch { ordinal, at, len });
        }
    }

    /// Returns the number in the order of the file of a frame of the index, if it is there.
    pub(super) fn find(&self, ordinal: u64) -> Option<u64> {
        let after = self
            .stretches
            .partition_point(|stretch| stretch.ordinal <= ordinal);
        let stretch = self.stretches.get(after.checked_sub(1)?)?;
        let ahead = ordinal - stretch.ordinal;
        (ahead < stretch.len).then_some(stretch.at + ahead)
    }
}
