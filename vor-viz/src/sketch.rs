//! Shapes that the panel draws in large numbers: rectangles on whole pixels, small marks, and texts
//! that are truncated to the available width.
//!
//! All rectangles of a part share one mesh, since separate shapes would each be tessellated. The
//! mesh's memory is reused: allocating a mesh for thousands of rectangles costs more than filling
//! it.

use std::borrow::Cow;
use std::sync::Arc;

use egui::text::{LayoutJob, TextFormat, TextWrapping};
use egui::{
    Align2, Color32, FontId, Galley, Mesh, Painter, Pos2, Rect, Shape, epaint::Vertex, pos2,
};

/// A mesh of rectangles that is drawn in each pass and rebuilt only after a change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quads {
    mesh: Arc<Mesh>,
}

impl Quads {
    /// Clears the mesh and returns it for filling.
    pub(crate) fn begin(&mut self) -> &mut Mesh {
        if Arc::get_mut(&mut self.mesh).is_none() {
            // The backend still holds the mesh of the last pass.
            let mut mesh = Mesh::default();
            mesh.vertices.reserve(self.mesh.vertices.len());
            mesh.indices.reserve(self.mesh.indices.len());
            self.mesh = Arc::new(mesh);
        }
        let mesh = Arc::make_mut(&mut self.mesh);
        mesh.clear();
        mesh
    }

    /// Draws the rectangles.
    pub(crate) fn paint(&self, painter: &Painter) {
        if !self.mesh.is_empty() {
            painter.add(Shape::Mesh(Arc::clone(&self.mesh)));
        }
    }
}

/// Appends a rectangle.
#[inline]
pub(crate) fn quad(mesh: &mut Mesh, left: f32, top: f32, right: f32, bottom: f32, color: Color32) {
    let first = mesh.vertices.len() as u32;
    let corner = |x: f32, y: f32| Vertex::untextured(pos2(x, y), color);
    mesh.vertices.extend_from_slice(&[
        corner(left, top),
        corner(right, top),
        corner(left, bottom),
        corner(right, bottom),
    ]);
    let corners = [0, 1, 2, 2, 1, 3].map(|i| first + i);
    mesh.indices.extend_from_slice(&corners);
}

/// Appends a triangle with its tip at the bottom, `2 * half` points wide.
pub(crate) fn triangle(mesh: &mut Mesh, tip: Pos2, half: f32, color: Color32) {
    let first = mesh.vertices.len() as u32;
    mesh.colored_vertex(tip, color);
    mesh.colored_vertex(tip + egui::vec2(-half, -1.6 * half), color);
    mesh.colored_vertex(tip + egui::vec2(half, -1.6 * half), color);
    mesh.add_triangle(first, first + 1, first + 2);
}

/// Returns a triangle that points right if something is collapsed, and down if it is expanded.
/// Fonts may lack the glyph.
pub(crate) fn fold_mark(center: Pos2, collapsed: bool, color: Color32) -> Shape {
    let corners = match collapsed {
        true => [
            egui::vec2(-2.5, -4.0),
            egui::vec2(3.5, 0.0),
            egui::vec2(-2.5, 4.0),
        ],
        false => [
            egui::vec2(-4.0, -2.5),
            egui::vec2(4.0, -2.5),
            egui::vec2(0.0, 3.5),
        ],
    };
    Shape::convex_polygon(
        corners.map(|corner| center + corner).to_vec(),
        color,
        egui::Stroke::NONE,
    )
}

/// Appends a diagonal cross, `2 * half` points wide.
pub(crate) fn cross(mesh: &mut Mesh, middle: Pos2, half: f32, color: Color32) {
    let thick = half * 0.36;
    for direction in [1.0, -1.0] {
        let first = mesh.vertices.len() as u32;
        for (along, across) in [
            (-half, -thick),
            (half, -thick),
            (half, thick),
            (-half, thick),
        ] {
            let offset = egui::vec2(along - across, (along + across) * direction);
            mesh.colored_vertex(middle + offset, color);
        }
        mesh.add_triangle(first, first + 1, first + 2);
        mesh.add_triangle(first, first + 2, first + 3);
    }
}

/// Maximum number of characters in a card. Names and messages of a capture may be of any length,
/// and each character is laid out.
const MAX_CARD_CHARS: usize = 300;

/// Returns a text, cut with `…` beyond [`MAX_CARD_CHARS`] characters.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_CARD_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// A size and a colour of text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ink {
    /// Height of the font, in points.
    pub(crate) size: f32,
    /// Colour of the text.
    pub(crate) color: Color32,
}

/// Writes a text and returns its rectangle. A text wider than `width_points` is cut with `…`;
/// without any width, nothing is written.
pub(crate) fn text(
    painter: &Painter,
    pos: Pos2,
    align: Align2,
    width_points: f32,
    text: String,
    ink: Ink,
) -> Rect {
    if width_points <= 0.0 {
        return Rect::from_min_size(pos, egui::Vec2::ZERO);
    }
    let galley = layout(painter, width_points, text, ink);
    let rect = align.anchor_size(pos, galley.size());
    painter.galley(rect.min, galley, ink.color);
    rect
}

/// Lays out a text in one line, cut beyond `width_points`.
pub(crate) fn layout(painter: &Painter, width_points: f32, text: String, ink: Ink) -> Arc<Galley> {
    let format = TextFormat::simple(FontId::proportional(ink.size), ink.color);
    let mut job = LayoutJob::single_section(text, format);
    job.wrap = TextWrapping::truncate_at_width(width_points.max(0.0));
    job.break_on_newline = false;
    painter.layout_job(job)
}
