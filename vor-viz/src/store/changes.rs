//! The changes of the spans since a picture of them was painted.

use std::collections::VecDeque;

/// Number of changes that are kept: more than the frames between two passes of a panel.
const KEPT: usize = 64;

/// The last changes of the spans of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// The version after each change, and the begin of the first span that changed.
    last: VecDeque<(u64, i64)>,
    /// The version after the last change that is not in `last`.
    forgotten: u64,
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

    /// Adds a change of any spans.
    pub(super) fn all(&mut self, version: u64) {
        self.last.clear();
        self.forgotten = version;
    }

    /// Returns the begin of the first span that changed since a version; `i64::MAX` if none did.
    /// `None` if any span may have changed.
    pub(super) fn first_since(&self, version: u64) -> Option<i64> {
        if version < self.forgotten {
            return None;
        }
        let since = self.last.iter().filter(|(changed, _)| *changed > version);
        Some(
            since
                .map(|(_, begin_ns)| *begin_ns)
                .min()
                .unwrap_or(i64::MAX),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_spans_that_changed_since_a_version_is_known() {
        let mut changes = Changes::default();
        assert_eq!(changes.first_since(0), Some(i64::MAX));
        changes.add(1, 500);
        changes.add(3, 200);
        changes.add(4, 900);
        let since = [0, 1, 2, 3, 4].map(|version| changes.first_since(version));
        assert_eq!(since, [200, 200, 200, 900, i64::MAX].map(Some));
        changes.all(5);
        assert_eq!(
            [4, 5].map(|version| changes.first_since(version)),
            [None, Some(i64::MAX)]
        );
        for i in 0..KEPT as u64 + 1 {
            changes.add(6 + i, i as i64);
        }
        assert_eq!(
            [5, 6].map(|version| changes.first_since(version)),
            [None, Some(1)]
        );
    }
}
