//! `vor ship`: the segments of a folder to object storage.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use vor_capture::units;
use vor_recorder::sinks::segments::Segments;

use crate::command::Outcome;
use crate::command::failure::{Failure, warn};
use crate::command::output::catch_signals;
use crate::ship::{Report, Shipper};

/// Ships the sealed segments of a folder to object storage, as captures and as Parquet by host and
/// date, and then each new segment, until SIGINT or SIGTERM.
///
/// A segment that is shipped twice replaces the same objects. What was shipped is noted in the
/// folder. Credentials come from the environment: AWS_ACCESS_KEY_ID, AWS_ENDPOINT,
/// GOOGLE_SERVICE_ACCOUNT, AZURE_STORAGE_ACCOUNT_NAME and the like.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ships what is there, and does not wait for more. Exit code 2 if anything is left.
    #[arg(long)]
    once: bool,
    /// What to ship; both by default.
    #[arg(long = "as", value_name = "FORMS", value_delimiter = ',')]
    forms: Vec<Form>,
    /// Deletes a segment once it is shipped.
    #[arg(long)]
    delete: bool,
    /// Keeps this much in the folder, as VOR_RECORD_KEEP: a size, an age, a number or several
    /// (2GB,7d). Shipped segments are deleted first; others are reported as lost.
    #[arg(long, value_name = "LIMITS", value_parser = limits)]
    keep: Option<Segments>,
    /// The name of the machine, instead of the one in each segment.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// The version of the recorded program, for the column `version`.
    #[arg(long, value_name = "TEXT")]
    program_version: Option<String>,
    /// The folder of the segments.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Where to: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER.
    #[arg(value_name = "URL")]
    url: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Segments as they are.
    Captures,
    /// The tables of `vor export --to parquet --partition host,date`.
    Parquet,
}

fn limits(text: &str) -> Result<Segments, String> {
    Segments::new()
        .keep(text)
        .map_err(|error| error.to_string())
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let has = |form| args.forms.is_empty() || args.forms.contains(&form);
    let mut shipper = Shipper::new(&args.folder, &args.url)?
        .captures(has(Form::Captures))
        .parquet(has(Form::Parquet))
        .delete_shipped(args.delete)
        .keep(args.keep.unwrap_or_default());
    if let Some(host) = &args.host {
        shipper = shipper.host(host);
    }
    if let Some(version) = &args.program_version {
        shipper = shipper.program_version(version);
    }
    let stop = Arc::new(AtomicBool::new(false));
    catch_signals(&stop).map_err(|error| Failure::in_file(&args.folder, error))?;
    let report = match args.once {
        true => shipper.ship_until(&stop)?,
        false => shipper.follow(&stop)?,
    };
    writeln!(out, "{}", summary(&report, &shipper)).map_err(Failure::output)?;
    if report.left > 0 {
        let reason = match &report.problem {
            Some(problem) => format!(": {problem}"),
            None if stop.load(Ordering::Relaxed) => ": ended by a signal".to_owned(),
            None => String::new(),
        };
        let left = format!(
            "{}: {} left{reason}",
            args.folder.display(),
            units::counted(report.left, "segment")
        );
        if args.once {
            return Err(Failure::Message(left));
        }
        warn(&left);
    }
    Ok(match report.damaged {
        0 => Outcome::Success,
        _ => Outcome::Incomplete,
    })
}

/// Returns what was done, in one line.
fn summary(report: &Report, shipper: &Shipper) -> String {
    let mut line = format!(
        "{} as {}, {}, to {}",
        units::counted(report.segments, "segment"),
        units::counted(report.objects, "object"),
        units::bytes(report.bytes),
        shipper.url()
    );
    if report.retries > 0 {
        let attempts = units::counted(report.retries, "attempt");
        line.push_str(&format!("; {attempts} repeated"));
    }
    for (count, what) in [
        (report.unsealed, "still being written or read"),
        (report.damaged, "damaged"),
        (report.lost, "lost"),
    ] {
        if count > 0 {
            line.push_str(&format!("; {} {what}", units::count(count)));
        }
    }
    line
}
