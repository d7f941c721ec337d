//! Messages found in any range, page by page, compared with a filter over all of them; and the
//! points of flows in a picture.

use std::sync::Arc;

use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::model::batch::{FlowPoint, FlowStage, Message};
use vor_capture::model::catalog::ThreadId;

use super::{PART_BYTES, RangeScope, encoded, made, opened, part_of, shape};
use crate::find::{MessageOptions, Messages, Order};
use crate::store::Extent;

/// A message, to be compared: its time, thread and text.
type Told = (i64, ThreadId, Arc<str>);

proptest! {
    /// The pages together hold each message that passes the filters once, in order.
    #[test]
    fn pages_hold_every_message_that_passes(
        seed in any::<u64>(),
        shape in shape(),
        (from, to) in (-0.1..1.1_f64, -0.1..1.1_f64),
        is_latest_first in any::<bool>(),
        text in prop_oneof![Just(""), Just("failed"), Just("7"), Just("none has this")],
        thread in prop::option::of(0..3_u32),
        page in 1..30_usize,
    ) {
        let mut made = made(seed, shape);
        let catalog = Arc::clone(&made.batches[0].catalog);
        let mut told: Vec<Told> = Vec::new();
        for thread in made.batches.iter_mut().flat_map(|batch| &mut batch.threads) {
            // Every third span ends with a message.
            for i in (0..thread.len()).step_by(3) {
                let word = if i % 2 == 0 { "Failed" } else { "done" };
                let text: Arc<str> = format!("{word} at {i}").into();
                let ticks = thread.end_ticks(i);
                told.push((
                    catalog.timeline.unix_ns(ticks) - made.origin_ns,
                    thread.thread,
                    Arc::clone(&text),
                ));
                thread.messages.push(filled!(Message { ticks, text }));
            }
        }
        let bytes = encoded(&catalog, &made.batches);
        let mut opened = opened(bytes, made.origin_ns, Some(PART_BYTES));
        let (begin_ns, end_ns) = part_of(&opened.archive, from, to);
        let scope = RangeScope { begin_ns, end_ns, extent: Extent::Clipped };
        told.retain(|(ns, ..)| scope.begin_ns < *ns && *ns <= scope.end_ns);
        let all = told.len() as u64;
        told.retain(|(_, of, words)| {
            words.to_lowercase().contains(text) && thread.is_none_or(|thread| of.0 == thread)
        });
        let mut options = MessageOptions {
            text: text.into(),
            threads: thread.map(|thread| Arc::from([ThreadId(thread)])),
            order: if is_latest_first { Order::Latest } else { Order::Earliest },
            most: page,
            ..MessageOptions::default()
        };
        let mut listed: Vec<Told> = Vec::new();
        loop {
            let found = opened.answer::<Messages>(scope, &options);
            prop_assert_eq!((found.all, found.count), (all, told.len() as u64));
            prop_assert_eq!(found.before, listed.len() as u64);
            prop_assert!(found.listed.len() <= page);
            let last = found.listed.last().map(|message| message.rank);
            listed.extend(found.listed.into_iter().map(|message| {
                (message.ns, message.thread, message.text)
            }));
            if listed.len() as u64 == found.count {
                break;
            }
            prop_assert!(last.is_some());
            options.after = last;
        }
        let times: Vec<i64> = listed.iter().map(|(ns, ..)| *ns).collect();
        let is_sorted = match is_latest_first {
            true => times.is_sorted_by(|one, next| one >= next),
            false => times.is_sorted(),
        };
        prop_assert!(is_sorted);
        // Messages of one moment have no order of their own.
        listed.sort();
        told.sort();
        prop_assert_eq!(listed, told);
    }
}

proptest! {
    /// A picture that is not thinned has the points of flows of its range.
    #[test]
    fn pictures_have_the_points_of_flows(
        seed in any::<u64>(),
        shape in shape(),
        (from, to) in (-0.1..1.1_f64, -0.1..1.1_f64),
    ) {
        let mut made = made(seed, shape);
        let catalog = Arc::clone(&made.batches[0].catalog);
        let mut given = Vec::new();
        let mut flow = 0;
        for thread in made.batches.iter_mut().flat_map(|batch| &mut batch.threads) {
            // Every second span ends with a point.
            for i in (0..thread.len()).step_by(2) {
                flow += 1;
                let ticks = thread.end_ticks(i);
                let ns = catalog.timeline.unix_ns(ticks) - made.origin_ns;
                let stage = [FlowStage::Begin, FlowStage::Step, FlowStage::End][i % 3];
                given.push((thread.thread, ns, flow, stage));
                thread.flows.push(filled!(FlowPoint { ticks, flow, stage }));
            }
        }
        let bytes = encoded(&catalog, &made.batches);
        let mut opened = opened(bytes, made.origin_ns, Some(PART_BYTES));
        let (begin_ns, end_ns) = part_of(&opened.archive, from, to);
        let picture = opened.picture(begin_ns, end_ns);
        prop_assert_eq!(picture.bin_ns(), 0);
        let mut found = Vec::new();
        for track in picture.tracks() {
            let points = track.flows.iter();
            prop_assert!(points.clone().is_sorted_by_key(|point| point.ns));
            let thread = track.id.thread().unwrap();
            found.extend(points.map(|point| (thread, point.ns, point.flow, point.stage)));
        }
        given.retain(|(_, ns, ..)| begin_ns <= *ns && *ns <= end_ns);
        found.sort_by_key(|point| point.2);
        given.sort_by_key(|point| point.2);
        prop_assert_eq!(found, given);
    }
}
