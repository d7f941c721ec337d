//! The contest, and one frame for puffin.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::{Arc, Mutex};

use js_sys::{Array, Object, Reflect};
use vor_benches::rounds::{Loop, contest};
use vor_capture::Error;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_recorder::setup::Config;
use vor_recorder::{clock, drain, profile_phase, profile_scope};
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

#[wasm_bindgen]
extern "C" {
    /// The object with the page's clock. Looking it up at each read takes half as long again.
    type Performance;
    #[wasm_bindgen(thread_local_v2, js_name = performance)]
    static PERFORMANCE: Performance;
    #[wasm_bindgen(method)]
    fn now(this: &Performance) -> f64;
}

const ROUNDS: usize = 100;
/// Passes of a loop, which take milliseconds: browsers round their clock to a tenth of one. A ring
/// has room for the records of all loops in a round, and before the first.
const PASSES: u32 = 25_000;

/// The content of the frames.
#[derive(Clone, Debug, Default)]
struct RecordedFrames {
    rows: BTreeSet<String>,
    spans: u64,
    dropped: u64,
}

#[derive(Clone, Default)]
struct Frames(Arc<Mutex<RecordedFrames>>);

impl FrameSink for Frames {
    fn interest(&self) -> Interest {
        Interest::METRICS
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        let columns = &frame.catalog.columns;
        let mut seen = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let names = frame
            .metrics
            .iter()
            .map(|value| &columns[value.column as usize].metric.name);
        seen.rows.extend(names.cloned());
        seen.spans += frame.span_count;
        seen.dropped += frame.dropped_spans;
        Ok(())
    }
}

/// Measures, and leaves what was found where the page looks for it.
pub(crate) fn run() {
    let frames = Frames::default();
    Config::new()
        .sink("what frames hold", frames.clone())
        .enable();
    let answer = Object::new();
    let set = |name: &str, value: JsValue| {
        // A plain object takes every property.
        let _ = Reflect::set(&answer, &name.into(), &value);
    };
    let costs = Array::new();
    for (name, ns, ratio) in measure() {
        costs.push(&Array::of3(&name.into(), &ns.into(), &ratio.into()));
    }
    set("costs", costs.into());
    set("puffin", texts(puffin_frame()).into());
    let seen = frames.0.lock().map(|seen| seen.clone()).unwrap_or_default();
    set("rows", texts(seen.rows).into());
    set("spans", (seen.spans as f64).into());
    set("dropped", (seen.dropped as f64).into());
    let _ = Reflect::set(&js_sys::global(), &"vorBench".into(), &answer);
}

fn texts(texts: impl IntoIterator<Item = String>) -> Array {
    texts.into_iter().map(JsValue::from).collect()
}

/// Returns each contestant's name, its nanoseconds, and how many times two readings of the clock it
/// took.
fn measure() -> Vec<(&'static str, f64, f64)> {
    let names = [
        "two clock readings",
        "the same by vor",
        "empty scope",
        "scope with two integers",
        "phase",
    ];
    let mut contestants: [Loop<'_>; 5] = [
        Box::new(|passes| {
            PERFORMANCE.with(|performance| {
                for _ in 0..passes {
                    black_box((performance.now(), performance.now()));
                }
            });
        }),
        Box::new(|passes| {
            for _ in 0..passes {
                black_box((clock::ticks(), clock::ticks()));
            }
        }),
        Box::new(|passes| {
            for _ in 0..passes {
                profile_scope!("empty");
            }
        }),
        Box::new(|passes| {
            for pass in 0..passes {
                profile_scope!("integers", pass = pass, passes = passes);
            }
        }),
        Box::new(|passes| {
            let mut phases = profile_phase!("first");
            for _ in 1..passes {
                profile_phase!(phases, "next");
            }
        }),
    ];
    let times = contest(ROUNDS, PASSES, &mut contestants, 1, &mut drain::frame_mark);
    let found = |(name, time): (&'static str, &vor_benches::rounds::Times)| {
        (name, time.median_ns(), time.ratio_to(&times[0]))
    };
    names.into_iter().zip(&times).map(found).collect()
}

/// Returns the names of the scopes in a frame of puffin's, in which there is one of puffin's own
/// macro and one of vor's.
fn puffin_frame() -> Vec<String> {
    let names = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&names);
    puffin::set_scopes_on(true);
    // A frame that started before puffin's scopes were on is incomplete.
    drain::frame_mark();
    let frames = puffin::GlobalProfiler::lock().add_sink(Box::new(move |frame| {
        if let Ok(mut names) = sink.lock() {
            let scopes = frame.scope_delta.iter();
            names.extend(scopes.map(|scope| scope.name().to_string()));
        }
    }));
    {
        puffin::profile_scope!("of puffin");
        profile_scope!("of vor");
    }
    drain::frame_mark();
    puffin::set_scopes_on(false);
    puffin::GlobalProfiler::lock().remove_sink(frames);
    names.lock().map(|names| names.clone()).unwrap_or_default()
}
