//! The changes of the spans since a picture of them was painted.

use std::collections::VecDeque;
use std::ops::Range;

/// Number of changes that are kept: more than the frames between two passes of a panel.
const KEPT: usize = 64;

/// The last changes of the spans of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// The version after each change, and the begin of the first span that changed.
    last: VecDeque<(u64, i64)>,
    /// The version after the last change that is not in `last`.
    forgotten: u64,
    /// The version after spans were last removed, and the end of the last one that ever was.
    removed: Option<(u64, i64)>,
}

impl Changes {
    /// Adds a change of spans that begin at `begin_ns` or later.
    pub(super) fn add(&mut self, version: u64, begin_ns: i64) {
        self.last.push_back((version, begin_ns));
        if self.last.len() > KEPT
            && let Some((version, _)) = self.last.pop_front()
        {
            self.forgotten = version;
        }
    }

    /// Adds a removal of spans that ended at `end_ns` or before.
    pub(super) fn remove(&mut self, version: u64, end_ns: i64) {
        let before = self.removed.map_or(end_ns, |(_, before)| before);
        self.removed = Some((version, end_ns.max(before)));
    }

    /// Adds a change of any spans.
    pub(super) fn all(&mut self, version: u64) {
        self.last.clear();
        self.forgotten = version;
    }

    /// Returns the time whose spans have not changed since a version: from the end of the last one
    /// that was removed to the begin of the first one that was added or moved. `None` if any may
    /// have changed.
    pub(super) fn unchanged_since(&self, version: u64) -> Option<Range<i64>> {
        if version < self.forgotten {
            return None;
        }
        let added = self.last.iter().filter(|(changed, _)| *changed > version);
        let first_added = added.map(|(_, begin_ns)| *begin_ns).min();
        let removed = self.removed.filter(|(changed, _)| *changed > version);
        let last_removed = removed.map(|(_, end_ns)| end_ns);
        Some(last_removed.unwrap_or(i64::MIN)..first_added.unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_spans_that_changed_since_a_version_is_known() {
        let first_since = |changes: &Changes, version| {
            let unchanged = changes.unchanged_since(version)?;
            assert_eq!(unchanged.start, i64::MIN);
            Some(unchanged.end)
        };
        let mut changes = Changes::default();
        assert_eq!(first_since(&changes, 0), Some(i64::MAX));
        changes.add(1, 500);
        changes.add(3, 200);
        changes.add(4, 900);
        let since = [0, 1, 2, 3, 4].map(|version| first_since(&changes, version));
        assert_eq!(since, [200, 200, 200, 900, i64::MAX].map(Some));
        changes.all(5);
        assert_eq!(
            [4, 5].map(|version| first_since(&changes, version)),
            [None, Some(i64::MAX)]
        );
        for i in 0..KEPT as u64 + 1 {
            changes.add(6 + i, i as i64);
        }
        assert_eq!(
            [5, 6].map(|version| first_since(&changes, version)),
            [None, Some(1)]
        );
    }

    #[test]
    fn the_last_of_the_spans_that_were_removed_since_a_version_is_known() {
        let mut changes = Changes::default();
        changes.remove(2, 100);
        changes.add(3, 700);
        changes.remove(5, 300);
        // A frame that ends before an earlier one.
        changes.remove(6, 200);
        let since = [0, 2, 3, 5, 6].map(|version| changes.unchanged_since(version));
        let never = (i64::MIN, i64::MAX);
        let expected = [
            (300, 700),
            (300, 700),
            (300, i64::MAX),
            (300, i64::MAX),
            never,
        ];
        assert_eq!(since, expected.map(|(end, begin)| Some(end..begin)));
        changes.all(7);
        assert_eq!(changes.unchanged_since(6), None);
    }
}
