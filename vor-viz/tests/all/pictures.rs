//! Pictures of the panel that no window, GPU or driver takes part in: the viewer's own rasteriser
//! paints them, as it paints screenshots.

use egui::{Color32, Context, FullOutput, TexturesDelta};
use egui_kittest::{Harness, HarnessBuilder, TestRenderer};
use image::RgbaImage;
use vor_viz::raster::Canvas;

/// Begins a harness that takes pictures.
pub fn builder<S>() -> HarnessBuilder<S> {
    Harness::builder().renderer(Painter(Canvas::new(0, 0, Color32::TRANSPARENT)))
}

struct Painter(Canvas);

impl TestRenderer for Painter {
    fn handle_delta(&mut self, delta: &mut TexturesDelta) {
        self.0.take_textures(delta);
    }

    fn render(&mut self, ctx: &Context, output: &FullOutput) -> Result<RgbaImage, String> {
        let pixels_per_point = ctx.pixels_per_point();
        let size = (ctx.content_rect().size() * pixels_per_point).round();
        let (width, height) = (size.x as usize, size.y as usize);
        self.0.clear(width, height, Color32::TRANSPARENT);
        let primitives = ctx.tessellate(output.shapes.clone(), pixels_per_point);
        self.0.paint(&primitives, pixels_per_point);
        let channels = self.0.pixels().iter().flat_map(Color32::to_array).collect();
        RgbaImage::from_raw(width as u32, height as u32, channels)
            .ok_or_else(|| format!("{size} is not the size of the picture"))
    }
}
