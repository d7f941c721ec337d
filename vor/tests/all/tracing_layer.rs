//! Spans of `tracing`, and scopes of the crate `profiling`, in a capture.

#![cfg(all(feature = "tracing-layer", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::subscriber::with_default;
use tracing::{Subscriber, debug_span, info, info_span, trace_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;
use vor_fixtures::own_process;

/// A span in the capture: its frame, the name of its thread, its depth, name and arguments.
type Found = (u64, String, u32, String, Vec<String>);

/// Records `work` under a layer. Returns the spans and the number of frames.
fn record(layer: vor::tracing::TracingLayer, work: impl FnOnce()) -> (Vec<Found>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    vor::Config::new().capture(&path).enable();
    with_default(registry().with(layer), work);
    vor::frame_mark();
    assert_eq!(vor::close_capture(), Some(path.clone()));
    vor::disable();
    found(&path)
}

fn found(path: &Path) -> (Vec<Found>, u64) {
    let mut capture = vor::capture::Capture::open(path).unwrap();
    let frames = capture.info().frames;
    let mut found = Vec::new();
    for i in 0..frames {
        let frame = capture.frame(i).unwrap();
        for thread in &frame.threads {
            let name = frame
                .catalog
                .thread(thread.thread)
                .unwrap()
                .name
                .to_string();
            for span in &thread.spans {
                let site = frame.catalog.site(span.site).unwrap();
                let args = site.arg_names.iter().zip(thread.args(span));
                let args = args.map(|(name, value)| format!("{name}={value}"));
                if site.name != "a scope of vor's own" {
                    assert!(!site.module_path.is_empty() && site.line > 0);
                    assert_eq!(site.file, file!());
                }
                found.push((
                    i,
                    name.clone(),
                    span.depth,
                    site.name.to_string(),
                    args.collect(),
                ));
            }
        }
    }
    (found, frames)
}

/// Formats the spans without the fields that differ between runs.
fn tree(found: &[Found]) -> Vec<String> {
    let line = |(frame, _, depth, name, args): &Found| {
        format!("{frame} {depth} {name} {}", args.join(" "))
    };
    found
        .iter()
        .map(|found| line(found).trim_end().to_owned())
        .collect()
}

#[test]
fn spans_are_scopes_with_their_places_and_fields() {
    own_process!();
    let (found, frames) = record(vor::tracing::TracingLayer::new(), || {
        let outer = info_span!(
            "outer",
            files = 3_u32,
            path = "a/b",
            late = tracing::field::Empty
        )
        .entered();
        debug_span!("inner", ok = true, ratio = 0.5, what = ?Some(1), delta = -4_i64).in_scope(
            || {
                vor::profile_scope!("a scope of vor's own");
            },
        );
        trace_span!("too detailed").in_scope(|| {});
        info!("not a mark");
        info!(tracy.frame_mark = false);
        info!(tracy.frame_mark = true);
        outer.record("late", "now");
        let outer = outer.exit();
        outer.in_scope(|| {});
        info_span!(
            "many",
            a = 1,
            b = 2,
            c = 3,
            d = 4,
            e = 5,
            f = 6,
            g = 7,
            h = 8,
            i = 9
        )
        .in_scope(|| {});
    });
    assert_eq!(frames, 2);
    let expected = [
        "0 0 inner ok=true ratio=0.5 what=Some(1) delta=-4",
        "0 1 a scope of vor's own",
        "1 0 outer files=3 path=a/b late=now",
        "1 0 outer files=3 path=a/b late=now",
        "1 0 many a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8",
    ];
    assert_eq!(tree(&found), expected);
}

#[test]
fn spans_are_followed_over_threads_and_out_of_order() {
    own_process!();
    let (found, _) = record(vor::tracing::TracingLayer::new(), || {
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let polled = info_span!("polled");
        polled.in_scope(|| {});
        let other = std::thread::Builder::new().name("other".to_owned());
        let moved = polled.clone();
        let work = move || tracing::dispatcher::with_default(&dispatch, || moved.in_scope(|| {}));
        other.spawn(work).unwrap().join().unwrap();
        let (first, second) = (
            info_span!("first").entered(),
            info_span!("second").entered(),
        );
        drop(first);
        drop(second);
        // Entered while recording is off, left while it is on.
        vor::disable();
        let off = info_span!("off").entered();
        vor::Config::new().enable();
        drop(off);
        // Entered twice at the same time.
        let twice = info_span!("twice");
        twice.in_scope(|| twice.in_scope(|| {}));
    });
    let mut counts = BTreeMap::new();
    for (_, thread, _, name, _) in &found {
        let thread = if thread == "other" { "other" } else { "test" };
        *counts.entry((thread, name.as_str())).or_insert(0) += 1;
    }
    let expected = [
        (("other", "polled"), 1),
        (("test", "first"), 1),
        (("test", "polled"), 1),
        (("test", "second"), 1),
        (("test", "twice"), 2),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
}

/// Writes down the names of all spans.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<Vec<&'static str>>>);

impl<S: Subscriber> Layer<S> for Names {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.0.lock().unwrap().push(attributes.metadata().name());
    }
}

#[test]
fn neither_side_sees_a_span_twice_where_another_layer_wants_scopes() {
    own_process!();
    for level in [LevelFilter::DEBUG, LevelFilter::TRACE] {
        let names = Names::default();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        vor::Config::new().capture(&path).enable();
        let layers = registry()
            .with(vor::tracing::TracingLayer::new().with_max_level(level))
            .with(names.clone().with_filter(LevelFilter::TRACE));
        with_default(layers, || {
            let _span = info_span!("span").entered();
            vor::profile_scope!("scope");
            let _inside = info_span!("inside", n = 1).entered();
        });
        vor::frame_mark();
        vor::close_capture();
        vor::disable();
        assert_eq!(
            tree(&found(&path).0),
            ["0 0 span", "0 1 scope", "0 2 inside n=1"]
        );
        assert_eq!(
            *names.0.lock().unwrap(),
            ["span", "scope", "inside"],
            "{level}"
        );
    }
}

mod game {
    pub struct Renderer;

    #[profiling::all_functions]
    impl Renderer {
        pub fn sort(&self) {}

        #[profiling::skip]
        pub fn too_short(&self) {}
    }

    #[profiling::function]
    pub fn update(step: u32) {
        profiling::scope!("physics", format!("step {step}").as_str());
    }

    pub fn load() {
        profiling::function_scope!();
        tagged(7);
    }

    fn tagged(level: u32) {
        profiling::function_scope!(format!("level {level}").as_str());
    }
}

#[test]
fn the_macros_of_profiling_record_into_a_capture() {
    own_process!();
    let (found, frames) = record(vor::tracing::TracingLayer::new(), || {
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        game::load();
        profiling::finish_frame!();
        for step in 1..=2 {
            game::update(step);
            game::Renderer.sort();
            game::Renderer.too_short();
            profiling::finish_frame!();
        }
        let streamer = std::thread::Builder::new().name("streamer".to_owned());
        let stream = move || {
            tracing::dispatcher::with_default(&dispatch, || {
                profiling::register_thread!();
                profiling::scope!("stream");
            });
        };
        streamer.spawn(stream).unwrap().join().unwrap();
    });
    assert_eq!(frames, 4);
    let expected = [
        "0 0 load",
        "0 1 tagged tag=level 7",
        "1 0 update",
        "1 1 physics tag=step 1",
        "1 0 Renderer: sort",
        "2 0 update",
        "2 1 physics tag=step 2",
        "2 0 Renderer: sort",
        "3 0 stream",
    ];
    assert_eq!(tree(&found), expected);
    let threads: Vec<&str> = found
        .iter()
        .map(|(_, thread, ..)| thread.as_str())
        .collect();
    assert_eq!(threads[8], "streamer");
    assert!(threads[..8].iter().all(|thread| *thread == threads[0]));
}
