//! Models of the ring, which loom runs through every order of events up to a number of preemptions.
//!
//! The producer is one model thread and the consumer another, like the recording thread and the
//! worker in a program. Slots carry their number, so that the consumer finds lost, repeated and
//! reordered slots. Loom itself reports a slot that both sides access at once, and a publication
//! that does not order the writes before it. Rings have 8 slots. These are few enough to wrap and
//! fill soon, and enough for the slow path to set a limit that allows the next push its fast path.

#![expect(
    unsafe_code,
    reason = "the models are the one producer and the one consumer of their ring"
)]

use loom::sync::Arc;
use loom::thread;

use super::{Ring, Room};
use super::{SITE_BITS, Slot, extensions, word1};
use crate::hot::thread::ThreadState;

/// Capacity of the modelled rings.
const SLOTS: usize = 8;

fn slot(n: u64) -> Slot {
    [n, !n]
}

/// Pushes as a thread does, first on the fast path. Returns whether there was room.
fn push(ring: &Ring, record: &[Slot]) -> bool {
    // SAFETY: each model has one thread that pushes.
    let pushed = unsafe {
        match record {
            [one] => push_one(ring, *one),
            record => ring.push_slots(record),
        }
    };
    // SAFETY: as above.
    let pushed = pushed || unsafe { ring.push_slow(record) != Room::None };
    if !pushed {
        ring.count_drop();
    }
    pushed
}

/// Pushes one slot on the fast path.
///
/// # Safety
///
/// One thread alone pushes.
unsafe fn push_one(ring: &Ring, slot: Slot) -> bool {
    // SAFETY: the caller is the one thread that pushes.
    unsafe { push_halves(ring, slot, &[]) }
}

/// Pushes as a scope does: all but half a word, then the rest.
///
/// # Safety
///
/// One thread alone pushes.
unsafe fn push_halves<const N: usize>(ring: &Ring, [word0, word1]: Slot, rest: &[Slot; N]) -> bool {
    // SAFETY: the caller is the one thread that pushes, and nothing is pushed in between.
    unsafe {
        let record = ring.reserve(word0, (word1 >> 32) as u32, rest);
        record
            .map(|record| ring.commit(record, word1 as u32))
            .is_some()
    }
}

/// Consumes up to `most` slots, and appends them to `seen`.
fn drain(ring: &Ring, most: usize, seen: &mut Vec<Slot>) {
    let until = seen.len() + most;
    // SAFETY: each model has one thread at a time that consumes.
    unsafe {
        ring.consume(|part| {
            let before = seen.len();
            seen.extend(part.iter().take(until - before));
            seen.len() - before
        });
    }
}

/// Asserts that the slots are whole and their numbers rise. Returns the numbers.
fn numbers(seen: &[Slot]) -> Vec<u64> {
    for slot in seen {
        assert_eq!(slot[1], !slot[0], "a torn slot");
    }
    assert!(
        seen.windows(2).all(|pair| pair[0][0] < pair[1][0]),
        "repeated or out of order: {seen:?}"
    );
    seen.iter().map(|slot| slot[0]).collect()
}

#[test]
fn every_pushed_slot_arrives_once_and_in_order() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(SLOTS));
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || (0..5).all(|n| push(&ring, &[slot(n)])))
        };
        let mut seen = Vec::new();
        drain(&ring, 1, &mut seen);
        drain(&ring, SLOTS, &mut seen);
        assert!(producer.join().unwrap(), "5 slots fit into a ring of 8");
        drain(&ring, SLOTS, &mut seen);
        assert_eq!(numbers(&seen), [0, 1, 2, 3, 4]);
        assert_eq!(ring.dropped(), 0);
        assert_eq!(ring.len(), 0);
    });
}

#[test]
fn a_full_ring_drops_the_newest_and_counts_it() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(SLOTS));
        for n in 0..7 {
            assert!(push(&ring, &[slot(n)]));
        }
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                (7..11)
                    .filter(|&n| push(&ring, &[slot(n)]))
                    .collect::<Vec<u64>>()
            })
        };
        let mut seen = Vec::new();
        drain(&ring, 2, &mut seen);
        let kept = producer.join().unwrap();
        drain(&ring, SLOTS, &mut seen);
        let expected: Vec<u64> = (0..7).chain(kept.iter().copied()).collect();
        assert_eq!(numbers(&seen), expected);
        assert_eq!(kept[0], 7, "the eighth slot always fits");
        assert_eq!(
            ring.dropped() + kept.len() as u64,
            4,
            "every push is kept or counted"
        );
    });
}

#[test]
fn a_full_ring_that_is_not_drained_keeps_the_oldest() {
    loom::model(|| {
        let ring = Ring::new(SLOTS);
        let kept = (0..10).filter(|&n| push(&ring, &[slot(n)])).count();
        assert_eq!((kept, ring.dropped()), (8, 2));
        let mut seen = Vec::new();
        drain(&ring, SLOTS, &mut seen);
        assert_eq!(numbers(&seen), [0, 1, 2, 3, 4, 5, 6, 7]);
    });
}

#[test]
fn arming_beside_the_slow_path_neither_loses_nor_overwrites() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(SLOTS));
        for n in 0..6 {
            assert!(push(&ring, &[slot(n)]));
        }
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                (6..11)
                    .filter(|&n| push(&ring, &[slot(n)]))
                    .collect::<Vec<u64>>()
            })
        };
        let mut seen = Vec::new();
        drain(&ring, 2, &mut seen);
        ring.arm();
        drain(&ring, SLOTS, &mut seen);
        let kept = producer.join().unwrap();
        drain(&ring, SLOTS, &mut seen);
        let expected: Vec<u64> = (0..6).chain(kept.iter().copied()).collect();
        assert_eq!(numbers(&seen), expected);
        assert_eq!(ring.dropped() + kept.len() as u64, 5);
    });
}

#[test]
fn a_chunk_is_reused_only_once_it_is_drained() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(SLOTS));
        for n in 0..6 {
            assert!(push(&ring, &[slot(n)]));
        }
        let mut seen = Vec::new();
        drain(&ring, 5, &mut seen);
        // One chunk is free. The other has one slot to consume and two to fill.
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                (6..14)
                    .filter(|&n| push(&ring, &[slot(n)]))
                    .collect::<Vec<u64>>()
            })
        };
        drain(&ring, SLOTS, &mut seen);
        drain(&ring, SLOTS, &mut seen);
        let kept = producer.join().unwrap();
        drain(&ring, SLOTS, &mut seen);
        let expected: Vec<u64> = (0..6).chain(kept.iter().copied()).collect();
        assert_eq!(numbers(&seen), expected);
        assert!(
            kept.len() >= 6,
            "the free chunk and the rest of the other always fit"
        );
        assert_eq!(ring.dropped() + kept.len() as u64, 8);
        assert_eq!(ring.len(), 0);
    });
}

#[test]
fn an_armed_ring_sends_the_next_push_to_the_slow_path() {
    loom::model(|| {
        let ring = Ring::new(SLOTS);
        assert!(push(&ring, &[slot(0)]));
        drain(&ring, SLOTS, &mut Vec::new());
        ring.arm();
        // SAFETY: this thread is the only one.
        assert!(!unsafe { push_one(&ring, slot(1)) });
        assert!(push(&ring, &[slot(1)]));
    });
}

#[test]
fn a_record_of_several_slots_is_seen_whole() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(SLOTS));
        // Push single slots first, so that the three-slot record does not fit the rest of its
        // chunk.
        for n in 0..6 {
            assert!(push(&ring, &[[n, word1(0, 1)]]));
        }
        drain(&ring, SLOTS, &mut Vec::new());
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let first = [7, word1(0, 2 << SITE_BITS | 1)];
                // SAFETY: this thread alone pushes.
                unsafe {
                    let rest = [[70, 71], [72, 73]];
                    let pushed = push_halves(&ring, first, &rest);
                    let pushed = pushed || ring.push_slow(&[first, rest[0], rest[1]]) != Room::None;
                    assert!(pushed);
                }
                let mut second = vec![[8, word1(0, 3 << SITE_BITS | 1)]];
                second.extend((0..3).map(|i| [80 + 2 * i, 81 + 2 * i]));
                push(&ring, &second)
            })
        };
        let mut records = Vec::new();
        let mut take = || {
            let mut seen = Vec::new();
            drain(&ring, SLOTS, &mut seen);
            let mut at = 0;
            while at < seen.len() {
                let more = extensions((seen[at][1] >> 32) as u32);
                let number = seen[at][0];
                let rest = seen.get(at + 1..=at + more);
                let rest = rest.expect("a record is published whole");
                for (i, words) in rest.as_flattened().iter().enumerate() {
                    assert_eq!(*words, number * 10 + i as u64);
                }
                records.push(number);
                at += 1 + more;
            }
        };
        take();
        take();
        let second_fit = producer.join().unwrap();
        take();
        assert_eq!(records, if second_fit { vec![7, 8] } else { vec![7] });
        assert_eq!(ring.dropped(), u64::from(!second_fit));
    });
}

#[test]
fn a_thread_that_ends_leaves_nothing_behind() {
    loom::model(|| {
        let state = Arc::new(ThreadState::new(Ring::new(SLOTS)));
        let producer = {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                for n in 0..2 {
                    push(&state.ring, &[slot(n)]);
                }
                state.end();
            })
        };
        // Do as the worker does: a pass over the ring, then the check whether another thread may
        // reuse the state.
        let mut seen = Vec::new();
        let mut released = false;
        for _ in 0..2 {
            drain(&state.ring, SLOTS, &mut seen);
            let ended = state.has_exited();
            released = ended && state.ring.len() == 0;
            if released {
                assert_eq!(numbers(&seen), [0, 1], "given away with spans in it");
                break;
            }
        }
        producer.join().unwrap();
        if !released {
            drain(&state.ring, SLOTS, &mut seen);
            assert_eq!(numbers(&seen), [0, 1]);
            assert!(state.has_exited());
            assert_eq!(state.ring.len(), 0);
        }
    });
}

#[test]
fn a_reader_of_open_scopes_sees_each_with_its_own_start() {
    // A coarse clock gives both scopes the same start.
    for starts in [[10, 20], [10, 10]] {
        loom::model(move || {
            let state = Arc::new(ThreadState::new(Ring::new(SLOTS)));
            let owner = {
                let state = Arc::clone(&state);
                thread::spawn(move || {
                    for (site, start_ticks) in (1..).zip(starts) {
                        state.push_open_at(0, site, start_ticks);
                        assert!(state.begin_close(0));
                        state.release(0);
                    }
                })
            };
            let mut open = Vec::new();
            state.read_open(&mut open);
            for (site, start_ticks) in open {
                assert!(matches!(site.0, 1 | 2), "{site:?}");
                assert_eq!(start_ticks, starts[site.0 as usize - 1]);
            }
            owner.join().unwrap();
        });
    }
}

#[test]
fn a_scope_that_a_reader_finds_closed_has_its_record() {
    loom::model(|| {
        let state = Arc::new(ThreadState::new(Ring::new(SLOTS)));
        state.push_open_at(0, 1, 10);
        let owner = {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                assert!(state.begin_close(0));
                push(&state.ring, &[slot(10)]);
                state.release(0);
            })
        };
        let mut open = Vec::new();
        if state.read_open(&mut open) && open.is_empty() {
            assert_eq!(state.ring.len(), 1, "it is neither open nor recorded");
        }
        owner.join().unwrap();
    });
}
