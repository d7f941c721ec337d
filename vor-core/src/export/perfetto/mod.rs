//! Perfetto traces: protobuf that `ui.perfetto.dev` and the trace processor open.
//!
//! A trace is a list of packets, written as they come; any beginning of it that ends with a whole packet is a trace.
//!
//! | what | in the trace |
//! |---|---|
//! | process, threads | tracks with their names and numbers |
//! | span | begin and end on its thread's track, with name, category, place in the source and typed arguments |
//! | message | instant on its thread's track, of category `message` |
//! | task | begin and end on a track among those of its name, in the group `tasks`, which no other task has at the same time; its polls within it, its steps as instants |
//! | point of a flow | arrow between the spans around two points |
//! | frame | span on the track `frames`, or `frames of NAME` |
//! | metric | counter with its unit, in the group `metrics`, at the begin of the frame that it describes |
//! | dropped spans | counter `dropped_spans`, from the first loss on |
//!
//! Times are nanoseconds of `CLOCK_BOOTTIME`, which a trace of the whole system counts by as well; a snapshot says what the wall clock and `CLOCK_MONOTONIC` were when
//! the recording began. A recording that does not know these has the wall clock's time.
//!
//! Each thread is a sequence of packets of its own, see `sequence`. What belongs to the whole process is sequence 1.
//!
//! A clock that ticks more rarely than every four nanoseconds gives a scope and the first one within it the same time. Viewers nest events of equal time in the order of
//! the file, and the begin of a scope that was open across drains comes behind what is within it. Then begins are shown up to 16 ns, and never half a tick, late: by so
//! much that there is room before them for those that come late.

mod schema;
mod counters;
mod names;
mod sort;
mod sequence;
mod process;
mod events;

use std::io::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;

pub use counters::CounterUnit;
pub use process::CounterTrack;

use self::names::{Name, Names};
use self::process::Process;
use self::schema::{annotation, event};
use self::sequence::Sequence;
use self::sort::Sorter;
use super::proto::{put_f64, put_i64, put_message, put_str, put_u64};
use super::tasks::OpenTasks;
use super::{Numbers, arg_name, thread_label};
use crate::Error;
use crate::batch::{ArgValue, SpanArgs, SpanBatch, ThreadBatch};
use crate::catalog::{Catalog, ThreadId};
use crate::clock::{RATE_BITS, TickMapper};
use crate::frame::FrameSnapshot;
use crate::sink::{FrameSink, Interest};

/// Writes a Perfetto trace.
#[derive(Debug)]
pub struct PerfettoExporter<W: Write> {
    writer: W,
    /// Packets that are not yet handed to `writer`.
    out: Vec<u8>,
    process: Option<Process>,
    threads: FxHashMap<ThreadId, Sequence>,
    numbers: Numbers,
    names: Names,
    tasks: OpenTasks,
    /// Number of the sequence that a new thread gets.
    next_sequence: u32,
    sorter: Sorter,
    catalog: Arc<Catalog>,
    finished: bool,
}

/// Packets are handed to the writer in pieces of about this size.
const PIECE_BYTES: usize = 64 * 1024;
/// Spans whose begins and ends are put in order at once: few enough for the first-level cache.
const BLOCK_SPANS: usize = 1 << 10;

/// Begins are moved within the tick where a tick is at least this long, and by so much at most.
const COARSE_TICK_NS: u64 = 4;
const MAX_SLACK_NS: u64 = 16;

impl<W: Write> PerfettoExporter<W> {
    /// Makes an exporter; nothing is written before the first batch or frame.
    pub fn new(writer: W) -> Self {
        Self::with_sequences_from(writer, 1)
    }

    /// Makes an exporter whose sequences of packets have the numbers from `first` on: where the traces of several processes go into one file, no two of them may have the
    /// same. [`next_sequence`](Self::next_sequence) says where the next process may begin.
    ///
    /// # Panics
    ///
    /// Panics when `first` is 0, which stands for no sequence.
    pub fn with_sequences_from(writer: W, first: u32) -> Self {
        assert!(first > 0, "sequence numbers begin at 1");
        Self {
            writer,
            out: Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4),
            process: None,
            threads: FxHashMap::default(),
            numbers: Numbers::default(),
            names: Names::default(),
            tasks: OpenTasks::default(),
            next_sequence: first,
            sorter: Sorter::default(),
            catalog: Arc::default(),
            finished: false,
        }
    }

    /// Begins the trace, before anything else is written: with a catalog its clock is known, and counters can be added.
    ///
    /// # Errors
    ///
    /// When the trace is already finished.
    pub fn start(&mut self, catalog: &Arc<Catalog>) -> Result<(), Error> {
        self.begin(catalog)
    }

    /// Adds a counter that the program fills itself; before [`start`](Self::start) it shows nothing.
    pub fn add_counter(
        &mut self,
        name: &str,
        unit: &CounterUnit,
        multiplier: u64,
        is_incremental: bool,
    ) -> CounterTrack {
        let Some(process) = &mut self.process else {
            return CounterTrack::default();
        };
        process.add_counter(&mut self.out, name, unit, multiplier, is_incremental)
    }

    /// Writes a counter's value at a tick; one that is not finite is left out.
    pub fn put_counter(&mut self, counter: CounterTrack, ticks: u64, value: f64) {
        if let Some(process) = self.process.as_ref().filter(|_| value.is_finite()) {
            let ns = process.times(&self.catalog).ns(ticks);
            process.put_counter(&mut self.out, counter, ns, value);
        }
    }

    /// Writes a counter's value at a tick.
    pub fn put_integer_counter(&mut self, counter: CounterTrack, ticks: u64, value: i64) {
        if let Some(process) = &self.process {
            let ns = process.times(&self.catalog).ns(ticks);
            process.put_integer_counter(&mut self.out, counter, ns, value);
        }
    }

    /// Returns the writer. What was not flushed or finished before is lost.
    pub fn into_inner(self) -> W {
        self.writer
    }

    /// Returns the first number of a sequence that this trace has not used.
    #[must_use]
    pub fn next_sequence(&self) -> u32 {
        self.next_sequence
    }

    /// Writes what a trace begins with, once, and notes the catalog.
    fn begin(&mut self, catalog: &Arc<Catalog>) -> Result<(), Error> {
        if self.finished {
            return Err(Error::sink("the Perfetto trace is already finished"));
        }
        if !Arc::ptr_eq(&self.catalog, catalog) {
            self.catalog = Arc::clone(catalog);
        }
        if self.process.is_none() {
            let process = Process::new(catalog, self.next_sequence);
            self.next_sequence += 1;
            process.put_begin(&mut self.out, catalog);
            self.process = Some(process);
        }
        Ok(())
    }

    /// Hands over what has gathered, if it is enough.
    fn hand_over(&mut self, at_least: usize) -> Result<(), Error> {
        if self.out.len() >= at_least {
            let result = self.writer.write_all(&self.out);
            self.out.clear();
            result.map_err(|error| Error::io("cannot write the Perfetto trace", error))?;
        }
        Ok(())
    }

    /// Makes sure that the thread has a track, under its present name.
    fn declare_thread(&mut self, catalog: &Catalog, thread: ThreadId, now_ns: u64) {
        let Some(process) = &self.process else { return };
        let label = thread_label(catalog, thread);
        if self
            .threads
            .get(&thread)
            .is_some_and(|sequence| sequence.label == label)
        {
            return;
        }
        let sequence = self.threads.entry(thread).or_insert_with(|| {
            let uuid = process.uuid_of_thread(thread);
            let mut sequence = Sequence::new(self.next_sequence, uuid, self.numbers.of(catalog, thread));
            self.next_sequence += 1;
            sequence.put_begin(&mut self.out, now_ns);
            sequence
        });
        sequence.label = label.into_owned();
        sequence.put_descriptor(&mut self.out, process.uuid, process.pid);
    }

    fn write_thread(&mut self, catalog: &Catalog, batch: &ThreadBatch) -> Result<(), Error> {
        let Some(process) = &self.process else {
            return Ok(());
        };
        if batch.start_ticks.is_empty() && batch.messages.is_empty() && batch.flows.is_empty() {
            return Ok(());
        }
        let times = process.times(catalog);
        let begin = [
            batch.start_ticks.iter().take(BLOCK_SPANS).min().copied(),
            batch.messages.first().map(|message| message.ticks),
            batch.flows.first().map(|point| point.ticks),
        ];
        let begin_ticks = begin.into_iter().flatten().min().unwrap_or(0);
        self.declare_thread(catalog, batch.thread, times.ns(begin_ticks));
        // The sequence leaves the table while it is written, since handing over takes all of `self`.
        let Some(mut sequence) = self.threads.remove(&batch.thread) else {
            return Ok(());
        };
        let result = self.write_spans(catalog, batch, times, &mut sequence);
        self.write_points(batch, times, &sequence);
        self.threads.insert(batch.thread, sequence);
        result
    }

    fn write_spans(
        &mut self,
        catalog: &Catalog,
        batch: &ThreadBatch,
        mut times: Times<'_>,
        sequence: &mut Sequence,
    ) -> Result<(), Error> {
        let has_args = !batch.args.is_empty();
        for block in (0..batch.len()).step_by(BLOCK_SPANS) {
            let block = block..batch.len().min(block + BLOCK_SPANS);
            sequence.begin_block();
            for edge in self.sorter.sort(&batch.start_ticks, block) {
                let i = edge.span();
                if edge.is_end() {
                    let ns = times.at(batch.end_ticks(i));
                    sequence.put_span_end(&mut self.out, ns);
                    continue;
                }
                let index = self.names.index(catalog, batch.sites[i]);
                let name = self.names.get(index);
                sequence.learn(&mut self.out, index, name);
                let ns = sequence.begin_ns(times.at(batch.start_ticks[i]), times.slack_ns);
                let at = |args: &SpanArgs| args.span as usize;
                let args = has_args.then(|| batch.args.binary_search_by_key(&i, at).ok());
                match args.flatten().map(|at| &batch.args[at].values) {
                    None if name.body_bytes > 0 => sequence.put_span_begin(&mut self.out, name, ns),
                    values => sequence.put_long_begin(&mut self.out, ns, |out| {
                        name.put_begin(out);
                        put_args(out, name, values.map_or(&[], |values| values));
                    }),
                }
            }
            self.hand_over(PIECE_BYTES)?;
        }
        Ok(())
    }
}

/// Appends the arguments of a span.
fn put_args(out: &mut Vec<u8>, name: &Name, values: &[ArgValue]) {
    for (position, value) in values.iter().enumerate() {
        put_message(out, event::DEBUG_ANNOTATIONS, |out| {
            if position < name.arg_names {
                put_u64(out, annotation::NAME_IID, name.first_arg_iid + position as u64);
            } else {
                put_str(out, annotation::NAME, &arg_name(None, position));
            }
            put_value(out, value);
        });
    }
}

fn put_value(out: &mut Vec<u8>, value: &ArgValue) {
    match value {
        ArgValue::Bool(value) => put_u64(out, annotation::BOOL, u64::from(*value)),
        ArgValue::I64(value) => put_i64(out, annotation::INT, *value),
        ArgValue::U64(value) => put_u64(out, annotation::UINT, *value),
        ArgValue::F64(value) => put_f64(out, annotation::DOUBLE, *value),
        ArgValue::Str(value) => put_str(out, annotation::STRING, value),
    }
}

impl PerfettoExporter<Vec<u8>> {
    /// Returns what was written so far, and forgets it.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.writer);
        bytes.append(&mut self.out);
        bytes
    }
}

/// From ticks to the trace's time.
#[derive(Clone, Copy, Debug)]
struct Times<'a> {
    ticks: TickMapper<'a>,
    /// What the trace's clock shows less what the wall clock does.
    offset_ns: i64,
    /// How far begins are moved where the clock is coarse, else 0.
    slack_ns: u64,
}

impl<'a> Times<'a> {
    fn new(catalog: &'a Catalog, offset_ns: i64) -> Self {
        let rate = catalog.timeline.syncs().last().map_or(0, |sync| sync.rate);
        Self {
            ticks: TickMapper::new(&catalog.timeline),
            offset_ns,
            slack_ns: match rate >> RATE_BITS {
                tick_ns if tick_ns < COARSE_TICK_NS => 0,
                tick_ns => (tick_ns / 2).min(MAX_SLACK_NS),
            },
        }
    }

    /// Returns the time of a tick.
    #[inline]
    fn ns(mut self, ticks: u64) -> u64 {
        self.at(ticks)
    }

    #[inline]
    fn at(&mut self, ticks: u64) -> u64 {
        let ns = self.ticks.unix_ns(ticks).saturating_add(self.offset_ns);
        u64::try_from(ns).unwrap_or(0)
    }
}

impl<W: Write + Send> FrameSink for PerfettoExporter<W> {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        self.begin(&batch.catalog)?;
        for thread in &batch.threads {
            self.write_thread(&batch.catalog, thread)?;
        }
        self.write_task_events(&batch.catalog, &batch.threads)?;
        // What happened in a task on another thread comes before its end.
        for thread in &batch.threads {
            self.write_tasks(&batch.catalog, &thread.async_spans);
        }
        self.hand_over(PIECE_BYTES)
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.begin(&frame.catalog)?;
        if let Some(process) = &mut self.process {
            process.put_frame(&mut self.out, frame);
        }
        self.hand_over(PIECE_BYTES)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.hand_over(1)?;
        let flushed = self.writer.flush();
        flushed.map_err(|error| Error::io("cannot write the Perfetto trace", error))
    }

    fn finish(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        let catalog = std::mem::take(&mut self.catalog);
        self.end_open_tasks(&catalog);
        self.flush()
    }
}
