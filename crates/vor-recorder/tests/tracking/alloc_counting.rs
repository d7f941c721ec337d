//! The allocation counts of a thread and of the process.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::cell::RefCell;
use std::hint::black_box;

use vor_capture::model::heap::HeapMode;
use vor_fixtures::own_process;
use vor_recorder::allocations::{AllocCounts, process_allocations, thread_allocations, untracked};
use vor_recorder::heap::heap_snapshot;
use vor_recorder::hot::scope::scope;
use vor_recorder::setup::Config;
use vor_recorder::{drain, message, profile_scope};

/// Returns the counts that `work` adds to this thread: objects and bytes allocated, objects and
/// bytes freed.
fn counted(work: impl FnOnce()) -> [u64; 4] {
    let before = thread_allocations();
    work();
    numbers(thread_allocations().since(before))
}

fn numbers(counts: AllocCounts) -> [u64; 4] {
    [
        counts.alloc_objects,
        counts.alloc_bytes,
        counts.free_objects,
        counts.free_bytes,
    ]
}

#[test]
fn objects_are_counted_with_their_requested_size() {
    own_process!();
    assert_eq!(
        counted(|| drop(black_box(Box::new([0_u8; 100])))),
        [1, 100, 1, 100]
    );
    assert_eq!(counted(|| drop(black_box(vec![0_u64; 10]))), [1, 80, 1, 80]);
    // A value without bytes is not allocated.
    assert_eq!(counted(|| drop(black_box(vec![(); 10]))), [0, 0, 0, 0]);
    let mut vector: Vec<u128> = Vec::with_capacity(4);
    vector.extend([1; 4]);
    // A reallocation counts as a free and an allocation.
    assert_eq!(counted(|| vector.reserve_exact(4)), [1, 128, 1, 64]);
    assert_eq!(counted(|| vector.shrink_to_fit()), [1, 64, 1, 128]);
    assert_eq!(counted(|| drop(vector)), [0, 0, 1, 64]);
    // A failed allocation does not count.
    let refused = || {
        black_box(
            Vec::<u8>::new()
                .try_reserve_exact(isize::MAX as usize)
                .is_err(),
        )
    };
    assert_eq!(counted(|| assert!(refused())), [0, 0, 0, 0]);
    assert_eq!(heap_snapshot().mode, HeapMode::Off);
}

#[test]
fn untracked_allocations_are_not_counted() {
    own_process!();
    let mut kept = Vec::new();
    let all = || {
        kept = untracked(|| {
            let inner = untracked(|| vec![1_u8; 50]);
            black_box(inner);
            vec![2_u8; 60]
        });
    };
    assert_eq!(counted(all), [0, 0, 0, 0]);
    assert_eq!(counted(|| drop(kept)), [0, 0, 1, 60]);
    let panicked =
        std::panic::catch_unwind(|| untracked(|| std::panic::resume_unwind(Box::new(()))));
    assert!(panicked.is_err());
    assert_eq!(counted(|| drop(black_box(Box::new(7_u32)))), [1, 4, 1, 4]);
    // As the first action of a thread.
    let first = || counted(|| drop(untracked(|| black_box(Box::new(7_u64)))));
    std::thread::spawn(move || assert_eq!(first(), [0, 0, 1, 8]))
        .join()
        .unwrap();
}

#[test]
fn the_recorders_own_allocations_are_not_counted() {
    own_process!();
    Config::new().ring_kib(64).stats(true).enable();
    // The state of a new thread, names, metrics, marks and full rings all allocate.
    let work = || {
        let names: Vec<String> = (0..300).map(|i| format!("made at run time {i}")).collect();
        let made = counted(|| {
            for name in &names {
                let _scope = scope(name);
                profile_scope!("with text", text = name.as_str());
                vor_recorder::metrics::record_metric(name, 1.0);
                message!("constant");
                drain::frame_mark();
            }
            drain::flush();
        });
        assert_eq!(made, [0; 4]);
    };
    std::thread::spawn(work).join().unwrap();
}

thread_local! {
    static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
}

/// Allocates when its thread ends.
struct Late(usize);

impl Drop for Late {
    fn drop(&mut self) {
        (0..self.0).for_each(|_| make_and_drop());
    }
}

fn make_and_drop() {
    drop(black_box(Vec::<u8>::with_capacity(1_000_003)));
}

/// Allocates after the thread's counters are gone.
#[cfg(unix)]
extern "C" fn very_late(_: *mut std::ffi::c_void) {
    let before = thread_allocations();
    (0..5).for_each(|_| make_and_drop());
    assert_eq!(
        thread_allocations(),
        before,
        "the thread has already been released"
    );
}

#[test]
fn ended_threads_stay_counted_including_destructors() {
    own_process!();
    // Other tests of this process allocate meanwhile, but not so many objects of this size.
    let before = process_allocations();
    for _ in 0..20 {
        let end = || {
            #[cfg(unix)]
            vor_fixtures::late::at_the_very_end(very_late);
            LATE.set(Some(Late(5)));
            make_and_drop();
        };
        std::thread::spawn(end).join().unwrap();
    }
    let since = process_allocations().since(before);
    let (made, freed) = (since.alloc_bytes, since.free_bytes);
    let expected = 20 * 1_000_003 * if cfg!(unix) { 11 } else { 6 };
    assert!((expected..expected + 20_000_000).contains(&made), "{made}");
    assert!(
        (expected..expected + 20_000_000).contains(&freed),
        "{freed}"
    );
}
