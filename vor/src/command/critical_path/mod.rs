//! `vor critical-path`: divides the time of a frame, a call or a task over the threads that it
//! depended on.
//!
//! The capture is read twice: once to find the interval, and once for the spans that overlap it.

mod interval;
mod path;
mod task;

use std::collections::HashMap;
use std::io::Write;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::model::measures::{Measured, RUN_QUEUE_NS};
use vor_capture::reader::Piece;
use vor_capture::units;
use vor_export::thread_label;

use self::interval::{Choice, Interval};
use self::path::{OffCpu, Part, Program, Span, State, Thread};
use self::task::Task;
use crate::command::Outcome;
use crate::command::failure::Failure;
use crate::command::json::{self, DamageJson};
use crate::command::patterns::unknown;
use crate::command::progress::Progress;
use crate::command::slowest;
use crate::command::source::{Source, WalkResult};
use crate::command::table::{Column, Kind, printable, write_table};
use crate::command::wait_spans::{Cause, WaitSpans};

/// Divides the time of a frame, a call or a task over the threads that it depended on.
///
/// Each moment belongs to the scope in which the thread was then. If the thread waited, it belongs
/// to the thread that ended the wait: the holder of a lock of `vor::sync` (feature `locks`), or the
/// begin of any other flow that ends in the wait. The default is the slowest frame.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The capture.
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// A frame, by its number.
    #[arg(long, value_name = "NUMBER", group = "interval")]
    frame: Option<u64>,
    /// The longest call of the scope with this name.
    #[arg(long, value_name = "NAME", group = "interval")]
    scope: Option<String>,
    /// The longest task with this name, or the task with this id.
    #[arg(long, value_name = "NAME", group = "interval")]
    task: Option<String>,
    /// The thread whose time is shown; of a frame, the one that works the most.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["scope", "task"])]
    thread: Option<String>,
    /// Shows the parts in the order of time instead of their sums.
    #[arg(long)]
    steps: bool,
    /// Shows the N longest rows, or the first N steps.
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 20)]
    #[arg(value_parser = slowest::at_least_one)]
    limit: usize,
    /// Prints JSON: all rows and all steps.
    #[arg(long)]
    json: bool,
}

/// Most spans that overlap the interval. They are in memory.
const MAX_SPANS: usize = 20_000_000;

#[derive(Debug, Serialize)]
struct PathJson<'a> {
    file: String,
    interval: &'a str,
    /// Empty for a task.
    thread: &'a str,
    start_unix_ns: i64,
    duration_ns: u64,
    rows: &'a [Row],
    steps: &'a [Step],
    dropped_spans: u64,
    damage: DamageJson,
}

/// A part of the path with its names.
#[derive(Clone, Debug, Serialize)]
struct Step {
    /// Since the begin of the interval.
    start_ns: u64,
    duration_ns: u64,
    /// Empty while a task is not polled.
    thread: String,
    /// Empty outside of all scopes.
    scope: String,
    state: &'static str,
    /// The waits that lead here.
    waits: Vec<String>,
    #[serde(skip)]
    off_cpu: Option<OffCpu>,
}

/// Steps of one thread, scope and state, behind the same waits.
#[derive(Clone, Debug, Serialize)]
struct Row {
    thread: String,
    scope: String,
    state: &'static str,
    waits: Vec<String>,
    total_ns: u64,
}

/// The spans of an interval.
#[derive(Debug, Default)]
struct Gathered {
    threads: HashMap<ThreadId, Thread>,
    task: Task,
    spans: usize,
    dropped_spans: u64,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let mut source = Source::open(&args.path)?;
    let interval = choice(args).find(&mut source)?;
    let (gathered, walked) = gather(&mut source, &interval, MAX_SPANS)?;
    source.warn_of(&walked.damage);
    let Gathered {
        threads,
        task,
        dropped_spans,
        ..
    } = gathered;
    let program = Program::new(threads);
    let (thread, stretches): (_, Vec<Stretch>) = match interval.task {
        Some(_) => (None, task.path(&program, &walked.catalog, &interval.ticks)),
        None => {
            let thread = thread(args, &source, &interval, &program, &walked.catalog)?;
            let parts = program.path(thread, interval.ticks.clone());
            (Some(thread), parts.into_iter().map(Stretch::from).collect())
        }
    };
    let names = Names {
        catalog: &walked.catalog,
        program: &program,
        begin: interval.ticks.start,
    };
    let steps: Vec<Step> = stretches
        .iter()
        .map(|stretch| names.step(stretch))
        .collect();
    let rows = rows(&steps);
    let label = thread.map(|thread| thread_label(&walked.catalog, thread).into_owned());
    let label = label.unwrap_or_default();
    let timeline = &walked.catalog.timeline;
    let duration_ns = timeline.duration_ns(
        interval.ticks.start,
        interval.ticks.end.saturating_sub(interval.ticks.start),
    );
    if args.json {
        let report = PathJson {
            file: args.path.display().to_string(),
            interval: &interval.title,
            thread: &label,
            start_unix_ns: timeline.unix_ns(interval.ticks.start),
            duration_ns,
            rows: &rows,
            steps: &steps,
            dropped_spans,
            damage: DamageJson::new(&walked.damage),
        };
        json::write_pretty(out, &report)?;
        return Ok(Outcome::Success);
    }
    let title = printable(&interval.title);
    let place = match thread {
        Some(_) => format!(" on {}", printable(&label)),
        None => String::new(),
    };
    let duration = units::duration(duration_ns as f64);
    writeln!(out, "{title}{place}: {duration}").map_err(Failure::output)?;
    match args.steps {
        true => print_steps(&steps, args.limit, out),
        false => print_rows(&rows, duration_ns, args.limit, out),
    }?;
    Ok(Outcome::Success)
}

fn choice(args: &Args) -> Choice {
    match (args.frame, &args.scope, &args.task) {
        (Some(number), ..) => Choice::Frame(number),
        (_, Some(name), _) => Choice::Scope(name.clone()),
        (_, _, Some(name)) => Choice::Task(name.clone()),
        _ => Choice::SlowestFrame,
    }
}

/// Reads the spans and flows of all threads that overlap the interval, at most `most`.
fn gather(
    source: &mut Source,
    interval: &Interval,
    most: usize,
) -> Result<(Gathered, WalkResult), Failure> {
    let mut gathered = Gathered::default();
    let mut waits = WaitSpans::default();
    let mut progress = Progress::new("reading", false);
    let mut is_full = false;
    let walked = source.walk(&mut progress, |piece| {
        if let Piece::Batch(batch) = piece {
            gathered.add(&batch, interval, &mut waits);
        }
        is_full = gathered.spans > most;
        Ok(match is_full {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    })?;
    if is_full {
        return Err(source.failure(format!(
            "{} has more than {most} spans; choose a shorter interval",
            interval.title
        )));
    }
    Ok((gathered, walked))
}

impl Gathered {
    fn add(&mut self, batch: &SpanBatch, interval: &Interval, waits: &mut WaitSpans) {
        let wanted = &interval.ticks;
        let catalog = &batch.catalog;
        for thread in &batch.threads {
            self.dropped_spans = self.dropped_spans.saturating_add(thread.dropped_spans);
            let kept = self.threads.entry(thread.thread).or_default();
            let before = kept.spans.len();
            waits.visit(catalog, thread, |span| {
                let end = span.start_ticks.saturating_add(span.duration_ticks);
                if span.start_ticks < wanted.end && end > wanted.start {
                    kept.spans.push(Span {
                        begin: span.start_ticks,
                        end,
                        site: span.site,
                        cause: span.cause,
                        measured: catalog.site(span.site).and_then(|site| {
                            let has_waits = site.arg_names.iter().any(|name| name == RUN_QUEUE_NS);
                            // A span that was never off the CPU has no values.
                            let values = span.args.map_or(&[][..], |args| &args.values);
                            let measured = Measured::of(site, values);
                            has_waits.then_some(OffCpu {
                                all_ns: measured.off_cpu_ns,
                                queued_ns: measured.run_queue_ns,
                            })
                        }),
                    });
                }
            });
            self.spans += kept.spans.len() - before;
            // The flow that ends a wait begins before its end, and a wait may be cut.
            kept.flows.extend_from_slice(&thread.flows);
            self.spans += thread.flows.len();
            if let Some(task) = interval.task {
                self.task.add_thread(catalog, thread, task);
            }
        }
    }
}

/// Returns the thread whose path is shown.
fn thread(
    args: &Args,
    source: &Source,
    interval: &Interval,
    program: &Program,
    catalog: &Catalog,
) -> Result<ThreadId, Failure> {
    if let Some(thread) = interval.thread {
        return Ok(thread);
    }
    let Some(name) = &args.thread else {
        return program.busiest(&interval.ticks).ok_or_else(|| {
            source.failure(format!("no thread was in a scope in {}", interval.title))
        });
    };
    let ids = (0..catalog.threads.len() as u32).map(ThreadId);
    let mut named = ids.filter(|id| thread_label(catalog, *id) == name.as_str());
    named
        .next()
        .ok_or_else(|| source.failure(unknown("thread", name, &source.thread_labels())))
}

/// A stretch of time.
#[derive(Debug)]
enum Stretch {
    /// A part of the path of a thread.
    Part(Part),
    /// No thread polls the task, which waits for something of which the capture knows or not.
    NotPolled(Range<u64>, Option<Arc<Cause>>),
}

impl From<Part> for Stretch {
    fn from(part: Part) -> Self {
        Self::Part(part)
    }
}

impl Stretch {
    fn ticks(&self) -> &Range<u64> {
        match self {
            Self::Part(part) => &part.ticks,
            Self::NotPolled(ticks, _) => ticks,
        }
    }
}

struct Names<'a> {
    catalog: &'a Catalog,
    program: &'a Program,
    begin: u64,
}

impl Names<'_> {
    fn step(&self, stretch: &Stretch) -> Step {
        let timeline = &self.catalog.timeline;
        let ticks = stretch.ticks();
        let step = Step {
            start_ns: timeline.duration_ns(self.begin, ticks.start - self.begin),
            duration_ns: timeline.duration_ns(ticks.start, ticks.end - ticks.start),
            thread: String::new(),
            scope: String::new(),
            state: "not polled",
            waits: Vec::new(),
            off_cpu: None,
        };
        let part = match stretch {
            Stretch::Part(part) => part,
            Stretch::NotPolled(_, None) => return step,
            Stretch::NotPolled(_, Some(cause)) => {
                return Step {
                    state: "waiting",
                    waits: vec![with_holder(cause)],
                    ..step
                };
            }
        };
        let span = part
            .span
            .and_then(|place| self.program.span(part.thread, place));
        let state = match part.state {
            State::Working if span.is_none() => "outside of scopes",
            State::Working => "in scope",
            State::Woken => "woken",
            State::Waiting => "waiting",
        };
        Step {
            thread: thread_label(self.catalog, part.thread).into_owned(),
            scope: span.map_or_else(String::new, |span| {
                self.catalog.site_name(span.site).to_owned()
            }),
            state,
            waits: names(&part.causes),
            off_cpu: span.and_then(|span| self.off_cpu(part, span, step.duration_ns)),
            ..step
        }
    }

    /// Returns the share of a scope's time off the CPU that a part of it has. Where in the scope
    /// its thread did not run is unknown.
    fn off_cpu(&self, part: &Part, span: &Span, ns: u64) -> Option<OffCpu> {
        let (Some(place), State::Working) = (part.span, part.state) else {
            return None;
        };
        let measured = span.measured?;
        let own_ticks = self.program.own_ticks(part.thread, place);
        let own_ns = self
            .catalog
            .timeline
            .duration_ns(part.ticks.start, own_ticks);
        let share = |of: u64| match own_ns {
            0 => 0,
            own_ns => (u128::from(ns) * u128::from(of.min(own_ns)) / u128::from(own_ns)) as u64,
        };
        Some(OffCpu {
            all_ns: share(measured.all_ns),
            queued_ns: share(measured.queued_ns.min(measured.all_ns)),
        })
    }
}

/// Returns what a task waits for, and the scope in which the holder took it: `cache ← evict`.
fn with_holder(cause: &Cause) -> String {
    match cause.has_holder() {
        true => format!("{} ← {}", cause.name, cause.holder()),
        false => cause.name.to_string(),
    }
}

/// Returns the names of some waits. Threads in a queue for one lock wait for each other.
fn names(causes: &[Arc<Cause>]) -> Vec<String> {
    let mut names: Vec<String> = causes.iter().map(|cause| cause.name.to_string()).collect();
    names.dedup();
    names
}

/// Returns a text as tables show it.
fn shown(text: &str) -> String {
    match text {
        "" => "-".to_owned(),
        text => printable(text),
    }
}

/// Sums the steps up, the longest rows first. The time of measured scopes is divided.
fn rows(steps: &[Step]) -> Vec<Row> {
    let mut sums: HashMap<(&str, &str, &'static str, &[String]), u64> = HashMap::new();
    for step in steps {
        let parts: Vec<(&'static str, u64)> = match step.off_cpu {
            Some(off) => {
                let queued = off.queued_ns.min(off.all_ns);
                let blocked = off.all_ns - queued;
                let running = step.duration_ns.saturating_sub(off.all_ns);
                vec![
                    ("running", running),
                    ("queued", queued),
                    ("blocked", blocked),
                ]
            }
            None => vec![(step.state, step.duration_ns)],
        };
        for (state, ns) in parts {
            if ns > 0 {
                let key = (&*step.thread, &*step.scope, state, &step.waits[..]);
                let sum = sums.entry(key).or_default();
                *sum = sum.saturating_add(ns);
            }
        }
    }
    let row = |((thread, scope, state, waits), total_ns): ((&str, &str, _, &[String]), _)| Row {
        thread: thread.to_owned(),
        scope: scope.to_owned(),
        state,
        waits: waits.to_vec(),
        total_ns,
    };
    let mut rows: Vec<Row> = sums.into_iter().map(row).collect();
    rows.sort_by(|a, b| {
        let key = |row: &Row| {
            (
                row.thread.clone(),
                row.scope.clone(),
                row.state,
                row.waits.clone(),
            )
        };
        b.total_ns
            .cmp(&a.total_ns)
            .then_with(|| key(a).cmp(&key(b)))
    });
    rows
}

fn print_rows(
    rows: &[Row],
    duration_ns: u64,
    limit: usize,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let columns = [
        Column::new("time", Kind::Number, 0),
        Column::new("share", Kind::Number, 1),
        Column::new("thread", Kind::Text, 0),
        Column::new("scope", Kind::Text, 0),
        Column::new("state", Kind::Text, 0),
        Column::new("while it waited for", Kind::Text, 0),
    ];
    let row = |row: &Row| {
        vec![
            units::duration(row.total_ns as f64),
            format!(
                "{:.1} %",
                row.total_ns as f64 * 100.0 / duration_ns.max(1) as f64
            ),
            shown(&row.thread),
            shown(&row.scope),
            row.state.to_owned(),
            shown(&row.waits.join(", ")),
        ]
    };
    let cells: Vec<Vec<String>> = rows.iter().take(limit).map(row).collect();
    write_table(out, &columns, &cells)?;
    note_more(rows.len(), limit, "more row", out)
}

fn print_steps(steps: &[Step], limit: usize, out: &mut impl Write) -> Result<(), Failure> {
    let columns = [
        Column::new("at", Kind::Number, 0),
        Column::new("time", Kind::Number, 0),
        Column::new("thread", Kind::Text, 0),
        Column::new("scope", Kind::Text, 0),
        Column::new("state", Kind::Text, 0),
        Column::new("while it waited for", Kind::Text, 0),
    ];
    let row = |step: &Step| {
        vec![
            units::duration(step.start_ns as f64),
            units::duration(step.duration_ns as f64),
            shown(&step.thread),
            shown(&step.scope),
            step.state.to_owned(),
            shown(&step.waits.join(", ")),
        ]
    };
    let cells: Vec<Vec<String>> = steps.iter().take(limit).map(row).collect();
    write_table(out, &columns, &cells)?;
    note_more(steps.len(), limit, "more step", out)
}

fn note_more(all: usize, limit: usize, thing: &str, out: &mut impl Write) -> Result<(), Failure> {
    match all.saturating_sub(limit) {
        0 => Ok(()),
        more => {
            let more = units::counted(more as u64, thing);
            writeln!(out, "and {more}; -n shows them").map_err(Failure::output)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use vor_capture::filled;
    use vor_capture::model::batch::{FlowPoint, ThreadBatch};
    use vor_capture::model::catalog::SiteId;
    use vor_fixtures::even;

    use super::*;

    fn interval(ticks: Range<u64>) -> Interval {
        Interval {
            ticks,
            title: "frame 4".into(),
            thread: None,
            task: None,
        }
    }

    #[test]
    fn spans_overlap_an_interval_if_they_share_a_moment_with_it() {
        const MAIN: ThreadId = ThreadId(0);
        const OTHER: ThreadId = ThreadId(1);
        let thread = |id, spans: &[(u64, u64)], flows: usize, dropped_spans| {
            filled!(ThreadBatch {
                thread: id,
                start_ticks: spans.iter().map(|span| span.0).collect(),
                duration_ticks: spans.iter().map(|span| span.1 - span.0).collect(),
                sites: vec![SiteId(1); spans.len()],
                flows: vec![FlowPoint::default(); flows],
                dropped_spans,
            })
        };
        let batches = [
            vec![
                thread(
                    MAIN,
                    &[(2, 10), (3, 11), (12, 15), (10, 20), (20, 30)],
                    2,
                    3,
                ),
                thread(OTHER, &[(19, 30)], 0, 4),
            ],
            vec![thread(MAIN, &[(18, 31), (1, 32), (40, 45)], 3, 5)],
        ];
        let mut gathered = Gathered::default();
        let counts: Vec<usize> = batches
            .map(|threads| {
                let batch = filled!(SpanBatch { threads });
                gathered.add(&batch, &interval(10..20), &mut WaitSpans::default());
                gathered.spans
            })
            .to_vec();
        let begins = |id| {
            let spans = gathered.threads[&id].spans.iter();
            spans.map(|span| (span.begin, span.end)).collect::<Vec<_>>()
        };
        assert_eq!(
            begins(MAIN),
            [(3, 11), (12, 15), (10, 20), (18, 31), (1, 32)]
        );
        assert_eq!(begins(OTHER), [(19, 30)]);
        assert_eq!(gathered.threads[&MAIN].flows.len(), 5);
        // Points of flows count too.
        assert_eq!(counts, [3 + 2 + 1, 6 + 2 + 3]);
        assert_eq!(gathered.dropped_spans, 3 + 4 + 5);
    }

    #[test]
    fn an_interval_with_too_many_spans_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        // Two frames of three spans.
        fs::write(&path, even::make(2, 3, true).bytes).unwrap();
        let mut source = Source::open(&path).unwrap();
        let (gathered, _) = gather(&mut source, &interval(0..u64::MAX), 6).unwrap();
        assert_eq!(gathered.spans, 6);
        for most in [5, 2] {
            let failure = gather(&mut source, &interval(0..u64::MAX), most).unwrap_err();
            let Failure::Message(line) = failure else {
                panic!("{failure:?}");
            };
            let expected = format!("frame 4 has more than {most} spans; choose a shorter interval");
            assert_eq!(line, format!("{}: {expected}", path.display()));
        }
    }

    #[test]
    fn a_scope_was_off_the_cpu_for_no_longer_than_it_lasted() {
        let measured = |begin, end, all_ns, queued_ns| Span {
            begin,
            end,
            site: SiteId(1),
            cause: None,
            measured: Some(OffCpu { all_ns, queued_ns }),
        };
        let off_cpu = |spans: Vec<Span>, ticks: Range<u64>| -> Vec<OffCpu> {
            let flows = Vec::new();
            let threads = [(ThreadId(0), Thread { spans, flows })];
            let program = Program::new(threads.into());
            let catalog = Catalog::default();
            let names = Names {
                catalog: &catalog,
                program: &program,
                begin: 0,
            };
            let parts = program.path(ThreadId(0), ticks);
            let steps = parts.into_iter().map(|part| names.step(&part.into()));
            steps.map(|step| step.off_cpu.unwrap()).collect()
        };
        let off = |all_ns, queued_ns| OffCpu { all_ns, queued_ns };
        // A third of it.
        assert_eq!(off_cpu(vec![measured(0, 60, 30, 12)], 20..40), [off(10, 4)]);
        // More of it was queued than it was off the CPU, and both are longer than it.
        assert_eq!(off_cpu(vec![measured(0, 60, 24, 30)], 20..40), [off(8, 8)]);
        assert_eq!(
            off_cpu(vec![measured(0, 60, 90, 99)], 20..40),
            [off(20, 20)]
        );
        // In a damaged capture, a call is longer than the one around it, which has no time.
        let damaged = vec![measured(0, 50, 30, 12), measured(10, 70, 12, 6)];
        assert_eq!(off_cpu(damaged, 0..40), [off(0, 0), off(6, 3)]);
    }

    #[test]
    fn rows_are_sums_of_steps_and_have_a_duration() {
        let step = |thread: &str, duration_ns, state, off_cpu: Option<(u64, u64)>| Step {
            start_ns: 0,
            duration_ns,
            thread: thread.to_owned(),
            scope: String::new(),
            state,
            waits: Vec::new(),
            off_cpu: off_cpu.map(|(all_ns, queued_ns)| OffCpu { all_ns, queued_ns }),
        };
        let steps = [
            step("main", 10, "in scope", Some((7, 5))),
            step("main", 20, "in scope", Some((6, 2))),
            step("main", 3, "in scope", None),
            step("main", 0, "woken", None),
            // All of it was in the queue.
            step("worker", 6, "in scope", Some((6, 9))),
        ];
        let rows = rows(&steps);
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (&*row.thread, row.state, row.total_ns))
            .collect();
        assert_eq!(
            rows,
            [
                ("main", "running", 3 + 14),
                ("main", "queued", 5 + 2),
                // Equal ones are in the order of their names.
                ("main", "blocked", 2 + 4),
                ("worker", "queued", 6),
                ("main", "in scope", 3),
            ]
        );
    }
}
