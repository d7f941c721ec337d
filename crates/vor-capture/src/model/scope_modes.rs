//! How the scopes of each call site were recorded, where it was not as ever: counted, off, only if
//! long, or a sample.
//!
//! Without this, a scope that a rule switched off looks like one that never ran.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::ops::Bound;

use super::catalog::SiteId;

/// How the scopes of a call site are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScopeMode {
    /// Each one.
    #[default]
    Record,
    /// None: they are added to sums in the program.
    Count,
    /// None, and nothing is known of them.
    Off,
    /// Those that last for `ns` nanoseconds at least; the others are added to sums.
    Min {
        /// The bound, in nanoseconds.
        ns: u64,
    },
    /// One in `one_in`; the others are skipped.
    Sample {
        /// How many there are for each recorded one, on average.
        one_in: u64,
        /// Whether the scopes inside a skipped one are skipped as well.
        tree: bool,
    },
}

impl ScopeMode {
    /// Returns whether every scope is recorded.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Record)
    }

    /// Returns whether no scope is recorded.
    #[must_use]
    pub const fn is_silent(self) -> bool {
        matches!(self, Self::Count | Self::Off)
    }
}

impl Display for ScopeMode {
    /// Writes the mode as a rule does: `count`, `min:50us`, `1/100+tree`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Record => f.write_str("record"),
            Self::Count => f.write_str("count"),
            Self::Off => f.write_str("off"),
            Self::Min { ns } => {
                let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
                let unit = units.into_iter().find(|(_, unit_ns)| ns % unit_ns == 0);
                let (name, unit_ns) = unit.filter(|_| ns > 0).unwrap_or(("ns", 1));
                write!(f, "min:{}{name}", ns / unit_ns)
            }
            Self::Sample { one_in, tree } => {
                write!(f, "1/{one_in}{}", if tree { "+tree" } else { "" })
            }
        }
    }
}

/// A change of the mode of a call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeModeChange {
    /// When it happened, in ticks.
    pub ticks: u64,
    /// The call site.
    pub site: SiteId,
    /// The mode of the scopes that opened from then on.
    pub mode: ScopeMode,
}

/// Changes of modes, by time. A site without any was recorded as ever.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeModes {
    /// By tick and site. A map, because the changes of a damaged or hostile capture come in any
    /// order, and each is declared several times.
    changes: BTreeMap<(u64, SiteId), ScopeMode>,
}

/// Most changes that are kept. Beyond, older ones of a site that has later ones are left out.
const MAX_CHANGES: usize = 1 << 16;

impl ScopeModes {
    /// Adds a change. One of the same site at the same tick replaces it.
    pub fn insert(&mut self, change: ScopeModeChange) {
        self.changes
            .insert((change.ticks, change.site), change.mode);
        if self.changes.len() > MAX_CHANGES {
            self.thin();
        }
    }

    /// Leaves out the changes that later ones replaced, but for the newest quarter.
    fn thin(&mut self) {
        let newer = self.changes.keys().nth(MAX_CHANGES / 4 * 3).copied();
        let newer = newer.map_or_else(BTreeMap::new, |key| self.changes.split_off(&key));
        let mut last: BTreeMap<SiteId, (u64, ScopeMode)> = BTreeMap::new();
        for ((ticks, site), mode) in std::mem::replace(&mut self.changes, newer) {
            last.insert(site, (ticks, mode));
        }
        let last = last.into_iter().take(MAX_CHANGES / 2);
        self.changes
            .extend(last.map(|(site, (ticks, mode))| ((ticks, site), mode)));
    }

    /// Returns whether every site was recorded as ever.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the changes after a tick, or all, ascending by tick and site.
    pub fn after(&self, ticks: Option<u64>) -> impl Iterator<Item = ScopeModeChange> + '_ {
        let from = match ticks {
            Some(ticks) => Bound::Excluded((ticks, SiteId(u32::MAX))),
            None => Bound::Unbounded,
        };
        let changes = self.changes.range((from, Bound::Unbounded));
        changes.map(|((ticks, site), mode)| ScopeModeChange {
            ticks: *ticks,
            site: *site,
            mode: *mode,
        })
    }

    /// Returns the last change of each site that is not recorded as ever.
    #[must_use]
    pub fn current(&self) -> Self {
        let mut last = BTreeMap::new();
        for change in self.after(None) {
            last.insert(change.site, change);
        }
        let last = last
            .into_values()
            .filter(|change| !change.mode.is_complete());
        Self {
            changes: last
                .map(|last| ((last.ticks, last.site), last.mode))
                .collect(),
        }
    }

    /// Returns the sites that were not recorded as ever at some time, each with its last mode that
    /// was not.
    #[must_use]
    pub fn incomplete(&self) -> BTreeMap<SiteId, ScopeMode> {
        let changes = self.after(None);
        let incomplete = changes.filter(|change| !change.mode.is_complete());
        incomplete
            .map(|change| (change.site, change.mode))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn change(ticks: u64, site: u32, mode: ScopeMode) -> ScopeModeChange {
        ScopeModeChange {
            ticks,
            site: SiteId(site),
            mode,
        }
    }

    #[test]
    fn changes_are_sorted_and_come_once() {
        let mut modes = ScopeModes::default();
        let [off, count, record] = [ScopeMode::Off, ScopeMode::Count, ScopeMode::Record];
        let all = [
            change(5, 1, off),
            change(5, 2, count),
            change(7, 1, record),
            change(9, 3, off),
        ];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 0, 2, 1]] {
            order.into_iter().for_each(|at| modes.insert(all[at]));
        }
        let after = |ticks| modes.after(ticks).collect::<Vec<_>>();
        assert_eq!(after(None), all);
        assert_eq!(after(Some(5)), &all[2..]);
        assert_eq!(
            modes.current().after(None).collect::<Vec<_>>(),
            [all[1], all[3]]
        );
        let incomplete = [(1, off), (2, count), (3, off)].map(|(site, mode)| (SiteId(site), mode));
        assert_eq!(modes.incomplete(), incomplete.into());
        assert!(!modes.is_empty() && ScopeModes::default().is_empty());
    }

    #[test]
    fn a_site_that_changes_without_end_is_bounded_and_its_last_mode_stays() {
        let mut modes = ScopeModes::default();
        modes.insert(change(0, 1, ScopeMode::Off));
        for ticks in 1..200_000 {
            let mode = if ticks % 2 == 0 {
                ScopeMode::Off
            } else {
                ScopeMode::Record
            };
            modes.insert(change(ticks, 2, mode));
        }
        let count = modes.after(None).count();
        assert!((MAX_CHANGES / 8..=MAX_CHANGES).contains(&count), "{count}");
        let current: Vec<_> = modes.current().after(None).collect();
        assert_eq!(current, [change(0, 1, ScopeMode::Off)]);
    }

    #[test]
    fn a_mode_is_written_as_a_rule() {
        let texts = [
            (ScopeMode::Min { ns: 50_000 }, "min:50us"),
            (ScopeMode::Min { ns: 1_500 }, "min:1500ns"),
            (ScopeMode::Min { ns: 0 }, "min:0ns"),
            (ScopeMode::Min { ns: 2_000_000_000 }, "min:2s"),
            (
                ScopeMode::Sample {
                    one_in: 100,
                    tree: true,
                },
                "1/100+tree",
            ),
            (
                ScopeMode::Sample {
                    one_in: 3,
                    tree: false,
                },
                "1/3",
            ),
        ];
        for (mode, text) in texts {
            assert_eq!(mode.to_string(), text);
        }
    }
}
