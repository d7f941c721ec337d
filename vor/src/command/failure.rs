//! What ends a command early, and how it is told.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::Path;

/// Why a command ends before its work is done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// One line that says what is wrong; exit code 2.
    Message(String),
    /// Whoever read the output has seen enough; no error.
    PipeClosed,
}

impl Failure {
    /// Makes the failure of an input file.
    pub(crate) fn in_file(path: &Path, what: impl Display) -> Self {
        Self::Message(format!("{}: {what}", path.display()))
    }

    /// Makes the failure of a write.
    pub(crate) fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::PipeClosed
        } else {
            Self::Message(format!("cannot write the output: {error}"))
        }
    }

    /// Makes the failure of an exporter to `output`, or to stdout.
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

/// Writes a line to stderr. A stderr that is closed stops no command.
pub(crate) fn warn(message: &str) {
    let line: String = message
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    drop(writeln!(io::stderr(), "vor: {line}"));
}
