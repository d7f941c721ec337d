//! The calls of a scope that pass some filters: all are counted, and a page of them is kept.

use std::fmt::Write;
use std::sync::Arc;

use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::stats::Histogram;

use super::page::{Order, PAGE, Page, Rank};
use crate::holder::{Holder, has_holder};
use crate::scopes::Gather;
use crate::sketch::shortened;
use crate::store::{Extent, Span, SpanPart, SpanVisitor, TrackKind};

/// A visit costs as much as this number of other spans.
const VISIT_COST: usize = 8;

/// Which calls are listed.
#[derive(Clone, Debug, PartialEq)]
pub struct FindOptions {
    /// Their call site.
    pub site: SiteId,
    /// The names of its arguments.
    pub arg_names: Arc<[Box<str>]>,
    /// Whether its calls are waits with a holder.
    pub has_holder: bool,
    /// Which spans belong to a range.
    pub extent: Extent,
    /// The shortest and the longest duration, in nanoseconds.
    pub durations_ns: (u64, u64),
    /// The threads, ascending; `None` for all.
    pub threads: Option<Arc<[ThreadId]>>,
    /// A text in lower case that the arguments must contain; empty for any.
    pub args: Box<str>,
    /// The order of the list.
    pub order: Order,
    /// The list begins after this place.
    pub after: Option<Rank>,
    /// The length of the list.
    pub most: usize,
}

impl FindOptions {
    /// Returns the options for all calls of a scope.
    #[must_use]
    pub fn all_of(site: SiteId, catalog: &Catalog) -> Self {
        let info = catalog.site(site);
        let names = info.map_or(&[][..], |site| &site.arg_names);
        Self {
            site,
            has_holder: info.is_some_and(has_holder),
            arg_names: names.iter().map(|name| Box::from(&**name)).collect(),
            extent: Extent::default(),
            durations_ns: (0, u64::MAX),
            threads: None,
            args: Box::default(),
            order: Order::default(),
            after: None,
            most: PAGE,
        }
    }

    /// Returns arguments as text: `bytes = 64, codec = lz4`.
    fn text(&self, args: &[ArgValue]) -> String {
        let mut text = String::new();
        for (i, value) in args.iter().enumerate() {
            let name = self.arg_names.get(i).map_or("?", |name| name);
            let separator = if i == 0 { "" } else { ", " };
            // Writing into a string does not fail.
            let _ = write!(text, "{separator}{name} = {value}");
        }
        text
    }
}

/// A listed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Whether it is a scope or a task.
    pub kind: TrackKind,
    /// Its thread; for a task, the thread on which it ended.
    pub thread: ThreadId,
    /// Its begin and duration.
    pub span: Span,
    /// Its arguments as text, shortened; empty without arguments.
    pub args: Box<str>,
    /// The holder of the lock as text, shortened; empty if the call is no wait for one.
    pub holder: Box<str>,
    /// Its place in the order.
    pub rank: Rank,
}

/// The calls that were found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// A page of them, in order.
    pub listed: Vec<Instance>,
    /// Number of those before the page.
    pub before: u64,
    /// Number of all calls that pass the filters.
    pub count: u64,
    /// Number of all calls of the scope in the range.
    pub all: u64,
    /// The durations of those that pass the filters.
    pub histogram: Histogram,
    /// The shortest of these durations, in nanoseconds.
    pub min_ns: u64,
    /// The longest of these durations, in nanoseconds.
    pub max_ns: u64,
}

impl Found {
    /// Returns whether calls follow after the page.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.before + (self.listed.len() as u64) < self.count
    }

    /// Returns a percentile of the durations, in nanoseconds.
    #[must_use]
    pub fn percentile_ns(&self, quantile: f64) -> u64 {
        let ns = self.histogram.value_at(quantile);
        ns.clamp(self.min_ns, self.max_ns.max(self.min_ns))
    }
}

/// Gathers [`Found`].
#[derive(Clone, Debug)]
pub struct Instances {
    options: FindOptions,
    thread: ThreadId,
    kind: TrackKind,
    page: Page<Instance>,
    found: Found,
}

impl SpanVisitor for Instances {
    #[inline]
    fn enter(&mut self, _: &Span, _: usize) {}

    #[inline]
    fn leave(&mut self, _: &Span, _: usize, _: SpanPart) {}
}

impl Gather for Instances {
    type Options = FindOptions;
    type Output = Found;

    fn new(options: &FindOptions) -> Self {
        Self {
            options: options.clone(),
            thread: ThreadId(0),
            kind: TrackKind::Scopes,
            page: Page::new(options.after, options.most),
            found: Found {
                min_ns: u64::MAX,
                ..Found::default()
            },
        }
    }

    fn extent(options: &FindOptions) -> Extent {
        options.extent
    }

    fn begin_track(&mut self, thread: ThreadId, kind: TrackKind) -> bool {
        (self.thread, self.kind) = (thread, kind);
        true
    }

    fn extra_cost(&self) -> usize {
        (self.found.all as usize).saturating_mul(VISIT_COST)
    }

    #[inline]
    fn wants(&self, span: &Span) -> bool {
        span.site == self.options.site
    }

    fn visit(&mut self, span: &Span, depth: usize, args: &[ArgValue], holder: Option<Holder>) {
        let options = &self.options;
        self.found.all += 1;
        let ns = span.duration_ns;
        let (least_ns, most_ns) = options.durations_ns;
        let is_thread = |threads: &Arc<[ThreadId]>| threads.binary_search(&self.thread).is_ok();
        if ns < least_ns || ns > most_ns || !options.threads.as_ref().is_none_or(is_thread) {
            return;
        }
        if !options.args.is_empty() {
            let text = options.text(args).to_lowercase();
            if !text.contains(&*options.args) {
                return;
            }
        }
        let found = &mut self.found;
        found.count += 1;
        found.histogram.add(ns);
        found.min_ns = found.min_ns.min(ns);
        found.max_ns = found.max_ns.max(ns);
        let (thread, kind) = (self.thread, self.kind);
        let holder = holder.filter(|_| options.has_holder);
        let holder = holder.map_or(String::new(), |holder| holder.to_string());
        let rank = Rank::of_span(options.order, thread, kind, span, depth);
        let rank = rank.with_holder(options.order, &holder);
        self.page.offer(rank, || Instance {
            kind,
            thread,
            span: *span,
            args: shortened(&options.text(args)).into(),
            holder: shortened(&holder).into(),
            rank,
        });
    }

    fn settle(&mut self, _: &Catalog, _: usize) -> bool {
        false
    }

    fn finish(self, _: usize, _: u64) -> Found {
        let (listed, before) = self.page.finish();
        Found {
            listed,
            before,
            ..self.found
        }
    }
}
