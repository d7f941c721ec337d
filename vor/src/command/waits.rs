//! `vor waits`: where the time of each scope went: it ran, it was queued for a processor, it waited
//! for a lock or a channel, or it was blocked by something else.
//!
//! The time of a recorded wait belongs to every scope around it on its thread, once for each call
//! site: the scopes that end after the wait and began no later. So each thread has a
//! stack of waits, ascending by start, and a scope that ends finds those inside it on top.
//!
//! A wait for a lock has its holder. Any other was ended by the thread whose flow arrived in it, if
//! one did: see `wait_origins`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::model::measures::{Measured, Measures};
use vor_capture::model::waits;
use vor_capture::reader::Piece;
use vor_capture::stats::{ScopeStats, StatsBuilder};
use vor_capture::units;
use vor_export::thread_label;

use crate::command::Outcome;
use crate::command::failure::{Failure, warn};
use crate::command::json::{self, DamageJson};
use crate::command::patterns::{Pattern, expect_matches, is_selected};
use crate::command::progress::Progress;
use crate::command::slowest;
use crate::command::source::{Source, WalkResult, no_spans};
use crate::command::table::{Column, Kind, printable, write_table};
use crate::command::wait_origins::{Arrivals, Origins};
use crate::command::wait_spans::{Cause, WaitSpans};

/// Shows what each scope waited for.
///
/// The time of a scope, the scopes inside it included, is divided into what its thread did: it ran,
/// it was queued for a processor, it waited for a lock or a channel of `vor::sync` (feature
/// `locks`), or it was blocked by something else. Without CPU time and waits in the capture
/// (VOR_WAITS=1), only the recorded waits are known.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The capture.
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Only scopes with this name, in which * stands for any text and ? for any character; may be
    /// repeated.
    #[arg(long, value_name = "GLOB")]
    name: Vec<Pattern>,
    /// Shows the N scopes that waited the longest.
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 20)]
    #[arg(value_parser = slowest::at_least_one)]
    limit: usize,
    /// Prints JSON: all scopes.
    #[arg(long)]
    json: bool,
}

/// Most waits of a thread that are kept for the scopes around them. If there are more, scopes that
/// end later lack the older half.
const MAX_KEPT: usize = if cfg!(test) { 4 } else { 1 << 20 };
/// Causes of a scope that the table names.
const SHOWN_CAUSES: usize = 2;

#[derive(Debug, Serialize)]
struct WaitsJson<'a> {
    file: String,
    dropped_spans: u64,
    scopes: Vec<ScopeJson<'a>>,
    damage: DamageJson,
}

#[derive(Debug, Serialize)]
struct ScopeJson<'a> {
    name: &'a str,
    count: u64,
    total_ns: u64,
    /// Recorded waits.
    waits_ns: u64,
    /// Null unless it was measured; outside of recorded waits, like the next two.
    running_ns: Option<u64>,
    queued_ns: Option<u64>,
    blocked_ns: Option<u64>,
    causes: Vec<CauseJson<'a>>,
}

#[derive(Debug, Serialize)]
struct CauseJson<'a> {
    /// The lock or the channel.
    name: &'a str,
    /// The holder of a lock, or the sender of the message. Both are empty if it is unknown.
    holder_thread: &'a str,
    holder_scope: &'a str,
    waits: u64,
    total_ns: u64,
}

/// A recorded wait, for the scopes around it that have not ended yet.
#[derive(Debug)]
struct Wait {
    start_ticks: u64,
    ns: u64,
    measured: Measured,
    cause: Arc<Cause>,
    /// The call sites that have it already.
    given_to: Vec<SiteId>,
}

/// The waits inside the spans of a call site.
#[derive(Debug, Default)]
struct Inside {
    ns: u64,
    measured: Measured,
    /// Number and time, by cause.
    causes: BTreeMap<Arc<Cause>, (u64, u64)>,
}

#[derive(Debug, Default)]
struct Gathered {
    stats: StatsBuilder,
    inside: HashMap<SiteId, Inside>,
    wait_spans: WaitSpans,
    origins: Origins,
    arrivals: Arrivals,
    /// Causes with the scope that ended the wait, by the site of the wait and that scope.
    enders: HashMap<(SiteId, ThreadId, Option<SiteId>), Arc<Cause>>,
    /// The call sites of waits, which are no scopes.
    wait_sites: HashSet<SiteId>,
    waits: HashMap<ThreadId, Vec<Wait>>,
    given_up: u64,
    frames: u64,
    dropped_spans: u64,
}

/// The time of a scope, by what its thread did.
#[derive(Debug)]
struct Row<'a> {
    scope: &'a ScopeStats,
    waits_ns: u64,
    running_ns: Option<u64>,
    queued_ns: Option<u64>,
    blocked_ns: Option<u64>,
    /// The longest first.
    causes: Vec<(&'a Cause, u64, u64)>,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let mut source = Source::open(&args.path)?;
    let (gathered, walked) = gather(&mut source)?;
    source.warn_of(&walked.damage);
    if gathered.stats.span_count() == 0 {
        return Err(source.failure(no_spans(gathered.frames)));
    }
    if let Some(problem) = gathered.lost_waits() {
        warn(&format!("{}: {problem}", args.path.display()));
    }
    let mut scopes = gathered.stats.scope_stats(&walked.catalog);
    scopes.retain(|scope| !gathered.wait_sites.contains(&scope.site));
    let names = scopes.iter().map(|scope| scope.name.as_str());
    expect_matches(&args.name, names, "scope", |problem| {
        source.failure(problem)
    })?;
    scopes.retain(|scope| is_selected(&args.name, &scope.name));
    let rows = rows(&scopes, &gathered.inside);
    if args.json {
        let report = WaitsJson {
            file: args.path.display().to_string(),
            dropped_spans: gathered.dropped_spans,
            scopes: rows.iter().map(scope_json).collect(),
            damage: DamageJson::new(&walked.damage),
        };
        json::write_pretty(out, &report)?;
    } else {
        print(&rows, args.limit, out)?;
    }
    Ok(Outcome::Success)
}

fn gather(source: &mut Source) -> Result<(Gathered, WalkResult), Failure> {
    let mut gathered = Gathered {
        origins: origins(source)?,
        ..Gathered::default()
    };
    let mut progress = Progress::new("reading", false);
    let walked = source.walk(&mut progress, |piece| {
        match piece {
            Piece::Batch(batch) => {
                for thread in &batch.threads {
                    gathered.stats.add_thread(&batch.catalog, thread);
                    gathered.add_thread(&batch.catalog, thread);
                }
            }
            Piece::Frame(recovered) if recovered.frame.frame_set == 0 => {
                let dropped = recovered.frame.dropped_spans;
                gathered.frames += 1;
                gathered.dropped_spans = gathered.dropped_spans.saturating_add(dropped);
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((gathered, walked))
}

/// Finds the origins of flows, if the capture has waits that nobody holds.
fn origins(source: &mut Source) -> Result<Origins, Failure> {
    let mut origins = Origins::default();
    let sites = source.capture.catalog().sites.iter().flatten();
    let mut waits = sites.filter_map(|site| waits::Wait::of(site));
    if waits.all(|wait| wait.has_holder) {
        return Ok(origins);
    }
    let mut has_room = true;
    let mut progress = Progress::new("reading flows", false);
    source.walk(&mut progress, |piece| {
        if let Piece::Batch(batch) = piece {
            has_room = batch
                .threads
                .iter()
                .all(|thread| origins.add_thread(thread));
        }
        Ok(match has_room {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    })?;
    drop(progress);
    if !has_room {
        warn(&format!(
            "{}: it has millions of flows; waits for later messages do not name their senders",
            source.path.display()
        ));
    }
    origins.finish();
    Ok(origins)
}

impl Gathered {
    /// Adds the spans of a thread, which are in the order of their ends.
    fn add_thread(&mut self, catalog: &Catalog, thread: &ThreadBatch) {
        let Self {
            inside,
            wait_spans,
            origins,
            arrivals,
            enders,
            wait_sites,
            waits,
            ..
        } = self;
        let arrived = arrivals.take(origins, thread);
        let waits = waits.entry(thread.thread).or_default();
        wait_spans.visit(catalog, thread, |span| {
            let Some(cause) = span.cause else {
                let around = |wait: &&mut Wait| wait.start_ticks >= span.start_ticks;
                for wait in waits.iter_mut().rev().take_while(around) {
                    give(inside, wait, span.site);
                }
                return;
            };
            wait_sites.insert(span.site);
            let end_ticks = span.start_ticks.saturating_add(span.duration_ticks);
            let ender = match cause.has_holder() {
                true => None,
                false => arrived.ended(span.start_ticks, end_ticks),
            };
            let cause = match ender {
                None => cause,
                Some((by, scope)) => Arc::clone(
                    enders
                        .entry((span.site, by, scope))
                        .or_insert_with(|| Arc::new(ended_by(catalog, &cause, by, scope))),
                ),
            };
            let measured = catalog.site(span.site).zip(span.args);
            waits.push(Wait {
                start_ticks: span.start_ticks,
                ns: catalog
                    .timeline
                    .duration_ns(span.start_ticks, span.duration_ticks),
                measured: measured
                    .map(|(info, args)| Measured::of(info, &args.values))
                    .unwrap_or_default(),
                cause,
                given_to: Vec::new(),
            });
        });
        arrivals.forget(thread);
        if waits.len() > MAX_KEPT {
            let older = waits.len() / 2;
            self.given_up += waits.drain(..older).len() as u64;
        }
    }

    /// Returns the warning about waits that some scopes lack, if there are any.
    fn lost_waits(&self) -> Option<String> {
        (self.given_up > 0).then(|| {
            format!(
                "{} are missing in scopes that lasted longer than a million waits",
                units::counted(self.given_up, "wait")
            )
        })
    }
}

/// Returns the cause of a wait that a scope of another thread has ended.
fn ended_by(catalog: &Catalog, cause: &Cause, thread: ThreadId, scope: Option<SiteId>) -> Cause {
    let scope = scope.map_or("", |site| catalog.site_name(site));
    Cause {
        name: Arc::clone(&cause.name),
        thread: thread_label(catalog, thread).into(),
        scope: scope.into(),
    }
}

/// Gives a wait to a call site around it, once.
fn give(inside: &mut HashMap<SiteId, Inside>, wait: &mut Wait, site: SiteId) {
    if wait.given_to.contains(&site) {
        return;
    }
    wait.given_to.push(site);
    let inside = inside.entry(site).or_default();
    inside.ns = inside.ns.saturating_add(wait.ns);
    inside.measured = inside.measured.plus(wait.measured);
    let (count, ns) = inside.causes.entry(Arc::clone(&wait.cause)).or_default();
    *count = count.saturating_add(1);
    *ns = ns.saturating_add(wait.ns);
}

/// Returns a row for each scope, those with the longest waits first.
fn rows<'a>(scopes: &'a [ScopeStats], inside: &'a HashMap<SiteId, Inside>) -> Vec<Row<'a>> {
    let row = |scope: &'a ScopeStats| {
        let waited = inside.get(&scope.site);
        let (ns, in_waits) = waited
            .map(|inside| (inside.ns, inside.measured))
            .unwrap_or_default();
        // Outside of the recorded waits, which have CPU time and a queue of their own.
        let off_cpu_ns = scope
            .measured
            .off_cpu_ns
            .saturating_sub(in_waits.off_cpu_ns);
        let queued_ns = scope
            .measured
            .run_queue_ns
            .saturating_sub(in_waits.run_queue_ns);
        let has_cpu = scope.measures.has(Measures::CPU);
        let has_wait = scope.measures.has(Measures::WAIT);
        let rest_ns = scope.total_ns.saturating_sub(ns);
        let mut causes: Vec<_> = waited
            .into_iter()
            .flat_map(|inside| &inside.causes)
            .map(|(cause, (count, ns))| (&**cause, *count, *ns))
            .collect();
        causes.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(b.0)));
        Row {
            scope,
            waits_ns: ns,
            running_ns: has_cpu.then(|| rest_ns.saturating_sub(off_cpu_ns)),
            queued_ns: has_wait.then_some(queued_ns.min(off_cpu_ns)),
            blocked_ns: has_wait.then(|| off_cpu_ns.saturating_sub(queued_ns)),
            causes,
        }
    };
    let mut rows: Vec<Row<'_>> = scopes.iter().map(row).collect();
    rows.sort_by(|a, b| {
        let by_wait = b.waited_ns().cmp(&a.waited_ns());
        by_wait.then_with(|| (&a.scope.name, a.scope.site).cmp(&(&b.scope.name, b.scope.site)))
    });
    rows
}

impl Row<'_> {
    /// Returns the time in which the scope did not run, as far as it is known.
    fn waited_ns(&self) -> u64 {
        let others = self
            .queued_ns
            .unwrap_or(0)
            .saturating_add(self.blocked_ns.unwrap_or(0));
        self.waits_ns.saturating_add(others)
    }
}

fn scope_json<'a>(row: &Row<'a>) -> ScopeJson<'a> {
    let cause = |(cause, waits, total_ns): &(&'a Cause, u64, u64)| CauseJson {
        name: &cause.name,
        holder_thread: &cause.thread,
        holder_scope: &cause.scope,
        waits: *waits,
        total_ns: *total_ns,
    };
    ScopeJson {
        name: &row.scope.name,
        count: row.scope.count,
        total_ns: row.scope.total_ns,
        waits_ns: row.waits_ns,
        running_ns: row.running_ns,
        queued_ns: row.queued_ns,
        blocked_ns: row.blocked_ns,
        causes: row.causes.iter().map(cause).collect(),
    }
}

fn print(rows: &[Row<'_>], limit: usize, out: &mut impl Write) -> Result<(), Failure> {
    let columns = [
        Column::new("scope", Kind::Text, 0),
        Column::new("count", Kind::Number, 3),
        Column::new("total", Kind::Number, 0),
        Column::new("running", Kind::Number, 2),
        Column::new("queued", Kind::Number, 1),
        Column::new("blocked", Kind::Number, 1),
        Column::new("waits", Kind::Number, 0),
        Column::new("waited for", Kind::Text, 0),
    ];
    let ns = |ns: u64| units::duration(ns as f64);
    let known = |part: Option<u64>| part.map_or("-".to_owned(), ns);
    let row = |row: &Row<'_>| {
        let mut causes: Vec<String> = row
            .causes
            .iter()
            .take(SHOWN_CAUSES)
            .map(|(cause, _, total_ns)| format!("{} {}", ns(*total_ns), shown(cause)))
            .collect();
        let more = row.causes.len().saturating_sub(SHOWN_CAUSES);
        if more > 0 {
            causes.push(format!("{more} more"));
        }
        vec![
            printable(&row.scope.name),
            units::count(row.scope.count),
            ns(row.scope.total_ns),
            known(row.running_ns),
            known(row.queued_ns),
            known(row.blocked_ns),
            ns(row.waits_ns),
            causes.join(", "),
        ]
    };
    let cells: Vec<Vec<String>> = rows.iter().take(limit).map(row).collect();
    write_table(out, &columns, &cells)?;
    let mut note = |text: &str| writeln!(out, "{text}").map_err(Failure::output);
    let more = rows.len().saturating_sub(limit);
    if more > 0 {
        let more = units::counted(more as u64, "more scope");
        note(&format!("and {more}; -n shows them"))?;
    }
    if rows.iter().all(|row| row.queued_ns.is_none()) {
        note("only recorded waits are known; record with VOR_WAITS=1 to divide the rest")?;
    }
    Ok(())
}

/// Returns what a thread waited for, and its holder: `cache ← evict on worker-3`.
fn shown(cause: &Cause) -> String {
    let name = printable(&cause.name);
    match cause.has_holder() {
        true => format!("{name} ← {}", cause.holder()),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use vor_capture::filled;
    use vor_capture::model::catalog::SiteInfo;
    use vor_capture::model::waits::NO_HOLDER;

    use super::*;

    #[test]
    fn scopes_around_too_many_waits_lack_the_older_half() {
        let request = filled!(SiteInfo {
            name: "request".into()
        });
        let jobs = filled!(SiteInfo {
            name: "wait: jobs".into(),
            category: NO_HOLDER.into()
        });
        let catalog = filled!(Catalog {
            sites: Arc::new([request, jobs].map(|site| Some(Arc::new(site))).to_vec())
        });
        for (count, lost) in [(4, 0), (5, 2), (7, 3)] {
            let mut gathered = Gathered::default();
            let ended = |spans: &[(u64, u64, u32)]| {
                filled!(ThreadBatch {
                    start_ticks: spans.iter().map(|span| span.0).collect(),
                    duration_ticks: spans.iter().map(|span| span.1).collect(),
                    sites: spans.iter().map(|span| SiteId(span.2)).collect()
                })
            };
            let waits: Vec<_> = (0..count).map(|at| (100 + 10 * at, at + 1, 2)).collect();
            gathered.add_thread(&catalog, &ended(&waits));
            gathered.add_thread(&catalog, &ended(&[(50, 1_000, 1)]));
            assert_eq!(gathered.given_up, lost);
            let inside = &gathered.inside[&SiteId(1)];
            let ns: u64 = (lost + 1..=count).sum();
            let causes: Vec<_> = inside.causes.values().copied().collect();
            assert_eq!((inside.ns, causes), (ns, vec![(count - lost, ns)]));
            let warning = format!(
                "{lost} waits are missing in scopes that lasted longer than a million waits"
            );
            assert_eq!(gathered.lost_waits(), (lost > 0).then_some(warning));
        }
    }
}
