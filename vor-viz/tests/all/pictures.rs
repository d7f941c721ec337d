//! Pictures of the panel that no window, GPU or driver takes part in: the viewer's own rasteriser
//! paints them, as it paints screenshots.

use egui::{Color32, Context, FontDefinitions, FontFamily, FullOutput, TexturesDelta};
use egui_kittest::{Harness, HarnessBuilder, TestRenderer};
use image::RgbaImage;
use vor_viz::raster::Canvas;

/// Begins a harness that takes pictures.
pub fn builder<S>() -> HarnessBuilder<S> {
    Harness::builder().renderer(Painter(Canvas::new(0, 0, Color32::TRANSPARENT)))
}

/// Makes the next picture independent of what was shown while something was read in the background:
/// scrolling and fading end, and the fonts' texture has the glyphs of that picture alone. Its size
/// is in the places of all glyphs, and so in the last bit of their edges.
#[allow(dead_code, reason = "the tests of the program read in no background")]
pub fn rest<S>(harness: &mut Harness<'_, S>) {
    harness.run_steps(12);
    // Fonts that are equal to those before would be kept, with their texture.
    let mut fonts = FontDefinitions::default();
    let of_text = fonts.families[&FontFamily::Proportional].clone();
    let name = format!("rest {}", harness.ctx.cumulative_pass_nr());
    fonts
        .families
        .insert(FontFamily::Name(name.into()), of_text);
    harness.ctx.set_fonts(fonts);
    harness.run_steps(2);
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
        // Not an iterator: millions of pixels are copied without optimisation.
        let mut channels = Vec::with_capacity(4 * width * height);
        for pixel in self.0.pixels() {
            channels.extend_from_slice(&pixel.to_array());
        }
        RgbaImage::from_raw(width as u32, height as u32, channels)
            .ok_or_else(|| format!("{size} is not the size of the picture"))
    }
}
