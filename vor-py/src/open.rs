//! What Python has open on a thread: a stack of begun scopes, each with a key that its end is found
//! by.
//!
//! Calls of functions nest, so the entry that ends is the top one. Two things stand in the way of
//! that. A `with vor.scope(…)` in a generator or coroutine stays open while it is suspended: what
//! is around it ends first, or a `with` of another coroutine begins above it and ends later. Such
//! an entry is put *aside*, and its end is recorded as that of a task. And the end of a call can be
//! missed, where recording was switched off meanwhile; it is ended with what is around it.
//!
//! A coroutine that was suspended is a task as well, which begins with its first activation and
//! ends with its last: in between, its frame says which of the coroutines of its code it is.
//!
//! ```text
//! entries   [ main | load | with "batch" ]      keys: the code object, the code object, the object of the `with`
//! aside     [ with "fetch" ]                    left behind by a coroutine that is suspended
//! ```

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use vor_recorder::hot::scope::manual::{self, ArgWords, ManualScope};

/// Set in a key where the entry is a block and not a call; objects lie at multiples of 8.
const BLOCK: usize = 1;
/// Set in a key where the entry has arguments, the last ones of [`Stack::args`].
const WITH_ARGS: usize = 2;
/// Set in a key where the entry is an activation of a coroutine that was suspended before.
const RESUMED: usize = 4;

/// How often recording was switched off. Written by [`forget_calls`], read relaxed by every call
/// that begins: calls from before have no end to wait for.
static SWITCHED_OFF: AtomicU32 = AtomicU32::new(0);

/// Blocks that are kept aside on a thread, and coroutines that are suspended on it; the ends of
/// more are not recorded.
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
    /// The first activations of coroutines that are suspended, by their frames.
    lives: HashMap<usize, ManualScope>,
    /// Where the stack ended when an event loop's turn was found to be under way: what is above is
    /// suspended when the next one begins.
    turn_under_way: Option<usize>,
    /// The value of [`SWITCHED_OFF`] that the entries are from.
    switched_off: u32,
}

thread_local! {
    static STACK: UnsafeCell<Stack> = {
        // The first thing on a thread may be the end of a call that began before recording. The
        // recorder's own thread-local must come before this one nonetheless.
        manual::attach_thread();
        UnsafeCell::new(Stack::default())
    };
}

/// The key of a call of what is at this address.
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

/// Notes a scope as open.
#[inline(always)]
pub(crate) fn push(key: usize, scope: ManualScope) {
    with(|stack| {
        if stack.switched_off != SWITCHED_OFF.load(Ordering::Relaxed) {
            stack.drop_calls();
        }
        stack.entries.push(Entry { key, scope });
    });
}

/// Notes a scope with arguments as open.
pub(crate) fn push_with(key: usize, scope: ManualScope, args: ArgWords) {
    push(key | WITH_ARGS, scope);
    with(|stack| stack.args.push(args));
}

/// Ends what is open under the key, if anything is. What was shorter than `min_ticks` leaves no
/// record.
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

/// Ends a block. Where others are open above it, either these are suspended or it was itself, which
/// `was_suspended` tells; it is a task then.
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

/// As [`end`], of what is not on top or has arguments.
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

/// Ends an activation of a coroutine that is suspended. Where it is the first one, a task begins
/// with it, which [`end_life`] ends. `frame` tells the coroutine from others of its code, and is
/// asked for then only.
pub(crate) fn suspend(key: usize, min_ticks: u64, frame: impl FnOnce() -> usize) {
    let entry = with(|stack| stack.last_of(key));
    if let Some(first) = entry.filter(|entry| !entry.is_resumed()) {
        let frame = frame();
        with(|stack| stack.begin_life(frame, first.scope));
    }
    end(
        key | entry.map_or(0, |entry| entry.key & RESUMED),
        min_ticks,
    );
}

/// Ends the last activation of a coroutine, and its task if it was ever suspended.
pub(crate) fn end_life(key: usize, min_ticks: u64, frame: impl FnOnce() -> usize) {
    let entry = with(|stack| stack.last_of(key));
    let was_suspended = entry.is_some_and(Entry::is_resumed);
    end(key | if was_suspended { RESUMED } else { 0 }, min_ticks);
    if was_suspended {
        let frame = frame();
        if let Some(first) = with(|stack| stack.lives.remove(&frame)) {
            first.end_as_task();
        }
    }
}

/// Ends the calls that are open above a height of the stack, and puts blocks aside: what is around
/// them ends.
pub(crate) fn end_above(height: usize) {
    while with(|stack| stack.put_blocks_aside(height)) {
        end_top();
    }
}

/// Begins a turn of an event loop, and returns how high the stack is.
pub(crate) fn begin_turn() -> usize {
    if let Some(height) = with(|stack| stack.turn_under_way.take()) {
        end_above(height);
    }
    height()
}

/// Notes that a turn of an event loop is under way, whose end is not told.
pub(crate) fn note_turn() {
    with(|stack| stack.turn_under_way = Some(stack.entries.len()));
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

/// Has the calls that are open now end here on this thread, and be forgotten on the others: their
/// ends are not told any more.
pub(crate) fn forget_calls() {
    end_above(0);
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

    fn begin_life(&mut self, frame: usize, first: ManualScope) {
        // A coroutine whose end was missed is forgotten when its frame's place is another's.
        if self.lives.len() < MAX_ASIDE {
            self.lives.insert(frame, first);
        }
    }

    fn take_aside(&mut self, key: usize) -> Option<Entry> {
        let at = self.aside.iter().rposition(|entry| entry.is_of(key))?;
        Some(self.aside.remove(at))
    }

    /// Puts the blocks on top of the stack aside, down to a height, and returns whether a call
    /// above that height is on top now.
    fn put_blocks_aside(&mut self, height: usize) -> bool {
        while self.entries.len() > height {
            match self.entries.last().copied() {
                Some(top) if top.is_block() => {
                    self.take_args(top);
                    self.entries.pop();
                    // There may be nothing around it whose end would close it.
                    top.scope.abandon();
                    self.put_aside(top);
                }
                top => return top.is_some(),
            }
        }
        false
    }

    fn put_aside(&mut self, block: Entry) {
        // A block whose end never comes is forgotten in the end.
        if self.aside.len() < MAX_ASIDE {
            self.aside.push(block);
        }
    }

    fn take_args(&mut self, entry: Entry) -> Option<ArgWords> {
        entry.has_args().then(|| self.args.pop()).flatten()
    }

    /// Forgets the calls from before recording was switched off, outermost last, so that the core's
    /// stack is as high as it was before them. Blocks in them are put aside; those around them
    /// stay, since their ends are told.
    #[cold]
    fn drop_calls(&mut self) {
        self.switched_off = SWITCHED_OFF.load(Ordering::Relaxed);
        self.lives.clear();
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
    /// The thread ends, and with it every call on it: those whose ends were missed are not open.
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
        // SAFETY: the stack is this thread's own, and what `act` does is in this module, but for
        // leaving a scope without a record: it ends none and calls nothing of Python, which could
        // come back here.
        act(unsafe { &mut *stack.get() })
    });
    // A thread that is ending has nothing open any more.
    done.unwrap_or_default()
}
