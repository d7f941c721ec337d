//! Test libraries in place of NVIDIA's, built by the compiler that built the test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the library `source` of the folder `libraries` as the file `name` in `folder`.
///
/// Cargo builds no shared library for a test, so this function calls the compiler, with one file
/// and no crates.
pub fn build(source: &str, folder: &Path, name: &str) -> PathBuf {
    let library = folder.join(name);
    // A machine with a card may have no compiler.
    if let Some(built) = std::env::var_os("VOR_TEST_LIBRARIES") {
        let built = Path::new(&built).join(source).with_extension("so");
        std::fs::copy(built, &library).expect("the library was built before");
        return library;
    }
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("libraries")
        .join(source);
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(compiler);
    command.args([
        "--edition=2024",
        "--crate-type=cdylib",
        "-Copt-level=2",
        "-Dwarnings",
        "-o",
    ]);
    let output = command
        .arg(&library)
        .arg(from)
        .output()
        .expect("there is a compiler");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    library
}
