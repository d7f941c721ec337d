//! Parquet: spans, metrics and sketches as tables for DuckDB, Spark, Polars and other engines.
//!
//! Every table begins with the origin of its rows, so that the files of many runs and machines can
//! be queried together:
//!
//! | column | type | value |
//! |---|---|---|
//! | `host` | text | the machine; absent if folders have its name, see [`Dataset`] |
//! | `process` | text | name of the executable |
//! | `pid` | integer | process id |
//! | `version` | text | version of the program |
//!
//! The table `spans` ([`SpanParquet`]) has a row per span. It contains neither messages nor tasks,
//! which overlap:
//!
//! | column | type | value |
//! |---|---|---|
//! | `thread` | text | name of the thread, or `thread` and its number |
//! | `tid` | integer | number of the thread in the run, from 0; distinguishes threads with one name |
//! | `frame` | integer | number of the frame in which the span ended; null after the last frame |
//! | `depth` | integer | number of spans around it that ended in the same frame; null for the first spans of a frame with more than 2^20 |
//! | `name`, `file` | text | its call site: `?` and empty when unknown |
//! | `line` | integer | its line; null when unknown |
//! | `start_ns` | integer | its begin, in nanoseconds since 1970 |
//! | `dur_ns` | integer | its duration |
//! | `self_ns` | integer | its duration minus the spans directly inside it, in any frame |
//! | `args` | map of text to text | its arguments, `args['size']`; null without arguments |
//! | `queued_ns` | integer | how long its thread was runnable and had no processor, the spans inside it included; null unless waits were measured |
//! | `blocked_ns` | integer | how long its thread waited for something else, likewise |
//!
//! Arguments are text, because arguments with one name can have several types, and JSON has neither
//! NaN nor all of `u64`. A second argument with the same name is called `arg` and its position.
//!
//! The self time of a span that begins among tens of thousands of finished ones is an estimate.
//! Exporters count these ([`ParquetExporter::estimated_self_times`]). Sums of self times are exact
//! nevertheless.
//!
//! The table `metrics` ([`MetricsParquet`]) has a row per value of a frame:
//!
//! | column | type | value |
//! |---|---|---|
//! | `frame` | integer | number of the frame |
//! | `time_ns` | integer | the mark that ended the frame and sampled the value, in nanoseconds since 1970 |
//! | `name`, `unit` | text | the metric |
//! | `value` | double | NaN and infinities included |
//!
//! The table `sketches` ([`SketchParquet`]) has the durations of the spans of a call site that
//! ended in a minute, in few bytes:
//!
//! | column | type | value |
//! |---|---|---|
//! | `minute` | integer | begin of the minute, in seconds since 1970 |
//! | `name`, `file`, `line` | | as in `spans` |
//! | `count` | integer | number of spans |
//! | `sum_ns`, `self_sum_ns`, `min_ns`, `max_ns` | integer | exact; per call, including recursive calls |
//! | `buckets` | list of `{bucket, middle_ns, count}` | a histogram of their durations, ascending, without empty buckets |
//!
//! Buckets are the same in all files: those with equal numbers hold the same durations. So sketches
//! of any runs merge by adding the counts of each `bucket`. Durations below 64 ns have a bucket
//! each, whose number is the duration. Above, each octave has 32 buckets of equal width: bucket `b`
//! begins at `(b mod 32 + 32) * 2^s` and is `2^s` wide, where `s = b / 32 - 1`, rounded down.
//! `middle_ns` is the value in its middle, at most 1/64 (1.6 %) away from any duration in it.
//!
//! A percentile is the `middle_ns` of the bucket in which the running sum of the counts reaches
//! `ceil(q * count)`. It is within 1/64 of the exact one. Limited to `min_ns` and `max_ns`, it
//! equals the percentile of `vor stats`. A minute may have several rows for a call site; they merge
//! like any others.
//!
//! Integers are signed, have 64 bits and saturate at `i64::MAX`, because not all engines have
//! unsigned integers.

mod coded;
mod table;
mod origin;
mod texts;
mod exporter;
mod current_frame;
mod spans;
mod metrics;
mod sketches;
mod files;
mod dataset;

pub use dataset::Dataset;
pub use exporter::ParquetExporter;
pub use files::Partition;
#[doc(hidden)]
pub use files::{date, escaped};
pub use metrics::MetricsParquet;
pub use origin::Origin;
pub use sketches::SketchParquet;
pub use spans::SpanParquet;
