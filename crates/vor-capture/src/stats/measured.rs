//! Sums of the measures of spans beside their duration: CPU time and allocations, of each call site
//! with and without the spans inside.
//!
//! Only spans that measured something carry values, and the values of a span include those of the
//! spans inside it. So the spans with values nest among themselves, and [`ThreadSpans`] finds what
//! each contains, as it does with durations.

use rustc_hash::FxHashMap;

use super::ended::Children;
use super::nested::Nested;
use super::thread_spans::{SiteSums, ThreadSpans};
use crate::model::batch::{SpanArgs, ThreadBatch};
use crate::model::catalog::{Catalog, SiteId, ThreadId};
use crate::model::measures::{Measured, Measures};

/// Sums per call site, and the state to add more spans.
#[derive(Clone, Debug, Default)]
pub(super) struct MeasuredSums {
    sites: FxHashMap<SiteId, Sums>,
    /// The measures of a call site, and the number of its own arguments.
    known: FxHashMap<SiteId, (Measures, usize)>,
    threads: FxHashMap<ThreadId, ThreadSpans<Measured>>,
    estimates: u64,
}

/// The sums of one call site.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) total: Measured,
    pub(super) own: Measured,
}

impl SiteSums<Measured> for FxHashMap<SiteId, Sums> {
    fn add(&mut self, site: SiteId, measured: Measured, inside: Children<Measured>) {
        let sums = self.entry(site).or_default();
        sums.total = sums.total.plus(measured);
        sums.own = sums.own.plus(measured.less(inside.sum));
    }

    fn add_nested(&mut self, site: SiteId, nested: Nested<Measured>) {
        let sums = self.entry(site).or_default();
        sums.total = sums.total.less(nested.sum);
    }
}

impl MeasuredSums {
    /// Adds the measures of the spans of a batch. The batches of a thread must come in their order.
    pub(super) fn add(&mut self, catalog: &Catalog, batch: &ThreadBatch) {
        let spans: Vec<_> = batch
            .args
            .iter()
            .filter_map(|args| self.measured_span(catalog, batch, args))
            .collect();
        if !spans.is_empty() {
            let thread = self.threads.entry(batch.thread).or_default();
            thread.add(spans.into_iter(), &mut self.sites);
        }
    }

    /// Returns the call site, the start and the values of a span that measured something.
    fn measured_span(
        &mut self,
        catalog: &Catalog,
        batch: &ThreadBatch,
        args: &SpanArgs,
    ) -> Option<(SiteId, u64, Measured)> {
        let place = args.span as usize;
        let (&site, &start_ticks) = (batch.sites.get(place)?, batch.start_ticks.get(place)?);
        let info = catalog.site(site)?;
        let (measures, own_args) = *self.known.entry(site).or_insert_with(|| {
            let measures = Measures::of(info);
            let count = measures.arg_names().count();
            (measures, info.arg_names.len().saturating_sub(count))
        });
        if measures.is_none() || args.values.len() <= own_args {
            return None;
        }
        Some((site, start_ticks, Measured::of(info, &args.values)))
    }

    pub(super) fn end_thread(&mut self, thread: ThreadId) {
        if let Some(spans) = self.threads.remove(&thread) {
            self.estimates += spans.estimates();
        }
    }

    /// Merges the spans that no open scope of the thread separates.
    pub(super) fn settle(&mut self, thread: ThreadId, as_of_ticks: u64, open: &[(SiteId, u64)]) {
        if let Some(spans) = self.threads.get_mut(&thread) {
            spans.settle(as_of_ticks, open);
        }
    }

    /// Forgets the sums so far, but not which spans ended.
    pub(super) fn restart(&mut self) {
        self.sites.clear();
        self.threads.values_mut().for_each(ThreadSpans::restart);
    }

    /// Returns the number of estimates.
    pub(super) fn estimates(&self) -> u64 {
        let running: u64 = self.threads.values().map(ThreadSpans::estimates).sum();
        self.estimates + running
    }

    /// Returns sums of no spans that need no estimate for the same spans.
    pub(super) fn for_second_pass(&self) -> Self {
        let threads = self.threads.iter();
        Self {
            threads: threads
                .map(|(&thread, spans)| (thread, spans.for_second_pass()))
                .collect(),
            ..Self::default()
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (&site, sums) in &other.sites {
            let mine = self.sites.entry(site).or_default();
            mine.total = mine.total.plus(sums.total);
            mine.own = mine.own.plus(sums.own);
        }
        for (&thread, spans) in &other.threads {
            let estimates = &mut self.estimates;
            self.threads
                .entry(thread)
                .and_modify(|_| *estimates += spans.estimates())
                .or_insert_with(|| spans.clone());
        }
        self.estimates += other.estimates;
    }

    /// Returns the sum of the chosen call sites without the spans inside; `None` without a span.
    pub(super) fn own(&self, chosen: impl Fn(SiteId) -> bool) -> Option<Measured> {
        let sums = self.sites.iter().filter(|(site, _)| chosen(**site));
        sums.map(|(_, sums)| sums.own).reduce(Measured::plus)
    }

    pub(super) fn of(&self, site: SiteId) -> Sums {
        self.sites.get(&site).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::ended::FOLD_AT;
    use super::*;
    use crate::model::batch::{ArgValue, SpanArgs};
    use crate::model::catalog::SiteInfo;

    #[test]
    fn children_are_not_their_parents_own_however_many_there_are() {
        let site = |own: &[&'static str]| {
            let names = own.iter().copied().chain(Measures::CPU.arg_names());
            Some(Arc::new(SiteInfo {
                arg_names: names.map(Into::into).collect(),
                ..SiteInfo::default()
            }))
        };
        let catalog = Catalog {
            sites: Arc::new(vec![site(&[]), site(&["n"])]),
            ..Catalog::default()
        };
        let children = 3 * FOLD_AT as u64;
        let mut sums = MeasuredSums::default();
        for i in 0..=children {
            let is_parent = i == children;
            let mut values = vec![ArgValue::U64(if is_parent { children + 7 } else { 1 })];
            if !is_parent {
                values.insert(0, ArgValue::I64(-5));
            }
            let batch = ThreadBatch {
                start_ticks: vec![if is_parent { 0 } else { 10 + i }],
                duration_ticks: vec![1],
                sites: vec![SiteId(if is_parent { 1 } else { 2 })],
                args: vec![SpanArgs { span: 0, values }],
                ..ThreadBatch::default()
            };
            sums.add(&catalog, &batch);
        }
        let parent = sums.of(SiteId(1));
        assert_eq!(
            (parent.total.off_cpu_ns, parent.own.off_cpu_ns),
            (children + 7, 7)
        );
        let child = sums.of(SiteId(2));
        assert_eq!(
            (child.total.off_cpu_ns, child.own.off_cpu_ns),
            (children, children)
        );
    }
}
