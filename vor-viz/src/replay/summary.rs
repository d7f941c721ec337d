//! All frames of a capture at a glance: how long each took, and which of them lost something.
//!
//! 4 bytes a frame and a bounded list, whatever the length of the capture.

use crate::overview::OverviewMark;
use crate::pyramid::MinMaxPyramid;

/// Most frames whose durations are kept: an hour of a thousand frames a second is a twentieth of
/// it.
const MAX_FRAMES: usize = 1 << 26;

/// Most frames that are listed because something of them was lost.
const MAX_TROUBLED: usize = 1 << 16;

/// A frame on its way into the columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Glance {
    /// Not a number when the frame was lost.
    pub(crate) duration_ms: f32,
    pub(crate) spans: u64,
    pub(crate) dropped_spans: u64,
    pub(crate) is_damaged: bool,
}

/// Columns over all frames that are known so far.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    durations_ms: MinMaxPyramid,
    frames: u64,
    troubled: Vec<(u64, OverviewMark)>,
    troubled_count: u64,
    spans: u64,
    dropped_spans: u64,
}

impl Summary {
    pub(crate) fn push(&mut self, glance: &Glance) {
        let frame = self.frames;
        self.frames += 1;
        if self.durations_ms.len() < MAX_FRAMES {
            self.durations_ms.push(glance.duration_ms);
        }
        self.spans = self.spans.saturating_add(glance.spans);
        self.dropped_spans = self.dropped_spans.saturating_add(glance.dropped_spans);
        let trouble = match glance {
            Glance {
                is_damaged: true, ..
            } => OverviewMark::Damaged,
            Glance {
                dropped_spans: 1.., ..
            } => OverviewMark::Dropped,
            _ => return,
        };
        self.troubled_count += 1;
        if self.troubled.len() < MAX_TROUBLED {
            self.troubled.push((frame, trouble));
        }
    }

    /// Returns how many frames were looked at, from the first one on.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns how long the frames took, in milliseconds, in their order; not a number where a
    /// frame was lost.
    #[must_use]
    pub fn durations_ms(&self) -> &MinMaxPyramid {
        &self.durations_ms
    }

    /// Returns the frames that are not whole, counted from 0 and ascending, and why; the first
    /// ones, where there are very many.
    #[must_use]
    pub fn troubled(&self) -> &[(u64, OverviewMark)] {
        &self.troubled
    }

    /// Returns how many frames are not whole.
    #[must_use]
    pub fn troubled_count(&self) -> u64 {
        self.troubled_count
    }

    /// Returns how many spans ended in the frames.
    #[must_use]
    pub fn spans(&self) -> u64 {
        self.spans
    }

    /// Returns how many spans were dropped in the frames.
    #[must_use]
    pub fn dropped_spans(&self) -> u64 {
        self.dropped_spans
    }
}
