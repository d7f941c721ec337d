//! The measured values of spans, from their arguments.
//!
//! They are the last arguments of a span, which carries none of them if all are zero.

use rustc_hash::FxHashMap;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::measures::{Measured, Measures};

/// Reads measured values, and knows the call sites that it has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasuredArgs {
    /// Number of a site's own arguments; `None` if the site measures nothing.
    own_args: FxHashMap<SiteId, Option<usize>>,
}

impl MeasuredArgs {
    /// Returns the measured values of a span; `None` if it carries none.
    pub(crate) fn read(
        &mut self,
        catalog: &Catalog,
        site: SiteId,
        args: &[ArgValue],
    ) -> Option<Measured> {
        if args.is_empty() {
            return None;
        }
        let info = catalog.site(site)?;
        let own_args = *self.own_args.entry(site).or_insert_with(|| {
            let measures = Measures::of(info);
            let count = measures.arg_names().count();
            (!measures.is_none()).then(|| info.arg_names.len().saturating_sub(count))
        });
        own_args
            .is_some_and(|own_args| args.len() > own_args)
            .then(|| Measured::of(info, args))
    }
}
