//! Sums of statistics that a test can state: measures, estimates, durations on extreme timelines,
//! and the times of single spans.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, SpanArgs, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::measures::{Measured, Measures};
use vor_capture::model::timeline::{ClockSync, Timeline};
use vor_capture::stats::{ScopeStats, SpanMapper, SpanTimer, SpanTimes, StatsBuilder};

/// Number of single spans that a thread keeps without knowing what is open.
const HELD: u64 = if cfg!(miri) { 64 } else { 32_768 };

/// A tick between two spans that began ten ticks apart, from tick 10 on, and are not held one by
/// one any more.
const AMONG_THEM: u64 = 10 + 10 * (HELD / 4 + 1) - 1;

/// A nanosecond per tick.
const ONE: u64 = 1 << 40;

/// Site 1 has an argument of its own and measures CPU time and allocations, site 2 CPU time, and
/// site 3 nothing.
fn catalog() -> Catalog {
    let site = |own: &[&'static str], measures: Measures| {
        let names = own.iter().copied().chain(measures.arg_names());
        Some(Arc::new(filled!(SiteInfo {
            arg_names: names.map(Into::into).collect()
        })))
    };
    let sites = vec![
        site(&["n"], Measures::CPU | Measures::ALLOC),
        site(&[], Measures::CPU),
        site(&["n"], Measures::NONE),
    ];
    filled!(Catalog {
        sites: Arc::new(sites)
    })
}

/// A batch of spans: site, start, duration and arguments.
fn batch(thread: u32, spans: &[(u32, u64, u64, &[u64])]) -> ThreadBatch {
    let with_args = (0..).zip(spans).filter(|(_, (.., args))| !args.is_empty());
    let args = with_args.map(|(span, (.., args))| {
        filled!(SpanArgs {
            span,
            values: args.iter().map(|&value| ArgValue::U64(value)).collect(),
        })
    });
    filled!(ThreadBatch {
        thread: ThreadId(thread),
        start_ticks: spans.iter().map(|span| span.1).collect(),
        duration_ticks: spans.iter().map(|span| span.2).collect(),
        sites: spans.iter().map(|span| SiteId(span.0)).collect(),
        args: args.collect()
    })
}

#[test]
fn measures_are_summed_with_and_without_the_spans_inside() {
    let catalog = catalog();
    let mut stats = StatsBuilder::new();
    assert_eq!(stats.self_measured(|_| true), None);
    stats.add_thread(
        &catalog,
        &batch(
            1,
            &[
                (2, 20, 10, &[3]),
                // Only its own argument, so it measured nothing; and one without a measure.
                (1, 40, 5, &[1000]),
                (3, 50, 5, &[1000, 1000]),
                (1, 10, 90, &[1000, 8, 2, 100, 1, 60]),
                (1, 120, 10, &[1000, 4, 5, 200, 3, 70]),
            ],
        ),
    );
    let outer = filled!(Measured {
        off_cpu_ns: 8 + 4,
        alloc_objects: 2 + 5,
        alloc_bytes: 100 + 200,
        free_objects: 1 + 3,
        free_bytes: 60 + 70
    });
    let own = filled!(Measured {
        off_cpu_ns: outer.off_cpu_ns - 3,
        ..outer
    });
    let inner = filled!(Measured { off_cpu_ns: 3 });
    let rows = stats.scope_stats(&catalog);
    assert_eq!(
        rows.iter()
            .map(|row| (row.measured, row.self_measured))
            .collect::<Vec<_>>(),
        [
            (outer, own),
            (inner, inner),
            (Measured::default(), Measured::default())
        ]
    );
    // A scope of site 1 was open for 90 ns and for 10, of which 20 are those of three inside.
    assert_eq!((rows[0].total_ns, rows[0].self_ns), (100, 85));
    let cpu = |row: &ScopeStats| (row.cpu_ns(), row.self_cpu_ns());
    assert_eq!(cpu(&rows[0]), (Some(100 - 12), Some(85 - 9)));
    assert_eq!(cpu(&rows[1]), (Some(7), Some(7)));
    assert_eq!(cpu(&rows[2]), (None, None));
    for (chosen, expected) in [
        (&[1][..], Some(own)),
        (&[2], Some(inner)),
        (&[1, 2, 3], Some(own.plus(inner))),
        (&[3], None),
    ] {
        let found = stats.self_measured(|site| chosen.contains(&site.0));
        assert_eq!(found, expected, "{chosen:?}");
    }

    let mut merged = StatsBuilder::new();
    stats.end_thread(ThreadId(1));
    merged.add_thread(&catalog, &batch(2, &[(1, 5, 20, &[0, 1, 1, 1, 1, 1])]));
    merged.merge(&stats);
    let one = filled!(Measured {
        off_cpu_ns: 1,
        alloc_objects: 1,
        alloc_bytes: 1,
        free_objects: 1,
        free_bytes: 1
    });
    let row = &merged.scope_stats(&catalog)[0];
    assert_eq!(
        (row.measured, row.self_measured),
        (outer.plus(one), own.plus(one))
    );
    assert_eq!(
        (row.count, row.total_ns, row.min_ns, row.max_ns),
        (4, 120, 5, 90)
    );
    merged.restart();
    assert_eq!(merged.self_measured(|_| true), None);
    assert_eq!(
        (merged.span_count(), merged.scope_stats(&catalog)),
        (0, Vec::new())
    );
}

/// Adds more spans than are held one by one, and one that begins among them.
fn with_estimates(catalog: &Catalog, thread: u32) -> StatsBuilder {
    let mut stats = StatsBuilder::new();
    let leaf = |i| (2, 10 + 10 * i, 7, &[1][..]);
    let leaves: Vec<_> = (0..2 * HELD).map(leaf).collect();
    stats.add_thread(catalog, &batch(thread, &leaves));
    let values = [0, 100_000, 1, 1, 1, 1];
    let around = (1, AMONG_THEM, 20 * 2 * HELD, &values[..]);
    stats.add_thread(catalog, &batch(thread, &[around]));
    stats
}

#[test]
fn estimates_are_counted_wherever_their_threads_are() {
    let catalog = catalog();
    let one = with_estimates(&catalog, 1);
    // One of the self time, and one of the own part of the measure.
    assert_eq!(one.estimated_self_times(), 2);
    let mut ended = one.clone();
    ended.end_thread(ThreadId(2));
    ended.end_thread(ThreadId(1));
    assert_eq!(ended.estimated_self_times(), 2);
    ended.end_thread(ThreadId(1));
    assert_eq!(ended.estimated_self_times(), 2);
    for (other, what) in [
        (one.clone(), "the same thread"),
        (with_estimates(&catalog, 5), "another thread"),
        (ended, "a thread that has ended"),
    ] {
        let mut merged = one.clone();
        merged.merge(&other);
        assert_eq!(merged.estimated_self_times(), 4, "{what}");
        assert!(merged.for_second_pass().is_some());
        let rows = merged.scope_stats(&catalog);
        assert_eq!((rows[0].count, rows[1].count), (2, 4 * HELD));
    }
    assert!(StatsBuilder::new().for_second_pass().is_none());
    let again = one.for_second_pass().unwrap();
    assert_eq!((again.estimated_self_times(), again.span_count()), (0, 0));
}

fn timeline(syncs: &[(u64, i64, u64)]) -> Timeline {
    let mut timeline = Timeline::default();
    for &(ticks, unix_ns, rate) in syncs {
        let sync = filled!(ClockSync {
            ticks,
            unix_ns,
            rate
        });
        assert!(timeline.push(sync));
    }
    timeline
}

/// Timelines with steps between their lines, and with ends of all kinds.
fn timelines() -> Vec<Timeline> {
    vec![
        Timeline::default(),
        timeline(&[
            (1000, 5000, 2 * ONE),
            (2000, 7100, ONE),
            (2001, 7000, ONE / 3),
        ]),
        timeline(&[(1000, i64::MAX - 500, ONE)]),
        timeline(&[(1000, i64::MAX - 500, 3 * ONE + 7), (1100, -3, ONE)]),
        timeline(&[(1000, i64::MIN, 1), (2000, i64::MIN + 3, u64::MAX)]),
        timeline(&[(0, -1, ONE), (2000, 9000, 0)]),
        timeline(&[(1000, 0, u64::MAX)]),
    ]
}

const TICKS: [u64; 24] = [
    0,
    1,
    2,
    500,
    998,
    999,
    1000,
    1001,
    1002,
    1099,
    1100,
    1101,
    1165,
    1166,
    1167,
    1499,
    1500,
    1501,
    1999,
    2000,
    2001,
    2002,
    3000,
    1 << 40,
];

#[test]
fn durations_are_differences_of_the_timeline_in_any_order() {
    for timeline in timelines() {
        let mut mapper = SpanMapper::new(&timeline);
        let mut spans = Vec::new();
        for start in TICKS {
            for end in TICKS.into_iter().filter(|&end| end >= start) {
                let expected = (
                    timeline.unix_ns(start),
                    timeline.duration_ns(start, end - start),
                );
                assert_eq!(
                    mapper.place(start, end - start),
                    expected,
                    "{start} to {end}"
                );
                spans.push((start, end - start));
            }
        }
        // Each behind any other, so that lines change in all ways.
        for first in &spans {
            for span in spans.iter().step_by(7) {
                let _ = mapper.place(first.0, first.1);
                let expected = (
                    timeline.unix_ns(span.0),
                    timeline.duration_ns(span.0, span.1),
                );
                assert_eq!(
                    mapper.place(span.0, span.1),
                    expected,
                    "{first:?}, {span:?}"
                );
            }
        }
        let batch = filled!(ThreadBatch {
            start_ticks: spans.iter().map(|span| span.0).collect(),
            duration_ticks: spans.iter().map(|span| span.1).collect(),
            sites: vec![SiteId(1); spans.len()]
        });
        let mut found = Vec::new();
        StatsBuilder::new().add_each(&timeline, &batch, |_, duration_ns, _| {
            found.push(duration_ns)
        });
        // Only the statistics end at the largest difference of two times.
        let most = i64::MAX.cast_unsigned();
        let expected = spans
            .iter()
            .map(|span| timeline.duration_ns(span.0, span.1).min(most));
        assert_eq!(found, expected.collect::<Vec<_>>());
    }
}

#[test]
fn single_spans_have_their_times_and_those_without_the_spans_inside() {
    let timeline = timeline(&[(1000, 5000, 2 * ONE), (2000, 7000, ONE)]);
    let mut timer = SpanTimer::default();
    let mut times = |thread, spans: &[(u64, u64)]| {
        let spans: Vec<(u32, u64, u64, &[u64])> = spans
            .iter()
            .map(|&(start, duration)| (1, start, duration, &[][..]))
            .collect();
        let found = timer.batch(&timeline, &batch(thread, &spans)).iter();
        found
            .map(|times| {
                (
                    times.start_unix_ns,
                    times.total_ns,
                    times.self_ns,
                    times.end_unix_ns(),
                )
            })
            .collect::<Vec<_>>()
    };
    assert!(times(1, &[]).is_empty());
    assert_eq!(
        times(1, &[(1100, 50), (1200, 20), (1050, 1000)]),
        [
            (5200, 100, 100, 5300),
            (5400, 40, 40, 5440),
            (5100, 1950, 1810, 7050),
        ]
    );
    // Those of other threads lie in none, and those of earlier batches do.
    assert_eq!(times(2, &[(1000, 3000)]), [(5000, 4000, 4000, 9000)]);
    assert_eq!(times(1, &[(1000, 3000)]), [(5000, 4000, 2050, 9000)]);
    // Before the first point.
    assert_eq!(times(3, &[(900, 10)]), [(4800, 20, 20, 4820)]);
    let longest = filled_times(i64::MAX - 5, 9);
    assert_eq!(longest.end_unix_ns(), i64::MAX);
    assert_eq!(timer.estimated_self_times(), 0);
}

fn filled_times(start_unix_ns: i64, total_ns: u64) -> SpanTimes {
    SpanTimes {
        start_unix_ns,
        total_ns,
        self_ns: 0,
    }
}

#[test]
fn a_timer_counts_the_spans_that_began_among_those_it_does_not_hold() {
    let timeline = Timeline::default();
    let mut timer = SpanTimer::default();
    let flat = 2 * HELD;
    let spans = filled!(ThreadBatch {
        start_ticks: (0..flat).map(|i| 10 + 10 * i).collect(),
        duration_ticks: vec![7; flat as usize],
        sites: vec![SiteId(1); flat as usize]
    });
    timer.batch(&timeline, &spans);
    assert_eq!(timer.estimated_self_times(), 0);
    for thread in [0, 3] {
        let around = batch(thread, &[(1, AMONG_THEM, 20 * flat, &[])]);
        let times = timer.batch(&timeline, &around)[0];
        assert_eq!(times.self_ns < times.total_ns, thread == 0);
        assert_eq!(timer.estimated_self_times(), 1);
    }
}
