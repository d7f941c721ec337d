//! Summaries of the frames of a capture: when they were and how much they hold, without their
//! spans.
//!
//! A capture of a gigabyte has some ten thousand records or some ten million; either way such a
//! pass takes seconds at most, since it jumps over batches (see [`Skim`]). A [`FrameScan`] is the
//! state of a pass. It may pause while frames are read, and continue when the file has grown.

use super::Recovered;
use super::capture::Source;
use super::ordinals::Places;
use super::skim::Skim;
use crate::Error;
use crate::format::{Checkpoint, FrameRecord, Header};

/// A frame without spans and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameSummary {
    /// Number of the frame within its set, as the program counted.
    pub index: u64,
    /// The mark that began the frame, in ticks.
    pub start_ticks: u64,
    /// The mark that ended the frame, in ticks.
    pub end_ticks: u64,
    /// Spans that ended in the frame.
    pub span_count: u64,
    /// Spans lost in the frame because a ring was full.
    pub dropped_spans: u64,
    /// Marks that were merged into the frame.
    pub merged_marks: u64,
    /// Records of the frame that are missing. Damage inside a record shows only when the frame is
    /// read.
    pub lost_records: u64,
}

impl FrameSummary {
    pub(in crate::reader) fn of(recovered: &Recovered) -> Self {
        let frame = &recovered.frame;
        Self {
            index: frame.index,
            start_ticks: frame.start_ticks,
            end_ticks: frame.end_ticks,
            span_count: frame.span_count,
            dropped_spans: frame.dropped_spans,
            merged_marks: frame.merged_marks,
            lost_records: recovered.lost_records,
        }
    }

    fn of_record(record: &FrameRecord, lost_records: u64) -> Self {
        Self {
            index: record.index,
            start_ticks: record.start_ticks,
            end_ticks: record.end_ticks,
            span_count: record.span_count,
            dropped_spans: record.dropped_spans,
            merged_marks: record.merged_marks,
            lost_records,
        }
    }
}

/// The state of a pass over the frames of the main set; see
/// [`Capture::next_summary`](super::Capture::next_summary).
#[derive(Debug)]
pub struct FrameScan {
    next: u64,
    /// By an index, and in the order of the file.
    by_index: Option<SkimCursor>,
    by_pass: Option<SkimCursor>,
}

impl FrameScan {
    /// Makes a pass that begins with frame `from`, counted from 0 in the order of the file.
    #[must_use]
    pub fn new(from: u64) -> Self {
        Self {
            next: from,
            by_index: None,
            by_pass: None,
        }
    }

    /// Returns the number of the next frame in the order of the file.
    #[must_use]
    pub fn next_frame(&self) -> u64 {
        self.next
    }

    /// Moves behind the frame that was returned.
    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// Finds a frame of the main set of a version-3 capture, from the current place of the pass or
    /// from a place before it.
    pub(super) fn find(
        &mut self,
        source: &mut Source,
        header: Header,
        target: Target<'_>,
    ) -> Result<Lookup, Error> {
        let Target {
            begin: (first, place),
            at,
            end,
            index,
        } = target;
        let slot = match index {
            Some(_) => &mut self.by_index,
            None => &mut self.by_pass,
        };
        let is_usable = |cursor: &SkimCursor| {
            let is_at_place = cursor.next == first && cursor.skim.offset() == place.offset;
            is_at_place || (first + 1..=at).contains(&cursor.next)
        };
        // A pass that fails begins anew.
        let mut cursor = slot.take().filter(is_usable).unwrap_or_else(|| SkimCursor {
            skim: Skim::new(header, place),
            next: first,
        });
        while let Some(skimmed) = cursor.skim.next(source, end)? {
            let is_broken = index.is_some() && cursor.skim.met_loss();
            if skimmed.record.frame_set != 0 && !is_broken {
                continue;
            }
            let record = &skimmed.record;
            let holds = |index: &Places| index.allows(cursor.next, record);
            let is_whole = skimmed.lost_records == 0;
            if is_broken || !index.is_none_or(|index| is_whole && holds(index)) {
                break;
            }
            cursor.next += 1;
            if cursor.next > at {
                *slot = Some(cursor);
                let summary = FrameSummary::of_record(&skimmed.record, skimmed.lost_records);
                return Ok(Lookup::Frame(summary));
            }
        }
        Ok(Lookup::None {
            is_broken: cursor.skim.met_loss(),
            next: cursor.next,
        })
    }
}

/// The result of [`FrameScan::find`].
#[derive(Debug)]
pub(super) enum Lookup {
    Frame(FrameSummary),
    /// The frame is not there, or not where an index has it.
    None {
        /// Whether a record was missing, damaged or out of place, so that no frame behind it is
        /// reached either.
        is_broken: bool,
        /// The frame that should have come.
        next: u64,
    },
}

/// The frame to find.
#[derive(Debug)]
pub(super) struct Target<'a> {
    /// The nearest place before it, and which frame begins there.
    pub(super) begin: (u64, Checkpoint),
    /// Its number in the index, or in the order of the file.
    pub(super) at: u64,
    /// Where frames end.
    pub(super) end: u64,
    pub(super) index: Option<&'a Places>,
}

#[derive(Debug)]
struct SkimCursor {
    skim: Skim,
    /// The number of the next frame.
    next: u64,
}
