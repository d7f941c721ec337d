//! The colours of spans.

use egui::Color32;
use vor_capture::model::catalog::SiteId;

use crate::store::{OffCpu, SiteSet, WideSpan};
use crate::theme::{SiteColors, Theme};

/// The meaning of the colours of spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ColorBy {
    /// A colour per call site.
    #[default]
    Scope,
    /// A colour per thread.
    Thread,
    /// Colder or hotter by duration.
    Duration,
    /// Waits by whether another thread held what they waited for, and other spans by what their
    /// thread did most of the time; where that was not measured, they are grey.
    Wait,
}

impl ColorBy {
    /// All variants, in the order of the menu.
    pub const ALL: [Self; 4] = [Self::Scope, Self::Thread, Self::Duration, Self::Wait];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scope => "scope",
            Self::Thread => "thread",
            Self::Duration => "duration",
            Self::Wait => "wait",
        }
    }
}

/// The values of a span that give its colour.
pub(super) struct Shown {
    pub(super) site: SiteId,
    pub(super) duration_ns: u32,
    pub(super) off_cpu: Option<OffCpu>,
}

/// The colours of the spans of a pass.
pub(super) struct SpanColors<'a> {
    theme: &'a Theme,
    color_by: ColorBy,
    sites: &'a SiteColors,
    /// The colours of durations, by the number of their bits.
    durations: [Color32; 33],
    /// The call sites of a search.
    wanted: Option<&'a SiteSet>,
}

impl<'a> SpanColors<'a> {
    pub(super) fn new(
        theme: &'a Theme,
        color_by: ColorBy,
        sites: &'a SiteColors,
        wanted: Option<&'a SiteSet>,
    ) -> Self {
        let mut durations = [Color32::GRAY; 33];
        if color_by == ColorBy::Duration {
            for (bits, color) in durations.iter_mut().enumerate() {
                *color = theme.duration((1_u64 << bits) * 3 / 4);
            }
        }
        Self {
            theme,
            color_by,
            sites,
            durations,
            wanted,
        }
    }

    /// Returns the call sites of the search, if there is one.
    pub(super) fn wanted(&self) -> Option<&'a SiteSet> {
        self.wanted
    }

    /// Returns the colour of a span, in a track of a colour.
    #[inline]
    pub(super) fn full(&self, shown: &Shown, track: Color32) -> Color32 {
        match self.color_by {
            ColorBy::Scope => self.sites.color(shown.site),
            ColorBy::Thread => track,
            ColorBy::Duration => {
                self.durations[(u32::BITS - shown.duration_ns.leading_zeros()) as usize]
            }
            ColorBy::Wait => self.sites.wait(shown.site, shown.off_cpu),
        }
    }

    /// Returns the colour of a span that a search does not want.
    #[inline]
    pub(super) fn dimmed(&self, shown: &Shown, track: Color32) -> Color32 {
        match self.color_by {
            ColorBy::Scope => self.sites.dimmed(shown.site),
            _ => self.theme.dimmed(self.full(shown, track)),
        }
    }

    /// Returns the colour in which a span with a label is drawn.
    pub(super) fn drawn(&self, wide: &WideSpan, track: Color32) -> Color32 {
        let shown = Shown {
            site: wide.span.site,
            duration_ns: u32::try_from(wide.span.duration_ns).unwrap_or(u32::MAX),
            off_cpu: wide.off_cpu,
        };
        match self.wanted.is_none_or(|wanted| wanted.has(shown.site)) {
            true => self.full(&shown, track),
            false => self.dimmed(&shown, track),
        }
    }
}
