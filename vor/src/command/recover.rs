//! `vor recover` and `vor attach`: the spans that a process left in shared memory, as a capture.

use std::io::Write;
use std::path::{Path, PathBuf};

use vor_capture::units;
use vor_recorder::drain::recovery::{Recovered, Remains};

use crate::command::Outcome;
use crate::command::failure::{Failure, warn};
use crate::command::output::Output;

/// Writes a capture of the last spans of a process that was killed.
///
/// The process recorded with VOR_RECORD_SHM=1, or `Config::shared_memory`. Without an argument the
/// command lists what processes have left.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The number of the process, or its file of shared memory.
    #[arg(value_name = "PID|FILE")]
    process: Option<String>,
    #[command(flatten)]
    capture: CaptureArgs,
    /// Removes the file of shared memory when the capture is written.
    #[arg(long, requires = "process")]
    delete: bool,
}

/// Writes a capture of the newest spans and the open scopes of a process that runs or hangs.
///
/// The process records with VOR_RECORD_SHM=1, or `Config::shared_memory`. It is not stopped, and it
/// does not notice.
#[derive(Debug, clap::Args)]
pub(crate) struct AttachArgs {
    /// The number of the process, or its file of shared memory.
    #[arg(value_name = "PID|FILE")]
    process: String,
    #[command(flatten)]
    capture: CaptureArgs,
}

#[derive(Debug, clap::Args)]
struct CaptureArgs {
    /// The capture that is written.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The capture that the process was writing; the output begins with its contents, and has every
    /// span once.
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let Some(process) = &args.process else {
        return list(out).map_err(Failure::output);
    };
    let remains = open(process)?;
    if remains.is_alive() {
        return Err(Failure::Message(format!(
            "process {} still runs; `vor attach {process}` reads it",
            remains.pid()
        )));
    }
    let outcome = write(&remains, &args.capture)?;
    if args.delete {
        std::fs::remove_file(remains.path()).map_err(|error| {
            Failure::in_file(remains.path(), format!("cannot be removed: {error}"))
        })?;
    }
    Ok(outcome)
}

pub(crate) fn attach(args: &AttachArgs) -> Result<Outcome, Failure> {
    let remains = open(&args.process)?;
    if !remains.is_alive() {
        return Err(Failure::Message(format!(
            "process {} has ended; `vor recover {}` reads what it left",
            remains.pid(),
            args.process
        )));
    }
    write(&remains, &args.capture)
}

fn open(process: &str) -> Result<Remains, Failure> {
    Ok(match process.parse() {
        Ok(pid) => Remains::of_process(pid)?,
        Err(_) => Remains::open(Path::new(process))?,
    })
}

fn write(remains: &Remains, args: &CaptureArgs) -> Result<Outcome, Failure> {
    let Some(path) = &args.output else {
        return Err(Failure::Message(
            "no output is named; `-o FILE` names the capture that is written".to_owned(),
        ));
    };
    if let Some(capture) = &args.capture
        && is_same(capture, path)
    {
        return Err(Failure::in_file(
            path,
            "is the capture itself; name another output",
        ));
    }
    let output = Output::create(Some(path))?;
    let cannot = |error| Failure::in_file(path, format!("cannot be written: {error}"));
    let mut writer = output.writer().map_err(cannot)?;
    let recovered = remains.write(args.capture.as_deref(), &mut writer)?;
    output.check_signal().map_err(cannot)?;
    output.persist()?;
    report(remains, args, path, &recovered);
    Ok(match recovered.damaged_rings {
        0 => Outcome::Success,
        _ => Outcome::Incomplete,
    })
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

fn report(remains: &Remains, args: &CaptureArgs, path: &Path, recovered: &Recovered) {
    let earlier = match args.capture {
        Some(_) => None,
        None => remains.capture(),
    };
    let lines = lines(path, remains.pid(), recovered, earlier.as_deref());
    lines.iter().for_each(|line| warn(line));
}

/// Describes the capture at `path`. `earlier` is a capture with spans that it does not have.
fn lines(path: &Path, pid: u32, recovered: &Recovered, earlier: Option<&Path>) -> Vec<String> {
    let captured = match recovered.captured_spans {
        0 => String::new(),
        spans => format!(" after {spans} of the capture"),
    };
    let mut lines = vec![format!(
        "{}: {} spans recovered{captured}, {} open scopes of process {pid}",
        path.display(),
        recovered.spans,
        recovered.open_scopes
    )];
    if recovered.overwritten > 0 {
        lines.push(format!(
            "{} of records were overwritten before they were read; the process goes on recording",
            units::bytes(16 * recovered.overwritten)
        ));
    }
    if recovered.damaged_rings > 0 {
        lines.push(format!(
            "{} threads are missing: the file of shared memory is damaged there",
            recovered.damaged_rings
        ));
    }
    if let Some(earlier) = earlier {
        lines.push(format!(
            "earlier spans are in {0}; `--capture {0}` writes both",
            earlier.display()
        ));
    }
    lines
}

/// Lists the files of all processes of this user.
fn list(out: &mut impl Write) -> std::io::Result<Outcome> {
    let mut has_any = false;
    for path in Remains::list() {
        // Those of other users cannot be read.
        let Ok(remains) = Remains::open(&path) else {
            continue;
        };
        let state = if remains.is_alive() { "runs" } else { "ended" };
        let bytes = remains.memory_bytes();
        writeln!(
            out,
            "{:>8}  {state:5}  {:>9}  {}",
            remains.pid(),
            units::bytes(bytes),
            path.display()
        )?;
        has_any = true;
    }
    if !has_any {
        writeln!(
            out,
            "no process has left anything; it needs VOR_RECORD_SHM=1"
        )?;
    }
    Ok(Outcome::Success)
}

#[cfg(test)]
mod tests {
    use vor_capture::filled;

    use super::*;

    #[test]
    fn the_lines_say_what_is_recovered_and_what_is_not() {
        let path = Path::new("last.vor");
        let whole = filled!(Recovered {
            spans: 7,
            open_scopes: 2
        });
        assert_eq!(
            lines(path, 4711, &whole, None),
            ["last.vor: 7 spans recovered, 2 open scopes of process 4711"]
        );
        let damaged = filled!(Recovered {
            captured_spans: 40,
            overwritten: 250,
            damaged_rings: 3,
            ..whole
        });
        assert_eq!(
            lines(path, 4711, &damaged, Some(Path::new("run.vor"))),
            [
                "last.vor: 7 spans recovered after 40 of the capture, \
                2 open scopes of process 4711",
                "4.00 kB of records were overwritten before they were read; \
                the process goes on recording",
                "3 threads are missing: the file of shared memory is damaged there",
                "earlier spans are in run.vor; `--capture run.vor` writes both",
            ]
        );
    }

    #[test]
    fn two_names_of_a_file_are_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["one", "other"] {
            std::fs::write(path(name), "").unwrap();
        }
        assert!(is_same(&path("one"), &path("./one")));
        assert!(!is_same(&path("one"), &path("other")));
        // Files that are not there have no other names.
        assert!(is_same(&path("none"), &path("none")));
        assert!(!is_same(&path("none"), &path("one")));
    }
}
