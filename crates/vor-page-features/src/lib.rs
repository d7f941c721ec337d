//! Turns on features of crates that all pages share, so that `.ci/web` builds them once; see
//! `Cargo.toml`.
