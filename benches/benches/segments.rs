//! Months in fast motion: many spans into segments of which only the newest are kept.
//!
//! A child records as fast as the drain takes spans, with a frame each thousand spans. Meanwhile
//! the parent adds up the sizes of the segments every few milliseconds. Then it reads what is left
//! and looks for gaps: frames that are missing or not whole, and dropped spans.
//!
//! `-- --spans N` records N spans (default 100 million), `-- --keep BYTES` keeps that much (default
//! 100 MB).

use std::env;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use vor_benches::arguments::number;
use vor_capture::reader::{Piece, SegmentedCapture};

/// Names the folder of a child.
const CHILD: &str = "VOR_BENCH_SEGMENTS";
const SPANS_PER_FRAME: u64 = 1000;
/// Frames after which the child waits for the drain, so that no ring overflows.
const FRAMES_PER_FLUSH: u64 = 200;

type Failure = Box<dyn std::error::Error>;

fn record(folder: &str, spans: u64, keep: u64) -> Result<(), Failure> {
    let segments = vor::Segments::new().size(keep / 20).keep_size(keep);
    vor::Config::new()
        .capture(Path::new(folder).join("run-%Y%m%dT%H%M%S.vor"))
        .segments(segments)
        .enable();
    for frame in 0..spans / SPANS_PER_FRAME {
        vor::profile_scope!("frame");
        for i in 0..(SPANS_PER_FRAME - 1) / 2 {
            vor::profile_scope!("step");
            vor::profile_scope!("inner");
            black_box(i);
        }
        vor::frame_mark();
        if frame % FRAMES_PER_FLUSH == 0 {
            vor::flush();
        }
    }
    vor::close_capture().ok_or("the capture was switched off")?;
    let status = fs::read_to_string("/proc/self/status")?;
    for line in status.lines() {
        if line.starts_with("VmHWM") || line.starts_with("VmRSS") {
            println!("memory: {line}");
        }
    }
    Ok(())
}

/// Returns the bytes in the segments of a folder, and their number.
fn on_disk(folder: &Path) -> (u64, u64) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
    sizes.fold((0, 0), |(bytes, count), size| (bytes + size, count + 1))
}

fn read(folder: &PathBuf) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut segments = SegmentedCapture::open(folder)?;
    let opened = begun.elapsed();
    let count = segments.paths().len();
    segments
        .problems()
        .iter()
        .for_each(|line| println!("PROBLEM: {line}"));
    let mut pieces = segments.pieces()?;
    let (mut spans, mut dropped, mut frames, mut gaps, mut broken) = (0_u64, 0_u64, 0_u64, 0, 0);
    let mut last: Option<(u64, u64)> = None;
    while let Some(piece) = pieces.next_piece()? {
        match piece {
            Piece::Batch(batch) => {
                spans += batch.span_count() as u64;
                dropped += batch
                    .threads
                    .iter()
                    .map(|thread| thread.dropped_spans)
                    .sum::<u64>();
            }
            Piece::Frame(recovered) => {
                let frame = &recovered.frame;
                frames += 1;
                broken += u64::from(recovered.lost_records > 0);
                // Each frame begins where and when the one before ended.
                let is_next =
                    |(index, end): (u64, u64)| frame.index == index + 1 && frame.start_ticks == end;
                gaps += u64::from(!last.is_none_or(is_next));
                last = Some((frame.index, frame.end_ticks));
            }
            _ => {}
        }
    }
    println!("left: {count} segments, {frames} frames, {spans} spans");
    println!(
        "gaps between frames: {gaps}; frames with lost records: {broken}; dropped spans: {dropped}"
    );
    let damage = pieces.damage();
    println!("damage: {}", if damage.is_none() { "none" } else { "SOME" });
    println!("opened in {opened:.0?}, read in {:.1?}", begun.elapsed());
    Ok(())
}

fn run() -> Result<(), Failure> {
    let spans = number("--spans", 100_000_000)?;
    let keep = number("--keep", 100_000_000)?;
    if let Ok(folder) = env::var(CHILD) {
        return record(&folder, spans, keep);
    }
    let folder = env::temp_dir().join(format!("vor-segments-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let begun = Instant::now();
    let mut child = Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(CHILD, &folder)
        .spawn()?;
    let (mut most, mut most_count) = (0, 0);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let (bytes, count) = on_disk(&folder);
        (most, most_count) = (most.max(bytes), most_count.max(count));
        std::thread::sleep(Duration::from_millis(2));
    };
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{spans} spans in {seconds:.1} s: {:.1} million a second",
        spans as f64 / seconds / 1e6
    );
    let percent = 100.0 * most as f64 / keep as f64;
    println!("most on disk: {most} bytes, {percent:.1} % of {keep}, in {most_count} segments");
    let read = if status.success() {
        read(&folder)
    } else {
        Err("the child failed".into())
    };
    fs::remove_dir_all(&folder)?;
    read
}

fn main() -> ExitCode {
    // `cargo test` runs benches too, with other arguments.
    if !env::args().any(|arg| arg == "--bench") && env::var_os(CHILD).is_none() {
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
