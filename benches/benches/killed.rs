//! The loss of a killed program: the time between the SIGKILL and the end of the last span in its
//! capture, over many kills at random moments.
//!
//! - *idle*: one thread with a span of 20 µs every millisecond.
//! - *moderate*: a thread at full speed on every second core, with spans of a microsecond.
//! - *saturated*: two such threads for each core, so that the worker has to wait for a CPU.
//!
//! `-- --kills N` kills N times under each load (default 100); `-- --only saturated` runs one load.

use std::env;
use std::hint::black_box;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use vor_capture::reader::{Event, Reader};
use vor_recorder::clock;

/// Names the capture of a child, and its number of threads: 0 for a child that mostly sleeps.
const CHILD: &str = "VOR_BENCH_KILLED";
/// The shortest time before a kill, after which the worker has a steady pace. A random time of up
/// to the same length follows.
const BEFORE: Duration = Duration::from_millis(150);

type Failure = Box<dyn std::error::Error>;

/// Works until `span` has passed.
fn work(span: Duration) {
    vor::profile_scope!("work");
    let begin = Instant::now();
    while begin.elapsed() < span {
        black_box(());
    }
}

fn record(threads: usize, path: &str) -> ! {
    vor::Config::new().capture(path).enable();
    for _ in 1..threads {
        std::thread::spawn(|| {
            loop {
                work(Duration::from_micros(1));
            }
        });
    }
    loop {
        if threads == 0 {
            work(Duration::from_micros(20));
            std::thread::sleep(Duration::from_millis(1));
        } else {
            work(Duration::from_micros(1));
        }
    }
}

/// Returns the end of the last span of a capture, and the number of its spans.
fn last_end(path: &Path) -> Result<(u64, u64), Failure> {
    let mut reader = Reader::open(path)?;
    let (mut last, mut spans) = (0, 0);
    while let Some(event) = reader.next_event()? {
        if let Event::Batch(batch) = event {
            for thread in &batch.threads {
                spans += thread.len() as u64;
                last = (0..thread.len())
                    .map(|i| thread.end_ticks(i))
                    .fold(last, u64::max);
            }
        }
    }
    Ok((last, spans))
}

/// The size above which a capture holds more than its header.
const BEGUN_BYTES: u64 = 1_000;

/// Starts a child, and returns when its capture has started.
fn start(path: &Path, threads: usize) -> Result<Child, Failure> {
    let mut command = Command::new(env::current_exe()?);
    command.env(CHILD, format!("{threads} {}", path.display()));
    let mut child = command.stdout(Stdio::null()).spawn()?;
    while std::fs::metadata(path).map_or(0, |file| file.len()) < BEGUN_BYTES {
        if let Some(status) = child.try_wait()? {
            return Err(format!("the child has ended: {status}").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(child)
}

/// Returns the value of an option.
fn option(name: &str) -> Option<String> {
    env::args().skip_while(|argument| argument != name).nth(1)
}

/// Returns the loss of each kill, in nanoseconds, sorted.
fn lost_ns(threads: usize, kills: usize) -> Result<Vec<f64>, Failure> {
    const NS: u64 = 1_000_000_000;
    let ticks_per_ns = clock::approximate_ticks(NS) as f64 / NS as f64;
    let folder = tempfile::tempdir()?;
    let mut chance = clock::ticks();
    let mut lost = Vec::new();
    for kill in 0..kills {
        let path = folder.path().join(format!("{kill}.vor"));
        let mut child = start(&path, threads)?;
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        std::thread::sleep(BEFORE + BEFORE.mul_f64((chance >> 40) as f64 / f64::from(1 << 24)));
        let killed = clock::ticks();
        child.kill()?;
        child.wait()?;
        let (last, spans) = last_end(&path)?;
        if spans == 0 {
            return Err(format!("kill {kill}: no spans").into());
        }
        lost.push(killed.saturating_sub(last) as f64 / ticks_per_ns);
        std::fs::remove_file(path)?;
    }
    lost.sort_by(f64::total_cmp);
    Ok(lost)
}

fn measure() -> Result<(), Failure> {
    let kills = option("--kills").map_or(Ok(100), |number| number.parse())?;
    let only = option("--only");
    let cores = std::thread::available_parallelism()?.get();
    println!("{cores} cores, {kills} kills each; lost before the kill:");
    let loads = [
        ("idle", 0),
        ("moderate", cores.div_ceil(2)),
        ("saturated", 2 * cores),
    ];
    for (load, threads) in loads {
        if only.as_ref().is_some_and(|only| only != load) {
            continue;
        }
        let lost = lost_ns(threads, kills.max(1))?;
        let at = |part: f64| lost[((lost.len() - 1) as f64 * part).round() as usize] / 1e6;
        println!(
            "  {load:<10} {threads:>3} threads: \
             median {:5.1} ms, nine in ten {:5.1} ms, most {:5.1} ms",
            at(0.5),
            at(0.9),
            at(1.0)
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    if let Ok(child) = env::var(CHILD) {
        if let Some((threads, path)) = child.split_once(' ') {
            record(threads.parse().unwrap_or(0), path);
        }
        return ExitCode::FAILURE;
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
