//! Ticks as wall-clock time: the ends of the range, and the mapper beside the search.

use vor_capture::filled;
use vor_capture::model::timeline::{ClockSync, RATE_BITS, TickMapper, Timeline};

/// A nanosecond per tick.
const ONE: u64 = 1 << 40;

fn sync(ticks: u64, unix_ns: i64, rate: u64) -> ClockSync {
    filled!(ClockSync {
        ticks,
        unix_ns,
        rate
    })
}

#[test]
fn times_beyond_64_bits_are_the_nearest_end() {
    let fast = sync(1 << 63, 5, u64::MAX);
    assert_eq!(fast.unix_ns_at(1 << 63), 5);
    assert_eq!(fast.unix_ns_at(u64::MAX), i64::MAX);
    assert_eq!(fast.unix_ns_at(0), i64::MIN);
}

#[test]
fn an_empty_timeline_takes_ticks_for_nanoseconds() {
    let timeline = Timeline::default();
    let mut mapper = TickMapper::new(&timeline);
    for (ticks, ns) in [(0, 0), (1, 1), (1 << 40, 1 << 40), (u64::MAX, i64::MAX)] {
        assert_eq!((timeline.unix_ns(ticks), mapper.unix_ns(ticks)), (ns, ns));
    }
}

#[test]
fn a_mapper_agrees_with_its_timeline_in_any_order() {
    // Lines with steps between them, so that each tick shows which point maps it.
    let mut timeline = Timeline::default();
    for (ticks, unix_ns, rate) in [
        (1_000, 7_000, ONE),
        (5_000, -90_000, ONE / 3),
        (5_001, 1 << 61, 7 * ONE),
        (1 << 40, 123, ONE + 1),
        // Time leaves the range of 64 bits behind this point.
        (1 << 58, i64::MAX - 1_000, ONE),
    ] {
        assert!(timeline.push(sync(ticks, unix_ns, rate)));
    }
    let mut ticks = vec![
        0,
        1,
        2_500,
        1 << 39,
        (1 << 40) + (1 << 56),
        (1 << 40) + (1 << 57),
    ];
    for sync in timeline.syncs() {
        ticks.extend([sync.ticks - 1, sync.ticks, sync.ticks + 1, sync.ticks + 900]);
    }
    ticks.extend([(1 << 58) + 999, (1 << 58) + 1_001, 1 << 59, u64::MAX]);
    let mut mapper = TickMapper::new(&timeline);
    for &first in &ticks {
        for &second in &ticks {
            let _ = mapper.unix_ns(first);
            let found = mapper.unix_ns(second);
            assert_eq!(found, timeline.unix_ns(second), "{second} after {first}");
        }
    }
}

#[test]
fn a_thinned_timeline_is_continuous_and_keeps_its_newer_half() {
    // Rates differ from point to point, as those of a clock that is corrected.
    let mut timeline = Timeline::default();
    let mut sync = filled!(ClockSync {
        ticks: 1000,
        unix_ns: 1_000_000,
        rate: 1 << RATE_BITS
    });
    for i in 0..101_u64 {
        assert!(timeline.push(sync));
        let ticks = sync.ticks + 1_000_000;
        let unix_ns = sync.unix_ns_at(ticks);
        let rate = (1 << RATE_BITS) + (i % 7) * (1 << 22);
        sync = filled!(ClockSync {
            ticks,
            unix_ns,
            rate
        });
    }
    let full = timeline.clone();
    timeline.thin();
    assert_eq!(timeline.syncs().len(), 101 - 25);
    assert_eq!(timeline.syncs()[25..], full.syncs()[50..]);
    for pair in timeline.syncs().windows(2) {
        let end_ns = pair[0].unix_ns_at(pair[1].ticks);
        assert!((0..=1).contains(&(pair[1].unix_ns - end_ns)), "{pair:?}");
        // A point that stays has its time.
        assert_eq!(full.unix_ns(pair[0].ticks), pair[0].unix_ns);
    }
    for ticks in (0..101_000_000).step_by(123_457) {
        let error = timeline.unix_ns(ticks).abs_diff(full.unix_ns(ticks));
        assert!(error <= 30, "{ticks}: {error} ns");
    }
    let mut empty = Timeline::default();
    empty.thin();
    assert!(empty.syncs().is_empty());
}

#[test]
fn a_point_must_be_later_than_the_last_one() {
    let mut timeline = Timeline::default();
    for (ticks, is_added) in [(10, true), (9, false), (10, false), (11, true), (0, false)] {
        assert_eq!(timeline.push(sync(ticks, 5, ONE)), is_added, "{ticks}");
    }
    let ticks: Vec<_> = timeline.syncs().iter().map(|sync| sync.ticks).collect();
    assert_eq!(ticks, [10, 11]);
}

#[test]
fn every_other_point_of_the_older_half_but_the_first_is_removed() {
    for (count, kept) in [
        (0_u64, &[][..]),
        (1, &[0]),
        (2, &[0, 1]),
        (3, &[0, 1, 2]),
        (4, &[0, 2, 3]),
        (5, &[0, 2, 3, 4]),
        (6, &[0, 2, 3, 4, 5]),
        (7, &[0, 2, 3, 4, 5, 6]),
        (8, &[0, 2, 4, 5, 6, 7]),
        (9, &[0, 2, 4, 5, 6, 7, 8]),
    ] {
        let mut timeline = Timeline::default();
        for i in 0..count {
            // A tick takes longer from point to point.
            let (ticks, square) = (100 * i, (i * i).cast_signed());
            assert!(timeline.push(sync(ticks, 1000 * square, 7)));
        }
        timeline.thin();
        let syncs = timeline.syncs();
        let ticks: Vec<_> = syncs.iter().map(|sync| sync.ticks / 100).collect();
        assert_eq!(ticks, kept, "{count}");
        // Those at which one was removed lead to the next, and so do the others of the half.
        let old = (count / 2).div_ceil(2) as usize;
        for (at, pair) in syncs.array_windows::<2>().enumerate() {
            let [one, next] = pair;
            let expected = if at < old {
                let ns = (next.unix_ns - one.unix_ns).cast_unsigned();
                (ns << RATE_BITS) / (next.ticks - one.ticks)
            } else {
                7
            };
            assert_eq!(one.rate, expected, "{count}, {at}");
        }
        assert!(syncs.last().is_none_or(|last| last.rate == 7));
    }
}

#[test]
fn a_duration_is_the_difference_of_its_ends_and_not_below_0() {
    let mut timeline = Timeline::default();
    for (ticks, unix_ns) in [(100, 5000), (200, 4000), (300, i64::MIN), (400, i64::MAX)] {
        assert!(timeline.push(sync(ticks, unix_ns, 3 * ONE)));
    }
    assert_eq!(timeline.duration_ns(110, 50), 150);
    assert_eq!(timeline.duration_ns(150, 100), 0);
    assert_eq!(timeline.duration_ns(300, 100), u64::MAX);
    assert_eq!(timeline.duration_ns(u64::MAX - 1, 5), 0);
}
