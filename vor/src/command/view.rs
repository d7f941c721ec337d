//! `vor view`: starts the viewer, a program of its own so that the command does not link a GUI.
//!
//! The viewer follows a file that grows. The stream of a running program is therefore written into
//! a temporary file, which is removed when the viewer is closed.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use tempfile::TempDir;
use vor_recorder::sinks::live::{Address, Choice};

use crate::command::failure::{Failure, warn};
use crate::command::live;

/// Shows captures, or a running program, in a window: starts the viewer `vor-viz`.
///
/// A program is its process number, `unix:PATH` or `tcp://HOST:PORT`.
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
    let mut watched = Vec::new();
    let mut arguments = Vec::new();
    for (at, arg) in args.args.iter().enumerate() {
        // A number that follows an option is no process.
        let address = match arg.to_str().is_some_and(Address::is_meant) || at == 0 {
            true => live::address_of(arg),
            false => Ok(None),
        };
        match address.and_then(|address| address.map(Watched::begin).transpose()) {
            Ok(Some(program)) => {
                arguments.push(program.path.clone().into_os_string());
                watched.push(program);
            }
            Ok(None) => arguments.push(arg.clone()),
            Err(Failure::Message(message)) => {
                warn(&message);
                return 2;
            }
            Err(Failure::PipeClosed) => return 0,
        }
    }
    let program = sibling_viewer().unwrap_or_else(|| "vor-viz".into());
    let status = match Command::new(program).args(&arguments).status() {
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
    drop(watched);
    match status.code().map(u8::try_from) {
        Some(Ok(code)) => code,
        // A signal ended it, or its exit code does not fit.
        _ => 2,
    }
}

/// A running program whose stream goes into a temporary file.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    copies: Option<JoinHandle<()>>,
    _folder: TempDir,
}

impl Watched {
    fn begin(address: Address) -> Result<Self, Failure> {
        let mut stream = live::open(&address, Choice::All)?;
        let no_file = |error| Failure::Message(format!("a temporary file: {error}"));
        let folder = tempfile::tempdir().map_err(no_file)?;
        let path = folder.path().join("live.vor");
        let mut file = File::create(&path).map_err(no_file)?;
        // The viewer needs the header at least.
        copy_some(&mut stream, &mut file).map_err(no_file)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let copies = thread::spawn(move || {
            while !stream.has_ended && !ends.load(Ordering::Relaxed) {
                if let Err(error) = copy_some(&mut stream, &mut file) {
                    warn(&format!(
                        "{address}: {error}; the viewer has what came before"
                    ));
                    return;
                }
            }
        });
        Ok(Self {
            path,
            is_over,
            copies: Some(copies),
            _folder: folder,
        })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(copies) = self.copies.take() {
            // It has reported its failure itself.
            let _ = copies.join();
        }
    }
}

/// Copies what is there.
fn copy_some(stream: &mut impl Read, file: &mut impl Write) -> io::Result<()> {
    let mut chunk = [0; 64 << 10];
    let read = stream.read(&mut chunk)?;
    file.write_all(&chunk[..read])
}

/// Returns the viewer in the folder of this program, if both were installed or built together.
fn sibling_viewer() -> Option<PathBuf> {
    let name = format!("vor-viz{}", env::consts::EXE_SUFFIX);
    let path = env::current_exe().ok()?.with_file_name(name);
    path.is_file().then_some(path)
}
