//! From the slots of one ring to the columns of a [`ThreadBatch`].

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::args;
use crate::batch::{
    ArgValue, AsyncSpan, FlowPoint, FlowStage, Message, SpanArgs, TaskEvent, TaskEventKind, ThreadBatch,
};
use crate::callsite::Kinds;
use crate::catalog::SiteId;
use crate::ring::{SITE_BITS, Slot, Special, TAG_LONG, TAG_SPECIAL, extensions};

/// Most spans that are taken from one thread at once.
pub(super) const MAX_SPANS: usize = 1 << 16;

/// What stands for the text of an argument for which the ring had no room.
const LOST_TEXT: &str = "(lost: the ring was full)";

/// Slots looked at together: they stay in the first-level cache for the passes over them.
const RUN: usize = 512;

/// Texts that were pushed and whose span has not come yet, for one thread.
#[derive(Debug, Default)]
pub(super) struct PendingTexts {
    by_key: FxHashMap<u64, Arc<str>>,
}

/// Pending texts kept per thread. A text waits while its scope is open, so this bounds open scopes with text, and what dropped spans leave behind.
const MAX_PENDING: usize = 1 << 14;

impl PendingTexts {
    fn insert(&mut self, key: u64, text: Arc<str>) {
        if self.by_key.len() >= MAX_PENDING {
            // The older half: most of it belongs to spans that were dropped.
            let oldest = key.saturating_sub(MAX_PENDING as u64 / 2);
            self.by_key.retain(|key, _| *key >= oldest);
        }
        self.by_key.insert(key, text);
    }

    fn take(&mut self, key: u64) -> Option<Arc<str>> {
        self.by_key.remove(&key)
    }
}

/// Texts seen before, so that a repeated one is stored once.
#[derive(Debug, Default)]
pub(super) struct Interner {
    texts: FxHashMap<Arc<str>, ()>,
}

/// Texts kept; then the interner starts anew.
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
}

/// What reading slots needs besides the slots.
pub(super) struct Context<'a> {
    pub(super) texts: &'a mut PendingTexts,
    pub(super) interner: &'a mut Interner,
    /// Argument kinds by site.
    pub(super) kinds: &'a mut dyn FnMut(SiteId) -> Kinds,
}

/// Appends the records of `slots`, in order, to `out`, up to the first that ended after `limit_ticks`. Returns the number of slots taken.
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
fn plain_run(slots: &[Slot], limit_ticks: u64) -> usize {
    let is_plain = |slot: &&Slot| {
        slot[1] >> (32 + SITE_BITS) == 0 && slot[0].wrapping_add(slot[1] & 0xffff_ffff) <= limit_ticks
    };
    // Mostly all are; then one pass without a branch per slot tells.
    let all = slots.iter().fold(true, |all, slot| all & is_plain(&slot));
    if all {
        slots.len()
    } else {
        slots.iter().take_while(is_plain).count()
    }
}

fn append_plain(slots: &[Slot], out: &mut ThreadBatch) {
    out.start_ticks.extend(slots.iter().map(|slot| slot[0]));
    out.duration_ticks
        .extend(slots.iter().map(|slot| slot[1] & 0xffff_ffff));
    out.sites
        .extend(slots.iter().map(|slot| SiteId((slot[1] >> 32) as u32)));
}

/// Takes the record of any kind that `slots` begin with; returns its length in slots, or `None` when it ended after the limit.
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
    // Records are published whole, so there are as many; a broken ring must not become a panic in the program being measured.
    let Some(more) = slots.get(1..len) else {
        return Some(slots.len());
    };
    if tag & TAG_SPECIAL != 0 {
        match Special::from_code(tag & ((1 << SITE_BITS) - 1)) {
            Some(Special::Text) => {
                let text = read_text(more, low as usize, context.interner);
                context.texts.insert(word0, text);
            }
            Some(Special::Message) => {
                if word0 > limit_ticks {
                    return None;
                }
                let text = read_text(more, low as usize, context.interner);
                out.messages.push(Message { ticks: word0, text });
            }
            Some(Special::Async) => {
                let [id, duration_ticks] = more.first().copied().unwrap_or_default();
                let task = AsyncSpan {
                    id,
                    site: SiteId(low as u32),
                    start_ticks: word0,
                    duration_ticks,
                };
                if task.end_ticks() > limit_ticks {
                    return None;
                }
                out.async_spans.push(task);
            }
            Some(special @ (Special::Poll | Special::Step | Special::Begin)) => {
                let [task, word] = more.first().copied().unwrap_or_default();
                let event = TaskEvent {
                    task,
                    site: SiteId(low as u32),
                    start_ticks: word0,
                    kind: match special {
                        Special::Poll => TaskEventKind::Poll { duration_ticks: word },
                        Special::Begin => TaskEventKind::Begin { given_id: word },
                        _ => TaskEventKind::Step,
                    },
                };
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
                out.flows.push(FlowPoint {
                    ticks: word0,
                    flow,
                    stage,
                });
            }
            None => {}
        }
        return Some(len);
    }
    let mut duration = low;
    if tag & TAG_LONG != 0 {
        duration |= more.last().map_or(0, |slot| slot[0]) << 32;
    }
    if word0.saturating_add(duration) > limit_ticks {
        return None;
    }
    let site = SiteId(tag & ((1 << SITE_BITS) - 1));
    let span = out.start_ticks.len() as u32;
    out.start_ticks.push(word0);
    out.duration_ticks.push(duration);
    out.sites.push(site);
    let kinds = (context.kinds)(site);
    let values: Vec<ArgValue> = (0..args::count(kinds))
        .map(|i| {
            let word = more.get(i / 2).map_or(0, |pair| pair[i % 2]);
            args::decode(kinds, i, word, |key| {
                context
                    .texts
                    .take(key)
                    .unwrap_or_else(|| context.interner.intern(LOST_TEXT))
            })
        })
        .collect();
    if !values.is_empty() {
        out.args.push(SpanArgs { span, values });
    }
    Some(len)
}

fn read_text(slots: &[Slot], bytes: usize, interner: &mut Interner) -> Arc<str> {
    let mut buffer = Vec::with_capacity(slots.len() * 16);
    for word in slots.as_flattened() {
        buffer.extend_from_slice(&word.to_le_bytes());
    }
    buffer.truncate(bytes);
    interner.intern(&String::from_utf8_lossy(&buffer))
}
