//! Skips the records of one ring while nothing needs the spans. Spans are counted, and only texts
//! are kept, since spans that are collected later may need them.

use super::collect::{Interner, Pending, PendingTexts, RUN, plain_run};
use crate::hot::ring::{SITE_BITS, Slot, Special, TAG_LONG, TAG_SPECIAL, extensions};

/// Skips the records of `slots`, in order, up to the first that ended after `limit_ticks`, and adds
/// the number of spans among them to `spans`. Returns the number of slots skipped.
pub(super) fn count_spans(
    slots: &[Slot],
    limit_ticks: u64,
    texts: &mut PendingTexts,
    interner: &mut Interner,
    spans: &mut u64,
) -> usize {
    let (mut at, mut count) = (0, 0);
    while let Some(&[word0, word1]) = slots.get(at) {
        let tag = (word1 >> 32) as u32;
        let rest = &slots[at..];
        let len = 1 + extensions(tag);
        if len == 1 && tag >> SITE_BITS == 0 {
            let plain = plain_run(&rest[..rest.len().min(RUN)], limit_ticks);
            if plain == 0 {
                break;
            }
            count += plain;
            at += plain;
            continue;
        }
        // Records are published whole, so the slots are there; a broken ring must not become a
        // panic in the program.
        let Some(more) = rest.get(1..len) else {
            at = slots.len();
            break;
        };
        let low = word1 & 0xffff_ffff;
        let is_span = tag & TAG_SPECIAL == 0;
        let duration = if is_span {
            match more.last() {
                Some(last) if tag & TAG_LONG != 0 => low | last[0] << 32,
                _ => low,
            }
        } else {
            match Special::from_code(tag & ((1 << SITE_BITS) - 1)) {
                Some(Special::Async | Special::Poll) => more.first().map_or(0, |second| second[1]),
                Some(Special::Text) => {
                    texts.insert(word0, Pending::unread(more, low as usize, interner));
                    at += len;
                    continue;
                }
                Some(Special::Message | Special::Begin | Special::Step | Special::Flow) => 0,
                None => {
                    at += len;
                    continue;
                }
            }
        };
        if word0.saturating_add(duration) > limit_ticks {
            break;
        }
        count += usize::from(is_span);
        at += len;
    }
    *spans += count as u64;
    at
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::drain::collect::{self, Context, SpareValues};
    use crate::hot::callsite::Words;
    use crate::hot::ring::{MAX_SITE, TAG_POLL, word1};
    use vor_capture::model::batch::ThreadBatch;

    fn special(what: Special, ticks: u64, low: u64, second: Slot) -> [Slot; 2] {
        let tag = TAG_SPECIAL | 1 << SITE_BITS | what as u32;
        [[ticks, u64::from(tag) << 32 | low], second]
    }

    /// Records of all kinds, in order of time.
    fn records() -> Vec<Vec<Slot>> {
        let long = TAG_LONG | 1 << SITE_BITS | 7;
        let mut records: Vec<Vec<Slot>> = (0..50).map(|i| vec![[100 + i, word1(3, 2)]]).collect();
        records.push(special(Special::Text, 1, 3, [0x41_4243, 0]).into());
        records.push(vec![[200, word1(20, 1 << SITE_BITS | 4)], [1, 0]]);
        records.push(vec![
            [210, word1(20, TAG_POLL | 1 << SITE_BITS | 4)],
            [9, 4],
        ]);
        records.push(special(Special::Begin, 220, 4, [9, 8]).into());
        records.push(special(Special::Poll, 221, 4, [9, 12]).into());
        records.push(special(Special::Step, 240, 4, [9, 0]).into());
        records.push(special(Special::Async, 150, 4, [9, 95]).into());
        records.push(special(Special::Message, 250, 2, [0x4849, 0]).into());
        records.push(special(Special::Flow, 251, 0, [5, 0]).into());
        records.push(vec![[260, word1(5, long)], [1, 0]]);
        records.push(vec![[u64::MAX, word1(0, TAG_SPECIAL | MAX_SITE)]]);
        records.push(vec![[1 << 33, word1(3, 2)]]);
        records
    }

    #[test]
    fn counted_slots_are_those_that_would_be_collected() {
        let slots = records().concat();
        let limits = (90..300).chain((1 << 32)..(1 << 32) + 300).chain([1 << 34]);
        for limit in limits {
            let (mut texts, mut interner, mut spans) =
                (PendingTexts::default(), Interner::default(), 0);
            let passed = count_spans(&slots, limit, &mut texts, &mut interner, &mut spans);
            let mut batch = ThreadBatch::default();
            let mut context = Context {
                texts: &mut PendingTexts::default(),
                interner: &mut Interner::default(),
                spare: &mut SpareValues::default(),
                words: &mut |_| Words::default(),
            };
            let taken = collect::collect(&slots, limit, &mut batch, &mut context);
            assert_eq!(
                (passed, spans),
                (taken, batch.len() as u64),
                "limit {limit}"
            );
        }
    }

    #[test]
    fn a_skipped_text_is_kept_for_a_later_span() {
        let (mut texts, mut interner, mut spans) =
            (PendingTexts::default(), Interner::default(), 0);
        let text = special(Special::Text, 1, 3, [0x41_4243, 0]);
        assert_eq!(
            count_spans(&text, 0, &mut texts, &mut interner, &mut spans),
            2
        );
        assert_eq!(texts.take(1, &mut interner).as_deref(), Some("CBA"));
        assert_eq!(spans, 0);
    }

    #[test]
    fn a_record_without_its_end_is_skipped() {
        let (mut texts, mut interner, mut spans) =
            (PendingTexts::default(), Interner::default(), 0);
        let torn = [[1, word1(20, 2 << SITE_BITS | 4)], [1, 0]];
        assert_eq!(
            count_spans(&torn, 100, &mut texts, &mut interner, &mut spans),
            2
        );
        assert_eq!(spans, 0);
    }
}
