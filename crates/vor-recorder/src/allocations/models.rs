//! Models of the counts of allocations: threads that end, and a reader of the whole process.

use loom::thread;

use super::local::{Counts, end_thread, own};
use super::process_allocations;

/// Bytes of each modelled object.
const BYTES: usize = 8;

fn counts(objects: u64) -> Counts {
    Counts {
        alloc_objects: objects,
        alloc_bytes: objects * BYTES as u64,
        ..Counts::NONE
    }
}

#[test]
fn a_reader_finds_each_allocation_once_while_its_thread_ends() {
    loom::model(|| {
        own().allocated(BYTES);
        own().allocated(BYTES);
        let reader = thread::spawn(|| {
            assert_eq!(process_allocations(), counts(2));
            assert_eq!(process_allocations(), counts(2));
        });
        end_thread();
        reader.join().unwrap();
        own().allocated(BYTES);
        assert_eq!(process_allocations(), counts(3), "one after the end");
    });
}

#[test]
fn threads_that_begin_and_end_beside_each_other_are_all_counted() {
    loom::model(|| {
        let allocate = || {
            own().allocated(BYTES);
            own().freed(BYTES);
            end_thread();
        };
        let other = thread::spawn(allocate);
        allocate();
        let seen = process_allocations();
        assert!((1..=2).contains(&seen.alloc_objects) && seen.free_objects <= 2);
        other.join().unwrap();
        let both = counts(2);
        assert_eq!(
            process_allocations(),
            Counts {
                free_objects: both.alloc_objects,
                free_bytes: both.alloc_bytes,
                ..both
            }
        );
    });
}
