//! Colours, light and dark, and the sizes of text and spacing. `palette` has the colours of scopes.

use egui::{Color32, TextStyle, Ui, Visuals, vec2};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::measures::Measures;
use vor_capture::model::waits::Wait;

use crate::palette;
use crate::store::{OffCpu, TrackId};

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

/// Gaps and margins, in points.
pub mod space {
    use super::UNIT;

    /// Between things that are one, such as the lines of a text.
    pub const TIGHT: f32 = 0.5 * UNIT;
    /// Between a text and the edge of its place.
    pub const TEXT: f32 = UNIT;
    /// Between a text and the edge of a cell in a table.
    pub const CELL: f32 = 1.5 * UNIT;
    /// Between parts, such as two buttons.
    pub const PART: f32 = 2.0 * UNIT;
    /// Between a mark and what it marks, and between sections.
    pub const SECTION: f32 = 4.0 * UNIT;
}

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
        style.spacing.item_spacing = vec2(space::PART, space::TEXT);
        style.spacing.button_padding = vec2(space::TEXT, space::TIGHT);
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

    /// Returns the meaning of the colour of a span of a call site by what its thread waited for;
    /// `off_cpu` is its state if it did not run for most of its time.
    #[must_use]
    pub fn wait_of(site: Option<&SiteInfo>, off_cpu: Option<OffCpu>) -> WaitMeaning {
        match (site.and_then(Wait::of), off_cpu) {
            (Some(wait), _) if wait.has_holder => WaitMeaning::Held,
            (Some(_), _) => WaitMeaning::Other,
            (None, Some(OffCpu::Queued)) => WaitMeaning::Queued,
            (None, Some(OffCpu::Blocked)) => WaitMeaning::Blocked,
            (None, Some(OffCpu::Unknown)) => WaitMeaning::OffCpu,
            (None, None) => match site.map_or(Measures::NONE, Measures::of) {
                measures if measures.has(Measures::CPU) => WaitMeaning::Ran,
                _ => WaitMeaning::NotMeasured,
            },
        }
    }

    /// Returns the colour of a meaning.
    #[must_use]
    pub fn wait(&self, meaning: WaitMeaning) -> Color32 {
        let [r, g, b] = match (meaning, self.dark) {
            (WaitMeaning::Held, _) => return self.bad,
            (WaitMeaning::Other, _) => return self.warn,
            (WaitMeaning::Queued, true) => [230, 157, 17],
            (WaitMeaning::Queued, false) => [193, 122, 9],
            (WaitMeaning::Blocked, true) => [86, 98, 202],
            (WaitMeaning::Blocked, false) => [51, 75, 204],
            (WaitMeaning::OffCpu, true) => [160, 74, 139],
            (WaitMeaning::OffCpu, false) => [102, 39, 118],
            (WaitMeaning::Ran, true) => [148, 207, 159],
            (WaitMeaning::Ran, false) => [15, 152, 159],
            (WaitMeaning::NotMeasured, true) => [162; 3],
            (WaitMeaning::NotMeasured, false) => [205; 3],
        };
        Color32::from_rgb(r, g, b)
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

/// The meaning of the colour of a span by what its thread waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitMeaning {
    /// A wait for something that another thread holds.
    Held,
    /// Another wait of `vor::sync`.
    Other,
    /// A span that was runnable and had no processor for most of its time.
    Queued,
    /// A span that was blocked for most of its time.
    Blocked,
    /// A span that did not run for most of its time, for reasons that were not measured.
    OffCpu,
    /// A span that ran for most of its time.
    Ran,
    /// A span whose CPU time was not measured.
    NotMeasured,
}

impl WaitMeaning {
    /// All of them, in the order of the legend.
    pub const ALL: [Self; 7] = [
        Self::Held,
        Self::Other,
        Self::Queued,
        Self::Blocked,
        Self::OffCpu,
        Self::Ran,
        Self::NotMeasured,
    ];

    /// Returns its text in the legend.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Held => "waits for what another thread holds",
            Self::Other => "waits for something else, such as a message",
            Self::Queued => "mostly queued: runnable, without a processor",
            Self::Blocked => "mostly blocked: a file, the network, a timer",
            Self::OffCpu => "mostly off the CPU, the reason was not measured",
            Self::Ran => "mostly ran",
            Self::NotMeasured => "not measured",
        }
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
    /// By the state of a span: none, then those of `OffCpu`.
    waits: Vec<[Color32; 4]>,
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
        let states = [OffCpu::Queued, OffCpu::Blocked, OffCpu::Unknown].map(Some);
        let waits = |site| {
            let [queued, blocked, unknown] = states;
            let states = [None, queued, blocked, unknown];
            states.map(|state| theme.wait(Theme::wait_of(site, state)))
        };
        self.waits = sites.map(waits).collect();
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

    /// Returns the colour of a span of a call site by what its thread waited for.
    #[inline]
    #[must_use]
    pub fn wait(&self, site: SiteId, off_cpu: Option<OffCpu>) -> Color32 {
        let state = match off_cpu {
            None => 0,
            Some(OffCpu::Queued) => 1,
            Some(OffCpu::Blocked) => 2,
            Some(OffCpu::Unknown) => 3,
        };
        let of_site = self.waits.get(site.0 as usize);
        of_site.map_or(Color32::GRAY, |colors| colors[state])
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
