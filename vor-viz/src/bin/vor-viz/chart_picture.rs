//! A picture of the flame chart with all of its rows, without a window and a GPU.

use egui::{Color32, Context, RawInput, Rect, Vec2};
use vor_viz::flame::FlameChart;
use vor_viz::raster::Canvas;
use vor_viz::replay::ReplayState;
use vor_viz::theme::Theme;

/// The name in the menu of exports.
pub(crate) const NAME: &str = "Picture of the flame chart (PNG)";

/// Width and maximum height of the picture, in pixels.
const WIDTH: u32 = 1920;
const MAX_HEIGHT: f32 = 8000.0;

/// Draws the picture; returns its width and height in pixels, and the pixels.
pub(crate) fn draw(replay: &ReplayState, dark: bool) -> ((u32, u32), Canvas) {
    let store = replay.store();
    let mut view = replay.panel().view().clone();
    let mut chart = FlameChart::default();
    let tracks = store.shown_tracks();
    let rows: usize = tracks.iter().map(|track| track.rows.len().max(1)).sum();
    let height = rows as f32 * chart.row_height() + 6.0 * tracks.len() as f32 + 48.0;
    let height = height.clamp(120.0, MAX_HEIGHT).ceil();
    let size = (WIDTH, height as u32);
    let ctx = Context::default();
    ctx.set_theme(if dark {
        egui::Theme::Dark
    } else {
        egui::Theme::Light
    });
    let mut canvas = Canvas::new(size.0 as usize, size.1 as usize, Color32::BLACK);
    let mut primitives = Vec::new();
    // Fonts are loaded from the second pass on.
    for _ in 0..2 {
        let input = RawInput {
            screen_rect: Some(Rect::from_min_size(
                egui::Pos2::ZERO,
                Vec2::new(size.0 as f32, height),
            )),
            ..RawInput::default()
        };
        let mut output = ctx.run_ui(input, |ui| {
            egui::CentralPanel::default().show(ui, |ui| {
                view.begin_pass(store);
                let theme = Theme::of(ui.visuals());
                let height = ui.available_height();
                chart.show(ui, height, store, &mut view, &theme, &|_, _| None);
            });
        });
        canvas.take_textures(&mut output.textures_delta);
        primitives = ctx.tessellate(output.shapes, output.pixels_per_point);
    }
    canvas.paint(&primitives, 1.0);
    (size, canvas)
}
