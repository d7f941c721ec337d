//! The per-thread ring: a bounded single-producer single-consumer queue of slots.
//!
//! `head` counts slots ever published, `tail` slots ever taken; a slot's place is its count modulo the capacity. The producer writes slots
//! first and then publishes them with one release store, so the consumer sees a whole record or none of it. The producer never reads
//! `tail` on its fast path: it compares `head` with `limit`, which it refreshes on a cold path every quarter of the
//! capacity. That same comparison serves to wake the worker: lowering `limit` makes the next push take the cold path.
//!
//! When there is no room the newest record is dropped and counted; nothing ever blocks, and nothing is overwritten.

#![expect(
    unsafe_code,
    reason = "slots are plain memory handed between two threads by head and tail"
)]

use crate::ring::Slot;
use crate::ring::memory::Slots;
use crate::sync::{AtomicU64, Ordering};

/// A bounded queue of slots between one producer and one consumer.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Slots ever published. Written by the producer (release), read by the consumer (acquire).
    head: AtomicU64,
    /// The producer may publish up to here without looking at `tail`; never above `tail + capacity`. Written by the producer
    /// (relaxed), and by the consumer (relaxed) only with a value not above `head`, to make the producer look up.
    limit: AtomicU64,
    /// Capacity less one; the capacity is a power of two.
    mask: u64,
    slots: Slots,
    /// Records dropped for want of room. Written by the producer, read by the consumer, both relaxed: a count, nothing hangs on it.
    dropped: AtomicU64,
    /// Slots ever taken. Written by the consumer (release, so that it is done reading before the producer overwrites), read by the
    /// producer (acquire). On its own cache line, since the consumer writes it while the producer works.
    tail: Padded,
}

#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicU64);

// SAFETY: slots are accessed by the producer at counts in head..tail+capacity and by the consumer at counts in tail..head; these ranges
// are disjoint, and moving a slot from one to the other is a release store paired with an acquire load.
unsafe impl Sync for Ring {}

/// What the producer's cold path found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is room, and less than a quarter is in use.
    Plenty,
    /// There is room, but the worker should come.
    Filling,
    /// There is no room for the record.
    None,
}

impl Ring {
    /// Makes a ring of at least `slots` slots, rounded up to a power of two, at least 4. Its memory is not touched until used.
    pub(crate) fn new(slots: usize) -> Self {
        let capacity = slots.max(4).next_power_of_two();
        Self {
            head: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            mask: capacity as u64 - 1,
            slots: Slots::zeroed(capacity),
            dropped: AtomicU64::new(0),
            tail: Padded(AtomicU64::new(0)),
        }
    }

    /// Returns the capacity in slots.
    pub(crate) fn capacity(&self) -> u64 {
        self.mask + 1
    }

    /// Publishes one slot, or returns `false` when the limit is reached: see [`look_up`](Self::look_up).
    ///
    /// # Safety
    ///
    /// Only the thread that owns the producer side may call this.
    #[inline(always)]
    pub(crate) unsafe fn push_one(&self, slot: Slot) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        if head >= self.limit.load(Ordering::Relaxed) {
            return false;
        }
        // SAFETY: head < limit <= tail + capacity, so the consumer is done with this slot, and the caller is the only producer.
        unsafe { self.write(head, slot) };
        self.head.store(head + 1, Ordering::Release);
        true
    }

    /// Publishes a record of several slots at once, or returns `false` when the limit does not allow all of them.
    ///
    /// # Safety
    ///
    /// Only the thread that owns the producer side may call this.
    #[inline(always)]
    pub(crate) unsafe fn push_record<const N: usize>(&self, first: Slot, rest: &[Slot; N]) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        if head + N as u64 >= self.limit.load(Ordering::Relaxed) {
            return false;
        }
        // SAFETY: as in `push_one`, for N + 1 slots below the limit.
        unsafe {
            self.write(head, first);
            for (i, slot) in rest.iter().enumerate() {
                self.write(head + 1 + i as u64, *slot);
            }
        }
        self.head.store(head + 1 + N as u64, Ordering::Release);
        true
    }

    /// Publishes a record of a length known only at run time, or returns `false` when the limit does not allow all of it.
    ///
    /// # Safety
    ///
    /// Only the thread that owns the producer side may call this.
    pub(crate) unsafe fn push_slots(&self, record: &[Slot]) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        if head + record.len() as u64 > self.limit.load(Ordering::Relaxed) {
            return false;
        }
        for (i, slot) in record.iter().enumerate() {
            // SAFETY: as in `push_one`, for all slots of the record below the limit.
            unsafe { self.write(head + i as u64, *slot) };
        }
        self.head.store(head + record.len() as u64, Ordering::Release);
        true
    }

    /// # Safety
    ///
    /// `count` must lie in head..limit, and the caller must be the producer.
    #[inline(always)]
    unsafe fn write(&self, count: u64, slot: Slot) {
        let index = (count & self.mask) as usize;
        // SAFETY: the mask keeps the index below the capacity, which is the length of `slots`.
        let cell = unsafe { self.slots.get_unchecked(index) };
        // SAFETY: the caller guarantees that this slot is the producer's.
        cell.with_mut(|place| unsafe { *place = slot });
    }

    /// The producer's cold path: looks at `tail`, sets a new limit and says whether `needed` slots fit.
    ///
    /// # Safety
    ///
    /// Only the thread that owns the producer side may call this.
    #[cold]
    pub(crate) unsafe fn look_up(&self, needed: u64) -> Room {
        let head = self.head.load(Ordering::Relaxed);
        let end = self.tail.0.load(Ordering::Acquire) + self.capacity();
        let used = head + self.capacity() - end;
        if head + needed > end {
            self.limit.store(head, Ordering::Relaxed);
            return Room::None;
        }
        let stride = (self.capacity() / 4).max(needed);
        self.limit.store(end.min(head + stride), Ordering::Relaxed);
        if used >= self.capacity() / 4 {
            Room::Filling
        } else {
            Room::Plenty
        }
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
        self.limit
            .store(self.tail.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns the number of published slots that are not yet taken. Exact for the consumer, a lower bound for others.
    pub(crate) fn len(&self) -> u64 {
        self.head
            .load(Ordering::Acquire)
            .wrapping_sub(self.tail.0.load(Ordering::Relaxed))
    }

    /// Shows the consumer what is published, as two slices in order; it returns how many slots it took.
    ///
    /// # Safety
    ///
    /// Only one thread at a time may call this.
    #[cfg(not(loom))]
    pub(crate) unsafe fn consume(&self, take: impl FnOnce(&[Slot], &[Slot]) -> usize) -> usize {
        let tail = self.tail.0.load(Ordering::Relaxed);
        let head = self.head.load(Ordering::Acquire);
        let published = (head - tail) as usize;
        let first = (tail & self.mask) as usize;
        let until_wrap = published.min(self.slots.len() - first);
        let base = self.slots.as_ptr().cast::<Slot>();
        // SAFETY: `UnsafeCell<Slot>` is transparent over `Slot`; slots tail..head are initialised and not written by the producer until
        // `tail` passes them, which happens below, after both slices are dead. The first slice ends at the end of the buffer at
        // the latest, the second begins at its start and is shorter than the capacity less the first.
        let (one, two) = unsafe {
            (
                std::slice::from_raw_parts(base.add(first), until_wrap),
                std::slice::from_raw_parts(base, published - until_wrap),
            )
        };
        let taken = take(one, two);
        assert!(taken <= published, "a consumer takes what is there");
        self.tail.0.store(tail + taken as u64, Ordering::Release);
        taken
    }
}

#[cfg(loom)]
impl Ring {
    /// As the consumer of the real ring, slot by slot, so that the model checks every access.
    pub(crate) unsafe fn consume(&self, take: impl FnOnce(&[Slot], &[Slot]) -> usize) -> usize {
        let tail = self.tail.0.load(Ordering::Relaxed);
        let head = self.head.load(Ordering::Acquire);
        let copy = |count: u64| {
            let cell = &self.slots[(count & self.mask) as usize];
            // SAFETY: slots tail..head belong to the consumer until `tail` passes them below.
            cell.with(|place| unsafe { *place })
        };
        let published: Vec<Slot> = (tail..head).map(copy).collect();
        let taken = take(&published, &[]);
        assert!(taken <= published.len(), "a consumer takes what is there");
        self.tail.0.store(tail + taken as u64, Ordering::Release);
        taken
    }
}
