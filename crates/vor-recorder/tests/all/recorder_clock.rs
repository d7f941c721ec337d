//! The clock of a running recording: its points reach the sinks and the capture.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::timeline::Timeline;
use vor_capture::reader::{Capture, Reader};
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::setup::Config;
use vor_recorder::{drain, profile_scope};

/// A batch's timeline, and the wall-clock times at which its last span began and ended.
type Last = (Arc<Timeline>, i64, i64);

/// Keeps the last batch.
#[derive(Clone, Default)]
struct LastSink(Arc<Mutex<Option<Last>>>);

impl FrameSink for LastSink {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), vor_capture::Error> {
        let catalog = &batch.catalog;
        if let Some((thread, last)) = batch
            .threads
            .iter()
            .find_map(|thread| Some((thread, thread.len().checked_sub(1)?)))
        {
            let start_ns = catalog.unix_ns(thread.start_ticks[last]);
            let end_ns = catalog.unix_ns(thread.end_ticks(last));
            *self.0.lock().unwrap() = Some((Arc::clone(&catalog.timeline), start_ns, end_ns));
        }
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        Ok(())
    }
}

fn wall_ns() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since_1970.as_nanos()).unwrap()
}

/// The largest error of the timeline that a calibration may leave until it is corrected.
const MAX_ERROR_NS: i64 = 5_000_000;

#[test]
fn the_clock_is_compared_again_while_the_program_records() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let last = LastSink::default();
    Config::new()
        .capture(&path)
        .sink("last", last.clone())
        .enable();
    let begun = Instant::now();
    // The next point is due after some tens of milliseconds. A reading that was interrupted makes
    // none, so a busy machine may need some of them.
    let timeline = loop {
        let before_ns = wall_ns();
        {
            profile_scope!("work");
        }
        let after_ns = wall_ns();
        drain::flush();
        let seen = last.0.lock().unwrap().take();
        let (timeline, start_ns, end_ns) = seen.expect("a flush delivers");
        assert!(
            start_ns >= before_ns - MAX_ERROR_NS && end_ns <= after_ns + MAX_ERROR_NS,
            "a span from {start_ns} to {end_ns} was made between {before_ns} and {after_ns}"
        );
        if timeline.syncs().len() >= 2 {
            break timeline;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "only {} point",
            timeline.syncs().len()
        );
        std::thread::sleep(Duration::from_millis(1));
    };
    // Each point continues the line of the one before, so time has no step.
    for pair in timeline.syncs().windows(2) {
        assert!(pair[0].ticks < pair[1].ticks);
        assert_eq!(pair[0].unix_ns_at(pair[1].ticks), pair[1].unix_ns);
    }
    let is_captured = |catalog: &Catalog, when: &str| {
        let captured = catalog.timeline.syncs();
        assert!(
            captured.starts_with(timeline.syncs()),
            "{when}: the capture has the points of the live sink: {captured:?}"
        );
    };
    // The points are among the records, so a torn capture has them too. Windows lets nobody read a
    // file that is locked.
    if cfg!(unix) {
        let mut reader = Reader::open(&path).unwrap();
        while reader.next_event().unwrap().is_some() {}
        is_captured(reader.catalog().unwrap(), "while it is written");
    }
    assert!(drain::close_capture().is_some());
    is_captured(Capture::open(&path).unwrap().catalog(), "closed");
}

#[test]
fn a_capture_has_the_cost_of_a_scope_and_no_scopes_of_its_measurement() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    Config::new().capture(&path).enable();
    {
        profile_scope!("work");
    }
    assert!(drain::close_capture().is_some());
    let capture = Capture::open(&path).unwrap();
    assert_eq!(capture.info().spans, 1);
    let machine = &capture.catalog().machine;
    // A scope reads the clock twice, and no clock takes less than a nanosecond or a millisecond.
    let plausible = if machine.hardware_ticks {
        1_000..1_000_000_000
    } else {
        0..1
    };
    assert!(plausible.contains(&machine.scope_ps), "{machine:?}");
}
