//! Matches the scopes of two captures.
//!
//! Scopes match by name. If several call sites of a capture share a name, their places distinguish
//! them, but places move when the code is edited. So the call sites of one name match by these
//! rules:
//!
//! 1. In a file with as many before as after, in the order of their lines.
//! 2. In other files, if they are on the same line.
//! 3. If one before and one after remain, they match: the scope moved to another file.
//!
//! All others are new or gone.

use std::collections::BTreeMap;

use vor_capture::model::catalog::Catalog;
use vor_capture::stats::ScopeStats;

/// A scope in both captures, or in one of them.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one per scope, and most are in both captures"
)]
pub(super) enum Pair {
    Both {
        before: ScopeStats,
        after: ScopeStats,
    },
    Gone(ScopeStats),
    New(ScopeStats),
}

/// The statistics of a call site, and its line.
#[derive(Debug)]
struct LineStats {
    line: u32,
    stats: ScopeStats,
}

/// The call sites of one name in one file, of both captures.
#[derive(Debug, Default)]
struct FileSites {
    before: Vec<LineStats>,
    after: Vec<LineStats>,
}

impl Pair {
    pub(super) fn before(&self) -> Option<&ScopeStats> {
        match self {
            Self::Both { before, .. } | Self::Gone(before) => Some(before),
            Self::New(_) => None,
        }
    }

    pub(super) fn after(&self) -> Option<&ScopeStats> {
        match self {
            Self::Both { after, .. } | Self::New(after) => Some(after),
            Self::Gone(_) => None,
        }
    }

    /// Returns the statistics by which a row is named and sorted: those after, or before if the
    /// scope is gone.
    pub(super) fn shown(&self) -> &ScopeStats {
        match self {
            Self::Both { after, .. } => after,
            Self::Gone(one) | Self::New(one) => one,
        }
    }
}

/// Matches the rows of two captures.
pub(super) fn pair(
    before: (&Catalog, Vec<ScopeStats>),
    after: (&Catalog, Vec<ScopeStats>),
) -> Vec<Pair> {
    let mut names: BTreeMap<String, BTreeMap<String, FileSites>> = BTreeMap::new();
    for (is_after, (catalog, rows)) in [(false, before), (true, after)] {
        for stats in rows {
            let site = catalog.site(stats.site);
            let file = site.map_or("", |site| &site.file).to_owned();
            let files = names.entry(stats.name.clone()).or_default();
            let in_file = files.entry(file).or_default();
            let line = site.map_or(0, |site| site.line);
            let line_stats = LineStats { line, stats };
            if is_after {
                in_file.after.push(line_stats);
            } else {
                in_file.before.push(line_stats);
            }
        }
    }
    let mut pairs = Vec::new();
    for files in names.into_values() {
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for in_file in files.into_values() {
            in_file.pair(&mut pairs, &mut gone, &mut new);
        }
        if gone.len() == 1 && new.len() == 1 {
            let moved = gone.pop().zip(new.pop());
            pairs.extend(moved.map(|(before, after)| Pair::Both { before, after }));
        }
        pairs.extend(gone.into_iter().map(Pair::Gone));
        pairs.extend(new.into_iter().map(Pair::New));
    }
    pairs
}

impl FileSites {
    /// Matches the call sites, and adds the rest to `gone` and `new`.
    fn pair(
        mut self,
        pairs: &mut Vec<Pair>,
        gone: &mut Vec<ScopeStats>,
        new: &mut Vec<ScopeStats>,
    ) {
        // Call sites on one line, from a macro, are in the order of their first use.
        self.before
            .sort_by_key(|line_stats| (line_stats.line, line_stats.stats.site));
        self.after
            .sort_by_key(|line_stats| (line_stats.line, line_stats.stats.site));
        let is_same_number = self.before.len() == self.after.len();
        let mut after = self.after.into_iter().peekable();
        for old in self.before {
            if !is_same_number {
                while let Some(added) = after.next_if(|added| added.line < old.line) {
                    new.push(added.stats);
                }
            }
            match after.next_if(|other| is_same_number || other.line == old.line) {
                Some(other) => pairs.push(Pair::Both {
                    before: old.stats,
                    after: other.stats,
                }),
                None => gone.push(old.stats),
            }
        }
        new.extend(after.map(|added| added.stats));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vor_capture::model::catalog::{SiteId, SiteInfo};

    use super::*;
    use vor_capture::filled;

    type Sites = [(&'static str, &'static str, u32)];

    fn capture(sites: &Sites) -> (Catalog, Vec<ScopeStats>) {
        let infos = sites.iter().map(|&(name, file, line)| {
            Some(Arc::new(filled!(SiteInfo {
                name: name.into(),
                file: file.into(),
                line
            })))
        });
        let catalog = filled!(Catalog {
            sites: Arc::new(infos.collect())
        });
        let rows = (1..).zip(sites).map(|(id, &(name, ..))| {
            let mut row = ScopeStats::default();
            row.site = SiteId(id);
            row.name = name.into();
            row
        });
        (catalog, rows.collect())
    }

    /// Returns the lines of each pair, 0 for none.
    fn lines(before: &Sites, after: &Sites) -> Vec<(u32, u32)> {
        let (old, old_rows) = capture(before);
        let (new, new_rows) = capture(after);
        let line = |catalog: &Catalog, stats: Option<&ScopeStats>| {
            let site = stats.and_then(|stats| catalog.site(stats.site));
            site.map_or(0, |site| site.line)
        };
        let pairs = pair((&old, old_rows), (&new, new_rows));
        let lines = pairs
            .iter()
            .map(|pair| (line(&old, pair.before()), line(&new, pair.after())));
        let mut lines: Vec<(u32, u32)> = lines.collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn a_scope_is_matched_by_name_even_if_it_moved() {
        assert_eq!(lines(&[("a", "x.rs", 1)], &[("a", "x.rs", 9)]), [(1, 9)]);
        assert_eq!(lines(&[("a", "x.rs", 1)], &[("a", "y.rs", 2)]), [(1, 2)]);
        assert_eq!(
            lines(&[("a", "x.rs", 1)], &[("b", "x.rs", 2)]),
            [(0, 2), (1, 0)]
        );
    }

    #[test]
    fn places_distinguish_scopes_with_the_same_name() {
        let before = [("a", "x.rs", 10), ("a", "x.rs", 20), ("a", "y.rs", 5)];
        // Lines were added above both in `x.rs`.
        let moved = [("a", "x.rs", 25), ("a", "x.rs", 15), ("a", "y.rs", 5)];
        assert_eq!(lines(&before, &moved), [(5, 5), (10, 15), (20, 25)]);
        // One was removed, and one was added: only lines can decide.
        let fewer = [("a", "x.rs", 20), ("a", "y.rs", 6)];
        assert_eq!(lines(&before, &fewer), [(5, 6), (10, 0), (20, 20)]);
        let more = [
            ("a", "x.rs", 10),
            ("a", "x.rs", 12),
            ("a", "x.rs", 20),
            ("a", "y.rs", 5),
        ];
        assert_eq!(lines(&before, &more), [(0, 12), (5, 5), (10, 10), (20, 20)]);
        let elsewhere = [("a", "x.rs", 10), ("a", "y.rs", 5), ("a", "z.rs", 1)];
        assert_eq!(lines(&before, &elsewhere), [(5, 5), (10, 10), (20, 1)]);
        // Nothing decides which of two is the one that moved.
        let two = [("a", "y.rs", 2), ("a", "z.rs", 3)];
        assert_eq!(lines(&before[..1], &two), [(0, 2), (0, 3), (10, 0)]);
        assert_eq!(lines(&two, &before[..1]), [(0, 10), (2, 0), (3, 0)]);
    }
}
