//! The time between two passes of the worker, without marks.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vor_capture::model::batch::SpanBatch;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

/// Keeps the time of each batch.
#[derive(Clone, Default)]
struct TimesSink(Arc<Mutex<Vec<Instant>>>);

impl FrameSink for TimesSink {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, _: &SpanBatch) -> Result<(), vor_capture::Error> {
        self.0.lock().unwrap().push(Instant::now());
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        Ok(())
    }
}

/// Records with this interval, without marks and flushes, until `is_enough` holds for the times of
/// the batches. A minute is far more than any machine needs.
fn record_until(interval: Duration, is_enough: impl Fn(&[Instant]) -> bool) {
    let times = TimesSink::default();
    Config::new()
        .drain_interval(interval)
        .sink("times", times.clone())
        .enable();
    let begun = Instant::now();
    loop {
        // A copy: a panic flushes, and the sink must not wait for this thread then.
        let seen = times.0.lock().unwrap().clone();
        if is_enough(&seen) {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the worker does not take spans in time: {} batches",
            seen.len()
        );
        {
            profile_scope!("work");
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// With the usual interval of 20 ms, so many passes take twice as long or longer.
#[test]
fn a_short_interval_makes_many_passes() {
    own_process!();
    const PASSES: usize = 30;
    record_until(Duration::from_millis(1), |times| {
        let mut windows = times.windows(PASSES);
        windows.any(|passes| passes[PASSES - 1] - passes[0] < Duration::from_millis(290))
    });
}

/// The time from the first pass to the last has room for only so many intervals. A slow machine
/// makes fewer passes.
#[test]
fn a_long_interval_makes_few_passes() {
    own_process!();
    const TIME: Duration = Duration::from_secs(1);
    let interval = Duration::from_millis(50);
    let begun = Instant::now();
    record_until(interval, |times| {
        let is_over = begun.elapsed() >= TIME && !times.is_empty();
        if is_over {
            let room = begun.elapsed().as_millis() / interval.as_millis() + 1;
            // The system may end a sleep early, now and then.
            let most = room + 5;
            assert!(
                times.len() as u128 <= most,
                "{} passes, {most} at most",
                times.len()
            );
        }
        is_over
    });
}

/// An interval of an hour is clamped: spans reach the sink although there is no mark.
#[test]
fn spans_reach_a_sink_without_a_mark() {
    own_process!();
    record_until(Duration::from_secs(3_600), |times| times.len() >= 5);
}
