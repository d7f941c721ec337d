//! `vor view`: starts the viewer, a program of its own so that the command does not link a GUI.
//!
//! The viewer reads one file, and follows it while it grows. So the stream of a running program and
//! the segments of a folder become a temporary file, which is removed when the viewer is closed.

mod joined;
mod watched;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use joined::Joined;
use vor_capture::reader::SegmentedCapture;
use vor_recorder::sinks::live::Address;
use watched::Watched;

use crate::command::failure::{Failure, warn};
use crate::command::live;

/// Shows captures, or a running program, in a window: starts the viewer `vor-viz`.
///
/// A program is its process number, `unix:PATH` or `tcp://HOST:PORT`. The segments of a folder, or
/// those that match a pattern, are one capture, which is followed while a program writes to it.
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
    let mut files = Vec::new();
    let mut arguments = Vec::new();
    let mut original = None;
    for (at, arg) in args.args.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| args.args[at].as_os_str());
        match temporary(arg, before) {
            Ok(Some(file)) => {
                arguments.push(file.path().as_os_str().to_owned());
                original = original.or_else(|| Some(file.original(arg)));
                files.push(file);
            }
            Ok(None) => arguments.push(arg.clone()),
            Err(Failure::Message(message)) => {
                warn(&message);
                return 2;
            }
            Err(Failure::PipeClosed) => return 0,
        }
    }
    if let Some(original) = original {
        // A link in the viewer leads there, since the file will be gone.
        arguments.extend(["--copy-of".into(), original]);
    }
    let program = sibling_viewer().unwrap_or_else(|| "vor-viz".into());
    let status = match Command::new(program).args(&arguments).status() {
        Ok(status) => status,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            warn(
                "`vor-viz` not found; install it with `cargo install --path vor-viz` in the \
                repository of vor",
            );
            return 2;
        }
        Err(error) => {
            warn(&format!("vor-viz: {error}"));
            return 2;
        }
    };
    drop(files);
    match status.code().map(u8::try_from) {
        Some(Ok(code)) => code,
        // A signal ended it, or its exit code does not fit.
        _ => 2,
    }
}

/// A file that the viewer reads in place of an argument.
#[derive(Debug)]
enum Temporary {
    Watched(Watched),
    Joined(Joined),
}

impl Temporary {
    /// Returns the argument that makes it again, in any folder.
    fn original(&self, arg: &OsStr) -> OsString {
        match self {
            Self::Watched(_) => arg.to_owned(),
            Self::Joined(_) => std::path::absolute(arg).map_or_else(|_| arg.to_owned(), Into::into),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Watched(program) => program.path(),
            Self::Joined(segments) => segments.path(),
        }
    }
}

/// Makes the file for an argument that is a program, a folder or a pattern.
fn temporary(arg: &OsStr, before: Option<&OsStr>) -> Result<Option<Temporary>, Failure> {
    // A number that follows an option is no process.
    let may_be_program = before.is_none() || arg.to_str().is_some_and(Address::is_meant);
    if may_be_program && let Some(address) = live::address_of(arg)? {
        return Ok(Some(Temporary::Watched(Watched::begin(address)?)));
    }
    let is_value = before.is_some_and(|before| before == "--screenshot" || before == "--source");
    if is_value || SegmentedCapture::list(Path::new(arg))?.is_none() {
        return Ok(None);
    }
    Ok(Some(Temporary::Joined(Joined::begin(Path::new(arg))?)))
}

/// Returns the viewer in the folder of this program, if both were installed or built together.
fn sibling_viewer() -> Option<PathBuf> {
    let name = format!("vor-viz{}", env::consts::EXE_SUFFIX);
    let path = env::current_exe().ok()?.with_file_name(name);
    path.is_file().then_some(path)
}
