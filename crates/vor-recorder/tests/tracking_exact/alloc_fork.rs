//! Forks of a program whose other threads allocate: the child must find no locked lock and must
//! continue to count.

#![expect(unsafe_code, reason = "fork is a call of the C library")]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use vor_recorder::allocations::process_allocations;
use vor_recorder::heap::heap_snapshot;
use vor_recorder::profile_scope;

/// Forks `times` times while threads start, allocate, take snapshots and end. `check` runs in each
/// child; the child allocates before and after it.
pub fn torture(times: usize, check: impl Fn()) {
    static STOP: AtomicBool = AtomicBool::new(false);
    let busy: Vec<_> = (0..3)
        .map(|number| {
            std::thread::spawn(move || {
                while !STOP.load(Ordering::Relaxed) {
                    profile_scope!("busy thread");
                    let objects: Vec<Vec<u8>> = (1..60).map(|i| vec![i as u8; i * 37]).collect();
                    black_box(&objects);
                    if number == 0 {
                        black_box(heap_snapshot().total());
                    } else if number == 1 {
                        std::thread::spawn(|| black_box(vec![1_u8; 100]))
                            .join()
                            .unwrap();
                    }
                }
            })
        })
        .collect();
    for _ in 0..times {
        // SAFETY: the child does no more than its parent's threads do.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: the call sets a timer, whose signal ends a child that waits for ever.
                unsafe { libc::alarm(60) };
                let before = process_allocations();
                {
                    profile_scope!("in the child");
                    black_box(
                        (0..200_usize)
                            .map(|i| vec![0_u8; i * 50])
                            .collect::<Vec<_>>(),
                    );
                }
                check();
                let made = process_allocations().since(before).alloc_objects;
                let ok = made >= 200 && heap_snapshot().total().inuse_bytes > 0;
                // SAFETY: ends this process at once, without its handlers.
                unsafe { libc::_exit(if ok { 0 } else { 3 }) }
            }
            pid => {
                assert!(pid > 0);
                let mut status = 0;
                // SAFETY: `status` is valid for writes.
                let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
                assert_eq!((waited, status), (pid, 0), "the child ended in order");
            }
        }
    }
    STOP.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
}
