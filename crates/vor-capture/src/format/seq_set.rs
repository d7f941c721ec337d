//! The sequence numbers of the records that were read of a capture.

/// Most separate ranges in memory; a file needs one, and one more per gap.
const MAX_RANGES: usize = 1024;

/// A set of sequence numbers as ascending, separate, half-open ranges. An undamaged file is one
/// range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeqSet {
    ranges: Vec<(u64, u64)>,
}

impl SeqSet {
    /// Adds a number; returns whether it was new.
    pub(crate) fn insert(&mut self, seq: u64) -> bool {
        let after = self.ranges.partition_point(|&(begin, _)| begin <= seq);
        if after > 0 && seq < self.ranges[after - 1].1 {
            return false;
        }
        let joins_before = after > 0 && self.ranges[after - 1].1 == seq;
        let joins_after = self
            .ranges
            .get(after)
            .is_some_and(|range| range.0 == seq + 1);
        match (joins_before, joins_after) {
            (true, true) => {
                self.ranges[after - 1].1 = self.ranges[after].1;
                self.ranges.remove(after);
            }
            (true, false) => self.ranges[after - 1].1 = seq + 1,
            (false, true) => self.ranges[after].0 = seq,
            (false, false) => self.ranges.insert(after, (seq, seq + 1)),
        }
        if self.ranges.len() > MAX_RANGES {
            // The numbers between the two oldest ranges will hardly turn up any more.
            self.ranges[0].1 = self.ranges[1].1;
            self.ranges.remove(1);
        }
        true
    }

    /// Takes a number out.
    pub(crate) fn remove(&mut self, seq: u64) {
        let at = self.ranges.partition_point(|&(_, end)| end <= seq);
        if let Some(&(begin, end)) = self.ranges.get(at)
            && begin <= seq
        {
            let parts = [(begin, seq), (seq + 1, end)];
            self.ranges.splice(
                at..=at,
                parts.into_iter().filter(|(begin, end)| begin < end),
            );
        }
    }

    /// Takes all numbers out.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Returns the number behind the highest one; 0 when there is none.
    pub(crate) fn end(&self) -> u64 {
        self.ranges.last().map_or(0, |range| range.1)
    }

    /// Returns how many of the numbers from `begin` up to `end`, `end` excluded, are missing.
    pub(crate) fn missing(&self, begin: u64, end: u64) -> u64 {
        if begin >= end {
            return 0;
        }
        let first = self.ranges.partition_point(|range| range.1 <= begin);
        let held: u64 = self.ranges[first..]
            .iter()
            .take_while(|range| range.0 < end)
            .map(|range| range.1.min(end) - range.0.max(begin))
            .sum();
        end - begin - held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_agree_with_a_plain_list() {
        let mut state = 7_u64;
        let mut seen = SeqSet::default();
        let mut plain = [false; 64];
        for _ in 0..400 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let seq = state >> 58;
            assert_eq!(seen.insert(seq), !plain[seq as usize]);
            plain[seq as usize] = true;
            let (begin, end) = ((state >> 20) & 31, 32 + ((state >> 30) & 31));
            let missing = (begin..end).filter(|&seq| !plain[seq as usize]).count();
            assert_eq!(seen.missing(begin, end), missing as u64);
            assert!((0..64).all(|seq| (seen.missing(seq, seq + 1) == 0) == plain[seq as usize]));
            if state & 3 == 0 {
                let gone = (state >> 40) & 63;
                seen.remove(gone);
                plain[gone as usize] = false;
                assert_eq!(seen.missing(gone, gone + 1), 1);
            }
        }
        assert!(seen.ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }
}
