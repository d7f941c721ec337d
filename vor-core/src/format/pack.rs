//! Bit-packed columns.
