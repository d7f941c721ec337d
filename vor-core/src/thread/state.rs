//! What one thread records into: its ring, and the stack of its open scopes.
//!
//! The stack is an array that the thread alone writes and anyone may read. Where its next entry goes is counted in bytes, so that the hot path adds
//! it to an address and need not multiply.

use super::counted::{Late, Table};
use super::used::Ways;
use crate::catalog::{SiteId, ThreadId};
use crate::metrics::Block;
use crate::ring::{KEPT_TEXTS, Ring};
use crate::scope::Noted;
use crate::sync::global::{AtomicPtr, AtomicU32, AtomicU64};
use crate::sync::{AtomicBool, Ordering};

/// Open scopes whose site and start are kept per thread; deeper ones are only counted.
pub const MAX_OPEN: usize = 128;

/// Bytes of an entry of the stack.
const ENTRY_BYTES: u32 = size_of::<OpenEntry>() as u32;

/// Bytes of the stack.
const STACK_BYTES: u32 = MAX_OPEN as u32 * ENTRY_BYTES;

/// What one thread records into.
///
/// The order is that of the memory: the ring ends with what its producer uses, and `top` stands on one cache line with the outermost entries.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct ThreadState {
    pub(crate) ring: Ring,
    /// Open scopes, times the bytes of an entry. Written by the thread (release, after the entry it uncovers), read by anyone (acquire).
    top: AtomicU32,
    /// Set by the thread's end (release), read by the worker (acquire), which then empties the ring for the last time.
    exited: AtomicBool,
    /// Next key of a pushed text. The thread alone reads and writes it.
    next_text: AtomicU64,
    /// What counters add to, null until one does. Written and read by the thread alone, relaxed.
    counts: AtomicPtr<Block>,
    /// Number of the thread in the catalog. Written under the list's lock before the thread gets the state.
    id: AtomicU32,
    open: [OpenEntry; MAX_OPEN],
    /// Where the thread keeps what it has used up.
    pub(super) ways: Ways,
    /// As `next_text`, of texts that are kept. It begins so high that no text is kept yet.
    next_kept: AtomicU64,
    /// What the thread counts of its scopes, once it does. It stands last: the hot path of what is recorded knows nothing of it.
    pub(super) counted: Late<Table>,
}

/// A scope that is open now. Both fields are written by the thread, the start first, and read by anyone, who detects a change by reading twice. The
/// stores are releases, so that whoever sees one of them also sees the height from before, at which the entry was not in use.
#[derive(Debug, Default)]
#[repr(C)]
struct OpenEntry {
    start_ticks: AtomicU64,
    site: AtomicU32,
}

impl ThreadState {
    pub(crate) fn new(ring_slots: usize) -> Self {
        Self {
            ring: Ring::new(ring_slots),
            top: AtomicU32::new(0),
            exited: AtomicBool::new(false),
            next_text: AtomicU64::new(1),
            next_kept: AtomicU64::new(KEPT_TEXTS + 1),
            counts: AtomicPtr::new(std::ptr::null_mut()),
            id: AtomicU32::new(0),
            open: [const { OpenEntry::new() }; MAX_OPEN],
            ways: Ways::none(),
            counted: Late::new(),
        }
    }

    /// A state that takes nothing: its stack has no room and its ring none either, so whoever would use it goes the cold path.
    #[cfg(not(loom))]
    pub(super) const fn absent() -> Self {
        Self {
            ring: Ring::none(),
            top: AtomicU32::new(STACK_BYTES),
            exited: AtomicBool::new(false),
            next_text: AtomicU64::new(0),
            next_kept: AtomicU64::new(0),
            counts: AtomicPtr::new(std::ptr::null_mut()),
            id: AtomicU32::new(0),
            open: [const { OpenEntry::new() }; MAX_OPEN],
            ways: Ways::none(),
            counted: Late::new(),
        }
    }

    /// Returns how many scopes stand below a place on the stack.
    #[inline(always)]
    pub(crate) fn depth_of(place: u32) -> usize {
        (place / ENTRY_BYTES) as usize
    }

    /// Returns the place on the stack for one more scope, unless it is deeper than what is kept.
    #[inline(always)]
    pub(crate) fn next_place(&self) -> Option<u32> {
        let place = self.top.load(Ordering::Relaxed);
        (place < STACK_BYTES).then_some(place)
    }

    /// Returns whether the scope that was opened at `place` and `start_ticks` is the innermost one, of those that are kept.
    #[inline(always)]
    pub(crate) fn is_innermost(&self, place: u32, start_ticks: u64) -> bool {
        self.top.load(Ordering::Relaxed) == place.wrapping_add(ENTRY_BYTES)
            && self.start_at(Self::depth_of(place)) == Some(start_ticks)
    }

    /// Returns the start of the scope that was opened last at a depth that is kept.
    #[inline(always)]
    pub(super) fn start_at(&self, depth: usize) -> Option<u64> {
        let entry = self.open.get(depth)?;
        Some(entry.start_ticks.load(Ordering::Relaxed))
    }

    /// Closes the innermost scope, which was opened at `place`.
    #[inline(always)]
    pub(crate) fn pop_innermost(&self, place: u32) {
        self.top.store(place, Ordering::Release);
    }

    /// Notes a scope as open at `place`, which [`next_place`](Self::next_place) returned.
    #[inline(always)]
    pub(crate) fn push_open_at(&self, place: u32, site: u32, start_ticks: u64) {
        self.note(place, site, start_ticks);
        self.top.store(place + ENTRY_BYTES, Ordering::Release);
    }

    #[inline(always)]
    fn note(&self, place: u32, site: u32, start_ticks: u64) {
        debug_assert!(place < STACK_BYTES && place.is_multiple_of(ENTRY_BYTES));
        #[expect(unsafe_code, reason = "an index would be multiplied, and checked once more")]
        // SAFETY: the place lies within the array, as all callers have checked, and is a multiple of an entry's size: `top`, where places come from,
        // starts at 0 or at the end and moves by whole entries, of whose size 2^32 is a multiple too.
        let entry = unsafe { &*self.open.as_ptr().byte_add(place as usize) };
        entry.start_ticks.store(start_ticks, Ordering::Release);
        entry.site.store(site, Ordering::Release);
    }

    /// Notes a scope as open, deeper than what is kept where it has to be, and returns its place.
    pub(crate) fn push_open(&self, site: u32, start_ticks: u64) -> u32 {
        if let Some(place) = self.next_place() {
            self.push_open_at(place, site, start_ticks);
            return place;
        }
        let place = self.top.load(Ordering::Relaxed);
        self.top.store(place.wrapping_add(ENTRY_BYTES), Ordering::Release);
        place
    }

    /// Closes the scope at `place` and all that were opened in it. A scope that outlived the one around it finds itself closed already.
    #[inline(always)]
    pub(crate) fn pop_open(&self, place: u32) {
        if self.top.load(Ordering::Relaxed) > place {
            self.top.store(place, Ordering::Release);
        }
    }

    /// Returns how many scopes [`pop_open`](Self::pop_open) would close.
    pub(crate) fn open_from(&self, place: u32) -> usize {
        let above = self.top.load(Ordering::Relaxed).saturating_sub(place);
        Self::depth_of(above)
    }

    /// Closes the scope at `place` and opens another in its stead; returns its place.
    ///
    /// Where nothing else is open in the scope, its entry is overwritten as it stands, the start first: who looks at that moment may see the new
    /// start with the old site.
    #[inline(always)]
    pub(crate) fn replace_open(&self, place: u32, site: u32, start_ticks: u64) -> u32 {
        if place < STACK_BYTES && self.top.load(Ordering::Relaxed) == place + ENTRY_BYTES {
            self.note(place, site, start_ticks);
            return place;
        }
        self.replace_open_slowly(place, site, start_ticks)
    }

    #[cold]
    #[inline(never)]
    // Of the C calling convention only that it cannot unwind is wanted.
    extern "C" fn replace_open_slowly(&self, place: u32, site: u32, start_ticks: u64) -> u32 {
        self.pop_open(place);
        self.push_open(site, start_ticks)
    }

    /// Returns what tells the innermost scope that is kept apart from all others of this thread: its end on the stack and its start in ticks, both 0
    /// where none is open. Called by the thread alone; of a stand-in the numbers mean nothing.
    #[inline(always)]
    pub(crate) fn innermost(&self) -> (u32, u64) {
        let top = self.top.load(Ordering::Relaxed).min(STACK_BYTES);
        let Some(place) = top.checked_sub(ENTRY_BYTES) else {
            return (0, 0);
        };
        #[expect(unsafe_code, reason = "as for `note`")]
        // SAFETY: as for `note`: a multiple of an entry's size, at most the last entry's.
        let entry = unsafe { &*self.open.as_ptr().byte_add(place as usize) };
        (top, entry.start_ticks.load(Ordering::Relaxed))
    }

    /// Returns the sites of the scopes that are open and kept, outermost first. Called by the thread alone.
    pub(crate) fn own_open_sites(&self) -> impl Iterator<Item = u32> {
        let open = self.open.iter().take(self.depth(Ordering::Relaxed));
        open.map(|entry| entry.site.load(Ordering::Relaxed))
    }

    /// Goes on where `before` stood at a fork: its scopes are open here too, and its keys of texts are taken.
    pub(super) fn inherit(&self, before: &Self) {
        let depth = before.depth(Ordering::Relaxed);
        for (mine, entry) in self.open.iter().zip(&before.open).take(depth) {
            mine.start_ticks
                .store(entry.start_ticks.load(Ordering::Relaxed), Ordering::Release);
            mine.site
                .store(entry.site.load(Ordering::Relaxed), Ordering::Release);
        }
        if let Some(before) = before.counted() {
            self.counted.get_or_make(Table::default).inherit(before);
        }
        self.next_text
            .store(before.next_text.load(Ordering::Relaxed), Ordering::Relaxed);
        // None of those that the other process keeps is kept here.
        self.next_kept.store(
            before.next_kept.load(Ordering::Relaxed) + KEPT_TEXTS,
            Ordering::Relaxed,
        );
        self.top
            .store(before.top.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Returns what was noted of an open scope, the innermost but `depth` of them around it, where it is still that which began at `start_ticks`. To be called with the lock of the list of threads.
    pub(super) fn noted(&self, depth: usize, start_ticks: u64) -> Option<Noted> {
        let noted = self.ways.noted(depth, start_ticks)?;
        let is_open = self.depth(Ordering::Acquire) > depth && self.start_at(depth) == Some(start_ticks);
        is_open.then_some(noted)
    }

    /// Takes the state for the thread of this number.
    pub(super) fn begin(&self, number: u32) {
        self.id.store(number, Ordering::Relaxed);
        self.exited.store(false, Ordering::Release);
        self.top.store(0, Ordering::Release);
    }

    /// Returns the block that this thread's counters add to, once there is one.
    #[inline(always)]
    pub(crate) fn counts(&self) -> Option<&'static Block> {
        let counts = self.counts.load(Ordering::Relaxed);
        #[expect(unsafe_code, reason = "there is no atomic reference")]
        // SAFETY: the pointer is null or comes from a `'static` reference, in `set_counts`.
        unsafe {
            counts.as_ref()
        }
    }

    /// Sets the block that this thread's counters add to.
    pub(crate) fn set_counts(&self, counts: &'static Block) {
        self.counts
            .store(std::ptr::from_ref(counts).cast_mut(), Ordering::Relaxed);
    }

    /// Says that the thread records no more, and leaves the state to the worker. Called after its last push.
    pub(crate) fn end(&self) {
        self.exited.store(true, Ordering::Release);
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.exited.load(Ordering::Acquire)
    }

    pub(crate) fn id(&self) -> ThreadId {
        ThreadId(self.id.load(Ordering::Relaxed))
    }

    /// Returns a key for a text; no two texts of a thread have the same. Called by the thread alone.
    pub(super) fn take_text_key(&self) -> u64 {
        let key = self.next_text.load(Ordering::Relaxed);
        self.next_text.store(key + 1, Ordering::Relaxed);
        key
    }

    /// As [`take_text_key`](Self::take_text_key), of a text that is kept.
    #[cfg(feature = "tracing")]
    pub(super) fn take_kept_key(&self) -> u64 {
        let key = self.next_kept.load(Ordering::Relaxed);
        self.next_kept.store(key + 1, Ordering::Relaxed);
        key
    }

    /// Returns the next key of a text that is kept. Called by the thread alone.
    #[cfg(feature = "tracing")]
    pub(super) fn next_kept_key(&self) -> u64 {
        self.next_kept.load(Ordering::Relaxed)
    }

    /// Returns whether any scope is open.
    pub(crate) fn has_open(&self) -> bool {
        self.depth(Ordering::Acquire) > 0
    }

    /// Returns the number of open scopes.
    fn depth(&self, order: Ordering) -> usize {
        (self.top.load(order) / ENTRY_BYTES) as usize
    }

    /// Reads the open scopes into `out`, outermost first, and returns whether these are all that were open at one moment.
    ///
    /// A scope is taken when two readings agree on its start and its site, which no two scopes of an entry share. Where the thread
    /// opens and closes too fast for that, the inner scopes are left out.
    pub(crate) fn read_open(&self, out: &mut Vec<(SiteId, u64)>) -> bool {
        for _ in 0..64 {
            let depth = self.depth(Ordering::Acquire);
            out.clear();
            out.extend(self.open.iter().take(depth).map(OpenEntry::read));
            let still = self.depth(Ordering::Acquire).min(out.len());
            let same = out.iter().zip(&self.open).take(still);
            let same = same.take_while(|(seen, entry)| **seen == entry.read()).count();
            if same == depth {
                return true;
            }
            out.truncate(same);
        }
        false
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        if let Some(counts) = self.counts() {
            counts.give_back();
        }
    }
}

impl OpenEntry {
    const fn new() -> Self {
        Self {
            start_ticks: AtomicU64::new(0),
            site: AtomicU32::new(0),
        }
    }

    fn read(&self) -> (SiteId, u64) {
        (
            SiteId(self.site.load(Ordering::Acquire)),
            self.start_ticks.load(Ordering::Acquire),
        )
    }
}
