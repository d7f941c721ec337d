//! `vor ctl`: what is on in a running program, and what it shall do.

use std::io::Write;

use vor_recorder::sinks::live::{Address, Question, Token, ask};

use crate::command::Outcome;
use crate::command::failure::Failure;
use crate::command::record::address;

/// Shows what is on in a running program, has it dump its newest records, or changes which scopes
/// it records.
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

#[derive(Clone, Debug, clap::Subcommand)]
enum Request {
    /// Lists the recording, the capture, the sinks and the clients.
    Status,
    /// Writes the records that VOR_RECORD_LAST keeps in memory, and prints the path.
    Dump,
    /// Lists how the scopes of each call site are recorded, after RULES have replaced the rules
    /// that were on.
    Scopes {
        /// Rules as in VOR_SCOPES; an empty text records every scope again.
        #[arg(value_name = "RULES")]
        rules: Option<String>,
    },
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let question = match &args.request {
        None | Some(Request::Status) => Question::Status,
        Some(Request::Dump) => Question::Dump,
        Some(Request::Scopes { rules }) => Question::Scopes(rules.clone()),
    };
    let answer = ask(&args.address, &question, Token::from_env()?.as_ref())?;
    out.write_all(answer.as_bytes()).map_err(Failure::output)?;
    Ok(Outcome::Success)
}
