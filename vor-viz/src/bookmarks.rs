//! Bookmarks of a capture: times with a note.
//!
//! As text, each is a line: the time on the scale above the flame chart, a tab, and the note. Lines
//! that are not understood stay as they are.

use crate::time_text::{range_ns, range_text};

/// A time with a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// Begin and end in nanoseconds on the scale above the flame chart.
    pub time_ns: (i64, i64),
    /// The note, in one line.
    pub note: String,
}

/// The bookmarks of a capture, by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bookmarks {
    list: Vec<Bookmark>,
    /// Lines of the text that are no bookmarks.
    others: Vec<String>,
    is_changed: bool,
}

impl Bookmarks {
    /// Reads them from text.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut bookmarks = Self::default();
        for line in text.lines() {
            let (time, note) = line.split_once('\t').unwrap_or((line, ""));
            match range_ns(time) {
                Some(time_ns) => bookmarks.list.push(Bookmark {
                    time_ns,
                    note: note.to_owned(),
                }),
                None => bookmarks.others.push(line.to_owned()),
            }
        }
        bookmarks.list.sort_by_key(|bookmark| bookmark.time_ns);
        bookmarks
    }

    /// Returns them as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let bookmarks = self.list.iter().map(|bookmark| {
            let time = range_text(bookmark.time_ns);
            format!("{time}\t{}\n", bookmark.note)
        });
        let others = self.others.iter().map(|line| format!("{line}\n"));
        bookmarks.chain(others).collect()
    }

    /// Returns them by time.
    #[must_use]
    pub fn list(&self) -> &[Bookmark] {
        &self.list
    }

    /// Adds one without a note, unless there is one of this time. Returns its place.
    pub fn add(&mut self, (begin_ns, end_ns): (i64, i64)) -> usize {
        // A time has a length.
        let time_ns = (begin_ns, end_ns.max(begin_ns.saturating_add(1)));
        let place = self
            .list
            .binary_search_by_key(&time_ns, |bookmark| bookmark.time_ns);
        place.unwrap_or_else(|at| {
            let note = String::new();
            self.list.insert(at, Bookmark { time_ns, note });
            self.is_changed = true;
            at
        })
    }

    /// Sets the note of one.
    pub fn set_note(&mut self, at: usize, note: &str) {
        // Lines end where a note would go on.
        let note = note.replace(|c: char| c.is_control(), " ");
        if let Some(bookmark) = self.list.get_mut(at).filter(|it| it.note != note) {
            bookmark.note = note;
            self.is_changed = true;
        }
    }

    /// Removes one.
    pub fn remove(&mut self, at: usize) {
        if at < self.list.len() {
            self.list.remove(at);
            self.is_changed = true;
        }
    }

    /// Returns whether they changed since the last call.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_that_is_not_understood_stays() {
        let text = "2ms..3ms\tslow\n# by hand\n1ms..2ms\n5\tno range\n";
        let bookmarks = Bookmarks::parse(text);
        let times: Vec<_> = bookmarks.list().iter().map(|it| it.time_ns).collect();
        assert_eq!(times, [(1_000_000, 2_000_000), (2_000_000, 3_000_000)]);
        let again = "1ms..2ms\t\n2ms..3ms\tslow\n# by hand\n5\tno range\n";
        assert_eq!(bookmarks.to_text(), again);
    }

    #[test]
    fn a_change_is_told_once() {
        let mut bookmarks = Bookmarks::default();
        assert_eq!(bookmarks.add((5, 5)), 0);
        assert_eq!(bookmarks.list()[0].time_ns, (5, 6));
        assert!(bookmarks.take_change() && !bookmarks.take_change());
        assert_eq!(bookmarks.add((5, 6)), 0);
        assert!(!bookmarks.take_change());
        bookmarks.set_note(0, "why\tso\nlong");
        assert_eq!(bookmarks.list()[0].note, "why so long");
        assert!(bookmarks.take_change());
        bookmarks.set_note(7, "none");
        bookmarks.remove(7);
        assert!(!bookmarks.take_change());
        bookmarks.remove(0);
        assert!(bookmarks.take_change() && bookmarks.list().is_empty());
    }

    proptest! {
        #[test]
        fn bookmarks_are_read_as_they_were_written(
            given in prop::collection::vec(
                (0..10_000_i64, 1..10_000_i64, "[^\\p{C}]{0,20}"),
                0..20,
            ),
        ) {
            let mut bookmarks = Bookmarks::default();
            for (begin_ns, length_ns, note) in &given {
                let at = bookmarks.add((*begin_ns, begin_ns + length_ns));
                bookmarks.set_note(at, note);
            }
            prop_assert!(bookmarks.list().is_sorted_by_key(|it| it.time_ns));
            let read = Bookmarks::parse(&bookmarks.to_text());
            prop_assert_eq!(read.list(), bookmarks.list());
        }
    }
}
