//! Pixels at the ends of all rows.
//!
//! A picture whose time has moved by whole pixels keeps those that it shows already, and gets
//! others at its ends. They are painted with a margin within the picture, because the ends of what
//! is painted may differ from the same pixels of a longer row. The margin is not kept.

use std::ops::Range;

use egui::Color32;

use crate::store::{MIN_LABELLED_PX, PixelScale, WideSpan};

/// Pixels of a picture that have to be painted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fresh {
    /// The number of pixels by which the picture moves to the left; negative to the right.
    pub(super) shift: i64,
    /// The pixels that are not painted, after that move: all but some at the ends.
    pub(super) kept: Range<usize>,
    /// The widths of the margins beside the pixels at the left and the right end.
    pub(super) margins: [usize; 2],
}

impl Fresh {
    /// Returns the strips to paint of a picture. That at the right end is the first: on a ring, the
    /// other one follows it.
    pub(super) fn strips(&self, picture: &PixelScale) -> Vec<Strip> {
        let [left, right] = self.margins;
        let strips = [
            Strip::new(picture, self.kept.end..picture.width(), [right, 0]),
            Strip::new(picture, 0..self.kept.start, [0, left]),
        ];
        let has_pixels = |strip: &Strip| !strip.pixels.is_empty();
        strips.into_iter().filter(has_pixels).collect()
    }

    /// Moves the labels of a row of a picture of this width. Those that leave it go.
    pub(super) fn move_labels(&self, labels: &mut Vec<WideSpan>, width: usize) {
        let moved = |pixel: usize| (pixel as i64 - self.shift).clamp(0, width as i64) as usize;
        labels.retain_mut(|wide| {
            (wide.first, wide.end) = (moved(wide.first), moved(wide.end));
            wide.end - wide.first >= MIN_LABELLED_PX
        });
    }
}

/// Pixels to paint at one end of a picture, and those of the last row that was painted.
pub(super) struct Strip {
    /// Its pixels within the picture.
    pixels: Range<usize>,
    /// Pixels of the margin before its own.
    before: usize,
    /// The scale, the colours and the wide spans of its pixels and the margin.
    scale: PixelScale,
    colors: Vec<Color32>,
    wide: Vec<WideSpan>,
}

impl Strip {
    /// Makes a strip of some pixels of a picture, with margins of some pixels before and after it.
    fn new(picture: &PixelScale, pixels: Range<usize>, [before, after]: [usize; 2]) -> Self {
        let painted = before + pixels.len() + after;
        Self {
            scale: picture.part(pixels.start - before, painted),
            pixels,
            before,
            colors: vec![Color32::TRANSPARENT; painted],
            wide: Vec::new(),
        }
    }

    /// Paints a row.
    pub(super) fn paint(
        &mut self,
        paint: impl FnOnce(&PixelScale, &mut [Color32], &mut Vec<WideSpan>),
    ) {
        self.colors.fill(Color32::TRANSPARENT);
        self.wide.clear();
        paint(&self.scale, &mut self.colors, &mut self.wide);
    }

    /// Returns the colours of its pixels.
    pub(super) fn colors(&self) -> &[Color32] {
        &self.colors[self.before..][..self.pixels.len()]
    }

    /// Renews the labels of a picture's row that are in the strip, or reach into it.
    pub(super) fn renew(&self, labels: &mut Vec<WideSpan>) {
        labels.retain(|wide| wide.first < self.pixels.start || self.pixels.end < wide.end);
        let kept = labels.len();
        let origin = self.pixels.start - self.before;
        for wide in &self.wide {
            let (first, end) = (origin + wide.first, origin + wide.end);
            let mut known = labels[..kept].iter_mut();
            match known.find(|label| label.span == wide.span) {
                // The strip and its margin have only a part of it.
                Some(label) => {
                    label.first = label.first.min(first);
                    label.end = label.end.max(end);
                }
                None => labels.push(WideSpan {
                    first,
                    end,
                    ..*wide
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use vor_capture::model::catalog::SiteId;

    use super::*;
    use crate::store::Span;

    /// Makes a label of the span that begins at a moment.
    fn label(begin_ns: i64, first: usize, end: usize) -> WideSpan {
        WideSpan {
            span: Span {
                begin_ns,
                duration_ns: 1,
                site: SiteId(1),
            },
            off_cpu: None,
            first,
            end,
        }
    }

    /// Renews the labels of a picture of 100 pixels. `wide` are those of the strip at the right and
    /// at the left, in their own pixels.
    fn renewed(labels: &[WideSpan], fresh: &Fresh, wide: [&[WideSpan]; 2]) -> Vec<WideSpan> {
        let mut labels = labels.to_vec();
        fresh.move_labels(&mut labels, 100);
        let strips = fresh.strips(&PixelScale::new(0.0, 100.0, 100));
        assert_eq!(strips.len(), 2);
        for (mut strip, wide) in strips.into_iter().zip(wide) {
            strip.paint(|_, _, painted| painted.extend_from_slice(wide));
            strip.renew(&mut labels);
        }
        labels
    }

    #[test]
    fn labels_move_and_grow_to_the_right() {
        let before = [label(-9, 0, 20), label(30, 30, 55), label(60, 60, 100)];
        let fresh = Fresh {
            shift: 15,
            kept: 2..83,
            margins: [2, 18],
        };
        // The strip at the right begins at the 65th pixel, with its margin.
        let after = renewed(&before, &fresh, [&[label(60, 0, 26)], &[]]);
        assert_eq!(after, [label(30, 15, 40), label(60, 45, 91)]);
        // One that was too narrow before.
        let after = renewed(&before[..2], &fresh, [&[label(80, 2, 26)], &[]]);
        assert_eq!(after, [label(30, 15, 40), label(80, 67, 91)]);
    }

    #[test]
    fn labels_move_and_grow_to_the_left() {
        let before = [label(-9, 0, 20), label(30, 30, 55), label(80, 80, 100)];
        let fresh = Fresh {
            shift: -15,
            kept: 17..98,
            margins: [18, 2],
        };
        let after = renewed(&before, &fresh, [&[], &[label(-9, 6, 35)]]);
        assert_eq!(after, [label(-9, 6, 35), label(30, 45, 70)]);
        let after = renewed(&before[1..], &fresh, [&[], &[label(-4, 11, 30)]]);
        assert_eq!(after, [label(30, 45, 70), label(-4, 11, 30)]);
    }

    #[test]
    fn labels_inside_a_strip_are_those_that_were_painted() {
        let before = [label(10, 10, 40), label(50, 50, 90)];
        let fresh = Fresh {
            shift: 0,
            kept: 40..60,
            margins: [2, 2],
        };
        let after = renewed(&before, &fresh, [&[label(50, 0, 32)], &[label(20, 20, 40)]]);
        assert_eq!(after, [label(50, 50, 90), label(20, 20, 40)]);
    }
}
