//! The Firefox Profiler's processed profile: JSON that profiler.firefox.com opens.
//!
//! | what | in the profile |
//! |---|---|
//! | span | frames of the thread's samples |
//! | span with arguments | also a marker of its name, with a typed field per argument |
//! | message | marker `message` at its time |
//! | task | marker of its name on the thread where it ended |
//! | frame | marker `frame` on a separate thread, `frames and metrics` |
//! | memory metric in bytes | counter |
//! | other metric | markers of its name with a graph, on that thread |
//! | dropped spans | marker `dropped spans`, with their number |
//!
//! A sample is an interval between two consecutive begins or ends. It has the open stack, the time
//! of its begin, and its duration in milliseconds as weight. So the call tree and the flame graph
//! show exact self times, and the stack chart shows every span. The crate that makes the profile
//! has integer weights; they are nanoseconds until they are written.
//!
//! The profile is in memory until [`finish`](FrameSink::finish) writes it: a span takes about 80
//! bytes, one with arguments about 150. [`FirefoxExporter::max_spans`] bounds that. Beyond the
//! bound, spans, messages, tasks and frames are skipped and counted. Spans that were open at that
//! point are kept, because they enclose spans in the profile. A marker in the profile has the
//! number of skipped ones, and `vor export` reports it on stderr.

mod markers;

use std::io::{self, Write};
use std::sync::Arc;

use fxprof_processed_profile::{
    CpuDelta, Frame, FrameFlags, FrameInfo, ProcessHandle, Profile, ReferenceTimestamp,
    SamplingInterval, StackHandle, ThreadHandle, Timestamp, WeightType,
};
use rustc_hash::FxHashMap;
use serde::Serialize;
use vor_capture::Error;
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};

use self::markers::Markers;
use crate::chunked::CHUNK_BYTES;
use crate::labels::{FIRST_OWN_TID, frame_label, process_label, process_number, thread_label};
use crate::replay::Replay;
use crate::{origin_ns, since_origin_ns};

/// Writes a profile for the Firefox Profiler.
#[derive(Debug)]
pub struct FirefoxExporter<W: Write> {
    writer: W,
    replay: Replay,
    draft: Option<Draft>,
    max_spans: u64,
    accepted: u64,
    skipped: u64,
    /// End of the last span that was accepted within the bound, by thread.
    last_ticks: FxHashMap<ThreadId, u64>,
    finished: bool,
}

/// The profile so far.
#[derive(Debug)]
struct Draft {
    profile: Profile,
    process: ProcessHandle,
    pid: u32,
    threads: FxHashMap<ThreadId, ThreadHandle>,
    has_main: bool,
    /// Samples that long intervals may take in addition to one each.
    spare_samples: u64,
    /// The thread of frames and metrics.
    frames: ThreadHandle,
    markers: Markers,
}

/// The default of [`FirefoxExporter::max_spans`]. The viewer is slow beyond some millions.
const MAX_SPANS: u64 = 1 << 21;

/// Threads that the viewer shows initially.
const VISIBLE_THREADS: usize = 16;

impl<W: Write> FirefoxExporter<W> {
    /// Makes an exporter; only [`finish`](FrameSink::finish) writes.
    pub fn new(writer: W) -> Self {
        Self {
            writer,
            replay: Replay::default(),
            draft: None,
            max_spans: MAX_SPANS,
            accepted: 0,
            skipped: 0,
            last_ticks: FxHashMap::default(),
            finished: false,
        }
    }

    /// Sets the maximum number of spans, messages, tasks and frames; the default is 2^21.
    #[must_use]
    pub fn max_spans(mut self, max_spans: u64) -> Self {
        self.max_spans = max_spans;
        self
    }

    /// Returns the number of spans, messages, tasks and frames that were skipped beyond the
    /// maximum.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns the writer. It has received nothing unless the exporter was finished before.
    pub fn into_inner(self) -> W {
        self.writer
    }

    /// Counts a message, task or frame, and returns whether there is room for it.
    fn has_room(&mut self) -> bool {
        self.count(self.accepted < self.max_spans)
    }

    /// Counts the spans of a batch, and returns for each whether it is accepted.
    fn choose(&mut self, batch: &ThreadBatch) -> Vec<bool> {
        let mut last_ticks = self.last_ticks.remove(&batch.thread).unwrap_or_default();
        let choose = |i: usize| {
            let has_room = self.accepted < self.max_spans;
            // A span that began before the end of the last accepted one was open then, and may
            // enclose it.
            let fits = has_room || batch.start_ticks[i] < last_ticks;
            if has_room {
                last_ticks = batch.end_ticks(i);
            }
            self.count(fits)
        };
        let accepted = (0..batch.len()).map(choose).collect();
        self.last_ticks.insert(batch.thread, last_ticks);
        accepted
    }

    fn count(&mut self, is_accepted: bool) -> bool {
        if is_accepted {
            self.accepted += 1;
        } else {
            self.skipped += 1;
        }
        is_accepted
    }

    fn add_thread(&mut self, catalog: &Arc<Catalog>, batch: &ThreadBatch) -> io::Result<()> {
        let origin = origin_ns(catalog);
        let time =
            |ticks| Timestamp::from_nanos_since_reference(since_origin_ns(catalog, ticks, origin));
        let accepted = self.choose(batch);
        self.replay.push_thread(batch, |i| accepted[i])?;
        let draft = self.draft.get_or_insert_with(|| Draft::new(catalog));
        let thread = draft.thread(catalog, batch.thread);
        for args in &batch.args {
            let i = args.span as usize;
            if accepted.get(i) == Some(&true) {
                let times = (time(batch.start_ticks[i]), time(batch.end_ticks(i)));
                let site = (&**catalog, batch.sites[i]);
                draft
                    .markers
                    .span(&mut draft.profile, thread, times, site, &args.values);
            }
        }
        for message in &batch.messages {
            if self.has_room()
                && let Some(draft) = &mut self.draft
            {
                let at = time(message.ticks);
                draft
                    .markers
                    .message(&mut draft.profile, thread, at, &message.text);
            }
        }
        for task in &batch.async_spans {
            if self.has_room()
                && let Some(draft) = &mut self.draft
            {
                let times = (time(task.start_ticks), time(task.end_ticks()));
                let site = (&**catalog, task.site);
                draft
                    .markers
                    .task(&mut draft.profile, thread, times, site, task.id);
            }
        }
        Ok(())
    }

    fn add_frame(&mut self, frame: &FrameSnapshot) {
        if !self.has_room() {
            return;
        }
        let catalog = &frame.catalog;
        let origin = origin_ns(catalog);
        let time =
            |ticks| Timestamp::from_nanos_since_reference(since_origin_ns(catalog, ticks, origin));
        let draft = self.draft.get_or_insert_with(|| Draft::new(catalog));
        let (profile, thread) = (&mut draft.profile, draft.frames);
        let start = time(frame.start_ticks);
        let name = frame_label(catalog, frame.frame_set, "frame");
        let times = (start, time(frame.end_ticks).max(start));
        draft
            .markers
            .frame(profile, thread, times, &name, frame.index);
        for metric in &frame.metrics {
            if let Some(column) = catalog.columns.get(metric.column as usize)
                && metric.value.is_finite()
            {
                let place = (draft.process, thread, metric.column);
                draft
                    .markers
                    .metric(profile, place, &column.metric, start, metric.value);
            }
        }
        if frame.dropped_spans > 0 {
            let name = "dropped spans";
            draft
                .markers
                .count(profile, thread, start, name, frame.dropped_spans);
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let catalog = Arc::clone(self.replay.catalog());
        let draft = self.draft.get_or_insert_with(|| Draft::new(&catalog));
        draft.spare_samples = self.max_spans;
        for id in self.replay.threads() {
            let thread = draft.thread(&catalog, id);
            draft.samples(&mut self.replay, &catalog, id, thread)?;
        }
        if self.skipped > 0 {
            let start = Timestamp::from_nanos_since_reference(0);
            let name = "left out of the profile";
            draft
                .markers
                .count(&mut draft.profile, draft.frames, start, name, self.skipped);
        }
        let buffered = io::BufWriter::with_capacity(CHUNK_BYTES, &mut self.writer);
        let mut serializer =
            serde_json::Serializer::with_formatter(buffered, Milliseconds::default());
        draft.profile.serialize(&mut serializer)?;
        serializer.into_inner().flush()
    }
}

impl<W: Write + Send> FrameSink for FirefoxExporter<W> {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        if self.finished {
            return Err(Error::sink("the Firefox profile is already finished"));
        }
        self.replay.set_catalog(&batch.catalog);
        for thread in batch.threads.iter().filter(|thread| !thread.is_empty()) {
            let added = self.add_thread(&batch.catalog, thread);
            added.map_err(|error| {
                Error::io("cannot store the spans of the Firefox profile", error)
            })?;
        }
        Ok(())
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        if self.finished {
            return Err(Error::sink("the Firefox profile is already finished"));
        }
        self.replay.set_catalog(&frame.catalog);
        self.add_frame(frame);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        let written = self.write();
        written.map_err(|error| Error::io("cannot write the Firefox profile", error))
    }
}

impl Draft {
    fn new(catalog: &Catalog) -> Self {
        let name = process_label(catalog);
        let reference =
            ReferenceTimestamp::from_millis_since_unix_epoch(origin_ns(catalog) as f64 / 1e6);
        let mut profile = Profile::new(name, reference, SamplingInterval::from_millis(1));
        // Names are final, so the viewer needs no symbol server.
        profile.set_symbolicated(true);
        let start = Timestamp::from_nanos_since_reference(0);
        let pid = process_number(catalog);
        let process = profile.add_process(name, pid, start);
        let frames = profile.add_thread(process, FIRST_OWN_TID - 1, start, false);
        profile.set_thread_name(frames, "frames and metrics");
        profile.set_thread_show_markers_in_timeline(frames, true);
        profile.add_initial_visible_thread(frames);
        Self {
            profile,
            process,
            pid,
            threads: FxHashMap::default(),
            has_main: false,
            spare_samples: 0,
            frames,
            markers: Markers::default(),
        }
    }

    /// Returns the thread in the profile, under its current name.
    fn thread(&mut self, catalog: &Catalog, id: ThreadId) -> ThreadHandle {
        let label = thread_label(catalog, id);
        let os_id = catalog.thread(id).map_or(0, |thread| thread.os_id);
        let handle = match self.threads.get(&id) {
            Some(handle) => *handle,
            None => {
                // The viewer shows the main thread as the process, under the process's name.
                let is_main = !self.has_main && (os_id == u64::from(self.pid) || label == "main");
                self.has_main |= is_main;
                let own = FIRST_OWN_TID.saturating_add(id.0);
                let tid = match u32::try_from(os_id) {
                    Ok(tid) if tid != 0 && tid < FIRST_OWN_TID - 1 => tid,
                    _ => own,
                };
                let start = Timestamp::from_nanos_since_reference(0);
                let handle = self.profile.add_thread(self.process, tid, start, is_main);
                self.profile
                    .set_thread_samples_weight_type(handle, WeightType::TracingMs);
                if self.threads.len() < VISIBLE_THREADS {
                    self.profile.add_initial_visible_thread(handle);
                }
                self.threads.insert(id, handle);
                handle
            }
        };
        self.profile.set_thread_name(handle, &label);
        handle
    }

    /// Makes the samples of a thread.
    fn samples(
        &mut self,
        replay: &mut Replay,
        catalog: &Catalog,
        id: ThreadId,
        thread: ThreadHandle,
    ) -> io::Result<()> {
        let (profile, markers, spare) = (
            &mut self.profile,
            &mut self.markers,
            &mut self.spare_samples,
        );
        let mut frames = FxHashMap::default();
        let mut open: Vec<StackHandle> = Vec::new();
        let (mut from_ns, mut busy_ns) = (0, 0);
        for edge in replay.edges(id)? {
            let edge = edge?;
            let ns = from_ns..edge.ns;
            add_interval(
                profile,
                thread,
                open.last().copied(),
                ns,
                &mut busy_ns,
                spare,
            );
            from_ns = edge.ns;
            if edge.is_begin {
                let frame = *frames.entry(edge.site).or_insert_with(|| {
                    let category = markers.category(profile, catalog.site(edge.site));
                    let name = profile.intern_string(catalog.site_name(edge.site));
                    let info = FrameInfo {
                        frame: Frame::Label(name),
                        category_pair: category.into(),
                        flags: FrameFlags::empty(),
                    };
                    profile.intern_frame(thread, info)
                });
                open.push(profile.intern_stack(thread, open.last().copied(), frame));
            } else {
                open.pop();
            }
        }
        let end = Timestamp::from_nanos_since_reference(from_ns);
        profile.add_sample(thread, end, None, CpuDelta::from_nanos(busy_ns), 0);
        Ok(())
    }
}

/// Adds an interval with or without a stack. `busy_ns` is the CPU time of the previous sample and
/// the remainder of earlier ones, because the profile has whole microseconds.
fn add_interval(
    profile: &mut Profile,
    thread: ThreadHandle,
    stack: Option<StackHandle>,
    ns: std::ops::Range<u64>,
    busy_ns: &mut u64,
    spare: &mut u64,
) {
    // Weights have 31 bits, so an interval of more than two seconds is several samples. The
    // durations in a damaged capture must not exhaust the memory, so the number of additional
    // samples is bounded. The last sample of an interval then weighs less than its duration.
    const MAX_SAMPLE_NS: u64 = i32::MAX as u64;
    let mut at = ns.start;
    while at < ns.end {
        let mut part_ns = ns.end - at;
        let weight = if stack.is_some() {
            part_ns.min(MAX_SAMPLE_NS)
        } else {
            0
        };
        if part_ns > weight && weight > 0 && *spare > 0 {
            *spare -= 1;
            part_ns = weight;
        }
        let time = Timestamp::from_nanos_since_reference(at);
        profile.add_sample(
            thread,
            time,
            stack,
            CpuDelta::from_nanos(*busy_ns),
            weight as i32,
        );
        *busy_ns = *busy_ns % 1_000 + if stack.is_some() { part_ns } else { 0 };
        at += part_ns;
    }
}

/// Writes the weights of samples, which are nanoseconds, as milliseconds. They are the 32-bit
/// numbers of the field `weight`.
#[derive(Debug, Default)]
struct Milliseconds {
    key: Vec<u8>,
    in_key: bool,
    /// Whether the last key was `weight`; an array of numbers has no keys inside.
    is_weight: bool,
}

impl serde_json::ser::Formatter for Milliseconds {
    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.key.clear();
        self.in_key = true;
        serde_json::ser::CompactFormatter.begin_object_key(writer, first)
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.in_key = false;
        self.is_weight = self.key == b"weight";
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        text: &str,
    ) -> io::Result<()> {
        if self.in_key {
            self.key.extend_from_slice(text.as_bytes());
        }
        writer.write_all(text.as_bytes())
    }

    fn write_i32<W: ?Sized + Write>(&mut self, writer: &mut W, value: i32) -> io::Result<()> {
        if self.is_weight {
            write!(writer, "{}", f64::from(value) / 1e6)
        } else {
            write!(writer, "{value}")
        }
    }
}
