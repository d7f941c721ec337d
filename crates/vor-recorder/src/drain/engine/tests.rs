//! The engine with a clock that is wrong.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vor_fixtures::own_process;

use super::*;
use crate::drain::{catalog, start_for_tests, with_engine};

/// The recorder begins with a rate that is 0.3 percent too high. Its passes find that out, and
/// later times run as the wall clock does.
#[test]
fn passes_bend_a_wrong_timeline() {
    own_process!();
    let _turn = start_for_tests();
    let wrong = Synchroniser::start_too_fast(333);
    let first = wrong.last();
    with_engine(|engine| {
        let mut timeline = Timeline::default();
        timeline.push(first);
        let catalog = Arc::make_mut(&mut engine.catalog);
        catalog.timeline = Arc::new(timeline);
        engine.clock = wrong;
    });
    let timeline = || Arc::clone(&catalog().expect("the recorder runs").timeline);
    // The wall clock itself may be slewed by 500 parts per million.
    let true_rate = first.rate - first.rate / 334;
    let is_right = |rate: u64| rate.abs_diff(true_rate) < true_rate / 1500;
    let begun = Instant::now();
    let corrected = loop {
        let timeline = timeline();
        if let Some(last) = timeline.syncs().last().filter(|last| is_right(last.rate)) {
            break *last;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{:?}",
            timeline.syncs()
        );
        std::thread::sleep(Duration::from_millis(1));
    };
    std::thread::sleep(Duration::from_millis(500));
    // A reading of both clocks that nothing interrupts.
    let (late_ticks, wall_ns) = loop {
        let before = clock::ticks();
        let wall_ns = SystemTime::now().duration_since(UNIX_EPOCH);
        if clock::approximate_ns(clock::ticks() - before) < 50_000 {
            break (before, wall_ns.expect("after 1970").as_nanos() as i64);
        }
    };
    let timeline = timeline();
    let passed_ns = clock::approximate_ns(late_ticks - corrected.ticks) as i64;
    let error_ns = timeline.unix_ns(late_ticks) - wall_ns;
    let growth_ns = error_ns - (corrected.unix_ns - corrected.wall_ns);
    assert!(
        growth_ns.abs() < passed_ns / 1500 + 200_000,
        "the error has grown by {growth_ns} ns in {passed_ns} ns"
    );
    for pair in timeline.syncs().windows(2) {
        let continued_ns = pair[0].unix_ns_at(pair[1].ticks);
        assert_eq!(continued_ns, pair[1].unix_ns, "time has no step");
    }
}
