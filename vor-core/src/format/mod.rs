//! format

pub mod v2;
