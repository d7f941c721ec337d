//! The slowest frames, of a whole capture or of a range of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::replay::Summary;
use crate::store::{FrameId, Store};
use crate::view::{Scope, View};

/// Maximum number of listed frames.
pub(super) const MOST: usize = 1_000;

/// Where a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePlace {
    /// In the capture, counted from 0.
    Capture(u64),
    /// In the store.
    Store(FrameId),
}

/// A slow frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowFrame {
    /// Where it is.
    pub place: FramePlace,
    /// The number that the program gave it.
    pub number: u64,
    /// Its begin in nanoseconds since the store's origin.
    pub begin_ns: i64,
    /// Its duration in milliseconds.
    pub duration_ms: f32,
}

impl SlowFrame {
    /// Returns a number that differs from those of the others, and ascends with time.
    const fn order(&self) -> u64 {
        match self.place {
            // Numbers of a damaged capture may be equal.
            FramePlace::Capture(place) => place,
            FramePlace::Store(_) => self.number,
        }
    }
}

/// Returns the slowest frames of a capture, at most `most`, the slowest first; with a time, only
/// those that overlap it. The earlier one wins a tie.
#[must_use]
pub fn slowest_frames(
    summary: &Summary,
    time_ns: Option<(i64, i64)>,
    most: usize,
) -> Vec<SlowFrame> {
    slowest(frames_from(summary, 0, time_ns), most)
}

/// Returns the frames of a capture from `first` on; with a time, only those that overlap it.
fn frames_from(
    summary: &Summary,
    first: u64,
    time_ns: Option<(i64, i64)>,
) -> impl Iterator<Item = SlowFrame> {
    let known = summary.durations_ms().len() as u64;
    let (begin_ns, end_ns) = time_ns.unwrap_or((i64::MIN, i64::MAX));
    let from = summary.frame_at(begin_ns).unwrap_or(0).max(first);
    let to = summary.frame_at(end_ns).map_or(0, |last| last + 1);
    let all = (from..to.min(known)).filter_map(|frame| {
        let duration_ms = summary.durations_ms().get(usize::try_from(frame).ok()?)?;
        Some(SlowFrame {
            place: FramePlace::Capture(frame),
            number: summary.numbers().number(frame),
            begin_ns: summary.begin_ns(frame)?,
            duration_ms,
        })
    });
    all.filter(move |frame| {
        let length_ns = (f64::from(frame.duration_ms) * 1e6) as i64;
        frame.begin_ns < end_ns && frame.begin_ns.saturating_add(length_ns) > begin_ns
    })
}

/// Returns the slowest of some frames of the store.
fn slowest_stored(store: &Store, (first, last): (usize, usize), most: usize) -> Vec<SlowFrame> {
    let end = (last + 1).min(store.frames().len());
    let frames = (first.min(end)..end).zip(store.frames().range(first.min(end)..end));
    let all = frames.map(|(index, frame)| SlowFrame {
        place: FramePlace::Store(store.id_at(index)),
        number: frame.number,
        begin_ns: frame.begin_ns,
        duration_ms: frame.duration_ms() as f32,
    });
    slowest(all, most)
}

fn slowest(frames: impl Iterator<Item = SlowFrame>, most: usize) -> Vec<SlowFrame> {
    // The top is the fastest of those kept: a frame beyond it costs one comparison. Durations are
    // never negative, so their bits have their order.
    let mut kept: BinaryHeap<Reverse<(u32, Reverse<u64>)>> = BinaryHeap::new();
    let mut places = rustc_hash::FxHashMap::default();
    for frame in frames.filter(|frame| frame.duration_ms >= 0.0) {
        let key = (frame.duration_ms.to_bits(), Reverse(frame.order()));
        let is_full = kept.len() >= most;
        if is_full && kept.peek().is_none_or(|Reverse(last)| key <= *last) {
            continue;
        }
        if is_full && let Some(Reverse((_, Reverse(order)))) = kept.pop() {
            places.remove(&order);
        }
        kept.push(Reverse(key));
        places.insert(frame.order(), frame);
    }
    let sorted = kept.into_sorted_vec().into_iter();
    sorted
        .filter_map(|Reverse((_, Reverse(order)))| places.remove(&order))
        .collect()
}

/// The things that a list depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Inputs {
    /// A capture: the time, and the number of known frames.
    Capture(Option<(i64, i64)>, u64),
    /// Frames of the store, and its version.
    Store(Option<Scope>, u64),
}

/// The list, and what it is of.
#[derive(Clone, Debug, Default)]
pub(super) struct SlowFrames {
    of: Option<Inputs>,
    pub(super) frames: Vec<SlowFrame>,
}

impl SlowFrames {
    /// Lists the frames again if the inputs changed.
    pub(super) fn update(
        &mut self,
        store: &Store,
        view: &View,
        scope: Option<Scope>,
        summary: Option<&Summary>,
    ) {
        let time_ns = match scope {
            Some(Scope::Time { begin_ns, end_ns }) => Some((begin_ns, end_ns)),
            _ => None,
        };
        // Selected frames are in the store.
        let summary = summary.filter(|_| view.selection().is_none());
        let now = match summary {
            Some(summary) => Inputs::Capture(time_ns, summary.durations_ms().len() as u64),
            None => Inputs::Store(scope, store.version()),
        };
        let before = self.of.replace(now);
        if before == Some(now) {
            return;
        }
        self.frames = match summary {
            Some(summary) => {
                // Of a capture that is being read, only the new frames are looked at.
                let (listed, seen) = match (before, now) {
                    (Some(Inputs::Capture(time, seen)), Inputs::Capture(_, known))
                        if time == time_ns && seen <= known =>
                    {
                        (std::mem::take(&mut self.frames), seen)
                    }
                    _ => (Vec::new(), 0),
                };
                let more = frames_from(summary, seen, time_ns);
                slowest(listed.into_iter().chain(more), MOST)
            }
            None => {
                let frames = match time_ns {
                    Some((begin_ns, end_ns)) => {
                        let last = store.frame_at(end_ns.saturating_sub(1));
                        store.frame_at(begin_ns).zip(last)
                    }
                    None => view.shown_frames(store),
                };
                let slowest = |frames| slowest_stored(store, frames, MOST);
                frames.map_or_else(Vec::new, slowest)
            }
        };
    }
}
