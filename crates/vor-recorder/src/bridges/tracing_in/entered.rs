//! The spans that a thread has entered, and their open scopes.
//!
//! An array without a destructor holds the spans up to the usual depth, so no access checks whether
//! the thread still has it. A vector holds deeper spans. Spans are usually left in the opposite
//! order, but the code does not rely on it: it searches an entry from the top.

use std::cell::{Cell, RefCell};
use std::thread::LocalKey;

use super::Instance;
use super::table::Slot;
use crate::hot::scope::Opened;
use crate::hot::thread;
use crate::sync::Ordering;
use crate::sync::global::{AtomicU32, compiler_fence};

/// A span that is entered, and its open scope. The scope has no guard: if the thread ends in it, it
/// stays open for ever.
#[derive(Clone, Copy)]
pub(super) struct Entered {
    pub(super) key: u64,
    pub(super) instance: Instance,
    /// The slot of the span. If the span was closed before it was left, the slot may belong to
    /// another span.
    pub(super) slot: &'static Slot,
    pub(super) scope: Opened,
}

impl Entered {
    #[inline]
    fn is_of(&self, key: u64, instance: Instance) -> bool {
        self.key == key && self.instance == instance
    }
}

/// Entries of the array.
const SHALLOW_ENTRIES: usize = 32;

/// An entry of the array. Each part is loaded as it was stored: a processor forwards a single
/// pending store to a load, but not two stores at once.
pub(super) struct Entry {
    key: Cell<u64>,
    instance: Cell<Instance>,
    slot: Cell<Option<&'static Slot>>,
    start_ticks: Cell<u64>,
    /// [`Opened::flagged`], with its place in the high half.
    flagged_and_place: Cell<u64>,
}

impl Entry {
    const fn new() -> Self {
        Self {
            key: Cell::new(0),
            instance: Cell::new(0),
            slot: Cell::new(None),
            start_ticks: Cell::new(0),
            flagged_and_place: Cell::new(0),
        }
    }

    #[inline(always)]
    fn is_of(&self, key: u64, instance: Instance) -> bool {
        self.key.get() == key && self.instance.get() == instance
    }

    /// Returns the scope.
    #[inline(always)]
    fn scope(&self) -> Opened {
        let both = self.flagged_and_place.get();
        Opened {
            start_ticks: self.start_ticks.get(),
            flagged: both as u32,
            place: (both >> 32) as u32,
        }
    }

    #[inline(always)]
    fn get(&self) -> Option<Entered> {
        Some(Entered {
            key: self.key.get(),
            instance: self.instance.get(),
            slot: self.slot.get()?,
            scope: self.scope(),
        })
    }

    #[inline(always)]
    fn set(&self, entered: Entered) {
        self.key.set(entered.key);
        self.instance.set(entered.instance);
        self.slot.set(Some(entered.slot));
        self.start_ticks.set(entered.scope.start_ticks);
        let both = u64::from(entered.scope.place) << 32 | u64::from(entered.scope.flagged);
        self.flagged_and_place.set(both);
    }
}

// Each is a separate cell, accessed in place in short closures.
thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };

    /// The span that this thread made last; 0 once it has entered one.
    static LAST_CREATED: Cell<u64> = const { Cell::new(0) };

    /// This thread's number among the threads that make spans; 0 before it has made one.
    static CREATOR: Cell<u32> = const { Cell::new(0) };

    static SHALLOW: [Entry; SHALLOW_ENTRIES] = const { [const { Entry::new() }; SHALLOW_ENTRIES] };

    /// Entries deeper than the array.
    static DEEP: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// Sets a cell inline: the cell's own `set` becomes a function call if it is used often.
#[inline(always)]
fn set<T>(cell: &'static LocalKey<Cell<T>>, value: T) {
    cell.with(|cell| cell.set(value));
}

/// Pushes a span on the stack.
pub(super) fn push(entered: Entered) {
    let depth = DEPTH.get();
    match shallow().get(depth) {
        // Store the depth first: a handler that enters a span meanwhile uses the entry above.
        Some(entry) => {
            set(&DEPTH, depth + 1);
            compiler_fence(Ordering::SeqCst);
            entry.set(entered);
        }
        None => push_deep(entered),
    }
}

/// Returns this thread's array.
#[inline(always)]
fn shallow() -> &'static [Entry; SHALLOW_ENTRIES] {
    #[expect(
        unsafe_code,
        reason = "a closure over the array becomes a function behind two others, which costs half \
            as much again for a span that is entered and left"
    )]
    // SAFETY: the array has no destructor, so it exists as long as the thread does. References to
    // its cells cannot go to another thread.
    unsafe {
        &*SHALLOW.with(std::ptr::from_ref)
    }
}

#[cold]
#[inline(never)]
fn push_deep(entered: Entered) {
    // The vector is gone when the thread ends, and borrowed when an allocator enters a span while
    // it grows. The scope then ends immediately.
    let push = |deep: &RefCell<Vec<_>>| {
        let mut deep = deep.try_borrow_mut().ok()?;
        deep.push(entered);
        Some(())
    };
    let _ = thread::while_busy(|| DEEP.try_with(push));
}

/// A free entry for one more span on the stack.
pub(super) struct FreeEntry {
    depth: usize,
    entry: &'static Entry,
}

/// Returns a free entry for a span that this thread made, if the array has one. The thread must
/// have made this span last and entered none since, or the span must be a task.
#[inline(always)]
pub(super) fn free_entry(key: u64, slot: &Slot) -> Option<FreeEntry> {
    let depth = DEPTH.get();
    let entry = shallow().get(depth)?;
    let is_own = CREATOR.get() == slot.creator.load(Ordering::Relaxed);
    let is_next = LAST_CREATED.get() == key || slot.task.load(Ordering::Relaxed) != 0;
    (is_own && is_next).then_some(FreeEntry { depth, entry })
}

impl FreeEntry {
    /// Stores the span there, with its open scope.
    #[inline(always)]
    pub(super) fn take(self, entered: Entered) {
        set(&LAST_CREATED, 0);
        set(&DEPTH, self.depth + 1);
        // A handler that enters spans meanwhile uses the entries above.
        compiler_fence(Ordering::SeqCst);
        self.entry.set(entered);
    }
}

/// Returns the slot and the open scope of a span, if it is on top of the stack and this thread made
/// it.
#[inline(always)]
pub(super) fn own_top(key: u64, instance: Instance) -> Option<(&'static Slot, Opened)> {
    // Above the array's last entry there may be deeper ones.
    let entry = shallow()[..SHALLOW_ENTRIES - 1].get(DEPTH.get().wrapping_sub(1))?;
    let slot = entry.slot.get()?;
    let is_own_top = entry.is_of(key, instance)
        && slot.is_of(key, instance)
        && CREATOR.get() == slot.creator.load(Ordering::Relaxed);
    is_own_top.then(|| (slot, entry.scope()))
}

/// Pops the entry that [`own_top`] returned.
#[inline(always)]
pub(super) fn pop_own_top() {
    set(&DEPTH, DEPTH.get().wrapping_sub(1));
}

/// Removes the innermost entry of a span from the stack.
pub(super) fn take(key: u64, instance: Instance) -> Option<Entered> {
    let depth = DEPTH.get();
    if depth == SHALLOW_ENTRIES {
        let deep = take_deep(|deep| {
            deep.iter()
                .rposition(|entered| entered.is_of(key, instance))
        });
        if deep.is_some() {
            return deep;
        }
    }
    let entries = &shallow()[..depth];
    let at = entries
        .iter()
        .rposition(|entry| entry.is_of(key, instance))?;
    let taken = entries[at].get();
    for i in at + 1..depth {
        if let Some(entered) = entries[i].get() {
            entries[i - 1].set(entered);
        }
    }
    // The array's last entry is refilled from the vector, so that the vector is empty whenever the
    // array is not full.
    let next = match depth {
        SHALLOW_ENTRIES => take_deep(|deep| (!deep.is_empty()).then_some(0)),
        _ => None,
    };
    match next {
        Some(entered) => entries[depth - 1].set(entered),
        None => set(&DEPTH, depth - 1),
    }
    taken
}

/// Removes the span at the index that `find` returns from the vector.
fn take_deep(find: impl FnOnce(&[Entered]) -> Option<usize>) -> Option<Entered> {
    let take = |deep: &RefCell<Vec<Entered>>| {
        let mut deep = deep.try_borrow_mut().ok()?;
        let at = find(&deep)?;
        Some(deep.remove(at))
    };
    // A handler that finds the vector borrowed must not open a scope for a span that has no place
    // there.
    thread::while_busy(|| DEEP.try_with(take)).ok().flatten()
}

/// Returns whether this thread has entered a span and not left it.
pub(super) fn has(key: u64, instance: Instance) -> bool {
    let mut entries = shallow()[..DEPTH.get()].iter();
    entries.any(|entry| entry.is_of(key, instance))
        || DEEP
            .try_with(|deep| {
                deep.try_borrow()
                    .is_ok_and(|deep| deep.iter().any(|entered| entered.is_of(key, instance)))
            })
            .unwrap_or(false)
}

/// Returns the innermost span that this thread has entered and not left.
#[inline(never)]
pub(crate) fn current(instance: Instance) -> Option<(u64, &'static Slot)> {
    let depth = DEPTH.get();
    let deep = if depth == SHALLOW_ENTRIES {
        current_deep(instance)
    } else {
        None
    };
    let entries = || {
        let mut entries = shallow()[..depth].iter().rev();
        let entry = entries.find(|entry| entry.instance.get() == instance)?;
        Some((entry.key.get(), entry.slot.get()?))
    };
    let (key, slot) = deep.or_else(entries)?;
    slot.is_of(key, instance).then_some((key, slot))
}

#[cold]
fn current_deep(instance: Instance) -> Option<(u64, &'static Slot)> {
    let deepest = DEEP.try_with(|deep| {
        let deep = deep.try_borrow().ok()?;
        let entered = deep.iter().rfind(|entered| entered.instance == instance)?;
        Some((entered.key, entered.slot))
    });
    deepest.ok().flatten()
}

/// Records the span that this thread made last.
#[inline(always)]
pub(super) fn set_last_created(key: u64) {
    set(&LAST_CREATED, key);
}

/// Returns this thread's number among the threads that make or report spans; no other thread ever
/// has it.
#[inline(always)]
pub(super) fn number() -> u32 {
    match CREATOR.get() {
        0 => new_number(),
        number => number,
    }
}

#[cold]
fn new_number() -> u32 {
    /// Any thread takes from it. Relaxed: no number may be taken twice, and nothing else matters.
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    set(&CREATOR, number);
    number
}

/// Returns whether this thread has this number.
#[inline]
pub(super) fn is_creator(number: u32) -> bool {
    CREATOR.get() == number
}

/// Returns whether this thread made this span last and has entered none since, and marks a span as
/// entered.
#[inline]
pub(super) fn is_newest(key: u64) -> bool {
    LAST_CREATED.replace(0) == key
}
