//! Durations and self times of spans, while they arrive in the order in which they ended.

use rustc_hash::FxHashMap;

use super::builder::Line;
use super::ended::EndedSpans;
use crate::model::batch::ThreadBatch;
use crate::model::catalog::ThreadId;
use crate::model::timeline::Timeline;

/// Measures the spans of batches. The batches of a thread must come in their order.
///
/// A self time is the span's duration without that of the spans directly inside it, in whichever
/// frame they ended. So the self times of a call site add up to those of
/// [`StatsBuilder`](super::StatsBuilder), to the nanosecond.
#[derive(Debug, Default)]
pub struct SpanTimer {
    threads: FxHashMap<ThreadId, EndedSpans<u64>>,
    times: Vec<SpanTimes>,
}

/// When a span began, in nanoseconds since 1970, and how long it lasted.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpanTimes {
    /// When it began, in nanoseconds since 1970.
    pub start_unix_ns: i64,
    /// How long it lasted, in nanoseconds.
    pub total_ns: u64,
    /// How long it lasted without the spans directly inside it, in nanoseconds.
    pub self_ns: u64,
}

impl SpanTimes {
    /// Returns when the span ended, in nanoseconds since 1970.
    #[inline]
    #[must_use]
    pub fn end_unix_ns(&self) -> i64 {
        self.start_unix_ns.saturating_add_unsigned(self.total_ns)
    }
}

impl SpanTimer {
    /// Measures the spans of a batch: an entry for each, in their order.
    pub fn batch(&mut self, timeline: &Timeline, batch: &ThreadBatch) -> &[SpanTimes] {
        self.times.clear();
        if batch.sites.is_empty() {
            return &self.times;
        }
        let ended = self.threads.entry(batch.thread).or_default();
        let mut clock = SpanMapper::new(timeline);
        let spans = batch.start_ticks.iter().zip(&batch.duration_ticks);
        self.times
            .extend(spans.map(|(&start_ticks, &duration_ticks)| {
                let (start_unix_ns, total_ns) = clock.place(start_ticks, duration_ticks);
                let inside = ended.end(start_ticks, total_ns);
                SpanTimes {
                    start_unix_ns,
                    total_ns,
                    self_ns: total_ns - inside.sum.min(total_ns),
                }
            }));
        &self.times
    }

    /// Returns the number of spans whose self time is an estimate.
    #[must_use]
    pub fn estimated_self_times(&self) -> u64 {
        self.threads.values().map(EndedSpans::split_runs).sum()
    }
}

/// Converts ticks by the line of the timeline that it used last, which nearly always fits again.
#[derive(Debug)]
pub struct SpanMapper<'a> {
    timeline: &'a Timeline,
    line: Line,
    line_unix_ns: i64,
}

impl<'a> SpanMapper<'a> {
    /// Makes a mapper that agrees with `timeline`.
    #[must_use]
    pub fn new(timeline: &'a Timeline) -> Self {
        Self {
            timeline,
            line: Line::default(),
            line_unix_ns: 0,
        }
    }

    /// Returns when a span began, in nanoseconds since 1970, and its duration in nanoseconds.
    #[inline]
    pub fn place(&mut self, start_ticks: u64, duration_ticks: u64) -> (i64, u64) {
        let end_ticks = start_ticks.saturating_add(duration_ticks);
        // The duration comes first, since it exists only where the line covers both ends.
        if let Some(total_ns) = self.line.duration_ns(start_ticks, end_ticks)
            && let Some(before_ns) = self.line.duration_ns(self.line.from_ticks, start_ticks)
        {
            return (self.line_unix_ns.wrapping_add_unsigned(before_ns), total_ns);
        }
        self.place_slow(start_ticks, duration_ticks)
    }

    #[cold]
    fn place_slow(&mut self, start_ticks: u64, duration_ticks: u64) -> (i64, u64) {
        self.line = Line::at(self.timeline, start_ticks).unwrap_or_default();
        self.line_unix_ns = self.timeline.unix_ns(self.line.from_ticks);
        (
            self.timeline.unix_ns(start_ticks),
            self.timeline.duration_ns(start_ticks, duration_ticks),
        )
    }
}
