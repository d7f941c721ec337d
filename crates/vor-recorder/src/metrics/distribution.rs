//! Values of a histogram between two marks, to three significant digits.
//!
//! The feature `percentiles` brings `hdrhistogram`, which a build pays for. Without it there are no
//! histograms, and no value of this type.

#[cfg(feature = "percentiles")]
pub(crate) use hdr::Distribution;

#[cfg(feature = "percentiles")]
mod hdr {
    /// A distribution of values.
    #[derive(Debug)]
    pub(crate) struct Distribution(Box<hdrhistogram::Histogram<u64>>);

    impl Distribution {
        /// Makes an empty one.
        pub(crate) fn new() -> Option<Self> {
            // A histogram of three digits is always possible.
            hdrhistogram::Histogram::new(3).ok().map(Box::new).map(Self)
        }

        pub(crate) fn record(&mut self, value: u64) {
            // The histogram grows with its values. A value too large for that is recorded as the
            // largest that it can hold.
            if self.0.record(value).is_err() {
                self.0.saturating_record(value);
            }
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        pub(crate) fn add(&mut self, other: &Self) {
            // Both grow by themselves, so neither has a value that the other cannot hold.
            self.0.add(&*other.0).unwrap_or(());
        }

        /// Returns the median, the 99th percentile and the maximum.
        pub(crate) fn rows(&self) -> [f64; 3] {
            let quantile = |at| self.0.value_at_quantile(at) as f64;
            [quantile(0.5), quantile(0.99), self.0.max() as f64]
        }

        /// Returns about how many bytes it takes.
        pub(crate) fn bytes(&self) -> usize {
            8 * self.0.distinct_values()
        }
    }
}

/// A distribution that cannot be made.
#[cfg(not(feature = "percentiles"))]
#[derive(Debug)]
pub(crate) enum Distribution {}

#[cfg(not(feature = "percentiles"))]
impl Distribution {
    pub(crate) fn new() -> Option<Self> {
        None
    }

    pub(crate) fn record(&mut self, _: u64) {
        match *self {}
    }

    pub(crate) fn is_empty(&self) -> bool {
        match *self {}
    }

    pub(crate) fn add(&mut self, _: &Self) {
        match *self {}
    }

    pub(crate) fn rows(&self) -> [f64; 3] {
        match *self {}
    }

    pub(crate) fn bytes(&self) -> usize {
        match *self {}
    }
}
