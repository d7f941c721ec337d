//! Packs a folder into a compressed archive with several threads, records itself, and prints its
//! slowest scopes.
//!
//! ```text
//! cargo run --release --example quickstart [FOLDER]
//! ```
//!
//! Without a folder it packs the files of this repository. The capture goes to `$VOR_RECORD`, or
//! into the temporary folder.

mod archive;
mod pipeline;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use vor_examples::Outcome;

fn main() -> ExitCode {
    vor_examples::run(pack_and_report)
}

fn pack_and_report(out: &mut dyn Write) -> Outcome {
    if std::env::args_os().any(|argument| argument == "--help" || argument == "-h") {
        writeln!(out, "usage: quickstart [FOLDER]")?;
        return Ok(());
    }
    let folder = folder_to_pack()?;
    // This example is about spans, so the capture holds them without VOR_RECORD_SPANS. The other
    // variables apply.
    vor_examples::config("quickstart")
        .spans(true)
        .stats(true)
        .enable();
    // None if VOR_RECORD names a path that cannot be written, which vor has reported.
    let capture = vor::capture_path();
    let archive = archive_path(capture.as_deref());

    let begin = Instant::now();
    let recorded: Vec<PathBuf> = capture
        .iter()
        .flat_map(|path| path.canonicalize())
        .collect();
    let totals = pipeline::pack(&folder, &archive, &recorded).map_err(|error| {
        let (folder, archive) = (folder.display(), archive.display());
        format!("cannot pack {folder} into {archive}: {error}")
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    vor::flush();

    writeln!(
        out,
        "Packed {} files of {}: {:.2} MB into {:.2} MB in {seconds:.3} s, {} frames.\n\
         The archive is {}.\n",
        totals.files,
        folder.display(),
        totals.raw_bytes as f64 / 1e6,
        totals.packed_bytes as f64 / 1e6,
        totals.frames,
        archive.display(),
    )?;
    if totals.unreadable > 0 {
        writeln!(out, "{} could not be read; see above.\n", totals.unreadable)?;
    }
    vor_examples::print_slowest(out, vor::stats(), 10)?;
    if let Some(capture) = capture {
        print_read_back(out, &capture)?;
        vor_examples::print_how_to_open(out, &capture)?;
    }
    Ok(())
}

/// Returns the path of the archive: in the temporary folder, named after the capture if that is
/// there too.
fn archive_path(capture: Option<&Path>) -> PathBuf {
    let temporary = std::env::temp_dir();
    let name = capture
        .filter(|capture| capture.parent() == Some(&temporary))
        .and_then(Path::file_name);
    let name = name.unwrap_or("vor-quickstart".as_ref());
    temporary.join(name).with_extension("vorpack")
}

/// Opens the capture as any program can, and prints its content in brief.
fn print_read_back(out: &mut dyn Write, path: &Path) -> Outcome {
    let mut capture = vor::capture::SegmentedCapture::open(path)?;
    let info = capture.info();
    writeln!(
        out,
        "\nRead back: {} frames, {} spans of {} threads, {} dropped.",
        info.frames, info.spans, info.threads, info.dropped_spans
    )?;
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
        let longest = vor_examples::duration(longest_ns.unsigned_abs());
        writeln!(out, "The slowest frame is {index}: {longest}.")?;
    }
    Ok(())
}

/// Returns the folder that the argument names, or this repository.
fn folder_to_pack() -> Result<PathBuf, String> {
    let mut arguments = std::env::args_os().skip(1);
    let named = arguments.next().map(PathBuf::from);
    if let Some(second) = arguments.next() {
        return Err(format!(
            "`{}`: only one folder can be packed",
            second.display()
        ));
    }
    let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    match std::fs::canonicalize(&folder) {
        Ok(found) if found.is_dir() => Ok(found),
        Ok(_) => Err(format!("{}: not a folder", folder.display())),
        Err(error) => Err(format!("{}: {error}", folder.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_capture_holds_every_file_block_and_byte() {
        const FILES: usize = 100;
        let _recorder = pipeline::tests::lock_recorder();
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("input");
        std::fs::create_dir(&input).unwrap();
        for number in 0..FILES {
            std::fs::write(input.join(number.to_string()), vec![7; number * 10]).unwrap();
        }
        let path = folder.path().join("run.vor");
        // I/O is counted while recording is off too, and other tests have some.
        let _ = vor::drain_io();
        vor::Config::new().capture(&path).enable();
        let totals = pipeline::pack(&input, &folder.path().join("out"), &[]).unwrap();
        vor::disable();

        let mut capture = vor::capture::Capture::open(&path).unwrap();
        let damage = capture.verify().unwrap();
        // The file is closed at the end of the process, so it has no end yet.
        assert_eq!((damage.count, damage.bytes), (0, 0), "{damage:?}");
        let info = capture.info();
        assert_eq!((info.frames, info.dropped_spans), (totals.frames, 0));

        let (mut spans, mut raw_bytes, mut paths) = (BTreeMap::new(), 0, Vec::new());
        for batch in capture.batches().unwrap() {
            let batch = batch.unwrap();
            for thread in &batch.threads {
                for site in &thread.sites {
                    *spans
                        .entry(batch.catalog.site_name(*site).to_owned())
                        .or_insert(0) += 1;
                }
                for args in &thread.args {
                    match (
                        batch.catalog.site_name(thread.sites[args.span as usize]),
                        &args.values[0],
                    ) {
                        ("compress", vor::capture::ArgValue::U64(bytes)) => raw_bytes += bytes,
                        ("read_file", vor::capture::ArgValue::Str(path)) => {
                            paths.push(path.to_string())
                        }
                        _ => {}
                    }
                }
            }
        }
        for name in ["read_file", "read_block", "compress", "write_block"] {
            assert_eq!(spans.get(name), Some(&FILES), "{name}");
        }
        paths.sort_by_key(|path| path.parse::<usize>().unwrap());
        assert_eq!(
            paths,
            (0..FILES)
                .map(|number| number.to_string())
                .collect::<Vec<_>>()
        );
        assert_eq!(raw_bytes, totals.raw_bytes);

        // All reading and writing happens before the mark of the last batch.
        let frames: Vec<_> = capture.frames(0..info.frames).map(Result::unwrap).collect();
        let io_mb: f64 = frames
            .iter()
            .filter_map(|frame| frame.metric("io_MB"))
            .sum();
        let moved_mb = (totals.raw_bytes + totals.packed_bytes) as f64 / 1e6;
        assert!(
            (io_mb - moved_mb).abs() < 1e-9,
            "{io_mb} MB recorded, {moved_mb} MB moved"
        );
        assert!(
            frames
                .iter()
                .all(|frame| frame.metric("throughput").is_some_and(|speed| speed > 0.0))
        );
        let ratio = vor::MetricColumn {
            name: "ratio".into(),
            unit: "x".into(),
        };
        let columns = &capture.catalog().columns;
        assert!(
            columns
                .iter()
                .any(|column| column.metric == ratio && !column.system),
            "{columns:?}"
        );
    }
}
