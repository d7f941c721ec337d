//! Code that the examples share: the place of captures, errors, a table of scopes, and random
//! numbers that are the same in every run.

#[cfg(feature = "viz")]
pub mod particles;
#[cfg(feature = "viz")]
pub mod stage;

use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The result of an example. [`run`] reports an error in one line.
pub type Outcome = Result<(), Box<dyn Error>>;

/// Runs an example with stdout to write to.
///
/// An error is one line on stderr and exit code 2. A closed pipe (`… | head -1`) is not an error;
/// the example then ends early, and its capture is complete all the same.
pub fn run(example: impl FnOnce(&mut dyn Write) -> Outcome) -> ExitCode {
    let mut out = io::stdout().lock();
    let outcome = example(&mut out).and_then(|()| Ok(out.flush()?));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is closed too, nothing can be reported.
            drop(writeln!(io::stderr(), "{}: {error}", program()));
            ExitCode::from(2)
        }
    }
}

fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Returns the name of this program.
fn program() -> String {
    let path = std::env::args_os()
        .next()
        .unwrap_or_else(|| OsString::from("example"));
    let name = Path::new(&path).file_stem().unwrap_or(&path);
    name.to_string_lossy().into_owned()
}

/// Returns the configuration of the environment. Without `VOR_RECORD`, the capture goes to
/// `vor-<example>.vor` in the temporary folder.
///
/// vor never overwrites a capture; it renames the earlier one. Captures should not pile up in the
/// temporary folder, so that of an earlier run is removed there. If another run still writes it,
/// this run adds its process id to the name.
#[must_use]
pub fn config(example: &str) -> vor::Config {
    let config = vor::Config::from_env();
    match std::env::var_os("VOR_RECORD") {
        // vor reports a path that it cannot use.
        Some(_) => config,
        None => config.capture(free_path(&std::env::temp_dir(), example)),
    }
}

/// Returns the path for a capture, after removing that of an earlier run.
fn free_path(folder: &Path, example: &str) -> PathBuf {
    let path = folder.join(format!("vor-{example}.vor"));
    // A recorder locks its capture while it writes.
    let in_use = File::open(&path).is_ok_and(|file| file.try_lock().is_err());
    if in_use || (std::fs::remove_file(&path).is_err() && path.exists()) {
        return folder.join(format!("vor-{example}-{}.vor", std::process::id()));
    }
    path
}

/// Prints commands that open the capture at `path`.
///
/// # Errors
///
/// `out` cannot be written, or the capture cannot be read.
pub fn print_how_to_open(out: &mut dyn Write, path: &Path) -> Outcome {
    let spans = vor::capture::SegmentedCapture::open(path)?.info().spans;
    let commands = if spans > 0 {
        [
            "stats",
            "frames --slowest 5",
            "export --to perfetto -o run.pftrace",
        ]
    } else {
        [
            "info",
            "frames --slowest 5",
            "export --to metrics-csv -o metrics.csv",
        ]
    };
    writeln!(out, "\nThe capture is {}. To look at it:", quoted(path))?;
    for command in commands {
        writeln!(out, "  {}", command_line(command, path))?;
    }
    if spans > 0 {
        writeln!(
            out,
            "The last command writes a trace to drop into https://ui.perfetto.dev."
        )?;
    } else {
        writeln!(
            out,
            "It holds metrics only; VOR_RECORD_SPANS=1 keeps all spans, \
             VOR_RECORD_SLOW_FRAMES_MS those of slow frames."
        )?;
    }
    Ok(())
}

/// Returns the line that runs a command of `vor` on the capture at `path`, in this repository.
#[must_use]
pub fn command_line(command: &str, path: &Path) -> String {
    let path = quoted(path);
    format!("cargo run -q --release -p vor --features cli -- {command} {path}")
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/\\:._-+~".contains(c);
    if text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Prints the `most` scopes with the largest self time, slowest first.
///
/// # Errors
///
/// `out` cannot be written.
pub fn print_slowest(
    out: &mut dyn Write,
    mut scopes: Vec<vor::stats::ScopeStats>,
    most: usize,
) -> io::Result<()> {
    scopes.sort_by_key(|scope| std::cmp::Reverse(scope.self_ns));
    let width = scopes
        .iter()
        .take(most)
        .map(|scope| scope.name.chars().count())
        .max()
        .unwrap_or(0)
        .max(5);
    writeln!(
        out,
        "{:<width$} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "scope", "count", "self", "total", "mean", "p99", "max"
    )?;
    for scope in scopes.iter().take(most) {
        writeln!(
            out,
            "{:<width$} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10}",
            scope.name,
            scope.count,
            duration(scope.self_ns),
            duration(scope.total_ns),
            duration(scope.mean_ns as u64),
            duration(scope.p99_ns),
            duration(scope.max_ns),
        )?;
    }
    Ok(())
}

/// Formats a duration with one decimal and a unit.
#[must_use]
pub fn duration(ns: u64) -> String {
    format!("{:.1?}", Duration::from_nanos(ns))
}

/// Random numbers from a seed: SplitMix64.
#[derive(Clone, Debug)]
pub struct Generator(u64);

impl Generator {
    /// Starts from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from -1 to 1, 1 not included.
    pub fn signed_unit(&mut self) -> f32 {
        // An f32 holds 24 bits exactly.
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

#[cfg(doctest)]
mod book;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_exit_code_2_and_a_closed_pipe_is_not() {
        let code =
            |error: Option<Box<dyn Error>>| format!("{:?}", run(|_| error.map_or(Ok(()), Err)));
        let success = format!("{:?}", ExitCode::SUCCESS);
        assert_eq!(code(None), success);
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(code(Some(Box::new(closed))), success);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        for error in [
            Box::from("expected a folder"),
            Box::new(full) as Box<dyn Error>,
        ] {
            assert_eq!(code(Some(error)), format!("{:?}", ExitCode::from(2)));
        }
    }

    #[test]
    fn an_earlier_capture_is_removed_unless_a_run_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = free_path(folder.path(), "x");
        std::fs::write(&path, "left behind").unwrap();
        assert_eq!(free_path(folder.path(), "x"), path);
        assert!(!path.exists());

        let in_use = File::create(&path).unwrap();
        in_use.lock().unwrap();
        assert_ne!(free_path(folder.path(), "x"), path);
        assert!(path.exists());
    }

    #[test]
    fn random_numbers_repeat_and_fill_their_range() {
        let draw = |seed| {
            let mut generator = Generator::new(seed);
            (0..1000)
                .map(|_| generator.signed_unit())
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let (low, high) = draw(7)
            .iter()
            .fold((0.0_f32, 0.0_f32), |(l, h), v| (l.min(*v), h.max(*v)));
        assert!(
            (-1.0..-0.9).contains(&low) && (0.9..1.0).contains(&high),
            "{low} {high}"
        );
    }

    #[test]
    fn paths_survive_a_shell() {
        assert_eq!(quoted(Path::new("/tmp/run.vor")), "/tmp/run.vor");
        assert_eq!(
            quoted(Path::new("/tmp/it's a run.vor")),
            r"'/tmp/it'\''s a run.vor'"
        );
    }
}
