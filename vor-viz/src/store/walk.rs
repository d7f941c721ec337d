//! Spans together with what they contain, in slices: a walk may be left after any number of spans and gone on with later.

use super::row::Span;
use super::track::{Track, TrackKind};

/// Is told of spans: of each when it is entered, and when it is left, after all inside it.
pub trait SpanVisitor {
    /// A span begins. `depth` is the number of visited spans around it.
    fn enter(&mut self, span: &Span, depth: usize);

    /// The innermost span that was entered and not left ends. `inside_ns` is what the spans directly inside it took.
    fn leave(&mut self, span: &Span, depth: usize, inside_ns: u64);
}

/// A walk over the spans of a track that end after a moment, and by another one: those of some frames.
///
/// Spans around them that end later are not visited: the outermost ones visited are at depth 0 then. In a track of tasks, which do not contain one another,
/// all are at depth 0.
#[derive(Clone, Debug)]
pub struct Walk {
    begin_ns: i64,
    end_ns: i64,
    /// The row of the spans at depth 0. All that is left of the rows before it ends too late.
    base: usize,
    /// The spans that were entered and not left, and what those directly inside them took so far.
    open: Vec<(Span, u64)>,
    /// Number of the next span of each row.
    next: Vec<u64>,
}

impl Walk {
    /// Makes a walk over the spans that end after `begin_ns`, and by `end_ns`.
    #[must_use]
    pub fn new(track: &Track, begin_ns: i64, end_ns: i64) -> Self {
        let next = track.rows.iter().map(|row| row.number_ending_after(begin_ns));
        Self {
            begin_ns,
            end_ns,
            base: 0,
            open: Vec::new(),
            next: next.collect(),
        }
    }

    /// Visits up to `most` spans more; returns whether there may be others. The track must be the one that the walk was made for. Spans may have been
    /// appended since; what left is not visited any more.
    pub fn go_on(&mut self, track: &Track, most: usize, visitor: &mut impl SpanVisitor) -> bool {
        let (begin_ns, end_ns) = (self.begin_ns, self.end_ns);
        let rows = track.rows.iter().zip(&self.next);
        let mut rows: Vec<_> = rows
            .map(|(row, &next)| {
                let spans = row
                    .spans_from(next)
                    .take_while(|(_, span)| span.begin_ns <= end_ns);
                let spans = spans.filter(|(_, span)| {
                    let end = span.end_ns();
                    end > begin_ns && end <= end_ns
                });
                spans.peekable()
            })
            .collect();
        let nests = track.kind == TrackKind::Scopes;
        for _ in 0..most {
            // Whatever begins next inside the innermost open span, or outside all of them.
            let span = loop {
                let at = self.base + if nests { self.open.len() } else { 0 };
                let inside = match self.open.last() {
                    Some((around, _)) => {
                        let end_ns = around.end_ns();
                        rows.get_mut(at)
                            .filter(|_| nests)
                            .and_then(|row| row.next_if(|(_, span)| span.end_ns() <= end_ns))
                    }
                    None => rows.get_mut(at).and_then(Iterator::next),
                };
                if let Some((number, span)) = inside {
                    self.next[at] = number + 1;
                    break Some(span);
                }
                if !self.leave(visitor) {
                    self.base += 1;
                    if self.base >= rows.len() {
                        break None;
                    }
                }
            };
            let Some(span) = span else {
                return false;
            };
            visitor.enter(&span, self.open.len());
            self.open.push((span, 0));
        }
        true
    }

    /// Leaves the innermost open span; returns whether there was one.
    fn leave(&mut self, visitor: &mut impl SpanVisitor) -> bool {
        let Some((span, inside_ns)) = self.open.pop() else {
            return false;
        };
        visitor.leave(&span, self.open.len(), inside_ns);
        if let Some((_, around_ns)) = self.open.last_mut() {
            *around_ns += span.duration_ns;
        }
        true
    }
}
