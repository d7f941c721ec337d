//! The frames of a capture at a glance: when they were and how much they hold, without their spans.
//!
//! A capture of a gigabyte has some ten thousand records or some ten million; either way passing over it in this manner takes seconds at most, since
//! batches are jumped over (see [`Skim`]). A [`FrameScan`] is where such a pass stands. It may rest while frames are read, and go on when the file has grown.

use super::Recovered;
use super::capture::Source;
use super::skim::{Skim, Skimmed};
use crate::Error;
use crate::format::{FrameRecord, Header, Seek};

/// A frame without spans and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameSummary {
    /// Number of the frame within its set, as the program counts.
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
    /// Records of the frame that are missing. What is damaged inside a record shows only when the frame is read.
    pub lost_records: u64,
}

impl FrameSummary {
    pub(super) fn of(recovered: &Recovered) -> Self {
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

/// Where a pass over the frames of the main set stands; see [`Capture::next_summary`](super::Capture::next_summary).
#[derive(Debug)]
pub struct FrameScan {
    next: u64,
    skimming: Option<Skimming>,
}

impl FrameScan {
    /// Makes a pass that begins with frame `from`, counted from 0 in the order of the file.
    #[must_use]
    pub fn new(from: u64) -> Self {
        Self {
            next: from,
            skimming: None,
        }
    }

    /// Returns which frame comes next.
    #[must_use]
    pub fn next_frame(&self) -> u64 {
        self.next
    }

    /// Goes on behind the frame that was given.
    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// Returns the summary of the next frame in a capture of version 3; an error that [`is_corrupt`](Error::is_corrupt) when it was lost.
    pub(super) fn next_v3(
        &mut self,
        source: &mut Source,
        guide: &Guide<'_>,
        start: impl FnOnce() -> Result<Start, Error>,
    ) -> Result<FrameSummary, Error> {
        let skimming = match &mut self.skimming {
            Some(skimming) => skimming,
            None => {
                let start = start()?;
                self.skimming.insert(Skimming {
                    skim: Skim::new(guide.header, start.offset, start.seen),
                    at: start.ordinal,
                    place: 0,
                    found: None,
                })
            }
        };
        let summary = skimming.summary(self.next, source, guide);
        if summary.is_ok() || summary.as_ref().is_err_and(Error::is_corrupt) {
            self.next += 1;
        }
        summary
    }
}

/// Where a pass begins: at a place before the frame that is asked for.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) ordinal: u64,
    pub(super) offset: u64,
    pub(super) seen: Option<super::seen::Seen>,
}

/// What is known of a file: by which a frame behind damage is told from its neighbours.
#[derive(Debug)]
pub(super) struct Guide<'a> {
    pub(super) header: Header,
    /// Where frames end.
    pub(super) end: u64,
    /// Frames of the main set.
    pub(super) count: u64,
    /// Places of the file's index. Without one frames are counted as they are met.
    pub(super) seeks: &'a [Seek],
}

#[derive(Debug)]
struct Skimming {
    skim: Skim,
    /// Which frame comes next, were nothing lost since the last place.
    at: u64,
    /// Number of places of the index that lie before the frame that was met last.
    place: usize,
    /// A frame that was met, and which one it is.
    found: Option<(u64, FrameSummary)>,
}

impl Skimming {
    fn summary(&mut self, i: u64, source: &mut Source, guide: &Guide<'_>) -> Result<FrameSummary, Error> {
        loop {
            if let Some((ordinal, summary)) = self.found {
                if ordinal > i {
                    break;
                }
                self.found = None;
                if ordinal == i {
                    return Ok(summary);
                }
            }
            let Some(skimmed) = self.skim.next(source, guide.end)? else {
                break;
            };
            if skimmed.record.frame_set == 0
                && let Some(ordinal) = self.ordinal(&skimmed, guide)
            {
                self.at = ordinal.saturating_add(1);
                let summary = FrameSummary::of_record(&skimmed.record, skimmed.lost_records);
                self.found = Some((ordinal, summary));
            }
        }
        Err(Error::corrupt(format!(
            "frame {i} was expected, found that damage took it"
        )))
    }

    /// Says which frame was met: the next one, unless something was lost since the last place of the index.
    fn ordinal(&mut self, skimmed: &Skimmed, guide: &Guide<'_>) -> Option<u64> {
        let before = &guide.seeks[self.place.min(guide.seeks.len())..];
        let passed = before.partition_point(|seek| seek.offset <= skimmed.offset);
        self.place += passed;
        let Some(seek) = self.place.checked_sub(1).and_then(|at| guide.seeks.get(at)) else {
            return Some(self.at);
        };
        if passed > 0 {
            self.at = seek.ordinal;
        }
        if skimmed.clean_from <= seek.offset {
            return Some(self.at);
        }
        let next = guide.seeks.get(self.place);
        ordinal_by_index(seek, next, guide.count, &skimmed.record)
    }
}

/// Says which frame a record is behind a loss, where counting does not help: if between two places of the index every number was given, by its number.
pub(super) fn ordinal_by_index(
    from: &Seek,
    next: Option<&Seek>,
    count: u64,
    record: &FrameRecord,
) -> Option<u64> {
    let dense = match next {
        Some(next) => next.ordinal - from.ordinal == next.index.checked_sub(from.index)?,
        None => from.ordinal + 1 == count,
    };
    let ordinal = from.ordinal.checked_add(record.index.checked_sub(from.index)?)?;
    let end = next.map_or(count, |next| next.ordinal);
    (dense && ordinal < end).then_some(ordinal)
}
