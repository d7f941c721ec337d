//! `vor locks`: the waits for locks, by lock, holder and waiter.
//!
//! The scope that waited is the parent of the wait's span: of the spans that end after the wait on
//! its thread, the first that began no later. So each thread has a stack of waits whose parent has
//! not ended yet, ascending by start, as `vor_capture::stats` has one of subtrees. The begin of a
//! task's wait joins the stack like a wait of no length. A reader returns it before the spans
//! around it, so it waits in a queue for a span that ends later.

use std::collections::{HashMap, VecDeque};
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
use crate::command::lock_holds::{HoldJson, Holds};
use crate::command::progress::Progress;
use crate::command::slowest;
use crate::command::source::{Source, WalkResult, no_spans};
use crate::command::table::{Column, Kind, printable, write_table};
use crate::command::wait_spans::{Cause, WaitSpans};
use crate::command::wait_tasks::{EndedWait, WaitTasks};

/// Shows who waited for which lock, and who held it.
///
/// A row has the waits of one scope for one lock while one scope of one thread held it. The program
/// uses the locks of `vor::sync` (feature `locks`) in place of those of `std::sync`. The holder is
/// `released meanwhile` if it unlocked before its scope could be read. A second table has how long
/// locks were held that record it.
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
const MAX_PENDING: usize = if cfg!(test) { 8 } else { 1 << 20 };

#[derive(Debug, Serialize)]
struct LocksJson<'a> {
    file: String,
    waits: u64,
    total_ns: u64,
    dropped_spans: u64,
    rows: Vec<RowJson<'a>>,
    holds: Vec<HoldJson<'a>>,
    damage: DamageJson,
}

#[derive(Debug, Serialize)]
struct RowJson<'a> {
    lock: &'a str,
    /// Empty if nobody holds what is waited for, or a task.
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
pub(super) struct Sums {
    pub(super) count: u64,
    pub(super) total_ns: u64,
    pub(super) max_ns: u64,
}

/// The waits of a thread whose parents have not ended yet.
#[derive(Debug, Default)]
struct Pending {
    waits: Vec<PendingWait>,
    /// Waits of tasks that began later, ascending by their begin: that in ticks, and the task.
    begun: VecDeque<(u64, u64)>,
}

#[derive(Debug)]
struct PendingWait {
    start_ticks: u64,
    wait: Wait,
}

#[derive(Debug)]
enum Wait {
    Thread {
        duration_ns: u64,
        cause: Arc<Cause>,
    },
    /// The id of the wait's task, which may end later.
    Task(u64),
}

#[derive(Debug, Default)]
struct Waits {
    /// Whether waits without a holder count.
    all: bool,
    rows: HashMap<Key, Sums>,
    wait_spans: WaitSpans,
    wait_tasks: WaitTasks,
    holds: Holds,
    pending: HashMap<ThreadId, Pending>,
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
    if let Some(problem) = waits.lost_scopes() {
        warn(&format!("{}: {problem}", args.path.display()));
    }
    let rows = rows(&waits, &walked.catalog);
    let count = saturating_sum(rows.iter().map(|row| row.sums.count));
    let total_ns = saturating_sum(rows.iter().map(|row| row.sums.total_ns));
    if args.json {
        let report = LocksJson {
            file: args.path.display().to_string(),
            waits: count,
            total_ns,
            dropped_spans: waits.dropped_spans,
            rows: rows.iter().map(row_json).collect(),
            holds: waits.holds.json(),
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
    if !args.json {
        waits.holds.print(args.limit, out)?;
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
                    waits.holds.add_thread(&batch.catalog, thread);
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

impl Pending {
    fn len(&self) -> usize {
        self.waits.len() + self.begun.len()
    }

    /// The waits of tasks that began until then have the spans around them on the stack.
    fn begin_until(&mut self, end_ticks: u64) {
        while let Some((start_ticks, task)) = self.begun.pop_front_if(|(at, _)| *at <= end_ticks) {
            let wait = Wait::Task(task);
            self.waits.push(PendingWait { start_ticks, wait });
        }
    }
}

impl Waits {
    /// Adds the spans of a thread, which are in the order of their ends.
    fn add_thread(&mut self, catalog: &Catalog, thread: &ThreadBatch) {
        let spans = thread.len() + thread.async_spans.len();
        self.spans = self.spans.saturating_add(spans as u64);
        let mut pending = self.pending.remove(&thread.thread).unwrap_or_default();
        pending.begun.extend(self.wait_tasks.begun(catalog, thread));
        let mut wait_spans = std::mem::take(&mut self.wait_spans);
        wait_spans.visit(catalog, thread, |span| {
            pending.begin_until(span.start_ticks.saturating_add(span.duration_ticks));
            let waits = &mut pending.waits;
            while let Some(wait) = waits.pop_if(|wait| wait.start_ticks >= span.start_ticks) {
                self.settle(wait, span.site);
            }
            waits.extend(span.cause.map(|cause| {
                PendingWait {
                    start_ticks: span.start_ticks,
                    wait: Wait::Thread {
                        duration_ns: catalog
                            .timeline
                            .duration_ns(span.start_ticks, span.duration_ticks),
                        cause,
                    },
                }
            }));
        });
        self.wait_spans = wait_spans;
        for wait in self.wait_tasks.ended(catalog, thread) {
            self.add_task(wait);
        }
        if pending.len() > MAX_PENDING {
            pending.begin_until(u64::MAX);
            let older = pending.waits.len() / 2;
            for wait in pending.waits.drain(..older) {
                self.orphans += 1;
                self.settle(wait, SiteId::default());
            }
        }
        self.pending.insert(thread.thread, pending);
    }

    /// The scope around a wait, or around the begin of a task's wait, is known.
    fn settle(&mut self, pending: PendingWait, waiter: SiteId) {
        match pending.wait {
            Wait::Thread { duration_ns, cause } => self.add(cause, waiter, duration_ns),
            Wait::Task(task) => {
                if let Some(wait) = self.wait_tasks.waiter(task, waiter) {
                    self.add_task(wait);
                }
            }
        }
    }

    /// Adds the waits around which no scope has ended.
    fn settle_all(&mut self) {
        for (_, mut pending) in std::mem::take(&mut self.pending) {
            pending.begin_until(u64::MAX);
            for wait in pending.waits {
                self.settle(wait, SiteId::default());
            }
        }
        for wait in self.wait_tasks.take_ended() {
            self.add_task(wait);
        }
    }

    fn add_task(&mut self, wait: EndedWait) {
        let cause = self.wait_spans.intern(wait.cause);
        self.add(cause, wait.waiter, wait.duration_ns);
    }

    fn add(&mut self, cause: Arc<Cause>, waiter: SiteId, duration_ns: u64) {
        if !self.all && !cause.has_holder() {
            return;
        }
        let sums = self.rows.entry(Key { cause, waiter }).or_default();
        sums.add(Sums::of(duration_ns));
    }

    /// Returns the warning about waits whose scopes are unknown, if there are any.
    fn lost_scopes(&self) -> Option<String> {
        (self.orphans > 0).then(|| {
            format!(
                "the scopes of {} are unknown, because too many ended before the scope around them",
                units::counted(self.orphans, "wait")
            )
        })
    }
}

impl Sums {
    /// Returns the sums of one duration.
    pub(super) fn of(duration_ns: u64) -> Self {
        Self {
            count: 1,
            total_ns: duration_ns,
            max_ns: duration_ns,
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub(super) fn mean_ns(self) -> f64 {
        self.total_ns as f64 / self.count.max(1) as f64
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
        waits: row.sums.count,
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
            units::count(row.sums.count),
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

#[cfg(test)]
mod tests {
    use vor_capture::filled;
    use vor_capture::model::batch::{AsyncSpan, TaskEvent, TaskEventKind};
    use vor_capture::model::catalog::SiteInfo;
    use vor_capture::model::waits::NO_HOLDER;

    use super::*;

    const REQUEST: SiteId = SiteId(1);
    const JOBS: SiteId = SiteId(2);

    fn catalog() -> Catalog {
        let request = filled!(SiteInfo {
            name: "request".into()
        });
        let jobs = filled!(SiteInfo {
            name: "wait: jobs".into(),
            category: NO_HOLDER.into()
        });
        filled!(Catalog {
            sites: Arc::new([request, jobs].map(|site| Some(Arc::new(site))).to_vec())
        })
    }

    /// Sums up waits of a thread and, behind them, waits of tasks that begin there. The scope
    /// around all of them ends in a later batch.
    fn gathered(of_thread: u64, of_tasks: u64) -> Waits {
        let catalog = catalog();
        let (mut first, mut second) = (ThreadBatch::default(), ThreadBatch::default());
        for at in 0..of_thread {
            first.start_ticks.push(100 + 10 * at);
            first.duration_ticks.push(5);
            first.sites.push(JOBS);
        }
        for task in 0..of_tasks {
            let (site, start_ticks) = (JOBS, 10_000 + 10 * task);
            first.task_events.push(filled!(TaskEvent {
                task,
                site,
                start_ticks,
                kind: TaskEventKind::Begin { given_id: 0 }
            }));
            second.async_spans.push(filled!(AsyncSpan {
                id: task,
                site,
                start_ticks,
                duration_ticks: 5
            }));
        }
        second.start_ticks.push(50);
        second.duration_ticks.push(50_000);
        second.sites.push(REQUEST);
        let mut waits = Waits {
            all: true,
            ..Waits::default()
        };
        waits.add_thread(&catalog, &first);
        waits.add_thread(&catalog, &second);
        waits.settle_all();
        waits
    }

    #[test]
    fn the_older_half_of_too_many_waits_has_no_scope() {
        let cases = [
            (8, 0, 0),
            (5, 3, 0),
            (9, 0, 4),
            (8, 1, 4),
            (2, 7, 4),
            (12, 0, 6),
        ];
        for (of_thread, of_tasks, lost) in cases {
            let waits = gathered(of_thread, of_tasks);
            let count = |scope: SiteId| {
                let rows = waits.rows.iter().filter(|(key, _)| key.waiter == scope);
                rows.map(|(_, sums)| sums.count).sum::<u64>()
            };
            let found = (waits.orphans, count(SiteId(0)), count(REQUEST));
            let expected = (lost, lost, of_thread + of_tasks - lost);
            assert_eq!(found, expected, "{of_thread} and {of_tasks}");
            let warning = format!(
                "the scopes of {lost} waits are unknown, because too many ended before the scope \
                 around them"
            );
            assert_eq!(waits.lost_scopes(), (lost > 0).then_some(warning));
        }
    }
}
