//! Scopes inside the global allocator: vor allocates too, and must neither recurse nor wait for
//! itself.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![expect(unsafe_code, reason = "a global allocator is unsafe to implement")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use vor_capture::reader::{Event, Reader};

struct Profiled;

/// Allocations of this process, recorded or not.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Profiled {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        vor::profile_scope!("alloc", bytes = layout.size(), text = "in the allocator");
        let _named = vor::scope("alloc by name");
        vor::record_metric("allocation", layout.size() as f64);
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        vor::profile_scope!("dealloc");
        vor::message!("{}", layout.size());
        FREES.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the same contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Profiled = Profiled;

/// Ends the test program when the work below waits for itself.
fn watch() {
    std::thread::spawn(|| {
        // In small steps, so that a suspension of the whole process counts as one of them.
        for _ in 0..1200 {
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("a scope in the allocator waits for itself");
        std::process::abort();
    });
}

#[test]
fn scopes_in_the_allocator_are_recorded_without_recursion() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 300;
    watch();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    vor::Config::new()
        .ring_kib(1024)
        .stats(true)
        .capture(&path)
        .enable();
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            std::thread::spawn(move || {
                for round in 0..ROUNDS {
                    vor::profile_scope!("round", text = "outside");
                    // New names, metrics and threads make vor itself allocate.
                    let _named = vor::scope(&format!("{thread}/{round}"));
                    vor::record_metric(&format!("metric {}", round % 20), 1.0);
                    std::hint::black_box(vec![0_u8; round + 1]);
                    if round % 50 == 0 {
                        vor::frame_mark();
                        std::thread::spawn(|| std::hint::black_box(vec![1, 2, 3]))
                            .join()
                            .unwrap();
                        std::hint::black_box((vor::open_scopes(), vor::stats()));
                    }
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    vor::flush();
    vor::disable();
    let (mut allocs, mut frees, mut rounds, mut dropped) = (0_u64, 0_u64, 0, 0);
    let mut reader = Reader::open(&path).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        let Event::Batch(batch) = event else { continue };
        for thread in &batch.threads {
            dropped += thread.dropped_spans;
            let named = |name: &str| {
                thread
                    .sites
                    .iter()
                    .filter(|site| batch.catalog.site_name(**site) == name)
                    .count()
            };
            allocs += named("alloc") as u64;
            frees += named("dealloc") as u64;
            rounds += named("round");
        }
    }
    assert!(reader.damage().losses.is_empty(), "{:?}", reader.damage());
    // The records of an allocation inside vor are dropped: two scopes and a metric, or a scope and
    // a message. Nothing else is dropped, because the rings are large enough.
    let inside = |made: &AtomicU64, recorded| made.load(Ordering::Relaxed) - recorded;
    let most = 3 * inside(&ALLOCATIONS, allocs) + 2 * inside(&FREES, frees);
    assert!(
        dropped > 0 && dropped <= most,
        "{dropped} dropped, of {most}"
    );
    assert_eq!(rounds, THREADS * ROUNDS);
    // Each round allocates at least a name and a vector outside vor. Allocations of vor itself are
    // not recorded.
    assert!(allocs >= (2 * THREADS * ROUNDS) as u64, "{allocs}");
    assert!(allocs < ALLOCATIONS.load(Ordering::Relaxed), "{allocs}");
}
