//! Export of some frames of a store to formats of other programs.
//!
//! The export contains the data in the panel. The exporters of `vor-recorder` take batches, with
//! spans in the order of their ends; a walk over a track leaves its spans in exactly that order.
//! Times count from the first exported moment.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use vor_capture::Error;
use vor_capture::filled;
use vor_capture::model::batch::{
    ArgValue, AsyncSpan, Message, SpanArgs, SpanBatch, TaskEvent, TaskEventKind, ThreadBatch,
};
use vor_capture::model::catalog::{Catalog, MachineInfo};
use vor_capture::model::frame::{FrameSnapshot, TreeBuilder};
use vor_capture::model::timeline::Timeline;
use vor_capture::sink::FrameSink;
use vor_export::chrome::ChromeExporter;
use vor_export::csv::SpanCsv;
use vor_export::perfetto::PerfettoExporter;

use crate::store::{
    Extent, FrameEntry, Span, SpanPart, SpanVisitor, Store, TaskArgs, Track, TrackKind, Walk,
};

pub use crate::export_time::export_time;

/// An export format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Perfetto's protobuf, for ui.perfetto.dev.
    Perfetto,
    /// Chrome's JSON, for about:tracing and Perfetto.
    Chrome,
    /// A line per span, for spreadsheets.
    SpanCsv,
}

impl ExportFormat {
    /// All formats, in the order of the menu.
    pub const ALL: [Self; 3] = [Self::Perfetto, Self::Chrome, Self::SpanCsv];

    /// Returns the name of the format.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Perfetto => "Perfetto trace",
            Self::Chrome => "Chrome trace",
            Self::SpanCsv => "Spans as CSV",
        }
    }

    /// Returns the file name extension, without the dot.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Perfetto => "pftrace",
            Self::Chrome => "json",
            Self::SpanCsv => "csv",
        }
    }
}

/// Writes the frames from the first to the last index, with the spans and tasks that end in them,
/// and with their messages and metrics. Steps of a task are left out if the task began earlier or
/// ends later, and so are frames that are lost.
///
/// # Errors
///
/// The writer fails.
pub fn export(
    store: &Store,
    frames: (usize, usize),
    format: ExportFormat,
    writer: impl Write + Send,
) -> Result<(), Error> {
    let mut sink = exporter(format, writer);
    write(store, frames, &mut *sink)
}

/// Makes an exporter of a format.
pub(crate) fn exporter<'a>(
    format: ExportFormat,
    writer: impl Write + Send + 'a,
) -> Box<dyn FrameSink + 'a> {
    match format {
        ExportFormat::Perfetto => Box::new(PerfettoExporter::new(writer)),
        ExportFormat::Chrome => Box::new(ChromeExporter::new(writer)),
        ExportFormat::SpanCsv => Box::new(SpanCsv::new(writer)),
    }
}

/// Passes the spans that ended in a frame to an exporter, and then the frame. Its trees are made of
/// these spans if the exporter needs them.
pub(crate) fn accept(
    sink: &mut dyn FrameSink,
    trees: &mut TreeBuilder,
    batch: &SpanBatch,
    frame: Option<FrameSnapshot>,
) -> Result<(), Error> {
    let interest = sink.interest();
    if interest.batches && !batch.is_empty() {
        sink.accept_batch(batch)?;
    }
    if interest.trees {
        trees.add_batch(batch);
    }
    let Some(mut frame) = frame else {
        return Ok(());
    };
    frame.threads = trees.finish().threads;
    sink.accept_frame(&Arc::new(frame))
}

fn write(
    store: &Store,
    (first, last): (usize, usize),
    sink: &mut dyn FrameSink,
) -> Result<(), Error> {
    // Ticks are nanoseconds here; an empty timeline expresses that.
    let catalog = Arc::new(filled!(Catalog {
        timeline: Arc::new(Timeline::default()),
        machine: Arc::new(filled!(MachineInfo {
            scope_ps: store.catalog().machine.scope_ps
        })),
        ..Catalog::clone(store.catalog())
    }));
    let last = last.min(store.frames().len().saturating_sub(1));
    let time = store.time_of(first..last + 1).unwrap_or(0..0);
    let zero_ns = zero_ns(store, &time);
    let mut trees = TreeBuilder::new(usize::MAX);
    let steps = store.tracks().iter().flat_map(|track| &track.steps);
    let with_steps: FxHashSet<u64> = steps.map(|step| step.task).collect();
    let frames = store.frames().iter().take(last + 1).skip(first);
    for frame in frames.filter(|frame| !frame.is_lost()) {
        let threads = store
            .tracks()
            .iter()
            .map(|track| thread_batch(track, frame, &with_steps, zero_ns, time.end));
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: threads.filter(|thread| !thread.is_empty()).collect(),
        });
        let head = filled!(FrameSnapshot {
            catalog: Arc::clone(&catalog),
            index: frame.number,
            start_ticks: ticks(frame.begin_ns, zero_ns),
            end_ticks: ticks(frame.end_ns, zero_ns),
            metrics: frame.metrics.clone(),
            dropped_spans: frame.dropped_spans,
            merged_marks: frame.merged_marks,
            span_count: frame.span_count,
        });
        accept(sink, &mut trees, &batch, Some(head))?;
    }
    sink.finish()
}

/// Returns the earliest exported moment: spans may begin before the frames in which they end.
fn zero_ns(store: &Store, time: &Range<i64>) -> i64 {
    let rows = store.tracks().iter().flat_map(|track| &track.rows);
    // Only the first span of a row can begin earlier.
    let firsts = rows.filter_map(|row| row.spans(time.start, time.end).next());
    let begins = firsts
        .filter(|span| span.end_ns() <= time.end)
        .map(|span| span.begin_ns);
    begins.fold(time.start, i64::min)
}

fn ticks(ns: i64, zero_ns: i64) -> u64 {
    u64::try_from(i128::from(ns) - i128::from(zero_ns)).unwrap_or(0)
}

/// Returns the data of a track that ended in a frame. All exported data ends by `until_ns`.
fn thread_batch(
    track: &Track,
    frame: &FrameEntry,
    with_steps: &FxHashSet<u64>,
    zero_ns: i64,
    until_ns: i64,
) -> ThreadBatch {
    let mut collect = Collect {
        track,
        zero_ns,
        batch: filled!(ThreadBatch {
            thread: track.id.thread().unwrap_or_default()
        }),
    };
    let mut walk = Walk::new(track, frame.begin_ns, frame.end_ns, Extent::Whole);
    while walk.resume(track, usize::MAX, &mut collect) {}
    let mut batch = collect.batch;
    let within = |ns: i64| ns > frame.begin_ns && ns <= frame.end_ns;
    let messages = track.messages.iter().filter(|message| within(message.ns));
    batch.messages = messages
        .map(|message| {
            filled!(Message {
                ticks: ticks(message.ns, zero_ns),
                text: Arc::clone(&message.text),
            })
        })
        .collect();
    let event = |task, site, ns, kind| {
        filled!(TaskEvent {
            task,
            site,
            start_ticks: ticks(ns, zero_ns),
            kind,
        })
    };
    if track.id.kind() == TrackKind::Tasks {
        // Exporters need the begin of a task to assign its steps.
        for row in &track.rows {
            let begun = row.spans(frame.begin_ns, frame.end_ns);
            let begun =
                begun.filter(|task| (frame.begin_ns..frame.end_ns).contains(&task.begin_ns));
            // A task without an end would get a false one.
            let begun = begun.filter(|task| task.end_ns() <= until_ns);
            let begins = begun.filter_map(|task| {
                let args = TaskArgs::read(row.args(&task))?;
                let begin = match args.given_id {
                    Some(given_id) => TaskEventKind::Begin { given_id },
                    // A task without a number begins with its first poll.
                    None if !with_steps.contains(&args.id) => return None,
                    None => TaskEventKind::Poll { duration_ticks: 0 },
                };
                Some(event(args.id, task.site, task.begin_ns, begin))
            });
            batch.task_events.extend(begins);
        }
    }
    let steps = track.steps.iter().filter(|step| within(step.ns));
    let steps = steps.map(|step| event(step.task, step.site, step.ns, TaskEventKind::Step));
    batch.task_events.extend(steps);
    batch.task_events.sort_by_key(|event| event.start_ticks);
    batch
}

struct Collect<'a> {
    track: &'a Track,
    zero_ns: i64,
    batch: ThreadBatch,
}

impl Collect<'_> {
    fn args(&self, span: &Span) -> &[ArgValue] {
        // The span's row is unknown here, but few rows have arguments.
        let mut rows = self.track.rows.iter().filter(|row| row.has_args());
        rows.find_map(|row| Some(row.args(span)).filter(|args| !args.is_empty()))
            .unwrap_or(&[])
    }
}

impl SpanVisitor for Collect<'_> {
    fn enter(&mut self, _: &Span, _: usize) {}

    fn leave(&mut self, span: &Span, _: usize, _: SpanPart) {
        let start_ticks = ticks(span.begin_ns, self.zero_ns);
        let values = self.args(span).to_vec();
        if self.track.id.kind() == TrackKind::Tasks {
            let id = TaskArgs::read(&values).map(|args| args.id);
            let id = id.unwrap_or(self.batch.async_spans.len() as u64);
            self.batch.async_spans.push(filled!(AsyncSpan {
                id,
                site: span.site,
                start_ticks,
                duration_ticks: span.duration_ns,
            }));
            return;
        }
        if !values.is_empty()
            && let Ok(at) = u32::try_from(self.batch.len())
        {
            self.batch.args.push(filled!(SpanArgs { span: at, values }));
        }
        self.batch.start_ticks.push(start_ticks);
        self.batch.duration_ticks.push(span.duration_ns);
        self.batch.sites.push(span.site);
    }
}
