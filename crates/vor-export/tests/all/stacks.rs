//! Sums per stack of random programs: every nanosecond counts for the open scopes, even while very
//! many spans wait for one of them to end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_capture::reader::Lookahead;
use vor_capture::sink::FrameSink;
use vor_capture::stats::StatsBuilder;
use vor_export::collapsed::CollapsedExporter;
use vor_fixtures::programs::{self, Program, Shape};
use vor_fixtures::random::rounds;

type Sums = BTreeMap<(u32, Vec<u32>), u64>;

fn number(name: &str) -> u32 {
    name[1..].parse().unwrap()
}

/// Feeds an exporter, and reports the open scopes after each batch if they are known.
fn feed(exporter: &mut impl FrameSink, batches: &[SpanBatch], mut ahead: Option<Lookahead>) {
    for batch in batches {
        exporter.accept_batch(batch).unwrap();
        if let Some(ahead) = &mut ahead {
            exporter.accept_open(&ahead.after(batch)).unwrap();
        }
    }
    exporter.finish().unwrap();
}

fn look_ahead(batches: &[SpanBatch]) -> Lookahead {
    let mut ahead = Lookahead::default();
    batches.iter().for_each(|batch| ahead.add(batch));
    ahead
}

fn collapsed(batches: &[SpanBatch], ahead: Option<Lookahead>) -> Sums {
    let mut exporter = CollapsedExporter::new(Vec::new());
    feed(&mut exporter, batches, ahead);
    let text = String::from_utf8(exporter.into_inner()).unwrap();
    let mut sums = Sums::new();
    for line in text.lines() {
        let (stack, ns) = line.rsplit_once(' ').unwrap();
        let mut names = stack.split(';').map(number);
        let key = (names.next().unwrap(), names.collect());
        assert_eq!(
            sums.insert(key, ns.parse().unwrap()),
            None,
            "a stack has one line"
        );
    }
    sums
}

#[cfg(feature = "pprof")]
fn profile(batches: &[SpanBatch], ahead: Option<Lookahead>) -> Sums {
    let mut exporter = vor_export::pprof::PprofExporter::new(Vec::new());
    feed(&mut exporter, batches, ahead);
    let profile = vor_fixtures::pprof::read(&exporter.into_inner());
    let samples = profile.samples.iter().map(|sample| {
        let path = sample.names().into_iter().map(number).collect();
        (
            (number(&sample.labels["thread"]), path),
            sample.values[0] as u64,
        )
    });
    samples.collect()
}

/// Returns the self time of each call site, as in `vor stats`.
fn by_site(batches: &[SpanBatch]) -> BTreeMap<u32, u64> {
    let mut stats = StatsBuilder::new();
    batches.iter().for_each(|batch| stats.add_batch(batch));
    for _ in 1..StatsBuilder::MAX_PASSES {
        let Some(again) = stats.for_second_pass() else {
            break;
        };
        stats = again;
        batches.iter().for_each(|batch| stats.add_batch(batch));
    }
    assert_eq!(stats.estimated_self_times(), 0);
    let rows = stats.scope_stats(&batches[0].catalog);
    let sums = rows.iter().map(|row| (row.site.0, row.self_ns));
    sums.filter(|(_, ns)| *ns > 0).collect()
}

/// Reports differences only, because all sums may be megabytes.
fn same(found: &Sums, expected: &Sums, what: &str) {
    let differs = |(key, ns): &(&(u32, Vec<u32>), &u64)| found.get(*key) != Some(*ns);
    let missing = |(key, ns): (&(u32, Vec<u32>), &u64)| {
        ns.saturating_sub(found.get(key).copied().unwrap_or_default())
    };
    let wrong: u64 = expected.iter().map(missing).sum();
    let all: u64 = expected.values().sum();
    let first = expected.iter().find(differs);
    let first = first.map(|(key, ns)| format!("{key:?}: {:?}, expected {ns}", found.get(key)));
    assert!(
        first.is_none(),
        "{what}: {wrong} of {all} ns are misplaced; {first:?}"
    );
    let made_up = found.keys().find(|key| !expected.contains_key(*key));
    assert_eq!(made_up, None, "{what}: a stack that never existed");
}

/// Compares the exports without and with reports of open scopes.
fn same_exports(batches: &[SpanBatch], expected: &Sums) {
    same(&collapsed(batches, None), expected, "collapsed");
    let ahead = Some(look_ahead(batches));
    same(
        &collapsed(batches, ahead),
        expected,
        "collapsed, looking ahead",
    );
    #[cfg(feature = "pprof")]
    same(&profile(batches, None), expected, "pprof");
    #[cfg(feature = "pprof")]
    same(
        &profile(batches, Some(look_ahead(batches))),
        expected,
        "pprof, looking ahead",
    );
}

fn check(seed: u64, shape: Shape) {
    let Program {
        batches, self_ns, ..
    } = programs::run(seed, shape);
    same_exports(&batches, &self_ns);
    same_stats(&batches, &self_ns);
}

/// Compares the self times of call sites with those of all their stacks.
fn same_stats(batches: &[SpanBatch], self_ns: &Sums) {
    let mut expected = BTreeMap::new();
    for ((_, path), ns) in self_ns {
        *expected.entry(*path.last().unwrap()).or_insert(0) += ns;
    }
    assert!(
        by_site(batches) == expected,
        "the sums of `vor stats` differ"
    );
}

fn shapes() -> impl Strategy<Value = Shape> {
    let counts = (1_usize..4, 1_usize..3_000, 1_usize..12, 1_usize..40);
    let steps = (0_usize..60, 0_usize..40, 1_usize..700, 0_usize..30);
    let times = (
        0_usize..40,
        prop_oneof![Just(1_000), Just(417), Just(10_000)],
    );
    (counts, steps, times).prop_map(|(counts, steps, times)| Shape {
        threads: counts.0,
        spans: counts.1,
        sites: counts.2,
        max_depth: counts.3,
        opens: steps.0,
        ends: steps.1,
        max_batch: steps.2,
        drops: steps.3,
        max_ticks: times.0,
        tick_ps: times.1,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(200) as u32))]

    #[test]
    fn small_programs_have_the_self_times_of_all_stacks(seed: u64, shape in shapes()) {
        check(seed, shape);
    }
}

/// Scopes stay open around hundreds of thousands of others, at several depths, so all of these
/// wait.
#[test]
fn a_million_spans_have_the_self_times_of_all_stacks() {
    let wide = Shape {
        threads: 1,
        spans: 1_000_000,
        sites: 6,
        max_depth: 12,
        opens: 1,
        ends: 0,
        max_batch: 100_000,
        drops: 1,
        max_ticks: 20,
        tick_ps: 417,
    };
    let threaded = Shape {
        threads: 3,
        spans: 100_000,
        ends: 5,
        opens: 6,
        max_depth: 30,
        max_batch: 5_000,
        ..wide
    };
    let Program {
        batches, self_ns, ..
    } = programs::run(1, wide);
    same(&collapsed(&batches, None), &self_ns, "collapsed");
    same_stats(&batches, &self_ns);
    check(2, threaded);
}

/// A regression test over two frames: one scope around a second one around 40 000 leaves, and
/// leaves of the first scope before them.
#[test]
fn forty_thousand_leaves_over_two_frames_stay_below_their_parent() {
    let catalog = programs::catalog(1, 3, 1_000);
    let (run_all, parse, leaf) = (SiteId(1), SiteId(2), SiteId(3));
    let mut frames = [ThreadBatch::default(), ThreadBatch::default()];
    let mut now = 1_000;
    let mut span = |frame: usize, site: SiteId, start: u64, end: u64| {
        frames[frame].thread = ThreadId(0);
        frames[frame].start_ticks.push(start);
        frames[frame].duration_ticks.push(end - start);
        frames[frame].sites.push(site);
    };
    for i in 0..60_000_usize {
        // `parse` begins after the first third.
        let begin = now + if i == 20_000 { 500 } else { 3 };
        span(usize::from(i >= 40_000), leaf, begin, begin + 7);
        now = begin + 7;
    }
    let parse_begin = 1_000 + 20_000 * 10 + 250;
    span(1, parse, parse_begin, now + 50);
    span(1, run_all, 1_000, now + 90);
    let batches = frames.map(|frame| {
        filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: vec![frame],
        })
    });
    let expected = Sums::from([
        ((0, vec![1]), 20_000 * 3 + 250 + 40),
        ((0, vec![1, 3]), 20_000 * 7),
        ((0, vec![1, 2]), 250 + 39_999 * 3 + 50),
        ((0, vec![1, 2, 3]), 40_000 * 7),
    ]);
    same_exports(&batches, &expected);
}
