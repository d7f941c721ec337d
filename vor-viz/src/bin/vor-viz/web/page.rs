//! The viewer in a page.
//!
//! The page has a canvas with the id `vor` and an element for messages with the id `message`
//! (`web/index.html`). Captures in the parameter `url` of the page's address are fetched at once;
//! there may be two. The first one shows the place of `time=1.2s..1.3s`, `zoom=…` or `frame=812`.
//!
//! Scripts can read `window.vorViz`, which is updated in each pass:
//!
//! | property | value |
//! |---|---|
//! | `frames`, `spans` | totals of the first shown capture, 0 without one |
//! | `name` | name of that capture, or an empty text |
//! | `settled` | whether all requested data is loaded |
//! | `problem` | the latest error of opening or reading, in one line, or `null` |
//! | `passes` | number of drawn passes |
//! | `passMs` | duration of the last pass, without the tessellation and the GPU |
//! | `fps` | number of passes in the last second |
//! | `windowSpans` | number of spans in the window |
//! | `pinned` | the pinned frame, counted from 0, or `null` |
//! | `shown` | the time of the flame chart, as `[begin, end]` in nanoseconds of its scale |
//! | `selected` | the selected time in the same form, or `null` |
//! | `tab` | the name of the tab below the flame chart |
//! | `help` | whether the table of keys is shown |
//! | `frameMs` | milliseconds of the pinned frame, else of all frames in the window together |
//! | `scopes()` | sorted names of the scopes in up to a million spans of the window |

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::rc::Rc;

use egui::Ui;
use js_sys::{Array, Object, Reflect};
use vor_viz::replay::{Place, ReplayState};
use vor_viz::store::Store;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen::{JsCast as _, JsValue};
use wasm_bindgen_futures::spawn_local;
use web_time::{Duration, Instant};

use super::chooser::Chooser;
use super::fills;
use crate::viewer::Viewer;

/// Maximum number of spans that are searched for names.
const MAX_NAMED: usize = 1_000_000;

struct App {
    viewer: Viewer,
    status: Status,
    /// The current title of the page.
    title: String,
}

/// Starts to draw into the page's canvas. Errors are shown in the page.
pub(crate) fn start() {
    spawn_local(async {
        if let Err(error) = run().await {
            let text = error.as_string().unwrap_or_else(|| format!("{error:?}"));
            show_message(&format!("The viewer cannot start: {text}"));
        }
    });
}

async fn run() -> Result<(), JsValue> {
    let window = web_sys::window().ok_or("the page has no window")?;
    let document = window.document().ok_or("the page has no document")?;
    let canvas = document
        .get_element_by_id("vor")
        .ok_or("the page has no canvas called `vor`")?;
    let canvas: web_sys::HtmlCanvasElement = canvas.dyn_into().map_err(|_| "`vor` is no canvas")?;
    let parameters = web_sys::UrlSearchParams::new_with_str(&window.location().search()?)?;
    let addresses = parameters.get_all("url");
    let addresses: Vec<String> = addresses
        .iter()
        .filter_map(|address| address.as_string())
        .collect();
    let places = ["time", "zoom", "frame"].into_iter();
    let place = places
        .filter_map(|name| Some(format!("{name}={}", parameters.get(name)?)))
        .find_map(|place| place.parse::<Place>().ok());
    let status = Status::new(&window)?;
    let drawn_on = canvas.clone();
    let create = move |creation: &eframe::CreationContext<'_>| {
        fills::clear_large(&creation.egui_ctx, &drawn_on);
        let chooser = Chooser::new(&creation.egui_ctx, addresses);
        let mut viewer = Viewer::new(Vec::new(), chooser);
        if let Some(place) = place {
            viewer.go_to_when_opened(place);
        }
        let app: Box<dyn eframe::App> = Box::new(App {
            viewer,
            status,
            title: String::new(),
        });
        Ok(app)
    };
    let options = eframe::WebOptions {
        // There are no gradients to smooth, and dithering costs work per pixel if the CPU draws.
        dithering: false,
        ..eframe::WebOptions::default()
    };
    let runner = eframe::WebRunner::new();
    runner.start(canvas, options, Box::new(create)).await?;
    show_message("");
    Ok(())
}

/// Writes a line into the page, outside of the canvas; an empty line removes it.
fn show_message(line: &str) {
    let document = web_sys::window().and_then(|window| window.document());
    if let Some(message) = document.and_then(|document| document.get_element_by_id("message")) {
        message.set_text_content(Some(line));
    }
}

impl eframe::App for App {
    fn ui(&mut self, ui: &mut Ui, _: &mut eframe::Frame) {
        let began = Instant::now();
        self.viewer.show(ui);
        let title = self.viewer.title();
        if self.title != title {
            if let Some(document) = web_sys::window().and_then(|window| window.document()) {
                document.set_title(&title);
            }
            self.title = title;
        }
        self.status.update(&self.viewer, began);
    }

    fn clear_color(&self, visuals: &egui::Visuals) -> [f32; 4] {
        fills::ground(visuals).to_normalized_gamma_f32()
    }
}

/// `window.vorViz`.
struct Status {
    object: Object,
    /// Name and version of the store from which the names were taken.
    named: Option<(String, u64)>,
    names: Rc<RefCell<BTreeSet<String>>>,
    /// Begins of the passes in the last second.
    passes: VecDeque<Instant>,
    count: u64,
    problem: Option<String>,
}

impl Status {
    fn new(window: &web_sys::Window) -> Result<Self, JsValue> {
        let names = Rc::new(RefCell::new(BTreeSet::new()));
        let shared_names: Rc<RefCell<BTreeSet<String>>> = Rc::clone(&names);
        let scopes = move || {
            let names = shared_names.borrow();
            names.iter().map(JsValue::from).collect::<Array>()
        };
        let scopes = Closure::<dyn Fn() -> Array>::new(scopes).into_js_value();
        let object = Object::new();
        Reflect::set(&object, &"scopes".into(), &scopes)?;
        Reflect::set(&object, &"problem".into(), &JsValue::NULL)?;
        Reflect::set(window, &"vorViz".into(), &object)?;
        Ok(Self {
            object,
            named: None,
            names,
            passes: VecDeque::new(),
            count: 0,
            problem: None,
        })
    }

    fn update(&mut self, viewer: &Viewer, began: Instant) {
        self.count += 1;
        self.passes.push_back(began);
        while self
            .passes
            .front()
            .is_some_and(|pass| began.duration_since(*pass) > Duration::from_secs(1))
        {
            self.passes.pop_front();
        }
        let first = viewer.shown().first();
        let is_settled = viewer.is_settled();
        self.set("frames", first.map_or(0, |it| it.frames_total()) as f64);
        self.set(
            "spans",
            first.map_or(0, |it| it.info().spans.max(it.summary().spans())) as f64,
        );
        self.set(
            "windowSpans",
            first.map_or(0, |it| it.store().stored_spans()) as f64,
        );
        self.set(
            "frameMs",
            first.map_or(0.0, |it| {
                let store = it.store();
                let pinned = it
                    .panel()
                    .view()
                    .pinned()
                    .and_then(|id| store.frame(id))
                    .map(|frame| frame.duration_ms());
                pinned
                    .unwrap_or_else(|| store.frames().iter().map(|frame| frame.duration_ms()).sum())
            }),
        );
        self.set_view(first);
        self.set("name", first.map_or("", |it| it.name()));
        self.set("passes", self.count as f64);
        self.set("fps", self.passes.len() as f64);
        let problem = viewer
            .problem()
            .or_else(|| viewer.shown().iter().find_map(|it| it.problem()));
        if self.problem.as_deref() != problem {
            self.problem = problem.map(str::to_owned);
            self.set("problem", problem.map_or(JsValue::NULL, JsValue::from));
        }
        if let Some(first) = first.filter(|_| is_settled) {
            let version = Some((first.name().to_owned(), first.store().version()));
            if self.named != version {
                self.named = version;
                *self.names.borrow_mut() = names(first.store());
            }
        } else if first.is_none() {
            self.names.borrow_mut().clear();
        }
        self.set("passMs", began.elapsed().as_secs_f64() * 1e3);
        // Must be last: when it changes, the other values are up to date.
        self.set("settled", is_settled);
    }

    /// Updates what is looked at.
    fn set_view(&self, first: Option<&ReplayState>) {
        let Some(replay) = first else {
            for name in ["pinned", "shown", "selected", "tab", "help"] {
                self.set(name, JsValue::NULL);
            }
            return;
        };
        let (panel, store) = (replay.panel(), replay.store());
        let view = panel.view();
        let zero_ns = view.zero_ns(store);
        let range = |begin_ns: f64, end_ns: f64| {
            let times = [begin_ns, end_ns].map(|ns| JsValue::from(ns - zero_ns));
            JsValue::from(times.iter().collect::<Array>())
        };
        let pinned = view.pinned().and_then(|id| replay.frame_of(id));
        let pinned = pinned.map_or(JsValue::NULL, |frame| JsValue::from(frame as f64));
        let selected = view.time_selection();
        let selected = selected.map(|(begin_ns, end_ns)| range(begin_ns as f64, end_ns as f64));
        let shown = view.flame_axis(store);
        self.set("pinned", pinned);
        self.set("shown", range(shown.begin_ns, shown.end_ns));
        self.set("selected", selected.unwrap_or(JsValue::NULL));
        self.set("tab", panel.tab().name());
        self.set("help", panel.shows_help());
    }

    fn set(&self, name: &str, value: impl Into<JsValue>) {
        // A script may have frozen the object; then the update is skipped.
        let _ = Reflect::set(&self.object, &name.into(), &value.into());
    }
}

/// Returns the names of the spans in a store.
fn names(store: &Store) -> BTreeSet<String> {
    let mut sites = BTreeSet::new();
    let mut left = MAX_NAMED;
    for row in store.tracks().iter().flat_map(|track| &track.rows) {
        let spans = row.spans(i64::MIN, i64::MAX).take(left);
        sites.extend(spans.map(|span| span.site));
        left = left.saturating_sub(row.len());
    }
    let name = |site| store.catalog().site_name(site).to_owned();
    sites.into_iter().map(name).collect()
}
