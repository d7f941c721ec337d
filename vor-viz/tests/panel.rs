//! The whole panel, clicked, dragged and typed into.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/synthetic.rs"]
mod synthetic;

use egui::vec2;
use egui_kittest::Harness;
use vor_viz::bars::Thresholds;
use vor_viz::panel::Panel;
use vor_viz::store::Store;

fn harness(store: Store, dark: bool, scale: f32) -> Harness<'static, Panel> {
    let show = move |ui: &mut egui::Ui, panel: &mut Panel| {
        ui.ctx().set_theme(if dark {
            egui::Theme::Dark
        } else {
            egui::Theme::Light
        });
        panel.show(ui, &[]);
    };
    let mut harness = Harness::builder()
        .with_size(vec2(1280.0, 800.0))
        .with_pixels_per_point(scale)
        .build_ui_state(show, Panel::new(store, Thresholds::default()));
    harness.run();
    harness
}

#[test]
fn everything_dark() {
    let mut harness = harness(synthetic::rich_store(), true, 1.0);
    harness.snapshot("panel_dark");
}

#[test]
fn a_pinned_frame_light_at_two_pixels_per_point() {
    let mut harness = harness(synthetic::rich_store(), false, 2.0);
    let id = harness.state().store().id_at(33);
    harness.state_mut().view_mut().pin(id);
    harness.run();
    harness.snapshot("panel_pinned_light_2x");
}

#[test]
fn nothing_yet() {
    let mut harness = harness(Store::new(10, 10), true, 1.0);
    harness.snapshot("panel_empty");
}
