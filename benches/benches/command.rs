//! The time of the command for large captures. `vor diff` compares two with 10 million spans each,
//! `vor export` exports one of these and a capture of 2 GB, and `vor stats` reads one with 100
//! million.
//!
//! ```text
//! cargo build --release -p vor --features cli,parquet
//! cargo bench -p vor-benches --bench command -- [diff] [export] [large] [stats]
//! ```
//!
//! The bench times the release build of the command, in the folder above its own or at the path in
//! the variable `VOR_COMMAND`. Each time is from the start of the process to its end, with the file
//! in the system's cache.

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
const LARGE_BYTES: u64 = 2_000_000_000;
const ROUNDS: usize = 5;

fn main() -> ExitCode {
    // Cargo passes an option to every bench.
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    match measure(|part| asked.is_empty() || asked.iter().any(|asked| asked == part)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("command: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(is_asked: impl Fn(&str) -> bool) -> Result<(), Box<dyn Error>> {
    let command = command()?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let (before, after, large) = (path("before.vor"), path("after.vor"), path("large.vor"));
    if is_asked("diff") || is_asked("export") {
        make(&before, DIFF_SPANS, 0)?;
    }
    if is_asked("diff") {
        make(&after, DIFF_SPANS, 10)?;
        for metric in ["mean", "p99"] {
            let run = |vor: &mut Command| {
                vor.arg("diff")
                    .args([&before, &after])
                    .args(["--metric", metric]);
            };
            time(
                &command,
                &format!("diff --metric {metric}, 2 x 10 M spans"),
                run,
            )?;
        }
    }
    if is_asked("export") {
        let small = path("small.vor");
        make(&small, DIFF_SPANS / 10, 0)?;
        for (format, least) in FORMATS {
            let export = |capture: &Path| {
                let out = path("out");
                let capture = capture.to_owned();
                move |vor: &mut Command| {
                    vor.args(["export", "--to", format])
                        .arg(&capture)
                        .arg("-o")
                        .arg(&out);
                }
            };
            let few = time(
                &command,
                &format!("export to {format}, 1 M spans"),
                export(&small),
            )?;
            let what = format!("export to {format}, 10 M spans, aim {least} M spans/s");
            let many = time(&command, &what, export(&before))?;
            let spans = DIFF_SPANS as f64 / 1e6;
            println!(
                "    {:.1} M spans/s, {:.1} M per second of CPU; {:.0} MB more than for 1 M",
                spans / many.wall_s,
                spans / many.cpu_s,
                many.resident_mb - few.resident_mb
            );
        }
    }
    if is_asked("large") {
        let huge = path("huge.vor");
        let batch = Shape::Trees.batch(FRAME_SPANS, 1_000_000);
        captures::write(&huge, batch, |_| {
            Ok(std::fs::metadata(&huge)?.len() >= LARGE_BYTES)
        })?;
        let run = |vor: &mut Command| {
            vor.args(["export", "--to", "perfetto", "-o", "/dev/null"])
                .arg(&huge);
        };
        run_once(&command, "export to perfetto, a capture of 2 GB", run)?;
        std::fs::remove_file(&huge)?;
    }
    if is_asked("stats") {
        make(&large, STATS_SPANS, 0)?;
        time(&command, "stats, 100 M spans", |vor| {
            vor.arg("stats").arg(&large);
        })?;
    }
    Ok(())
}

/// Formats, with the target of an export in million spans per second.
const FORMATS: [(&str, f64); 7] = [
    ("perfetto", 8.0),
    ("chrome", 5.0),
    ("csv", 4.0),
    ("parquet", 3.0),
    ("collapsed", 0.0),
    ("speedscope", 0.0),
    ("firefox", 0.0),
];

/// The cost of runs of the command: median times, and the peak of memory.
struct Usage {
    wall_s: f64,
    cpu_s: f64,
    resident_mb: f64,
}

/// Returns the path of the command.
fn command() -> Result<PathBuf, Box<dyn Error>> {
    if let Some(path) = std::env::var_os("VOR_COMMAND") {
        return Ok(path.into());
    }
    let own = std::env::current_exe()?;
    // The path of a bench is `target/release/deps/command-…`.
    let folder = own
        .parent()
        .and_then(Path::parent)
        .ok_or("no folder of builds")?;
    let path = folder.join(format!("vor{}", std::env::consts::EXE_SUFFIX));
    if !path.is_file() {
        let path = path.display();
        return Err(format!(
            "{path} not found; build it with `cargo build --release -p vor --features cli,parquet`"
        )
        .into());
    }
    Ok(path)
}

/// Writes a capture of at least `spans` spans. All its durations are `slower_percent` longer.
fn make(path: &Path, spans: u64, slower_percent: u64) -> Result<(), Box<dyn Error>> {
    let mut batch = Shape::Trees.batch(FRAME_SPANS, 1_000_000);
    let stretch = |ticks: u64| ticks + ticks * slower_percent / 100;
    for thread in &mut batch.threads {
        for (start, duration) in thread
            .start_ticks
            .iter_mut()
            .zip(&mut thread.duration_ticks)
        {
            // Both ends are scaled by the same factor, so the spans nest as before.
            let end = stretch(*start + *duration);
            *start = stretch(*start);
            *duration = end - *start;
        }
    }
    captures::write(path, batch, |frames| {
        Ok(frames * FRAME_SPANS as u64 >= spans)
    })?;
    Ok(())
}

/// Runs the command several times and prints the median time, the CPU time and the memory.
fn time(
    command: &Path,
    what: &str,
    arguments: impl Fn(&mut Command),
) -> Result<Usage, Box<dyn Error>> {
    run(command, what, ROUNDS, arguments)
}

fn run_once(
    command: &Path,
    what: &str,
    arguments: impl Fn(&mut Command),
) -> Result<Usage, Box<dyn Error>> {
    run(command, what, 1, arguments)
}

fn run(
    command: &Path,
    what: &str,
    rounds: usize,
    arguments: impl Fn(&mut Command),
) -> Result<Usage, Box<dyn Error>> {
    let (mut wall_s, mut cpu_s) = (Vec::new(), Vec::new());
    let mut resident_kib = 0;
    for _ in 0..rounds {
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
            return Err(format!("{what} failed: {status}").into());
        }
    }
    let usage = Usage {
        wall_s: median(wall_s),
        cpu_s: median(cpu_s),
        resident_mb: resident_kib as f64 * 1024.0 / 1e6,
    };
    println!(
        "{what}: {:.2} s, {:.2} s of all cores, {:.0} MB resident",
        usage.wall_s, usage.cpu_s, usage.resident_mb
    );
    Ok(usage)
}
