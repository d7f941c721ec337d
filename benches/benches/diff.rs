//! How long the command takes for large captures: `vor diff` of two with 10 million spans each, and `vor stats` of one with 100 million.
//!
//! ```text
//! cargo build --release -p vor --features cli && cargo bench -p vor-benches --bench diff
//! ```
//!
//! It times the release build of the command, which it expects beside its own folder or where the variable `VOR_COMMAND` says. Each time is from the
//! start of the process to its end, with the file in the system's cache.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use vor_benches::captures;
use vor_benches::process::{children_cpu_ns, peak_resident_kib_of};
use vor_benches::rounds::median;
use vor_benches::spans::Shape;

/// Spans of a frame: some milliseconds of a busy program.
const FRAME_SPANS: usize = 1 << 14;
const DIFF_SPANS: u64 = 10_000_000;
const STATS_SPANS: u64 = 100_000_000;
const ROUNDS: usize = 5;

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("diff: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Box<dyn Error>> {
    let command = command()?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let (before, after, large) = (path("before.vor"), path("after.vor"), path("large.vor"));
    make(&before, DIFF_SPANS, 0)?;
    make(&after, DIFF_SPANS, 10)?;
    for metric in ["mean", "p99"] {
        let run = |vor: &mut Command| {
            vor.arg("diff").args([&before, &after]).args(["--metric", metric]);
        };
        time(&command, &format!("diff --metric {metric}, 2 x 10 M spans"), run)?;
    }
    make(&large, STATS_SPANS, 0)?;
    time(&command, "stats, 100 M spans", |vor| {
        vor.arg("stats").arg(&large);
    })
}

/// Returns where the command is.
fn command() -> Result<PathBuf, Box<dyn Error>> {
    if let Some(path) = std::env::var_os("VOR_COMMAND") {
        return Ok(path.into());
    }
    let own = std::env::current_exe()?;
    // A bench is `target/release/deps/diff-….`
    let folder = own
        .parent()
        .and_then(Path::parent)
        .ok_or("a folder of builds was expected, found none")?;
    let path = folder.join(format!("vor{}", std::env::consts::EXE_SUFFIX));
    if !path.is_file() {
        let path = path.display();
        return Err(format!("the command was expected at {path}, found none; cargo build --release -p vor --features cli makes it").into());
    }
    Ok(path)
}

/// Writes a capture of at least `spans` spans. Everything in it takes `slower_percent` longer.
fn make(path: &Path, spans: u64, slower_percent: u64) -> Result<(), Box<dyn Error>> {
    let mut batch = Shape::Trees.batch(FRAME_SPANS, 1_000_000);
    let stretch = |ticks: u64| ticks + ticks * slower_percent / 100;
    for thread in &mut batch.threads {
        for (start, duration) in thread.start_ticks.iter_mut().zip(&mut thread.duration_ticks) {
            // Both ends are moved alike, so that spans nest as before.
            let end = stretch(*start + *duration);
            *start = stretch(*start);
            *duration = end - *start;
        }
    }
    captures::write(path, batch, |frames| Ok(frames * FRAME_SPANS as u64 >= spans))?;
    Ok(())
}

/// Runs the command several times and prints the median time, the CPU time and the memory.
fn time(command: &Path, what: &str, arguments: impl Fn(&mut Command)) -> Result<(), Box<dyn Error>> {
    let (mut wall_s, mut cpu_s) = (Vec::new(), Vec::new());
    let mut resident_kib = 0;
    for _ in 0..ROUNDS {
        let mut vor = Command::new(command);
        arguments(&mut vor);
        let cpu_before_ns = children_cpu_ns().unwrap_or(0);
        let begin = Instant::now();
        let mut child = vor.stdout(Stdio::null()).spawn()?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            resident_kib = resident_kib.max(peak_resident_kib_of(child.id()).unwrap_or(0));
            std::thread::sleep(Duration::from_millis(5));
        };
        wall_s.push(begin.elapsed().as_secs_f64());
        cpu_s.push((children_cpu_ns().unwrap_or(0) - cpu_before_ns) as f64 / 1e9);
        if !status.success() {
            return Err(format!("{what}: a run without failure was expected, found {status}").into());
        }
    }
    println!(
        "{what}: {:.2} s, {:.2} s of all cores, {:.0} MB resident",
        median(wall_s),
        median(cpu_s),
        resident_kib as f64 * 1024.0 / 1e6
    );
    Ok(())
}
