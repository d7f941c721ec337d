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
        let length_ns = (f64::from(frame.duration_ms) * 1e6).round() as i64;
        overlaps(
            (frame.begin_ns, frame.begin_ns.saturating_add(length_ns)),
            (begin_ns, end_ns),
        )
    })
}

/// Returns whether a frame with this begin and end overlaps a time.
fn overlaps((begin_ns, end_ns): (i64, i64), time_ns: (i64, i64)) -> bool {
    begin_ns < time_ns.1 && end_ns > time_ns.0
}

/// Returns the slowest of some frames of the store; with a time, only those that overlap it.
fn slowest_stored(
    store: &Store,
    (first, last): (usize, usize),
    time_ns: Option<(i64, i64)>,
    most: usize,
) -> Vec<SlowFrame> {
    let end = (last + 1).min(store.frames().len());
    let frames = (first.min(end)..end).zip(store.frames().range(first.min(end)..end));
    let within = frames.filter(|(_, frame)| {
        time_ns.is_none_or(|time_ns| overlaps((frame.begin_ns, frame.end_ns), time_ns))
    });
    let all = within.map(|(index, frame)| SlowFrame {
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
                let slowest = |frames| slowest_stored(store, frames, time_ns, MOST);
                view.shown_frames(store).map_or_else(Vec::new, slowest)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::replay::FrameSummaryRow;
    use crate::store::FrameEntry;

    /// The gap before a frame and its length in nanoseconds. One without a length is lost.
    type Given = (i64, i64);

    fn times(frames: &[Given]) -> Vec<(i64, i64)> {
        let mut at = 0;
        let place = |&(gap, length): &Given| {
            let begin = at + gap;
            at = begin + length;
            (begin, at)
        };
        frames.iter().map(place).collect()
    }

    /// Returns the places of the slowest frames that overlap a time.
    fn expected(frames: &[Given], time_ns: Option<(i64, i64)>) -> Vec<usize> {
        let times = times(frames);
        let overlaps = |&at: &usize| {
            let (begin, end) = times[at];
            begin < end && time_ns.is_none_or(|(from, to)| begin < to && end > from)
        };
        let mut slowest: Vec<usize> = (0..times.len()).filter(overlaps).collect();
        slowest.sort_by_key(|&at| (Reverse(times[at].1 - times[at].0), at));
        slowest.truncate(MOST);
        slowest
    }

    fn store(frames: &[Given]) -> Store {
        let mut store = Store::new(frames.len().max(1), usize::MAX);
        for (number, (begin_ns, end_ns)) in (0..).zip(times(frames)) {
            store.push_frame(FrameEntry {
                number,
                begin_ns,
                end_ns,
                lost_records: u64::from(begin_ns == end_ns),
                ..FrameEntry::default()
            });
        }
        store
    }

    fn push(summary: &mut Summary, time_ns: (i64, i64)) {
        summary.push(&FrameSummaryRow {
            number: Some(summary.frames()),
            time_ns: (time_ns.0 < time_ns.1).then_some(time_ns),
            spans: 0,
            dropped_spans: 0,
            is_damaged: false,
        });
    }

    /// Draws frames that are short enough for a summary to be exact.
    fn frames() -> impl Strategy<Value = Vec<Given>> {
        let length = prop_oneof![9 => 1..200_000_i64, 2 => 1..20_i64, 2 => Just(0)];
        prop::collection::vec((prop_oneof![4 => Just(0), 1 => 0..900_i64], length), 1..300)
    }

    /// Returns the time from one moment to another: each is near the begin or the end of a frame.
    fn time(frames: &[Given], ends: [(prop::sample::Index, bool, i64); 2]) -> (i64, i64) {
        let times = times(frames);
        let moment = |(at, is_end, near): (prop::sample::Index, bool, i64)| {
            let (begin, end) = *at.get(&times);
            near + if is_end { end } else { begin }
        };
        let [from, to] = ends.map(moment);
        (from.min(to), from.max(to) + 1)
    }

    fn ends() -> impl Strategy<Value = [(prop::sample::Index, bool, i64); 2]> {
        let end = || (any::<prop::sample::Index>(), any::<bool>(), -3..3_i64);
        (end(), end()).prop_map(|(from, to)| [from, to])
    }

    proptest! {
        #[test]
        fn the_store_has_the_slowest_frames_of_a_time(
            frames in frames(), ends in ends(), has_time in any::<bool>(),
        ) {
            let (store, view) = (store(&frames), View::default());
            let time_ns = has_time.then(|| time(&frames, ends));
            let scope = time_ns.map(|(begin_ns, end_ns)| Scope::Time { begin_ns, end_ns });
            let mut list = SlowFrames::default();
            list.update(&store, &view, scope, None);
            let found = list.frames.iter().map(|frame| frame.number as usize);
            prop_assert_eq!(found.collect::<Vec<_>>(), expected(&frames, time_ns));
        }

        /// A list that grows with the summary is that of the whole summary.
        #[test]
        fn a_summary_has_the_slowest_frames_of_a_time(
            frames in frames(), ends in ends(), has_time in any::<bool>(), step in 1..200_usize,
        ) {
            let (store, view) = (Store::new(1, 1), View::default());
            let time_ns = has_time.then(|| time(&frames, ends));
            let scope = time_ns.map(|(begin_ns, end_ns)| Scope::Time { begin_ns, end_ns });
            let (mut list, mut summary) = (SlowFrames::default(), Summary::default());
            for times in times(&frames).chunks(step) {
                times.iter().for_each(|time_ns| push(&mut summary, *time_ns));
                list.update(&store, &view, scope, Some(&summary));
            }
            let found = list.frames.iter().map(|frame| frame.number as usize);
            prop_assert_eq!(found.collect::<Vec<_>>(), expected(&frames, time_ns));
            prop_assert_eq!(&list.frames, &slowest_frames(&summary, time_ns, MOST));
        }
    }
}
