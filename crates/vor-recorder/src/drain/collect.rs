//! Converts the slots of one ring to the columns of a [`ThreadBatch`].

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::filled;
use vor_capture::model::batch::{
    ArgValue, AsyncSpan, FlowPoint, FlowStage, Message, SpanArgs, TaskEvent, TaskEventKind,
    ThreadBatch,
};
use vor_capture::model::catalog::SiteId;

use crate::hot::args;
use crate::hot::callsite::Words;
use crate::hot::ring::{
    KEPT_TEXT, KEPT_TEXTS, SITE_BITS, Slot, Special, TAG_LONG, TAG_POLL, TAG_SPECIAL, extensions,
};

/// Most spans that are taken from one thread at a time. Their columns fit the second-level cache
/// together with what the sinks keep for them.
pub(super) const MAX_SPANS: usize = 1 << 13;

/// The value of a text argument for which the ring had no room.
const LOST_TEXT: &str = "(lost: the ring was full)";

/// Slots that are processed together: they stay in the first-level cache for all loops over them.
pub(super) const RUN: usize = 512;
/// Slots that are tested one by one for plain spans, before the following ones are tested together.
const FIRST: usize = 4;
/// Slots that are tested together for plain spans.
const PART: usize = 32;

/// Texts of one thread that were pushed and whose span has not come yet.
#[derive(Debug, Default)]
pub(super) struct PendingTexts {
    /// Texts for one span each, by ascending key. `None` once the span has come; the first and the
    /// last are never `None`.
    waiting: VecDeque<(u64, Option<Pending>)>,
    /// Texts for any number of spans, each at the index of its key, until another one replaces it.
    kept: Vec<(u64, Pending)>,
}

/// A text that was pushed.
#[derive(Clone, Debug)]
pub(super) enum Pending {
    Read(Arc<str>),
    /// The slots of its record, while nothing reads the spans.
    Unread {
        slots: [Slot; SHORT_SLOTS],
        bytes: u8,
    },
}

/// Most slots of a text that may stay unread.
const SHORT_SLOTS: usize = 4;

impl Pending {
    /// Makes a text of `bytes` bytes from the slots of a record. A short text is not read yet.
    pub(super) fn unread(more: &[Slot], bytes: usize, interner: &mut Interner) -> Self {
        if more.len() > SHORT_SLOTS || bytes > more.len() * 16 {
            return Self::Read(interner.read(more, bytes));
        }
        let mut slots = [[0; 2]; SHORT_SLOTS];
        slots[..more.len()].copy_from_slice(more);
        Self::Unread {
            slots,
            bytes: bytes as u8,
        }
    }

    fn read(&self, interner: &mut Interner) -> Arc<str> {
        match self {
            Self::Read(text) => Arc::clone(text),
            Self::Unread { slots, bytes } => interner.read(slots, usize::from(*bytes)),
        }
    }
}

/// Most pending texts per thread. A text waits while its scope is open, so this bounds open scopes
/// with text, and the texts of dropped spans.
const MAX_PENDING: usize = 1 << 14;

impl PendingTexts {
    pub(super) fn insert(&mut self, key: u64, text: Pending) {
        if key & KEPT_TEXT != 0 {
            self.keep(key, text);
            return;
        }
        if self.waiting.len() >= MAX_PENDING {
            // Drop the older half, most of which belongs to dropped spans.
            self.waiting.drain(..MAX_PENDING / 2);
        }
        if self.waiting.back().is_none_or(|last| last.0 < key) {
            self.waiting.push_back((key, Some(text)));
        }
    }

    fn keep(&mut self, key: u64, text: Pending) {
        if self.kept.is_empty() {
            let nothing = || (0, Pending::Read(Arc::from("")));
            self.kept.resize_with(KEPT_TEXTS as usize, nothing);
        }
        self.kept[(key % KEPT_TEXTS) as usize] = (key, text);
    }

    pub(super) fn take(&mut self, key: u64, interner: &mut Interner) -> Option<Arc<str>> {
        if key & KEPT_TEXT != 0 {
            let (kept, text) = self.kept.get((key % KEPT_TEXTS) as usize)?;
            return (*kept == key).then(|| text.read(interner));
        }
        let at = self
            .waiting
            .binary_search_by_key(&key, |waiting| waiting.0)
            .ok()?;
        let text = self.waiting[at].1.take();
        while self.waiting.pop_back_if(|last| last.1.is_none()).is_some() {}
        while self
            .waiting
            .pop_front_if(|first| first.1.is_none())
            .is_some()
        {}
        text.map(|text| text.read(interner))
    }
}

/// Texts seen before, so that a repeated text is stored once.
#[derive(Debug, Default)]
pub(super) struct Interner {
    texts: FxHashMap<Arc<str>, ()>,
    /// Memory for the bytes of one text.
    bytes: Vec<u8>,
}

/// Most texts that are kept; then the interner is cleared.
const MAX_INTERNED: usize = 1 << 14;

impl Interner {
    fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some((known, ())) = self.texts.get_key_value(text) {
            return Arc::clone(known);
        }
        if self.texts.len() >= MAX_INTERNED {
            self.texts.clear();
        }
        let text: Arc<str> = Arc::from(text);
        self.texts.insert(Arc::clone(&text), ());
        text
    }

    /// Returns the text of `len` bytes in the slots of a record.
    fn read(&mut self, slots: &[Slot], len: usize) -> Arc<str> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        for word in slots.as_flattened() {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.truncate(len);
        let text = self.intern(&String::from_utf8_lossy(&bytes));
        self.bytes = bytes;
        text
    }
}

/// Emptied lists of arguments, for later spans.
#[derive(Debug, Default)]
pub(super) struct SpareValues(Vec<Vec<ArgValue>>);

/// Most emptied lists that are kept: the need of a thousand records a millisecond until the next
/// pass.
const MAX_SPARE_VALUES: usize = 1 << 14;

impl SpareValues {
    /// Takes the lists of spans that have been delivered.
    pub(super) fn take_from(&mut self, share: &mut ThreadBatch) {
        for mut args in share.args.drain(..) {
            if self.0.len() < MAX_SPARE_VALUES {
                args.values.clear();
                self.0.push(args.values);
            }
        }
    }
}

/// The state besides the slots that reading them needs.
pub(super) struct Context<'a> {
    pub(super) texts: &'a mut PendingTexts,
    pub(super) interner: &'a mut Interner,
    pub(super) spare: &'a mut SpareValues,
    /// The meaning of the words of records, by site.
    pub(super) words: &'a mut dyn FnMut(SiteId) -> Words,
}

/// Appends the records of `slots`, in order, to `out`, up to the first that ended after
/// `limit_ticks`. Returns the number of slots taken.
pub(super) fn collect(
    slots: &[Slot],
    limit_ticks: u64,
    out: &mut ThreadBatch,
    context: &mut Context<'_>,
) -> usize {
    let mut at = 0;
    while at < slots.len() && out.len() < MAX_SPANS {
        let rest = &slots[at..];
        let room = MAX_SPANS - out.len();
        let plain = plain_run(&rest[..rest.len().min(RUN).min(room)], limit_ticks);
        append_plain(&rest[..plain], out);
        at += plain;
        if plain > 0 {
            continue;
        }
        let Some(len) = take_record(rest, limit_ticks, out, context) else {
            break;
        };
        at += len;
    }
    at
}

/// Returns how many slots from the first on are plain spans that ended by `limit_ticks`.
pub(super) fn plain_run(slots: &[Slot], limit_ticks: u64) -> usize {
    let is_plain = |slot: &&Slot| {
        slot[1] >> (32 + SITE_BITS) == 0
            && slot[0].wrapping_add(slot[1] & 0xffff_ffff) <= limit_ticks
    };
    // If most records have extensions, few slots are tested unnecessarily.
    let first = slots.iter().take(FIRST).take_while(is_plain).count();
    if first < FIRST {
        return first;
    }
    // Usually all are plain, which a loop without a branch per slot finds.
    for (i, part) in slots.chunks(PART).enumerate() {
        if !are_plain(part, limit_ticks) {
            return i * PART + part.iter().take_while(is_plain).count();
        }
    }
    slots.len()
}

/// Returns whether all slots are plain spans that ended by `limit_ticks`; for ticks of more than 63
/// bits, `false` in any case.
///
/// Vectors of 64-bit numbers have no comparison that every processor knows. So the signs of
/// differences are collected.
fn are_plain(slots: &[Slot], limit_ticks: u64) -> bool {
    let limit_ticks = limit_ticks.min(i64::MAX as u64);
    let (mut tags, mut signs) = (0, 0);
    for &[start_ticks, word] in slots {
        let end_ticks = start_ticks.wrapping_add(word & 0xffff_ffff);
        tags |= word;
        signs |= end_ticks | limit_ticks.wrapping_sub(end_ticks);
    }
    tags >> (32 + SITE_BITS) == 0 && signs >> 63 == 0
}

fn append_plain(slots: &[Slot], out: &mut ThreadBatch) {
    out.start_ticks.extend(slots.iter().map(|slot| slot[0]));
    out.duration_ticks
        .extend(slots.iter().map(|slot| slot[1] & 0xffff_ffff));
    out.sites
        .extend(slots.iter().map(|slot| SiteId((slot[1] >> 32) as u32)));
}

/// Takes the first record of `slots`, of any kind. Returns its length in slots, or `None` when it
/// ended after the limit.
fn take_record(
    slots: &[Slot],
    limit_ticks: u64,
    out: &mut ThreadBatch,
    context: &mut Context<'_>,
) -> Option<usize> {
    let [word0, word1] = slots[0];
    let tag = (word1 >> 32) as u32;
    let low = word1 & 0xffff_ffff;
    let len = 1 + extensions(tag);
    // Records are published whole, so the slots are there; a broken ring must not become a panic in
    // the program.
    let Some(more) = slots.get(1..len) else {
        return Some(slots.len());
    };
    if tag & TAG_SPECIAL != 0 {
        match Special::from_code(tag & ((1 << SITE_BITS) - 1)) {
            Some(Special::Text) => {
                let text = Pending::Read(context.interner.read(more, low as usize));
                context.texts.insert(word0, text);
            }
            Some(Special::Message) => {
                if word0 > limit_ticks {
                    return None;
                }
                let text = context.interner.read(more, low as usize);
                out.messages.push(filled!(Message { ticks: word0, text }));
            }
            Some(Special::Async) => {
                let [id, duration_ticks] = more.first().copied().unwrap_or_default();
                let task = filled!(AsyncSpan {
                    id,
                    site: SiteId(low as u32),
                    start_ticks: word0,
                    duration_ticks,
                });
                if task.end_ticks() > limit_ticks {
                    return None;
                }
                out.async_spans.push(task);
            }
            Some(special @ (Special::Poll | Special::Step | Special::Begin)) => {
                let [task, word] = more.first().copied().unwrap_or_default();
                let event = filled!(TaskEvent {
                    task,
                    site: SiteId(low as u32),
                    start_ticks: word0,
                    kind: match special {
                        Special::Poll => TaskEventKind::Poll {
                            duration_ticks: word
                        },
                        Special::Begin => TaskEventKind::Begin { given_id: word },
                        _ => TaskEventKind::Step,
                    },
                });
                if event.end_ticks() > limit_ticks {
                    return None;
                }
                out.task_events.push(event);
            }
            Some(Special::Flow) => {
                if word0 > limit_ticks {
                    return None;
                }
                let [flow, _] = more.first().copied().unwrap_or_default();
                let stage = match low {
                    0 => FlowStage::Begin,
                    1 => FlowStage::Step,
                    _ => FlowStage::End,
                };
                out.flows.push(filled!(FlowPoint {
                    ticks: word0,
                    flow,
                    stage,
                }));
            }
            None => {}
        }
        return Some(len);
    }
    let (mut duration, mut more) = (low, more);
    if tag & TAG_LONG != 0
        && let Some((last, before)) = more.split_last()
    {
        duration |= last[0] << 32;
        more = before;
    }
    if word0.saturating_add(duration) > limit_ticks {
        return None;
    }
    let site = SiteId(tag & ((1 << SITE_BITS) - 1));
    let span = out.start_ticks.len() as u32;
    out.start_ticks.push(word0);
    out.duration_ticks.push(duration);
    out.sites.push(site);
    if tag & TAG_POLL != 0
        && let Some(([task, of_task], before)) = more.split_last()
    {
        out.task_events.push(filled!(TaskEvent {
            task: *task,
            site: SiteId(*of_task as u32),
            start_ticks: word0,
            kind: TaskEventKind::Poll {
                duration_ticks: duration,
            },
        }));
        more = before;
    }
    let Words {
        kinds, measures, ..
    } = (context.words)(site);
    let args = args::count(kinds);
    // A span that measured nothing has no words for it.
    let measured = more.get(args.div_ceil(2)..).unwrap_or_default();
    if args == 0 && measured.is_empty() {
        return Some(len);
    }
    let mut values = context.spare.0.pop().unwrap_or_default();
    for i in 0..args {
        let word = more.get(i / 2).map_or(0, |pair| pair[i % 2]);
        args::decode(kinds, i, word, &mut values, |key| {
            let (texts, interner) = (&mut *context.texts, &mut *context.interner);
            match key {
                Some(key) => texts
                    .take(key, interner)
                    .unwrap_or_else(|| interner.intern(LOST_TEXT)),
                None => interner.intern("None"),
            }
        });
    }
    let words = measured.as_flattened().iter().copied();
    values.extend(args::measured_values(measures, words).map(ArgValue::U64));
    if !values.is_empty() {
        out.args.push(filled!(SpanArgs { span, values }));
    }
    Some(len)
}
