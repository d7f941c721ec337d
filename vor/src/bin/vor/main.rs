//! The `vor` command.
fn main() {}
