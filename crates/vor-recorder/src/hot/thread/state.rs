//! The state that one thread records into: its ring, and the stack of its open scopes.
//!
//! The stack is an array that only the thread writes and any thread may read. A place on it is an
//! offset in bytes, so the fast path adds it to an address without a multiplication.
//!
//! # Signal handlers
//!
//! A signal handler may interrupt its thread at any instruction and record on the same state. It
//! always returns before the thread continues, so it leaves the height of the stack unchanged. A
//! *claim* protects the steps that must not be interrupted. A claim means that the entry at the
//! height has a site.
//!
//! ```text
//! open    site ── start ── height up          claimed from the site on until the height covers it
//! close   height down ── record ── site = 0   claimed from the height on until the site is clear
//! ```
//!
//! Every operation reads the entry at the height first ([`free_place`](ThreadState::free_place)).
//! While it is claimed there is no free place: the thread is inside vor, and the handler's record
//! is counted as dropped. So each entry above the height is free between two operations. A claim
//! costs a scope one store, which clears the site.

use std::mem::offset_of;

use crossbeam_utils::CachePadded;
use vor_capture::model::catalog::{SiteId, ThreadId};

use super::counted::CountTable;
use super::counter_block::CounterBlock;
use super::once_box::OnceBox;
use super::usage::SharedView;
use crate::hot::ring::{KEPT_TEXTS, Ring};
use crate::hot::scope::Baseline;
use crate::sync::global::{self, AtomicPtr, compiler_fence};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Most open scopes on the stack of a thread, with site and start. For deeper ones only the number
/// is known.
pub const MAX_OPEN: usize = if cfg!(loom) { 2 } else { 128 };

/// Bytes of an entry of the stack.
const ENTRY_BYTES: u32 = size_of::<OpenEntry>() as u32;

/// Bytes of the stack.
const STACK_BYTES: u32 = MAX_OPEN as u32 * ENTRY_BYTES;

/// The site of an entry that no scope ever claims: the entry after the last, and the first of a
/// stand-in.
const NO_PLACE: u32 = u32::MAX;

/// The site of the entry at the height while the scopes that open are skipped: those inside a scope
/// that a sample left out. So they find no place and take the slow path, which skips them.
const SKIPPING: u32 = u32::MAX - 1;

/// The state that one thread records into.
///
/// Fields are in memory order. The ring fills whole cache lines, because part of it is
/// [`CachePadded`]. So `top` begins a cache line, which it shares with the outermost entries, and
/// no two states share a cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ThreadState {
    pub(crate) ring: Ring,
    /// Height of the stack: its open scopes, times the bytes of an entry. Written by the thread
    /// (release, after the entry that it covers), read by any thread (acquire).
    top: AtomicU32,
    /// Set at the thread's end (release), read by the worker (acquire), which then drains the ring
    /// for the last time.
    exited: AtomicBool,
    /// Next key of a pushed text. Read and written by the thread alone (relaxed).
    next_text: global::AtomicU64,
    /// The block that the thread's counters add to, null until the first addition. Read and written
    /// by the thread alone (relaxed).
    counts: AtomicPtr<CounterBlock>,
    /// Number of the thread in the catalog. Written under the list's lock before the thread gets
    /// the state, read by any thread, both relaxed.
    id: AtomicU32,
    /// Entries at and above the height have no site, except a claimed one.
    open: [OpenEntry; MAX_OPEN + 1],
    /// Open scopes too deep for the stack, times the bytes of an entry. Read and written by the
    /// thread alone (relaxed).
    deeper: global::AtomicU32,
    /// How often scopes were closed off the fast path, which may leave no record. Written by the
    /// thread (release), read by other threads (acquire).
    #[cfg(feature = "locks")]
    slow_closes: AtomicU32,
    /// The thread's resource usage, for other threads.
    pub(super) view: SharedView,
    /// Next key of a kept text. Its first value is so high that no text is kept yet. Read and
    /// written by the thread alone (relaxed).
    next_kept: global::AtomicU64,
    /// The sums of the thread's counted scopes, once there are any. The last field that a scope
    /// uses, because the fast path of recorded scopes does not use it.
    pub(super) counted: OnceBox<CountTable>,
    /// Number of the ring in the file of shared memory, plus 1; 0 for one that is in none. Written
    /// before the thread gets the state, read by any thread, both relaxed.
    ring_number: global::AtomicU64,
}

/// Where the parts of a state are in its file, in bytes from the beginning of its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatePlaces {
    pub(crate) top: u64,
    pub(crate) exited: u64,
    pub(crate) open: u64,
    pub(crate) open_count: u64,
    pub(crate) open_bytes: u64,
    pub(crate) open_start: u64,
    pub(crate) open_site: u64,
}

const _: () = assert!(offset_of!(ThreadState, top).is_multiple_of(align_of::<CachePadded<()>>()));

/// A scope that is open now. The thread writes both fields (release), the site first, which claims
/// the entry. Any thread may read them (acquire), and detects a change by reading twice. A reader
/// that sees one of the stores also sees the height before it, which did not cover the entry.
#[derive(Debug, Default)]
#[repr(C)]
struct OpenEntry {
    start_ticks: AtomicU64,
    site: AtomicU32,
}

impl OpenEntry {
    /// Returns the site. Only the thread itself calls this.
    #[inline(always)]
    fn own_site(&self) -> u32 {
        #[cfg(loom)]
        return self.site.load(Ordering::Relaxed);
        #[cfg(not(loom))]
        #[expect(
            unsafe_code,
            reason = "an atomic load is an instruction of its own, not part of a comparison"
        )]
        // SAFETY: the thread and its signal handlers are the only writers, and a handler returns
        // before the thread continues. So no write happens at the same time.
        unsafe {
            *self.site.as_ptr()
        }
    }
}

impl ThreadState {
    pub(crate) fn new(ring: Ring) -> Self {
        Self {
            ring,
            top: AtomicU32::new(0),
            exited: AtomicBool::new(false),
            next_text: global::AtomicU64::new(1),
            next_kept: global::AtomicU64::new(KEPT_TEXTS + 1),
            counts: AtomicPtr::new(std::ptr::null_mut()),
            id: AtomicU32::new(0),
            open: open_entries(MAX_OPEN),
            deeper: global::AtomicU32::new(0),
            #[cfg(feature = "locks")]
            slow_closes: AtomicU32::new(0),
            view: SharedView::none(),
            counted: OnceBox::new(),
            ring_number: global::AtomicU64::new(0),
        }
    }

    /// Makes a state without room in its stack or its ring, so every operation on it takes the slow
    /// path. No scope has its height, so no scope is closed in it.
    #[cfg(not(loom))]
    pub(super) const fn stand_in() -> Self {
        Self {
            ring: Ring::none(),
            top: AtomicU32::new(0),
            exited: AtomicBool::new(false),
            next_text: global::AtomicU64::new(0),
            next_kept: global::AtomicU64::new(0),
            counts: AtomicPtr::new(std::ptr::null_mut()),
            id: AtomicU32::new(0),
            open: open_entries(0),
            deeper: global::AtomicU32::new(0),
            #[cfg(feature = "locks")]
            slow_closes: AtomicU32::new(0),
            view: SharedView::none(),
            counted: OnceBox::new(),
            ring_number: global::AtomicU64::new(0),
        }
    }

    /// Returns how many scopes lie below a place on the stack.
    #[inline(always)]
    pub(crate) fn depth_of(place: u32) -> usize {
        (place / ENTRY_BYTES) as usize
    }

    /// Returns the place on the stack for one more scope, or `None` if the stack is full or the
    /// thread is in the middle of recording.
    #[inline(always)]
    pub(crate) fn free_place(&self) -> Option<u32> {
        let place = self.top.load(Ordering::Relaxed);
        (self.entry(place).own_site() == 0).then_some(place)
    }

    /// Returns whether the thread is in the middle of recording. If so, the caller is a signal
    /// handler.
    #[inline]
    pub(crate) fn is_claimed(&self) -> bool {
        let place = self.top.load(Ordering::Relaxed);
        let site = self.entry(place).site.load(Ordering::Relaxed);
        !matches!(site, 0 | NO_PLACE | SKIPPING)
    }

    /// Returns whether scopes that open are skipped.
    #[inline]
    pub(crate) fn is_skipping(&self) -> bool {
        let place = self.top.load(Ordering::Relaxed);
        self.entry(place).site.load(Ordering::Relaxed) == SKIPPING
    }

    /// Makes scopes that open from now on skipped, until [`end_skipping`](Self::end_skipping) with
    /// the place that it returns and the same start. `None` if the stack is full.
    pub(crate) fn begin_skipping(&self, start_ticks: u64) -> Option<u32> {
        let place = self.free_place()?;
        let entry = self.entry(place);
        // The site first: from then on a handler finds no place, so it does not change the start.
        entry.site.store(SKIPPING, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        entry.start_ticks.store(start_ticks, Ordering::Release);
        Some(place)
    }

    /// Ends the skipping that began at this place and start, unless a scope that closed around it
    /// ended it already.
    pub(crate) fn end_skipping(&self, place: u32, start_ticks: u64) {
        if self.top.load(Ordering::Relaxed) == place
            && self.is_skipping()
            && self.has_start(place, start_ticks)
        {
            self.release(place);
        }
    }

    /// Returns the entry at a place on the stack, or the one after the last.
    #[inline(always)]
    fn entry(&self, place: u32) -> &OpenEntry {
        debug_assert!(place <= STACK_BYTES && place.is_multiple_of(ENTRY_BYTES));
        #[expect(
            unsafe_code,
            reason = "an index would be multiplied, and checked once more"
        )]
        // SAFETY: The place is a height of this stack, past or present, or below one, so it is an
        // entry of `open`: `top` starts at 0, goes up by an entry's size only from a free place,
        // which the entry after the last is not, and down to places where it has been.
        unsafe {
            &*self.open.as_ptr().byte_add(place as usize)
        }
    }

    /// Returns whether the scope that was opened last at `place` began at `start_ticks`. Returns
    /// `false` for a place beyond the stack.
    #[inline(always)]
    pub(crate) fn has_start(&self, place: u32, start_ticks: u64) -> bool {
        self.start_at(Self::depth_of(place)) == Some(start_ticks)
    }

    /// Returns the start of the scope that was opened last at a depth of the stack.
    #[inline(always)]
    pub(super) fn start_at(&self, depth: usize) -> Option<u64> {
        let entry = self.open[..MAX_OPEN].get(depth)?;
        Some(entry.start_ticks.load(Ordering::Relaxed))
    }

    /// Claims a free place for a scope that opens. [`open_at`](Self::open_at) or
    /// [`release`](Self::release) comes next.
    #[inline(always)]
    pub(crate) fn claim(&self, place: u32, site: u32) {
        self.entry(place).site.store(site, Ordering::Release);
        // A handler sees the following stores only with the claim.
        compiler_fence(Ordering::SeqCst);
    }

    /// Opens the scope that claimed a place.
    #[inline(always)]
    pub(crate) fn open_at(&self, place: u32, start_ticks: u64) {
        self.entry(place)
            .start_ticks
            .store(start_ticks, Ordering::Release);
        self.top.store(place + ENTRY_BYTES, Ordering::Release);
    }

    /// Pushes an open scope at a free place.
    #[inline(always)]
    pub(crate) fn push_open_at(&self, place: u32, site: u32, start_ticks: u64) {
        self.claim(place, site);
        self.open_at(place, start_ticks);
    }

    /// Pushes an open scope, beyond the stack if the stack is full, and returns its place. Called
    /// only where no handler records.
    pub(crate) fn push_open(&self, site: u32, start_ticks: u64) -> u32 {
        if let Some(place) = self.free_place() {
            self.push_open_at(place, site, start_ticks);
            return place;
        }
        let deeper = self.deeper.load(Ordering::Relaxed);
        self.deeper
            .store(deeper.wrapping_add(ENTRY_BYTES), Ordering::Relaxed);
        STACK_BYTES.wrapping_add(deeper)
    }

    /// If the scope at `place` is the innermost one, pops it and claims its place while it is
    /// recorded. [`release`](Self::release) or [`reopen`](Self::reopen) comes next.
    #[inline(always)]
    pub(crate) fn begin_close(&self, place: u32) -> bool {
        let is_innermost = self.top.load(Ordering::Relaxed) == place.wrapping_add(ENTRY_BYTES);
        if is_innermost {
            self.top.store(place, Ordering::Release);
            // A handler sees the following stores only with the claim.
            compiler_fence(Ordering::SeqCst);
        }
        is_innermost
    }

    /// Releases the claim to a place.
    #[inline(always)]
    pub(crate) fn release(&self, place: u32) {
        // Release: a reader that finds the place free also finds the record.
        self.entry(place).site.store(0, Ordering::Release);
    }

    /// Pushes a scope again if its close was begun and nothing has been recorded.
    #[inline(always)]
    pub(crate) fn reopen(&self, place: u32) {
        self.top.store(place + ENTRY_BYTES, Ordering::Release);
    }

    /// Pushes the scope that began at `start_ticks` at `place` again, if its close was begun and
    /// nothing has been recorded.
    pub(crate) fn reopen_closing(&self, place: u32, start_ticks: u64) {
        // The start distinguishes it from a scope that a handler has interrupted.
        if self.top.load(Ordering::Relaxed) == place
            && self.is_claimed()
            && self.has_start(place, start_ticks)
        {
            self.reopen(place);
        }
    }

    /// Closes the scope at `place` and all scopes that were opened in it. Does nothing for a scope
    /// that outlived the one around it, because that one closed it. Called only where no handler
    /// records.
    pub(crate) fn pop_open(&self, place: u32) {
        if let Some(deeper) = place.checked_sub(STACK_BYTES) {
            if self.deeper.load(Ordering::Relaxed) > deeper {
                self.deeper.store(deeper, Ordering::Relaxed);
            }
            return;
        }
        let top = self.top.load(Ordering::Relaxed);
        if top >= place && self.is_skipping() {
            // The skipped scope was inside the one that closes, or was left behind.
            self.release(top);
        }
        if top > place {
            #[cfg(feature = "locks")]
            self.count_slow_close();
            self.deeper.store(0, Ordering::Relaxed);
            self.top.store(place, Ordering::Release);
            for place in (place..top).step_by(ENTRY_BYTES as usize) {
                self.release(place);
            }
        }
    }

    #[cfg(feature = "locks")]
    fn count_slow_close(&self) {
        let closes = self.slow_closes.load(Ordering::Relaxed);
        self.slow_closes
            .store(closes.wrapping_add(1), Ordering::Release);
    }

    /// Returns how many scopes [`pop_open`](Self::pop_open) would close.
    pub(crate) fn open_from(&self, place: u32) -> usize {
        let deeper = self.deeper.load(Ordering::Relaxed);
        let end = self.top.load(Ordering::Relaxed).wrapping_add(deeper);
        Self::depth_of(end.saturating_sub(place))
    }

    /// Returns two numbers that identify the innermost scope on the stack among all scopes of this
    /// thread: the height of the stack and the scope's start in ticks. Both are 0 if no scope is
    /// open. Called by the thread alone. The numbers of a stand-in mean nothing.
    #[inline(always)]
    pub(crate) fn innermost(&self) -> (u32, u64) {
        let top = self.top.load(Ordering::Relaxed);
        let Some(place) = top.checked_sub(ENTRY_BYTES) else {
            return (0, 0);
        };
        (top, self.entry(place).start_ticks.load(Ordering::Relaxed))
    }

    /// Returns the site of the innermost open scope, or 0 if no scope is open or it is too deep for
    /// the stack. Called by the thread alone. A stand-in has none.
    #[cfg(all(feature = "locks", feature = "tokio"))]
    #[inline(always)]
    pub(crate) fn innermost_site(&self) -> u32 {
        let top = self.top.load(Ordering::Relaxed);
        match top.checked_sub(ENTRY_BYTES) {
            Some(place) if self.deeper.load(Ordering::Relaxed) == 0 => {
                self.entry(place).site.load(Ordering::Relaxed)
            }
            _ => 0,
        }
    }

    /// Returns the sites of the scopes on the stack, outermost first. Called by the thread alone.
    pub(crate) fn own_open_sites(&self) -> impl Iterator<Item = u32> {
        let open = self.open.iter().take(self.depth(Ordering::Relaxed));
        open.map(|entry| entry.site.load(Ordering::Relaxed))
    }

    /// Continues from the state of `before` at a fork. Its scopes are open here too, and its text
    /// keys are not reused.
    pub(super) fn inherit(&self, before: &Self) {
        let depth = before.depth(Ordering::Relaxed);
        for (mine, entry) in self.open.iter().zip(&before.open).take(depth) {
            mine.site
                .store(entry.site.load(Ordering::Relaxed), Ordering::Release);
            mine.start_ticks
                .store(entry.start_ticks.load(Ordering::Relaxed), Ordering::Release);
        }
        if let Some(before) = before.counted() {
            self.counted
                .get_or_make(CountTable::default)
                .inherit(before);
        }
        self.next_text
            .store(before.next_text.load(Ordering::Relaxed), Ordering::Relaxed);
        // Advanced so far that no text of the other process is kept here.
        self.next_kept.store(
            before.next_kept.load(Ordering::Relaxed) + KEPT_TEXTS,
            Ordering::Relaxed,
        );
        self.deeper
            .store(before.deeper.load(Ordering::Relaxed), Ordering::Relaxed);
        self.top
            .store(before.top.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Returns the open scopes, to restore them with [`restore_open`](Self::restore_open). Called
    /// by the thread alone.
    #[cfg(unix)]
    pub(super) fn save_open(&self) -> (u32, u32, Vec<(u64, u32)>) {
        let depth = self.depth(Ordering::Relaxed);
        let open = self.open.iter().take(depth);
        let entry = |entry: &OpenEntry| {
            let start = entry.start_ticks.load(Ordering::Relaxed);
            (start, entry.site.load(Ordering::Relaxed))
        };
        let (top, deeper) = (&self.top, &self.deeper);
        (
            top.load(Ordering::Relaxed),
            deeper.load(Ordering::Relaxed),
            open.map(entry).collect(),
        )
    }

    /// Restores the open scopes in the child of a fork, whose copy of shared pages may be later.
    #[cfg(unix)]
    pub(super) fn restore_open(&self, (top, deeper, open): &(u32, u32, Vec<(u64, u32)>)) {
        for (entry, (start, site)) in self.open.iter().zip(open) {
            entry.start_ticks.store(*start, Ordering::Relaxed);
            entry.site.store(*site, Ordering::Relaxed);
        }
        for entry in &self.open[open.len()..MAX_OPEN] {
            entry.site.store(0, Ordering::Relaxed);
        }
        self.deeper.store(*deeper, Ordering::Relaxed);
        self.top.store(*top, Ordering::Relaxed);
    }

    /// Returns the number of the ring in the file of shared memory, if it is in one.
    pub(crate) fn ring_number(&self) -> Option<u64> {
        self.ring_number.load(Ordering::Relaxed).checked_sub(1)
    }

    pub(crate) fn set_ring_number(&self, number: u64) {
        self.ring_number.store(number + 1, Ordering::Relaxed);
    }

    /// Returns where the parts of the state are, relative to `base`, the address of its memory.
    pub(crate) fn places(&self, base: usize) -> StatePlaces {
        StatePlaces {
            top: ((&raw const self.top).addr() - base) as u64,
            exited: ((&raw const self.exited).addr() - base) as u64,
            open: (self.open.as_ptr().addr() - base) as u64,
            open_count: MAX_OPEN as u64,
            open_bytes: u64::from(ENTRY_BYTES),
            open_start: offset_of!(OpenEntry, start_ticks) as u64,
            open_site: offset_of!(OpenEntry, site) as u64,
        }
    }

    /// Returns the baseline of the open scope with `depth` others around it, if that scope is still
    /// the one that began at `start_ticks`. The caller holds the lock of the list of threads.
    pub(crate) fn baseline(&self, depth: usize, start_ticks: u64) -> Option<Baseline> {
        let baseline = self.view.baseline(depth, start_ticks)?;
        let is_open =
            self.depth(Ordering::Acquire) > depth && self.start_at(depth) == Some(start_ticks);
        is_open.then_some(baseline)
    }

    /// Assigns the state to the thread with this number.
    pub(super) fn assign(&self, number: u32) {
        self.id.store(number, Ordering::Relaxed);
        self.exited.store(false, Ordering::Release);
        // Close the scopes that the previous thread has left open.
        self.pop_open(0);
    }

    /// Returns the block that this thread's counters add to, if there is one yet.
    #[inline(always)]
    pub(crate) fn counts(&self) -> Option<&'static CounterBlock> {
        let counts = self.counts.load(Ordering::Relaxed);
        #[expect(unsafe_code, reason = "there is no atomic reference")]
        // SAFETY: the pointer is null or comes from a `'static` reference, in `set_counts`.
        unsafe {
            counts.as_ref()
        }
    }

    /// Sets the block that this thread's counters add to.
    pub(crate) fn set_counts(&self, counts: &'static CounterBlock) {
        self.counts
            .store(std::ptr::from_ref(counts).cast_mut(), Ordering::Relaxed);
    }

    /// Marks the thread as ended. The worker then owns the state. Called after the thread's last
    /// push.
    pub(crate) fn end(&self) {
        self.exited.store(true, Ordering::Release);
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.exited.load(Ordering::Acquire)
    }

    /// Returns whether the thread has ended and nothing of it is left: its ring is empty, and it
    /// has dropped no more records than `dropped_seen`. Called by the worker. The end is read
    /// first, because a thread pushes and drops only before it ends.
    pub(crate) fn is_drained(&self, dropped_seen: u64) -> bool {
        self.has_exited() && self.ring.len() == 0 && self.ring.dropped() == dropped_seen
    }

    pub(crate) fn id(&self) -> ThreadId {
        ThreadId(self.id.load(Ordering::Relaxed))
    }

    /// Returns a key for a text, unique among the texts of this thread. Called by the thread alone.
    pub(super) fn take_text_key(&self) -> u64 {
        let key = self.next_text.load(Ordering::Relaxed);
        self.next_text.store(key + 1, Ordering::Relaxed);
        key
    }

    /// Returns a key for a kept text, unique among those of this thread. Called by the thread
    /// alone.
    #[cfg(feature = "tracing-subscriber")]
    pub(super) fn take_kept_key(&self) -> u64 {
        let key = self.next_kept.load(Ordering::Relaxed);
        self.next_kept.store(key + 1, Ordering::Relaxed);
        key
    }

    /// Returns whether the next key of a kept text is still at most the one that
    /// [`kept_until`](super::kept_until) returned. Called by the thread alone.
    #[cfg(feature = "tracing-subscriber")]
    #[inline(always)]
    pub(crate) fn keeps_until(&self, kept_until: u64) -> bool {
        self.next_kept.load(Ordering::Relaxed) <= kept_until
    }

    /// Returns whether any scope is open.
    pub(crate) fn has_open(&self) -> bool {
        self.depth(Ordering::Acquire) > 0
    }

    /// Returns the number of open scopes.
    fn depth(&self, order: Ordering) -> usize {
        (self.top.load(order) / ENTRY_BYTES) as usize
    }

    /// Reads the open scopes into `out`, outermost first. Returns whether these are all scopes that
    /// were open at one moment, and all scopes closed by then have been recorded.
    ///
    /// A scope that is being recorded is not on the stack any more, but still claims its place. A
    /// scope is returned if it has a site and two readings agree on its start and site. Two scopes
    /// of one entry share both only within one tick. If the thread opens and closes scopes too fast
    /// for that, the inner scopes are omitted.
    pub(crate) fn read_open(&self, out: &mut Vec<(SiteId, u64)>) -> bool {
        // A model of all orders of events must terminate.
        const TRIES: u32 = if cfg!(loom) { 2 } else { 64 };
        for _ in 0..TRIES {
            let depth = self.depth(Ordering::Acquire);
            out.clear();
            out.extend(self.open.iter().take(depth).map(OpenEntry::read));
            let still = self.depth(Ordering::Acquire).min(out.len());
            let same = out.iter().zip(&self.open).take(still);
            let is_same = |(seen, entry): &(&(SiteId, u64), &OpenEntry)| {
                **seen == entry.read() && seen.0 != SiteId(0)
            };
            let same = same.take_while(is_same).count();
            out.truncate(same);
            let above = self.open[depth].site.load(Ordering::Acquire);
            if same == depth && matches!(above, 0 | NO_PLACE | SKIPPING) {
                return true;
            }
        }
        false
    }

    /// Reads the innermost open scope as it was at a moment at which `holds` returned `true`.
    /// Called by any thread. `holds` loads with acquire what the thread stored with release. A
    /// scope of the site `except` is skipped.
    ///
    /// The thread closes no scope between two readings of its progress that agree, because each
    /// close changes the progress before it frees the scope's place. Two readings of the stack that
    /// agree as well have no opened scope between them either.
    #[cfg(feature = "locks")]
    pub(super) fn innermost_while(&self, except: SiteId, holds: impl Fn() -> bool) -> Innermost {
        const TRIES: u32 = if cfg!(loom) { 1 } else { 64 };
        for _ in 0..TRIES {
            let progress = self.progress();
            let seen = self.read_innermost(except);
            if !holds() {
                return Innermost::NotHeld;
            }
            if let Some((_, scope)) = seen
                && self.read_innermost(except) == seen
                && self.progress() == progress
            {
                return match scope {
                    (SiteId(0), _) => Innermost::NoScope,
                    (site, _) => Innermost::Scope(site),
                };
            }
        }
        Innermost::Unreadable
    }

    /// Returns numbers that change with every scope that closes.
    #[cfg(feature = "locks")]
    fn progress(&self) -> ([u64; 3], u32) {
        let pushed = self.ring.progress();
        (pushed, self.slow_closes.load(Ordering::Acquire))
    }

    /// Reads the height of the stack and the innermost scope of another site than `except`, or site
    /// 0 if there is none. Returns `None` while a scope opens or closes, and while scopes too deep
    /// for the stack may be open.
    #[cfg(feature = "locks")]
    fn read_innermost(&self, except: SiteId) -> Option<(u32, (SiteId, u64))> {
        let top = self.top.load(Ordering::Acquire);
        if !matches!(self.entry(top).site.load(Ordering::Acquire), 0 | SKIPPING) {
            return None;
        }
        let read = |height: u32| {
            let place = height.checked_sub(ENTRY_BYTES)?;
            Some((place, self.entry(place).read()))
        };
        let innermost = match read(top) {
            Some((place, (site, _))) if site == except => read(place),
            innermost => innermost,
        };
        let scope = innermost.map_or((SiteId(0), 0), |(_, scope)| scope);
        (self.top.load(Ordering::Acquire) == top).then_some((top, scope))
    }
}

/// The innermost scope of a thread, as another thread reads it.
#[cfg(feature = "locks")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Innermost {
    /// The scope of this site.
    Scope(SiteId),
    /// No scope is open.
    NoScope,
    /// The condition did not hold any more.
    NotHeld,
    /// Scopes open and close faster than they can be read, or are too deep for the stack.
    Unreadable,
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        if let Some(counts) = self.counts() {
            counts.give_back();
        }
    }
}

/// Returns the entries of an empty stack. The entry at `no_place` is never free.
#[cfg(not(loom))]
const fn open_entries(no_place: usize) -> [OpenEntry; MAX_OPEN + 1] {
    let mut entries = [const { OpenEntry::new(0) }; MAX_OPEN + 1];
    entries[no_place] = OpenEntry::new(NO_PLACE);
    entries
}

#[cfg(loom)]
fn open_entries(no_place: usize) -> [OpenEntry; MAX_OPEN + 1] {
    std::array::from_fn(|place| OpenEntry {
        start_ticks: AtomicU64::new(0),
        site: AtomicU32::new(if place == no_place { NO_PLACE } else { 0 }),
    })
}

impl OpenEntry {
    #[cfg(not(loom))]
    const fn new(site: u32) -> Self {
        Self {
            start_ticks: AtomicU64::new(0),
            site: AtomicU32::new(site),
        }
    }

    /// Reads the start before the site, because a scope stores its site first. So the start of a
    /// scope is returned with its own site or that of a later scope, and not with the site 0 from
    /// before it opened.
    fn read(&self) -> (SiteId, u64) {
        let start_ticks = self.start_ticks.load(Ordering::Acquire);
        (SiteId(self.site.load(Ordering::Acquire)), start_ticks)
    }
}
