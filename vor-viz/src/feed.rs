//! Frames from the running program.
//!
//! A sink on the drain's thread turns each finished frame into a [`FrameBlock`] and puts it into a
//! queue. The panel takes the waiting frames once per pass. The queue is bounded: if the panel
//! falls behind, the oldest frames lose their spans first. After a second without a pass, the sink
//! requests no spans at all.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use vor_capture::Error;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_recorder::drain::{SinkHandle, add_sink};
use web_time::Instant;

use crate::store::FrameBlock;

/// Maximum number of waiting frames; beyond it, the oldest are removed.
const MAX_FRAMES: usize = 8192;

/// Time without a pass of the panel after which the sink requests no spans.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// The panel's end of the queue. Dropping it removes the sink.
#[derive(Debug)]
pub(crate) struct Feed {
    queue: Arc<Mutex<Queue>>,
    _sink: SinkHandle,
}

/// A finished frame.
#[derive(Debug)]
pub(crate) struct FinishedFrame {
    /// The mark at its end, in ticks.
    pub(crate) end_ticks: u64,
    /// The frame; its spans are missing if too many waited.
    pub(crate) block: FrameBlock,
}

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<FinishedFrame>,
    spans: u64,
    max_spans: u64,
    last_poll: Instant,
}

/// The drain's end of the queue.
struct FeedSink {
    queue: Weak<Mutex<Queue>>,
    origin_ns: i64,
}

impl Feed {
    /// Adds a sink to the recorder. `origin_ns` is the origin of times, in nanoseconds since 1970.
    /// At most `max_spans` spans wait for the panel.
    pub(crate) fn new(origin_ns: i64, max_spans: u64) -> Self {
        let queue = Arc::new(Mutex::new(Queue {
            waiting: VecDeque::new(),
            spans: 0,
            max_spans,
            last_poll: Instant::now(),
        }));
        let sink = FeedSink {
            queue: Arc::downgrade(&queue),
            origin_ns,
        };
        Self {
            queue,
            _sink: add_sink("the panel", sink),
        }
    }

    /// Takes the waiting frames that ended by `until_ticks`, the oldest first. The others stay in
    /// the queue.
    pub(crate) fn take(&self, until_ticks: u64) -> VecDeque<FinishedFrame> {
        let mut queue = locked(&self.queue);
        queue.last_poll = Instant::now();
        let taken = queue
            .waiting
            .partition_point(|delivered| delivered.end_ticks <= until_ticks);
        let others = queue.waiting.split_off(taken);
        queue.spans = others
            .iter()
            .map(|other| other.block.frame.stored_spans)
            .sum();
        std::mem::replace(&mut queue.waiting, others)
    }
}

impl FrameSink for FeedSink {
    fn interest(&self) -> Interest {
        let watched = self
            .queue
            .upgrade()
            .is_some_and(|queue| locked(&queue).last_poll.elapsed() < IDLE_TIMEOUT);
        if watched {
            Interest::FRAMES
        } else {
            Interest::METRICS
        }
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        let Some(queue) = self.queue.upgrade().filter(|_| frame.frame_set == 0) else {
            return Ok(());
        };
        // The block is made before the lock is taken, so that the panel does not wait for it.
        let block = FrameBlock::new(frame, self.origin_ns);
        let mut queue = locked(&queue);
        queue.push(FinishedFrame {
            end_ticks: frame.end_ticks,
            block,
        });
        Ok(())
    }
}

impl Queue {
    fn push(&mut self, delivered: FinishedFrame) {
        self.spans += delivered.block.frame.stored_spans;
        self.waiting.push_back(delivered);
        let newest = self.waiting.len() - 1;
        let mut oldest = self.waiting.iter_mut().take(newest);
        while self.spans > self.max_spans
            && let Some(FinishedFrame { block, .. }) = oldest.next()
        {
            self.spans -= block.frame.stored_spans;
            block.frame.stored_spans = 0;
            block.threads.clear();
        }
        if self.waiting.len() > MAX_FRAMES
            && let Some(gone) = self.waiting.pop_front()
        {
            self.spans -= gone.block.frame.stored_spans;
        }
    }
}

fn locked(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    // A panic under the lock leaves a valid queue: each change is complete before anything can
    // fail.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
