//! `vor export`: a capture in the formats of other programs.
//!
//! A whole capture is streamed batch by batch. A range of frames, and CSV (which needs to know the depth of each span), go frame by frame
//! through trees, of which one is in memory at a time.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use vor_core::export::chrome::ChromeExporter;
use vor_core::export::csv::{MetricsCsv, SpanCsv};
use vor_core::format::MAGIC;
use vor_core::reader::Damage;
use vor_core::sink::FrameSink;

use crate::Outcome;
use crate::failure::{Failure, warn};
use crate::progress::Progress;
use crate::range::FrameRange;
use crate::source::{Piece, Source, batch_of, no_spans};
use crate::units;

/// Most spans of one frame that are held as a tree, at about 50 bytes each.
const MAX_SPANS: usize = 1 << 23;

/// Writes a capture in the format of another program.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to write.
    #[arg(long, value_name = "FORMAT")]
    to: Format,
    /// Where to write it; without it, to stdout. An existing file is replaced, unless it is a capture.
    #[arg(short = 'o', long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Only these frames: 10..20 (without 20), 10..=20, 10.., ..20, or a single number.
    #[arg(long, value_name = "A..B")]
    frames: Option<FrameRange>,
    /// The capture.
    #[arg(value_name = "FILE")]
    path: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A Chrome trace, for chrome://tracing, Perfetto and others.
    Chrome,
    /// A table of all spans.
    Csv,
    /// A table of the metrics, a row per frame.
    MetricsCsv,
}

/// A sink may be handed to another thread, so its writer must be fit for that.
type Output = Box<dyn Write + Send>;

pub(crate) fn run(args: &Args) -> Result<Outcome, Failure> {
    let mut source = Source::open(&args.path)?;
    let positions = match args.frames {
        Some(range) => Some(source.positions(range)?),
        None => {
            expect_content(args, &source)?;
            None
        }
    };
    let writer: Output = match &args.output {
        Some(path) => Box::new(create(path)?),
        None => Box::new(io::stdout()),
    };
    let failed = |error| Failure::export(args.output.as_deref(), error);
    let catalog = source.capture.catalog();
    let mut sink: Box<dyn FrameSink> = match args.to {
        Format::Chrome => Box::new(ChromeExporter::new(writer)),
        Format::Csv => Box::new(SpanCsv::new(writer)),
        Format::MetricsCsv => Box::new(MetricsCsv::new(writer, catalog)),
    };
    // Rows and a bar on one terminal would overwrite each other.
    let to_terminal = args.output.is_none() && io::stdout().is_terminal();
    let mut progress = Progress::new("exporting", to_terminal);
    let damage = match (args.to, positions) {
        (Format::Chrome, Some(positions)) => {
            export_trees(args, &mut source, positions, &mut *sink, &mut progress)?
        }
        (Format::Csv, positions) => {
            let all = 0..source.capture.frame_count();
            export_trees(
                args,
                &mut source,
                positions.unwrap_or(all),
                &mut *sink,
                &mut progress,
            )?
        }
        (Format::Chrome | Format::MetricsCsv, _) => {
            export_stream(args, &mut source, &mut *sink, &mut progress)?
        }
    };
    sink.finish().map_err(failed)?;
    drop(progress);
    source.warn_of(&damage);
    Ok(Outcome::Fine)
}

/// Refuses a capture that has nothing of what was asked for.
fn expect_content(args: &Args, source: &Source) -> Result<(), Failure> {
    let (frames, spans) = (source.info.frames, source.info.spans);
    // Spans outside of frames are in a Chrome trace only.
    let is_empty = frames == 0 && (args.to != Format::Chrome || spans == 0);
    if is_empty {
        return Err(source.failure("frames were expected, found none"));
    }
    if args.to == Format::Csv && spans == 0 {
        return Err(source.failure(no_spans(frames)));
    }
    Ok(())
}

/// Exports batches and frames as they come; of version 3, frames have no trees then.
fn export_stream(
    args: &Args,
    source: &mut Source,
    sink: &mut dyn FrameSink,
    progress: &mut Progress,
) -> Result<Damage, Failure> {
    let failed = |error| Failure::export(args.output.as_deref(), error);
    let range = args.frames.unwrap_or(FrameRange::ALL);
    let wants_batches = sink.interest().batches;
    let walked = source.walk(progress, |piece| {
        match piece {
            Piece::Batch(batch) if wants_batches => sink.accept_batch(&batch).map_err(failed)?,
            Piece::Frame(recovered) if range.contains(recovered.frame.index) => {
                sink.accept_frame(&recovered.frame).map_err(failed)?;
            }
            Piece::Batch(_) | Piece::Frame(_) => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(walked.damage)
}

/// Exports frames of the main set with their trees; says what is missing in them.
fn export_trees(
    args: &Args,
    source: &mut Source,
    positions: Range<u64>,
    sink: &mut dyn FrameSink,
    progress: &mut Progress,
) -> Result<Damage, Failure> {
    let failed = |error| Failure::export(args.output.as_deref(), error);
    source.capture.set_max_spans(MAX_SPANS);
    let wants_batches = sink.interest().batches;
    let (mut missing_spans, mut missing_frames) = (0, 0);
    let mut told_spans = 0;
    let (begin, frames) = (positions.start, positions.end - positions.start);
    for position in positions {
        let recovered = match source.capture.recovered(position) {
            Ok(recovered) => recovered,
            Err(error) if error.is_corrupt() => {
                missing_frames += 1;
                continue;
            }
            Err(error) => return Err(source.failure(error)),
        };
        told_spans += recovered.frame.span_count;
        missing_spans += recovered.frame.span_count.saturating_sub(recovered.held_spans());
        if wants_batches && !recovered.frame.threads.is_empty() {
            sink.accept_batch(&batch_of(&recovered.frame)).map_err(failed)?;
        }
        sink.accept_frame(&recovered.frame).map_err(failed)?;
        progress.advance(recovered.held_spans(), position - begin, frames);
    }
    for (missing, thing) in [(missing_frames, "frame"), (missing_spans, "span")] {
        if missing > 0 {
            let missing = units::counted(missing, thing);
            warn(&format!(
                "{}: {missing} left out: damaged, or of a frame with over {} spans",
                source.path.display(),
                units::count(MAX_SPANS as u64)
            ));
        }
    }
    // Only an index, as a closed file has, knows of spans outside of frames.
    let outside = source.info.spans.saturating_sub(told_spans);
    if args.frames.is_none() && missing_frames == 0 && outside > 0 {
        let outside = units::counted(outside, "span");
        warn(&format!(
            "{}: {outside} left out: ended after the last frame",
            source.path.display()
        ));
    }
    Ok(source.capture.info().damage)
}

/// Creates the output. A capture is not overwritten: it is most likely the input, or a mistake.
fn create(path: &Path) -> Result<File, Failure> {
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    let mut begin = [0; MAGIC.len()];
    if is_file
        && let Ok(mut file) = File::open(path)
        && file.read_exact(&mut begin).is_ok()
        && begin == MAGIC
    {
        return Err(Failure::in_file(
            path,
            "a place for the output was expected, found a capture, which is left as it is",
        ));
    }
    File::create(path).map_err(|error| Failure::in_file(path, format!("cannot be created: {error}")))
}
