//! Since when the calling thread reads which locks.
//!
//! A lock has many readers, and the guards of `lock_api` have no room for the begin of a hold. A
//! guard stays on its thread, so the thread remembers the begin.

use std::cell::Cell;

use crate::hot::thread;

/// The locks that a thread reads at the same time, of which it remembers the begin.
const MOST: usize = 16;

/// A hold that has begun. A guard that the program forgets leaves one behind.
#[derive(Clone, Copy)]
struct Read {
    /// The address of the lock.
    lock: usize,
    /// In ticks; 0 if the hold is not recorded.
    began: u64,
}

/// Holds in the order in which they began.
struct Reads {
    reads: [Cell<Read>; MOST],
    len: Cell<usize>,
}

thread_local! {
    static READS: Reads = const {
        Reads {
            reads: [const { Cell::new(Read { lock: 0, began: 0 }) }; MOST],
            len: Cell::new(0),
        }
    };
}

/// The calling thread reads a lock since `began`. If it reads too many, the oldest hold is dropped
/// and counted.
pub(super) fn push(lock: usize, began: u64) {
    READS.with(|reads| {
        if reads.len.get() == MOST && reads.remove(0) != 0 {
            thread::count_drop();
        }
        let len = reads.len.get();
        reads.reads[len].set(Read { lock, began });
        reads.len.set(len + 1);
    });
}

/// Returns since when the calling thread reads a lock, and forgets it: the newest hold, if there
/// are several. 0 if it is not known.
pub(super) fn take(lock: usize) -> u64 {
    READS.with(|reads| {
        let known = &reads.reads[..reads.len.get()];
        let newest = known.iter().rposition(|read| read.get().lock == lock);
        newest.map_or(0, |at| reads.remove(at))
    })
}

impl Reads {
    /// Removes a hold and returns when it began.
    fn remove(&self, at: usize) -> u64 {
        let known = &self.reads[at..self.len.get()];
        let began = known[0].get().began;
        for pair in known.windows(2) {
            pair[0].set(pair[1].get());
        }
        self.len.set(self.len.get() - 1);
        began
    }
}
