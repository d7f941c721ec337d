//! Large rectangles of one colour, cleared instead of drawn.
//!
//! If the CPU draws in place of a GPU, each pixel of a triangle costs a texture lookup, about 15
//! ns. The backgrounds of panels and charts cover the page one and a half times. Clearing a
//! rectangle sets the same pixels in less than half the time, and the initial clear of the page
//! costs nearly nothing.
//!
//! The shapes of a pass are therefore filtered before they are drawn. A rectangle in the colour of
//! the initial clear, with nothing below it, is left out. Other large rectangles become callbacks
//! that clear.

use std::cell::RefCell;
use std::sync::Arc;

use eframe::egui_glow::CallbackFn;
use egui::emath::{GuiRounding as _, TSTransform};
use egui::epaint::{ClippedShape, PaintCallback, RectShape};
use egui::{Color32, Context, CornerRadius, FullOutput, Plugin, Rect, Shape, Visuals};
use wasm_bindgen::JsCast as _;
use web_sys::{HtmlCanvasElement, WebGl2RenderingContext};

/// Minimum area of a cleared rectangle, in points: for a small one, breaking the batch of draw
/// calls costs more than its pixels.
const MIN_AREA: f32 = 8_192.0;

thread_local! {
    /// The context of egui's painter. A page has one thread.
    static GL: RefCell<Option<WebGl2RenderingContext>> = const { RefCell::new(None) };
}

/// Replaces large rectangles by clears from the next pass on, if the canvas has a WebGL 2 context.
pub(super) fn clear_large(context: &Context, canvas: &HtmlCanvasElement) {
    let gl = canvas.get_context("webgl2").ok().flatten();
    if let Some(gl) = gl.and_then(|gl| gl.dyn_into().ok()) {
        GL.set(Some(gl));
        context.add_plugin(Fills);
    }
}

struct Fills;

impl Plugin for Fills {
    fn debug_name(&self) -> &'static str {
        "vor fills"
    }

    fn output_hook(&mut self, context: &Context, output: &mut FullOutput) {
        let ground = ground(&context.global_style().visuals);
        for i in 0..output.shapes.len() {
            let clipped = &output.shapes[i];
            if let Shape::Rect(rect) = &clipped.shape
                && clipped.transform_after_tessellation == TSTransform::IDENTITY
                && let Some(cleared) = cleared(rect, clipped.clip_rect, output.pixels_per_point)
            {
                let is_there = rect.fill == ground && is_bare(&output.shapes[..i], cleared.rect);
                let clipped = &mut output.shapes[i];
                clipped.clip_rect = cleared.rect;
                clipped.shape = if is_there {
                    Shape::Noop
                } else {
                    Shape::Callback(cleared)
                };
            }
        }
    }
}

/// Returns the colour of the initial clear.
pub(super) fn ground(visuals: &Visuals) -> Color32 {
    visuals.panel_fill
}

/// Returns whether shapes leave a rectangle untouched.
fn is_bare(shapes: &[ClippedShape], rect: Rect) -> bool {
    let touches = |clipped: &ClippedShape| {
        clipped.transform_after_tessellation != TSTransform::IDENTITY
            || clipped
                .shape
                .visual_bounding_rect()
                .intersect(clipped.clip_rect)
                .intersect(rect)
                .is_positive()
    };
    !shapes.iter().any(touches)
}

/// Returns a callback that clears a rectangle within its clip; `None` if it is small or more than a
/// plain fill.
fn cleared(shape: &RectShape, clip: Rect, pixels_per_point: f32) -> Option<PaintCallback> {
    let is_plain = shape.corner_radius == CornerRadius::ZERO
        && shape.stroke.is_empty()
        && shape.brush.is_none()
        && shape.blur_width == 0.0
        && shape.angle == 0.0
        && shape.fill.is_opaque();
    // The painter rounds clip rectangles in the same way as egui rounds filled rectangles.
    let rect = shape.rect.round_to_pixels(pixels_per_point).intersect(clip);
    if !is_plain || !rect.is_positive() || rect.area() < MIN_AREA {
        return None;
    }
    let fill = shape.fill;
    let callback = Arc::new(CallbackFn::new(move |_, _| clear(fill)));
    Some(PaintCallback { rect, callback })
}

/// Clears the painter's scissor rectangle, which is the clip rectangle.
fn clear(color: Color32) {
    let [red, green, blue, opacity] = color.to_normalized_gamma_f32();
    GL.with_borrow(|gl| {
        if let Some(gl) = gl {
            gl.clear_color(red, green, blue, opacity);
            gl.clear(WebGl2RenderingContext::COLOR_BUFFER_BIT);
        }
    });
}
