//! Measured times of any range, compared with sums made span by span, and added up over ranges that
//! follow one another: of a capture that is read, and of a store that holds its spans.

use std::collections::BTreeMap;

use proptest::prelude::*;
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::frame::FrameSnapshot;

use super::{
    Arc, Extent, Given, Made, PART_BYTES, RangeScope, ScopeRows, ScopeSums, filled, made, opened,
    part_of, shape,
};
use crate::scopes::Job;
use crate::store::{FrameBlock, FrameEntry, Store};
use crate::view::Scope;

/// CPU time, queued and blocked time, context switches, and the number of estimates.
type Sums = BTreeMap<u32, [i64; 5]>;

fn sums_of(rows: &ScopeRows) -> Sums {
    let of = rows.rows.iter().filter_map(|row| {
        let [queued_ns, blocked_ns] = row.waits_ns()?;
        let switches = row.switches().unwrap_or(0);
        let sums = [
            row.cpu_ns()?,
            queued_ns,
            blocked_ns,
            switches,
            row.estimates,
        ];
        Some((row.site.0, sums.map(|sum| sum as i64)))
    });
    of.collect()
}

/// Returns the sums of a range, and how much each may be off by rounding.
fn expected(spans: &[Given], scope: RangeScope) -> (Sums, BTreeMap<u32, i64>) {
    let (from, to) = (scope.begin_ns, scope.end_ns);
    let is_whole = scope.extent == Extent::Whole;
    let visited = |span: &Given| match is_whole {
        true => span.end_ns() > from && span.end_ns() <= to,
        false => span.end_ns() > from && (span.begin_ns < to || span.end_ns() == to),
    };
    let mut sums: BTreeMap<u32, [f64; 5]> = BTreeMap::new();
    let mut cuts: BTreeMap<u32, i64> = BTreeMap::new();
    for span in spans.iter().filter(|span| visited(span)) {
        if span.site.0 % 2 == 0 {
            continue;
        }
        let around = std::iter::successors(span.parent, |&at| spans[at].parent);
        let around = around.filter(|&at| spans[at].site == span.site && visited(&spans[at]));
        let sum = sums.entry(span.site.0).or_default();
        if around.count() == 0 {
            let inside_ns = span.end_ns().min(to) - span.begin_ns.max(from);
            let part = match is_whole || span.duration_ns == 0 {
                true => 1.0,
                false => inside_ns as f64 / span.duration_ns as f64,
            };
            let [off_cpu_ns, queued_ns, _] = span.measured.map(|value| value as f64);
            sum[0] += (span.duration_ns as f64 - off_cpu_ns) * part;
            sum[1] += queued_ns * part;
            sum[2] += (off_cpu_ns - queued_ns) * part;
            if part < 1.0 {
                *cuts.entry(span.site.0).or_default() += 1;
                sum[4] += f64::from(u8::from(off_cpu_ns > 0.0));
            }
            if span.end_ns() <= to {
                sum[3] += span.measured[2] as f64;
            }
        }
    }
    let rounded = |(site, sum): (u32, [f64; 5])| (site, sum.map(|value| value.round() as i64));
    (sums.into_iter().map(rounded).collect(), cuts)
}

/// Returns a store of all spans, with a frame for each of some ranges that follow one another.
fn store_of(made: &Made, ranges: &[(i64, i64)]) -> Store {
    let threads = made.batches.iter().flat_map(|batch| &batch.threads);
    let threads: Vec<ThreadBatch> = threads.cloned().collect();
    let snapshot = filled!(FrameSnapshot {
        catalog: Arc::clone(&made.batches[0].catalog)
    });
    let mut store = Store::new(ranges.len(), usize::MAX);
    for &(begin_ns, end_ns) in ranges {
        store.push_frame(FrameEntry {
            begin_ns,
            end_ns,
            ..FrameEntry::default()
        });
    }
    store.add_spans(&FrameBlock::of_batches(&snapshot, threads, made.origin_ns));
    store
}

fn in_store(store: &Store, scope: Scope, extent: Extent) -> Sums {
    let mut job: Job<ScopeSums> = Job::default();
    job.finish(store, Some(scope), &extent);
    sums_of(job.output().unwrap())
}

proptest! {
    #[test]
    fn times_of_any_range_are_the_parts_of_its_spans(
        seed in any::<u64>(),
        shape in shape(),
        from in -0.1..1.1_f64,
        to in -0.1..1.1_f64,
        is_whole in any::<bool>(),
    ) {
        let made = made(seed, shape);
        let mut opened = opened(made.bytes.clone(), made.origin_ns, Some(PART_BYTES));
        let (begin_ns, end_ns) = part_of(&opened.archive, from, to);
        let extent = if is_whole { Extent::Whole } else { Extent::Clipped };
        let scope = RangeScope { begin_ns, end_ns, extent };
        let (expected, cuts) = expected(&made.spans, scope);
        let store = store_of(&made, &[(begin_ns, end_ns)]);
        for found in [
            sums_of(&opened.rows(scope)),
            in_store(&store, Scope::Time { begin_ns, end_ns }, extent),
            in_store(&store, (0, 0).into(), extent),
        ] {
            prop_assert!(found.keys().eq(expected.keys()), "{found:?} {expected:?}");
            for (site, expected) in &expected {
                let found = found[site];
                let may_differ = 1 + cuts.get(site).copied().unwrap_or(0);
                for (found, expected) in found.iter().zip(expected).take(3) {
                    prop_assert!((found - expected).abs() <= may_differ, "{found} {expected}");
                }
                prop_assert_eq!(&found[3..], &expected[3..]);
            }
        }
    }

    #[test]
    fn times_of_ranges_add_up_to_those_of_all(
        seed in any::<u64>(),
        shape in shape(),
        cuts in prop::collection::vec(0.0..1.0_f64, 0..9),
    ) {
        let made = made(seed, shape);
        let mut opened = opened(made.bytes.clone(), made.origin_ns, Some(PART_BYTES));
        let (first_ns, last_ns) = opened.archive.bounds_ns().unwrap_or_default();
        let at = |share: &f64| first_ns + (share * (last_ns - first_ns) as f64) as i64;
        let mut cuts: Vec<i64> = cuts.iter().map(at).collect();
        // A span of zero duration at the begin of a range belongs to the one before.
        cuts.extend([first_ns - 1, last_ns]);
        cuts.sort_unstable();
        let ranges: Vec<(i64, i64)> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let store = store_of(&made, &ranges);
        let extent = Extent::Clipped;
        let scope = |begin_ns, end_ns| RangeScope { begin_ns, end_ns, extent };
        let whole = sums_of(&opened.rows(scope(i64::MIN, i64::MAX)));
        let by_time = |begin_ns, end_ns| {
            in_store(&store, Scope::Time { begin_ns, end_ns }, extent)
        };
        let read: Vec<Sums> = ranges
            .iter()
            .map(|&(begin_ns, end_ns)| sums_of(&opened.rows(scope(begin_ns, end_ns))))
            .collect();
        let timed = ranges.iter().map(|&(begin_ns, end_ns)| by_time(begin_ns, end_ns)).collect();
        let by_frame = |at| in_store(&store, (at, at).into(), extent);
        let framed = (0..ranges.len()).map(by_frame).collect();
        for parts in [read, timed, framed] {
            let mut all = Sums::new();
            for (site, part) in parts.into_iter().flatten() {
                let sums = all.entry(site).or_default();
                *sums = [0, 1, 2, 3, 4].map(|i| sums[i] + part[i]);
            }
            prop_assert!(all.keys().eq(whole.keys()));
            for (site, whole) in &whole {
                let all = all[site];
                prop_assert_eq!(&all[..4], &whole[..4]);
                prop_assert_eq!(whole[4], 0);
            }
        }
    }
}
