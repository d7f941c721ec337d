//! All frames of a capture at a glance: how long each took, and which of them lost something.
//!
//! 4 bytes a frame and a bounded list, whatever the length of the capture.

/// Most frames whose durations are kept: an hour of a thousand frames a second is a twentieth of it.
const MAX_FRAMES: usize = 1 << 26;

/// Most frames that are listed because something of them was lost.
const MAX_TROUBLED: usize = 1 << 16;

/// What happened to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Spans were dropped while it was recorded, since a ring was full.
    Dropped,
    /// A part of it, or all of it, is damaged.
    Damaged,
}

/// A frame that is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Troubled {
    /// Which frame of the capture, from 0.
    pub frame: u64,
    /// What happened to it.
    pub trouble: Trouble,
}

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
    troubled: Vec<Troubled>,
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
            Glance { is_damaged: true, .. } => Trouble::Damaged,
            Glance {
                dropped_spans: 1.., ..
            } => Trouble::Dropped,
            _ => return,
        };
        self.troubled_count += 1;
        if self.troubled.len() < MAX_TROUBLED {
            self.troubled.push(Troubled { frame, trouble });
        }
    }

    /// Returns how many frames were looked at, from the first one on.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns how long the frames took, in milliseconds, in their order; not a number where a frame was lost.
    #[must_use]
    pub fn durations_ms(&self) -> &MinMaxPyramid {
        &self.durations_ms
    }

    /// Returns the frames that are not whole, ascending; the first ones, where there are very many.
    #[must_use]
    pub fn troubled(&self) -> &[Troubled] {
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

/// Numbers in their order. It stands in for the pyramid that plots are drawn from, and has its names.
#[derive(Clone, Debug, Default)]
pub struct MinMaxPyramid(Vec<f32>);

impl MinMaxPyramid {
    /// Appends a number.
    pub fn push(&mut self, value: f32) {
        self.0.push(value);
    }

    /// Returns how many numbers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the numbers.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.0
    }
}
