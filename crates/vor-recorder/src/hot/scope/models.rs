//! A model of the counters that another thread reads for an open scope.

use std::sync::Arc;

use loom::thread;
use vor_capture::model::measures::Measures;

use super::measured;
use crate::allocations;
use crate::hot::thread::{ThreadState, end_thread, hot, set_up, take_added};

/// Checks the thread's outermost scope, if it is open. The n-th scope starts at the tick 10 n, and
/// n objects are allocated before it.
fn check_outermost(state: &ThreadState) {
    let mut open = Vec::new();
    state.read_open(&mut open);
    let Some((_, start_ticks)) = open.first() else {
        return;
    };
    if let Some(baseline) = state.baseline(0, *start_ticks) {
        assert_eq!(baseline.measures, Measures::ALLOC);
        assert_eq!(10 * baseline.allocated.alloc_objects, *start_ticks);
    }
}

fn open(start_ticks: u64) -> u32 {
    allocations::local::own().allocated(1);
    let opened = measured::try_begin(1, Measures::ALLOC, Some(start_ticks));
    opened.unwrap().place
}

#[test]
fn a_reader_of_an_open_scope_finds_the_counters_of_its_own_begin() {
    loom::model(|| {
        set_up().unwrap();
        let state: Arc<crate::hot::thread::StateBox> = take_added().remove(0).0;
        let first = open(10);
        let reader = thread::spawn(move || check_outermost(&state));
        assert!(hot().begin_close(first));
        hot().release(first);
        open(20);
        reader.join().unwrap();
        end_thread();
    });
}
