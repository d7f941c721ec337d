//! `vor merge`: captures of several processes as one trace, on one time axis.
//!
//! The captures are exported one after the other, each as it would be by itself. A trace keeps the
//! data of a process in its own sequences of packets, so the parts are simply concatenated. Their
//! common time axis, the [`Axis`], is determined first.

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
use crate::command::source::{Source, is_damaged, lost_records};

/// Merges captures of several processes into one Perfetto trace.
///
/// Captures from one boot of one machine are aligned to the tick of its clock, captures from
/// different machines by their wall clocks; a line on stderr says how exact that is. Damaged parts
/// are left out and reported, with exit code 3. An output file is written completely or not at all.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The trace to write; `-` is stdout. An existing file is replaced, unless it is a capture. A
    /// name that ends in .tar makes an archive with one trace per capture and a manifest, which
    /// Perfetto merges by itself.
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
    output.persist()?;
    warn(&axis.describe());
    Ok(if is_incomplete {
        Outcome::Incomplete
    } else {
        Outcome::Success
    })
}

/// The output of a merge.
struct Merge<'a> {
    output: &'a Output,
    path: &'a Path,
    /// Whether damaged parts of a capture are missing.
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

    /// Writes one capture as a trace whose sequences are numbered from `sequence`; returns the next
    /// free number.
    fn trace(
        &mut self,
        writer: impl Write + Send,
        sequence: u32,
        source: &mut Source,
        mut part: Part,
    ) -> Result<u32, Failure> {
        let mut exporter = PerfettoExporter::with_sequences_from(writer, sequence);
        let mut progress = Progress::new("merging", false);
        let (mut incomplete_frames, failed) = (0, |error| self.failed(error));
        let walked = source.walk(&mut progress, |piece| {
            self.output
                .check_signal()
                .map_err(|error| failed(error.into()))?;
            match piece {
                Piece::Batch(mut batch) => {
                    batch.catalog = part.placed(&batch.catalog);
                    exporter.accept_batch(&batch).map_err(failed)?;
                }
                Piece::Frame(mut recovered) => {
                    incomplete_frames += u64::from(recovered.lost_records > 0);
                    let frame = Arc::make_mut(&mut recovered.frame);
                    frame.catalog = part.placed(&frame.catalog);
                    exporter.accept_frame(&recovered.frame).map_err(failed)?;
                }
                Piece::Scheduler { batch, catalog } => {
                    let catalog = part.placed(&catalog);
                    exporter
                        .accept_scheduler(&batch, &catalog)
                        .map_err(failed)?;
                }
                _ => {}
            }
            Ok(ControlFlow::Continue(()))
        })?;
        exporter.finish().map_err(failed)?;
        drop(progress);
        source.warn_of(&walked.damage);
        if let Some(line) = lost_records(&source.path, incomplete_frames, &walked.damage) {
            warn(&line);
        }
        self.is_incomplete |= incomplete_frames > 0 || is_damaged(&walked.damage);
        Ok(exporter.next_sequence())
    }
}

/// The process and the clock of one capture in the merged trace.
#[derive(Debug)]
struct Part {
    process: Arc<ProcessInfo>,
    /// Its new clock; `None` if it keeps its own.
    axis: Option<Axis>,
    /// The last catalog of the capture, and the one made of it.
    original: Arc<Catalog>,
    placed: Arc<Catalog>,
}

impl Part {
    /// Returns a catalog with the clock and the process of the capture in the merged trace.
    fn placed(&mut self, catalog: &Arc<Catalog>) -> Arc<Catalog> {
        if !Arc::ptr_eq(&self.original, catalog) {
            self.original = Arc::clone(catalog);
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

/// The first process id that no system assigns; Linux stays below 2^22.
const FIRST_ARTIFICIAL_PID: u32 = 1 << 30;

/// Gives each capture a unique process id: viewers take equal ids for one process, even from
/// different machines.
fn parts(sources: &[Source], axis: &Axis) -> Vec<Part> {
    let mut used_pids = HashSet::new();
    let hosts: HashSet<&str> = sources.iter().map(host).collect();
    let mut next_artificial = FIRST_ARTIFICIAL_PID;
    let part = |source: &Source| {
        let mut process = (*source.capture.catalog().process).clone();
        let pid = process.pid;
        if hosts.len() > 1 {
            process.name = format!("{} on {}", process.name, host(source));
        }
        if pid == 0 || !used_pids.insert(pid) {
            process.pid = next_artificial;
            next_artificial += 1;
            if pid != 0 {
                process.name = format!("{} (pid {pid})", process.name);
            }
        }
        Part {
            process: Arc::new(process),
            axis: Some(axis.clone()),
            original: Arc::default(),
            placed: Arc::default(),
        }
    };
    sources.iter().map(part).collect()
}

/// Returns the name of the machine on which a capture was recorded.
fn host(source: &Source) -> &str {
    match source.capture.catalog().machine.host.as_str() {
        "" => "an unknown machine",
        host => host,
    }
}
