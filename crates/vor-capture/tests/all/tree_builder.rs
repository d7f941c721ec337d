//! The tree builder against a quadratic one, on random threads with many equal begins and ends.

use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, Message, SpanArgs, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_capture::model::frame::{Span, ThreadTree, TreeBuilder};

/// `(start, end)` in the order of the ends.
type Ended = Vec<(u64, u64)>;

/// Opens and closes scopes according to `moves`, with a clock that often does not advance.
fn run_thread(moves: &[(bool, u8)]) -> Ended {
    let mut now = 1_000;
    let mut open = Vec::new();
    let mut ended = Vec::new();
    for &(opens, pause) in moves {
        now += u64::from(pause);
        if opens {
            open.push(now);
        } else if let Some(start) = open.pop() {
            ended.push((start, now));
        }
    }
    while let Some(start) = open.pop() {
        ended.push((start, now));
    }
    ended
}

/// Site `i + 1` belongs to the span that ended as the `i`-th, so that equal times cannot hide a
/// mix-up. Every third span has arguments.
fn batch_of(thread: u32, ended: &Ended, range: std::ops::Range<usize>) -> ThreadBatch {
    let mut batch = filled!(ThreadBatch {
        thread: ThreadId(thread)
    });
    for (at, i) in range.enumerate() {
        let (start, end) = ended[i];
        batch.start_ticks.push(start);
        batch.duration_ticks.push(end - start);
        batch.sites.push(SiteId(i as u32 + 1));
        if i.is_multiple_of(3) {
            batch.args.push(filled!(SpanArgs {
                span: at as u32,
                values: args_of(i),
            }));
        }
    }
    batch
}

fn args_of(i: usize) -> Vec<ArgValue> {
    if !i.is_multiple_of(3) {
        return Vec::new();
    }
    vec![ArgValue::U64(i as u64), ArgValue::Bool(i.is_multiple_of(2))]
}

/// The parent of a span is the first span that ends after it and contains it; the tree follows by
/// recursion.
fn naive(ended: &Ended) -> Vec<Span> {
    let parent: Vec<Option<usize>> = (0..ended.len())
        .map(|i| {
            let contains = |j: &usize| ended[*j].0 <= ended[i].0 && ended[i].1 <= ended[*j].1;
            (i + 1..ended.len()).find(contains)
        })
        .collect();
    let mut spans = Vec::new();
    append_children(ended, &parent, None, 0, &mut spans);
    spans
}

fn append_children(
    ended: &Ended,
    parent: &[Option<usize>],
    of: Option<usize>,
    depth: u32,
    spans: &mut Vec<Span>,
) {
    for i in (0..ended.len()).filter(|&i| parent[i] == of) {
        let at = spans.len();
        spans.push(filled!(Span {
            start_ticks: ended[i].0,
            duration_ticks: ended[i].1 - ended[i].0,
            site: SiteId(i as u32 + 1),
            depth
        }));
        append_children(ended, parent, Some(i), depth + 1, spans);
        spans[at].subtree_len = (spans.len() - at) as u32;
    }
}

fn assert_same(tree: &ThreadTree, expected: &[Span]) {
    let without_args = |span: &Span| {
        filled!(Span {
            args: (0, 0),
            ..*span
        })
    };
    let found: Vec<Span> = tree.spans.iter().map(without_args).collect();
    assert_eq!(found, expected);
    for span in &tree.spans {
        assert_eq!(tree.args(span), args_of(span.site.0 as usize - 1));
    }
}

/// Checks the properties of every tree, for any input.
fn assert_sound(tree: &ThreadTree) {
    for (i, span) in tree.spans.iter().enumerate() {
        let subtree = i + 1..i + span.subtree_len as usize;
        assert!(span.subtree_len >= 1 && subtree.end <= tree.spans.len());
        for below in &tree.spans[subtree.clone()] {
            assert!(below.depth > span.depth);
            assert!(span.start_ticks <= below.start_ticks && below.end_ticks() <= span.end_ticks());
        }
        if let Some(after) = tree.spans.get(subtree.end) {
            assert!(after.depth <= span.depth);
        }
    }
    assert!(tree.spans.first().is_none_or(|span| span.depth == 0));
}

fn moves() -> impl Strategy<Value = Vec<(bool, u8)>> {
    let pause = prop_oneof![3 => Just(0_u8), 2 => 1_u8..4];
    prop::collection::vec((any::<bool>(), pause), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_naive_tree(
        frames in prop::collection::vec(prop::collection::vec(moves(), 1..6), 1..4),
        cut in 1_usize..20,
    ) {
        let mut builder = TreeBuilder::new(1 << 20);
        for threads in &frames {
            let threads: Vec<Ended> = threads.iter().map(|moves| run_thread(moves)).collect();
            let longest = threads.iter().map(Vec::len).max().unwrap_or(0);
            // The batches of all threads alternate, as those of drains do.
            for from in (0..longest).step_by(cut) {
                let part = |(id, ended): (usize, &Ended)| {
                    let to = ended.len().min(from + cut);
                    batch_of(9 - id as u32, ended, from.min(to)..to)
                };
                builder.add_batch(&filled!(SpanBatch {
                    threads: threads.iter().enumerate().map(part).collect() }));
            }
            let trees = builder.finish();
            let count: usize = threads.iter().map(Vec::len).sum();
            prop_assert_eq!(trees.span_count, count as u64);
            let mut expected: Vec<(u32, &Ended)> =
                threads.iter().enumerate().map(|(id, ended)| (9 - id as u32, ended)).collect();
            expected.retain(|(_, ended)| !ended.is_empty());
            expected.reverse();
            prop_assert_eq!(trees.threads.len(), expected.len());
            for (tree, (id, ended)) in trees.threads.iter().zip(expected) {
                prop_assert_eq!(tree.thread, ThreadId(id));
                assert_same(tree, &naive(ended));
                assert_sound(tree);
            }
            builder.recycle(trees.threads);
        }
    }

    #[test]
    fn holds_no_more_than_the_limit(moves in moves(), limit in 0_usize..30, cut in 1_usize..20) {
        let ended = run_thread(&moves);
        let mut builder = TreeBuilder::new(limit);
        for from in (0..ended.len()).step_by(cut) {
            builder.add(&batch_of(0, &ended, from..ended.len().min(from + cut)));
        }
        let trees = builder.finish();
        prop_assert_eq!(trees.span_count, ended.len() as u64);
        let Some(tree) = trees.threads.first() else {
            prop_assert!(ended.is_empty());
            return Ok(());
        };
        prop_assert_eq!(tree.spans.len(), ended.len().min(limit));
        assert_sound(tree);
        // Every span that is kept has the depth and the order of the whole tree, because the spans
        // around it are kept too.
        let whole = naive(&ended);
        let mut rest = whole.iter();
        for span in &tree.spans {
            let same = rest.find(|other| other.site == span.site);
            let same = same.expect("the order of the whole tree");
            prop_assert_eq!(same.depth, span.depth);
            prop_assert_eq!(tree.args(span), args_of(span.site.0 as usize - 1));
        }
    }

    #[test]
    fn any_order_and_any_times_give_a_sound_tree(
        spans in prop::collection::vec((0_u64..20, 0_u64..20), 0..100),
        far in any::<bool>(),
    ) {
        let base = if far { u64::MAX - 20 } else { 0 };
        let batch = filled!(ThreadBatch {
            start_ticks: spans.iter().map(|span| base + span.0).collect(),
            duration_ticks: spans.iter().map(|span| span.1).collect(),
            sites: vec![SiteId(1); spans.len()] });
        let mut builder = TreeBuilder::new(1 << 20);
        builder.add(&batch);
        for tree in builder.finish().threads {
            prop_assert_eq!(tree.spans.len(), spans.len());
            assert_sound(&tree);
        }
    }
}

#[test]
fn equal_starts_and_zero_lengths_nest_under_the_later_end() {
    let ended = vec![(5, 5), (5, 5), (5, 9), (9, 9), (4, 9), (12, 12)];
    let mut builder = TreeBuilder::new(100);
    builder.add(&batch_of(3, &ended, 0..6));
    let trees = builder.finish();
    let shape: Vec<(u32, u32, u32)> = trees.threads[0]
        .spans
        .iter()
        .map(|span| (span.site.0, span.depth, span.subtree_len))
        .collect();
    assert_eq!(
        shape,
        [
            (5, 0, 5),
            (3, 1, 3),
            (2, 2, 2),
            (1, 3, 1),
            (4, 1, 1),
            (6, 0, 1)
        ]
    );
}

#[test]
fn children_of_a_parent_that_ends_in_a_later_frame_are_roots_of_theirs() {
    let ended = vec![(20, 30), (40, 50), (10, 60)];
    let mut builder = TreeBuilder::new(100);
    builder.add(&batch_of(0, &ended, 0..2));
    let first = builder.finish();
    builder.add(&batch_of(0, &ended, 2..3));
    let second = builder.finish();
    let depths = |tree: &ThreadTree| tree.spans.iter().map(|span| span.depth).collect::<Vec<_>>();
    assert_eq!(depths(&first.threads[0]), [0, 0]);
    assert_eq!(depths(&second.threads[0]), [0]);
    assert_eq!(second.threads[0].spans[0].subtree_len, 1);
}

#[test]
fn the_limit_keeps_the_scopes_around_the_first_spans() {
    // 1000 leaves inside `step`, inside `run`: the limit of 10 keeps both scopes and the first
    // eight leaves.
    let mut ended: Ended = (0..1_000).map(|i| (100 + i * 10, 105 + i * 10)).collect();
    ended.push((90, 20_000));
    ended.push((80, 20_001));
    let mut builder = TreeBuilder::new(10);
    builder.add(&batch_of(0, &ended, 0..700));
    builder.add(&batch_of(0, &ended, 700..1_002));
    let trees = builder.finish();
    let shown: Vec<(u32, u32, u32)> = trees.threads[0]
        .spans
        .iter()
        .map(|span| (span.site.0, span.depth, span.subtree_len))
        .collect();
    assert_eq!(shown[..3], [(1_002, 0, 10), (1_001, 1, 9), (1, 2, 1)]);
    assert_eq!(shown[9], (8, 2, 1));
    assert_eq!(trees.span_count, 1_002);
}

#[test]
fn messages_and_drops_pass_through() {
    let message = |ticks: u64, text: &str| {
        filled!(Message {
            ticks,
            text: text.into(),
        })
    };
    let mut builder = TreeBuilder::new(0);
    for (ticks, text) in [(5, "one"), (6, "two")] {
        builder.add(&filled!(ThreadBatch {
            thread: ThreadId(7),
            messages: vec![message(ticks, text)],
            dropped_spans: 3
        }));
    }
    builder.add(&filled!(ThreadBatch {
        thread: ThreadId(8),
        dropped_spans: 1
    }));
    let trees = builder.finish();
    assert_eq!(trees.dropped_spans, 7);
    assert_eq!(trees.threads.len(), 1);
    assert_eq!(trees.threads[0].thread, ThreadId(7));
    assert_eq!(
        trees.threads[0].messages,
        [message(5, "one"), message(6, "two")]
    );
    assert_eq!(
        builder.finish(),
        vor_capture::model::frame::Trees::default()
    );
}
