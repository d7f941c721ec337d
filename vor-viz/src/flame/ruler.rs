//! The scale above the flame chart.

use vor_capture::units;

use crate::view::TimeRange;

/// Minimum distance of two marks, in points.
const MIN_DISTANCE: f32 = 92.0;

/// Returns the moments of the marks in a range, in nanoseconds, and the step between them. They are
/// round numbers relative to `zero_ns`.
pub(super) fn marks(range: &TimeRange, zero_ns: f64, width: f32) -> (Vec<f64>, f64) {
    let most = (width / MIN_DISTANCE).max(1.0);
    let step = round_step(range.len_ns() / f64::from(most));
    let first = ((range.begin_ns - zero_ns) / step).ceil();
    let count = ((range.end_ns - zero_ns) / step).floor() - first;
    let marks =
        (0..=(count.clamp(-1.0, 100.0) as i64)).map(|i| zero_ns + (first + i as f64) * step);
    (marks.collect(), step)
}

/// Returns the smallest of 1, 2 and 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps
        .into_iter()
        .find(|step| *step >= least * 0.999_999)
        .unwrap_or(10.0 * power)
}

/// Returns the text of a mark, with the precision of the step.
pub(super) fn label(ns: f64, step_ns: f64) -> String {
    let (unit_ns, unit) = match ns.abs().max(step_ns) {
        size if size < 1e3 => (1.0, "ns"),
        size if size < 1e6 => (1e3, "µs"),
        size if size < 1e9 => (1e6, "ms"),
        size if size < 600e9 => (1e9, "s"),
        _ => return units::duration(ns),
    };
    let decimals = (-(step_ns / unit_ns).log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{:.decimals$} {unit}", ns / unit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_not_too_many() {
        let range = TimeRange {
            begin_ns: 1_000_050.0,
            end_ns: 17_000_050.0,
        };
        let (marks, step) = marks(&range, 1_000_050.0, 920.0);
        assert_eq!(step, 2e6);
        let from_zero: Vec<f64> = marks.iter().map(|mark| mark - 1_000_050.0).collect();
        assert_eq!(from_zero, [0.0, 2e6, 4e6, 6e6, 8e6, 10e6, 12e6, 14e6, 16e6]);
        assert_eq!(label(4e6, step), "4 ms");
        assert_eq!(label(1.25e6, 5e4), "1.25 ms");
        assert_eq!(label(0.0, 2e3), "0 µs");
    }

    #[test]
    fn extremes_give_few_marks() {
        for (begin_ns, end_ns) in [(-9e18, 9e18), (0.0, 20.0), (5e18, 5e18 + 20.0), (0.0, 0.0)] {
            let (marks, step) = marks(&TimeRange { begin_ns, end_ns }, 0.0, 4000.0);
            assert!(
                marks.len() <= 101 && step >= 1.0,
                "{} marks, step {step}",
                marks.len()
            );
        }
    }
}
