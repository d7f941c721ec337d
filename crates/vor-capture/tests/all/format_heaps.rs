//! Heap snapshots read back sorted and with equal stacks added up; invalid ones are refused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use proptest::collection::vec;
use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::format::{Record, RecordHead, RecordRef, decode_payload};
use vor_capture::model::catalog::SiteId;
use vor_capture::model::heap::{HeapMode, HeapScope, HeapSnapshot, HeapStack};

use crate::round_trip::{HEADER, sealed, through, ticks};

proptest! {
    #[test]
    fn heaps(
        at in ticks(),
        interval_bytes in prop_oneof![Just(0), 1_u64..],
        stacks in proptest::collection::btree_map(
            vec(0_u32..4, 0..5),
            (
                any::<u64>(),
                any::<u64>(),
                any::<u64>(),
                0.0..1e18,
                0.0..1e18,
            ),
            0..40,
        ),
    ) {
        let is_exact = interval_bytes == 0;
        let stack =
            |(sites, (inuse_objects, inuse_bytes, samples, objects_error, bytes_error)): (
                Vec<u32>,
                _,
            )| {
                filled!(HeapStack {
                    scopes: sites
                        .into_iter()
                        .map(|site| filled!(HeapScope { site: SiteId(site) }))
                        .collect(),
                    inuse_objects,
                    inuse_bytes,
                    samples: if is_exact { 0 } else { samples },
                    objects_error: if is_exact { 0.0 } else { objects_error },
                    bytes_error: if is_exact { 0.0 } else { bytes_error },
                })
            };
        let mut heap = HeapSnapshot::default();
        heap.mode = if is_exact {
            HeapMode::Exact
        } else {
            HeapMode::Sampled { interval_bytes }
        };
        heap.ticks = at;
        heap.stacks = stacks.into_iter().map(stack).collect();
        let records = through(RecordRef::Heap(&heap), 99);
        // Sorted by bytes, most first; equal ones keep the order of their scopes, which is the
        // order here.
        heap.stacks
            .sort_by_key(|stack| std::cmp::Reverse(stack.inuse_bytes));
        prop_assert_eq!(records, [Record::Heap(heap)]);
    }
}

#[test]
fn a_heap_that_is_too_large_keeps_the_stacks_with_most_bytes() {
    let mut heap = HeapSnapshot::default();
    assert_eq!(through(RecordRef::Heap(&heap), 99), [], "the mode is off");
    heap.mode = HeapMode::Exact;
    let scope = |site| filled!(HeapScope { site: SiteId(site) });
    let stack = |site: u32| {
        filled!(HeapStack {
            scopes: vec![scope(site); 100],
            inuse_objects: 1,
            inuse_bytes: u64::from(site)
        })
    };
    heap.stacks = (1..5_000).map(stack).collect();
    let records = through(RecordRef::Heap(&heap), 1 << 16);
    let [Record::Heap(kept)] = &records[..] else {
        panic!("{} records", records.len())
    };
    // As many scopes as a record holds.
    assert_eq!(kept.stacks.len(), (1 << 18) / 100);
    assert!(
        kept.stacks
            .iter()
            .rev()
            .map(|stack| stack.inuse_bytes)
            .eq(5_000 - (1 << 18) / 100..5_000)
    );
}

#[test]
fn stacks_of_the_same_scopes_are_written_as_their_sum() {
    let stack = |sites: &[u32], inuse_bytes, error| {
        let scope = |site: &u32| {
            filled!(HeapScope {
                site: SiteId(*site)
            })
        };
        filled!(HeapStack {
            scopes: sites.iter().map(scope).collect(),
            inuse_objects: 2,
            inuse_bytes,
            samples: 1,
            objects_error: error,
            bytes_error: error
        })
    };
    let mut heap = HeapSnapshot::default();
    heap.mode = HeapMode::Sampled { interval_bytes: 9 };
    heap.stacks = vec![
        stack(&[1, 2], 500, 3.0),
        stack(&[], 70, 0.1),
        stack(&[1, 2], 90, 4.0),
        stack(&[1], u64::MAX, 1.0),
        stack(&[1], 1, 0.0),
    ];
    let records = through(RecordRef::Heap(&heap), 99);
    let sum = |stack: HeapStack| {
        filled!(HeapStack {
            inuse_objects: 4,
            samples: 2,
            ..stack
        })
    };
    heap.stacks = vec![
        sum(stack(&[1], u64::MAX, 1.0)),
        sum(stack(&[1, 2], 590, 5.0)),
        stack(&[], 70, 0.1),
    ];
    assert_eq!(records, [Record::Heap(heap)]);
}

/// Three invalid heaps: a stack that shares more scopes with the previous one than that has, a
/// stack that is too deep, and a record with too many scopes in total.
#[test]
fn heaps_that_contradict_themselves_are_refused() {
    let refused = |payload: &[u8]| {
        let bytes = sealed(0, 14, 0, payload);
        let head = RecordHead::parse(&HEADER, &bytes).unwrap();
        decode_payload(&HEADER, &head, payload)
            .unwrap_err()
            .is_corrupt()
    };
    assert!(refused(&[0, 0, 1, 1, 0, 1, 1]));
    let mut deep = vec![0, 0, 1, 0, 0x81, 2];
    deep.extend([1; 257]);
    deep.extend([1, 1]);
    assert!(refused(&deep));
    // Each further stack adds one with 256 scopes, in five bytes.
    let count = 2_000_u32;
    let mut many = vec![0, 0, 0xd0, 15, 0, 0x80, 2];
    many.extend([1; 256]);
    many.extend([1, 1]);
    for _ in 1..count {
        many.extend([0xff, 1, 1, 1, 1, 1]);
    }
    assert!(refused(&many));
}
