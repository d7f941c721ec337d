//! Tests of `vor-capture` through its public interface. None of them starts a recorder.

mod error_kinds;
mod format_damage;
mod format_golden;
mod format_golden_kinds;
mod format_heads;
mod format_notes;
mod format_round_trip;
mod frame_trees;
mod fuzz_regressions;
mod model_values;
mod reader_batches;
mod reader_columns;
mod reader_errors;
mod reader_orders;
mod reader_summaries;
mod reader_unmarked;
mod reader_v3;
mod sealed;
mod sealed_batches;
mod sealed_records;
mod stats_frames;
mod stats_recursion;
mod stats_scopes;
mod timeline;
mod tree_builder;
mod v2_captures;
