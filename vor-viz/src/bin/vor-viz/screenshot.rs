//! Screenshots of the viewer, without a window and a GPU.

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use egui::{Color32, Pos2, RawInput, Rect, Vec2};
use vor_viz::raster::Canvas;

use crate::glyphs::Glyphs;
use crate::output::{encode, write_whole};
use crate::viewer::Viewer;

/// Passes after everything is loaded, so that sizes that depend on earlier passes settle.
const SETTLING_PASSES: usize = 4;

/// Interval between two passes while data is loading.
const WAIT: Duration = Duration::from_millis(4);

/// The settings of a picture.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) path: PathBuf,
    /// Width and height, in pixels.
    pub(crate) size: (u32, u32),
    pub(crate) theme: egui::Theme,
    /// Pixels per point.
    pub(crate) scale: f32,
}

/// Draws the viewer once all of its data is loaded, and writes the picture either completely or not
/// at all.
pub(crate) fn take(viewer: &mut Viewer, picture: &Picture) -> io::Result<()> {
    let context = egui::Context::default();
    context.set_theme(picture.theme);
    let (width, height) = (picture.size.0 as usize, picture.size.1 as usize);
    let mut canvas = Canvas::new(width, height, Color32::BLACK);
    let mut glyphs = Glyphs::default();
    let mut left = SETTLING_PASSES;
    let mut time = 0.0;
    let output = loop {
        let mut output = context.run_ui(input(picture, time), |ui| {
            viewer.show(ui);
            glyphs.update(ui.ctx());
        });
        canvas.take_textures(&mut output.textures_delta);
        // Animations end by the next pass.
        time += 1.0;
        if !viewer.is_settled() || !glyphs.is_idle() {
            left = SETTLING_PASSES;
            thread::sleep(WAIT);
        } else if left > 0 {
            left -= 1;
        } else {
            break output;
        }
    };
    let primitives = context.tessellate(output.shapes, output.pixels_per_point);
    canvas.paint(&primitives, output.pixels_per_point);
    write_whole(&picture.path, |file| {
        encode(file, picture.size, canvas.pixels())
    })
}

fn input(picture: &Picture, time: f64) -> RawInput {
    let size = Vec2::new(picture.size.0 as f32, picture.size.1 as f32) / picture.scale;
    let mut input = RawInput {
        screen_rect: Some(Rect::from_min_size(Pos2::ZERO, size)),
        time: Some(time),
        ..RawInput::default()
    };
    let viewport = input.viewports.entry(input.viewport_id).or_default();
    viewport.native_pixels_per_point = Some(picture.scale);
    input
}
