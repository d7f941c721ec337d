//! Every figure that vor guarantees, measured in one run: `cargo bench -p vor-benches --bench
//! budget`.
//!
//! Ratios are medians over interleaved rounds in one process. Measurements of a whole process (a
//! capture from start to end, memory, idleness) run in a child: this program again, with a task as
//! its argument. The exit code is 1 if a target is missed.
//!
//! ```text
//! cargo bench -p vor-benches --bench budget -- [--seconds S] [--only TEXT,...]
//! ```
//!
//! `--seconds` sets the duration of each recording (10), `--only` runs the groups whose name
//! contains one of the texts: `hot`, `metrics`, `truth`, `threads`, `drain`, `traces`, `marks`,
//! `recording`, `frames`, `idle`, `size`, `real`, `counted`, and with the feature `peers` also
//! `peers` and `tracing`.

mod child;
mod drain;
mod hot;
#[cfg(feature = "peers")]
mod peers;
mod real;
mod recording;
mod size;
mod table;
mod threads;
mod traces;
mod truth;

use std::process::ExitCode;

use table::Table;

/// The options of the command line.
#[derive(Debug)]
pub struct Options {
    /// Duration of each recording.
    pub seconds: f64,
    only: String,
}

impl Options {
    fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            seconds: 10.0,
            only: String::new(),
        };
        while let Some(arg) = args.next() {
            let mut value = || {
                args.next()
                    .ok_or_else(|| format!("expected a value after {arg}, found the end"))
            };
            match arg.as_str() {
                // Cargo passes this option to every bench.
                "--bench" => {}
                "--only" => options.only = value()?,
                "--seconds" => {
                    let text = value()?;
                    let seconds = text
                        .parse::<f64>()
                        .ok()
                        .filter(|seconds| (0.1..=3600.0).contains(seconds));
                    options.seconds = seconds
                        .ok_or_else(|| format!("expected 0.1 to 3600 seconds, found `{text}`"))?;
                }
                _ => {
                    return Err(format!(
                        "expected --seconds S or --only TEXT, found `{arg}`"
                    ));
                }
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if(|arg| arg == child::FLAG).is_some() {
        return child::run(args);
    }
    let options = match Options::from_args(args) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("budget: {error}");
            return ExitCode::from(2);
        }
    };
    let mut table = Table::default();
    type Group = fn(&Options, &mut Table);
    let groups: &[(&str, Group)] = &[
        ("hot", hot::measure),
        ("metrics", hot::measure_metrics),
        ("truth", truth::measure),
        ("threads", threads::measure),
        ("drain", drain::measure),
        ("traces", traces::measure),
        ("marks", recording::measure_marks),
        ("recording", recording::measure),
        ("frames", recording::measure_frames),
        ("idle", recording::measure_idle),
        ("size", size::measure),
        ("real", real::measure),
        #[cfg(feature = "peers")]
        ("peers", peers::measure),
        // The last groups, because the process cannot leave their modes.
        ("counted", hot::measure_counted),
        #[cfg(feature = "peers")]
        ("tracing", peers::measure_tracing),
    ];
    println!("{:<58} {:>10} {:>12}", "", "target", "measured");
    for (name, measure) in groups {
        if options.only.split(',').any(|part| name.contains(part)) {
            measure(&options, &mut table);
        }
    }
    if table.conclude() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
