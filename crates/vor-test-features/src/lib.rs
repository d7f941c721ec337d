//! Turns on the features whose tests `cargo test --workspace --no-default-features` runs; see
//! `Cargo.toml`. Its own tests need crates with which no other member should be built.
