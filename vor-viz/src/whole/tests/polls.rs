//! The polls of tasks in pictures of any range, compared with those that the reader returns.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::model::batch::{TaskEvent, TaskEventKind};
use vor_capture::model::catalog::ThreadId;

use super::tasks::with_tasks;
use super::{
    MAX_SPANS, Made, PART_BYTES, add_event, each_thread, encoded, latest_ends, made, opened,
    part_of, shape, surveyed,
};
use crate::store::{Layer, TaskArgs, Track};

/// A poll: its begin, its end and its thread.
type Seen = (i64, i64, ThreadId);

/// Adds polls to the tasks, on all threads, in the batches in which they end.
fn with_polls(made: &mut Made) -> Vec<u8> {
    with_tasks(made);
    let latest = latest_ends(&made.batches);
    for at in 0..made.batches.len() {
        let threads = made.batches[at].threads.iter();
        let tasks = threads.flat_map(|thread| thread.async_spans.clone());
        for task in tasks.collect::<Vec<_>>() {
            // Of equal tasks without a duration, a row knows the id of the first one only.
            let count = task.id % 6 * u64::from(task.duration_ticks > 0);
            for nth in 0..count {
                // The first begins with the task, some touch the next one, and some overlap it.
                let step = task.duration_ticks / count;
                let start_ticks = task.start_ticks + nth * step;
                let longest = task.end_ticks() - start_ticks;
                let duration_ticks = match (task.id + nth) % 4 {
                    0 => 0,
                    1 => step,
                    2 => step / 3,
                    _ => (step + step / 2).min(longest),
                };
                let end_ticks = start_ticks + duration_ticks;
                let first = latest[..at].iter().position(|&latest| latest >= end_ticks);
                let event = filled!(TaskEvent {
                    task: task.id,
                    site: task.site,
                    start_ticks,
                    kind: TaskEventKind::Poll { duration_ticks },
                });
                add_event(&mut made.batches[first.unwrap_or(at)], task.id + nth, event);
            }
        }
    }
    encoded(&made.batches[0].catalog, &made.batches)
}

/// Reads the polls of each task.
fn recorded(bytes: &[u8], origin_ns: i64) -> BTreeMap<u64, Vec<Seen>> {
    let mut polls: BTreeMap<u64, Vec<Seen>> = BTreeMap::new();
    each_thread(bytes, origin_ns, |thread, _, ns| {
        for event in &thread.task_events {
            if let TaskEventKind::Poll { .. } = event.kind {
                let time = (ns(event.start_ticks), ns(event.end_ticks()));
                let seen = (time.0, time.1, thread.thread);
                polls.entry(event.task).or_default().push(seen);
            }
        }
    });
    polls
}

/// Returns the polls of each row of tasks, beside the ids of its tasks, both sorted.
fn drawn(layer: &Layer) -> Vec<(Vec<Seen>, Vec<u64>)> {
    let of_row = |track: &Track, at: usize| {
        let polls = track.polls.get(at);
        let polls = polls
            .into_iter()
            .flat_map(|polls| polls.within(i64::MIN, i64::MAX));
        let seen = polls.map(|poll| (poll.begin_ns, poll.end_ns, poll.thread));
        let mut seen: Vec<Seen> = seen.collect();
        seen.sort_unstable();
        let row = &track.rows[at];
        let spans = row.spans(i64::MIN, i64::MAX);
        let ids = spans.filter_map(|span| Some(TaskArgs::read(row.args(&span))?.id));
        (seen, ids.collect())
    };
    let tracks = layer.tracks().iter();
    let rows = tracks.flat_map(|track| (0..track.rows.len()).map(move |at| of_row(track, at)));
    rows.collect()
}

proptest! {
    /// A picture that is not thinned has in each row the polls of the tasks of that row which
    /// overlap its time.
    #[test]
    fn polls_are_in_the_rows_of_their_tasks(
        seed in any::<u64>(),
        shape in shape(),
        (from, to) in (0.0..1.0_f64, 0.0..1.0_f64),
    ) {
        let mut made = made(seed, shape);
        let bytes = with_polls(&mut made);
        let recorded = recorded(&bytes, made.origin_ns);
        let mut opened = opened(bytes, made.origin_ns, Some(PART_BYTES));
        let (begin_ns, end_ns) = part_of(&opened.archive, from, to);
        let picture = opened.picture(begin_ns, end_ns);
        for (layer, time) in [
            (&opened.layer, (i64::MIN, i64::MAX)),
            (&picture, (begin_ns, end_ns)),
        ] {
            let mut all = 0;
            for (polls, tasks) in drawn(layer) {
                all += polls.len();
                let different: BTreeSet<&u64> = tasks.iter().collect();
                if different.len() < tasks.len() {
                    // Tasks of zero duration at one moment have the arguments of the first.
                    continue;
                }
                let own = tasks.iter().filter_map(|task| recorded.get(task)).flatten();
                let overlapping = own.filter(|poll| poll.0 <= time.1 && poll.1 >= time.0);
                let mut expected: Vec<Seen> = overlapping.copied().collect();
                expected.sort_unstable();
                prop_assert_eq!(polls, expected);
            }
            let overlapping = recorded.values().flatten();
            let overlapping = overlapping.filter(|poll| poll.0 <= time.1 && poll.1 >= time.0);
            prop_assert_eq!(all, overlapping.count());
        }
    }

    /// A thinned picture has all polls of at least a bin, and no false ones.
    #[test]
    fn thinned_polls_are_polls_of_their_tasks(
        seed in any::<u64>(),
        shape in shape(),
        max_spans in 1..60_usize,
    ) {
        let mut made = made(seed, shape);
        let bytes = with_polls(&mut made);
        let recorded = recorded(&bytes, made.origin_ns);
        let thinned = |max_spans| {
            let parts = Some(PART_BYTES);
            let (capture, _, survey) = surveyed(bytes.clone(), made.origin_ns, parts, max_spans);
            survey.layer(capture.catalog())
        };
        let (layer, whole) = (thinned(max_spans), thinned(MAX_SPANS));
        let mut long = 0;
        let is_long = |poll: &&Seen| poll.0.abs_diff(poll.1) >= layer.bin_ns();
        for (polls, tasks) in drawn(&layer) {
            let own = tasks.iter().filter_map(|task| recorded.get(task)).flatten();
            let own: Vec<&Seen> = own.collect();
            for poll in &polls {
                let alike = |list: &[&Seen]| list.iter().filter(|other| **other == poll).count();
                prop_assert!(alike(&polls.iter().collect::<Vec<_>>()) <= alike(&own));
            }
            let own_long = own.iter().copied().filter(is_long).count();
            prop_assert_eq!(polls.iter().filter(is_long).count(), own_long);
            long += own_long;
        }
        prop_assert_eq!(long, recorded.values().flatten().filter(is_long).count());
        if layer.bin_ns() == 0 {
            prop_assert_eq!(drawn(&layer), drawn(&whole));
        }
    }
}
