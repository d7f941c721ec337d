//! The spans of a capture as a list, and their sums, made without frames, rows or walks.
//!
//! The sums come from a sweep over the moments at which a span begins or ends. Spans of damaged
//! captures are those that the reader returns.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::ops::Range;

use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::Catalog;
use vor_capture::reader::{Capture, Event, Reader};

/// A span. Times are nanoseconds since an origin of the test's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordedSpan {
    pub thread: u32,
    /// Number of spans around it.
    pub depth: usize,
    pub site: u32,
    pub begin_ns: i64,
    pub end_ns: i64,
}

impl RecordedSpan {
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.abs_diff(self.begin_ns)
    }
}

/// A range of time, and what of its spans is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    pub time: Range<i64>,
    /// Whether spans that end in the range are measured from begin to end. Otherwise those that
    /// overlap it are measured within it.
    pub is_whole: bool,
}

impl Measured {
    /// Returns whether a span is measured. One of zero duration is in the range that ends with it.
    pub fn has(&self, span: &RecordedSpan) -> bool {
        let (begin_ns, end_ns) = (span.begin_ns, span.end_ns);
        let is_in = match self.is_whole {
            true => end_ns <= self.time.end,
            false => begin_ns < self.time.end || end_ns == self.time.end,
        };
        end_ns > self.time.start && is_in
    }

    /// Returns the measured part of a span that is measured.
    pub fn part_ns(&self, span: &RecordedSpan) -> u64 {
        if self.is_whole {
            return span.duration_ns();
        }
        let begin_ns = span.begin_ns.max(self.time.start);
        span.end_ns.min(self.time.end).abs_diff(begin_ns)
    }
}

/// The sums of a call site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Time during which any of its spans was open; for tasks, the sum of their parts.
    pub total_ns: u64,
    pub self_ns: u64,
    /// Number of spans that ended in the range.
    pub ended_count: u64,
    /// The durations of all measured spans, ascending.
    pub durations_ns: Vec<u64>,
}

impl Totals {
    pub fn count(&self) -> u64 {
        self.durations_ns.len() as u64
    }

    pub fn durations_sum_ns(&self) -> u64 {
        self.durations_ns.iter().sum()
    }

    /// Returns the exact percentile: the least duration that a share of all does not exceed.
    pub fn percentile_ns(&self, quantile: f64) -> u64 {
        let rank = (quantile * self.durations_ns.len() as f64).ceil() as usize;
        self.durations_ns[rank.max(1) - 1]
    }
}

/// Totals by call site.
pub type TotalsBySite = BTreeMap<u32, Totals>;

fn count(spans: &[RecordedSpan], measured: &Measured) -> TotalsBySite {
    let mut all = TotalsBySite::new();
    for span in spans.iter().filter(|span| measured.has(span)) {
        let totals = all.entry(span.site).or_default();
        totals.ended_count += u64::from(span.end_ns <= measured.time.end);
        totals.durations_ns.push(span.duration_ns());
    }
    for totals in all.values_mut() {
        totals.durations_ns.sort_unstable();
    }
    all
}

/// Returns the totals of scopes: between two moments at which anything begins or ends, all open
/// sites are open, and the innermost span is the deepest one.
pub fn scope_totals(spans: &[RecordedSpan], measured: &Measured) -> TotalsBySite {
    let mut all = count(spans, measured);
    let threads: BTreeSet<u32> = spans.iter().map(|span| span.thread).collect();
    for thread in threads {
        let own = spans.iter().filter(|span| span.thread == thread);
        let mut own: Vec<RecordedSpan> = own.copied().collect();
        own.sort_by_key(|span| span.begin_ns);
        sweep(&own, measured, &mut all);
    }
    all
}

/// Adds the time of one thread, whose spans ascend by begin.
fn sweep(spans: &[RecordedSpan], measured: &Measured, all: &mut TotalsBySite) {
    let ends = spans.iter().flat_map(|span| [span.begin_ns, span.end_ns]);
    let ends = ends.chain([measured.time.start, measured.time.end]);
    let (start, end) = (measured.time.start, measured.time.end);
    let moments: BTreeSet<i64> = ends
        .filter(|ns| measured.is_whole || (start..=end).contains(ns))
        .collect();
    let moments: Vec<i64> = moments.into_iter().collect();
    for pair in moments.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let ns = to.abs_diff(from);
        let begun = &spans[..spans.partition_point(|span| span.begin_ns <= from)];
        let open: Vec<&RecordedSpan> = begun.iter().filter(|span| span.end_ns >= to).collect();
        let seen = open.iter().filter(|span| measured.has(span));
        let sites: BTreeSet<u32> = seen.map(|span| span.site).collect();
        for site in sites {
            all.entry(site).or_default().total_ns += ns;
        }
        let innermost = open.iter().max_by_key(|span| span.depth);
        if let Some(span) = innermost.filter(|span| measured.has(span)) {
            all.entry(span.site).or_default().self_ns += ns;
        }
    }
}

/// Returns the totals of tasks, which overlap and have no self time.
pub fn task_totals(tasks: &[RecordedSpan], measured: &Measured) -> TotalsBySite {
    let mut all = count(tasks, measured);
    for task in tasks.iter().filter(|task| measured.has(task)) {
        all.entry(task.site).or_default().total_ns += measured.part_ns(task);
    }
    all
}

/// A frame that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFrame {
    /// Its place in the capture, counted from 0.
    pub place: u64,
    pub number: u64,
    pub begin_ns: i64,
    pub end_ns: i64,
    pub dropped_spans: u64,
}

/// The contents of a capture, in nanoseconds since the begin of its first frame that can be read.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    pub origin_ns: i64,
    pub spans: Vec<RecordedSpan>,
    pub tasks: Vec<RecordedSpan>,
    pub frames: Vec<RecordedFrame>,
    /// Number of frames with those that are lost.
    pub frame_count: u64,
}

impl Recorded {
    /// Reads all batches from the beginning, as `vor stats` does.
    pub fn of_batches(bytes: &[u8]) -> Self {
        let mut recorded = Self::without_spans(bytes);
        let catalog = opened(bytes).catalog().clone();
        for batch in batches(bytes) {
            for thread in &batch.threads {
                recorded.add(&catalog, thread);
            }
        }
        recorded.nest();
        recorded
    }

    /// Reads the spans of all frames that are not lost, from their trees.
    pub fn of_frames(bytes: &[u8]) -> Self {
        let mut recorded = Self::without_spans(bytes);
        let mut capture = opened(bytes);
        for frame in 0..capture.frame_count() {
            let Ok(frame) = capture.frame(frame) else {
                continue;
            };
            let catalog = capture.catalog().clone();
            for thread in SpanBatch::of_trees(&frame).threads {
                recorded.add(&catalog, &thread);
            }
        }
        recorded.nest();
        recorded
    }

    fn without_spans(bytes: &[u8]) -> Self {
        let mut capture = opened(bytes);
        let mut recorded = Self {
            frame_count: capture.frame_count(),
            ..Self::default()
        };
        for place in 0..capture.frame_count() {
            let Ok(frame) = capture.frame(place) else {
                continue;
            };
            let catalog = capture.catalog();
            let begin_ns = catalog.unix_ns(frame.start_ticks);
            if recorded.frames.is_empty() {
                recorded.origin_ns = begin_ns;
            }
            recorded.frames.push(RecordedFrame {
                place,
                number: frame.index,
                begin_ns: begin_ns - recorded.origin_ns,
                end_ns: catalog.unix_ns(frame.end_ticks) - recorded.origin_ns,
                dropped_spans: frame.dropped_spans,
            });
        }
        recorded
    }

    fn add(&mut self, catalog: &Catalog, thread: &ThreadBatch) {
        let span = |site: u32, start_ticks, end_ticks| RecordedSpan {
            thread: thread.thread.0,
            depth: 0,
            site,
            begin_ns: catalog.unix_ns(start_ticks) - self.origin_ns,
            end_ns: catalog.unix_ns(end_ticks) - self.origin_ns,
        };
        let spans = (0..thread.len()).map(|i| {
            let site = thread.sites[i].0;
            span(site, thread.start_ticks[i], thread.end_ticks(i))
        });
        let tasks = thread.async_spans.iter();
        let tasks = tasks.map(|task| span(task.site.0, task.start_ticks, task.end_ticks()));
        let (spans, tasks): (Vec<_>, Vec<_>) = (spans.collect(), tasks.collect());
        self.spans.extend(spans);
        self.tasks.extend(tasks);
    }

    /// Finds the depths of the spans, which are in the order in which they ended: around a span are
    /// the later ones of its thread that began before it.
    fn nest(&mut self) {
        let mut open: BTreeMap<u32, Vec<RecordedSpan>> = BTreeMap::new();
        for span in self.spans.iter_mut().rev() {
            let around = open.entry(span.thread).or_default();
            while around
                .last()
                .is_some_and(|last| last.begin_ns > span.begin_ns)
            {
                around.pop();
            }
            span.depth = around.len();
            around.push(*span);
        }
    }

    /// Returns the begin and the end of all spans and tasks.
    pub fn bounds_ns(&self) -> Option<(i64, i64)> {
        let all = || self.spans.iter().chain(&self.tasks);
        let begin_ns = all().map(|span| span.begin_ns).min()?;
        Some((begin_ns, all().map(|span| span.end_ns).max()?))
    }
}

fn opened(bytes: &[u8]) -> Capture {
    Capture::new(Cursor::new(bytes.to_vec())).unwrap()
}

/// Returns the batches of a capture as a stream has them.
pub fn batches(bytes: &[u8]) -> Vec<SpanBatch> {
    let mut reader = Reader::new(bytes).unwrap();
    let mut batches = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Batch(batch) = event {
            batches.push(batch);
        }
    }
    batches
}
