//! The life of a span, from its creation to its closing, and its records.

use std::sync::Mutex;
use tracing::Event;
use tracing::span::{Attributes, Id, Record};

use super::entered::{self, Entered};
use super::fields::{Texts, Values, Words, is_text, with_kind_of};
use super::site::{self, Site};
use super::table::{
    self, HAS_LARGE_TEXT, HAS_TEXT, Place, Slot, UNSAMPLED, id_in, kinds_in, pairs_in, word_of,
};
use super::{Instance, Sampler};
use crate::clock;
use crate::hot::args;
use crate::hot::callsite::{Kinds, MAX_ARGS};
use crate::hot::ring::Special;
use crate::hot::scope::{self, Opened, Scope};
use crate::hot::thread::ThreadState;
use crate::hot::{record_state, task, thread};
use crate::sync::Ordering::Relaxed;
use crate::sync::lock;

/// The options with which a new span is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanOptions {
    /// Whether every span is a task.
    pub(crate) with_tasks: bool,
    pub(crate) is_sampled: bool,
}

/// Describes a span that is new in its slot.
///
/// Here and at the other steps of a span's life, the common case is one function with its calls
/// inlined. Any other case goes to a separate function as a whole. The first function changes
/// nothing before then that the second one would not change.
#[inline(always)]
pub(super) fn make(
    slot: &'static Slot,
    key: u64,
    attributes: &Attributes<'_>,
    options: SpanOptions,
) {
    // First, because the fields of a new site may make spans of their own.
    let site = Site::of(attributes);
    entered::set_last_created(key);
    slot.creator.store(entered::number(), Relaxed);
    slot.entered.store(0, Relaxed);
    slot.handles.store(1, Relaxed);
    if options.is_sampled
        && !options.with_tasks
        && let Some((number, id)) = site.and_then(Site::plain)
        && record_state::are_names_fast()
    {
        slot.site.store(number, Relaxed);
        slot.word.store(word_of(id, 0, 0), Relaxed);
        return;
    }
    make_with_fields(slot, key, attributes, options, site);
}

/// Like [`make`], for a span with fields, or one that is not recorded.
#[inline(always)]
fn make_with_fields(
    slot: &'static Slot,
    key: u64,
    attributes: &Attributes<'_>,
    options: SpanOptions,
    site: Option<&'static Site>,
) {
    slot.site
        .store(site.map_or(u32::MAX, |site| site.number), Relaxed);
    let Some(site) = site.filter(|_| options.is_sampled) else {
        slot.word.store(UNSAMPLED, Relaxed);
        return;
    };
    let mut values = Values::new(site, site.kinds_of_nothing, &slot.words, &slot.texts);
    attributes.record(&mut values);
    let mut flags = site.flags;
    if values.has_text {
        flags |= HAS_TEXT;
        slot.kept_until.store(0, Relaxed);
    }
    if values.has_large_text {
        flags |= HAS_LARGE_TEXT;
    }
    let kinds = values.kinds;
    drop(values);
    let id = site.id(kinds);
    slot.word.store(word_of(id, flags, kinds), Relaxed);
    if (options.with_tasks || site.makes_tasks()) && record_state::is_on() {
        begin_task(slot, key, id);
    }
}

/// Records the beginning of a span that is a task.
#[inline(never)]
fn begin_task(slot: &Slot, key: u64, id: u32) {
    let now = clock::ticks();
    let task = task::new_id();
    slot.task.store(task, Relaxed);
    slot.task_id.store(id, Relaxed);
    slot.task_start.store(now, Relaxed);
    thread::push_special(Special::Begin, now, id, [task, key]);
}

/// Opens a scope for a span that is entered.
#[inline(always)]
pub(super) fn enter(slot: &'static Slot, key: u64, instance: Instance) {
    let word = slot.word.load(Relaxed);
    if word & UNSAMPLED == 0
        && let Some(entry) = entered::free_entry(key, slot)
        && let Some(scope) = scope::try_open(id_in(word))
    {
        entry.take(Entered {
            key,
            instance,
            slot,
            scope,
        });
        slot.entered.store(slot.entered.load(Relaxed) + 1, Relaxed);
    } else {
        enter_slow(slot, key, instance);
    }
}

#[inline(never)]
fn enter_slow(slot: &'static Slot, key: u64, instance: Instance) {
    let word = slot.word.load(Relaxed);
    let is_recorded = word & UNSAMPLED == 0 && record_state::is_on();
    if entered::is_creator(slot.creator.load(Relaxed)) {
        slot.entered.store(slot.entered.load(Relaxed) + 1, Relaxed);
    }
    if !entered::is_newest(key) && is_recorded && slot.task.load(Relaxed) == 0 {
        mark_site(slot);
    }
    let scope = if is_recorded {
        scope::open_registered(id_in(word), []).leave_open()
    } else {
        Opened::OFF
    };
    entered::push(Entered {
        key,
        instance,
        slot,
        scope,
    });
}

/// Ends the scope of a span that is left.
#[inline(always)]
pub(super) fn exit(key: u64, instance: Instance) {
    match entered::own_top(key, instance) {
        Some((slot, scope)) if try_end(slot, scope) => entered::pop_own_top(),
        _ => exit_slow(key, instance),
    }
}

/// Ends the scope of a span that has few fields, if its creator entered it once and this thread's
/// ring keeps its texts. If the span is a task, one record holds scope and poll.
#[inline(always)]
fn try_end(slot: &Slot, scope: Opened) -> bool {
    let version = slot.version();
    let word = slot.word.load(Relaxed);
    // If the span is entered within itself, the outer time includes this one. A time from before it
    // became a task must be recorded first.
    let is_entered_once = slot.entered.load(Relaxed) == 1 && slot.once_end.load(Relaxed) == 0;
    if !is_entered_once || word & HAS_TEXT != 0 && !are_texts_kept(slot) {
        return false;
    }
    let id = id_in(word);
    let pair = |i: usize| [slot.words[i].load(Relaxed), slot.words[i + 1].load(Relaxed)];
    let is_still = || slot.is_still(version);
    let task = slot.task.load(Relaxed);
    if task == 0 {
        let end_ticks = match pairs_in(word) {
            0 => scope::try_end(scope, id, &[]),
            1 => {
                let words = [pair(0)];
                is_still()
                    .then(|| scope::try_end(scope, id, &words))
                    .flatten()
            }
            2 => {
                let words = [pair(0), pair(2)];
                is_still()
                    .then(|| scope::try_end(scope, id, &words))
                    .flatten()
            }
            _ => None,
        };
        let Some(end_ticks) = end_ticks else {
            return false;
        };
        slot.once_start.store(scope.start_ticks, Relaxed);
        slot.once_end.store(end_ticks, Relaxed);
    } else {
        let poll = [task, slot.task_id.load(Relaxed).into()];
        let has_ended = match pairs_in(word) {
            0 => scope::try_end_poll(scope, id, &[poll]).is_some(),
            1 => {
                let words = pair(0);
                is_still() && scope::try_end_poll(scope, id, &[words, poll]).is_some()
            }
            2 => {
                let record = [pair(0), pair(2), poll];
                is_still() && scope::try_end_poll(scope, id, &record).is_some()
            }
            _ => false,
        };
        if !has_ended {
            return false;
        }
    }
    slot.entered.store(0, Relaxed);
    true
}

/// Returns whether this thread's ring keeps the texts whose keys are among a span's words.
#[inline(always)]
fn are_texts_kept(slot: &Slot) -> bool {
    let kept_until = slot.kept_until.load(Relaxed);
    entered::is_creator(slot.text_owner.load(Relaxed)) && thread::hot().keeps_until(kept_until)
}

#[inline(never)]
fn exit_slow(key: u64, instance: Instance) {
    if let Some(entered) = entered::take(key, instance) {
        end(entered);
    }
}

fn end(entered: Entered) {
    let (key, instance, slot) = (entered.key, entered.instance, entered.slot);
    let scope = entered.scope;
    if !slot.is_of(key, instance) {
        return close_without_slot(scope);
    }
    let is_creator = entered::is_creator(slot.creator.load(Relaxed));
    // If the span is entered within itself, the outer time includes this one.
    let is_inner = if is_creator {
        let others = slot.entered.load(Relaxed).wrapping_sub(1);
        slot.entered.store(others, Relaxed);
        others != 0
    } else {
        entered::has(key, instance)
    };
    if !scope.is_recorded() {
        return;
    }
    let task = slot.task.load(Relaxed);
    // The creator first records the times that it entered the span before it became a task.
    let is_poll = task != 0 && !is_inner && (!is_creator || slot.once_end.load(Relaxed) == 0);
    let poll = is_poll.then(|| [task, slot.task_id.load(Relaxed).into()]);
    let Some(closed) = close_scope(scope, slot, poll) else {
        return;
    };
    if is_inner || closed.includes_poll {
        return;
    }
    if is_creator {
        note(slot, scope.start_ticks, closed.end_ticks);
    } else {
        let task = task_of(slot, scope.start_ticks);
        push_poll(slot, task, scope.start_ticks, closed.end_ticks);
    }
}

/// Ends the scope of a span that was closed before it was left, with the site and fields of its
/// beginning. The span's later ones are gone with its slot.
#[cold]
fn close_without_slot(scope: Opened) {
    if scope.is_recorded() {
        Scope::resume(scope, scope.id(), []).close();
    }
}

/// The end of a scope.
struct EndedScope {
    end_ticks: u64,
    /// Whether the scope's record includes its poll.
    includes_poll: bool,
}

/// Ends a scope with the current fields of its span. The scope's record may include its poll, as
/// the ids of the task and of the task's site.
fn close_scope(scope: Opened, slot: &Slot, poll: Option<[u64; 2]>) -> Option<EndedScope> {
    let read = || -> [u64; MAX_ARGS] { std::array::from_fn(|arg| slot.words[arg].load(Relaxed)) };
    let version = slot.version();
    let (mut word, mut words) = (slot.word.load(Relaxed), read());
    if word & HAS_TEXT != 0 || !slot.is_still(version) {
        // A handler that leaves the same span must find the thread busy, rather than the lock held.
        thread::with_state(|state| {
            let texts = lock(&slot.texts);
            word = slot.word.load(Relaxed);
            if let Some(texts) = &*texts {
                push_texts(state, slot, kinds_in(word), texts);
            }
            words = read();
        });
    }
    let (id, kinds) = (id_in(word), kinds_in(word));
    let [a, b, c, d, ..] = words;
    let count = args::count(kinds);
    let polled_at = poll.and_then(|poll| match count {
        0 => scope::try_end_poll(scope, id, &[poll]),
        1..=2 => scope::try_end_poll(scope, id, &[[a, b], poll]),
        3..=4 => scope::try_end_poll(scope, id, &[[a, b], [c, d], poll]),
        _ => None,
    });
    if let Some(end_ticks) = polled_at {
        return Some(EndedScope {
            end_ticks,
            includes_poll: true,
        });
    }
    let end_ticks = match count {
        0 => Scope::resume(scope, id, []).close(),
        1..=2 => Scope::resume(scope, id, [a, b]).close(),
        3..=4 => Scope::resume(scope, id, [a, b, c, d]).close(),
        _ => Scope::resume(scope, id, words).close(),
    };
    end_ticks.map(|end_ticks| EndedScope {
        end_ticks,
        includes_poll: false,
    })
}

/// Pushes the texts among a span's fields that this thread's ring does not keep, and stores their
/// keys. Called under the lock of the texts.
fn push_texts(state: &ThreadState, slot: &Slot, kinds: Kinds, texts: &Texts) {
    let text_owner = entered::number();
    let is_text_owner = slot.text_owner.load(Relaxed) == text_owner;
    slot.rewrite(|| {
        slot.text_owner.store(text_owner, Relaxed);
        let mut kept_until = u64::MAX;
        for arg in (0..args::count(kinds)).filter(|arg| is_text(kinds, *arg)) {
            let mut key = slot.words[arg].load(Relaxed);
            if !is_text_owner || !state.keeps_until(thread::kept_until(key)) {
                key = thread::push_kept_text(state, texts.get(arg));
                slot.words[arg].store(key, Relaxed);
            }
            kept_until = kept_until.min(thread::kept_until(key));
        }
        slot.kept_until.store(kept_until, Relaxed);
    });
}

/// Records fields of a span that was made before.
pub(super) fn record(slot: &Slot, values: &Record<'_>) {
    let site = site::numbered(slot.site.load(Relaxed)).filter(|site| site.arg_count > 0);
    let Some(site) = site.filter(|_| slot.is_sampled()) else {
        return;
    };
    if thread::is_busy() {
        return;
    }
    // Formatting a field runs foreign code, so it does not run under the lock.
    let (words, new_texts) = (Words::default(), Mutex::new(None));
    let mut new = Values::new(site, 0, &words, &new_texts);
    values.record(&mut new);
    if new.given == 0 {
        return;
    }
    let (new_kinds, given) = (new.kinds, new.given);
    let large_text = if new.has_large_text {
        HAS_LARGE_TEXT
    } else {
        0
    };
    let has_text = if new.has_text { HAS_TEXT } else { 0 };
    drop(new);
    let mut new_texts = new_texts.into_inner().unwrap_or_default();
    let rewrite = || {
        let mut texts = lock(&slot.texts);
        let word = slot.word.load(Relaxed);
        slot.rewrite(|| {
            let mut kinds = kinds_in(word);
            for arg in (0..MAX_ARGS).filter(|arg| given & 1 << arg != 0) {
                kinds = with_kind_of(kinds, arg, new_kinds);
                slot.words[arg].store(words[arg].load(Relaxed), Relaxed);
                if let Some(new) = &mut new_texts
                    && is_text(kinds, arg)
                {
                    // Its word is now 0, which is not the key of any text.
                    texts.get_or_insert_default().swap(arg, new);
                    slot.kept_until.store(0, Relaxed);
                }
            }
            let flags = site.flags | word & (HAS_TEXT | HAS_LARGE_TEXT) | large_text | has_text;
            slot.word
                .store(word_of(site.id(kinds), flags, kinds), Relaxed);
        });
    };
    // A handler that interrupts this must not wait for the lock.
    thread::while_busy(rewrite);
}

/// Stores the time for which the creator entered a span.
#[inline]
fn note(slot: &Slot, start_ticks: u64, end_ticks: u64) {
    if slot.task.load(Relaxed) == 0 && slot.once_end.load(Relaxed) == 0 {
        slot.once_start.store(start_ticks, Relaxed);
        slot.once_end.store(end_ticks, Relaxed);
    } else {
        push_again(slot, start_ticks, end_ticks);
    }
}

/// Records a time for which the creator entered a span that is a task by now.
#[inline(never)]
fn push_again(slot: &Slot, start_ticks: u64, end_ticks: u64) {
    let task = task_of(slot, start_ticks);
    push_once(slot, task);
    push_poll(slot, task, start_ticks, end_ticks);
}

/// Returns the task of a span, and makes the span a task if it was none.
fn task_of(slot: &Slot, start_ticks: u64) -> u64 {
    let task = slot.task.load(Relaxed);
    if task != 0 {
        return task;
    }
    mark_site(slot);
    // Earlier times for which the creator entered it started earlier.
    let start_ticks = match slot.once_end.load(Relaxed) {
        0 => start_ticks,
        _ => start_ticks.min(slot.once_start.load(Relaxed)),
    };
    let earlier = |known: u64| (known == 0 || start_ticks < known).then_some(start_ticks);
    let _ = slot.task_start.fetch_update(Relaxed, Relaxed, earlier);
    let task = task::new_id();
    slot.task_id.store(id_in(slot.word.load(Relaxed)), Relaxed);
    match slot.task.compare_exchange(0, task, Relaxed, Relaxed) {
        Ok(_) => task,
        Err(other) => other,
    }
}

/// Marks the call site: its spans may be tasks.
#[cold]
fn mark_site(slot: &Slot) {
    if let Some(site) = site::numbered(slot.site.load(Relaxed)) {
        site.set_makes_tasks();
    }
}

/// Records the first time that its creator entered a span, unless it is already recorded. Called by
/// the creator, and by the thread that closes the span.
fn push_once(slot: &Slot, task: u64) {
    let end_ticks = slot.once_end.load(Relaxed);
    if end_ticks != 0 {
        push_poll(slot, task, slot.once_start.load(Relaxed), end_ticks);
        slot.once_end.store(0, Relaxed);
    }
}

fn push_poll(slot: &Slot, task: u64, start_ticks: u64, end_ticks: u64) {
    let duration_ticks = scope::elapsed_ticks(start_ticks, end_ticks);
    let site = slot.task_id.load(Relaxed);
    thread::push_special(Special::Poll, start_ticks, site, [task, duration_ticks]);
}

/// Ends a span, and frees its slot.
#[inline(always)]
pub(super) fn close(place: Place, slot: &'static Slot) {
    let was_entered_once = slot.task.load(Relaxed) == 0 && slot.once_end.load(Relaxed) != 0;
    if !was_entered_once || slot.flags(HAS_LARGE_TEXT) != 0 {
        return close_task(place, slot);
    }
    slot.once_end.store(0, Relaxed);
    slot.free();
    table::prefer(place);
}

/// Like [`close`], for a span that is a task, was not entered or not recorded, or whose texts are
/// too large to keep.
#[inline(never)]
fn close_task(place: Place, slot: &'static Slot) {
    let task = slot.task.load(Relaxed);
    if task != 0 {
        end_task(slot, task);
    } else if slot.once_end.load(Relaxed) != 0 {
        slot.once_end.store(0, Relaxed);
    } else if slot.is_sampled() && record_state::is_on() {
        // It was never entered, or is still entered.
        mark_site(slot);
    }
    if slot.flags(HAS_LARGE_TEXT) != 0 {
        // The memory of long texts is freed.
        thread::while_busy(|| *lock(&slot.texts) = None);
    }
    slot.free();
    table::prefer(place);
}

fn end_task(slot: &Slot, task: u64) {
    push_once(slot, task);
    let start_ticks = slot.task_start.load(Relaxed);
    task::push_task(
        slot.task_id.load(Relaxed),
        task,
        start_ticks,
        clock::ticks(),
    );
    slot.task.store(0, Relaxed);
    slot.task_start.store(0, Relaxed);
}

/// Returns whether a new span is recorded: if its parent is, and for a root if the sampler decides
/// so. `find` finds spans by ids.
#[inline]
pub(crate) fn is_sampled(
    sampler: &impl Sampler,
    instance: Instance,
    attributes: &Attributes<'_>,
    find: impl Fn(u64, Instance) -> Option<(Place, &'static Slot)>,
) -> bool {
    // Spans that a busy thread makes are not followed in any case.
    if sampler.is_always() || thread::is_busy() {
        return true;
    }
    let parent = if attributes.is_contextual() {
        entered::current(instance)
    } else {
        let parent = attributes.parent().map(Id::into_u64);
        parent.and_then(|key| Some((key, find(key, instance)?.1)))
    };
    match parent {
        Some((_, slot)) => slot.is_sampled(),
        None => thread::while_busy(|| sampler.is_sampled(attributes)),
    }
}

/// Like [`is_sampled`], for an event. An event outside of all spans is recorded.
#[inline]
pub(crate) fn is_event_sampled(
    sampler: &impl Sampler,
    instance: Instance,
    event: &Event<'_>,
    find: impl Fn(u64, Instance) -> Option<(Place, &'static Slot)>,
) -> bool {
    if sampler.is_always() {
        return true;
    }
    let parent = if event.is_contextual() {
        entered::current(instance).map(|(_, slot)| slot)
    } else {
        let parent = event.parent().map(Id::into_u64);
        parent.and_then(|key| Some(find(key, instance)?.1))
    };
    parent.is_none_or(Slot::is_sampled)
}
