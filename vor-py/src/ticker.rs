//! Frames by the clock, for programs that mark none: `python -m vor run` has them end at an
//! interval.
//!
//! A thread without an interpreter's state marks them, so the program's threads neither wait for it
//! nor see it. Once the program marks a frame itself, its frames are its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use vor_recorder::drain;

/// Counts what begins and ends the marking: a thread marks while the value is the one that it began
/// with, an odd one. The thread only compares it (relaxed); nothing else is handed over by it.
static TURN: AtomicU32 = AtomicU32::new(0);

/// Begins to mark frames at an interval. An earlier thread stops; a forked child has none, and
/// begins one of its own.
pub(crate) fn start(interval: Duration) {
    stop();
    let turn = TURN.fetch_add(1, Ordering::Relaxed) + 1;
    let begun = thread::Builder::new()
        .name("vor-frames".into())
        .spawn(move || mark_frames(turn, interval));
    if begun.is_err() {
        // A system without room for a thread: the recording is one frame.
        stop();
    }
}

/// Ends the marking; returns whether frames were marked by the clock until now.
pub(crate) fn stop() -> bool {
    let turn = TURN.load(Ordering::Relaxed);
    let is_marking = turn % 2 == 1;
    is_marking
        && (TURN)
            .compare_exchange(
                turn,
                turn.wrapping_add(1),
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok()
}

fn mark_frames(turn: u32, interval: Duration) {
    let mut next = Instant::now() + interval;
    loop {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        if TURN.load(Ordering::Relaxed) != turn {
            return;
        }
        drain::frame_mark();
        // A machine that slept has one long frame, and no row of empty ones behind it.
        next = (next + interval).max(Instant::now());
    }
}
