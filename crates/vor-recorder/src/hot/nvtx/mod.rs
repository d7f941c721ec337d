//! NVTX: every scope is also a range in NVIDIA's tools (Nsight Systems and others) while one of
//! them is attached. Behind the feature `cuda`.
//!
//! Ranges carry no time of their own: the tool reads its clock when they are pushed and popped. So
//! they are made live, like `tracing` spans, and not by a sink. [`attach`] looks for a tool once,
//! when recording is first switched on. Without a tool, scopes take the fast path, which knows
//! nothing of ranges. With a tool, all scopes take the slow path. Each scope pushes its range
//! before it reads its start, and pops the range after it reads its end. So the range encloses the
//! span, and the span excludes the time that the tool takes.
//!
//! A tool is a library that the variable `NVTX_INJECTION64_PATH` names, or one that the process has
//! already loaded. Tool and program use a small, frozen binary interface (`interface`). It needs no
//! toolkit, no C compiler, and only the crate that opens libraries. The crates `nvtx` and
//! `nvtx-sys` 2.0 wrap NVIDIA's headers instead: they need a C compiler and libclang on every build
//! machine.
//!
//! Each site id registers its name with the tool once, in the domain `vor` (`names`). A table that
//! is read without a lock stores the result, so a range allocates nothing.

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
