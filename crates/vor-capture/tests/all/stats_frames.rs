//! `FrameStats` against exact percentiles.

use proptest::prelude::*;
use vor_capture::stats::FrameStats;

const DAY_NS: u64 = 86_400_000_000_000;

fn exact(sorted: &[u64], quantile: f64) -> u64 {
    let rank = ((quantile * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
    sorted[rank - 1]
}

fn close(found: u64, exact: u64) -> bool {
    found.abs_diff(exact) as f64 <= exact as f64 * 0.001 + 1.0
}

#[test]
fn no_frames_are_zero_everywhere() {
    let stats = FrameStats::default();
    assert_eq!((stats.count(), stats.clamped()), (0, 0));
    assert_eq!((stats.p50_ns(), stats.p95_ns(), stats.p99_ns()), (0, 0, 0));
    assert_eq!(stats.mean_ns(), 0.0);
}

#[test]
fn durations_out_of_range_are_clamped_and_counted() {
    let mut stats = FrameStats::new();
    for ns in [0, 1, DAY_NS, DAY_NS + 1, u64::MAX] {
        stats.record_ns(ns);
    }
    assert_eq!(stats.count(), 5);
    assert_eq!(stats.clamped(), 2);
    assert!(close(stats.p99_ns(), DAY_NS), "{}", stats.p99_ns());
    assert_eq!(stats.mean_ns(), (1 + 3 * u128::from(DAY_NS)) as f64 / 5.0);
    let before = stats.clone();
    stats.clear();
    assert_eq!((stats.count(), stats.clamped(), stats.p99_ns()), (0, 0, 0));
    assert_eq!(stats.mean_ns(), 0.0);
    assert_eq!(before.clamped(), 2, "a clone is independent");
    let shown = format!("{before:?}");
    assert!(
        shown.contains("count: 5") && shown.contains("clamped: 2"),
        "{shown}"
    );
}

proptest! {
    #[test]
    fn percentiles_have_three_digits(
        mut frames in proptest::collection::vec(0_u64..20_000_000_000, 1..500),
    ) {
        let mut stats = FrameStats::new();
        for &ns in &frames {
            stats.record_ns(ns);
        }
        frames.sort_unstable();
        prop_assert_eq!(stats.count(), frames.len() as u64);
        prop_assert_eq!(stats.clamped(), 0);
        for (found, quantile) in [
            (stats.p50_ns(), 0.50),
            (stats.p95_ns(), 0.95),
            (stats.p99_ns(), 0.99),
        ] {
            let exact = exact(&frames, quantile);
            prop_assert!(
                close(found, exact),
                "{} instead of {} at {}",
                found,
                exact,
                quantile
            );
        }
        let mean = frames.iter().sum::<u64>() as f64 / frames.len() as f64;
        prop_assert!((stats.mean_ns() - mean).abs() <= mean * 1e-9);
    }
}
