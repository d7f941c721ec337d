//! A handler allocates between any two instructions of code that allocates: the counts are correct.
//!
//! A handler may call the allocator below, unlike the one of the C library.
#![cfg(all(target_os = "linux", target_arch = "x86_64", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![allow(unsafe_code, reason = "an allocator, and the trap flag")]

#[path = "all/signal_support/mod.rs"]
mod signal_support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_support::{in_a_process, stepping};
use vor_fixtures::test_name;
use vor_recorder::allocations::thread_allocations;
use vor_recorder::heap::TrackingAllocator;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

/// The stepped thread gets memory from one static block, which never takes any back; all other
/// threads use the system's allocator.
struct Bump;

const BYTES: usize = 1 << 26;
#[repr(align(64))]
struct Memory(UnsafeCell<[u8; BYTES]>);
// SAFETY: each byte is handed out once.
unsafe impl Sync for Memory {}
static MEMORY: Memory = Memory(UnsafeCell::new([0; BYTES]));
static USED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_STEPPED: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: the memory is aligned for the layout and handed out once; all other memory comes from the
// system's allocator.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !IS_STEPPED.get() {
            // SAFETY: the caller keeps the same contract.
            return unsafe { System.alloc(layout) };
        }
        let size = layout.size().next_multiple_of(64);
        let at = USED.fetch_add(size, Ordering::Relaxed);
        if layout.align() > 64 || at + size > BYTES {
            return std::ptr::null_mut();
        }
        // SAFETY: the block has room for the size from this offset on.
        unsafe { MEMORY.0.get().cast::<u8>().add(at) }
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        let first = MEMORY.0.get().addr();
        if !(first..first + BYTES).contains(&object.addr()) {
            // SAFETY: the caller keeps the same contract.
            unsafe { System.dealloc(object, layout) };
        }
    }
}

#[global_allocator]
static ALLOCATOR: TrackingAllocator<Bump> = TrackingAllocator::new(Bump).exact();

static HANDLED: AtomicUsize = AtomicUsize::new(0);

fn allocate() {
    drop(black_box(Box::new([1_u8; 48])));
}

extern "C" fn on_trap(_: libc::c_int) {
    profile_scope!("handler");
    allocate();
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn allocations_of_handlers_are_counted_at_every_instruction() {
    let test = test_name!();
    in_a_process(test, || {
        Config::new().enable();
        let outer = || {
            profile_scope!("outer");
            allocate();
        };
        // Once without traps, so that sites, stacks and tables exist.
        outer();
        {
            profile_scope!("outer");
            on_trap(0);
        }
        on_trap(0);
        stepping::install(on_trap);
        IS_STEPPED.set(true);
        let before = (thread_allocations(), HANDLED.load(Ordering::Relaxed));
        for _ in 0..20 {
            stepping::run(outer);
        }
        IS_STEPPED.set(false);
        let made = thread_allocations().since(before.0);
        let handled = HANDLED.load(Ordering::Relaxed) - before.1;
        println!("{handled} handlers");
        assert!(handled > 1000);
        let expected = 20 + handled as u64;
        assert_eq!(
            (made.alloc_objects, made.free_objects),
            (expected, expected)
        );
        assert_eq!(
            (made.alloc_bytes, made.free_bytes),
            (48 * expected, 48 * expected)
        );
    });
}
