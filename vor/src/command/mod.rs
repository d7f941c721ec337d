//! The `vor` command: looks into captures.
//!
//! One module per subcommand. What they share: `usage` tells mistakes in the arguments, `source`
//! reads either version of the format as batches and frames, `writer` knows whether a capture may
//! still grow, `failure` is what ends a command early, `patterns` are names with wildcards,
//! `slowest` finds frames, `table` and `units` make what people read, `json` what programs read,
//! `progress` what is shown meanwhile. Results go to stdout, everything else to stderr, a line
//! each.

mod usage;
mod failure;
mod units;
mod table;
mod json;
mod range;
mod progress;
mod source;
mod writer;
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
mod heap;
mod view;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};

use clap::{CommandFactory, Parser, Subcommand};

use failure::{Failure, warn};

/// Looks into the captures that vor records.
///
/// Exit codes: 0 fine; 1 what was checked for was found (damage by `check`, a slower scope by `diff
/// --fail-above`); 2 bad input, or the output cannot be written; 3 done, but a part of the capture
/// is damaged and left out (`export`, `merge`, `diff`).
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
    Heap(heap::Args),
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

/// Returns the names of all commands, in the order of `--help`.
fn names() -> Vec<String> {
    let commands = Cli::command();
    let names = commands
        .get_subcommands()
        .map(|command| command.get_name().to_owned());
    names.collect()
}

/// Does what a command line says, the name of the program first, and returns the exit code.
///
/// It is what the program `vor` does, for other programs that are started as it: results go to
/// stdout, everything else goes to stderr, and Ctrl-C may be heeded while a file is written.
///
/// # Examples
///
/// ```
/// assert_eq!(vor::command::run(["vor", "--version"]), 0);
/// assert_eq!(vor::command::run(["vor", "info", "no-such-file.vor"]), 2);
/// ```
pub fn run(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    let cli = match Cli::try_parse_from(args) {
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
        Command::Heap(args) => heap::run(&args, &mut out),
        // Its exit code is the viewer's own.
        Command::View(args) => return view::run(&args),
    };
    // What was made before a failure is still worth reading.
    let flushed = out.flush().map_err(Failure::output);
    match outcome.and_then(|outcome| flushed.map(|()| outcome)) {
        Ok(Outcome::Fine) | Err(Failure::PipeClosed) => 0,
        Ok(Outcome::Found) => 1,
        Ok(Outcome::Incomplete) => 3,
        Err(Failure::Message(message)) => {
            warn(&message);
            2
        }
    }
}
