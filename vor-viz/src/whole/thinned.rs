//! The spans of a capture or of a part of it, thinned to what a picture needs.
//!
//! Spans of at least a *bin* of time are kept. Of the shorter ones, the longest that begins in each
//! bin is kept in each row, and of the tasks of each call site. A picture with pixels of at least a
//! bin needs no others, because a pixel shows the longest of the short spans that begin in it. Bins
//! are powers of two of a nanosecond, so what was thinned can be thinned again. Of the short polls
//! of tasks, a thread keeps the longest of each bin.
//!
//! Spans come from the last one to the first; see [`Backwards`](super::backwards::Backwards).

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::reader::PartFrame;

use super::backwards::{Moment, Opened, Visitor};
use crate::store::{
    FrameBlock, Layer, LayerTotals, MeasuredArgs, MetricBins, OffCpu, Poll, RowBlock, Span, Store,
    Task, ThreadBlock, TrackId, TrackKind,
};

/// Spans, and what else a chart shows, thinned when it is too much.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Thinned {
    /// A bin is two to the power of this, in nanoseconds; `None` keeps everything.
    bin: Option<u32>,
    /// The first bin, where everything is too much.
    first_bin: u32,
    max_spans: usize,
    kept: usize,
    /// Only spans that overlap this time are kept.
    within: (i64, i64),
    threads: FxHashMap<ThreadId, Lanes>,
    /// The thread that is being visited, which is not among the others.
    current: (ThreadId, Lanes),
    metrics: MetricBins,
    /// Only needed while spans come.
    #[serde(skip)]
    catalog: Arc<Catalog>,
    #[serde(skip)]
    measured: MeasuredArgs,
}

/// The kept spans and tasks of a thread, the last first.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Lanes {
    rows: Vec<Lane>,
    tasks: FxHashMap<SiteId, Tasks>,
    block: ThreadBlock,
    spans: u64,
}

/// The kept tasks of a call site, the last first.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Tasks {
    kept: Vec<Task>,
    /// The longest short task of the last bin.
    short: Option<Task>,
    count: u64,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Lane {
    kept: RowBlock,
    /// The longest short span of the last bin, and its state.
    short: Option<(Span, Option<OffCpu>)>,
}

impl Lane {
    /// Adds a span; returns how many more are kept.
    #[inline]
    fn add(
        &mut self,
        span: &Span,
        args: &[ArgValue],
        off_cpu: Option<OffCpu>,
        bin: Option<u32>,
    ) -> usize {
        let Some(bin) = bin.filter(|&bin| span.duration_ns < 1 << bin) else {
            let flushed = self.flush();
            if !args.is_empty() {
                self.kept.args.push((self.kept.len() as u32, args.into()));
            }
            self.keep(span, off_cpu);
            return flushed + 1;
        };
        if let Some(short) = &mut self.short
            && short.0.begin_ns >> bin == span.begin_ns >> bin
        {
            if span.duration_ns >= short.0.duration_ns {
                *short = (*span, off_cpu);
            }
            return 0;
        }
        let flushed = self.flush();
        self.short = Some((*span, off_cpu));
        flushed
    }

    fn keep(&mut self, span: &Span, off_cpu: Option<OffCpu>) {
        let at = self.kept.len() as u32;
        self.kept.off_cpu.extend(off_cpu.map(|state| (at, state)));
        self.kept.push(span.begin_ns, span.duration_ns, span.site);
    }

    fn flush(&mut self) -> usize {
        let Some((short, off_cpu)) = self.short.take() else {
            return 0;
        };
        self.keep(&short, off_cpu);
        1
    }

    /// Thins the kept spans again; returns their number.
    fn thin(&mut self, bin: u32) -> usize {
        self.flush();
        let before = std::mem::take(&mut self.kept);
        let (mut long, mut args) = (before.long_ns.iter(), before.args.into_iter().peekable());
        let mut off_cpu = before.off_cpu.into_iter().peekable();
        let mut kept = 0;
        for (i, (&begin_ns, &short_ns)) in
            before.begin_ns.iter().zip(&before.duration_ns).enumerate()
        {
            let duration_ns = match short_ns {
                u32::MAX => long.next().map_or(u64::from(u32::MAX), |long| long.1),
                short_ns => u64::from(short_ns),
            };
            let span = Span {
                begin_ns,
                duration_ns,
                site: before.sites[i],
            };
            let args = args.next_if(|(at, _)| *at as usize == i);
            let is_long = duration_ns >= 1 << bin;
            let off_cpu = off_cpu.next_if(|(at, _)| *at as usize == i);
            let off_cpu = off_cpu.map(|(_, state)| state);
            let added = self.add(&span, &[], off_cpu, Some(bin));
            if is_long && let Some((_, values)) = args {
                self.kept.args.push((self.kept.len() as u32 - 1, values));
            }
            kept += added;
        }
        kept
    }
}

impl Thinned {
    /// Makes an empty one for the spans that overlap a time. It is thinned to bins of at most
    /// `bin_ns`, at least if it would hold more than `max_spans`.
    pub(crate) fn new(within: (i64, i64), bin_ns: u64, max_spans: usize) -> Self {
        Self {
            bin: None,
            first_bin: bin_ns.max(1).ilog2(),
            max_spans,
            kept: 0,
            within,
            threads: FxHashMap::default(),
            current: (ThreadId(0), Lanes::default()),
            metrics: MetricBins::default(),
            catalog: Arc::default(),
            measured: MeasuredArgs::default(),
        }
    }

    /// Sets the catalog of the spans that follow.
    pub(crate) fn set_catalog(&mut self, catalog: &Arc<Catalog>) {
        self.catalog = Arc::clone(catalog);
    }

    /// Thins to wider bins while there is too much.
    pub(crate) fn keep_to_limit(&mut self) {
        if self.kept <= self.max_spans {
            return;
        }
        self.go_to(ThreadId(u32::MAX));
        while self.kept > self.max_spans {
            let bin = self.bin.map_or(self.first_bin, |bin| bin + 1);
            if bin >= 62 {
                return;
            }
            self.bin = Some(bin);
            self.kept = self.threads.values_mut().map(|lanes| lanes.thin(bin)).sum();
        }
    }

    /// Goes to a thread.
    fn go_to(&mut self, thread: ThreadId) {
        if self.current.0 != thread {
            let lanes = self.threads.remove(&thread).unwrap_or_default();
            let (before, lanes) = std::mem::replace(&mut self.current, (thread, lanes));
            self.threads.insert(before, lanes);
        }
    }

    fn all(&self) -> impl Iterator<Item = (ThreadId, &Lanes)> {
        let current = std::iter::once((self.current.0, &self.current.1));
        let others = self.threads.iter();
        others
            .map(|(&thread, lanes)| (thread, lanes))
            .chain(current)
    }

    fn is_within(&self, begin_ns: i64, end_ns: i64) -> bool {
        begin_ns <= self.within.1 && end_ns >= self.within.0
    }

    /// Returns the numbers of spans and tasks by track.
    pub(crate) fn totals(&self) -> LayerTotals {
        let mut totals = LayerTotals::default();
        for (thread, lanes) in self.all() {
            if lanes.spans > 0 {
                totals.insert(TrackId::Scopes(thread), (lanes.spans, lanes.rows.len()));
            }
            for (&site, tasks) in &lanes.tasks {
                totals.entry(TrackId::Tasks(site)).or_default().0 += tasks.count;
            }
        }
        totals
    }

    /// Returns what is kept, to be drawn.
    pub(crate) fn layer(&self, catalog: &Arc<Catalog>, totals: &LayerTotals) -> Layer {
        let mut block = FrameBlock {
            catalog: Arc::clone(catalog),
            threads: self
                .all()
                .map(|(thread, lanes)| lanes.block(thread))
                .collect(),
            ..FrameBlock::default()
        };
        block.threads.sort_by_key(|block| block.thread);
        let mut store = Store::new(1, usize::MAX);
        store.add_spans(&block);
        let bin_ns = self.bin.map_or(0, |bin| 1 << bin);
        let metrics = self.metrics.clone();
        Layer::new(store, self.within, bin_ns, totals, metrics)
    }
}

impl Lanes {
    fn thin(&mut self, bin: u32) -> usize {
        let mut kept: usize = self.tasks.values_mut().map(|tasks| tasks.thin(bin)).sum();
        let mut last = i64::MAX;
        self.block.messages.retain(|message| {
            let is_first = message.ns >> bin != last;
            last = message.ns >> bin;
            is_first
        });
        let mut last = i64::MAX;
        self.block.steps.retain(|step| {
            let is_first = step.ns >> bin != last;
            last = step.ns >> bin;
            is_first
        });
        for poll in std::mem::take(&mut self.block.polls) {
            add_poll(&mut self.block.polls, poll, Some(bin));
        }
        self.block.begins.clear();
        self.block.flows.clear();
        kept += self.block.messages.len() + self.block.steps.len() + self.block.polls.len();
        kept + self.rows.iter_mut().map(|row| row.thin(bin)).sum::<usize>()
    }

    /// Returns the block of all that is kept, in the order of time.
    fn block(&self, thread: ThreadId) -> ThreadBlock {
        let mut block = self.block.clone();
        block.thread = thread;
        block.messages.reverse();
        block.messages.sort_by_key(|message| message.ns);
        block.steps.reverse();
        block.steps.sort_by_key(|step| step.ns);
        block.begins.reverse();
        block.flows.reverse();
        block.flows.sort_by_key(|point| point.ns);
        block.tasks = self.tasks.values().flat_map(Tasks::kept).collect();
        block
            .tasks
            .sort_by_key(|task| task.begin_ns.saturating_add_unsigned(task.duration_ns));
        block.rows = self.rows.iter().map(Lane::ascending).collect();
        block
    }
}

/// Adds a poll to those of a thread, the last first; returns whether there is one more. A short one
/// takes the place of a shorter one of its bin.
fn add_poll(polls: &mut Vec<Poll>, poll: Poll, bin: Option<u32>) -> bool {
    if let Some(bin) = bin.filter(|&bin| poll.duration_ns < 1 << bin)
        && let Some(last) = polls.last_mut()
        && last.duration_ns < 1 << bin
        && last.begin_ns >> bin == poll.begin_ns >> bin
    {
        if poll.duration_ns >= last.duration_ns {
            *last = poll;
        }
        return false;
    }
    polls.push(poll);
    true
}

impl Tasks {
    /// Adds a task; returns how many more are kept.
    fn add(&mut self, task: Task, bin: Option<u32>) -> usize {
        let Some(bin) = bin.filter(|&bin| task.duration_ns < 1 << bin) else {
            self.kept.push(task);
            return 1;
        };
        if let Some(short) = &mut self.short
            && short.begin_ns >> bin == task.begin_ns >> bin
        {
            if task.duration_ns >= short.duration_ns {
                *short = task;
            }
            return 0;
        }
        match self.short.replace(task) {
            Some(short) => {
                self.kept.push(short);
                1
            }
            None => 0,
        }
    }

    /// Thins the kept tasks again; returns their number.
    fn thin(&mut self, bin: u32) -> usize {
        let again = std::mem::take(&mut self.kept);
        let again = again.into_iter().chain(self.short.take());
        again.map(|task| self.add(task, Some(bin))).sum()
    }

    fn kept(&self) -> impl Iterator<Item = Task> {
        self.kept.iter().copied().chain(self.short)
    }
}

impl Lane {
    fn ascending(&self) -> RowBlock {
        let mut lane = Self {
            kept: RowBlock::default(),
            short: self.short,
        };
        lane.kept.clone_from(&self.kept);
        lane.flush();
        let mut row = lane.kept;
        let last = row.len().saturating_sub(1) as u32;
        row.begin_ns.reverse();
        row.duration_ns.reverse();
        row.sites.reverse();
        row.long_ns.reverse();
        row.args.reverse();
        row.long_ns
            .iter_mut()
            .for_each(|long| long.0 = last - long.0);
        row.args.iter_mut().for_each(|args| args.0 = last - args.0);
        row.off_cpu.reverse();
        row.off_cpu
            .iter_mut()
            .for_each(|state| state.0 = last - state.0);
        row
    }
}

impl Visitor for Thinned {
    fn begin_track(&mut self, thread: ThreadId, _: TrackKind, _: &[Opened]) -> bool {
        self.keep_to_limit();
        self.go_to(thread);
        true
    }

    #[inline]
    fn enter(&mut self, span: &Span, depth: usize, args: &[ArgValue]) -> u32 {
        let (bin, is_within) = (self.bin, self.is_within(span.begin_ns, span.end_ns()));
        let lanes = &mut self.current.1;
        lanes.spans += 1;
        if depth >= lanes.rows.len() {
            lanes.rows.resize_with(depth + 1, Lane::default);
        }
        if is_within {
            let off_cpu = self.measured.off_cpu(&self.catalog, span, args);
            self.kept += lanes.rows[depth].add(span, args, off_cpu, bin);
        }
        0
    }

    fn leave(&mut self, _: &Opened, _: usize) {}

    fn task(&mut self, task: Task) {
        let end_ns = task.begin_ns.saturating_add_unsigned(task.duration_ns);
        let (bin, is_within) = (self.bin, self.is_within(task.begin_ns, end_ns));
        let tasks = self.current.1.tasks.entry(task.site).or_default();
        tasks.count += 1;
        if is_within {
            self.kept += tasks.add(task, bin);
        }
    }

    fn frame(&mut self, time_ns: (i64, i64), frame: &PartFrame) {
        if self.is_within(time_ns.0, time_ns.1) {
            let values = frame.metrics.iter();
            let values = values.map(|value| (value.column, value.value));
            self.metrics.add(time_ns, values);
        }
    }

    fn moment(&mut self, moment: Moment) {
        let time_ns = moment.time_ns();
        if time_ns.is_some_and(|(begin_ns, end_ns)| !self.is_within(begin_ns, end_ns)) {
            return;
        }
        let bin = self.bin;
        let block = &mut self.current.1.block;
        let is_near = |last: Option<i64>| {
            let bin = bin?;
            Some(last? >> bin == time_ns?.0 >> bin)
        };
        match moment {
            Moment::Message(message) => {
                if is_near(block.messages.last().map(|last| last.ns)) == Some(true) {
                    return;
                }
                block.messages.push(message);
            }
            Moment::Step(step) => {
                if is_near(block.steps.last().map(|last| last.ns)) == Some(true) {
                    return;
                }
                block.steps.push(step);
            }
            Moment::Poll(poll) => {
                if !add_poll(&mut block.polls, poll, bin) {
                    return;
                }
            }
            // Which of the tasks are kept is not known yet, nor which of the ends of an arrow.
            Moment::Begin(_) | Moment::Flow(_) if bin.is_some() => return,
            Moment::Begin(begin) => block.begins.push(begin),
            Moment::Flow(point) => block.flows.push(point),
        }
        self.kept += 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::cell::Cell;
    use std::collections::BTreeMap;

    use egui::Color32;
    use proptest::prelude::*;
    use vor_capture::filled;
    use vor_capture::model::catalog::{SiteId, SiteInfo};
    use vor_capture::model::measures::Measures;

    use super::*;
    use crate::store::{PixelScale, RowPixels};

    /// Returns the longest short duration of each bin in which one begins.
    fn longest(times: impl Iterator<Item = (i64, u64)>, bin_ns: u64) -> BTreeMap<i64, u64> {
        let mut longest: BTreeMap<i64, u64> = BTreeMap::new();
        for (begin_ns, duration_ns) in times.filter(|(_, duration_ns)| *duration_ns < bin_ns) {
            let of_bin = longest.entry(begin_ns / bin_ns as i64).or_default();
            *of_bin = (*of_bin).max(duration_ns);
        }
        longest
    }

    proptest! {
        /// All long polls of a thread are kept, and of each bin the longest of the short ones. The
        /// limit holds as for spans.
        #[test]
        fn a_bin_keeps_its_longest_poll(
            parts in prop::collection::vec((0..40_u64, 0..90_u64), 1..200),
            max_spans in 4..60_usize,
        ) {
            let mut at = 0;
            let mut polls = Vec::new();
            for (task, (gap, duration_ns)) in (0..).zip(&parts) {
                at += gap;
                polls.push(Poll { task, begin_ns: at as i64, duration_ns: *duration_ns });
                at += duration_ns;
            }
            let mut thinned = Thinned::new((i64::MIN, i64::MAX), 1, max_spans);
            for poll in polls.iter().rev() {
                thinned.begin_track(ThreadId(0), TrackKind::Tasks, &[]);
                thinned.moment(Moment::Poll(*poll));
            }
            thinned.keep_to_limit();
            let kept = thinned.all().flat_map(|(_, lanes)| &lanes.block.polls);
            let mut kept: Vec<Poll> = kept.copied().collect();
            kept.reverse();
            prop_assert!(kept.len() <= max_spans);
            prop_assert!(kept.iter().all(|poll| polls.contains(poll)));
            let Some(bin) = thinned.bin else {
                prop_assert_eq!(kept, polls);
                return Ok(());
            };
            let bin_ns = 1 << bin;
            let long = |poll: &&Poll| poll.duration_ns >= bin_ns;
            prop_assert!(polls.iter().filter(long).all(|poll| kept.contains(poll)));
            let of = |polls: &[Poll]| {
                longest(polls.iter().map(|poll| (poll.begin_ns, poll.duration_ns)), bin_ns)
            };
            prop_assert_eq!(of(&kept), of(&polls));
        }

        /// All long spans are kept, and of each bin the longest of the short spans. Nothing else is
        /// invented, and the limit holds.
        #[test]
        fn a_bin_keeps_its_longest_span(
            parts in prop::collection::vec((0..40_u64, 0..90_u64), 1..200),
            max_spans in 4..60_usize,
        ) {
            let mut at = 0;
            let mut spans = Vec::new();
            for (i, (gap, duration_ns)) in parts.iter().enumerate() {
                at += gap;
                spans.push(Span {
                    begin_ns: at as i64,
                    duration_ns: *duration_ns,
                    site: SiteId(1 + i as u32),
                });
                at += duration_ns;
            }
            let mut thinned = Thinned::new((i64::MIN, i64::MAX), 1, max_spans);
            let site = |_: &Span| {
                let arg_names = Measures::CPU.arg_names().map(Into::into).collect();
                Some(Arc::new(filled!(SiteInfo { arg_names })))
            };
            thinned.set_catalog(&Arc::new(filled!(Catalog {
                sites: Arc::new(spans.iter().map(site).collect())
            })));
            let is_off_cpu = |span: &Span| span.duration_ns % 3 == 1;
            for span in spans.iter().rev() {
                thinned.begin_track(ThreadId(0), TrackKind::Scopes, &[]);
                let args = [ArgValue::U64(span.duration_ns)];
                thinned.enter(span, 0, if is_off_cpu(span) { &args } else { &[] });
            }
            thinned.keep_to_limit();
            let layer = thinned.layer(&Arc::default(), &Arc::default());
            let row = &layer.tracks()[0].rows[0];
            let kept: Vec<Span> = row.spans(i64::MIN, i64::MAX).collect();
            prop_assert!(kept.is_sorted_by_key(|span| span.begin_ns));
            prop_assert!(kept.iter().all(|span| spans.contains(span)));
            // The short span of the bin at the begin still waits for others.
            prop_assert!(kept.len() <= max_spans + 1);
            // Their states are kept with them.
            for span in &kept {
                let [begin_ns, end_ns] = [span.begin_ns, span.end_ns()];
                let scale = PixelScale::new(begin_ns as f64, end_ns as f64, 64);
                let state = Cell::new(None);
                let color = |site, _, off_cpu| {
                    if site == span.site {
                        state.set(off_cpu);
                    }
                    Color32::WHITE
                };
                let pixels = RowPixels {
                    colors: &mut [Color32::TRANSPARENT; 64],
                    wide: &mut Vec::new(),
                };
                row.paint(&scale, None, color, pixels);
                let expected = is_off_cpu(span).then_some(OffCpu::Unknown);
                prop_assert_eq!(state.get(), expected, "{:?}", span);
            }
            let bin_ns = layer.bin_ns();
            if bin_ns == 0 {
                prop_assert_eq!(kept, spans);
                return Ok(());
            }
            let (long, short): (Vec<Span>, Vec<Span>) =
                spans.iter().partition(|span| span.duration_ns >= bin_ns);
            prop_assert!(long.iter().all(|span| kept.contains(span)));
            let of = |spans: &[Span]| {
                longest(spans.iter().map(|span| (span.begin_ns, span.duration_ns)), bin_ns)
            };
            prop_assert_eq!(of(&kept), of(&short));
        }
    }
}
