//! The measured values of the parts of spans that lie within a range.
//!
//! A span measures its CPU time once, at its end. So the time that it did not run counts as spread
//! evenly over its duration, and the part of it within a range is an estimate. The estimates of
//! adjacent ranges add up to the measured value exactly. Switches and allocations are no times:
//! they count where the span ended.

use std::ops::Range;

use vor_capture::model::measures::Measured;

use crate::store::Span;

/// Measured values of spans, summed up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeasuredSum {
    pub(super) values: Measured,
    /// Number of spans whose part is an estimate.
    pub(super) estimates: u64,
}

impl MeasuredSum {
    /// Adds the times of the part of a span that is within a range.
    pub(super) fn add_times(&mut self, span: &Span, time_ns: &Range<i64>, measured: &Measured) {
        let part = Part::of(span, time_ns);
        self.estimates += u64::from(part.is_cut() && measured.off_cpu_ns > 0);
        let mut times = Measured::default();
        times.off_cpu_ns = part.of_time(measured.off_cpu_ns);
        times.run_queue_ns = part.of_time(measured.run_queue_ns);
        times.cpu_user_ns = part.of_time(measured.cpu_user_ns);
        times.cpu_sys_ns = part.of_time(measured.cpu_sys_ns);
        self.values = self.values.plus(times);
    }

    /// Adds the numbers of a span that are no times.
    pub(super) fn add_counts(&mut self, measured: Measured) {
        let mut counts = measured;
        counts.off_cpu_ns = 0;
        counts.run_queue_ns = 0;
        counts.cpu_user_ns = 0;
        counts.cpu_sys_ns = 0;
        self.values = self.values.plus(counts);
    }
}

/// A part of a span, in nanoseconds from its begin.
struct Part {
    from_ns: u64,
    to_ns: u64,
    duration_ns: u64,
}

impl Part {
    fn of(span: &Span, time_ns: &Range<i64>) -> Self {
        let after_begin = |ns: i64| {
            let ns = ns.clamp(span.begin_ns, span.end_ns().max(span.begin_ns));
            ns.abs_diff(span.begin_ns)
        };
        Self {
            from_ns: after_begin(time_ns.start),
            to_ns: after_begin(time_ns.end),
            duration_ns: span.duration_ns,
        }
    }

    fn is_cut(&self) -> bool {
        self.from_ns > 0 || self.to_ns < self.duration_ns
    }

    /// Returns the part of a time of the span.
    fn of_time(&self, ns: u64) -> u64 {
        if !self.is_cut() {
            return ns;
        }
        // The sums up to each of the ends are rounded, so that parts add up.
        let until = |at_ns: u64| u128::from(ns) * u128::from(at_ns) / u128::from(self.duration_ns);
        let part = until(self.to_ns).saturating_sub(until(self.from_ns));
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}
