//! Scopes that are counted and not recorded, beside `tracing`: spans of the layer are counted too,
//! and a subscriber that wants scopes gets them as spans.

#![cfg(all(feature = "tracing-layer", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::span::{Attributes, Id};
use tracing::subscriber::with_default;
use tracing::{Subscriber, info_span, level_filters::LevelFilter};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;
use vor_fixtures::own_process;

/// Counts the spans with one name, at all levels.
#[derive(Clone, Default)]
struct New(Arc<AtomicU64>);

impl<S: Subscriber> Layer<S> for New {
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if attributes.metadata().name() == "ours" {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn count_of(name: &str) -> u64 {
    let rows = vor::stats();
    rows.iter()
        .filter(|row| row.name == name)
        .map(|row| row.count)
        .sum()
}

fn ours(times: usize) {
    for i in 0..times {
        vor::profile_scope!("ours", i = i);
    }
}

#[test]
fn spans_and_scopes_are_counted_once() {
    own_process!();
    vor::Config::new()
        .count_scopes(true)
        .print_stats(false)
        .enable();
    ours(5);
    let new = New::default();
    let layers = registry()
        .with(vor::tracing::TracingLayer::new())
        .with(new.clone());
    with_default(layers, || {
        let span = info_span!("of tracing", text = "not kept", n = 3);
        for _ in 0..3 {
            let _entered = span.enter();
            ours(2);
        }
    });
    ours(5);
    assert_eq!(count_of("of tracing"), 3);
    assert_eq!(count_of("ours"), 16);
    assert_eq!(
        new.0.load(Ordering::Relaxed),
        6,
        "the spans under the subscriber"
    );
    let rows = vor::stats();
    let of = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
    let (around, ours) = (of("of tracing"), of("ours"));
    assert!(around.self_ns < around.total_ns && ours.self_ns == ours.total_ns);
    vor::disable();
}
