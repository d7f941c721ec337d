//! The cost of a scope on this machine, as reported to the program, and budgets that limit it.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use vor_fixtures::own_process;
use vor_recorder::drain;
use vor_recorder::setup;
use vor_recorder::setup::{SpanBudget, calibrate, clock_floor_ns, empty_span_ns};

/// One test, because a calibration lasts for the process.
#[test]
fn a_budget_is_kept_or_reports_the_excess() {
    own_process!();
    assert_eq!((empty_span_ns(), clock_floor_ns()), (0, 0));
    // The check calibrates where the program has not.
    SpanBudget::new().check().unwrap();
    assert!(empty_span_ns() > 0 && clock_floor_ns() > 0);
    assert!(!setup::is_enabled(), "recording is unchanged");

    SpanBudget::new()
        .max_ns(u64::MAX)
        .max_ratio(f64::MAX)
        .check()
        .unwrap();
    let too_slow = SpanBudget::new().max_ns(0).check().unwrap_err().to_string();
    assert!(
        too_slow.starts_with("an empty scope takes ")
            && too_slow.ends_with(" ns; the budget is 0 ns"),
        "{too_slow}"
    );
    // A scope itself reads the clock twice, so its cost is never near zero by that measure.
    let ratio = SpanBudget::new()
        .max_ratio(1e-9)
        .check()
        .unwrap_err()
        .to_string();
    assert!(
        ratio.contains(" times two clock readings (")
            && ratio.ends_with("; the budget is 0.000000001 times"),
        "{ratio}"
    );

    // The calibration measures real scopes: they are recorded where recording is on.
    vor_recorder::setup::Config::new().stats(true).enable();
    calibrate();
    assert!(setup::is_enabled());
    let rows = drain::stats();
    let scopes = rows.iter().find(|row| row.name == "vor::calibrate");
    assert!(
        scopes.is_some_and(|row| row.count >= 128 * 256),
        "{scopes:?}"
    );
}
