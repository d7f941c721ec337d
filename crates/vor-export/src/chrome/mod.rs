//! The Chrome trace event format: JSON that `chrome://tracing`, Perfetto and many other viewers
//! open.
//!
//! A trace is an array of events in order of arrival. Viewers accept an array without an end, so
//! they can open the trace of a program that crashed; [`finish`](FrameSink::finish) closes the
//! array.
//!
//! | what | event |
//! |---|---|
//! | span | `X` on its thread, with its arguments |
//! | message | `i` on its thread, of category `message` |
//! | task | `b` and `e` of category `task` under its id, since tasks overlap; within it polls are `b` and `e`, and steps `n` |
//! | point of a flow | `s`, `t` or `f` on its thread, bound to the span around it |
//! | frame | `b` and `e` of category `frame`, on a separate track |
//! | metric | `C` at the begin of its frame |
//! | dropped spans | `C` named `dropped_spans`, from the first loss on |
//! | process, threads | `M` |
//!
//! Times are microseconds with three decimals since the begin of the recording, because viewers
//! read them as floating-point numbers, which cannot represent nanoseconds since 1970. Arguments
//! that JSON or viewers cannot represent as numbers (NaN, infinities, integers beyond `i64`) are
//! text. A metric without a finite value has no event.
//!
//! Spans are in order of their ends. Viewers nest spans of one thread and equal time in file order.
//! So among spans that end in the same nanosecond the last one is written first. The last spans of
//! a batch wait for the next batch, which may have more of the same nanosecond.
//!
//! An event is the text of its call site, the text of its thread, and two numbers. Both texts are
//! made once.

mod events;

use std::io::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::Error;
use vor_capture::model::batch::{ArgValue, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteInfo, ThreadId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};

use crate::chunked::ChunkedWriter;
use crate::labels::{ThreadNumbers, frame_label, process_label, process_number, thread_label};
use crate::per_site::PerSite;
use crate::tasks::OpenTasks;
use crate::text::{push_integer, push_json_str};
use crate::{arg_name, origin_ns, since_origin_ns};

/// Writes a Chrome trace.
#[derive(Debug)]
pub struct ChromeExporter<W: Write> {
    out: ChunkedWriter<W>,
    /// State of the array.
    stage: Stage,
    pid: u32,
    /// Text of an event before the thread, by call site.
    heads: PerSite<Box<[u8]>>,
    unknown_head: Box<[u8]>,
    threads: FxHashMap<ThreadId, Track>,
    numbers: ThreadNumbers,
    /// Text of a metric's events before the time, by column.
    counters: Vec<Option<Box<[u8]>>>,
    has_drops: bool,
    tasks: OpenTasks,
    /// The last catalog, for the names of tasks that are open when the trace ends.
    catalog: Arc<Catalog>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Empty,
    Open,
    Closed,
}

/// A thread in the trace.
#[derive(Debug)]
struct Track {
    tid: u64,
    label: String,
    /// Text of an event between the call site's and the time.
    middle: Box<[u8]>,
    /// Starts and texts of the spans that ended in the last nanosecond, in file order.
    pending: Vec<(u64, Vec<u8>)>,
    pending_end_ns: u64,
}

/// Most spans that wait for others of their nanosecond. Only a damaged capture has more.
const MAX_PENDING: usize = 1 << 10;

impl<W: Write> ChromeExporter<W> {
    /// Makes an exporter; nothing is written before the first batch or frame.
    pub fn new(writer: W) -> Self {
        Self {
            out: ChunkedWriter::new(writer, "cannot write the Chrome trace"),
            stage: Stage::Empty,
            pid: 0,
            heads: PerSite::default(),
            unknown_head: span_head("?", ""),
            threads: FxHashMap::default(),
            numbers: ThreadNumbers::default(),
            counters: Vec::new(),
            has_drops: false,
            tasks: OpenTasks::default(),
            catalog: Arc::default(),
        }
    }

    /// Returns the writer. Events that were not flushed or finished before are lost.
    pub fn into_inner(self) -> W {
        self.out.into_inner()
    }

    /// Writes the begin of the array and the name of the process, once.
    fn begin(&mut self, catalog: &Catalog) -> Result<(), Error> {
        match self.stage {
            Stage::Open => return Ok(()),
            Stage::Closed => return Err(Error::sink("the Chrome trace is already finished")),
            Stage::Empty => self.stage = Stage::Open,
        }
        self.pid = process_number(catalog);
        let out = &mut self.out.bytes;
        out.extend_from_slice(b"[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":");
        push_integer(out, self.pid);
        out.extend_from_slice(b",\"args\":{\"name\":");
        push_json_str(out, process_label(catalog));
        out.extend_from_slice(b"}}");
        Ok(())
    }

    /// Assigns a track to the thread under its current name, unless it has one.
    fn declare_thread(&mut self, catalog: &Catalog, thread: ThreadId) {
        let label = thread_label(catalog, thread);
        if let Some(track) = self.threads.get(&thread)
            && track.label == label
        {
            return;
        }
        let (tid, pending, pending_end_ns) = match self.threads.remove(&thread) {
            Some(track) => (track.tid, track.pending, track.pending_end_ns),
            None => (self.numbers.assign(catalog, thread), Vec::new(), 0),
        };
        let out = &mut self.out.bytes;
        out.extend_from_slice(b",\n{\"ph\":\"M\",\"name\":\"thread_name\"");
        push_ids(out, self.pid, tid);
        out.extend_from_slice(b",\"args\":{\"name\":");
        push_json_str(out, &label);
        out.extend_from_slice(b"}}");
        let track = Track {
            tid,
            label: label.into_owned(),
            middle: middle(self.pid, tid),
            pending,
            pending_end_ns,
        };
        self.threads.insert(thread, track);
    }

    /// Returns the text of a thread's events between name and time.
    fn thread_middle(&mut self, catalog: &Catalog, thread: ThreadId) -> Option<Box<[u8]>> {
        self.declare_thread(catalog, thread);
        self.threads.get(&thread).map(|track| track.middle.clone())
    }

    /// Returns the time of a tick, in nanoseconds since the begin of the recording.
    fn ns(&self, catalog: &Catalog, ticks: u64) -> u64 {
        since_origin_ns(catalog, ticks, origin_ns(catalog))
    }

    fn write_thread(&mut self, catalog: &Catalog, batch: &ThreadBatch) -> Result<(), Error> {
        if batch.start_ticks.is_empty() && batch.messages.is_empty() {
            return Ok(());
        }
        self.declare_thread(catalog, batch.thread);
        self.heads
            .update(catalog, |site| span_head(&site.name, category(site)));
        let origin = origin_ns(catalog);
        let since_origin_ns = |ticks| since_origin_ns(catalog, ticks, origin);
        let end_ns = |i: usize| since_origin_ns(batch.end_ticks(i));
        // The track leaves the table while it is written, because writing borrows `self`.
        let Some(mut track) = self.threads.remove(&batch.thread) else {
            return Ok(());
        };
        let mut result = Ok(());
        let mut args = batch.args.as_slice();
        let count = batch.len();
        let mut begin = 0;
        let mut run = Vec::new();
        while begin < count && result.is_ok() {
            let run_end_ns = end_ns(begin);
            let mut end = begin + 1;
            while end < count && end_ns(end) == run_end_ns {
                end += 1;
            }
            // A parent is the last to end, and is written first.
            run.clear();
            run.extend((begin..end).rev());
            run.sort_by_key(|&i| batch.start_ticks[i]);
            let put = |out: &mut Vec<u8>, i: usize| {
                let site = batch.sites[i];
                let head = self.heads.get(site).unwrap_or(&self.unknown_head);
                let start_ns = since_origin_ns(batch.start_ticks[i]);
                let times = (start_ns, run_end_ns.saturating_sub(start_ns));
                push_span(out, head, &track.middle, times);
                if args.first().is_some_and(|args| (args.span as usize) < end)
                    && let Ok(at) = args.binary_search_by_key(&i, |args| args.span as usize)
                {
                    push_args(out, catalog.site(site), &args[at].values);
                }
                out.push(b'}');
            };
            let continues = !track.pending.is_empty() && track.pending_end_ns == run_end_ns;
            let is_last = end == count;
            if continues || is_last {
                let mut texts: Vec<_> = run
                    .iter()
                    .map(|&i| {
                        let mut text = Vec::new();
                        put(&mut text, i);
                        (batch.start_ticks[i], text)
                    })
                    .collect();
                if continues {
                    texts.append(&mut track.pending);
                    texts.sort_by_key(|(start_ticks, _)| *start_ticks);
                }
                let earlier = std::mem::replace(&mut track.pending, texts);
                push_texts(&mut self.out.bytes, earlier);
                track.pending_end_ns = run_end_ns;
                if !is_last || track.pending.len() > MAX_PENDING {
                    push_texts(&mut self.out.bytes, std::mem::take(&mut track.pending));
                }
            } else {
                push_texts(&mut self.out.bytes, std::mem::take(&mut track.pending));
                for &i in &run {
                    put(&mut self.out.bytes, i);
                }
            }
            while let [first, rest @ ..] = args
                && (first.span as usize) < end
            {
                args = rest;
            }
            begin = end;
            result = self.out.write_full();
        }
        for message in &batch.messages {
            let out = &mut self.out.bytes;
            out.extend_from_slice(b",\n{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"message\",\"name\":");
            push_json_str(out, &message.text);
            out.extend_from_slice(&track.middle);
            push_us(out, since_origin_ns(message.ticks));
            out.push(b'}');
        }
        self.threads.insert(batch.thread, track);
        result
    }

    /// Writes the spans that wait for others of their nanosecond.
    fn write_pending(&mut self) {
        let mut threads: Vec<_> = self.threads.iter_mut().collect();
        threads.sort_unstable_by_key(|(thread, _)| **thread);
        for (_, track) in threads {
            push_texts(&mut self.out.bytes, std::mem::take(&mut track.pending));
        }
    }

    fn write_frame(&mut self, frame: &FrameSnapshot) {
        let catalog = &*frame.catalog;
        let start_ns = self.ns(catalog, frame.start_ticks);
        let end_ns = self.ns(catalog, frame.end_ticks).max(start_ns);
        let name = frame_label(catalog, frame.frame_set, "frame");
        let pid = self.pid;
        let out = &mut self.out.bytes;
        for (phase, ns) in [(b'b', start_ns), (b'e', end_ns)] {
            out.extend_from_slice(b",\n{\"ph\":\"");
            out.push(phase);
            out.extend_from_slice(b"\",\"cat\":\"frame\",\"id2\":{\"local\":\"");
            push_integer(out, frame.frame_set);
            out.push(b'.');
            push_integer(out, frame.index);
            out.extend_from_slice(b"\"},\"name\":");
            push_json_str(out, &name);
            push_ids(out, pid, u64::from(pid));
            out.extend_from_slice(b",\"ts\":");
            push_us(out, ns);
            out.extend_from_slice(b",\"args\":{\"index\":");
            push_integer(out, frame.index);
            out.extend_from_slice(b"}}");
        }
        for metric in &frame.metrics {
            self.write_counter(catalog, metric.column, metric.value, start_ns);
        }
        if frame.dropped_spans > 0 || self.has_drops {
            self.has_drops = true;
            let out = &mut self.out.bytes;
            out.extend_from_slice(b",\n{\"ph\":\"C\",\"name\":\"dropped_spans\",\"pid\":");
            push_integer(out, pid);
            out.extend_from_slice(b",\"ts\":");
            push_us(out, start_ns);
            out.extend_from_slice(b",\"args\":{\"value\":");
            push_integer(out, frame.dropped_spans);
            out.extend_from_slice(b"}}");
        }
    }

    fn write_counter(&mut self, catalog: &Catalog, column: u32, value: f64, ns: u64) {
        let Some(declared) = catalog.columns.get(column as usize) else {
            return;
        };
        if !value.is_finite() {
            return;
        }
        let at = column as usize;
        if self.counters.len() <= at {
            self.counters.resize(at + 1, None);
        }
        let pid = self.pid;
        let head = self.counters[at].get_or_insert_with(|| {
            let mut head = b",\n{\"ph\":\"C\",\"name\":".to_vec();
            push_json_str(&mut head, &declared.metric.name);
            head.extend_from_slice(b",\"pid\":");
            push_integer(&mut head, pid);
            head.extend_from_slice(b",\"ts\":");
            head.into()
        });
        let out = &mut self.out.bytes;
        out.extend_from_slice(head);
        push_us(out, ns);
        out.extend_from_slice(b",\"args\":{");
        let key = match declared.metric.unit.as_str() {
            "" => "value",
            unit => unit,
        };
        push_json_str(out, key);
        out.push(b':');
        push_finite(out, value);
        out.extend_from_slice(b"}}");
    }
}

impl<W: Write + Send> FrameSink for ChromeExporter<W> {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        self.begin(&batch.catalog)?;
        for thread in &batch.threads {
            self.write_thread(&batch.catalog, thread)?;
            self.write_flows(&batch.catalog, thread)?;
        }
        self.write_task_events(&batch.catalog, &batch.threads)?;
        // A task's events on other threads come before its end.
        for thread in &batch.threads {
            self.write_tasks(&batch.catalog, thread.thread, &thread.async_spans)?;
        }
        self.catalog = Arc::clone(&batch.catalog);
        self.out.write_full()
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.begin(&frame.catalog)?;
        self.write_frame(frame);
        self.out.write_full()
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.write_pending();
        self.out.flush()
    }

    fn finish(&mut self) -> Result<(), Error> {
        match self.stage {
            Stage::Closed => return Ok(()),
            Stage::Empty => self.out.bytes.extend_from_slice(b"[\n]\n"),
            Stage::Open => {
                let catalog = std::mem::take(&mut self.catalog);
                self.end_open_tasks(&catalog);
                self.write_pending();
                self.out.bytes.extend_from_slice(b"\n]\n");
            }
        }
        self.stage = Stage::Closed;
        self.flush()
    }
}

fn push_texts(out: &mut Vec<u8>, texts: Vec<(u64, Vec<u8>)>) {
    for (_, text) in texts {
        out.extend_from_slice(&text);
    }
}

/// Returns the category of a site's spans.
fn category(site: &SiteInfo) -> &str {
    if site.category.is_empty() {
        &site.module_path
    } else {
        &site.category
    }
}

fn span_head(name: &str, category: &str) -> Box<[u8]> {
    let mut head = b",\n{\"ph\":\"X\",\"name\":".to_vec();
    push_json_str(&mut head, name);
    if !category.is_empty() {
        head.extend_from_slice(b",\"cat\":");
        push_json_str(&mut head, category);
    }
    head.into()
}

/// Appends a span up to its arguments; `times_ns` are its start and its duration.
///
/// Not inlined: in the surrounding loop, its code takes half as long again.
#[inline(never)]
fn push_span(out: &mut Vec<u8>, head: &[u8], middle: &[u8], times_ns: (u64, u64)) {
    out.extend_from_slice(head);
    out.extend_from_slice(middle);
    push_us(out, times_ns.0);
    out.extend_from_slice(b",\"dur\":");
    push_us(out, times_ns.1);
}

/// Returns the text of events between name and time.
fn middle(pid: u32, tid: u64) -> Box<[u8]> {
    let mut middle = Vec::new();
    push_ids(&mut middle, pid, tid);
    middle.extend_from_slice(b",\"ts\":");
    middle.into()
}

fn push_ids(out: &mut Vec<u8>, pid: u32, tid: u64) {
    out.extend_from_slice(b",\"pid\":");
    push_integer(out, pid);
    out.extend_from_slice(b",\"tid\":");
    push_integer(out, tid);
}

/// Appends nanoseconds as microseconds with three decimals.
#[inline]
fn push_us(out: &mut Vec<u8>, ns: u64) {
    push_integer(out, ns / 1_000);
    let rest = (ns % 1_000) as u16;
    let digit = |value: u16| b'0' + (value % 10) as u8;
    out.extend_from_slice(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
}

fn push_args(out: &mut Vec<u8>, site: Option<&SiteInfo>, values: &[ArgValue]) {
    if values.is_empty() {
        return;
    }
    out.extend_from_slice(b",\"args\":{");
    for (position, value) in values.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        push_json_str(out, &arg_name(site, position));
        out.push(b':');
        match value {
            ArgValue::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            ArgValue::I64(value) => push_integer(out, *value),
            ArgValue::U64(value) if i64::try_from(*value).is_ok() => push_integer(out, *value),
            ArgValue::U64(value) => {
                out.push(b'"');
                push_integer(out, *value);
                out.push(b'"');
            }
            ArgValue::F64(value) if value.is_finite() => push_finite(out, *value),
            ArgValue::F64(value) => push_json_str(out, &value.to_string()),
            ArgValue::Str(value) => push_json_str(out, value),
            other => push_json_str(out, &other.to_string()),
        }
    }
    out.push(b'}');
}

/// Appends a finite number. Its debug form is JSON, and parses to the same bits.
fn push_finite(out: &mut Vec<u8>, value: f64) {
    // Writing to a `Vec` does not fail.
    drop(write!(out, "{value:?}"));
}

#[cfg(test)]
mod tests {
    use vor_capture::filled;
    use vor_capture::model::catalog::SiteId;

    use super::*;

    /// Returns the begins of spans in the order of the file. They end in one nanosecond and come in
    /// two batches; the second one has only the span around all.
    fn begins(children: usize) -> Vec<u64> {
        let mut exporter = ChromeExporter::new(Vec::new());
        let mut accept = |starts: Vec<u64>| {
            let thread = filled!(ThreadBatch {
                duration_ticks: starts.iter().map(|start| 10_000 - start).collect(),
                sites: vec![SiteId(1); starts.len()],
                start_ticks: starts
            });
            let batch = filled!(SpanBatch {
                threads: vec![thread]
            });
            exporter.accept_batch(&batch).unwrap();
        };
        accept((1..=children as u64).rev().collect());
        accept(vec![0]);
        exporter.finish().unwrap();
        let events: serde_json::Value = serde_json::from_slice(&exporter.into_inner()).unwrap();
        let events = events.as_array().unwrap().iter();
        let spans = events.filter(|event| event["ph"] == "X");
        spans
            .map(|span| (span["ts"].as_f64().unwrap() * 1e3).round() as u64)
            .collect()
    }

    #[test]
    fn spans_of_a_nanosecond_wait_for_their_parent_unless_they_are_too_many() {
        let children = MAX_PENDING as u64;
        let in_order: Vec<_> = (0..=children).collect();
        assert_eq!(begins(MAX_PENDING), in_order);
        let parent_last: Vec<_> = (1..=children + 1).chain([0]).collect();
        assert_eq!(begins(MAX_PENDING + 1), parent_last);
    }
}
