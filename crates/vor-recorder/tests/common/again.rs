//! The program of a test, started once more in a process of its own.

use std::process::Command;

/// What starts programs where they cannot start themselves, as under an emulator of another
/// processor: its words, with spaces between.
const RUNNER: &str = "VOR_TEST_RUNNER";

/// Returns a command that starts this program again; the caller names the test and says by a
/// variable that it is the child.
pub fn again() -> Command {
    let program = std::env::current_exe().unwrap();
    let runner = std::env::var(RUNNER).unwrap_or_default();
    let mut words = runner.split_whitespace();
    match words.next() {
        Some(first) => {
            let mut command = Command::new(first);
            command.args(words).arg(program);
            command
        }
        None => Command::new(program),
    }
}
