//! What a scope costs here, as the program itself is told, and budgets that hold it to that.

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

/// One test, since what was calibrated stays for the process.
#[test]
fn a_budget_is_kept_or_says_by_how_much_it_is_not() {
    own_process!();
    assert_eq!((empty_span_ns(), clock_floor_ns()), (0, 0));
    // The check calibrates where nobody has.
    SpanBudget::new().check().unwrap();
    assert!(empty_span_ns() > 0 && clock_floor_ns() > 0);
    assert!(!setup::is_enabled(), "recording is as it was");

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
    // A scope reads the clock twice itself, so it never costs next to nothing of that.
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

    // What is measured is the real thing: its scopes are recorded where recording is on.
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
