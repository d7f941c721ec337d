//! The pyramid returns the same as a pass over all numbers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use vor_viz::pyramid::MinMaxPyramid;

fn pyramid(values: &[f32]) -> MinMaxPyramid {
    let mut pyramid = MinMaxPyramid::new();
    values.iter().for_each(|&value| pyramid.push(value));
    pyramid
}

fn brute_force(values: &[f32]) -> Option<(f32, f32)> {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    finite.fold(None, |all, value| {
        let (min, max) = all.unwrap_or((value, value));
        Some((min.min(value), max.max(value)))
    })
}

fn number() -> impl Strategy<Value = f32> {
    prop_oneof![
        20 => -1e6f32..1e6,
        1 => Just(f32::NAN),
        1 => Just(f32::INFINITY),
        1 => Just(f32::NEG_INFINITY),
        1 => Just(f32::MAX),
        1 => Just(f32::MIN),
    ]
}

/// Numbers; some have long ranges of gaps.
fn numbers() -> impl Strategy<Value = Vec<f32>> {
    let stretch = prop_oneof![
        3 => proptest::collection::vec(number(), 0..700),
        1 => (1usize..600).prop_map(|length| vec![f32::NAN; length]),
    ];
    proptest::collection::vec(stretch, 1..10).prop_map(|stretches| stretches.concat())
}

proptest! {
    #[test]
    fn any_range_has_its_minimum_and_maximum(
        values in numbers(), ends in proptest::collection::vec((0usize..8000, 0usize..8000), 1..60),
    ) {
        let pyramid = pyramid(&values);
        prop_assert_eq!(pyramid.len(), values.len());
        prop_assert_eq!(
            pyramid.gaps(),
            values.iter().filter(|value| !value.is_finite()).count()
        );
        for (from, to) in ends {
            let inside = values
                .get(from.min(values.len())..to.min(values.len()))
                .unwrap_or_default();
            prop_assert_eq!(
                pyramid.min_max(from..to),
                brute_force(inside),
                "{}..{}",
                from,
                to
            );
        }
        for (i, value) in values.iter().enumerate() {
            prop_assert_eq!(pyramid.get(i).map(f32::to_bits), Some(value.to_bits()));
        }
        prop_assert_eq!(pyramid.get(values.len()), None);
    }

    #[test]
    fn columns_leave_no_number_out(
        values in numbers(), from in 0usize..7000, length in 0usize..7000, width in 1usize..900,
    ) {
        let pyramid = pyramid(&values);
        let range = from..from + length;
        let columns: Vec<_> = pyramid.columns(range.clone(), width).collect();
        let inside = values
            .get(from.min(values.len())..(from + length).min(values.len()))
            .unwrap_or_default();
        prop_assert_eq!(columns.len(), if inside.is_empty() { 0 } else { width });
        let bounds: Vec<f32> = columns
            .iter()
            .flatten()
            .flat_map(|&(min, max)| [min, max])
            .collect();
        prop_assert_eq!(brute_force(&bounds), brute_force(inside));
        for (i, column) in columns.iter().enumerate() {
            let (first, end) = (i * inside.len() / width, (i + 1) * inside.len() / width);
            prop_assert_eq!(
                *column,
                brute_force(&inside[first..end.max(first + 1)]),
                "column {}",
                i
            );
        }
    }
}

#[test]
fn ten_million_numbers_take_six_megabytes_beside_them() {
    let mut pyramid = MinMaxPyramid::new();
    (0..10_000_000).for_each(|i| pyramid.push((i % 1013) as f32));
    assert!(
        pyramid.extra_bytes() <= 6_000_000,
        "{} bytes",
        pyramid.extra_bytes()
    );
    assert_eq!(pyramid.min_max(0..10_000_000), Some((0.0, 1012.0)));
    assert_eq!(pyramid.min_max(5_000_000..5_000_003), Some((845.0, 847.0)));
    #[expect(clippy::reversed_empty_ranges, reason = "what a caller might ask for")]
    let reversed = pyramid.min_max(7..3);
    assert_eq!(reversed, None);
    assert_eq!(pyramid.min_max(0..usize::MAX), Some((0.0, 1012.0)));
}
