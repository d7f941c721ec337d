//! The holders of locks for which tasks waited, in the card, the list and the table.

use std::sync::Arc;

use egui::Theme as Shade;
use egui_kittest::kittest::Queryable;
use vor_capture::filled;
use vor_capture::model::batch::{AsyncSpan, TaskEvent, TaskEventKind, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::model::frame::{FrameSnapshot, TreeBuilder};
use vor_capture::model::waits::{HELD, NO_HOLDER};
use vor_viz::find::Listed;
use vor_viz::panel::Tab;
use vor_viz::store::{FrameBlock, Store, TrackId};
use vor_viz::view::SpanRef;

use crate::waits::{copied, panel_of};

const MS: u64 = 1_000_000;

const CACHE: SiteId = SiteId(1);
const PERMITS: SiteId = SiteId(2);
const EVICT: SiteId = SiteId(3);
const UNKNOWN: SiteId = SiteId(4);

/// Returns two frames of 10 ms. Three waits for a lock and one for permits begin on one thread in
/// the first frame and end on the other in the second.
fn store() -> Store {
    let site = |name: &'static str, category: &'static str| {
        Some(Arc::new(filled!(SiteInfo {
            name: name.into(),
            category: category.into(),
        })))
    };
    let thread = |name: &str| Some(Arc::new(filled!(ThreadInfo { name: name.into() })));
    let catalog = Arc::new(filled!(Catalog {
        sites: Arc::new(vec![
            site("wait: cache", HELD),
            site("wait: permits", NO_HOLDER),
            site("holder_scope: evict", ""),
            site("holder: unknown", ""),
        ]),
        threads: Arc::new(["worker-1", "worker-2"].map(thread).to_vec()),
    }));
    let mut store = Store::new(10, usize::MAX);
    let waits = [
        (1, CACHE, Some(EVICT)),
        (2, CACHE, Some(UNKNOWN)),
        (3, CACHE, Some(EVICT)),
        // Nobody holds permits, so the step names no holder.
        (4, PERMITS, Some(EVICT)),
    ];
    for index in 0..2_u64 {
        let mut batch = filled!(ThreadBatch {
            thread: ThreadId(index as u32)
        });
        for &(id, site, step) in &waits {
            let start_ticks = id * MS;
            if index == 1 {
                batch.async_spans.push(filled!(AsyncSpan {
                    id,
                    site,
                    start_ticks,
                    duration_ticks: 10 * MS,
                }));
                continue;
            }
            let event = |site, kind| {
                filled!(TaskEvent {
                    task: id,
                    site,
                    start_ticks,
                    kind,
                })
            };
            let begin = TaskEventKind::Begin { given_id: 100 + id };
            batch.task_events.push(event(site, begin));
            let step = step.map(|step| event(step, TaskEventKind::Step));
            batch.task_events.extend(step);
        }
        let mut builder = TreeBuilder::new(100);
        builder.add(&batch);
        let frame = filled!(FrameSnapshot {
            catalog: Arc::clone(&catalog),
            index,
            start_ticks: index * 10 * MS,
            end_ticks: (index + 1) * 10 * MS,
            threads: builder.finish().threads,
        });
        store.push_block(FrameBlock::new(&frame, 0));
    }
    store
}

#[test]
fn the_card_of_a_wait_has_its_holder() {
    for (site, nth, holder) in [
        (CACHE, 0, Some("evict")),
        (CACHE, 1, Some("unknown")),
        (PERMITS, 0, None),
    ] {
        let mut harness = panel_of(store(), Tab::Metrics, Shade::Dark, |panel| {
            let track = TrackId::Tasks(site);
            let tracks = panel.store().shown_tracks().iter();
            let rows = tracks.filter(|shown| shown.id == track);
            let rows = rows.flat_map(|track| track.rows.iter().enumerate());
            let (row, span) = rows
                .filter_map(|(at, row)| Some((at, row.span_after(0)?)))
                .nth(nth)
                .unwrap();
            panel.view_mut().focus = Some(SpanRef { track, row, span });
        });
        harness.run();
        let is_held = harness.query_by_label("held by").is_some();
        assert_eq!(is_held, holder.is_some(), "{site:?} {nth}");
        if let Some(holder) = holder {
            harness.get_by_label(holder);
        }
        // The program's number is there too.
        let number = 101 + nth as u64 + 3 * u64::from(site == PERMITS);
        harness.get_by_label(&number.to_string());
    }
}

#[test]
fn waits_of_tasks_are_listed_by_their_holders() {
    let mut harness = panel_of(store(), Tab::Find, Shade::Dark, |panel| {
        panel.find_mut().list(Listed::Calls(CACHE));
    });
    harness.get_by_label("sort by held by").click();
    harness.run();
    let rows = copied(&mut harness);
    assert_eq!(rows.len(), 4);
    assert!(rows[0].ends_with(",arguments,held_by"), "{}", rows[0]);
    for (row, holder) in rows[1..].iter().zip(["evict", "evict", "unknown"]) {
        let is_task = row.starts_with("wait: cache,task,worker-2,");
        assert!(is_task && row.ends_with(&format!(",,{holder}")), "{row}");
    }
    let mut harness = panel_of(store(), Tab::Find, Shade::Dark, |panel| {
        panel.find_mut().list(Listed::Calls(PERMITS));
    });
    assert!(harness.query_by_label("sort by held by").is_none());
    assert!(copied(&mut harness)[1].ends_with(",,"));
}

#[test]
fn the_table_has_the_most_frequent_holder_of_tasks() {
    let mut harness = panel_of(store(), Tab::Scopes, Shade::Dark, |_| {});
    harness.get_by_label("sort by held by");
    let rows = copied(&mut harness);
    let row = |name: &str| {
        let mut rows = rows.iter();
        rows.find(|row| row.starts_with(name)).unwrap().clone()
    };
    assert!(row("wait: cache").ends_with(",evict,2"), "{rows:?}");
    assert!(row("wait: permits").ends_with(",,"), "{rows:?}");
}
