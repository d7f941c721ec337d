//! Numbers of recorded, counted and skipped scopes, by call site.

use rustc_hash::FxHashSet;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::measures::Measures;
use vor_capture::model::scope_modes::ScopeMode;

use crate::hot::budget::{ScopeBudget, Verdict};

/// How the scopes of a call site are recorded now, and how many there were.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScopeState {
    /// The call site. One with arguments of several types, or with measures, has several.
    pub site: SiteId,
    /// Its name.
    pub name: String,
    /// How the scopes are recorded that open now, on a thread for which there is no rule.
    pub mode: ScopeMode,
    /// The measures that a rule adds.
    pub measures: Measures,
    /// Whether it is counted because it exceeded its [budget](crate::setup::Config::scope_budget).
    pub over_budget: bool,
    /// Scopes that were recorded and have reached the sinks, since rules or a budget were first
    /// set.
    pub recorded: u64,
    /// Scopes that were counted when they ended.
    pub counted: u64,
    /// Scopes that a sample left out, and those inside them if it leaves out whole trees. Scopes
    /// that are off are nowhere counted.
    pub skipped: u64,
}

/// Number of spans that were collected, by call site.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    spans: Vec<u64>,
    /// The sites of which a line has said that they are over their budget.
    reported: FxHashSet<u32>,
}

impl Recorded {
    /// Adds the spans of a batch, whose sites the catalog has.
    pub(super) fn add(&mut self, batch: &SpanBatch) {
        let sites = batch.catalog.sites.len() + 1;
        if self.spans.len() < sites {
            self.spans.resize(sites, 0);
        }
        for site in batch.threads.iter().flat_map(|thread| &thread.sites) {
            if let Some(number) = self.spans.get_mut(site.0 as usize) {
                *number += 1;
            }
        }
    }

    /// Returns a line about a site that is over its budget for the first time.
    pub(super) fn line(
        &mut self,
        catalog: &Catalog,
        budget: ScopeBudget,
        verdict: Verdict,
    ) -> Option<String> {
        let is_first = verdict.is_over && self.reported.insert(verdict.site);
        is_first.then(|| {
            format!(
                "scope `{}` takes {:.1} % of a core ({:.0} a second, {:.0} ns each), more than its \
                budget of {} %; it is counted instead of recorded until it takes less than half",
                catalog.site_name(SiteId(verdict.site)),
                verdict.share * 100.0,
                verdict.per_second,
                budget.cost_ns,
                budget.share * 100.0
            )
        })
    }

    pub(super) fn of(&self, site: SiteId) -> u64 {
        self.spans.get(site.0 as usize).copied().unwrap_or(0)
    }
}
