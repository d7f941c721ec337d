//! `vor heap`: the growth of the live heap between two snapshots, by the stack of scopes that
//! allocated it.
//!
//! The capture is streamed, and at most three of its snapshots are in memory. The last snapshot of
//! a closed capture was taken when the recording ended. If that was at the exit of the program, the
//! variables of `main` were already gone, and any leak that they owned with them. So the snapshot
//! before is compared unless `--to` selects another.

use std::cmp::Ordering;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde::Serialize;
use vor_capture::model::heap::{HeapChange, HeapMode, HeapScope, HeapSnapshot};
use vor_capture::reader::Piece;
use vor_capture::units;
use vor_export::pprof::HeapPprof;

use crate::command::Outcome;
use crate::command::failure::Failure;
use crate::command::json::{self, DamageJson};
use crate::command::output::Output;
use crate::command::progress::Progress;
use crate::command::slowest;
use crate::command::source::{Source, warn_of};
use crate::command::table::{Column, Kind, printable, write_table};

/// Finds leaks: the growth of the heap between two snapshots, by scope.
///
/// A program takes a snapshot every minute with VOR_HEAP_SNAPSHOTS_S=60 and a `TrackingAllocator`
/// that is `sampled` or `exact`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A capture, a folder of segments, or a pattern.
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Number of the earlier snapshot; the first is 0. A later one leaves out memory that the
    /// program allocates at its start.
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,
    /// Number of the later snapshot; by default the last one before the end of the recording.
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    /// Shows the N stacks that grew most.
    #[arg(short = 'n', long, value_name = "N", visible_alias = "top")]
    #[arg(default_value_t = 20, value_parser = slowest::at_least_one)]
    limit: usize,
    /// Also writes the growth as a profile for `go tool pprof`.
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Prints JSON: all stacks, and the live heap at each snapshot.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct HeapJson<'a> {
    file: String,
    /// Mean distance of two samples in bytes; `None` if every object is known.
    sample_bytes: Option<u64>,
    from: u64,
    to: u64,
    snapshots: Vec<TotalJson>,
    changes: Vec<ChangeJson<'a>>,
    damage: DamageJson,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct TotalJson {
    unix_ns: i64,
    inuse_objects: u64,
    inuse_bytes: u64,
}

#[derive(Debug, Serialize)]
struct ChangeJson<'a> {
    /// Names of the scopes, outermost first; empty for allocations outside of all scopes.
    stack: Vec<&'a str>,
    file: &'a str,
    line: u32,
    inuse_objects: i64,
    inuse_bytes: i64,
    bytes_error: f64,
}

/// A snapshot and its number.
type Numbered = (u64, HeapSnapshot);

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let mut source = Source::open(&args.path)?;
    let refused = |problem: String| Err(Failure::in_file(&args.path, problem));
    if source.is_v2() {
        return refused("no heap snapshots: captures of version 2 have none".into());
    }
    if source.capture.runs() > 1 {
        return refused(format!(
            "segments of {} runs, whose heaps cannot be compared; name those of one run, such as \
             'app-*-PID.vor'",
            source.capture.runs()
        ));
    }
    let mut totals = Vec::new();
    let (mut earlier, mut later): (Option<Numbered>, Option<Numbered>) = (None, None);
    let mut before_last: Option<Numbered> = None;
    let walked = source.walk(&mut Progress::new("reading", false), |piece| {
        let Piece::Heap { snapshot, catalog } = piece else {
            return Ok(ControlFlow::Continue(()));
        };
        let number = totals.len() as u64;
        let total = snapshot.total();
        totals.push(TotalJson {
            unix_ns: catalog.unix_ns(snapshot.ticks),
            inuse_objects: total.inuse_objects,
            inuse_bytes: total.inuse_bytes,
        });
        match number.cmp(&args.from) {
            Ordering::Equal => earlier = Some((number, snapshot)),
            Ordering::Greater if args.to.is_none_or(|to| number == to) => {
                before_last = later.replace((number, snapshot));
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    // Nothing follows the last snapshot of a closed capture.
    let is_closed = walked.damage.tail.is_none();
    let mut at_end = None;
    if is_closed && args.to.is_none() {
        at_end = later.as_ref().map(|(number, _)| *number);
        later = before_last.or(later);
    }
    warn_of(&args.path, &walked.damage);
    let found = units::counted(totals.len() as u64, "snapshot");
    let ((from, earlier), (to, later)) = match (earlier, later) {
        (Some(earlier), Some(later)) => (earlier, later),
        _ if totals.is_empty() => {
            return refused(
                "no heap snapshots; VOR_HEAP_SNAPSHOTS_S=60 takes one a minute, \
                 with an allocator that is `sampled` or `exact`"
                    .into(),
            );
        }
        _ => {
            let missing = args.to.map_or_else(
                || format!("no snapshot later than {}", args.from),
                |to| format!("no snapshot {to} after snapshot {}", args.from),
            );
            return refused(format!(
                "{missing}; the capture has {found}, numbered from 0"
            ));
        }
    };
    let changes = later.difference(&earlier);
    if let Some(path) = &args.output {
        write_profile(path, &earlier, &later)?;
    }
    if args.json {
        let heap = HeapJson {
            file: args.path.display().to_string(),
            sample_bytes: sample_bytes(&later),
            from,
            to,
            snapshots: totals,
            changes: changes.iter().map(change_json).collect(),
            damage: DamageJson::new(&walked.damage),
        };
        json::write_pretty(out, &heap)?;
    } else {
        let (first, last) = (totals[from as usize], totals[to as usize]);
        let mode = match sample_bytes(&later) {
            Some(bytes) => format!("estimated, a sample per {}", units::bytes(bytes)),
            None => "exact".to_owned(),
        };
        let begin_ns = totals.first().map_or(0, |total| total.unix_ns);
        let at = |total: TotalJson| {
            let ns = total.unix_ns.saturating_sub(begin_ns).max(0);
            units::duration(ns as f64)
        };
        writeln!(
            out,
            "{found}, {mode}; from number {from} at {} to {to} at {}: {} live, then {}",
            at(first),
            at(last),
            units::bytes(first.inuse_bytes),
            units::bytes(last.inuse_bytes)
        )
        .map_err(Failure::output)?;
        let note = match at_end {
            Some(number) if number == to => Some(format!(
                "number {number} was taken when the recording ended, when the variables of `main` \
                 may be gone; a smaller VOR_HEAP_SNAPSHOTS_S takes earlier ones"
            )),
            Some(number) => Some(format!(
                "number {number} was taken when the recording ended and is left out; \
                 --to {number} includes it"
            )),
            None => None,
        };
        if let Some(note) = note {
            writeln!(out, "{note}").map_err(Failure::output)?;
        }
        print_table(&changes, args.limit, out)?;
    }
    Ok(Outcome::Success)
}

fn sample_bytes(snapshot: &HeapSnapshot) -> Option<u64> {
    match snapshot.mode {
        HeapMode::Sampled { interval_bytes } => Some(interval_bytes),
        _ => None,
    }
}

fn change_json(change: &HeapChange) -> ChangeJson<'_> {
    let innermost = change.scopes.last().map(|scope| &*scope.info);
    ChangeJson {
        stack: change.scopes.iter().map(name).collect(),
        file: innermost.map_or("", |site| &site.file),
        line: innermost.map_or(0, |site| site.line),
        inuse_objects: change.inuse_objects,
        inuse_bytes: change.inuse_bytes,
        bytes_error: change.bytes_error,
    }
}

/// Returns the name of a scope; `?` if its declaration was lost.
fn name(scope: &HeapScope) -> &str {
    if scope.info.name.is_empty() {
        "?"
    } else {
        &scope.info.name
    }
}

fn print_table(changes: &[HeapChange], top: usize, out: &mut impl Write) -> Result<(), Failure> {
    let has_errors = changes.iter().any(|change| change.bytes_error > 0.0);
    let mut columns = vec![
        Column::new("bytes", Kind::Number, 0),
        Column::new("objects", Kind::Number, 0),
        Column::new("allocated in", Kind::Text, 0),
        Column::new("at", Kind::Text, 2),
    ];
    if has_errors {
        // Half of the 95 % confidence interval.
        columns.insert(1, Column::new("±", Kind::Number, 1));
    }
    let row = |change: &HeapChange| {
        let stack: Vec<String> = change
            .scopes
            .iter()
            .map(|scope| printable(name(scope)))
            .collect();
        let stack = if stack.is_empty() {
            "(outside of scopes)".to_owned()
        } else {
            stack.join(" > ")
        };
        let innermost = change.scopes.last().map(|scope| &scope.info);
        let declared = innermost.filter(|site| !site.file.is_empty());
        let place = declared.map_or_else(String::new, |site| {
            format!("{}:{}", printable(&site.file), site.line)
        });
        let mut cells = vec![
            signed(change.inuse_bytes, units::bytes),
            signed(change.inuse_objects, units::count),
            stack,
            place,
        ];
        if has_errors {
            cells.insert(1, units::bytes((1.96 * change.bytes_error) as u64));
        }
        cells
    };
    let rows: Vec<Vec<String>> = changes.iter().take(top).map(row).collect();
    if rows.is_empty() {
        return writeln!(out, "nothing has changed").map_err(Failure::output);
    }
    write_table(out, &columns, &rows)?;
    let more = changes.len().saturating_sub(top);
    if more > 0 {
        let more = units::counted(more as u64, "more stack");
        writeln!(out, "and {more}; --top shows them").map_err(Failure::output)?;
    }
    Ok(())
}

fn signed(value: i64, shown: impl Fn(u64) -> String) -> String {
    let sign = if value < 0 { '-' } else { '+' };
    format!("{sign}{}", shown(value.unsigned_abs()))
}

fn write_profile(path: &Path, earlier: &HeapSnapshot, later: &HeapSnapshot) -> Result<(), Failure> {
    let output = Output::create(Some(path))?;
    let written = output.writer().and_then(|writer| {
        let mut writer = BufWriter::new(writer);
        later.write_pprof_since(earlier, &mut writer)?;
        writer.flush()
    });
    written.map_err(|error| Failure::in_file(path, format!("cannot be written: {error}")))?;
    output.persist()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_a_sign() {
        let shown = |value| signed(value, units::count);
        assert_eq!([-12, 0, 12].map(shown), ["-12", "+0", "+12"]);
    }
}
