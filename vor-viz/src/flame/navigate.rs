//! Navigation from a span to its neighbours.

use vor_capture::model::catalog::{SiteId, ThreadId};

use crate::store::{Row, SiteSet, Span, Store, Track, TrackId, TrackKind};
use crate::view::{SpanRef, View};

/// A direction from a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the span around it.
    Parent,
    /// To the first span inside it.
    Child,
    /// To the span before it at the same depth.
    Previous,
    /// To the span after it at the same depth.
    Next,
}

/// Returns the neighbour of a span in a direction, if there is one.
#[must_use]
pub fn neighbour(store: &Store, from: &SpanRef, direction: Direction) -> Option<SpanRef> {
    let track = track_of(store, from)?;
    let row = track.rows.get(from.row)?;
    let nests = track.id.kind() == TrackKind::Scopes;
    let (row, span) = match direction {
        Direction::Parent if nests => {
            let above = from.row.checked_sub(1)?;
            (above, track.rows[above].span_at(from.span.begin_ns)?)
        }
        Direction::Child if nests => {
            let inside = first_inside(track.rows.get(from.row + 1)?, &from.span)?;
            (from.row + 1, inside)
        }
        Direction::Parent | Direction::Child => return None,
        Direction::Previous => (from.row, row.span_before(from.span.begin_ns)?),
        Direction::Next => {
            let mut later = row
                .spans(from.span.begin_ns, i64::MAX)
                .skip_while(|span| *span != from.span);
            (from.row, later.find(|span| *span != from.span)?)
        }
    };
    Some(SpanRef { row, span, ..*from })
}

/// Returns the next span of the given sites that begins after `from`, over all tracks; without it,
/// the first one that begins at `begin_ns` or later. After the last one comes the first.
#[must_use]
pub fn next_match(
    store: &Store,
    wanted: &SiteSet,
    from: Option<&SpanRef>,
    begin_ns: i64,
) -> Option<SpanRef> {
    let place = |found: &SpanRef| (found.span.begin_ns, found.track, found.row);
    let all = |after_ns: i64| {
        let tracks = store.shown_tracks().iter();
        tracks.flat_map(move |track| {
            let found = track.rows.iter().enumerate();
            found.filter_map(move |(row, spans)| {
                let span = spans.next_of(wanted, after_ns)?;
                Some(SpanRef {
                    track: track.id,
                    row,
                    span,
                })
            })
        })
    };
    let after = match from {
        None => all(begin_ns).min_by_key(place),
        Some(from) => {
            let here = place(from);
            // Spans in other rows may begin at the same moment.
            let same = all(from.span.begin_ns).filter(|found| place(found) > here);
            let later = all(from.span.begin_ns.saturating_add(1));
            same.chain(later).min_by_key(place)
        }
    };
    after.or_else(|| all(i64::MIN).min_by_key(place))
}

/// Returns the total duration and the number of the spans directly inside a span; `None` if there
/// are more than `most`.
#[must_use]
pub fn inside(store: &Store, from: &SpanRef, most: usize) -> Option<(u64, usize)> {
    let track = track_of(store, from)?;
    let Some(row) = track
        .rows
        .get(from.row + 1)
        .filter(|_| track.id.kind() == TrackKind::Scopes)
    else {
        return Some((0, 0));
    };
    let spans = row.spans(from.span.begin_ns, from.span.end_ns());
    let spans = spans
        .filter(|span| span.begin_ns >= from.span.begin_ns && span.end_ns() <= from.span.end_ns());
    let mut sum = (0, 0);
    for span in spans {
        sum.0 += span.duration_ns;
        sum.1 += 1;
        if sum.1 > most {
            return None;
        }
    }
    Some(sum)
}

/// Returns the track of a span, if it is still stored.
#[must_use]
pub fn track_of<'a>(store: &'a Store, span: &SpanRef) -> Option<&'a Track> {
    let tracks = store.shown_tracks();
    let at = tracks.binary_search_by_key(&span.track, |track| track.id);
    tracks.get(at.ok()?)
}

/// Finds a span among the rows: a scope that arrived later may contain it and have moved it down.
pub(crate) fn locate(store: &Store, id: TrackId, span: &Span) -> Option<SpanRef> {
    let mut tracks = store.shown_tracks().iter();
    let track = tracks.find(|track| track.id == id)?;
    let begin_ns = span.begin_ns;
    let row = track.rows.iter().position(|row| {
        let mut there = row.spans(begin_ns, begin_ns.saturating_add(1));
        there.any(|other| other == *span)
    })?;
    Some(SpanRef {
        track: id,
        row,
        span: *span,
    })
}

/// Shows a call in the flame chart and puts it into focus. In a running program without a selected
/// time, its frame is pinned. Returns whether the call is still there.
pub(crate) fn seek(
    store: &Store,
    view: &mut View,
    thread: ThreadId,
    kind: TrackKind,
    span: &Span,
) -> bool {
    let track = TrackId::drawn(thread, kind, span.site, store.catalog());
    if view.whole().is_none() && view.time_selection().is_none() {
        let Some(index) = frame_of(store, span) else {
            return false;
        };
        view.pin(store.id_at(index));
        view.focus = locate(store, track, span);
        return true;
    }
    let margin_ns = 0.2 * (span.duration_ns as f64).max(10.0);
    let (begin_ns, end_ns) = (span.begin_ns as f64, span.end_ns() as f64);
    view.zoom_to(begin_ns - margin_ns, end_ns + margin_ns);
    view.sought = Some((track, *span));
    true
}

/// The longest time around a moment that is shown for it.
const MOMENT_NS: f64 = 20e6;

/// Shows a moment of a thread, and marks it. Returns whether the store still has its frame.
pub(crate) fn seek_moment(store: &Store, view: &mut View, thread: ThreadId, ns: i64) -> bool {
    if view.whole().is_none() && view.time_selection().is_none() {
        let Some(index) = frame_of(store, &place_of(thread, ns).span) else {
            return false;
        };
        view.pin(store.id_at(index));
    } else {
        let shown = view.flame_axis(store);
        if !shown.contains(ns as f64) || shown.len_ns() > MOMENT_NS {
            let half_ns = shown.len_ns().min(MOMENT_NS) / 2.0;
            view.zoom_to(ns as f64 - half_ns, ns as f64 + half_ns);
            // Nothing is shown before the begin of everything and after its end.
            view.pan_by(store, 0.0);
        }
        view.focus = None;
    }
    view.mark(thread, ns);
    true
}

/// Returns the place of a moment: a span without a duration in the first row of its thread.
pub(super) fn place_of(thread: ThreadId, ns: i64) -> SpanRef {
    SpanRef {
        track: TrackId::Scopes(thread),
        row: 0,
        span: Span {
            begin_ns: ns,
            duration_ns: 0,
            site: SiteId(0),
        },
    }
}

/// Returns the index of the frame in which a span ended, if it is still stored.
pub(crate) fn frame_of(store: &Store, span: &Span) -> Option<usize> {
    // A span that ends together with a frame belongs to that frame.
    let end_ns = span.end_ns().saturating_sub(1);
    let index = store.frame_at(end_ns)?;
    (store.frames()[index].begin_ns <= end_ns.saturating_add(1)).then_some(index)
}

fn first_inside(row: &Row, around: &Span) -> Option<Span> {
    let first = row.span_after(around.begin_ns)?;
    (first.end_ns() <= around.end_ns()).then_some(first)
}
