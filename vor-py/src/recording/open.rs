//! The open scopes of Python on a thread: a stack of entries. The key of an entry identifies it at
//! its end.
//!
//! Calls of functions nest, so usually the top entry ends. There are two exceptions. First, a `with
//! vor.scope(…)` in a generator or coroutine stays open while that is suspended. The scopes around
//! it end first, or a `with` of another coroutine begins above it and ends later. Such an entry is
//! moved *aside*, and recorded as a task when it ends. Second, the end of a call is missed if
//! recording is switched off in between. Then the call ends together with the one around it.
//!
//! A coroutine that was suspended is a task too (`tasks`), from its first activation to its last.
//! Its frame identifies it in between, because there may be many coroutines of the same code.
//!
//! ```text
//! entries   [ main | load | with "batch" ]   keys: two code objects, the object of the `with`
//! aside     [ with "fetch" ]                 of a coroutine that is suspended
//! ```

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use vor_recorder::hot::scope::manual::{self, ArgWords, ManualScope, ManualTask};

use crate::recording::tasks::{self, ThreadTasks};

/// Set in the key of a block, as opposed to a call. Addresses of objects are multiples of 8.
const BLOCK: usize = 1;
/// Set in the key of an entry with arguments, which are in [`Stack::args`].
const WITH_ARGS: usize = 2;
/// Set in the key of an activation of a coroutine that was suspended before.
const RESUMED: usize = 4;

/// Number of times that recording was switched off. Written by [`forget_calls`], read relaxed by
/// every call that begins, because the ends of earlier calls are never reported.
static SWITCHED_OFF: AtomicU32 = AtomicU32::new(0);

/// Most blocks aside on a thread. Further ones are not recorded.
const MAX_ASIDE: usize = 1 << 16;

#[derive(Clone, Copy)]
struct Entry {
    key: usize,
    scope: ManualScope,
}

impl Entry {
    fn is_block(self) -> bool {
        self.key & BLOCK != 0
    }

    fn has_args(self) -> bool {
        self.key & WITH_ARGS != 0
    }

    fn is_resumed(self) -> bool {
        self.key & RESUMED != 0
    }

    fn is_of(self, key: usize) -> bool {
        self.key & !(WITH_ARGS | RESUMED) == key & !RESUMED
    }
}

#[derive(Default)]
struct Stack {
    entries: Vec<Entry>,
    /// Arguments of the entries that have some, in the same order.
    args: Vec<ArgWords>,
    aside: Vec<Entry>,
    /// The suspended coroutines.
    tasks: ThreadTasks,
    /// The height of the stack when [`set_turn_running`] found a turn of an event loop running.
    /// Entries above it are suspended when the next turn begins.
    running_turn: Option<usize>,
    /// The value of [`SWITCHED_OFF`] when the entries began.
    switched_off: u32,
}

thread_local! {
    static STACK: UnsafeCell<Stack> = {
        // The recorder's own thread-local must be initialised before this one, even if the first
        // event of the thread is the end of a call that began before recording.
        manual::attach_thread();
        UnsafeCell::new(Stack::default())
    };
}

/// The key of a call of the object at this address.
pub(crate) fn call_key<T>(of: *const T) -> usize {
    of.addr()
}

/// The key of an activation of a coroutine after its first.
pub(crate) fn resumed_key<T>(of: *const T) -> usize {
    of.addr() | RESUMED
}

/// The key of a block whose object is at this address.
pub(crate) fn block_key<T>(of: *const T) -> usize {
    of.addr() | BLOCK
}

/// Pushes an open scope.
#[inline(always)]
pub(crate) fn push(key: usize, scope: ManualScope) {
    with(|stack| {
        if stack.switched_off != SWITCHED_OFF.load(Ordering::Relaxed) {
            stack.drop_calls();
        }
        stack.entries.push(Entry { key, scope });
    });
}

/// Pushes an open scope with arguments.
pub(crate) fn push_with(key: usize, scope: ManualScope, args: ArgWords) {
    push(key | WITH_ARGS, scope);
    with(|stack| stack.args.push(args));
}

/// Ends the scope that is open under the key, if there is one. It leaves no record if it was
/// shorter than `min_ticks`.
#[inline(always)]
pub(crate) fn end(key: usize, min_ticks: u64) {
    let top = with(|stack| match stack.entries.last() {
        Some(top) if top.key == key => stack.entries.pop(),
        _ => None,
    });
    match top {
        Some(top) if min_ticks == 0 => top.scope.end(),
        Some(top) => top.scope.end_unless_shorter(min_ticks),
        None => end_slow(key),
    }
}

/// Ends a block. If there are entries above it, either these are suspended, or it was suspended
/// itself, as `was_suspended` returns; then it is a task.
#[inline(always)]
pub(crate) fn end_block(key: usize, was_suspended: impl FnOnce() -> bool) {
    match with(|stack| stack.entries.last().copied()) {
        Some(top) if top.is_of(key) => end(key, 0),
        _ => end_block_below(key, was_suspended),
    }
}

#[cold]
fn end_block_below(key: usize, was_suspended: impl FnOnce() -> bool) {
    let at = with(|stack| stack.entries.iter().rposition(|entry| entry.is_of(key)));
    if let Some(at) = at
        && with(|stack| stack.entries[at + 1..].iter().any(|entry| entry.is_block()))
        && was_suspended()
    {
        end_above(at);
    }
    end_slow(key);
}

/// Does the same as [`end`], for an entry that is not on top or has arguments.
#[cold]
fn end_slow(key: usize) {
    let at = with(|stack| stack.entries.iter().rposition(|entry| entry.is_of(key)));
    if let Some(at) = at {
        end_above(at + 1);
        end_top();
    } else if let Some(aside) = with(|stack| stack.take_aside(key)) {
        aside.scope.end_as_task();
    }
}

/// Ends an activation of a coroutine that is suspended. If it is the first one, a task begins with
/// it, and [`end_coroutine`] ends that task. `frame` identifies the coroutine.
pub(crate) fn suspend(key: usize, min_ticks: u64, frame: impl FnOnce() -> usize) {
    let Some(entry) = with(|stack| stack.last_of(key)) else {
        return;
    };
    suspend_task(frame(), entry.scope, !entry.is_resumed());
    end(key | entry.key & RESUMED, min_ticks);
}

/// Ends the last activation of a coroutine, and its task if it was ever suspended.
pub(crate) fn end_coroutine(key: usize, min_ticks: u64, frame: impl FnOnce() -> usize) {
    let entry = with(|stack| stack.last_of(key)).filter(|entry| entry.is_resumed());
    let Some(entry) = entry else {
        return end(key, min_ticks);
    };
    let task = take_task(frame());
    if let Some(task) = task {
        task.poll(entry.scope);
    }
    end(key | RESUMED, min_ticks);
    if let Some(task) = task {
        task.end();
    }
}

/// Records an activation that is suspended as one of the task that `of` identifies on this thread.
/// The first one begins the task.
pub(crate) fn suspend_task(of: usize, activation: ManualScope, is_first: bool) {
    let task = with(|stack| match is_first {
        true => stack.tasks.begin(of, activation),
        false => stack.tasks.get(of),
    });
    if let Some(task) = task {
        task.poll(activation);
    }
}

/// Returns whether `of` identifies a task on this thread.
pub(crate) fn has_task(of: usize) -> bool {
    with(|stack| stack.tasks.get(of).is_some())
}

/// Returns the task that `of` identifies on this thread, and forgets it.
pub(crate) fn take_task(of: usize) -> Option<ManualTask> {
    with(|stack| stack.tasks.remove(of))
}

/// Ends the calls above a height of the stack, and moves blocks above it aside, because the scope
/// around them ends.
pub(crate) fn end_above(height: usize) {
    while with(|stack| stack.put_blocks_aside(height)) {
        end_top();
    }
}

/// Begins a turn of an event loop, and returns the height of the stack.
pub(crate) fn begin_turn() -> usize {
    if let Some(height) = with(|stack| stack.running_turn.take()) {
        end_above(height);
    }
    height()
}

/// Records that a turn of an event loop is running whose end will not be reported.
pub(crate) fn set_turn_running() {
    with(|stack| stack.running_turn = Some(stack.entries.len()));
}

fn end_top() {
    match with(Stack::take_top) {
        Some((scope, Some(args))) => scope.end_with(&args),
        Some((scope, None)) => scope.end(),
        None => {}
    }
}

/// Returns how many scopes are on this thread's stack.
#[inline(always)]
pub(crate) fn height() -> usize {
    with(|stack| stack.entries.len())
}

/// Ends all calls that are open on this thread, and makes the other threads forget theirs, because
/// their ends will not be reported. Suspended coroutines of all threads end as tasks.
pub(crate) fn forget_calls() {
    end_above(0);
    tasks::end_all();
    SWITCHED_OFF.fetch_add(1, Ordering::Relaxed);
}

impl Stack {
    fn take_top(&mut self) -> Option<(ManualScope, Option<ArgWords>)> {
        let top = self.entries.pop()?;
        Some((top.scope, self.take_args(top)))
    }

    /// Returns the innermost entry with a key.
    fn last_of(&self, key: usize) -> Option<Entry> {
        self.entries.iter().rfind(|entry| entry.is_of(key)).copied()
    }

    fn take_aside(&mut self, key: usize) -> Option<Entry> {
        let at = self.aside.iter().rposition(|entry| entry.is_of(key))?;
        Some(self.aside.remove(at))
    }

    /// Moves the blocks on top of the stack aside, down to a height, and returns whether a call
    /// above that height is on top now.
    fn put_blocks_aside(&mut self, height: usize) -> bool {
        while self.entries.len() > height {
            match self.entries.last().copied() {
                Some(top) if top.is_block() => {
                    self.take_args(top);
                    self.entries.pop();
                    // There may be no scope around it, whose end would close it.
                    top.scope.abandon();
                    self.put_aside(top);
                }
                top => return top.is_some(),
            }
        }
        false
    }

    fn put_aside(&mut self, block: Entry) {
        // Blocks that never end must not accumulate.
        if self.aside.len() < MAX_ASIDE {
            self.aside.push(block);
        }
    }

    fn take_args(&mut self, entry: Entry) -> Option<ArgWords> {
        entry.has_args().then(|| self.args.pop()).flatten()
    }

    /// Forgets the calls that began before recording was switched off, outermost last, so that the
    /// recorder's stack is as high as before them. Blocks inside them are moved aside. Blocks
    /// around them stay, because their ends are still reported.
    #[cold]
    fn drop_calls(&mut self) {
        self.switched_off = SWITCHED_OFF.load(Ordering::Relaxed);
        let around = self
            .entries
            .iter()
            .take_while(|entry| entry.is_block())
            .count();
        while self.entries.len() > around
            && let Some(top) = self.entries.pop()
        {
            self.take_args(top);
            if top.is_block() {
                self.put_aside(top);
            } else {
                top.scope.abandon();
            }
        }
    }
}

impl Drop for Stack {
    /// Forgets calls whose ends were missed: the thread ends, so they are no longer open.
    fn drop(&mut self) {
        self.drop_calls();
    }
}

#[inline(always)]
fn with<R: Default>(act: impl FnOnce(&mut Stack) -> R) -> R {
    let done = STACK.try_with(|stack| {
        #[expect(
            unsafe_code,
            reason = "a check for a second borrow at every call would cost as much as the rest"
        )]
        // SAFETY: the stack is this thread's own. `act` is code of this module that calls nothing
        // of Python and ends no scope, either of which could come back here; it may abandon a
        // scope.
        act(unsafe { &mut *stack.get() })
    });
    // The stack of a thread that ends is gone.
    done.unwrap_or_default()
}
