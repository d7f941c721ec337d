//! Running programs as sources: addresses in arguments, and streams that end by Ctrl-C.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use vor_capture::format::HEADER_BYTES;
use vor_recorder::sinks::live::{Address, Choice, Connection, Token, connect};

use crate::command::failure::Failure;

/// How long a read waits before the command looks at something else.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// Returns the address that an argument means instead of a file: `unix:PATH`, `tcp://HOST:PORT`,
/// or the number of a process if there is no such file.
pub(crate) fn address_of(arg: &OsStr) -> Result<Option<Address>, Failure> {
    let Some(text) = arg.to_str() else {
        return Ok(None);
    };
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if Address::is_meant(text) || is_number && !Path::new(text).exists() {
        return Ok(Some(Address::of_program(text)?));
    }
    Ok(None)
}

/// Connects with the token of the environment. Reads wait for at most [`POLL`].
pub(crate) fn open(address: &Address, choice: Choice) -> Result<Stream, Failure> {
    let connection = connect(address, choice, Token::from_env()?.as_ref())?;
    connection
        .set_read_timeout(Some(POLL))
        .map_err(|error| Failure::Message(format!("{address}: {error}")))?;
    Ok(Stream {
        connection,
        has_ended: false,
        bytes: 0,
    })
}

/// A stream that reads as a growing file does: nothing now does not mean the end.
#[derive(Debug)]
pub(crate) struct Stream<C = Connection> {
    pub(crate) connection: C,
    /// Whether the program closed the connection.
    pub(crate) has_ended: bool,
    bytes: usize,
}

impl<C: Read> Read for Stream<C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            return match self.connection.read(buffer) {
                Ok(0) => {
                    self.has_ended = true;
                    Ok(0)
                }
                Ok(read) => {
                    self.bytes += read;
                    Ok(read)
                }
                Err(error) if !is_timeout(&error) => Err(error),
                // The header comes at once, and nobody can read half of it.
                Err(_) if self.bytes < HEADER_BYTES => continue,
                Err(_) => Ok(0),
            };
        }
    }
}

/// Returns whether a read only ended early. A read with a bound is not continued after a signal.
fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// The part of a recording that a command receives.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Spans {
    /// The data that a running program sends: `all`, `none` (metrics only), or `slow:50ms` (the
    /// spans of slower frames).
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = choice)]
    pub(crate) spans: Choice,
}

fn choice(text: &str) -> Result<Choice, String> {
    match text {
        "all" => return Ok(Choice::All),
        "none" => return Ok(Choice::Metrics),
        _ => {}
    }
    let ms = text
        .strip_prefix("slow:")
        .and_then(|time| time.strip_suffix("ms"))
        .and_then(|ms| ms.parse::<f64>().ok())
        .filter(|ms| (0.0..1e9).contains(ms));
    let Some(ms) = ms else {
        return Err(format!(
            "`{text}` is not `all`, `none` or `slow:MILLISECONDSms`"
        ));
    };
    Ok(Choice::Slow(Duration::from_micros((ms * 1e3) as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read() {
        assert_eq!(choice("all"), Ok(Choice::All));
        assert_eq!(choice("none"), Ok(Choice::Metrics));
        let slow = Duration::from_micros(1500);
        assert_eq!(choice("slow:1.5ms"), Ok(Choice::Slow(slow)));
        for wrong in [
            "",
            "some",
            "slow",
            "slow:5",
            "slow:-1ms",
            "slow:NaNms",
            "slow:1e99ms",
        ] {
            assert!(choice(wrong).is_err(), "{wrong}");
        }
    }

    /// A connection on which each read has one of these results: bytes, their end, or an error.
    struct Script(Vec<Result<usize, io::ErrorKind>>);

    impl Read for Script {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Ok(self.0.remove(0)?)
        }
    }

    #[test]
    fn a_pause_behind_the_header_is_no_end() {
        use io::ErrorKind::{ConnectionReset, Interrupted, TimedOut, WouldBlock};
        let mut stream = Stream {
            connection: Script(vec![
                Ok(40),
                Err(WouldBlock),
                Err(TimedOut),
                Ok(HEADER_BYTES - 41),
                Err(Interrupted),
                Ok(1),
                Err(WouldBlock),
                Err(TimedOut),
                Ok(7),
                Err(Interrupted),
                Err(ConnectionReset),
                Ok(0),
            ]),
            has_ended: false,
            bytes: 0,
        };
        // Within the header, the stream waits; behind it, nothing is there yet.
        for expected in [40, HEADER_BYTES - 41, 1, 0, 0, 7, 0] {
            assert_eq!(stream.read(&mut []).unwrap(), expected);
            assert!(!stream.has_ended);
        }
        let failed = stream.read(&mut []).unwrap_err();
        assert_eq!(failed.kind(), ConnectionReset);
        assert!(!stream.has_ended);
        assert_eq!(stream.read(&mut []).unwrap(), 0);
        assert!(stream.has_ended);
    }

    #[test]
    fn files_are_no_addresses() {
        let is_address = |arg: &str| address_of(arg.as_ref()).unwrap().is_some();
        assert!(is_address("unix:/run/app.sock") && is_address("tcp://localhost:5005"));
        assert!(!is_address("run.vor") && !is_address("localhost:5005") && !is_address(""));
        #[cfg(unix)]
        assert!(is_address("4711"));
    }
}
