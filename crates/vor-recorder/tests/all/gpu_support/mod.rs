//! What the tests of the feature `cuda` share, besides the libraries that stand in for NVIDIA's.

pub mod frames;
pub mod tool_log;
