//! A summary of all frames of a capture: their durations, and the frames with losses.
//!
//! It takes about 9 bytes per frame and a bounded list, for a capture of any length. The begin of a
//! frame is stored as its distance from that of the first of 64, which is exact to 60 ns where
//! these take a second.

use super::frame_numbers::FrameNumbers;
use crate::overview::OverviewMark;
use crate::pyramid::MinMaxPyramid;

/// Maximum number of stored frames: an hour at a thousand frames per second is a twentieth of it.
const MAX_FRAMES: usize = 1 << 26;

/// Maximum number of listed frames with losses.
const MAX_TROUBLED: usize = 1 << 16;

/// Frames between two whose begins are stored whole.
const BEGIN_STEP: usize = 64;

/// The summary of one frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FrameSummaryRow {
    /// The one that the program gave it; `None` if the frame was lost.
    pub(crate) number: Option<u64>,
    /// Its begin and end in nanoseconds since the begin of the first frame; `None` if the frame was
    /// lost.
    pub(crate) time_ns: Option<(i64, i64)>,
    pub(crate) spans: u64,
    pub(crate) dropped_spans: u64,
    pub(crate) is_damaged: bool,
}

/// Columns over all frames known so far.
#[derive(Clone, Debug)]
pub struct Summary {
    durations_ms: MinMaxPyramid,
    /// The begin of every 64th frame, and the distance of each frame from the last of these. A lost
    /// frame begins at the end of the one before. Begins ascend.
    bases_ns: Vec<i64>,
    offsets_ns: Vec<f32>,
    /// The last begin and the last end.
    last_ns: (i64, i64),
    numbers: FrameNumbers,
    frames: u64,
    troubled: Vec<(u64, OverviewMark)>,
    troubled_count: u64,
    spans: u64,
    dropped_spans: u64,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            durations_ms: MinMaxPyramid::new(),
            bases_ns: Vec::new(),
            offsets_ns: Vec::new(),
            last_ns: (0, 0),
            numbers: FrameNumbers::default(),
            frames: 0,
            troubled: Vec::new(),
            troubled_count: 0,
            spans: 0,
            dropped_spans: 0,
        }
    }
}

impl Summary {
    pub(crate) fn push(&mut self, row: &FrameSummaryRow) {
        let frame = self.frames;
        self.frames += 1;
        self.numbers.push(frame, row.number);
        if self.durations_ms.len() < MAX_FRAMES {
            let length_ns = row.time_ns.map(|(begin, end)| end.saturating_sub(begin));
            let duration_ms = length_ns.map_or(f64::NAN, |ns| ns as f64 / 1e6);
            self.durations_ms.push(duration_ms as f32);
        }
        if self.offsets_ns.len() < MAX_FRAMES {
            let (last_begin_ns, last_end_ns) = self.last_ns;
            let (begin_ns, end_ns) = row.time_ns.unwrap_or((last_end_ns, last_end_ns));
            let begin_ns = begin_ns.max(last_begin_ns);
            if self.offsets_ns.len().is_multiple_of(BEGIN_STEP) {
                self.bases_ns.push(begin_ns);
            }
            let base_ns = self.bases_ns.last().copied().unwrap_or(begin_ns);
            self.offsets_ns.push(begin_ns.abs_diff(base_ns) as f32);
            self.last_ns = (begin_ns, end_ns);
        }
        self.spans = self.spans.saturating_add(row.spans);
        self.dropped_spans = self.dropped_spans.saturating_add(row.dropped_spans);
        let trouble = match row {
            FrameSummaryRow {
                is_damaged: true, ..
            } => OverviewMark::Damaged,
            FrameSummaryRow {
                dropped_spans: 1.., ..
            } => OverviewMark::Dropped,
            _ => return,
        };
        self.troubled_count += 1;
        if self.troubled.len() < MAX_TROUBLED {
            self.troubled.push((frame, trouble));
        }
    }

    /// Returns the number of summarised frames, from the first one on.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the numbers that the program gave the frames.
    #[must_use]
    pub fn numbers(&self) -> &FrameNumbers {
        &self.numbers
    }

    /// Returns the durations of the frames in milliseconds, in order; NaN for a lost frame.
    #[must_use]
    pub fn durations_ms(&self) -> &MinMaxPyramid {
        &self.durations_ms
    }

    /// Returns the begin of a frame in nanoseconds since that of the first one; of a lost frame,
    /// the end of the frame before.
    #[must_use]
    pub fn begin_ns(&self, frame: u64) -> Option<i64> {
        let frame = usize::try_from(frame).ok()?;
        let offset_ns = *self.offsets_ns.get(frame)?;
        let base_ns = *self.bases_ns.get(frame / BEGIN_STEP)?;
        // Casts of floats saturate.
        Some(base_ns.saturating_add(offset_ns as i64))
    }

    /// Returns the last frame that begins by a moment, in nanoseconds since the begin of the first
    /// one; `None` before that.
    #[must_use]
    pub fn frame_at(&self, ns: i64) -> Option<u64> {
        let block = self.bases_ns.partition_point(|base_ns| *base_ns <= ns);
        let block = block.checked_sub(1)?;
        let (first, base_ns) = (block * BEGIN_STEP, self.bases_ns[block]);
        let end = (first + BEGIN_STEP).min(self.offsets_ns.len());
        let begins = self.offsets_ns.get(first..end)?;
        let begun =
            begins.partition_point(|offset_ns| base_ns.saturating_add(*offset_ns as i64) <= ns);
        Some((first + begun).checked_sub(1)? as u64)
    }

    /// Returns the incomplete frames with the reason, counted from 0 and ascending. A very long
    /// list holds only the first ones.
    #[must_use]
    pub fn troubled(&self) -> &[(u64, OverviewMark)] {
        &self.troubled
    }

    /// Returns the number of incomplete frames.
    #[must_use]
    pub fn troubled_count(&self) -> u64 {
        self.troubled_count
    }

    /// Returns the number of spans that ended in the frames.
    #[must_use]
    pub fn spans(&self) -> u64 {
        self.spans
    }

    /// Returns the number of spans that were dropped in the frames.
    #[must_use]
    pub fn dropped_spans(&self) -> u64 {
        self.dropped_spans
    }
}
