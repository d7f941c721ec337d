//! `vor frames`: a row per frame, or the slowest frames and the scope that took most of each.

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde::Serialize;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::reader::{Piece, Recovered};
use vor_capture::stats::StatsBuilder;
use vor_export::thread_label;

use crate::command::Outcome;
use crate::command::failure::Failure;
use crate::command::frame_rows::{FrameJson, FrameTable, TopScope};
use crate::command::frame_waits::{FrameWaits, Waits, are_measured};
use crate::command::json;
use crate::command::patterns::unknown;
use crate::command::progress::Progress;
use crate::command::range::FrameRange;
use crate::command::slowest;
use crate::command::source::Source;

/// Lists frames: start, duration, spans and metrics of each.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The capture: a file, a folder of segments, or a pattern such as 'run-*.vor'.
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Prints JSON: one array with a line per frame.
    #[arg(long)]
    json: bool,
    /// Only the N slowest frames, slowest first, each with the scope that took most of its time.
    #[arg(long, value_name = "N", value_parser = slowest::at_least_one)]
    slowest: Option<usize>,
    /// Only the first N frames.
    #[arg(short = 'n', long, value_name = "N", value_parser = slowest::at_least_one)]
    #[arg(conflicts_with = "slowest")]
    limit: Option<usize>,
    /// Lists the frames of `frame_mark_named("NAME")` instead of those of `frame_mark()`.
    #[arg(long, value_name = "NAME")]
    frame_set: Option<String>,
}

#[derive(Debug, Serialize)]
struct Head<'a> {
    file: String,
    frame_set: &'a str,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let mut source = Source::open(&args.path)?;
    let set = frame_set(args, &source)?;
    match args.slowest {
        Some(most) => slowest(args, &mut source, set, most, out),
        None => all(args, &mut source, set, out),
    }
}

/// Returns the index of the requested frame set.
fn frame_set(args: &Args, source: &Source) -> Result<u32, Failure> {
    let Some(name) = &args.frame_set else {
        return Ok(0);
    };
    let sets = &source.capture.catalog().frame_sets;
    let found = (0_u32..).zip(sets.iter()).find(|(_, known)| *known == name);
    if let Some((set, _)) = found {
        return Ok(set);
    }
    // A damaged file may have lost the declaration of all sets.
    let named = sets.get(1..).unwrap_or_default();
    Err(source.failure(unknown("frame set", name, named)))
}

fn all(
    args: &Args,
    source: &mut Source,
    set: u32,
    out: &mut impl Write,
) -> Result<Outcome, Failure> {
    let mut listing = Listing::new(args);
    let has_waits = are_measured(source.capture.catalog());
    let mut waits = has_waits.then(FrameWaits::default);
    listing.with_waits = has_waits;
    // Rows and a progress bar on the same terminal would overwrite each other.
    let mut progress = Progress::new("reading", std::io::stdout().is_terminal());
    let walked = source.walk(&mut progress, |piece| {
        match piece {
            Piece::Batch(batch) => {
                if let Some(waits) = &mut waits {
                    for thread in &batch.threads {
                        waits.add_thread(&batch.catalog, thread);
                    }
                }
            }
            Piece::Frame(recovered) if recovered.frame.frame_set == set => {
                let catalog = &recovered.frame.catalog;
                let waits = waits.as_mut().and_then(|waits| waits.end_frame(catalog));
                listing.write(out, &recovered, waits, None)?;
            }
            _ => {}
        }
        Ok(
            if args
                .limit
                .is_some_and(|limit| listing.written >= limit as u64)
            {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            },
        )
    })?;
    if listing.written == 0 {
        return Err(source.failure("no frames"));
    }
    listing.end(out)?;
    source.warn_of(&walked.damage);
    Ok(Outcome::Success)
}

fn slowest(
    args: &Args,
    source: &mut Source,
    set: u32,
    most: usize,
    out: &mut impl Write,
) -> Result<Outcome, Failure> {
    let mut progress = Progress::new("reading", false);
    let slowest = slowest::find(source, set, FrameRange::ALL, most, &mut progress)?;
    drop(progress);
    source.capture.select_frame_set(set)?;
    let mut listing = Listing::new(args);
    listing.origin_ns = slowest.origin_ns;
    // Frames of other sets have no spans of their own.
    listing.with_top_scope = set == 0 && source.info.spans > 0;
    for position in source.positions_of(&slowest.indices)? {
        let recovered = source
            .capture
            .recovered(position)
            .map_err(|error| source.failure(error))?;
        let top = top_scope(&recovered.frame);
        listing.write(out, &recovered, None, top)?;
    }
    listing.end(out)?;
    source.warn_of(&slowest.damage);
    Ok(Outcome::Success)
}

/// Returns the scope with the largest sum of self times on one thread.
fn top_scope(frame: &FrameSnapshot) -> Option<TopScope> {
    let batch = SpanBatch::of_trees(frame);
    let mut top: Option<TopScope> = None;
    for thread in &batch.threads {
        let mut builder = StatsBuilder::new();
        builder.add(&frame.catalog.timeline, thread);
        for row in builder.scope_stats(&frame.catalog) {
            if top.as_ref().is_none_or(|top| row.self_ns > top.self_ns) {
                top = Some(TopScope {
                    thread: thread_label(&frame.catalog, thread.thread).into_owned(),
                    name: row.name,
                    self_ns: row.self_ns,
                });
            }
        }
    }
    top
}

/// Writes frames one by one, as a table or as JSON.
struct Listing<'a> {
    args: &'a Args,
    table: Option<FrameTable>,
    origin_ns: Option<i64>,
    with_waits: bool,
    with_top_scope: bool,
    written: u64,
}

impl<'a> Listing<'a> {
    fn new(args: &'a Args) -> Self {
        Self {
            args,
            table: None,
            origin_ns: None,
            with_waits: false,
            with_top_scope: false,
            written: 0,
        }
    }

    fn write(
        &mut self,
        out: &mut impl Write,
        recovered: &Recovered,
        waits: Option<Waits>,
        top: Option<TopScope>,
    ) -> Result<(), Failure> {
        let frame = &recovered.frame;
        self.written += 1;
        if self.args.json {
            if self.written == 1 {
                self.begin_json(out)?;
            } else {
                out.write_all(b",\n").map_err(Failure::output)?;
            }
            let mut row = FrameJson::new(recovered);
            row.waits = waits;
            row.top_scope = top;
            return json::write_line(out, &row);
        }
        let table = match &mut self.table {
            Some(table) => table,
            None => {
                let first_ns = frame.catalog.unix_ns(frame.start_ticks);
                let origin_ns = self.origin_ns.unwrap_or(first_ns);
                let table = FrameTable::new(
                    &frame.catalog,
                    self.with_waits,
                    self.with_top_scope,
                    origin_ns,
                );
                table.write_heads(out)?;
                self.table.insert(table)
            }
        };
        table.write_frame(out, recovered, waits, top.as_ref())
    }

    fn begin_json(&self, out: &mut impl Write) -> Result<(), Failure> {
        let head = Head {
            file: self.args.path.display().to_string(),
            frame_set: self.args.frame_set.as_deref().unwrap_or(""),
        };
        // The array follows the head's fields, so its closing brace is removed.
        let mut text = Vec::new();
        json::write_line(&mut text, &head)?;
        text.pop();
        out.write_all(&text).map_err(Failure::output)?;
        out.write_all(b",\"frames\":[\n").map_err(Failure::output)
    }

    fn end(&self, out: &mut impl Write) -> Result<(), Failure> {
        if self.args.json {
            out.write_all(b"\n]}\n").map_err(Failure::output)?;
        }
        Ok(())
    }
}
