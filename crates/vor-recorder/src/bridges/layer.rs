//! `tracing` spans as scopes, for programs and libraries that are already instrumented. This is the
//! opposite direction of `tracing_out`.
//!
//! This is the layer for `tracing-subscriber`, which can be combined with other layers.
//! `tracing_in` records the spans. The layer keeps spans in its own table, by the ids of the
//! registry: a look-up in the registry costs more than all of that.
//!
//! The scopes bypass `tracing_out`, which would turn them into spans again. In turn, the layer
//! skips the spans that `tracing_out` makes of scopes.

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::bridges::tracing_in::{self, AlwaysSample, Instance, Sampler, SpanOptions, steps};
use crate::drain;
use crate::hot::thread;

/// Records the spans of `tracing` as scopes and its events as messages, while recording is on.
///
/// It takes spans and events up to the level `DEBUG`; filters of `tracing-subscriber` select
/// further. The first eight fields of a span are arguments, with their values when the span is
/// exited. Each time that a span is entered is a scope.
///
/// Some spans are asynchronous spans too: a span that is entered more than once, or by a thread
/// other than the one that created it, or after a delay. As in a profiled future, the times in
/// which such a span was entered are polls.
///
/// An event with the field `tracy.frame_mark = true` ends a frame, as
/// [`frame_mark`](crate::drain::frame_mark) does. With the crate `profiling` and its feature
/// `profile-with-tracing`, its scopes arrive under the names of their functions, and
/// `finish_frame!` ends a frame.
///
/// A span costs as much as `tracing` and its registry take, plus little more than a scope of vor's
/// own macros. A program that needs no other layer can omit the registry:
/// [`TracingSubscriber`](crate::bridges::subscriber::TracingSubscriber).
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::setup::enable; pub mod tracing {
/// #     pub use vor_recorder::bridges::{layer::TracingLayer, tracing_in::Probabilistic};
/// # } }
/// use tracing_subscriber::layer::SubscriberExt as _;
/// use tracing_subscriber::util::SubscriberInitExt as _;
///
/// // One request in ten, with everything in it.
/// let layer = vor::tracing::TracingLayer::new().with_sampler(vor::tracing::Probabilistic(0.1));
/// tracing_subscriber::registry().with(layer).init();
/// vor::enable();
/// let span = tracing::info_span!("load", files = 3).entered();
/// // … the part to see as `load` …
/// drop(span);
/// tracing::info!(tracy.frame_mark = true);
/// ```
#[derive(Clone, Debug)]
pub struct TracingLayer<P = AlwaysSample> {
    max_level: LevelFilter,
    with_tasks: bool,
    sampler: P,
    /// Distinguishes the layer's spans from those of other registries; 0 before it is on one.
    instance: Instance,
}

impl TracingLayer {
    /// Makes a layer that takes spans and events up to the level `DEBUG`.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            max_level: LevelFilter::DEBUG,
            with_tasks: false,
            sampler: AlwaysSample,
            instance: 0,
        }
    }
}

impl<P: Sampler> TracingLayer<P> {
    /// Takes spans and events up to this level.
    ///
    /// A layer beside this one that wants more detailed levels needs its own filter. With `TRACE`,
    /// the scopes of vor's macros become spans as well. They are not recorded twice, but cost much.
    #[must_use]
    pub fn with_max_level(mut self, max_level: LevelFilter) -> Self {
        self.max_level = max_level;
        self
    }

    /// Makes every span an asynchronous span as well, from its creation to its closing. This
    /// includes spans that are entered once, immediately. It costs two more readings of the clock.
    /// Otherwise the layer learns for each call site whether its spans are asynchronous.
    #[must_use]
    pub fn with_whole_lives(mut self) -> Self {
        self.with_tasks = true;
        self
    }

    /// Lets `sampler` decide whether each root span is recorded, with all its descendants.
    #[must_use]
    pub fn with_sampler<Q: Sampler>(self, sampler: Q) -> TracingLayer<Q> {
        TracingLayer {
            max_level: self.max_level,
            with_tasks: self.with_tasks,
            sampler,
            instance: self.instance,
        }
    }
}

impl Default for TracingLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Sampler, S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for TracingLayer<P> {
    fn on_layer(&mut self, _: &mut S) {
        self.instance = tracing_in::new_instance();
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.max_level)
    }

    #[inline]
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if cfg!(feature = "off") || *attributes.metadata().level() > self.max_level {
            return;
        }
        // Inside `tracing_out` the span is already a scope; a dropped span is not counted.
        if thread::drop_if_busy() {
            return;
        }
        let instance = self.instance;
        let is_sampled = tracing_in::is_sampled(
            &self.sampler,
            instance,
            attributes,
            tracing_in::find_registered,
        );
        let options = SpanOptions {
            with_tasks: self.with_tasks,
            is_sampled,
        };
        steps::registered::make(id.into_u64(), attributes, instance, options);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        steps::registered::record(id.into_u64(), self.instance, values);
    }

    #[inline]
    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        steps::registered::enter(id.into_u64(), self.instance);
    }

    #[inline]
    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        steps::exit(id.into_u64(), self.instance);
    }

    #[inline]
    fn on_close(&self, id: Id, _: Context<'_, S>) {
        steps::registered::close(id.into_u64(), self.instance);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        match tracing_in::is_mark(event) {
            Some(true) => drain::frame_mark(),
            Some(false) => {}
            None => {
                let is_wanted =
                    *event.metadata().level() <= self.max_level && tracing_in::is_recording();
                if is_wanted
                    && tracing_in::is_event_sampled(
                        &self.sampler,
                        self.instance,
                        event,
                        tracing_in::find_registered,
                    )
                {
                    tracing_in::record_event(event);
                }
            }
        }
    }
}
