//! Blocks of spans.
