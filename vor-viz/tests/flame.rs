//! The flame chart, clicked, dragged and typed into.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/synthetic.rs"]
mod synthetic;

use egui::{Event, Key, Modifiers, MouseWheelUnit, PointerButton, Pos2, TouchPhase, pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use vor_viz::flame::{ColorBy, Direction, FlameChart};
use vor_viz::store::Store;
use vor_viz::theme::Theme;
use vor_viz::view::View;

struct App {
    store: Store,
    view: View,
    chart: FlameChart,
}

fn harness(store: Store, dark: bool) -> Harness<'static, App> {
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
        let height = ui.available_height();
        app.chart
            .show(ui, height, &app.store, &mut app.view, &theme, &|_, _| None);
    };
    let mut harness = Harness::builder()
        .with_size(vec2(1100.0, 560.0))
        .build_ui_state(show, app);
    harness.run();
    harness
}

#[test]
fn all_frames() {
    let mut harness = harness(synthetic::rich_store(), true);
    harness.run();
    harness.snapshot("flame_all_dark");
}

#[test]
fn one_frame() {
    let mut harness = harness(synthetic::rich_store(), false);
    let id = harness.state().store.id_at(20);
    harness.state_mut().view.pin(id);
    harness.run();
    harness.snapshot("flame_frame_light");
}
