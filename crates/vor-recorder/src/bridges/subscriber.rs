//! A subscriber of `tracing` that only records: spans as scopes, events as messages.
//!
//! It needs no registry: its ids are places of the table in which `tracing_in` keeps spans anyway,
//! and each slot counts the span's handles.

use std::fmt;
use std::sync::Arc;

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_core::Interest;
use tracing_core::span::Current;

use crate::bridges::tracing_in::{self, AlwaysSample, Instance, Sampler, SpanOptions, steps};
use crate::drain;

/// Records the spans of `tracing` as scopes and its events as messages, as `TracingLayer` does, at
/// half the cost. It is for programs that need no other layer.
///
/// It takes spans and events up to the level `DEBUG` that pass its filter.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::{setup::enable, bridges::subscriber as tracing}; }
/// let subscriber = vor::tracing::TracingSubscriber::new();
/// let subscriber = subscriber.with_filter(|what| !what.target().starts_with("hyper"));
/// tracing::subscriber::set_global_default(subscriber)?;
/// vor::enable();
/// tracing::info_span!("load", files = 3).in_scope(|| {
///     tracing::info!("this is a message");
/// });
/// # Ok::<(), tracing::subscriber::SetGlobalDefaultError>(())
/// ```
pub struct TracingSubscriber<P = AlwaysSample> {
    max_level: LevelFilter,
    with_tasks: bool,
    filter: Option<Arc<Filter>>,
    sampler: P,
    /// Distinguishes the subscriber's spans from those of others.
    instance: Instance,
}

type Filter = dyn Fn(&Metadata<'_>) -> bool + Send + Sync;

impl TracingSubscriber {
    /// Makes a subscriber that takes spans and events up to the level `DEBUG`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            max_level: LevelFilter::DEBUG,
            with_tasks: false,
            filter: None,
            sampler: AlwaysSample,
            instance: tracing_in::new_instance(),
        }
    }
}

impl<P: Sampler> TracingSubscriber<P> {
    /// Takes spans and events up to this level. With `TRACE`, the scopes of vor's macros become
    /// spans as well. They are not recorded twice, but cost much.
    #[must_use]
    pub fn with_max_level(mut self, max_level: LevelFilter) -> Self {
        self.max_level = max_level;
        self
    }

    /// Takes only the spans and events for which `filter` returns `true`. It is called once per
    /// call site, so it may be slow. The crate `tracing-subscriber` has one that reads directives:
    /// `move |what| targets.would_enable(what.target(), what.level())`.
    #[must_use]
    pub fn with_filter(
        mut self,
        filter: impl Fn(&Metadata<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Makes every span an asynchronous span as well, from its creation to its closing. This
    /// includes spans that are entered once, immediately. It costs two more readings of the clock.
    /// Otherwise the subscriber learns for each call site whether its spans are asynchronous.
    #[must_use]
    pub fn with_whole_lives(mut self) -> Self {
        self.with_tasks = true;
        self
    }

    /// Lets `sampler` decide whether each root span is recorded, with all its descendants.
    #[must_use]
    pub fn with_sampler<Q: Sampler>(self, sampler: Q) -> TracingSubscriber<Q> {
        TracingSubscriber {
            max_level: self.max_level,
            with_tasks: self.with_tasks,
            filter: self.filter,
            sampler,
            instance: self.instance,
        }
    }
}

impl Default for TracingSubscriber {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: fmt::Debug> fmt::Debug for TracingSubscriber<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracingSubscriber")
            .field("max_level", &self.max_level)
            .field("with_tasks", &self.with_tasks)
            .field("has_filter", &self.filter.is_some())
            .field("sampler", &self.sampler)
            .finish_non_exhaustive()
    }
}

/// The id of spans that are not followed; the table never assigns such a large id.
const UNFOLLOWED: u64 = u64::MAX;

impl<P: Sampler> Subscriber for TracingSubscriber<P> {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !cfg!(feature = "off")
            && *metadata.level() <= self.max_level
            && self.filter.as_ref().is_none_or(|filter| filter(metadata))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.max_level)
    }

    #[inline]
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let instance = self.instance;
        let options = SpanOptions {
            with_tasks: self.with_tasks,
            is_sampled: tracing_in::is_sampled(
                &self.sampler,
                instance,
                attributes,
                tracing_in::find,
            ),
        };
        Id::from_u64(steps::own::make(attributes, instance, options).unwrap_or(UNFOLLOWED))
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        steps::own::record(id.into_u64(), self.instance, values);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        match tracing_in::is_mark(event) {
            Some(true) => drain::frame_mark(),
            Some(false) => {}
            None => {
                if tracing_in::is_recording()
                    && tracing_in::is_event_sampled(
                        &self.sampler,
                        self.instance,
                        event,
                        tracing_in::find,
                    )
                {
                    tracing_in::record_event(event);
                }
            }
        }
    }

    #[inline]
    fn enter(&self, id: &Id) {
        steps::own::enter(id.into_u64(), self.instance);
    }

    #[inline]
    fn exit(&self, id: &Id) {
        steps::exit(id.into_u64(), self.instance);
    }

    fn clone_span(&self, id: &Id) -> Id {
        steps::own::clone_handle(id.into_u64(), self.instance);
        id.clone()
    }

    #[inline]
    fn try_close(&self, id: Id) -> bool {
        steps::own::drop_handle(id.into_u64(), self.instance)
    }

    fn current_span(&self) -> Current {
        match tracing_in::current(self.instance) {
            Some((key, slot)) => match tracing_in::metadata_of(slot) {
                Some(metadata) => Current::new(Id::from_u64(key), metadata),
                None => Current::none(),
            },
            None => Current::none(),
        }
    }
}
