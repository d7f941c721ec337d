//! The Chrome trace event format: JSON that `chrome://tracing`, Perfetto and many other viewers
//! open.
//!
//! A trace is an array of events, written as they come. Viewers accept an array whose end is
//! missing, so a trace of a program that crashed opens; [`finish`](FrameSink::finish) closes it.
//!
//! | what | event |
//! |---|---|
//! | span | `X` on its thread, with its arguments |
//! | message | `i` on its thread, of category `message` |
//! | task | `b` and `e` of category `task` under its id, since tasks overlap; its polls are `b` and `e` within, its steps `n` |
//! | point of a flow | `s`, `t` or `f` on its thread, bound to the span around it |
//! | frame | `b` and `e` of category `frame`, on a track of its own |
//! | metric | `C` at the begin of the frame that it describes |
//! | dropped spans | `C` named `dropped_spans`, from the first loss on |
//! | process, threads | `M` |
//!
//! Times are microseconds with three decimals since the begin of the recording, because viewers
//! read them as floating-point numbers, in which nanoseconds since 1970 do not fit. Numbers that
//! JSON or viewers cannot hold (NaN, infinities, integers beyond `i64`) are text in arguments; a
//! metric without a finite value has no event.
//!
//! Spans of one thread that have equal times nest in the order in which they are written. So of
//! spans that end in the same nanosecond those that ended last are written first, and the last ones
//! of a batch wait for the next batch, which may hold others; otherwise the order is that of
//! ending.
//!
//! The text of an event up to its thread is the same for all spans of a call site and made once;
//! then comes the thread's, then two numbers.

mod events;

use std::io::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::Error;
use vor_capture::model::batch::{ArgValue, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteInfo, ThreadId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};

use super::chunked::ChunkedWriter;
use super::tasks::OpenTasks;
use super::{Numbers, arg_name, origin_ns, push_i64, push_u64, thread_label};

/// Writes a Chrome trace.
#[derive(Debug)]
pub struct ChromeExporter<W: Write> {
    out: ChunkedWriter<W>,
    /// How far the array is.
    stage: Stage,
    pid: u32,
    /// Text of a call site's spans before the thread, by `SiteId - 1`.
    heads: Vec<Option<Box<[u8]>>>,
    /// The table from which `heads` was last made.
    sites: Arc<SiteTable>,
    unknown_head: Box<[u8]>,
    threads: FxHashMap<ThreadId, Track>,
    numbers: Numbers,
    /// Keys of metrics whose text needs no further look, by column.
    counters: Vec<Option<Box<[u8]>>>,
    drops_seen: bool,
    tasks: OpenTasks,
    /// The catalog seen last, to end what is open when the trace ends.
    catalog: Arc<Catalog>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Empty,
    Open,
    Closed,
}

/// As in [`Catalog::sites`].
type SiteTable = Vec<Option<Arc<SiteInfo>>>;

/// How a thread appears in the trace.
#[derive(Debug)]
struct Track {
    tid: u64,
    label: String,
    /// Text of its spans between the call site's and the start.
    middle: Box<[u8]>,
    /// The spans that ended last, with their starts, as they are to be written, and when they
    /// ended.
    last: Vec<(u64, Vec<u8>)>,
    last_end_ns: u64,
}

/// Spans that wait because others may end in their nanosecond: more do not do so in any program,
/// but in damaged captures.
const MOST_TOGETHER: usize = 1 << 10;

impl<W: Write> ChromeExporter<W> {
    /// Makes an exporter; nothing is written before the first batch or frame.
    pub fn new(writer: W) -> Self {
        Self {
            out: ChunkedWriter::new(writer, "cannot write the Chrome trace"),
            stage: Stage::Empty,
            pid: 0,
            heads: Vec::new(),
            sites: Arc::default(),
            unknown_head: span_head("?", ""),
            threads: FxHashMap::default(),
            numbers: Numbers::default(),
            counters: Vec::new(),
            drops_seen: false,
            tasks: OpenTasks::default(),
            catalog: Arc::default(),
        }
    }

    /// Returns the writer. What was not flushed or finished before is lost.
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
        // Process 0 is the idle process to viewers.
        self.pid = catalog.process.pid.max(1);
        self.out
            .bytes
            .extend_from_slice(b"[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":");
        push_u64(&mut self.out.bytes, u64::from(self.pid));
        self.out.bytes.extend_from_slice(b",\"args\":{\"name\":");
        let name = match catalog.process.name.as_str() {
            "" => "process",
            name => name,
        };
        push_json_str(&mut self.out.bytes, name);
        self.out.bytes.extend_from_slice(b"}}");
        Ok(())
    }

    /// Makes sure that the thread has a track, under its present name.
    fn declare_thread(&mut self, catalog: &Catalog, thread: ThreadId) {
        let label = thread_label(catalog, thread);
        if let Some(track) = self.threads.get(&thread)
            && track.label == label
        {
            return;
        }
        let (tid, last, last_end_ns) = match self.threads.remove(&thread) {
            Some(track) => (track.tid, track.last, track.last_end_ns),
            None => (self.numbers.of(catalog, thread), Vec::new(), 0),
        };
        let mut middle = Vec::new();
        push_place(&mut middle, self.pid, tid);
        middle.extend_from_slice(b",\"ts\":");
        self.out
            .bytes
            .extend_from_slice(b",\n{\"ph\":\"M\",\"name\":\"thread_name\"");
        push_place(&mut self.out.bytes, self.pid, tid);
        self.out.bytes.extend_from_slice(b",\"args\":{\"name\":");
        push_json_str(&mut self.out.bytes, &label);
        self.out.bytes.extend_from_slice(b"}}");
        let track = Track {
            tid,
            label: label.into_owned(),
            middle: middle.into(),
            last,
            last_end_ns,
        };
        self.threads.insert(thread, track);
    }

    /// Returns the text of events between name and time, for a thread.
    fn middle(&mut self, catalog: &Catalog, thread: ThreadId) -> Option<Box<[u8]>> {
        self.declare_thread(catalog, thread);
        self.threads.get(&thread).map(|track| track.middle.clone())
    }

    /// Returns the text of events between name and time, for the process as a whole.
    fn place_of_process(&self) -> Vec<u8> {
        let mut middle = Vec::new();
        push_place(&mut middle, self.pid, u64::from(self.pid));
        middle.extend_from_slice(b",\"ts\":");
        middle
    }

    /// Returns when a tick was, as events say it, but in nanoseconds.
    fn ns(&self, catalog: &Catalog, ticks: u64) -> u64 {
        since_origin_ns(catalog, ticks, origin_ns(catalog))
    }

    fn write_thread(&mut self, catalog: &Catalog, batch: &ThreadBatch) -> Result<(), Error> {
        if batch.start_ticks.is_empty() && batch.messages.is_empty() {
            return Ok(());
        }
        self.declare_thread(catalog, batch.thread);
        self.declare_sites(catalog);
        let origin = origin_ns(catalog);
        let since_origin_ns = |ticks| since_origin_ns(catalog, ticks, origin);
        let end_ns = |i: usize| since_origin_ns(batch.end_ticks(i));
        // The track leaves the table while it is written, since handing over takes all of `self`.
        let Some(mut track) = self.threads.remove(&batch.thread) else {
            return Ok(());
        };
        let mut result = Ok(());
        let mut args = batch.args.as_slice();
        let count = batch.len();
        let mut begin = 0;
        let mut run = Vec::new();
        while begin < count && result.is_ok() {
            let together_ns = end_ns(begin);
            let mut end = begin + 1;
            while end < count && end_ns(end) == together_ns {
                end += 1;
            }
            // Parents end last, and come first.
            run.clear();
            run.extend((begin..end).rev());
            run.sort_by_key(|&i| batch.start_ticks[i]);
            let put = |out: &mut Vec<u8>, i: usize| {
                let site = batch.sites[i];
                let head = (site.0 as usize)
                    .checked_sub(1)
                    .and_then(|at| self.heads.get(at)?.as_deref())
                    .unwrap_or(&self.unknown_head);
                let start_ns = since_origin_ns(batch.start_ticks[i]);
                let times = (start_ns, together_ns.saturating_sub(start_ns));
                push_span(out, head, &track.middle, times);
                if args.first().is_some_and(|args| (args.span as usize) < end)
                    && let Ok(at) = args.binary_search_by_key(&i, |args| args.span as usize)
                {
                    push_args(out, catalog.site(site), &args[at].values);
                }
                out.push(b'}');
            };
            let continues = !track.last.is_empty() && track.last_end_ns == together_ns;
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
                    texts.append(&mut track.last);
                    texts.sort_by_key(|(start_ticks, _)| *start_ticks);
                }
                let before = std::mem::replace(&mut track.last, texts);
                put_texts(&mut self.out.bytes, before);
                track.last_end_ns = together_ns;
                if !is_last || track.last.len() > MOST_TOGETHER {
                    put_texts(&mut self.out.bytes, std::mem::take(&mut track.last));
                }
            } else {
                put_texts(&mut self.out.bytes, std::mem::take(&mut track.last));
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
            self.out
                .bytes
                .extend_from_slice(b",\n{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"message\",\"name\":");
            push_json_str(&mut self.out.bytes, &message.text);
            self.out.bytes.extend_from_slice(&track.middle);
            push_us(&mut self.out.bytes, since_origin_ns(message.ticks));
            self.out.bytes.push(b'}');
        }
        self.threads.insert(batch.thread, track);
        result
    }

    /// Writes the spans that wait for others which ended with them.
    fn put_last(&mut self) {
        let mut threads: Vec<_> = self.threads.iter_mut().collect();
        threads.sort_unstable_by_key(|(thread, _)| **thread);
        for (_, track) in threads {
            put_texts(&mut self.out.bytes, std::mem::take(&mut track.last));
        }
    }

    /// Makes the text of the call sites that are new in the catalog.
    fn declare_sites(&mut self, catalog: &Catalog) {
        if Arc::ptr_eq(&self.sites, &catalog.sites) {
            return;
        }
        self.sites = Arc::clone(&catalog.sites);
        if self.heads.len() < catalog.sites.len() {
            self.heads.resize(catalog.sites.len(), None);
        }
        // A lost declaration may turn up later, so gaps are looked at again; there are few or none.
        for (head, site) in self.heads.iter_mut().zip(catalog.sites.iter()) {
            if let (None, Some(site)) = (&head, site) {
                *head = Some(span_head(&site.name, category(site)));
            }
        }
    }

    fn write_frame(&mut self, frame: &FrameSnapshot) {
        let catalog = &*frame.catalog;
        let origin = origin_ns(catalog);
        let start_ns = since_origin_ns(catalog, frame.start_ticks, origin);
        let end_ns = since_origin_ns(catalog, frame.end_ticks, origin);
        let set = catalog.frame_sets.get(frame.frame_set as usize);
        let set = set.map_or("", String::as_str);
        for (phase, ns) in [(b'b', start_ns), (b'e', end_ns.max(start_ns))] {
            self.out.bytes.extend_from_slice(b",\n{\"ph\":\"");
            self.out.bytes.push(phase);
            self.out
                .bytes
                .extend_from_slice(b"\",\"cat\":\"frame\",\"id2\":{\"local\":\"");
            push_u64(&mut self.out.bytes, u64::from(frame.frame_set));
            self.out.bytes.push(b'.');
            push_u64(&mut self.out.bytes, frame.index);
            self.out.bytes.extend_from_slice(b"\"},\"name\":");
            let name = match set {
                "" => "frame".to_owned(),
                set => format!("frame of {set}"),
            };
            push_json_str(&mut self.out.bytes, &name);
            push_place(&mut self.out.bytes, self.pid, u64::from(self.pid));
            self.out.bytes.extend_from_slice(b",\"ts\":");
            push_us(&mut self.out.bytes, ns);
            self.out.bytes.extend_from_slice(b",\"args\":{\"index\":");
            push_u64(&mut self.out.bytes, frame.index);
            self.out.bytes.extend_from_slice(b"}}");
        }
        for metric in &frame.metrics {
            self.write_counter(catalog, metric.column, metric.value, start_ns);
        }
        if frame.dropped_spans > 0 || self.drops_seen {
            self.drops_seen = true;
            self.out
                .bytes
                .extend_from_slice(b",\n{\"ph\":\"C\",\"name\":\"dropped_spans\",\"pid\":");
            push_u64(&mut self.out.bytes, u64::from(self.pid));
            self.out.bytes.extend_from_slice(b",\"ts\":");
            push_us(&mut self.out.bytes, start_ns);
            self.out.bytes.extend_from_slice(b",\"args\":{\"value\":");
            push_u64(&mut self.out.bytes, frame.dropped_spans);
            self.out.bytes.extend_from_slice(b"}}");
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
            push_u64(&mut head, u64::from(pid));
            head.extend_from_slice(b",\"ts\":");
            head.into()
        });
        self.out.bytes.extend_from_slice(head);
        push_us(&mut self.out.bytes, ns);
        self.out.bytes.extend_from_slice(b",\"args\":{");
        let key = match declared.metric.unit.as_str() {
            "" => "value",
            unit => unit,
        };
        push_json_str(&mut self.out.bytes, key);
        self.out.bytes.push(b':');
        push_finite(&mut self.out.bytes, value);
        self.out.bytes.extend_from_slice(b"}}");
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
        // What happened in a task on another thread comes before its end.
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
        self.put_last();
        self.out.flush()
    }

    fn finish(&mut self) -> Result<(), Error> {
        match self.stage {
            Stage::Closed => return Ok(()),
            Stage::Empty => self.out.bytes.extend_from_slice(b"[\n]\n"),
            Stage::Open => {
                let catalog = std::mem::take(&mut self.catalog);
                self.end_open_tasks(&catalog);
                self.put_last();
                self.out.bytes.extend_from_slice(b"\n]\n");
            }
        }
        self.stage = Stage::Closed;
        self.flush()
    }
}

fn put_texts(out: &mut Vec<u8>, texts: Vec<(u64, Vec<u8>)>) {
    for (_, text) in texts {
        out.extend_from_slice(&text);
    }
}

/// Returns the group a site's spans are shown in.
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

/// Appends a span up to its arguments; `times_ns` are its start and its length.
///
/// Kept out of the loop around it, where it compiles to code that takes half as long again.
#[inline(never)]
fn push_span(out: &mut Vec<u8>, head: &[u8], middle: &[u8], times_ns: (u64, u64)) {
    out.extend_from_slice(head);
    out.extend_from_slice(middle);
    push_us(out, times_ns.0);
    out.extend_from_slice(b",\"dur\":");
    push_us(out, times_ns.1);
}

fn push_place(out: &mut Vec<u8>, pid: u32, tid: u64) {
    out.extend_from_slice(b",\"pid\":");
    push_u64(out, u64::from(pid));
    out.extend_from_slice(b",\"tid\":");
    push_u64(out, tid);
}

/// Returns when a tick was, in nanoseconds since the begin of the recording; viewers refuse times
/// before it.
#[inline]
pub(crate) fn since_origin_ns(catalog: &Catalog, ticks: u64, origin_ns: i64) -> u64 {
    u64::try_from(catalog.unix_ns(ticks).saturating_sub(origin_ns)).unwrap_or(0)
}

/// Appends nanoseconds as microseconds with three decimals.
#[inline]
fn push_us(out: &mut Vec<u8>, ns: u64) {
    push_u64(out, ns / 1_000);
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
            ArgValue::I64(value) => push_i64(out, *value),
            ArgValue::U64(value) if i64::try_from(*value).is_ok() => push_u64(out, *value),
            ArgValue::U64(value) => {
                out.push(b'"');
                push_u64(out, *value);
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

/// Appends a finite number; its debug form is JSON and reads back to the same bits.
fn push_finite(out: &mut Vec<u8>, value: f64) {
    // Writing to a `Vec` does not fail.
    drop(write!(out, "{value:?}"));
}

/// Appends text as a JSON string, in raw UTF-8 but for what JSON cannot hold.
pub(crate) fn push_json_str(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut done = 0;
    for (i, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[done..i]);
        done = i + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }
    out.extend_from_slice(&bytes[done..]);
    out.push(b'"');
}
