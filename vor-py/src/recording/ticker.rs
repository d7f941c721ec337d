//! Frames at an interval, for programs that mark none under `python -m vor run`.
//!
//! A thread that is not attached to the interpreter marks them, so the program's threads neither
//! wait for it nor see it. It stops when the program marks a frame itself.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use vor_recorder::drain;

/// Counts starts and stops. It is odd while a thread marks frames. A thread ends when the value is
/// no longer the one with which it started. It is only compared (relaxed), and publishes no other
/// memory.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Starts to mark frames at an interval, and stops an earlier thread. A forked child has no such
/// thread, and starts its own.
pub(crate) fn start(interval: Duration) {
    stop();
    let generation = GENERATION.fetch_add(1, Ordering::Relaxed) + 1;
    let spawned = thread::Builder::new()
        .name("vor-frames".into())
        .spawn(move || mark_frames(generation, interval));
    if spawned.is_err() {
        // If no thread can be started, the recording is one frame.
        stop();
    }
}

/// Stops the marking. Returns whether the thread has marked frames until now.
pub(crate) fn stop() -> bool {
    let generation = GENERATION.load(Ordering::Relaxed);
    let is_marking = generation % 2 == 1;
    is_marking
        && (GENERATION)
            .compare_exchange(
                generation,
                generation.wrapping_add(1),
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok()
}

fn mark_frames(generation: u32, interval: Duration) {
    let mut next = Instant::now() + interval;
    loop {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        if GENERATION.load(Ordering::Relaxed) != generation {
            return;
        }
        drain::frame_mark();
        // After a suspension of the machine there is one long frame, not a series of empty ones.
        next = (next + interval).max(Instant::now());
    }
}
