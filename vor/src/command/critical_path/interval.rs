//! The interval whose critical path is shown: a frame, a call of a scope, or a task.

use std::ops::{ControlFlow, Range};

use vor_capture::model::batch::{AsyncSpan, SpanBatch};
use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::reader::Piece;

use crate::command::failure::Failure;
use crate::command::patterns::unknown;
use crate::command::progress::Progress;
use crate::command::range::FrameRange;
use crate::command::slowest;
use crate::command::source::Source;

/// The interval that the user chose.
#[derive(Clone, Debug)]
pub(super) enum Choice {
    /// The slowest frame.
    SlowestFrame,
    /// A frame by its number.
    Frame(u64),
    /// The longest call of a scope.
    Scope(String),
    /// The longest task of a name, or the task with an id.
    Task(String),
}

/// An interval of the capture.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    pub(super) ticks: Range<u64>,
    /// `frame 12`, for tables.
    pub(super) title: String,
    /// The thread of a call.
    pub(super) thread: Option<ThreadId>,
    /// The id of a task.
    pub(super) task: Option<u64>,
}

impl Choice {
    pub(super) fn find(&self, source: &mut Source) -> Result<Interval, Failure> {
        match self {
            Self::SlowestFrame => {
                let mut progress = Progress::new("reading", false);
                let slowest = slowest::find(source, 0, FrameRange::ALL, 1, &mut progress)?;
                frame(source, slowest.indices.first().copied().unwrap_or(0))
            }
            Self::Frame(number) => frame(source, *number),
            Self::Scope(name) => call(source, name),
            Self::Task(name) => task(source, name),
        }
    }
}

fn frame(source: &mut Source, number: u64) -> Result<Interval, Failure> {
    let range = FrameRange {
        from: number,
        to: Some(number.saturating_add(1)),
    };
    let position = source.positions(range)?.start;
    let frame = source
        .capture
        .frame(position)
        .map_err(|error| source.failure(error))?;
    if frame.index != number {
        return Err(source.failure(format!("frame {number} is lost: its records are damaged")));
    }
    Ok(Interval {
        ticks: frame.start_ticks..frame.end_ticks,
        title: format!("frame {number}"),
        thread: None,
        task: None,
    })
}

/// The longest of the intervals that a walk finds, the first of equal ones.
#[derive(Debug, Default)]
struct Longest(Option<Interval>);

impl Longest {
    fn offer(&mut self, begin: u64, duration: u64, make: impl FnOnce(Range<u64>) -> Interval) {
        let longest = self
            .0
            .as_ref()
            .map(|held| held.ticks.end - held.ticks.start);
        if longest.is_none_or(|longest| duration > longest) {
            self.0 = Some(make(begin..begin.saturating_add(duration)));
        }
    }
}

/// Passes the batches of a capture to `visit`.
fn batches(source: &mut Source, mut visit: impl FnMut(&SpanBatch)) -> Result<(), Failure> {
    let mut progress = Progress::new("reading", false);
    source.walk(&mut progress, |piece| {
        if let Piece::Batch(batch) = piece {
            visit(&batch);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(())
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn scope_names(catalog: &Catalog) -> Vec<String> {
    names(catalog.sites.iter().flatten().map(|site| &*site.name))
}

fn call(source: &mut Source, name: &str) -> Result<Interval, Failure> {
    let mut longest = Longest::default();
    batches(source, |batch| {
        for thread in &batch.threads {
            let spans = thread.start_ticks.iter().zip(&thread.duration_ticks);
            for ((&begin, &duration), &site) in spans.zip(&thread.sites) {
                if batch.catalog.site_name(site) == name {
                    longest.offer(begin, duration, |ticks| Interval {
                        ticks,
                        title: format!("the longest call of {name}"),
                        thread: Some(thread.thread),
                        task: None,
                    });
                }
            }
        }
    })?;
    longest.0.ok_or_else(|| {
        let known = scope_names(source.capture.catalog());
        source.failure(unknown("scope", name, &known))
    })
}

fn task(source: &mut Source, name: &str) -> Result<Interval, Failure> {
    let id: Option<u64> = name.parse().ok();
    let mut longest = Longest::default();
    batches(source, |batch| {
        let tasks = batch.threads.iter().flat_map(|thread| &thread.async_spans);
        let is_chosen =
            |task: &&AsyncSpan| Some(task.id) == id || batch.catalog.site_name(task.site) == name;
        for task in tasks.filter(is_chosen) {
            let name = batch.catalog.site_name(task.site);
            longest.offer(task.start_ticks, task.duration_ticks, |ticks| Interval {
                ticks,
                title: format!("task {name} ({})", task.id),
                thread: None,
                task: Some(task.id),
            });
        }
    })?;
    longest.0.ok_or_else(|| {
        let known = scope_names(source.capture.catalog());
        source.failure(unknown("task", name, &known))
    })
}
