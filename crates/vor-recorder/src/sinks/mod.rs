//! The outputs that take batches and frames.

#[cfg(feature = "web")]
pub mod browser;
pub mod capture;
#[cfg(feature = "segments")]
pub mod last;
#[cfg(all(feature = "live", not(target_family = "wasm")))]
pub mod live;
#[cfg(feature = "segments")]
pub(crate) mod named_files;
#[cfg(feature = "segments")]
pub mod segments;
#[cfg(feature = "export")]
pub mod chrome;
#[cfg(all(feature = "otlp", not(target_arch = "wasm32")))]
pub mod otlp;
#[cfg(feature = "export")]
pub mod perfetto;
#[cfg(feature = "puffin")]
pub mod puffin;
#[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
mod profiles;
#[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
pub mod pprof;
#[cfg(all(feature = "pyroscope", not(target_arch = "wasm32")))]
pub mod pyroscope;
#[cfg(all(feature = "export", not(target_arch = "wasm32")))]
pub mod samply;
#[cfg(feature = "export")]
mod exporter_sink;

/// An output as in vor 0.2.1: install it once, and drop the guard to flush and end it.
pub trait Sink {
    /// Switches the output on.
    fn install(self) -> Guard;
}

/// Keeps an installed [`Sink`] on; dropping it flushes and ends the output.
#[must_use = "dropping the guard ends the output"]
pub struct Guard {
    _value: Box<dyn std::any::Any>,
}

impl Guard {
    /// Wraps any value whose drop flushes.
    pub fn new<T: 'static>(flush: T) -> Self {
        Self {
            _value: Box::new(flush),
        }
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}
