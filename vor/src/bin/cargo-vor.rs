//! `cargo vor`, implemented in [`vor::command::run_cargo`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(vor::command::run_cargo(std::env::args_os()))
}
