//! Keeps spans from their creation to their closing: slots in a table, which all threads share
//! without a lock.
//!
//! A slot is free when its key is 0, and is taken by writing the span's id there. The table is a
//! row of parts of equal size. The first part is a static. Each other part is allocated when it is
//! first needed, and none is freed: they cover the most spans that were ever open at once.
//!
//! The first parts are divided into *homes* of 64 slots, one for each thread that makes spans. Only
//! that thread takes slots there, so it needs no agreement with others, and any thread frees them.
//! A thread with more spans takes slots from the later parts, which all threads share.
//!
//! vor's own ids contain the slot's number, and a thread's search for a free slot starts at the one
//! it freed last. vor cannot choose the ids of a registry; see [`registered`](super::registered).

use std::cell::Cell;
use std::sync::{OnceLock, PoisonError};

use crossbeam_utils::CachePadded;

use super::Instance;
use super::fields::{Texts, Words};
use crate::hot::callsite::{Kinds, MAX_ARGS};
use crate::hot::ring::MAX_SITE;
use crate::hot::thread;
use crate::os::report;
use crate::sync::{
    self, AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, const_fn, fence, statics,
    thread_locals,
};

/// A span from its creation to its closing.
///
/// The creator of the span writes all of it before any other thread has its id, and the thread that
/// closes it has it alone again. The program passes the id from one to the other, which orders
/// their accesses. A field that is written in between documents its order. All accesses but those
/// of the key are relaxed. The fields are in memory order: those that spans without arguments need
/// are on one cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slot {
    /// The span's id, 0 if there is no span. Written by the thread that takes the slot, after it
    /// saw the slot free (acquire), and by the thread that frees it (release). Threads that have
    /// the id read it relaxed.
    pub(super) key: AtomicU64,
    pub(super) instance: AtomicU32,
    /// The thread that made the span.
    pub(super) creator: AtomicU32,
    /// How many times its creator has entered it and not left it. Only the creator reads and writes
    /// it.
    pub(super) entered: AtomicU32,
    /// Handles of the span under vor's subscriber. Threads that copy or drop a handle count it; the
    /// last drop (acquire, release) closes the span.
    pub(crate) handles: AtomicU32,
    /// Number of its site.
    pub(super) site: AtomicU32,
    /// The id of its site at the time when the span became a task, which names the task.
    pub(super) task_id: AtomicU32,
    /// The id for the site and the kinds of its arguments in the low 24 bits, flags above, and the
    /// kinds in the high half. Written by the creator, and later in the same way as `words`.
    pub(super) word: AtomicU64,
    /// Begin and end of the one time that its creator entered it; 0 once that is recorded as a poll
    /// of its task. Written by the creator, and by the thread that closes it.
    pub(super) once_start: AtomicU64,
    pub(super) once_end: AtomicU64,
    /// The id of the task, or 0 if the span is not a task. Set once, by the first thread that finds
    /// that it is one. In a free slot, `once_end`, `task` and `task_start` are 0.
    pub(super) task: AtomicU64,
    /// Begin of the task, 0 if it is not known. It only decreases.
    pub(super) task_start: AtomicU64,
    /// Odd while the following fields are being rewritten; see [`rewrite`](Self::rewrite).
    version: AtomicU32,
    /// The thread whose ring has the texts with keys among the words. Written in the same way as
    /// `words`.
    pub(super) text_owner: AtomicU32,
    /// The key up to which that thread's ring keeps all of those texts; 0 if it does not.
    pub(super) kept_until: AtomicU64,
    /// Words of the arguments. Written by the creator, and later under the lock of the texts by
    /// [`rewrite`](Self::rewrite).
    pub(super) words: Words,
    pub(super) texts: sync::global::Mutex<Option<Box<Texts>>>,
}

/// The span and its descendants are not recorded.
pub(super) const UNSAMPLED: u64 = 1 << 24;
/// Some argument is a text.
pub(super) const HAS_TEXT: u64 = 1 << 25;
/// The memory of its texts is more than the next span may keep.
pub(super) const HAS_LARGE_TEXT: u64 = 1 << 26;

/// Position in the flags of the number of word pairs that the arguments take.
const PAIRS_SHIFT: u32 = 27;

/// Returns the flags of spans with `arg_count` arguments.
pub(super) fn flags_of(arg_count: usize) -> u64 {
    (arg_count.min(MAX_ARGS).div_ceil(2) as u64) << PAIRS_SHIFT
}

/// Returns the number of word pairs of the arguments, from a slot's word.
#[inline(always)]
pub(super) fn pairs_in(word: u64) -> u64 {
    word >> PAIRS_SHIFT & 7
}

/// Returns the id in a slot's word.
#[inline]
pub(super) fn id_in(word: u64) -> u32 {
    word as u32 & MAX_SITE
}

/// Returns the kinds in a slot's word.
#[inline]
pub(super) fn kinds_in(word: u64) -> Kinds {
    (word >> 32) as Kinds
}

/// Returns a slot's word.
#[inline]
pub(super) fn word_of(id: u32, flags: u64, kinds: Kinds) -> u64 {
    u64::from(kinds) << 32 | flags | u64::from(id & MAX_SITE)
}

impl Slot {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self {
                key: AtomicU64::new(0),
                instance: AtomicU32::new(0),
                creator: AtomicU32::new(0),
                entered: AtomicU32::new(0),
                handles: AtomicU32::new(0),
                site: AtomicU32::new(0),
                word: AtomicU64::new(0),
                task_id: AtomicU32::new(0),
                once_start: AtomicU64::new(0),
                once_end: AtomicU64::new(0),
                task: AtomicU64::new(0),
                task_start: AtomicU64::new(0),
                version: AtomicU32::new(0),
                text_owner: AtomicU32::new(0),
                kept_until: AtomicU64::new(0),
                words: sync::array![AtomicU64::new(0); MAX_ARGS],
                texts: sync::global::Mutex::new(None),
            }
        }
    }

    #[inline]
    pub(super) fn is_of(&self, key: u64, instance: Instance) -> bool {
        self.key.load(Ordering::Relaxed) == key && self.instance.load(Ordering::Relaxed) == instance
    }

    /// Takes a slot of this thread's home, unless it is taken. Other threads only free such a slot,
    /// so a free one stays free.
    #[inline]
    pub(super) fn claim_own(&self, key: u64, instance: Instance) -> bool {
        let is_free = self.key.load(Ordering::Acquire) == 0;
        if is_free {
            self.instance.store(instance, Ordering::Relaxed);
            self.key.store(key, Ordering::Relaxed);
        }
        is_free
    }

    /// Takes a slot that other threads can take as well, unless it is taken.
    fn claim(&self, key: u64, instance: Instance) -> bool {
        let taken = self
            .key
            .compare_exchange(0, key, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_ok() {
            self.instance.store(instance, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    /// Frees the slot for the next span.
    #[inline]
    pub(super) fn free(&self) {
        self.key.store(0, Ordering::Release);
    }

    /// Lets `write` change the word, the words of the arguments and the state of their texts, so
    /// that concurrent readers notice it. Must be called under the lock of the texts.
    pub(super) fn rewrite(&self, write: impl FnOnce()) {
        let version = self.version.load(Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        write();
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
    }

    /// Returns the version before a read without the lock.
    #[inline(always)]
    pub(super) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns whether everything read since [`version`](Self::version) is consistent.
    #[inline(always)]
    pub(super) fn is_still(&self, version: u32) -> bool {
        fence(Ordering::Acquire);
        version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version
    }

    /// Returns the span's bits of `mask` among its flags.
    #[inline]
    pub(super) fn flags(&self, mask: u64) -> u64 {
        self.word.load(Ordering::Relaxed) & mask
    }

    /// Returns whether the span is recorded.
    #[inline]
    pub(crate) fn is_sampled(&self) -> bool {
        self.flags(UNSAMPLED) == 0
    }
}

/// Slots of one part. A model has two parts of two slots each.
const PART: usize = if cfg!(loom) { 2 } else { 1024 };
/// Slots of a home.
pub(super) const HOME: usize = if cfg!(loom) { 1 } else { 64 };
/// Parts that are divided into homes, for 4096 threads with a home at the same time.
const HOME_PARTS: usize = if cfg!(loom) { 1 } else { 256 };
/// Parts of each size that all threads share; together they hold 4.8 million spans.
const SHARED_PARTS: &[usize] = if cfg!(loom) {
    &[1]
} else {
    &[8, 64, 512, 4096]
};
/// Places that are tried in each size, and in a home.
pub(super) const TRIES: usize = if cfg!(loom) { 2 } else { 8 };

statics! {
    /// The first part: programs of up to 16 threads need no other homes.
    static FIRST: [CachePadded<Slot>; PART] = sync::array![CachePadded::new(Slot::new()); PART];
}

const OTHER_PARTS: usize = if cfg!(loom) {
    1
} else {
    HOME_PARTS - 1 + 8 + 64 + 512 + 4096
};

statics! {
    /// All other parts, in order. The thread that first needs a part allocates it.
    static OTHERS: [OnceLock<Box<[CachePadded<Slot>]>>; OTHER_PARTS] =
        [const { OnceLock::new() }; OTHER_PARTS];
}

/// Number of a slot: its part's number times `PART`, plus its index there.
pub(crate) type Place = u32;

#[inline]
pub(super) fn slot(place: Place) -> Option<&'static Slot> {
    let place = place as usize;
    if let Some(slot) = FIRST.get(place) {
        return Some(slot);
    }
    Some(OTHERS.get(place / PART - 1)?.get()?.get(place % PART)?)
}

/// Returns a part, and allocates it if needed.
fn ensure_part(part: usize) -> Option<&'static [CachePadded<Slot>]> {
    match part.checked_sub(1) {
        None => Some(&FIRST[..]),
        Some(other) => {
            let slot = |_| CachePadded::new(Slot::new());
            let make = || thread::while_busy(|| (0..PART).map(slot).collect());
            Some(OTHERS.get(other)?.get_or_init(make))
        }
    }
}

/// The home of a thread, and the position of its next claim.
pub(super) struct ThreadHome {
    /// The slots; empty if the thread has no home yet or no longer has one.
    pub(super) slots: Cell<&'static [CachePadded<Slot>]>,
    /// The place of the first of them.
    pub(super) first: Cell<Place>,
    /// The index where the thread looks for the next free slot: the one it freed last.
    next: Cell<u32>,
    /// Spans that the thread has made under vor's own ids.
    made: Cell<u64>,
    /// The bits of this thread in a registry's ids, plus 1, once the hint for finders is published.
    pub(super) hinted: Cell<u64>,
    has_ended: Cell<bool>,
}

thread_locals! {
    pub(super) static THREAD_HOME: ThreadHome = const {
        ThreadHome {
            slots: Cell::new(&[]),
            first: Cell::new(0),
            next: Cell::new(0),
            made: Cell::new(0),
            hinted: Cell::new(0),
            has_ended: Cell::new(false),
        }
    };

    /// Returns the home to the pool when this thread ends.
    static HOME_GUARD: Cell<Option<HomeGuard>> = const { Cell::new(None) };
}

struct HomeGuard(u32);

impl Drop for HomeGuard {
    fn drop(&mut self) {
        let _ = THREAD_HOME.try_with(|home| {
            home.slots.set(&[]);
            home.has_ended.set(true);
        });
        // Spans that live on keep their slots; the next owner of the home finds them taken.
        home_pool().free.push(self.0);
    }
}

/// Returns this thread's home to the pool, as the thread's end does. A model ends its threads
/// itself, because loom frees the pool before the last of them.
#[cfg(all(test, loom))]
pub(super) fn end_thread() {
    drop(HOME_GUARD.with(Cell::take));
}

struct HomePool {
    assigned: u32,
    free: Vec<u32>,
}

statics! {
    static HOME_POOL: Mutex<HomePool> = Mutex::new(HomePool {
        assigned: 0,
        free: Vec::new(),
    });

    /// Homes that were ever assigned. Written under their lock, read relaxed by threads that search
    /// all homes: the id that they look for was made after its home was assigned.
    pub(super) static HOMES_ASSIGNED: AtomicU32 = AtomicU32::new(0);
}

fn home_pool() -> MutexGuard<'static, HomePool> {
    HOME_POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Assigns a home to this thread. Does nothing if the thread is ending, or if all homes are taken.
#[cold]
pub(super) fn acquire_home(home: &ThreadHome) {
    if home.has_ended.get() || home.hinted.get() == NO_HOME {
        return;
    }
    let number = thread::while_busy(|| {
        let mut homes = home_pool();
        let number = homes.free.pop().unwrap_or(homes.assigned);
        if number as usize >= HOME_PARTS * PART / HOME {
            return None;
        }
        homes.assigned = homes.assigned.max(number + 1);
        HOMES_ASSIGNED.store(homes.assigned, Ordering::Relaxed);
        drop(homes);
        let guard = HomeGuard(number);
        HOME_GUARD.try_with(|cell| cell.set(Some(guard))).ok()?;
        Some(number)
    });
    let first = number.map(|number| number as usize * HOME);
    let slots =
        first.and_then(|first| ensure_part(first / PART)?.get(first % PART..first % PART + HOME));
    match (first, slots) {
        (Some(first), Some(slots)) => {
            home.first.set(first as Place);
            home.next.set(0);
            home.slots.set(slots);
        }
        _ => home.hinted.set(NO_HOME),
    }
}

/// The value of [`ThreadHome::hinted`] in a thread for which there was no home.
const NO_HOME: u64 = u64::MAX;

/// Position of the thread's bits in the registry's ids, as `tracing-subscriber` encoded them when
/// this was written.
pub(super) const THREAD_SHIFT: u32 = 38;
pub(super) const THREAD_BITS: u32 = if cfg!(loom) { 1 } else { 13 };

#[inline]
pub(super) fn thread_bits(key: u64) -> u64 {
    key >> THREAD_SHIFT & ((1 << THREAD_BITS) - 1)
}

/// Returns the possible places of a span among the shared slots, smaller sizes first.
pub(super) fn shared_places(key: u64) -> impl Iterator<Item = Place> {
    let start = key as usize ^ (thread_bits(key) as usize).wrapping_mul(0x9e5);
    let mut first_part = HOME_PARTS;
    SHARED_PARTS.iter().flat_map(move |parts| {
        let first = first_part * PART;
        first_part += parts;
        (0..TRIES).map(move |i| (first + (start.wrapping_add(i)) % (parts * PART)) as Place)
    })
}

statics! {
    /// Whether there are shared slots. Set before a span is put there; the thread that put it
    /// passes its id to the finders.
    pub(super) static HAS_SHARED: AtomicBool = AtomicBool::new(false);
}

/// Takes a slot among the shared ones. `None` if the table is full, which is reported once.
#[cold]
pub(super) fn claim_shared(
    start: u64,
    key_at: impl Fn(Place) -> u64,
    instance: Instance,
) -> Option<(Place, &'static Slot)> {
    HAS_SHARED.store(true, Ordering::Relaxed);
    for place in shared_places(start) {
        if let Some(slot) = ensure_part(place as usize / PART)?.get(place as usize % PART)
            && slot.claim(key_at(place), instance)
        {
            return Some((place, slot));
        }
    }
    report_full();
    None
}

#[cold]
fn report_full() {
    /// Set by the first thread that finds the table full (relaxed).
    static REPORTED: sync::global::AtomicBool = sync::global::AtomicBool::new(false);
    if !REPORTED.swap(true, Ordering::Relaxed) {
        report::line("too many spans of `tracing` are open; further ones are not recorded");
    }
}

/// Bits of vor's own ids that hold the slot's number, plus 1.
const PLACE_BITS: u32 = 24;

/// Returns the id of the `made`-th span of a thread, at a place. Two threads may make the same id
/// one after the other, but no two spans have it at the same time.
#[inline]
fn key_of(made: u64, place: Place) -> u64 {
    made << PLACE_BITS | u64::from(place + 1)
}

/// Takes the slot at this thread's next index, if it is at its home and free. Returns the slot and
/// the new span's id. `None` if nothing has been changed.
#[inline(always)]
fn try_claim(instance: Instance) -> Option<(u64, &'static Slot)> {
    let (slots, first, at, made) = THREAD_HOME.with(|home| {
        let at = home.next.get() as usize % HOME;
        (home.slots.get(), home.first.get(), at, home.made.get() + 1)
    });
    let slot = slots.get(at)?;
    let key = key_of(made, first + at as Place);
    if !slot.claim_own(key, instance) {
        return None;
    }
    THREAD_HOME.with(|home| {
        home.made.set(made);
        home.next.set(at as u32 + 1);
    });
    Some((key, slot))
}

/// Takes any slot, and returns it with the new span's id. `None` if the table is full, which is
/// reported once.
#[inline(always)]
pub(super) fn claim_next(instance: Instance) -> Option<(u64, &'static Slot)> {
    if let Some(claimed) = try_claim(instance) {
        return Some(claimed);
    }
    claim_next_slow(instance)
}

#[cold]
#[inline(never)]
fn claim_next_slow(instance: Instance) -> Option<(u64, &'static Slot)> {
    THREAD_HOME.with(|home| claim_next_at(home, instance))
}

fn claim_next_at(home: &ThreadHome, instance: Instance) -> Option<(u64, &'static Slot)> {
    let made = home.made.get() + 1;
    home.made.set(made);
    if home.slots.get().is_empty() {
        acquire_home(home);
    }
    for (at, slot) in (0..).zip(home.slots.get()) {
        let key = key_of(made, home.first.get() + at);
        if slot.claim_own(key, instance) {
            home.next.set(at + 1);
            return Some((key, slot));
        }
    }
    // Spread over the shared slots, so that few have to be tried.
    let start = made.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 ^ u64::from(home.first.get());
    let (place, slot) = claim_shared(start, |place| key_of(made, place), instance)?;
    Some((key_of(made, place), slot))
}

/// Finds a span by an id that [`claim_next`] made.
#[inline]
pub(crate) fn find(key: u64, instance: Instance) -> Option<(Place, &'static Slot)> {
    let place = ((key & ((1 << PLACE_BITS) - 1)) as Place).checked_sub(1)?;
    let slot = slot(place)?;
    slot.is_of(key, instance).then_some((place, slot))
}

/// Makes this thread look at `place` for its next slot, if `place` is at its home.
#[inline(always)]
pub(super) fn prefer(place: Place) {
    let at = place.wrapping_sub(THREAD_HOME.with(|home| home.first.get()));
    if (at as usize) < HOME {
        THREAD_HOME.with(|home| home.next.set(at));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_reuses_the_slot_that_it_freed_last() {
        let instance = super::super::new_instance();
        let place_of = |key| find(key, instance).map(|(place, _)| place);
        let (first, slot) = claim_next(instance).unwrap();
        let first_place = place_of(first).unwrap();
        slot.free();
        prefer(first_place);
        let (second, slot) = claim_next(instance).unwrap();
        assert_eq!(place_of(second), Some(first_place));
        assert_ne!(first, second);
        assert_eq!((place_of(first), place_of(u64::MAX)), (None, None));
        slot.free();
        let count = if cfg!(miri) { 200 } else { 20_000 };
        let many: Vec<_> = (0..count).map(|_| claim_next(instance).unwrap()).collect();
        let mut places: Vec<Place> = many
            .iter()
            .map(|(key, _)| place_of(*key).unwrap())
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), many.len());
        many.iter().for_each(|(_, slot)| slot.free());
    }
}
