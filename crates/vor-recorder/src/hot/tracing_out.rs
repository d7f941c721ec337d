//! Scopes as `tracing` spans: every scope of a macro is also a span while a subscriber wants it.
//!
//! The fast path knows nothing of this. `tracing` reports when its subscribers change. It stores
//! the most verbose wanted level in one word. While that level is `TRACE`, all scopes take the slow
//! path ([`crate::hot::record_state`]), which queries the subscribers about the site. A subscriber
//! that is added while recording is on takes effect immediately. One that wants only some modules
//! takes effect at the drain's next pass, some milliseconds later. The site's description for
//! `tracing` is made at its first use and stored with the site. The entered spans are on a stack of
//! the thread, so the guard of a scope is no larger.
//!
//! Scopes that a subscriber opens during such a call are not recorded: each of them would call the
//! subscriber again.

#[cfg(all(feature = "tracing", not(feature = "off")))]
pub(crate) use on::{TracingSite, announce_subscribers, enter, exit, is_wanted};

#[cfg(not(all(feature = "tracing", not(feature = "off"))))]
pub(crate) use stub::{announce_subscribers, enter, exit, is_wanted};

#[cfg(all(feature = "tracing", not(feature = "off")))]
mod on {
    use std::borrow::Cow;
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::sync::{Once, OnceLock};

    use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
    use tracing::span::EnteredSpan;
    use tracing::{Level, Metadata, Span, dispatcher};
    use tracing_core::callsite::{self, Callsite};
    use tracing_core::field::FieldSet;
    use tracing_core::{Interest, Kind, identify_callsite};

    use crate::hot::callsite::CallSite;
    use crate::hot::{record_state, thread};

    /// The description of a call site for `tracing`, made when a subscriber first wants the site.
    #[derive(Debug)]
    pub(crate) struct TracingSite(OnceLock<&'static Description>);

    #[derive(Debug)]
    struct Description {
        /// Set once, when the description has its address: the two refer to each other.
        metadata: OnceLock<Metadata<'static>>,
        /// The subscribers' interest in the site. Written by `tracing` when they change, read by
        /// scopes. Both are relaxed, because it orders nothing.
        interest: AtomicU8,
    }

    const NEVER: u8 = 0;
    const SOMETIMES: u8 = 1;
    const ALWAYS: u8 = 2;

    impl TracingSite {
        pub(crate) const fn new() -> Self {
            Self(OnceLock::new())
        }
    }

    impl Description {
        fn of(site: &CallSite) -> &'static Self {
            let description: &'static Self = Box::leak(Box::new(Self {
                metadata: OnceLock::new(),
                interest: AtomicU8::new(NEVER),
            }));
            description.metadata.get_or_init(|| {
                let (module_path, file, line) = site.place();
                let name = match site.name() {
                    Cow::Borrowed(name) => name,
                    Cow::Owned(name) => name.leak(),
                };
                Metadata::new(
                    name,
                    module_path,
                    Level::TRACE,
                    Some(file),
                    Some(line),
                    Some(module_path),
                    FieldSet::new(&[], identify_callsite!(description)),
                    Kind::SPAN,
                )
            });
            callsite::register(description);
            description
        }

        fn span(&'static self) -> Option<Span> {
            let metadata = self.metadata.get()?;
            let is_enabled = match self.interest.load(Ordering::Relaxed) {
                NEVER => false,
                ALWAYS => true,
                _ => dispatcher::get_default(|subscriber| subscriber.enabled(metadata)),
            };
            is_enabled.then(|| Span::new(metadata, &metadata.fields().value_set(&[])))
        }
    }

    impl Callsite for Description {
        fn set_interest(&self, interest: Interest) {
            let interest = match () {
                () if interest.is_never() => NEVER,
                () if interest.is_always() => ALWAYS,
                () => SOMETIMES,
            };
            self.interest.store(interest, Ordering::Relaxed);
        }

        fn metadata(&self) -> &Metadata<'_> {
            // `of` sets the metadata before it registers the site.
            self.metadata
                .get_or_init(|| unreachable!("a site is described before it is registered"))
        }
    }

    /// Whether the build has spans of this level at all.
    const IS_POSSIBLE: bool = matches!(STATIC_MAX_LEVEL.into_level(), Some(Level::TRACE));

    thread_local! {
        /// The spans that scopes of this thread have entered, each with the start of its scope.
        static ENTERED: RefCell<Vec<(u64, EnteredSpan)>> = const { RefCell::new(Vec::new()) };
    }

    /// Returns whether a subscriber may want the spans.
    #[inline(always)]
    pub(crate) fn is_wanted() -> bool {
        IS_POSSIBLE && LevelFilter::current() == LevelFilter::TRACE
    }

    /// The call site through which `tracing` reports that its subscribers have changed.
    #[derive(Debug)]
    struct Announcements;

    static ANNOUNCEMENTS: Announcements = Announcements;

    static ANNOUNCEMENTS_METADATA: Metadata<'static> = Metadata::new(
        "scopes",
        "vor",
        Level::TRACE,
        None,
        None,
        None,
        FieldSet::new(&[], identify_callsite!(&ANNOUNCEMENTS)),
        Kind::SPAN,
    );

    impl Callsite for Announcements {
        fn set_interest(&self, interest: Interest) {
            record_state::subscribers_changed(!interest.is_never());
        }

        fn metadata(&self) -> &Metadata<'_> {
            &ANNOUNCEMENTS_METADATA
        }
    }

    /// Registers [`record_state::subscribers_changed`] as the callback for changes of subscribers.
    pub(crate) fn announce_subscribers() {
        static ONCE: Once = Once::new();
        if IS_POSSIBLE {
            ONCE.call_once(|| {
                call_subscriber(|| callsite::register(&ANNOUNCEMENTS));
            });
        }
    }

    /// Calls a subscriber. Scopes that it opens are not recorded. A panic of the subscriber is
    /// caught, because it must not end the measured program. Its message has been printed already.
    fn call_subscriber<R>(call: impl FnOnce() -> R) -> Option<R> {
        thread::while_silent(|| catch_unwind(AssertUnwindSafe(call)).ok())
    }

    /// Enters a span for a scope that began at `start_ticks`. Returns whether there is a span;
    /// [`exit`] ends it.
    pub(crate) fn enter(site: &'static CallSite, start_ticks: u64) -> bool {
        if thread::is_busy() {
            return false;
        }
        call_subscriber(|| {
            let description = site.tracing().0.get_or_init(|| Description::of(site));
            let Some(span) = description.span() else {
                return false;
            };
            let entered = span.entered();
            ENTERED
                .try_with(|stack| stack.borrow_mut().push((start_ticks, entered)))
                .is_ok()
        })
        .unwrap_or(false)
    }

    /// Ends the innermost span that a scope of this thread entered at `start_ticks`.
    pub(crate) fn exit(start_ticks: u64) {
        call_subscriber(|| {
            // A thread that is ending has no stack. Its spans ended with the stack.
            let span = ENTERED.try_with(|stack| {
                let mut stack = stack.borrow_mut();
                let at = stack.iter().rposition(|(start, _)| *start == start_ticks)?;
                Some(stack.remove(at))
            });
            // Dropped outside of the borrow, because a subscriber may do anything.
            drop(span);
        });
    }
}

#[cfg(not(all(feature = "tracing", not(feature = "off"))))]
mod stub {
    use crate::hot::callsite::CallSite;

    #[inline(always)]
    pub(crate) const fn is_wanted() -> bool {
        false
    }

    pub(crate) fn announce_subscribers() {}

    pub(crate) fn enter(_: &'static CallSite, _: u64) -> bool {
        false
    }

    pub(crate) fn exit(_: u64) {}
}
