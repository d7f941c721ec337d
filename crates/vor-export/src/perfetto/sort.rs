//! Converts spans in order of their ends to begins and ends in order of time.
//!
//! Read backwards, each span is followed by its children: its end, then theirs, and its begin when
//! the next span is outside. So a backward walk with a stack of the enclosing spans finds all
//! begins and ends, the last first.

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

    /// Returns the position of its span.
    #[inline]
    pub(super) const fn span(self) -> usize {
        (self.0 >> 1) as usize
    }

    #[inline]
    pub(super) const fn is_end(self) -> bool {
        self.0 & 1 != 0
    }
}

/// Sorts begins and ends; reuses its buffers.
#[derive(Debug, Default)]
pub(super) struct Sorter {
    /// The edges, the last first.
    edges: Vec<Edge>,
    /// The spans around the current one, with their starts, the outermost first.
    ancestors: Vec<(u32, u64)>,
}

impl Sorter {
    /// Returns the edges of the spans in `block` by time, the last first. The spans are in order of
    /// their ends. A span encloses those with the same start that ended earlier.
    pub(super) fn sort(&mut self, start_ticks: &[u64], block: Range<usize>) -> &[Edge] {
        let Self { edges, ancestors } = self;
        edges.clear();
        ancestors.clear();
        for i in block.rev() {
            let (span, start) = (i as u32, start_ticks[i]);
            while let Some(&(outer, outer_start)) = ancestors.last()
                && outer_start > start
            {
                edges.push(Edge::begin(outer));
                ancestors.pop();
            }
            edges.push(Edge::end(span));
            ancestors.push((span, start));
        }
        edges.extend(ancestors.drain(..).rev().map(|(span, _)| Edge::begin(span)));
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
    fn edges_are_sorted_by_time_and_parents_enclose_children() {
        // Two children of one parent, and a later span.
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
    fn the_last_span_to_end_encloses_the_others_of_its_start() {
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
