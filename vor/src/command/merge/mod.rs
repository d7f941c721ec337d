//! `vor merge`: captures of several processes as one trace, on one time axis.
//!
//! Each capture is exported as it would be by itself, one after the other: what a trace says of a
//! process stands in sequences of packets of that process, so the parts need only follow one
//! another. What is common to them, the [`Axis`], is decided before.

mod archive;
mod axis;

use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vor_capture::model::catalog::{Catalog, ProcessInfo};
use vor_capture::reader::Piece;
use vor_capture::sink::FrameSink as _;
use vor_export::perfetto::PerfettoExporter;

use axis::Axis;

use crate::command::Outcome;
use crate::command::failure::{Failure, warn};
use crate::command::output::Output;
use crate::command::progress::Progress;
use crate::command::source::{Source, is_damaged};

/// Puts captures of several processes on one time axis, as one Perfetto trace.
///
/// Captures of the same start of one machine are put together to the tick of their clock; those of
/// different machines by the wall clocks of these, and a line says how far off that may be. What is
/// damaged is left out and told, with exit code 3. An output file is complete or not there: it gets
/// its name at the end.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to write the trace; `-` is stdout. An existing file is replaced, unless it is a
    /// capture. With the ending .tar it is an archive of one trace for each capture, with a
    /// manifest that tells Perfetto which machine each is from.
    #[arg(short = 'o', long, value_name = "OUT")]
    output: PathBuf,
    /// The captures.
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    paths: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Failure> {
    let mut sources = Vec::new();
    for path in &args.paths {
        sources.push(Source::open(path)?);
    }
    let axis = Axis::of(&sources);
    let parts = parts(&sources, &axis);
    let output = Output::create(Some(&args.output))?;
    let cannot = |error: std::io::Error| Failure::export(Some(&args.output), error.into());
    let writer = BufWriter::new(output.writer().map_err(cannot)?);
    let mut merge = Merge {
        output: &output,
        path: &args.output,
        is_incomplete: false,
    };
    if args
        .output
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("tar"))
    {
        archive::write(&mut merge, writer, &mut sources, parts)?;
    } else {
        merge.one_trace(writer, &mut sources, parts)?;
    }
    let is_incomplete = merge.is_incomplete;
    output.keep()?;
    warn(&axis.told());
    Ok(if is_incomplete {
        Outcome::Incomplete
    } else {
        Outcome::Fine
    })
}

/// What a merge writes to, and whether it had to leave something out.
struct Merge<'a> {
    output: &'a Output,
    path: &'a Path,
    is_incomplete: bool,
}

impl Merge<'_> {
    fn failed(&self, error: vor_capture::Error) -> Failure {
        Failure::export(Some(self.path), error)
    }

    /// Writes all captures as parts of one trace.
    fn one_trace(
        &mut self,
        mut writer: impl Write + Send,
        sources: &mut [Source],
        parts: Vec<Part>,
    ) -> Result<(), Failure> {
        let mut sequence = 1;
        for (source, part) in sources.iter_mut().zip(parts) {
            sequence = self.trace(&mut writer, sequence, source, part)?;
        }
        writer.flush().map_err(|error| self.failed(error.into()))
    }

    /// Writes one capture as a trace whose sequences have the numbers from `sequence` on; returns
    /// the next one.
    fn trace(
        &mut self,
        writer: impl Write + Send,
        sequence: u32,
        source: &mut Source,
        mut part: Part,
    ) -> Result<u32, Failure> {
        let mut exporter = PerfettoExporter::with_sequences_from(writer, sequence);
        let mut progress = Progress::new("merging", false);
        let (mut is_incomplete, failed) = (false, |error| self.failed(error));
        let walked = source.walk(&mut progress, |piece| {
            self.output
                .expect_time()
                .map_err(|error| failed(error.into()))?;
            match piece {
                Piece::Batch(mut batch) => {
                    batch.catalog = part.placed(&batch.catalog);
                    exporter.accept_batch(&batch).map_err(failed)?;
                }
                Piece::Frame(mut recovered) => {
                    is_incomplete |= recovered.lost_records > 0;
                    let frame = Arc::make_mut(&mut recovered.frame);
                    frame.catalog = part.placed(&frame.catalog);
                    exporter.accept_frame(&recovered.frame).map_err(failed)?;
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        exporter.finish().map_err(failed)?;
        drop(progress);
        source.warn_of(&walked.damage);
        self.is_incomplete |= is_incomplete || is_damaged(&walked.damage);
        Ok(exporter.next_sequence())
    }
}

/// How one capture appears in the whole.
#[derive(Debug)]
struct Part {
    process: Arc<ProcessInfo>,
    /// The clock that it gets, `None` where it keeps its own.
    axis: Option<Axis>,
    /// The catalog seen last, and as it was placed.
    seen: Arc<Catalog>,
    placed: Arc<Catalog>,
}

impl Part {
    /// Returns a catalog with the clock and the process that the capture has in the whole.
    fn placed(&mut self, catalog: &Arc<Catalog>) -> Arc<Catalog> {
        if !Arc::ptr_eq(&self.seen, catalog) {
            self.seen = Arc::clone(catalog);
            let mut placed = (**catalog).clone();
            placed.process = Arc::clone(&self.process);
            if let Some(axis) = &self.axis {
                axis.place(&mut placed);
            }
            self.placed = Arc::new(placed);
        }
        Arc::clone(&self.placed)
    }
}

/// Process numbers that no system gives begin here; Linux stays below 2^22.
const FIRST_MADE_PID: u32 = 1 << 30;

/// Gives each capture a process of its own: viewers take equal numbers for one process, though they
/// may be of different machines.
fn parts(sources: &[Source], axis: &Axis) -> Vec<Part> {
    let mut taken = HashSet::new();
    let hosts: HashSet<&str> = sources.iter().map(host).collect();
    let mut next_made = FIRST_MADE_PID;
    let part = |source: &Source| {
        let mut process = (*source.capture.catalog().process).clone();
        let pid = process.pid;
        if hosts.len() > 1 {
            process.name = format!("{} on {}", process.name, host(source));
        }
        if pid == 0 || !taken.insert(pid) {
            process.pid = next_made;
            next_made += 1;
            if pid != 0 {
                process.name = format!("{} (pid {pid})", process.name);
            }
        }
        Part {
            process: Arc::new(process),
            axis: Some(axis.clone()),
            seen: Arc::default(),
            placed: Arc::default(),
        }
    };
    sources.iter().map(part).collect()
}

/// Returns the name of the machine that a capture is from.
fn host(source: &Source) -> &str {
    match source.capture.catalog().machine.host.as_str() {
        "" => "an unknown machine",
        host => host,
    }
}
