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

#[cfg(test)]
mod tests {
    use super::*;

    fn seek(ordinal: u64, index: u64, offset: u64, start_ticks: u64) -> Seek {
        Seek {
            ordinal,
            index,
            offset,
            start_ticks,
        }
    }

    /// Frames 0 to 9. Those from 3 to 6 have gaps between their numbers, 100 to 110, and the others
    /// none.
    fn places() -> Places {
        let seeks = vec![
            seek(0, 97, 50, 1000),
            seek(3, 100, 60, 2000),
            seek(6, 110, 70, 3000),
            seek(9, 113, 99, 4000),
        ];
        Places::new(10, seeks, &(50..100)).unwrap()
    }

    fn record(index: u64, start_ticks: u64) -> FrameRecord {
        FrameRecord {
            index,
            start_ticks,
            ..FrameRecord::default()
        }
    }

    #[test]
    fn places_ascend_within_the_records_up_to_the_last_frame() {
        let valid =
            |count, seeks: &[Seek]| Places::new(count, seeks.to_vec(), &(50..100)).is_some();
        let last = seek(2, 7, 99, 9);
        assert!(valid(0, &[]) && !valid(1, &[]));
        assert!(valid(1, &[seek(0, 5, 50, 1)]) && !valid(2, &[seek(0, 5, 50, 1)]));
        assert!(!valid(1, &[seek(0, 5, 49, 1)]) && !valid(1, &[seek(0, 5, 100, 1)]));
        assert!(!valid(2, &[seek(1, 5, 50, 1)]));
        // Numbers are as far apart as the frames at least.
        assert!(valid(3, &[seek(0, 5, 50, 1), last]) && valid(3, &[seek(0, 2, 50, 1), last]));
        assert!(!valid(3, &[seek(0, 6, 50, 1), last]) && !valid(3, &[seek(0, 8, 50, 1), last]));
        assert!(!valid(
            0,
            &[seek(0, 0, 50, 1), seek(u64::MAX, u64::MAX, 60, 2)]
        ));
    }

    #[test]
    fn a_frame_lies_between_two_places() {
        let places = places();
        for (ordinal, before, end) in [
            (0, 0, 3),
            (2, 0, 3),
            (3, 3, 6),
            (5, 3, 6),
            (8, 6, 9),
            (9, 9, 10),
            (12, 9, 10),
        ] {
            assert_eq!(places.before(ordinal).unwrap().ordinal, before);
            assert_eq!(places.end(ordinal), end);
        }
        let none = Places::new(0, Vec::new(), &(0..1)).unwrap();
        assert!(none.before(0).is_none());
        assert_eq!(none.end(0), 0);
    }

    #[test]
    fn a_record_belongs_to_the_frames_that_its_number_allows() {
        let places = places();
        for (index, start_ticks, expected) in [
            // Before all places, and the first one by its number and its start.
            (96, 1000, 0..0),
            (97, 1000, 0..1),
            (97, 1001, 0..0),
            (98, 0, 1..2),
            (99, 0, 2..3),
            (100, 2000, 3..4),
            (100, 1000, 3..3),
            // Any of those whose numbers have gaps.
            (101, 0, 4..6),
            (109, 0, 4..6),
            (110, 3000, 6..7),
            (111, 0, 7..8),
            (112, 0, 8..9),
            (113, 4000, 9..10),
            // Behind the last one.
            (114, 0, 0..0),
        ] {
            let record = record(index, start_ticks);
            assert_eq!(places.ordinals(&record), expected, "{index}");
            for ordinal in 0..11 {
                assert_eq!(places.allows(ordinal, &record), expected.contains(&ordinal));
            }
        }
    }

    /// Returns a record whose section begins with the record `first_seq`.
    fn behind(index: u64, first_seq: u32) -> FrameRecord {
        FrameRecord {
            first_seq,
            ..record(index, 0)
        }
    }

    #[test]
    fn an_ordinal_follows_from_the_number_or_the_frame_before() {
        let places = places();
        let mut ordinals = Ordinals::default();
        let mut add = |at, seq, record: &FrameRecord| ordinals.add(&places, at, seq, record);
        add(0, 10, &record(97, 1000));
        add(1, 12, &behind(98, 11));
        // Frame 2 is behind frame 5, and frame 8 is lost.
        add(2, 20, &record(100, 2000));
        add(3, 23, &behind(103, 21));
        add(4, 24, &behind(104, 24));
        add(5, 30, &behind(99, 25));
        add(6, 40, &record(110, 3000));
        add(7, 44, &behind(111, 41));
        add(9, 50, &record(113, 4000));
        // Repeated records change nothing, and neither do those of no frame.
        add(10, 51, &behind(98, 51));
        add(11, 52, &behind(114, 52));
        add(12, 53, &record(97, 1));
        let found: Vec<_> = (0..11).map(|ordinal| ordinals.find(ordinal)).collect();
        let expected = [0, 1, 5, 2, 3, 4, 6, 7];
        let mut expected: Vec<_> = expected.into_iter().map(Some).collect();
        expected.extend([None, Some(9), None]);
        assert_eq!(found, expected);
        // One stretch each for 0 and 1, 2, 3 to 5, 6 and 7, and 9.
        let stretches = ordinals.stretches.iter();
        let stretches: Vec<_> = stretches
            .map(|stretch| (stretch.ordinal, stretch.at, stretch.len))
            .collect();
        assert_eq!(
            stretches,
            [(0, 0, 2), (2, 5, 1), (3, 2, 3), (6, 6, 2), (9, 9, 1)]
        );
    }

    #[test]
    fn numbers_with_gaps_need_the_record_of_the_frame_before() {
        let places = places();
        for (seq, first_seq, found) in [
            // It begins behind that record, or elsewhere.
            (25, 21, Some(7)),
            (25, 20, None),
            (25, 22, None),
        ] {
            let mut ordinals = Ordinals::default();
            ordinals.add(&places, 6, 20, &record(100, 2000));
            ordinals.add(&places, 7, seq, &behind(105, first_seq));
            assert_eq!(ordinals.find(3), Some(6));
            assert_eq!(ordinals.find(4), found, "{first_seq}");
        }
        // A record that belongs nowhere breaks the chain, and so does the end of the gap.
        let mut ordinals = Ordinals::default();
        ordinals.add(&places, 6, 20, &record(100, 2000));
        ordinals.add(&places, 7, 21, &record(300, 0));
        ordinals.add(&places, 8, 22, &behind(105, 22));
        assert_eq!(ordinals.find(4), None);
        let mut ordinals = Ordinals::default();
        ordinals.add(&places, 6, 20, &record(100, 2000));
        for at in 7..10 {
            let first_seq = at as u32 + 14;
            ordinals.add(&places, at, at + 14, &behind(105, first_seq));
        }
        let found: Vec<_> = (3..7).map(|ordinal| ordinals.find(ordinal)).collect();
        assert_eq!(found, [Some(6), Some(7), Some(8), None]);
    }

    #[test]
    fn stretches_take_bounded_memory() {
        let frames = MAX_STRETCHES as u64 + 3;
        let seeks = vec![seek(0, 0, 0, 0), seek(frames, frames, 1, 7)];
        let places = Places::new(frames + 1, seeks, &(0..2)).unwrap();
        let mut ordinals = Ordinals::default();
        for ordinal in 0..frames {
            // None of them follows the one before it in the file.
            ordinals.add(&places, 2 * ordinal, ordinal, &record(ordinal, 0));
        }
        assert_eq!(ordinals.stretches.len(), MAX_STRETCHES);
        let last = MAX_STRETCHES as u64 - 1;
        assert_eq!(ordinals.find(last), Some(2 * last));
        assert_eq!(ordinals.find(last + 1), None);
    }
}
