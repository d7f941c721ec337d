//! The one error type of the crate.

use std::fmt;
use std::io;

/// The reason why an operation failed: one line that names the thing and says what is wrong.
///
/// Its kind is read with the `is_*` methods. Where the operating system refused, the line ends with
/// its words, so [`source`](std::error::Error::source) continues behind them: a printed chain shows
/// each cause once.
///
/// ```
/// # mod vor { pub use vor_capture::{Error, reader::Capture}; }
/// let error: vor::Error = vor::Capture::open("no-such-file.vor").unwrap_err();
/// assert!(error.is_io());
/// assert!(error.to_string().starts_with("no-such-file.vor: "));
/// ```
pub struct Error {
    kind: Kind,
    message: String,
    /// The error of the operating system, which is the last part of the line.
    refusal: Option<io::Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Corrupt,
    Version,
    Config,
    Io,
    Sink,
}

impl Error {
    /// Returns whether bytes of a capture break the rules of the format.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        self.kind == Kind::Corrupt
    }

    /// Returns whether a capture is of a version that this build cannot read.
    #[must_use]
    pub fn is_version(&self) -> bool {
        self.kind == Kind::Version
    }

    /// Returns whether a setting or a variable had an unusable value.
    #[must_use]
    pub fn is_config(&self) -> bool {
        self.kind == Kind::Config
    }

    /// Returns whether the operating system refused a read, a write or an open.
    #[must_use]
    pub fn is_io(&self) -> bool {
        self.kind == Kind::Io
    }

    /// Returns the kind of the error where the operating system [refused](Self::is_io).
    #[must_use]
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.refusal.as_ref().map(io::Error::kind)
    }

    /// Returns whether a sink refused a batch or a frame.
    #[must_use]
    pub fn is_sink(&self) -> bool {
        self.kind == Kind::Sink
    }

    /// Makes the error of a sink that cannot take a batch or a frame.
    pub fn sink(message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Sink,
            message: message.into(),
            refusal: None,
        }
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Corrupt,
            message: message.into(),
            refusal: None,
        }
    }

    pub(crate) fn version(message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Version,
            message: message.into(),
            refusal: None,
        }
    }

    /// Makes the error of a setting or a variable with an unusable value.
    #[doc(hidden)]
    pub fn config(message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Config,
            message: message.into(),
            refusal: None,
        }
    }

    /// Makes the error of an operation that the operating system refused.
    #[doc(hidden)]
    pub fn io(doing: impl Into<String>, refusal: io::Error) -> Self {
        Self {
            kind: Kind::Io,
            message: doing.into(),
            refusal: Some(refusal),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.refusal {
            Some(refusal) => write!(f, ": {refusal}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.refusal.as_ref()?.source()
    }
}

impl From<io::Error> for Error {
    fn from(refusal: io::Error) -> Self {
        Self {
            kind: Kind::Io,
            message: "input or output failed".into(),
            refusal: Some(refusal),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind {
            Kind::Corrupt | Kind::Version => io::ErrorKind::InvalidData,
            Kind::Config => io::ErrorKind::InvalidInput,
            Kind::Io => error
                .refusal
                .as_ref()
                .map_or(io::ErrorKind::Other, io::Error::kind),
            Kind::Sink => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn the_chain_shows_each_cause_once() {
        let deepest = Error::sink("the deepest");
        let refusal = io::Error::other(Error::io("the middle", io::Error::other(deepest)));
        let error = Error::io("the outer", refusal);
        let mut shown = error.to_string();
        let mut cause = error.source();
        while let Some(next) = cause {
            shown = format!("{shown} | {next}");
            cause = next.source();
        }
        assert_eq!(shown, "the outer: the middle: the deepest");

        let missing = Error::io("cannot open a.vor", io::ErrorKind::NotFound.into());
        assert_eq!(missing.io_kind(), Some(io::ErrorKind::NotFound));
        assert!(missing.source().is_none());
    }
}
