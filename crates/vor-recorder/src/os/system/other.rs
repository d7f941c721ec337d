//! The stub for other systems, including browsers without the feature `web`.

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

/// Returns the reason why a row is absent.
pub(super) fn why_absent(_: &str) -> String {
    if cfg!(all(target_arch = "wasm32", target_os = "unknown")) {
        "vor is built without its feature `web`".to_owned()
    } else {
        "vor does not support this system".to_owned()
    }
}

pub(super) fn memory_bytes() -> Option<u64> {
    None
}
