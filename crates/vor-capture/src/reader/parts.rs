//! Parts of a capture: pieces that can be read on their own, in any order.
//!
//! A part is some records of a version-3 file, or a frame of a version-2 file. A [`PartScan`] finds
//! the parts of a file by the heads of its records, without reading its spans. So a viewer can read
//! a capture from its end to its beginning, or only what lies in a range of time.

use super::capture::Source;
use super::capture_v3::CaptureV3;
use super::records::{Entry, Item, Records};
use crate::Error;
use crate::format::{Checkpoint, RECORD_HEAD_BYTES, Record, RecordHead};
use crate::model::batch::ThreadBatch;
use crate::model::frame::MetricValue;

/// Bytes of records after which a part ends: about 50 000 spans, which take a millisecond to
/// decode.
const PART_BYTES: u64 = 128 << 10;

/// Bytes of a read of heads. The heads of large records are read one by one.
const HEADS_BYTES: usize = 16 << 10;

/// A piece of a capture that can be read on its own.
///
/// Parts are numbered in the order of the file, which is the order in which their spans ended. A
/// record that comes a second time, as in a file that was put together wrongly, is in no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
pub struct Part {
    /// Bytes of a version-3 file, or frames of a version-2 file.
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// The contents of a part; see [`Capture::part`](super::Capture::part).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PartContents {
    /// Its spans, messages and tasks. A thread may have several entries, in the order of the file.
    pub threads: Vec<ThreadBatch>,
    /// The frames of the main set that ended in it.
    pub frames: Vec<PartFrame>,
    /// Number of places in it that could not be read.
    pub losses: u64,
}

/// A frame that ended in a part.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PartFrame {
    /// The mark that began it, in ticks.
    pub start_ticks: u64,
    /// The mark that ended it, in ticks.
    pub end_ticks: u64,
    /// Its values, ascending by column.
    pub metrics: Vec<MetricValue>,
}

/// The state of a search for parts; see [`Capture::next_part`](super::Capture::next_part).
#[derive(Debug)]
pub struct PartScan {
    /// The place behind the last part.
    pub(super) next: u64,
    part_bytes: u64,
    /// Bytes of the file from `heads_offset` on.
    heads: Vec<u8>,
    heads_offset: u64,
    /// The number that the next record has, unless something is missing or comes twice.
    next_seq: u32,
    /// The places of records that come a second time before the place `copies_end`, ascending.
    copies: Vec<u64>,
    copies_end: u64,
    /// Number of copies that were left out.
    copies_passed: u64,
}

impl Default for PartScan {
    fn default() -> Self {
        Self::new()
    }
}

impl PartScan {
    /// Makes a search from the beginning of a capture, for parts of about 50 000 spans.
    #[must_use]
    pub fn new() -> Self {
        Self::with_part_bytes(PART_BYTES)
    }

    /// Makes a search from the beginning of a capture, for parts of at least `bytes` bytes of the
    /// file. In a version-2 capture, a part is a frame nonetheless.
    #[must_use]
    pub fn with_part_bytes(bytes: u64) -> Self {
        Self {
            next: 0,
            part_bytes: bytes,
            heads: Vec::new(),
            heads_offset: 0,
            next_seq: 0,
            copies: Vec::new(),
            copies_end: 0,
            copies_passed: 0,
        }
    }

    /// Returns how far the search is: in bytes of the file, in a version-2 capture in frames.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Returns the number of records that came a second time, which no part holds.
    #[must_use]
    pub fn copies(&self) -> u64 {
        self.copies_passed
    }

    /// Finds the next part of a version-3 capture.
    pub(super) fn next_v3(&mut self, capture: &mut CaptureV3) -> Result<Option<Part>, Error> {
        let (source, records, first, end) = capture.raw();
        let mut begin = self.next.max(first);
        let mut at = begin;
        while at < end {
            let head = self.head(source, records, at, end)?;
            let next = |head: &RecordHead| at + head.record_bytes() as u64;
            // A record of which bytes are missing may claim to go on beyond the end.
            let Some(head) = head.filter(|head| next(head) <= end) else {
                // Damage, or the end of a file that is being written.
                let Some(next) = record_behind(source, records, at, end)? else {
                    break;
                };
                at = next;
                continue;
            };
            if self.is_copy(source, records, at, first, head.seq)? {
                self.copies_passed += 1;
                if at > begin {
                    self.next = next(&head);
                    return Ok(Some(Part { begin, end: at }));
                }
                at = next(&head);
                begin = at;
                continue;
            }
            at = next(&head);
            if head.is_batch() && at - begin >= self.part_bytes {
                break;
            }
        }
        self.next = at;
        Ok((at > begin).then_some(Part { begin, end: at }))
    }

    /// Returns whether the record at a place comes a second time. Heads only arouse suspicion: the
    /// first record of the number may be damaged. So the records up to the place are read then.
    fn is_copy(
        &mut self,
        source: &mut Source,
        records: &mut Records,
        at: u64,
        first: u64,
        seq: u32,
    ) -> Result<bool, Error> {
        let ahead = seq.wrapping_sub(self.next_seq).cast_signed();
        if ahead >= 0 {
            self.next_seq = seq.wrapping_add(1);
            return Ok(false);
        }
        if at >= self.copies_end {
            (self.copies, self.copies_end) = copies(source, records, first)?;
        }
        Ok(self.copies.binary_search(&at).is_ok())
    }

    /// Returns the head of the record at a place, if there is one.
    fn head(
        &mut self,
        source: &mut Source,
        records: &Records,
        at: u64,
        end: u64,
    ) -> Result<Option<RecordHead>, Error> {
        let len = RECORD_HEAD_BYTES as u64;
        if end - at < len {
            return Ok(None);
        }
        let heads = self.heads_offset..self.heads_offset + self.heads.len() as u64;
        if at < heads.start || at + len > heads.end {
            self.heads.clear();
            self.heads_offset = at;
            let most = usize::try_from(end - at).unwrap_or(usize::MAX);
            source.append_at(at, most.min(HEADS_BYTES), &mut self.heads)?;
        }
        let bytes = self.heads.get((at - self.heads_offset) as usize..);
        let bytes = bytes.filter(|bytes| bytes.len() >= RECORD_HEAD_BYTES);
        Ok(bytes.and_then(|bytes| RecordHead::parse(records.decoder().header(), bytes)))
    }
}

/// Returns the place of the first whole record at or behind a place; `None` if there is none before
/// the end.
fn record_behind(
    source: &mut Source,
    records: &mut Records,
    at: u64,
    end: u64,
) -> Result<Option<u64>, Error> {
    records.resume(Checkpoint::anywhere(at));
    while let Some(item) = next_item(source, records, false)? {
        if let Item::Entry(Entry { offset, .. }) = item {
            return Ok((offset < end && offset > at).then_some(offset));
        }
    }
    Ok(None)
}

/// Returns the places of all records that come a second time, and the end of what was read.
fn copies(
    source: &mut Source,
    records: &mut Records,
    first: u64,
) -> Result<(Vec<u64>, u64), Error> {
    records.resume(Checkpoint::first(first));
    let mut copies = Vec::new();
    while let Some(item) = next_item(source, records, false)? {
        if let Item::Entry(Entry {
            offset,
            is_repeated: true,
            ..
        }) = item
        {
            copies.push(offset);
        }
    }
    Ok((copies, records.offset()))
}

/// Reads a part of a version-3 capture.
pub(super) fn read_v3(capture: &mut CaptureV3, part: Part) -> Result<PartContents, Error> {
    let (source, records, _, _) = capture.raw();
    records.resume(Checkpoint::anywhere(part.begin));
    let mut contents = PartContents::default();
    // A loss may be reported when the record behind it was read already.
    let mut met_loss = false;
    while records.offset() < part.end || met_loss {
        let item = next_item(source, records, true)?;
        met_loss = matches!(item, Some(Item::Loss(_)));
        match item {
            None => break,
            Some(Item::Loss(_)) => contents.losses += 1,
            Some(Item::Entry(entry)) if entry.offset >= part.end => break,
            Some(Item::Entry(Entry {
                record: Some(Record::Batch(threads)),
                is_repeated: false,
                ..
            })) => contents.threads.extend(threads),
            Some(Item::Entry(Entry {
                record: Some(Record::Frame(frame)),
                is_repeated: false,
                ..
            })) if frame.frame_set == 0 => contents.frames.push(PartFrame {
                start_ticks: frame.start_ticks,
                end_ticks: frame.end_ticks,
                metrics: frame.metrics,
            }),
            Some(Item::Entry(_)) => {}
        }
    }
    Ok(contents)
}

fn next_item(
    source: &mut Source,
    records: &mut Records,
    spans: bool,
) -> Result<Option<Item>, Error> {
    let mut input = source.at(records.decoder().end_offset());
    let item = records.next(&mut input, spans);
    item.map_err(|error| Error::io("cannot read the capture", error))
}
