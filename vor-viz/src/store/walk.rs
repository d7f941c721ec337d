//! Walks over the spans of a time range and the spans inside them, in slices: a walk may pause
//! after any number of spans and resume later.
//!
//! ```text
//! range             |------------------------|
//! update        [===|========================|====]   clipped: its part, whole: not visited
//! draw            [=|====]                   |        clipped: its part, whole: all of it
//! draw              |         [======]       |        all of it
//! ```
//!
//! In clipped walks over adjacent ranges, the [parts](SpanPart) of a span add up to its duration. A
//! span of zero duration between two ranges belongs to the earlier one.

use vor_capture::model::batch::ArgValue;

use super::row::{Chunk, Row, Span};
use super::track::{Track, TrackKind};

/// The spans of a range that a walk visits, and the part of each that it measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Extent {
    /// The spans that overlap the range, with their time within it.
    #[default]
    Clipped,
    /// The spans that end within the range, with their whole time.
    Whole,
}

/// The measured part of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanPart {
    /// Its time within the range, or its duration if the walk measures whole spans.
    pub ns: u64,
    /// The total of the measured parts of the spans directly inside it. In a walk over whole spans,
    /// it includes those that ended before the range.
    pub inside_ns: u64,
}

impl SpanPart {
    /// Returns the time without the spans directly inside.
    #[inline]
    #[must_use]
    pub fn self_ns(&self) -> u64 {
        // In a damaged capture, spans may not nest.
        self.ns.saturating_sub(self.inside_ns)
    }
}

/// Visits spans: each span on entry, and on exit after all spans inside it.
pub trait SpanVisitor {
    /// A span begins. `depth` is the number of visited spans around it.
    fn enter(&mut self, span: &Span, depth: usize);

    /// As [`enter`](Self::enter), with the span's arguments; empty if it has none.
    #[inline]
    fn enter_with(&mut self, span: &Span, depth: usize, args: &[ArgValue]) {
        let _ = args;
        self.enter(span, depth);
    }

    /// The innermost open span ends.
    fn leave(&mut self, span: &Span, depth: usize, part: SpanPart);
}

/// A walk over the spans of a track within a time range, such as some frames.
///
/// Clipped spans have the depth that they have in the track. A walk over whole spans does not visit
/// those around them that end later; then the outermost visited spans are at depth 0. In a track of
/// tasks, which do not nest, all spans are at depth 0.
#[derive(Clone, Debug)]
pub struct Walk {
    begin_ns: i64,
    end_ns: i64,
    extent: Extent,
    /// The row of the spans at depth 0. The rows above it have no more spans to visit.
    base: usize,
    /// The open spans.
    open: Vec<Open>,
    /// Number of the next span of each row.
    next: Vec<u64>,
}

/// An open span: entered, and not left yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    span: Span,
    end_ns: i64,
    /// Total so far of the measured parts of the spans directly inside it.
    inside_ns: u64,
}

impl Walk {
    /// Makes a walk over the time from `begin_ns` to `end_ns`.
    #[must_use]
    pub fn new(track: &Track, begin_ns: i64, end_ns: i64, extent: Extent) -> Self {
        let next = track
            .rows
            .iter()
            .map(|row| row.number_ending_after(begin_ns));
        Self {
            begin_ns,
            end_ns,
            extent,
            base: 0,
            open: Vec::new(),
            next: next.collect(),
        }
    }

    /// Visits up to `most` more spans; returns whether more may follow. The track must be the one
    /// of [`new`](Self::new). Spans may have been appended since; removed ones are no longer
    /// visited. An appended span may contain spans of this walk and move them down a row. Then the
    /// walk may visit some spans twice or not at all.
    pub fn resume(&mut self, track: &Track, most: usize, visitor: &mut impl SpanVisitor) -> bool {
        let rows = track.rows.iter().zip(&self.next);
        let mut rows: Vec<Cursor<'_>> = rows.map(|(row, &next)| Cursor::new(row, next)).collect();
        let nests = track.id.kind() == TrackKind::Scopes;
        let more = self.visit(&mut rows, nests, most, visitor);
        for (next, cursor) in self.next.iter_mut().zip(&rows) {
            *next = cursor.number();
        }
        more
    }

    fn visit(
        &mut self,
        rows: &mut [Cursor<'_>],
        nests: bool,
        most: usize,
        visitor: &mut impl SpanVisitor,
    ) -> bool {
        let (begin_ns, until_ns) = (self.begin_ns, self.end_ns);
        // The moment by which an outermost span must end.
        let outermost_by_ns = match self.extent {
            Extent::Clipped => i64::MAX,
            Extent::Whole => until_ns,
        };
        for _ in 0..most {
            // The next span inside the innermost open span, or outside all of them.
            let (at, span, end_ns, args) = loop {
                let (at, by_ns) = match self.open.last() {
                    None => (self.base, outermost_by_ns),
                    Some(around) if nests => (self.base + self.open.len(), around.end_ns),
                    Some(_) => {
                        self.leave(visitor);
                        continue;
                    }
                };
                if let Some(row) = rows.get_mut(at)
                    && let Some((span, end_ns)) = row.next_within(begin_ns, until_ns, by_ns)
                {
                    break (at, span, end_ns, row.args());
                }
                if !self.leave(visitor) {
                    self.base += 1;
                    if self.base >= rows.len() {
                        return false;
                    }
                }
            };
            let mut inside_ns = 0;
            // This happens for at most one span per row.
            if span.begin_ns < begin_ns && nests && self.extent == Extent::Whole {
                let inside = rows.get(at + 1);
                inside_ns = inside.map_or(0, |inside| sum_ns(inside.row, span.begin_ns, begin_ns));
            }
            visitor.enter_with(&span, self.open.len(), args);
            self.open.push(Open {
                span,
                end_ns,
                inside_ns,
            });
        }
        true
    }

    /// Leaves the innermost open span; returns whether there was one.
    #[inline]
    fn leave(&mut self, visitor: &mut impl SpanVisitor) -> bool {
        let Some(open) = self.open.pop() else {
            return false;
        };
        let part = SpanPart {
            ns: self.measured_ns(&open),
            inside_ns: open.inside_ns,
        };
        visitor.leave(&open.span, self.open.len(), part);
        if let Some(around) = self.open.last_mut() {
            around.inside_ns = around.inside_ns.saturating_add(part.ns);
        }
        true
    }

    #[inline]
    fn measured_ns(&self, open: &Open) -> u64 {
        let is_inside = self.begin_ns <= open.span.begin_ns && open.end_ns <= self.end_ns;
        if is_inside || self.extent == Extent::Whole {
            return open.span.duration_ns;
        }
        let begin_ns = open.span.begin_ns.max(self.begin_ns);
        open.end_ns
            .min(self.end_ns)
            .max(begin_ns)
            .abs_diff(begin_ns)
    }
}

/// A position in a row.
#[derive(Debug)]
struct Cursor<'a> {
    row: &'a Row,
    /// Its chunk; `None` after the last one.
    chunk: Option<&'a Chunk>,
    chunk_at: usize,
    /// Index of the next span within the chunk.
    at: usize,
    /// Index of the next arguments within the chunk.
    args_at: usize,
}

impl<'a> Cursor<'a> {
    /// Makes a cursor at the span with a number, or at the next span if that one was removed.
    fn new(row: &'a Row, number: u64) -> Self {
        let end = |chunk: &Chunk| chunk.first_number + chunk.len() as u64;
        let chunk_at = row.chunks.partition_point(|chunk| end(chunk) <= number);
        let chunk = row.chunks.get(chunk_at);
        let first = chunk.map_or(0, |chunk| chunk.first_number);
        let at = number.saturating_sub(first) as usize;
        let args = chunk.map_or(&[][..], |chunk| &chunk.args);
        Self {
            row,
            chunk,
            chunk_at,
            at,
            args_at: args.partition_point(|args| (args.0 as usize) < at),
        }
    }

    /// Returns the number of the next span.
    fn number(&self) -> u64 {
        self.chunk.map_or(self.row.next_number, |chunk| {
            chunk.first_number + self.at as u64
        })
    }

    /// Returns the next span that overlaps a range and ends by a moment, with its end, and advances
    /// past it.
    #[inline(always)]
    fn next_within(&mut self, after_ns: i64, until_ns: i64, by_ns: i64) -> Option<(Span, i64)> {
        let last_ns = until_ns.min(by_ns);
        loop {
            let chunk = self.chunk?;
            let Some(&begin_ns) = chunk.begin_ns.get(self.at) else {
                self.next_chunk();
                continue;
            };
            // Usually the row's next span lies after all open spans.
            if begin_ns > last_ns {
                return None;
            }
            let span = chunk.span(self.at);
            let end_ns = span.end_ns();
            // Only a span of zero duration overlaps a range at whose end it begins.
            if end_ns > by_ns || (begin_ns == until_ns && end_ns > until_ns) {
                return None;
            }
            self.at += 1;
            if end_ns > after_ns {
                return Some((span, end_ns));
            }
        }
    }

    /// Returns the arguments of the span that was returned last.
    #[inline]
    fn args(&mut self) -> &'a [ArgValue] {
        let Some(chunk) = self.chunk.filter(|chunk| !chunk.args.is_empty()) else {
            return &[];
        };
        while let Some((of, args)) = chunk.args.get(self.args_at) {
            let of = *of as usize + 1;
            if of > self.at {
                break;
            }
            self.args_at += 1;
            if of == self.at {
                return args;
            }
        }
        &[]
    }

    #[cold]
    fn next_chunk(&mut self) {
        self.chunk_at += 1;
        self.chunk = self.row.chunks.get(self.chunk_at);
        self.at = 0;
        self.args_at = 0;
    }
}

/// Returns the total duration of the spans of a row that begin at or after a moment and end by
/// another one.
fn sum_ns(row: &Row, begin_ns: i64, end_ns: i64) -> u64 {
    let first = row
        .chunks
        .partition_point(|chunk| chunk.whole().end_ns < begin_ns);
    let chunks = row.chunks.range(first..);
    let chunks = chunks.take_while(|chunk| chunk.whole().begin_ns <= end_ns);
    let sum = |chunk: &Chunk| {
        let from = chunk.begin_ns.partition_point(|&begin| begin < begin_ns);
        let mut to = chunk
            .begin_ns
            .partition_point(|&begin| begin <= end_ns)
            .max(from);
        // Spans of a row do not overlap, so only the last one can end too late.
        if to > from && chunk.end_ns(to - 1) > end_ns {
            to -= 1;
        }
        if chunk.long_ns.is_empty() {
            let short = chunk.duration_ns[from..to].iter();
            short.map(|&ns| u64::from(ns)).sum()
        } else {
            (from..to).fold(0, |sum: u64, i| sum.saturating_add(chunk.duration_ns(i)))
        }
    };
    chunks.map(sum).fold(0, u64::saturating_add)
}
