//! NVTX: every scope is also a range in NVIDIA's tools (Nsight Systems and others) while one of
//! them is attached; behind the feature `cuda`.
//!
//! Ranges carry no time of their own: the tool reads its clock where they are pushed and popped. So
//! they are a live tap like `tracing` spans, and not a sink. Whether a tool is there is asked once,
//! where recording is first switched on ([`attach`]); where none is, scopes keep the fast path,
//! which knows nothing of this. Where one is, all scopes go the cold path, and there each pushes
//! its range before its start is read and pops it after its end was: the range lies around the
//! span, and the span does not hold what the tool takes.
//!
//! A tool is a library that the variable `NVTX_INJECTION64_PATH` names, or one that is in the
//! process already. What it and a program say to each other is a small, frozen binary interface
//! (`interface`); speaking it takes no toolkit, no C compiler and no other crate than the one that
//! opens libraries. The crates `nvtx` and `nvtx-sys` 2.0 wrap NVIDIA's headers instead, and need a
//! C compiler and libclang on every machine that builds them.
//!
//! Names are registered with the tool once per site id, in the domain `vor` (`names`), and then
//! stand in a table that is read without a lock: a range allocates nothing.

#[cfg(all(
    feature = "cuda",
    any(target_os = "linux", windows),
    not(feature = "off")
))]
mod ranges;
#[cfg(not(all(
    feature = "cuda",
    any(target_os = "linux", windows),
    not(feature = "off")
)))]
mod stub;

#[cfg(all(
    feature = "cuda",
    any(target_os = "linux", windows),
    not(feature = "off")
))]
pub(crate) use ranges::*;
#[cfg(not(all(
    feature = "cuda",
    any(target_os = "linux", windows),
    not(feature = "off")
)))]
pub(crate) use stub::*;
