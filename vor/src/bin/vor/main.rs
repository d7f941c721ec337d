//! The `vor` command: looks into captures.
//!
//! One module per subcommand. What they share: `usage` tells mistakes in the arguments, `source` reads either version of the format as batches and frames, `failure` is
//! what ends a command early, `patterns` are names with wildcards, `slowest` finds frames, `table` and `units` make what people read, `json` what programs read, `progress` what is shown
//! meanwhile. Results go to stdout, everything else to stderr, a line each.

mod usage;
mod failure;
mod units;
mod table;
mod json;
mod range;
mod progress;
mod source;
mod output;
mod patterns;
mod slowest;
mod frame_rows;

mod info;
mod stats;
mod frames;
mod tail;
mod check;
mod export;
mod merge;
mod diff;
mod view;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::{Failure, warn};

/// Looks into the captures that vor records.
///
/// Exit codes: 0 fine; 1 what was checked for was found (damage by `check`, a slower scope by `diff --fail-above`); 2 bad input, or the output cannot be
/// written; 3 done, but a part of the capture is damaged and left out (`export`, `merge`, `diff`).
#[derive(Debug, Parser)]
#[command(name = "vor", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Info(info::Args),
    Stats(stats::Args),
    Frames(frames::Args),
    Tail(tail::Args),
    Check(check::Args),
    Export(export::Args),
    Merge(merge::Args),
    Diff(diff::Args),
    View(view::Args),
}

/// How a command that could do its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Fine,
    /// What the command checks for was found.
    Found,
    /// The work is done, without what could not be read.
    Incomplete,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::tell(&error),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let outcome = match cli.command {
        Command::Info(args) => info::run(&args, &mut out),
        Command::Stats(args) => stats::run(&args, &mut out),
        Command::Frames(args) => frames::run(&args, &mut out),
        Command::Tail(args) => tail::run(&args, &mut out),
        Command::Check(args) => check::run(&args, &mut out),
        Command::Export(args) => export::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Diff(args) => diff::run(&args, &mut out),
        // Its exit code is the viewer's own.
        Command::View(args) => return view::run(&args),
    };
    // What was made before a failure is still worth reading.
    let flushed = out.flush().map_err(Failure::output);
    match outcome.and_then(|outcome| flushed.map(|()| outcome)) {
        Ok(Outcome::Fine) | Err(Failure::PipeClosed) => ExitCode::SUCCESS,
        Ok(Outcome::Found) => ExitCode::from(1),
        Ok(Outcome::Incomplete) => ExitCode::from(3),
        Err(Failure::Message(message)) => {
            warn(&message);
            ExitCode::from(2)
        }
    }
}
