//! `vor view`: starts the viewer, a program of its own so that the command does not link a GUI.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use crate::command::failure::warn;

/// Shows captures in a window: starts the viewer `vor-viz`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Captures and options for `vor-viz`; `vor view --help` lists them.
    #[arg(
        value_name = "ARGS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    args: Vec<OsString>,
}

/// Runs the viewer until it is closed, and returns its exit code.
pub(crate) fn run(args: &Args) -> u8 {
    let program = sibling_viewer().unwrap_or_else(|| "vor-viz".into());
    let status = match Command::new(program).args(&args.args).status() {
        Ok(status) => status,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            warn(
                "`vor-viz` not found; install it with `cargo install --path vor-viz` in the repository of vor",
            );
            return 2;
        }
        Err(error) => {
            warn(&format!("vor-viz: {error}"));
            return 2;
        }
    };
    match status.code().map(u8::try_from) {
        Some(Ok(code)) => code,
        // A signal ended it, or its exit code does not fit.
        _ => 2,
    }
}

/// Returns the viewer in the folder of this program, if both were installed or built together.
fn sibling_viewer() -> Option<PathBuf> {
    let name = format!("vor-viz{}", env::consts::EXE_SUFFIX);
    let path = env::current_exe().ok()?.with_file_name(name);
    path.is_file().then_some(path)
}
