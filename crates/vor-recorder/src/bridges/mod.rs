//! Connections to other libraries: their spans as scopes of vor, and scopes of vor as theirs.
//!
//! | module | connects |
//! |---|---|
//! | `tracing_in` | `tracing` spans to scopes; `layer` and `subscriber` are its two interfaces |
//! | [`reader`] | frames of a capture to puffin's |

#[cfg(feature = "tracing-subscriber")]
pub mod tracing_in;
#[cfg(feature = "tracing-layer")]
pub mod layer;
#[cfg(feature = "tracing-subscriber")]
pub mod subscriber;
#[cfg(feature = "reader")]
pub mod reader;
