//! Systems of which nothing is known, the web without the feature `web` among them.

use super::ProcessSample;

#[derive(Debug)]
pub(super) struct Sampler;

impl Sampler {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) fn sample(&mut self) -> ProcessSample {
        ProcessSample::default()
    }
}

pub(super) fn memory_bytes() -> Option<u64> {
    None
}
