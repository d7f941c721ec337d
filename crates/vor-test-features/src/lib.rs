//! Turns on the features whose tests `cargo test --workspace --no-default-features` runs; see
//! `Cargo.toml`.
