//! The lag of a viewer of a running program: the time from the end of a frame until a pass of the
//! viewer draws it.
//!
//! A child listens and marks frames of about 16 ms, each with 1 000 spans. As `vor view` does, a
//! thread copies its stream into a file, which the viewer follows, here without a window: 60 passes
//! a second at 1920 × 1080, with tessellation. The child writes when it ended each frame.
//!
//! `-- --seconds N` watches for N seconds (default 20).

mod headless;

use std::collections::HashMap;
use std::env;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use headless::Headless;
use vor::live::{Address, Choice, connect};
use vor_benches::arguments::number;
use vor_benches::rounds::median;
use vor_benches::work::chain;
use vor_viz::replay::ReplayState;

const CHILD: &str = "VOR_BENCH_VIEW";
const SPANS: u32 = 1_000;
const PASS: Duration = Duration::from_nanos(16_666_667);

type Failure = Box<dyn std::error::Error>;
/// When each frame ended, by its number, in nanoseconds since 1970.
type Ends = Arc<Mutex<HashMap<u64, u128>>>;

fn now_ns() -> Result<u128, Failure> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())
}

/// The program that is watched, until it is killed.
fn record(folder: &str) -> Result<(), Failure> {
    let address = format!("unix:{folder}/s");
    vor::Config::new().listen(address.parse()?).enable();
    for frame in 0_u64.. {
        for i in 0..SPANS {
            vor::profile_scope!("step");
            black_box(chain(u64::from(i), 100));
        }
        // Of different lengths, by which the viewer's frames are checked.
        thread::sleep(Duration::from_millis(12 + 2 * (frame % 5)));
        vor::frame_mark();
        println!("{frame} {}", now_ns()?);
    }
    Ok(())
}

/// Reads when the child ended its frames.
fn ends_of(child: &mut Child) -> Result<Ends, Failure> {
    let ends = Ends::default();
    let (notes, stdout) = (Arc::clone(&ends), child.stdout.take().ok_or("no stdout")?);
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let Some((frame, ns)) = line.split_once(' ') else {
                continue;
            };
            if let (Ok(frame), Ok(ns)) = (frame.parse(), ns.parse()) {
                let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
                notes.insert(frame, ns);
            }
        }
    });
    Ok(ends)
}

/// Copies the stream into a file for as long as the child runs.
fn copy_stream(folder: &Path, path: &Path) -> Result<(), Failure> {
    let address = Address::Unix(folder.join("s"));
    let mut stream = loop {
        match connect(&address, Choice::All, None) {
            Ok(stream) => break stream,
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut file = File::create(path)?;
    thread::spawn(move || io::copy(&mut stream, &mut file));
    while path.metadata()?.len() < 100 {
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn watch(folder: &Path, ends: &Ends, length: Duration) -> Result<(), Failure> {
    let path = folder.join("live.vor");
    copy_stream(folder, &path)?;
    let mut replay = ReplayState::open(&path)?;
    let mut headless = Headless::new();
    let (mut seen, mut lags_ms, mut different) = (None, Vec::new(), 0);
    let begin = Instant::now();
    for pass in 1.. {
        headless.pass(|ui| replay.show(ui));
        let drawn = now_ns()?;
        let notes = ends.lock().unwrap_or_else(PoisonError::into_inner);
        for frame in replay.store().frames() {
            // Those that were there at the beginning say nothing about the lag.
            if seen.is_none_or(|seen| frame.number <= seen) {
                continue;
            }
            let ends = [frame.number - 1, frame.number].map(|number| notes.get(&number));
            if let [Some(before), Some(end)] = ends {
                let length_ms = (end - before) as f64 / 1e6;
                different += usize::from((frame.duration_ms() - length_ms).abs() > 1.5);
                lags_ms.push(drawn.saturating_sub(*end) as f64 / 1e6);
            }
        }
        drop(notes);
        seen = replay
            .store()
            .frames()
            .back()
            .map(|frame| frame.number)
            .or(seen);
        if begin.elapsed() > length {
            break;
        }
        thread::sleep((begin + PASS * pass).saturating_duration_since(Instant::now()));
    }
    // A busy machine may delay a note. The frames of a wrong number have other lengths.
    if different * 10 >= lags_ms.len() {
        let frames = lags_ms.len();
        return Err(format!("{different} of {frames} frames are not those of the program").into());
    }
    lags_ms.sort_by(f64::total_cmp);
    let at = |share: f64| lags_ms[((lags_ms.len() - 1) as f64 * share) as usize];
    println!(
        "{} frames: lag {:.1} ms (median), {:.1} ms (99 %), {:.1} ms at most",
        lags_ms.len(),
        median(lags_ms.clone()),
        at(0.99),
        at(1.0)
    );
    Ok(())
}

fn main() -> Result<(), Failure> {
    if let Ok(folder) = env::var(CHILD) {
        return record(&folder);
    }
    let folder = tempfile::tempdir()?;
    let mut child = Command::new(env::current_exe()?)
        .env(CHILD, folder.path())
        .stdout(Stdio::piped())
        .spawn()?;
    let ends = ends_of(&mut child)?;
    let watched = watch(
        folder.path(),
        &ends,
        Duration::from_secs(number("--seconds", 20)?),
    );
    child.kill()?;
    child.wait()?;
    watched
}
