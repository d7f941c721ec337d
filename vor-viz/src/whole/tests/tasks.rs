//! The tracks of tasks in pictures of any range, compared with all tasks.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::model::batch::{AsyncSpan, TaskEvent, TaskEventKind};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo};

use super::{Made, PART_BYTES, encoded, made, opened, part_of, shape};
use crate::store::{Layer, TrackId};

/// A task: the first call site of its name, its own one, its begin and its end.
pub(super) type DrawnTask = (SiteId, SiteId, i64, i64);

/// A step: the first call site of the name of its task, and its time.
pub(super) type DrawnStep = (SiteId, i64);

/// Makes every third span a task, too, with a step on another thread, and gives the call sites two
/// names.
pub(super) fn with_tasks(made: &mut Made) -> (Vec<u8>, Vec<DrawnTask>, Vec<DrawnStep>) {
    let mut catalog = Catalog::clone(&made.batches[0].catalog);
    let sites = catalog.sites.iter().enumerate().map(|(i, site)| {
        let info = SiteInfo::clone(site.as_ref().unwrap());
        let name = ["load", "save"][i % 2].into();
        Some(Arc::new(filled!(SiteInfo { name, ..info })))
    });
    catalog.sites = Arc::new(sites.collect());
    let catalog = Arc::new(catalog);
    let first = |site: SiteId| SiteId(1 + (site.0 - 1) % 2);
    let (mut tasks, mut steps) = (Vec::new(), Vec::new());
    for batch in &mut made.batches {
        batch.catalog = Arc::clone(&catalog);
        let threads = batch.threads.len();
        for thread in 0..threads {
            for i in (0..batch.threads[thread].len()).step_by(3) {
                let own = &mut batch.threads[thread];
                let (site, start_ticks) = (own.sites[i], own.start_ticks[i]);
                let id = 1 + tasks.len() as u64;
                own.async_spans.push(filled!(AsyncSpan {
                    id,
                    site,
                    start_ticks,
                    duration_ticks: own.duration_ticks[i],
                }));
                let end_ticks = own.end_ticks(i);
                let ns = |ticks| catalog.timeline.unix_ns(ticks) - made.origin_ns;
                tasks.push((first(site), site, ns(start_ticks), ns(end_ticks)));
                steps.push((first(site), ns(end_ticks)));
                batch.threads[(thread + 1) % threads]
                    .task_events
                    .push(filled!(TaskEvent {
                        task: id,
                        site,
                        start_ticks: end_ticks,
                        kind: TaskEventKind::Step,
                    }));
            }
        }
    }
    (encoded(&catalog, &made.batches), tasks, steps)
}

/// Returns the tasks and the steps of a picture. The tasks of a lane do not overlap.
pub(super) fn drawn(layer: &Layer) -> Result<(Vec<DrawnTask>, Vec<DrawnStep>), TestCaseError> {
    let (mut tasks, mut steps) = (Vec::new(), Vec::new());
    for track in layer.tracks() {
        let TrackId::Tasks(name) = track.id else {
            prop_assert!(track.steps.is_empty());
            continue;
        };
        prop_assert_eq!(track.hidden_tasks, 0);
        for row in &track.rows {
            let spans: Vec<_> = row.spans(i64::MIN, i64::MAX).collect();
            let mut pairs = spans.windows(2);
            prop_assert!(pairs.all(|pair| pair[0].end_ns() <= pair[1].begin_ns));
            let given = spans
                .iter()
                .map(|span| (name, span.site, span.begin_ns, span.end_ns()));
            tasks.extend(given);
        }
        prop_assert!(track.steps.iter().is_sorted_by_key(|step| step.ns));
        steps.extend(track.steps.iter().map(|step| (name, step.ns)));
    }
    tasks.sort_unstable();
    steps.sort_unstable();
    Ok((tasks, steps))
}

proptest! {
    /// A picture that is not thinned has each task and each step in the track of its name.
    #[test]
    fn tasks_of_one_name_are_in_one_track(
        seed in any::<u64>(),
        shape in shape(),
        (from, to) in (0.0..1.0_f64, 0.0..1.0_f64),
    ) {
        let mut made = made(seed, shape);
        let (bytes, mut tasks, mut steps) = with_tasks(&mut made);
        tasks.sort_unstable();
        steps.sort_unstable();
        let mut opened = opened(bytes, made.origin_ns, Some(PART_BYTES));
        prop_assert_eq!(drawn(&opened.layer)?, (tasks.clone(), steps.clone()));
        let names: BTreeSet<SiteId> = tasks.iter().map(|task| task.0).collect();
        for &name in &names {
            let count = tasks.iter().filter(|task| task.0 == name).count();
            prop_assert_eq!(opened.layer.total_spans(TrackId::Tasks(name)), count as u64);
        }
        let (begin_ns, end_ns) = part_of(&opened.archive, from, to);
        let picture = opened.picture(begin_ns, end_ns);
        // The tracks of the whole stay.
        let ids = |layer: &Layer| layer.tracks().iter().map(|track| track.id).collect::<Vec<_>>();
        prop_assert_eq!(ids(&picture), ids(&opened.layer));
        tasks.retain(|&(_, _, begin, end)| begin <= end_ns && end >= begin_ns);
        steps.retain(|&(_, ns)| (begin_ns..=end_ns).contains(&ns));
        prop_assert_eq!(drawn(&picture)?, (tasks, steps));
    }
}
