//! The whole panel under clicks, drags and typing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::pictures;
use crate::pointer::{click, drag, hover};
use egui::{Key, Modifiers, pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use vor_viz::bars::Thresholds;
use vor_viz::flame::ColorBy;
use vor_viz::panel::{Panel, Tab};
use vor_viz::store::Store;

fn harness(store: Store, dark: bool, scale: f32) -> Harness<'static, Panel> {
    let show = move |ui: &mut egui::Ui, panel: &mut Panel| {
        ui.ctx().set_theme(if dark {
            egui::Theme::Dark
        } else {
            egui::Theme::Light
        });
        egui::CentralPanel::default().show(ui, |ui| panel.show(ui, &[]));
    };
    let mut harness = pictures::builder()
        .with_size(vec2(1280.0, 800.0))
        .with_pixels_per_point(scale)
        .with_step_dt(1.0 / 60.0)
        .with_max_steps(60)
        .build_ui_state(show, Panel::new(store, Thresholds::default()));
    harness.run();
    harness
}

fn rich(dark: bool) -> Harness<'static, Panel> {
    let mut harness = harness(crate::synthetic::rich_store(), dark, 1.0);
    // The panel takes keys where the pointer is over it.
    hover(&mut harness, pos2(30.0, 60.0));
    harness
}

fn press(harness: &mut Harness<'_, Panel>, key: Key) {
    harness.key_press(key);
    harness.run();
}

fn pinned_index(harness: &Harness<'_, Panel>) -> Option<usize> {
    let panel = harness.state();
    panel
        .view()
        .pinned()
        .and_then(|id| panel.store().index_of(id))
}

fn selected(harness: &Harness<'_, Panel>) -> Option<(usize, usize)> {
    let panel = harness.state();
    panel.view().selection_indices(panel.store())
}

#[test]
fn everything_dark() {
    let mut harness = rich(true);
    harness.snapshot("panel_dark");
}

#[test]
fn a_pinned_frame_light_at_two_pixels_per_point() {
    let mut harness = harness(crate::synthetic::rich_store(), false, 2.0);
    let id = harness.state().store().id_at(33);
    harness.state_mut().view_mut().pin(id);
    harness.run();
    harness.snapshot("panel_pinned_light_2x");
}

#[test]
fn nothing_yet() {
    let mut harness = harness(Store::new(10, 10), true, 1.0);
    harness.snapshot("panel_empty");
    for key in [
        Key::Space,
        Key::ArrowLeft,
        Key::ArrowDown,
        Key::M,
        Key::W,
        Key::D,
        Key::Z,
        Key::N,
        Key::E,
        Key::End,
    ] {
        hover(&mut harness, pos2(30.0, 60.0));
        press(&mut harness, key);
    }
    assert_eq!(pinned_index(&harness), None);
}

#[test]
fn space_and_the_button_pause_and_go_on() {
    let mut harness = rich(true);
    press(&mut harness, Key::Space);
    assert_eq!(pinned_index(&harness), Some(47), "the newest frame");
    harness.get_by_label("Resume").click();
    harness.run();
    assert_eq!(pinned_index(&harness), None);
    harness.get_by_label("Pause").click();
    harness.run();
    assert_eq!(pinned_index(&harness), Some(47));
}

#[test]
fn arrows_step_from_frame_to_frame() {
    let mut harness = rich(true);
    for (key, expected) in [
        (Key::End, 47),
        (Key::ArrowLeft, 46),
        (Key::Comma, 45),
        (Key::Home, 0),
        (Key::ArrowRight, 1),
        (Key::Period, 2),
        (Key::M, 33),
    ] {
        press(&mut harness, key);
        assert_eq!(pinned_index(&harness), Some(expected), "{key:?}");
    }
    press(&mut harness, Key::Escape);
    assert_eq!(pinned_index(&harness), None);
}

#[test]
fn shift_and_arrows_select_frames() {
    let mut harness = rich(true);
    press(&mut harness, Key::M);
    for (key, expected) in [
        (Key::ArrowLeft, Some((32, 33))),
        (Key::ArrowLeft, Some((31, 33))),
        (Key::ArrowRight, Some((32, 33))),
        (Key::ArrowRight, None),
        (Key::ArrowRight, Some((33, 34))),
    ] {
        harness.key_press_modifiers(Modifiers::SHIFT, key);
        harness.run();
        assert_eq!(selected(&harness), expected);
    }
    assert_eq!(pinned_index(&harness), Some(33), "the pin stays");
    harness.get_by_label("All frames").click();
    harness.run();
    assert_eq!(selected(&harness), None);
}

#[test]
fn a_selection_narrows_every_axis() {
    let mut harness = rich(false);
    let bars = harness.get_by_label("frame bars").rect();
    let y = bars.center().y;
    drag(
        &mut harness,
        pos2(bars.left() + bars.width() * 0.5, y),
        pos2(bars.left() + bars.width() * 0.8, y),
        Modifiers::SHIFT,
    );
    let (first, last) = selected(&harness).unwrap();
    assert!(first > 20 && last > first && last < 42, "{first} to {last}");
    assert_eq!(pinned_index(&harness), Some(33), "the slowest one");
    let panel = harness.state();
    let time = panel.store().time_of(first..last + 1).unwrap();
    assert_eq!(
        (panel.view().axis().begin_ns, panel.view().axis().end_ns),
        (time.start as f64, time.end as f64)
    );
    harness.snapshot("panel_selection_light");
}

/// Two panels of the same frames, side by side in one window.
fn two() -> Harness<'static, [Panel; 2]> {
    let show = |ui: &mut egui::Ui, panels: &mut [Panel; 2]| {
        egui::CentralPanel::default().show(ui, |ui| {
            ui.columns(2, |columns| {
                for (ui, panel) in columns.iter_mut().zip(panels) {
                    panel.show(ui, &[]);
                }
            });
        });
    };
    let panel = || Panel::new(crate::synthetic::rich_store(), Thresholds::default());
    let mut harness = pictures::builder()
        .with_size(vec2(1400.0, 640.0))
        .with_step_dt(1.0 / 60.0)
        .with_max_steps(60)
        .build_ui_state(show, [panel(), panel()]);
    harness.run();
    harness
}

#[test]
fn a_drag_in_one_panel_does_not_affect_the_other() {
    let mut harness = two();
    let bars: Vec<egui::Rect> = harness
        .get_all_by_label("frame bars")
        .map(|bars| bars.rect())
        .collect();
    let (left, right) = (bars[0], bars[1]);
    assert!(left.right() < right.left());
    let right_half = |harness: &mut Harness<'_, [Panel; 2]>| {
        let picture = harness.render().unwrap();
        let (width, height) = (picture.width(), picture.height());
        let from = right.left() as u32;
        let half: Vec<[u8; 4]> = (0..height)
            .flat_map(|y| (from..width).map(move |x| (x, y)))
            .map(|(x, y)| picture.get_pixel(x, y).0)
            .collect();
        half
    };
    let before = right_half(&mut harness);
    let at = |share: f32| pos2(left.left() + share * left.width(), left.center().y);
    hover(&mut harness, at(0.2));
    harness.event_modifiers(
        egui::Event::PointerButton {
            pos: at(0.2),
            button: egui::PointerButton::Primary,
            pressed: true,
            modifiers: Modifiers::SHIFT,
        },
        Modifiers::SHIFT,
    );
    harness.run();
    harness.event_modifiers(egui::Event::PointerMoved(at(0.7)), Modifiers::SHIFT);
    harness.run();
    harness.snapshot("panel_two_rubber_band");
    assert!(
        right_half(&mut harness) == before,
        "the right panel does not show the rubber band"
    );
    harness.event_modifiers(
        egui::Event::PointerButton {
            pos: at(0.7),
            button: egui::PointerButton::Primary,
            pressed: false,
            modifiers: Modifiers::SHIFT,
        },
        Modifiers::SHIFT,
    );
    harness.run();
    let [dragged, other] = harness.state();
    let (first, last) = dragged.view().selection_indices(dragged.store()).unwrap();
    assert!(first < last && last < 47, "{first} to {last}");
    assert_eq!(
        (other.view().selection(), other.view().pinned()),
        (None, None)
    );
}

#[test]
fn arrows_walk_over_spans_when_one_is_in_focus() {
    let mut harness = rich(true);
    press(&mut harness, Key::M);
    press(&mut harness, Key::ArrowDown);
    let focus = |harness: &Harness<'_, Panel>| harness.state().view().focus;
    let first = focus(&harness).unwrap();
    assert_eq!(first.row, 0, "the first span in view");
    press(&mut harness, Key::ArrowDown);
    let child = focus(&harness).unwrap();
    assert_eq!(child.row, 1);
    press(&mut harness, Key::ArrowRight);
    assert!(focus(&harness).unwrap().span.begin_ns > child.span.begin_ns);
    press(&mut harness, Key::ArrowLeft);
    assert_eq!(focus(&harness), Some(child));
    press(&mut harness, Key::ArrowUp);
    assert_eq!(focus(&harness), Some(first));
    assert_eq!(pinned_index(&harness), Some(33), "frames do not move");
    press(&mut harness, Key::Z);
    let panel = harness.state();
    let time = panel.view().flame_axis(panel.store());
    assert!(
        (time.len_ns() - first.span.duration_ns as f64 * 1.04).abs() < 2.0,
        "the span fills the chart"
    );
    press(&mut harness, Key::Escape);
    assert_eq!(focus(&harness), None, "the focus is cleared first");
    assert_eq!(pinned_index(&harness), Some(33));
}

#[test]
fn letters_zoom_and_pan_the_flame_chart() {
    let mut harness = rich(true);
    let time = |harness: &Harness<'_, Panel>| {
        let panel = harness.state();
        panel.view().flame_axis(panel.store())
    };
    let all = time(&harness);
    press(&mut harness, Key::W);
    let zoomed = time(&harness);
    assert!((zoomed.len_ns() / all.len_ns() - 0.7).abs() < 1e-6);
    press(&mut harness, Key::D);
    let later = time(&harness);
    assert!(later.begin_ns > zoomed.begin_ns);
    press(&mut harness, Key::A);
    assert!(time(&harness).begin_ns < later.begin_ns);
    press(&mut harness, Key::S);
    assert!(time(&harness).len_ns() > zoomed.len_ns());
    press(&mut harness, Key::W);
    press(&mut harness, Key::R);
    assert_eq!(time(&harness), all);
}

#[test]
fn a_search_is_typed_and_enter_goes_to_the_match() {
    let mut harness = rich(true);
    press(&mut harness, Key::F);
    harness.get_by_label("search names").type_text("gc");
    harness.run();
    assert_eq!(
        harness.state().view().search,
        "gc",
        "letters are text, not commands"
    );
    assert!(harness.query_by_label("1 scope").is_some());
    press(&mut harness, Key::Enter);
    let panel = harness.state();
    let focus = panel.view().focus.unwrap();
    assert_eq!(panel.store().catalog().site_name(focus.span.site), "gc");
    press(&mut harness, Key::N);
    let next = harness.state().view().focus.unwrap();
    assert!(next.span.begin_ns >= focus.span.begin_ns && next != focus);
    harness.snapshot("panel_search_dark");
    harness.get_by_label("Clear").click();
    harness.run();
    assert_eq!(harness.state().view().search, "");
}

#[test]
fn number_keys_and_tabs_change_the_lower_part() {
    let mut harness = rich(false);
    press(&mut harness, Key::Num2);
    assert_eq!(harness.state().tab(), Tab::Scopes);
    harness.run();
    harness.snapshot("panel_scopes_light");
    harness.get_by_label("Flame graph").click();
    harness.run();
    assert_eq!(harness.state().tab(), Tab::Icicle);
    harness.run();
    harness.snapshot("panel_icicle_light");
    press(&mut harness, Key::Num1);
    assert_eq!(harness.state().tab(), Tab::Metrics);
}

#[test]
fn kept_frames_are_compared_with_others() {
    let mut harness = rich(false);
    press(&mut harness, Key::Num4);
    press(&mut harness, Key::M);
    harness.get_by_label("Keep frame 33").click();
    harness.run();
    press(&mut harness, Key::Comma);
    assert!(harness.query_by_label("kept: frame 33").is_some());
    harness.run();
    harness.snapshot("panel_compare_light");
}

#[test]
fn the_table_of_keys_opens_and_closes() {
    let mut harness = rich(true);
    harness.key_press_modifiers(Modifiers::SHIFT, Key::Questionmark);
    harness.run();
    assert!(harness.state().shows_help());
    harness.snapshot("panel_help_dark");
    harness.get_by_label("Close").click();
    harness.run();
    assert!(!harness.state().shows_help());
    harness.get_by_label("?").click();
    harness.run();
    press(&mut harness, Key::Escape);
    assert!(!harness.state().shows_help());
}

#[test]
fn the_divider_is_dragged() {
    let mut harness = rich(true);
    let chart = harness.get_by_label("flame chart").rect().height();
    let divider = harness.get_by_label("divider").rect().center();
    drag(
        &mut harness,
        divider,
        divider - vec2(0.0, 120.0),
        Modifiers::NONE,
    );
    let smaller = harness.get_by_label("flame chart").rect().height();
    assert!(
        (chart - smaller - 120.0).abs() < 4.0,
        "from {chart} to {smaller}"
    );
}

#[test]
fn colours_rows_tracks_and_the_cost_are_switched_by_keys() {
    let mut harness = rich(true);
    press(&mut harness, Key::C);
    assert_eq!(harness.state_mut().chart_mut().color_by(), ColorBy::Thread);
    press(&mut harness, Key::E);
    assert!(harness.query_by_label("expand main").is_some());
    press(&mut harness, Key::E);
    assert!(harness.query_by_label("collapse main").is_some());
    press(&mut harness, Key::L);
    assert!(harness.query_by_label_contains("of which vor").is_some());
    press(&mut harness, Key::L);
    assert!(harness.query_by_label_contains("of which vor").is_none());
}

#[test]
fn keys_are_not_taken_where_the_pointer_is_elsewhere() {
    let mut harness = rich(true);
    harness.remove_cursor();
    harness.run();
    press(&mut harness, Key::Space);
    assert_eq!(pinned_index(&harness), None);
}

#[test]
fn a_small_panel_still_shows_everything() {
    let show = |ui: &mut egui::Ui, panel: &mut Panel| {
        ui.ctx().set_theme(egui::Theme::Dark);
        egui::CentralPanel::default().show(ui, |ui| panel.show(ui, &[]));
    };
    let mut harness = pictures::builder()
        .with_size(vec2(560.0, 380.0))
        .build_ui_state(
            show,
            Panel::new(crate::synthetic::rich_store(), Thresholds::default()),
        );
    harness.run();
    harness.snapshot("panel_small");
    click(&mut harness, pos2(300.0, 75.0), Modifiers::NONE);
    assert!(pinned_index(&harness).is_some());
}
