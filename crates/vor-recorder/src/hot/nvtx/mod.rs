//! NVTX: every scope is also a range in NVIDIA's tools (Nsight Systems and others) while one of
//! them is attached; behind the feature `cuda`.
//!
//! Ranges carry no time of their own: the tool reads its clock where they are pushed and popped. So
//! they are made live, like `tracing` spans, and not by a sink. The tool is looked for once, when
//! recording is first switched on ([`attach`]). Without a tool, scopes keep the fast path, which
//! knows nothing of ranges. With a tool, all scopes take the slow path: each pushes its range
//! before it reads its start, and pops the range after it has read its end. So the range lies
//! around the span, and the span excludes the time that the tool takes.
//!
//! A tool is a library that the variable `NVTX_INJECTION64_PATH` names, or one that is in the
//! process already. It talks to a program by a small, frozen binary interface (`interface`), which
//! needs no toolkit, no C compiler and no crate but the one that opens libraries. The crates `nvtx`
//! and `nvtx-sys` 2.0 wrap NVIDIA's headers instead, and need a C compiler and libclang on every
//! machine that builds them.
//!
//! Names are registered with the tool once per site id, in the domain `vor` (`names`), and stored
//! in a table that is read without a lock: a range allocates nothing.

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
