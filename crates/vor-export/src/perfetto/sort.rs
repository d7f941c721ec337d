//! From the order in which spans ended to that of their begins and ends.
//!
//! Read backwards, each span is followed by those within it: its end comes, then theirs, and its
//! begin when the next one lies outside of it. So a walk backwards with a stack of the spans around
//! finds all begins and ends, the last first.

use std::ops::Range;

/// The begin or the end of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge(u32);

impl Edge {
    const fn begin(span: u32) -> Self {
        Self(span << 1)
    }

    const fn end(span: u32) -> Self {
        Self(span << 1 | 1)
    }

    /// Returns which span it is of.
    #[inline]
    pub(super) const fn span(self) -> usize {
        (self.0 >> 1) as usize
    }

    #[inline]
    pub(super) const fn is_end(self) -> bool {
        self.0 & 1 != 0
    }
}

/// Puts begins and ends in order; buffers are kept.
#[derive(Debug, Default)]
pub(super) struct Sorter {
    /// The edges found, the last first.
    edges: Vec<Edge>,
    /// The spans around the one looked at, with their starts, the outermost first.
    around: Vec<(u32, u64)>,
}

impl Sorter {
    /// Returns the edges of the spans in `block`, which stand in the order of their ends, by time,
    /// the last first. Of spans with the same start, those that ended later are around the others.
    pub(super) fn sort(&mut self, start_ticks: &[u64], block: Range<usize>) -> &[Edge] {
        let Self { edges, around } = self;
        edges.clear();
        around.clear();
        edges.reserve(2 * block.len());
        for i in block.rev() {
            let (span, start) = (i as u32, start_ticks[i]);
            while let Some(&(outer, outer_start)) = around.last()
                && outer_start > start
            {
                edges.push(Edge::begin(outer));
                around.pop();
            }
            edges.push(Edge::end(span));
            around.push((span, start));
        }
        edges.extend(around.drain(..).rev().map(|(span, _)| Edge::begin(span)));
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(spans: &[(u64, u64)]) -> Vec<(usize, bool)> {
        let starts: Vec<u64> = spans.iter().map(|span| span.0).collect();
        let mut sorter = Sorter::default();
        let edges = sorter.sort(&starts, 0..spans.len());
        edges
            .iter()
            .rev()
            .map(|edge| (edge.span(), edge.is_end()))
            .collect()
    }

    #[test]
    fn begins_and_ends_come_by_time_and_parents_around_children() {
        // Two children of one parent, and a span behind it.
        let edges = sorted(&[(1, 2), (3, 4), (0, 5), (6, 7)]);
        let expected = [
            (2, false),
            (0, false),
            (0, true),
            (1, false),
            (1, true),
            (2, true),
            (3, false),
            (3, true),
        ];
        assert_eq!(edges, expected);
    }

    #[test]
    fn of_spans_with_one_start_the_last_to_end_is_around_the_others() {
        let edges = sorted(&[(5, 5), (5, 6), (5, 6)]);
        let expected = [
            (2, false),
            (1, false),
            (0, false),
            (0, true),
            (1, true),
            (2, true),
        ];
        assert_eq!(edges, expected);
    }
}
