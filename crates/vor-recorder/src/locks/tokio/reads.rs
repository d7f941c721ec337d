//! Since when tasks read locks.
//!
//! A task may lock on one thread and unlock on another, so no thread can remember the begin of a
//! hold. A guard that had room for it would be larger for all locks. It has room for a place in one
//! table.

use crate::hot::thread;
use crate::locks::holds;
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// The holds of readers that are recorded at the same time.
const PLACES: usize = 1024;

/// The places that are tried for one hold, one behind the other.
const TRIES: usize = 16;

/// When the holds of readers began, in ticks; 0 in a free place. Relaxed: only the guard that has
/// taken a place writes to it, and whoever sends the guard to another thread orders the accesses.
static BEGAN: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

/// The place of a hold, which its guard frees.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Place(u32);

impl Place {
    /// The place of a hold that is not recorded.
    pub(super) const NONE: Self = Self(u32::MAX);

    /// Stores that a hold begins now, if it is recorded. If there is no free place, the hold is
    /// dropped and counted.
    #[cold]
    #[inline(never)]
    pub(super) fn take() -> Self {
        let began = holds::begin_ticks();
        if began == 0 {
            return Self::NONE;
        }
        // Fibonacci hashing: holds that begin one after the other try places far from each other.
        let first = began.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - PLACES.ilog2());
        for at in (first..).take(TRIES).map(|at| at % PLACES as u64) {
            let place = &BEGAN[at as usize];
            let taken = place.compare_exchange(0, began, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                return Self(at as u32);
            }
        }
        thread::count_drop();
        Self::NONE
    }

    /// Frees the place, and returns when the hold began; 0 if it is not recorded.
    pub(super) fn free(self) -> u64 {
        let place = BEGAN.get(self.0 as usize);
        place.map_or(0, |place| place.swap(0, Ordering::Relaxed))
    }
}
