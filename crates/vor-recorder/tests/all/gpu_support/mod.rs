//! Shared code of the tests of the feature `cuda`, besides the libraries in place of NVIDIA's.

pub mod frames;
pub mod tool_log;
