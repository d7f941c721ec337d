//! The flame chart under clicks, drags and typing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::pictures;
use crate::pointer::{click, double_click, drag, hover, scroll};
use egui::{Modifiers, Pos2, Rect, pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use vor_capture::filled;
use vor_capture::model::batch::{
    AsyncSpan, FlowPoint, FlowStage, TaskEvent, TaskEventKind, ThreadBatch,
};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::model::frame::{FrameSnapshot, TreeBuilder};
use vor_viz::export::{ExportFormat, export};
use vor_viz::flame::{ColorBy, Direction, FlameChart, TrackOrder, TypicalDurations};
use vor_viz::store::{
    FrameBlock, FrameEntry, RowBlock, Span, Store, ThreadBlock, TrackId, TrackKind,
};
use vor_viz::theme::Theme;
use vor_viz::view::{SpanRef, View};

pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) view: View,
    pub(crate) chart: FlameChart,
}

fn harness(dark: bool) -> Harness<'static, App> {
    harness_of(crate::synthetic::rich_store(), dark)
}

pub(crate) fn harness_of(store: Store, dark: bool) -> Harness<'static, App> {
    let app = App {
        store,
        view: View::default(),
        chart: FlameChart::default(),
    };
    let show = move |ui: &mut egui::Ui, app: &mut App| {
        ui.ctx().set_theme(if dark {
            egui::Theme::Dark
        } else {
            egui::Theme::Light
        });
        app.view.begin_pass(&app.store);
        let theme = Theme::of(ui.visuals());
        let usual = |_, kind| {
            (kind == TrackKind::Scopes).then_some(TypicalDurations {
                count: 1000,
                p50_ns: 2_000_000,
                p95_ns: 3_000_000,
                p99_ns: 3_200_000,
                max_ns: 9_000_000,
            })
        };
        let height = ui.available_height();
        app.chart
            .show(ui, height, &app.store, &mut app.view, &theme, &usual);
    };
    let mut harness = pictures::builder()
        .with_size(vec2(1280.0, 560.0))
        .with_step_dt(1.0 / 60.0)
        .with_max_steps(40)
        .build_ui_state(show, app);
    harness.run();
    harness
}

/// Pins a frame, which makes its spans wide.
fn pinned(dark: bool) -> Harness<'static, App> {
    let mut harness = harness(dark);
    let id = harness.state().store.id_at(20);
    harness.state_mut().view.pin(id);
    harness.run();
    harness
}

fn rows(harness: &Harness<'_, App>) -> Rect {
    let chart = harness.get_by_label("flame chart").rect();
    chart.with_min_y(chart.top() + 18.0)
}

/// Returns the `n`-th span of a row that is completely in the pinned frame, and the place where it
/// is drawn. The first track is on top.
fn span_in_first_track(harness: &Harness<'_, App>, row: usize, n: usize) -> (Span, Pos2) {
    let app = harness.state();
    let time = app.view.flame_axis(&app.store);
    let track = &app.store.shown_tracks()[0];
    let spans = track.rows[row].spans(time.begin_ns as i64, time.end_ns as i64);
    let span = spans
        .filter(|span| span.begin_ns as f64 >= time.begin_ns)
        .nth(n)
        .unwrap();
    let rows = rows(harness);
    let middle = span.begin_ns as f64 + span.duration_ns as f64 / 2.0;
    let x = rows.left() + ((middle - time.begin_ns) / time.len_ns()) as f32 * rows.width();
    (span, pos2(x, rows.top() + row as f32 * 16.0 + 12.0))
}

#[test]
fn all_frames() {
    let mut harness = harness(true);
    harness.snapshot("flame_all_dark");
}

#[test]
fn one_frame() {
    let mut harness = pinned(false);
    harness.snapshot("flame_frame_light");
}

#[test]
fn a_click_focuses_a_span_and_shows_its_details() {
    let mut harness = pinned(true);
    let (span, place) = span_in_first_track(&harness, 1, 1);
    click(&mut harness, place, Modifiers::NONE);
    let focus = harness.state().view.focus.unwrap();
    assert_eq!(
        (focus.span, focus.row, focus.track),
        (span, 1, TrackId::Scopes(ThreadId(0)))
    );
    harness.snapshot("flame_focus_dark");
    // A click beside all spans clears the focus.
    let rows = rows(&harness);
    click(
        &mut harness,
        pos2(rows.left() + 1.0, rows.top() + 12.0),
        Modifiers::NONE,
    );
    assert_eq!(harness.state().view.focus, None);
}

#[test]
fn a_card_shows_the_span_under_the_pointer() {
    let mut harness = pinned(false);
    let audio = &harness.state().store.shown_tracks()[3];
    assert_eq!(audio.id, TrackId::Scopes(ThreadId(3)));
    // Spans of the thread `audio` have arguments.
    let rows = rows(&harness);
    let (_, place) = span_in_first_track(&harness, 0, 0);
    hover(&mut harness, place + vec2(0.0, 3.0 * (4.0 * 16.0 + 5.0)));
    assert!(
        harness.query_all_by_label_contains("clip").next().is_some(),
        "arguments are shown"
    );
    assert!(
        harness
            .query_by_label_contains("src/engine.rs:115")
            .is_some()
    );
    harness.snapshot("flame_card_light");
    hover(&mut harness, pos2(rows.left() + 1.0, rows.top() + 12.0));
    assert!(
        harness.query_by_label_contains("src/engine.rs").is_none(),
        "no card beside spans"
    );
}

/// Returns a store with a task that begins on one thread in the first frame, and ends on another
/// thread in the second frame.
fn store_of_a_task(given_id: Option<u64>) -> Store {
    let begin = given_id.map(|given_id| {
        filled!(TaskEvent {
            task: 65_551,
            site: SiteId(24),
            start_ticks: 1_000,
            kind: TaskEventKind::Begin { given_id },
        })
    });
    let end = filled!(AsyncSpan {
        id: 65_551,
        site: SiteId(24),
        start_ticks: 1_000,
        duration_ticks: 15_000_000,
    });
    let began = filled!(ThreadBatch {
        thread: ThreadId(2),
        task_events: begin.into_iter().collect()
    });
    let ended = filled!(ThreadBatch {
        thread: ThreadId(1),
        async_spans: vec![end]
    });
    let mut store = Store::new(8, usize::MAX);
    for (index, batch) in (0..).zip([began, ended]) {
        let mut trees = TreeBuilder::new(100);
        trees.add(&batch);
        let frame = filled!(FrameSnapshot {
            index,
            start_ticks: index * 10_000_000,
            end_ticks: (index + 1) * 10_000_000,
            threads: trees.finish().threads
        });
        store.push_block(FrameBlock::new(&frame, 0));
    }
    store
}

#[test]
fn a_task_has_the_number_that_the_program_gave_it() {
    for (given_id, shown) in [(Some(4_711), true), (None, false)] {
        let mut harness = harness_of(store_of_a_task(given_id), true);
        let all = harness.state().view.axis();
        assert!(all.len_ns() > 0.0);
        let rows = rows(&harness);
        hover(
            &mut harness,
            rows.left_top() + vec2(rows.width() / 3.0, 12.0),
        );
        assert!(
            harness.query_by_label_contains("15.0 ms").is_some(),
            "no card"
        );
        assert_eq!(harness.query_by_label("4711").is_some(), shown);
        assert!(
            harness.query_by_label_contains("65551").is_none(),
            "vor's own id means nothing to the program"
        );
        let mut trace = Vec::new();
        export(
            &harness.state().store,
            (0, 1),
            ExportFormat::Chrome,
            &mut trace,
        )
        .unwrap();
        let trace = String::from_utf8(trace).unwrap();
        assert_eq!(
            trace.contains("\"args\":{\"id\":\"4711\"}"),
            shown,
            "{trace}"
        );
        assert!(!trace.contains("\"args\":{\"id\":\"65551\"}"), "{trace}");
    }
}

#[test]
fn merged_spans_are_counted() {
    let mut harness = harness(true);
    let app = harness.state_mut();
    let all = app.view.axis();
    app.view.zoom_to(
        all.begin_ns - 40.0 * all.len_ns(),
        all.end_ns + 40.0 * all.len_ns(),
    );
    harness.run();
    let rows = rows(&harness);
    hover(
        &mut harness,
        rows.left_top() + vec2(rows.width() / 2.0, 60.0),
    );
    assert!(harness.query_by_label_contains("spans here").is_some());
    assert!(harness.query_by_label_contains("the longest").is_some());
}

#[test]
fn scrolling_zooms_around_the_pointer_and_a_double_click_resets() {
    let mut harness = pinned(true);
    let before = harness.state().view.flame_axis(&harness.state().store);
    let rows = rows(&harness);
    let place = rows.left_top() + vec2(rows.width() * 0.25, 100.0);
    scroll(&mut harness, place, vec2(0.0, 120.0), Modifiers::NONE);
    let after = harness.state().view.flame_axis(&harness.state().store);
    assert!(
        after.len_ns() < before.len_ns() * 0.8,
        "{after:?} is shorter than {before:?}"
    );
    let anchor = before.begin_ns + before.len_ns() * 0.25;
    let share = (anchor - after.begin_ns) / after.len_ns();
    assert!(
        (share - 0.25).abs() < 0.01,
        "the time under the pointer stays there: {share}"
    );
    scroll(&mut harness, place, vec2(0.0, 60.0), Modifiers::SHIFT);
    let moved = harness.state().view.flame_axis(&harness.state().store);
    assert!(
        (moved.len_ns() - after.len_ns()).abs() < 1.0,
        "with shift it moves"
    );
    assert!(moved.begin_ns < after.begin_ns);
    double_click(&mut harness, place);
    assert_eq!(
        harness.state().view.flame_axis(&harness.state().store),
        before
    );
    assert!(!harness.state().view.is_zoomed());
}

#[test]
fn dragging_pans_across_and_down() {
    let mut harness = pinned(true);
    let before = harness.state().view.flame_axis(&harness.state().store);
    let rows = rows(&harness);
    let from = rows.left_top() + vec2(500.0, 300.0);
    drag(&mut harness, from, from - vec2(200.0, 0.0), Modifiers::NONE);
    let after = harness.state().view.flame_axis(&harness.state().store);
    let points = (after.begin_ns - before.begin_ns) / before.len_ns() * f64::from(rows.width());
    assert!((points - 200.0).abs() < 8.0, "moved by {points} points");
    assert!((after.len_ns() - before.len_ns()).abs() < 1.0);
    drag(&mut harness, from, from - vec2(0.0, 150.0), Modifiers::NONE);
    // The tracks below the lower edge are now visible.
    assert!(
        harness
            .query_by_label("collapse http request · tasks")
            .is_some()
    );
    harness.snapshot("flame_scrolled_dark");
}

#[test]
fn tracks_collapse_and_move() {
    let mut harness = pinned(true);
    harness.get_by_label("collapse main").click();
    harness.run();
    assert!(
        harness
            .state()
            .chart
            .is_collapsed(TrackId::Scopes(ThreadId(0)))
    );
    harness.get_by_label("collapse physics").click_secondary();
    harness.run();
    harness.get_by_label("Move to the top").click();
    harness.run();
    let order: Vec<_> = harness.state().chart.tracks().take(4).collect();
    assert_eq!(
        order,
        [2, 0, 1, 3].map(|thread| TrackId::Scopes(ThreadId(thread)))
    );
    harness.snapshot("flame_arranged_dark");
    harness.get_by_label("expand main").click_secondary();
    harness.run();
    harness.get_by_label("Collapse all").click();
    harness.run();
    let chart = &harness.state().chart;
    assert!(chart.tracks().all(|track| chart.is_collapsed(track)));
    harness.snapshot("flame_collapsed_dark");
}

#[test]
fn a_search_dims_all_other_spans() {
    let mut harness = pinned(false);
    harness.state_mut().view.search = "DRAW".to_owned();
    harness.run();
    assert_eq!(harness.state().chart.found(), Some(1));
    harness.snapshot("flame_search_light");
    let app = harness.state_mut();
    assert!(app.chart.go_to_match(&app.store, &mut app.view));
    let first = app.view.focus.unwrap();
    assert_eq!(app.store.catalog().site_name(first.span.site), "draw");
    assert!(app.chart.go_to_match(&app.store, &mut app.view));
    let second = app.view.focus.unwrap();
    assert!(second.span.begin_ns >= first.span.begin_ns && second != first);
    app.view.search = "no such name".to_owned();
    assert!(!app.chart.go_to_match(&app.store, &mut app.view));
}

#[test]
fn a_search_visits_every_match_once_and_starts_again() {
    let mut harness = pinned(false);
    let app = harness.state_mut();
    app.view.search = "path_find".to_owned();
    let wanted = |span: &Span| app.store.catalog().site_name(span.site) == "path_find";
    let rows = app.store.tracks().iter().flat_map(|track| &track.rows);
    let all: usize = rows
        .map(|row| row.spans(i64::MIN, i64::MAX).filter(wanted).count())
        .sum();
    let shown = app.view.flame_axis(&app.store);
    let mut first = None;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..all {
        assert!(app.chart.go_to_match(&app.store, &mut app.view));
        let focus = app.view.focus.unwrap();
        assert!(
            seen.insert((focus.track, focus.row, focus.span.begin_ns)),
            "{focus:?} is repeated"
        );
        // The first one is where one looks.
        first = first.or(Some(focus));
        assert!(first.is_some_and(|first| first.span.begin_ns as f64 >= shown.begin_ns));
    }
    app.chart.go_to_match(&app.store, &mut app.view);
    assert_eq!(app.view.focus, first, "all were visited");
}

#[test]
fn directions_lead_to_neighbours() {
    let mut harness = pinned(true);
    let (child, place) = span_in_first_track(&harness, 1, 0);
    click(&mut harness, place, Modifiers::NONE);
    let app = harness.state_mut();
    let mut go = |direction| {
        assert!(
            app.chart.go(&app.store, &mut app.view, direction),
            "{direction:?}"
        );
        app.view.focus.unwrap()
    };
    let parent = go(Direction::Parent);
    assert_eq!(parent.row, 0);
    assert!(parent.span.begin_ns <= child.begin_ns && child.end_ns() <= parent.span.end_ns());
    let inside = go(Direction::Child);
    assert!(inside.row == 1 && inside.span.begin_ns >= parent.span.begin_ns);
    let next = go(Direction::Next);
    assert!(next.row == 1 && next.span.begin_ns >= inside.span.end_ns());
    assert_eq!(go(Direction::Previous), inside);
    assert!(
        !app.chart
            .go(&app.store, &mut View::default(), Direction::Next),
        "without a focus there is no neighbour"
    );
}

#[test]
fn a_distant_span_scrolls_into_view() {
    let mut harness = pinned(true);
    let app = harness.state_mut();
    app.view.search = "http".to_owned();
    assert!(app.chart.go_to_match(&app.store, &mut app.view));
    harness.run();
    let app = harness.state();
    let focus = app.view.focus.unwrap();
    let time = app.view.flame_axis(&app.store);
    assert!(time.contains(focus.span.begin_ns as f64) && time.contains(focus.span.end_ns() as f64));
    assert!(
        harness
            .query_by_label("collapse http request · tasks")
            .is_some(),
        "its track is scrolled to"
    );
}

#[test]
fn colours_show_threads_or_durations() {
    let mut harness = pinned(true);
    harness.state_mut().chart.set_color_by(ColorBy::Thread);
    harness.run();
    harness.snapshot("flame_by_thread_dark");
    harness.state_mut().chart.set_color_by(ColorBy::Duration);
    harness.run();
    harness.snapshot("flame_by_duration_dark");
}

#[test]
fn recorded_waits_have_colours_of_their_own() {
    coloured_by_wait(true).snapshot("flame_by_wait_dark");
}

#[test]
fn recorded_waits_have_colours_of_their_own_on_white() {
    coloured_by_wait(false).snapshot("flame_by_wait_light");
}

/// A scope around a wait for a lock, one for a message, and a scope whose name looks like a wait.
fn coloured_by_wait(dark: bool) -> Harness<'static, App> {
    let site = |name: &'static str, category: &'static str, args: &[&'static str]| {
        Some(Arc::new(filled!(SiteInfo {
            name: name.into(),
            category: category.into(),
            arg_names: args.iter().map(|name| (*name).into()).collect(),
        })))
    };
    let sites = vec![
        site("answer", "", &[]),
        site("wait: cache", "", &["lock", "holder", "holder_scope"]),
        site("wait: jobs to receive", "wait", &[]),
        site("wait: a scope of the program", "", &[]),
    ];
    let catalog = Arc::new(filled!(Catalog {
        sites: Arc::new(sites),
    }));
    let mut builder = TreeBuilder::new(100);
    builder.add(&filled!(ThreadBatch {
        start_ticks: vec![100_000, 3_000_000, 6_000_000, 0],
        duration_ticks: vec![2_000_000, 2_000_000, 3_000_000, 10_000_000],
        sites: vec![SiteId(2), SiteId(3), SiteId(4), SiteId(1)],
    }));
    let mut store = Store::new(4, usize::MAX);
    let frame = filled!(FrameSnapshot {
        catalog,
        end_ticks: 10_000_000,
        span_count: 4,
        threads: builder.finish().threads,
    });
    store.push_block(FrameBlock::new(&frame, 0));
    let mut harness = harness_of(store, dark);
    harness.state_mut().chart.set_color_by(ColorBy::Wait);
    harness.run();
    harness
}

/// Two workers that receive a message of the main thread; one of them answers.
fn with_arrows(dark: bool) -> Harness<'static, App> {
    let site = |name: &'static str| Some(Arc::new(filled!(SiteInfo { name: name.into() })));
    let thread = |name: &str| Some(Arc::new(filled!(ThreadInfo { name: name.into() })));
    let names = ["frame", "send", "take", "other", "get answer"];
    let catalog = Arc::new(filled!(Catalog {
        sites: Arc::new(names.map(site).to_vec()),
        threads: Arc::new(["main", "one", "two"].map(thread).to_vec()),
    }));
    let point = |flow: u64, ticks: u64, stage: FlowStage| filled!(FlowPoint { flow, ticks, stage });
    let mut builder = TreeBuilder::new(100);
    // Spans by their ends: begin, duration and site.
    let mut add = |thread: u32, spans: &[(u64, u64, u32)], flows: Vec<FlowPoint>| {
        builder.add(&filled!(ThreadBatch {
            thread: ThreadId(thread),
            start_ticks: spans.iter().map(|span| span.0).collect(),
            duration_ticks: spans.iter().map(|span| span.1).collect(),
            sites: spans.iter().map(|span| SiteId(span.2)).collect(),
            flows,
        }));
    };
    let (begin, end) = (FlowStage::Begin, FlowStage::End);
    let main = [
        (1_000_000, 800_000, 2),
        (7_500_000, 1_500_000, 5),
        (0, 10_000_000, 1),
    ];
    add(
        0,
        &main,
        vec![point(1, 1_500_000, begin), point(2, 8_800_000, end)],
    );
    let one = [(2_500_000, 3_000_000, 3)];
    add(
        1,
        &one,
        vec![point(1, 2_600_000, end), point(2, 5_400_000, begin)],
    );
    let two = [(500_000, 1_000_000, 4), (4_000_000, 2_000_000, 3)];
    add(2, &two, vec![point(1, 4_100_000, end)]);
    let mut store = Store::new(4, usize::MAX);
    let frame = filled!(FrameSnapshot {
        catalog,
        end_ticks: 10_000_000,
        span_count: 6,
        threads: builder.finish().threads,
    });
    store.push_block(FrameBlock::new(&frame, 0));
    let mut harness = harness_of(store, dark);
    harness.run();
    focus_on(&mut harness, 0, 1, 1_200_000);
    harness
}

/// Puts the span of a thread at a moment into focus.
fn focus_on(harness: &mut Harness<'_, App>, thread: u32, row: usize, ns: i64) {
    let app = harness.state_mut();
    let track = &app.store.shown_tracks()[thread as usize];
    let span = track.rows[row].span_at(ns).unwrap();
    app.view.focus = Some(SpanRef {
        track: track.id,
        row,
        span,
    });
    harness.run();
}

#[test]
fn arrows_lead_from_span_to_span() {
    let mut harness = with_arrows(true);
    // One message reached two threads.
    assert_eq!(harness.state().chart.arrow_counts(), (0, 2));
    let mut walk = |forward: bool| {
        let app = harness.state_mut();
        let went = app.chart.go_along(&app.store, &mut app.view, forward);
        harness.run();
        let focus = harness.state().view.focus.unwrap();
        let counts = harness.state().chart.arrow_counts();
        let thread = focus.track.thread().unwrap();
        (went, thread.0, focus.span.site.0, counts)
    };
    // The thread that received it first, and from there with its answer back to the main thread.
    assert_eq!(walk(true), (true, 1, 3, (1, 1)));
    assert_eq!(walk(true), (true, 0, 5, (1, 0)));
    assert!(!walk(true).0);
    assert_eq!(walk(false), (true, 1, 3, (1, 1)));
    assert_eq!(walk(false), (true, 0, 2, (0, 2)));
    assert!(!walk(false).0);
    // A span around others has no arrows of its own, nor has one that received nothing.
    focus_on(&mut harness, 0, 0, 5_000_000);
    assert_eq!(harness.state().chart.arrow_counts(), (0, 0));
    focus_on(&mut harness, 2, 0, 600_000);
    assert_eq!(harness.state().chart.arrow_counts(), (0, 0));
}

#[test]
fn arrows_are_listed_beside_the_span() {
    let mut harness = with_arrows(true);
    harness.get_by_label("to take on two, 2.60 ms").click();
    harness.run();
    let focus = harness.state().view.focus.unwrap();
    assert_eq!(
        (focus.track, focus.span.begin_ns),
        (TrackId::Scopes(ThreadId(2)), 4_000_000)
    );
    harness.get_by_label("from send on main, 2.60 ms").click();
    harness.run();
    let focus = harness.state().view.focus.unwrap();
    assert_eq!(focus.track, TrackId::Scopes(ThreadId(0)));
}

#[test]
fn arrows_of_a_span_are_drawn_dark() {
    with_arrows(true).snapshot("flame_arrows_dark");
}

#[test]
fn arrows_of_a_span_are_drawn_light() {
    with_arrows(false).snapshot("flame_arrows_light");
}

#[test]
fn the_source_of_a_span_is_shown_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    let text = "use std::thread;\n\nfn frame(world: &mut World) {\n    profile_function!();\n    \
        world.step(1.0 / 60.0);\n    world.draw_everything_that_is_in_sight();\n}\n";
    std::fs::write(folder.path().join("src/game.rs"), text).unwrap();
    let catalog = Arc::new(filled!(Catalog {
        sites: Arc::new(vec![Some(Arc::new(filled!(SiteInfo {
            name: "frame".into(),
            file: "src/game.rs".into(),
            line: 4,
        })))]),
    }));
    let mut builder = TreeBuilder::new(10);
    builder.add(&filled!(ThreadBatch {
        start_ticks: vec![1_000_000],
        duration_ticks: vec![8_000_000],
        sites: vec![SiteId(1)],
    }));
    let mut store = Store::new(4, usize::MAX);
    store.push_block(FrameBlock::new(
        &filled!(FrameSnapshot {
            catalog,
            end_ticks: 10_000_000,
            span_count: 1,
            threads: builder.finish().threads,
        }),
        0,
    ));
    let mut harness = harness_of(store, true);
    focus_on(&mut harness, 0, 0, 2_000_000);
    let shown = |harness: &Harness<'_, App>| {
        harness
            .query_by_label("   4     profile_function!();")
            .is_some()
    };
    assert!(!shown(&harness));
    let chart = &mut harness.state_mut().chart;
    chart.set_source_folders(vec![folder.path().to_owned()]);
    harness.run();
    assert!(shown(&harness));
    harness.snapshot("flame_source_dark");
}

#[test]
fn ten_thousand_moved_tracks_keep_their_order() {
    const TRACKS: u32 = 10_000;
    let mut store = Store::new(4, usize::MAX);
    let threads = |ids: std::ops::Range<u32>| {
        let threads = ids.map(|id| {
            let mut row = RowBlock::default();
            row.push(10, 100, SiteId(1));
            ThreadBlock {
                thread: ThreadId(id),
                rows: vec![row],
                ..ThreadBlock::default()
            }
        });
        FrameBlock {
            frame: FrameEntry {
                end_ns: 1_000,
                ..FrameEntry::default()
            },
            threads: threads.collect(),
            ..FrameBlock::default()
        }
    };
    store.push_block(threads(0..TRACKS));
    let mut chart = FlameChart::default();
    let id = |thread: u32| TrackId::Scopes(ThreadId(thread));
    // The expected order after the moves, step by step.
    let mut expected: Vec<u32> = (0..TRACKS).collect();
    for (thread, by) in [
        (9_999, -9_999),
        (0, 5_000),
        (17, 20_000),
        (5_000, -1),
        (4_321, 1_000),
    ] {
        chart.shift_track(&store, id(thread), by);
        let from = expected.iter().position(|&other| other == thread).unwrap();
        let to = from.saturating_add_signed(by).min(expected.len() - 1);
        let moved = expected.remove(from);
        expected.insert(to, moved);
    }
    // Later threads follow at the end, in their own order.
    store.push_block(threads(TRACKS..TRACKS + 100));
    expected.extend(TRACKS..TRACKS + 100);
    let ctx = egui::Context::default();
    let mut view = View::default();
    for _ in 0..3 {
        view.begin_pass(&store);
        let mut output = ctx.run_ui(egui::RawInput::default(), |ui| {
            let theme = Theme::of(ui.visuals());
            chart.show(ui, 400.0, &store, &mut view, &theme, &|_, _| None);
        });
        output.textures_delta.clear();
        let threads = chart.tracks().map(|track| track.thread().unwrap().0);
        let shown: Vec<u32> = threads.collect();
        assert!(shown == expected, "the order stays from pass to pass");
    }
}

#[test]
fn tracks_are_hidden_pinned_filtered_and_sorted() {
    let mut harness = pinned(true);
    let shown =
        |harness: &Harness<'_, App>| -> Vec<TrackId> { harness.state().chart.tracks().collect() };
    let all = shown(&harness);
    let catalog = Arc::clone(harness.state().store.catalog());
    let named = |name: &str| {
        let is_it = |track: &&TrackId| match track {
            TrackId::Scopes(thread) => catalog.thread_name(*thread) == name,
            _ => false,
        };
        *all.iter().find(is_it).unwrap()
    };
    let (main, physics, audio) = (named("main"), named("physics"), named("audio"));
    harness.get_by_label("collapse main").click_secondary();
    harness.run();
    harness.get_by_label("Hide").click();
    harness.run();
    assert!(!shown(&harness).contains(&main));
    assert_eq!(shown(&harness).len(), all.len() - 1);
    // A filter by a part of a name, and a pinned track that it does not hide.
    harness.get_by_label("collapse physics").click_secondary();
    harness.run();
    harness.get_by_label("Pin above the others").click();
    harness.run();
    harness.state_mut().chart.set_track_filter(" UDI");
    harness.run();
    assert_eq!(shown(&harness), [physics, audio]);
    // Going to a span shows its track.
    let app = harness.state_mut();
    let span = app.store.shown_tracks()[0].rows[0].span_after(0).unwrap();
    app.view.search = catalog.site_name(span.site).to_owned();
    app.view.focus = None;
    assert_eq!(app.store.shown_tracks()[0].id, main);
    assert!(app.chart.go_to_match(&app.store, &mut app.view));
    harness.run();
    let focus = harness.state().view.focus.unwrap();
    assert!(shown(&harness).contains(&focus.track));
    harness.state_mut().chart.show_all_tracks();
    harness.state_mut().chart.set_track_order(TrackOrder::Name);
    harness.run();
    assert_eq!(shown(&harness).len(), all.len());
    assert_eq!(shown(&harness)[0], physics, "it is pinned");
    let sorted = shown(&harness)[1..].to_vec();
    let names = sorted
        .iter()
        .filter_map(|track| track.thread())
        .map(|thread| catalog.thread_name(thread).to_lowercase());
    // A thread without a name has its number.
    let names = names.filter(|name| !name.is_empty());
    assert!(names.clone().count() > 3 && names.is_sorted());
    harness.state_mut().chart.set_pinned(physics, false);
    harness.state_mut().chart.set_track_order(TrackOrder::Spans);
    harness.run();
    let spans = |track: &TrackId| {
        let tracks = harness.state().store.shown_tracks().iter();
        let mut tracks = tracks.filter(|one| one.id == *track);
        std::cmp::Reverse(tracks.next().unwrap().span_count())
    };
    assert!(shown(&harness).is_sorted_by_key(spans));
}

/// A pool of threads, with a task of one name on each.
fn with_a_pool(dark: bool) -> Harness<'static, App> {
    let site = |name: &'static str| Some(Arc::new(filled!(SiteInfo { name: name.into() })));
    let thread = |name: &str| Some(Arc::new(filled!(ThreadInfo { name: name.into() })));
    let threads = ["worker-1", "main", "worker-2", "audio", "worker-3"];
    let catalog = Arc::new(filled!(Catalog {
        sites: Arc::new(["work", "request", "request", "flush"].map(site).to_vec()),
        threads: Arc::new(threads.map(thread).to_vec()),
    }));
    let mut builder = TreeBuilder::new(100);
    for number in 0..5_u64 {
        let start_ticks = 1_000_000 * number;
        let task = |id: u64, site: u32| {
            filled!(AsyncSpan {
                id,
                site: SiteId(site),
                start_ticks,
                duration_ticks: 2_500_000,
            })
        };
        let step = filled!(TaskEvent {
            task: 10 * number,
            site: SiteId(1),
            start_ticks: start_ticks + 1_000_000,
            kind: TaskEventKind::Step,
        });
        builder.add(&filled!(ThreadBatch {
            thread: ThreadId(number as u32),
            start_ticks: vec![start_ticks],
            duration_ticks: vec![3_000_000],
            sites: vec![SiteId(1)],
            // Two call sites have one name.
            async_spans: vec![
                task(10 * number, 2 + number as u32 % 2),
                task(10 * number + 1, 4)
            ],
            task_events: vec![step],
        }));
    }
    let mut store = Store::new(4, usize::MAX);
    let frame = filled!(FrameSnapshot {
        catalog,
        end_ticks: 10_000_000,
        span_count: 5,
        threads: builder.finish().threads,
    });
    store.push_block(FrameBlock::new(&frame, 0));
    let mut harness = harness_of(store, dark);
    harness.run();
    harness
}

#[test]
fn tasks_of_one_name_have_one_track() {
    let mut harness = with_a_pool(true);
    let tracks: Vec<TrackId> = harness.state().chart.tracks().collect();
    assert_eq!(tracks.len(), 7);
    assert_eq!(tracks[5..], [2, 4].map(|site| TrackId::Tasks(SiteId(site))));
    let requests = &harness.state().store.shown_tracks()[5];
    // A task of 2.5 ms begins each millisecond.
    assert_eq!((requests.rows.len(), requests.span_count()), (3, 5));
    assert_eq!((requests.steps.len(), requests.hidden_tasks), (5, 0));
    harness.snapshot("flame_tasks_dark");
    harness.get_by_label("collapse request · tasks").click();
    harness.run();
    let chart = &harness.state().chart;
    assert!(chart.is_collapsed(TrackId::Tasks(SiteId(2))));
    // The tables have each task once, and the thread on which it ended.
    let ended = harness.state().store.tracks().iter();
    let ended = ended.filter(|track| matches!(track.id, TrackId::Ended(_)));
    assert_eq!(ended.map(|track| track.span_count()).sum::<usize>(), 10);
}

#[test]
fn threads_of_a_pool_collapse() {
    let mut harness = with_a_pool(false);
    let threads = |harness: &Harness<'_, App>| -> Vec<u32> {
        let tracks = harness.state().chart.tracks();
        tracks.filter_map(|track| Some(track.thread()?.0)).collect()
    };
    assert_eq!(threads(&harness), [0, 1, 2, 3, 4]);
    harness.state_mut().chart.set_grouped(true);
    harness.run();
    assert_eq!(threads(&harness), [0, 2, 4, 1, 3]);
    harness.snapshot("flame_groups_light");
    harness.get_by_label("collapse group worker").click();
    harness.run();
    assert_eq!(threads(&harness), [1, 3]);
    harness.snapshot("flame_group_collapsed_light");
    // A pinned thread is above the others.
    let pinned = TrackId::Scopes(ThreadId(2));
    harness.state_mut().chart.set_pinned(pinned, true);
    harness.run();
    assert_eq!(threads(&harness), [2, 1, 3]);
    harness.state_mut().chart.set_pinned(pinned, false);
    // Going to a span expands its group.
    let app = harness.state_mut();
    app.view.search = "work".to_owned();
    assert!(app.chart.go_to_match(&app.store, &mut app.view));
    harness.run();
    assert_eq!(threads(&harness), [0, 2, 4, 1, 3]);
}
