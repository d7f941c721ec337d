//! Turns on the features whose tests `cargo test --workspace` runs; see `Cargo.toml`.
