//! Columns against the trees and the statistics of the same batches.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::model::batch::{AsyncSpan, SpanBatch, TaskEvent, TaskEventKind, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::model::frame::TreeBuilder;
use vor_capture::reader::{Capture, Columns, ColumnsBuilder, Piece, Pieces};
use vor_capture::stats::StatsBuilder;
use vor_fixtures::{Random, make};

/// Makes the ends of scopes of a thread, with up to `deep` scopes open at a time; open scopes may
/// continue in the next batch.
fn batch(
    random: &mut Random,
    thread: u32,
    now: &mut u64,
    open: &mut Vec<u64>,
    deep: usize,
) -> ThreadBatch {
    let mut batch = filled!(ThreadBatch {
        thread: ThreadId(thread)
    });
    for _ in 0..random.below(40) {
        // A step of 0 makes a scope without duration, or two that end together.
        *now += random.below(3) as u64 * 7;
        if open.len() < deep && random.below(2) == 0 {
            open.push(*now);
        } else if let Some(start) = open.pop() {
            batch.start_ticks.push(start);
            batch.duration_ticks.push(*now - start);
            batch.sites.push(SiteId(1 + random.below(3) as u32));
        }
    }
    batch
}

/// Returns the depths of a tree's spans, by start, end and site.
fn depths(builder: &mut TreeBuilder) -> BTreeMap<(u32, u64, u64, u32), Vec<u32>> {
    let mut found: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for tree in builder.finish().threads {
        for span in &tree.spans {
            let key = (
                tree.thread.0,
                span.start_ticks,
                span.duration_ticks,
                span.site.0,
            );
            found.entry(key).or_default().push(span.depth);
        }
    }
    found.values_mut().for_each(|depths| depths.sort_unstable());
    found
}

proptest! {
    #[test]
    fn depths_match_the_trees_and_self_times_match_the_statistics(
        seed: u64,
        frames in 1..6_u64,
        deep in 1..9_usize
    ) {
        let mut random = Random(seed);
        let catalog = Arc::new(Catalog::default());
        let mut builder = ColumnsBuilder::with_room(8);
        let mut stats = StatsBuilder::new();
        let mut expected = BTreeMap::new();
        let mut kept = 0;
        let mut now = [1000_u64, 5000];
        let mut open = [Vec::new(), Vec::new()];
        for frame in 0..frames {
            let skips = random.below(4) == 0;
            let mut trees = TreeBuilder::new(usize::MAX);
            for _ in 0..1 + random.below(3) {
                let mut threads = Vec::new();
                for thread in 0..2 {
                    threads.push(batch(
                        &mut random,
                        thread as u32,
                        &mut now[thread],
                        &mut open[thread],
                        deep,
                    ));
                }
                let batch = filled!(SpanBatch {
                    catalog: Arc::clone(&catalog),
                    threads
                });
                trees.add_batch(&batch);
                stats.add_batch(&batch);
                builder.add_batch(batch);
            }
            if skips {
                // Statistics can only restart here, so the expected values restart too.
                builder.skip_frame();
                stats.restart();
                expected.clear();
                kept = builder.span_count();
            } else {
                builder.end_frame(frame);
                for (key, depths) in depths(&mut trees) {
                    expected.insert((frame, key), depths);
                }
            }
        }
        let columns = builder.finish();
        let mut found: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        let mut row = 0;
        for run in &columns.runs {
            for at in row..row + run.rows {
                // The times of this catalog are ticks, so the times of a row identify it.
                let key = (
                    run.thread.0,
                    columns.start_ns[at] as u64,
                    columns.dur_ns[at] as u64,
                    columns.sites[at],
                );
                if at >= kept {
                    found
                        .entry((run.frame.unwrap(), key))
                        .or_default()
                        .push(columns.depths[at]);
                }
            }
            row += run.rows;
        }
        found.values_mut().for_each(|depths| depths.sort_unstable());
        prop_assert_eq!(found, expected);
        prop_assert_eq!(row, columns.sites.len());
        let self_ns: i64 = columns.self_ns[kept..].iter().sum();
        let by_stats: u64 = stats
            .scope_stats(&catalog)
            .iter()
            .map(|row| row.self_ns)
            .sum();
        prop_assert_eq!(self_ns, by_stats as i64);
    }
}

/// Reads a whole capture into columns.
fn columns_of(path: &std::path::Path) -> Columns {
    let mut capture = Capture::open(path).unwrap();
    let mut pieces = Pieces::open(path, &mut capture).unwrap();
    let mut builder = ColumnsBuilder::with_room(0);
    while let Some(piece) = pieces.next_piece().unwrap() {
        match piece {
            Piece::Batch(batch) => builder.add_batch(batch),
            Piece::Frame(recovered) if recovered.frame.frame_set == 0 => {
                builder.end_frame(recovered.frame.index)
            }
            _ => {}
        }
    }
    assert_eq!(pieces.damage().count, 0);
    builder.finish()
}

#[test]
fn columns_hold_the_whole_file() {
    let made = make(7, 40, 30, true);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.vor");
    std::fs::write(&path, &made.bytes).unwrap();
    let columns = columns_of(&path);
    assert_eq!(columns.sites.len() as u64, made.spans);
    let trees = || {
        made.frames
            .iter()
            .flat_map(|frame| frame.threads.iter().map(move |tree| (frame, tree)))
    };
    let spans = |what: fn(&vor_capture::model::frame::Span) -> u64| {
        trees()
            .flat_map(|(_, tree)| &tree.spans)
            .map(what)
            .sum::<u64>()
    };
    assert_eq!(
        columns
            .depths
            .iter()
            .map(|&depth| u64::from(depth))
            .sum::<u64>(),
        spans(|span| u64::from(span.depth))
    );
    assert_eq!(
        columns
            .sites
            .iter()
            .map(|&site| u64::from(site))
            .sum::<u64>(),
        spans(|span| u64::from(span.site.0))
    );
    let messages = trees().map(|(_, tree)| tree.messages.len()).sum::<usize>();
    assert_eq!(columns.messages.len(), messages);
    for (frame, tree) in trees() {
        let rows = columns
            .runs
            .iter()
            .filter(|run| run.thread == tree.thread && run.frame == Some(frame.index));
        assert_eq!(rows.map(|run| run.rows).sum::<usize>(), tree.spans.len());
    }
    let values: usize = columns.args.iter().map(|args| args.values.len()).sum();
    assert_eq!(
        values,
        trees()
            .map(|(_, tree)| tree.arg_values.len())
            .sum::<usize>()
    );
    let mut row = 0;
    for args in &columns.args {
        assert!(args.row >= row && args.row < columns.sites.len());
        row = args.row + 1;
    }
}

#[test]
fn a_task_has_the_time_of_its_polls() {
    let poll = |task, start_ticks, duration_ticks| {
        filled!(TaskEvent {
            task,
            start_ticks,
            kind: TaskEventKind::Poll { duration_ticks },
        })
    };
    let mut builder = ColumnsBuilder::default();
    let mut add = |events: Vec<TaskEvent>, ended: Option<AsyncSpan>| {
        let thread = filled!(ThreadBatch {
            task_events: events,
            async_spans: ended.into_iter().collect(),
        });
        builder.add_batch(filled!(SpanBatch {
            threads: vec![thread]
        }));
    };
    let first = filled!(AsyncSpan {
        id: 1,
        start_ticks: 100,
        duration_ticks: 900,
    });
    add(vec![poll(1, 100, 10), poll(2, 120, 7)], None);
    // A poll of the first one comes from a thread that is drained later.
    add(vec![], Some(first));
    add(
        vec![
            poll(1, 500, 20),
            filled!(TaskEvent {
                task: 1,
                kind: TaskEventKind::Step,
            }),
        ],
        Some(filled!(AsyncSpan { id: 3 })),
    );
    builder.end_frame(0);
    let columns = builder.finish();
    let found: Vec<_> = columns
        .tasks
        .iter()
        .map(|task| (task.id, task.polls, task.busy_ns, task.dur_ns))
        .collect();
    assert_eq!(found, [(1, 2, 30, 900), (3, 0, 0, 0)]);
}
