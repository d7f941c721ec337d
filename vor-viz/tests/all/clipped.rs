//! The table and the flame graph contain the spans that overlap the selected frames, with their
//! time within them.
//!
//! The expected sums of random programs come from a sweep over the moments at which a span begins
//! or ends, which knows nothing of frames, rows or walks.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ops::Range;

use crate::judge::judge;
use crate::pictures;
use crate::pointer::hover;
use crate::scopes_data::catalog_of;
use crate::truth::{self, Program};
use egui_kittest::{Harness, kittest::Queryable};
use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_fixtures::Random;
use vor_fixtures::random::{rounds, seeds};
use vor_fixtures::recorded::{Measured, Recorded, RecordedSpan};
use vor_fixtures::views::BEGIN;
use vor_viz::bars::Thresholds;
use vor_viz::icicle::{StackKey, StackOptions, Stacks};
use vor_viz::panel::{Panel, Tab};
use vor_viz::scopes::{Job, ScopeRows, ScopeSums};
use vor_viz::store::{Extent, FrameBlock, FrameEntry, RowBlock, Store, ThreadBlock, TrackKind};
use vor_viz::view::SpanRef;

fn table(store: &Store, frames: (usize, usize), extent: Extent) -> ScopeRows {
    let mut job: Job<ScopeSums> = Job::default();
    job.finish(store, Some(frames.into()), &extent);
    job.output().unwrap().clone()
}

fn stacks(store: &Store, frames: (usize, usize), extent: Extent) -> Stacks {
    let mut job: Job<Stacks> = Job::default();
    let options = StackOptions {
        by_thread: true,
        extent,
    };
    job.finish(store, Some(frames.into()), &options);
    job.output().unwrap().clone()
}

/// Returns the scopes and the tasks of a program in the store's time.
fn recorded(program: &Program, store: &Store) -> Recorded {
    let origin_ns = store.frames()[0].begin_ns;
    let at = |ns: u64| origin_ns + ns as i64;
    let spans = program.rows.iter();
    // Times of rows count from the first mark.
    let spans = spans.map(|&(thread, depth, site, begin, end)| RecordedSpan {
        thread,
        depth,
        site,
        begin_ns: at(begin),
        end_ns: at(end),
    });
    let tasks = program.tasks.iter().flatten().map(|task| RecordedSpan {
        // Those of a frame have ascending ids by thread.
        thread: (task.id % 3) as u32,
        depth: 0,
        site: task.site.0,
        begin_ns: at(task.start_ticks - BEGIN),
        end_ns: at(task.end_ticks() - BEGIN),
    });
    Recorded {
        spans: spans.collect(),
        tasks: tasks.collect(),
        ..Recorded::default()
    }
}

fn selections(frames: usize, random: &mut Random) -> Vec<(usize, usize)> {
    let mut selections = vec![(0, frames - 1)];
    for _ in 0..6 {
        let first = random.below(frames);
        selections.push((first, first));
        selections.push((first, first + random.below(frames - first)));
    }
    selections
}

#[test]
fn sums_match_a_sweep_over_all_spans() {
    let mut late = 0;
    for seed in seeds(30) {
        let program = truth::program(seed);
        let replay = truth::open(&program);
        let store = replay.store();
        let recorded = recorded(&program, store);
        for frames in selections(store.frames().len(), &mut Random(seed)) {
            let case = format!("seed {seed}, frames {frames:?}");
            let rows = table(store, frames, Extent::Clipped);
            let measured = Measured {
                time: store.time_of(frames.0..frames.1 + 1).unwrap(),
                is_whole: false,
            };
            judge(&rows, &recorded, &measured, &case);
            late += rows
                .rows
                .iter()
                .map(|row| row.count - row.ended_count)
                .sum::<u64>();
        }
    }
    assert!(
        late > rounds(1_000) as u64,
        "only {late} spans end after their selection"
    );
}

#[test]
fn no_share_of_a_thread_is_above_the_whole_time() {
    for seed in seeds(30) {
        let program = truth::program(seed);
        let replay = truth::open(&program);
        let store = replay.store();
        for frames in selections(store.frames().len(), &mut Random(seed)) {
            let case = format!("seed {seed}, frames {frames:?}");
            let rows = table(store, frames, Extent::Clipped);
            let stacks = stacks(store, frames, Extent::Clipped);
            assert_eq!(rows.time_ns, stacks.time_ns);
            let scopes = rows.rows.iter().filter(|row| row.kind == TrackKind::Scopes);
            let nodes = &stacks.tree.nodes()[1..];
            for row in scopes.clone() {
                assert!(row.total_ns <= 3 * rows.time_ns, "{case}: {row:?}");
                assert!(row.self_ns <= row.total_ns, "{case}: {row:?}");
                let own = nodes
                    .iter()
                    .filter(|node| node.key == StackKey::Scope(row.site));
                let own_self_ns: u64 = own.map(|node| node.sums.self_ns).sum();
                assert_eq!(own_self_ns, row.self_ns, "{case}: {row:?}");
            }
            let threads = nodes
                .iter()
                .filter(|node| matches!(node.key, StackKey::Thread(_)));
            for thread in threads {
                assert!(thread.sums.total_ns <= rows.time_ns, "{case}: {thread:?}");
            }
            // Each moment of a thread within a scope is in one self time.
            let all_self_ns: u64 = scopes.map(|row| row.self_ns).sum();
            assert_eq!(all_self_ns, stacks.tree.nodes()[0].sums.total_ns, "{case}");
        }
    }
}

#[test]
fn the_times_of_single_frames_add_up_to_those_of_all() {
    for seed in seeds(10) {
        let program = truth::program(seed);
        let replay = truth::open(&program);
        let store = replay.store();
        let last = store.frames().len() - 1;
        let mut sums: BTreeMap<(SiteId, TrackKind), (u64, u64)> = BTreeMap::new();
        for frame in 0..=last {
            for row in table(store, (frame, frame), Extent::Clipped).rows {
                let sums = sums.entry((row.site, row.kind)).or_default();
                *sums = (sums.0 + row.total_ns, sums.1 + row.self_ns);
            }
        }
        let all = table(store, (0, last), Extent::Clipped);
        let all = all
            .rows
            .iter()
            .map(|row| ((row.site, row.kind), (row.total_ns, row.self_ns)));
        assert_eq!(sums, all.collect(), "seed {seed}");
    }
}

#[test]
fn the_spans_that_ended_in_the_frames_are_the_same_with_either_extent() {
    for seed in seeds(30) {
        let program = truth::program(seed);
        let replay = truth::open(&program);
        let store = replay.store();
        for frames in selections(store.frames().len(), &mut Random(seed)) {
            let ended = |extent| {
                let rows = table(store, frames, extent).rows;
                if extent == Extent::Whole {
                    let all = rows.iter().all(|row| row.ended_count == row.count);
                    assert!(all, "seed {seed}, frames {frames:?}");
                }
                let rows = rows.iter().filter(|row| row.ended_count > 0);
                let rows = rows.map(|row| ((row.site, row.kind), row.ended_count));
                rows.collect::<BTreeMap<_, _>>()
            };
            assert_eq!(
                ended(Extent::Clipped),
                ended(Extent::Whole),
                "seed {seed}, frames {frames:?}"
            );
        }
    }
}

const NAMES: [&str; 5] = [
    "Walker::run",
    "Walker::walk",
    "wait for readers",
    "read_file",
    "wait for compressors",
];

const FRAME_NS: i64 = 2_110_000;

/// Returns frames of 2.11 ms of a program with a walker, whose scopes last longer than all of them,
/// and with two readers, whose files end in other frames than they begin in.
fn readers() -> Store {
    let frames = 8;
    let mut store = Store::new(100, usize::MAX);
    for number in 0..frames {
        let (begin_ns, end_ns) = (number * FRAME_NS, (number + 1) * FRAME_NS);
        let mut walker = Vec::new();
        if number + 1 == frames {
            for depth in 0..5 {
                let begin = 10_000 + depth * 10;
                let site = if depth == 0 { 1 } else { 2 };
                let mut row = RowBlock::default();
                row.push(begin, (end_ns - 2 * begin) as u64, SiteId(site));
                walker.push(row);
            }
        }
        let mut waits = RowBlock::default();
        for i in 0..10 {
            waits.push(begin_ns + 20_000 + i * 209_000, 200_000, SiteId(3));
        }
        walker.push(waits);
        let threads = [
            walker,
            reader(0, begin_ns..end_ns),
            reader(700_000, begin_ns..end_ns),
        ];
        let threads = (0..).zip(threads).map(|(thread, rows)| ThreadBlock {
            thread: ThreadId(thread),
            rows,
            ..ThreadBlock::default()
        });
        store.push_block(FrameBlock {
            frame: FrameEntry {
                number: 45 + number as u64,
                begin_ns,
                end_ns,
                ..FrameEntry::default()
            },
            catalog: catalog_of(&NAMES),
            threads: threads.collect(),
        });
    }
    store
}

/// Returns the rows of a thread that reads one file of 3.02 ms after the other, with those that end
/// in a frame.
fn reader(first_ns: i64, frame: Range<i64>) -> Vec<RowBlock> {
    const FILE_NS: i64 = 3_020_000;
    let (mut files, mut waits) = (RowBlock::default(), RowBlock::default());
    let begins = (0..).map(|i| first_ns + i * FILE_NS);
    for begin in begins.take_while(|begin| begin + FILE_NS <= frame.end) {
        if begin + FILE_NS > frame.start {
            files.push(begin, FILE_NS as u64, SiteId(4));
            waits.push(begin + 20_000, FILE_NS as u64 - 40_000, SiteId(5));
        }
    }
    vec![files, waits]
}

#[test]
fn a_frame_within_long_scopes_contains_them_and_no_more_than_its_time_per_thread() {
    let store = readers();
    let frame = (4, 4);
    let of = |extent| {
        let rows = table(&store, frame, extent);
        let named = |name: &str| {
            let row = rows.rows.iter().find(|row| &*row.name == name)?;
            Some((row.count, row.total_ns, row.self_ns))
        };
        NAMES.map(named)
    };
    // Two threads read all the time, 2.11 ms each.
    assert_eq!(
        of(Extent::Clipped),
        [
            Some((1, 2_110_000, 0)),
            Some((4, 2_110_000, 110_000)),
            Some((10, 2_000_000, 2_000_000)),
            Some((4, 4_220_000, 80_000)),
            Some((4, 4_140_000, 4_140_000)),
        ]
    );
    // Of whole spans, those around the frame are missing, and two files take longer than it.
    assert_eq!(
        of(Extent::Whole),
        [
            None,
            None,
            Some((10, 2_000_000, 2_000_000)),
            Some((2, 6_040_000, 80_000)),
            Some((2, 5_960_000, 5_960_000)),
        ]
    );
    let stacks = stacks(&store, frame, Extent::Clipped);
    let path = [
        StackKey::Thread(ThreadId(0)),
        StackKey::Scope(SiteId(1)),
        StackKey::Scope(SiteId(2)),
        StackKey::Scope(SiteId(2)),
        StackKey::Scope(SiteId(2)),
        StackKey::Scope(SiteId(2)),
        StackKey::Scope(SiteId(3)),
    ];
    let walks = stacks.tree.node(stacks.tree.follow(&path)).unwrap();
    assert_eq!((walks.key, walks.sums.count), (path[6], 10));
    for thread in stacks.tree.children(0) {
        let sums = stacks.tree.node(thread).unwrap().sums;
        assert_eq!(sums.total_ns, 2_110_000, "each thread was busy");
    }
}

/// Returns a panel with frame 49 of the readers, its table or its flame graph.
fn panel(tab: Tab) -> Harness<'static, Panel> {
    let show = |ui: &mut egui::Ui, panel: &mut Panel| {
        ui.ctx().set_theme(egui::Theme::Dark);
        egui::CentralPanel::default().show(ui, |ui| panel.show(ui, &[]));
    };
    let mut panel = Panel::new(readers(), Thresholds::default());
    let id = panel.store().id_at(4);
    panel.view_mut().pin(id);
    panel.set_tab(tab);
    let mut harness = pictures::builder()
        .with_size(egui::vec2(1100.0, 640.0))
        .build_ui_state(show, panel);
    harness.run();
    harness
}

#[test]
fn one_switch_measures_whole_spans_in_the_table_and_the_flame_graph() {
    let mut harness = panel(Tab::Scopes);
    harness.snapshot("clipped_scopes_dark");
    let rows = |harness: &Harness<'_, Panel>| {
        let rows = harness.state().scopes().rows().unwrap().rows.len();
        (harness.state().view().extent, rows)
    };
    assert_eq!(rows(&harness), (Extent::Clipped, 5));
    harness.get_by_label("whole spans").click();
    harness.run();
    assert_eq!(rows(&harness), (Extent::Whole, 3));
    assert!(harness.query_by_label("scope Walker::run").is_none());
    harness.state_mut().set_tab(Tab::Icicle);
    harness.run();
    assert!(harness.query_by_label_contains("3 stacks").is_some());
    harness.get_by_label("whole spans").click();
    harness.run();
    assert!(harness.query_by_label_contains("8 stacks").is_some());
    assert_eq!(harness.state().view().extent, Extent::Clipped);
    harness.remove_cursor();
    harness.run();
    harness.snapshot("clipped_icicle_dark");
}

#[test]
fn hover_texts_say_what_a_column_measures() {
    let mut harness = panel(Tab::Scopes);
    for (title, clipped, whole) in [
        (
            "count",
            "contain, in whole or in part",
            "ended in these frames",
        ),
        (
            "total",
            "was open in these frames",
            "of those that ended in these frames",
        ),
        (
            "self",
            "took in these frames without",
            "those that ended in these frames",
        ),
        (
            "mean",
            "from its begin to its end",
            "from its begin to its end",
        ),
        (
            "max",
            "from its begin to its end",
            "from its begin to its end",
        ),
        (
            "share",
            "a thread adds at most 100 %",
            "may take more than that",
        ),
    ] {
        for text in [clipped, whole] {
            let at = harness
                .get_by_label(&format!("sort by {title}"))
                .rect()
                .center();
            hover(&mut harness, at);
            for _ in 0..60 {
                harness.step();
            }
            assert!(
                harness.query_by_label_contains(text).is_some(),
                "{title}: {text}"
            );
            harness.get_by_label("whole spans").click();
            harness.run();
        }
    }
}

#[test]
fn the_card_of_a_span_in_several_frames_has_its_share_of_all_of_them() {
    let mut harness = panel(Tab::Scopes);
    for (thread, expected) in [
        // The walker is open in all eight frames, but for 10 µs at both ends.
        (0, ["frames 45–52", "99.9 % of 16.9 ms"]),
        // A file of 3.02 ms ends in frame 49.
        (1, ["frames 47–49", "47.7 % of 6.33 ms"]),
    ] {
        let focus = {
            let store = harness.state().store();
            let track = &store.shown_tracks()[thread];
            let row = &track.rows[0];
            let ends = store.frames()[4].begin_ns;
            SpanRef {
                track: track.id,
                row: 0,
                span: row.spans(ends, ends + 1).next().unwrap(),
            }
        };
        harness.state_mut().view_mut().focus = Some(focus);
        harness.run();
        for text in expected {
            assert!(harness.query_by_label_contains(text).is_some(), "{text}");
        }
    }
}
