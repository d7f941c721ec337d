//! The panel of vor: what a program does, live inside it or replayed from a capture.
//!
//! The modules stand in the order in which the data passes them: frames come into the `store`, the `view` says what is looked at,
//! and each part of the panel draws its share of it.
#![forbid(unsafe_code)]

pub mod store;
pub mod view;
pub mod replay;
pub mod theme;
pub mod units;
