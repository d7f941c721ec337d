//! The one error type of the crate.

use std::fmt;
use std::io;

/// Why an operation of vor failed: one line that names the thing and says what is wrong.
///
/// The inside is opaque; ask with the `is_*` predicates.
pub struct Error {
    kind: Kind,
    message: String,
    source: Option<io::Error>,
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
    /// Returns whether bytes of a capture were not what the format allows.
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

    /// Returns whether a write has waited in vain.
    #[doc(hidden)]
    #[must_use]
    pub fn is_timed_out(&self) -> bool {
        let kind = self.source.as_ref().map(io::Error::kind);
        kind == Some(io::ErrorKind::TimedOut)
    }

    /// Returns whether a sink rejected what it was given.
    #[must_use]
    pub fn is_sink(&self) -> bool {
        self.kind == Kind::Sink
    }

    /// Makes the error of a sink that cannot take a batch or a frame.
    pub fn sink(message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Sink,
            message: message.into(),
            source: None,
        }
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Corrupt,
            message: message.into(),
            source: None,
        }
    }

    pub(crate) fn version(message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Version,
            message: message.into(),
            source: None,
        }
    }

    /// Makes the error of a setting or a variable with an unusable value.
    #[doc(hidden)]
    pub fn config(message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Config,
            message: message.into(),
            source: None,
        }
    }

    /// Makes the error of an operation that the operating system refused.
    #[doc(hidden)]
    pub fn io(doing: impl Into<String>, source: io::Error) -> Self {
        Self {
            kind: Kind::Io,
            message: doing.into(),
            source: Some(source),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
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
        self.source
            .as_ref()
            .map(|source| source as &(dyn std::error::Error + 'static))
    }
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        Self {
            kind: Kind::Io,
            message: "input or output failed".into(),
            source: Some(source),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind {
            Kind::Corrupt | Kind::Version => io::ErrorKind::InvalidData,
            Kind::Config => io::ErrorKind::InvalidInput,
            Kind::Io => error
                .source
                .as_ref()
                .map_or(io::ErrorKind::Other, io::Error::kind),
            Kind::Sink => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
