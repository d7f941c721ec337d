//! Other libraries: their spans as scopes of vor, and scopes of vor as theirs.
//!
//! | module | connects |
//! |---|---|
//! | `tracing_out` | scopes to a live `tracing` subscriber |
//! | `tracing_in` | `tracing` spans to scopes; [`layer`] and [`subscriber`] are its two interfaces |
//! | `nvtx` | scopes to ranges of NVIDIA's tools |
//! | [`puffin`](mod@puffin) | frames to puffin |
//! | [`reader`] | frames of a capture to puffin's |

pub(crate) mod tracing_out;
#[cfg(feature = "tracing")]
pub mod tracing_in;
#[cfg(feature = "tracing-layer")]
pub mod layer;
#[cfg(feature = "tracing")]
pub mod subscriber;
pub(crate) mod nvtx;
#[cfg(feature = "puffin")]
pub mod puffin;
pub mod reader;
