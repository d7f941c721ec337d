//! The measured values of spans, from their arguments.
//!
//! They are the last arguments of a span, which carries none of them if all are zero.

use rustc_hash::FxHashMap;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::measures::{Measured, Measures};

use super::off_cpu::OffCpu;
use super::row::Span;

/// Reads measured values, and knows the call sites that it has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasuredArgs {
    /// The measures of a site, and the number of its own arguments.
    sites: FxHashMap<SiteId, (Measures, usize)>,
}

impl MeasuredArgs {
    /// Returns the measured values of a span; `None` if it carries none.
    pub(crate) fn read(
        &mut self,
        catalog: &Catalog,
        site: SiteId,
        args: &[ArgValue],
    ) -> Option<Measured> {
        Some(self.read_both(catalog, site, args)?.1)
    }

    /// Returns the state of a span that did not run for most of its time.
    pub(crate) fn off_cpu(
        &mut self,
        catalog: &Catalog,
        span: &Span,
        args: &[ArgValue],
    ) -> Option<OffCpu> {
        let (measures, measured) = self.read_both(catalog, span.site, args)?;
        OffCpu::of(measures, &measured, span.duration_ns)
    }

    fn read_both(
        &mut self,
        catalog: &Catalog,
        site: SiteId,
        args: &[ArgValue],
    ) -> Option<(Measures, Measured)> {
        if args.is_empty() {
            return None;
        }
        let info = catalog.site(site)?;
        let (measures, own_args) = *self.sites.entry(site).or_insert_with(|| {
            let measures = Measures::of(info);
            let count = measures.arg_names().count();
            (measures, info.arg_names.len().saturating_sub(count))
        });
        let is_measured = !measures.is_none() && args.len() > own_args;
        is_measured.then(|| (measures, Measured::of(info, args)))
    }
}
