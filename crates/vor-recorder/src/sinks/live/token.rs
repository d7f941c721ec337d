//! The secret of addresses that other users or machines reach. It comes from a variable or a file,
//! never from an argument, which other users can read.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use vor_capture::Error;

/// Fewest and most characters of a token.
const LENGTH: std::ops::RangeInclusive<usize> = 16..=256;

/// The variables that hold a token, or the path of its file.
const VARIABLE: &str = "VOR_LISTEN_TOKEN";
const FILE_VARIABLE: &str = "VOR_LISTEN_TOKEN_FILE";

/// A secret that a client must know. It is not shown by `Debug`.
#[derive(Clone)]
pub struct Token(Box<[u8]>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.0)
    }
}

impl Eq for Token {}

impl Token {
    /// Makes a token of 16 to 256 visible ASCII characters.
    ///
    /// # Errors
    ///
    /// It is shorter, longer, or has a blank or another character.
    pub fn new(text: &str) -> Result<Self, Error> {
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_visible && LENGTH.contains(&text.len()) {
            return Ok(Self(text.as_bytes().into()));
        }
        Err(Error::config(
            "a token has 16 to 256 visible ASCII characters; make one with `openssl rand -hex 32`",
        ))
    }

    /// Reads the token from `VOR_LISTEN_TOKEN`, or from the file that `VOR_LISTEN_TOKEN_FILE`
    /// names. `None` if neither is set.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or there is no token in it or in the variable.
    pub fn from_env() -> Result<Option<Self>, Error> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    pub(crate) fn from_variables(
        get: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, Error> {
        let set = |name| get(name).filter(|value| !value.is_empty());
        let named = |name: &str, error: &Error| Error::config(format!("{name}: {error}"));
        if let Some(text) = set(VARIABLE) {
            let token = Self::new(&text.to_string_lossy());
            return token.map(Some).map_err(|error| named(VARIABLE, &error));
        }
        let Some(path) = set(FILE_VARIABLE) else {
            return Ok(None);
        };
        let path = Path::new(&path);
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::io(format!("{FILE_VARIABLE}: {}", path.display()), error))?;
        let token = Self::new(text.trim());
        token
            .map(Some)
            .map_err(|error| named(FILE_VARIABLE, &error))
    }

    /// Compares in a time that depends on the length of `given` only.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        let mut difference = self.0.len() ^ given.len();
        for (at, byte) in given.iter().enumerate() {
            difference |= usize::from(byte ^ self.0[at % self.0.len()]);
        }
        // The compiler must not end the loop at the first difference.
        std::hint::black_box(difference) == 0
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_bytes_are_the_token() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        let wrong: [&[u8]; 6] = [
            b"",
            b"0",
            b"0123456789abcde",
            b"0123456789abcdeF",
            b"1123456789abcdef",
            b"0123456789abcdef0123456789abcdef",
        ];
        for wrong in wrong {
            assert!(!token.is(wrong), "{}", wrong.escape_ascii());
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn weak_tokens_are_refused() {
        for weak in [
            "",
            "short",
            "0123456789abcde ",
            "0123456789abcdé",
            &"x".repeat(257),
        ] {
            assert!(Token::new(weak).is_err(), "{weak}");
        }
        assert!(Token::new(&"x".repeat(256)).is_ok());
    }

    #[test]
    fn the_token_is_in_a_variable_or_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "fedcba9876543210\n").unwrap();
        let read = |set: &[(&str, &str)]| {
            let get = |name: &str| {
                let of = |(key, value): &(&str, &str)| (*key == name).then(|| value.into());
                set.iter().find_map(of)
            };
            Token::from_variables(get).map_err(|error| error.to_string())
        };
        let path = path.to_str().unwrap();
        assert_eq!(read(&[]), Ok(None));
        let token = |text| Ok(Some(Token::new(text).unwrap()));
        let (name, file) = (VARIABLE, FILE_VARIABLE);
        assert_eq!(
            read(&[(name, "0123456789abcdef"), (file, "/")]),
            token("0123456789abcdef")
        );
        assert_eq!(read(&[(name, ""), (file, path)]), token("fedcba9876543210"));
        assert!(
            read(&[(name, "x")])
                .unwrap_err()
                .starts_with("VOR_LISTEN_TOKEN: a token has")
        );
        assert!(
            read(&[(file, "/nothing")])
                .unwrap_err()
                .starts_with("VOR_LISTEN_TOKEN_FILE: ")
        );
    }
}
