//! The line that a client sends first, without input and output.
//!
//! ```text
//! vor 1 stream spans=all
//! vor 1 stream spans=slow:50000us token=0123456789abcdef
//! vor 1 status
//! vor 1 dump
//! vor 1 scopes rules=db::*%3dcount
//! ```
//!
//! An empty line asks for a stream of everything, so that `echo | nc -U PATH > run.vor` is a
//! client. The answer to a stream is the capture itself; to anything else, `ok` or `error: …` and
//! lines. A page in a browser cannot send such a line first, because its first line is a request of
//! HTTP; those that ask for a WebSocket are in `websocket`.

use std::fmt;
use std::time::Duration;

use vor_capture::Error;

use super::token::Token;

/// Most bytes of a request, its end included.
pub(super) const MAX_BYTES: usize = 4096;

const VERSION: &str = "1";

/// The part of the recording that a client receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Everything.
    #[default]
    All,
    /// Frames with their metrics, and no spans.
    Metrics,
    /// Metrics, and the spans of frames that take longer.
    Slow(Duration),
}

/// Shows the choice as `spans=` has it.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Metrics => f.write_str("none"),
            Self::Slow(limit) => write!(f, "slow:{}us", limit.as_micros()),
        }
    }
}

impl Choice {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "all" => Some(Self::All),
            "none" => Some(Self::Metrics),
            _ => {
                let micros = text.strip_prefix("slow:")?.strip_suffix("us")?;
                Some(Self::Slow(Duration::from_micros(micros.parse().ok()?)))
            }
        }
    }
}

/// The purpose of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// The capture from now on.
    Stream(Choice),
    /// The state of the recording, in lines.
    Status,
    /// The newest records in memory as a file.
    Dump,
    /// How the scopes of each call site are recorded, in lines.
    Scopes,
    /// The same, after these rules have replaced those that were on.
    SetScopes(String),
}

impl Wish {
    /// Returns whether it changes something in the program or on its disk.
    pub(super) fn is_control(&self) -> bool {
        matches!(self, Self::Dump | Self::SetScopes(_))
    }
}

/// A request that was understood. Whether its token is right is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) wish: Wish,
    pub(super) token: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// Reads a line without its end.
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, Error> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Ok(Self {
                wish: Wish::Stream(Choice::All),
                token: None,
            });
        }
        let is_text = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        let text = std::str::from_utf8(line).ok();
        let Some(text) = text.filter(|_| line.iter().all(is_text)) else {
            return Err(Error::config("the request is not a line of ASCII text"));
        };
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        if words.next() != Some("vor") {
            return Err(Error::config(
                "this is no request of vor; send `vor 1 stream`, or an empty line",
            ));
        }
        if words.next() != Some(VERSION) {
            return Err(Error::config(
                "this program understands requests of version 1 only; use the `vor` of its version",
            ));
        }
        let verb = words.next().unwrap_or_default();
        let (mut token, mut choice, mut rules) = (None, None, None);
        for word in words {
            match word.split_once('=') {
                Some(("token", given)) if token.is_none() => token = Some(given),
                Some(("spans", given)) if choice.is_none() && verb == "stream" => {
                    choice = Some(Choice::parse(given).ok_or_else(|| {
                        Error::config("spans= is not `all`, `none` or `slow:MICROSECONDSus`")
                    })?);
                }
                Some(("rules", given)) if rules.is_none() && verb == "scopes" => {
                    rules = Some(unescape(given).ok_or_else(|| {
                        Error::config("rules= has a `%` that no two hexadecimal digits follow")
                    })?);
                }
                _ => {
                    return Err(Error::config(
                        "the request has a word that has no meaning here",
                    ));
                }
            }
        }
        let wish = match verb {
            "stream" => Wish::Stream(choice.unwrap_or_default()),
            "status" => Wish::Status,
            "dump" => Wish::Dump,
            "scopes" => rules.map_or(Wish::Scopes, Wish::SetScopes),
            _ => {
                return Err(Error::config(
                    "a request is `stream`, `status`, `dump` or `scopes`; use the `vor` of this \
                    version",
                ));
            }
        };
        Ok(Self { wish, token })
    }
}

/// Writes a request as the line that [`Request::parse`] reads.
pub(super) fn line(wish: &Wish, token: Option<&Token>) -> String {
    let mut line = format!("vor {VERSION} ");
    line += &match wish {
        Wish::Stream(choice) => format!("stream spans={choice}"),
        Wish::Status => "status".to_owned(),
        Wish::Dump => "dump".to_owned(),
        Wish::Scopes => "scopes".to_owned(),
        Wish::SetScopes(rules) => format!("scopes rules={}", escape(rules)),
    };
    if let Some(token) = token {
        line += &format!(" token={}", token.as_str());
    }
    line.push('\n');
    line
}

/// Writes a text as a word of ASCII: `%` and two digits for each byte that is not graphic, or is
/// the `%` or the `=`.
fn escape(text: &str) -> String {
    let mut word = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | b'=' => word += &format!("%{byte:02x}"),
            _ if byte.is_ascii_graphic() => word.push(byte.into()),
            _ => word += &format!("%{byte:02x}"),
        }
    }
    word
}

/// Reads what [`escape`] writes. Bytes that are no text are replaced.
fn unescape(word: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut parts = word.split('%');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads any bytes as a request, and checks that what was understood can be written again.
///
/// # Panics
///
/// A request differs from what its own line means.
#[doc(hidden)]
pub fn check_any_request(bytes: &[u8]) {
    let Ok(request) = Request::parse(bytes) else {
        return;
    };
    let token = request.token.and_then(|token| Token::new(token).ok());
    let again = line(&request.wish, token.as_ref());
    let again = again.trim_end_matches('\n');
    let parsed = Request::parse(again.as_bytes()).map(|request| request.wish);
    assert_eq!(parsed.ok(), Some(request.wish), "{again}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wish(line: &str) -> Result<Wish, String> {
        let request = Request::parse(line.as_bytes());
        request
            .map(|request| request.wish)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn requests_are_read() {
        let slow = Choice::Slow(Duration::from_micros(50_000));
        for (line, expected) in [
            ("", Wish::Stream(Choice::All)),
            ("\r", Wish::Stream(Choice::All)),
            ("vor 1 stream", Wish::Stream(Choice::All)),
            ("vor 1 stream spans=none", Wish::Stream(Choice::Metrics)),
            ("vor 1  stream spans=slow:50000us\r", Wish::Stream(slow)),
            ("vor 1 status", Wish::Status),
            ("vor 1 dump token=x", Wish::Dump),
            ("vor 1 scopes", Wish::Scopes),
            ("vor 1 scopes rules=", Wish::SetScopes(String::new())),
            (
                "vor 1 scopes rules=a%20b%3Doff",
                Wish::SetScopes("a b=off".into()),
            ),
        ] {
            assert_eq!(wish(line), Ok(expected), "{line:?}");
        }
        let with_token = Request::parse(b"vor 1 status token=a=b").unwrap();
        assert_eq!(with_token.token, Some("a=b"));
    }

    #[test]
    fn other_lines_are_refused_for_a_reason() {
        for (line, part) in [
            ("GET / HTTP/1.1", "no request of vor"),
            ("POST / HTTP/1.1\r", "no request of vor"),
            ("vor 2 stream", "version 1 only"),
            ("vor", "version 1 only"),
            ("vor 1", "`stream`, `status`, `dump` or `scopes`"),
            ("vor 1 shutdown", "`stream`, `status`, `dump` or `scopes`"),
            ("vor 1 status spans=all", "no meaning here"),
            ("vor 1 status rules=a=off", "no meaning here"),
            ("vor 1 scopes rules=a%2", "has a `%`"),
            ("vor 1 scopes rules=%+1", "has a `%`"),
            ("vor 1 stream spans=all spans=none", "no meaning here"),
            ("vor 1 stream spans=slow:1ms", "spans= is not"),
            ("vor 1 stream spans=slow:-1us", "spans= is not"),
            ("vor 1 stream now", "no meaning here"),
            ("vor\t1\tstream", "not a line of ASCII text"),
            ("vör 1 stream", "not a line of ASCII text"),
        ] {
            let error = wish(line).unwrap_err();
            assert!(error.contains(part), "{line:?}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn what_a_client_writes_is_what_the_program_reads() {
        let token = Token::new("0123456789abcdef").unwrap();
        for wished in [
            Wish::Stream(Choice::All),
            Wish::Stream(Choice::Slow(Duration::from_micros(u64::MAX))),
            Wish::Status,
            Wish::Dump,
            Wish::Scopes,
            Wish::SetScopes("a b=off, ü*=1/100 %".into()),
        ] {
            let line = line(&wished, Some(&token));
            assert!(line.len() <= MAX_BYTES);
            let request = Request::parse(line.trim_end_matches('\n').as_bytes()).unwrap();
            assert_eq!(
                (request.wish, request.token),
                (wished, Some(token.as_str()))
            );
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            check_any_request(&bytes);
        }

        #[test]
        fn near_requests_survive_a_round_trip(
            line in "vor 1 (stream|status|dump|scopes)( (spans|token|rules)=[a-z:=%1]{0,20}){0,3}\r?"
        ) {
            check_any_request(line.as_bytes());
        }
    }
}
