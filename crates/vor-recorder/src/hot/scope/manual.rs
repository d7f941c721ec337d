//! Scopes without a guard, for bindings to other languages: whoever begins one says when it ends.
//!
//! A guard closes its scope at the end of a block of Rust. What an interpreter calls has no such
//! block: one of its callbacks opens the scope, another closes it, and the arguments are as many as
//! the program there has named. A scope that turns out not to nest, because it was held open across
//! a suspension, ends as a task of its own.

use std::marker::PhantomData;

use super::slow::abandon;
use super::{Opened, Scope, open, open_slow};
use crate::clock;
use crate::hot::args::{self, ArgWord};
use crate::hot::callsite::{CallSite, MAX_ARGS};
use crate::hot::ring::MAX_SITE;
use crate::hot::tracing_out;
use crate::hot::{record_state, task, thread};

/// Values of arguments as a record holds them, and how many of them there are.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArgWords {
    words: [u64; MAX_ARGS],
    used: u8,
}

/// A scope that was begun and not ended yet. It is a plain value of its thread: what is dropped
/// without an end leaves no record.
#[must_use = "a scope that is not ended leaves no record"]
#[derive(Clone, Copy, Debug)]
pub struct LooseScope {
    opened: Opened,
    not_send: PhantomData<*mut ()>,
}

/// Gives this thread what its scopes are recorded in, if it has none yet. A thread-local that holds
/// scopes does this where it is made: then it is dropped before that, and can still end or abandon
/// them.
pub fn attach_thread() {
    if thread::current().is_none() {
        // None is given inside vor, and to a thread that is ending.
        let _ = thread::set_up();
    }
}

/// Begins a scope at a call site.
#[inline(always)]
pub fn begin(site: &'static CallSite) -> LooseScope {
    LooseScope::of(open(site))
}

/// Begins a scope at a call site with at most [`MAX_ARGS`] arguments, of which `args` makes the
/// values only while spans are recorded. The rest is left out.
pub fn begin_with(
    site: &'static CallSite,
    args: impl FnOnce(&mut dyn FnMut(ArgWord)),
) -> (LooseScope, ArgWords) {
    let mut words = ArgWords::default();
    if !record_state::keeps_spans() {
        if !record_state::is_on() && !tracing_out::is_wanted() {
            return (LooseScope::of(Scope::off()), words);
        }
        return (
            LooseScope::of(Scope::<0>::of(open_slow(site, 0, 0), [])),
            words,
        );
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
    let scope = if record_state::is_fast(word) && of_kinds == kinds {
        Scope::<0>::begin(word, [])
    } else {
        Scope::of(open_slow(site, kinds, number.unwrap_or(0)), [])
    };
    (LooseScope::of(scope), words)
}

impl LooseScope {
    #[inline(always)]
    fn of(scope: Scope) -> Self {
        Self {
            opened: std::mem::ManuallyDrop::new(scope).opened(),
            not_send: PhantomData,
        }
    }

    #[inline(always)]
    fn close<const ARGS: usize>(self, words: [u64; ARGS]) {
        Scope::of(self.opened, words).close();
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

    /// Ends the scope, which had no arguments, and leaves no record of it where it was open for
    /// less than `min_ticks`. Scopes that are counted are all counted.
    #[inline(always)]
    pub fn end_unless_shorter(self, min_ticks: u64) {
        // Flags beside the id say that more is to be done at the end than to write a record.
        if (self.opened.flagged as i32) > 0
            && clock::ticks().wrapping_sub(self.opened.start_ticks) < min_ticks
            && thread::with_state(|state| state.pop_open(self.opened.place)).is_some()
        {
            return;
        }
        self.end();
    }

    /// Ends what was begun as a scope, and has not nested in what was around it, as a task of the
    /// same name; its arguments are left out.
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

    /// Closes the scope without a record, and all that were opened in it.
    pub fn abandon(self) {
        abandon(self.opened);
    }
}
