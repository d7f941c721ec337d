//! A summary of all frames of a capture: their durations, and the frames with losses.
//!
//! It takes 4 bytes per frame and a bounded list, for a capture of any length.

use crate::overview::OverviewMark;
use crate::pyramid::MinMaxPyramid;

/// Maximum number of stored durations: an hour at a thousand frames per second is a twentieth of
/// it.
const MAX_FRAMES: usize = 1 << 26;

/// Maximum number of listed frames with losses.
const MAX_TROUBLED: usize = 1 << 16;

/// Frames between two whose begins are stored.
const BEGIN_STEP: u64 = 64;

/// The summary of one frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FrameSummaryRow {
    /// NaN if the frame was lost.
    pub(crate) duration_ms: f32,
    /// Its begin in nanoseconds since that of the first frame; `None` if the frame was lost.
    pub(crate) begin_ns: Option<i64>,
    pub(crate) spans: u64,
    pub(crate) dropped_spans: u64,
    pub(crate) is_damaged: bool,
}

/// Columns over all frames known so far.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    durations_ms: MinMaxPyramid,
    /// The begins of some frames, with their numbers. They ascend.
    begins_ns: Vec<(i64, u64)>,
    frames: u64,
    troubled: Vec<(u64, OverviewMark)>,
    troubled_count: u64,
    spans: u64,
    dropped_spans: u64,
}

impl Summary {
    pub(crate) fn push(&mut self, row: &FrameSummaryRow) {
        let frame = self.frames;
        self.frames += 1;
        if self.durations_ms.len() < MAX_FRAMES {
            self.durations_ms.push(row.duration_ms);
        }
        if frame.is_multiple_of(BEGIN_STEP)
            && let Some(begin_ns) = row.begin_ns
            && self.begins_ns.last().is_none_or(|last| last.0 <= begin_ns)
        {
            self.begins_ns.push((begin_ns, frame));
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

    /// Returns the durations of the frames in milliseconds, in order; NaN for a lost frame.
    #[must_use]
    pub fn durations_ms(&self) -> &MinMaxPyramid {
        &self.durations_ms
    }

    /// Returns about which frame a moment belongs to, in nanoseconds since the begin of the first
    /// frame: the estimate is off by some dozens of frames at most where frames follow one another.
    #[must_use]
    pub fn frame_near(&self, ns: i64) -> u64 {
        let after = self.begins_ns.partition_point(|begin| begin.0 <= ns);
        let Some(&(from_ns, from)) = after.checked_sub(1).and_then(|at| self.begins_ns.get(at))
        else {
            return 0;
        };
        let last = (i64::MAX, self.frames.max(from));
        let &(to_ns, to) = self.begins_ns.get(after).unwrap_or(&last);
        let share = (ns - from_ns) as f64 / to_ns.saturating_sub(from_ns).max(1) as f64;
        from + (share.clamp(0.0, 1.0) * (to - from) as f64) as u64
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
