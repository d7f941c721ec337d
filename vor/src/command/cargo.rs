//! `cargo vor`: builds a program, records it, and prints its slowest scopes.
//!
//! Cargo itself chooses, builds and starts the program, so everything is as under `cargo run` and
//! `cargo bench`: options, working directory, libraries, exit code. Only the environment has more,
//! which is how any program with vor is recorded.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::SystemTime;

use clap::{Parser, Subcommand};

use crate::command::failure::warn;
use crate::command::{slowest, usage};

const MORE_HELP: &str = "\
Every command of `vor` works here too: `cargo vor frames run.vor`.

The program has to call `vor::enable()`. Its other settings come from its own calls and from the
variables of vor, for example VOR_CPU_TIME=1.";

/// Builds a program with cargo, records it, and prints its slowest scopes.
#[derive(Debug, Parser)]
#[command(name = "cargo vor", bin_name = "cargo vor", version, after_help = MORE_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    /// Records a binary, an example, a test or a bench, in an optimised build.
    Run(Args),
    /// Records a bench, as `cargo vor run --bench NAME` does.
    Bench(BenchArgs),
}

#[derive(Debug, clap::Args)]
struct Args {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct BenchArgs {
    /// The bench.
    #[arg(value_name = "NAME")]
    bench: String,
    #[command(flatten)]
    common: Common,
}

/// The program to record; without an option, the one that `cargo run` chooses.
#[derive(Debug, Default, clap::Args)]
#[group(multiple = false)]
struct Target {
    /// The binary to record.
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,
    /// The example to record.
    #[arg(long, value_name = "NAME")]
    example: Option<String>,
    /// The file of integration tests to record.
    #[arg(long, value_name = "NAME")]
    test: Option<String>,
    /// The bench to record.
    #[arg(long, value_name = "NAME")]
    bench: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// The package that has the program.
    #[arg(short, long, value_name = "NAME")]
    package: Option<String>,
    /// The profile to build with: release, and bench for benches, unless given.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Features to turn on, separated by commas.
    #[arg(short = 'F', long, value_name = "FEATURES")]
    features: Vec<String>,
    /// Turns on all features.
    #[arg(long)]
    all_features: bool,
    /// Leaves the default features off.
    #[arg(long)]
    no_default_features: bool,
    /// The manifest of the package or the workspace.
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<PathBuf>,
    /// The capture to write: NAME.vor in this folder unless given, or what VOR_RECORD names.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Prints the N slowest scopes.
    #[arg(short = 'n', long, value_name = "N", default_value = "10")]
    #[arg(value_parser = slowest::at_least_one)]
    limit: usize,
    /// Arguments for the program.
    #[arg(value_name = "ARGS", last = true)]
    args: Vec<OsString>,
}

/// Runs the command line of the program `cargo-vor` and returns the exit code.
///
/// Cargo starts it for `cargo vor …`, with `vor` as the first argument. `run` and `bench` record a
/// program. Other command lines are those of [`run`](super::run).
///
/// # Examples
///
/// ```
/// assert_eq!(vor::command::run_cargo(["cargo-vor", "vor", "--help"]), 0);
/// assert_eq!(vor::command::run_cargo(["cargo-vor", "vor", "info", "no-such-file.vor"]), 2);
/// ```
pub fn run_cargo(args: impl IntoIterator<Item = impl Into<OsString>>) -> u8 {
    let mut args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    // Someone may start the program without cargo.
    if args.get(1).is_some_and(|arg| arg == "vor") {
        args.remove(1);
    }
    let is_ours = |arg: &OsString| {
        ["run", "bench", "--help", "-h", "help"]
            .map(OsStr::new)
            .contains(&arg.as_os_str())
    };
    if !args.get(1).is_none_or(is_ours) {
        return super::run(args);
    }
    match Cli::try_parse_from(args) {
        Ok(cli) => record(cli.command),
        Err(error) => usage::report(&error),
    }
}

fn record(subject: Subject) -> u8 {
    let (target, common) = match subject {
        Subject::Run(args) => (args.target, args.common),
        Subject::Bench(args) => {
            let target = Target {
                bench: Some(args.bench),
                ..Target::default()
            };
            (target, args.common)
        }
    };
    let capture = capture_path(&target, &common);
    let earlier = written_at(&capture);
    let status = match run_to_end(&mut command(&target, &common, &capture)) {
        Ok(status) => status,
        Err(error) => {
            warn(&format!("cannot start cargo: {error}"));
            return 2;
        }
    };
    // Cargo has said what is wrong, or the program has.
    let code = status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(2);
    let name = from_here(&capture).display();
    let written = written_at(&capture);
    if written.is_none() || written == earlier {
        if code == 0 {
            warn(&format!(
                "{name} was not written; the program has to call `vor::enable()`"
            ));
            return 2;
        }
        return code;
    }
    let limit = common.limit.to_string();
    let stats = ["vor", "stats", "--limit", &limit].map(OsString::from);
    let printed = super::run(stats.into_iter().chain([capture.clone().into_os_string()]));
    warn(&format!(
        "the capture is {name}; `vor view {name}` shows it"
    ));
    if code == 0 { printed } else { code }
}

impl Target {
    /// Returns cargo's option for the program, and its name.
    fn chosen(&self) -> Option<(&'static str, &str)> {
        let options = [
            ("--bin", &self.bin),
            ("--example", &self.example),
            ("--test", &self.test),
            ("--bench", &self.bench),
        ];
        let mut options = options.into_iter();
        options.find_map(|(option, name)| Some((option, name.as_deref()?)))
    }
}

/// Returns the file to write, which `VOR_RECORD` may name too.
fn capture_path(target: &Target, common: &Common) -> PathBuf {
    let name = target.chosen().map_or("run", |(_, name)| name);
    let path = common.output.clone();
    let path = path.or_else(|| Some(env::var_os("VOR_RECORD")?.into()));
    let path = path.unwrap_or_else(|| format!("{name}.vor").into());
    // Cargo starts tests and benches in the folder of their package.
    std::path::absolute(&path).unwrap_or(path)
}

fn command(target: &Target, common: &Common, capture: &Path) -> Command {
    // Cargo names itself to the commands that it starts.
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let chosen = target.chosen();
    let (verb, profile) = match chosen {
        Some(("--test", _)) => ("test", Some("release")),
        Some(("--bench", _)) => ("bench", None),
        _ => ("run", Some("release")),
    };
    command.arg(verb);
    let mut option = |name: &str, value: Option<&OsStr>| {
        if let Some(value) = value {
            command.arg(name).arg(value);
        }
    };
    if let Some((name, value)) = chosen {
        option(name, Some(OsStr::new(value)));
    }
    option("--package", common.package.as_deref().map(OsStr::new));
    option(
        "--profile",
        common.profile.as_deref().or(profile).map(OsStr::new),
    );
    option(
        "--manifest-path",
        common.manifest_path.as_deref().map(Path::as_os_str),
    );
    for features in &common.features {
        option("--features", Some(OsStr::new(features)));
    }
    command
        .args(common.all_features.then_some("--all-features"))
        .args(
            common
                .no_default_features
                .then_some("--no-default-features"),
        )
        .arg("--")
        .args(&common.args)
        .env("VOR_RECORD", capture);
    if env::var_os("VOR_RECORD_SPANS").is_none() {
        command.env("VOR_RECORD_SPANS", "1");
    }
    command
}

/// Waits for the end of a command. An interrupt from the terminal reaches the program too, and ends
/// only that, so that its scopes are printed.
fn run_to_end(command: &mut Command) -> io::Result<ExitStatus> {
    let was_interrupted = std::sync::Arc::default();
    let registered = signal_hook::flag::register(signal_hook::consts::SIGINT, was_interrupted)?;
    let status = command.status();
    signal_hook::low_level::unregister(registered);
    status
}

/// Returns when a file was last written, if it exists.
fn written_at(path: &Path) -> Option<SystemTime> {
    path.metadata()
        .and_then(|metadata| metadata.modified())
        .ok()
}

/// Names a file as a person in this folder does.
fn from_here(path: &Path) -> &Path {
    let here = env::current_dir().ok();
    here.and_then(|here| path.strip_prefix(here).ok())
        .unwrap_or(path)
}
