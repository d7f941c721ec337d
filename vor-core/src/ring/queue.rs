//! The queue of one thread: one producer, one consumer, no lock.
//!
//! ```text
//!    0           tail (consumer)        cursor (producer)     limit                  capacity
//!    v            v                      v                     v                      v
//!    | free       | published, not taken | free, known to be so | free, not yet looked at |
//! ```
//!
//! The producer's `cursor` stands in bytes from the first slot, so that a push adds it to an address and neither masks nor multiplies. It pushes while
//! the record ends at or below `limit`, which never lies beyond the end of the buffer, and rarely asks the consumer. At the limit the producer's cold
//! path reads `tail`, decides where to go on, and sets the next limit a stride further, so that the worker hears in time when the ring fills.
//!
//! At the end of the buffer the producer turns back to the begin; a record never lies on both sides. Where it turned it leaves in `turn`, for the
//! consumer to turn there too.
//!
//! After the turn the cursor stays below `tail`: a cursor that has caught up with `tail` means an empty queue, never a full one.

#![expect(
    unsafe_code,
    reason = "the queue is shared memory between two threads; who may touch which slot is stated below"
)]

use std::ops::{Deref, Range};

use crate::ring::Slot;
use crate::ring::memory::Slots;
use crate::sync::{AtomicU64, Ordering};

/// Slots between two looks at the consumer, where the ring is large enough: 64 KiB, which a first-level cache holds.
const MIN_STRIDE: u64 = 4096;

/// Bytes of a slot.
const SLOT_BYTES: u64 = size_of::<Slot>() as u64;

/// A bounded queue of slots between one producer and one consumer.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Where the next record goes, in bytes; the end of the buffer stands for its begin. Written by the producer (release, so that the record is there
    /// when the cursor is), read by the consumer (acquire).
    cursor: AtomicU64,
    /// How far a push may reach, in bytes, without looking at `tail`. Written by the producer (relaxed), and by the consumer (relaxed) only with 0, to
    /// make the producer look up.
    limit: AtomicU64,
    slots: Slots,
    /// Where the producer last turned back, in slots. Written by the producer (relaxed) before the cursor that tells of the turn, read by the consumer
    /// (relaxed) after it.
    turn: AtomicU64,
    /// Records dropped for want of room. Written by the producer, read by the consumer, both relaxed: a count, nothing hangs on it.
    dropped: AtomicU64,
    /// Where the next slot is taken. Written by the consumer (release, so that it is done reading before the producer overwrites), read by the
    /// producer (acquire). On its own cache line, since the consumer writes it while the producer works.
    tail: Padded,
}

#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicU64);

// SAFETY: slots are accessed by the producer from the cursor on, below `tail` once it has turned, and by the consumer from `tail` up to the cursor; these
// ranges are disjoint, and moving a slot from one to the other is a release store paired with an acquire load.
unsafe impl Sync for Ring {}

/// What the producer's cold path found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There was room, and not [`much`](Ring::much) is in use.
    Plenty,
    /// There was room, but the worker should come.
    Filling,
    /// There was no room for the record.
    None,
}

impl Ring {
    /// Makes a ring of at least `slots` slots, rounded up to a power of two, at least 4. Its memory is not touched until used.
    pub(crate) fn new(slots: usize) -> Self {
        let capacity = slots.max(4).next_power_of_two();
        Self {
            cursor: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            slots: Slots::zeroed(capacity),
            turn: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            tail: Padded(AtomicU64::new(0)),
        }
    }

    /// Makes a ring that has room for nothing and never will.
    #[cfg(not(loom))]
    pub(crate) const fn none() -> Self {
        Self {
            cursor: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            slots: Slots::none(),
            turn: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            tail: Padded(AtomicU64::new(0)),
        }
    }

    /// Returns the number of slots.
    pub(crate) fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Returns how many published slots are reason for the worker to come at once: a quarter of the ring, or as many as a second-level cache easily holds.
    pub(crate) fn much(&self) -> u64 {
        (self.capacity() / 4).min(4 * MIN_STRIDE)
    }

    /// Publishes a record whose first slot is made of `word0` and the two halves of word 1, or returns `false` when the limit is reached: then
    /// [`push_slowly`](Self::push_slowly) is to be called.
    ///
    /// # Safety
    ///
    /// Only the thread that owns the producer side may call this.
    #[inline(always)]
    pub(crate) unsafe fn push<const N: usize>(
        &self,
        word0: u64,
        low: u32,
        high: u32,
        rest: &[Slot; N],
    ) -> bool {
        let cursor = self.cursor.load(Ordering::Relaxed);
        let end = cursor + SLOT_BYTES * (N as u64 + 1);
        if end > self.limit.load(Ordering::Relaxed) {
            return false;
        }
        // SAFETY: the slots below the limit are in the buffer and free, and the caller is the only producer.
        unsafe {
            self.with_slot(cursor, |place| write_halves(place, word0, low, high));
            for (i, slot) in rest.iter().enumerate() {
                let at = cursor + SLOT_BYTES * (i as u64 + 1);
                self.with_slot(at, |place| *place = *slot);
            }
        }
        self.cursor.store(end, Ordering::Release);
        true
    }

    /// As [`push`](Self::push), for a record of a length known only at run time.
    ///
    /// # Safety
    ///
    /// Only the thread that owns the producer side may call this.
    pub(crate) unsafe fn push_slots(&self, record: &[Slot]) -> bool {
        let cursor = self.cursor.load(Ordering::Relaxed);
        let end = cursor + SLOT_BYTES * record.len() as u64;
        if end > self.limit.load(Ordering::Relaxed) {
            return false;
        }
        for (i, slot) in record.iter().enumerate() {
            // SAFETY: as in `push`.
            unsafe { self.with_slot(cursor + SLOT_BYTES * i as u64, |place| *place = *slot) };
        }
        self.cursor.store(end, Ordering::Release);
        true
    }

    /// Publishes a record of any length, or drops it where there is no room; sets the next limit and says what it found.
    ///
    /// # Safety
    ///
    /// Only the thread that owns the producer side may call this.
    pub(crate) unsafe fn push_slowly(&self, record: &[Slot]) -> Room {
        let (capacity, needed) = (self.capacity(), record.len() as u64);
        let stride = (capacity / 64).max(MIN_STRIDE.min(capacity / 4));
        let cursor = self.cursor.load(Ordering::Relaxed) / SLOT_BYTES;
        let tail = self.tail.0.load(Ordering::Acquire);
        let is_turned = cursor < tail;
        let turns = !is_turned && tail > needed && cursor + needed > capacity;
        // What lies from `at` up to `end` is free.
        let (at, end) = match (is_turned, turns) {
            (true, _) => (cursor, tail - 1),
            (false, true) => (0, tail - 1),
            (false, false) => (cursor, capacity),
        };
        if at + needed > end {
            self.limit.store(0, Ordering::Relaxed);
            return Room::None;
        }
        if turns {
            self.turn.store(cursor, Ordering::Relaxed);
        }
        for (i, slot) in record.iter().enumerate() {
            // SAFETY: the slots from `at` up to `end` are free, and the caller is the only producer.
            unsafe { self.with_slot((at + i as u64) * SLOT_BYTES, |place| *place = *slot) };
        }
        let next = at + needed;
        self.cursor.store(next * SLOT_BYTES, Ordering::Release);
        let limit = end.min(next + stride);
        self.limit.store(limit * SLOT_BYTES, Ordering::Relaxed);
        let used = published(next, tail, self.turn.load(Ordering::Relaxed));
        if used >= self.much() {
            Room::Filling
        } else {
            Room::Plenty
        }
    }

    /// Shows `access` the slot that begins at byte `at`.
    ///
    /// # Safety
    ///
    /// `at` must be the begin of a slot of the buffer, and the slot must be the caller's to write.
    #[inline(always)]
    unsafe fn with_slot(&self, at: u64, access: impl FnOnce(*mut Slot)) {
        #[cfg(not(loom))]
        // SAFETY: the caller guarantees that the slot is in the buffer.
        let cell = unsafe { &*self.slots.as_ptr().byte_add(at as usize) };
        #[cfg(loom)]
        let cell = &self.slots[(at / SLOT_BYTES) as usize];
        cell.with_mut(access);
    }

    /// Counts a record that found no room. Called by the producer.
    pub(crate) fn count_drop(&self) {
        // The producer alone writes, so a load and a store are enough.
        let dropped = self.dropped.load(Ordering::Relaxed);
        self.dropped.store(dropped + 1, Ordering::Relaxed);
    }

    /// Returns the number of records dropped since the ring was made.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Makes the producer's next push take its cold path. Called by the consumer.
    pub(crate) fn arm(&self) {
        self.limit.store(0, Ordering::Relaxed);
    }

    /// Returns the number of published slots that are not yet taken. Called by the consumer.
    pub(crate) fn len(&self) -> u64 {
        let (first, second) = self.published();
        (first.len() + second.len()) as u64
    }

    /// Returns where the published slots are: up to the turn, if the producer has turned, and from the begin. Called by the consumer.
    fn published(&self) -> (Range<usize>, Range<usize>) {
        let cursor = (self.cursor.load(Ordering::Acquire) / SLOT_BYTES) as usize;
        let tail = self.tail.0.load(Ordering::Relaxed) as usize;
        if cursor >= tail {
            return (tail..cursor, 0..0);
        }
        // The cursor is below `tail` since the turn that was left before it, and there is no other turn before `tail` has turned too.
        (tail..self.turn.load(Ordering::Relaxed) as usize, 0..cursor)
    }

    /// Shows the consumer what is published, as two slices in order; it returns how many slots it took.
    ///
    /// # Safety
    ///
    /// Only one thread at a time may call this.
    pub(crate) unsafe fn consume(&self, take: impl FnOnce(&[Slot], &[Slot]) -> usize) -> usize {
        let (first, second) = self.published();
        // SAFETY: the published slots are initialised and not written by the producer until `tail` passes them, which happens below, after both
        // slices are dead.
        let (one, two) = unsafe { (self.view(first.clone()), self.view(second.clone())) };
        let taken = take(&one, &two);
        assert!(taken <= one.len() + two.len(), "a consumer takes what is there");
        let has_turned = !second.is_empty() && taken >= first.len();
        let tail = if has_turned {
            taken - first.len()
        } else {
            first.start + taken
        };
        self.tail.0.store(tail as u64, Ordering::Release);
        taken
    }

    /// # Safety
    ///
    /// The slots must be the consumer's for as long as the slice is in use.
    #[cfg(not(loom))]
    unsafe fn view(&self, range: Range<usize>) -> impl Deref<Target = [Slot]> {
        let cells = &self.slots[range];
        // SAFETY: `UnsafeCell<Slot>` is transparent over `Slot`, and the caller guarantees that nobody writes.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast(), cells.len()) }
    }

    /// As the view of the real ring, copied slot by slot, so that the model checks every access.
    #[cfg(loom)]
    unsafe fn view(&self, range: Range<usize>) -> impl Deref<Target = [Slot]> {
        let cells = self.slots[range].iter();
        // SAFETY: the caller guarantees that nobody writes.
        cells
            .map(|cell| cell.with(|place| unsafe { *place }))
            .collect::<Vec<Slot>>()
    }
}

/// Returns how many slots are published, with the cursor, the tail and the last turn in slots.
fn published(cursor: u64, tail: u64, turn: u64) -> u64 {
    if cursor >= tail {
        cursor - tail
    } else {
        turn - tail + cursor
    }
}

/// Writes a slot, word 1 in halves: the machine stores both as they are, and need not shift one above the other.
///
/// # Safety
///
/// `place` must be valid for writing.
#[inline(always)]
unsafe fn write_halves(place: *mut Slot, word0: u64, low: u32, high: u32) {
    let halves = place.cast::<u32>();
    let (low_at, high_at) = if cfg!(target_endian = "little") {
        (2, 3)
    } else {
        (3, 2)
    };
    // SAFETY: a slot is two words of 8 bytes, so word 1 is the third and fourth half.
    unsafe {
        place.cast::<u64>().write(word0);
        halves.add(low_at).write(low);
        halves.add(high_at).write(high);
    }
}
