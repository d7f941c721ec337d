//! The allocator's data of each thread: its counters, and whether it is counting.
//!
//! All of it is one thread-local without a destructor, at a fixed offset from the thread pointer.
//! So an allocation costs a test, two additions and no shared write. A thread's first allocation
//! links the shared part into a list. A second thread-local has a destructor, which unlinks that
//! part when the thread ends and adds its counters to those of the process. Later allocations, by
//! other destructors, are counted in one place for all threads.
//!
//! ```text
//! Local (thread-local) ┌ Shared: counts, exact heap ◀── thread list, locked ── frames, snapshots
//!                      └ state, next sample, cached stack: the thread's alone
//! ```

use std::cell::Cell;
#[cfg(unix)]
use std::sync::OnceLock;

use super::live::{Live, LiveTable, MAX_STACKS, StackCache};
use super::lock::Lock;
use super::{EXACT, HEAP};
use crate::sync::global::AtomicBool;
use crate::sync::sum::Sum;
use crate::sync::{self, AtomicPtr, AtomicU64, Ordering, const_fn, statics, thread_locals};

/// Allocations and frees, of a thread or of the process. A reallocation is a free and an
/// allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AllocCounts {
    /// Number of allocations.
    pub alloc_objects: u64,
    /// Bytes of the allocations, as requested.
    pub alloc_bytes: u64,
    /// Number of frees, of objects of any thread.
    pub free_objects: u64,
    /// Bytes of the freed objects.
    pub free_bytes: u64,
}

pub(crate) use AllocCounts as Counts;

impl AllocCounts {
    pub(crate) const NONE: Self = Self {
        alloc_objects: 0,
        alloc_bytes: 0,
        free_objects: 0,
        free_bytes: 0,
    };

    /// Returns the sum of both.
    pub(crate) fn plus(self, other: Self) -> Self {
        self.each(other, u64::wrapping_add)
    }

    /// Returns the counts since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.each(earlier, u64::wrapping_sub)
    }

    fn each(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            alloc_objects: with(self.alloc_objects, other.alloc_objects),
            alloc_bytes: with(self.alloc_bytes, other.alloc_bytes),
            free_objects: with(self.free_objects, other.free_objects),
            free_bytes: with(self.free_bytes, other.free_bytes),
        }
    }
}

/// The counters of one thread. Incremented by the thread, read by any thread (relaxed): they only
/// grow, and order nothing.
#[derive(Debug)]
pub(crate) struct Counters {
    alloc_objects: Sum,
    alloc_bytes: Sum,
    free_objects: Sum,
    free_bytes: Sum,
}

impl Counters {
    const_fn! {
        const fn new() -> Self {
            Self {
                alloc_objects: Sum::new(),
                alloc_bytes: Sum::new(),
                free_objects: Sum::new(),
                free_bytes: Sum::new(),
            }
        }
    }

    pub(crate) fn read(&self) -> Counts {
        Counts {
            alloc_objects: self.alloc_objects.read(),
            alloc_bytes: self.alloc_bytes.read(),
            free_objects: self.free_objects.read(),
            free_bytes: self.free_bytes.read(),
        }
    }
}

statics! {
    /// Counters of all threads after their end: allocations, their bytes, frees, their bytes.
    /// Incremented and read by any thread, relaxed.
    static AFTER_END: [AtomicU64; 4] = sync::array![AtomicU64::new(0); 4];
}

/// The state of a thread, which decides whether and how it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The thread has allocated nothing yet.
    New,
    /// The thread counts.
    Ready,
    /// The thread is in `untracked`, or inside vor, and does not count.
    Untracked,
    /// The thread is inside this module, perhaps with a lock. It does not count, and takes no lock.
    Internal,
    /// The thread is ending and unlinked; its allocations are counted for the process.
    Ended,
}

/// The part of a thread's data that other threads read.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) counters: Counters,
    pub(crate) live: LiveTable,
    /// The next thread of the list. Read and written under the list's lock (relaxed).
    next: AtomicPtr<Shared>,
    /// The previous thread of the list; otherwise like `next`.
    previous: AtomicPtr<Shared>,
}

#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) shared: Shared,
    state: Cell<State>,
    /// Length of the thread's table of live objects while it counts, 0 while it does not. So for
    /// the exact heap one comparison checks both that the thread counts and that the table has an
    /// entry.
    counted_stacks: Cell<u32>,
    /// Whether the thread is in the list.
    is_linked: Cell<bool>,
    /// The state to return to after a fork.
    #[cfg(unix)]
    before_fork: Cell<State>,
    /// The count of bytes at which the next sample is due, 0 before the first is drawn.
    pub(crate) sample_at: Cell<u64>,
    /// State of the generator of samples.
    pub(crate) random: Cell<u64>,
    pub(crate) stack: StackCache,
}

thread_locals! {
    static LOCAL: Local = const { Local::new() };
    /// Unlinks the thread when it ends.
    static ENDING: Ending = const { Ending };
}

struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        // A model ends its threads itself, because loom has dropped `LOCAL` by now.
        if !cfg!(loom) {
            own().end();
        }
    }
}

/// The list of live threads, and the counters of ended ones.
struct Threads {
    first: *mut Shared,
    ended: Counts,
    /// By stack: the objects that threads without a table, including ended ones, allocated minus
    /// those that they freed.
    live: Vec<Live>,
}

#[expect(unsafe_code, reason = "the list holds plain pointers")]
// SAFETY: The pointers lead to thread-locals, which any thread that holds the lock may read. `end`
// unlinks them under the lock before they are freed.
unsafe impl Send for Threads {}

statics! {
    static THREADS: Lock<Threads> = Lock::new(Threads {
        first: std::ptr::null_mut(),
        ended: Counts::NONE,
        live: Vec::new(),
    });
}

/// Whether the allocator has been called. Set by any thread's first allocation, read by any thread,
/// both relaxed: it orders nothing.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Returns whether the program's allocator is tracked.
pub(crate) fn is_installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// Returns the allocations and frees of this thread so far; all 0 if the program's allocator is not
/// tracked.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::allocations as heap; }
/// let before = vor::heap::thread_allocations();
/// let text = String::from("a new string");
/// let made = vor::heap::thread_allocations().since(before);
/// # drop(text);
/// println!("{} bytes in {} objects", made.alloc_bytes, made.alloc_objects);
/// ```
#[must_use]
#[inline]
pub fn thread_allocations() -> AllocCounts {
    own().shared.counters.read()
}

/// Returns a pointer to this thread's counters, valid for as long as the thread lives.
pub(crate) fn own_counters() -> *const Counters {
    &raw const own().shared.counters
}

/// Returns the allocations and frees of all threads so far, including ended ones; all 0 if the
/// program's allocator is not tracked.
#[must_use]
pub fn process_allocations() -> AllocCounts {
    let counted = THREADS.with(|threads| {
        let all = threads.list().map(|thread| thread.counters.read());
        all.fold(threads.ended, Counts::plus)
    });
    let [alloc_objects, alloc_bytes, free_objects, free_bytes] = AFTER_END
        .each_ref()
        .map(|count| count.load(Ordering::Relaxed));
    counted.plus(Counts {
        alloc_objects,
        alloc_bytes,
        free_objects,
        free_bytes,
    })
}

/// Returns this thread's data, for use before the caller returns.
#[expect(
    unsafe_code,
    reason = "a closure that does the work would not always be inlined"
)]
#[inline(always)]
pub(crate) fn own<'a>() -> &'a Local {
    let local = LOCAL.with(std::ptr::from_ref);
    // SAFETY: The thread-local has no destructor, so it is valid as long as its thread, and `Local`
    // is not `Sync`, so no other thread gets the reference.
    unsafe { &*local }
}

/// Runs `work`; meanwhile this thread counts nothing and takes no lock of this module.
pub(crate) fn internally<R>(work: impl FnOnce() -> R) -> R {
    let _internal = StateGuard::set(State::Internal);
    work()
}

/// Runs `work` without counting its allocations and frees, including those of the live heap. An
/// object that was allocated before `work` and is freed in it is no longer live.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::allocations as heap; }
/// let table = vor::heap::untracked(|| vec![0_u8; 1 << 20]);
/// # drop(table);
/// ```
#[inline]
pub fn untracked<R>(work: impl FnOnce() -> R) -> R {
    let _untracked = StateGuard::untracked();
    work()
}

/// Stops counting on this thread permanently.
pub(crate) fn stay_untracked() {
    own().set_state(State::Untracked);
}

/// Returns whether no thread holds a lock of this module; used at the end of a process.
#[cfg(any(unix, windows))]
pub(crate) fn is_open() -> bool {
    THREADS.is_open()
}

/// Stops counting on this thread permanently, and takes no lock at its end. For the last thread of
/// a process, because a thread that no longer exists may hold a lock.
#[cfg(windows)]
pub(crate) fn stay_internal() {
    own().is_linked.set(false);
    own().set_state(State::Internal);
}

/// Sets this thread's state until it is dropped. A function that takes the work would be compiled
/// anew for each caller.
pub(crate) struct StateGuard {
    before: Option<State>,
}

impl StateGuard {
    fn set(state: State) -> Self {
        let before = Some(own().set_state(state));
        Self { before }
    }

    /// Stops counting, except on a thread that is [`State::Internal`] already.
    pub(crate) fn untracked() -> Self {
        if own().is_internal() {
            return Self { before: None };
        }
        Self::set(State::Untracked)
    }
}

impl Drop for StateGuard {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            own().set_state(before);
        }
    }
}

impl Local {
    const_fn! {
        const fn new() -> Self {
            Self {
                shared: Shared {
                    counters: Counters::new(),
                    live: LiveTable::new(),
                    next: AtomicPtr::new(std::ptr::null_mut()),
                    previous: AtomicPtr::new(std::ptr::null_mut()),
                },
                state: Cell::new(State::New),
                counted_stacks: Cell::new(0),
                is_linked: Cell::new(false),
                #[cfg(unix)]
                before_fork: Cell::new(State::New),
                sample_at: Cell::new(0),
                random: Cell::new(0),
                stack: StackCache::new(),
            }
        }
    }

    /// Sets the state, and returns the previous one.
    #[inline]
    fn set_state(&self, state: State) -> State {
        self.counted_stacks.set(match state {
            State::Ready => self.shared.live.len(),
            _ => 0,
        });
        self.state.replace(state)
    }

    /// Returns the number of stacks in the thread's table; 0 while the thread does not count.
    #[inline(always)]
    pub(crate) fn counted_stacks(&self) -> u32 {
        self.counted_stacks.get()
    }

    /// Counts an allocation if the thread counts; returns whether it does.
    #[inline(always)]
    pub(crate) fn allocated(&self, bytes: usize) -> bool {
        if self.state.get() != State::Ready {
            return self.allocated_slow(bytes);
        }
        self.count_alloc(bytes);
        true
    }

    /// Counts a free if the thread counts.
    #[inline(always)]
    pub(crate) fn freed(&self, bytes: usize) {
        if self.state.get() != State::Ready {
            return self.freed_slow(bytes);
        }
        self.count_free(bytes);
    }

    #[inline(always)]
    pub(crate) fn count_alloc(&self, bytes: usize) {
        self.shared.counters.alloc_objects.add(1);
        self.shared.counters.alloc_bytes.add(bytes as u64);
    }

    #[inline(always)]
    pub(crate) fn count_free(&self, bytes: usize) {
        self.shared.counters.free_objects.add(1);
        self.shared.counters.free_bytes.add(bytes as u64);
    }

    /// Returns the bytes allocated on this thread.
    #[inline(always)]
    pub(crate) fn alloc_bytes(&self) -> u64 {
        self.shared.counters.alloc_bytes.read()
    }

    #[cold]
    #[inline(never)]
    fn allocated_slow(&self, bytes: usize) -> bool {
        match self.linked_state() {
            State::Ready => self.count_alloc(bytes),
            State::Ended => {
                AFTER_END[0].fetch_add(1, Ordering::Relaxed);
                AFTER_END[1].fetch_add(bytes as u64, Ordering::Relaxed);
            }
            _ => return false,
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn freed_slow(&self, bytes: usize) {
        match self.linked_state() {
            State::Ready => self.count_free(bytes),
            State::Ended => {
                AFTER_END[2].fetch_add(1, Ordering::Relaxed);
                AFTER_END[3].fetch_add(bytes as u64, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Links a new thread into the list, and returns the state.
    fn linked_state(&self) -> State {
        if self.state.get() == State::New {
            self.begin();
        }
        self.state.get()
    }

    /// Returns whether this thread is inside this module, where its tables must not change.
    pub(crate) fn is_internal(&self) -> bool {
        self.state.get() == State::Internal
    }

    /// Links the thread into the list.
    fn begin(&self) {
        let before = self.set_state(State::Internal);
        // A signal handler has already linked it.
        if self.is_linked.get() {
            self.set_state(before);
            return;
        }
        install();
        // Registers the destructor, which may allocate. This fails if the thread is already ending.
        let has_begun = ENDING.try_with(|_| ()).is_ok();
        if has_begun {
            self.link();
        }
        self.set_state(match before {
            State::New if has_begun => State::Ready,
            State::New => State::Ended,
            before => before,
        });
    }

    fn link(&self) {
        let shared = std::ptr::from_ref(&self.shared).cast_mut();
        THREADS.with(|threads| {
            self.shared.next.store(threads.first, Ordering::Relaxed);
            if let Some(next) = neighbour(&self.shared.next) {
                next.previous.store(shared, Ordering::Relaxed);
            }
            threads.first = shared;
        });
        self.is_linked.set(true);
    }

    /// Unlinks the thread and adds its counters to those of the process.
    fn end(&self) {
        if self.is_linked.get() {
            THREADS.with(|threads| threads.retire(&self.shared));
            self.is_linked.set(false);
            self.stack.free();
        }
        self.set_state(State::Ended);
    }

    /// Adds to the live heap of a stack without an entry in the thread's table; wraps around.
    #[cold]
    #[inline(never)]
    pub(crate) fn add_live_slow(&self, stack: u32, objects: u64, bytes: u64) {
        if self.is_internal() {
            return;
        }
        HEAP.store(EXACT, Ordering::Relaxed);
        if !self.is_linked.get() && self.state.get() != State::Ended {
            self.begin();
        }
        THREADS.with(|threads| {
            if self.is_linked.get() && self.shared.live.grow(stack) {
                self.shared.live.add(stack, objects, bytes);
            } else {
                threads.add_live(stack, objects, bytes);
            }
        });
    }
}

/// Follows a link of the list. Must be called with its lock.
#[expect(unsafe_code, reason = "the list is one of thread-locals")]
fn neighbour<'a>(link: &AtomicPtr<Shared>) -> Option<&'a Shared> {
    // SAFETY: A link is null or points to a thread-local whose thread is in the list. The thread
    // leaves the list under the lock, which the caller holds, before it ends; the reference is not
    // kept beyond the lock.
    unsafe { link.load(Ordering::Relaxed).as_ref() }
}

impl Threads {
    fn list(&self) -> impl Iterator<Item = &Shared> {
        let first = neighbour(&AtomicPtr::new(self.first));
        std::iter::successors(first, |shared| neighbour(&shared.next))
    }

    fn retire(&mut self, shared: &Shared) {
        let (previous, next) = (neighbour(&shared.previous), neighbour(&shared.next));
        let link = shared.next.load(Ordering::Relaxed);
        match previous {
            Some(previous) => previous.next.store(link, Ordering::Relaxed),
            None => self.first = link,
        }
        if let Some(next) = next {
            next.previous
                .store(shared.previous.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.take_over(shared);
    }

    fn take_over(&mut self, shared: &Shared) {
        self.ended = self.ended.plus(shared.counters.read());
        for (stack, objects, bytes) in shared.live.read() {
            self.add_live(stack, objects, bytes);
        }
        shared.live.free();
    }

    fn add_live(&mut self, stack: u32, objects: u64, bytes: u64) {
        let index = stack as usize;
        if index >= self.live.len() {
            let more = index + 1 - self.live.len();
            if index >= MAX_STACKS || self.live.try_reserve(more).is_err() {
                return;
            }
            self.live.resize_with(index + 1, Live::default);
        }
        self.live[index].add(objects, bytes);
    }
}

/// Returns the live heap by stack, as the sum of the threads' tables: objects and bytes. A sum can
/// be below 0, if a free is already in one table while its allocation is not yet in another; it
/// becomes 0.
pub(crate) fn live_by_stack() -> Vec<(u64, u64)> {
    THREADS.with(|threads| {
        let mut sums: Vec<(u64, u64)> = threads.live.iter().map(Live::read).collect();
        for (stack, objects, bytes) in threads.list().flat_map(|thread| thread.live.read()) {
            let index = stack as usize;
            if index >= sums.len() {
                sums.resize(index + 1, (0, 0));
            }
            let sum = &mut sums[index];
            *sum = (sum.0.wrapping_add(objects), sum.1.wrapping_add(bytes));
        }
        let settle = |number: &mut u64| *number = (*number as i64).max(0) as u64;
        sums.iter_mut().for_each(|(objects, bytes)| {
            settle(objects);
            settle(bytes);
        });
        sums
    })
}

/// Ends the counting of this thread, as the thread's end does.
#[cfg(all(test, loom))]
pub(super) fn end_thread() {
    own().end();
}

/// Locks other than that of this module that must be free in the child of a fork.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct ForkLocks {
    /// Takes all of them. No thread takes one of them while it holds another, or that of this
    /// module.
    pub(crate) take: fn(),
    /// Releases them, in the parent and in the child.
    pub(crate) release: fn(),
}

/// Registered under the lock of the list of threads, before any of them is first taken.
#[cfg(unix)]
static OTHER_LOCKS: OnceLock<ForkLocks> = OnceLock::new();

/// Registers locks to be held across forks as well; only the first call has an effect.
#[cfg(unix)]
pub(crate) fn hold_across_forks(locks: ForkLocks) {
    if OTHER_LOCKS.get().is_none() {
        THREADS.with(|_| OTHER_LOCKS.get_or_init(|| locks));
    }
}

/// Records that the program's allocator is tracked, and installs the handlers of forks.
fn install() {
    if INSTALLED.load(Ordering::Relaxed) || INSTALLED.swap(true, Ordering::Relaxed) {
        return;
    }
    #[cfg(unix)]
    fork::install();
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "only the C library reports a fork")]
mod fork {
    //! Handles `fork`: all locks of this module are held across it, and the child's list has one
    //! thread.
    //!
    //! The handlers are installed before vor starts a thread and before the program can fork, so
    //! they run closest to the fork. No other handler allocates while the locks are held.

    use super::{OTHER_LOCKS, State, THREADS, neighbour, own};
    use crate::sync::Ordering;

    pub(crate) fn install() {
        // SAFETY: the three functions have the C signature, do not unwind, and live as long as the
        // program.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }

    unsafe extern "C" fn before() {
        let local = own();
        if local.state.get() == State::New {
            local.begin();
        }
        // An allocation of another handler must not take a lock while the locks are held.
        local.before_fork.set(local.set_state(State::Internal));
        THREADS.take_for_fork();
        // No thread can register others while this lock is held.
        if let Some(locks) = OTHER_LOCKS.get() {
            (locks.take)();
        }
    }

    unsafe extern "C" fn in_parent() {
        if let Some(locks) = OTHER_LOCKS.get() {
            (locks.release)();
        }
        THREADS.release_after_fork();
        own().set_state(own().before_fork.get());
    }

    unsafe extern "C" fn in_child() {
        // SAFETY: `before` has returned. This thread is the only one of the child, and holds the
        // lock.
        unsafe { in_parent() };
        THREADS.with(|threads| {
            let mine = own()
                .is_linked
                .get()
                .then(|| std::ptr::from_ref(&own().shared));
            // The memory of the other threads is the child's own copy. They do not run here, and
            // their objects now belong to the child.
            let mut link = threads.first;
            threads.first = std::ptr::null_mut();
            while let Some(shared) = neighbour(&crate::sync::AtomicPtr::new(link)) {
                let next = shared.next.load(Ordering::Relaxed);
                if mine == Some(std::ptr::from_ref(shared)) {
                    shared.next.store(std::ptr::null_mut(), Ordering::Relaxed);
                    shared
                        .previous
                        .store(std::ptr::null_mut(), Ordering::Relaxed);
                    threads.first = link;
                } else {
                    threads.take_over(shared);
                }
                link = next;
            }
        });
    }
}
