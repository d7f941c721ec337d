//! The ended spans of one thread, as far as later ones may contain them.

use super::ended::{Children, EndedSpans};
use super::nested::{Nested, NestedSpans};
use crate::model::catalog::SiteId;
use crate::model::measures::Weight;

/// Sums per call site.
pub(super) trait SiteSums<W> {
    /// Adds a span with its children.
    fn add(&mut self, site: SiteId, weight: W, inside: Children<W>);

    /// Adds spans that lie inside another one of their site.
    fn add_nested(&mut self, site: SiteId, nested: Nested<W>);
}

/// Finds what each span contains: its children, and the outermost spans of its own call site.
#[derive(Clone, Debug)]
pub(super) struct ThreadSpans<W> {
    waiting: EndedSpans<W>,
    of_sites: NestedSpans<W>,
}

impl<W> Default for ThreadSpans<W> {
    fn default() -> Self {
        Self {
            waiting: EndedSpans::default(),
            of_sites: NestedSpans::default(),
        }
    }
}

impl<W: Weight> ThreadSpans<W> {
    /// Adds the next spans that ended on the thread to `sums`: their call sites, starts and
    /// weights.
    #[inline]
    pub(super) fn add(
        &mut self,
        spans: impl ExactSizeIterator<Item = (SiteId, u64, W)>,
        sums: &mut impl SiteSums<W>,
    ) {
        let waiting = &mut self.waiting;
        self.of_sites.extend(spans.map(|(site, start, weight)| {
            let children = waiting.end(start, weight);
            sums.add(site, weight, children);
            (site, weight, children.descendants)
        }));
        self.of_sites
            .find(|site, nested| sums.add_nested(site, nested));
        self.of_sites.bound(&mut self.waiting);
    }

    /// Merges the spans that no open scope separates; see [`EndedSpans::settle`].
    pub(super) fn settle(&mut self, as_of_ticks: u64, open: &[(SiteId, u64)]) {
        let starts: Vec<u64> = open.iter().map(|&(_, start_ticks)| start_ticks).collect();
        self.waiting.settle(as_of_ticks, &starts);
        self.of_sites.settle(as_of_ticks, open, &self.waiting);
    }

    /// Begins the statistics of a part of the recording: calls that ended before it are not in its
    /// totals, so no later call contains them. Children that ended before it are still children.
    pub(super) fn restart(&mut self) {
        self.of_sites.restart();
    }

    /// Returns the number of estimates, of self times and of times in recursive calls: a span that
    /// began among more waiting spans than are held one by one has up to one of each.
    pub(super) fn estimates(&self) -> u64 {
        self.waiting.split_runs() + self.of_sites.estimates()
    }

    /// Returns an empty one for the same spans once more; see [`EndedSpans::for_second_pass`].
    pub(super) fn for_second_pass(&self) -> Self {
        Self {
            waiting: self.waiting.for_second_pass(),
            of_sites: self.of_sites.for_second_pass(),
        }
    }
}
