//! The nesting depth of spans, computed from the order of their ends.
//!
//! The parent of a span is the nearest span that ended later and did not begin later. The spans are
//! therefore processed from the last one backwards, with the begins of the open spans on a stack. A
//! span that began later than the next one is not around it and leaves the stack. This takes less
//! than half the time of a tree, which also knows the children of each span.

use vor_capture::model::batch::ThreadBatch;

/// Maximum number of rows.
const MAX_ROWS: usize = 1 << u8::BITS;

/// Writes the depth of each span of a thread's batches, in their order, and returns the number of
/// rows. Returns `None` if the spans did not end in their order or are very deep; then a tree is
/// needed.
pub(super) fn find(batches: &[ThreadBatch], depths: &mut Vec<u8>) -> Option<usize> {
    let spans = batches.iter().map(ThreadBatch::len).sum();
    depths.clear();
    depths.resize(spans, 0);
    let mut open = [0; MAX_ROWS];
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut later_end, mut in_order) = (u64::MAX, true);
    let mut slots = depths.iter_mut().rev();
    for batch in batches.iter().rev() {
        let spans = batch.start_ticks.iter().zip(&batch.duration_ticks).rev();
        for ((&start_ticks, &duration_ticks), slot) in spans.zip(&mut slots) {
            let end_ticks = start_ticks.saturating_add(duration_ticks);
            in_order &= end_ticks <= later_end;
            later_end = end_ticks;
            while depth > 0 && open[depth - 1] > start_ticks {
                depth -= 1;
            }
            *open.get_mut(depth)? = start_ticks;
            *slot = depth as u8;
            depth += 1;
            deepest = deepest.max(depth);
        }
    }
    in_order.then_some(deepest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vor_capture::model::frame::TreeBuilder;

    use super::*;
    use vor_capture::filled;

    /// Splits spans into batches of `len`.
    fn batches(spans: &[(u64, u64)], len: usize) -> Vec<ThreadBatch> {
        let batch = |spans: &[(u64, u64)]| {
            filled!(ThreadBatch {
                start_ticks: spans.iter().map(|span| span.0).collect(),
                duration_ticks: spans.iter().map(|span| span.1 - span.0).collect(),
                sites: spans
                    .iter()
                    .map(|_| vor_capture::model::catalog::SiteId(1))
                    .collect()
            })
        };
        spans.chunks(len).map(batch).collect()
    }

    /// Returns the depths from a tree, in the order of begins.
    fn by_tree(batches: &[ThreadBatch]) -> Vec<(u64, u64, u8)> {
        let mut builder = TreeBuilder::new(usize::MAX);
        batches.iter().for_each(|batch| builder.add(batch));
        let trees = builder.finish().threads;
        let spans = trees.iter().flat_map(|tree| &tree.spans);
        let mut found: Vec<_> = spans
            .map(|span| (span.start_ticks, span.duration_ticks, span.depth as u8))
            .collect();
        found.sort_unstable();
        found
    }

    proptest! {
        /// The spans overlap in any way, begin or end together, or have zero duration. The result
        /// equals that of a tree, or is `None`.
        #[test]
        fn depths_are_those_of_the_tree(
            mut spans in prop::collection::vec((0..60_u64, 0..30_u64), 0..80),
            len in 1..9_usize,
            in_order in any::<bool>(),
        ) {
            spans.iter_mut().for_each(|span| span.1 += span.0);
            if in_order {
                spans.sort_by_key(|span| span.1);
            }
            let batches = batches(&spans, len);
            let mut depths = Vec::new();
            let rows = find(&batches, &mut depths);
            prop_assert_eq!(rows.is_some(), spans.is_sorted_by_key(|span| span.1));
            if let Some(rows) = rows {
                let mut found: Vec<_> = spans
                    .iter()
                    .zip(&depths)
                    .map(|(span, depth)| (span.0, span.1 - span.0, *depth))
                    .collect();
                found.sort_unstable();
                prop_assert_eq!(
                    depths
                        .iter()
                        .max()
                        .map_or(0, |&deepest| usize::from(deepest) + 1),
                    rows
                );
                prop_assert_eq!(found, by_tree(&batches));
            }
        }
    }

    #[test]
    fn very_deep_spans_are_left_to_the_tree() {
        let chain =
            |depth: u64| -> Vec<(u64, u64)> { (0..depth).rev().map(|i| (i, 1000 - i)).collect() };
        let mut depths = Vec::new();
        assert_eq!(find(&batches(&chain(8), 3), &mut depths), Some(8));
        assert_eq!(depths, [7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(find(&batches(&chain(256), 7), &mut depths), Some(256));
        assert_eq!(find(&batches(&chain(257), 7), &mut depths), None);
        assert_eq!(find(&[], &mut depths), Some(0));
        let last = u64::MAX;
        assert_eq!(
            find(&batches(&[(last, last), (last, last)], 1), &mut depths),
            Some(2)
        );
    }
}
