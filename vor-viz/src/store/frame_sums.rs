//! Sums per call site of the measured quantities of a frame's spans, beside the duration.
//!
//! Spans have these values as their last arguments, unless all are zero. Each value includes the
//! spans inside, so a recursive call adds nothing to the call around it.

use std::ops::Range;

use rustc_hash::FxHashMap;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::measures::{Measured, Measures};

/// Sums per call site, while the arguments of a frame are processed.
pub(super) struct FrameSums<'a> {
    catalog: &'a Catalog,
    /// Number of a site's own arguments; `None` if the site measures nothing.
    own_args: FxHashMap<SiteId, Option<usize>>,
    sums: FxHashMap<SiteId, Measured>,
    /// The spans of the thread that no later span of their call site contains so far.
    outermost: FxHashMap<SiteId, Vec<OutermostSpan>>,
}

/// A span whose values are in the sums.
struct OutermostSpan {
    ticks: Range<u64>,
    measured: Measured,
}

impl<'a> FrameSums<'a> {
    pub(super) fn new(catalog: &'a Catalog) -> Self {
        Self {
            catalog,
            own_args: FxHashMap::default(),
            sums: FxHashMap::default(),
            outermost: FxHashMap::default(),
        }
    }

    /// Begins the spans of another thread.
    pub(super) fn begin_thread(&mut self) {
        self.outermost.clear();
    }

    /// Adds the measured values of a span from its arguments. The spans inside it must be added
    /// before it.
    pub(super) fn add(&mut self, site: SiteId, ticks: Range<u64>, args: &[ArgValue]) {
        let Some(info) = self.catalog.site(site).filter(|_| !args.is_empty()) else {
            return;
        };
        let own_args = self.own_args.entry(site).or_insert_with(|| {
            let measures = Measures::of(info);
            let count = measures.arg_names().count();
            (!measures.is_none()).then(|| info.arg_names.len().saturating_sub(count))
        });
        if own_args.is_some_and(|own_args| args.len() > own_args) {
            let measured = Measured::of(info, args);
            let sum = self.sums.entry(site).or_default();
            let outermost = self.outermost.entry(site).or_default();
            while let Some(inside) = outermost.pop_if(|other| is_within(&other.ticks, &ticks)) {
                *sum = sum.less(inside.measured);
            }
            *sum = sum.plus(measured);
            outermost.push(OutermostSpan { ticks, measured });
        }
    }

    /// Returns the sums, ascending by call site.
    pub(super) fn finish(self) -> Vec<(SiteId, Measured)> {
        let mut sums: Vec<_> = self.sums.into_iter().collect();
        sums.sort_unstable_by_key(|(site, _)| *site);
        sums
    }
}

fn is_within(inner: &Range<u64>, outer: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}
