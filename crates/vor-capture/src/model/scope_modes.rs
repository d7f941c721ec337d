//! How the scopes of each call site were recorded, where it was not as ever: counted, off, only if
//! long, or a sample.
//!
//! Without this, a scope that a rule switched off looks like one that never ran.

use std::fmt::{self, Display};

use super::catalog::SiteId;
use crate::sort::sort_by;

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
#[derive(Clone, Debug, Default)]
pub struct ScopeModes {
    /// By tick and site.
    changes: Vec<ScopeModeChange>,
    /// Some that came late, by tick and site. The changes of a damaged or hostile capture come in
    /// any order, and each is declared several times.
    late: Vec<ScopeModeChange>,
}

/// Most changes that are kept. Beyond, older ones of a site that has later ones are left out.
const MAX_CHANGES: usize = if cfg!(miri) { 256 } else { 1 << 16 };

/// Most changes that wait for their place.
const MAX_LATE: usize = 256;

impl ScopeModes {
    /// Adds a change. One of the same site at the same tick replaces it.
    pub fn insert(&mut self, change: ScopeModeChange) {
        let place = |changes: &[ScopeModeChange]| {
            changes.binary_search_by(|known| known.key().cmp(&change.key()))
        };
        match (place(&self.changes), place(&self.late)) {
            (Ok(at), _) => self.changes[at] = change,
            (_, Ok(at)) => self.late[at] = change,
            (Err(at), Err(0)) if at == self.changes.len() && self.late.is_empty() => {
                self.changes.push(change);
            }
            (_, Err(at)) => self.late.insert(at, change),
        }
        if self.late.len() > MAX_LATE {
            self.merge();
        }
        if self.changes.len() > MAX_CHANGES {
            self.thin();
        }
    }

    fn merge(&mut self) {
        self.changes = self.after(None).collect();
        self.late.clear();
    }

    /// Leaves out the changes that later ones replaced, but for the newest quarter.
    fn thin(&mut self) {
        self.merge();
        let newer = self.changes.split_off(MAX_CHANGES / 4 * 3);
        let mut last = last_of_sites(std::mem::take(&mut self.changes));
        last.truncate(MAX_CHANGES / 2);
        self.changes = by_time(last);
        self.changes.extend(newer);
    }

    /// Returns whether every site was recorded as ever.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.late.is_empty()
    }

    /// Returns the changes after a tick, or all, ascending by tick and site.
    pub fn after(&self, ticks: Option<u64>) -> impl Iterator<Item = ScopeModeChange> + '_ {
        let from = |changes: &[ScopeModeChange]| match ticks {
            Some(ticks) => changes.partition_point(|change| change.ticks <= ticks),
            None => 0,
        };
        let (mut at, mut late_at) = (from(&self.changes), from(&self.late));
        std::iter::from_fn(move || {
            let (next, late) = (self.changes.get(at), self.late.get(late_at));
            let is_late = match (next, late) {
                (Some(next), Some(late)) => late.key() < next.key(),
                (next, _) => next.is_none(),
            };
            if is_late {
                late_at += 1;
                return late.copied();
            }
            at += 1;
            next.copied()
        })
    }

    /// Returns the last change of each site that is not recorded as ever.
    #[must_use]
    pub fn current(&self) -> Self {
        let mut last = last_of_sites(self.after(None).collect());
        last.retain(|change| !change.mode.is_complete());
        Self {
            changes: by_time(last),
            late: Vec::new(),
        }
    }

    /// Returns the sites that were not recorded as ever at some time, each with its last mode that
    /// was not, ascending by site.
    #[must_use]
    pub fn incomplete(&self) -> Vec<(SiteId, ScopeMode)> {
        let mut changes: Vec<ScopeModeChange> = self.after(None).collect();
        changes.retain(|change| !change.mode.is_complete());
        let last = last_of_sites(changes).into_iter();
        last.map(|change| (change.site, change.mode)).collect()
    }
}

impl PartialEq for ScopeModes {
    fn eq(&self, other: &Self) -> bool {
        self.after(None).eq(other.after(None))
    }
}

impl Eq for ScopeModes {}

impl ScopeModeChange {
    const fn key(&self) -> (u64, u32) {
        (self.ticks, self.site.0)
    }
}

/// Returns the last one of each site's changes, which are sorted by time, ascending by site.
fn last_of_sites(mut changes: Vec<ScopeModeChange>) -> Vec<ScopeModeChange> {
    sort_by(&mut changes, |a, b| a.site.cmp(&b.site));
    let mut last: Vec<ScopeModeChange> = Vec::new();
    for change in changes {
        match last.last_mut() {
            Some(earlier) if earlier.site == change.site => *earlier = change,
            _ => last.push(change),
        }
    }
    last
}

fn by_time(mut changes: Vec<ScopeModeChange>) -> Vec<ScopeModeChange> {
    sort_by(&mut changes, |a, b| a.key().cmp(&b.key()));
    changes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
        assert_eq!(modes.incomplete(), incomplete);
        assert!(!modes.is_empty() && ScopeModes::default().is_empty());
    }

    /// A map is the judge.
    #[test]
    fn changes_in_any_order_are_those_of_a_map() {
        let mut random = vor_fixtures::Random(3);
        let mut modes = ScopeModes::default();
        let mut expected = BTreeMap::new();
        // Fewer than are thinned out.
        let rounds: u64 = if cfg!(miri) { 250 } else { 2_000 };
        for round in 0..rounds {
            let ticks = match random.below(3) {
                0 => random.next() % 1_000,
                _ => round,
            };
            let mode = match random.below(3) {
                0 => ScopeMode::Record,
                1 => ScopeMode::Off,
                _ => ScopeMode::Min { ns: round },
            };
            let change = change(ticks, random.below(40) as u32, mode);
            modes.insert(change);
            expected.insert((change.ticks, change.site), change);
            if round % 100 != 0 {
                continue;
            }
            let after = random.next() % 2_000;
            let later = expected.values().filter(|change| change.ticks > after);
            assert!(modes.after(Some(after)).eq(later.copied()));
            assert!(modes.after(None).eq(expected.values().copied()));
            let (mut last, mut incomplete) = (BTreeMap::new(), BTreeMap::new());
            for change in expected.values() {
                last.insert(change.site, *change);
                if !change.mode.is_complete() {
                    incomplete.insert(change.site, change.mode);
                }
            }
            last.retain(|_, change| !change.mode.is_complete());
            let mut current: Vec<_> = modes.current().after(None).collect();
            current.sort_by_key(|change| change.site);
            assert_eq!(current, last.into_values().collect::<Vec<_>>());
            assert_eq!(modes.incomplete(), Vec::from_iter(incomplete));
        }
    }

    #[test]
    fn a_site_that_changes_without_end_is_bounded_and_its_last_mode_stays() {
        let mut modes = ScopeModes::default();
        modes.insert(change(0, 1, ScopeMode::Off));
        for ticks in 1..3 * MAX_CHANGES as u64 {
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
