//! The cost of a `tracing` span under vor's layer and under its subscriber, beside subscribers that
//! do nothing, which are the floors. Needs `--features tracing`; `tracing-peers` adds other layers,
//! each with the cheapest output.
//!
//! All contestants run in turn within the same fractions of a second, and each span is compared
//! with the same span of its floor.

use std::hint::black_box;

use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Span, Subscriber, dispatcher, info_span};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry;
use vor_benches::clock::two_ticks;
use vor_benches::rounds::{self, Loop, Times};

/// A subscriber that enables everything and does nothing.
struct NoOp;

impl Subscriber for NoOp {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A layer that does nothing.
struct NoOpLayer;

impl<S: Subscriber> Layer<S> for NoOpLayer {}

/// The shape of the spans that a contestant runs.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    /// Spans in one pass.
    spans: f64,
    run: fn(u32, &Span),
}

const SHAPES: [Shape; 5] = [
    Shape {
        name: "no fields",
        spans: 1.0,
        run: |passes, _| {
            for i in 0..passes {
                let _span = info_span!("no fields").entered();
                black_box(i);
            }
        },
    },
    Shape {
        name: "2 fields",
        spans: 1.0,
        run: |passes, _| {
            for i in 0..passes {
                let _span = info_span!("2 fields", index = i, bytes = 4096_u64).entered();
                black_box(i);
            }
        },
    },
    Shape {
        name: "a text",
        spans: 1.0,
        run: |passes, _| {
            for i in 0..passes {
                let _span = info_span!("a text", path = "a/path/to/a/file").entered();
                black_box(i);
            }
        },
    },
    Shape {
        name: "4 deep, each",
        spans: 4.0,
        run: |passes, _| {
            for i in 0..passes {
                let _1 = info_span!("1").entered();
                let _2 = info_span!("2").entered();
                let _3 = info_span!("3").entered();
                let _4 = info_span!("4").entered();
                black_box(i);
            }
        },
    },
    Shape {
        name: "re-enter",
        spans: 1.0,
        run: |passes, span| {
            for i in 0..passes {
                let _entered = span.enter();
                black_box(i);
            }
        },
    },
];

/// Passes of one round, and rounds.
const PASSES: u32 = 500;
const ROUNDS: usize = 2001;

/// The contestants, each with the index of its floor.
fn contestants() -> Vec<(&'static str, Option<usize>, Dispatch)> {
    let all = vec![
        ("no-op Subscriber", None, Dispatch::new(NoOp)),
        (
            "TracingSubscriber",
            Some(0),
            Dispatch::new(vor::tracing::TracingSubscriber::new()),
        ),
        (
            "Registry + no-op layer",
            None,
            Dispatch::new(registry().with(NoOpLayer)),
        ),
        (
            "Registry + TracingLayer",
            Some(2),
            Dispatch::new(registry().with(vor::tracing::TracingLayer::new())),
        ),
    ];
    #[cfg(feature = "tracing-peers")]
    let all = all.into_iter().chain(peers()).collect();
    all
}

#[cfg(feature = "tracing-peers")]
fn peers() -> [(&'static str, Option<usize>, Dispatch); 4] {
    use tracing_prof::{ProfileConfig, ProfileLayer, ProfileReporter};

    /// A reporter that discards its input.
    struct NoReport;

    impl ProfileReporter for NoReport {}

    let (chrome, guard) = tracing_chrome::ChromeLayerBuilder::new()
        .writer(std::io::sink())
        .include_args(true)
        .build();
    // The guard ends with the process.
    std::mem::forget(guard);
    let flame = tracing_flame::FlameLayer::new(std::io::sink());
    let wall = ProfileLayer::new(ProfileConfig::new().track_wall(true), NoReport);
    let all = ProfileLayer::new(ProfileConfig::new().track_all(), NoReport);
    let over_registry = Some(2);
    [
        (
            "tracing-chrome",
            over_registry,
            Dispatch::new(registry().with(chrome)),
        ),
        (
            "tracing-flame",
            over_registry,
            Dispatch::new(registry().with(flame)),
        ),
        (
            "tracing-prof, wall",
            over_registry,
            Dispatch::new(registry().with(wall)),
        ),
        (
            "tracing-prof, all",
            over_registry,
            Dispatch::new(registry().with(all)),
        ),
    ]
}

fn main() {
    vor::Config::new().puffin(false).enable();
    let contestants = contestants();
    println!(
        "{:<26}{:>14}{:>12}{:>12}{:>8}",
        "ns per span", "", "median", "over floor", "rounds"
    );
    for shape in SHAPES {
        let mut loops: Vec<Loop<'_>> = vec![Box::new(two_ticks)];
        for (_, _, dispatch) in &contestants {
            let again = dispatcher::with_default(dispatch, || info_span!("again"));
            loops.push(Box::new(move |passes| {
                dispatcher::with_default(dispatch, || (shape.run)(passes, &again));
            }));
        }
        let mut times = rounds::contest(ROUNDS, PASSES, &mut loops, 1, &mut || {
            vor::flush();
        });
        let quiet = rounds::keep_quiet(&mut times);
        let (floor, times) = times
            .split_first()
            .unwrap_or_else(|| unreachable!("as many as loops"));
        for ((name, over, _), time) in contestants.iter().zip(times) {
            let over = over.map(|over: usize| time.more_than_ns(&times[over]) / shape.spans);
            println!(
                "{name:<26}{:>14}{:>12.1}{}{quiet:>8}",
                shape.name,
                time.median_ns() / shape.spans,
                over.map_or_else(|| " ".repeat(12), |over| format!("{over:>12.1}")),
            );
        }
        println!(
            "{:<26}{:>14}{:>12.1}",
            "two clock reads",
            "",
            Times::median_ns(floor)
        );
    }
    vor::disable();
}
