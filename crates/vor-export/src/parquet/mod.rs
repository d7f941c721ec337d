//! Parquet: spans, metrics and sketches as tables for DuckDB, Spark, Polars and whatever else reads
//! columns.
//!
//! Every table begins with where its rows come from, so that the files of many runs and machines
//! can be asked as one:
//!
//! | column | type | value |
//! |---|---|---|
//! | `host` | text | the machine; absent where folders are named after it, see [`Dataset`] |
//! | `process` | text | name of the executable |
//! | `pid` | integer | process id |
//! | `version` | text | version of the program |
//!
//! The table `spans` ([`SpanParquet`]) has a row per span; tasks, which overlap, and messages are
//! not in it:
//!
//! | column | type | value |
//! |---|---|---|
//! | `thread` | text | name of the thread, or one made of its number |
//! | `tid` | integer | number of the thread in the run, from 0; tells apart threads of one name |
//! | `frame` | integer | number of the frame in which the span ended; null after the last frame |
//! | `depth` | integer | number of spans around it that ended in the same frame; null of the first spans of a frame of over 2^20 |
//! | `name`, `file` | text | its call site: `?` and empty when unknown |
//! | `line` | integer | its line; null when unknown |
//! | `start_ns` | integer | when it began, in nanoseconds since 1970 |
//! | `dur_ns` | integer | its length |
//! | `self_ns` | integer | its length without the spans directly inside it, in whichever frame they ended |
//! | `args` | map of text to text | its arguments, `args['size']`; null when it has none |
//!
//! Arguments are text, because those of one name need not be of one kind, and JSON has neither NaN
//! nor all of `u64`. A second argument of one name is called `arg` and its position.
//!
//! The self time of a span that begins among tens of thousands of finished ones is an estimate.
//! Exporters count these ([`SpanParquet::estimated_self_times`]), and sums of self times are exact
//! even so.
//!
//! The table `metrics` ([`MetricsParquet`]) has a row per value of a frame:
//!
//! | column | type | value |
//! |---|---|---|
//! | `frame` | integer | number of the frame |
//! | `time_ns` | integer | the mark that ended the frame and took the value, in nanoseconds since 1970 |
//! | `name`, `unit` | text | the metric |
//! | `value` | double | NaN and infinities are kept |
//!
//! The table `sketches` ([`SketchParquet`]) has the lengths of the spans of a call site that ended
//! in a minute, in few bytes:
//!
//! | column | type | value |
//! |---|---|---|
//! | `minute` | integer | seconds from 1970 to the begin of the minute |
//! | `name`, `file`, `line` | | as in `spans` |
//! | `count` | integer | number of spans |
//! | `sum_ns`, `self_sum_ns`, `min_ns`, `max_ns` | integer | exact; of single calls, recursive ones as well |
//! | `buckets` | list of `{bucket, middle_ns, count}` | a histogram of their lengths, ascending, without empty buckets |
//!
//! Buckets are the same in all files: those of equal number hold the same lengths, so sketches of
//! any runs merge by adding the counts of each `bucket`. Lengths below 64 ns have a bucket each,
//! and its number is the length. Above, each octave is cut into 32 buckets of equal width: bucket
//! `b` begins at `(b mod 32 + 32) * 2^s` and is `2^s` wide, where `s = b / 32 - 1`, rounded down.
//! `middle_ns` is the value in its middle, at most 1/64 (1.6 %) away from any length in it. A
//! percentile is the `middle_ns` of the bucket in which the running sum of the counts reaches
//! `ceil(q * count)`, and thereby within 1/64 of the exact one; between `min_ns` and `max_ns` it is
//! what `vor stats` says. A minute may have several rows for a call site; they merge like any
//! others.
//!
//! Integers are signed and of 64 bits, and end at `i64::MAX`: not all engines know unsigned ones.

mod coded;
mod table;
mod frames;
mod spans;
mod metrics;
mod sketches;
mod names;
mod place;
mod dataset;

pub use dataset::Dataset;
pub use metrics::MetricsParquet;
pub use names::Origin;
pub use place::Partition;
pub use sketches::SketchParquet;
pub use spans::SpanParquet;

/// Returns a number as engines without unsigned ones can hold it.
fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
