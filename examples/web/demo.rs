//! The particles and the panel in a canvas of the page.

use eframe::egui;
use eframe::wasm_bindgen::{JsCast as _, JsValue};
use eframe::web_sys::{self, HtmlCanvasElement};
use vor::Sink as _;
use vor_examples::stage::Stage;

use crate::SLICES;

struct App {
    stage: Stage,
    /// Shows the scopes in the developer tools until it is dropped.
    _timeline: vor::Guard,
}

/// Draws into the canvas `demo`.
pub(crate) fn start() {
    wasm_bindgen_futures::spawn_local(async {
        if let Err(error) = run().await {
            web_sys::console::error_1(&error);
        }
    });
}

async fn run() -> Result<(), JsValue> {
    let document = web_sys::window().and_then(|window| window.document());
    let canvas = document.and_then(|document| document.get_element_by_id("demo"));
    let canvas: HtmlCanvasElement = canvas.ok_or("the page has no canvas `demo`")?.dyn_into()?;
    let runner = eframe::WebRunner::new();
    let create = |_: &eframe::CreationContext<'_>| {
        let app: Box<dyn eframe::App> = Box::new(App::new());
        Ok(app)
    };
    runner
        .start(canvas, eframe::WebOptions::default(), Box::new(create))
        .await
}

impl App {
    fn new() -> Self {
        // Turns recording on before the panel exists, so that the panel has the first frame.
        let timeline = vor::BrowserSink.install();
        Self {
            stage: Stage::new(),
            _timeline: timeline,
        }
    }
}

impl eframe::App for App {
    fn ui(&mut self, ui: &mut egui::Ui, _: &mut eframe::Frame) {
        // The particles move while the panel is paused too, without ending frames.
        let bounces = self.stage.particles.simulate(SLICES);
        egui::CentralPanel::default().show(ui, |ui| self.stage.show(ui, bounces));
    }
}
