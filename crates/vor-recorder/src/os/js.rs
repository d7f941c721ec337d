//! The interfaces of a page or a worker that vor calls. Pages and workers have the same
//! `performance` and `console`.
//!
//! A value that the environment lacks, such as the memory outside of Chromium, is `undefined` there
//! and `None` here.

#[cfg(feature = "web")]
use wasm_bindgen::JsCast as _;

mod imports {
    use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

    #[wasm_bindgen]
    extern "C" {
        #[wasm_bindgen(js_namespace = console)]
        pub(super) fn warn(line: &str);
        #[wasm_bindgen(js_namespace = console)]
        pub(super) fn debug(line: &str);

        #[wasm_bindgen(js_namespace = performance, js_name = now)]
        pub(super) fn now_ms() -> f64;
        #[wasm_bindgen(thread_local_v2, js_namespace = performance, js_name = timeOrigin)]
        pub(super) static TIME_ORIGIN_MS: f64;

        /// Chromium's `performance`, which returns a new object for its memory each time.
        pub(super) type Performance;
        #[wasm_bindgen(thread_local_v2, js_name = performance)]
        pub(super) static PERFORMANCE: Performance;
        #[wasm_bindgen(method, structural, getter)]
        pub(super) fn memory(this: &Performance) -> Option<Memory>;

        pub(super) type Memory;
        #[wasm_bindgen(method, structural, getter, js_name = usedJSHeapSize)]
        pub(super) fn used_js_heap_size(this: &Memory) -> Option<f64>;

        #[wasm_bindgen(js_namespace = performance, catch)]
        pub(super) fn measure(name: &str, options: &Options) -> Result<JsValue, JsValue>;
        #[wasm_bindgen(js_namespace = performance, js_name = clearMeasures)]
        pub(super) fn clear_measures(name: &str);

        /// The options of `measure`.
        pub(super) type Options;
        #[wasm_bindgen(method, structural, setter)]
        pub(super) fn set_start(this: &Options, ms: f64);
        #[wasm_bindgen(method, structural, setter)]
        pub(super) fn set_end(this: &Options, ms: f64);
        #[wasm_bindgen(method, structural, setter)]
        pub(super) fn set_detail(this: &Options, detail: &Detail);

        /// The details of a measure.
        pub(super) type Detail;
        #[wasm_bindgen(method, structural, setter)]
        pub(super) fn set_frame(this: &Detail, index: f64);
        #[wasm_bindgen(method, structural, setter)]
        pub(super) fn set_devtools(this: &Detail, entry: &TrackEntry);

        /// The place of a measure in Chromium's developer tools.
        pub(super) type TrackEntry;
        #[wasm_bindgen(method, structural, setter, js_name = dataType)]
        pub(super) fn set_data_type(this: &TrackEntry, kind: &str);
        #[wasm_bindgen(method, structural, setter)]
        pub(super) fn set_track(this: &TrackEntry, name: &str);
        #[wasm_bindgen(method, structural, setter, js_name = trackGroup)]
        pub(super) fn set_track_group(this: &TrackEntry, name: &str);
        #[wasm_bindgen(method, structural, setter)]
        pub(super) fn set_properties(this: &TrackEntry, pairs: &js_sys::Array);
    }
}

/// Writes a line to the console, as a warning.
pub(crate) fn warn(line: &str) {
    imports::warn(line);
}

/// Writes a line to the console, at the level that is hidden by default.
pub(crate) fn debug(line: &str) {
    imports::debug(line);
}

/// Returns the nanoseconds since the page was opened.
pub(crate) fn now_ns() -> u64 {
    (imports::now_ms() * 1e6) as u64
}

/// Returns the wall clock in nanoseconds since 1970: the time when the page was opened, plus the
/// time of the page's clock since then. Unlike `Date` it does not step, and it has the resolution
/// of the ticks.
pub(crate) fn wall_ns() -> i64 {
    // Added as integers: an `f64` of time since 1970 does not resolve nanoseconds.
    let origin_ns = imports::TIME_ORIGIN_MS.with(|ms| (*ms * 1e6) as i64);
    origin_ns.saturating_add((imports::now_ms() * 1e6) as i64)
}

/// Returns the page's memory use, in bytes, if the browser reports it.
#[cfg(feature = "web")]
pub(crate) fn memory_bytes() -> Option<u64> {
    let used = imports::PERFORMANCE.with(|performance| {
        // A worker of an old browser may not have it.
        let is_there = !performance.is_null() && !performance.is_undefined();
        is_there
            .then(|| performance.memory()?.used_js_heap_size())
            .flatten()
    })?;
    (used > 0.0).then_some(used as u64)
}

/// Clears all measures with a name.
#[cfg(feature = "web")]
pub(crate) fn clear_measures(name: &str) {
    imports::clear_measures(name);
}

/// The details of a measure besides its name and times.
#[cfg(feature = "web")]
pub(crate) struct Detail {
    options: imports::Options,
}

#[cfg(feature = "web")]
impl Detail {
    /// Creates a detail for spans of one frame and one thread. `properties` are shown with the
    /// span.
    pub(crate) fn new<'a>(
        frame: u64,
        track: &str,
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let object = || js_sys::Object::new();
        let entry: imports::TrackEntry = object().unchecked_into();
        entry.set_data_type("track-entry");
        entry.set_track(track);
        entry.set_track_group("vor");
        let pairs = js_sys::Array::new();
        for (name, value) in properties {
            pairs.push(&js_sys::Array::of2(&name.into(), &value.into()));
        }
        entry.set_properties(&pairs);
        let detail: imports::Detail = object().unchecked_into();
        detail.set_frame(frame as f64);
        detail.set_devtools(&entry);
        let options: imports::Options = object().unchecked_into();
        options.set_detail(&detail);
        Self { options }
    }

    /// Adds a measure to the timeline; times are in milliseconds of the page's clock. Returns
    /// whether the browser accepted it.
    pub(crate) fn measure(&self, name: &str, start_ms: f64, end_ms: f64) -> bool {
        self.options.set_start(start_ms);
        self.options.set_end(end_ms);
        imports::measure(name, &self.options).is_ok()
    }
}
