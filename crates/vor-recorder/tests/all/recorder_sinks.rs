//! Sinks that fail, each in its own way, beside one that does not.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use vor_capture::Error;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::setup::Config;
use vor_recorder::{drain, profile_scope, setup};

/// The maximum number of spans per frame that these tests keep as trees.
const MAX_SPANS: usize = 100;

fn begin() {
    Config::new().max_spans_per_frame(MAX_SPANS).enable();
    drain::frame_mark();
    drain::flush();
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Batch,
    Frame,
    Flush,
    Finish,
}

/// The calls of a sink: all, and those from the first one on that failed.
#[derive(Debug, Default)]
struct Calls {
    all: AtomicU64,
    since_failure: AtomicU64,
}

/// Fails at one place, with an error or a panic.
struct Fails {
    at: Place,
    panics: bool,
    calls: Arc<Calls>,
}

impl Fails {
    fn at(&self, place: Place) -> Result<(), Error> {
        self.calls.all.fetch_add(1, Ordering::Relaxed);
        let failed_before = self.calls.since_failure.load(Ordering::Relaxed) > 0;
        if self.at == place || failed_before {
            self.calls.since_failure.fetch_add(1, Ordering::Relaxed);
        }
        if self.at != place {
            return Ok(());
        }
        assert!(!self.panics, "on purpose");
        Err(Error::sink("on purpose"))
    }
}

impl FrameSink for Fails {
    fn interest(&self) -> Interest {
        Interest::ALL
    }

    fn accept_batch(&mut self, _: &SpanBatch) -> Result<(), Error> {
        self.at(Place::Batch)
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.at(Place::Frame)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.at(Place::Flush)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.at(Place::Finish)
    }
}

/// Keeps the number of spans in batches, and frames with the number of their spans in trees.
#[derive(Clone, Default)]
struct CountingSink {
    spans: Arc<AtomicU64>,
    frames: Arc<Mutex<Vec<(u64, usize)>>>,
}

impl FrameSink for CountingSink {
    fn interest(&self) -> Interest {
        Interest::ALL
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        self.spans
            .fetch_add(batch.span_count() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        let held = frame.threads.iter().map(|tree| tree.spans.len()).sum();
        self.frames.lock().unwrap().push((frame.span_count, held));
        Ok(())
    }
}

fn frames(count: usize, spans: usize) {
    for _ in 0..count {
        for _ in 0..spans {
            profile_scope!("work");
        }
        drain::frame_mark();
        drain::flush();
    }
}

#[test]
fn a_failing_sink_is_switched_off_and_counted_and_the_others_go_on() {
    own_process!();
    begin();
    let failed_before = drain::failed_sinks();
    let sink = CountingSink::default();
    let keeper = drain::add_sink("sink", sink.clone());
    let mut sinks = Vec::new();
    for at in [Place::Batch, Place::Frame, Place::Flush, Place::Finish] {
        for panics in [false, true] {
            let calls = Arc::new(Calls::default());
            let sink = Fails {
                at,
                panics,
                calls: Arc::clone(&calls),
            };
            sinks.push((at, calls, drain::add_sink(format!("fails at {at:?}"), sink)));
        }
    }
    frames(5, 10);
    assert_eq!(
        drain::failed_sinks() - failed_before,
        6,
        "all except those that fail at the end"
    );
    for (at, calls, handle) in sinks {
        let seen = calls.all.load(Ordering::Relaxed);
        drop(handle);
        let at_the_end = calls.all.load(Ordering::Relaxed) - seen;
        // The handle of a sink that is already off has nothing to end.
        assert_eq!(at_the_end, u64::from(at == Place::Finish), "{at:?}");
        if at == Place::Finish {
            // Every frame came as a batch, a frame and a flush, and some with more batches.
            assert!(seen >= 15, "{at:?}: {seen}");
        }
        assert_eq!(calls.since_failure.load(Ordering::Relaxed), 1, "{at:?}");
    }
    assert_eq!(drain::failed_sinks() - failed_before, 8);
    drop(keeper);
    assert_eq!(sink.spans.load(Ordering::Relaxed), 50);
    assert_eq!(*sink.frames.lock().unwrap(), [(10, 10); 5]);
    assert!(setup::is_enabled());
}

#[test]
fn spans_beyond_a_frames_limit_are_counted_and_streamed() {
    own_process!();
    begin();
    let sink = CountingSink::default();
    let keeper = drain::add_sink("sink", sink.clone());
    frames(2, 5 * MAX_SPANS);
    drop(keeper);
    assert_eq!(sink.spans.load(Ordering::Relaxed), 10 * MAX_SPANS as u64);
    assert_eq!(
        *sink.frames.lock().unwrap(),
        [(5 * MAX_SPANS as u64, MAX_SPANS); 2]
    );
}

/// Counts spans under a lock of the program.
struct LockingSink {
    lock: Arc<Mutex<()>>,
    spans: Arc<AtomicU64>,
}

impl FrameSink for LockingSink {
    fn interest(&self) -> Interest {
        Interest::ALL
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.spans
            .fetch_add(batch.span_count() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn a_panic_ends_although_its_thread_holds_a_lock_that_a_sink_takes() {
    own_process!();
    begin();
    let (lock, spans) = (Arc::new(Mutex::new(())), Arc::new(AtomicU64::new(0)));
    let _sink = drain::add_sink(
        "locking",
        LockingSink {
            lock: Arc::clone(&lock),
            spans: Arc::clone(&spans),
        },
    );
    let panicked = std::panic::catch_unwind(|| {
        let _held = lock.lock().unwrap();
        {
            profile_scope!("work");
        }
        panic!("on purpose");
    });
    assert!(panicked.is_err());
    drain::flush();
    assert_eq!(spans.load(Ordering::Relaxed), 1);
}
