//! The spans as textures: a texel per pixel across, and one per row down.
//!
//! Each row is drawn as a rectangle that stretches its texels to the row's height. However many
//! spans there are, the mesh is small and the texture takes a few hundred kilobytes. It is painted
//! only when its content changes. Its buffer is reused once the backend has released it.
//!
//! If the time moves by whole pixels, as in the panel of a running program, only the pixels of new
//! spans are painted. The columns of a texture are a ring: new ones replace those that left, and a
//! row is drawn as two rectangles.
//!
//! A backend limits the sides of a texture, some to 2 048 texels. A longer row is cut into pieces,
//! which follow one another down the texture, and more rows go to further textures.

use std::ops::Range;
use std::sync::Arc;

use egui::{
    Color32, ColorImage, Context, ImageData, Mesh, Rect, TextureHandle, TextureOptions, pos2,
};

use crate::store::{MIN_LABELLED_PX, PixelScale, WideSpan};

/// Step of a texture's growth, so that resizing a window does not need a new texture for each
/// pixel.
const STEP: [usize; 2] = [256, 64];

/// Textures with the texels of all visible rows.
pub(super) struct Picture<K> {
    tiles: Vec<Tile>,
    painted: Option<Painted<K>>,
    labelled: Labelled,
}

/// The inputs of a picture.
#[derive(Clone, Debug)]
pub(super) struct Source<K> {
    /// All inputs except spans and time.
    pub(super) key: K,
    /// The version of the spans.
    pub(super) version: u64,
    /// The time of the pixels.
    pub(super) scale: PixelScale,
    /// Whether no span goes on beyond the last pixel. If one did, its label would have to grow when
    /// the time moves.
    pub(super) ends_with_spans: bool,
}

/// The content of a picture.
struct Painted<K> {
    key: K,
    version: u64,
    tiling: Tiling,
    /// The scale when all of it was painted, and the pixels by which it has moved since then.
    scale: PixelScale,
    moved: usize,
}

/// Pixels that are not in the picture yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fresh {
    /// The number of pixels by which the picture moves to the left.
    shift: usize,
    /// The first pixel to paint, after that move.
    from: usize,
}

/// Consecutive pixels of a row, and where they lie in the texture.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Section {
    pixel: usize,
    /// The line among those of the row.
    piece: usize,
    columns: Range<usize>,
}

impl<K> Painted<K> {
    /// Returns the sections of a row: its pieces, or the two parts of the ring.
    fn sections(&self) -> Vec<Section> {
        let Tiling {
            width,
            pieces,
            piece_width,
            ..
        } = self.tiling;
        if self.moved == 0 {
            let piece = |piece: usize| Section {
                pixel: piece * piece_width,
                piece,
                columns: 0..piece_width.min(width - piece * piece_width),
            };
            return (0..pieces).map(piece).collect();
        }
        let first = self.moved % width;
        let part = |pixel: usize, columns: Range<usize>| Section {
            pixel,
            piece: 0,
            columns,
        };
        vec![part(0, first..width), part(width - first, 0..first)]
    }
}

impl<K: PartialEq> Painted<K> {
    /// Returns what has to be painted of a source; `None` if that is everything.
    fn fresh(
        &self,
        source: &Source<K>,
        tiling: Tiling,
        changed_since: impl FnOnce(u64) -> Option<i64>,
    ) -> Option<Fresh> {
        if self.key != source.key || self.tiling != tiling {
            return None;
        }
        let moved = usize::try_from(source.scale.pixels_after(&self.scale)?).ok()?;
        let shift = moved.checked_sub(self.moved)?;
        if shift > 0 && !source.ends_with_spans {
            return None;
        }
        let kept = tiling.width.checked_sub(shift)?;
        let from = match self.version == source.version {
            true => kept,
            // A span may round to the pixel before its begin.
            false => match source.scale.x(changed_since(self.version)?).floor() - 1.0 {
                changed if changed >= kept as f64 => kept,
                changed => changed.max(0.0) as usize,
            },
        };
        let is_whole = from == tiling.width;
        // Lines of a texture that hold pieces of a row have no columns in common.
        (from > 0 && (is_whole || tiling.pieces == 1)).then_some(Fresh { shift, from })
    }
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
    rows: Vec<Vec<WideSpan>>,
}

impl Labelled {
    /// Returns the labelled spans of a row.
    pub(super) fn of_row(&self, row: usize) -> &[WideSpan] {
        &self.rows[row]
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }
}

/// Moves the labels of a row to the left, and adds those of pixels that were painted, which begin a
/// pixel before the fresh ones.
fn renew(labels: &mut Vec<WideSpan>, fresh: Fresh, painted: &[WideSpan]) {
    labels.retain_mut(|wide| {
        wide.first = wide.first.saturating_sub(fresh.shift);
        wide.end = wide.end.saturating_sub(fresh.shift);
        wide.end - wide.first >= MIN_LABELLED_PX && wide.first < fresh.from
    });
    for wide in painted {
        let [first, end] = [wide.first, wide.end].map(|pixel| pixel + fresh.from - 1);
        match labels.last_mut().filter(|last| last.span == wide.span) {
            // It began before the first pixel that was painted.
            Some(last) => last.end = end,
            None => labels.push(WideSpan {
                first,
                end,
                ..*wide
            }),
        }
    }
}

impl<K> Default for Picture<K> {
    fn default() -> Self {
        Self {
            tiles: Vec::new(),
            painted: None,
            labelled: Labelled::default(),
        }
    }
}

impl<K: PartialEq> Picture<K> {
    /// Updates the picture to a number of rows, of which `paint` paints the pixels of a scale.
    /// Paints only what changed: `changed_since` returns the begin of the first span that changed
    /// since a version, and `None` if any may have changed.
    pub(super) fn update(
        &mut self,
        ctx: &Context,
        source: Source<K>,
        rows: usize,
        changed_since: impl FnOnce(u64) -> Option<i64>,
        mut paint: impl FnMut(usize, &PixelScale, &mut [Color32], &mut Vec<WideSpan>),
    ) {
        let max_side = ctx.input(|input| input.max_texture_side);
        let width = source.scale.width();
        let tiling = Tiling::new(width, rows, max_side);
        let fresh = self
            .painted
            .as_ref()
            .and_then(|painted| painted.fresh(&source, tiling, changed_since));
        if let (Some(fresh), Some(painted)) = (fresh, &mut self.painted) {
            painted.version = source.version;
            painted.moved += fresh.shift;
            if fresh.from < width {
                let first = painted.moved % width;
                self.extend(tiling, &source.scale, fresh, first, paint);
            }
            return;
        }
        self.painted = Some(Painted {
            key: source.key,
            version: source.version,
            tiling,
            scale: source.scale,
            moved: 0,
        });
        self.labelled.rows.resize_with(rows, Vec::new);
        if width == 0 || rows == 0 {
            self.tiles.clear();
            return;
        }
        self.tiles
            .resize_with(tiling.tiles().count(), Tile::default);
        let mut labels = self.labelled.rows.iter_mut().enumerate();
        for (tile, rows) in self.tiles.iter_mut().zip(tiling.tiles()) {
            let pixels = tile.begin([tiling.piece_width, rows * tiling.pieces]);
            let rows = pixels.chunks_exact_mut(tiling.pieces * tiling.piece_width);
            for (pixels, (row, labels)) in rows.zip(&mut labels) {
                labels.clear();
                paint(row, &source.scale, &mut pixels[..width], labels);
            }
            tile.upload(ctx, max_side);
        }
    }

    /// Paints the last pixels of all rows. The first pixel is in the column `first` of the
    /// textures.
    fn extend(
        &mut self,
        tiling: Tiling,
        scale: &PixelScale,
        fresh: Fresh,
        first: usize,
        mut paint: impl FnMut(usize, &PixelScale, &mut [Color32], &mut Vec<WideSpan>),
    ) {
        let (width, painted_width) = (tiling.width, tiling.width - fresh.from);
        // One more, which is not kept: the first pixel of a picture also shows what ends there.
        let scale = scale.starting_at(fresh.from - 1);
        let column = (first + fresh.from) % width;
        let until_end = painted_width.min(width - column);
        let mut pixels = vec![Color32::TRANSPARENT; 1 + painted_width];
        let mut wide = Vec::new();
        let mut labels = self.labelled.rows.iter_mut().enumerate();
        for (tile, rows) in self.tiles.iter_mut().zip(tiling.tiles()) {
            // The columns up to the end of the texture, and those at its begin.
            let sizes = [until_end, painted_width - until_end];
            let mut parts = sizes.map(|width| Vec::with_capacity(width * rows));
            for (row, labels) in labels.by_ref().take(rows) {
                pixels.fill(Color32::TRANSPARENT);
                wide.clear();
                paint(row, &scale, &mut pixels, &mut wide);
                renew(labels, fresh, &wide);
                parts[0].extend_from_slice(&pixels[1..=until_end]);
                parts[1].extend_from_slice(&pixels[1 + until_end..]);
            }
            for ((part, width), column) in parts.into_iter().zip(sizes).zip([column, 0]) {
                if width > 0 {
                    tile.patch(ColorImage::new([width, rows], part), column);
                }
            }
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
        let Some(painted) = &self.painted else {
            return Vec::new();
        };
        let tiling = painted.tiling;
        let sections = painted.sections();
        let mesh = |(tile, texture): (usize, &TextureHandle)| {
            let mut mesh = Mesh::with_texture(texture.id());
            let rows = tiling.tiles().nth(tile).unwrap_or(0);
            mesh.reserve_vertices(4 * rows * sections.len());
            mesh.reserve_triangles(2 * rows * sections.len());
            let [texels, texel_rows] = texture.size().map(|side| side as f32);
            for row in 0..rows {
                let [top, bottom] = y_range(tile * tiling.rows_per_tile + row);
                for section in &sections {
                    let x = |pixels: usize| left + pixels as f32 / pixels_per_point;
                    let (begin, end) = (section.pixel, section.pixel + section.columns.len());
                    let u = |column: usize| column as f32 / texels;
                    let v = ((row * tiling.pieces + section.piece) as f32 + 0.5) / texel_rows;
                    mesh.add_rect_with_uv(
                        Rect::from_min_max(pos2(x(begin), top), pos2(x(end), bottom)),
                        Rect::from_min_max(
                            pos2(u(section.columns.start), v),
                            pos2(u(section.columns.end), v),
                        ),
                        Color32::WHITE,
                    );
                }
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
    /// Begins a new image, and returns its texels.
    fn begin(&mut self, [width, rows]: [usize; 2]) -> &mut [Color32] {
        if Arc::get_mut(&mut self.image).is_none() {
            self.image = Arc::default();
        }
        let image = Arc::make_mut(&mut self.image);
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

    /// Copies an image to the columns of the texture from `column` on.
    fn patch(&mut self, image: ColorImage, column: usize) {
        if let Some(texture) = &mut self.texture {
            texture.set_partial([column, 0], image, TextureOptions::NEAREST);
        }
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
    fn a_row_of_a_ring_is_drawn_in_two_sections() {
        let mut painted = Painted {
            key: (),
            version: 0,
            tiling: Tiling::new(100, 4, 2_048),
            scale: PixelScale::new(0.0, 1e6, 100),
            moved: 0,
        };
        let section = |pixel, columns| Section {
            pixel,
            piece: 0,
            columns,
        };
        assert_eq!(painted.sections(), [section(0, 0..100)]);
        painted.moved = 730;
        let sections = [section(0, 30..100), section(70, 0..30)];
        assert_eq!(painted.sections(), sections);
    }

    #[test]
    fn only_a_move_by_whole_pixels_to_later_times_keeps_pixels() {
        let scale = |begin_ns: f64, len_ns: f64| PixelScale::new(begin_ns, begin_ns + len_ns, 100);
        let painted = Painted {
            key: 'a',
            version: 7,
            tiling: Tiling::new(100, 4, 2_048),
            scale: scale(5_000.0, 1_000.0),
            moved: 20,
        };
        let fresh_of = |source: Source<char>, changed_ns| {
            let fresh = painted.fresh(&source, painted.tiling, |_| changed_ns);
            fresh.map(|fresh| (fresh.shift, fresh.from))
        };
        let source = |key, version, scale| Source {
            key,
            version,
            scale,
            ends_with_spans: true,
        };
        let fresh =
            |key, version, scale, changed_ns| fresh_of(source(key, version, scale), changed_ns);
        let moved = |pixels: f64| scale(5_000.0 + 10.0 * pixels, 1_000.0);
        // The spans are the same.
        assert_eq!(fresh('a', 7, moved(20.0), None), Some((0, 100)));
        assert_eq!(fresh('a', 7, moved(25.0), None), Some((5, 95)));
        assert_eq!(fresh('b', 7, moved(25.0), None), None);
        for other in [
            moved(19.0),
            moved(25.3),
            moved(120.0),
            scale(5_250.0, 1_001.0),
        ] {
            assert_eq!(fresh('a', 7, other, None), None, "{other:?}");
        }
        // A label at the last pixel may have to grow.
        let cut = Source {
            ends_with_spans: false,
            ..source('a', 7, moved(25.0))
        };
        assert_eq!(fresh_of(cut, None), None);
        // New spans, from the pixel before them on.
        let from = |changed_ns| fresh('a', 8, moved(25.0), changed_ns);
        assert_eq!(from(None), None);
        assert_eq!(from(Some(i64::MAX)), Some((5, 95)));
        assert_eq!(from(Some(5_250 + 405)), Some((5, 39)));
        assert_eq!(from(Some(5_250 + 15)), None);
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
            let source = Source {
                key: (),
                version: 0,
                scale: PixelScale::new(0.0, 1e6, 3_000),
                ends_with_spans: false,
            };
            let paint = |row: usize, _: &PixelScale, pixels: &mut [Color32], _: &mut Vec<_>| {
                pixels.fill(color(row));
            };
            picture.update(ui.ctx(), source, 800, |_| None, paint);
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
