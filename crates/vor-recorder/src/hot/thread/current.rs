//! The calling thread: the pointer to its state, and the guards that hide the state for a while.
//!
//! A plain thread-local pointer without a destructor points to the state, so the fast path pays no
//! registration check. A second thread-local with a destructor releases the state when the thread
//! ends.
//!
//! The pointer is never null. A thread without a state points to one of four [stand-ins](StandIn)
//! that have no room, so the fast path checks only for room.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use vor_capture::filled;
use vor_capture::model::catalog::ThreadInfo;

use super::list::{MAX_SPARE, threads};
use super::os_id::os_id;
use super::state::ThreadState;
use super::state_box::StateBox;
use crate::allocations::{self, StateGuard};
#[cfg(feature = "locks")]
use crate::hot::record_state;
use crate::hot::{hooks, nvtx};
use crate::sync::global::{AtomicPtr, AtomicU32, compiler_fence};
use crate::sync::{Ordering, thread_locals};

/// Stand-ins for a thread's state, by [`StandIn`].
#[cfg(not(loom))]
static STAND_INS: [ThreadState; 4] = [const { ThreadState::stand_in() }; 4];

/// The reason why a thread points to no state of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StandIn {
    /// The thread has recorded nothing yet.
    New,
    /// The thread is ending, and has released its state.
    Ended,
    /// The thread is inside vor. A scope may open there in a global allocator that vor calls, or in
    /// a signal handler that interrupts vor. It must neither recurse nor wait, so it is counted as
    /// dropped.
    Busy,
    /// The thread is one of vor's own, or inside a subscriber of `tracing`. Scopes that open there
    /// are not recorded: they are not the program's, or are recorded already.
    Silent,
}

impl StandIn {
    #[cfg(not(loom))]
    const fn state(self) -> *const ThreadState {
        &raw const STAND_INS[self as usize]
    }

    /// Under loom a ring cannot be a static, and the fast path records nothing.
    #[cfg(loom)]
    const fn state(self) -> *const ThreadState {
        std::ptr::without_provenance(self as usize)
    }

    /// Returns the stand-in at `state`, or `None` if it is a thread's own state.
    fn of(state: *const ThreadState) -> Option<Self> {
        [Self::New, Self::Ended, Self::Busy, Self::Silent]
            .into_iter()
            .find(|stand_in| stand_in.state() == state)
    }

    /// Returns whether the calling thread points to this stand-in.
    #[inline(always)]
    pub(super) fn is_current(self) -> bool {
        pointer() == self.state()
    }
}

thread_locals! {
    /// This thread's state, or one of the stand-ins. Read and written by the thread and by signal
    /// handlers that interrupt it, relaxed. It is atomic so that a handler reads a whole pointer.
    static CURRENT: AtomicPtr<ThreadState> =
        const { AtomicPtr::new(StandIn::New.state().cast_mut()) };
    /// This thread's state while it has one, otherwise null. Used to count a drop while the thread
    /// is busy. Read and written like `CURRENT`.
    static OWN: AtomicPtr<ThreadState> = const { AtomicPtr::new(std::ptr::null_mut()) };
    /// This thread's number plus 1, once it has one. It outlives the state, for scopes in
    /// destructors of thread-locals.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    /// Releases the state when the thread ends.
    static OWNED: Cell<Option<OwnedState>> = const { Cell::new(None) };
}

#[inline(always)]
fn pointer() -> *const ThreadState {
    CURRENT.with(|current| current.load(Ordering::Relaxed))
}

/// Sets the thread's pointer, and returns the previous one. A handler that interrupts the code
/// before this call finds the old pointer. One that interrupts the code after it finds the new
/// pointer.
#[inline]
fn replace_pointer(state: *const ThreadState) -> *const ThreadState {
    compiler_fence(Ordering::SeqCst);
    let before = pointer();
    CURRENT.with(|current| current.store(state.cast_mut(), Ordering::Relaxed));
    compiler_fence(Ordering::SeqCst);
    before
}

/// Restores the thread's pointer when it is dropped.
struct PointerGuard {
    before: *const ThreadState,
}

impl PointerGuard {
    #[inline]
    fn set(state: *const ThreadState) -> Self {
        Self {
            before: replace_pointer(state),
        }
    }
}

impl Drop for PointerGuard {
    #[inline]
    fn drop(&mut self) {
        replace_pointer(self.before);
    }
}

/// Threads that ended since the worker's last pass. They increment it and the worker resets it,
/// relaxed: a miscount only shifts a wake-up.
static ENDED_SINCE_PASS: AtomicU32 = AtomicU32::new(0);

/// Resets the count of ended threads. Called at a pass of the worker.
pub(super) fn reset_ended_count() {
    ENDED_SINCE_PASS.store(0, Ordering::Relaxed);
}

/// A thread's state, which is released at the thread's end.
struct OwnedState(Arc<StateBox>);

impl Drop for OwnedState {
    fn drop(&mut self) {
        replace_pointer(StandIn::Ended.state());
        while_busy(|| {
            self.0.end_counting();
            OWN.with(|own| own.store(std::ptr::null_mut(), Ordering::Relaxed));
            let _threads = threads();
            self.0.view.withdraw();
        });
        self.0.end();
        // Wake the worker early, so that the next threads can reuse the rings of ended ones.
        if ENDED_SINCE_PASS.fetch_add(1, Ordering::Relaxed) + 1 == MAX_SPARE as u32 {
            while_busy(|| hooks::wake(true));
        }
    }
}

/// Releases the state of this thread, as the thread's end does. Loom frees all thread-locals of a
/// thread at once, so a model ends its threads itself.
#[cfg(all(test, loom))]
pub(crate) fn end_thread() {
    drop(OWNED.with(Cell::take));
}

/// Returns this thread's state, or the stand-in that sends the fast path to the slow one.
#[inline(always)]
pub(crate) fn hot() -> &'static ThreadState {
    deref(pointer())
}

/// Returns this thread's state. `None` before the thread has one, after its end, and inside vor.
/// Only [`with_state`] may record into it.
pub(crate) fn current() -> Option<&'static ThreadState> {
    let state = pointer();
    match StandIn::of(state) {
        None => Some(deref(state)),
        Some(_) => None,
    }
}

/// Identifies a thread to other threads for as long as it lives.
#[cfg(feature = "locks")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadToken(
    /// The address of the thread's state or of its stand-in.
    u64,
);

#[cfg(feature = "locks")]
impl ThreadToken {
    /// The token of no thread.
    pub(crate) const NONE: Self = Self(0);

    #[inline(always)]
    pub(crate) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    #[inline(always)]
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    pub(super) fn is_of(self, state: *const ThreadState) -> bool {
        self.0 == state.addr() as u64
    }

    /// Returns whether the thread was inside vor when it took its token.
    pub(super) fn is_inside_vor(self) -> bool {
        self.is_of(StandIn::Busy.state()) || self.is_of(StandIn::Silent.state())
    }
}

/// Returns the token of this thread. While recording is on, sets its state up first if necessary,
/// so that other threads find it by its token.
#[cfg(feature = "locks")]
#[inline(always)]
pub(crate) fn own_token() -> ThreadToken {
    if StandIn::New.is_current() && record_state::is_on() {
        let _ = set_up();
    }
    ThreadToken(pointer().addr() as u64)
}

/// Returns this thread's state, inside vor as well.
pub(super) fn own() -> Option<&'static ThreadState> {
    let own = OWN.with(|own| own.load(Ordering::Relaxed));
    (!own.is_null()).then(|| deref(own))
}

/// Returns this thread's number in the catalog. If it has none, calls `add` and stores the result.
pub(super) fn number_or(add: impl FnOnce() -> u32) -> u32 {
    match NUMBER.with(Cell::get) {
        0 => {
            let number = add();
            NUMBER.with(|own| own.set(number + 1));
            number
        }
        number => number - 1,
    }
}

#[expect(
    unsafe_code,
    reason = "a thread-local without a destructor can only hold a plain pointer"
)]
#[inline(always)]
fn deref(state: *const ThreadState) -> &'static ThreadState {
    // SAFETY: CURRENT points to a stand-in, which is a static, except between `set_up` and the drop
    // of OWNED on this very thread, and OWNED keeps the state alive for that time. OWN points to no
    // other state, and that drop clears it. Callers use the reference on this thread only, and do
    // not keep it beyond the call for which they got it.
    unsafe { &*state }
}

/// Runs `work` on this thread's state, and sets it up first if necessary. Signal handlers find the
/// thread busy during `work`. Returns `None` inside vor and while the thread ends.
#[inline]
pub(crate) fn with_state<R>(work: impl FnOnce(&ThreadState) -> R) -> Option<R> {
    let state = current()
        .or_else(set_up)
        .filter(|state| !state.is_claimed())?;
    let _busy = PointerGuard::set(StandIn::Busy.state());
    Some(work(state))
}

/// Runs `work` with scopes of this thread switched off, and without counting its allocations.
/// Scopes that open during `work`, in a signal handler, an allocator or a sink, are counted as
/// dropped.
pub(crate) fn while_busy<R>(work: impl FnOnce() -> R) -> R {
    let _inside = InsideVor::enter();
    work()
}

/// Switches scopes of this thread off, and the count of its allocations, until it is dropped.
struct InsideVor {
    // Dropped first.
    _untracked: StateGuard,
    _busy: PointerGuard,
}

impl InsideVor {
    // Out of line, because each of the many callers of `while_busy` would get a copy of the code.
    #[inline(never)]
    fn enter() -> Self {
        // A silent thread stays silent.
        let stand_in = match StandIn::Silent.is_current() {
            true => StandIn::Silent,
            false => StandIn::Busy,
        };
        let busy = PointerGuard::set(stand_in.state());
        Self {
            _untracked: StateGuard::untracked(),
            _busy: busy,
        }
    }
}

/// Runs `work` as [`while_busy`] does, but does not count scopes that open during `work` as
/// dropped.
#[cfg(all(feature = "tracing", not(feature = "off")))]
pub(crate) fn while_silent<R>(work: impl FnOnce() -> R) -> R {
    let _silent = PointerGuard::set(StandIn::Silent.state());
    let _untracked = StateGuard::untracked();
    work()
}

/// Runs `work` on a thread of vor's own as if it were one of the program's. The thread records into
/// a ring of its own.
pub(crate) fn while_recording<R>(work: impl FnOnce() -> R) -> R {
    let own = OWNED.try_with(|cell| {
        let owned = cell.take();
        let state = owned.as_ref().map(|owned| owned.0.as_ptr());
        cell.set(owned);
        state
    });
    let state = match own {
        Ok(state) => state.unwrap_or(StandIn::New.state()),
        Err(_) => StandIn::Ended.state(),
    };
    let _recording = PointerGuard::set(state);
    work()
}

/// Permanently switches off the scopes of this thread and the count of its allocations. Used for
/// vor's own threads.
pub fn stay_silent() {
    replace_pointer(StandIn::Silent.state());
    allocations::stay_untracked();
}

/// Returns whether this thread is inside vor.
pub(crate) fn is_busy() -> bool {
    match StandIn::of(pointer()) {
        Some(StandIn::Busy | StandIn::Silent) => true,
        Some(StandIn::New | StandIn::Ended) => false,
        None => hot().is_claimed(),
    }
}

/// Returns whether this thread is one of vor's own, or calls a subscriber.
pub(crate) fn is_silent() -> bool {
    StandIn::Silent.is_current()
}

/// Stops this thread from recording, and from releasing its state when it ends. Used for the last
/// thread of a process, because a thread that no longer exists may hold a lock.
#[cfg(windows)]
pub(crate) fn abandon_state() {
    replace_pointer(StandIn::Silent.state());
    let _ = OWNED.try_with(|cell| std::mem::forget(cell.take()));
}

/// The open scopes of the thread that forks, which its child restores: the copy of shared pages
/// that the child gets may be later.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct OwnOpen((u32, u32, Vec<(u64, u32)>));

/// Returns the open scopes of this thread, if its state is in shared memory.
#[cfg(unix)]
pub(crate) fn own_open() -> Option<OwnOpen> {
    let state = own().filter(|state| state.ring_number().is_some())?;
    Some(OwnOpen(state.save_open()))
}

#[cfg(unix)]
impl OwnOpen {
    /// Restores them, before the state is forgotten.
    pub(crate) fn restore(&self) {
        if let Some(state) = own() {
            state.restore_open(&self.0);
        }
    }
}

/// Forgets this thread's state. Used in the child of a fork.
#[cfg(unix)]
pub(crate) fn forget_current() {
    replace_pointer(StandIn::New.state());
    OWN.with(|own| own.store(std::ptr::null_mut(), Ordering::Relaxed));
    NUMBER.with(|own| own.set(0));
}

/// Sets up this thread's state, and returns it. `None` inside vor and while the thread ends.
#[cold]
#[inline(never)]
pub(crate) fn set_up() -> Option<&'static ThreadState> {
    if !StandIn::New.is_current() {
        return current();
    }
    hooks::rearm_if_forked();
    let state = while_busy(|| {
        // A handler may have set it up in the meantime.
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
            NUMBER.with(|own| own.set(number + 1));
            OwnedState(threads.take_state(number))
        };
        let state = Arc::clone(&owned.0);
        let stored = OWNED.try_with(|cell| {
            // In the child of a fork the cell still holds the state from before the fork. It is
            // never freed: the list of threads has forgotten it.
            if let Some(before) = cell.replace(Some(owned)) {
                state.inherit(&before.0);
                std::mem::forget(before);
            }
        });
        stored.ok()?;
        let _threads = threads();
        state.view.publish();
        // Stored before the thread leaves the busy state: a handler that finds no state reads OWN.
        OWN.with(|own| own.store(state.as_ptr().cast_mut(), Ordering::Relaxed));
        Some(state.as_ptr())
    });
    match state {
        Some(state) => {
            replace_pointer(state);
            current()
        }
        None => {
            replace_pointer(StandIn::Ended.state());
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

/// The function that names threads without a name in the standard library. Set once, read when a
/// thread records for the first time.
static NAMER: OnceLock<fn() -> Option<String>> = OnceLock::new();

/// Sets the function that names threads of another runtime. Each of these threads calls it when it
/// records for the first time. Only the first call has an effect. Scopes that `namer` opens are not
/// recorded.
#[doc(hidden)]
pub fn name_threads_by(namer: fn() -> Option<String>) {
    NAMER.get_or_init(|| namer);
}
