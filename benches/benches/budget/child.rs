//! Programs in separate processes: their tasks, and their reports to the parent.
//!
//! The parent passes a task, a duration in seconds and the path of the capture. The child prints
//! one `key value` per line.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use vor_benches::clock::{process_cpu_ns, thread_cpu_ns, two_ticks};
use vor_benches::process;
use vor_benches::rounds::median;
use vor_benches::work::{Sequence, chain};

/// First argument of a child.
pub const FLAG: &str = "--child";

/// Approximate steps of [`chain`] per 100 nanoseconds: the spread matters, not the exact duration.
const STEPS_PER_100_NS: u64 = 52;

/// The task of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Empty scopes without a pause.
    FlatOut,
    /// Scopes at about 25 million per second.
    Paced,
    /// Scopes of 200 to 800 ns of work.
    Work,
    /// Random trees of scopes, at most six deep.
    Trees,
    /// Empty scopes without a pause, and a mark after each group of this many.
    Frames(u64),
    /// The same without a capture.
    FramesUnread(u64),
    /// Marks after different numbers of spans, from none to a million.
    Marks,
    /// A few scopes, followed by idle time.
    Idle,
    /// A Perfetto trace.
    Traces,
    /// A capture opened at its last frame, and read to its end.
    Open,
}

const TASKS: [(&str, Task); 15] = [
    ("flat-out", Task::FlatOut),
    ("paced", Task::Paced),
    ("work", Task::Work),
    ("trees", Task::Trees),
    ("frames-30", Task::Frames(30)),
    ("frames-100", Task::Frames(100)),
    ("frames-300", Task::Frames(300)),
    ("frames-1000", Task::Frames(1_000)),
    ("frames-10000", Task::Frames(10_000)),
    ("frames-unread-100", Task::FramesUnread(100)),
    ("frames-unread-1000", Task::FramesUnread(1_000)),
    ("marks", Task::Marks),
    ("idle", Task::Idle),
    ("traces", Task::Traces),
    ("open", Task::Open),
];

/// Runs a child, and returns its output.
pub fn spawn(
    task: Task,
    seconds: f64,
    capture: &Path,
) -> Result<HashMap<String, f64>, Box<dyn std::error::Error>> {
    let name = TASKS
        .iter()
        .find(|(_, known)| *known == task)
        .map_or("", |(name, _)| name);
    let output = Command::new(std::env::current_exe()?)
        .args([FLAG, name, &seconds.to_string()])
        .arg(capture)
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("the child `{name}` ended with {}", output.status).into());
    }
    values_of(&output.stdout)
}

/// Reads lines of `key value`.
pub fn values_of(output: &[u8]) -> Result<HashMap<String, f64>, Box<dyn std::error::Error>> {
    let mut values = HashMap::new();
    for line in std::str::from_utf8(output)?.lines() {
        let (key, value) = line
            .split_once(' ')
            .ok_or_else(|| format!("expected `key value`, found `{line}`"))?;
        values.insert(key.to_owned(), value.parse()?);
    }
    Ok(values)
}

/// Runs the task of a child.
pub fn run(mut args: impl Iterator<Item = String>) -> ExitCode {
    let task = args
        .next()
        .and_then(|name| TASKS.iter().find(|(known, _)| *known == name));
    let seconds = args.next().and_then(|text| text.parse::<f64>().ok());
    let (Some((_, task)), Some(seconds), Some(path)) = (task, seconds, args.next()) else {
        eprintln!("budget: expected {FLAG} TASK SECONDS PATH");
        return ExitCode::from(2);
    };
    let length = Duration::from_secs_f64(seconds);
    match task {
        Task::FlatOut => record(Some(&path), length, |i| {
            vor::profile_scope!("flat_out");
            black_box(i);
            1
        }),
        Task::Paced => record(Some(&path), length, |i| {
            // The work is about as long as two clock reads, so that one pass takes 40 ns.
            black_box(chain(i, 10));
            vor::profile_scope!("paced");
            black_box(i);
            1
        }),
        Task::Work => {
            let mut random = Sequence::new(7);
            record(Some(&path), length, move |i| {
                let steps = (200 + random.below(600)) * STEPS_PER_100_NS / 100;
                vor::profile_scope!("work");
                black_box(chain(i, steps as u32));
                1
            });
        }
        Task::Trees => {
            let mut random = Sequence::new(7);
            record(Some(&path), length, move |_| tree(&mut random, 1));
        }
        Task::Frames(spans) => frames(Some(&path), length, *spans),
        Task::FramesUnread(spans) => frames(None, length, *spans),
        Task::Marks => marks(&path),
        Task::Idle => idle(&path, length),
        Task::Traces => return told(crate::traces::child()),
        Task::Open => return told(crate::size::open(&path)),
    }
    ExitCode::SUCCESS
}

fn told(result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("budget: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Records frames with a number of spans each, and prints their cost.
fn frames(path: Option<&str>, length: Duration, spans: u64) {
    println!("floor_ns {}", floor_ns());
    record(path, length, |_| {
        for i in 0..spans {
            vor::profile_scope!("in_a_frame");
            black_box(i);
        }
        vor::frame_mark();
        spans
    });
}

/// Returns the cost of two clock reads: the median over short rounds.
fn floor_ns() -> f64 {
    const PASSES: u32 = 10_000;
    let round = |_| {
        let begin_ns = thread_cpu_ns();
        two_ticks(PASSES);
        (thread_cpu_ns() - begin_ns) as f64 / f64::from(PASSES)
    };
    median((0..101).map(round).collect())
}

/// Records for `length`, and prints the cost.
fn record(path: Option<&str>, length: Duration, mut scope: impl FnMut(u64) -> u64) {
    match path {
        Some(path) => vor::Config::new().capture(path).enable(),
        None => vor::Config::new().enable(),
    }
    // The first scope of a thread sets the thread up; that is not a cost per span.
    let mut spans = scope(0);
    let begin = Instant::now();
    let begin_cpu_ns = thread_cpu_ns();
    while begin.elapsed() < length {
        let before = spans;
        for i in 0..1 << 14 {
            spans += scope(i);
            // One call may make many scopes.
            if spans - before >= 1 << 14 {
                break;
            }
        }
    }
    let writer_ns = thread_cpu_ns() - begin_cpu_ns;
    let wall_ns = begin.elapsed().as_nanos();
    let writer_cpu_ns = thread_cpu_ns();
    vor::frame_mark();
    // The last flush is work of the drain, although this thread does it.
    vor::flush();
    println!("spans {spans}");
    println!("writer_ns {writer_ns}");
    println!("wall_ns {wall_ns}");
    println!("drain_ns {}", process_cpu_ns() - writer_cpu_ns);
    if let Some(kib) = process::peak_resident_kib() {
        println!("peak_kib {kib}");
    }
}

fn tree(random: &mut Sequence, depth: u32) -> u64 {
    vor::profile_scope!("node");
    let steps = (20 + random.below(400)) * STEPS_PER_100_NS / 100;
    black_box(chain(steps, steps as u32));
    let children = if depth < 6 { random.below(4) } else { 0 };
    let mut spans = 1;
    for _ in 0..children {
        spans += tree(random, depth + 1);
    }
    spans
}

/// Prints the median time of a mark after different numbers of spans.
fn marks(path: &str) {
    vor::Config::new().capture(path).enable();
    for (spans, rounds) in [
        (0, 301),
        (1_000, 301),
        (10_000, 201),
        (100_000, 101),
        (1_000_000, 41),
    ] {
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            for i in 0..spans {
                vor::profile_scope!("between_marks");
                black_box(i);
            }
            let begin = Instant::now();
            vor::frame_mark();
            times.push(begin.elapsed().as_nanos() as f64);
        }
        println!("after_{spans} {}", median(times));
    }
}

/// Prints the cost of an idle recorder.
fn idle(path: &str, length: Duration) {
    let before_kib = process::resident_kib();
    vor::Config::new().capture(path).enable();
    for i in 0..1000 {
        vor::profile_scope!("before_idling");
        black_box(i);
    }
    vor::frame_mark();
    // The worker starts its long sleep after a second without records.
    std::thread::sleep(Duration::from_millis(2500));
    let (cpu_ns, sleeps) = (process_cpu_ns(), process::sleeps_of("vor-drain"));
    let begin = Instant::now();
    std::thread::sleep(length);
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "cpu_share {}",
        (process_cpu_ns() - cpu_ns) as f64 / seconds / 1e9
    );
    if let (Some(before), Some(after)) = (sleeps, process::sleeps_of("vor-drain")) {
        println!("wakeups_per_second {}", (after - before) as f64 / seconds);
    }
    if let (Some(before), Some(now)) = (before_kib, process::resident_kib()) {
        println!("resident_kib {}", now as f64 - before as f64);
    }
}
