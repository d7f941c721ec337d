//! The spans as textures: a texel per pixel across, and one per row down.
//!
//! Each row is drawn as a rectangle that stretches its texels to the row's height. However many
//! spans there are, the mesh is small and the texture takes a few hundred kilobytes. It is painted
//! only when its content changes. Its buffer is reused once the backend has released it.
//!
//! A backend limits the sides of a texture, some to 2 048 texels. A longer row is cut into pieces,
//! which follow one another down the texture, and more rows go to further textures.

use std::sync::Arc;

use egui::{
    Color32, ColorImage, Context, ImageData, Mesh, Rect, TextureHandle, TextureOptions, pos2,
};

use crate::store::WideSpan;

/// Step of a texture's growth, so that resizing a window does not need a new texture for each
/// pixel.
const STEP: [usize; 2] = [256, 64];

/// Textures with the texels of all visible rows.
pub(super) struct Picture<K> {
    tiles: Vec<Tile>,
    tiling: Tiling,
    painted_for: Option<(K, Tiling)>,
    labelled: Labelled,
}

/// A texture, and the image that was uploaded last.
#[derive(Default)]
struct Tile {
    texture: Option<TextureHandle>,
    image: Arc<ColorImage>,
}

/// How rows are cut into textures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tiling {
    /// Pixels of a row.
    width: usize,
    rows: usize,
    /// Pieces of a row, and texels of all but the last.
    pieces: usize,
    piece_width: usize,
    rows_per_tile: usize,
}

impl Tiling {
    fn new(width: usize, rows: usize, max_side: usize) -> Self {
        let max_side = max_side.max(64);
        let pieces = width.div_ceil(max_side).max(1);
        Self {
            width,
            rows,
            pieces,
            piece_width: width.div_ceil(pieces),
            rows_per_tile: (max_side / pieces).max(1),
        }
    }

    /// Returns the numbers of rows of the textures.
    fn tiles(self) -> impl Iterator<Item = usize> {
        let first_rows = (0..self.rows).step_by(self.rows_per_tile.max(1));
        first_rows.map(move |first| self.rows_per_tile.min(self.rows - first))
    }
}

/// The spans of each row that are wide enough for a label.
#[derive(Debug, Default)]
pub(super) struct Labelled {
    spans: Vec<WideSpan>,
    /// End of each row's spans in `spans`.
    row_ends: Vec<usize>,
}

impl Labelled {
    /// Returns the labelled spans of a row.
    pub(super) fn of_row(&self, row: usize) -> &[WideSpan] {
        let begin = row.checked_sub(1).map_or(0, |before| self.row_ends[before]);
        &self.spans[begin..self.row_ends[row]]
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.row_ends.len()
    }
}

impl<K> Default for Picture<K> {
    fn default() -> Self {
        Self {
            tiles: Vec::new(),
            tiling: Tiling::default(),
            painted_for: None,
            labelled: Labelled::default(),
        }
    }
}

impl<K: PartialEq> Picture<K> {
    /// Updates the picture to `rows` rows of `width` pixels, painted one by one by `paint`. Does
    /// nothing if the key and the size are unchanged.
    pub(super) fn update(
        &mut self,
        ctx: &Context,
        key: K,
        [width, rows]: [usize; 2],
        mut paint: impl FnMut(usize, &mut [Color32], &mut Vec<WideSpan>),
    ) {
        let max_side = ctx.input(|input| input.max_texture_side);
        let tiling = Tiling::new(width, rows, max_side);
        let is_painted = |(painted, size): &(K, Tiling)| *painted == key && *size == tiling;
        if self.painted_for.as_ref().is_some_and(is_painted) {
            return;
        }
        self.painted_for = Some((key, tiling));
        self.tiling = tiling;
        self.labelled.spans.clear();
        self.labelled.row_ends.clear();
        if width == 0 || rows == 0 {
            self.tiles.clear();
            return;
        }
        self.tiles
            .resize_with(tiling.tiles().count(), Tile::default);
        let mut row = 0;
        for (tile, rows) in self.tiles.iter_mut().zip(tiling.tiles()) {
            let pixels = tile.begin(tiling, rows);
            for pixels in pixels.chunks_exact_mut(tiling.pieces * tiling.piece_width) {
                paint(row, &mut pixels[..width], &mut self.labelled.spans);
                self.labelled.row_ends.push(self.labelled.spans.len());
                row += 1;
            }
            tile.upload(ctx, max_side);
        }
    }

    /// Returns the textured rectangles of all rows, in pixels across; `y_range` returns the top and
    /// the bottom of a row.
    pub(super) fn meshes(
        &self,
        left: f32,
        pixels_per_point: f32,
        y_range: impl Fn(usize) -> [f32; 2],
    ) -> Vec<Mesh> {
        let Tiling {
            width,
            pieces,
            piece_width,
            rows_per_tile,
            ..
        } = self.tiling;
        let mesh = |(tile, texture): (usize, &TextureHandle)| {
            let mut mesh = Mesh::with_texture(texture.id());
            let rows = self.tiling.tiles().nth(tile).unwrap_or(0);
            mesh.reserve_vertices(4 * rows * pieces);
            mesh.reserve_triangles(2 * rows * pieces);
            let [texels, texel_rows] = texture.size().map(|side| side as f32);
            for (row, piece) in (0..rows).flat_map(|row| (0..pieces).map(move |piece| (row, piece)))
            {
                let [top, bottom] = y_range(tile * rows_per_tile + row);
                let (begin, end) = (piece * piece_width, ((piece + 1) * piece_width).min(width));
                let x = |pixels: usize| left + pixels as f32 / pixels_per_point;
                let v = ((row * pieces + piece) as f32 + 0.5) / texel_rows;
                mesh.add_rect_with_uv(
                    Rect::from_min_max(pos2(x(begin), top), pos2(x(end), bottom)),
                    Rect::from_min_max(pos2(0.0, v), pos2((end - begin) as f32 / texels, v)),
                    Color32::WHITE,
                );
            }
            mesh
        };
        let textures = self.tiles.iter().map(|tile| tile.texture.as_ref());
        (0..).zip(textures.flatten()).map(mesh).collect()
    }

    /// Returns the spans that are wide enough for labels.
    pub(super) fn labelled(&self) -> &Labelled {
        &self.labelled
    }
}

impl Tile {
    /// Begins a new image of this many rows, and returns its texels.
    fn begin(&mut self, tiling: Tiling, rows: usize) -> &mut [Color32] {
        if Arc::get_mut(&mut self.image).is_none() {
            self.image = Arc::default();
        }
        let image = Arc::make_mut(&mut self.image);
        let [width, rows] = [tiling.piece_width, rows * tiling.pieces];
        image.size = [width, rows];
        image.source_size = egui::vec2(width as f32, rows as f32);
        image.pixels.clear();
        image.pixels.resize(width * rows, Color32::TRANSPARENT);
        &mut image.pixels
    }

    /// Copies the image to the texture.
    fn upload(&mut self, ctx: &Context, max_side: usize) {
        let [width, rows] = self.image.size;
        let is_large_enough = |texture: &TextureHandle| {
            let [has_width, has_rows] = texture.size();
            has_width >= width && has_rows >= rows
        };
        let texture = self.texture.take().filter(is_large_enough);
        let mut texture = texture.unwrap_or_else(|| {
            let size = [
                width.next_multiple_of(STEP[0]).min(max_side.max(width)),
                rows.next_multiple_of(STEP[1]).min(max_side.max(rows)),
            ];
            let empty = ColorImage::filled(size, Color32::TRANSPARENT);
            ctx.load_texture("vor flame chart", empty, TextureOptions::NEAREST)
        });
        let image = ImageData::Color(Arc::clone(&self.image));
        texture.set_partial([0, 0], image, TextureOptions::NEAREST);
        self.texture = Some(texture);
    }
}

impl<K> std::fmt::Debug for Picture<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Picture")
            .field("labelled", &self.labelled)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn rows_and_pieces_fit_every_texture() {
        for max_side in [1_024, 2_048, 16_384] {
            for width in [1, 1_023, 1_024, 1_025, 2_049, 3_840, 7_680] {
                for rows in [1, 500, 2_048, 5_000] {
                    let tiling = Tiling::new(width, rows, max_side);
                    let case = format!("{width} × {rows} in {max_side}: {tiling:?}");
                    assert!(tiling.piece_width <= max_side, "{case}");
                    assert!(tiling.pieces * tiling.piece_width >= width, "{case}");
                    assert!((tiling.pieces - 1) * tiling.piece_width < width, "{case}");
                    let tiles: Vec<usize> = tiling.tiles().collect();
                    assert_eq!(tiles.iter().sum::<usize>(), rows, "{case}");
                    let is_small = |rows: &usize| rows * tiling.pieces <= max_side;
                    assert!(tiles.iter().all(is_small), "{case}");
                }
            }
        }
    }

    #[test]
    fn rectangles_show_the_texels_of_their_rows() {
        let ctx = Context::default();
        let input = egui::RawInput {
            max_texture_side: Some(1_024),
            ..egui::RawInput::default()
        };
        let mut picture = Picture::<()>::default();
        let color = |row: usize| Color32::from_rgb((row / 256) as u8, row as u8, 7);
        let mut output = ctx.run_ui(input, |ui| {
            picture.update(ui.ctx(), (), [3_000, 800], |row, pixels, _| {
                pixels.fill(color(row));
            });
        });
        output.textures_delta.clear();
        let meshes = picture.meshes(0.0, 1.0, |row| [row as f32, row as f32 + 1.0]);
        // Three pieces of a row, so 341 rows in a texture.
        assert_eq!((meshes.len(), picture.tiles.len()), (3, 3));
        let mut rectangles = 0;
        for (mesh, tile) in meshes.iter().zip(&picture.tiles) {
            let texels = tile.texture.as_ref().unwrap().size()[1] as f32;
            for corner in mesh.vertices.chunks_exact(4).map(|corners| &corners[0]) {
                let texel = tile.image[(0, (corner.uv.y * texels) as usize)];
                assert_eq!(texel, color(corner.pos.y as usize));
                rectangles += 1;
            }
        }
        assert_eq!(rectangles, 3 * 800);
    }
}
