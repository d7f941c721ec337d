//! What became of the scopes of each call site: recorded, counted or skipped.

use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::SiteId;
use vor_capture::model::measures::Measures;
use vor_capture::model::scope_modes::ScopeMode;

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
    /// What a rule measures in addition.
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
pub(super) struct Recorded(Vec<u64>);

impl Recorded {
    /// Adds the spans of a batch, whose sites the catalog has.
    pub(super) fn add(&mut self, batch: &SpanBatch) {
        let sites = batch.catalog.sites.len() + 1;
        if self.0.len() < sites {
            self.0.resize(sites, 0);
        }
        for site in batch.threads.iter().flat_map(|thread| &thread.sites) {
            if let Some(number) = self.0.get_mut(site.0 as usize) {
                *number += 1;
            }
        }
    }

    pub(super) fn of(&self, site: SiteId) -> u64 {
        self.0.get(site.0 as usize).copied().unwrap_or(0)
    }
}
