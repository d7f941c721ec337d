//! A flame chart on a screen of its own, pass by pass.

use egui::epaint::ClippedPrimitive;
use egui::{Color32, Context, Event, RawInput, Rect, TextureFilter, pos2, vec2};
use vor_viz::flame::FlameChart;
use vor_viz::raster::Canvas;
use vor_viz::store::Store;
use vor_viz::theme::Theme;
use vor_viz::view::View;

/// The size of a screen, in pixels.
const SIZE: [usize; 2] = [800, 300];

/// The width of the time axis at that size, and its left end.
pub const AXIS_PIXELS: f64 = 420.0;
pub const AXIS_LEFT: f64 = 156.0;

/// A chart on a screen of its own.
pub struct Screen {
    pub ctx: Context,
    canvas: Canvas,
    pub chart: FlameChart,
    /// The input of the next pass.
    pub events: Vec<Event>,
    /// Texels that were painted in the last pass.
    pub painted: usize,
}

impl Screen {
    pub fn new() -> Self {
        let ctx = Context::default();
        ctx.set_theme(egui::Theme::Dark);
        let mut screen = Self {
            ctx,
            canvas: Canvas::new(SIZE[0], SIZE[1], Color32::BLACK),
            chart: FlameChart::default(),
            events: Vec::new(),
            painted: 0,
        };
        // The first two passes of egui make fonts and layouts.
        let mut view = View::default();
        (0..2).for_each(|_| drop(screen.pass(&Store::new(1, 1), &mut view)));
        screen
    }

    /// Shows the chart, and takes its textures.
    pub fn pass(&mut self, store: &Store, view: &mut View) -> Vec<ClippedPrimitive> {
        let [width, height] = SIZE.map(|side| side as f32);
        let input = RawInput {
            screen_rect: Some(Rect::from_min_size(pos2(0.0, 0.0), vec2(width, height))),
            max_texture_side: Some(2048),
            events: std::mem::take(&mut self.events),
            ..RawInput::default()
        };
        let mut output = self.ctx.run_ui(input, |ui| {
            let theme = Theme::of(ui.visuals());
            self.chart
                .show(ui, 290.0, store, view, &theme, &|_, _| None);
        });
        // The chart's textures are not smoothed, those of letters are.
        let changes = output.textures_delta.set.values().flatten();
        let images = changes
            .filter(|change| change.pos.is_some())
            .filter(|change| change.options.magnification == TextureFilter::Nearest)
            .map(|change| change.image.size().iter().product::<usize>());
        self.painted = images.sum();
        self.canvas.take_textures(&mut output.textures_delta);
        self.ctx.tessellate(output.shapes, output.pixels_per_point)
    }

    /// Shows the chart, and returns its pixels.
    pub fn paint(&mut self, store: &Store, view: &mut View) -> Vec<Color32> {
        let primitives = self.pass(store, view);
        self.canvas.clear(SIZE[0], SIZE[1], Color32::BLACK);
        self.canvas.paint(&primitives, 1.0);
        self.canvas.pixels().to_vec()
    }
}

/// Returns whether two pixels have nearly the same colour. The edges of a letter depend on its
/// place in the texture of letters.
pub fn are_alike(a: Color32, b: Color32) -> bool {
    // Not an iterator: millions of pixels are compared without optimisation.
    let is_alike = |channel: usize| a[channel].abs_diff(b[channel]) <= 2;
    a == b || is_alike(0) && is_alike(1) && is_alike(2) && is_alike(3)
}
