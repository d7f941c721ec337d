//! Export of a range of time of a capture, read from the capture itself.
//!
//! The frames around the range are read one after the other, so the range may be of any length.
//! From each come the spans, tasks, messages and events that end in the range, and the frame with
//! its metrics if it ends there itself.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use vor_capture::Error;
use vor_capture::filled;
use vor_capture::model::batch::{SpanArgs, SpanBatch, ThreadBatch};
use vor_capture::model::frame::{FrameSnapshot, TreeBuilder};
use vor_capture::model::timeline::TickMapper;
use vor_capture::reader::Capture;

use crate::export::{ExportFormat, accept, exporter};

/// Writes what ends in a range of time, in nanoseconds since the begin of the capture's first
/// frame. Steps of a task are left out if the task began earlier or ends later, and so are flows.
/// Returns the number of frames that could not be read.
///
/// # Errors
///
/// The writer fails, or the capture cannot be read.
pub fn export_time(
    capture: &mut Capture,
    (begin_ns, end_ns): (i64, i64),
    format: ExportFormat,
    writer: impl Write + Send,
) -> Result<u64, Error> {
    let Some(zero_ns) = begin_of(capture) else {
        return Err(Error::config("the capture has no frame".to_owned()));
    };
    let (begin_ns, end_ns) = (
        zero_ns.saturating_add(begin_ns),
        zero_ns.saturating_add(end_ns),
    );
    let frames = frames_around(capture, begin_ns, end_ns);
    let tasks = tasks_within(capture, frames.clone(), begin_ns, end_ns)?;
    let mut sink = exporter(format, writer);
    let mut trees = TreeBuilder::new(usize::MAX);
    let mut lost = 0;
    for frame in frames {
        let Some((head, threads)) = read(capture, frame)? else {
            lost += 1;
            continue;
        };
        let catalog = Arc::clone(capture.catalog());
        let mut clock = TickMapper::new(&catalog.timeline);
        let mut within = |ticks: u64| {
            let ns = clock.unix_ns(ticks);
            begin_ns < ns && ns <= end_ns
        };
        let ends_here = within(head.end_ticks);
        let threads = threads.iter();
        let clipped = threads.map(|thread| clipped(thread, &tasks, &mut within));
        let threads: Vec<ThreadBatch> = clipped.filter(|thread| !thread.is_empty()).collect();
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: threads,
        });
        // A table of spans names the frame of each, also of one that ends outside.
        let is_named = sink.interest().trees && !batch.is_empty();
        let head = (ends_here || is_named).then(|| {
            let mut head = FrameSnapshot::clone(&head);
            head.catalog = catalog;
            head
        });
        accept(&mut *sink, &mut trees, &batch, head)?;
    }
    sink.finish()?;
    Ok(lost)
}

/// Returns the begin of the first frame that can be read, in nanoseconds since 1970.
fn begin_of(capture: &mut Capture) -> Option<i64> {
    let first = capture.summaries(0).find_map(Result::ok)?;
    Some(capture.catalog().unix_ns(first.start_ticks))
}

/// Returns the frames that overlap a range, and one on each side: a span is stored with the frame
/// in which it ended, give or take a moment.
fn frames_around(capture: &mut Capture, begin_ns: i64, end_ns: i64) -> Range<u64> {
    let catalog = Arc::clone(capture.catalog());
    let mut clock = TickMapper::new(&catalog.timeline);
    let (mut first, mut end) = (None, 0);
    for (frame, summary) in (0..).zip(capture.summaries(0)) {
        let Ok(summary) = summary else {
            continue;
        };
        let (from, to) = (
            clock.unix_ns(summary.start_ticks),
            clock.unix_ns(summary.end_ticks),
        );
        if from > end_ns {
            break;
        }
        if to >= begin_ns {
            first.get_or_insert(frame);
            end = frame + 1;
        }
    }
    let count = capture.frame_count();
    first.map_or(0..0, |first: u64| {
        first.saturating_sub(1)..(end + 1).min(count)
    })
}

/// A frame, and what was recorded in it by thread.
type ReadFrame = (Arc<FrameSnapshot>, Vec<ThreadBatch>);

/// Reads a frame; `None` if it is lost.
fn read(capture: &mut Capture, frame: u64) -> Result<Option<ReadFrame>, Error> {
    match capture.recovered_batches(frame) {
        Ok((recovered, batches)) => {
            let frame = recovered.frame;
            let threads = match frame.threads.is_empty() {
                true => batches,
                false => SpanBatch::of_trees(&frame).threads,
            };
            Ok(Some((frame, threads)))
        }
        Err(error) if error.is_corrupt() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the tasks that begin and end in a range.
fn tasks_within(
    capture: &mut Capture,
    frames: Range<u64>,
    begin_ns: i64,
    end_ns: i64,
) -> Result<FxHashSet<u64>, Error> {
    let mut tasks = FxHashSet::default();
    for frame in frames {
        let Some((_, threads)) = read(capture, frame)? else {
            continue;
        };
        let catalog = Arc::clone(capture.catalog());
        let mut clock = TickMapper::new(&catalog.timeline);
        for task in threads.iter().flat_map(|thread| &thread.async_spans) {
            let (from, to) = (
                clock.unix_ns(task.start_ticks),
                clock.unix_ns(task.end_ticks()),
            );
            if begin_ns < from && to <= end_ns {
                tasks.insert(task.id);
            }
        }
    }
    Ok(tasks)
}

/// Returns what of a thread ends in the range.
fn clipped(
    thread: &ThreadBatch,
    tasks: &FxHashSet<u64>,
    mut within: impl FnMut(u64) -> bool,
) -> ThreadBatch {
    let mut kept = filled!(ThreadBatch {
        thread: thread.thread,
        dropped_spans: thread.dropped_spans,
    });
    let mut args = thread.args.iter().peekable();
    for i in 0..thread.len() {
        while args.next_if(|args| (args.span as usize) < i).is_some() {}
        let own = args.next_if(|args| args.span as usize == i);
        if !within(thread.end_ticks(i)) {
            continue;
        }
        if let (Some(own), Ok(span)) = (own, u32::try_from(kept.len())) {
            let values = own.values.clone();
            kept.args.push(filled!(SpanArgs { span, values }));
        }
        kept.start_ticks.push(thread.start_ticks[i]);
        kept.duration_ticks.push(thread.duration_ticks[i]);
        kept.sites.push(thread.sites[i]);
    }
    let messages = thread.messages.iter();
    kept.messages = messages
        .filter(|message| within(message.ticks))
        .cloned()
        .collect();
    let ended = thread.async_spans.iter();
    kept.async_spans = ended
        .filter(|task| within(task.end_ticks()))
        .cloned()
        .collect();
    let events = thread.task_events.iter();
    kept.task_events = events
        .filter(|event| tasks.contains(&event.task))
        .cloned()
        .collect();
    kept
}
