//! The `vor` command, which reads captures.
//!
//! Results go to stdout. Errors, warnings and progress go to stderr, one line each.

// Each subcommand has a module. They share these:
//
// | module | holds |
// |---|---|
// | `usage` | reports mistakes in the arguments |
// | `failure` | the error that ends a command |
// | `source` | an open capture of either version, as batches and frames |
// | `live` | a running program as a source |
// | `range`, `patterns` | frames and names that an option selects |
// | `slowest` | the slowest frames |
// | `table`, `frame_rows` | output for people |
// | `json` | output for programs |
// | `output` | a file that is written completely or not at all |
// | `newest`, `quiet` | a capture that grows, and segments after it |
// | `progress` | the progress bar |

mod usage;
mod failure;
mod table;
mod json;
mod range;
mod progress;
mod source;
mod live;
mod output;
mod patterns;
mod slowest;
mod modes;
mod newest;
mod quiet;
mod frame_rows;
mod frame_waits;

mod info;
mod stats;
mod frames;
mod tail;
mod record;
mod recover;
mod ctl;
#[cfg(feature = "top")]
mod top;
mod check;
mod export;
mod merge;
#[cfg(feature = "ship")]
mod ship;
mod diff;
mod heap;
mod lock_holds;
mod locks;
mod wait_origins;
mod wait_spans;
mod wait_tasks;
mod waits;
mod critical_path;
mod view;
mod shell;
mod cargo;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use clap::{CommandFactory, Parser, Subcommand};

pub use cargo::run_cargo;
use failure::{Failure, warn};

const MORE_HELP: &str = "\
`vor FILE` describes a capture, as `vor info FILE` does.

Exit codes:
  0  success
  1  `check` found damage, or `diff --fail-above` a slower scope
  2  bad input, or the output cannot be written
  3  done, without the damaged parts of the capture (`export`, `merge`, `diff`, `ship`)";

/// The hint for a command that was built without Parquet.
const WITHOUT_PARQUET: &str = "this `vor` has no Parquet; install one that has with \
    `cargo install --path vor --features cli,parquet` in the repository of vor";

/// Reads the captures that the profiler vor records, and watches running programs.
#[derive(Debug, Parser)]
#[command(name = "vor", version, arg_required_else_help = true, after_help = MORE_HELP)]
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
    #[cfg(feature = "top")]
    Top(top::Args),
    Record(record::Args),
    Recover(recover::Args),
    Attach(recover::AttachArgs),
    Ctl(ctl::Args),
    Check(check::Args),
    Export(export::Args),
    Merge(merge::Args),
    #[cfg(feature = "ship")]
    Ship(ship::Args),
    Diff(diff::Args),
    Heap(heap::Args),
    Locks(locks::Args),
    Waits(waits::Args),
    CriticalPath(critical_path::Args),
    View(view::Args),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

/// The result of a command that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Success,
    /// `check` found damage, or `diff --fail-above` a slower scope.
    CheckFailed,
    /// The output lacks the damaged parts of the capture.
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

/// Makes `vor FILE` the command `info`, which also says what else there is.
fn with_command(mut args: Vec<OsString>) -> Vec<OsString> {
    let is_file = |arg: &OsString| {
        let is_command = names().iter().any(|name| *arg == **name);
        let path = Path::new(arg);
        !is_command && (path.exists() || path.extension().is_some_and(|ending| ending == "vor"))
    };
    if args.get(1).is_some_and(is_file) {
        args.insert(1, "info".into());
        if args.len() == 3 && Path::new(&args[2]).exists() {
            let file = args[2].to_string_lossy().into_owned();
            warn(&format!(
                "`vor stats {file}` lists its scopes, `vor view {file}` shows it; see --help"
            ));
        }
    }
    args
}

/// Runs a command line, whose first argument is the name of the program, and returns the exit code.
///
/// The program `vor` calls only this function, and so can other programs that stand in for it.
/// Results go to stdout, everything else to stderr. While it writes a file, it handles SIGINT and
/// SIGTERM, to remove the unfinished file.
///
/// # Examples
///
/// ```
/// assert_eq!(vor::command::run(["vor", "--version"]), 0);
/// assert_eq!(vor::command::run(["vor", "info", "no-such-file.vor"]), 2);
/// ```
pub fn run(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    let args = with_command(args.into_iter().map(Into::into).collect());
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let outcome = match cli.command {
        Command::Info(args) => info::run(&args, &mut out),
        Command::Stats(args) => stats::run(&args, &mut out),
        Command::Frames(args) => frames::run(&args, &mut out),
        Command::Tail(args) => tail::run(&args, &mut out),
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(&args, &mut out),
        Command::Record(args) => record::run(&args),
        Command::Recover(args) => recover::run(&args, &mut out),
        Command::Attach(args) => recover::attach(&args),
        Command::Ctl(args) => ctl::run(&args, &mut out),
        Command::Check(args) => check::run(&args, &mut out),
        Command::Export(args) => export::run(&args),
        Command::Merge(args) => merge::run(&args),
        #[cfg(feature = "ship")]
        Command::Ship(args) => ship::run(&args, &mut out),
        Command::Diff(args) => diff::run(&args, &mut out),
        Command::Heap(args) => heap::run(&args, &mut out),
        Command::Locks(args) => locks::run(&args, &mut out),
        Command::Waits(args) => waits::run(&args, &mut out),
        Command::CriticalPath(args) => critical_path::run(&args, &mut out),
        Command::Completions(args) => shell::write_completions(&args, &mut out),
        Command::Man(args) => shell::write_man(&args, &mut out),
        // The exit code is the viewer's.
        Command::View(args) => return view::run(&args),
    };
    // Output from before a failure is still useful.
    let flushed = out.flush().map_err(Failure::output);
    match outcome.and_then(|outcome| flushed.map(|()| outcome)) {
        Ok(Outcome::Success) | Err(Failure::PipeClosed) => 0,
        Ok(Outcome::CheckFailed) => 1,
        Ok(Outcome::Incomplete) => 3,
        Err(Failure::Message(message)) => {
            warn(&message);
            2
        }
    }
}
