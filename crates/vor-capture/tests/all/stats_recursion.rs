//! Totals of `StatsBuilder` where call sites are open inside themselves, against a model that
//! checks every moment of every thread.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, SpanArgs, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::measures::Measures;
use vor_capture::stats::StatsBuilder;

/// Number of single spans that a thread keeps without knowing what is open.
const HELD: u64 = if cfg!(miri) { 64 } else { 32_768 };

/// A step of a generated program.
#[derive(Clone, Copy, Debug)]
enum Step {
    Open(u32),
    Close,
    Wait(u64),
    /// A number of scopes one after the other, each directly inside the open scopes.
    Flat(u32, u64),
}

#[derive(Clone, Copy, Debug)]
struct Span {
    thread: u32,
    site: SiteId,
    start_ticks: u64,
    end_ticks: u64,
    /// Whether a scope of the same site, whose span was recorded, was open around it.
    is_nested: bool,
    off_cpu_ns: u64,
}

/// Runs a program on one thread and returns its spans in the order of their ends. One in
/// `drop_one_in` scopes is not recorded.
fn run(thread: u32, steps: &[Step], drop_one_in: u64) -> Vec<Span> {
    let mut now_ticks = 1_000;
    let mut opened = 0_u64;
    let mut open: Vec<(SiteId, u64, bool)> = Vec::new();
    let mut ended = Vec::new();
    let close_all = std::iter::repeat_n(&Step::Close, steps.len());
    let mut close = |open: &mut Vec<(SiteId, u64, bool)>, end_ticks| {
        let Some((site, start_ticks, is_recorded)) = open.pop() else {
            return;
        };
        if is_recorded {
            ended.push(Span {
                thread,
                site,
                start_ticks,
                end_ticks,
                is_nested: open.iter().any(|outer| outer.0 == site && outer.2),
                off_cpu_ns: (end_ticks - start_ticks) / 3,
            });
        }
    };
    let mut begin = |open: &mut Vec<_>, site, start_ticks| {
        opened += 1;
        let is_recorded = drop_one_in == 0 || !opened.is_multiple_of(drop_one_in);
        open.push((SiteId(site), start_ticks, is_recorded));
    };
    for step in steps.iter().chain(close_all) {
        match *step {
            Step::Open(site) => {
                now_ticks += 1;
                begin(&mut open, site, now_ticks);
            }
            Step::Close => {
                now_ticks += 1;
                close(&mut open, now_ticks);
            }
            Step::Wait(ticks) => now_ticks += ticks,
            Step::Flat(site, count) => {
                for i in 0..count {
                    begin(&mut open, site, now_ticks + 1);
                    now_ticks += 3 + i % 5;
                    close(&mut open, now_ticks);
                }
            }
        }
    }
    ended
}

/// Sites 1 to 5 measure only their duration, sites 6 to 9 also off-CPU time.
fn catalog() -> Catalog {
    let site = |id: u32| {
        let names = Measures::CPU.arg_names().filter(|_| id > 5);
        Some(Arc::new(filled!(SiteInfo {
            arg_names: names.map(Into::into).collect()
        })))
    };
    filled!(Catalog {
        sites: Arc::new((1..10).map(site).collect())
    })
}

fn batch_of(spans: &[Span]) -> SpanBatch {
    let mut threads: BTreeMap<u32, ThreadBatch> = BTreeMap::new();
    for span in spans {
        let batch = threads.entry(span.thread).or_default();
        batch.thread = ThreadId(span.thread);
        if span.site.0 > 5 && span.off_cpu_ns > 0 {
            batch.args.push(filled!(SpanArgs {
                span: batch.sites.len() as u32,
                values: vec![ArgValue::U64(span.off_cpu_ns)],
            }));
        }
        batch.start_ticks.push(span.start_ticks);
        batch.duration_ticks.push(span.end_ticks - span.start_ticks);
        batch.sites.push(span.site);
    }
    filled!(SpanBatch {
        catalog: Arc::new(catalog()),
        threads: threads.into_values().collect(),
    })
}

/// Returns for each site: the time during which it was open, summed over threads, and the number of
/// its calls inside others.
fn model(spans: &[Span]) -> BTreeMap<SiteId, (u64, u64, u64)> {
    let mut intervals: BTreeMap<(SiteId, u32), Vec<(u64, u64)>> = BTreeMap::new();
    let mut sites: BTreeMap<SiteId, (u64, u64, u64)> = BTreeMap::new();
    for span in spans {
        let of_thread = intervals.entry((span.site, span.thread)).or_default();
        of_thread.push((span.start_ticks, span.end_ticks));
        let site = sites.entry(span.site).or_default();
        site.1 += u64::from(span.is_nested);
        site.2 += if span.is_nested { 0 } else { span.off_cpu_ns };
    }
    for ((site, _), mut intervals) in intervals {
        intervals.sort_unstable();
        let mut open_until = 0;
        for (start, end) in intervals {
            sites.entry(site).or_default().0 += end.saturating_sub(start.max(open_until));
            open_until = open_until.max(end);
        }
    }
    sites
}

fn check(stats: &StatsBuilder, spans: &[Span]) -> Result<(), TestCaseError> {
    let expected = model(spans);
    let rows = stats.scope_stats(&catalog());
    prop_assert_eq!(rows.len(), expected.len());
    for row in rows {
        let own: Vec<&Span> = spans.iter().filter(|span| span.site == row.site).collect();
        let lengths_ns: u64 = own
            .iter()
            .map(|span| span.end_ticks - span.start_ticks)
            .sum();
        let (total_ns, nested, off_cpu_ns) = expected[&row.site];
        prop_assert_eq!(row.total_ns, total_ns, "of {:?}", row.site);
        prop_assert_eq!(row.nested_spans, nested, "of {:?}", row.site);
        prop_assert_eq!(row.count, own.len() as u64);
        prop_assert_eq!(row.mean_ns, lengths_ns as f64 / own.len() as f64);
        prop_assert!(row.self_ns <= row.total_ns, "{:?}", row);
        if row.site.0 > 5 {
            prop_assert_eq!(row.measured.off_cpu_ns, off_cpu_ns, "of {:?}", row.site);
        }
    }
    Ok(())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u32..10).prop_map(Step::Open),
        3 => Just(Step::Close),
        2 => (0_u64..1_000).prop_map(Step::Wait),
        1 => ((1_u32..10), (0_u64..20)).prop_map(|(site, count)| Step::Flat(site, count)),
    ]
}

/// Fewer sites with more scopes each, so that tens of thousands of subtrees wait.
fn long_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u32..4).prop_map(Step::Open),
        4 => (6_u32..8).prop_map(Step::Open),
        3 => Just(Step::Close),
        4 => ((1_u32..8), (0_u64..HELD / 2)).prop_map(|(site, count)| Step::Flat(site, count)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 300 }))]

    #[test]
    fn a_recursive_call_adds_nothing_to_the_call_around_it(
        programs in proptest::collection::vec(proptest::collection::vec(step(), 0..120), 1..4),
        batch_len in 1_usize..60,
        drop_one_in in 0_u64..7,
    ) {
        let threads = programs.iter().zip(1..);
        let spans = threads.flat_map(|(steps, thread)| run(thread, steps, drop_one_in));
        let mut spans: Vec<Span> = spans.collect();
        spans.sort_by_key(|span| span.end_ticks);
        let mut stats = StatsBuilder::new();
        for part in spans.chunks(batch_len) {
            stats.add_batch(&batch_of(part));
        }
        check(&stats, &spans)?;
        prop_assert_eq!(stats.estimated_self_times(), 0);
    }

    #[test]
    fn frames_from_the_middle_count_the_spans_that_ended_in_them(
        steps in proptest::collection::vec(step(), 0..120),
        from in 0_usize..100,
    ) {
        let spans = run(1, &steps, 0);
        let (before, of_frames) = spans.split_at(from.min(spans.len()));
        let mut stats = StatsBuilder::new();
        stats.add_batch(&batch_of(before));
        stats.restart();
        stats.add_batch(&batch_of(of_frames));
        let expected = model(of_frames);
        for row in stats.scope_stats(&catalog()) {
            prop_assert_eq!(row.total_ns, expected[&row.site].0);
        }
    }
}

/// A worker may be stopped between its reading of the open scopes and its pass.
#[test]
fn scopes_that_opened_after_the_reading_contain_any_number_of_recursive_calls() {
    let steps = [
        Step::Open(1),
        // The site is known to recurse before the log gives up its older half.
        Step::Open(1),
        Step::Open(1),
        Step::Close,
        Step::Close,
        // With the two before: no run of merged subtrees begins before `2` and ends in it.
        Step::Flat(1, 3 * HELD - 1),
        Step::Open(2),
        Step::Flat(1, 3 * HELD),
    ];
    let spans = run(1, &steps, 0);
    let (inside, around) = spans.split_at(spans.len() - 2);
    let mut stats = StatsBuilder::new();
    for part in inside.chunks(HELD as usize / 4) {
        stats.add_batch(&batch_of(part));
    }
    stats.settle(ThreadId(1), around[1].start_ticks, &[]);
    stats.add_batch(&batch_of(around));
    assert_eq!(stats.estimated_self_times(), 0);
    check(&stats, &spans).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 12 }))]

    #[test]
    fn a_second_pass_is_exact_for_any_number_of_waiting_spans(
        steps in proptest::collection::vec(long_step(), 1..30),
        batch_len in 1_000_usize..200_000,
    ) {
        let spans = run(1, &steps, 0);
        let add_all = |mut stats: StatsBuilder| {
            for part in spans.chunks(batch_len) {
                stats.add_batch(&batch_of(part));
            }
            stats
        };
        let mut stats = add_all(StatsBuilder::new());
        for _ in 0..3 {
            if let Some(again) = stats.for_second_pass() {
                stats = add_all(again);
            }
        }
        prop_assert_eq!(stats.estimated_self_times(), 0);
        check(&stats, &spans)?;
        let selfs: u64 = stats.scope_stats(&catalog()).iter().map(|row| row.self_ns).sum();
        let covered = spans.iter().map(|span| (span.start_ticks, span.end_ticks));
        let mut covered: Vec<(u64, u64)> = covered.collect();
        covered.sort_unstable();
        let (mut until, mut roots) = (0, 0);
        for (start, end) in covered {
            roots += end.saturating_sub(start.max(until));
            until = until.max(end);
        }
        prop_assert_eq!(selfs, roots);
    }
}

#[test]
fn time_goes_to_the_right_parent_beyond_the_limit_of_held_spans() {
    // run_all { leaf × HELD; parse { leaf × 40 000 } }: both parents are open while more spans wait
    // than are kept singly.
    let steps = [
        Step::Open(1),
        Step::Flat(3, HELD + 10_003),
        Step::Open(2),
        Step::Flat(3, 40_000),
        Step::Close,
        Step::Close,
    ];
    let spans = run(1, &steps, 0);
    let leaves = |from: usize, count: usize| -> u64 {
        let leaves = &spans[from..from + count];
        leaves
            .iter()
            .map(|span| span.end_ticks - span.start_ticks)
            .sum()
    };
    let before = HELD as usize + 10_003;
    let mut first = StatsBuilder::new();
    first.add_batch(&batch_of(&spans));
    let mut stats = first
        .for_second_pass()
        .expect("the first pass has to estimate");
    stats.add_batch(&batch_of(&spans));
    let rows = stats.scope_stats(&catalog());
    assert_eq!(rows[1].self_ns, rows[1].total_ns - leaves(before, 40_000));
    assert_eq!(
        rows[0].self_ns,
        rows[0].total_ns - rows[1].total_ns - leaves(0, before)
    );
    assert_eq!(
        (rows[1].child_spans, rows[0].child_spans),
        (40_000, HELD + 10_004)
    );
    assert_eq!(stats.estimated_self_times(), 0);
    assert!(stats.for_second_pass().is_none());
}

#[test]
fn correction_takes_the_cost_of_a_recursive_call_from_the_total_once() {
    // Site 1 calls itself, and the inner call calls a leaf.
    let steps = [
        Step::Open(1),
        Step::Wait(100),
        Step::Open(1),
        Step::Wait(100),
        Step::Open(2),
        Step::Wait(100),
        Step::Close,
        Step::Close,
        Step::Close,
    ];
    let spans = run(1, &steps, 0);
    let mut stats = StatsBuilder::new();
    stats.add_batch(&batch_of(&spans));
    let rows = stats.scope_stats(&catalog());
    let recursive = &rows[0];
    assert_eq!((recursive.count, recursive.nested_spans), (2, 1));
    assert_eq!(
        (
            recursive.descendant_spans,
            recursive.nested_descendant_spans
        ),
        (3, 1)
    );
    let corrected: Vec<_> = rows.iter().map(|row| row.corrected(20)).collect();
    assert_eq!(corrected[0].total_ns, recursive.total_ns - 10 - 2 * 20);
    let selfs: u64 = corrected.iter().map(|row| row.self_ns).sum();
    assert_eq!(selfs, corrected[0].total_ns);
}
