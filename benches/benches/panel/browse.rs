//! A capture of 1 GB: the time until the picture of all of it is complete, then scrubbing: the time
//! until a frame and its whole window are available, and the memory for that.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use criterion::Criterion;
use tempfile::{TempDir, tempdir};
use vor_benches::captures;
use vor_benches::process::{peak_resident_kib, resident_kib};
use vor_benches::spans::Shape;
use vor_benches::work::Sequence;
use vor_viz::replay::ReplayState;

/// Spans of a frame: some milliseconds of a busy program.
const SPANS: usize = 1 << 14;
const BYTES: u64 = 1_000_000_000;
const JUMPS: usize = 41;
const TIMEOUT: Duration = Duration::from_secs(60);

pub fn benches(criterion: &mut Criterion) {
    // Criterion filters by name, so the capture is only written if the bench runs.
    let mut capture = None;
    criterion.bench_function("browse", |bencher| {
        bencher.iter_custom(|passes| {
            let (_, path) = capture.get_or_insert_with(|| large().unwrap());
            let whole = run(path).unwrap();
            whole * u32::try_from(passes).unwrap_or(u32::MAX)
        });
    });
}

/// Makes the capture, and returns the folder that keeps it.
fn large() -> Result<(TempDir, PathBuf), Box<dyn Error>> {
    let folder = tempdir()?;
    // An existing capture is reused.
    let kept = std::env::var_os("VOR_BROWSE_FILE").map(PathBuf::from);
    let path = kept.unwrap_or_else(|| folder.path().join("large.vor"));
    if !path.exists() {
        make(&path)?;
    }
    Ok((folder, path))
}

/// Jumps to many places in a capture, and prints the times. Returns the median time until a window
/// was complete.
fn run(path: &Path) -> Result<Duration, Box<dyn Error>> {
    let before_kib = resident_kib().unwrap_or(0);
    let ctx = egui::Context::default();
    let begin = Instant::now();
    let mut replay = ReplayState::open(path)?;
    let opened = begin.elapsed();
    poll_until(
        &mut replay,
        &ctx,
        &mut Duration::default(),
        ReplayState::is_settled,
    )?;
    let settled = begin.elapsed();
    poll_until(&mut replay, &ctx, &mut Duration::default(), |replay| {
        replay.survey_progress().is_none()
    })?;
    let surveyed = begin.elapsed();
    let mut random = Sequence::new(11);
    let (mut asked, mut whole, mut longest) = (Vec::new(), Vec::new(), Vec::new());
    let mut spans = 0;
    for _ in 0..JUMPS {
        let frame = random.below(replay.frames_total());
        let mut pass = Duration::default();
        let begin = Instant::now();
        replay.go_to(frame);
        poll_until(&mut replay, &ctx, &mut pass, |replay| {
            replay.id_of(frame).is_some()
        })?;
        asked.push(begin.elapsed());
        poll_until(&mut replay, &ctx, &mut pass, |replay| !replay.is_loading())?;
        whole.push(begin.elapsed());
        longest.push(pass);
        spans = replay.store().stored_spans();
    }
    let told = |mut times: Vec<Duration>| {
        times.sort_unstable();
        (times[times.len() / 2], times[times.len() - 1], times[0])
    };
    let (asked, whole, longest) = (told(asked), told(whole), told(longest));
    let memory_mb = |kib: u64| kib.saturating_sub(before_kib) as f64 / 1e3;
    eprintln!(
        "browse: opened in {opened:.1?}, all frames summed up after {settled:.1?}, the picture of \
        all of it complete after {surveyed:.1?}; a jump: the requested frame {:.1?} ({:.1?} at most), its window of {:.1} M spans {:.1?} ({:.1?} at least, \
        {:.1?} at most), \
        the longest poll {:.1?} ({:.1?} at most); memory {:.0} MB, {:.0} MB at most",
        asked.0,
        asked.1,
        spans as f64 / 1e6,
        whole.0,
        whole.2,
        whole.1,
        longest.0,
        longest.1,
        memory_mb(resident_kib().unwrap_or(0)),
        memory_mb(peak_resident_kib().unwrap_or(0)),
    );
    Ok(whole.0)
}

fn make(path: &Path) -> Result<(), Box<dyn Error>> {
    let batch = Shape::Trees.batch(SPANS, 1_000_000);
    captures::write(path, batch, |_| Ok(std::fs::metadata(path)?.len() >= BYTES))?;
    Ok(())
}

/// Polls for results until `is_enough`, like a panel that each result wakes.
fn poll_until(
    replay: &mut ReplayState,
    ctx: &egui::Context,
    longest: &mut Duration,
    is_enough: impl Fn(&ReplayState) -> bool,
) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    while !is_enough(replay) {
        if begin.elapsed() > TIMEOUT {
            return Err("no frame arrives".into());
        }
        let pass = Instant::now();
        replay.poll(ctx);
        *longest = (*longest).max(pass.elapsed());
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}
