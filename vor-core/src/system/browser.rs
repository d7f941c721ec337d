//! Browsers, which tell how much memory a page uses at most.

use super::ProcessSample;

#[derive(Debug)]
pub(super) struct Sampler;

impl Sampler {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) fn sample(&mut self) -> ProcessSample {
        ProcessSample {
            memory_bytes: memory_bytes(),
            ..ProcessSample::default()
        }
    }
}

pub(super) fn memory_bytes() -> Option<u64> {
    crate::js::memory_bytes()
}
