//! The spans that a thread has entered, and their open scopes.
//!
//! An array without a destructor takes those that programs enter in each other, so that it costs no look whether the thread still has it; a vector takes what is
//! deeper. Spans are mostly left in the opposite order, but nothing is made of it: an entry is looked for from the top on.

use std::cell::{Cell, RefCell};
use std::num::NonZero;

use super::Instance;
use super::table::Slot;
use crate::scope::Opened;
use crate::sync::Ordering;
use crate::sync::global::AtomicU32;
use crate::thread;

/// A span that is entered, and its open scope. That has no guard: where a thread ends in it, it is open for ever.
#[derive(Clone, Copy)]
pub(super) struct Entered {
    pub(super) key: u64,
    pub(super) instance: Instance,
    /// Where the span is kept, and another one where it was closed before it was left.
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
const SHALLOW: usize = 32;

/// An entry of the array. Each part is loaded as it was stored: a processor gives back at once what it is just storing, but not two of them in one.
pub(super) struct Entry {
    key: Cell<u64>,
    instance: Cell<Instance>,
    slot: Cell<Option<&'static Slot>>,
    start_ticks: Cell<u64>,
    /// [`Opened::flagged`], and its place above.
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

    /// Returns where its span is kept, unless that was closed before it was left.
    #[inline(always)]
    pub(super) fn slot(&self) -> Option<&'static Slot> {
        let slot = self.slot.get()?;
        slot.is_of(self.key.get(), self.instance.get()).then_some(slot)
    }

    /// Returns the scope.
    #[inline(always)]
    pub(super) fn scope(&self) -> Opened {
        let both = self.flagged_and_place.get();
        Opened {
            start_ticks: self.start_ticks.get(),
            flagged: both as u32,
            place: (both >> 32) as u32,
        }
    }

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

struct Stack {
    depth: Cell<usize>,
    /// The span that this thread has made last, 0 once it has entered one.
    made: Cell<u64>,
    /// This thread's number among those that make spans, 0 before it has made one.
    maker: Cell<u32>,
    shallow: [Entry; SHALLOW],
}

thread_local! {
    static STACK: Stack = const {
        Stack {
            depth: Cell::new(0),
            made: Cell::new(0),
            maker: Cell::new(0),
            shallow: [const { Entry::new() }; SHALLOW],
        }
    };

    /// What is deeper than the array.
    static DEEP: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// Puts a span on the stack.
pub(super) fn push(entered: Entered) {
    STACK.with(|stack| {
        let depth = stack.depth.get();
        match stack.shallow.get(depth) {
            Some(entry) => {
                entry.set(entered);
                stack.depth.set(depth + 1);
            }
            None => push_deep(entered),
        }
    });
}

#[cold]
#[inline(never)]
fn push_deep(entered: Entered) {
    // The vector is gone where the thread ends, and in use where an allocator enters a span while it grows: the scope then ends at once.
    let push = |deep: &RefCell<Vec<_>>| {
        let mut deep = deep.try_borrow_mut().ok()?;
        deep.push(entered);
        Some(())
    };
    let _ = thread::while_busy(|| DEEP.try_with(push));
}

/// Puts a span on the stack whose scope `open` opens, if the thread made it, the array has room for it, and it is either the span that the thread made last, and
/// has entered none since, or a `known_task`. Returns whether it did; where it did not, nothing has changed.
#[inline(always)]
pub(super) fn push_own(
    key: u64,
    instance: Instance,
    slot: &'static Slot,
    is_known_task: impl FnOnce() -> bool,
    open: impl FnOnce() -> Option<Opened>,
) -> bool {
    STACK.with(|stack| {
        let depth = stack.depth.get();
        let Some(entry) = stack.shallow.get(depth) else {
            return false;
        };
        if stack.maker.get() != slot.maker.load(Ordering::Relaxed)
            || (stack.made.get() != key && !is_known_task())
        {
            return false;
        }
        let Some(scope) = open() else {
            return false;
        };
        stack.made.set(0);
        entry.set(Entered {
            key,
            instance,
            slot,
            scope,
        });
        stack.depth.set(depth + 1);
        true
    })
}

/// Shows `end` the span that was entered last, and takes it from the stack if that returns `true`. `false` where it is another one than is asked for, or was made by
/// another thread, or when `end` says so.
#[inline(always)]
pub(super) fn take_own_top(key: u64, instance: Instance, end: impl FnOnce(&Slot, Opened) -> bool) -> bool {
    STACK.with(|stack| {
        let top = stack.depth.get().wrapping_sub(1);
        // Above the array's last entry there may be more.
        let Some(entry) = stack.shallow[..SHALLOW - 1].get(top) else {
            return false;
        };
        if !entry.is_of(key, instance) {
            return false;
        }
        let Some(slot) = entry.slot() else {
            return false;
        };
        let is_taken = stack.maker.get() == slot.maker.load(Ordering::Relaxed) && end(slot, entry.scope());
        if is_taken {
            stack.depth.set(top);
        }
        is_taken
    })
}

/// Takes the innermost entry of a span from the stack.
pub(super) fn take(key: u64, instance: Instance) -> Option<Entered> {
    STACK.with(|stack| take_from(stack, key, instance))
}

fn take_from(stack: &Stack, key: u64, instance: Instance) -> Option<Entered> {
    let depth = stack.depth.get();
    if depth == SHALLOW {
        let deep = DEEP.try_with(|deep| {
            let mut deep = deep.try_borrow_mut().ok()?;
            let at = deep.iter().rposition(|entered| entered.is_of(key, instance))?;
            Some(deep.remove(at))
        });
        if let Ok(Some(entered)) = deep {
            return Some(entered);
        }
    }
    let shallow = &stack.shallow[..depth];
    let at = shallow.iter().rposition(|entry| entry.is_of(key, instance))?;
    let taken = shallow[at].get();
    for i in at + 1..depth {
        if let Some(entered) = shallow[i].get() {
            shallow[i - 1].set(entered);
        }
    }
    // The deepest of the array comes from the vector again, so that this is empty before the array is not full.
    let next = match depth {
        SHALLOW => DEEP.try_with(|deep| {
            let mut deep = deep.try_borrow_mut().ok()?;
            (!deep.is_empty()).then(|| deep.remove(0))
        }),
        _ => Ok(None),
    };
    match next {
        Ok(Some(entered)) => shallow[depth - 1].set(entered),
        _ => stack.depth.set(depth - 1),
    }
    taken
}

/// Returns whether this thread has entered a span and not left it.
pub(super) fn has(key: u64, instance: Instance) -> bool {
    STACK.with(|stack| {
        let shallow = &stack.shallow[..stack.depth.get()];
        shallow.iter().any(|entry| entry.is_of(key, instance))
    }) || DEEP
        .try_with(|deep| {
            deep.try_borrow()
                .is_ok_and(|deep| deep.iter().any(|entered| entered.is_of(key, instance)))
        })
        .unwrap_or(false)
}

/// Returns the innermost span that this thread has entered and not left.
#[inline]
pub(crate) fn current(instance: Instance) -> Option<(u64, &'static Slot)> {
    STACK.with(|stack| {
        let depth = stack.depth.get();
        let deep = if depth == SHALLOW {
            current_deep(instance)
        } else {
            None
        };
        let (key, slot) = deep.or_else(|| {
            let shallow = &stack.shallow[..depth];
            let entry = shallow
                .iter()
                .rev()
                .find(|entry| entry.instance.get() == instance)?;
            Some((entry.key.get(), entry.slot.get()?))
        })?;
        slot.is_of(key, instance).then_some((key, slot))
    })
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

/// Notes the span that this thread has made.
#[inline(always)]
pub(super) fn note_made(key: u64) {
    STACK.with(|stack| stack.made.set(key));
}

/// Returns this thread's [`number`], if it has one.
#[inline(always)]
pub(super) fn known_number() -> Option<NonZero<u32>> {
    STACK.with(|stack| NonZero::new(stack.maker.get()))
}

/// Returns this thread's number among those that make spans or tell of them; no other thread ever has it.
#[inline(always)]
pub(super) fn number() -> u32 {
    STACK.with(|stack| match stack.maker.get() {
        0 => new_number(stack),
        number => number,
    })
}

#[cold]
fn new_number(stack: &Stack) -> u32 {
    /// Any thread takes from it (relaxed): all that counts is that no number is taken twice.
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    stack.maker.set(number);
    number
}

/// Returns whether this thread has this number.
#[inline]
pub(super) fn is_maker(number: u32) -> bool {
    STACK.with(|stack| stack.maker.get() == number)
}

/// Returns whether this is the span that this thread has made last, and has entered none since; from now on it has.
#[inline]
pub(super) fn is_fresh(key: u64) -> bool {
    STACK.with(|stack| stack.made.replace(0) == key)
}
