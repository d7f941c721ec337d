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
        times.run_queue_ns = part.of_off_cpu(measured);
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
        let [from_ns, to_ns] = self.until_ends(ns);
        to_ns.saturating_sub(from_ns)
    }

    /// Returns the part of the time in which the span waited for a processor. It is that of the
    /// part in which it did not run, and so at most as long.
    fn of_off_cpu(&self, measured: &Measured) -> u64 {
        let off_cpu_ns = measured.off_cpu_ns;
        let [queued_ns, _] = measured.queued_and_blocked_ns(off_cpu_ns);
        if !self.is_cut() || queued_ns == 0 {
            return queued_ns;
        }
        let until = self.until_ends(off_cpu_ns);
        let [from_ns, to_ns] = until.map(|at_ns| portion(queued_ns, at_ns, off_cpu_ns));
        to_ns.saturating_sub(from_ns)
    }

    /// Returns how much of a time of the span has passed at each end of a part. These sums are
    /// rounded, so that parts add up.
    fn until_ends(&self, ns: u64) -> [u64; 2] {
        [self.from_ns, self.to_ns].map(|at_ns| portion(ns, at_ns, self.duration_ns))
    }
}

/// Returns the portion of `ns` that has passed after `at_ns` of `duration_ns`, rounded down.
fn portion(ns: u64, at_ns: u64, duration_ns: u64) -> u64 {
    let portion = u128::from(ns) * u128::from(at_ns) / u128::from(duration_ns);
    u64::try_from(portion).unwrap_or(u64::MAX)
}
