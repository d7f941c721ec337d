//! The icicle: the stacks that it merges, and the effects of clicks and searches.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::block::block;
use crate::pictures;
use std::cell::RefCell;

use crate::scopes_data::{site, store};
use egui::{Event, PointerButton, Pos2, Theme as Shade};
use egui_kittest::{Harness, SnapshotResults, kittest::Queryable};
use proptest::prelude::*;
use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_viz::icicle::{Icicle, StackKey, StackOptions, Stacks};
use vor_viz::scopes::{Job, ScopeSums};
use vor_viz::store::{Extent, RowBlock, Store};
use vor_viz::theme::Theme;
use vor_viz::view::View;

struct Shown {
    store: Store,
    view: RefCell<View>,
    icicle: RefCell<Icicle>,
}

impl Shown {
    fn new(store: Store) -> Self {
        Self {
            store,
            view: RefCell::default(),
            icicle: RefCell::default(),
        }
    }

    fn harness(&self, width: f32, height: f32, shade: Shade, pixels_per_point: f32) -> Harness<'_> {
        pictures::builder()
            .with_size((width, height))
            .with_theme(shade)
            .with_pixels_per_point(pixels_per_point)
            .build_ui(|ui| {
                let mut view = self.view.borrow_mut();
                view.begin_pass(&self.store);
                let theme = Theme::of(ui.visuals());
                self.icicle
                    .borrow_mut()
                    .show(ui, &self.store, &mut view, &theme);
            })
    }

    fn zoomed_to(&self) -> Vec<StackKey> {
        self.icicle.borrow().zoomed_to().to_vec()
    }
}

fn scope(name: &str) -> StackKey {
    StackKey::Scope(site(name))
}

/// Returns a point in row `row` of the boxes, at the fraction `part` from left to right.
fn point(harness: &Harness<'_>, row: f32, part: f32) -> Pos2 {
    let rect = harness.get_by_label("icicle of merged stacks").rect();
    Pos2::new(
        rect.left() + rect.width() * part,
        rect.top() + 19.0 * row + 9.0,
    )
}

/// Presses and releases the button `times` times within one pass.
fn click(harness: &mut Harness<'_>, at: Pos2, times: usize) {
    // The previous click is long ago, so it does not make this one a double click.
    for _ in 0..5 {
        harness.step();
    }
    let time = harness.input().time.unwrap_or(0.0);
    harness.input_mut().time = Some(time + 2.0);
    harness.event(Event::PointerMoved(at));
    harness.step();
    for _ in 0..times {
        for pressed in [true, false] {
            harness.event(Event::PointerButton {
                pos: at,
                button: PointerButton::Primary,
                pressed,
                modifiers: egui::Modifiers::NONE,
            });
        }
        harness.step();
    }
    harness.run();
}

#[test]
fn equal_stacks_are_one_and_threads_are_separate_on_request() {
    let store = store(60, 1, 0);
    let mut job: Job<Stacks> = Job::default();
    job.finish(&store, Some((0, 59).into()), &StackOptions::default());
    let stacks = job.output().unwrap();
    let collide = stacks.tree.follow(&[
        scope("frame"),
        scope("update"),
        scope("physics"),
        scope("collide"),
    ]);
    assert_eq!(stacks.tree.node(collide).unwrap().sums.count, 720);
    let workers = stacks.tree.follow(&[scope("worker::run")]);
    assert_eq!(stacks.tree.node(workers).unwrap().sums.count, 480);
    assert_eq!(stacks.tree.nodes().len(), 14);

    let mut job: Job<Stacks> = Job::default();
    let by_thread = StackOptions {
        by_thread: true,
        ..StackOptions::default()
    };
    job.finish(&store, Some((0, 59).into()), &by_thread);
    let stacks = job.output().unwrap();
    let worker = stacks
        .tree
        .follow(&[StackKey::Thread(ThreadId(2)), scope("worker::run")]);
    assert_eq!(stacks.tree.node(worker).unwrap().sums.count, 240);
    let thread = stacks
        .tree
        .node(stacks.tree.node(worker).unwrap().parent)
        .unwrap();
    assert_eq!(thread.key, StackKey::Thread(ThreadId(2)));
    assert_eq!(
        thread.sums.total_ns,
        stacks.tree.node(worker).unwrap().sums.total_ns
    );
    let roots: Vec<u64> = stacks
        .tree
        .children(0)
        .map(|child| stacks.tree.node(child).unwrap().sums.total_ns)
        .collect();
    assert_eq!(roots.len(), 3);
    assert!(
        roots.is_sorted_by(|a, b| a >= b),
        "the widest is at the left"
    );
    assert_eq!(
        roots.iter().sum::<u64>(),
        stacks.tree.nodes()[0].sums.total_ns
    );
}

#[test]
fn a_click_zooms_in_and_a_double_click_or_a_crumb_out() {
    let shown = Shown::new(store(60, 1, 0));
    let mut harness = shown.harness(900.0, 260.0, Shade::Dark, 1.0);
    harness.run();
    // Row 0 is everything; row 1 has the widest root, which is the frame.
    let at = point(&harness, 1.0, 0.1);
    click(&mut harness, at, 1);
    assert_eq!(shown.zoomed_to(), [scope("frame")]);
    let at = point(&harness, 1.0, 0.1);
    click(&mut harness, at, 1);
    assert_eq!(shown.zoomed_to().len(), 2);
    let at = point(&harness, 1.0, 0.1);
    click(&mut harness, at, 2);
    assert_eq!(
        shown.zoomed_to(),
        [scope("frame")],
        "one level out of the previous zoom"
    );
    let at = point(&harness, 1.0, 0.1);
    click(&mut harness, at, 1);
    harness.get_by_label("frame").click();
    harness.run();
    assert_eq!(shown.zoomed_to(), [scope("frame")]);
    harness.get_by_label("all").click();
    harness.run();
    assert!(shown.zoomed_to().is_empty());
}

#[test]
fn a_zoom_stays_when_the_stacks_are_merged_again() {
    let shown = Shown::new(store(60, 1, 0));
    let mut harness = shown.harness(900.0, 260.0, Shade::Dark, 1.0);
    harness.run();
    let path = vec![scope("frame"), scope("render")];
    shown.icicle.borrow_mut().zoom_to(path.clone());
    shown.view.borrow_mut().select(&shown.store, 2, 4);
    harness.run();
    assert_eq!(shown.icicle.borrow().stacks().unwrap().frames, 3);
    assert_eq!(shown.zoomed_to(), path);
    // Row 1 shows the scopes inside the rendering.
    let at = point(&harness, 1.0, 0.01);
    click(&mut harness, at, 1);
    assert_eq!(shown.zoomed_to()[..2], path);
    assert_eq!(shown.zoomed_to().len(), 3);
}

#[test]
fn a_search_shows_the_share_of_the_time_that_matches() {
    let shown = Shown::new(store(60, 1, 0));
    let mut harness = shown.harness(900.0, 260.0, Shade::Dark, 1.0);
    harness.run();
    assert_eq!(shown.icicle.borrow().found_share(), None);
    // Scopes inside a match count once.
    shown.view.borrow_mut().search = "E".to_owned();
    harness.run();
    assert!((shown.icicle.borrow().found_share().unwrap() - 1.0).abs() < 1e-12);
    shown.view.borrow_mut().search = "Inflate".to_owned();
    harness.run();
    let (inflate, all) = {
        let icicle = shown.icicle.borrow();
        let tree = &icicle.stacks().unwrap().tree;
        let node = tree.follow(&[scope("worker::run"), scope("decode"), scope("inflate")]);
        (
            tree.node(node).unwrap().sums.total_ns,
            tree.nodes()[0].sums.total_ns,
        )
    };
    let share = shown.icicle.borrow().found_share().unwrap();
    assert!((share - inflate as f64 / all as f64).abs() < 1e-12);
    assert!(harness.query_by_label_contains("“Inflate” takes").is_some());
}

#[test]
fn more_stacks_than_fit_are_counted() {
    let mut rows = vec![RowBlock::default(), RowBlock::default()];
    for i in 0..250_000_u32 {
        rows[0].push(i64::from(i) * 10, 8, SiteId(i + 1));
        rows[1].push(i64::from(i) * 10 + 1, 5, SiteId(1));
    }
    let mut store = Store::new(10, usize::MAX);
    store.push_block(block(0, -1, 10_000_000, rows));
    let mut job: Job<Stacks> = Job::default();
    job.finish(&store, Some((0, 0).into()), &StackOptions::default());
    let stacks = job.output().unwrap();
    assert_eq!(stacks.tree.nodes().len(), 200_001);
    let shown: u64 = stacks.tree.nodes()[1..]
        .iter()
        .map(|node| node.sums.count)
        .sum();
    assert_eq!(shown + stacks.hidden_spans, 500_000);
    assert_eq!(stacks.tree.nodes()[0].sums.count, 250_000);
    let shown = Shown::new(store);
    shown.icicle.borrow_mut().finish(&shown.store, &{
        let mut view = View::default();
        view.begin_pass(&shown.store);
        view
    });
    let mut harness = shown.harness(500.0, 200.0, Shade::Dark, 1.0);
    harness.run();
    assert!(harness.query_by_label_contains("spans not shown").is_some());
}

#[test]
fn hostile_times_neither_panic_nor_hang() {
    let mut row = RowBlock::default();
    row.push(i64::MIN, u64::MAX, SiteId(u32::MAX));
    row.push(0, 0, SiteId(0));
    row.push(0, 0, SiteId(7));
    row.push(i64::MAX, u64::MAX, SiteId(9));
    let mut store = Store::new(10, 1000);
    store.push_block(block(
        0,
        i64::MIN,
        i64::MAX,
        vec![row.clone(), row.clone(), row],
    ));
    let shown = Shown::new(store);
    let mut harness = shown.harness(300.0, 200.0, Shade::Light, 1.0);
    harness.run();
    assert!(shown.icicle.borrow().stacks().unwrap().tree.nodes().len() > 1);
    for row in 0..5 {
        let at = point(&harness, row as f32, 0.3);
        click(&mut harness, at, 1);
        click(&mut harness, at, 2);
    }
    // All spans have a duration of zero, so nothing has a width.
    let mut row = RowBlock::default();
    row.push(5, 0, SiteId(1));
    let mut store = Store::new(10, 1000);
    store.push_block(block(0, 0, 10, vec![row]));
    let shown = Shown::new(store);
    let mut harness = shown.harness(300.0, 200.0, Shade::Light, 1.0);
    harness.run();
    let at = point(&harness, 0.0, 0.5);
    click(&mut harness, at, 1);
    assert!(shown.zoomed_to().is_empty());
}

#[test]
fn pictures() {
    let mut results = SnapshotResults::new();
    let shown = Shown::new(store(60, 1, 0));
    for (shade, name) in [(Shade::Dark, "dark"), (Shade::Light, "light")] {
        *shown.view.borrow_mut() = View::default();
        let mut harness = shown.harness(900.0, 200.0, shade, 1.0);
        harness.run();
        harness.snapshot(format!("icicle_{name}"));
        results.extend_harness(&mut harness);
        shown.view.borrow_mut().search = "e".to_owned();
        shown
            .icicle
            .borrow_mut()
            .zoom_to(vec![scope("frame"), scope("update")]);
        drop(harness);
        let mut harness = shown.harness(700.0, 220.0, shade, 2.0);
        harness.run();
        let at = point(&harness, 1.0, 0.6);
        harness.hover_at(at);
        harness.run();
        harness.snapshot(format!("icicle_zoomed_{name}"));
        results.extend_harness(&mut harness);
        shown.icicle.borrow_mut().zoom_to(Vec::new());
    }
    let shown = Shown::new(store(60, 1, 0));
    let mut harness = shown.harness(900.0, 220.0, Shade::Dark, 1.0);
    harness.run();
    harness.get_by_label("by thread").click();
    harness.run();
    harness.remove_cursor();
    harness.run();
    harness.snapshot("icicle_by_thread");
    results.extend_harness(&mut harness);
    let shown = Shown::new(Store::new(10, 10));
    let mut harness = shown.harness(300.0, 100.0, Shade::Dark, 1.0);
    harness.run();
    assert!(
        harness
            .query_by_label_contains("Nothing was recorded yet")
            .is_some()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn stacks_sum_up_to_the_table(
        frames in 1u64..20,
        seed in 0u64..1000,
        first in 0usize..20,
        number in 0usize..20,
    ) {
        let store = store(frames, seed, 0);
        let last = frames as usize - 1;
        let range = (first.min(last), (first + number).min(last));
        let (mut stacks, mut table): (Job<Stacks>, Job<ScopeSums>) =
            (Job::default(), Job::default());
        stacks.finish(&store, Some(range.into()), &StackOptions::default());
        table.finish(&store, Some(range.into()), &Extent::default());
        let stacks = stacks.output().unwrap();
        for row in table
            .output()
            .unwrap()
            .rows
            .iter()
            .filter(|row| !row.is_task())
        {
            let of_site = stacks.tree.nodes()[1..]
                .iter()
                .filter(|node| node.key == StackKey::Scope(row.site));
            let sums = of_site.fold((0, 0, 0), |sums, node| {
                (
                    sums.0 + node.sums.count,
                    sums.1 + node.sums.total_ns,
                    sums.2 + node.sums.self_ns,
                )
            });
            prop_assert_eq!(sums, (row.count, row.total_ns, row.self_ns));
        }
    }
}

#[test]
fn callers_are_below_what_they_call() {
    let shown = Shown::new(store(60, 1, 0));
    let mut harness = shown.harness(900.0, 360.0, Shade::Dark, 1.0);
    harness.run();
    harness.get_by_label("callers").click();
    harness.run();
    harness.snapshot("icicle_callers");
    // The stacks as they are have other paths.
    shown.icicle.borrow_mut().zoom_to(vec![scope("update")]);
    harness.get_by_label("callers").click();
    harness.run();
    assert_eq!(shown.zoomed_to(), []);
}
