//! Captures of 100 MB and of 1 GB: the time until their last frame is available, and the memory of
//! a reader, which must not grow with the file.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use tempfile::tempdir;
use vor_benches::captures;
use vor_benches::process::peak_resident_kib;
use vor_benches::rounds::median;
use vor_benches::spans::Shape;
use vor_capture::reader::{Capture, Event, Reader};

use crate::Options;
use crate::child::{Task, spawn};
use crate::table::{Table, Target};

/// Spans of a frame: some milliseconds of a busy program.
const SPANS: usize = 1 << 14;
const SMALL_BYTES: u64 = 100_000_000;
const LARGE_BYTES: u64 = 1_000_000_000;
const OPENINGS: usize = 11;

/// Measures both sizes, each in a child, because the peak of resident memory never decreases.
pub fn measure(_: &Options, table: &mut Table) {
    if let Err(error) = measure_both(table) {
        table.not_measured("a capture of 1 GB", error);
    }
}

fn measure_both(table: &mut Table) -> Result<(), Box<dyn Error>> {
    let folder = tempdir()?;
    let mut told = Vec::new();
    for (name, bytes) in [("small.vor", SMALL_BYTES), ("large.vor", LARGE_BYTES)] {
        let path = folder.path().join(name);
        let frames = make(&path, bytes)?;
        let said = spawn(Task::Open, 0.0, &path)?;
        if said["frames"] != frames as f64 || said["last_spans"] < SPANS as f64 {
            return Err(format!("not {frames} whole frames: {said:?}").into());
        }
        told.push(said);
    }
    let [small, large] = &told[..] else {
        return Err("not two children".into());
    };
    table.add_noted(
        "1 GB: opened, and its last frame read",
        Target::AtMost(100.0),
        large["open_ms"],
        "ms",
        format!(
            "{} frames; 100 MB: {:.2} ms",
            large["frames"], small["open_ms"]
        ),
    );
    for (what, key) in [
        ("opened at its last frame", "opened_kib"),
        ("read to its end", "read_kib"),
    ] {
        table.add_noted(
            format!("1 GB: memory when {what}, over that of 100 MB"),
            Target::AtMost(4.0),
            (large[key] - small[key]) / 1024.0,
            "MB",
            format!("{:.1} MB", large[key] / 1024.0),
        );
    }
    table.add(
        "1 GB: read to its end",
        Target::AtLeast(20.0),
        large["spans"] / large["read_s"] / 1e6,
        "M spans/s",
    );
    Ok(())
}

/// Writes a capture of at least `bytes` bytes. Returns the number of its frames.
fn make(path: &Path, bytes: u64) -> Result<u64, Box<dyn Error>> {
    let batch = Shape::Trees.batch(SPANS, 1_000_000);
    captures::write(path, batch, |_| Ok(std::fs::metadata(path)?.len() >= bytes))
}

/// Runs the child: opens the capture at its last frame, then reads all of it.
pub fn open(path: &str) -> Result<(), Box<dyn Error>> {
    let (mut frames, mut last_spans) = (0, 0);
    let mut times = Vec::new();
    for _ in 0..OPENINGS {
        let begin = Instant::now();
        let mut capture = Capture::open(path)?;
        frames = capture.frame_count();
        let last = capture.frame(frames.checked_sub(1).ok_or("no frame")?)?;
        last_spans = last.threads.iter().map(|tree| tree.spans.len()).sum();
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let opened_kib =
        peak_resident_kib().ok_or("the system does not say how much memory is resident")?;
    let begin = Instant::now();
    let mut reader = Reader::open(path)?;
    let mut spans = 0;
    while let Some(event) = reader.next_event()? {
        if let Event::Batch(batch) = event {
            spans += batch.span_count();
        }
    }
    let read_s = begin.elapsed().as_secs_f64();
    let read_kib = peak_resident_kib().unwrap_or(0);
    println!(
        "open_ms {}\nframes {frames}\nlast_spans {last_spans}",
        median(times)
    );
    println!("opened_kib {opened_kib}\nread_kib {read_kib}\nspans {spans}\nread_s {read_s}");
    Ok(())
}
