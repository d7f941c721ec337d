//! The table of scopes: its values, and the effects of clicks.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::block::block;
use crate::pictures;
use std::cell::RefCell;
use std::sync::Arc;

use crate::scopes_data::{site, store};
use egui::{Key, Pos2, Theme as Shade};
use egui_kittest::{Harness, SnapshotResults, kittest::Queryable};
use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, SpanArgs, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::frame::{FrameSnapshot, TreeBuilder};
use vor_capture::model::measures::Measures;
use vor_capture::stats::StatsBuilder;
use vor_viz::icicle::{StackOptions, Stacks};
use vor_viz::scopes::{Job, ScopeRow, ScopeSums, ScopeTable, frames_caption};
use vor_viz::store::{Extent, FrameBlock, RowBlock, Store, Task, TrackId, TrackKind};
use vor_viz::theme::Theme;
use vor_viz::view::Scope;
use vor_viz::view::View;

/// A table, its data, and a harness around both.
struct Shown {
    store: RefCell<Store>,
    view: RefCell<View>,
    table: RefCell<ScopeTable>,
}

impl Shown {
    fn new(store: Store) -> Self {
        Self {
            store: RefCell::new(store),
            view: RefCell::default(),
            table: RefCell::default(),
        }
    }

    fn harness(&self, width: f32, height: f32, shade: Shade, pixels_per_point: f32) -> Harness<'_> {
        pictures::builder()
            .with_size((width, height))
            .with_theme(shade)
            .with_pixels_per_point(pixels_per_point)
            .with_max_steps(40)
            .build_ui(|ui| {
                let (store, mut view) = (self.store.borrow(), self.view.borrow_mut());
                view.begin_pass(&store);
                let theme = Theme::of(ui.visuals());
                self.table.borrow_mut().show(ui, &store, &mut view, &theme);
            })
    }

    /// Returns the names of the rows, from top to bottom.
    fn names(&self) -> Vec<String> {
        let table = self.table.borrow();
        let rows = &table.rows().unwrap().rows;
        table
            .order()
            .iter()
            .map(|&i| rows[i].name.to_string())
            .collect()
    }
}

#[test]
fn captions_name_the_frames() {
    let store = store(60, 1, 0);
    assert_eq!(frames_caption(&store, None), "no frames yet");
    assert_eq!(frames_caption(&store, Some((0, 59))), "all 60 frames");
    assert_eq!(frames_caption(&store, Some((3, 3))), "frame 803");
    assert_eq!(frames_caption(&store, Some((3, 5))), "frames 803–805 (3)");
    assert_eq!(frames_caption(&store, Some((3, 500))), "no frames yet");
}

#[test]
fn a_click_on_a_title_sorts_and_a_second_one_reverses_the_order() {
    let shown = Shown::new(store(60, 1, 0));
    let mut harness = shown.harness(1000.0, 500.0, Shade::Dark, 1.0);
    harness.run();
    let total = |i: usize| {
        let table = shown.table.borrow();
        table.rows().unwrap().rows[table.order()[i]].total_ns
    };
    harness.get_by_label("sort by total").click();
    harness.run();
    assert_eq!(shown.names()[0], "frame");
    assert!(total(0) > total(1));
    harness.get_by_label("sort by total").click();
    harness.run();
    assert!(total(0) < total(1));
    harness.get_by_label("sort by name").click();
    harness.run();
    assert!(shown.names().is_sorted());
}

#[test]
fn a_filter_keeps_names_that_contain_it_and_goes_to_the_search() {
    let shown = Shown::new(store(20, 1, 0));
    let mut harness = shown.harness(1000.0, 500.0, Shade::Light, 1.0);
    harness.run();
    harness.get_by_label("filter scopes").focus();
    harness.run();
    harness.get_by_label("filter scopes").type_text("RE");
    harness.run();
    let mut names = shown.names();
    names.sort();
    assert_eq!(names[1..], ["load texture", "present", "render"]);
    harness.get_by_label("search").click();
    harness.run();
    assert_eq!(shown.view.borrow().search, "RE");
    harness.get_by_label("CSV").click();
    harness.step();
    let commands = harness.output().platform_output.commands.clone();
    let copied = commands.iter().find_map(|command| match command {
        egui::OutputCommand::CopyText(text) => Some(text.clone()),
        _ => None,
    });
    let copied = copied.unwrap();
    assert_eq!(copied.lines().count(), 5);
    assert!(
        copied.contains("render,scope,engine,src/engine.rs,45,20,"),
        "{copied}"
    );
}

#[test]
fn arrow_keys_select_and_enter_opens_the_details() {
    let shown = Shown::new(store(60, 1, 0));
    let mut harness = shown.harness(1000.0, 560.0, Shade::Dark, 1.0);
    harness.run();
    harness.get_by_label("scope physics").click();
    harness.run();
    assert_eq!(
        shown.table.borrow().selected(),
        Some((site("physics"), TrackKind::Scopes))
    );
    assert!(harness.query_by_label("histogram of physics").is_some());
    let at = shown
        .names()
        .iter()
        .position(|name| name == "physics")
        .unwrap();
    harness.key_press(Key::ArrowUp);
    harness.run();
    let above = shown.names()[at - 1].clone();
    assert!(
        harness
            .query_by_label(&format!("histogram of {above}"))
            .is_some()
    );
    harness.key_press(Key::ArrowDown);
    harness.key_press(Key::ArrowDown);
    harness.run();
    let below = shown.names()[at + 1].clone();
    assert!(
        harness
            .query_by_label(&format!("histogram of {below}"))
            .is_some()
    );
    harness.key_press(Key::Enter);
    harness.run();
    assert!(
        harness
            .query_by_label(&format!("histogram of {below}"))
            .is_none()
    );
    harness.key_press(Key::Enter);
    harness.run();
    assert!(
        harness
            .query_by_label(&format!("histogram of {below}"))
            .is_some()
    );
}

#[test]
fn a_slowest_call_pins_its_frame_and_is_focused() {
    let shown = Shown::new(store(60, 1, 0));
    let mut harness = shown.harness(1100.0, 560.0, Shade::Dark, 1.0);
    harness.run();
    harness.get_by_label("scope draw").click();
    harness.run();
    let slowest = {
        let table = shown.table.borrow();
        let rows = &table.rows().unwrap().rows;
        rows.iter()
            .find(|row| &*row.name == "draw")
            .unwrap()
            .slowest
            .clone()
    };
    assert_eq!(slowest.len(), 10);
    assert!(slowest.is_sorted_by(|a, b| a.span.duration_ns >= b.span.duration_ns));
    let index = shown
        .store
        .borrow()
        .frame_at(slowest[1].span.begin_ns)
        .unwrap();
    let label = format!("slowest 2: frame {}", 800 + index);
    harness.get_by_label(&label).click();
    harness.run();
    {
        let (store, view) = (shown.store.borrow(), shown.view.borrow());
        assert_eq!(view.pinned(), Some(store.id_at(index)));
        let focus = view.focus.unwrap();
        assert_eq!(
            (focus.span, focus.row, focus.track),
            (slowest[1].span, 2, TrackId::Scopes(ThreadId(0)))
        );
    }
    // The other calls remain, and another frame can be pinned.
    assert_eq!(shown.table.borrow().rows().unwrap().frames, 60);
    harness.get_by_label("all frames").click();
    harness.run();
    assert_eq!(shown.table.borrow().rows().unwrap().frames, 1);
}

#[test]
fn another_selection_is_computed_immediately_and_growth_four_times_a_second() {
    let data = store(60, 1, 0);
    let ctx = egui::Context::default();
    let mut job: Job<ScopeSums> = Job::default();
    let mut seconds = 10.0;
    let mut pass =
        |store: &Store, frames: (usize, usize), after_s: f64, job: &mut Job<ScopeSums>| {
            seconds += after_s;
            let input = egui::RawInput {
                time: Some(seconds),
                ..egui::RawInput::default()
            };
            ctx.run_ui(input, |ui| {
                job.advance(ui, store, None, Some(frames.into()), &Extent::Clipped)
            })
            .drop_without_applying_deltas();
            job.output().map(|rows| (rows.frames, rows.spans))
        };
    let all = pass(&data, (0, 59), 0.0, &mut job).unwrap();
    assert_eq!(all.0, 60);
    assert_eq!(pass(&data, (3, 5), 0.01, &mut job).unwrap().0, 3);
    assert_eq!(pass(&data, (0, 59), 0.01, &mut job).unwrap(), all);
    // New frames arrive; the selection does not change.
    let mut grown = data.clone();
    crate::scopes_data::push(&mut grown, 1, 2, 0);
    assert_eq!(pass(&grown, (0, 60), 0.1, &mut job).unwrap(), all);
    assert_eq!(pass(&grown, (0, 60), 0.2, &mut job).unwrap().0, 61);
    assert!(!job.is_dimmed());
}

#[test]
fn old_rows_stay_dimmed_until_those_of_another_selection_arrive() {
    let mut big = Store::new(10, usize::MAX);
    for frame in 0..2 {
        let begin_ns = frame * 10_000_000;
        let mut row = RowBlock::default();
        for i in 0..150_000 {
            row.push(begin_ns + 1 + i * 60, 50, SiteId(1));
        }
        big.push_block(block(
            frame as u64,
            begin_ns,
            begin_ns + 10_000_000,
            vec![row],
        ));
    }
    let shown = Shown::new(big);
    let mut harness = shown.harness(900.0, 300.0, Shade::Dark, 1.0);
    harness.run();
    assert_eq!(shown.table.borrow().rows().unwrap().spans, 300_000);
    shown.view.borrow_mut().select(&shown.store.borrow(), 1, 1);
    harness.step();
    assert!(shown.table.borrow().is_working());
    assert_eq!(shown.table.borrow().rows().unwrap().spans, 300_000);
    assert!(harness.query_by_label_contains("counting").is_some());
    harness.run();
    assert!(!shown.table.borrow().is_working());
    assert_eq!(shown.table.borrow().rows().unwrap().spans, 150_000);
    assert!(harness.query_by_label_contains("counting").is_none());
}

#[test]
fn a_scope_that_began_before_the_frames_has_its_time_within_them_or_that_of_its_whole_life() {
    let mut store = Store::new(10, 1000);
    let row = |spans: &[(i64, u64, u32)]| {
        let mut row = RowBlock::default();
        spans
            .iter()
            .for_each(|&(begin, length, site)| row.push(begin, length, SiteId(site)));
        row
    };
    store.push_block(block(0, 0, 100, vec![row(&[(20, 30, 2), (60, 30, 2)])]));
    store.push_block(block(
        1,
        100,
        200,
        vec![row(&[(10, 150, 1)]), row(&[(110, 40, 2)])],
    ));
    for (extent, total_ns, self_ns) in [(Extent::Clipped, 60, 20), (Extent::Whole, 150, 50)] {
        let mut job: Job<ScopeSums> = Job::default();
        job.finish(&store, Some((1, 1).into()), &extent);
        let rows = &job.output().unwrap().rows;
        let outer = rows.iter().find(|row| row.site == SiteId(1)).unwrap();
        assert_eq!(
            (outer.count, outer.total_ns, outer.self_ns),
            (1, total_ns, self_ns)
        );
        assert_eq!((outer.max_ns, outer.mean_ns()), (150, 150.0), "whole calls");
        let inner = rows.iter().find(|row| row.site == SiteId(2)).unwrap();
        assert_eq!((inner.count, inner.total_ns), (1, 40));
    }
}

#[test]
fn a_range_of_time_is_counted_like_frames_of_that_time() {
    let store = store(12, 7, 0);
    let time = store.time_of(3..7).unwrap();
    for extent in [Extent::Clipped, Extent::Whole] {
        let rows = |scope: Scope| {
            let mut job: Job<ScopeSums> = Job::default();
            job.finish(&store, Some(scope), &extent);
            let rows = job.output().unwrap();
            let mut sums: Vec<_> = rows
                .rows
                .iter()
                .map(|row| {
                    (
                        row.site,
                        row.is_task(),
                        row.count,
                        row.total_ns,
                        row.self_ns,
                    )
                })
                .collect();
            sums.sort_unstable();
            (rows.time_ns, sums)
        };
        let of_time = rows(Scope::Time {
            begin_ns: time.start,
            end_ns: time.end,
        });
        assert!(!of_time.1.is_empty());
        assert_eq!(of_time, rows(Scope::Frames(3, 6)));
    }
}

#[test]
fn hostile_times_neither_panic_nor_hang() {
    let mut store = Store::new(10, 1000);
    let mut row = RowBlock::default();
    row.push(i64::MIN, u64::MAX, SiteId(u32::MAX));
    row.push(0, 0, SiteId(0));
    row.push(0, 0, SiteId(7));
    row.push(i64::MAX, u64::MAX, SiteId(9));
    row.push(i64::MAX, 0, SiteId(9));
    let task = Task {
        id: u64::MAX,
        site: SiteId(0),
        begin_ns: i64::MIN,
        duration_ns: u64::MAX,
    };
    let mut hostile = block(u64::MAX, i64::MIN, i64::MAX, vec![row.clone(), row]);
    hostile.threads[0].tasks = vec![task; 300];
    store.push_block(hostile);
    let shown = Shown::new(store);
    let mut harness = shown.harness(700.0, 420.0, Shade::Light, 1.0);
    harness.run();
    assert!(shown.table.borrow().rows().unwrap().spans > 0);
    for name in ["count", "total", "self", "mean", "p50", "max", "share"] {
        harness.get_by_label(&format!("sort by {name}")).click();
        harness.run();
    }
    let sites: Vec<_> = {
        let table = shown.table.borrow();
        table
            .rows()
            .unwrap()
            .rows
            .iter()
            .map(|row| (row.site, row.kind))
            .collect()
    };
    for (site, kind) in sites {
        shown.table.borrow_mut().select(site, kind);
        harness.run();
        harness.get_by_label_contains("slowest 1:").click();
        harness.run();
        shown.view.borrow_mut().unpin();
    }
}

#[test]
fn pictures() {
    let shown = Shown::new(store(60, 1, 0));
    let mut results = SnapshotResults::new();
    for (shade, name) in [(Shade::Dark, "dark"), (Shade::Light, "light")] {
        *shown.table.borrow_mut() = ScopeTable::default();
        *shown.view.borrow_mut() = View::default();
        let mut harness = shown.harness(1060.0, 360.0, shade, 1.0);
        harness.run();
        harness.snapshot(format!("scopes_{name}"));
        results.extend_harness(&mut harness);
        drop(harness);
        shown
            .table
            .borrow_mut()
            .select(site("draw"), TrackKind::Scopes);
        let mut harness = shown.harness(1060.0, 560.0, shade, 2.0);
        harness.run();
        let bar = harness.get_by_label("histogram of draw").rect();
        harness.hover_at(Pos2::new(
            bar.left() + bar.width() * 0.45,
            bar.bottom() - 30.0,
        ));
        harness.run();
        harness.snapshot(format!("scopes_details_{name}"));
        results.extend_harness(&mut harness);
    }
}

#[test]
fn an_empty_store_and_a_narrow_window_have_a_picture_too() {
    let shown = Shown::new(Store::new(10, 10));
    let mut harness = shown.harness(420.0, 120.0, Shade::Dark, 1.0);
    harness.run();
    assert!(harness.query_by_label_contains("no frames yet").is_some());
    let mut results = SnapshotResults::new();
    harness.snapshot("scopes_empty");
    results.extend_harness(&mut harness);
    drop(harness);
    let shown = Shown::new(store(3, 1, 0));
    let mut harness = shown.harness(420.0, 260.0, Shade::Light, 1.0);
    harness.run();
    harness.snapshot("scopes_narrow");
    results.extend_harness(&mut harness);
}

/// A step of a generated program.
#[derive(Clone, Copy, Debug)]
enum Step {
    Open(u32),
    Close,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1u32..6).prop_map(Step::Open),
        3 => Just(Step::Close),
        4 => prop_oneof![0u64..3, 1u64..5_000, 1u64..9_000_000_000].prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..400)
}

/// Returns times, including the first and the last possible ones.
fn extreme() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(i64::MIN),
        Just(i64::MIN + 1),
        Just(i64::MAX),
        Just(0i64),
        -20i64..20,
        any::<i64>(),
    ]
}

/// Returns the spans in the order in which they ended, and the time when all had ended.
fn run(steps: &[Step]) -> (ThreadBatch, u64) {
    let (mut batch, mut open, mut now) = (ThreadBatch::default(), Vec::new(), 10_u64);
    let close_all = std::iter::repeat_n(&Step::Close, steps.len());
    for step in steps.iter().chain(close_all) {
        match *step {
            Step::Open(site) => open.push((SiteId(site), now)),
            Step::Wait(ns) => now += ns,
            Step::Close => {
                let Some((site, begin)) = open.pop() else {
                    continue;
                };
                batch.start_ticks.push(begin);
                batch.duration_ticks.push(now - begin);
                batch.sites.push(site);
            }
        }
    }
    (batch, now)
}

/// Returns a store with the trees of spans, cut into frames at some times.
fn store_of(batch: &ThreadBatch, cuts: &[u64]) -> Store {
    let mut store = Store::new(1000, usize::MAX);
    let mut from = 0;
    let mut begin = 0;
    for (number, &cut) in cuts.iter().enumerate() {
        let ends = |i: usize| batch.start_ticks[i] + batch.duration_ticks[i];
        let to = (from..batch.sites.len())
            .find(|&i| ends(i) > cut)
            .unwrap_or(batch.sites.len());
        let part = filled!(ThreadBatch {
            start_ticks: batch.start_ticks[from..to].to_vec(),
            duration_ticks: batch.duration_ticks[from..to].to_vec(),
            sites: batch.sites[from..to].to_vec()
        });
        let mut trees = TreeBuilder::new(usize::MAX);
        trees.add(&part);
        let snapshot = filled!(vor_capture::model::frame::FrameSnapshot {
            index: number as u64,
            start_ticks: begin,
            end_ticks: cut,
            threads: trees.finish().threads
        });
        store.push_block(FrameBlock::new(&snapshot, 0));
        (from, begin) = (to, cut);
    }
    store
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn counts_totals_and_self_times_match_the_reader(steps in steps(), cut in 0.0f64..1.0) {
        let (batch, end) = run(&steps);
        let store = store_of(&batch, &[(end as f64 * cut) as u64, end]);
        let catalog = Catalog::default();
        let mut builder = StatsBuilder::new();
        builder.add(&catalog.timeline, &batch);
        let mut job: Job<ScopeSums> = Job::default();
        job.finish(&store, Some((0, 1).into()), &Extent::Whole);
        prop_assert_eq!(job.output().unwrap().spans, batch.sites.len() as u64);
        let mut rows: Vec<_> = job.output().unwrap().rows.iter().collect();
        rows.sort_by_key(|row| row.site);
        let expected = builder.scope_stats(&catalog);
        prop_assert_eq!(rows.len(), expected.len());
        for (row, expected) in rows.iter().zip(&expected) {
            prop_assert_eq!(
                (
                    row.site,
                    row.count,
                    row.total_ns,
                    row.self_ns,
                    row.min_ns,
                    row.max_ns
                ),
                (
                    expected.site,
                    expected.count,
                    expected.total_ns,
                    expected.self_ns,
                    expected.min_ns,
                    expected.max_ns
                )
            );
            prop_assert_eq!(
                (row.p50_ns, row.p95_ns, row.p99_ns),
                (expected.p50_ns, expected.p95_ns, expected.p99_ns)
            );
        }
    }

    #[test]
    fn spans_anywhere_in_time_neither_panic_nor_are_counted_twice(
        spans in proptest::collection::vec((extreme(), any::<u64>(), 0u32..70, 0usize..4), 1..200),
        cuts in (extreme(), extreme(), extreme()),
    ) {
        let mut store = Store::new(10, usize::MAX);
        for (number, part) in spans.chunks(60).enumerate() {
            let mut rows = vec![RowBlock::default(); 4];
            let mut sorted = part.to_vec();
            sorted.sort_by_key(|span| span.0);
            for (begin, length, shift, row) in sorted {
                rows[row].push(begin, length.checked_shr(shift).unwrap_or(0), SiteId(shift));
            }
            let (begin, end) = if number == 0 {
                (cuts.0, cuts.1)
            } else {
                (cuts.1, cuts.2)
            };
            store.push_block(block(number as u64, begin, end, rows));
        }
        let all = Some((0, store.frames().len() - 1));
        for extent in [Extent::Clipped, Extent::Whole] {
            let mut table: Job<ScopeSums> = Job::default();
            table.finish(&store, all.map(Into::into), &extent);
            prop_assert!(
                table
                    .output()
                    .is_none_or(|rows| rows.spans <= spans.len() as u64)
            );
            let mut stacks: Job<Stacks> = Job::default();
            stacks.finish(&store, all.map(Into::into), &StackOptions {
                by_thread: true,
                extent,
            });
            let counted = stacks.output().map(|stacks| {
                let scopes = stacks
                    .tree
                    .nodes()
                    .iter()
                    .filter(|node| node.parent != 0 && node.parent != u32::MAX);
                scopes.map(|node| node.sums.count).sum::<u64>()
            });
            prop_assert_eq!(counted, table.output().map(|rows| rows.spans));
        }
    }

    #[test]
    fn the_last_frames_match_the_reader_after_a_restart(steps in steps(), cut in 0.0f64..1.0) {
        let (batch, end) = run(&steps);
        let cut = (end as f64 * cut) as u64;
        let store = store_of(&batch, &[cut, end]);
        let catalog = Catalog::default();
        let first =
            (0..batch.sites.len()).find(|&i| batch.start_ticks[i] + batch.duration_ticks[i] > cut);
        let first = first.unwrap_or(batch.sites.len());
        let part = |from: usize, to: usize| {
            filled!(ThreadBatch {
                start_ticks: batch.start_ticks[from..to].to_vec(),
                duration_ticks: batch.duration_ticks[from..to].to_vec(),
                sites: batch.sites[from..to].to_vec()
            })
        };
        let mut builder = StatsBuilder::new();
        builder.add(&catalog.timeline, &part(0, first));
        builder.restart();
        builder.add(&catalog.timeline, &part(first, batch.sites.len()));
        let mut job: Job<ScopeSums> = Job::default();
        job.finish(&store, Some((1, 1).into()), &Extent::Whole);
        let mut rows: Vec<_> = job.output().unwrap().rows.iter().collect();
        rows.sort_by_key(|row| row.site);
        let mine: Vec<_> = rows
            .iter()
            .map(|row| (row.site, row.count, row.total_ns, row.self_ns))
            .collect();
        let expected = builder.scope_stats(&catalog);
        let expected: Vec<_> = expected
            .iter()
            .map(|row| (row.site, row.count, row.total_ns, row.self_ns))
            .collect();
        prop_assert_eq!(mine, expected);
    }
}

#[test]
fn the_parts_of_a_wait_have_their_own_columns() {
    let site = |name: &'static str| {
        let args = Measures::CPU.union(Measures::WAIT).arg_names();
        Some(Arc::new(filled!(SiteInfo {
            name: name.into(),
            arg_names: args.map(Into::into).collect(),
        })))
    };
    let catalog = Arc::new(filled!(Catalog {
        sites: Arc::new(vec![site("queues"), site("blocks")]),
    }));
    let args = |span, off_cpu_ns, run_queue_ns| {
        filled!(SpanArgs {
            span,
            values: [off_cpu_ns, run_queue_ns].map(ArgValue::U64).to_vec(),
        })
    };
    let mut builder = TreeBuilder::new(100);
    builder.add(&filled!(ThreadBatch {
        start_ticks: vec![0, 4_000_000],
        duration_ticks: vec![3_000_000, 2_000_000],
        sites: vec![SiteId(1), SiteId(2)],
        args: vec![args(0, 2_000_000, 1_500_000), args(1, 1_900_000, 100_000)],
    }));
    let frame = filled!(FrameSnapshot {
        catalog,
        end_ticks: 10_000_000,
        span_count: 2,
        threads: builder.finish().threads,
    });
    let mut store = Store::new(10, usize::MAX);
    store.push_block(FrameBlock::new(&frame, 0));
    let shown = Shown::new(store);
    let mut harness = shown.harness(1240.0, 200.0, Shade::Light, 1.0);
    {
        let table = shown.table.borrow();
        let parts = |row: &ScopeRow| (row.name.to_string(), row.cpu_ns(), row.waits_ns());
        let mut found: Vec<_> = table.rows().unwrap().rows.iter().map(parts).collect();
        found.sort();
        let blocks = (
            "blocks".to_owned(),
            Some(100_000),
            Some([100_000, 1_800_000]),
        );
        let queues = (
            "queues".to_owned(),
            Some(1_000_000),
            Some([1_500_000, 500_000]),
        );
        assert_eq!(found, [blocks, queues]);
    }
    harness.get_by_label_contains("blocked").click();
    harness.run();
    assert_eq!(shown.names(), ["blocks", "queues"]);
    harness.get_by_label_contains("queued").click();
    harness.run();
    assert_eq!(shown.names(), ["queues", "blocks"]);
    harness.snapshot("scopes_waits_light");
}

#[test]
fn switches_have_their_own_column() {
    let site = |name: &'static str| {
        let args = Measures::WAITS.arg_names();
        Some(Arc::new(filled!(SiteInfo {
            name: name.into(),
            arg_names: args.map(Into::into).collect(),
        })))
    };
    let catalog = Arc::new(filled!(Catalog {
        sites: Arc::new(vec![site("sleeps"), site("polls")]),
    }));
    let args = |span, switches| {
        filled!(SpanArgs {
            span,
            values: [500_000, 100_000, switches].map(ArgValue::U64).to_vec(),
        })
    };
    let mut builder = TreeBuilder::new(100);
    builder.add(&filled!(ThreadBatch {
        start_ticks: vec![0, 4_000_000],
        duration_ticks: vec![3_000_000, 2_000_000],
        sites: vec![SiteId(1), SiteId(2)],
        args: vec![args(0, 1), args(1, 40)],
    }));
    let frame = filled!(FrameSnapshot {
        catalog,
        end_ticks: 10_000_000,
        span_count: 2,
        threads: builder.finish().threads,
    });
    let mut store = Store::new(10, usize::MAX);
    store.push_block(FrameBlock::new(&frame, 0));
    let shown = Shown::new(store);
    let mut harness = shown.harness(1300.0, 200.0, Shade::Light, 1.0);
    {
        let table = shown.table.borrow();
        let number = |row: &ScopeRow| (row.name.to_string(), row.switches());
        let mut found: Vec<_> = table.rows().unwrap().rows.iter().map(number).collect();
        found.sort();
        let expected = [("polls", Some(40)), ("sleeps", Some(1))];
        assert_eq!(
            found,
            expected.map(|(name, number)| (name.to_owned(), number))
        );
    }
    assert_eq!(shown.names(), ["sleeps", "polls"]);
    harness.get_by_label_contains("switches").click();
    harness.run();
    assert_eq!(shown.names(), ["polls", "sleeps"]);
}

#[test]
fn measured_values_of_scopes_have_their_own_columns() {
    let site = |name: &'static str, measures: Measures| {
        let own = (name == "load").then_some("file");
        let args = own.into_iter().chain(measures.arg_names());
        Some(Arc::new(filled!(SiteInfo {
            name: name.into(),
            arg_names: args.map(Into::into).collect()
        })))
    };
    let all = Measures::CPU.union(Measures::ALLOC);
    let catalog = Arc::new(filled!(Catalog {
        sites: Arc::new(vec![
            site("load", all),
            site("compute", all),
            site("not measured", Measures::NONE),
        ])
    }));
    let frame = |index: u64| {
        let start = index * 10_000_000;
        let values = |own: Option<&str>, measured: [u64; 5]| {
            let own = own.map(|text| ArgValue::Str(text.into()));
            own.into_iter().chain(measured.map(ArgValue::U64)).collect()
        };
        let mut builder = TreeBuilder::new(100);
        builder.add(&filled!(ThreadBatch {
            start_ticks: vec![start + 100_000, start + 4_000_000, start + 6_000_000],
            duration_ticks: vec![3_000_000, 1_000_000, 500_000],
            sites: vec![SiteId(1), SiteId(2), SiteId(3)],
            // The second span has no values: it ran all the time and allocated nothing.
            args: vec![filled!(SpanArgs {
                span: 0,
                values: values(Some("a.bin"), [2_900_000, 10, 4 << 20, 9, 1 << 20]),
            })]
        }));
        filled!(FrameSnapshot {
            catalog: Arc::clone(&catalog),
            index,
            start_ticks: start,
            end_ticks: start + 10_000_000,
            span_count: 3,
            threads: builder.finish().threads
        })
    };
    let mut store = Store::new(10, usize::MAX);
    for index in 0..4 {
        store.push_block(FrameBlock::new(&frame(index), 0));
    }
    let shown = Shown::new(store);
    let mut harness = shown.harness(1240.0, 200.0, Shade::Dark, 1.0);
    shown.view.borrow_mut().select(&shown.store.borrow(), 1, 3);
    harness.run();
    {
        let table = shown.table.borrow();
        let row = |name: &str| {
            table
                .rows()
                .unwrap()
                .rows
                .iter()
                .find(|row| &*row.name == name)
        };
        let load = row("load").unwrap();
        assert_eq!(
            (load.cpu_ns(), load.alloc_bytes()),
            (Some(300_000), Some(12 << 20))
        );
        let compute = row("compute").unwrap();
        assert_eq!(
            (compute.cpu_ns(), compute.alloc_bytes()),
            (Some(3_000_000), Some(0))
        );
        let plain = row("not measured").unwrap();
        assert_eq!((plain.cpu_ns(), plain.alloc_bytes()), (None, None));
    }
    harness.get_by_label_contains("cpu").click();
    harness.run();
    assert_eq!(shown.names(), ["compute", "load", "not measured"]);
    harness.get_by_label_contains("alloc").click();
    harness.run();
    assert_eq!(shown.names(), ["load", "compute", "not measured"]);
    harness.snapshot("scopes_measured_dark");
}
