//! Colours, light and dark, and the sizes of text and spacing. `palette` has the colours of scopes.

use egui::{Color32, TextStyle, Ui, Visuals, vec2};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::waits::Wait;

use crate::palette;
use crate::store::TrackId;

/// The sizes of text, in points.
pub mod text {
    /// Beside and on charts.
    pub const SMALL: f32 = 10.5;
    /// Everything else.
    pub const BODY: f32 = 12.5;
    /// Titles.
    pub const TITLE: f32 = 18.0;
}

/// The unit of spacing, in points: distances are multiples or halves of it.
pub const UNIT: f32 = 4.0;

/// Colours for everything that is drawn by hand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Theme {
    /// Whether egui is in dark mode.
    pub dark: bool,
    /// Background of charts.
    pub ground: Color32,
    /// Grid lines.
    pub grid: Color32,
    /// Text.
    pub text: Color32,
    /// Text of less weight. Its contrast is at least 4.5, as that of all text.
    pub weak_text: Color32,
    /// Frames within the good threshold, and what became faster.
    pub good: Color32,
    /// Frames between the thresholds.
    pub warn: Color32,
    /// Frames beyond the warning threshold, and all losses.
    pub bad: Color32,
    /// Text of the meaning of [`good`](Self::good).
    pub good_text: Color32,
    /// Text of the meaning of [`warn`](Self::warn).
    pub warn_text: Color32,
    /// Text of the meaning of [`bad`](Self::bad).
    pub bad_text: Color32,
    /// The cursor on the pinned frame.
    pub pin: Color32,
    /// The crosshair at the pointer, through all parts.
    pub crosshair: Color32,
    /// Selected ranges.
    pub selection: Color32,
    /// Lines of plots.
    pub line: Color32,
    /// The band between minimum and maximum of a plot.
    pub band: Color32,
}

impl Theme {
    /// Returns the theme for egui's visuals.
    #[must_use]
    pub fn of(visuals: &Visuals) -> Self {
        if visuals.dark_mode {
            Self {
                dark: true,
                ground: Color32::from_gray(20),
                grid: Color32::from_gray(48),
                text: Color32::from_gray(205),
                weak_text: Color32::from_gray(136),
                good: Color32::from_rgb(37, 174, 167),
                warn: Color32::from_rgb(240, 207, 76),
                bad: Color32::from_rgb(236, 79, 76),
                good_text: Color32::from_rgb(52, 184, 177),
                warn_text: Color32::from_rgb(240, 207, 76),
                bad_text: Color32::from_rgb(246, 106, 100),
                pin: Color32::from_rgb(250, 250, 250),
                crosshair: Color32::from_rgba_unmultiplied(255, 255, 255, 110),
                selection: Color32::from_rgba_unmultiplied(110, 165, 255, 50),
                line: Color32::from_rgb(118, 178, 255),
                band: Color32::from_rgba_unmultiplied(118, 178, 255, 70),
            }
        } else {
            Self {
                dark: false,
                ground: Color32::from_gray(252),
                grid: Color32::from_gray(222),
                text: Color32::from_gray(50),
                weak_text: Color32::from_gray(106),
                good: Color32::from_rgb(1, 141, 135),
                warn: Color32::from_rgb(229, 174, 13),
                bad: Color32::from_rgb(187, 6, 30),
                good_text: Color32::from_rgb(0, 112, 107),
                warn_text: Color32::from_rgb(132, 92, 0),
                bad_text: Color32::from_rgb(187, 6, 30),
                pin: Color32::from_rgb(20, 20, 20),
                crosshair: Color32::from_rgba_unmultiplied(0, 0, 0, 110),
                selection: Color32::from_rgba_unmultiplied(40, 105, 220, 40),
                line: Color32::from_rgb(30, 100, 200),
                band: Color32::from_rgba_unmultiplied(30, 100, 200, 60),
            }
        }
    }

    /// Gives a part of the interface the sizes and colours of text and the spacing of this theme,
    /// also where egui draws it.
    pub fn dress(&self, ui: &mut Ui) {
        let style = ui.style_mut();
        for (kind, font) in &mut style.text_styles {
            font.size = match kind {
                TextStyle::Small => text::SMALL,
                TextStyle::Heading => text::TITLE,
                _ => text::BODY,
            };
        }
        style.spacing.item_spacing = vec2(2.0 * UNIT, UNIT);
        style.spacing.button_padding = vec2(UNIT, UNIT / 2.0);
        style.visuals.widgets.noninteractive.fg_stroke.color = self.text;
        style.visuals.weak_text_color = Some(self.weak_text);
        style.visuals.hyperlink_color = self.line;
        style.visuals.warn_fg_color = self.warn_text;
        style.visuals.error_fg_color = self.bad_text;
    }

    /// Returns the colour of a call site's spans: its own colour, else one derived from its name.
    #[must_use]
    pub fn site(&self, site: Option<&SiteInfo>) -> Color32 {
        match site {
            None => Color32::from_gray(128),
            Some(SiteInfo {
                color: Some(color), ..
            }) => {
                let [_, r, g, b] = color.to_be_bytes();
                Color32::from_rgb(r, g, b)
            }
            Some(site) => Self::hashed(site.name.as_bytes()),
        }
    }

    /// Returns the colour of a call site by what its spans wait for: something that another thread
    /// holds, anything else, or nothing.
    #[must_use]
    pub fn wait(&self, site: Option<&SiteInfo>) -> Color32 {
        match site.and_then(Wait::of) {
            Some(wait) if wait.has_holder => self.bad,
            Some(_) => self.warn,
            None => Color32::from_gray(if self.dark { 162 } else { 205 }),
        }
    }

    /// Returns the colour of a thread.
    #[must_use]
    pub fn thread(&self, catalog: &Catalog, thread: ThreadId) -> Color32 {
        match catalog.thread_name(thread) {
            "" => Self::hashed(&thread.0.to_le_bytes()),
            name => Self::hashed(name.as_bytes()),
        }
    }

    /// Returns the colour of a track: that of its thread, or of the call site of its tasks.
    #[must_use]
    pub fn track(&self, catalog: &Catalog, track: TrackId) -> Color32 {
        match track {
            TrackId::Ended(thread) | TrackId::Scopes(thread) => self.thread(catalog, thread),
            TrackId::Tasks(site) => self.site(catalog.site(site)),
        }
    }

    /// Returns the colour of a duration, from dark and cold (100 ns) to light and hot (100 ms),
    /// with one step per order of magnitude.
    #[must_use]
    pub fn duration(&self, duration_ns: u64) -> Color32 {
        let magnitude = ((duration_ns.max(1) as f32).log10() - 2.0) / 6.0;
        let heat = magnitude.clamp(0.0, 1.0);
        // From blue over magenta and orange to yellow.
        palette::oklch(0.48 + 0.44 * heat, 0.14, 264.0 + 190.0 * heat)
    }

    /// Returns the dimmed form of a colour, for spans outside a search.
    #[must_use]
    pub fn dimmed(&self, color: Color32) -> Color32 {
        let ground = egui::Rgba::from(self.ground);
        let color = egui::Rgba::from(color);
        (ground * 0.82 + color * 0.18).into()
    }

    fn hashed(bytes: &[u8]) -> Color32 {
        let colors = palette::SCOPES;
        colors[fnv1a(bytes) as usize % colors.len()]
    }
}

/// The 32-bit FNV-1a hash gives a name the same colour in every run and on every machine.
fn fnv1a(bytes: &[u8]) -> u32 {
    let hash = bytes.iter().fold(0x811c_9dc5_u32, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    // The low bits alone are poor for short names.
    (hash ^ (hash >> 15)).wrapping_mul(0x2c1b_3c6d)
}

/// The colours of all call sites, by id.
#[derive(Clone, Debug, Default)]
pub struct SiteColors {
    colors: Vec<Color32>,
    dimmed: Vec<Color32>,
    waits: Vec<Color32>,
    made_for: Option<(bool, usize)>,
}

impl SiteColors {
    /// Updates the colours if the theme or the number of call sites changed.
    pub fn update(&mut self, catalog: &Catalog, theme: &Theme) {
        let key = Some((theme.dark, catalog.sites.len()));
        if self.made_for == key {
            return;
        }
        self.made_for = key;
        let sites = std::iter::once(None).chain(catalog.sites.iter().map(|site| site.as_deref()));
        self.colors = sites.clone().map(|site| theme.site(site)).collect();
        self.waits = sites.map(|site| theme.wait(site)).collect();
        self.dimmed = self
            .colors
            .iter()
            .map(|&color| theme.dimmed(color))
            .collect();
    }

    /// Returns the colour of a call site.
    #[inline]
    #[must_use]
    pub fn color(&self, site: SiteId) -> Color32 {
        self.colors
            .get(site.0 as usize)
            .copied()
            .unwrap_or(Color32::GRAY)
    }

    /// Returns the colour of a call site by what its spans wait for.
    #[inline]
    #[must_use]
    pub fn wait(&self, site: SiteId) -> Color32 {
        self.waits
            .get(site.0 as usize)
            .copied()
            .unwrap_or(Color32::GRAY)
    }

    /// Returns the dimmed colour of a call site, for spans outside a search.
    #[inline]
    #[must_use]
    pub fn dimmed(&self, site: SiteId) -> Color32 {
        self.dimmed
            .get(site.0 as usize)
            .copied()
            .unwrap_or(Color32::DARK_GRAY)
    }
}
