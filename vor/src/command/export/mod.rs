//! `vor export`: a capture in the formats of other programs.
//!
//! A whole capture is streamed batch by batch. With `--frames` or `--slowest`, and for formats that
//! need the depth of each span, the command builds the trees of one frame at a time. In both cases
//! a [`Filter`] keeps the selected spans.

mod format;
#[cfg(feature = "parquet")]
mod parquet;
mod select;

use std::io::{BufWriter, IsTerminal};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;

use vor_capture::model::batch::SpanBatch;
use vor_capture::model::frame::TreeBuilder;
use vor_capture::model::measures::Measures;
use vor_capture::reader::{Damage, Lookahead, Piece};
use vor_capture::sink::{FrameSink, Interest};
use vor_capture::units;

use format::Format;

use select::Filter;

use crate::command::Outcome;
use crate::command::failure::{Failure, warn};
use crate::command::output::Output;
use crate::command::patterns::{Pattern, expect_known, unknown};
use crate::command::progress::Progress;
use crate::command::range::FrameRange;
use crate::command::slowest;
use crate::command::source::{Source, is_damaged, lost_records, no_spans};

/// Maximum number of spans of a frame in memory, at about 50 bytes each.
const MAX_SPANS: usize = 1 << 23;

/// Writes a capture in the format of another program.
///
/// Damaged parts are left out and reported, with exit code 3. An output file is written completely
/// or not at all.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The format to write. Without it, the ending of OUT chooses: trace.json, trace.pftrace,
    /// profile.pb.gz, profile.folded, profile.speedscope.json, profile.firefox.json, spans.csv,
    /// frames.metrics.csv, spans.parquet.
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,
    /// The file to write; stdout without it or with `-`. An existing file is replaced, unless it is
    /// a capture.
    #[arg(short = 'o', long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Only these frames: 10..20 (without 20), 10..=20, 10.., ..20, or one number.
    #[arg(long, value_name = "A..B")]
    frames: Option<FrameRange>,
    /// Only the N slowest frames, in order of time.
    #[arg(long, value_name = "N", value_parser = slowest::at_least_one)]
    slowest: Option<usize>,
    /// Only threads with this name, in which * stands for any text and ? for any character; may be
    /// repeated.
    #[arg(long, value_name = "GLOB")]
    thread: Vec<Pattern>,
    /// Only spans with this name, in which * stands for any text and ? for any character; may be
    /// repeated.
    #[arg(long, value_name = "GLOB")]
    name: Vec<Pattern>,
    /// Only spans of at least this many microseconds.
    #[arg(long, value_name = "US", value_parser = microseconds)]
    min_us: Option<u64>,
    /// With --to pprof: makes labels of the arguments with this name; may be repeated.
    #[arg(long, value_name = "ARGUMENT")]
    label: Vec<String>,
    #[cfg(feature = "parquet")]
    #[command(flatten)]
    parquet: parquet::Options,
    /// The capture: a file, a folder of segments, or a pattern such as 'run-*.vor'.
    #[arg(value_name = "FILE")]
    path: PathBuf,
}

/// Parses microseconds as nanoseconds.
fn microseconds(text: &str) -> Result<u64, String> {
    let us = text.parse::<f64>().ok();
    match us.filter(|us| (0.0..1e15).contains(us)) {
        // Durations are whole nanoseconds. A rounding error of the product must not add one.
        Some(us) => Ok((us * 1e3 - 1e-4).ceil() as u64),
        None => Err(format!("`{text}` is not a number of microseconds")),
    }
}

/// The selected frames of the main set.
#[derive(Debug)]
struct SelectedFrames {
    /// Their positions in the file, ascending.
    positions: Vec<Range<u64>>,
    /// Their numbers, ascending; `None` for all of `range`.
    indices: Option<Vec<u64>>,
    range: FrameRange,
}

/// The result of an export.
#[derive(Debug, Default)]
struct ExportReport {
    damage: Damage,
    /// Spans and tasks that were handed to the exporter.
    spans: u64,
    /// Whether selected data is missing in the output.
    is_incomplete: bool,
    /// Warnings to print once the output is complete.
    notes: Vec<String>,
}

/// The parts of an export.
struct Export<'a> {
    args: &'a Args,
    source: &'a mut Source,
    sink: &'a mut dyn FrameSink,
    output: &'a Output,
    filter: Filter,
    progress: Progress,
    /// Maximum number of spans of a frame in memory.
    max_spans: usize,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Failure> {
    let to = format(args)?;
    let mut source = Source::open(&args.path)?;
    expect_known(&source, &args.thread, &args.name)?;
    if to == Format::Pprof {
        expect_arguments(&source, &args.label)?;
    }
    let filter = Filter::new(&args.thread, &args.name, args.min_us.unwrap_or(0));
    let mut selected = select(args, &mut source)?;
    let failed = |error| Failure::export(args.output.as_deref(), error);
    let (output, mut sink) = open(args, to, &source)?;
    let interest = sink.interest();
    if interest == Interest::METRICS && !filter.keeps_all() {
        return Err(Failure::Message(
            "--thread, --name and --min-us select spans, and a table of metrics has none"
                .to_owned(),
        ));
    }
    let frames = selected
        .as_ref()
        .map_or(source.info.frames, SelectedFrames::count);
    if selected.is_none() {
        expect_content(args, to, interest, &source)?;
        if interest.trees {
            selected = Some(SelectedFrames::all(&source));
        }
    }
    // Rows and a progress bar on the same terminal would overwrite each other.
    let to_terminal = output.is_terminal(std::io::stdout().is_terminal());
    let mut export = Export {
        args,
        source: &mut source,
        sink: &mut *sink,
        output: &output,
        filter,
        progress: Progress::new("exporting", to_terminal),
        max_spans: MAX_SPANS,
    };
    let exported = match selected {
        Some(selected) if interest.batches || interest.trees => export.trees(&selected)?,
        selected => export.stream(selected.as_ref())?,
    };
    let Export {
        filter, progress, ..
    } = export;
    drop(progress);
    if !filter.keeps_all() && filter.kept() == 0 {
        return Err(source.failure("no spans in the selected frames, threads, names and durations"));
    }
    if to.is_of_spans(
        #[cfg(feature = "parquet")]
        &args.parquet,
    ) && exported.spans == 0
    {
        return Err(source.failure(no_spans(frames)));
    }
    sink.finish().map_err(failed)?;
    drop(sink);
    output.persist()?;
    exported.notes.iter().for_each(|note| warn(note));
    source.warn_of(&exported.damage);
    Ok(if exported.is_incomplete || is_damaged(&exported.damage) {
        Outcome::Incomplete
    } else {
        Outcome::Success
    })
}

/// Refuses labels of arguments that no scope of the capture has.
fn expect_arguments(source: &Source, labels: &[String]) -> Result<(), Failure> {
    let sites = source.capture.catalog().sites.iter().flatten();
    let mut known: Vec<String> = sites
        .flat_map(|site| {
            // The last arguments are measures, which a profile has as values.
            let measures = Measures::of(site).arg_names().count();
            let own = site.arg_names.len().saturating_sub(measures);
            site.arg_names[..own].iter().map(ToString::to_string)
        })
        .collect();
    known.sort_unstable();
    known.dedup();
    match labels.iter().find(|label| !known.contains(label)) {
        None => Ok(()),
        Some(label) if known.is_empty() => Err(source.failure(format!(
            "--label {label}: no scope of this capture has arguments"
        ))),
        Some(label) => {
            Err(source.failure(format!("--label: {}", unknown("argument", label, &known))))
        }
    }
}

/// Returns the format that the arguments choose.
fn format(args: &Args) -> Result<Format, Failure> {
    #[cfg(feature = "parquet")]
    if args.to.is_none() && args.parquet.is_dataset() {
        return Ok(Format::Parquet);
    }
    match (args.to, &args.output) {
        (Some(format), _) => Ok(format),
        (None, Some(output)) => Format::of_file(output).map_err(Failure::Message),
        (None, None) => Err(Failure::Message(
            "--to or -o is missing: --to chooses the format, or the ending of OUT does".to_owned(),
        )),
    }
}

/// Opens the output and makes the exporter that writes to it.
fn open(args: &Args, to: Format, source: &Source) -> Result<(Output, Box<dyn FrameSink>), Failure> {
    let catalog = source.capture.catalog();
    #[cfg(feature = "parquet")]
    if to != Format::Parquet && args.parquet.are_given() {
        return Err(Failure::Message(
            "--table, --partition, --host and --program-version need --to parquet".to_owned(),
        ));
    }
    #[cfg(feature = "parquet")]
    if let Some(folder) = args.output.as_deref().filter(|_| args.parquet.is_dataset()) {
        let output = Output::folder(folder)?;
        return Ok((output, args.parquet.dataset(folder, &args.path, catalog)?));
    }
    if to != Format::Pprof && !args.label.is_empty() {
        return Err(Failure::Message("--label needs --to pprof".to_owned()));
    }
    let output = Output::create(args.output.as_deref())?;
    let failed = |error| Failure::export(args.output.as_deref(), error);
    let writer = output.writer().map_err(|error| failed(error.into()))?;
    // The exporters write large pieces, which bypass the buffer; it gathers small ones.
    let writer = BufWriter::new(writer);
    let sink = to.sink(
        writer,
        catalog,
        &args.label,
        #[cfg(feature = "parquet")]
        &args.parquet,
    );
    Ok((output, sink.map_err(failed)?))
}

/// Finds the selected frames; `None` stands for the whole capture, with spans outside of frames.
fn select(args: &Args, source: &mut Source) -> Result<Option<SelectedFrames>, Failure> {
    let range = args.frames.unwrap_or(FrameRange::ALL);
    let Some(most) = args.slowest else {
        let Some(range) = args.frames else {
            return Ok(None);
        };
        let positions = vec![source.positions(range)?];
        return Ok(Some(SelectedFrames {
            positions,
            indices: None,
            range,
        }));
    };
    // Report a range without frames before reading the whole file.
    source.positions(range)?;
    let mut progress = Progress::new("looking for the slowest frames", false);
    let mut indices = slowest::find(source, 0, range, most, &mut progress)?.indices;
    indices.sort_unstable();
    let positions = source.positions_of(&indices)?.into_iter();
    Ok(Some(SelectedFrames {
        positions: positions.map(|position| position..position + 1).collect(),
        indices: Some(indices),
        range,
    }))
}

/// Refuses a capture that has no data for the format.
fn expect_content(
    #[cfg_attr(
        not(feature = "parquet"),
        expect(unused_variables, reason = "only Parquet has options of its own")
    )]
    args: &Args,
    to: Format,
    interest: Interest,
    source: &Source,
) -> Result<(), Failure> {
    let (frames, spans) = (source.info.frames, source.info.spans);
    if frames == 0
        && spans == 0
        && to.is_of_spans(
            #[cfg(feature = "parquet")]
            &args.parquet,
        )
    {
        return Err(source.failure(no_spans(frames)));
    }
    // Spans outside of frames are only in batches.
    if frames == 0 && (!interest.batches || spans == 0) {
        return Err(source.failure("no frames"));
    }
    if interest.trees && spans == 0 {
        return Err(source.failure(no_spans(frames)));
    }
    Ok(())
}

impl SelectedFrames {
    fn count(&self) -> u64 {
        let count = |range: &Range<u64>| range.end - range.start;
        self.positions.iter().map(count).sum()
    }

    fn all(source: &Source) -> Self {
        let all = 0..source.capture.frame_count();
        Self {
            positions: vec![all],
            indices: None,
            range: FrameRange::ALL,
        }
    }

    fn contains(&self, index: u64) -> bool {
        match &self.indices {
            Some(indices) => indices.binary_search(&index).is_ok(),
            None => self.range.contains(index),
        }
    }
}

impl Export<'_> {
    fn failed(&self, error: vor_capture::Error) -> Failure {
        Failure::export(self.args.output.as_deref(), error)
    }

    /// Exports batches and frames in the order of the file. Frames of version 3 have no trees here.
    fn stream(&mut self, selected: Option<&SelectedFrames>) -> Result<ExportReport, Failure> {
        let Self {
            args,
            source,
            sink,
            output,
            filter,
            progress,
            ..
        } = self;
        let failed = |error| Failure::export(args.output.as_deref(), error);
        let wants_batches = sink.interest().batches;
        let mut ahead = None;
        if sink.wants_open() {
            ahead = Some(look_ahead(source, progress, output, failed)?);
        }
        let mut incomplete_frames = 0;
        let walked = source.walk(progress, |piece| {
            output
                .check_signal()
                .map_err(|error| failed(error.into()))?;
            match piece {
                Piece::Batch(mut batch) if wants_batches => {
                    let open = ahead.as_mut().map(|ahead| ahead.after(&batch));
                    filter.retain(&mut batch);
                    if !batch.is_empty() {
                        sink.accept_batch(&batch).map_err(failed)?;
                    }
                    if let Some(open) = open {
                        sink.accept_open(&open).map_err(failed)?;
                    }
                }
                Piece::Frame(recovered)
                    if selected.is_none_or(|it| it.contains(recovered.frame.index)) =>
                {
                    incomplete_frames += u64::from(recovered.lost_records > 0);
                    sink.accept_frame(&recovered.frame).map_err(failed)?;
                }
                Piece::Scheduler { batch, catalog } => {
                    sink.accept_scheduler(&batch, &catalog).map_err(failed)?;
                }
                _ => {}
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let lost = lost_records(&source.path, incomplete_frames, &walked.damage);
        Ok(ExportReport {
            damage: walked.damage,
            spans: filter.kept(),
            is_incomplete: incomplete_frames > 0,
            notes: Vec::from_iter(lost),
        })
    }

    /// Exports frames of the main set with their trees, and reports missing frames and spans.
    fn trees(&mut self, selected: &SelectedFrames) -> Result<ExportReport, Failure> {
        self.source.capture.set_max_spans(self.max_spans);
        let wants_batches = self.sink.interest().batches;
        let mut builder = TreeBuilder::new(self.max_spans);
        let (mut missing_spans, mut missing_frames) = (0_u64, 0);
        let (mut counted_spans, mut spans) = (0_u64, 0);
        let frames = selected.count();
        let positions = selected.positions.iter().cloned().flatten();
        for (done, position) in positions.enumerate() {
            self.output
                .check_signal()
                .map_err(|error| self.failed(error.into()))?;
            let recovered = match self.source.capture.recovered(position) {
                Ok(recovered) => recovered,
                Err(error) if error.is_corrupt() => {
                    missing_frames += 1;
                    continue;
                }
                Err(error) => return Err(self.source.failure(error)),
            };
            let kept_spans = recovered.held_spans();
            // The numbers of a damaged capture may be anything.
            let span_count = recovered.frame.span_count;
            counted_spans = counted_spans.saturating_add(span_count);
            spans += kept_spans;
            missing_spans = missing_spans.saturating_add(span_count.saturating_sub(kept_spans));
            let (batch, frame) = if self.filter.keeps_all() {
                (
                    wants_batches.then(|| SpanBatch::of_trees(&recovered.frame)),
                    recovered.frame,
                )
            } else {
                let (batch, frame) = self.filter.rebuild(&recovered.frame, &mut builder);
                (wants_batches.then_some(batch), Arc::new(frame))
            };
            if let Some(batch) = batch {
                self.sink
                    .accept_batch(&batch)
                    .map_err(|error| self.failed(error))?;
            }
            self.sink
                .accept_frame(&frame)
                .map_err(|error| self.failed(error))?;
            self.progress.advance(kept_spans, done as u64, frames);
        }
        let mut notes = Vec::new();
        for (missing, thing) in [(missing_frames, "frame"), (missing_spans, "span")] {
            if missing > 0 {
                let missing = units::counted(missing, thing);
                notes.push(format!(
                    "{}: {missing} left out: damaged, or of a frame with over {} spans",
                    self.source.path.display(),
                    units::count(self.max_spans as u64)
                ));
            }
        }
        let info = self.source.capture.info();
        let outside = info.spans.saturating_sub(counted_spans);
        let is_all = self.args.frames.is_none() && self.args.slowest.is_none();
        if is_all && missing_frames == 0 && outside > 0 {
            let outside = units::counted(outside, "span");
            notes.push(format!(
                "{}: {outside} left out: ended after the last frame",
                self.source.path.display()
            ));
        }
        Ok(ExportReport {
            damage: info.damage,
            spans,
            is_incomplete: missing_frames + missing_spans > 0,
            notes,
        })
    }
}

/// Records which scopes are open between the batches of a capture, so that a sink need not keep
/// spans whose parents come later.
fn look_ahead(
    source: &mut Source,
    progress: &mut Progress,
    output: &Output,
    failed: impl Fn(vor_capture::Error) -> Failure,
) -> Result<Lookahead, Failure> {
    let mut ahead = Lookahead::default();
    source.walk(progress, |piece| {
        output
            .check_signal()
            .map_err(|error| failed(error.into()))?;
        if let Piece::Batch(batch) = piece {
            ahead.add(&batch);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(ahead)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use vor_export::csv::SpanCsv;
    use vor_fixtures::even;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// Exports all frames of a capture with their trees.
    fn trees(source: &mut Source, max_spans: usize) -> Result<ExportReport, Failure> {
        let line = Line::parse_from(["export", "--to", "csv", "run.vor"]);
        let selected = SelectedFrames::all(source);
        let mut export = Export {
            args: &line.args,
            source,
            sink: &mut SpanCsv::new(Vec::new()),
            output: &Output::create(None)?,
            filter: Filter::default(),
            progress: Progress::of_test(),
            max_spans,
        };
        export.trees(&selected)
    }

    #[test]
    fn spans_beyond_the_maximum_of_a_frame_make_the_output_incomplete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        std::fs::write(&path, even::make(4, 3, true).bytes).unwrap();
        let mut source = Source::open(&path).unwrap();
        let whole = trees(&mut source, 3).unwrap();
        assert_eq!((whole.spans, whole.is_incomplete), (12, false));
        assert_eq!(whole.notes, [""; 0]);
        let cut = trees(&mut source, 2).unwrap();
        assert_eq!((cut.spans, cut.is_incomplete), (8, true));
        let note = "4 spans left out: damaged, or of a frame with over 2 spans";
        assert_eq!(cut.notes, [format!("{}: {note}", path.display())]);
        assert!(cut.damage.is_none());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_no_damaged_frame() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["1.vor", "2.vor"] {
            std::fs::write(path(name), even::make(3, 2, true).bytes).unwrap();
        }
        let mut source = Source::open(folder.path()).unwrap();
        // The second file stays open.
        assert!(source.capture.recovered(5).is_ok());
        std::fs::remove_file(path("1.vor")).unwrap();
        let Err(Failure::Message(failed)) = trees(&mut source, MAX_SPANS) else {
            panic!("the lost file is not noticed");
        };
        assert!(
            failed.contains("1.vor: the capture cannot be opened: "),
            "{failed}"
        );
    }

    #[test]
    fn microseconds_are_whole_nanoseconds() {
        for ns in [0, 1, 17, 700, 1_001, 4_001, 64_123, 1_000_007, 999_999_999] {
            assert_eq!(
                microseconds(&format!("{}.{:03}", ns / 1_000, ns % 1_000)),
                Ok(ns)
            );
        }
        assert_eq!(microseconds("0.0005"), Ok(1));
        for wrong in ["", "-1", "NaN", "inf", "1e20", "1 us"] {
            assert!(microseconds(wrong).is_err(), "{wrong}");
        }
    }
}
