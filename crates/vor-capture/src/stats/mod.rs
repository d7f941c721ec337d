//! Statistics of frames and scopes, of a running program or of a capture.
//!
//! [`FrameStats`] answers "how long do frames take" with one HDR histogram. [`StatsBuilder`]
//! answers "which scope takes the time": from every span of the rings or of a capture, it computes
//! exact counts, totals and self times, and a histogram per call site, in memory that depends on
//! the number of call sites and not on the number of spans. [`ScopeStats`] is one row of the
//! answer. [`Blocks`] answers "how sure is that": it cuts the spans of a call site into some dozens
//! of stretches of time, whose differences show how much the whole could have differed by chance.
//!
//! Spans arrive in the order in which their scopes ended, so children come before their parents and
//! nothing says which is which. The self time of a span is its duration without that of its
//! children; the `ended` module finds them. The total of a call site is the time during which one
//! of its scopes was open at all, thread by thread: a recursive call adds nothing to the time of
//! the call around it; the `nested` module finds these. All durations are differences of
//! [`Timeline::unix_ns`](crate::model::timeline::Timeline::unix_ns) at both ends. Such differences
//! add up without a rounding error, so the self times of a root and all its descendants add up to
//! the root's duration, to the nanosecond.

#[cfg(feature = "percentiles")]
mod frame_stats;
mod histogram;
#[cfg(feature = "stats")]
mod by_site;
#[cfg(feature = "stats")]
mod ended;
#[cfg(feature = "stats")]
mod nested;
#[cfg(feature = "stats")]
mod thread_spans;
#[cfg(feature = "stats")]
mod measured;
mod scope_stats;
#[cfg(feature = "stats")]
mod builder;
#[cfg(feature = "stats")]
mod blocks;
#[cfg(feature = "stats")]
mod times;

#[cfg(feature = "stats")]
pub use blocks::{Block, Blocks, Bucket};
#[cfg(feature = "stats")]
pub use builder::StatsBuilder;
#[cfg(feature = "percentiles")]
pub use frame_stats::FrameStats;
pub use histogram::{Counted, Histogram};
pub use scope_stats::ScopeStats;
#[cfg(feature = "stats")]
pub use times::{SpanMapper, SpanTimer, SpanTimes};
