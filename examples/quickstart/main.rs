//! Packs a folder into a compressed archive with several threads, records itself doing so, and says what was slow.
//!
//! ```text
//! cargo run --release --example quickstart [FOLDER]
//! ```
//!
//! Without a folder it packs the files of this repository. The capture goes to `$VOR_RECORD`, or into the temporary folder.

mod archive;
mod pipeline;

use std::path::{Path, PathBuf};
use std::time::Instant;

fn main() {
    let folder = folder_to_pack().unwrap_or_else(|message| vor_examples::exit_with(&message));
    let capture = vor_examples::capture_path("quickstart");
    let archive = capture.with_extension("vorpack");

    // Spans are what this example is about, so the capture holds them without VOR_RECORD_FLAME; the other variables hold.
    vor::Config::from_env()
        .capture(&capture)
        .spans(true)
        .statistics(true)
        .enable();

    let begin = Instant::now();
    let recorded: Vec<PathBuf> = capture.canonicalize().into_iter().collect();
    let totals = pipeline::pack(&folder, &archive, &recorded).unwrap_or_else(|error| {
        vor_examples::exit_with(&format!(
            "cannot pack {} into {}: {error}",
            folder.display(),
            archive.display()
        ))
    });
    let seconds = begin.elapsed().as_secs_f64();
    vor::flush();

    println!(
        "Packed {} files of {}: {:.2} MB into {:.2} MB in {seconds:.3} s, {} frames.\nThe archive is {}.\n",
        totals.files,
        folder.display(),
        totals.raw_bytes as f64 / 1e6,
        totals.packed_bytes as f64 / 1e6,
        totals.frames,
        archive.display(),
    );
    vor_examples::print_slowest(vor::stats(), 10);
    if let Err(error) = print_read_back(&capture) {
        vor_examples::exit_with(&format!("cannot read the capture back: {error}"));
    }
    vor_examples::print_how_to_open(&capture);
}

/// Prints what the capture holds, as a program finds it that opens the file.
fn print_read_back(path: &Path) -> Result<(), vor::Error> {
    let mut capture = vor::Capture::open(path)?;
    let info = capture.info();
    println!(
        "\nRead back: {} frames, {} spans of {} threads, {} dropped.",
        info.frames, info.spans, info.threads, info.dropped_spans
    );
    let mut slowest = None;
    for number in 0..capture.frame_count() {
        let frame = capture.frame(number)?;
        if slowest
            .as_ref()
            .is_none_or(|(_, longest_ns)| frame.duration_ns() > *longest_ns)
        {
            slowest = Some((frame.index, frame.duration_ns()));
        }
    }
    if let Some((index, longest_ns)) = slowest {
        println!(
            "The slowest frame is {index}: {}.",
            vor_examples::duration(longest_ns.unsigned_abs())
        );
    }
    Ok(())
}

/// Returns the folder that the arguments name, or this repository's.
fn folder_to_pack() -> Result<PathBuf, String> {
    let mut arguments = std::env::args_os().skip(1);
    let named = arguments.next().map(PathBuf::from);
    if let Some(second) = arguments.next() {
        return Err(format!("expected one folder, found also `{}`", second.display()));
    }
    let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    match std::fs::canonicalize(&folder) {
        Ok(found) if found.is_dir() => Ok(found),
        Ok(_) => Err(format!("expected a folder, found a file: {}", folder.display())),
        Err(error) => Err(format!("expected a folder at {}: {error}", folder.display())),
    }
}
