//! egui without a window.

use egui::{Context, Event, RawInput, Rect, Ui, pos2, vec2};

/// Passes of a UI at 1920 × 1080.
pub struct Headless {
    ctx: Context,
    time: f64,
}

impl Headless {
    pub fn new() -> Self {
        let ctx = Context::default();
        ctx.set_theme(egui::Theme::Dark);
        Self { ctx, time: 0.0 }
    }

    /// Runs a pass and tessellates its output. Returns the number of vertices.
    pub fn pass(&mut self, show: impl FnMut(&mut Ui)) -> usize {
        self.pass_with(Vec::new(), show)
    }

    /// Does the same with input.
    pub fn pass_with(&mut self, events: Vec<Event>, show: impl FnMut(&mut Ui)) -> usize {
        self.time += 1.0 / 60.0;
        let input = RawInput {
            screen_rect: Some(Rect::from_min_size(pos2(0.0, 0.0), vec2(1920.0, 1080.0))),
            time: Some(self.time),
            max_texture_side: Some(8192),
            events,
            ..RawInput::default()
        };
        let mut output = self.ctx.run_ui(input, show);
        // A GPU would consume these.
        output.textures_delta.clear();
        let primitives = self.ctx.tessellate(output.shapes, output.pixels_per_point);
        let vertices = primitives
            .iter()
            .map(|primitive| match &primitive.primitive {
                egui::epaint::Primitive::Mesh(mesh) => mesh.vertices.len(),
                egui::epaint::Primitive::Callback(_) => 0,
            });
        vertices.sum()
    }
}
