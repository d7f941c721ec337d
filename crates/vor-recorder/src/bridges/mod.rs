//! Connections to other libraries: their spans as scopes of vor, and scopes of vor as theirs.
//!
//! | module | connects |
//! |---|---|
//! | `tracing_in` | `tracing` spans to scopes; `layer` and `subscriber` are its two interfaces |
//! | `tokio` | polls of named futures with their delays, and the numbers of a runtime |
//! | `tower` | requests of a server as tasks |
//! | [`reader`] | frames of a capture to puffin's |

#[cfg(feature = "tracing-subscriber")]
pub mod tracing_in;
#[cfg(feature = "tracing-layer")]
pub mod layer;
#[cfg(feature = "tracing-subscriber")]
pub mod subscriber;
#[cfg(all(feature = "tokio", not(loom)))]
pub mod tokio;
#[cfg(all(feature = "tower", not(loom)))]
pub mod tower;
#[cfg(feature = "reader")]
pub mod reader;
