//! The allocations reported for a frame. The only test of its process, so that nothing else
//! allocates in its frames.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vor_capture::Error;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::drain;
use vor_recorder::metrics::record_metric;
use vor_recorder::setup;
use vor_recorder::setup::Config;

/// Values of each frame: megabytes allocated, allocations, and a metric of the program.
type Values = [Option<f64>; 3];

struct Frames(Arc<Mutex<Vec<Values>>>);

impl FrameSink for Frames {
    fn interest(&self) -> Interest {
        Interest::METRICS
    }

    fn accept_batch(&mut self, _: &SpanBatch) -> Result<(), Error> {
        Ok(())
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        let columns = &frame.catalog.columns;
        let value = |(name, system): (&str, bool)| {
            let column = columns
                .iter()
                .position(|column| column.metric.name == name && column.system == system)?;
            let value = frame
                .metrics
                .iter()
                .find(|value| value.column as usize == column);
            Some(value?.value)
        };
        let names = [("alloc_MB", true), ("allocs", true), ("own", false)];
        self.0.lock().unwrap().push(names.map(value));
        Ok(())
    }
}

#[test]
fn frames_report_the_allocations_of_the_process() {
    own_process!();
    const BYTES: usize = 40_000_000;
    let allocate = || drop(black_box(Vec::<u8>::with_capacity(BYTES)));
    let frames = Arc::new(Mutex::new(Vec::with_capacity(10)));
    // Allocations before recording was on are in no frame.
    allocate();
    Config::new()
        .sink("frames", Frames(Arc::clone(&frames)))
        .enable();
    // On the thread that looks for GPUs, the standard library allocates the thread's name, before
    // vor can say that the thread is its own.
    std::thread::sleep(Duration::from_millis(300));
    drain::frame_mark();
    std::thread::spawn(allocate).join().unwrap();
    std::thread::spawn(allocate).join().unwrap();
    allocate();
    record_metric("own", 7.0);
    drain::frame_mark();
    drain::frame_mark();
    (0..500).for_each(|i| drop(black_box(Box::new(i))));
    drain::frame_mark();
    setup::disable();
    allocate();
    setup::enable();
    drain::frame_mark();
    drain::flush();
    let frames = frames.lock().unwrap();
    let [_, first, second, third, fourth] = frames[..] else {
        panic!("{frames:?}")
    };
    // The frame also started two threads.
    assert!((120.0..120.1).contains(&first[0].unwrap()), "{first:?}");
    assert!((3.0..100.0).contains(&first[1].unwrap()), "{first:?}");
    assert_eq!(
        first[2],
        Some(7.0),
        "columns of the program come after the system's"
    );
    // The allocations of a mark itself are not counted.
    assert_eq!(second, [Some(0.0), Some(0.0), None]);
    assert_eq!(third, [Some(500.0 * 4.0 / 1e6), Some(500.0), None]);
    assert!(fourth[0].unwrap() < 0.1, "{fourth:?}");
}
