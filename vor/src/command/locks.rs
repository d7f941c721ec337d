//! `vor locks`: the waits for locks, by lock, holder and waiter.
//!
//! The scope that waited is the parent of the wait's span: of the spans that end after the wait on
//! its thread, the first that began no later. So each thread has a stack of waits whose parent has
//! not ended yet, ascending by start, as `vor_capture::stats` has one of subtrees.

use std::collections::HashMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::reader::Piece;
use vor_capture::units;

use crate::command::Outcome;
use crate::command::failure::{Failure, warn};
use crate::command::json::{self, DamageJson};
use crate::command::progress::Progress;
use crate::command::slowest;
use crate::command::source::{Source, WalkResult, no_spans};
use crate::command::table::{Column, Kind, printable, write_table};
use crate::command::wait_spans::{Cause, WaitSpans};

/// Shows who waited for which lock, and who held it.
///
/// A row has the waits of one scope for one lock while one scope of one thread held it. The program
/// uses the locks of `vor::sync` (feature `locks`) in place of those of `std::sync`. The holder is
/// `released meanwhile` if it unlocked before its scope could be read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The capture.
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Shows the N rows with the longest waits in total.
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 20)]
    #[arg(value_parser = slowest::at_least_one)]
    limit: usize,
    /// Shows the waits without a holder, too: for conditions, barriers, permits and messages. A
    /// thread that has nothing to do waits, so these are often the longest.
    #[arg(long)]
    all: bool,
    /// Prints JSON: all rows.
    #[arg(long)]
    json: bool,
}

/// Most waits of a thread that wait for the end of their parents. If there are more, the scopes of
/// the older half remain unknown.
const MAX_PENDING: usize = 1 << 20;

#[derive(Debug, Serialize)]
struct LocksJson<'a> {
    file: String,
    waits: u64,
    total_ns: u64,
    dropped_spans: u64,
    rows: Vec<RowJson<'a>>,
    damage: DamageJson,
}

#[derive(Debug, Serialize)]
struct RowJson<'a> {
    lock: &'a str,
    /// Empty if nobody holds what is waited for.
    holder_thread: &'a str,
    /// Empty if the holder had no scope open, or it is unknown, or nobody holds what is waited for.
    holder_scope: &'a str,
    /// Empty if the waiter had no scope open.
    waiter_scope: &'a str,
    waits: u64,
    total_ns: u64,
    mean_ns: f64,
    max_ns: u64,
}

/// The waits of a row have this in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    cause: Arc<Cause>,
    /// The scope that waited; 0 if none was open.
    waiter: SiteId,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    waits: u64,
    total_ns: u64,
    max_ns: u64,
}

/// A wait whose parent has not ended yet.
#[derive(Debug)]
struct Pending {
    start_ticks: u64,
    duration_ns: u64,
    cause: Arc<Cause>,
}

#[derive(Debug, Default)]
struct Waits {
    /// Whether waits without a holder count.
    all: bool,
    rows: HashMap<Key, Sums>,
    wait_spans: WaitSpans,
    pending: HashMap<ThreadId, Vec<Pending>>,
    /// Waits whose parents were too late.
    orphans: u64,
    spans: u64,
    frames: u64,
    dropped_spans: u64,
}

/// A row with the names of its scopes. Call sites of one name share it.
#[derive(Debug)]
struct Row<'a> {
    cause: &'a Cause,
    waiter: &'a str,
    sums: Sums,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let mut source = Source::open(&args.path)?;
    let (waits, walked) = gather(&mut source, args.all)?;
    source.warn_of(&walked.damage);
    if waits.spans == 0 {
        return Err(source.failure(no_spans(waits.frames)));
    }
    if waits.orphans > 0 {
        warn(&format!(
            "{}: the scopes of {} are unknown, because too many ended before the scope around them",
            args.path.display(),
            units::counted(waits.orphans, "wait")
        ));
    }
    let rows = rows(&waits, &walked.catalog);
    let count = saturating_sum(rows.iter().map(|row| row.sums.waits));
    let total_ns = saturating_sum(rows.iter().map(|row| row.sums.total_ns));
    if args.json {
        let report = LocksJson {
            file: args.path.display().to_string(),
            waits: count,
            total_ns,
            dropped_spans: waits.dropped_spans,
            rows: rows.iter().map(row_json).collect(),
            damage: DamageJson::new(&walked.damage),
        };
        json::write_pretty(out, &report)?;
    } else if rows.is_empty() {
        let reason = match args.all {
            true => "no thread waited for anything of `vor::sync` (feature `locks`)",
            false => "no thread waited for a lock of `vor::sync` (feature `locks`)",
        };
        writeln!(out, "{reason}").map_err(Failure::output)?;
    } else {
        let summary = units::counted(count, "wait");
        let total = units::duration(total_ns as f64);
        let for_locks = if args.all { "" } else { " for locks" };
        writeln!(out, "{summary}{for_locks}, {total} in total").map_err(Failure::output)?;
        print_table(&rows, args.limit, out)?;
    }
    Ok(Outcome::Success)
}

fn gather(source: &mut Source, all: bool) -> Result<(Waits, WalkResult), Failure> {
    let mut waits = Waits {
        all,
        ..Waits::default()
    };
    let mut progress = Progress::new("reading", false);
    let walked = source.walk(&mut progress, |piece| {
        match piece {
            Piece::Batch(batch) => {
                for thread in &batch.threads {
                    waits.add_thread(&batch.catalog, thread);
                }
            }
            Piece::Frame(recovered) if recovered.frame.frame_set == 0 => {
                let frame = &recovered.frame;
                waits.frames += 1;
                waits.dropped_spans = waits.dropped_spans.saturating_add(frame.dropped_spans);
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    waits.settle_all();
    Ok((waits, walked))
}

impl Waits {
    /// Adds the spans of a thread, which are in the order of their ends.
    fn add_thread(&mut self, catalog: &Catalog, thread: &ThreadBatch) {
        self.spans = self.spans.saturating_add(thread.len() as u64);
        let Self {
            all,
            rows,
            wait_spans,
            pending,
            ..
        } = self;
        let pending = pending.entry(thread.thread).or_default();
        wait_spans.visit(catalog, thread, |span| {
            while let Some(wait) = pending.pop_if(|wait| wait.start_ticks >= span.start_ticks) {
                add(rows, wait, span.site);
            }
            let cause = span.cause.filter(|cause| *all || cause.has_holder());
            pending.extend(cause.map(|cause| {
                Pending {
                    start_ticks: span.start_ticks,
                    duration_ns: catalog
                        .timeline
                        .duration_ns(span.start_ticks, span.duration_ticks),
                    cause,
                }
            }));
        });
        if pending.len() > MAX_PENDING {
            for wait in pending.drain(..MAX_PENDING / 2) {
                self.orphans += 1;
                add(&mut self.rows, wait, SiteId::default());
            }
        }
    }

    /// Adds the waits around which no scope has ended.
    fn settle_all(&mut self) {
        for wait in self.pending.drain().flat_map(|(_, pending)| pending) {
            add(&mut self.rows, wait, SiteId::default());
        }
    }
}

fn add(rows: &mut HashMap<Key, Sums>, wait: Pending, waiter: SiteId) {
    let cause = wait.cause;
    let sums = rows.entry(Key { cause, waiter }).or_default();
    sums.add(Sums {
        waits: 1,
        total_ns: wait.duration_ns,
        max_ns: wait.duration_ns,
    });
}

impl Sums {
    fn add(&mut self, other: Self) {
        self.waits = self.waits.saturating_add(other.waits);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    fn mean_ns(self) -> f64 {
        self.total_ns as f64 / self.waits.max(1) as f64
    }
}

/// Returns the rows, those with the longest waits first.
fn rows<'a>(waits: &'a Waits, catalog: &'a Catalog) -> Vec<Row<'a>> {
    let mut by_name: HashMap<(&Cause, &str), Sums> = HashMap::new();
    for (key, sums) in &waits.rows {
        let waiter = match key.waiter {
            SiteId(0) => "",
            site => catalog.site_name(site),
        };
        by_name.entry((&key.cause, waiter)).or_default().add(*sums);
    }
    let row = |((cause, waiter), sums)| Row {
        cause,
        waiter,
        sums,
    };
    let mut rows: Vec<_> = by_name.into_iter().map(row).collect();
    rows.sort_by(|a, b| {
        let by_total = b.sums.total_ns.cmp(&a.sums.total_ns);
        by_total.then_with(|| (a.cause, a.waiter).cmp(&(b.cause, b.waiter)))
    });
    rows
}

fn row_json<'a>(row: &Row<'a>) -> RowJson<'a> {
    RowJson {
        lock: &row.cause.name,
        holder_thread: &row.cause.thread,
        holder_scope: &row.cause.scope,
        waiter_scope: row.waiter,
        waits: row.sums.waits,
        total_ns: row.sums.total_ns,
        mean_ns: row.sums.mean_ns(),
        max_ns: row.sums.max_ns,
    }
}

fn print_table(rows: &[Row<'_>], limit: usize, out: &mut impl Write) -> Result<(), Failure> {
    let columns = [
        Column::new("lock", Kind::Text, 0),
        Column::new("held by", Kind::Text, 0),
        Column::new("waiter", Kind::Text, 0),
        Column::new("waits", Kind::Number, 1),
        Column::new("total", Kind::Number, 0),
        Column::new("mean", Kind::Number, 2),
        Column::new("max", Kind::Number, 3),
    ];
    let row = |row: &Row<'_>| {
        vec![
            printable(&row.cause.name),
            row.cause.holder(),
            match row.waiter {
                "" => "(outside of scopes)".to_owned(),
                name => printable(name),
            },
            units::count(row.sums.waits),
            units::duration(row.sums.total_ns as f64),
            units::duration(row.sums.mean_ns()),
            units::duration(row.sums.max_ns as f64),
        ]
    };
    let shown: Vec<Vec<String>> = rows.iter().take(limit).map(row).collect();
    write_table(out, &columns, &shown)?;
    let more = rows.len().saturating_sub(limit);
    if more > 0 {
        let more = units::counted(more as u64, "more row");
        writeln!(out, "and {more}; -n shows them").map_err(Failure::output)?;
    }
    Ok(())
}

fn saturating_sum(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, u64::saturating_add)
}
