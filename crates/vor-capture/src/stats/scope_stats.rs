//! One row of the answer to "which scope takes the time".

use crate::model::catalog::SiteId;
use crate::model::measures::{Measured, Measures};

/// Statistics of all spans of one call site.
///
/// Counts, sums, the minimum and the maximum are exact. Percentiles are at most 1.6 % off, and
/// exact below 64 ns; where scopes are counted (`Config::count_scopes`) and not recorded, they are
/// at most 12.5 % off.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ScopeStats {
    /// The call site.
    pub site: SiteId,
    /// Its name, `?` when it is unknown.
    pub name: String,
    /// Number of spans that ended.
    pub count: u64,
    /// Time during which any of them was open, in nanoseconds: the sum over all threads of the time
    /// during which the thread had at least one open. A recursive call adds nothing to the call
    /// around it.
    pub total_ns: u64,
    /// Sum of their durations without those of the spans directly inside them, in nanoseconds.
    pub self_ns: u64,
    /// Shortest duration in nanoseconds.
    pub min_ns: u64,
    /// Mean duration in nanoseconds, recursive calls included.
    pub mean_ns: f64,
    /// Duration in nanoseconds that half of the spans do not exceed.
    pub p50_ns: u64,
    /// Duration in nanoseconds that 95 % of the spans do not exceed.
    pub p95_ns: u64,
    /// Duration in nanoseconds that 99 % of the spans do not exceed.
    pub p99_ns: u64,
    /// Longest duration in nanoseconds.
    pub max_ns: u64,
    /// Number of spans directly inside them; 0 where scopes are counted and not recorded.
    pub child_spans: u64,
    /// Number of spans inside them, at any depth; 0 where scopes are counted. A span inside two of
    /// them, one of which contains the other, counts twice.
    pub descendant_spans: u64,
    /// Number of them that lie inside another one of the same call site on the same thread:
    /// recursive calls; 0 where scopes are counted.
    pub nested_spans: u64,
    /// The part of [`descendant_spans`](Self::descendant_spans) inside these recursive calls.
    pub nested_descendant_spans: u64,
    /// The measures that they have beside their duration.
    pub measures: Measures,
    /// Sums of these, the spans inside them included; a recursive call adds nothing to the call
    /// around it.
    pub measured: Measured,
    /// Sums of these without the spans directly inside them.
    pub self_measured: Measured,
}

impl ScopeStats {
    /// Returns the CPU time during which any of the spans was open, in nanoseconds, where it was
    /// measured.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        let off_cpu_ns = self.measured.off_cpu_ns;
        self.measures
            .has(Measures::CPU)
            .then(|| self.total_ns.saturating_sub(off_cpu_ns))
    }

    /// Returns the sum of the CPU times of the spans in nanoseconds, without those of the spans
    /// directly inside them, where it was measured.
    #[must_use]
    pub fn self_cpu_ns(&self) -> Option<u64> {
        let off_cpu_ns = self.self_measured.off_cpu_ns;
        self.measures
            .has(Measures::CPU)
            .then(|| self.self_ns.saturating_sub(off_cpu_ns))
    }

    /// Returns the statistics without the estimated cost of the instrumentation.
    ///
    /// `empty_span_ns` is the cost of one empty scope to the code around it, as `calibrate()`
    /// measures it. A scope is two clock reads and little else, so one half of the cost falls
    /// between the two instants that its span records and the other half outside, into the span
    /// around it. With `c = empty_span_ns`:
    ///
    /// ```text
    /// total' = total - (count - nested_spans) * c/2
    ///                - (descendant_spans - nested_descendant_spans) * c
    /// self'  = self  - count * c/2 - child_spans * c/2
    /// ```
    ///
    /// and the minimum, mean, percentiles and maximum lose the mean correction `c/2 +
    /// descendant_spans * c / count`. Nothing falls below 0. Where nothing would have, the
    /// corrected self times of a root and its descendants still add up to the root's corrected
    /// total, up to the half nanoseconds that are rounded away.
    #[must_use]
    pub fn corrected(&self, empty_span_ns: u64) -> Self {
        let cost = u128::from(empty_span_ns);
        let less = |ns: u64, halves: u128| {
            u64::try_from(u128::from(ns).saturating_sub(halves / 2)).unwrap_or(0)
        };
        let count = u128::from(self.count);
        let in_calls = cost.saturating_mul(count + 2 * u128::from(self.descendant_spans));
        let nested = u128::from(self.nested_spans) + 2 * u128::from(self.nested_descendant_spans);
        let in_total = in_calls.saturating_sub(cost.saturating_mul(nested));
        let in_self = cost.saturating_mul(count + u128::from(self.child_spans));
        let in_each = in_calls / count.max(1);
        let mean_cost_ns = in_calls as f64 / 2.0 / self.count.max(1) as f64;
        Self {
            total_ns: less(self.total_ns, in_total),
            self_ns: less(self.self_ns, in_self),
            min_ns: less(self.min_ns, in_each),
            mean_ns: (self.mean_ns - mean_cost_ns).max(0.0),
            p50_ns: less(self.p50_ns, in_each),
            p95_ns: less(self.p95_ns, in_each),
            p99_ns: less(self.p99_ns, in_each),
            max_ns: less(self.max_ns, in_each),
            ..self.clone()
        }
    }
}
