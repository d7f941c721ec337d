//! Watching a running program from elsewhere: a server that streams captures, and the client of it.
//!
//! A client sends one line and receives a capture from its first byte on: header, declarations,
//! clock, then records as they come. `docs/live.md` is the contract.
//!
//! ```text
//!  drain ─▶ ClientSink (encodes) ─▶ Queue (4 MiB) ─▶ thread `vor-client` ─▶ socket ─▶ client
//!                                                    ▲
//!  thread `vor-listen` accepts ──────────────────────┘ reads the request, adds the sink
//! ```
//!
//! A client is a sink of its own, so nothing is encoded while nobody listens, and a slow client
//! costs the others nothing. The drain never waits for a client: if the queue is full, it gives up
//! whole batches before they are encoded, and tells the client their number.
//!
//! - `address`: where to listen, and where a program listens.
//! - `token`: the secret of addresses that other machines or users reach.
//! - `request`: the line of a client, without input and output.
//! - `queue`, `client`: from the drain to one client.
//! - `server`: the threads, the sockets, and their end.
//! - `control`: the requests that are not streams.
//! - `websocket`: the same stream for pages in browsers.
//! - `connect`: the other side.

mod address;
mod client;
mod connect;
mod control;
mod queue;
mod request;
mod server;
mod token;
mod websocket;

use std::fmt;
use std::str::FromStr;

use vor_capture::Error;

pub use address::Address;
pub use connect::{Connection, Ender, Question, ask, connect};
pub use request::Choice;
#[doc(hidden)]
pub use request::check_any_request;
pub(crate) use server::start;
pub use server::{MAX_CLIENTS, QUEUE_BYTES, listening};
pub use token::Token;
#[doc(hidden)]
pub use websocket::check_any_upgrade;

/// The address at which a program listens for clients, and the token that they must have.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod live { pub use vor_recorder::sinks::live::Listen; } }
/// let socket: vor::live::Listen = "unix:/run/app/vor.sock".parse()?;
/// let port: vor::live::Listen = "127.0.0.1:0".parse()?;
/// assert!("127.0.0.1".parse::<vor::live::Listen>().is_err());
/// # Ok::<(), vor_capture::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    pub(crate) address: Address,
    pub(crate) token: Option<Token>,
    pub(crate) origins: Vec<String>,
}

impl Listen {
    /// Requires this token of every client. An address that is not loopback needs one.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Lets pages of this origin, such as `https://viewer.example`, watch the program by a
    /// WebSocket. May be called more than once; without it, no page may.
    #[must_use]
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }
}

/// Reads `unix` (a socket named after the process, in a folder of the user), `unix:PATH` or
/// `HOST:PORT`.
impl FromStr for Listen {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(Self {
            address: Address::to_listen(text)?,
            token: None,
            origins: Vec::new(),
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}
