//! The panel of vor. It reads frames and captures of `vor-core`; nothing of it is drawn yet.
#![forbid(unsafe_code)]
