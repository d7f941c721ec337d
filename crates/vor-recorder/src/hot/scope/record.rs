//! The record of a span, built before it is pushed. Used for spans that the fast path does not
//! write directly into the ring.

use super::{Opened, word};
use crate::hot::args::MAX_MEASURED_WORDS;
use crate::hot::callsite::MAX_ARGS;
use crate::hot::ring::{MAX_SITE, SITE_BITS, Slot, TAG_LONG, word1};

/// Most slots of a span: the first slot, pairs of arguments and measures, and the high half of the
/// duration.
const MAX_SLOTS: usize = MAX_ARGS / 2 + MAX_MEASURED_WORDS.div_ceil(2) + 2;

/// The record of a span.
pub(super) struct Record {
    slots: [Slot; MAX_SLOTS],
    used: usize,
}

impl Record {
    /// Makes the record of a span with the words of its arguments and of its measures.
    #[inline]
    pub(super) fn new(opened: Opened, duration_ticks: u64, words: [&[u64]; 2]) -> Self {
        let mut record = Self {
            slots: [[0; 2]; MAX_SLOTS],
            used: 1,
        };
        let mut tag = opened.flagged & MAX_SITE;
        for pair in words.iter().flat_map(|words| words.chunks(2)) {
            record.put([word(pair, 0), word(pair, 1)]);
        }
        if duration_ticks > u64::from(u32::MAX) {
            record.put([duration_ticks >> 32, 0]);
            tag |= TAG_LONG;
        }
        tag |= (record.used as u32 - 1) << SITE_BITS;
        record.slots[0] = [opened.start_ticks, word1(duration_ticks as u32, tag)];
        record
    }

    fn put(&mut self, slot: Slot) {
        self.slots[self.used] = slot;
        self.used += 1;
    }

    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots[..self.used]
    }
}
