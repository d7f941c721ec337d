//! What the spans of a frame measured beside their length, in sums per call site.
//!
//! Spans carry it as their last arguments, and only those for which there is something to tell. All values include those of the spans inside.

use rustc_hash::FxHashMap;
use vor_core::batch::ArgValue;
use vor_core::catalog::{Catalog, SiteId};
use vor_core::measure::{Measured, Measures};

/// Sums per call site, while the arguments of a frame are looked at.
pub(super) struct FrameSums<'a> {
    catalog: &'a Catalog,
    /// How many arguments of a site are its own; `None` where nothing is measured.
    own_args: FxHashMap<SiteId, Option<usize>>,
    sums: FxHashMap<SiteId, Measured>,
}

impl<'a> FrameSums<'a> {
    pub(super) fn new(catalog: &'a Catalog) -> Self {
        Self {
            catalog,
            own_args: FxHashMap::default(),
            sums: FxHashMap::default(),
        }
    }

    /// Adds what a span measured, by its arguments.
    pub(super) fn add(&mut self, site: SiteId, args: &[ArgValue]) {
        let Some(info) = self.catalog.site(site).filter(|_| !args.is_empty()) else {
            return;
        };
        let own_args = self.own_args.entry(site).or_insert_with(|| {
            let measures = Measures::of(info);
            let count = measures.arg_names().count();
            (!measures.is_none()).then(|| info.arg_names.len().saturating_sub(count))
        });
        if own_args.is_some_and(|own_args| args.len() > own_args) {
            let sum = self.sums.entry(site).or_default();
            *sum = sum.plus(Measured::of(info, args));
        }
    }

    /// Returns the sums, ascending by call site.
    pub(super) fn finish(self) -> Vec<(SiteId, Measured)> {
        let mut sums: Vec<_> = self.sums.into_iter().collect();
        sums.sort_unstable_by_key(|(site, _)| *site);
        sums
    }
}
