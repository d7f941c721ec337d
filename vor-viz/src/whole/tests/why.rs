//! Times of scopes in single frames, compared with sums made span by span.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Extent, Given, PART_BYTES, RangeScope, made, opened, shape};
use crate::store::TrackKind;
use crate::why::{FrameCells, WhyOptions};

/// Total, self time and number of calls of each site in a frame.
type Sums = BTreeMap<u32, (u64, i64, u64)>;

fn sums_of(spans: &[Given], (from, to): (i64, i64)) -> Sums {
    let part = |span: &Given| {
        let (begin, end) = (span.begin_ns, span.end_ns());
        let is_in = end > from && (begin < to || end == to);
        is_in.then(|| (end.min(to) - begin.max(from)).max(0) as u64)
    };
    let mut sums = Sums::new();
    for span in spans {
        let Some(ns) = part(span) else {
            continue;
        };
        let around = std::iter::successors(span.parent, |&at| spans[at].parent);
        let is_inner = around.clone().any(|at| spans[at].site == span.site);
        let sum = sums.entry(span.site.0).or_default();
        sum.0 += if is_inner { 0 } else { ns };
        sum.1 += ns as i64;
        sum.2 += 1;
        if let Some(parent) = span.parent {
            sums.entry(spans[parent].site.0).or_default().1 -= ns as i64;
        }
    }
    sums
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

proptest! {
    #[test]
    fn frames_have_the_times_of_their_spans(
        seed in any::<u64>(),
        shape in shape(),
        mut cuts in prop::collection::vec(-0.1..1.1_f64, 2..40),
        chosen in any::<prop::sample::Index>(),
    ) {
        let made = made(seed, shape);
        let mut opened = opened(made.bytes, made.origin_ns, Some(PART_BYTES));
        let (begin_ns, end_ns) = opened.archive.bounds_ns().unwrap_or_default();
        cuts.sort_by(f64::total_cmp);
        let at = |share: f64| begin_ns + (share * (end_ns - begin_ns) as f64) as i64;
        let cuts: Vec<i64> = cuts.into_iter().map(at).collect();
        // Frames with gaps, and one of them to explain.
        let frames = cuts.chunks_exact(2).map(|cut| (cut[0], cut[1]));
        let mut frames: Vec<(i64, i64)> = frames.collect();
        let here = frames.remove(chosen.index(frames.len()));
        let scope = RangeScope {
            begin_ns: cuts[0],
            end_ns: cuts[cuts.len() - 1],
            extent: Extent::Clipped,
        };
        let options = WhyOptions { here, others: frames.clone().into() };
        let result = opened.answer::<FrameCells>(scope, &options);
        prop_assert_eq!((result.frames, result.left_out), (frames.len(), 0));
        let of_here = sums_of(&made.spans, here);
        let of_others = frames.iter().map(|frame| sums_of(&made.spans, *frame));
        let of_others: Vec<Sums> = of_others.collect();
        let sites = of_others.iter().chain([&of_here]).flat_map(BTreeMap::keys);
        let sites: std::collections::BTreeSet<u32> = sites.copied().collect();
        prop_assert_eq!(result.rows.len(), sites.len());
        for row in &result.rows {
            prop_assert_eq!(row.kind, TrackKind::Scopes);
            let get = |sums: &Sums| sums.get(&row.site.0).copied().unwrap_or_default();
            let here = get(&of_here);
            let of = |value: fn((u64, i64, u64)) -> f64| {
                median(of_others.iter().map(|sums| value(get(sums))))
            };
            prop_assert_eq!((row.here_ns, row.calls.0), (here.0, here.2));
            prop_assert_eq!(row.median_ns, of(|sum| sum.0 as f64));
            prop_assert_eq!(row.calls.1, of(|sum| sum.2 as f64));
            prop_assert_eq!(row.self_change_ns, here.1 as f64 - of(|sum| sum.1 as f64));
            let shorter = of_others.iter().filter(|sums| get(sums).0 < here.0).count();
            prop_assert_eq!(row.shorter, shorter as f64 / frames.len().max(1) as f64);
            if let Some((low, high)) = row.interval_ns {
                prop_assert!(low as f64 <= row.median_ns && row.median_ns <= high as f64);
            }
        }
    }
}
