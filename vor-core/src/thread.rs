//! Threads: the state each one records into, and how it comes and goes.
//!
//! A thread's first scope gives it a `ThreadState`: a ring and the stack of its open scopes. A plain thread-local pointer without a destructor leads
//! to it, so the hot path pays no registration check; a second thread-local with a destructor notices the thread's end and
//! leaves the state to the worker, which takes what is left and hands the memory to the next thread.
//!
//! The pointer has three values that are no address: not yet set up, thread has ended, and busy. Busy marks a thread that is inside
//! vor itself (its worker, or anyone on a cold path), so a scope in a global allocator that vor calls neither recurses nor waits.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::args;
use crate::catalog::{SiteId, ThreadId, ThreadInfo};
use crate::ring::queue::Room;
use crate::ring::{MAX_EXTENSIONS, Ring, SITE_BITS, Slot, Special, TAG_SPECIAL, word1};
use crate::sync::global::{AtomicU32, AtomicU64};
use crate::sync::{AtomicBool, Ordering};
use crate::{clock, drain};

/// Open scopes whose site and start are kept per thread; deeper ones are only counted.
pub const MAX_OPEN: usize = 128;

/// What one thread records into.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct ThreadState {
    pub(crate) ring: Ring,
    /// Number of open scopes. Written by the thread (release, after the entry it uncovers), read by anyone (acquire).
    depth: AtomicU32,
    /// Set by the thread's end (release), read by the worker (acquire), which then empties the ring for the last time.
    exited: AtomicBool,
    /// Next key of a pushed text. The thread alone reads and writes it.
    next_text: AtomicU64,
    /// Number of the thread in the catalog. Written under the list's lock before the thread gets the state.
    id: AtomicU32,
    open: [OpenSlot; MAX_OPEN],
}

/// A scope that is open now. Both fields are written by the thread, the start first, and read by anyone, who detects a change by reading twice. The
/// stores are releases, so that whoever sees one of them also sees the depth from before, at which the slot was not in use.
#[derive(Debug, Default)]
struct OpenSlot {
    start_ticks: AtomicU64,
    site: AtomicU32,
}

impl ThreadState {
    pub(crate) fn new(ring_slots: usize) -> Self {
        Self {
            ring: Ring::new(ring_slots),
            depth: AtomicU32::new(0),
            exited: AtomicBool::new(false),
            next_text: AtomicU64::new(1),
            id: AtomicU32::new(0),
            open: [const {
                OpenSlot {
                    start_ticks: AtomicU64::new(0),
                    site: AtomicU32::new(0),
                }
            }; MAX_OPEN],
        }
    }

    /// Notes a scope as open and returns the depth it stands at.
    #[inline(always)]
    pub(crate) fn push_open(&self, site: u32, start_ticks: u64) -> u32 {
        let depth = self.depth.load(Ordering::Relaxed);
        self.set_open(depth, site, start_ticks);
        self.depth.store(depth.wrapping_add(1), Ordering::Release);
        depth
    }

    /// Notes which scope is open at `depth`.
    #[inline(always)]
    pub(crate) fn set_open(&self, depth: u32, site: u32, start_ticks: u64) {
        if let Some(slot) = self.open.get(depth as usize) {
            slot.start_ticks.store(start_ticks, Ordering::Release);
            slot.site.store(site, Ordering::Release);
        }
    }

    /// Closes the scope at `depth` and all that were opened in it. A scope that outlived the one around it finds itself closed already.
    #[inline(always)]
    pub(crate) fn pop_open(&self, depth: u32) {
        let open = self.depth.load(Ordering::Relaxed);
        self.depth.store(open.min(depth), Ordering::Release);
    }

    /// Goes on where `before` stood at a fork: its scopes are open here too, and its keys of texts are taken.
    fn inherit(&self, before: &Self) {
        let depth = before.depth.load(Ordering::Relaxed);
        for (mine, slot) in self.open.iter().zip(&before.open).take(depth as usize) {
            mine.start_ticks
                .store(slot.start_ticks.load(Ordering::Relaxed), Ordering::Release);
            mine.site
                .store(slot.site.load(Ordering::Relaxed), Ordering::Release);
        }
        self.next_text
            .store(before.next_text.load(Ordering::Relaxed), Ordering::Relaxed);
        self.depth.store(depth, Ordering::Release);
    }

    pub(crate) fn id(&self) -> ThreadId {
        ThreadId(self.id.load(Ordering::Relaxed))
    }

    /// Returns whether any scope is open.
    pub(crate) fn has_open(&self) -> bool {
        self.depth.load(Ordering::Acquire) > 0
    }

    /// Says that the thread records no more. Called after its last push.
    pub(crate) fn end(&self) {
        self.exited.store(true, Ordering::Release);
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.exited.load(Ordering::Acquire)
    }

    /// Reads the open scopes into `out`, outermost first, and returns whether these are all that were open at one moment.
    ///
    /// A scope is taken when two readings agree on its start and its site, which no two scopes of a slot share. Where the thread
    /// opens and closes too fast for that, the inner scopes are left out.
    pub(crate) fn read_open(&self, out: &mut Vec<(SiteId, u64)>) -> bool {
        for _ in 0..64 {
            let depth = self.depth.load(Ordering::Acquire) as usize;
            out.clear();
            out.extend(self.open.iter().take(depth).map(OpenSlot::read));
            let still = (self.depth.load(Ordering::Acquire) as usize).min(out.len());
            let same = out.iter().zip(&self.open).take(still);
            let same = same.take_while(|(seen, slot)| **seen == slot.read()).count();
            if same == depth {
                return true;
            }
            out.truncate(same);
        }
        false
    }
}

impl OpenSlot {
    fn read(&self) -> (SiteId, u64) {
        (
            SiteId(self.site.load(Ordering::Acquire)),
            self.start_ticks.load(Ordering::Acquire),
        )
    }
}

/// The thread has recorded nothing yet.
const NEW: *const ThreadState = std::ptr::without_provenance(0);
/// The thread is ending, its state is given away.
const ENDED: *const ThreadState = std::ptr::without_provenance(1);
/// The thread is inside vor; what it opens there is not recorded.
const BUSY: *const ThreadState = std::ptr::without_provenance(2);

thread_local! {
    /// This thread's state, or one of the three values above.
    static CURRENT: Cell<*const ThreadState> = const { Cell::new(NEW) };
    /// This thread's number once it has one, plus 1; it outlives the state for scopes in destructors of thread-locals.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    /// Gives the state away when the thread ends.
    static OWNED: Cell<Option<Owned>> = const { Cell::new(None) };
}

struct Owned(Arc<ThreadState>);

impl Drop for Owned {
    fn drop(&mut self) {
        CURRENT.set(ENDED);
        self.0.end();
        // Rings that wait for the worker are memory that the next threads could use.
        if ENDED_UNSEEN.fetch_add(1, Ordering::Relaxed) + 1 == MAX_SPARE as u32 {
            drain::wake(true);
        }
    }
}

/// The states of all threads.
struct Threads {
    live: Vec<Arc<ThreadState>>,
    /// States whose thread has come since the worker last asked, with what their rings had dropped for earlier threads.
    inbox: Vec<(Arc<ThreadState>, u64)>,
    /// Emptied states for the next threads.
    spare: Vec<Arc<ThreadState>>,
    infos: Vec<Arc<ThreadInfo>>,
    ring_slots: usize,
}

/// Spare states kept; more are freed. As many threads may end before the worker is called to take back what they leave.
const MAX_SPARE: usize = 32;

/// Threads that ended since the worker last looked. Counted by them and reset by the worker, relaxed: a miscount only shifts a wake-up.
static ENDED_UNSEEN: AtomicU32 = AtomicU32::new(0);

static THREADS: Mutex<Threads> = Mutex::new(Threads {
    live: Vec::new(),
    inbox: Vec::new(),
    spare: Vec::new(),
    infos: Vec::new(),
    ring_slots: 1 << 16,
});

fn threads() -> MutexGuard<'static, Threads> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the list of threads for the time of a fork.
pub(crate) fn lock_for_fork() -> impl std::any::Any {
    threads()
}

impl Threads {
    fn take_state(&mut self, number: u32) -> Arc<ThreadState> {
        let spare = self.spare.pop();
        let state = spare.unwrap_or_else(|| Arc::new(ThreadState::new(self.ring_slots)));
        state.id.store(number, Ordering::Relaxed);
        state.exited.store(false, Ordering::Release);
        state.depth.store(0, Ordering::Release);
        self.live.push(Arc::clone(&state));
        self.inbox.push((Arc::clone(&state), state.ring.dropped()));
        state
    }

    fn add_info(&mut self, info: ThreadInfo) -> u32 {
        let number = self.infos.len();
        self.infos.push(Arc::new(info));
        u32::try_from(number).unwrap_or(u32::MAX)
    }
}

/// Returns this thread's state, or `None` where it has none yet or any more, or is inside vor.
#[inline(always)]
pub(crate) fn current() -> Option<&'static ThreadState> {
    let state = CURRENT.get();
    if state.addr() <= BUSY.addr() {
        return None;
    }
    Some(deref(state))
}

#[expect(
    unsafe_code,
    reason = "a thread-local without a destructor can only hold a plain pointer"
)]
#[inline(always)]
fn deref(state: *const ThreadState) -> &'static ThreadState {
    // SAFETY: CURRENT holds an address only between `set_up` and the drop of OWNED on this very thread, and OWNED keeps the state alive for that
    // time. Callers use the reference on this thread only and do not keep it beyond the call that asked for it.
    unsafe { &*state }
}

/// Runs `inside` with scopes of this thread switched off.
pub(crate) fn while_busy<R>(inside: impl FnOnce() -> R) -> R {
    struct Restore(*const ThreadState);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _restore = Restore(CURRENT.replace(BUSY));
    inside()
}

/// Switches scopes of this thread off for good: for vor's own threads.
pub(crate) fn stay_busy() {
    CURRENT.set(BUSY);
}

/// Returns whether this thread is inside vor.
pub(crate) fn is_busy() -> bool {
    CURRENT.get() == BUSY
}

/// Forgets this thread's state: for the child of a fork.
pub(crate) fn forget_current() {
    CURRENT.set(NEW);
    NUMBER.set(0);
}

/// Gives this thread its state. `None` inside vor and while the thread ends.
#[cold]
#[inline(never)]
pub(crate) fn set_up() -> Option<&'static ThreadState> {
    if CURRENT.get() != NEW {
        return current();
    }
    drain::rearm_if_forked();
    let owned = while_busy(|| {
        let info = describe();
        let mut threads = threads();
        let number = threads.add_info(info);
        NUMBER.set(number + 1);
        Owned(threads.take_state(number))
    });
    let pointer = Arc::as_ptr(&owned.0);
    let kept = while_busy(|| {
        OWNED.try_with(|cell| {
            let state = Arc::clone(&owned.0);
            // In the child of a fork the cell still holds the state from before. It is never freed: the list of threads let go of it.
            if let Some(before) = cell.replace(Some(owned)) {
                state.inherit(&before.0);
                std::mem::forget(before);
            }
        })
    });
    match kept {
        Ok(()) => {
            CURRENT.set(pointer);
            current()
        }
        Err(_) => {
            CURRENT.set(ENDED);
            None
        }
    }
}

fn describe() -> ThreadInfo {
    let name = std::thread::current().name().unwrap_or("").to_owned();
    ThreadInfo { os_id: os_id(), name }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[expect(unsafe_code, reason = "the thread's number is a system call")]
fn os_id() -> u64 {
    // SAFETY: gettid takes nothing, touches no memory and cannot fail.
    u64::try_from(unsafe { libc::gettid() }).unwrap_or(0)
}

#[cfg(target_os = "macos")]
#[expect(unsafe_code, reason = "the thread's number is a system call")]
fn os_id() -> u64 {
    let mut id = 0;
    // SAFETY: thread 0 means the calling one, and `id` is a valid place for the result.
    unsafe { libc::pthread_threadid_np(0, &mut id) };
    id
}

#[cfg(windows)]
#[expect(unsafe_code, reason = "the thread's number is a system call")]
fn os_id() -> u64 {
    // SAFETY: GetCurrentThreadId takes nothing, touches no memory and cannot fail.
    u64::from(unsafe { windows_sys::Win32::System::Threading::GetCurrentThreadId() })
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", windows)))]
fn os_id() -> u64 {
    0
}

/// Pushes a record that did not fit under the limit, and sees to it that the worker comes. Returns whether there was room.
#[cold]
#[inline(never)]
fn push_slowly(state: &ThreadState, record: &[Slot]) -> bool {
    let room = loop {
        #[expect(unsafe_code, reason = "the ring trusts its one producer")]
        // SAFETY: `state` comes from `current` or `set_up` of this thread, or is held exclusively under the list's lock.
        let (room, pushed) = unsafe {
            let room = state.ring.look_up(record.len() as u64);
            (room, room != Room::None && state.ring.push_slots(record))
        };
        // Between the look and the push the worker may have armed the ring; it does so once in a while, so the next look holds.
        if pushed || room == Room::None {
            break room;
        }
    };
    drain::wake(room != Room::Plenty);
    room != Room::None
}

/// Pushes a record that is dropped and counted where there is no room.
fn push_or_drop(state: &ThreadState, record: &[Slot]) {
    if !push_slowly(state, record) {
        state.ring.count_drop();
    }
}

/// Pushes a record of any length on this thread, whatever state the thread is in.
#[cold]
#[inline(never)]
pub(crate) fn push_anyhow(record: &[Slot]) {
    match current().or_else(set_up) {
        Some(state) => push_or_drop(state, record),
        None if CURRENT.get() == ENDED => while_busy(|| push_late(record)),
        None => {}
    }
}

/// Records for a thread whose own state is gone: scopes that close in destructors of thread-locals.
fn push_late(record: &[Slot]) {
    let mut threads = threads();
    let number = match NUMBER.get() {
        0 => {
            let number = threads.add_info(ThreadInfo {
                os_id: os_id(),
                name: String::new(),
            });
            NUMBER.set(number + 1);
            number
        }
        number => number - 1,
    };
    let state = threads.take_state(number);
    push_or_drop(&state, record);
    state.end();
}

/// Pushes text into this thread's ring and returns its key, 0 where there was no room: then the argument says that its text is lost, and if
/// there is still no room when the scope ends, the span is dropped and counted.
pub(crate) fn push_text(text: &str) -> u64 {
    let Some(state) = current().or_else(set_up) else {
        return 0;
    };
    let key = state.next_text.load(Ordering::Relaxed);
    state.next_text.store(key + 1, Ordering::Relaxed);
    if push_bytes(state, key, Special::Text, text) {
        key
    } else {
        0
    }
}

/// Pushes a message with the time `ticks` into this thread's ring. Where there is no room it counts as a dropped record.
pub(crate) fn push_message(ticks: u64, text: &str) {
    if let Some(state) = current().or_else(set_up)
        && !push_bytes(state, ticks, Special::Message, text)
    {
        state.ring.count_drop();
    }
}

fn push_bytes(state: &ThreadState, word0: u64, special: Special, text: &str) -> bool {
    let text = args::cut(text, args::MAX_STR_BYTES);
    let mut record = [[0_u64; 2]; MAX_EXTENSIONS + 1];
    let mut used = 1;
    for (slot, bytes) in record[1..].iter_mut().zip(text.as_bytes().chunks(16)) {
        let mut padded = [0; 16];
        padded[..bytes.len()].copy_from_slice(bytes);
        let both = u128::from_le_bytes(padded);
        *slot = [both as u64, (both >> 64) as u64];
        used += 1;
    }
    let tag = TAG_SPECIAL | (used as u32 - 1) << SITE_BITS | special as u32;
    record[0] = [word0, word1(text.len() as u32, tag)];
    push(state, &record[..used])
}

/// Pushes a record of any length; returns `false` where there was no room, which the caller counts. `state` is this thread's own.
pub(crate) fn push(state: &ThreadState, record: &[Slot]) -> bool {
    #[expect(unsafe_code, reason = "the ring trusts its one producer")]
    // SAFETY: `state` comes from `current` or `set_up` of this thread.
    let pushed = unsafe { state.ring.push_slots(record) };
    pushed || push_slowly(state, record)
}

/// Sets the capacity of the rings of threads that come from now on, in slots.
pub(crate) fn set_ring_slots(slots: usize) {
    let mut threads = threads();
    threads.ring_slots = slots;
    threads.spare.clear();
}

/// Takes the states that came since the last call, each with what its ring had dropped before.
pub(crate) fn take_new() -> Vec<(Arc<ThreadState>, u64)> {
    ENDED_UNSEEN.store(0, Ordering::Relaxed);
    std::mem::take(&mut threads().inbox)
}

/// Returns what is known of the threads numbered from `known` on.
pub(crate) fn infos_after(known: usize) -> Vec<Arc<ThreadInfo>> {
    threads().infos.get(known..).unwrap_or(&[]).to_vec()
}

/// Takes back the state of a thread that has ended and whose ring is empty.
pub(crate) fn reclaim(state: &Arc<ThreadState>) {
    let mut threads = threads();
    threads.live.retain(|live| !Arc::ptr_eq(live, state));
    if threads.spare.len() < MAX_SPARE
        && state.ring.capacity() as usize == threads.ring_slots.next_power_of_two()
    {
        threads.spare.push(Arc::clone(state));
    }
}

/// Drops every thread from the list: for the child of a fork, in which none of them runs.
pub(crate) fn forget_all() {
    let mut threads = threads();
    for state in threads.live.drain(..) {
        // The forking thread may still hold guards that point here; the memory stays.
        std::mem::forget(state);
    }
    threads.inbox.clear();
    threads.spare.clear();
    threads.infos.clear();
}

/// The scopes that a thread has open now.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenThread {
    /// The thread.
    pub thread: ThreadId,
    /// Its name, empty when it has none.
    pub name: String,
    /// Its open scopes, outermost first.
    pub scopes: Vec<OpenScope>,
}

/// A scope that is open now.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenScope {
    /// Its call site.
    pub site: SiteId,
    /// Its name.
    pub name: String,
    /// How long it has been open, in nanoseconds.
    pub age_ns: u64,
    /// When it was opened, in ticks.
    pub start_ticks: u64,
}

/// Returns, for every thread that has any, the scopes that are open now, outermost first. At most [`MAX_OPEN`] per thread; scopes that come and go
/// faster than they can be read are left out.
#[must_use]
pub fn open_scopes() -> Vec<OpenThread> {
    open_scopes_of(|state| !state.has_exited())
}

/// Returns the scopes that are open at the end of the process. The thread that ends the process has ended itself by then, inside its scopes.
pub(crate) fn open_scopes_at_end() -> Vec<OpenThread> {
    open_scopes_of(|_| true)
}

fn open_scopes_of(concerns: impl Fn(&ThreadState) -> bool) -> Vec<OpenThread> {
    while_busy(|| {
        let threads = threads();
        let registry = crate::callsite::lock();
        let now = clock::ticks();
        let mut all = Vec::new();
        let mut open = Vec::new();
        for state in threads.live.iter().filter(|state| concerns(state)) {
            let scope = |(site, start_ticks): (SiteId, u64)| OpenScope {
                site,
                name: registry
                    .name_of(site)
                    .map_or_else(|| "?".into(), |info| info.name.to_string()),
                age_ns: clock::approximate_ns(now.saturating_sub(start_ticks)),
                start_ticks,
            };
            state.read_open(&mut open);
            let scopes: Vec<_> = open.iter().copied().map(scope).collect();
            if !scopes.is_empty() {
                let info = threads.infos.get(state.id().0 as usize);
                let name = info.map_or_else(String::new, |info| info.name.clone());
                all.push(OpenThread {
                    thread: state.id(),
                    name,
                    scopes,
                });
            }
        }
        all
    })
}
