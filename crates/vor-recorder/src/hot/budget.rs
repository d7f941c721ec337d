//! The budget of a call site: its share of a core's time that recording its scopes may take.
//!
//! The drain asks once a second, with the number of scopes that each site has ended so far. A site
//! is over its budget if its scopes of that second cost more than the share, and is back when they
//! have cost less than half of it for [`CALM`] seconds in a row. So a site near its budget does not
//! change each second.
//!
//! ```text
//! drain ── scopes per site and second ── Account ── Registry::set_over_budget ── the site's word
//! ```

use rustc_hash::FxHashMap;

/// Seconds in a row for which a site must be below half its budget before it is recorded again.
const CALM: u32 = 5;

/// A share that no site may exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScopeBudget {
    /// Share of a core's time, from 0 to 1.
    pub(crate) share: f64,
    /// The cost of a scope, in nanoseconds.
    pub(crate) cost_ns: f64,
}

/// The costs of the sites so far.
#[derive(Debug)]
pub(crate) struct Account {
    budget: ScopeBudget,
    /// By the first id of a site.
    sites: FxHashMap<u32, SiteAccount>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SiteAccount {
    scopes: u64,
    is_over: bool,
    calm: u32,
}

/// A site that went over its budget, or came back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// The first id of the site.
    pub(crate) site: u32,
    pub(crate) is_over: bool,
    /// The share of a core's time that its scopes took, or would take if they were recorded.
    pub(crate) share: f64,
    pub(crate) per_second: f64,
}

impl Account {
    pub(crate) fn new(budget: ScopeBudget) -> Self {
        Self {
            budget,
            sites: FxHashMap::default(),
        }
    }

    pub(crate) fn budget(&self) -> ScopeBudget {
        self.budget
    }

    /// Judges the sites by the scopes that each has ended so far, `passed_ns` after the last
    /// judgement. Returns those that change. A site that is new here is judged by all its scopes.
    pub(crate) fn judge(
        &mut self,
        passed_ns: u64,
        scopes: impl IntoIterator<Item = (u32, u64)>,
    ) -> Vec<Verdict> {
        let seconds = passed_ns.max(1) as f64 / 1e9;
        let mut changed = Vec::new();
        for (site, scopes) in scopes {
            let account = self.sites.entry(site).or_default();
            let new = scopes.saturating_sub(account.scopes);
            account.scopes = scopes;
            let per_second = new as f64 / seconds;
            let share = per_second * self.budget.cost_ns / 1e9;
            let is_over = if !account.is_over {
                share > self.budget.share
            } else {
                let is_calm = share < self.budget.share / 2.0;
                account.calm = if is_calm { account.calm + 1 } else { 0 };
                account.calm < CALM
            };
            if is_over != account.is_over {
                account.is_over = is_over;
                account.calm = 0;
                changed.push(Verdict {
                    site,
                    is_over,
                    share,
                    per_second,
                });
            }
        }
        changed
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_site_goes_over_at_once_and_comes_back_after_calm_seconds() {
        // A million scopes a second take 2 % of a core.
        let budget = ScopeBudget {
            share: 0.01,
            cost_ns: 20.0,
        };
        let mut account = Account::new(budget);
        let mut scopes = 0;
        let mut run = |account: &mut Account, more: u64| {
            scopes += more;
            let changed = account.judge(SECOND, [(7, scopes), (8, 1)]);
            changed
                .iter()
                .map(|verdict| verdict.is_over)
                .collect::<Vec<_>>()
        };
        assert!(run(&mut account, 500_000).is_empty());
        assert_eq!(run(&mut account, 500_001), [true]);
        // Between half the budget and the budget it stays.
        for _ in 0..20 {
            assert!(run(&mut account, 300_000).is_empty());
        }
        for _ in 1..CALM {
            assert!(run(&mut account, 200_000).is_empty());
        }
        assert!(run(&mut account, 250_000).is_empty(), "it begins again");
        for _ in 1..CALM {
            assert!(run(&mut account, 0).is_empty());
        }
        assert_eq!(run(&mut account, 0), [false]);
        assert_eq!(run(&mut account, 1_000_000), [true]);
    }

    #[test]
    fn the_rate_is_per_second() {
        let budget = ScopeBudget {
            share: 0.5,
            cost_ns: 100.0,
        };
        let mut account = Account::new(budget);
        assert!(account.judge(2 * SECOND, [(1, 10_000_000)]).is_empty());
        let changed = account.judge(SECOND / 2, [(1, 13_000_000)]);
        assert_eq!(
            changed,
            [Verdict {
                site: 1,
                is_over: true,
                share: 0.6,
                per_second: 6_000_000.0
            }]
        );
    }
}
