//! Perfetto traces: protobuf that `ui.perfetto.dev` and the trace processor open.
//!
//! A trace is a list of packets. Any prefix that ends with a whole packet is a trace.
//!
//! | what | in the trace |
//! |---|---|
//! | process, threads | tracks with their names and numbers |
//! | span | begin and end on its thread's track, with name, category, place in the source and typed arguments |
//! | message | instant on its thread's track, of category `message` |
//! | task | begin and end on one of the tracks of its name in the group `tasks`, which no other task has at the same time; its polls are spans within it, its steps instants |
//! | point of a flow | arrow between the spans around two points |
//! | frame | span on the track `frames`, or `frames of NAME` |
//! | metric | counter with its unit, in the group `metrics`, at the begin of its frame |
//! | event of the scheduler | what ran on each processor, states of threads, and who woke them |
//! | dropped spans | counter `dropped_spans`, from the first loss on |
//!
//! Times are nanoseconds of `CLOCK_BOOTTIME`, as in a trace of the whole system. A snapshot has the
//! wall clock and `CLOCK_MONOTONIC` at the begin of the recording. A recording without these clocks
//! has the wall clock's time.
//!
//! Each thread has two sequences of packets, see `thread`. One further sequence has everything that
//! belongs to the whole process.
//!
//! Viewers nest events of equal time in file order, and a scope that is open across batches ends
//! after its children were written. So the begin of a span whose parent has not ended waits until
//! the parent is known to begin in another nanosecond, see `pending`. If the caller reports the
//! open scopes with [`accept_open`](FrameSink::accept_open), the wait is short. Otherwise it lasts
//! until the parent or the trace ends.

mod schema;
mod counters;
mod names;
mod sort;
mod sequence;
mod pending;
mod thread;
mod process;
mod events;
mod scheduler;

use std::io::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::Error;
use vor_capture::model::batch::{ArgValue, OpenStarts, SpanArgs, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::scheduler::SchedulerBatch;
use vor_capture::model::timeline::TickMapper;
use vor_capture::sink::{FrameSink, Interest};

pub use counters::CounterUnit;
pub use process::CounterTrack;

use self::names::{Name, Names};
use self::process::Process;
use self::schema::{annotation, event};
use self::sort::{Edge, Sorter};
use self::thread::{Begin, Thread};
use crate::arg_name;
use crate::chunked::ChunkedWriter;
use crate::labels::{ThreadNumbers, thread_label};
use crate::proto::{put_f64, put_i64, put_message, put_str, put_u64};
use crate::spill::Spill;
use crate::tasks::OpenTasks;

/// Writes a Perfetto trace.
#[derive(Debug)]
pub struct PerfettoExporter<W: Write> {
    out: ChunkedWriter<W>,
    process: Option<Process>,
    threads: FxHashMap<ThreadId, Thread>,
    /// Storage of many pending begins.
    spill: Spill,
    numbers: ThreadNumbers,
    names: Names,
    tasks: OpenTasks,
    /// Number of the next sequence.
    next_sequence: u32,
    sorter: Sorter,
    catalog: Arc<Catalog>,
    finished: bool,
}

/// Spans whose begins and ends are sorted together; they fit in the first-level cache.
const BLOCK_SPANS: usize = 1 << 10;

impl<W: Write> PerfettoExporter<W> {
    /// Makes an exporter; nothing is written before the first batch or frame.
    pub fn new(writer: W) -> Self {
        Self::with_sequences_from(writer, 1)
    }

    /// Makes an exporter whose sequences of packets are numbered from `first`. Traces of several
    /// processes in one file need distinct numbers; [`next_sequence`](Self::next_sequence) returns
    /// the first number for the next process.
    ///
    /// # Panics
    ///
    /// Panics when `first` is 0, which is not a valid sequence.
    pub fn with_sequences_from(writer: W, first: u32) -> Self {
        assert!(first > 0, "sequence numbers begin at 1");
        Self {
            out: ChunkedWriter::new(writer, "cannot write the Perfetto trace"),
            process: None,
            threads: FxHashMap::default(),
            spill: Spill::default(),
            numbers: ThreadNumbers::default(),
            names: Names::default(),
            tasks: OpenTasks::default(),
            next_sequence: first,
            sorter: Sorter::default(),
            catalog: Arc::default(),
            finished: false,
        }
    }

    /// Begins the trace. The catalog defines its clock; counters can be added from then on.
    ///
    /// # Errors
    ///
    /// The trace is already finished.
    pub fn start(&mut self, catalog: &Arc<Catalog>) -> Result<(), Error> {
        self.begin(catalog)
    }

    /// Adds a counter whose values the program writes. A counter that is added before
    /// [`start`](Self::start) has no effect.
    pub fn add_counter(&mut self, name: &str, unit: &CounterUnit, multiplier: u64) -> CounterTrack {
        self.declare_counter(name, unit, multiplier, false)
    }

    /// Adds a counter as [`add_counter`](Self::add_counter) does, whose values the viewer sums.
    pub fn add_incremental_counter(
        &mut self,
        name: &str,
        unit: &CounterUnit,
        multiplier: u64,
    ) -> CounterTrack {
        self.declare_counter(name, unit, multiplier, true)
    }

    fn declare_counter(
        &mut self,
        name: &str,
        unit: &CounterUnit,
        multiplier: u64,
        is_incremental: bool,
    ) -> CounterTrack {
        let Some(process) = &mut self.process else {
            return CounterTrack::default();
        };
        process.add_counter(&mut self.out.bytes, name, unit, multiplier, is_incremental)
    }

    /// Writes a counter's value at a tick; a value that is not finite is skipped.
    pub fn put_counter(&mut self, counter: CounterTrack, ticks: u64, value: f64) {
        if let Some(process) = self.process.as_ref().filter(|_| value.is_finite()) {
            let ns = process.times(&self.catalog).ns(ticks);
            process.put_counter(&mut self.out.bytes, counter, ns, value);
        }
    }

    /// Writes a counter's value at a tick.
    pub fn put_integer_counter(&mut self, counter: CounterTrack, ticks: u64, value: i64) {
        if let Some(process) = &self.process {
            let ns = process.times(&self.catalog).ns(ticks);
            process.put_integer_counter(&mut self.out.bytes, counter, ns, value);
        }
    }

    /// Returns the writer. Packets that were not flushed or finished before are lost.
    pub fn into_inner(self) -> W {
        self.out.into_inner()
    }

    /// Returns the first number of a sequence that this trace has not used.
    #[must_use]
    pub fn next_sequence(&self) -> u32 {
        self.next_sequence
    }

    /// Writes the first packets of the trace, once, and stores the catalog.
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
            process.put_begin(&mut self.out.bytes, catalog);
            self.process = Some(process);
        }
        Ok(())
    }

    /// Assigns a track to the thread under its current name, unless it has one.
    fn declare_thread(&mut self, catalog: &Catalog, thread: ThreadId, now_ns: u64) {
        let Some(process) = &self.process else { return };
        let label = thread_label(catalog, thread);
        if self
            .threads
            .get(&thread)
            .is_some_and(|thread| thread.label == label)
        {
            return;
        }
        let thread = self.threads.entry(thread).or_insert_with(|| {
            let uuid = process.uuid_of_thread(thread);
            let tid = self.numbers.assign(catalog, thread);
            let mut thread = Thread::new(self.next_sequence, uuid, tid);
            self.next_sequence += 2;
            thread.put_begin(&mut self.out.bytes, now_ns);
            thread
        });
        thread.label = label.into_owned();
        thread.put_descriptor(&mut self.out.bytes, process.uuid, process.pid);
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
        // The thread leaves the table while it is written, because writing borrows `self`.
        let Some(mut thread) = self.threads.remove(&batch.thread) else {
            return Ok(());
        };
        let result = self.write_spans(catalog, batch, times, &mut thread);
        self.write_points(batch, times, &mut thread);
        self.threads.insert(batch.thread, thread);
        result
    }

    fn write_spans(
        &mut self,
        catalog: &Catalog,
        batch: &ThreadBatch,
        mut times: Times<'_>,
        thread: &mut Thread,
    ) -> Result<(), Error> {
        thread.begin_batch(&mut self.spill).map_err(no_room)?;
        for block in (0..batch.len()).step_by(BLOCK_SPANS) {
            let block = block..batch.len().min(block + BLOCK_SPANS);
            let Self {
                out,
                spill,
                names,
                sorter,
                ..
            } = self;
            let out = &mut out.bytes;
            let pending_ticks = thread.begin_block(spill).map_err(no_room)?;
            let edges = sorter.sort(&batch.start_ticks, block);
            let is_late = |edge: &&Edge| {
                let start_ticks = batch.start_ticks[edge.span()];
                !edge.is_end() && pending_ticks.is_some_and(|ticks| start_ticks <= ticks)
            };
            let late = edges.iter().rev().take_while(is_late).count();
            let (edges, late) = edges.split_at(edges.len() - late);
            for (i, edge) in late.iter().enumerate() {
                let begin = begin(names, catalog, batch, &mut times, edge.span());
                let is_outermost = i + 1 == late.len();
                let written = thread.put_late_begin(out, spill, &begin, is_outermost);
                written.map_err(no_room)?;
            }
            for edge in edges.iter().rev() {
                let i = edge.span();
                if edge.is_end() {
                    thread.put_span_end(out, times.at(batch.end_ticks(i)));
                } else {
                    thread.put_span_begin(out, &begin(names, catalog, batch, &mut times, i));
                }
            }
            self.out.write_full()?;
        }
        Ok(())
    }

    /// Writes the pending begins of all threads.
    fn put_pending(&mut self) -> Result<(), Error> {
        let mut threads: Vec<_> = self.threads.keys().copied().collect();
        threads.sort_unstable();
        for id in threads {
            let Self {
                out,
                threads,
                spill,
                ..
            } = self;
            let Some(thread) = threads.get_mut(&id) else {
                continue;
            };
            let mut result = Ok(());
            let put = thread.put_pending(spill, |sequence, ns, refers, event| {
                sequence.put_event(&mut out.bytes, ns, refers, event);
                if result.is_ok() {
                    result = out.write_full();
                }
            });
            put.map_err(no_room)?;
            result?;
        }
        Ok(())
    }
}

fn no_room(error: std::io::Error) -> Error {
    Error::io(
        "cannot write spans of the Perfetto trace to a temporary file",
        error,
    )
}

/// Returns the begin of a span.
#[inline]
fn begin<'a>(
    names: &'a mut Names,
    catalog: &Catalog,
    batch: &'a ThreadBatch,
    times: &mut Times<'_>,
    i: usize,
) -> Begin<'a, impl Fn(&mut Vec<u8>)> {
    let index = names.index(catalog, batch.sites[i]);
    let name = names.get(index);
    let at = |args: &SpanArgs| args.span as usize;
    let has_args = !batch.args.is_empty();
    let args = has_args.then(|| batch.args.binary_search_by_key(&i, at).ok());
    let values = args.flatten().map(|at| &batch.args[at].values);
    Begin {
        ticks: batch.start_ticks[i],
        ns: times.at(batch.start_ticks[i]),
        name: (index, name),
        args: values.map(|values| move |out: &mut Vec<u8>| put_args(out, name, values)),
    }
}

/// Appends the arguments of a span.
fn put_args(out: &mut Vec<u8>, name: &Name, values: &[ArgValue]) {
    for (position, value) in values.iter().enumerate() {
        put_message(out, event::DEBUG_ANNOTATIONS, |out| {
            if position < name.arg_names {
                put_u64(
                    out,
                    annotation::NAME_IID,
                    name.first_arg_iid + position as u64,
                );
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
        other => put_str(out, annotation::STRING, &other.to_string()),
    }
}

impl PerfettoExporter<Vec<u8>> {
    /// Takes everything that was written so far.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        self.out.take()
    }
}

/// Converts ticks to the trace's time.
#[derive(Clone, Copy, Debug)]
struct Times<'a> {
    ticks: TickMapper<'a>,
    /// The trace's clock minus the wall clock.
    offset_ns: i64,
}

impl<'a> Times<'a> {
    fn new(catalog: &'a Catalog, offset_ns: i64) -> Self {
        Self {
            ticks: TickMapper::new(&catalog.timeline),
            offset_ns,
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
        // A task's events on other threads come before its end.
        for thread in &batch.threads {
            self.write_tasks(&batch.catalog, &thread.async_spans);
        }
        self.out.write_full()
    }

    fn wants_open(&self) -> bool {
        true
    }

    fn accept_open(&mut self, open: &OpenStarts) -> Result<(), Error> {
        let Some(process) = &self.process else {
            return Ok(());
        };
        let mut times = process.times(&self.catalog);
        for (thread, starts) in &open.threads {
            if let Some(thread) = self.threads.get_mut(thread) {
                let starts: Vec<_> = starts
                    .iter()
                    .map(|&start| (start, times.at(start)))
                    .collect();
                thread.settle(&mut self.out.bytes, open.as_of_ticks, &starts);
            }
        }
        self.out.write_full()
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.begin(&frame.catalog)?;
        if let Some(process) = &mut self.process {
            process.put_frame(&mut self.out.bytes, frame);
        }
        self.out.write_full()
    }

    fn accept_scheduler(
        &mut self,
        batch: &SchedulerBatch,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Error> {
        self.begin(catalog)?;
        if let Some(process) = &self.process {
            scheduler::put_batch(&mut self.out.bytes, process.times(catalog), batch);
        }
        self.out.write_full()
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.out.flush()
    }

    fn finish(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        let catalog = std::mem::take(&mut self.catalog);
        self.end_open_tasks(&catalog);
        self.put_pending()?;
        self.flush()
    }
}
