//! Addresses of running programs: `unix:PATH`, `tcp://HOST:PORT`, or a process number.

use std::fmt;
use std::path::PathBuf;

use vor_capture::Error;

/// The address at which a program listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system, for programs of the same user.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String),
}

/// The forms of an address, for messages.
const EXPECTED: &str = "an address is `unix:PATH` or `HOST:PORT`";

impl Address {
    /// Reads where to listen: `unix` or `1` (the default socket of this process), `unix:PATH`,
    /// `HOST:PORT` or `tcp://HOST:PORT`.
    ///
    /// # Errors
    ///
    /// The text is none of them, or the default socket has no folder.
    pub fn to_listen(text: &str) -> Result<Self, Error> {
        match text.trim() {
            "unix" | "1" => Ok(Self::Unix(default_path(std::process::id())?)),
            text => Self::parse(text),
        }
    }

    /// Reads where a program listens: its process number, `unix:PATH`, `HOST:PORT` or
    /// `tcp://HOST:PORT`.
    ///
    /// # Errors
    ///
    /// The text is none of them.
    pub fn of_program(text: &str) -> Result<Self, Error> {
        match text.trim().parse::<u32>() {
            Ok(pid) => Ok(Self::Unix(default_path(pid)?)),
            Err(_) => Self::parse(text.trim()),
        }
    }

    /// Returns whether a text means an address rather than a file.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("unix:") || text.starts_with("tcp:")
    }

    /// Returns whether the system shall choose the port.
    pub(super) fn is_any_port(&self) -> bool {
        matches!(self, Self::Tcp(text) if text.ends_with(":0"))
    }

    fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |problem: &str| Err(Error::config(format!("`{text}`: {problem}; {EXPECTED}")));
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path.is_empty() {
                true => wrong("the path is empty"),
                false => Ok(Self::Unix(PathBuf::from(path))),
            };
        }
        let tcp = text.strip_prefix("tcp:").unwrap_or(text);
        let tcp = tcp.strip_prefix("//").unwrap_or(tcp);
        let Some((host, port)) = tcp.rsplit_once(':') else {
            return wrong("there is no port");
        };
        if host.is_empty() || host.contains(['/', ' ', '@']) {
            return wrong("there is no host");
        }
        if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
            return wrong("a host with colons needs brackets, as in `[::1]:5005`");
        }
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || port.parse::<u16>().is_err() {
            return wrong("the port is not a number up to 65535");
        }
        Ok(Self::Tcp(tcp.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

/// Returns the socket of a process: `vor-PID.sock` in the folder of the user's session, or else in
/// one in the temporary folder that only the user may enter.
fn default_path(pid: u32) -> Result<PathBuf, Error> {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let session = session.filter(|folder| folder.is_absolute() && folder.is_dir());
    let folder = match session {
        Some(folder) => folder,
        None => own_folder()?,
    };
    Ok(folder.join(format!("vor-{pid}.sock")))
}

#[cfg(unix)]
fn own_folder() -> Result<PathBuf, Error> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let user = crate::os::socket::user_id();
    let folder = std::env::temp_dir().join(format!("vor-{user}"));
    let failed = |error| Error::io(format!("cannot use {}", folder.display()), error);
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(failed(error));
        }
        _ => {}
    }
    // Another user may have made it first.
    let found = std::fs::symlink_metadata(&folder).map_err(failed)?;
    if found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0 {
        return Ok(folder);
    }
    Err(Error::config(format!(
        "{} is not a folder of this user alone; name a socket by `unix:PATH`",
        folder.display()
    )))
}

#[cfg(not(unix))]
fn own_folder() -> Result<PathBuf, Error> {
    Err(Error::config(
        "this system has no sockets in the file system; listen at `127.0.0.1:PORT`",
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, shown) in [
            ("unix:/run/app.sock", "unix:/run/app.sock"),
            ("unix:app.sock", "unix:app.sock"),
            ("unix:///run/app.sock", "unix:/run/app.sock"),
            ("127.0.0.1:5005", "tcp://127.0.0.1:5005"),
            ("tcp://host.example:80", "tcp://host.example:80"),
            ("tcp:[::1]:0", "tcp://[::1]:0"),
            (" localhost:65535\n", "tcp://localhost:65535"),
        ] {
            assert_eq!(Address::to_listen(text).unwrap().to_string(), shown);
            assert_eq!(Address::of_program(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_address_is_one_line() {
        for (text, problem) in [
            ("unix:", "the path is empty"),
            ("", "there is no port"),
            ("5005x", "there is no port"),
            (":5005", "there is no host"),
            ("a/b:1", "there is no host"),
            (
                "::1:5005",
                "a host with colons needs brackets, as in `[::1]:5005`",
            ),
            ("host:", "the port is not a number up to 65535"),
            ("host:+1", "the port is not a number up to 65535"),
            ("host:65536", "the port is not a number up to 65535"),
        ] {
            let error = Address::of_program(text).unwrap_err().to_string();
            assert_eq!(error, format!("`{text}`: {problem}; {EXPECTED}"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_process_number_means_its_default_socket() {
        let Address::Unix(path) = Address::of_program("4711").unwrap() else {
            panic!("a process has a socket");
        };
        assert_eq!(path.file_name().unwrap(), "vor-4711.sock");
        let own = Address::to_listen("unix").unwrap();
        assert_eq!(
            own,
            Address::of_program(&std::process::id().to_string()).unwrap()
        );
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_one_line(
            text in "\\PC{0,40}|(unix|tcp):[/a-z\\[\\]:0-9]{0,20}"
        ) {
            match Address::of_program(&text) {
                Ok(address @ Address::Tcp(_)) => {
                    prop_assert_eq!(Address::of_program(&address.to_string()).unwrap(), address);
                }
                Ok(Address::Unix(path)) => prop_assert!(!path.as_os_str().is_empty()),
                Err(error) => prop_assert!(error.to_string().lines().count() <= 1),
            }
        }
    }
}
