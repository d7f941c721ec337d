//! The accuracy of durations: busy loops of known duration against the reported duration of their
//! scopes.
//!
//! The clock is read directly around the loop, within the scope. The excess of the span over that
//! time is the time that the scope itself adds. This bench reports the median over the repetitions.
//! A test asserts without a tolerance that a span lies between the clock reads inside and outside
//! of its scope. Long loops are also compared with the system's monotonic clock, which shares
//! nothing with our calibration.

use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use vor_benches::rounds::median;
use vor_capture::model::frame::FrameSnapshot;

use crate::Options;
use crate::table::{Table, Target};

/// Durations of the loops and the repetitions of each. One repetition of ten seconds is enough to
/// show the rate of the clock.
const LENGTHS: [(u64, u32); 9] = [
    (100, 20_001),
    (1_000, 20_001),
    (10_000, 5_001),
    (100_000, 1_001),
    (1_000_000, 201),
    (10_000_000, 51),
    (100_000_000, 11),
    (1_000_000_000, 3),
    (10_000_000_000, 1),
];
/// The shortest duration for the system's clock; its own read takes too long for shorter ones.
const SYSTEM_CLOCK_FROM_TICKS: u64 = 10_000_000;

/// Sends the durations of the loop's spans, in ticks and in reported nanoseconds.
struct Lengths(Sender<(u64, u64)>);

impl vor::sinks::FrameSink for Lengths {
    fn accept_frame(&mut self, frame: &std::sync::Arc<FrameSnapshot>) -> Result<(), vor::Error> {
        for span in frame.threads.iter().flat_map(|tree| &tree.spans) {
            if frame.catalog.site_name(span.site) == "busy" {
                let timeline = &frame.catalog.timeline;
                let ns = timeline.duration_ns(span.start_ticks, span.duration_ticks);
                // The receiver is gone after another failure.
                let _ = self.0.send((span.duration_ticks, ns));
            }
        }
        Ok(())
    }
}

/// The duration of a loop, measured by the counter and by the system's clock.
struct Known {
    ticks: u64,
    ns: u64,
}

/// Reads the counter and the system's clock, as close together as possible on a machine that
/// suspends the program now and then.
fn both() -> (u64, Instant) {
    let read = |_| {
        let before = vor_recorder::clock::ticks();
        let now = Instant::now();
        (vor_recorder::clock::ticks() - before, before, now)
    };
    let nearest = (0..100).map(read).min_by_key(|(width, ..)| *width);
    nearest.map_or_else(
        || (0, Instant::now()),
        |(width, before, now)| (before + width / 2, now),
    )
}

#[inline(never)]
fn busy(length_ticks: u64) -> Known {
    let is_long = length_ticks >= SYSTEM_CLOCK_FROM_TICKS;
    let system = is_long.then(both);
    let ticks = {
        vor::profile_scope!("busy");
        let begin = vor_recorder::clock::ticks();
        while vor_recorder::clock::ticks() - begin < length_ticks {
            std::hint::spin_loop();
        }
        vor_recorder::clock::ticks() - begin
    };
    let ns = system.map_or(0, |(begin_ticks, begin)| {
        let (end_ticks, end) = both();
        let ns_per_tick = (end - begin).as_nanos() as f64 / (end_ticks - begin_ticks) as f64;
        (ticks as f64 * ns_per_tick) as u64
    });
    Known { ticks, ns }
}

/// Measures the error of reported durations.
pub fn measure(_: &Options, table: &mut Table) {
    for (length_ns, repetitions) in LENGTHS {
        let question = format!("truth: a loop of {length_ns} ns is off by");
        match off_by(length_ns, repetitions) {
            Some(off_ns) => {
                let allowed_ns = 25.0 + length_ns as f64 / 10_000.0;
                table.add(question, Target::AtMost(allowed_ns), off_ns, "ns");
            }
            None => table.add(question, Target::AtLeast(1.0), 0.0, "loops reported"),
        }
    }
}

/// Returns the median of the errors, in nanoseconds; `None` if a loop was not reported.
fn off_by(length_ns: u64, repetitions: u32) -> Option<f64> {
    let (sender, lengths) = channel();
    vor::Config::new().enable();
    // The first scope of a site and of a thread takes longer than the others, and the first frame
    // has the calibration.
    busy(1);
    vor::frame_mark();
    vor::flush();
    let sink = vor::add_sink("lengths", Lengths(sender));
    let rate = vor_recorder::drain::catalog()?
        .timeline
        .syncs()
        .last()?
        .rate;
    let ticks_per_ns = (1_u64 << vor_capture::model::timeline::RATE_BITS) as f64 / rate as f64;
    let length_ticks = (length_ns as f64 * ticks_per_ns) as u64;
    let known: Vec<Known> = (0..repetitions).map(|_| busy(length_ticks)).collect();
    vor::frame_mark();
    drop(sink);
    vor::disable();
    let lengths: Vec<_> = lengths.try_iter().collect();
    if lengths.len() != known.len() {
        return None;
    }
    let error = |(known, (ticks, ns)): (&Known, &(u64, u64))| {
        let by_ticks = ticks.abs_diff(known.ticks) as f64;
        let by_system = if known.ns > 0 {
            ns.abs_diff(known.ns)
        } else {
            0
        };
        (by_ticks / ticks_per_ns).max(by_system as f64)
    };
    Some(median(known.iter().zip(&lengths).map(error).collect()))
}
