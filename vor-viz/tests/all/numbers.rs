//! Frame bars, metric rows and the overview: their pictures, and the effects of the pointer.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::Range;

use crate::pictures;
use egui::{Event, Modifiers, PointerButton, Pos2, Rect, pos2};
use egui_kittest::{Harness, SnapshotResults, kittest::Queryable};
use vor_capture::filled;
use vor_capture::model::frame::MetricValue;
use vor_viz::bars::{self, Thresholds};
use vor_viz::frame_axis::axis_rect;
use vor_viz::overview::{self, OverviewAction, OverviewData, OverviewMark};
use vor_viz::plots::{MetricRow, Plots};
use vor_viz::pyramid::MinMaxPyramid;
use vor_viz::replay::FrameNumbers;
use vor_viz::store::{FrameEntry, Series, Store};
use vor_viz::theme::Theme;
use vor_viz::view::View;

const METRICS: [(&str, &str, bool); 6] = [
    ("frame_ms", "ms", false),
    ("memory", "B", false),
    ("page_faults", "", true),
    ("a metric with a rather long name", "items/s", false),
    ("sometimes", "%", false),
    ("never", "us", false),
];

/// Frames whose durations and metrics look like those of a program; the same at each call.
fn store(count: usize, length_ms: impl Fn(usize) -> f64) -> Store {
    let mut store = Store::new(count.max(1), usize::MAX);
    let mut begin_ns = 0;
    for i in 0..count {
        let end_ns = begin_ns + (length_ms(i) * 1e6) as i64;
        let t = i as f64;
        let values = [
            Some(length_ms(i)),
            Some(2.1e9 + 3e8 * (t / 40.0).sin() + 1e6 * (t * 7.7).sin()),
            Some(((i * 7919) % 97 * (i % 11) / 10) as f64),
            Some(3.4e6 + 1e6 * (t * 1.3).sin() * (t / 300.0).cos()),
            (i % 50 < 30 && i % 7 != 3).then(|| 50.0 + 40.0 * (t / 9.0).cos()),
            None,
        ];
        let metrics = values.iter().enumerate().filter_map(|(column, value)| {
            let column = column as u32;
            value.map(|value| filled!(MetricValue { column, value }))
        });
        store.push_frame(FrameEntry {
            number: i as u64,
            begin_ns,
            end_ns,
            span_count: 1000 + i as u64,
            dropped_spans: if i % 97 == 40 { 12 } else { 0 },
            lost_records: if i % 131 == 77 { 1 } else { 0 },
            merged_marks: 0,
            metrics: metrics.collect(),
            ..FrameEntry::default()
        });
        begin_ns = end_ns;
    }
    store
}

fn usual_ms(i: usize) -> f64 {
    let t = i as f64;
    let spike = if i % 37 == 20 { 24.0 } else { 0.0 };
    14.0 + 2.5 * (t / 11.0).sin() + 1.5 * (t * 3.1).sin() + spike
}

struct State {
    store: Store,
    view: View,
    plots: Plots,
    metrics: Vec<(&'static str, &'static str, bool)>,
}

impl State {
    fn new(store: Store) -> Self {
        Self {
            store,
            view: View::default(),
            plots: Plots::default(),
            metrics: METRICS.to_vec(),
        }
    }

    /// Returns the index of the pinned frame.
    fn pinned(&self) -> Option<usize> {
        self.store.index_of(self.view.pinned()?)
    }
}

fn show_plots(ui: &mut egui::Ui, state: &mut State, theme: &Theme) {
    let store = &state.store;
    let read = |column: usize| {
        move |index: usize| {
            let frame = store.frames().get(index);
            frame
                .and_then(|frame| frame.metric(column as u32))
                .unwrap_or(f64::NAN)
        }
    };
    // There may be more rows than columns.
    let columns = (0..state.metrics.len()).map(|row| row % METRICS.len());
    let readers: Vec<_> = columns.map(read).collect();
    let row = |(&(name, unit, integer), values)| MetricRow {
        name,
        unit,
        integer,
        description: "What the metric means.",
        values,
        series: Series::Unknown,
    };
    let values = readers.iter().map(|reader| reader as &dyn Fn(usize) -> f64);
    let rows: Vec<_> = state.metrics.iter().zip(values).map(row).collect();
    state.plots.show(ui, store, &mut state.view, theme, &rows);
}

const BARS_HEIGHT: f32 = 80.0;

/// Bars and plots below one another, without margins; the bars begin at the origin.
fn harness<'a>(store: Store, theme: egui::Theme, pixels_per_point: f32) -> Harness<'a, State> {
    let app = |ui: &mut egui::Ui, state: &mut State| {
        let theme = Theme::of(ui.visuals());
        ui.painter()
            .rect_filled(ui.max_rect().expand(20.0), 0.0, ui.visuals().panel_fill);
        state.view.begin_pass(&state.store);
        bars::show(
            ui,
            BARS_HEIGHT,
            &state.store,
            &mut state.view,
            &theme,
            Thresholds::default(),
        );
        show_plots(ui, state, &theme);
    };
    let harness = pictures::builder()
        .with_size(egui::vec2(1000.0, 440.0))
        .with_pixels_per_point(pixels_per_point)
        .with_theme(theme)
        .with_step_dt(1.0 / 60.0)
        // Tooltips appear after some passes.
        .with_max_steps(60)
        .build_ui_state(app, State::new(store));
    let mut harness = harness;
    harness.run();
    harness
}

/// Returns the rectangle of a part by its name.
fn rect_of<S>(harness: &Harness<'_, S>, label: &str) -> Rect {
    harness.get_by_label(label).rect()
}

fn button(pos: Pos2, pressed: bool, button: PointerButton, modifiers: Modifiers) -> Event {
    Event::PointerButton {
        pos,
        button,
        pressed,
        modifiers,
    }
}

fn press<S>(harness: &mut Harness<'_, S>, pos: Pos2, modifiers: Modifiers) {
    harness.event_modifiers(Event::PointerMoved(pos), modifiers);
    harness.event_modifiers(
        button(pos, true, PointerButton::Primary, modifiers),
        modifiers,
    );
    harness.run();
}

fn drag<S>(harness: &mut Harness<'_, S>, pos: Pos2, modifiers: Modifiers) {
    harness.event_modifiers(Event::PointerMoved(pos), modifiers);
    harness.run();
}

fn release<S>(harness: &mut Harness<'_, S>, pos: Pos2, modifiers: Modifiers) {
    harness.event_modifiers(
        button(pos, false, PointerButton::Primary, modifiers),
        modifiers,
    );
    harness.run();
}

/// Returns the middle of a frame on a part of the panel.
fn place(harness: &Harness<'_, State>, label: &str, frame: usize) -> Pos2 {
    let rect = rect_of(harness, label);
    let (store, axis) = (&harness.state().store, harness.state().view.axis());
    let frame = &store.frames()[frame];
    let ns = (frame.begin_ns + frame.end_ns) as f64 / 2.0;
    let share = (ns - axis.begin_ns) / axis.len_ns();
    pos2(rect.left() + rect.width() * share as f32, rect.center().y)
}

const NONE: Modifiers = Modifiers::NONE;

#[test]
fn bars_and_plots_share_one_axis() {
    let harness = harness(store(300, usual_ms), egui::Theme::Dark, 1.0);
    let bars = rect_of(&harness, "frame bars");
    assert!(bars.width() > 500.0);
    for (name, ..) in METRICS {
        let plot = rect_of(&harness, &format!("plot {name}"));
        assert_eq!(plot.x_range(), bars.x_range(), "{name}");
    }
    let ui = Rect::from_min_max(pos2(8.0, 0.0), pos2(992.0, 10.0));
    assert_eq!(axis_rect(ui).x_range(), bars.x_range());
}

#[test]
fn a_press_pins_and_dragging_moves_the_pin() {
    for label in ["frame bars", "plot memory"] {
        let mut harness = harness(store(100, usual_ms), egui::Theme::Dark, 1.0);
        let (from, to) = (place(&harness, label, 20), place(&harness, label, 63));
        press(&mut harness, from, NONE);
        assert_eq!(harness.state().pinned(), Some(20), "{label}");
        drag(&mut harness, to, NONE);
        assert_eq!(harness.state().pinned(), Some(63), "{label}");
        // Also outside of the part, and beyond its end.
        drag(&mut harness, pos2(3000.0, 5.0), NONE);
        assert_eq!(harness.state().pinned(), Some(99), "{label}");
        release(&mut harness, to, NONE);
        drag(&mut harness, from, NONE);
        assert_eq!(
            harness.state().pinned(),
            Some(63),
            "{label}: the button is released"
        );
        assert_eq!(harness.state().view.selection(), None);
    }
}

#[test]
fn shift_and_drag_selects_at_release() {
    let mut results = SnapshotResults::new();
    for label in ["frame bars", "plot memory"] {
        let mut harness = harness(store(100, usual_ms), egui::Theme::Dark, 1.0);
        let (from, to) = (place(&harness, label, 70), place(&harness, label, 40));
        press(&mut harness, from, Modifiers::SHIFT);
        drag(&mut harness, to, Modifiers::SHIFT);
        assert_eq!(harness.state().view.selection(), None, "{label}: not yet");
        assert_eq!(harness.state().pinned(), None, "{label}");
        if label == "frame bars" {
            harness.snapshot("numbers_rubber_band");
        }
        release(&mut harness, to, Modifiers::SHIFT);
        let state = harness.state();
        assert_eq!(
            state.view.selection_indices(&state.store),
            Some((40, 70)),
            "{label}"
        );
        // The slowest of the selected frames.
        assert_eq!(state.pinned(), Some(57), "{label}");
        if label == "frame bars" {
            harness.snapshot("numbers_selection");
        }
        // A double click shows all frames again.
        let middle = rect_of(&harness, label).center();
        for _ in 0..2 {
            press(&mut harness, middle, NONE);
            release(&mut harness, middle, NONE);
        }
        assert_eq!(harness.state().view.selection(), None, "{label}");
        assert!(harness.state().pinned().is_some(), "{label}");
        results.extend(harness.take_snapshot_results());
    }
}

#[test]
fn shift_and_a_click_selects_nothing() {
    let mut harness = harness(store(100, usual_ms), egui::Theme::Dark, 1.0);
    let at = place(&harness, "frame bars", 50);
    press(&mut harness, at, Modifiers::SHIFT);
    release(&mut harness, at, Modifiers::SHIFT);
    assert_eq!(harness.state().view.selection(), None);
    assert_eq!(harness.state().pinned(), None);
}

#[test]
fn the_secondary_button_unpins() {
    let mut harness = harness(store(100, usual_ms), egui::Theme::Dark, 1.0);
    let at = place(&harness, "plot frame_ms", 50);
    press(&mut harness, at, NONE);
    release(&mut harness, at, NONE);
    assert_eq!(harness.state().pinned(), Some(50));
    for pressed in [true, false] {
        harness.event(button(at, pressed, PointerButton::Secondary, NONE));
        harness.run();
    }
    assert_eq!(harness.state().pinned(), None);
}

#[test]
fn all_parts_show_the_pointer() {
    let mut harness = harness(store(100, usual_ms), egui::Theme::Dark, 1.0);
    let at = place(&harness, "plot sometimes", 30);
    harness.hover_at(at);
    harness.run();
    let pointed = harness.state().view.pointed_ns().unwrap();
    assert_eq!(harness.state().store.frame_at(pointed as i64), Some(30));
    harness.remove_cursor();
    harness.run();
    assert_eq!(harness.state().view.pointed_ns(), None);
}

#[test]
fn rows_are_pinned_hidden_and_shown_again() {
    let mut harness = harness(store(100, usual_ms), egui::Theme::Dark, 1.0);
    let first = rect_of(&harness, "plot frame_ms").top();
    harness.get_by_label("pin page_faults").click();
    harness.run();
    assert_eq!(harness.state().plots.pinned(), ["page_faults"]);
    assert_eq!(rect_of(&harness, "plot page_faults").top(), first);
    assert!(rect_of(&harness, "plot frame_ms").top() > first);
    harness.get_by_label("pin page_faults").click();
    harness.run();
    assert!(harness.state().plots.pinned().is_empty());
    assert_eq!(rect_of(&harness, "plot frame_ms").top(), first);

    assert!(harness.query_by_label_contains("hidden").is_none());
    harness.get_by_label("hide memory").click();
    harness.run();
    assert!(harness.query_by_label("plot memory").is_none());
    harness.get_by_label("hidden (1)").click();
    harness.run();
    harness.get_by_label("show memory").click();
    harness.run();
    assert!(harness.query_by_label("plot memory").is_some());
    assert!(harness.state().plots.hidden().is_empty());
}

#[test]
fn rows_are_filtered_by_name() {
    let mut harness = harness(store(100, usual_ms), egui::Theme::Dark, 1.0);
    let shown = |harness: &Harness<'_, State>| {
        let plots = harness.query_all_by_label_contains("plot ");
        plots.count()
    };
    let all = shown(&harness);
    harness.state_mut().plots.set_pinned("memory", true);
    harness.state_mut().plots.set_filter(" PAGE");
    harness.run();
    assert!(all > 2);
    assert_eq!(shown(&harness), 2);
    harness.get_by_label("plot page_faults");
    harness.get_by_label("plot memory");
    harness.snapshot("numbers_filtered_dark");
    harness.state_mut().plots.set_pinned("memory", false);
    harness.get_by_label("filter metrics").focus();
    harness.run();
    harness
        .get_by_label("filter metrics")
        .type_text(" of nothing");
    harness.run();
    assert_eq!(shown(&harness), 0);
}

#[test]
fn rows_are_sorted_and_grouped() {
    let mut harness = harness(store(100, usual_ms), egui::Theme::Light, 1.0);
    let names = [
        "frame_ms",
        "disk_write_MB",
        "memory",
        "depth: jobs",
        "disk_read_MB",
        "depth: pages",
        "threads",
        "cpu_pct",
    ];
    harness.state_mut().metrics = names.map(|name| (name, "", false)).to_vec();
    harness.set_size(egui::vec2(900.0, 640.0));
    harness.run();
    // From top to bottom.
    let shown = |harness: &Harness<'_, State>| -> Vec<&str> {
        let is_shown = |name: &&str| harness.query_by_label(&format!("plot {name}")).is_some();
        let mut shown: Vec<&str> = names.into_iter().filter(is_shown).collect();
        let top = |name: &&str| rect_of(harness, &format!("plot {name}")).top();
        shown.sort_by(|one, other| top(one).total_cmp(&top(other)));
        shown
    };
    assert_eq!(shown(&harness), names);
    harness.get_by_label("order").click();
    harness.run();
    harness.get_by_label("by name").click();
    harness.run();
    let mut sorted = names;
    sorted.sort_unstable();
    assert_eq!(shown(&harness), sorted);
    harness.get_by_label("order").click();
    harness.run();
    harness.snapshot("numbers_order_light");
    harness.get_by_label("group by the first word").click();
    harness.run();
    harness.key_press(egui::Key::Escape);
    harness.run();
    assert_eq!(shown(&harness), sorted);
    harness.get_by_label("collapse group depth").click();
    harness.run();
    assert_eq!(shown(&harness).len(), 6);
    harness.snapshot("numbers_grouped_light");
    // A pinned row is above the others.
    let plots = &mut harness.state_mut().plots;
    plots.set_pinned("depth: pages", true);
    harness.run();
    assert_eq!(shown(&harness)[0], "depth: pages");
    harness.get_by_label("plot depth: jobs");
}

#[test]
fn a_narrow_panel_with_a_row_hidden_and_one_on_top() {
    let mut harness = harness(store(100, usual_ms), egui::Theme::Light, 1.0);
    harness.state_mut().plots.set_pinned("sometimes", true);
    harness.state_mut().plots.set_hidden("never", true);
    harness.set_size(egui::vec2(420.0, 440.0));
    harness.run();
    let name = rect_of(&harness, "hide memory").center();
    harness.hover_at(name);
    harness.run();
    harness.snapshot("numbers_narrow");
}

#[test]
fn dragging_the_edge_of_a_name_changes_the_height_of_all_rows() {
    let mut harness = harness(store(100, usual_ms), egui::Theme::Dark, 1.0);
    let edge = rect_of(&harness, "height of frame_ms").center();
    press(&mut harness, edge, NONE);
    drag(&mut harness, edge + egui::vec2(0.0, 8.0), NONE);
    drag(&mut harness, edge + egui::vec2(0.0, 16.0), NONE);
    release(&mut harness, edge + egui::vec2(0.0, 16.0), NONE);
    assert_eq!(harness.state().plots.row_height(), 60.0);
    assert_eq!(rect_of(&harness, "plot memory").height(), 60.0);
}

#[test]
fn the_bracket_marks_the_range_of_the_flame_chart() {
    let mut harness = harness(store(60, usual_ms), egui::Theme::Dark, 1.0);
    let state = harness.state_mut();
    state.view.pin(state.store.id_at(30));
    state.view.zoom_to(300e6, 420e6);
    harness.run();
    harness.snapshot("numbers_bracket");
    harness.hover_at(place(&harness, "frame bars", 40));
    harness.run();
    // The tooltip appears after some time.
    harness.run_steps(30);
    assert!(harness.query_by_label("frame 40").is_some());
    harness.snapshot("numbers_tooltip");
}

#[test]
fn frames_with_any_times_break_nothing() {
    let ends = [
        i64::MIN,
        i64::MIN + 1,
        -1,
        0,
        1,
        1_000_000,
        i64::MAX - 1,
        i64::MAX,
    ];
    let mut store = Store::new(1000, usize::MAX);
    let odd = [f64::NAN, f64::INFINITY, f64::MAX, f64::MIN, -0.0, 1e-310];
    for (i, begin_ns) in ends.into_iter().enumerate() {
        for end_ns in ends {
            let metric = |column: usize| {
                filled!(MetricValue {
                    column: column as u32,
                    value: odd[(i + column) % odd.len()],
                })
            };
            store.push_frame(FrameEntry {
                begin_ns,
                end_ns,
                dropped_spans: u64::MAX,
                lost_records: u64::MAX,
                number: u64::MAX,
                metrics: (0..METRICS.len()).map(metric).collect(),
                ..FrameEntry::default()
            });
        }
    }
    let mut harness = harness(store, egui::Theme::Dark, 1.5);
    for label in ["frame bars", "plot memory", "plot never"] {
        let middle = rect_of(&harness, label).center();
        press(&mut harness, middle, NONE);
        drag(&mut harness, pos2(-50.0, middle.y), NONE);
        release(&mut harness, middle, NONE);
    }
    assert!(harness.state().view.pinned().is_some());
    let state = harness.state_mut();
    state.view.select(&state.store, 3, 11);
    harness.run();
}

/// Returns a frame like those of [`store`], after the last one.
fn next_frame(store: &Store, value: f64) -> FrameEntry {
    let begin_ns = store.frames().back().map_or(0, |last| last.end_ns);
    let metric = |column: u32| filled!(MetricValue { column, value });
    FrameEntry {
        number: store.frames().len() as u64,
        begin_ns,
        end_ns: begin_ns + 15_000_000,
        metrics: (0..METRICS.len() as u32).map(metric).collect(),
        ..FrameEntry::default()
    }
}

#[test]
fn cached_values_equal_those_read_again() {
    type Change = fn(&mut State);
    let mut harness = harness(store(700, usual_ms), egui::Theme::Dark, 1.0);
    let changes: [(&str, Change); 8] = [
        ("frames come and leave", |state| {
            for i in 0..130 {
                let frame = next_frame(&state.store, f64::from(i));
                state.store.push_frame(frame);
            }
        }),
        ("a frame is known better", |state| {
            let id = state.store.id_at(300);
            state
                .store
                .update_frame(id, |frame| frame.metrics[1].value = 7e9);
        }),
        ("a frame comes without its metrics", |state| {
            let mut frame = next_frame(&state.store, 0.0);
            frame.metrics.clear();
            state.store.push_frame(frame);
        }),
        ("they come with the next frame", |state| {
            let frame = next_frame(&state.store, 90.0);
            let metrics = frame.metrics.clone();
            let id = state.store.push_frame(frame);
            let before = vor_viz::store::FrameId(id.0 - 1);
            state
                .store
                .update_frame(before, |frame| frame.metrics = metrics);
        }),
        ("rows go away and change places", |state| {
            state.plots.set_pinned("sometimes", true);
            state.plots.set_hidden("memory", true);
        }),
        ("a hidden row comes back", |state| {
            state.plots.set_hidden("memory", false);
        }),
        ("frames are selected", |state| {
            state.view.select(&state.store, 100, 650)
        }),
        ("another capture", |state| {
            state.store = store(650, |i| usual_ms(i + 5));
            state.view = View::default();
        }),
    ];
    for (what, change) in changes {
        change(harness.state_mut());
        harness.run();
        let kept = harness.render().unwrap();
        // A new harness has read nothing before.
        let old = harness.state();
        let (store, view, plots) = (old.store.clone(), old.view.clone(), old.plots.clone());
        let mut fresh = self::harness(store, egui::Theme::Dark, 1.0);
        let state = fresh.state_mut();
        state.view = view;
        for name in plots.pinned() {
            state.plots.set_pinned(name, true);
        }
        for name in plots.hidden() {
            state.plots.set_hidden(name, true);
        }
        fresh.run();
        // A glyph has another place in the font atlas of the new harness, which may round a channel
        // of it differently.
        let read_again = fresh.render().unwrap();
        let differs = |(a, b): (&u8, &u8)| a.abs_diff(*b) > 1;
        assert_eq!(kept.dimensions(), read_again.dimensions(), "{what}");
        assert!(!kept.iter().zip(read_again.iter()).any(differs), "{what}");
    }
}

#[test]
fn values_are_read_once_while_nothing_changes() {
    let calls = std::cell::Cell::new(0);
    let values = |index: usize| {
        calls.set(calls.get() + 1);
        index as f64
    };
    let (mut plots, mut view) = (Plots::default(), View::default());
    let mut store = store(1600, usual_ms);
    let ctx = egui::Context::default();
    let mut pass = |store: &Store| {
        let before = calls.get();
        view.begin_pass(store);
        let input = egui::RawInput {
            screen_rect: Some(Rect::from_min_size(Pos2::ZERO, egui::vec2(900.0, 300.0))),
            ..egui::RawInput::default()
        };
        let mut output = ctx.run_ui(input, |ui| {
            let row = MetricRow {
                name: "index",
                unit: "",
                integer: true,
                description: "",
                values: &values,
                series: Series::Unknown,
            };
            plots.show(ui, store, &mut view, &Theme::of(ui.visuals()), &[row]);
        });
        output.textures_delta.clear();
        calls.get() - before
    };
    // The value in the label is read in each pass.
    assert_eq!(pass(&store), 1601);
    assert_eq!(pass(&store), 1);
    // All values are shifted by one place: the oldest frame leaves, and the comparison fails.
    let frame = next_frame(&store, 1.0);
    store.push_frame(frame);
    assert!(pass(&store) > 1600);
    let id = store.id_at(7);
    store.update_frame(id, |frame| frame.span_count = 1);
    assert_eq!(pass(&store), 1601);
}

/// Pictures of everything in both themes and with both pixel sizes.
fn pictures(name: &str, make: impl Fn() -> Store) {
    let mut results = SnapshotResults::new();
    for (theme, pixels_per_point, suffix) in [
        (egui::Theme::Dark, 1.0, "dark"),
        (egui::Theme::Light, 1.0, "light"),
        (egui::Theme::Dark, 2.0, "dark_2x"),
    ] {
        if pixels_per_point == 2.0 && name != "few" {
            continue;
        }
        let mut harness = harness(make(), theme, pixels_per_point);
        if let Some(middle) = harness.state().store.frames().len().checked_sub(1) {
            let state = harness.state_mut();
            state.view.pin(state.store.id_at(middle / 2));
            harness.run();
        }
        harness.snapshot(format!("numbers_{name}_{suffix}"));
        results.extend(harness.take_snapshot_results());
    }
}

#[test]
fn few_frames() {
    pictures("few", || store(40, usual_ms));
}

#[test]
fn five_thousand_frames() {
    pictures("5000", || store(5000, usual_ms));
}

#[test]
fn one_monster() {
    pictures("monster", || {
        store(200, |i| if i == 120 { 900.0 } else { usual_ms(i) })
    });
}

#[test]
fn no_frames() {
    pictures("none", || store(0, usual_ms));
}

/// The input of the overview, and its answer.
struct Strip {
    durations_ms: MinMaxPyramid,
    marks: Vec<(u64, OverviewMark)>,
    total: u64,
    window: Range<u64>,
    pinned: Option<u64>,
    actions: Vec<OverviewAction>,
}

impl Strip {
    fn new(loaded: usize, total: u64, window: Range<u64>) -> Self {
        let mut durations_ms = MinMaxPyramid::new();
        for i in 0..loaded {
            let monster = if i == loaded / 3 { 2000.0 } else { 0.0 };
            let phase = if i * 4 / total as usize == 2 {
                9.0
            } else {
                0.0
            };
            durations_ms.push((usual_ms(i) + monster + phase) as f32);
        }
        let marks = (0..loaded as u64).filter_map(|i| match i % 3000 {
            1000 => Some((i, OverviewMark::Dropped)),
            2500 => Some((i, OverviewMark::Damaged)),
            _ => None,
        });
        Self {
            durations_ms,
            marks: marks.collect(),
            total,
            window,
            pinned: None,
            actions: Vec::new(),
        }
    }
}

/// The overview in a program: the window follows the moves.
fn overview_harness<'a>(strip: Strip, theme: egui::Theme) -> Harness<'a, Strip> {
    let app = |ui: &mut egui::Ui, strip: &mut Strip| {
        let theme = Theme::of(ui.visuals());
        ui.painter()
            .rect_filled(ui.max_rect().expand(20.0), 0.0, ui.visuals().panel_fill);
        let data = OverviewData {
            durations_ms: &strip.durations_ms,
            numbers: &FrameNumbers::default(),
            marks: &strip.marks,
            loaded: strip.durations_ms.len() as u64,
            total: strip.total,
        };
        let window = strip.window.clone();
        let action = overview::show(
            ui,
            48.0,
            data,
            window,
            strip.pinned,
            &theme,
            Thresholds::default(),
        );
        if let Some(action) = action {
            strip.actions.push(action);
            if let OverviewAction::MoveWindow(first) = action {
                let length = strip.window.end - strip.window.start;
                strip.window = first..first + length;
            }
        }
    };
    let mut harness = pictures::builder()
        .with_size(egui::vec2(1000.0, 64.0))
        .with_theme(theme)
        .with_step_dt(1.0 / 60.0)
        // Tooltips appear after some passes.
        .with_max_steps(60)
        .build_ui_state(app, strip);
    harness.run();
    harness
}

/// Returns the place of a frame in the overview.
fn overview_place(harness: &Harness<'_, Strip>, ordinal: f32) -> Pos2 {
    let rect = rect_of(harness, "overview of the capture");
    let share = ordinal / harness.state().total as f32;
    pos2(rect.left() + rect.width() * share, rect.center().y)
}

#[test]
fn the_overview_moves_to_a_click() {
    let mut harness = overview_harness(
        Strip::new(60_000, 60_000, 10_000..20_000),
        egui::Theme::Dark,
    );
    for ordinal in [40_000.0, 15_000.0, 59_999.0] {
        let at = overview_place(&harness, ordinal);
        press(&mut harness, at, NONE);
        release(&mut harness, at, NONE);
        let action = harness.state().actions.last().copied();
        let Some(OverviewAction::GoTo(frame)) = action else {
            panic!("{action:?}");
        };
        assert!(
            (frame as f32 - ordinal).abs() < 100.0,
            "{frame} instead of {ordinal}"
        );
        assert!(frame < 60_000);
    }
    assert_eq!(harness.state().actions.len(), 3);
}

#[test]
fn the_window_is_dragged_and_stays_inside() {
    let mut harness = overview_harness(
        Strip::new(60_000, 60_000, 10_000..20_000),
        egui::Theme::Dark,
    );
    let [taken, put] = [12_000.0, 32_000.0].map(|ordinal| overview_place(&harness, ordinal));
    press(&mut harness, taken, NONE);
    drag(&mut harness, put, NONE);
    let first = harness.state().window.start;
    assert!(first.abs_diff(30_000) < 250, "{first}");
    drag(&mut harness, put + egui::vec2(5000.0, 0.0), NONE);
    assert_eq!(harness.state().window, 50_000..60_000);
    drag(&mut harness, pos2(-100.0, 0.0), NONE);
    release(&mut harness, pos2(-100.0, 0.0), NONE);
    assert_eq!(harness.state().window, 0..10_000);
    let moves = |action: &OverviewAction| matches!(action, OverviewAction::MoveWindow(_));
    assert!(harness.state().actions.iter().all(moves));
}

#[test]
fn overviews_look_right() {
    let mut whole = Strip::new(60_000, 60_000, 20_000..23_000);
    whole.pinned = Some(45_000);
    let mut light = Strip::new(60_000, 60_000, 20_000..23_000);
    light.pinned = Some(45_000);
    let pictures = [
        ("dark", whole, egui::Theme::Dark),
        ("light", light, egui::Theme::Light),
        (
            "loading",
            Strip::new(41_000, 60_000, 0..500),
            egui::Theme::Dark,
        ),
        ("few", Strip::new(50, 50, 0..50), egui::Theme::Light),
        ("none", Strip::new(0, 0, 0..0), egui::Theme::Dark),
    ];
    let mut results = SnapshotResults::new();
    for (name, strip, theme) in pictures {
        let mut harness = overview_harness(strip, theme);
        harness.snapshot(format!("numbers_overview_{name}"));
        results.extend(harness.take_snapshot_results());
    }
}

#[test]
fn marks_that_arrive_while_loading_are_drawn_like_earlier_ones() {
    let picture = |strip: Strip| {
        let mut harness = overview_harness(strip, egui::Theme::Dark);
        let state = harness.state_mut();
        state.marks = (0..60_000)
            .step_by(1777)
            .map(|i| (i, OverviewMark::Damaged))
            .collect();
        harness.run();
        harness.render().unwrap()
    };
    let mut partly = Strip::new(60_000, 60_000, 0..500);
    partly.marks = (0..30_000)
        .step_by(1777)
        .map(|i| (i, OverviewMark::Damaged))
        .collect();
    let mut others = Strip::new(60_000, 60_000, 0..500);
    others.marks = vec![(5, OverviewMark::Dropped), (50_000, OverviewMark::Dropped)];
    let mut none = Strip::new(60_000, 60_000, 0..500);
    none.marks.clear();
    let pictures = [partly, others, none].map(picture);
    assert!(pictures.iter().all(|picture| picture == &pictures[0]));
}
