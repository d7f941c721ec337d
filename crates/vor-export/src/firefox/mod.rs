//! The Firefox Profiler's processed profile: JSON that profiler.firefox.com opens.
//!
//! | what | in the profile |
//! |---|---|
//! | span | frames of the thread's samples |
//! | span with arguments | also a marker of its name, with a typed field per argument |
//! | message | marker `message` at its time |
//! | task | marker of its name on the thread where it ended |
//! | frame | marker `frame` on a thread of its own, called `frames and metrics` |
//! | metric of memory, in bytes | counter |
//! | other metric | markers of its name with a graph, on the same thread |
//! | dropped spans | marker `dropped spans`, with their number |
//!
//! What the viewer calls samples are here the pieces of time between two neighbouring begins or
//! ends: each has the stack that was open, the time at which it begins, and its length as weight,
//! in milliseconds. So the call tree and the flame graph show exact self times, and the stack chart
//! shows every span. The crate that makes the profile has whole numbers for weights; they are
//! nanoseconds until they are written.
//!
//! The profile stands in memory until [`finish`](FrameSink::finish) writes it: a span takes about
//! 80 bytes, one with arguments about 150. [`FirefoxExporter::max_spans`] bounds that. Beyond the
//! bound, spans, messages, tasks and frames are left out and counted, but for spans that were open
//! when it was reached: they are around what is held. The number of those left out is a marker in
//! the profile, and one line on stderr.

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
use super::chrome::since_origin_ns;
use super::chunked::CHUNK_BYTES;
use super::replay::Replay;
use super::{origin_ns, thread_label};

/// Writes a profile for the Firefox Profiler.
#[derive(Debug)]
pub struct FirefoxExporter<W: Write> {
    writer: W,
    replay: Replay,
    built: Option<Built>,
    max_spans: u64,
    held: u64,
    left_out: u64,
    /// When the last span that was held before the bound was reached has ended, by thread.
    last_ticks: FxHashMap<ThreadId, u64>,
    finished: bool,
}

/// The profile so far.
#[derive(Debug)]
struct Built {
    profile: Profile,
    process: ProcessHandle,
    pid: u32,
    threads: FxHashMap<ThreadId, ThreadHandle>,
    has_main: bool,
    /// Samples that long pieces of time may still take beyond one each.
    spare_samples: u64,
    /// The thread that carries what belongs to none.
    frames: ThreadHandle,
    markers: Markers,
}

/// Spans that are held unless [`FirefoxExporter::max_spans`] says otherwise. The viewer itself gets
/// slow beyond some millions.
const MAX_SPANS: u64 = 1 << 21;

/// Threads that the viewer shows at first.
const VISIBLE_THREADS: usize = 16;

/// Thread numbers that the operating system did not give begin here; Linux stays below 2^22.
const FIRST_MADE_TID: u32 = 1 << 30;

impl<W: Write> FirefoxExporter<W> {
    /// Makes an exporter; nothing is written before it is finished.
    pub fn new(writer: W) -> Self {
        Self {
            writer,
            replay: Replay::default(),
            built: None,
            max_spans: MAX_SPANS,
            held: 0,
            left_out: 0,
            last_ticks: FxHashMap::default(),
            finished: false,
        }
    }

    /// Sets how many spans, messages, tasks and frames are held at most; 2^21 unless it is said.
    #[must_use]
    pub fn max_spans(mut self, max_spans: u64) -> Self {
        self.max_spans = max_spans;
        self
    }

    /// Returns how many spans, messages, tasks and frames were left out because there were too
    /// many.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the writer. What was not finished before is lost.
    pub fn into_inner(self) -> W {
        self.writer
    }

    /// Returns whether there is room for one more message, task or frame, and counts it.
    fn has_room(&mut self) -> bool {
        let fits = self.held < self.max_spans;
        *(if fits {
            &mut self.held
        } else {
            &mut self.left_out
        }) += 1;
        fits
    }

    /// Says of each span of a batch whether it is held, and counts it.
    fn choose(&mut self, batch: &ThreadBatch) -> Vec<bool> {
        let last_ticks = self.last_ticks.entry(batch.thread).or_default();
        let choose = |i: usize| {
            // What began before the last span that is held has ended was open then, and may be
            // around it.
            let fits = self.held < self.max_spans || batch.start_ticks[i] < *last_ticks;
            if self.held < self.max_spans {
                *last_ticks = batch.end_ticks(i);
            }
            *(if fits {
                &mut self.held
            } else {
                &mut self.left_out
            }) += 1;
            fits
        };
        (0..batch.len()).map(choose).collect()
    }

    fn take_thread(&mut self, catalog: &Arc<Catalog>, batch: &ThreadBatch) -> io::Result<()> {
        let origin = origin_ns(catalog);
        let time =
            |ticks| Timestamp::from_nanos_since_reference(since_origin_ns(catalog, ticks, origin));
        let kept = self.choose(batch);
        self.replay.push_thread(batch, |i| kept[i])?;
        let built = self.built.get_or_insert_with(|| Built::new(catalog));
        let thread = built.thread(catalog, batch.thread);
        for args in &batch.args {
            let i = args.span as usize;
            if kept.get(i).is_some_and(|kept| *kept) {
                let times = (time(batch.start_ticks[i]), time(batch.end_ticks(i)));
                let site = (&**catalog, batch.sites[i]);
                built
                    .markers
                    .span(&mut built.profile, thread, times, site, &args.values);
            }
        }
        for message in &batch.messages {
            if self.has_room()
                && let Some(built) = &mut self.built
            {
                let at = time(message.ticks);
                built
                    .markers
                    .message(&mut built.profile, thread, at, &message.text);
            }
        }
        for task in &batch.async_spans {
            if self.has_room()
                && let Some(built) = &mut self.built
            {
                let times = (time(task.start_ticks), time(task.end_ticks()));
                let site = (&**catalog, task.site);
                built
                    .markers
                    .task(&mut built.profile, thread, times, site, task.id);
            }
        }
        Ok(())
    }

    fn take_frame(&mut self, frame: &FrameSnapshot) {
        if !self.has_room() {
            return;
        }
        let catalog = &frame.catalog;
        let origin = origin_ns(catalog);
        let time =
            |ticks| Timestamp::from_nanos_since_reference(since_origin_ns(catalog, ticks, origin));
        let built = self.built.get_or_insert_with(|| Built::new(catalog));
        let (profile, thread) = (&mut built.profile, built.frames);
        let start = time(frame.start_ticks);
        let set = catalog.frame_sets.get(frame.frame_set as usize);
        let set = set.map_or("", String::as_str);
        let times = (start, time(frame.end_ticks).max(start));
        built
            .markers
            .frame(profile, thread, times, set, frame.index);
        for metric in &frame.metrics {
            if let Some(column) = catalog.columns.get(metric.column as usize)
                && metric.value.is_finite()
            {
                let place = (built.process, thread, metric.column);
                built
                    .markers
                    .metric(profile, place, &column.metric, start, metric.value);
            }
        }
        if frame.dropped_spans > 0 {
            let name = "dropped spans";
            built
                .markers
                .count(profile, thread, start, name, frame.dropped_spans);
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let catalog = Arc::clone(self.replay.catalog());
        let built = self.built.get_or_insert_with(|| Built::new(&catalog));
        built.spare_samples = self.max_spans;
        for id in self.replay.threads() {
            let thread = built.thread(&catalog, id);
            built.samples(&mut self.replay, &catalog, id, thread)?;
        }
        if self.left_out > 0 {
            let start = Timestamp::from_nanos_since_reference(0);
            let name = "left out of the profile";
            built
                .markers
                .count(&mut built.profile, built.frames, start, name, self.left_out);
        }
        let buffered = io::BufWriter::with_capacity(CHUNK_BYTES, &mut self.writer);
        let mut serializer =
            serde_json::Serializer::with_formatter(buffered, Milliseconds::default());
        built.profile.serialize(&mut serializer)?;
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
        self.replay.see(&batch.catalog);
        for thread in batch.threads.iter().filter(|thread| !thread.is_empty()) {
            let taken = self.take_thread(&batch.catalog, thread);
            taken.map_err(|error| {
                Error::io("cannot hold the spans of the Firefox profile", error)
            })?;
        }
        Ok(())
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        if self.finished {
            return Err(Error::sink("the Firefox profile is already finished"));
        }
        self.replay.see(&frame.catalog);
        self.take_frame(frame);
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

impl Built {
    fn new(catalog: &Catalog) -> Self {
        let name = match catalog.process.name.as_str() {
            "" => "process",
            name => name,
        };
        let reference =
            ReferenceTimestamp::from_millis_since_unix_epoch(origin_ns(catalog) as f64 / 1e6);
        let mut profile = Profile::new(name, reference, SamplingInterval::from_millis(1));
        // There is nothing that a symbol server could tell.
        profile.set_symbolicated(true);
        let start = Timestamp::from_nanos_since_reference(0);
        let pid = catalog.process.pid.max(1);
        let process = profile.add_process(name, pid, start);
        let frames = profile.add_thread(process, FIRST_MADE_TID - 1, start, false);
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

    /// Returns the thread in the profile, under its present name.
    fn thread(&mut self, catalog: &Catalog, id: ThreadId) -> ThreadHandle {
        let label = thread_label(catalog, id);
        let os_id = catalog.thread(id).map_or(0, |thread| thread.os_id);
        let handle = match self.threads.get(&id) {
            Some(handle) => *handle,
            None => {
                // The viewer shows the main thread as its process, and calls it by the process's
                // name.
                let is_main = !self.has_main && (os_id == u64::from(self.pid) || label == "main");
                self.has_main |= is_main;
                let made = FIRST_MADE_TID.saturating_add(id.0);
                let tid = match u32::try_from(os_id) {
                    Ok(tid) if tid != 0 && tid < FIRST_MADE_TID - 1 => tid,
                    _ => made,
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
        for edge in replay.play(id)? {
            let edge = edge?;
            let ns = from_ns..edge.ns;
            piece(
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

/// Adds what a thread did in a piece of time: a stack, or nothing. `busy_ns` is the time that the
/// piece before it took, and what was left of earlier ones: the profile has whole microseconds.
fn piece(
    profile: &mut Profile,
    thread: ThreadHandle,
    stack: Option<StackHandle>,
    ns: std::ops::Range<u64>,
    busy_ns: &mut u64,
    spare: &mut u64,
) {
    // Weights have 31 bits, so what takes longer than two seconds is several samples. The lengths
    // that a damaged capture claims must not take all memory, so there is an end to that, and to
    // what they weigh.
    const LONGEST_NS: u64 = i32::MAX as u64;
    let mut at = ns.start;
    while at < ns.end {
        let mut part_ns = ns.end - at;
        let weight = if stack.is_some() {
            part_ns.min(LONGEST_NS)
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

/// Writes the weights of samples, which are nanoseconds, as milliseconds: the 32-bit numbers of the
/// field `weight`.
#[derive(Debug, Default)]
struct Milliseconds {
    /// The key that was written last; within an array of numbers there is none.
    key: Vec<u8>,
    in_key: bool,
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
        if self.key == b"weight" {
            write!(writer, "{}", f64::from(value) / 1e6)
        } else {
            write!(writer, "{value}")
        }
    }
}
