//! Values of graphics cards as system rows: NVIDIA's with the feature `cuda`, Apple's with `mac`.
//!
//! A driver call takes from microseconds to forever, because a driver may hang. So one thread,
//! `vor-gpu`, polls once the rows are first wanted. It publishes the values in one place, from
//! which a frame takes the fresh ones ([`GpuRows`]). Nothing is polled while no sink reads metrics.

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
