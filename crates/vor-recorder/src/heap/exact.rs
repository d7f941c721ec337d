//! The exact heap: four bytes after each object name the stack of scopes that allocated it.
//!
//! ```text
//! │ object, with the requested size │ stack, u32 │      (no alignment between them)
//! ```
//!
//! The inner allocator gets requests with four more bytes and the same alignment, so the object's
//! start does not change; a free has the object's size. glibc allocates sizes in steps of 16. So
//! the four bytes cost nothing for three sizes in four, and 16 bytes for the fourth: 4 on average.
//! Each thread has a table by stack: the objects that it allocated minus those that it freed,
//! whichever thread allocated them. The sum of all tables is the live heap.
//!
//! The number of the current stack is cached with the height and the start of the innermost scope,
//! which together are unique among the scopes of a thread.

use std::alloc::Layout;

use super::stacks;
use crate::allocations::live::{Edge, StackCache};
use crate::allocations::local::{self, Local};
use crate::clock;
use crate::hot::thread;
use crate::sync::Ordering;
use crate::sync::global::compiler_fence;

/// Bytes after the object.
const TRAILER_BYTES: usize = size_of::<u32>();

/// The trailer of an object that is not tracked.
const UNTRACKED: u32 = u32::MAX;

impl StackCache {
    /// Returns the number of this thread's current stack, if it is the one of the last lookup.
    #[inline(always)]
    fn cached(&self) -> Option<u32> {
        let (top, start_ticks) = thread::hot().innermost();
        let is_cached = top == self.top.get() && start_ticks == self.start_ticks.get();
        is_cached.then(|| self.stack.get())
    }

    /// Returns the number of this thread's current stack.
    fn current(&self) -> u32 {
        if let Some(stack) = self.cached() {
            return stack;
        }
        if self.is_in_lookup.replace(true) {
            return 0;
        }
        compiler_fence(Ordering::SeqCst);
        let stack = self.find();
        compiler_fence(Ordering::SeqCst);
        self.is_in_lookup.set(false);
        stack
    }

    fn find(&self) -> u32 {
        let (top, start_ticks) = thread::hot().innermost();
        // A thread without a state has no open scope.
        let stack = thread::current().map_or(0, |state| {
            state
                .own_open_sites()
                .fold(0, |parent, site| self.child(parent, site))
        });
        // If the clock is coarse, another scope may have the same start.
        let is_unique = cfg!(target_arch = "x86_64") && clock::is_hardware();
        // The height is set last: a handler finds either no cached stack or this one.
        self.top.set(u32::MAX);
        compiler_fence(Ordering::SeqCst);
        self.start_ticks.set(start_ticks);
        self.stack.set(stack);
        compiler_fence(Ordering::SeqCst);
        self.top.set(if is_unique { top } else { u32::MAX });
        stack
    }

    fn child(&self, parent: u32, site: u32) -> u32 {
        let key = u64::from(parent) << 32 | u64::from(site);
        let Some(edge) = self.edge(key) else {
            return stacks::child(parent, site);
        };
        #[expect(unsafe_code, reason = "the edges are memory of the system's allocator")]
        // SAFETY: `edge` points into this thread's edges, and no other reference to them exists.
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

/// Returns the layout of an object with its trailer; `None` if that is too large.
#[inline(always)]
pub(super) fn with_trailer(layout: Layout) -> Option<Layout> {
    let size = layout.size().checked_add(TRAILER_BYTES)?;
    Layout::from_size_align(size, layout.align()).ok()
}

/// Returns the layout of an existing object with its trailer.
///
/// # Safety
///
/// An object exists that was allocated with the layout from [`with_trailer`] for this one.
#[expect(
    unsafe_code,
    reason = "the layout was checked when the object was allocated"
)]
#[inline(always)]
pub(super) unsafe fn with_its_trailer(layout: Layout) -> Layout {
    // SAFETY: `with_trailer` has checked the same size and alignment.
    unsafe { Layout::from_size_align_unchecked(layout.size() + TRAILER_BYTES, layout.align()) }
}

/// Counts a new object, and writes its stack into the trailer.
///
/// # Safety
///
/// `object` has `bytes` bytes, followed by the trailer.
#[expect(unsafe_code, reason = "the trailer lies after the caller's object")]
#[inline(always)]
pub(super) unsafe fn allocated(object: *mut u8, bytes: usize) {
    let local = local::own();
    let stack = match local.stack.cached() {
        Some(stack) if stack < local.counted_stacks() => {
            // SAFETY: The stack has an entry in the table, which is this thread's.
            unsafe { local.shared.live.at(stack) }.add(1, bytes as u64);
            local.count_alloc(bytes);
            stack
        }
        _ => allocated_slow(local, bytes),
    };
    // SAFETY: The caller promises that there is room, which no other code uses. The write needs no
    // alignment.
    unsafe { object.add(bytes).cast::<u32>().write_unaligned(stack) };
}

/// Counts a new object if the thread does not count or its stack is not the cached one. Returns the
/// object's stack.
#[cold]
#[inline(never)]
fn allocated_slow(local: &Local, bytes: usize) -> u32 {
    // Before the lookup: a thread inside the allocator may hold a lock.
    if !local.allocated(bytes) {
        return UNTRACKED;
    }
    let stack = local.stack.current();
    local.add_live(stack, 1, bytes as u64);
    stack
}

/// Returns the stack that allocated an object.
///
/// # Safety
///
/// `object` has `bytes` bytes, and [`allocated`] wrote its trailer.
#[expect(unsafe_code, reason = "the trailer lies after the caller's object")]
#[inline(always)]
pub(super) unsafe fn owner(object: *mut u8, bytes: usize) -> u32 {
    // SAFETY: The caller promises that the trailer was written.
    unsafe { object.add(bytes).cast::<u32>().read_unaligned() }
}

/// Removes an object of the stack `owner` from the live heap.
#[inline(always)]
pub(super) fn freed(owner: u32, bytes: usize) {
    let local = local::own();
    if owner >= local.counted_stacks() {
        return freed_slow(local, owner, bytes);
    }
    #[expect(unsafe_code, reason = "the comparison above has checked the entry")]
    // SAFETY: The owner has an entry in the table, which is this thread's.
    unsafe { local.shared.live.at(owner) }.add(1_u64.wrapping_neg(), (bytes as u64).wrapping_neg());
    local.count_free(bytes);
}

/// Removes an object if the thread does not count, the object is not tracked, or the thread's table
/// has no entry for its stack.
#[cold]
#[inline(never)]
fn freed_slow(local: &Local, owner: u32, bytes: usize) {
    if owner != UNTRACKED {
        local.add_live(owner, 1_u64.wrapping_neg(), (bytes as u64).wrapping_neg());
    }
    local.freed(bytes);
}

impl Local {
    /// Adds to the live heap of a stack; wraps around.
    fn add_live(&self, stack: u32, objects: u64, bytes: u64) {
        if !self.shared.live.add(stack, objects, bytes) {
            self.add_live_slow(stack, objects, bytes);
        }
    }
}
