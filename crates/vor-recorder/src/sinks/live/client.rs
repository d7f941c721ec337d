//! The sink of one client: encodes what the client chose, and gives up whole batches while the
//! client's queue is full.
//!
//! Every loss is counted. The spans of a batch are in the dropped spans of the next
//! batch of their thread and of their frame. A frame that is given up is merged with the next one,
//! as marks are that come too fast: the next one begins where it began. So the stream is a whole
//! capture whose numbers agree.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use vor_capture::Error;
use vor_capture::filled;
use vor_capture::format::{Compression, Declared, Encoder, Header, RecordRef};
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::heap::HeapSnapshot;
use vor_capture::model::scheduler::SchedulerBatch;
use vor_capture::sink::{FrameSink, Interest};

use super::queue::Queue;
use super::request::Choice;
use super::server;
use crate::hot::{callsite, thread};
use crate::sinks::capture::{Moment, file_id, open_scopes};

/// Most spans that wait for the end of their frame, where only slow frames keep theirs.
const MAX_WAITING_SPANS: usize = 1 << 18;

/// Encodes for one client.
#[derive(Debug)]
pub(super) struct ClientSink {
    queue: Arc<Queue>,
    choice: Choice,
    encoder: Encoder,
    declared: Declared,
    catalog: Arc<Catalog>,
    /// Records that the queue does not have yet.
    buffer: Vec<u8>,
    /// Spans since the last frame of the main set that the client has, and those that it lacks.
    sent_spans: u64,
    dropped_spans: u64,
    /// Spans that the client lacks and that were not reported to it, by thread.
    unreported: Vec<(ThreadId, u64)>,
    /// Frames that were given up, by set: where the first one began, and how many marks they are.
    merged: Vec<(u32, u64, u64)>,
    /// Batches of the running frame, where only slow frames keep their spans.
    waiting: VecDeque<SpanBatch>,
    waiting_spans: usize,
    /// Spans of the running frame that found no room, by thread.
    overflow: Vec<(ThreadId, u64)>,
    has_finished: bool,
}

impl ClientSink {
    /// Begins a capture, with everything that `catalog` declares.
    pub(super) fn begin(queue: Arc<Queue>, choice: Choice, catalog: &Arc<Catalog>) -> Self {
        let start = Moment::now();
        let mut encoder = Encoder::new(Header {
            file_id: file_id(),
            pid: std::process::id(),
            flags: match choice {
                Choice::Metrics => 0,
                _ => Header::KEEPS_SPANS,
            },
            start_unix_ns: start.unix_ns,
            start_ticks: start.ticks,
        });
        // It takes longer than everything else. A client that stores the stream, or a tunnel, can
        // compress better.
        encoder.set_compression(Compression::Off);
        let mut sink = Self {
            queue,
            choice,
            encoder,
            declared: Declared::default(),
            catalog: Arc::default(),
            buffer: Vec::new(),
            sent_spans: 0,
            dropped_spans: 0,
            unreported: Vec::new(),
            merged: Vec::new(),
            waiting: VecDeque::new(),
            waiting_spans: 0,
            overflow: Vec::new(),
            has_finished: false,
        };
        sink.encoder.header(&mut sink.buffer);
        sink.declare(catalog);
        sink.hand_over();
        sink
    }

    fn declare(&mut self, catalog: &Arc<Catalog>) {
        let (encoder, out) = (&mut self.encoder, &mut self.buffer);
        self.declared.begin(catalog, encoder, out);
        self.declared.put(catalog, encoder, out);
        if !Arc::ptr_eq(&self.catalog.scope_modes, &catalog.scope_modes) {
            self.declared.put_modes(catalog, false, encoder, out);
        }
        self.catalog = Arc::clone(catalog);
    }

    fn hand_over(&mut self) {
        if !self.buffer.is_empty() {
            self.queue.push(&mut self.buffer);
        }
    }

    fn is_full(&self) -> bool {
        self.queue.bytes() + self.buffer.len() >= server::QUEUE_BYTES
    }

    /// Writes a batch, or gives it up.
    fn put_batch(&mut self, batch: &SpanBatch) {
        if self.is_full() {
            return self.give_up_batch(batch);
        }
        self.declare(&batch.catalog);
        self.report_missed();
        self.encoder
            .encode(RecordRef::Batch(batch), &mut self.buffer);
        self.sent_spans += batch.span_count() as u64;
        self.dropped_spans += dropped(batch);
    }

    fn give_up_batch(&mut self, batch: &SpanBatch) {
        self.catalog = Arc::clone(&batch.catalog);
        for share in &batch.threads {
            self.give_up(share.thread, contents(share) + share.dropped_spans);
            self.queue.miss(contents(share));
        }
    }

    fn give_up(&mut self, thread: ThreadId, spans: u64) {
        add(&mut self.unreported, thread, spans);
        self.dropped_spans += spans;
    }

    /// Writes a record beside batches and frames, or counts it as missed.
    fn put_or_miss(&mut self, record: RecordRef<'_>, catalog: &Arc<Catalog>) {
        if self.is_full() {
            self.queue.miss(1);
            return;
        }
        self.declare(catalog);
        self.encoder.encode(record, &mut self.buffer);
    }

    /// Writes which spans the client lacks.
    fn report_missed(&mut self) {
        if self.unreported.is_empty() {
            return;
        }
        let share = |(thread, dropped_spans)| {
            filled!(ThreadBatch {
                thread,
                dropped_spans,
            })
        };
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&self.catalog),
            threads: self.unreported.drain(..).map(share).collect(),
        });
        self.encoder
            .encode(RecordRef::Batch(&batch), &mut self.buffer);
    }

    /// Writes a frame with the spans that the client has of it, or merges it with the next one.
    fn put_frame(&mut self, frame: &FrameSnapshot, spans: FrameSpans) {
        let at = self
            .merged
            .iter()
            .position(|(set, ..)| *set == frame.frame_set);
        if self.is_full() {
            let marks = frame.merged_marks + 1;
            match at {
                Some(at) => self.merged[at].2 += marks,
                None => self
                    .merged
                    .push((frame.frame_set, frame.start_ticks, marks)),
            }
            self.queue.miss(1);
            return;
        }
        let (mut start_ticks, mut merged_marks) = (frame.start_ticks, frame.merged_marks);
        if let Some(at) = at {
            let (_, begin_ticks, marks) = self.merged.swap_remove(at);
            (start_ticks, merged_marks) = (begin_ticks, merged_marks + marks);
        }
        self.declare(&frame.catalog);
        let (span_count, dropped_spans) = match spans {
            FrameSpans::Sent => {
                self.report_missed();
                (
                    std::mem::take(&mut self.sent_spans),
                    std::mem::take(&mut self.dropped_spans),
                )
            }
            FrameSpans::None => (0, frame.dropped_spans),
        };
        let frame = filled!(FrameSnapshot {
            start_ticks,
            merged_marks,
            span_count,
            dropped_spans,
            ..frame.clone()
        });
        self.encoder
            .encode(RecordRef::Frame(&frame), &mut self.buffer);
    }

    /// Writes the spans of the frame that ends if it is slow.
    fn settle(&mut self, frame: &FrameSnapshot, limit: Duration) {
        let batches = std::mem::take(&mut self.waiting);
        let overflow = std::mem::take(&mut self.overflow);
        self.waiting_spans = 0;
        let ns = u64::try_from(frame.duration_ns()).unwrap_or(0);
        if Duration::from_nanos(ns) > limit {
            for (thread, spans) in overflow {
                self.give_up(thread, spans);
                self.queue.miss(spans);
            }
            for batch in &batches {
                self.put_batch(batch);
            }
        } else if self.merged.is_empty() {
            return self.put_frame(frame, FrameSpans::None);
        }
        self.put_frame(frame, FrameSpans::Sent);
    }

    fn wait(&mut self, batch: &SpanBatch) {
        self.waiting_spans += weight(batch);
        self.waiting.push_back(batch.clone());
        while self.waiting_spans > MAX_WAITING_SPANS
            && self.waiting.len() > 1
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.waiting_spans -= weight(&oldest);
            for share in &oldest.threads {
                let spans = contents(share) + share.dropped_spans;
                add(&mut self.overflow, share.thread, spans);
            }
        }
    }
}

/// Adds to the sum of a thread.
fn add(sums: &mut Vec<(ThreadId, u64)>, thread: ThreadId, spans: u64) {
    match sums.iter_mut().find(|(id, _)| *id == thread) {
        Some((_, sum)) => *sum += spans,
        None => sums.push((thread, spans)),
    }
}

/// Returns how much a share holds of what counts as dropped where it is given up.
fn contents(share: &ThreadBatch) -> u64 {
    let events = share.task_events.len() + share.flows.len();
    (share.len() + share.async_spans.len() + share.messages.len() + events) as u64
}

/// Whether the spans of a frame are in the stream.
#[derive(Clone, Copy, Debug)]
enum FrameSpans {
    Sent,
    None,
}

/// Returns the weight of a waiting batch, in spans.
fn weight(batch: &SpanBatch) -> usize {
    batch.span_count() + batch.async_span_count() + batch.event_count()
}

fn dropped(batch: &SpanBatch) -> u64 {
    let of = |share: &ThreadBatch| share.dropped_spans;
    batch.threads.iter().map(of).fold(0, u64::saturating_add)
}

impl FrameSink for ClientSink {
    /// Its lock is held by nobody who waits. Where only one thread is left, the holder may be gone.
    fn writes_file(&self) -> bool {
        cfg!(unix)
    }

    fn interest(&self) -> Interest {
        match self.choice {
            Choice::Metrics => Interest::METRICS,
            Choice::All | Choice::Slow(_) => Interest::BATCHES,
        }
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        if self.queue.is_closed() {
            return Ok(());
        }
        match self.choice {
            Choice::Slow(_) => self.wait(batch),
            Choice::All | Choice::Metrics => self.put_batch(batch),
        }
        Ok(())
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        if self.queue.is_closed() {
            return Ok(());
        }
        match self.choice {
            _ if frame.frame_set != 0 => self.put_frame(frame, FrameSpans::None),
            Choice::All => self.put_frame(frame, FrameSpans::Sent),
            Choice::Metrics => self.put_frame(frame, FrameSpans::None),
            Choice::Slow(limit) => self.settle(frame, limit),
        }
        Ok(())
    }

    fn accept_heap(
        &mut self,
        snapshot: &HeapSnapshot,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Error> {
        self.put_or_miss(RecordRef::Heap(snapshot), catalog);
        Ok(())
    }

    fn accept_scheduler(
        &mut self,
        batch: &SchedulerBatch,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Error> {
        self.put_or_miss(RecordRef::Scheduler(batch), catalog);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.hand_over();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.hand_over();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.has_finished = true;
        if self.queue.is_closed() {
            return Ok(());
        }
        let mut catalog = Arc::clone(&self.catalog);
        self.declare(&catalog);
        self.report_missed();
        if let Some(open) = open_scopes() {
            // A scope can be open whose site or thread has no ended scope yet.
            callsite::declare_new(&mut catalog);
            thread::declare_new(&mut catalog);
            self.declare(&catalog);
            self.encoder
                .encode(RecordRef::OpenScopes(&open), &mut self.buffer);
        }
        self.encoder.close(&catalog, &mut self.buffer);
        self.hand_over();
        self.queue.finish();
        Ok(())
    }
}

impl Drop for ClientSink {
    /// At the end of the process, the client's thread writes the rest within a bound for all
    /// clients.
    fn drop(&mut self) {
        if !self.has_finished {
            self.queue.close();
        } else if let Some(until) = server::end_bound() {
            self.queue.wait_until_written(until);
        }
    }
}
