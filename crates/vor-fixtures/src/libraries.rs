//! Test libraries in place of NVIDIA's, built by the compiler that built the test.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

static ONE_THREAD: Mutex<()> = Mutex::new(());

/// Puts the library `source` of the folder `libraries` into `folder` as the file `name`.
pub fn build(source: &str, folder: &Path, name: &str) -> PathBuf {
    let library = folder.join(name);
    // A machine with a card may have no compiler.
    let built = match std::env::var_os("VOR_TEST_LIBRARIES") {
        Some(built) => Path::new(&built).join(source).with_extension("so"),
        None => build_once(source),
    };
    fs::copy(built, &library).expect("the library was built before");
    library
}

/// Returns the library `source`, which the first process that needs it builds beside the tests.
///
/// Cargo builds no shared library for a test, so this function calls the compiler, with one file
/// and no crates.
fn build_once(source: &str) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("libraries")
        .join(source);
    let code = fs::read(&from).expect("the source is readable");
    let mut hasher = DefaultHasher::new();
    code.hash(&mut hasher);
    let test = std::env::current_exe().expect("a test has a path");
    let library = test.with_file_name(format!("{source}-{:016x}.so", hasher.finish()));
    let _one_thread = ONE_THREAD.lock();
    if !library.exists() {
        // Processes that build it at the same time replace it by an equal one.
        let unfinished = library.with_extension(std::process::id().to_string());
        compile(&from, &unfinished);
        fs::rename(&unfinished, &library).expect("the folder of the tests is writable");
    }
    library
}

fn compile(from: &Path, library: &Path) {
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
        .arg(library)
        .arg(from)
        .output()
        .expect("there is a compiler");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
