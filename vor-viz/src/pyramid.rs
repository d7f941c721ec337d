//! A long column of numbers that is drawn at any zoom: minimum and maximum per pixel.
//!
//! The numbers are stored in one column of `f32`s, with levels of nodes above. A node of the first
//! level holds the minimum and maximum of 16 numbers. A node of each further level holds those of
//! 16 nodes, until one node covers everything. A range is composed of few nodes of each level. The
//! cost of drawing therefore depends on the number of pixels and not on the number of values. All
//! levels together take 8 bytes per 15 numbers.

use std::ops::Range;

/// Number of children of a node.
const FANOUT: usize = 16;

/// Minimum and maximum of everything below a node.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Node {
    min: f32,
    max: f32,
}

impl Node {
    const NONE: Self = Self {
        min: f32::INFINITY,
        max: f32::NEG_INFINITY,
    };

    #[inline]
    fn of(value: f32) -> Self {
        if value.is_finite() {
            Self {
                min: value,
                max: value,
            }
        } else {
            Self::NONE
        }
    }

    #[inline]
    fn with(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    fn min_max(self) -> Option<(f32, f32)> {
        (self.min <= self.max).then_some((self.min, self.max))
    }
}

/// Number of levels. With more than 16⁷ numbers, the topmost level would have several nodes.
const LEVELS: usize = 7;

/// An append-only column of numbers with fast minimum and maximum of any range. Numbers that are
/// not finite are gaps.
#[derive(Clone, Debug, Default)]
pub struct MinMaxPyramid {
    values: Vec<f32>,
    /// The level above the values first. A level has one node per 16 entries below it; the last
    /// node covers the rest.
    levels: [Vec<Node>; LEVELS],
    gaps: usize,
}

impl MinMaxPyramid {
    /// Makes an empty column.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a number; one that is not finite is a gap.
    pub fn push(&mut self, value: f32) {
        let node = Node::of(value);
        self.gaps += usize::from(!value.is_finite());
        let mut at = self.values.len();
        push(&mut self.values, value);
        for level in &mut self.levels {
            at /= FANOUT;
            match level.get_mut(at) {
                // The nodes above already cover this range.
                Some(last) if last.min <= node.min && node.max <= last.max => break,
                Some(last) => *last = last.with(node),
                None => push(level, node),
            }
        }
    }

    /// Returns the number of values, including gaps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the number of gaps.
    #[must_use]
    pub fn gaps(&self) -> usize {
        self.gaps
    }

    /// Returns a number in its original form; `None` after the last one.
    #[must_use]
    pub fn get(&self, i: usize) -> Option<f32> {
        self.values.get(i).copied()
    }

    /// Returns the minimum and maximum of a range; `None` if it has only gaps. The part of the
    /// range after the last number is ignored.
    #[must_use]
    pub fn min_max(&self, range: Range<usize>) -> Option<(f32, f32)> {
        let (mut from, mut to) = (range.start, range.end.min(self.len()));
        if from >= to {
            return None;
        }
        // Entries outside whole nodes are read one by one; the next level covers the rest.
        let (head, tail) = edges(from, to);
        let edges_of_values = [&self.values[from..head], &self.values[tail..to]];
        let values = edges_of_values.into_iter().flatten();
        let mut all = values.fold(Node::NONE, |all, &value| all.with(Node::of(value)));
        for (i, level) in self.levels.iter().enumerate() {
            (from, to) = (from.div_ceil(FANOUT), to / FANOUT);
            if from >= to {
                break;
            }
            let (head, tail) = if i + 1 < LEVELS {
                edges(from, to)
            } else {
                (to, to)
            };
            let nodes = level[from..head].iter().chain(&level[tail..to]);
            all = nodes.fold(all, |all, &node| all.with(node));
        }
        all.min_max()
    }

    /// Returns the minimum and maximum for each of `width` pixels that show a range. If there are
    /// more pixels than numbers, neighbours show the same number.
    pub fn columns(
        &self,
        range: Range<usize>,
        width: usize,
    ) -> impl Iterator<Item = Option<(f32, f32)>> + '_ {
        let to = range.end.min(self.len());
        let from = range.start.min(to);
        let length = (to - from) as u64;
        let width = if length == 0 { 0 } else { width as u64 };
        let edge =
            move |column: u64| from + (column.saturating_mul(length) / width.max(1)) as usize;
        (0..width).map(move |column| {
            let first = edge(column);
            self.min_max(first..edge(column + 1).max(first + 1))
        })
    }

    /// Returns the allocated bytes beside the numbers.
    #[must_use]
    pub fn extra_bytes(&self) -> usize {
        let nodes: usize = self.levels.iter().map(Vec::capacity).sum();
        nodes * size_of::<Node>()
    }
}

/// Returns the begin of the first whole node in a range and the end of the last one. Without a
/// whole node, both are the range's end.
fn edges(from: usize, to: usize) -> (usize, usize) {
    let (head, tail) = (from.next_multiple_of(FANOUT), to / FANOUT * FANOUT);
    if head < tail { (head, tail) } else { (to, to) }
}

/// Appends to a vector with growth by a sixteenth: doubling could waste as much memory as the
/// levels take.
fn push<T>(values: &mut Vec<T>, value: T) {
    if values.len() == values.capacity() {
        values.reserve_exact((values.len() / 16).max(64));
    }
    values.push(value);
}
