//! A long column of numbers that is drawn at any zoom: its least and greatest values per pixel.
//!
//! The numbers stand in one column of `f32`s. Above it lie levels of nodes: a node of the first
//! level holds the least and the greatest of 16 numbers, one of the next level those of 16 nodes,
//! and so on until one node covers all. A range is put together from few nodes of each level,
//! so what drawing costs depends on the pixels and not on the numbers. All levels together take 8
//! bytes for 15 numbers.

use std::ops::Range;

/// Numbers or nodes below a node.
const FANOUT: usize = 16;

/// Least and greatest of what is below a node.
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

/// Levels of nodes. Were there more than 16⁷ numbers, the topmost level would have several nodes.
const LEVELS: usize = 7;

/// An append-only column of numbers, with the least and the greatest of any range at hand. What is
/// not finite is a gap.
#[derive(Clone, Debug, Default)]
pub struct MinMaxPyramid {
    values: Vec<f32>,
    /// The level above the values first. A level has a node for each 16 of what is below, the last
    /// one for the rest.
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
                // The nodes above reach as far as this one at least.
                Some(last) if last.min <= node.min && node.max <= last.max => break,
                Some(last) => *last = last.with(node),
                None => push(level, node),
            }
        }
    }

    /// Returns how many numbers there are, gaps included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether there is no number.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns how many of the numbers are gaps.
    #[must_use]
    pub fn gaps(&self) -> usize {
        self.gaps
    }

    /// Returns a number as it was appended; `None` behind the last one.
    #[must_use]
    pub fn get(&self, i: usize) -> Option<f32> {
        self.values.get(i).copied()
    }

    /// Returns the least and the greatest number of a range; `None` where there are only gaps. What
    /// lies behind the last number is left out.
    #[must_use]
    pub fn min_max(&self, range: Range<usize>) -> Option<(f32, f32)> {
        let (mut from, mut to) = (range.start, range.end.min(self.len()));
        if from >= to {
            return None;
        }
        // What does not fill a node is looked at one by one, and the rest at the level above.
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

    /// Returns the least and the greatest number for each of `width` pixels that show a range.
    /// Where there are more pixels than numbers, neighbours show the same one.
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

    /// Returns the bytes that are taken beside the numbers themselves.
    #[must_use]
    pub fn extra_bytes(&self) -> usize {
        let nodes: usize = self.levels.iter().map(Vec::capacity).sum();
        nodes * size_of::<Node>()
    }
}

/// Returns where the first whole node of a range begins and the last one ends; twice the range's
/// end if there is none.
fn edges(from: usize, to: usize) -> (usize, usize) {
    let (head, tail) = (from.next_multiple_of(FANOUT), to / FANOUT * FANOUT);
    if head < tail { (head, tail) } else { (to, to) }
}

/// Appends to a vector that grows by a sixteenth: twice the room would be as much as the levels
/// themselves.
fn push<T>(values: &mut Vec<T>, value: T) {
    if values.len() == values.capacity() {
        values.reserve_exact((values.len() / 16).max(64));
    }
    values.push(value);
}
