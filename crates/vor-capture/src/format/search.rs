//! The search for a whole record among bytes that come in pieces.
//!
//! However small the pieces are, each place is checked once: a [`Search`] remembers how far it
//! came, and which unfinished records it met.

/// The state of a search.
#[derive(Debug)]
pub(crate) struct Search {
    /// The first offset that was not checked.
    next: u64,
    /// Offsets before it at which an unfinished record may be, ascending.
    unfinished: Vec<u64>,
}

/// Most unfinished records in memory: there are more only in a file that is made of heads.
const MAX_UNFINISHED: usize = 64;

/// The bytes at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// A whole record.
    Whole,
    /// The bytes so far may become one.
    Unfinished,
    /// Not a record.
    Bad,
}

impl Search {
    /// Makes a search for a whole record behind `offset`.
    pub(crate) fn behind(offset: u64) -> Self {
        Self {
            next: offset + 1,
            unfinished: Vec::new(),
        }
    }

    /// Returns the first offset at which a record may still be found.
    pub(crate) fn begin(&self) -> u64 {
        self.unfinished.first().copied().unwrap_or(self.next)
    }

    /// Searches the bytes up to `end`, where the file ends for now, and returns the offset of the
    /// record. `probe` gets an offset, and whether it is checked for the first time, and returns
    /// what is there; it needs at least `least` bytes. Unless `at_end` says that no more bytes are
    /// there, the search waits for the first unfinished record.
    #[inline]
    pub(crate) fn advance(
        &mut self,
        end: u64,
        least: usize,
        at_end: bool,
        mut probe: impl FnMut(u64, bool) -> Candidate,
    ) -> Option<u64> {
        let mut i = 0;
        while let Some(&offset) = self.unfinished.get(i) {
            match probe(offset, false) {
                Candidate::Whole => return Some(offset),
                Candidate::Bad => drop(self.unfinished.remove(i)),
                Candidate::Unfinished if !at_end => return None,
                Candidate::Unfinished => i += 1,
            }
        }
        while self.next + least as u64 <= end {
            let offset = self.next;
            let found = probe(offset, true);
            if found == Candidate::Whole {
                return Some(offset);
            }
            self.next += 1;
            if found == Candidate::Unfinished {
                if self.unfinished.len() < MAX_UNFINISHED {
                    self.unfinished.push(offset);
                }
                if !at_end {
                    return None;
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_checked_once_however_small_the_pieces() {
        // A record that is never finished at 10, one that turns out bad at 20, and the whole one at
        // 9000.
        let at = |offset: u64, end: u64| match offset {
            10 => Candidate::Unfinished,
            20 if end < 500 => Candidate::Unfinished,
            9000 if end < 9700 => Candidate::Unfinished,
            9000 => Candidate::Whole,
            _ => Candidate::Bad,
        };
        for piece in [1, 100, 3000] {
            let (mut search, mut looks, mut found) = (Search::behind(0), 0, None);
            let ends: Vec<u64> = (1..=10_000).step_by(piece).chain([10_000]).collect();
            for &end in &ends {
                found = search.advance(end, 16, true, |offset, is_new| {
                    looks += u64::from(is_new);
                    at(offset, end)
                });
                if found.is_some() {
                    break;
                }
            }
            assert_eq!(found, Some(9000), "pieces of {piece}");
            assert!(looks < 10_000, "pieces of {piece}: {looks} looks");
        }
    }

    #[test]
    fn the_search_waits_for_the_first_unfinished_record() {
        let mut search = Search::behind(0);
        let mut at_20 = Candidate::Unfinished;
        for (end, expected) in [(100, None), (200, None), (300, Some(40))] {
            if end == 300 {
                at_20 = Candidate::Bad;
            }
            let probe = |offset, _| match offset {
                20 => at_20,
                40 => Candidate::Whole,
                _ => Candidate::Bad,
            };
            assert_eq!(
                search.advance(end, 16, false, probe),
                expected,
                "{end} bytes"
            );
        }
        assert_eq!(search.begin(), 40);
    }
}
