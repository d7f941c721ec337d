//! `vor ctl`: what is on in a running program, and what it shall do.

use std::io::Write;

use vor_recorder::live::{Address, Token, ask};

use crate::command::Outcome;
use crate::command::failure::Failure;
use crate::command::record::address;

/// Shows what is on in a running program, or has it dump its newest records.
///
/// The program listens: it was started with VOR_LISTEN=unix, or called `Config::listen`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program: its process number, `unix:PATH` or `tcp://HOST:PORT`.
    #[arg(value_name = "ADDRESS", value_parser = address)]
    address: Address,
    #[command(subcommand)]
    request: Option<Request>,
}

#[derive(Clone, Copy, Debug, clap::Subcommand)]
enum Request {
    /// Lists the recording, the capture, the sinks and the clients.
    Status,
    /// Writes the records that VOR_RECORD_LAST keeps in memory, and prints the path.
    Dump,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let request = match args.request {
        None | Some(Request::Status) => "status",
        Some(Request::Dump) => "dump",
    };
    let answer = ask(&args.address, request, Token::from_env()?.as_ref())?;
    out.write_all(answer.as_bytes()).map_err(Failure::output)?;
    Ok(Outcome::Success)
}
