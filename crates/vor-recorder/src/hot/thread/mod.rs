//! Threads: the state each one records into, and how it comes and goes.
//!
//! A thread's first scope gives it a `ThreadState`: a ring and the stack of its open scopes. A
//! plain thread-local pointer without a destructor leads to it, so the hot path pays no
//! registration check; a second thread-local with a destructor notices the thread's end and leaves
//! the state to the worker, which takes what is left and hands the memory to the next thread.
//!
//! The pointer is never null: where a thread has no state, it leads to one of four stand-ins that
//! have room for nothing, so that the hot path asks
//! for room and nothing else. They say why: not yet set up, thread has ended, busy, and silent.
//! Busy marks a thread that is on a cold path of vor, so
//! that a scope in a global allocator that vor calls, or in a signal handler that interrupts vor,
//! neither recurses nor waits: it is counted as dropped.
//! Silent marks a thread of vor's own and one that is inside a subscriber of `tracing`: what is
//! opened there is not the program's, or is recorded already.

mod counted;
mod open;
mod push;
mod state;
mod counter_block;
mod used;

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use vor_capture::filled;
use vor_capture::model::catalog::{Catalog, ThreadInfo};

use crate::allocations;
use crate::hot::hooks;
use crate::hot::nvtx;
use crate::sync::Ordering;
use crate::sync::global::{AtomicPtr, AtomicU32, compiler_fence};

pub(crate) use counted::{LAST_SITE, SiteSums, read_counted};
pub(crate) use counted::{begin_counting, count, count_without_state};
#[cfg(unix)]
pub(crate) use counted::{forget_counted, lock_counted_for_fork};
pub(crate) use counter_block::{BLOCK_COUNTERS, CounterBlock};
pub(crate) use open::open_scopes_at_end;
pub use open::{OpenScope, OpenThread, open_scopes};
pub(crate) use push::{count_drop, drop_if_busy, take_lost};
#[cfg(feature = "tracing")]
pub(crate) use push::{kept_until, push_kept_text};
pub(crate) use push::{push_message, push_record, push_special, push_text, push_without_state};
pub use state::MAX_OPEN;
pub(crate) use state::ThreadState;
#[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
pub(crate) use used::{Used, used};

/// Stand-ins for a thread's state where it has none; see [`Absent`].
#[cfg(not(loom))]
static ABSENT: [ThreadState; 4] = [const { ThreadState::absent() }; 4];

/// Why a thread has no state of its own now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absent {
    /// The thread has recorded nothing yet.
    New,
    /// The thread is ending, its state is given away.
    Ended,
    /// The thread is inside vor; what it opens there is counted as dropped.
    Busy,
    /// The thread is vor's own, or inside a subscriber of `tracing`; what it opens there is not
    /// recorded.
    Silent,
}

impl Absent {
    #[cfg(not(loom))]
    const fn stand_in(self) -> *const ThreadState {
        &raw const ABSENT[self as usize]
    }

    /// Under the model checker a ring cannot be a static, and nothing is recorded on the hot path.
    #[cfg(loom)]
    const fn stand_in(self) -> *const ThreadState {
        std::ptr::without_provenance(self as usize)
    }

    /// Returns why `state` is a stand-in, or `None` where it is a thread's.
    fn of(state: *const ThreadState) -> Option<Self> {
        [Self::New, Self::Ended, Self::Busy, Self::Silent]
            .into_iter()
            .find(|absent| absent.stand_in() == state)
    }

    /// Returns whether this is why the calling thread has no state.
    fn is_here(self) -> bool {
        pointer() == self.stand_in()
    }
}

thread_local! {
    /// This thread's state, or one of the stand-ins. The thread alone uses it, and signal handlers
    /// that interrupt the thread: atomic, so that these find it whole.
    static CURRENT: AtomicPtr<ThreadState> =
        const { AtomicPtr::new(Absent::New.stand_in().cast_mut()) };
    /// This thread's state as long as it has one, null else: for what is dropped while it is busy.
    static OWN: AtomicPtr<ThreadState> = const { AtomicPtr::new(std::ptr::null_mut()) };
    /// This thread's number once it has one, plus 1; it outlives the state for scopes in
    /// destructors of thread-locals.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    /// Gives the state away when the thread ends.
    static OWNED: Cell<Option<Owned>> = const { Cell::new(None) };
}

#[inline(always)]
fn pointer() -> *const ThreadState {
    CURRENT.with(|current| current.load(Ordering::Relaxed))
}

/// Sets the thread's state, and returns what it was. A handler that interrupts what stands before
/// or behind this sees the one or the other.
#[inline]
fn replace_pointer(state: *const ThreadState) -> *const ThreadState {
    compiler_fence(Ordering::SeqCst);
    let before = pointer();
    CURRENT.with(|current| current.store(state.cast_mut(), Ordering::Relaxed));
    compiler_fence(Ordering::SeqCst);
    before
}

/// Sets the thread's state until it is dropped.
struct Replaced(*const ThreadState);

impl Replaced {
    #[inline]
    fn by(state: *const ThreadState) -> Self {
        Self(replace_pointer(state))
    }
}

impl Drop for Replaced {
    #[inline]
    fn drop(&mut self) {
        replace_pointer(self.0);
    }
}

struct Owned(Arc<ThreadState>);

impl Drop for Owned {
    fn drop(&mut self) {
        replace_pointer(Absent::Ended.stand_in());
        while_busy(|| {
            self.0.end_counting();
            OWN.with(|own| own.store(std::ptr::null_mut(), Ordering::Relaxed));
            let _threads = threads();
            self.0.ways.close();
        });
        self.0.end();
        // Rings that wait for the worker are memory that the next threads could use.
        if ENDED_UNSEEN.fetch_add(1, Ordering::Relaxed) + 1 == MAX_SPARE as u32 {
            while_busy(|| hooks::wake(true));
        }
    }
}

/// The states of all threads.
struct Threads {
    live: Vec<Arc<ThreadState>>,
    /// States whose thread has come since the worker last asked, with what their rings had dropped
    /// for earlier threads.
    inbox: Vec<(Arc<ThreadState>, u64)>,
    /// Emptied states for the next threads.
    spare: Vec<Arc<ThreadState>>,
    infos: Vec<Arc<ThreadInfo>>,
    ring_slots: usize,
}

/// Spare states kept; more are freed. As many threads may end before the worker is called to take
/// back what they leave.
const MAX_SPARE: usize = 32;

/// Threads that ended since the worker last looked. Counted by them and reset by the worker,
/// relaxed: a miscount only shifts a wake-up.
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

/// Locks `mutex` without waiting in it: tries a few times, and gives up where it is held all the
/// while.
#[cfg(unix)]
pub(crate) fn try_lock<T>(
    mutex: &'static Mutex<T>,
    tries: u32,
    pause: std::time::Duration,
) -> Option<MutexGuard<'static, T>> {
    for _ in 0..tries {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => std::thread::sleep(pause),
        }
    }
    None
}

/// Calls `each` for every thread that has scopes open, with its number, what is known of it, and
/// the scopes. For a process that crashes: allocates nothing where `open` has room for [`MAX_OPEN`]
/// scopes, and returns `false` where the list of threads is held all the while.
#[cfg(unix)]
pub(crate) fn try_each_open(
    tries: u32,
    pause: std::time::Duration,
    open: &mut Vec<(vor_capture::model::catalog::SiteId, u64)>,
    mut each: impl FnMut(
        vor_capture::model::catalog::ThreadId,
        Option<&ThreadInfo>,
        &[(vor_capture::model::catalog::SiteId, u64)],
    ),
) -> bool {
    let Some(threads) = try_lock(&THREADS, tries, pause) else {
        return false;
    };
    for state in threads.live.iter().filter(|state| !state.has_exited()) {
        state.read_open(open);
        if !open.is_empty() {
            let info = threads.infos.get(state.id().0 as usize);
            each(state.id(), info.map(|info| &**info), open);
        }
    }
    true
}

/// Locks the list of threads for the time of a fork.
#[cfg(unix)]
pub(crate) fn lock_for_fork() -> impl std::any::Any {
    threads()
}

/// Returns whether nobody holds one of the locks: for the end of a process.
#[cfg(any(unix, windows))]
pub(crate) fn is_open() -> bool {
    crate::os::detach::is_open(&THREADS) && counted::is_open()
}

/// Has this thread record nothing and leave its state where it is when it ends: for the last thread
/// of a process, where a lock is held by one that is gone.
#[cfg(windows)]
pub(crate) fn stay_behind() {
    replace_pointer(Absent::Silent.stand_in());
    let _ = OWNED.try_with(|cell| std::mem::forget(cell.take()));
}

impl Threads {
    fn take_state(&mut self, number: u32) -> Arc<ThreadState> {
        let spare = self.spare.pop();
        let state = spare.unwrap_or_else(|| Arc::new(ThreadState::new(self.ring_slots)));
        state.begin(number);
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

/// Returns this thread's state, or the stand-in that sends the hot path to the cold one.
#[inline(always)]
pub(crate) fn hot() -> &'static ThreadState {
    deref(pointer())
}

/// Returns this thread's state, or `None` where it has none yet or any more, or is inside vor. Only
/// [`with_state`] may record into it.
pub(crate) fn current() -> Option<&'static ThreadState> {
    let state = pointer();
    match Absent::of(state) {
        None => Some(deref(state)),
        Some(_) => None,
    }
}

/// Returns this thread's state also inside vor.
fn own() -> Option<&'static ThreadState> {
    let own = OWN.with(|own| own.load(Ordering::Relaxed));
    (!own.is_null()).then(|| deref(own))
}

#[expect(
    unsafe_code,
    reason = "a thread-local without a destructor can only hold a plain pointer"
)]
#[inline(always)]
fn deref(state: *const ThreadState) -> &'static ThreadState {
    // SAFETY: CURRENT holds a stand-in, which is a static, except between `set_up` and the drop of
    // OWNED on this very thread, and OWNED keeps the state alive for that time; OWN holds no other
    // state, and is cleared by that drop. Callers use the reference on this thread only and do not
    // keep it beyond the call that asked for it.
    unsafe { &*state }
}

/// Runs `work` on this thread's state, which it is given where it has none yet, while signal
/// handlers find the thread busy. `None` inside vor and while the thread ends.
#[inline]
pub(crate) fn with_state<R>(work: impl FnOnce(&ThreadState) -> R) -> Option<R> {
    let state = current()
        .or_else(set_up)
        .filter(|state| !state.is_claimed())?;
    let _busy = Replaced::by(Absent::Busy.stand_in());
    Some(work(state))
}

/// Runs `inside` with scopes of this thread switched off, and without counting what it allocates.
/// What is opened meanwhile, by a signal handler, an allocator or a sink, is counted as dropped.
pub(crate) fn while_busy<R>(inside: impl FnOnce() -> R) -> R {
    // A thread that is silent stays so.
    let stand_in = match Absent::Silent.is_here() {
        true => Absent::Silent,
        false => Absent::Busy,
    };
    let _busy = Replaced::by(stand_in.stand_in());
    allocations::untracked(inside)
}

/// As [`while_busy`], but what is opened meanwhile is not counted either.
#[cfg(all(feature = "tracing", not(feature = "off")))]
pub(crate) fn while_silent<R>(inside: impl FnOnce() -> R) -> R {
    let _silent = Replaced::by(Absent::Silent.stand_in());
    allocations::untracked(inside)
}

/// Runs `inside` on a thread of vor's own as if it were one of the program's: what it records goes
/// into a ring of its own.
pub(crate) fn while_recording<R>(inside: impl FnOnce() -> R) -> R {
    let own = OWNED.try_with(|cell| {
        let owned = cell.take();
        let state = owned.as_ref().map(|owned| Arc::as_ptr(&owned.0));
        cell.set(owned);
        state
    });
    let state = match own {
        Ok(state) => state.unwrap_or(Absent::New.stand_in()),
        Err(_) => Absent::Ended.stand_in(),
    };
    let _recording = Replaced::by(state);
    inside()
}

/// Switches scopes of this thread off for good, and does not count what it allocates: for vor's own
/// threads.
pub(crate) fn stay_busy() {
    replace_pointer(Absent::Silent.stand_in());
    allocations::stay_untracked();
}

/// Returns whether this thread is inside vor.
pub(crate) fn is_busy() -> bool {
    match Absent::of(pointer()) {
        Some(Absent::Busy | Absent::Silent) => true,
        Some(Absent::New | Absent::Ended) => false,
        None => hot().is_claimed(),
    }
}

/// Returns whether this thread is one of vor's own, or calls a subscriber.
pub(crate) fn is_silent() -> bool {
    Absent::Silent.is_here()
}

/// Forgets this thread's state: for the child of a fork.
#[cfg(unix)]
pub(crate) fn forget_current() {
    replace_pointer(Absent::New.stand_in());
    OWN.with(|own| own.store(std::ptr::null_mut(), Ordering::Relaxed));
    NUMBER.set(0);
}

/// Gives this thread its state. `None` inside vor and while the thread ends.
#[cold]
#[inline(never)]
pub(crate) fn set_up() -> Option<&'static ThreadState> {
    if !Absent::New.is_here() {
        return current();
    }
    hooks::rearm_if_forked();
    let state = while_busy(|| {
        // A handler has done it meanwhile.
        if let Some(state) = own() {
            return Some(std::ptr::from_ref(state));
        }
        let info = describe();
        #[cfg(not(target_arch = "wasm32"))]
        hooks::thread_begins(info.os_id);
        nvtx::name_thread(&info);
        #[cfg(windows)]
        crate::os::detach::watch_thread();
        let owned = {
            let mut threads = threads();
            let number = threads.add_info(info);
            NUMBER.set(number + 1);
            Owned(threads.take_state(number))
        };
        let state = Arc::clone(&owned.0);
        let kept = OWNED.try_with(|cell| {
            // In the child of a fork the cell still holds the state from before. It is never freed:
            // the list of threads let go of it.
            if let Some(before) = cell.replace(Some(owned)) {
                state.inherit(&before.0);
                std::mem::forget(before);
            }
        });
        kept.ok()?;
        let _threads = threads();
        state.ways.open();
        // Before the thread is busy no more: whoever finds it without a state looks here.
        OWN.with(|own| own.store(Arc::as_ptr(&state).cast_mut(), Ordering::Relaxed));
        Some(Arc::as_ptr(&state))
    });
    match state {
        Some(state) => {
            replace_pointer(state);
            current()
        }
        None => {
            replace_pointer(Absent::Ended.stand_in());
            None
        }
    }
}

fn describe() -> ThreadInfo {
    let name = std::thread::current().name().map(str::to_owned);
    let name = name.or_else(|| NAMER.get().and_then(|namer| namer()));
    filled!(ThreadInfo {
        os_id: os_id(),
        name: name.unwrap_or_default(),
    })
}

/// Tells the names of threads that the standard library does not know. Set once, read when a thread
/// records for the first time.
static NAMER: OnceLock<fn() -> Option<String>> = OnceLock::new();

/// Has threads that another runtime started named by `namer`, which each of them calls when it
/// records for the first time. The first call of this counts. What `namer` opens is not recorded.
#[doc(hidden)]
pub fn name_threads_by(namer: fn() -> Option<String>) {
    NAMER.get_or_init(|| namer);
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[expect(unsafe_code, reason = "the thread's number is a system call")]
pub(crate) fn os_id() -> u64 {
    // SAFETY: gettid takes nothing, touches no memory and cannot fail.
    u64::try_from(unsafe { libc::gettid() }).unwrap_or(0)
}

#[cfg(target_os = "macos")]
#[expect(unsafe_code, reason = "the thread's number is a system call")]
pub(crate) fn os_id() -> u64 {
    let mut id = 0;
    // SAFETY: thread 0 means the calling one, and `id` is a valid place for the result.
    unsafe { libc::pthread_threadid_np(0, &mut id) };
    id
}

#[cfg(windows)]
#[expect(unsafe_code, reason = "the thread's number is a system call")]
pub(crate) fn os_id() -> u64 {
    // SAFETY: GetCurrentThreadId takes nothing, touches no memory and cannot fail.
    u64::from(unsafe { windows_sys::Win32::System::Threading::GetCurrentThreadId() })
}

#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "macos",
    windows
)))]
pub(crate) fn os_id() -> u64 {
    0
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

/// Brings the threads into a catalog that it does not know.
pub(crate) fn declare_new(catalog: &mut Arc<Catalog>) {
    let threads = threads();
    let new = threads.infos.get(catalog.threads.len()..).unwrap_or(&[]);
    if !new.is_empty() {
        let known = &mut Arc::make_mut(catalog).threads;
        Arc::make_mut(known).extend(new.iter().cloned().map(Some));
    }
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
#[cfg(unix)]
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
