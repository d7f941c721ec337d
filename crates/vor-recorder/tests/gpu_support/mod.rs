//! What the tests of the feature `cuda` share: libraries that stand in for NVIDIA's, built by the
//! compiler that built the test, and children that find them.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up should stop"
)]

pub mod tool_log;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Names the part that a child plays.
const ROLE: &str = "VOR_TEST_ROLE";

/// Builds the library `source` of this folder as the file `name` in `folder`.
///
/// Cargo builds no shared library for a test, so the compiler is called for it: one file, no
/// crates.
pub fn build(source: &str, folder: &Path, name: &str) -> PathBuf {
    let library = folder.join(name);
    // A machine with a card may have no compiler.
    if let Some(built) = std::env::var_os("VOR_TEST_LIBRARIES") {
        let built = Path::new(&built).join(source).with_extension("so");
        std::fs::copy(built, &library).expect("the library was built before");
        return library;
    }
    // The benches build them too, from a folder of their own.
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| {
            folder
                .join("crates/vor-recorder/tests/gpu_support")
                .join(source)
        })
        .find(|path| path.exists())
        .expect("the library's source is in the repository");
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

/// Returns the part this process has to play, `None` in the parent.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Makes the command that runs `test` of this binary again as a child with a part to play.
/// Variables of vor, its tests and NVIDIA's are not inherited.
pub fn child(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    for (name, _) in std::env::vars_os() {
        let shown = name.to_string_lossy();
        if ["VOR_", "NVTX_", "CUDA_"]
            .iter()
            .any(|prefix| shown.starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command
        .env(ROLE, role)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null());
    command
}

/// Runs a child to its end, which has to be a good one.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

/// Returns the lines that vor itself wrote to stderr.
pub fn vor_lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let of_vor = text.lines().filter(|line| line.starts_with("vor: "));
    of_vor.map(str::to_owned).collect()
}
