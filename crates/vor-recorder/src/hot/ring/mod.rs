//! The ring of one thread: records of 16-byte slots, in a queue between the thread and the drain.
//!
//! # Records
//!
//! A record is one slot, or one slot followed by extension slots. A slot is two 64-bit words:
//!
//! ```text
//! span       word 0: start ticks       word 1: duration ticks (low 32) | tag and site (high 32)
//! extension  two more words of the same record
//! special    word 0: its own           word 1: length or site (low 32) | tag and kind (high 32)
//! ```
//!
//! The high 32 bits of word 1 hold an 8-bit tag above a 24-bit site id. Bit 7 of the tag marks a
//! [`Special`] record. Bit 6 marks a span whose duration needs more than 32 bits; its last
//! extension slot holds the high part. The low bits count the extension slots: bits 0 to 5 of a
//! special record, bits 0 to 4 of a span. Bit 5 marks a span that is also a poll of a task; its
//! last extension slot holds the task's id and its site. No span has both bits. Arguments follow
//! their span in order, one word each. Text arguments are keys of [`Special::Text`] records pushed
//! before. A key belongs to one span. With [`KEPT_TEXT`] it may belong to any number of spans,
//! until [`KEPT_TEXTS`] more such texts have been pushed.
//!
//! # Queue
//!
//! One producer, one consumer, no lock. The buffer is divided into chunks. The producer fills one
//! chunk after the other, and continues in the first one that is free:
//!
//! ```text
//!  chunk 0            chunk 1            chunk 2            chunk 3 …
//!  | third, filling   | first, draining  | second, full     | never touched
//!    ^cursor  ^limit     ^offset
//! ```
//!
//! So a thread uses only as much of its buffer as its bursts need. The chunk that it writes next
//! was drained last and is still in the cache. Memory that no burst needed is never touched.
//! [`ChunkEntry`]s store the order in which chunks were filled, by sequence number. A record never
//! spans two chunks.
//!
//! The producer's `cursor` is the address of the next slot, so a push computes only the next
//! cursor. A record that ends at or below `limit` is pushed without a read of the consumer's
//! fields. At the limit, usually the end of the chunk, the slow path finds a free chunk. The limit
//! also excludes memory that was never touched, so the first record on a page takes the slow path.
//! A scope writes its record before it reads the clock at its end, and must not include the time
//! that the system takes to provide a page.
//!
//! # Shared memory
//!
//! A ring can lie in a file of [shared memory](crate::hot::shared), from which its records are
//! [recovered](crate::drain::recovery) if the process is killed. Then the consumer does not free a
//! chunk when it has read it. It frees chunks later, once the outputs have what it read:
//!
//! ```text
//!   freed              settled            sequence, offset     cursor
//!   | texts, or spans  | to be recovered  | to be read         |
//! ```
//!
//! The consumer calls [`settle`](Ring::settle), publishes an epoch for all rings at once, and calls
//! [`release`](Ring::release). `settled` has two entries with their epochs, and the one of the
//! published epoch or of the last before counts. So a process that is killed between any two
//! instructions leaves a position for each ring that agrees with the length of the capture. The
//! chunks behind `settled` are kept for a while, because spans refer to texts in them.

#![expect(
    unsafe_code,
    reason = "the queue is memory shared by two threads; \
              `Sync for Ring` says who may access which slot"
)]

mod memory;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod settled;
mod special;
#[cfg(all(test, not(loom)))]
mod tests;

use std::ops::{Deref, Range};
use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use memory::{Cells, Slots};
use settled::SettledPositions;
pub(crate) use special::{KEPT_TEXT, KEPT_TEXTS, Special};

use crate::os::shared_file::Reserve;
#[cfg(not(loom))]
use crate::sync::UnsafeCell;
use crate::sync::{AtomicU64, Ordering};

/// One slot: two words.
pub(crate) type Slot = [u64; 2];

/// Number of bits of a site id in a record.
pub(crate) const SITE_BITS: u32 = 24;
/// Largest site id, which all later sites and names share.
pub(crate) const MAX_SITE: u32 = (1 << SITE_BITS) - 1;
/// Tag bit of a record that is not a span.
pub(crate) const TAG_SPECIAL: u32 = 0x80 << SITE_BITS;
/// Tag bit of a span longer than 32 bits of ticks.
pub(crate) const TAG_LONG: u32 = 0x40 << SITE_BITS;
/// Tag bit of a span that is also a poll of a task.
pub(crate) const TAG_POLL: u32 = 0x20 << SITE_BITS;
/// Most extension slots of a special record.
pub(crate) const MAX_EXTENSIONS: usize = 0x3f;
/// Most extension slots of a span.
const MAX_SPAN_EXTENSIONS: usize = 0x1f;

/// Returns the number of extension slots in a tag word.
#[inline(always)]
pub(crate) fn extensions(tag_and_site: u32) -> usize {
    let most = if tag_and_site & TAG_SPECIAL != 0 {
        MAX_EXTENSIONS
    } else {
        MAX_SPAN_EXTENSIONS
    };
    (tag_and_site >> SITE_BITS) as usize & most
}

/// Packs word 1.
#[inline(always)]
pub(crate) fn word1(low: u32, tag_and_site: u32) -> u64 {
    u64::from(low) | u64::from(tag_and_site) << 32
}

/// Most chunks of a ring: one bit each, in `FREE_WORDS` words.
const MAX_CHUNKS: u64 = 64 * FREE_WORDS as u64;
const FREE_WORDS: usize = 4;
/// Fewest slots of a chunk, if the ring is large enough: those of the longest record.
const MIN_CHUNK_SLOTS: u64 = 64;
/// Largest high watermark of a ring: 1 MiB, which a second-level cache holds.
const MAX_WATERMARK_SLOTS: u64 = 65_536;

/// Smallest page that a system provides at the first access.
const PAGE_BYTES: u64 = 4096;

/// Bytes of a slot.
const SLOT_BYTES: u64 = size_of::<Slot>() as u64;

/// A bounded queue of slots between one producer and one consumer.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Address of the next record. Written by the producer (release, so that the record is visible
    /// before the cursor), read by the consumer (acquire).
    cursor: AtomicU64,
    /// Address up to which a push may reach. Written by the producer (relaxed). The consumer writes
    /// only 0 (relaxed), to send the producer to its slow path.
    limit: AtomicU64,
    slots: Slots,
    chunk_slots: u64,
    /// The chunk that is being filled. Read and written by the producer alone (relaxed).
    chunk: AtomicU64,
    /// Address up to which the memory has been touched. The limit is never beyond it; the slow path
    /// moves it. Read and written by the producer alone (relaxed).
    touched: AtomicU64,
    /// Records dropped because there was no room or because they interrupted another one.
    /// Incremented by the producer and its signal handlers (release, for readers of the producer's
    /// `progress`), read by the consumer (relaxed: it orders nothing there).
    dropped: AtomicU64,
    /// The chunks in the order in which they are filled, by sequence number modulo their number.
    order: Cells<ChunkEntry>,
    shared: CachePadded<Shared>,
    /// Provides the memory of a chunk before its first use, if the ring lies in a file.
    file: Option<Reserve>,
}

/// The part of a ring in a file that is kept after it was read, as a divisor of its chunks: so much
/// that texts of most open scopes are still there, and so little that a second-level cache holds
/// it.
const KEPT_WRITTEN: u64 = 16;
/// The same where no output writes spans, so that the ring is the only place that has them.
const KEPT_UNWRITTEN: u64 = 2;

/// A chunk's entry in the order of filling. Written by the producer (relaxed) before it stores
/// `started` (release), read by the consumer (relaxed) after it has loaded `started` (acquire).
#[derive(Debug)]
#[repr(C)]
struct ChunkEntry {
    chunk: AtomicU64,
    /// Slots used in it. Written before the next chunk is started.
    used: AtomicU64,
}

/// Fields that both sides use once per chunk, or that only the consumer uses. They have a cache
/// line of their own, separate from the fields that the producer writes for each record.
#[derive(Debug)]
struct Shared {
    /// A bit for each free chunk. The first chunk has the lowest bit of the first word. Set by the
    /// consumer (release, so that it has read the chunk before the producer overwrites it), read
    /// (acquire) and cleared (relaxed) by the producer.
    free: [AtomicU64; FREE_WORDS],
    /// Chunks ever started. Written by the producer (release) before a cursor in the last of them,
    /// read by the consumer (acquire) around the cursor.
    started: AtomicU64,
    /// Sequence number of the chunk that is being drained. Read and written by the consumer alone
    /// (relaxed).
    sequence: AtomicU64,
    /// Slots of that chunk that were consumed. Read and written by the consumer alone (relaxed).
    offset: AtomicU64,
    /// Sequence number of the first chunk that is not free, in a ring that lies in a file. Written
    /// by the consumer (relaxed), before it sets the bits in `free`; read by the producer
    /// (relaxed), for which it is a hint.
    freed: AtomicU64,
    /// The last two settled positions.
    settled: SettledPositions,
}

/// Where the parts of a ring are in its file, in bytes from the beginning of its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) slots: u64,
    pub(crate) slots_address: u64,
    pub(crate) slot_count: u64,
    pub(crate) chunk_slots: u64,
    pub(crate) order: u64,
    pub(crate) cursor: u64,
    pub(crate) started: u64,
    pub(crate) freed: u64,
    pub(crate) settled: u64,
    pub(crate) dropped: u64,
}

// SAFETY: The producer accesses the slots from the cursor to the end of its current chunk. The
// consumer accesses the slots up to the cursor or, in chunks before the last, up to `used`, until
// it sets the chunk's free bit. These ranges are disjoint. A slot passes from one side to the other
// by a release store paired with an acquire load: of the cursor or `started` in one direction, of
// `free` in the other.
unsafe impl Sync for Ring {}

/// The division of a ring into chunks.
#[derive(Clone, Copy)]
struct Shape {
    slots: u64,
    chunk_slots: u64,
    chunks: u64,
}

impl Shape {
    fn of(slots: usize) -> Self {
        let slots = slots.max(4).next_power_of_two() as u64;
        let chunk_slots = (slots / MAX_CHUNKS).max(MIN_CHUNK_SLOTS).min(slots / 2);
        Self {
            slots,
            chunk_slots,
            chunks: slots / chunk_slots,
        }
    }

    /// Bytes of the order of chunks, in whole pages.
    fn order_bytes(self) -> usize {
        (self.chunks as usize * size_of::<ChunkEntry>()).next_multiple_of(PAGE_BYTES as usize)
    }
}

/// Slots of a record that is partly written, and not published yet.
#[derive(Clone, Copy)]
pub(crate) struct Reservation {
    cursor: u64,
    end: u64,
}

/// Index of each half of word 1 among the 32-bit words of a slot.
const LOW_HALF: usize = if cfg!(target_endian = "little") { 2 } else { 3 };
const TAG_HALF: usize = 5 - LOW_HALF;

/// The result of the producer's slow path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There was room, and the ring is below its [high watermark](Ring::high_watermark).
    Plenty,
    /// There was room, and the ring has reached its high watermark: the worker should drain it.
    Filling,
    /// There was no room for the record.
    None,
}

impl Ring {
    /// Makes a ring of `slots` slots, at least 4, rounded up to a power of two. Its memory is not
    /// touched until used.
    pub(crate) fn new(slots: usize) -> Self {
        let shape = Shape::of(slots);
        let entry = |_| ChunkEntry {
            chunk: AtomicU64::new(0),
            used: AtomicU64::new(0),
        };
        let order = Cells::boxed((0..shape.chunks).map(entry).collect());
        Self::with(shape, Slots::zeroed(shape.slots as usize), order, None)
    }

    /// Returns how many bytes [`in_pages`](Self::in_pages) needs.
    pub(crate) fn bytes_in_pages(slots: usize) -> usize {
        Shape::of(slots).order_bytes() + Shape::of(slots).slots as usize * size_of::<Slot>()
    }

    /// Returns how many of these bytes must have memory from the beginning: the order of chunks,
    /// and two chunks, between which the producer can change for ever.
    pub(crate) fn first_bytes_in_pages(slots: usize) -> usize {
        let shape = Shape::of(slots);
        shape.order_bytes() + 2 * shape.chunk_slots as usize * size_of::<Slot>()
    }

    /// Makes a ring of `slots` slots in pages of a file. `file` provides the memory of these bytes.
    ///
    /// # Safety
    ///
    /// The pages must be zero, aligned to a page, never unmapped, and used by nothing else.
    pub(crate) unsafe fn in_pages(first: NonNull<u8>, slots: usize, file: Reserve) -> Self {
        let shape = Shape::of(slots);
        // SAFETY: The caller provides `bytes_in_pages` bytes. All-zero bytes are valid entries and
        // slots, which are integers, and both parts begin at a page.
        let (order, slots) = unsafe {
            (
                Cells::in_pages(first.cast(), shape.chunks as usize),
                Cells::in_pages(first.add(shape.order_bytes()).cast(), shape.slots as usize),
            )
        };
        Self::with(
            shape,
            slots,
            order,
            Some(file.after(shape.order_bytes() as u64)),
        )
    }

    fn with(shape: Shape, slots: Slots, order: Cells<ChunkEntry>, file: Option<Reserve>) -> Self {
        Self {
            cursor: AtomicU64::new(address(&slots)),
            limit: AtomicU64::new(0),
            slots,
            chunk_slots: shape.chunk_slots,
            chunk: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            order,
            shared: CachePadded::new(Shared {
                // All chunks but the first, which the producer fills first.
                free: std::array::from_fn(|word| {
                    let bits = shape.chunks.saturating_sub(64 * word as u64).min(64);
                    let all = u64::MAX.checked_shr(64 - bits as u32).unwrap_or(0);
                    AtomicU64::new(if word == 0 { all & !1 } else { all })
                }),
                started: AtomicU64::new(1),
                sequence: AtomicU64::new(0),
                offset: AtomicU64::new(0),
                freed: AtomicU64::new(0),
                settled: SettledPositions::new(),
            }),
            file,
        }
    }

    /// Makes a ring without room for any record.
    #[cfg(not(loom))]
    pub(crate) const fn none() -> Self {
        Self {
            cursor: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            slots: Slots::none(),
            chunk_slots: 0,
            chunk: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            order: Cells::none(),
            shared: CachePadded::new(Shared {
                free: [const { AtomicU64::new(0) }; FREE_WORDS],
                started: AtomicU64::new(0),
                sequence: AtomicU64::new(0),
                offset: AtomicU64::new(0),
                freed: AtomicU64::new(0),
                settled: SettledPositions::new(),
            }),
            file: None,
        }
    }

    /// Returns the number of slots.
    pub(crate) fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Returns the number of published slots from which on the worker should drain immediately.
    pub(crate) fn high_watermark(&self) -> u64 {
        (self.capacity() / 4).min(MAX_WATERMARK_SLOTS)
    }

    /// Reserves a record of one or more slots, and writes all of it but the low half of its word 1.
    /// [`commit`](Self::commit) completes it. Returns `None` when the limit is reached; the caller
    /// then calls [`push_slow`](Self::push_slow).
    ///
    /// # Safety
    ///
    /// Only the thread that owns the producer side may call this, and it pushes nothing else before
    /// it commits the record or forgets it.
    #[inline(always)]
    pub(crate) unsafe fn reserve<const N: usize>(
        &self,
        word0: u64,
        tag: u32,
        rest: &[Slot; N],
    ) -> Option<Reservation> {
        let cursor = self.cursor.load(Ordering::Relaxed);
        let end = cursor + SLOT_BYTES * (N as u64 + 1);
        if end > self.limit.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: The slots below the limit lie in the buffer and are free, and the caller is the
        // only producer. A half of a word lies within its slot.
        unsafe {
            self.with_slot(cursor, |place| {
                (*place)[0] = word0;
                place.cast::<u32>().add(TAG_HALF).write(tag);
            });
            for (i, slot) in rest.iter().enumerate() {
                let at = cursor + SLOT_BYTES * (i as u64 + 1);
                self.with_slot(at, |place| *place = *slot);
            }
        }
        Some(Reservation { cursor, end })
    }

    /// Completes a record that [`reserve`](Self::reserve) wrote, and publishes it.
    ///
    /// # Safety
    ///
    /// As for `reserve`, which was the last call on this ring and returned `record`.
    #[inline(always)]
    pub(crate) unsafe fn commit(&self, record: Reservation, low: u32) {
        // SAFETY: as in `reserve`.
        unsafe {
            self.with_slot(record.cursor, |place| {
                place.cast::<u32>().add(LOW_HALF).write(low)
            });
        }
        self.cursor.store(record.end, Ordering::Release);
    }

    /// Publishes a record whose number of slots is known only at run time, or returns `false` when
    /// the limit is reached.
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
        // SAFETY: as in `reserve`.
        unsafe { self.write(cursor, record) };
        self.cursor.store(end, Ordering::Release);
        true
    }

    /// Publishes a record of any size, in another chunk if necessary, and sets the next limit.
    /// Returns [`Room::None`] if there is no room.
    ///
    /// # Safety
    ///
    /// Only the thread that owns the producer side may call this.
    pub(crate) unsafe fn push_slow(&self, record: &[Slot]) -> Room {
        let needed = record.len() as u64;
        let mut chunk = self.chunk.load(Ordering::Relaxed);
        let base = address(&self.slots);
        let mut at = (self.cursor.load(Ordering::Relaxed) - base) / SLOT_BYTES;
        let begin = chunk * self.chunk_slots;
        if at + needed > begin + self.chunk_slots {
            let next = if needed <= self.chunk_slots {
                self.take_free().filter(|next| match &self.file {
                    None => true,
                    Some(file) => self.has_memory(file, *next),
                })
            } else {
                None
            };
            let Some(next) = next else {
                self.limit.store(0, Ordering::Relaxed);
                return Room::None;
            };
            let used = at - begin;
            chunk = next;
            at = chunk * self.chunk_slots;
            self.chunk.store(chunk, Ordering::Relaxed);
            let started = self.shared.started.load(Ordering::Relaxed);
            self.entry(started - 1).used.store(used, Ordering::Relaxed);
            self.entry(started).chunk.store(chunk, Ordering::Relaxed);
            // Stored before the cursor: a consumer that sees a cursor in this chunk also sees that
            // the chunk has started.
            self.shared.started.store(started + 1, Ordering::Release);
        }
        // SAFETY: The chunk is the producer's from `at` on, and the caller is the only producer.
        unsafe { self.write(base + at * SLOT_BYTES, record) };
        let cursor = base + (at + needed) * SLOT_BYTES;
        self.cursor.store(cursor, Ordering::Release);
        // Writing the record made the system provide its page, here and not within the span of a
        // scope that ends.
        let touched = cursor
            .next_multiple_of(PAGE_BYTES)
            .max(self.touched.load(Ordering::Relaxed));
        self.touched.store(touched, Ordering::Relaxed);
        let end = base + (chunk + 1) * self.chunk_slots * SLOT_BYTES;
        self.limit.store(end.min(touched), Ordering::Relaxed);
        let free = |word: &AtomicU64| u64::from(word.load(Ordering::Relaxed).count_ones());
        let full = self.order.len() as u64 - self.shared.free.iter().map(free).sum::<u64>() - 1;
        let full = match &self.file {
            None => full,
            Some(_) => full.saturating_sub(self.kept()),
        };
        let used = full * self.chunk_slots + (at + needed - chunk * self.chunk_slots);
        if used >= self.high_watermark() {
            Room::Filling
        } else {
            Room::Plenty
        }
    }

    /// Takes the first chunk that is free. Called by the producer.
    fn take_free(&self) -> Option<u64> {
        for (word, free) in (0..).zip(&self.shared.free) {
            let bits = free.load(Ordering::Acquire);
            if bits != 0 {
                let bit = u64::from(bits.trailing_zeros());
                // The consumer may set bits in the meantime, but clears none.
                free.fetch_and(!(1 << bit), Ordering::Relaxed);
                return Some(64 * word + bit);
            }
        }
        None
    }

    /// Returns whether a chunk that was taken has memory. If the file cannot get any, the chunk is
    /// given back.
    #[cold]
    fn has_memory(&self, file: &Reserve, chunk: u64) -> bool {
        let bytes = self.chunk_slots * SLOT_BYTES;
        let has = file.reserve(chunk * bytes, bytes);
        if !has {
            self.set_free(chunk);
        }
        has
    }

    fn set_free(&self, chunk: u64) {
        self.shared.free[(chunk / 64) as usize].fetch_or(1 << (chunk % 64), Ordering::Release);
    }

    /// Returns the number of chunks that were read and are not free. An estimate if called by the
    /// producer.
    #[cold]
    fn kept(&self) -> u64 {
        let read = self.shared.sequence.load(Ordering::Relaxed);
        read.saturating_sub(self.shared.freed.load(Ordering::Relaxed))
    }

    fn entry(&self, sequence: u64) -> &ChunkEntry {
        &self.order[(sequence % self.order.len() as u64) as usize]
    }

    /// Writes a record from the address `at` on.
    ///
    /// # Safety
    ///
    /// The slots must lie in the buffer and be the caller's to write.
    unsafe fn write(&self, at: u64, record: &[Slot]) {
        for (slot, at) in record.iter().zip((at..).step_by(SLOT_BYTES as usize)) {
            // SAFETY: the caller guarantees it, for each of the slots.
            unsafe { self.with_slot(at, |place| *place = *slot) };
        }
    }

    /// Calls `access` with the slot at the address `at`.
    ///
    /// # Safety
    ///
    /// `at` must be the address of a slot of the buffer, and the slot must be the caller's to
    /// write.
    #[inline(always)]
    unsafe fn with_slot(&self, at: u64, access: impl FnOnce(*mut Slot)) {
        #[cfg(not(loom))]
        // SAFETY: The caller guarantees that the slot lies in the buffer.
        let cell = unsafe { &*std::ptr::with_exposed_provenance::<UnsafeCell<Slot>>(at as usize) };
        #[cfg(loom)]
        let cell = &self.slots[(at / SLOT_BYTES) as usize];
        cell.with_mut(access);
    }

    /// Counts a record that found no room. Called by the producer, and by its signal handlers at
    /// any point.
    #[cold]
    pub(crate) fn count_drop(&self) {
        self.dropped.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of records dropped since the ring was made.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Returns numbers that change with every record that the producer pushes or drops. Called by
    /// any thread, and ordered with its other acquire loads.
    #[cfg(feature = "locks")]
    pub(crate) fn progress(&self) -> [u64; 3] {
        // The number of chunks distinguishes two visits of the cursor to one chunk.
        [&self.cursor, &self.shared.started, &self.dropped].map(|word| word.load(Ordering::Acquire))
    }

    /// Sends the producer's next push to its slow path. Called by the consumer.
    pub(crate) fn arm(&self) {
        self.limit.store(0, Ordering::Relaxed);
    }

    /// Returns the number of published slots that are not consumed yet. Called by the consumer.
    pub(crate) fn len(&self) -> u64 {
        let mut len = 0;
        let (cursor, started) = self.published();
        let mut offset = self.shared.offset.load(Ordering::Relaxed);
        for sequence in self.shared.sequence.load(Ordering::Relaxed)..started {
            len += self.used(sequence, cursor, started).saturating_sub(offset);
            offset = 0;
        }
        len
    }

    /// Reads the producer's position: its cursor in slots, and the number of chunks it has started.
    ///
    /// The number is the same before and after the cursor is read. So the cursor is in the last of
    /// these chunks, or at the end of the used part of the chunk before it.
    fn published(&self) -> (u64, u64) {
        let mut started = self.shared.started.load(Ordering::Acquire);
        loop {
            let cursor = self.cursor.load(Ordering::Acquire) - address(&self.slots);
            let now = self.shared.started.load(Ordering::Acquire);
            if now == started {
                return (cursor / SLOT_BYTES, started);
            }
            started = now;
        }
    }

    /// Returns how many slots of a chunk are published.
    fn used(&self, sequence: u64, cursor: u64, started: u64) -> u64 {
        let entry = self.entry(sequence);
        if sequence + 1 < started {
            return entry.used.load(Ordering::Relaxed);
        }
        // A cursor that is still in the previous chunk is outside of this one, or at its start if
        // that chunk ends there.
        let used = cursor.wrapping_sub(entry.chunk.load(Ordering::Relaxed) * self.chunk_slots);
        if used <= self.chunk_slots { used } else { 0 }
    }

    /// Calls `take` with the published slots, in order, one part after the other. `take` returns
    /// how many slots of a part it consumed. If that is fewer than all, it is not called again.
    /// Slots that are published in the meantime wait for the next call.
    ///
    /// # Safety
    ///
    /// Only one thread at a time may call this.
    pub(crate) unsafe fn consume(&self, mut take: impl FnMut(&[Slot]) -> usize) {
        let (cursor, started) = self.published();
        let shared = &self.shared;
        loop {
            let sequence = shared.sequence.load(Ordering::Relaxed);
            let offset = shared.offset.load(Ordering::Relaxed);
            let chunk = self.entry(sequence).chunk.load(Ordering::Relaxed);
            let used = self.used(sequence, cursor, started);
            if offset < used {
                let begin = chunk * self.chunk_slots;
                let range = (begin + offset) as usize..(begin + used) as usize;
                // SAFETY: These slots are published and not consumed, so they are initialised, and
                // the producer does not write them before the chunk is set free below, when the
                // slice is dead.
                let part = unsafe { self.view(range) };
                let taken = take(&part);
                assert!(taken <= part.len(), "a consumer takes what is there");
                shared
                    .offset
                    .store(offset + taken as u64, Ordering::Relaxed);
                if taken < part.len() {
                    return;
                }
            }
            if sequence + 1 >= started {
                return;
            }
            shared.sequence.store(sequence + 1, Ordering::Relaxed);
            shared.offset.store(0, Ordering::Relaxed);
            if self.file.is_none() {
                self.set_free(chunk);
            }
        }
    }

    /// Notes, for the next `epoch`, that the outputs have what was consumed, or if they write no
    /// spans, that the older part of it may go. Returns whether that is news. The caller publishes
    /// the epoch before it calls [`release`](Self::release). Called by the consumer.
    pub(crate) fn settle(&self, epoch: u64, are_written: bool) -> bool {
        if self.file.is_none() {
            return false;
        }
        let shared = &self.shared;
        let sequence = shared.sequence.load(Ordering::Relaxed);
        let position = if are_written {
            sequence * self.chunk_slots + shared.offset.load(Ordering::Relaxed)
        } else {
            sequence.saturating_sub(self.chunks_to_keep(KEPT_UNWRITTEN)) * self.chunk_slots
        };
        shared.settled.add(epoch, position, self.dropped())
    }

    /// Frees the oldest chunks of those before the settled position, whose epoch is published.
    /// Called by the consumer.
    pub(crate) fn release(&self) {
        if self.file.is_none() {
            return;
        }
        let shared = &self.shared;
        let settled = shared.settled.last() / self.chunk_slots;
        let read = shared.sequence.load(Ordering::Relaxed);
        let kept = self.chunks_to_keep(KEPT_WRITTEN);
        let end = read.saturating_sub(kept).min(settled);
        let begin = shared.freed.load(Ordering::Relaxed);
        if begin < end {
            // Before the bits: a chunk that the producer may fill is not to be recovered.
            shared.freed.store(end, Ordering::Relaxed);
            for sequence in begin..end {
                self.set_free(self.entry(sequence).chunk.load(Ordering::Relaxed));
            }
        }
    }

    /// Returns how many chunks are kept after they were read: a part of all of them, and none if
    /// the producer needs them because the file gets no more memory.
    fn chunks_to_keep(&self, divisor: u64) -> u64 {
        match &self.file {
            Some(file) if !file.is_short() => self.order.len() as u64 / divisor,
            _ => 0,
        }
    }

    /// Returns the position of the next record, as [`settle`](Self::settle) counts. Called while
    /// the ring has no producer.
    pub(crate) fn pushed_position(&self) -> u64 {
        let at = (self.cursor.load(Ordering::Relaxed) - address(&self.slots)) / SLOT_BYTES;
        let offset = at - self.chunk.load(Ordering::Relaxed) * self.chunk_slots;
        (self.shared.started.load(Ordering::Relaxed) - 1) * self.chunk_slots + offset
    }

    /// Returns where the parts of the ring are, relative to `base`, the address of its memory.
    pub(crate) fn places(&self, base: usize) -> Places {
        let at = |word: *const AtomicU64| (word.addr() - base) as u64;
        Places {
            slots: (self.slots.as_ptr().addr() - base) as u64,
            slots_address: address(&self.slots),
            slot_count: self.capacity(),
            chunk_slots: self.chunk_slots,
            order: (self.order.as_ptr().addr() - base) as u64,
            cursor: at(&raw const self.cursor),
            started: at(&raw const self.shared.started),
            freed: at(&raw const self.shared.freed),
            settled: at((&raw const self.shared.settled).cast()),
            dropped: at(&raw const self.dropped),
        }
    }

    /// Returns the slots of a range.
    ///
    /// # Safety
    ///
    /// The slots must be the consumer's for as long as the slice lives.
    #[cfg(not(loom))]
    unsafe fn view(&self, range: Range<usize>) -> impl Deref<Target = [Slot]> {
        let cells = &self.slots[range];
        // SAFETY: `UnsafeCell<Slot>` is transparent over `Slot`, and the caller guarantees that
        // no thread writes.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast::<Slot>(), cells.len()) }
    }

    /// Copies the slots of a range one by one, so that the model checks every access.
    #[cfg(loom)]
    unsafe fn view(&self, range: Range<usize>) -> impl Deref<Target = [Slot]> {
        let cells = self.slots[range].iter();
        // SAFETY: the caller guarantees that no thread writes.
        cells
            .map(|cell| cell.with(|place| unsafe { *place }))
            .collect::<Vec<Slot>>()
    }
}

/// Returns the address of the first slot. The model counts from 0, because its slots are not plain
/// memory.
fn address(slots: &Slots) -> u64 {
    if cfg!(loom) {
        0
    } else {
        slots.as_ptr().expose_provenance() as u64
    }
}
