//! Rows of spans as rows of pixels.
//!
//! Spans shorter than a pixel are merged: a pixel shows the longest span that begins in it. A node
//! that covers less than a pixel is merged as a whole, like its longest span, and its children are
//! not read. It begins and ends in the same pixel or in adjacent ones, so a merged pixel is at most
//! one pixel away from its span. Spans of at least a pixel are painted from edge to edge, rounded
//! to pixels.

use egui::Color32;
use vor_capture::model::catalog::SiteId;

use super::off_cpu::OffCpu;
use super::row::{Chunk, FANOUT, LEVELS, Node, Row, Span, site_bit};

/// Minimum width of a span that is also returned as a [`WideSpan`] for a label.
pub(crate) const MIN_LABELLED_PX: usize = 18;

/// Minimum width of a span with an edge in its first pixel.
const MIN_EDGED_PX: usize = 3;

/// Pixels at each end of a painted row that may differ from those of a longer row: a span that is
/// cut there may be too narrow for an edge, or be merged instead of filled.
pub(crate) const END_PX: usize = MIN_EDGED_PX - 1;

/// Pixels by which the same place may differ, because times are rounded. So hardly ever an edge of
/// a span is rounded to another pixel.
const ROUNDING_PX: f64 = 1e-4;

/// A mapping between times and pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PixelScale {
    begin_ns: f64,
    pixels_per_ns: f64,
    width: usize,
}

impl PixelScale {
    /// Maps the time from `begin_ns` to `end_ns` to `width` pixels.
    #[must_use]
    pub fn new(begin_ns: f64, end_ns: f64, width: usize) -> Self {
        let length = (end_ns - begin_ns).max(1e-3);
        Self {
            begin_ns,
            pixels_per_ns: width as f64 / length,
            width,
        }
    }

    /// Returns the number of pixels.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the position of a moment, in pixels from the left edge.
    #[inline]
    #[must_use]
    pub fn x(&self, ns: i64) -> f64 {
        (ns as f64 - self.begin_ns) * self.pixels_per_ns
    }

    /// Returns the moment at a position.
    #[must_use]
    pub fn ns(&self, x: f64) -> f64 {
        self.begin_ns + x / self.pixels_per_ns
    }

    /// Returns the scale of `width` pixels from `first` on.
    pub(crate) fn part(&self, first: usize, width: usize) -> Self {
        Self {
            begin_ns: self.ns(first as f64),
            width,
            ..*self
        }
    }

    /// Returns by how many pixels this scale begins after another one of the same pixels; `None`
    /// if its pixels are others.
    pub(crate) fn pixels_after(&self, other: &Self) -> Option<i64> {
        let pixels = (self.begin_ns - other.begin_ns) * self.pixels_per_ns;
        let stretched = (self.pixels_per_ns / other.pixels_per_ns - 1.0).abs();
        let is_same = self.width == other.width
            && stretched * pixels.abs().max(self.width as f64) < ROUNDING_PX
            && (pixels - pixels.round()).abs() < ROUNDING_PX;
        is_same.then_some(pixels.round() as i64)
    }

    /// Moves the begin to the left by less than a pixel, so that pixels are those of every scale
    /// with the same resolution that was aligned.
    pub(crate) fn aligned(&self) -> Self {
        let pixels = (self.begin_ns * self.pixels_per_ns).floor();
        Self {
            begin_ns: pixels / self.pixels_per_ns,
            ..*self
        }
    }

    /// Returns the first nanosecond in a pixel or after it.
    fn first_ns(&self, pixel: usize) -> i64 {
        self.ns(pixel as f64).ceil() as i64
    }
}

/// A set of call sites, such as the matches of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteSet {
    /// Membership by site id.
    sites: Vec<bool>,
    bits: u32,
}

impl SiteSet {
    /// Makes a set.
    pub fn new(sites: impl IntoIterator<Item = SiteId>) -> Self {
        let mut set = Self::default();
        for site in sites {
            let at = site.0 as usize;
            if at >= set.sites.len() {
                set.sites.resize(at + 1, false);
            }
            set.sites[at] = true;
            set.bits |= site_bit(site);
        }
        set
    }

    /// Returns whether the set contains a site.
    #[inline]
    #[must_use]
    pub fn has(&self, site: SiteId) -> bool {
        self.sites.get(site.0 as usize).is_some_and(|&has| has)
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bits == 0
    }
}

/// A span wide enough for a label, and the pixels it covers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WideSpan {
    /// The span.
    pub span: Span,
    /// Its state, if it did not run for most of its time.
    pub off_cpu: Option<OffCpu>,
    /// Its first pixel within the picture.
    pub first: usize,
    /// One past its last pixel within the picture.
    pub end: usize,
}

/// The pixels of a row, and the spans that are wide enough for a label.
#[derive(Debug)]
pub struct RowPixels<'a> {
    /// A colour per pixel of the scale's width. Pixels without a span keep their colour.
    pub colors: &'a mut [Color32],
    /// Output: the wide spans are appended here.
    pub wide: &'a mut Vec<WideSpan>,
}

impl Row {
    /// Paints the spans of the row, or only those of some sites. `color` gets the site and the
    /// duration of the span in a pixel, and its state if it did not run for most of its time; the
    /// duration saturates at `u32::MAX`.
    pub fn paint(
        &self,
        scale: &PixelScale,
        wanted: Option<&SiteSet>,
        color: impl Fn(SiteId, u32, Option<OffCpu>) -> Color32,
        pixels: RowPixels<'_>,
    ) {
        let begin_ns = scale.ns(0.0).floor() as i64;
        let width = scale.width.min(pixels.colors.len());
        let mut painter = Painter {
            scale,
            wanted,
            color,
            pixels,
            width,
            begin_ns,
            end_ns: scale.ns(width as f64).ceil() as i64,
            merged_below_ns: (1.0 / scale.pixels_per_ns) as i64,
            pixel: 0,
            pixel_end_ns: i64::MIN,
            longest_ns: 0,
            site: None,
            off_cpu: None,
            filled_to: 0,
        };
        let first = self
            .chunks
            .partition_point(|chunk| chunk.whole().end_ns < begin_ns);
        for chunk in self.chunks.range(first..) {
            if chunk.whole().begin_ns >= painter.end_ns {
                break;
            }
            painter.chunk(chunk);
        }
        painter.finish_pixel();
    }
}

impl Row {
    /// Returns the first span of the given sites that begins at a moment or later.
    #[must_use]
    pub fn next_of(&self, wanted: &SiteSet, from_ns: i64) -> Option<Span> {
        let first = self
            .chunks
            .partition_point(|chunk| chunk.whole().end_ns < from_ns);
        let top = LEVELS - 1;
        let mut chunks = self.chunks.range(first..);
        chunks.find_map(|chunk| next_in(chunk, top, 0, chunk.levels[top].len(), wanted, from_ns))
    }
}

/// Searches the children of some nodes of a level for the first span of the given sites.
fn next_in(
    chunk: &Chunk,
    level: usize,
    from: usize,
    to: usize,
    wanted: &SiteSet,
    from_ns: i64,
) -> Option<Span> {
    (from..to).find_map(|i| {
        let node = &chunk.levels[level][i];
        if node.end_ns < from_ns || node.sites & wanted.bits == 0 {
            return None;
        }
        let (from, to) = (i * FANOUT, (i + 1) * FANOUT);
        match level.checked_sub(1) {
            Some(below) => next_in(
                chunk,
                below,
                from,
                to.min(chunk.levels[below].len()),
                wanted,
                from_ns,
            ),
            None => {
                let mut spans = from..to.min(chunk.begin_ns.len());
                let found =
                    spans.find(|&i| chunk.begin_ns[i] >= from_ns && wanted.has(chunk.sites[i]));
                found.map(|i| chunk.span(i))
            }
        }
    })
}

struct Painter<'a, C> {
    scale: &'a PixelScale,
    wanted: Option<&'a SiteSet>,
    color: C,
    pixels: RowPixels<'a>,
    width: usize,
    begin_ns: i64,
    end_ns: i64,
    /// A span or node shorter than this is narrower than a pixel.
    merged_below_ns: i64,
    /// The current merged pixel, its end in nanoseconds, and the longest span in it.
    pixel: usize,
    pixel_end_ns: i64,
    longest_ns: u32,
    site: Option<SiteId>,
    off_cpu: Option<OffCpu>,
    /// Pixels before this one show spans of at least a pixel.
    filled_to: usize,
}

impl<C: Fn(SiteId, u32, Option<OffCpu>) -> Color32> Painter<'_, C> {
    fn chunk(&mut self, chunk: &Chunk) {
        self.nodes(chunk, LEVELS - 1, 0, chunk.levels[LEVELS - 1].len());
    }

    /// Paints nodes of a level.
    fn nodes(&mut self, chunk: &Chunk, level: usize, from: usize, to: usize) {
        for i in from..to {
            let node = &chunk.levels[level][i];
            if node.end_ns < self.begin_ns {
                continue;
            }
            if node.begin_ns >= self.end_ns {
                return;
            }
            if !self.may_show(node) {
                continue;
            }
            if node.end_ns.wrapping_sub(node.begin_ns) < self.merged_below_ns
                && self.shows(node.site)
            {
                let longest = (node.longest_ns, node.site, node.off_cpu);
                self.merge(node.begin_ns, longest);
                continue;
            }
            let (from, to) = (i * FANOUT, (i + 1) * FANOUT);
            match level.checked_sub(1) {
                Some(below) => self.nodes(chunk, below, from, to.min(chunk.levels[below].len())),
                None => self.spans(chunk, from, to.min(chunk.begin_ns.len())),
            }
        }
    }

    /// Paints spans of a chunk.
    fn spans(&mut self, chunk: &Chunk, from: usize, to: usize) {
        for i in from..to {
            let begin_ns = chunk.begin_ns[i];
            if begin_ns >= self.end_ns {
                return;
            }
            let site = chunk.sites[i];
            if !self.shows(site) {
                continue;
            }
            let short_ns = chunk.duration_ns[i];
            // A stored duration saturates after four seconds.
            if chunk.end_ns(i).saturating_sub(begin_ns) < self.merged_below_ns {
                if begin_ns >= self.begin_ns {
                    self.merge(begin_ns, (short_ns, site, chunk.off_cpu(i)));
                }
                continue;
            }
            let end_ns = chunk.end_ns(i);
            if end_ns >= self.begin_ns {
                self.fill(chunk.span(i), short_ns, chunk.off_cpu(i));
            }
        }
    }

    #[inline]
    fn may_show(&self, node: &Node) -> bool {
        self.wanted
            .is_none_or(|wanted| wanted.bits & node.sites != 0)
    }

    #[inline]
    fn shows(&self, site: SiteId) -> bool {
        self.wanted.is_none_or(|wanted| wanted.has(site))
    }

    /// Adds a span or node narrower than a pixel.
    #[inline]
    fn merge(&mut self, begin_ns: i64, longest: (u32, SiteId, Option<OffCpu>)) {
        let (longest_ns, site, off_cpu) = longest;
        if begin_ns >= self.pixel_end_ns {
            self.finish_pixel();
            let begin_ns = begin_ns.max(self.begin_ns);
            self.pixel = self.scale.x(begin_ns).max(0.0) as usize;
            self.pixel_end_ns = self.scale.first_ns(self.pixel + 1);
            (self.longest_ns, self.site, self.off_cpu) = (longest_ns, Some(site), off_cpu);
        } else if longest_ns > self.longest_ns || self.site.is_none() {
            (self.longest_ns, self.site, self.off_cpu) = (longest_ns, Some(site), off_cpu);
        }
    }

    /// Paints the merged pixel.
    fn finish_pixel(&mut self) {
        if let Some(site) = self.site.take()
            && self.pixel >= self.filled_to
            && self.pixel < self.width
        {
            self.pixels.colors[self.pixel] = (self.color)(site, self.longest_ns, self.off_cpu);
        }
    }

    /// Paints a span of at least a pixel.
    fn fill(&mut self, span: Span, short_ns: u32, off_cpu: Option<OffCpu>) {
        let edge = |ns: i64| self.scale.x(ns).round().clamp(0.0, self.width as f64) as usize;
        let x = self.scale.x(span.begin_ns);
        let (first, end) = (edge(span.begin_ns), edge(span.end_ns()));
        if end <= first {
            // Both edges round to one pixel, or the span ends in the first half of the first pixel.
            if self.scale.x(span.end_ns()) >= 0.0 {
                self.merge(span.begin_ns, (short_ns, span.site, off_cpu));
            }
            return;
        }
        self.finish_pixel();
        let color = (self.color)(span.site, short_ns, off_cpu);
        self.pixels.colors[first..end].fill(color);
        if end - first >= MIN_EDGED_PX && x >= 0.0 {
            self.pixels.colors[first] = edge_color(color);
        }
        if end - first >= MIN_LABELLED_PX {
            let wide = WideSpan {
                span,
                off_cpu,
                first,
                end,
            };
            self.pixels.wide.push(wide);
        }
        self.filled_to = end;
    }
}

/// Returns the colour of the left edge of a span, which separates it from its neighbour.
fn edge_color(color: Color32) -> Color32 {
    let [r, g, b, a] = color.to_array();
    let darker = |channel: u8| (u16::from(channel) * 5 / 8) as u8;
    Color32::from_rgba_premultiplied(darker(r), darker(g), darker(b), a)
}
