//! A rasteriser of triangles, for pictures without a window and a GPU.
//!
//! It follows egui's painters: colours are premultiplied, and are multiplied and blended without
//! linearising. A pixel belongs to a triangle if its centre does. Corners are snapped to 1/256
//! pixel and edges are evaluated in integers. Therefore exactly one of two triangles with a common
//! edge gets each pixel. For a row of pixels, the edges give the first and the last pixel inside;
//! triangles of one colour are filled row by row.

use std::collections::HashMap;

use egui::epaint::{ClippedPrimitive, Mesh, Primitive, Vertex};
use egui::{Color32, ColorImage, ImageData, Pos2, TextureFilter, TextureId, TexturesDelta};

/// Steps per pixel for snapped corners.
const STEPS: i64 = 256;

/// Corners beyond this number of pixels are clamped, so that products of two coordinates fit into
/// 64 bits.
const MAX_COORDINATE: f32 = 1_000_000.0;

/// A picture, and the textures for painting it.
///
/// ```
/// use egui::{Color32, Context, RawInput, Rect, Vec2};
///
/// let context = Context::default();
/// let screen_rect = Some(Rect::from_min_size(Default::default(), Vec2::new(200.0, 100.0)));
/// let input = RawInput { screen_rect, ..RawInput::default() };
/// let mut output = context.run_ui(input, |ui| drop(ui.label("no window, no GPU")));
///
/// let mut canvas = vor_viz::raster::Canvas::new(200, 100, Color32::BLACK);
/// canvas.take_textures(&mut output.textures_delta);
/// let primitives = context.tessellate(output.shapes, output.pixels_per_point);
/// canvas.paint(&primitives, output.pixels_per_point);
/// assert!(canvas.pixels().iter().any(|&pixel| pixel != Color32::BLACK));
/// ```
#[derive(Debug)]
pub struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<Color32>,
    textures: HashMap<TextureId, Texture>,
}

#[derive(Debug)]
struct Texture {
    image: ColorImage,
    is_smooth: bool,
}

/// Pixels from `left` and `top` (inclusive) to `right` and `bottom` (exclusive).
#[derive(Clone, Copy, Debug)]
struct Clip {
    left: i64,
    top: i64,
    right: i64,
    bottom: i64,
}

/// An edge function of a triangle: not negative at pixels inside.
#[derive(Clone, Copy, Debug)]
struct Edge {
    at_origin: i64,
    per_x: i64,
    per_y: i64,
}

impl Canvas {
    /// Makes a picture of one colour. The sizes are in pixels.
    pub fn new(width: usize, height: usize, ground: Color32) -> Self {
        Self {
            width,
            height,
            pixels: vec![ground; width * height],
            textures: HashMap::new(),
        }
    }

    /// Begins another picture, with the same textures.
    pub fn clear(&mut self, width: usize, height: usize, ground: Color32) {
        (self.width, self.height) = (width, height);
        self.pixels.clear();
        self.pixels.resize(width * height, ground);
    }

    /// Stores new and changed textures. Unused textures stay until the canvas is dropped.
    pub fn take_textures(&mut self, delta: &mut TexturesDelta) {
        for (&id, changes) in &delta.set {
            for change in changes {
                let ImageData::Color(image) = &change.image;
                let is_smooth = change.options.magnification == TextureFilter::Linear;
                match (change.pos, self.textures.get_mut(&id)) {
                    (Some([x, y]), Some(texture)) => patch(&mut texture.image, image, x, y),
                    (Some(_), None) => {}
                    (None, _) => {
                        let image = ColorImage::clone(image);
                        self.textures.insert(id, Texture { image, is_smooth });
                    }
                }
            }
        }
        // egui checks that no change was missed.
        delta.clear();
    }

    /// Paints tessellated primitives, scaled by `pixels_per_point`.
    pub fn paint(&mut self, primitives: &[ClippedPrimitive], pixels_per_point: f32) {
        for ClippedPrimitive {
            clip_rect,
            primitive,
        } in primitives
        {
            // Callbacks draw with a GPU, which does not exist here.
            let Primitive::Mesh(mesh) = primitive else {
                continue;
            };
            let edge = |points: f32, most: usize| {
                let pixels = (points * pixels_per_point).round() as i64;
                pixels.clamp(0, most as i64)
            };
            let clip = Clip {
                left: edge(clip_rect.min.x, self.width),
                top: edge(clip_rect.min.y, self.height),
                right: edge(clip_rect.max.x, self.width),
                bottom: edge(clip_rect.max.y, self.height),
            };
            self.mesh(mesh, clip, pixels_per_point);
        }
    }

    /// Returns the pixels row by row, from the top.
    pub fn pixels(&self) -> &[Color32] {
        &self.pixels
    }

    fn mesh(&mut self, mesh: &Mesh, clip: Clip, pixels_per_point: f32) {
        let Some(texture) = self.textures.get(&mesh.texture_id) else {
            return;
        };
        let width = self.width;
        for corners in mesh.indices.chunks_exact(3) {
            let corner = |i: usize| {
                let mut vertex = *mesh.vertices.get(corners[i] as usize)?;
                vertex.pos = (vertex.pos.to_vec2() * pixels_per_point).to_pos2();
                vertex.pos.is_finite().then_some(vertex)
            };
            if let (Some(a), Some(b), Some(c)) = (corner(0), corner(1), corner(2)) {
                triangle(&mut self.pixels, width, texture, clip, [a, b, c]);
            }
        }
    }
}

fn patch(whole: &mut ColorImage, part: &ColorImage, x: usize, y: usize) {
    let [width, height] = part.size;
    for row in 0..height {
        let from = part.pixels.get(row * width..(row + 1) * width);
        let at = (y + row) * whole.size[0] + x;
        let to = whole.pixels.get_mut(at..at + width);
        if let (Some(from), Some(to)) = (from, to)
            && x + width <= whole.size[0]
        {
            to.copy_from_slice(from);
        }
    }
}

fn triangle(
    pixels: &mut [Color32],
    width: usize,
    texture: &Texture,
    clip: Clip,
    mut corners: [Vertex; 3],
) {
    let snap =
        |value: f32| (value.clamp(-MAX_COORDINATE, MAX_COORDINATE) * STEPS as f32).round() as i64;
    let snapped =
        |corners: &[Vertex; 3]| corners.map(|corner| (snap(corner.pos.x), snap(corner.pos.y)));
    let mut points = snapped(&corners);
    let area_of =
        |[a, b, c]: [(i64, i64); 3]| (b.0 - a.0) * (c.1 - a.1) - (b.1 - a.1) * (c.0 - a.0);
    if area_of(points) < 0 {
        corners.swap(1, 2);
        points.swap(1, 2);
    }
    let area = area_of(points);
    if area == 0 {
        return;
    }
    let [a, b, c] = points;
    // Each edge is opposite to the corner whose weight it gives.
    let edges = [edge(b, c), edge(c, a), edge(a, b)];
    let least = a.1.min(b.1).min(c.1).div_euclid(STEPS).max(clip.top);
    let most = a.1.max(b.1).max(c.1).div_euclid(STEPS).min(clip.bottom - 1);
    let flat = corners.iter().all(|corner| corner.uv == corners[0].uv);
    let even = corners
        .iter()
        .all(|corner| corner.color == corners[0].color);
    let ink = flat.then(|| sample(texture, corners[0].uv));
    for y in least..=most {
        let (mut left, mut right) = (clip.left, clip.right - 1);
        for edge in &edges {
            let at = edge.at_origin + edge.per_y * y;
            match edge.per_x {
                0 if at < 0 => right = left - 1,
                0 => {}
                step @ 1.. => left = left.max((-at + step - 1).div_euclid(step)),
                step => right = right.min(at.div_euclid(-step)),
            }
        }
        if left > right {
            continue;
        }
        let begin = y as usize * width + left as usize;
        let Some(row) = pixels.get_mut(begin..begin + (right - left + 1) as usize) else {
            continue;
        };
        if let (Some(ink), true) = (ink, even) {
            let color = multiply(corners[0].color, ink);
            match color.a() {
                255 => row.fill(color),
                _ => row
                    .iter_mut()
                    .for_each(|pixel| *pixel = over(*pixel, color)),
            }
            continue;
        }
        for (x, pixel) in (left..).zip(row) {
            let weight = |i: usize| {
                let edge: &Edge = &edges[i];
                (edge.at_origin + edge.per_x * x + edge.per_y * y) as f32 / area as f32
            };
            let weights = [weight(0), weight(1), weight(2)];
            let ink = ink.unwrap_or_else(|| sample(texture, mixed_uv(&corners, weights)));
            let color = if even {
                corners[0].color
            } else {
                mixed_color(&corners, weights)
            };
            *pixel = over(*pixel, multiply(color, ink));
        }
    }
}

/// Makes an edge function on whole pixels, evaluated at their centres. Pixels exactly on the edge
/// belong to the triangle only if it is a left or a top edge.
fn edge(from: (i64, i64), to: (i64, i64)) -> Edge {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let centre = STEPS / 2;
    let is_owner = dy < 0 || (dy == 0 && dx > 0);
    Edge {
        at_origin: dx * (centre - from.1) - dy * (centre - from.0) - i64::from(!is_owner),
        per_x: -dy * STEPS,
        per_y: dx * STEPS,
    }
}

fn mixed_uv(corners: &[Vertex; 3], weights: [f32; 3]) -> Pos2 {
    let [a, b, c] = corners;
    let mix = |of: fn(&Vertex) -> f32| of(a) * weights[0] + of(b) * weights[1] + of(c) * weights[2];
    Pos2::new(mix(|corner| corner.uv.x), mix(|corner| corner.uv.y))
}

fn mixed_color(corners: &[Vertex; 3], weights: [f32; 3]) -> Color32 {
    let colors = [corners[0].color, corners[1].color, corners[2].color];
    by_channel(|i| {
        let sum = f32::from(colors[0][i]) * weights[0]
            + f32::from(colors[1][i]) * weights[1]
            + f32::from(colors[2][i]) * weights[2];
        sum.round() as u8
    })
}

/// Returns the texture's colour at a position from 0 to 1 in both directions.
fn sample(texture: &Texture, uv: Pos2) -> Color32 {
    let [width, height] = texture.image.size;
    if width == 0 || height == 0 {
        return Color32::TRANSPARENT;
    }
    let texel = |x: i64, y: i64| {
        let x = x.clamp(0, width as i64 - 1) as usize;
        let y = y.clamp(0, height as i64 - 1) as usize;
        texture
            .image
            .pixels
            .get(y * width + x)
            .copied()
            .unwrap_or_default()
    };
    let (x, y) = (uv.x * width as f32, uv.y * height as f32);
    if !texture.is_smooth {
        return texel(x.floor() as i64, y.floor() as i64);
    }
    let (x, y) = (x - 0.5, y - 0.5);
    let (left, top) = (x.floor(), y.floor());
    let (right_part, bottom_part) = (x - left, y - top);
    let (left, top) = (left as i64, top as i64);
    let near = [
        texel(left, top),
        texel(left + 1, top),
        texel(left, top + 1),
        texel(left + 1, top + 1),
    ];
    if near[0] == near[1] && near[0] == near[2] && near[0] == near[3] {
        return near[0];
    }
    let parts = [
        (1.0 - right_part) * (1.0 - bottom_part),
        right_part * (1.0 - bottom_part),
        (1.0 - right_part) * bottom_part,
        right_part * bottom_part,
    ];
    by_channel(|i| {
        let sum = f32::from(near[0][i]) * parts[0]
            + f32::from(near[1][i]) * parts[1]
            + f32::from(near[2][i]) * parts[2]
            + f32::from(near[3][i]) * parts[3];
        sum.round() as u8
    })
}

fn multiply(a: Color32, b: Color32) -> Color32 {
    if b == Color32::WHITE {
        return a;
    }
    by_channel(|i| ((u32::from(a[i]) * u32::from(b[i]) + 127) / 255) as u8)
}

fn over(under: Color32, color: Color32) -> Color32 {
    if color.a() == 255 {
        return color;
    }
    let left = u32::from(255 - color.a());
    by_channel(|i| {
        let sum = u32::from(color[i]) + (u32::from(under[i]) * left + 127) / 255;
        sum.min(255) as u8
    })
}

fn by_channel(channel: impl Fn(usize) -> u8) -> Color32 {
    Color32::from_rgba_premultiplied(channel(0), channel(1), channel(2), channel(3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::epaint::WHITE_UV;
    use egui::{Rect, pos2};

    const HALF: Color32 = Color32::from_rgba_premultiplied(60, 0, 0, 128);

    fn canvas(texels: &[Color32], width: usize, is_smooth: bool) -> Canvas {
        let mut canvas = Canvas::new(16, 12, Color32::BLACK);
        let image = ColorImage::new([width, texels.len() / width], texels.to_vec());
        canvas
            .textures
            .insert(TextureId::default(), Texture { image, is_smooth });
        canvas
    }

    fn clip(rect: Rect, mesh: Mesh) -> ClippedPrimitive {
        ClippedPrimitive {
            clip_rect: rect,
            primitive: Primitive::Mesh(mesh),
        }
    }

    fn at(canvas: &Canvas, x: usize, y: usize) -> Color32 {
        canvas.pixels[y * canvas.width + x]
    }

    #[test]
    fn triangles_around_a_point_cover_each_pixel_once() {
        // A fan with corners on and off the centres of pixels: a pixel that is painted twice would
        // be redder than others.
        let middle = pos2(6.5, 5.5);
        let around = [
            (1.0, 1.0),
            (6.5, 0.3),
            (13.2, 1.5),
            (14.0, 5.5),
            (12.5, 10.5),
            (6.5, 11.0),
            (1.5, 9.5),
        ];
        let mut mesh = Mesh::default();
        mesh.colored_vertex(middle, HALF);
        for (x, y) in around {
            mesh.colored_vertex(pos2(x, y), HALF);
        }
        let n = around.len() as u32;
        (0..n).for_each(|i| mesh.add_triangle(0, 1 + i, 1 + (i + 1) % n));
        // The reverse order of corners must give the same result.
        for turn in [false, true] {
            let mut canvas = canvas(&[Color32::WHITE], 1, true);
            let mut mesh = mesh.clone();
            if turn {
                mesh.indices
                    .chunks_exact_mut(3)
                    .for_each(|corners| corners.swap(0, 2));
            }
            canvas.paint(&[clip(Rect::EVERYTHING, mesh)], 1.0);
            let once = over(Color32::BLACK, HALF);
            let painted = canvas
                .pixels
                .iter()
                .filter(|&&pixel| pixel != Color32::BLACK);
            assert!(painted.clone().all(|&pixel| pixel == once));
            assert!((100..130).contains(&painted.count()));
            assert_eq!(at(&canvas, 6, 5), once);
        }
    }

    #[test]
    fn a_rectangle_fills_the_pixels_with_centres_inside_it_and_the_clip() {
        let mut canvas = canvas(&[Color32::WHITE], 1, true);
        let mut mesh = Mesh::default();
        mesh.add_colored_rect(
            Rect::from_min_max(pos2(1.0, 1.0), pos2(3.0, 2.75)),
            Color32::RED,
        );
        let inside = Rect::from_min_max(pos2(0.0, 0.0), pos2(2.5, 40.0));
        // One point is two pixels.
        canvas.paint(&[clip(inside, mesh)], 2.0);
        for y in 0..12 {
            for x in 0..16 {
                let is_red = (2..5).contains(&x) && (2..5).contains(&y);
                let expected = if is_red { Color32::RED } else { Color32::BLACK };
                assert_eq!(at(&canvas, x, y), expected, "{x}, {y}");
            }
        }
    }

    #[test]
    fn textures_are_tinted_smoothed_and_patched() {
        let texels = [
            Color32::WHITE,
            Color32::BLACK,
            Color32::BLACK,
            Color32::WHITE,
        ];
        let mut sharp = canvas(&texels, 2, false);
        let mut mesh = Mesh::default();
        let all = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
        mesh.add_rect_with_uv(
            Rect::from_min_max(pos2(0.0, 0.0), pos2(8.0, 8.0)),
            all,
            Color32::from_rgb(200, 100, 50),
        );
        sharp.paint(&[clip(Rect::EVERYTHING, mesh.clone())], 1.0);
        assert_eq!(at(&sharp, 3, 3), Color32::from_rgb(200, 100, 50));
        assert_eq!(at(&sharp, 4, 3), Color32::BLACK);
        let mut smooth = canvas(&texels, 2, true);
        smooth.paint(&[clip(Rect::EVERYTHING, mesh)], 1.0);
        let middle = at(&smooth, 3, 0).r();
        assert!((60..160).contains(&middle), "{middle}");

        let part = ColorImage::new([1, 1], vec![Color32::GREEN]);
        let mut image = ColorImage::new([2, 2], texels.to_vec());
        patch(&mut image, &part, 1, 1);
        assert_eq!(image.pixels[3], Color32::GREEN);
        // A part outside the image is ignored.
        patch(&mut image, &part, 2, 0);
        patch(&mut image, &part, 0, 7);
        assert_eq!(image.pixels[..3], texels[..3]);
    }

    #[test]
    fn colours_run_from_corner_to_corner() {
        let mut canvas = canvas(&[Color32::WHITE], 1, true);
        let mut mesh = Mesh::default();
        for (x, y, color) in [
            (0.0, 0.0, Color32::RED),
            (16.0, 0.0, Color32::BLUE),
            (0.0, 12.0, Color32::RED),
        ] {
            mesh.vertices.push(Vertex {
                pos: pos2(x, y),
                uv: WHITE_UV,
                color,
            });
        }
        mesh.add_triangle(0, 1, 2);
        canvas.paint(&[clip(Rect::EVERYTHING, mesh)], 1.0);
        let (left, right) = (at(&canvas, 0, 0), at(&canvas, 14, 0));
        assert!(left.r() > 240 && left.b() < 15, "{left:?}");
        assert!(right.b() > 225 && right.r() < 30, "{right:?}");
    }

    #[test]
    fn invalid_meshes_paint_nothing() {
        let mut canvas = canvas(&[Color32::WHITE], 1, true);
        let mut mesh = Mesh::default();
        for (x, y) in [
            (f32::NAN, 0.0),
            (f32::INFINITY, 1.0),
            (2.0, 2.0),
            (3.0, 3.0),
            (4.0, 4.0),
        ] {
            mesh.colored_vertex(pos2(x, y), Color32::RED);
        }
        mesh.indices
            .extend([0, 1, 2, 1, 2, 3, 2, 3, 4, 2, 2, 2, 2, 3, 99]);
        let mut unknown = Mesh::default();
        unknown.add_colored_rect(
            Rect::from_min_max(pos2(0.0, 0.0), pos2(9.0, 9.0)),
            Color32::RED,
        );
        unknown.texture_id = TextureId::User(9);
        canvas.paint(
            &[
                clip(Rect::EVERYTHING, mesh),
                clip(Rect::EVERYTHING, unknown),
            ],
            1.0,
        );
        assert!(canvas.pixels.iter().all(|&pixel| pixel == Color32::BLACK));
        // The rectangle extends far beyond the picture on all sides; the first clip is empty.
        let mut huge = Mesh::default();
        huge.add_colored_rect(
            Rect::from_min_max(pos2(-1e30, -1e30), pos2(1e30, 1e30)),
            Color32::RED,
        );
        canvas.paint(&[clip(Rect::NOTHING, huge.clone())], 1.0);
        assert!(canvas.pixels.iter().all(|&pixel| pixel == Color32::BLACK));
        canvas.paint(&[clip(Rect::EVERYTHING, huge)], 1.0);
        assert!(canvas.pixels.iter().all(|&pixel| pixel == Color32::RED));
    }
}
