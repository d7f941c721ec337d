//! The exact heap: four bytes behind each object that name the stack of scopes it was allocated in.
//!
//! ```text
//! │ object, as many bytes as were asked for │ stack, u32 │      (no alignment between them)
//! ```
//!
//! The allocator is asked for four bytes more, at the same alignment, so the object begins where it
//! would have begun, and whoever gives it back says how long it is. glibc hands out sizes in steps
//! of 16, so that the four bytes cost nothing for three sizes in four, and 16 bytes for the fourth:
//! 4 in the mean. Each thread keeps a table by stack of what it has allocated less what it has
//! given back, whoever allocated it; the sum of all tables is what is in use.
//!
//! The number of the current stack is kept beside the height and the start of the innermost scope,
//! of which no two scopes of a thread have the same.

use std::alloc::Layout;

use super::stacks;
use crate::allocations::live::{Edge, StackCache};
use crate::allocations::local::{self, Local};
use crate::clock;
use crate::hot::thread;
use crate::sync::Ordering;
use crate::sync::global::compiler_fence;

/// Bytes behind the object.
const TRAILER_BYTES: usize = size_of::<u32>();

/// Behind an object that is nobody's.
const UNTRACKED: u32 = u32::MAX;

impl StackCache {
    /// Returns the number of the stack that is open on this thread, unless another was when it was
    /// asked for last.
    #[inline(always)]
    fn known(&self) -> Option<u32> {
        let (top, start_ticks) = thread::hot().innermost();
        let is_known = top == self.top.get() && start_ticks == self.start_ticks.get();
        is_known.then(|| self.stack.get())
    }

    /// Returns the number of the stack that is open on this thread.
    fn current(&self) -> u32 {
        if let Some(stack) = self.known() {
            return stack;
        }
        if self.is_looking.replace(true) {
            return 0;
        }
        compiler_fence(Ordering::SeqCst);
        let stack = self.find();
        compiler_fence(Ordering::SeqCst);
        self.is_looking.set(false);
        stack
    }

    fn find(&self) -> u32 {
        let (top, start_ticks) = thread::hot().innermost();
        // A thread without a state has no scope open; no scope has the start that stands there.
        let stack = thread::current().map_or(0, |state| {
            state
                .own_open_sites()
                .fold(0, |parent, site| self.child(parent, site))
        });
        // Where the clock is coarse, another scope may have the same start.
        let tells_apart = cfg!(target_arch = "x86_64") && clock::is_hardware();
        // The height last: a handler finds either what was known before, or this.
        self.top.set(u32::MAX);
        compiler_fence(Ordering::SeqCst);
        self.start_ticks.set(start_ticks);
        self.stack.set(stack);
        compiler_fence(Ordering::SeqCst);
        self.top.set(if tells_apart { top } else { u32::MAX });
        stack
    }

    fn child(&self, parent: u32, site: u32) -> u32 {
        let key = u64::from(parent) << 32 | u64::from(site);
        let Some(edge) = self.edge(key) else {
            return stacks::child(parent, site);
        };
        #[expect(unsafe_code, reason = "the edges are memory of the system's allocator")]
        // SAFETY: `edge` leads into this thread's edges, which nobody else knows of.
        let edge = unsafe { &mut *edge };
        // Sites begin at 1, so that no edge has the key 0.
        if edge.key != key {
            *edge = Edge {
                key,
                stack: stacks::child(parent, site),
            };
        }
        edge.stack
    }
}

/// Returns the layout of an object with what stands behind it; `None` where that is too long.
#[inline(always)]
pub(super) fn with_trailer(layout: Layout) -> Option<Layout> {
    let size = layout.size().checked_add(TRAILER_BYTES)?;
    Layout::from_size_align(size, layout.align()).ok()
}

/// Returns the layout that an object has with what stands behind it.
///
/// # Safety
///
/// There is an object that was allocated with the layout that [`with_trailer`] made of this one.
#[expect(
    unsafe_code,
    reason = "that the layout is one is known, and not checked once more"
)]
#[inline(always)]
pub(super) unsafe fn with_its_trailer(layout: Layout) -> Layout {
    // SAFETY: `with_trailer` has found the same size and alignment to be a layout.
    unsafe { Layout::from_size_align_unchecked(layout.size() + TRAILER_BYTES, layout.align()) }
}

/// Notes behind a new object whose it is.
///
/// # Safety
///
/// `object` has `bytes` bytes and those of the trailer.
#[expect(unsafe_code, reason = "the trailer stands behind the caller's object")]
#[inline(always)]
pub(super) unsafe fn allocated(object: *mut u8, bytes: usize) {
    let local = local::own();
    let stack = match local.stack.known() {
        Some(stack) if stack < local.counted_stacks() => {
            // SAFETY: the stack has a place in the table, which is this thread's.
            unsafe { local.shared.live.at(stack) }.add(1, bytes as u64);
            local.count_alloc(bytes);
            stack
        }
        _ => allocated_slow(local, bytes),
    };
    // SAFETY: the caller promises that there is room, which nobody else knows of; it has no
    // alignment.
    unsafe { object.add(bytes).cast::<u32>().write_unaligned(stack) };
}

/// As [`allocated`], where the thread does not count, or another stack is open than before: returns
/// whose the object is.
#[cold]
#[inline(never)]
fn allocated_slow(local: &Local, bytes: usize) -> u32 {
    // Before the stack is asked for: who is inside holds a lock.
    if !local.allocated(bytes) {
        return UNTRACKED;
    }
    let stack = local.stack.current();
    local.add_live(stack, 1, bytes as u64);
    stack
}

/// Returns whose this object is.
///
/// # Safety
///
/// `object` has `bytes` bytes and was noted by [`allocated`].
#[expect(unsafe_code, reason = "the trailer stands behind the caller's object")]
#[inline(always)]
pub(super) unsafe fn owner(object: *mut u8, bytes: usize) -> u32 {
    // SAFETY: the caller promises that the trailer is there.
    unsafe { object.add(bytes).cast::<u32>().read_unaligned() }
}

/// Takes an object of `owner` out of what is in use.
#[inline(always)]
pub(super) fn freed(owner: u32, bytes: usize) {
    let local = local::own();
    if owner >= local.counted_stacks() {
        return freed_slow(local, owner, bytes);
    }
    #[expect(unsafe_code, reason = "that the table has the place was just asked")]
    // SAFETY: the owner has a place in the table, which is this thread's.
    unsafe { local.shared.live.at(owner) }.add(1_u64.wrapping_neg(), (bytes as u64).wrapping_neg());
    local.count_free(bytes);
}

/// As [`freed`], where the thread does not count, the object is nobody's, or its owner has no place
/// in the thread's table yet.
#[cold]
#[inline(never)]
fn freed_slow(local: &Local, owner: u32, bytes: usize) {
    if owner != UNTRACKED {
        local.add_live(owner, 1_u64.wrapping_neg(), (bytes as u64).wrapping_neg());
    }
    local.freed(bytes);
}

impl Local {
    /// Adds to what is in use of a stack; wraps around.
    fn add_live(&self, stack: u32, objects: u64, bytes: u64) {
        if !self.shared.live.add(stack, objects, bytes) {
            self.add_live_slow(stack, objects, bytes);
        }
    }
}
