//! The holders of locks for which tasks waited, in lists and sums of any range.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::model::batch::{AsyncSpan, TaskEvent, TaskEventKind};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::waits::HELD;

use super::{
    Made, PART_BYTES, RangeScope, add_event, each_thread, encoded, latest_ends, made, opened,
    part_of, shape,
};
use crate::find::{FindOptions, Instances};
use crate::store::{Extent, TrackKind};

/// The names of steps, and the holders that they name.
const STEPS: [(&str, &str); 4] = [
    ("holder_scope: evict", "evict"),
    ("holder_scope: load", "load"),
    ("holder: released meanwhile", "released meanwhile"),
    ("cancelled", ""),
];

/// A wait: its thread, begin and end, and its holder with the time of the step.
type Waited = (ThreadId, i64, i64, Option<(i64, String)>);

/// Makes every third span a task, those of every second call site waits for a lock. Their steps are
/// on any threads, in the batches of their begins; some waits have none.
fn with_waits(made: &mut Made) -> Vec<u8> {
    let mut catalog = Catalog::clone(&made.batches[0].catalog);
    let first_step = 1 + catalog.sites.len() as u32;
    let sites = catalog.sites.iter().enumerate().map(|(i, site)| {
        let site = SiteInfo::clone(site.as_ref().unwrap());
        let name = format!("wait: {i}").into();
        Some(Arc::new(match i % 2 {
            1 => filled!(SiteInfo {
                name,
                category: HELD.into()
            }),
            _ => site,
        }))
    });
    let steps = STEPS.map(|(name, _)| Some(Arc::new(filled!(SiteInfo { name: name.into() }))));
    catalog.sites = Arc::new(sites.chain(steps).collect());
    let catalog = Arc::new(catalog);
    let latest = latest_ends(&made.batches);
    for batch in &mut made.batches {
        batch.catalog = Arc::clone(&catalog);
    }
    let mut id = 0;
    for at in 0..made.batches.len() {
        let threads = made.batches[at].threads.iter();
        let own = threads.map(|thread| (thread.thread, thread.len()));
        for (thread, spans) in own.collect::<Vec<_>>() {
            for i in (0..spans).step_by(3) {
                id += 1;
                let mut shares = made.batches[at].threads.iter_mut();
                let share = shares.find(|share| share.thread == thread).unwrap();
                let (site, start_ticks) = (share.sites[i], share.start_ticks[i]);
                share.async_spans.push(filled!(AsyncSpan {
                    id,
                    site,
                    start_ticks,
                    duration_ticks: share.duration_ticks[i],
                }));
                if id % 5 == 0 {
                    continue;
                }
                let first = latest[..at]
                    .iter()
                    .position(|&latest| latest >= start_ticks);
                let step = filled!(TaskEvent {
                    task: id,
                    site: SiteId(first_step + (id % STEPS.len() as u64) as u32),
                    start_ticks,
                    kind: TaskEventKind::Step,
                });
                add_event(&mut made.batches[first.unwrap_or(at)], id / 2, step);
            }
        }
    }
    encoded(&catalog, &made.batches)
}

/// Reads the waits of each call site.
fn recorded(bytes: &[u8], origin_ns: i64) -> BTreeMap<SiteId, Vec<Waited>> {
    let (mut waits, mut steps) = (Vec::new(), BTreeMap::new());
    each_thread(bytes, origin_ns, |thread, catalog, ns| {
        for task in &thread.async_spans {
            let time = (ns(task.start_ticks), ns(task.end_ticks()));
            waits.push((task.id, task.site, thread.thread, time));
        }
        for step in &thread.task_events {
            let name = catalog.site_name(step.site);
            let (_, holder) = STEPS.iter().find(|(step, _)| *step == name).unwrap();
            if !holder.is_empty() {
                steps.insert(step.task, (ns(step.start_ticks), (*holder).to_owned()));
            }
        }
    });
    let mut by_site: BTreeMap<SiteId, Vec<Waited>> = BTreeMap::new();
    for (id, site, thread, (begin_ns, end_ns)) in waits {
        let holder = steps.get(&id).filter(|_| site.0 % 2 == 0).cloned();
        by_site
            .entry(site)
            .or_default()
            .push((thread, begin_ns, end_ns, holder));
    }
    by_site
}

proptest! {
    /// A wait of a task is listed with its holder if the range has the step that names it. Sums
    /// have the most frequent holder.
    #[test]
    fn waits_of_tasks_have_their_holders(
        seed in any::<u64>(),
        shape in shape(),
        (from, to) in (-0.1..1.1_f64, -0.1..1.1_f64),
        is_whole in any::<bool>(),
    ) {
        let mut made = made(seed, shape);
        let bytes = with_waits(&mut made);
        let recorded = recorded(&bytes, made.origin_ns);
        let mut opened = opened(bytes, made.origin_ns, Some(PART_BYTES));
        let extent = if is_whole { Extent::Whole } else { Extent::Clipped };
        let (begin_ns, end_ns) = part_of(&opened.archive, from, to);
        let all = (i64::MIN, i64::MAX);
        for (begin_ns, end_ns) in [all, (begin_ns, end_ns)] {
            let scope = RangeScope { begin_ns, end_ns, extent };
            for (site, waits) in &recorded {
                let options = FindOptions {
                    extent,
                    ..FindOptions::all_of(*site, opened.capture.catalog())
                };
                let found = opened.answer::<Instances>(scope, &options);
                let listed = found.listed.iter().filter(|call| call.kind == TrackKind::Tasks);
                let listed = listed.map(|call| {
                    let time = (call.span.begin_ns, call.span.end_ns());
                    (call.thread, time.0, time.1, call.holder.to_string())
                });
                let mut listed: Vec<(ThreadId, i64, i64, String)> = listed.collect();
                listed.sort_unstable();
                let visited = waits.iter().filter(|wait| match extent {
                    Extent::Whole => wait.2 > begin_ns && wait.2 <= end_ns,
                    Extent::Clipped => {
                        wait.2 > begin_ns && (wait.1 < end_ns || wait.2 == end_ns)
                    }
                });
                let visited: Vec<&Waited> = visited.collect();
                prop_assert_eq!(listed.len(), visited.len());
                // A holder from before the range may be unknown. No holder is false.
                let wait = |wait: &Waited, holder: &str| {
                    (wait.0, wait.1, wait.2, holder.to_owned())
                };
                let holder = |wait: &Waited| match &wait.3 {
                    Some((_, holder)) => holder.clone(),
                    None => String::new(),
                };
                let true_ones = visited.iter().map(|one| wait(one, &holder(one)));
                let true_ones: BTreeSet<_> = true_ones.collect();
                for (at, one) in listed.iter().enumerate() {
                    let is_known = one.3.is_empty() || true_ones.contains(one);
                    prop_assert!(is_known, "{} {:?}", at, one);
                }
                let known = |wait: &&&Waited| {
                    wait.3.as_ref().is_some_and(|(step_ns, _)| *step_ns >= begin_ns)
                };
                for one in visited.iter().filter(known) {
                    let wait = wait(one, &holder(one));
                    prop_assert!(listed.contains(&wait), "{:?} of {:?}", wait, listed);
                }
                if (begin_ns, end_ns) == all {
                    let mut expected: Vec<_> =
                        visited.iter().map(|one| wait(one, &holder(one))).collect();
                    expected.sort_unstable();
                    prop_assert_eq!(&listed, &expected);
                    let rows = opened.rows(scope).rows;
                    let is_row = |kind, of| kind == TrackKind::Tasks && of == *site;
                    let row = rows.iter().find(|row| is_row(row.kind, row.site)).unwrap();
                    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
                    let names = listed.iter().map(|one| &*one.3);
                    for name in names.filter(|name| !name.is_empty()) {
                        *counts.entry(name).or_default() += 1;
                    }
                    let most = row.holder.as_ref();
                    prop_assert_eq!(most.is_some(), !counts.is_empty());
                    if let Some((holder, count)) = most {
                        prop_assert_eq!(counts.get(&*holder.to_string()), Some(count));
                        prop_assert_eq!(counts.values().max(), Some(count));
                    }
                    for slow in row.slowest.iter().filter(|slow| slow.holder.is_some()) {
                        let holder = slow.holder.as_ref().unwrap().to_string();
                        let end_ns = slow.span.end_ns();
                        let wait = (slow.thread, slow.span.begin_ns, end_ns, holder);
                        prop_assert!(listed.contains(&wait));
                    }
                }
            }
        }
    }
}
