//! The `vor` command, implemented in [`vor::command`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(vor::command::run(std::env::args_os()))
}
