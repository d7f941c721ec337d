//! Percentiles of frame times.

use std::fmt;

use hdrhistogram::Histogram;

/// Longest frame that is recorded as it is: 24 hours.
const MAX_FRAME_NS: u64 = 24 * 3_600 * 1_000_000_000;

/// Durations of frames, in an HDR histogram of 3 significant digits.
///
/// Any `u64` can be recorded. Durations over 24 hours are recorded as 24 hours, and
/// [`clamped`](Self::clamped) counts them.
///
/// ```
/// # mod vor { pub use vor_capture::stats::FrameStats; }
/// let mut frames = vor::FrameStats::new();
/// for duration_ns in [16_000_000, 17_000_000, 90_000_000] {
///     frames.record_ns(duration_ns);
/// }
/// assert!(frames.p50_ns() < 18_000_000);
/// ```
#[derive(Clone)]
pub struct FrameStats {
    histogram: Histogram<u64>,
    sum_ns: u128,
    clamped: u64,
}

impl FrameStats {
    /// Makes statistics of no frames.
    #[must_use]
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "new fails only for more than 5 significant digits, and this asks for 3"
    )]
    pub fn new() -> Self {
        let histogram = Histogram::new(3).expect("3 significant digits are supported");
        Self {
            histogram,
            sum_ns: 0,
            clamped: 0,
        }
    }

    /// Adds a frame that lasted `ns` nanoseconds.
    pub fn record_ns(&mut self, ns: u64) {
        let clamped_ns = ns.min(MAX_FRAME_NS);
        self.clamped += u64::from(clamped_ns < ns);
        // The histogram grows by itself up to any 64-bit value, so this can only fail where memory
        // is counted in fewer bits.
        if self.histogram.record(clamped_ns).is_err() {
            self.histogram.saturating_record(clamped_ns);
            self.clamped += u64::from(clamped_ns == ns);
        }
        self.sum_ns += u128::from(clamped_ns);
    }

    /// Returns the number of frames.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the number of frames that lasted longer than 24 hours and were recorded as 24 hours.
    #[must_use]
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// Returns the median duration in nanoseconds, 0 without frames.
    #[must_use]
    pub fn p50_ns(&self) -> u64 {
        self.histogram.value_at_quantile(0.50)
    }

    /// Returns the duration in nanoseconds that 95 % of the frames do not exceed, 0 without frames.
    #[must_use]
    pub fn p95_ns(&self) -> u64 {
        self.histogram.value_at_quantile(0.95)
    }

    /// Returns the duration in nanoseconds that 99 % of the frames do not exceed, 0 without frames.
    #[must_use]
    pub fn p99_ns(&self) -> u64 {
        self.histogram.value_at_quantile(0.99)
    }

    /// Returns the mean duration in nanoseconds, 0 without frames. It is computed from the
    /// durations themselves and not from the histogram.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum_ns as f64 / count as f64,
        }
    }

    /// Forgets all frames.
    pub fn clear(&mut self) {
        self.histogram.reset();
        self.sum_ns = 0;
        self.clamped = 0;
    }
}

impl Default for FrameStats {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FrameStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameStats")
            .field("count", &self.count())
            .field("clamped", &self.clamped)
            .field("mean_ns", &self.mean_ns())
            .field("p50_ns", &self.p50_ns())
            .field("p95_ns", &self.p95_ns())
            .field("p99_ns", &self.p99_ns())
            .finish()
    }
}
