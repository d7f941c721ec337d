//! What graphics cards say of themselves, as rows of the system: NVIDIA's behind the feature
//! `cuda`, Apple's behind `mac`.
//!
//! Asking a card takes from microseconds to forever: a driver may hang. So one thread of its own
//! asks, `vor-gpu`, once the rows are first wanted. It leaves what it learned in one place, and a
//! frame takes from there what is fresh ([`GpuRows`]). Nothing is asked while no sink reads
//! metrics.

#[cfg(all(
    any(
        all(feature = "cuda", any(target_os = "linux", windows)),
        all(feature = "mac", target_os = "macos")
    ),
    not(feature = "off")
))]
pub mod cards;
#[cfg(not(all(
    any(
        all(feature = "cuda", any(target_os = "linux", windows)),
        all(feature = "mac", target_os = "macos")
    ),
    not(feature = "off")
)))]
mod stub;
/// Read on macOS, and by its tests everywhere.
#[cfg(all(feature = "mac", any(target_os = "macos", test)))]
mod apple;

#[cfg(all(
    any(
        all(feature = "cuda", any(target_os = "linux", windows)),
        all(feature = "mac", target_os = "macos")
    ),
    not(feature = "off")
))]
pub(crate) use cards::*;
#[cfg(not(all(
    any(
        all(feature = "cuda", any(target_os = "linux", windows)),
        all(feature = "mac", target_os = "macos")
    ),
    not(feature = "off")
)))]
pub(crate) use stub::*;
