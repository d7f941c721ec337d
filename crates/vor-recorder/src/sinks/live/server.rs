//! The threads and sockets of the server, and their end.
//!
//! The thread `vor-listen` accepts; a thread `vor-client` serves one connection and ends with it.
//! All sockets are in one list, whose lock is held only to change it: a fork takes it, so that the
//! child can close its copies.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use vor_capture::Error;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};

use super::address::Address;
use super::client::ClientSink;
use super::queue::{Popped, Queue};
use super::request::{Choice, MAX_BYTES, Request, Wish};
use super::token::Token;
use super::websocket::{self, Upgrade};
use super::{Listen, control};
use crate::drain::handle;
use crate::hot::thread;
use crate::os::{report, signals};
use crate::sync::lock;

/// Most connections at a time. Others are refused.
pub const MAX_CLIENTS: usize = 32;
/// Bytes that wait for a client, above which whole batches are given up.
pub const QUEUE_BYTES: usize = 4 << 20;

/// How long a client may take to send its request.
const REQUEST_BOUND: Duration = Duration::from_secs(5);
/// How long a wrong token waits for its answer: guessing is slow.
const WRONG_TOKEN_PAUSE: Duration = Duration::from_millis(200);
/// How often to look whether a client is still there.
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// How long a look at a client waits: the shortest time that sockets know.
const PROBE_BOUND: Duration = Duration::from_millis(1);
/// How long the end of the process waits for all clients together.
const END_BOUND: Duration = Duration::from_secs(1);
/// Pause after a connection that could not be accepted: too many files are open, for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Everything that is open.
#[derive(Debug, Default)]
struct Open {
    address: Option<Address>,
    clients: Vec<Client>,
    next_number: u64,
    #[cfg(unix)]
    listener: Option<std::os::fd::RawFd>,
}

/// A connection, from its beginning.
#[derive(Debug)]
struct Client {
    number: u64,
    #[cfg(unix)]
    socket: std::os::fd::RawFd,
    /// Its stream, once it has requested one.
    stream: Option<(Choice, Arc<Queue>)>,
}

static OPEN: Mutex<Open> = Mutex::new(Open {
    address: None,
    clients: Vec::new(),
    next_number: 0,
    #[cfg(unix)]
    listener: None,
});

/// When the end of the process stops waiting for clients.
static END: OnceLock<Instant> = OnceLock::new();

/// Returns until when a client that ends with the process may write, if the process ends.
pub(super) fn end_bound() -> Option<Instant> {
    END.get().copied()
}

/// Returns where this program listens, as `vor tail` takes it. `None` if it does not: also in the
/// child of a fork.
///
/// ```
/// # mod vor { pub mod live { pub use vor_recorder::sinks::live::listening; } }
/// assert_eq!(vor::live::listening(), None); // nobody has called `Config::listen` here
/// ```
#[must_use]
pub fn listening() -> Option<String> {
    let open = lock(&OPEN);
    open.address.as_ref().map(Address::to_string)
}

/// Returns what each client gets, the bytes that wait for it, and what it missed.
pub(super) fn clients() -> Vec<(Choice, usize, u64)> {
    let of = |client: &Client| {
        let (choice, queue) = client.stream.as_ref()?;
        Some((*choice, queue.bytes(), queue.missed()))
    };
    lock(&OPEN).clients.iter().filter_map(of).collect()
}

/// Begins to listen. Returns the sink that ends it with the process.
///
/// # Errors
///
/// The address cannot be used, or other machines reach it and there is no token. The program
/// listens already.
pub(crate) fn start(listen: &Listen) -> Result<ListenSink, Error> {
    if let Some(address) = listening() {
        return Err(Error::config(format!(
            "this program listens at {address} already"
        )));
    }
    let listener = Listener::bind(&listen.address, listen.token.is_some())?;
    #[cfg(unix)]
    listener
        .set_nonblocking()
        .map_err(|error| Error::io(format!("cannot listen at {}", listen.address), error))?;
    let address = listener.address(&listen.address);
    let asked_for_any_port = listen.address.is_any_port();
    #[cfg(unix)]
    crate::drain::fork::set_hooks(crate::drain::fork::Hooks {
        lock: || Box::new(lock(&OPEN)),
        in_child: forget_in_child,
    });
    let mut open = lock(&OPEN);
    #[cfg(unix)]
    {
        open.listener = Some(listener.as_raw_fd());
    }
    open.address = Some(address.clone());
    drop(open);
    let sink = ListenSink {
        #[cfg(unix)]
        socket: match &address {
            Address::Unix(path) => Some((path.clone(), identity(path))),
            Address::Tcp(_) => None,
        },
    };
    let access = Access {
        token: listen.token.clone(),
        origins: listen.origins.clone(),
        is_private: matches!(address, Address::Unix(_)),
    };
    let builder = std::thread::Builder::new().name("vor-listen".into());
    let run = move || accept_all(&listener, &Arc::new(access));
    if let Err(error) = signals::for_new_thread(|| builder.spawn(run)) {
        *lock(&OPEN) = Open::default();
        return Err(Error::io(
            "the thread that listens cannot be started",
            error,
        ));
    }
    if asked_for_any_port {
        report::line(&format!("listening at {address}"));
    }
    Ok(sink)
}

#[cfg(unix)]
fn forget_in_child() {
    let open = std::mem::take(&mut *lock(&OPEN));
    let clients = open.clients.iter().map(|client| client.socket);
    crate::os::socket::close_in_child(open.listener.into_iter().chain(clients));
    // The parent's threads may have held the locks in it.
    std::mem::forget(open);
}

/// The rights of clients.
#[derive(Debug)]
struct Access {
    token: Option<Token>,
    /// The origins of pages that may connect.
    origins: Vec<String>,
    /// Whether only programs of this user reach the address.
    is_private: bool,
}

impl Access {
    fn check(&self, request: &Request<'_>) -> Result<(), Error> {
        if let Some(token) = &self.token {
            let given = request.token.unwrap_or_default();
            if !token.is(given.as_bytes()) {
                return Err(Error::config(match request.token {
                    None => {
                        "this program wants a token; set VOR_LISTEN_TOKEN or \
                        VOR_LISTEN_TOKEN_FILE"
                    }
                    Some(_) => "the token is wrong",
                }));
            }
        } else if request.wish.is_control() && !self.is_private {
            return Err(Error::config(
                "control needs a token at this address; start the program with VOR_LISTEN_TOKEN",
            ));
        }
        Ok(())
    }

    fn check_page(&self, upgrade: &Upgrade) -> Result<(), Error> {
        if let Some(origin) = &upgrade.origin
            && !self.origins.contains(origin)
        {
            return Err(Error::config(format!(
                "pages of {origin} may not watch this program; start it with \
                VOR_LISTEN_ORIGIN={origin}"
            )));
        }
        self.check(&Request {
            wish: Wish::Stream(upgrade.choice),
            token: upgrade.token.as_deref(),
        })
    }
}

/// How bytes of a capture go over the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// As they are.
    None,
    /// As binary messages.
    WebSocket,
}

#[derive(Debug)]
enum Listener {
    #[cfg(unix)]
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    fn bind(address: &Address, has_token: bool) -> Result<Self, Error> {
        let cannot = |error| Error::io(format!("cannot listen at {address}"), error);
        match address {
            #[cfg(unix)]
            Address::Unix(path) => bind_unix(path).map(Self::Unix).map_err(cannot),
            #[cfg(not(unix))]
            Address::Unix(_) => Err(Error::config(format!(
                "{address}: this system has no such sockets; listen at `127.0.0.1:PORT`"
            ))),
            Address::Tcp(text) => {
                let found: Vec<_> = text.to_socket_addrs().map_err(cannot)?.collect();
                if !has_token && let Some(open) = found.iter().find(|at| !at.ip().is_loopback()) {
                    return Err(Error::config(format!(
                        "{address}: other machines may reach {}; set VOR_LISTEN_TOKEN or \
                        VOR_LISTEN_TOKEN_FILE, or listen at 127.0.0.1",
                        open.ip()
                    )));
                }
                TcpListener::bind(&found[..]).map(Self::Tcp).map_err(cannot)
            }
        }
    }

    /// Returns the address with the port that the system chose, and with a path that holds in any
    /// folder.
    fn address(&self, wanted: &Address) -> Address {
        let found = match (self, wanted) {
            (Self::Tcp(listener), _) if wanted.is_any_port() => {
                let at = listener.local_addr().ok();
                at.map(|at| Address::Tcp(at.to_string()))
            }
            (_, Address::Unix(path)) => std::path::absolute(path).ok().map(Address::Unix),
            _ => None,
        };
        found.unwrap_or_else(|| wanted.clone())
    }

    #[cfg(unix)]
    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Unix(listener) => listener.set_nonblocking(true),
            Self::Tcp(listener) => listener.set_nonblocking(true),
        }
    }

    fn accept(&self) -> io::Result<Socket> {
        match self {
            #[cfg(unix)]
            Self::Unix(listener) => {
                let socket = listener.accept()?.0;
                // Some systems pass it on from the listener.
                socket.set_nonblocking(false)?;
                Ok(Socket::Unix(socket))
            }
            Self::Tcp(listener) => {
                let socket = listener.accept()?.0;
                socket.set_nonblocking(false)?;
                // Batches are whole already, and should not wait for more.
                let _ = socket.set_nodelay(true);
                #[cfg(unix)]
                crate::os::socket::keep_alive(std::os::fd::AsRawFd::as_raw_fd(&socket));
                Ok(Socket::Tcp(socket))
            }
        }
    }

    #[cfg(unix)]
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        use std::os::fd::AsRawFd;
        match self {
            Self::Unix(listener) => listener.as_raw_fd(),
            Self::Tcp(listener) => listener.as_raw_fd(),
        }
    }
}

/// Makes a socket that only this user can open, also while it is made: in a folder of its own, from
/// which it is moved to its place. A socket of a program that has ended is replaced.
#[cfg(unix)]
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
    let refuse = |kind, reason: &str| Err(io::Error::new(kind, reason));
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return refuse(io::ErrorKind::AlreadyExists, "the file there is no socket");
        }
        Ok(_) if UnixStream::connect(path).is_ok() => {
            return refuse(io::ErrorKind::AddrInUse, "another program listens there");
        }
        _ => {}
    }
    let folder = path.with_file_name(format!(".vor{}", std::process::id()));
    let inside = folder.join("s");
    // Another process of this number may have left it. Nothing else is removed.
    let clear = || {
        let _ = std::fs::remove_file(&inside);
        let _ = std::fs::remove_dir(&folder);
    };
    clear();
    std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
    let listener = UnixListener::bind(&inside).and_then(|listener| {
        std::fs::set_permissions(&inside, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&inside, path)?;
        Ok(listener)
    });
    clear();
    listener
}

/// Returns what a file is, whatever its name: its device and its number there.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// A connection to a client.
#[derive(Debug)]
enum Socket {
    #[cfg(unix)]
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    fn set_read_timeout(&self, most: Duration) -> io::Result<()> {
        match self {
            #[cfg(unix)]
            Self::Unix(socket) => socket.set_read_timeout(Some(most)),
            Self::Tcp(socket) => socket.set_read_timeout(Some(most)),
        }
    }

    fn set_write_timeout(&self, most: Duration) -> io::Result<()> {
        match self {
            #[cfg(unix)]
            Self::Unix(socket) => socket.set_write_timeout(Some(most)),
            Self::Tcp(socket) => socket.set_write_timeout(Some(most)),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            #[cfg(unix)]
            Self::Unix(socket) => socket.read(buffer),
            Self::Tcp(socket) => socket.read(buffer),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            #[cfg(unix)]
            Self::Unix(socket) => socket.write_all(bytes),
            Self::Tcp(socket) => socket.write_all(bytes),
        }
    }

    fn send(&mut self, bytes: &[u8], framing: Framing) -> io::Result<()> {
        if framing == Framing::WebSocket {
            let (head, length) = websocket::message_head(bytes.len());
            self.write_all(&head[..length])?;
        }
        self.write_all(bytes)
    }

    fn end_writing(&self) {
        // The client may be gone.
        let _ = match self {
            #[cfg(unix)]
            Self::Unix(socket) => socket.shutdown(Shutdown::Write),
            Self::Tcp(socket) => socket.shutdown(Shutdown::Write),
        };
    }

    #[cfg(unix)]
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        use std::os::fd::AsRawFd;
        match self {
            Self::Unix(socket) => socket.as_raw_fd(),
            Self::Tcp(socket) => socket.as_raw_fd(),
        }
    }
}

fn accept_all(listener: &Listener, access: &Arc<Access>) {
    thread::stay_silent();
    loop {
        let mut connection = match accept_next(listener) {
            Ok(Some(connection)) => connection,
            Ok(None) => continue,
            Err(_) => {
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        let access = Arc::clone(access);
        let builder = std::thread::Builder::new().name("vor-client".into());
        let serve = move || {
            thread::stay_silent();
            connection.serve(&access);
        };
        // Without a thread the connection is dropped, and closes.
        let _ = signals::for_new_thread(|| builder.spawn(serve));
    }
}

/// Waits for a connection, and enters it into the list. `None` if it was refused, or was gone
/// before.
fn accept_next(listener: &Listener) -> io::Result<Option<Connection>> {
    #[cfg(unix)]
    crate::os::socket::wait_until_readable(listener.as_raw_fd())?;
    // Blocks elsewhere, where nobody forks.
    #[cfg(not(unix))]
    let accepted = listener.accept()?;
    let mut open = lock(&OPEN);
    // With the lock, so that a fork finds the socket in the list or not made yet.
    #[cfg(unix)]
    let accepted = match listener.accept() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        accepted => accepted?,
    };
    if open.clients.len() < MAX_CLIENTS {
        return Ok(Some(Connection::new(accepted, &mut open)));
    }
    drop(open);
    refuse(accepted);
    Ok(None)
}

/// Tells a client that there are too many.
fn refuse(mut socket: Socket) {
    let _ = socket.set_write_timeout(Duration::from_millis(10));
    let _ = socket.write_all(b"error: too many clients; try again when one has left\n");
    socket.end_writing();
    // A connection that closes with an unread request may lose the answer.
    let _ = socket.set_read_timeout(Duration::from_millis(10));
    let _ = socket.read(&mut [0; MAX_BYTES]);
}

/// A connection in the list of those that are open.
#[derive(Debug)]
struct Connection {
    number: u64,
    /// `None` only while it is dropped.
    socket: Option<Socket>,
}

impl Connection {
    /// Enters a connection into the list.
    fn new(socket: Socket, open: &mut Open) -> Self {
        let number = open.next_number;
        open.next_number += 1;
        open.clients.push(Client {
            number,
            #[cfg(unix)]
            socket: socket.as_raw_fd(),
            stream: None,
        });
        Self {
            number,
            socket: Some(socket),
        }
    }

    fn serve(&mut self, access: &Access) {
        let Some(mut socket) = self.socket.take() else {
            return;
        };
        let mut bytes = Vec::new();
        if let Some(line) = read_until(&mut socket, &mut bytes, b"\n", MAX_BYTES) {
            if bytes.starts_with(b"GET ") {
                if let Some(end) = read_until(
                    &mut socket,
                    &mut bytes,
                    b"\r\n\r\n",
                    websocket::MAX_HEAD_BYTES,
                ) {
                    self.answer_page(&mut socket, &bytes[..end], access);
                }
            } else {
                self.answer(&mut socket, &bytes[..line], access);
            }
        }
        self.socket = Some(socket);
    }

    fn answer_page(&self, socket: &mut Socket, head: &[u8], access: &Access) {
        let upgrade = Upgrade::parse(head).and_then(|upgrade| {
            let allowed = access.check_page(&upgrade);
            if allowed.is_err() && upgrade.token.is_some() {
                std::thread::sleep(WRONG_TOKEN_PAUSE);
            }
            allowed.map(|()| upgrade)
        });
        match upgrade {
            Ok(upgrade) => {
                if socket.write_all(upgrade.answer().as_bytes()).is_ok() {
                    self.stream(socket, upgrade.choice, Framing::WebSocket);
                }
            }
            Err(error) => {
                let reason = report::escaped(&error.to_string());
                let _ = socket.set_write_timeout(REQUEST_BOUND);
                let _ = socket.write_all(websocket::refusal(&reason).as_bytes());
                socket.end_writing();
            }
        }
    }

    fn answer(&self, socket: &mut Socket, line: &[u8], access: &Access) {
        let request = Request::parse(line).and_then(|request| {
            let allowed = access.check(&request);
            if allowed.is_err() && request.token.is_some() {
                std::thread::sleep(WRONG_TOKEN_PAUSE);
            }
            allowed.map(|()| request.wish)
        });
        let answer = match request {
            Ok(Wish::Stream(choice)) => match self.stream(socket, choice, Framing::None) {
                true => return,
                false => Err(Error::config("recording is not on yet; try again later")),
            },
            Ok(Wish::Status) => control::status(),
            Ok(Wish::Dump) => control::dump(),
            Ok(Wish::Scopes) => Ok(control::scopes()),
            Ok(Wish::SetScopes(rules)) => control::set_scopes(&rules),
            Err(error) => Err(error),
        };
        let text = match answer {
            Ok(lines) => format!("ok\n{lines}"),
            Err(error) => format!("error: {}\n", report::escaped(&error.to_string())),
        };
        let _ = socket.set_write_timeout(REQUEST_BOUND);
        let _ = socket.write_all(text.as_bytes());
        socket.end_writing();
    }

    /// Writes the capture until the client leaves or the process ends. Returns whether recording
    /// was ever on.
    fn stream(&self, socket: &mut Socket, choice: Choice, framing: Framing) -> bool {
        let queue = Arc::new(Queue::default());
        if let Some(client) = lock(&OPEN)
            .clients
            .iter_mut()
            .find(|client| client.number == self.number)
        {
            client.stream = Some((choice, Arc::clone(&queue)));
        }
        let name = format!("client {} of {}", self.number, choice);
        let sink = handle::join(name, |catalog| {
            ClientSink::begin(Arc::clone(&queue), choice, catalog)
        });
        let Some(sink) = sink else {
            return false;
        };
        let (mut probed, mut ends) = (Instant::now(), false);
        loop {
            match queue.pop(PROBE_EVERY) {
                Popped::Chunk(chunk) if socket.send(&chunk, framing).is_ok() => {}
                Popped::Nothing => {}
                Popped::Chunk(_) => break,
                Popped::End => {
                    if framing == Framing::WebSocket {
                        // The page may be gone.
                        let _ = socket.write_all(&websocket::CLOSE);
                    }
                    socket.end_writing();
                    break;
                }
            }
            if !ends && probed.elapsed() >= PROBE_EVERY {
                probed = Instant::now();
                match probe(socket, framing) {
                    Probed::Stays => {}
                    Probed::Ends => {
                        // The sink writes the end of the capture, and the rest follows.
                        ends = true;
                        handle::leave(sink);
                    }
                    Probed::Gone => break,
                }
            }
        }
        queue.close();
        if !ends {
            handle::leave(sink);
        }
        true
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = lock(&OPEN);
        open.clients.retain(|client| client.number != self.number);
        // With the lock, so that a fork finds the socket in the list or closed.
        drop(self.socket.take());
    }
}

/// Reads until `end` is there, and returns where it begins. `None` if that takes more than `most`
/// bytes, does not come in time, or the client leaves.
fn read_until(socket: &mut Socket, bytes: &mut Vec<u8>, end: &[u8], most: usize) -> Option<usize> {
    let until = Instant::now() + REQUEST_BOUND;
    loop {
        if let Some(at) = bytes.windows(end.len()).position(|some| some == end) {
            return Some(at);
        }
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() || bytes.len() >= most {
            return None;
        }
        socket.set_read_timeout(rest).ok()?;
        let mut chunk = [0; MAX_BYTES];
        let room = (most - bytes.len()).min(chunk.len());
        match socket.read(&mut chunk[..room]) {
            Ok(0) => return None,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// The state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probed {
    Stays,
    /// It sends nothing more: it wants the end of the capture, or has left.
    Ends,
    Gone,
}

/// Looks whether the client is still there. What it sends is not read as a request.
fn probe(socket: &mut Socket, framing: Framing) -> Probed {
    if socket.set_read_timeout(PROBE_BOUND).is_err() {
        return Probed::Gone;
    }
    let mut bytes = [0; 64];
    match socket.read(&mut bytes) {
        Ok(0) => Probed::Ends,
        Ok(read) => match framing == Framing::WebSocket && websocket::is_close(&bytes[..read]) {
            true => Probed::Ends,
            false => Probed::Stays,
        },
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => {
                Probed::Stays
            }
            _ => Probed::Gone,
        },
    }
}

/// Ends the server with the process: it takes nothing, so it costs nothing.
#[derive(Debug)]
pub(crate) struct ListenSink {
    /// The path of the socket, and its identity.
    #[cfg(unix)]
    socket: Option<(PathBuf, Option<(u64, u64)>)>,
}

impl FrameSink for ListenSink {
    fn writes_file(&self) -> bool {
        true
    }

    fn interest(&self) -> Interest {
        Interest::METRICS
    }

    fn reads_metrics(&self) -> bool {
        false
    }

    fn takes_frames(&self) -> bool {
        false
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        let _ = END.set(Instant::now() + END_BOUND);
        #[cfg(unix)]
        if let Some((path, socket)) = self.socket.take() {
            // Another program may have replaced it.
            if socket.is_some() && identity(&path) == socket {
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(())
    }
}
