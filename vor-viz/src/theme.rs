//! Colours, light and dark.

use egui::{Color32, Visuals, ecolor::Hsva};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::waits::Wait;

use crate::store::TrackId;

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
    /// Weak text.
    pub weak_text: Color32,
    /// Names on coloured spans.
    pub label: Color32,
    /// Frames within the good threshold.
    pub good: Color32,
    /// Frames between the thresholds.
    pub warn: Color32,
    /// Frames beyond the warning threshold, and all losses.
    pub bad: Color32,
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
        let text = visuals.text_color();
        let weak_text = visuals.weak_text_color();
        if visuals.dark_mode {
            Self {
                dark: true,
                ground: Color32::from_gray(20),
                grid: Color32::from_gray(48),
                text,
                weak_text,
                label: Color32::from_gray(16),
                good: Color32::from_rgb(86, 168, 102),
                warn: Color32::from_rgb(224, 174, 66),
                bad: Color32::from_rgb(226, 92, 82),
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
                text,
                weak_text,
                label: Color32::from_gray(20),
                good: Color32::from_rgb(58, 148, 78),
                warn: Color32::from_rgb(204, 140, 20),
                bad: Color32::from_rgb(204, 58, 50),
                pin: Color32::from_rgb(20, 20, 20),
                crosshair: Color32::from_rgba_unmultiplied(0, 0, 0, 110),
                selection: Color32::from_rgba_unmultiplied(40, 105, 220, 40),
                line: Color32::from_rgb(30, 100, 200),
                band: Color32::from_rgba_unmultiplied(30, 100, 200, 60),
            }
        }
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
            Some(site) => self.hashed(site.name.as_bytes()),
        }
    }

    /// Returns the colour of a call site by what its spans wait for: something that another thread
    /// holds, anything else, or nothing.
    #[must_use]
    pub fn wait(&self, site: Option<&SiteInfo>) -> Color32 {
        match site.and_then(Wait::of) {
            Some(wait) if wait.has_holder => self.bad,
            Some(_) => self.warn,
            None => Color32::from_gray(if self.dark { 150 } else { 205 }),
        }
    }

    /// Returns the colour of a thread.
    #[must_use]
    pub fn thread(&self, catalog: &Catalog, thread: ThreadId) -> Color32 {
        match catalog.thread_name(thread) {
            "" => self.hashed(&thread.0.to_le_bytes()),
            name => self.hashed(name.as_bytes()),
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

    /// Returns the colour of a duration: one hue per order of magnitude, from cold (100 ns) to hot
    /// (100 ms).
    #[must_use]
    pub fn duration(&self, duration_ns: u64) -> Color32 {
        let magnitude = ((duration_ns.max(1) as f32).log10() - 2.0) / 6.0;
        let hue = 0.62 - 0.62 * magnitude.clamp(0.0, 1.0);
        self.hue(hue, 0.0)
    }

    /// Returns the dimmed form of a colour, for spans outside a search.
    #[must_use]
    pub fn dimmed(&self, color: Color32) -> Color32 {
        let ground = egui::Rgba::from(self.ground);
        let color = egui::Rgba::from(color);
        (ground * 0.82 + color * 0.18).into()
    }

    fn hashed(&self, bytes: &[u8]) -> Color32 {
        let hash = fnv1a(bytes);
        let hue = (hash & 0xffff) as f32 / 65536.0;
        let shade = ((hash >> 16) & 0xff) as f32 / 255.0;
        self.hue(hue, shade)
    }

    /// Returns a colour that is bright enough for a [`label`](Self::label) on it.
    fn hue(&self, hue: f32, shade: f32) -> Color32 {
        let (saturation, value) = if self.dark {
            (0.42 + 0.16 * shade, 0.86 - 0.12 * shade)
        } else {
            (0.34 + 0.16 * shade, 0.95 - 0.08 * shade)
        };
        Hsva::new(hue, saturation, value, 1.0).into()
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
