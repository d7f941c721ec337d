//! `StatsBuilder` against a tree that is built naively.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::timeline::{ClockSync, RATE_BITS, Timeline};
use vor_capture::stats::{ScopeStats, StatsBuilder};
use vor_fixtures::random::rounds;

/// A step of a generated program.
#[derive(Clone, Copy, Debug)]
enum Step {
    Open(u32),
    Close,
    Wait(u64),
}

/// A span of the naive tree; its parent was known when it opened.
#[derive(Clone, Copy, Debug)]
struct Node {
    site: SiteId,
    start_ticks: u64,
    end_ticks: u64,
    parent: Option<usize>,
}

/// Runs the steps. Returns the spans in the order in which they opened, and their indices in the
/// order in which they ended.
fn run(steps: &[Step], mut now_ticks: u64) -> (Vec<Node>, Vec<usize>) {
    let (mut nodes, mut ended, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let close_all = std::iter::repeat_n(&Step::Close, steps.len());
    for step in steps.iter().chain(close_all) {
        match *step {
            Step::Open(site) => {
                let parent = open.last().copied();
                let site = SiteId(site);
                open.push(nodes.len());
                nodes.push(Node {
                    site,
                    start_ticks: now_ticks,
                    end_ticks: now_ticks,
                    parent,
                });
            }
            Step::Close => {
                if let Some(i) = open.pop() {
                    nodes[i].end_ticks = now_ticks;
                    ended.push(i);
                }
            }
            Step::Wait(ticks) => now_ticks += ticks,
        }
    }
    (nodes, ended)
}

fn batch_of(nodes: &[Node], ended: &[usize]) -> ThreadBatch {
    let spans = || ended.iter().map(|&i| nodes[i]);
    filled!(ThreadBatch {
        start_ticks: spans().map(|node| node.start_ticks).collect(),
        duration_ticks: spans()
            .map(|node| node.end_ticks - node.start_ticks)
            .collect(),
        sites: spans().map(|node| node.site).collect()
    })
}

#[derive(Debug, Default, PartialEq)]
struct Naive {
    durations_ns: Vec<u64>,
    /// Without the totals of spans inside others of the same site.
    total_ns: u64,
    self_ns: u64,
}

fn naive(nodes: &[Node], timeline: &Timeline) -> BTreeMap<SiteId, Naive> {
    let duration =
        |node: &Node| timeline.duration_ns(node.start_ticks, node.end_ticks - node.start_ticks);
    let mut self_ns: Vec<u64> = nodes.iter().map(duration).collect();
    for node in nodes {
        if let Some(parent) = node.parent {
            self_ns[parent] -= duration(node);
        }
    }
    let mut sites: BTreeMap<SiteId, Naive> = BTreeMap::new();
    for (node, self_ns) in nodes.iter().zip(self_ns) {
        let site = sites.entry(node.site).or_default();
        site.durations_ns.push(duration(node));
        let mut around = std::iter::successors(node.parent, |&parent| nodes[parent].parent);
        if !around.any(|outer| nodes[outer].site == node.site) {
            site.total_ns += duration(node);
        }
        site.self_ns += self_ns;
    }
    sites
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_u32..8).prop_map(Step::Open),
        3 => Just(Step::Close),
        // The clock sometimes does not advance, as coarse clocks do.
        3 => prop_oneof![Just(0_u64), 1_u64..40, 1_000_u64..100_000_000].prop_map(Step::Wait),
    ]
}

/// A timeline whose rate changes during the spans.
fn timeline(starts: &[(u64, u64)]) -> Timeline {
    let mut timeline = Timeline::default();
    let mut ticks = 500;
    let mut unix_ns = 1_700_000_000_000_000_000;
    let mut previous_rate = 1 << RATE_BITS;
    for &(gap, rate) in starts {
        ticks += gap;
        unix_ns += ((u128::from(gap) * u128::from(previous_rate)) >> RATE_BITS) as i64;
        assert!(timeline.push(filled!(ClockSync {
            ticks,
            unix_ns,
            rate,
            wall_ns: unix_ns
        })));
        previous_rate = rate;
    }
    timeline
}

fn timelines() -> impl Strategy<Value = Timeline> {
    let rate = (1_u64 << (RATE_BITS - 3))..(1_u64 << (RATE_BITS + 5));
    let point = (1_u64..200_000_000, rate);
    proptest::collection::vec(point, 0..6).prop_map(|points| timeline(&points))
}

fn exact(sorted: &[u64], quantile: f64) -> u64 {
    let rank = ((quantile * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
    sorted[rank - 1]
}

fn check(rows: &[ScopeStats], nodes: &[Node], timeline: &Timeline) -> Result<(), TestCaseError> {
    let mut expected = naive(nodes, timeline);
    prop_assert_eq!(rows.len(), expected.len());
    for (row, (site, naive)) in rows.iter().zip(&mut expected) {
        naive.durations_ns.sort_unstable();
        let durations = &naive.durations_ns;
        prop_assert_eq!(row.site, *site);
        prop_assert_eq!(row.count, durations.len() as u64);
        prop_assert_eq!(row.total_ns, naive.total_ns);
        prop_assert_eq!(row.self_ns, naive.self_ns);
        prop_assert_eq!(row.min_ns, durations[0]);
        prop_assert_eq!(row.max_ns, durations[durations.len() - 1]);
        prop_assert_eq!(
            row.mean_ns,
            durations.iter().sum::<u64>() as f64 / durations.len() as f64
        );
        for (found, quantile) in [(row.p50_ns, 0.50), (row.p95_ns, 0.95), (row.p99_ns, 0.99)] {
            let exact = exact(durations, quantile);
            prop_assert!(
                found.abs_diff(exact) <= exact / 64 + 1,
                "{} instead of {}",
                found,
                exact
            );
        }
    }
    let roots_ns: u64 = nodes
        .iter()
        .filter(|node| node.parent.is_none())
        .map(|node| timeline.duration_ns(node.start_ticks, node.end_ticks - node.start_ticks))
        .sum();
    prop_assert_eq!(rows.iter().map(|row| row.self_ns).sum::<u64>(), roots_ns);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(400) as u32))]

    #[test]
    fn equals_the_naive_tree(
        steps in proptest::collection::vec(step(), 0..300),
        begin in 0_u64..400_000_000,
        timeline in timelines(),
        batch_len in 1_usize..50,
    ) {
        let (nodes, ended) = run(&steps, begin);
        let mut stats = StatsBuilder::new();
        let mut sums: BTreeMap<SiteId, (u64, u64, u64)> = BTreeMap::new();
        for part in ended.chunks(batch_len) {
            stats.add_each(&timeline, &batch_of(&nodes, part), |site, duration_ns, self_ns| {
                let (count, durations, own) = sums.entry(site).or_default();
                (*count, *durations, *own) = (*count + 1, *durations + duration_ns, *own + self_ns);
            });
        }
        for row in stats.scope_stats(&Catalog::default()) {
            let (count, durations_ns, self_ns) = sums.remove(&row.site).unwrap_or_default();
            prop_assert_eq!((count, self_ns), (row.count, row.self_ns));
            prop_assert_eq!(row.mean_ns, durations_ns as f64 / count as f64);
        }
        prop_assert!(sums.is_empty());
        check(&stats.scope_stats(&Catalog::default()), &nodes, &timeline)?;
        prop_assert_eq!(stats.estimated_self_times(), 0);
        prop_assert_eq!(stats.span_count(), nodes.len() as u64);
    }

    #[test]
    fn settling_after_each_batch_changes_nothing(
        steps in proptest::collection::vec(step(), 0..300),
        timeline in timelines(),
        batch_len in 1_usize..20,
    ) {
        let (nodes, ended) = run(&steps, 1_000);
        let mut stats = StatsBuilder::new();
        let mut taken = 0;
        for part in ended.chunks(batch_len) {
            stats.add(&timeline, &batch_of(&nodes, part));
            taken += part.len();
            // The open scopes that a worker reads when the last span of the batch ends: those that
            // began by then and ended later.
            let as_of_ticks = nodes[part[part.len() - 1]].end_ticks;
            let mut open: Vec<(SiteId, u64)> = ended[taken..]
                .iter()
                .map(|&i| (nodes[i].site, nodes[i].start_ticks))
                .filter(|&(_, start)| start <= as_of_ticks)
                .collect();
            open.sort_by_key(|&(_, start)| start);
            stats.settle(ThreadId(0), as_of_ticks, &open);
        }
        check(&stats.scope_stats(&Catalog::default()), &nodes, &timeline)?;
        prop_assert_eq!(stats.estimated_self_times(), 0);
    }

    #[test]
    fn merging_threads_equals_adding_them_to_one_builder(
        left in proptest::collection::vec(step(), 0..200),
        right in proptest::collection::vec(step(), 0..200),
        cost_ns in 0_u64..50,
    ) {
        let thread = |steps: &[Step], thread: u32| {
            let (nodes, ended) = run(steps, 7);
            filled!(ThreadBatch {
                thread: ThreadId(thread),
                ..batch_of(&nodes, &ended)
            })
        };
        let threads = [thread(&left, 0), thread(&right, 1)];
        let catalog = Catalog::default();
        let mut parts = threads.clone().map(|batch| {
            let mut stats = StatsBuilder::new();
            stats.add(&catalog.timeline, &batch);
            stats
        });
        let mut together = StatsBuilder::new();
        together.add_batch(&filled!(SpanBatch {
            catalog: Arc::new(catalog.clone()),
            threads: threads.to_vec()
        }));
        let (first, second) = parts.split_at_mut(1);
        first[0].merge(&second[0]);
        let rows = together.scope_stats(&catalog);
        prop_assert_eq!(&first[0].scope_stats(&catalog), &rows);
        for row in rows {
            let corrected = row.corrected(cost_ns);
            prop_assert!(corrected.total_ns <= row.total_ns && corrected.self_ns <= row.self_ns);
            prop_assert_eq!(row.corrected(0), row);
        }
    }

    #[test]
    fn any_ticks_are_valid_input(
        spans in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u32>()), 0..200),
        syncs in proptest::collection::vec((any::<u64>(), any::<i64>(), 0_u64..1 << 62), 0..4),
    ) {
        let mut timeline = Timeline::default();
        for (ticks, unix_ns, rate) in syncs {
            timeline.push(filled!(ClockSync { ticks, unix_ns, rate, wall_ns: unix_ns }));
        }
        let batch = filled!(ThreadBatch {
            start_ticks: spans.iter().map(|span| span.0).collect(),
            duration_ticks: spans.iter().map(|span| span.1).collect(),
            sites: spans.iter().map(|span| SiteId(span.2)).collect() });
        let mut stats = StatsBuilder::new();
        stats.add(&timeline, &batch);
        stats.settle(ThreadId(0), u64::MAX / 2, &[(SiteId(3), 1), (SiteId(1), 5)]);
        stats.add(&timeline, &batch);
        prop_assert_eq!(stats.span_count(), 2 * spans.len() as u64);
        for row in stats.scope_stats(&Catalog::default()) {
            prop_assert!(row.min_ns <= row.p50_ns && row.p50_ns <= row.p95_ns);
            prop_assert!(row.p95_ns <= row.p99_ns && row.p99_ns <= row.max_ns);
            prop_assert!(row.self_ns <= row.total_ns);
        }
    }
}

#[test]
fn rows_have_names_and_unknown_sites_a_question_mark() {
    let site = filled!(SiteInfo {
        name: "decode".into()
    });
    let catalog = filled!(Catalog {
        sites: Arc::new(vec![Some(Arc::new(site))])
    });
    let batch = filled!(ThreadBatch {
        start_ticks: vec![10, 30, 50],
        duration_ticks: vec![5, 5, 5],
        sites: vec![SiteId(u32::MAX), SiteId(1), SiteId(2)]
    });
    let mut stats = StatsBuilder::new();
    stats.add(&catalog.timeline, &batch);
    let rows = stats.scope_stats(&catalog);
    let names: Vec<_> = rows
        .iter()
        .map(|row| (row.site.0, row.name.as_str()))
        .collect();
    assert_eq!(names, [(1, "decode"), (2, "?"), (u32::MAX, "?")]);
}

#[test]
fn correction_takes_half_of_a_scope_from_itself_and_half_from_its_parent() {
    // A root of 1 000 ns holds 3 scopes of 100 ns; one of these holds a scope of 40 ns.
    let batch = filled!(ThreadBatch {
        start_ticks: vec![10, 210, 430, 410, 0],
        duration_ticks: vec![100, 100, 40, 100, 1_000],
        sites: vec![SiteId(2), SiteId(2), SiteId(3), SiteId(2), SiteId(1)]
    });
    let catalog = Catalog::default();
    let mut stats = StatsBuilder::new();
    stats.add(&catalog.timeline, &batch);
    let rows = stats.scope_stats(&catalog);
    let (root, middle, leaf) = (&rows[0], &rows[1], &rows[2]);
    assert_eq!(
        (
            root.total_ns,
            root.self_ns,
            root.child_spans,
            root.descendant_spans
        ),
        (1_000, 700, 3, 4)
    );
    assert_eq!(
        (
            middle.total_ns,
            middle.self_ns,
            middle.child_spans,
            middle.descendant_spans
        ),
        (300, 260, 1, 1)
    );

    let corrected: Vec<_> = rows.iter().map(|row| row.corrected(20)).collect();
    assert_eq!(
        (corrected[0].total_ns, corrected[0].self_ns),
        (1_000 - 10 - 4 * 20, 700 - 10 - 3 * 10)
    );
    assert_eq!(
        (corrected[1].total_ns, corrected[1].self_ns),
        (300 - 3 * 10 - 20, 260 - 3 * 10 - 10)
    );
    assert_eq!(
        (
            corrected[2].total_ns,
            corrected[2].p50_ns,
            corrected[2].mean_ns
        ),
        (30, 30, 30.0)
    );
    let self_ns: u64 = corrected.iter().map(|row| row.self_ns).sum();
    assert_eq!(
        self_ns, corrected[0].total_ns,
        "the corrected self times add up as well"
    );

    let crushed = leaf.corrected(u64::MAX);
    assert_eq!(
        (
            crushed.total_ns,
            crushed.self_ns,
            crushed.min_ns,
            crushed.max_ns
        ),
        (0, 0, 0, 0)
    );
    assert_eq!(crushed.mean_ns, 0.0);
    assert_eq!(crushed.count, leaf.count);
}

#[test]
fn many_flat_children_across_batches_belong_to_their_root() {
    // A warm-up of flat roots, then a root with 300 000 children; the warm-up must not end up in
    // the root.
    let timeline = Timeline::default();
    let mut stats = StatsBuilder::new();
    let flat = |stats: &mut StatsBuilder, site: u32, from: u64, open: &[(SiteId, u64)]| {
        for part in 0..30 {
            let starts: Vec<u64> = (0..10_000)
                .map(|i| from + (part * 10_000 + i) * 10)
                .collect();
            let as_of_ticks = starts[starts.len() - 1] + 8;
            let batch = filled!(ThreadBatch {
                duration_ticks: vec![7; starts.len()],
                sites: vec![SiteId(site); starts.len()],
                start_ticks: starts
            });
            stats.add(&timeline, &batch);
            stats.settle(ThreadId(0), as_of_ticks, open);
        }
        from + 3_000_000
    };
    let root_start = flat(&mut stats, 1, 0, &[]);
    let root_end = flat(&mut stats, 2, root_start + 1, &[(SiteId(3), root_start)]);
    let root = filled!(ThreadBatch {
        start_ticks: vec![root_start],
        duration_ticks: vec![root_end - root_start],
        sites: vec![SiteId(3)]
    });
    stats.add(&timeline, &root);
    let rows = stats.scope_stats(&Catalog::default());
    assert_eq!(rows[2].child_spans, 300_000);
    assert_eq!(rows[1].self_ns + rows[2].self_ns, rows[2].total_ns);
    assert_eq!(stats.estimated_self_times(), 0);
    stats.end_thread(ThreadId(0));
    assert_eq!(stats.scope_stats(&Catalog::default()), rows);
}
