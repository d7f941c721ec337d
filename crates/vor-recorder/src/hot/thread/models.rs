//! Models of a thread's end beside a reader: the sums of counted scopes, and the list of threads.
//!
//! A model thread sets its state up and releases it with the functions that a program's thread
//! runs. The reader or the worker is another model thread.

use std::collections::BTreeMap;

use loom::thread;

use super::current::end_thread;
use super::list::threads;
use super::push::push;
use super::{ThreadState, count, read_counted, reclaim, set_up, take_added};
use crate::hot::ring::Slot;

/// A site that has an entry of its own in the small tables of a model.
const SITE: u32 = 1;
/// Duration of each counted scope.
const TICKS: u64 = 3;

fn count_once(state: &ThreadState) {
    let place = state.push_open(SITE, 10);
    count(state, SITE, place, 10, TICKS);
}

/// Returns how many scopes a reader finds.
fn calls() -> u64 {
    let all = read_counted();
    let sums = all.iter().flat_map(|(_, sites)| sites.values());
    sums.flat_map(|sums| sums.buckets).sum()
}

/// Returns the sum of the durations that a reader finds.
fn total_ticks() -> u64 {
    let all = read_counted();
    let sums = all.iter().flat_map(|(_, sites)| sites.values());
    sums.map(|sums| sums.total_ticks).sum()
}

#[test]
fn a_reader_finds_each_call_once_while_its_thread_ends() {
    loom::model(|| {
        count_once(set_up().unwrap());
        let state = take_added().remove(0).0;
        let reader = thread::spawn(|| assert_eq!(calls(), 1));
        end_thread();
        // The next thread takes the state. Loom also needs this store: it remembers only the last
        // load of each number, and the end of a thread loads the numbers that it clears.
        reclaim(&state);
        threads().take_state(1);
        reader.join().unwrap();
        assert_eq!((calls(), total_ticks()), (1, TICKS));
    });
}

#[test]
fn a_reader_of_a_running_thread_finds_whole_tables() {
    loom::model(|| {
        let state = set_up().unwrap();
        let reader = thread::spawn(|| assert!(calls() <= 1));
        count_once(state);
        reader.join().unwrap();
        assert_eq!((calls(), total_ticks()), (1, TICKS));
        end_thread();
    });
}

/// The worker's part of a thread, as in the engine.
struct Source {
    state: std::sync::Arc<super::StateBox>,
    dropped_seen: u64,
}

/// Consumes all rings, and appends the threads' numbers and the slots to `seen`. Then reclaims the
/// states of ended threads.
fn pass(sources: &mut Vec<Source>, seen: &mut Vec<(u32, Slot)>) {
    let added = take_added().into_iter();
    sources.extend(added.map(|(state, dropped_seen)| Source {
        state,
        dropped_seen,
    }));
    for source in &*sources {
        let thread = source.state.id().0;
        #[expect(unsafe_code, reason = "the ring requires a single consumer")]
        // SAFETY: each model has one thread that consumes.
        unsafe {
            source.state.ring.consume(|part| {
                seen.extend(part.iter().map(|slot| (thread, *slot)));
                part.len()
            });
        }
    }
    sources.retain(|source| {
        let is_drained = source.state.is_drained(source.dropped_seen);
        if is_drained {
            reclaim(&source.state);
        }
        !is_drained
    });
}

/// Records one slot with the thread's number as a thread of a program does, then ends.
fn record_and_end() -> u32 {
    let state = set_up().unwrap();
    let number = state.id().0;
    assert!(push(state, &[[u64::from(number), 7]]));
    end_thread();
    number
}

#[test]
fn a_state_goes_to_the_next_thread_once_it_is_empty() {
    loom::model(|| {
        let program = thread::spawn(|| {
            let first = record_and_end();
            let second = thread::spawn(record_and_end).join().unwrap();
            assert_eq!((first, second), (0, 1));
        });
        let (mut sources, mut seen) = (Vec::new(), Vec::new());
        pass(&mut sources, &mut seen);
        pass(&mut sources, &mut seen);
        program.join().unwrap();
        pass(&mut sources, &mut seen);
        let by_thread: BTreeMap<u32, Slot> = seen.iter().copied().collect();
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert_eq!(
            by_thread.into_iter().collect::<Vec<_>>(),
            [(0, [0, 7]), (1, [1, 7])]
        );
        assert!(sources.is_empty() && threads().live.is_empty());
    });
}
