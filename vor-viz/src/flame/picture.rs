//! The spans as a texture: a texel per pixel across, and one per row down.
//!
//! Each row is drawn as one rectangle that stretches its texels to the row's height. However many
//! spans there are, the mesh is small and the texture takes a few hundred kilobytes. It is painted
//! only when its content changes. Its buffer is reused once the backend has released it.

use std::sync::Arc;

use egui::{
    Color32, ColorImage, Context, ImageData, Pos2, Rect, TextureHandle, TextureId, TextureOptions,
    pos2,
};

use crate::store::WideSpan;

/// Step of the texture's growth, so that resizing a window does not need a new texture for each
/// pixel.
const STEP: [usize; 2] = [256, 64];

/// A texture with a row of texels per row of spans.
pub(super) struct Picture<K> {
    texture: Option<TextureHandle>,
    image: Arc<ColorImage>,
    painted_for: Option<(K, [usize; 2])>,
    labelled: Labelled,
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
            texture: None,
            image: Arc::default(),
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
        if self
            .painted_for
            .as_ref()
            .is_some_and(|(painted, size)| *painted == key && *size == [width, rows])
        {
            return;
        }
        self.painted_for = Some((key, [width, rows]));
        self.labelled.spans.clear();
        self.labelled.row_ends.clear();
        if width == 0 || rows == 0 {
            return;
        }
        if Arc::get_mut(&mut self.image).is_none() {
            self.image = Arc::default();
        }
        if let Some(image) = Arc::get_mut(&mut self.image) {
            image.size = [width, rows];
            image.source_size = egui::vec2(width as f32, rows as f32);
            image.pixels.clear();
            image.pixels.resize(width * rows, Color32::TRANSPARENT);
            for (row, pixels) in image.pixels.chunks_exact_mut(width).enumerate() {
                paint(row, pixels, &mut self.labelled.spans);
                self.labelled.row_ends.push(self.labelled.spans.len());
            }
        }
        let mut texture = self.texture_of(ctx, [width, rows]);
        texture.set_partial(
            [0, 0],
            ImageData::Color(Arc::clone(&self.image)),
            TextureOptions::NEAREST,
        );
        self.texture = Some(texture);
    }

    /// Returns a texture of sufficient size.
    fn texture_of(&mut self, ctx: &Context, [width, rows]: [usize; 2]) -> TextureHandle {
        if let Some(texture) = self.texture.take() {
            let [has_width, has_rows] = texture.size();
            if has_width >= width && has_rows >= rows {
                return texture;
            }
        }
        let most = ctx.input(|input| input.max_texture_side);
        let size = [
            width.next_multiple_of(STEP[0]).min(most.max(width)),
            rows.next_multiple_of(STEP[1]).min(most.max(rows)),
        ];
        let empty = ColorImage::filled(size, Color32::TRANSPARENT);
        ctx.load_texture("vor flame chart", empty, TextureOptions::NEAREST)
    }

    /// Returns the texture, once a picture was painted.
    pub(super) fn texture(&self) -> Option<TextureId> {
        self.texture.as_ref().map(TextureHandle::id)
    }

    /// Returns the texture coordinates of a row that is `width` pixels wide.
    pub(super) fn uv(&self, row: usize, width: usize) -> Rect {
        let [w, h] = self.texture.as_ref().map_or([1, 1], TextureHandle::size);
        let v = (row as f32 + 0.5) / h as f32;
        Rect::from_min_max(Pos2::new(0.0, v), pos2(width as f32 / w as f32, v))
    }

    /// Returns the spans that are wide enough for labels.
    pub(super) fn labelled(&self) -> &Labelled {
        &self.labelled
    }
}

impl<K> std::fmt::Debug for Picture<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Picture")
            .field("labelled", &self.labelled)
            .finish_non_exhaustive()
    }
}
