//! The ring on one thread; its models under loom are in `models`.

use super::*;

/// Pushes as a scope does. Returns whether that took the slow path.
fn push(ring: &Ring, n: u64) -> bool {
    // SAFETY: the test's one thread is producer and consumer.
    unsafe {
        match ring.reserve(n, 1, &[]) {
            Some(record) => {
                ring.commit(record, 5);
                false
            }
            None => {
                assert_ne!(ring.push_slow(&[[n, 1 << 32 | 5]]), Room::None);
                true
            }
        }
    }
}

fn drain(ring: &Ring) -> u64 {
    let mut drained = 0;
    // SAFETY: as above.
    unsafe {
        ring.consume(|part| {
            assert!(part.iter().all(|slot| slot[1] == 1 << 32 | 5));
            drained += part.len() as u64;
            part.len()
        });
    }
    drained
}

#[test]
fn the_first_record_on_a_page_takes_the_slow_path_and_later_ones_do_not() {
    const SLOTS_PER_PAGE: u64 = PAGE_BYTES / SLOT_BYTES;
    // Chunks of 16 pages.
    let ring = Ring::new(1 << 20);
    assert_eq!(ring.chunk_slots, 16 * SLOTS_PER_PAGE);
    // The slots may begin in the middle of a page.
    let before = address(&ring.slots) % PAGE_BYTES / SLOT_BYTES;
    for n in 0..3 * ring.chunk_slots {
        let is_first =
            (before + n).is_multiple_of(SLOTS_PER_PAGE) || n.is_multiple_of(ring.chunk_slots);
        assert_eq!(push(&ring, n), is_first, "slot {n}");
    }
    assert_eq!(drain(&ring), 3 * ring.chunk_slots);
    // Fill the same chunks again. Their pages are present.
    for n in 0..2 * ring.chunk_slots {
        assert_eq!(
            push(&ring, n),
            n.is_multiple_of(ring.chunk_slots),
            "slot {n}"
        );
    }
    assert_eq!(drain(&ring), 2 * ring.chunk_slots);
}
