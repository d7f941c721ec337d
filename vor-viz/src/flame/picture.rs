//! The spans as textures: a texel per pixel across, and one per row down.
//!
//! Each row is drawn as a rectangle that stretches its texels to the row's height. However many
//! spans there are, the mesh is small and the texture takes a few hundred kilobytes. It is painted
//! only when its content changes. Its buffer is reused once the backend has released it.
//!
//! If the time moves by whole pixels, as in the panel of a running program or with the pointer that
//! drags it, only the pixels that come in at one end are painted. The columns of a texture are a
//! ring: new ones replace those that left, and a row is drawn as two rectangles.
//!
//! A backend limits the sides of a texture, some to 2 048 texels. A longer row is cut into pieces,
//! which follow one another down the texture, and more rows go to further textures.

use std::ops::Range;
use std::sync::Arc;

use egui::{
    Color32, ColorImage, Context, ImageData, Mesh, Rect, TextureHandle, TextureOptions, pos2,
};

use super::strip::Fresh;
use crate::store::{END_PX, MIN_LABELLED_PX, PixelScale, WideSpan};

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
    /// Whether it is the picture of a running program, which ends with the newest span, and hides
    /// those that were removed.
    pub(super) follows: bool,
}

/// The content of a picture.
struct Painted<K> {
    key: K,
    version: u64,
    tiling: Tiling,
    follows: bool,
    /// The scale when all of it was painted, and the pixels by which its time has moved since then:
    /// a positive number to later times.
    scale: PixelScale,
    moved: i64,
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
        let first = self.first_column();
        let part = |pixel: usize, columns: Range<usize>| Section {
            pixel,
            piece: 0,
            columns,
        };
        vec![part(0, first..width), part(width - first, 0..first)]
    }

    /// Returns the column of the first pixel.
    fn first_column(&self) -> usize {
        self.moved.rem_euclid(self.tiling.width.max(1) as i64) as usize
    }
}

impl<K: PartialEq> Painted<K> {
    /// Returns what has to be painted of a source; `None` if that is everything.
    fn fresh(
        &self,
        source: &Source<K>,
        tiling: Tiling,
        unchanged_since: impl FnOnce(u64) -> Option<Range<i64>>,
    ) -> Option<Fresh> {
        if self.key != source.key || self.tiling != tiling || self.follows != source.follows {
            return None;
        }
        let moved = source.scale.pixels_after(&self.scale)?;
        let shift = moved.checked_sub(self.moved)?;
        let width = i64::try_from(tiling.width).ok()?;
        if shift <= -width || width <= shift || (source.follows && shift < 0) {
            return None;
        }
        // Pixels at the ends differ from the same pixels inside. A running program has no span
        // beyond them.
        let ends = match shift {
            0 => 0,
            _ if source.follows => 0,
            _ => END_PX as i64,
        };
        let mut kept = ends - shift.min(0)..width - shift.max(0) - ends;
        if self.version != source.version {
            let unchanged = unchanged_since(self.version)?;
            // A span may round to the pixel before its begin, and to the one after its end.
            let [begin, end] = [unchanged.start, unchanged.end].map(|ns| source.scale.x(ns));
            kept.end = kept.end.min((end.floor() - 1.0) as i64).max(0);
            if !source.follows {
                kept.start = kept.start.max((begin.ceil() + 1.0) as i64).min(width);
            }
        }
        // The margins must be in the picture. Lines of a texture that hold pieces of a row have no
        // columns in common.
        let is_whole = kept == (0..width);
        let is_wide = kept.end - kept.start >= MIN_LABELLED_PX as i64;
        if !is_whole && (!is_wide || tiling.pieces > 1) {
            return None;
        }
        // A label that was cut at an end may grow there, and needs to be seen by itself.
        let margin = |grows: bool| if grows { MIN_LABELLED_PX } else { END_PX };
        Some(Fresh {
            shift,
            kept: kept.start as usize..kept.end as usize,
            margins: [margin(shift < 0), margin(shift > 0 && !source.follows)],
        })
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
    /// Paints only what changed: `unchanged_since` returns a time whose spans have not changed
    /// since a version, and `None` if any may have changed.
    pub(super) fn update(
        &mut self,
        ctx: &Context,
        source: Source<K>,
        rows: usize,
        unchanged_since: impl FnOnce(u64) -> Option<Range<i64>>,
        mut paint: impl FnMut(usize, &PixelScale, &mut [Color32], &mut Vec<WideSpan>),
    ) {
        let max_side = ctx.input(|input| input.max_texture_side);
        let width = source.scale.width();
        let tiling = Tiling::new(width, rows, max_side);
        let fresh = self
            .painted
            .as_ref()
            .and_then(|painted| painted.fresh(&source, tiling, unchanged_since));
        if let (Some(fresh), Some(painted)) = (fresh, &mut self.painted) {
            painted.version = source.version;
            painted.moved += fresh.shift;
            if fresh.kept != (0..width) {
                let first = painted.first_column();
                self.extend(tiling, &source.scale, &fresh, first, paint);
            }
            return;
        }
        let scale = source.scale;
        self.painted = Some(Painted {
            key: source.key,
            version: source.version,
            tiling,
            follows: source.follows,
            scale,
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
                paint(row, &scale, &mut pixels[..width], labels);
            }
            tile.upload(ctx, max_side);
        }
    }

    /// Paints fresh pixels of all rows. The first pixel of the picture is in the column `first` of
    /// the textures.
    fn extend(
        &mut self,
        tiling: Tiling,
        scale: &PixelScale,
        fresh: &Fresh,
        first: usize,
        mut paint: impl FnMut(usize, &PixelScale, &mut [Color32], &mut Vec<WideSpan>),
    ) {
        let (width, painted_width) = (tiling.width, tiling.width - fresh.kept.len());
        let column = (first + fresh.kept.end) % width;
        let until_end = painted_width.min(width - column);
        let mut strips = fresh.strips(scale);
        let mut pixels = Vec::with_capacity(painted_width);
        let mut labels = self.labelled.rows.iter_mut().enumerate();
        for (tile, rows) in self.tiles.iter_mut().zip(tiling.tiles()) {
            // The columns up to the end of the texture, and those at its begin.
            let sizes = [until_end, painted_width - until_end];
            let mut parts = sizes.map(|width| Vec::with_capacity(width * rows));
            for (row, labels) in labels.by_ref().take(rows) {
                fresh.move_labels(labels, width);
                pixels.clear();
                for strip in &mut strips {
                    strip.paint(|scale, colors, wide| paint(row, scale, colors, wide));
                    strip.renew(labels);
                    pixels.extend_from_slice(strip.colors());
                }
                parts[0].extend_from_slice(&pixels[..until_end]);
                parts[1].extend_from_slice(&pixels[until_end..]);
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

    /// Returns a picture of 10 ns a pixel that begins at 5 µs and was moved since then.
    fn painted(tiling: Tiling, moved: i64) -> Painted<char> {
        Painted {
            key: 'a',
            version: 7,
            tiling,
            follows: false,
            scale: PixelScale::new(5_000.0, 5_000.0 + 10.0 * tiling.width as f64, tiling.width),
            moved,
        }
    }

    #[test]
    fn a_row_of_a_ring_is_drawn_in_two_sections() {
        let mut painted = painted(Tiling::new(100, 4, 2_048), 0);
        let section = |pixel, columns| Section {
            pixel,
            piece: 0,
            columns,
        };
        assert_eq!(painted.sections(), [section(0, 0..100)]);
        painted.moved = 730;
        let sections = [section(0, 30..100), section(70, 0..30)];
        assert_eq!(painted.sections(), sections);
        painted.moved = -670;
        assert_eq!(painted.sections(), sections);
    }

    #[test]
    fn only_a_move_by_whole_pixels_keeps_pixels() {
        let scale = |begin_ns: f64, len_ns: f64| PixelScale::new(begin_ns, begin_ns + len_ns, 100);
        let painted = painted(Tiling::new(100, 4, 2_048), 20);
        let fresh_of = |source: Source<char>, unchanged: Option<Range<i64>>| {
            let fresh = painted.fresh(&source, painted.tiling, |_| unchanged);
            fresh.map(|fresh| (fresh.shift, fresh.kept))
        };
        let source = |key, version, scale| Source {
            key,
            version,
            scale,
            follows: false,
        };
        let moved = |pixels: f64| scale(5_000.0 + 10.0 * pixels, 1_000.0);
        // The spans are the same. The last two pixels of an end become others inside.
        let same = |key, scale| fresh_of(source(key, 7, scale), None);
        assert_eq!(same('a', moved(20.0)), Some((0, 0..100)));
        assert_eq!(same('a', moved(25.0)), Some((5, 2..93)));
        assert_eq!(same('a', moved(17.0)), Some((-3, 5..98)));
        assert_eq!(same('a', moved(-58.0)), Some((-78, 80..98)));
        assert_eq!(same('a', moved(98.0)), Some((78, 2..20)));
        assert_eq!(same('b', moved(25.0)), None);
        for other in [
            moved(25.3),
            moved(25.001),
            // A label could grow by more than what is kept.
            moved(-59.0),
            moved(99.0),
            moved(-80.0),
            moved(120.0),
            moved(1e300),
            moved(-1e300),
            scale(5_250.0, 1_000.01),
        ] {
            assert_eq!(same('a', other), None, "{other:?}");
        }
        let follows = Source {
            follows: true,
            ..source('a', 7, moved(25.0))
        };
        assert_eq!(fresh_of(follows, None), None);
        // Spans were added, from the pixel before them on.
        let added = |pixels: f64, begin_ns: i64| {
            fresh_of(source('a', 8, moved(pixels)), Some(i64::MIN..begin_ns))
        };
        assert_eq!(fresh_of(source('a', 8, moved(25.0)), None), None);
        assert_eq!(added(25.0, i64::MAX), Some((5, 2..93)));
        assert_eq!(added(17.0, i64::MAX), Some((-3, 5..98)));
        assert_eq!(added(25.0, 5_250 + 405), Some((5, 2..39)));
        assert_eq!(added(20.0, 5_200 + 405), Some((0, 0..39)));
        assert_eq!(added(17.0, 5_170 + 405), Some((-3, 5..39)));
        assert_eq!(added(25.0, 5_250 + 15), None);
        assert_eq!(added(25.0, i64::MIN), None);
        // Spans were removed, to the pixel after them.
        let removed = |pixels: f64, end_ns: i64| {
            fresh_of(source('a', 8, moved(pixels)), Some(end_ns..i64::MAX))
        };
        assert_eq!(removed(25.0, 5_250 - 15), Some((5, 2..93)));
        assert_eq!(removed(25.0, 5_250 + 405), Some((5, 42..93)));
        assert_eq!(removed(20.0, 5_200 + 405), Some((0, 42..100)));
        assert_eq!(removed(17.0, 5_170 + 405), Some((-3, 42..98)));
        assert_eq!(removed(20.0, i64::MAX), None);
    }

    #[test]
    fn margins_are_wide_where_labels_may_grow() {
        let mut painted = painted(Tiling::new(100, 4, 2_048), 0);
        let mut margins = |moved_ns: f64, follows: bool| {
            painted.follows = follows;
            let begin_ns = 5_000.0 + moved_ns;
            let source = Source {
                key: 'a',
                version: 8,
                scale: PixelScale::new(begin_ns, begin_ns + 1_000.0, 100),
                follows,
            };
            // In the picture of a running program, what was removed is hidden.
            let fresh = painted.fresh(&source, painted.tiling, |_| Some(5_205..5_805));
            fresh.map(|fresh| (fresh.kept, fresh.margins))
        };
        assert_eq!(margins(0.0, false), Some((22..79, [2, 2])));
        assert_eq!(margins(50.0, false), Some((17..74, [2, 18])));
        assert_eq!(margins(-50.0, false), Some((27..84, [18, 2])));
        assert_eq!(margins(50.0, true), Some((0..74, [2, 2])));
        assert_eq!(margins(-50.0, true), None);
    }

    #[test]
    fn rows_in_several_pieces_are_painted_whole() {
        let painted = painted(Tiling::new(3_000, 4, 2_048), 0);
        let fresh = |pixels: usize| {
            let source = Source {
                key: 'a',
                version: 7,
                scale: painted.scale.part(pixels, 3_000),
                follows: false,
            };
            let fresh = painted.fresh(&source, painted.tiling, |_| None);
            fresh.map(|fresh| fresh.kept)
        };
        assert_eq!(fresh(0), Some(0..3_000));
        assert_eq!(fresh(10), None);
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
                follows: false,
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
