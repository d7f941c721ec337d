//! Scopes without a guard, for bindings to other languages: the caller ends each one explicitly.
//!
//! A guard closes its scope at the end of a Rust block. An interpreter has no such block. One of
//! its callbacks opens the scope, another closes it, and the number of arguments is known only at
//! run time. A scope that is open across a suspension may not nest, and then ends as a task of its
//! own.

use std::marker::PhantomData;

use super::mixed::{abandon, is_skipped_tree};
use super::ruled::{ArgsUse, use_of_args};
use super::{Opened, Scope, elapsed_ticks, open, open_slow};
use crate::clock;
use crate::hot::args::{self, ArgWord};
use crate::hot::callsite::{self, CallSite, MAX_ARGS};
use crate::hot::ring::{MAX_SITE, Special};
use crate::hot::tracing_out;
use crate::hot::{modes, record_state, task, thread};

/// Values of arguments, encoded as in a record, and their number.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArgWords {
    words: [u64; MAX_ARGS],
    used: u8,
}

/// A scope that has begun and not ended yet. It is a plain value that belongs to its thread. If it
/// is dropped without an end, it leaves no record.
#[must_use = "a scope that is not ended leaves no record"]
#[derive(Clone, Copy, Debug)]
pub struct ManualScope {
    opened: Opened,
    not_send: PhantomData<*mut ()>,
}

/// A task whose activations are scopes, as a coroutine is: it lasts from the start of its first
/// activation to the end of its last. It is a plain value, and may end on any thread. If it is
/// dropped without an end, it leaves no record but its activations.
#[must_use = "a task that is not ended leaves no record"]
#[derive(Clone, Copy, Debug)]
pub struct ManualTask {
    /// The id of the call site.
    site: u32,
    id: u64,
    start_ticks: u64,
}

/// Sets up the state that this thread's scopes are recorded in, if there is none yet. A
/// thread-local that holds scopes calls this at its initialisation. Then it is dropped before the
/// state is, and can still end or abandon the scopes.
pub fn attach_thread() {
    if thread::current().is_none() {
        // There is no state inside vor, and on a thread that is ending.
        let _ = thread::set_up();
    }
}

/// Begins a scope at a call site.
#[inline(always)]
pub fn begin(site: &'static CallSite) -> ManualScope {
    ManualScope::from_scope(open(site))
}

/// Begins a scope at a call site with at most [`MAX_ARGS`] arguments. `args` makes their values,
/// and is called only while spans are recorded. Further arguments are omitted.
pub fn begin_with(
    site: &'static CallSite,
    args: impl FnOnce(&mut dyn FnMut(ArgWord)),
) -> (ManualScope, ArgWords) {
    let mut words = ArgWords::default();
    if !record_state::keeps_spans() {
        if !record_state::is_on() && !tracing_out::is_wanted() {
            return (ManualScope::from_scope(Scope::off()), words);
        }
        return (
            ManualScope::from_scope(Scope::<0>::from_opened(open_slow(site, 0, 0), [])),
            words,
        );
    }
    if modes::are_active() && !callsite::is_fast(site.word()) {
        match use_of_args(site) {
            ArgsUse::Made => {}
            ArgsUse::Unused => {
                let scope = Scope::<0>::from_opened(open_slow(site, 0, 0), []);
                return (ManualScope::from_scope(scope), words);
            }
            ArgsUse::Off => return (ManualScope::from_scope(Scope::off()), words),
        }
    }
    let (mut kinds, mut number) = (0, None);
    args(&mut |arg| {
        if let Some(word) = words.words.get_mut(usize::from(words.used)) {
            if number.is_none() && args::is_number(&arg) {
                number = Some(arg.word);
            }
            *word = arg.word;
            kinds |= arg.kind << (u32::from(words.used) * args::KIND_BITS);
            words.used += 1;
        }
    });
    let (word, of_kinds) = site.word_and_kinds();
    let scope = if callsite::is_fast(word) && of_kinds == kinds {
        Scope::<0>::begin(word, [])
    } else {
        Scope::from_opened(open_slow(site, kinds, number.unwrap_or(0)), [])
    };
    (ManualScope::from_scope(scope), words)
}

impl ManualScope {
    #[inline(always)]
    pub(crate) fn from_scope(scope: Scope) -> Self {
        let mut opened = std::mem::ManuallyDrop::new(scope).opened();
        if is_skipped_tree(opened) {
            // It may stay open across a suspension, and others would open inside it.
            abandon(opened);
            opened = Opened::default();
        }
        Self {
            opened,
            not_send: PhantomData,
        }
    }

    #[inline(always)]
    fn close<const ARGS: usize>(self, words: [u64; ARGS]) {
        Scope::from_opened(self.opened, words).close();
    }

    /// Ends the scope, which had no arguments.
    #[inline(always)]
    pub fn end(self) {
        self.close([]);
    }

    /// Ends the scope, which had these arguments.
    pub fn end_with(self, args: &ArgWords) {
        let [a, b, c, d, e, f, ..] = args.words;
        match args.used {
            0 => self.close([]),
            1 | 2 => self.close([a, b]),
            3 | 4 => self.close([a, b, c, d]),
            5 | 6 => self.close([a, b, c, d, e, f]),
            _ => self.close(args.words),
        }
    }

    /// Ends the scope, which had no arguments. A scope that was open for less than `min_ticks`
    /// leaves no record. Counted scopes are counted regardless of their duration.
    #[inline(always)]
    pub fn end_unless_shorter(self, min_ticks: u64) {
        // A scope with flags needs more at its end than a record.
        if (self.opened.flagged as i32) > 0
            && clock::ticks().wrapping_sub(self.opened.start_ticks) < min_ticks
            && thread::with_state(|state| state.pop_open(self.opened.place)).is_some()
        {
            return;
        }
        self.end();
    }

    /// Ends a scope that did not nest in the ones around it, and records it as a task of the same
    /// name. Its arguments are omitted.
    pub fn end_as_task(self) {
        let site = self.opened.flagged & MAX_SITE;
        if site != 0 {
            task::push_task(
                site,
                task::new_id(),
                self.opened.start_ticks,
                clock::ticks(),
            );
        }
    }

    /// Closes the scope, and all scopes that were opened in it, without a record.
    pub fn abandon(self) {
        abandon(self.opened);
    }
}

impl ManualTask {
    /// Begins a task with its first activation, which is open; `None` if that is not recorded.
    pub fn begin(first: ManualScope) -> Option<Self> {
        let site = first.opened.flagged & MAX_SITE;
        (site != 0).then(|| Self {
            site,
            id: task::new_id(),
            start_ticks: first.opened.start_ticks,
        })
    }

    /// Records that an activation of the task, which is open, is suspended now or ends. The
    /// activation ends as a scope, too: with [`ManualScope::end`], after this.
    pub fn poll(self, activation: ManualScope) {
        if activation.opened.flagged & MAX_SITE != 0 {
            let start_ticks = activation.opened.start_ticks;
            let duration_ticks = elapsed_ticks(start_ticks, clock::ticks());
            let words = [self.id, duration_ticks];
            thread::push_special(Special::Poll, start_ticks, self.site, words);
        }
    }

    /// Ends the task.
    pub fn end(self) {
        task::push_task(self.site, self.id, self.start_ticks, clock::ticks());
    }
}
