//! Samples in browsers, which report at most the memory of a page.

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

/// Returns the reason why a row is absent.
pub(super) fn why_absent(row: &str) -> String {
    match row {
        "memory_mb" => {
            "there is no `performance.memory`, which only windows of Chromium have".to_owned()
        }
        _ => "browsers do not report it".to_owned(),
    }
}

pub(super) fn memory_bytes() -> Option<u64> {
    crate::os::js::memory_bytes()
}
