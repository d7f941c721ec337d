//! The other side: a stream of a running program, or the answer to a request.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::Duration;

use vor_capture::Error;
use vor_capture::format::MAGIC;

use super::address::Address;
use super::request::{Choice, MAX_BYTES, Wish, line};
use super::token::Token;

/// How long a host may take to answer.
const CONNECT_BOUND: Duration = Duration::from_secs(5);
/// Most bytes of an answer that is not a stream.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// The capture of a running program, from its first byte on. It reads nothing after the program has
/// ended or closed the connection.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    /// The first bytes of the capture, and how many of them were returned.
    begun: [u8; MAGIC.len()],
    returned: usize,
}

#[derive(Debug)]
enum Socket {
    #[cfg(unix)]
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            #[cfg(unix)]
            Self::Unix(socket) => socket.read(buffer),
            Self::Tcp(socket) => socket.read(buffer),
        }
    }
}

impl Socket {
    fn open(address: &Address) -> io::Result<Self> {
        match address {
            #[cfg(unix)]
            Address::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            #[cfg(not(unix))]
            Address::Unix(_) => Err(io::Error::from(io::ErrorKind::Unsupported)),
            Address::Tcp(text) => {
                let mut refusal = io::Error::from(io::ErrorKind::NotFound);
                for at in text.to_socket_addrs()? {
                    match TcpStream::connect_timeout(&at, CONNECT_BOUND) {
                        Ok(socket) => return Ok(Self::Tcp(socket)),
                        Err(error) => refusal = error,
                    }
                }
                Err(refusal)
            }
        }
    }

    fn send(&mut self, request: &str) -> io::Result<()> {
        match self {
            #[cfg(unix)]
            Self::Unix(socket) => socket.write_all(request.as_bytes()),
            Self::Tcp(socket) => socket.write_all(request.as_bytes()),
        }
    }

    fn try_clone(&self) -> io::Result<Self> {
        match self {
            #[cfg(unix)]
            Self::Unix(socket) => socket.try_clone().map(Self::Unix),
            Self::Tcp(socket) => socket.try_clone().map(Self::Tcp),
        }
    }

    fn set_read_timeout(&self, most: Option<Duration>) -> io::Result<()> {
        match self {
            #[cfg(unix)]
            Self::Unix(socket) => socket.set_read_timeout(most),
            Self::Tcp(socket) => socket.set_read_timeout(most),
        }
    }

    fn end_writing(&self) {
        // The program may be gone.
        let _ = match self {
            #[cfg(unix)]
            Self::Unix(socket) => socket.shutdown(Shutdown::Write),
            Self::Tcp(socket) => socket.shutdown(Shutdown::Write),
        };
    }
}

/// Ends a [`Connection`] from another thread.
#[derive(Debug)]
pub struct Ender(Socket);

impl Ender {
    /// Does what [`Connection::end`] does.
    pub fn end(&self) {
        self.0.end_writing();
    }
}

impl Connection {
    /// Asks for the end of the capture: the program sends what it has, the open scopes and the
    /// index, and closes the connection.
    pub fn end(&self) {
        self.socket.end_writing();
    }

    /// Returns what ends this connection from another thread.
    ///
    /// # Errors
    ///
    /// The system has no more descriptors.
    pub fn ender(&self) -> io::Result<Ender> {
        self.socket.try_clone().map(Ender)
    }

    /// Lets a read that gets nothing for so long fail as [`io::ErrorKind::WouldBlock`] or
    /// [`TimedOut`](io::ErrorKind::TimedOut). By default it waits.
    ///
    /// # Errors
    ///
    /// The time is zero, or the connection is closed.
    pub fn set_read_timeout(&self, most: Option<Duration>) -> io::Result<()> {
        self.socket.set_read_timeout(most)
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut rest = &self.begun[self.returned..];
        if !rest.is_empty() {
            let read = rest.read(buffer)?;
            self.returned += read;
            return Ok(read);
        }
        match self.socket.read(buffer) {
            // A program that was killed leaves a capture without an end.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(0),
            read => read,
        }
    }
}

/// Connects to a running program, and returns its capture from now on.
///
/// # Errors
///
/// Nobody listens at the address, the program refuses, or what answers is no program with vor.
///
/// # Examples
///
/// ```no_run
/// use vor_recorder::sinks::live::{Address, Choice, Token, connect};
///
/// let address = Address::of_program("127.0.0.1:5005")?;
/// let mut stream = connect(&address, Choice::All, Token::from_env()?.as_ref())?;
/// std::io::copy(&mut stream, &mut std::fs::File::create("run.vor")?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn connect(
    address: &Address,
    choice: Choice,
    token: Option<&Token>,
) -> Result<Connection, Error> {
    let mut socket = begin(address, &Wish::Stream(choice), token)?;
    let mut begun = [0; MAGIC.len()];
    let lost = |error| Error::io(format!("{address}: the program does not answer"), error);
    socket.read_exact(&mut begun).map_err(lost)?;
    if begun == MAGIC {
        return Ok(Connection {
            socket,
            begun,
            returned: 0,
        });
    }
    let mut answer = begun.to_vec();
    let mut lines = BufReader::new(socket.take(MAX_ANSWER_BYTES));
    lines.read_until(b'\n', &mut answer).map_err(lost)?;
    Err(refusal(address, &String::from_utf8_lossy(&answer)))
}

/// A question to a running program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Question {
    /// The state of the recording.
    Status,
    /// The newest records in memory as a file, and its path.
    Dump,
    /// How the scopes of each call site are recorded; with rules, after these have replaced those
    /// that were on.
    Scopes(Option<String>),
}

/// Asks a program, and returns the lines of its answer.
///
/// # Errors
///
/// Nobody listens at the address, or the program refuses.
pub fn ask(address: &Address, question: &Question, token: Option<&Token>) -> Result<String, Error> {
    let wish = match question {
        Question::Status => Wish::Status,
        Question::Dump => Wish::Dump,
        Question::Scopes(None) => Wish::Scopes,
        Question::Scopes(Some(rules)) => Wish::SetScopes(rules.clone()),
    };
    let line_bytes = line(&wish, token).len();
    if line_bytes > MAX_BYTES {
        return Err(Error::config(format!(
            "the rules take {line_bytes} bytes, more than {MAX_BYTES}; use fewer of them"
        )));
    }
    let socket = begin(address, &wish, token)?;
    let mut answer = String::new();
    socket
        .take(MAX_ANSWER_BYTES)
        .read_to_string(&mut answer)
        .map_err(|error| Error::io(format!("{address}: the program does not answer"), error))?;
    match answer.strip_prefix("ok\n") {
        Some(lines) => Ok(lines.to_owned()),
        None => Err(refusal(address, &answer)),
    }
}

fn begin(address: &Address, wish: &Wish, token: Option<&Token>) -> Result<Socket, Error> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Error::config(format!(
            "{address}: no program listens there; start it with VOR_LISTEN=unix"
        )),
        _ => Error::io(format!("cannot connect to {address}"), error),
    };
    let mut socket = Socket::open(address).map_err(failed)?;
    match socket.send(&line(wish, token)) {
        // It refuses before it reads, and its reason can be read.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        sent => sent.map_err(failed)?,
    }
    Ok(socket)
}

fn refusal(address: &Address, answer: &str) -> Error {
    let line = answer.lines().next().unwrap_or_default();
    match line.strip_prefix("error: ") {
        Some(reason) => Error::config(format!("{address}: {}", crate::os::report::escaped(reason))),
        None => Error::config(format!(
            "{address}: what answers there is no program with vor"
        )),
    }
}
