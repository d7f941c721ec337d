//! The error that ends a command, and warnings on stderr.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::Path;

/// Why a command ends before its work is done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The error as one line; exit code 2.
    Message(String),
    /// The reader of stdout closed the pipe, as `head` does. This is no error.
    PipeClosed,
}

impl Failure {
    /// Makes an error that names a file.
    pub(crate) fn in_file(path: &Path, problem: impl Display) -> Self {
        Self::Message(format!("{}: {problem}", path.display()))
    }

    /// Makes the error of a write to stdout.
    pub(crate) fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::PipeClosed
        } else {
            Self::Message(format!("cannot write the output: {error}"))
        }
    }

    /// Makes the error of an exporter that writes to `output`, or to stdout.
    pub(crate) fn export(output: Option<&Path>, error: vor_capture::Error) -> Self {
        let message = error.to_string();
        let is_closed = io::Error::from(error).kind() == io::ErrorKind::BrokenPipe;
        match output {
            _ if is_closed => Self::PipeClosed,
            Some(path) => Self::in_file(path, message),
            None => Self::Message(message),
        }
    }
}

impl From<vor_capture::Error> for Failure {
    fn from(error: vor_capture::Error) -> Self {
        Self::Message(error.to_string())
    }
}

/// Writes a line to stderr. A closed stderr does not stop the command.
pub(crate) fn warn(message: &str) {
    let line: String = message
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    drop(writeln!(io::stderr(), "vor: {line}"));
}
