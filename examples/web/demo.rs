//! What moves, and the panel below it.

use std::collections::VecDeque;

use eframe::egui::{self, Color32, Mesh, Rect, Slider, pos2, vec2};
use eframe::wasm_bindgen::{JsCast as _, JsValue};
use eframe::web_sys::{self, HtmlCanvasElement};
use vor::Sink as _;
use vor::viz::{Metric, PanelConfig, PanelState};
use vor_examples::Generator;

/// Slices in which the particles are moved: each is a scope.
const SLICES: usize = 8;

/// What this program notes of each frame.
struct Workload {
    particles: usize,
    bounces: usize,
}

const METRICS: &[Metric<Workload>] = &[
    Metric::new("particles", |workload: &Workload| workload.particles as f64, "")
        .as_integer()
        .describe("particles in the air"),
    Metric::new("bounces", |workload: &Workload| workload.bounces as f64, "")
        .as_integer()
        .describe("particles that met the ground or a wall in the frame"),
];

#[derive(Clone, Copy)]
struct Particle {
    place: [f32; 2],
    speed: [f32; 2],
}

struct App {
    particles: Vec<Particle>,
    wanted: usize,
    generator: Generator,
    mesh: Mesh,
    state: PanelState,
    history: VecDeque<Workload>,
    /// Shows the scopes in the developer tools for as long as it is kept.
    _timeline: vor::Guard,
}

/// Draws into the canvas called `demo`.
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
    let canvas: HtmlCanvasElement = canvas.ok_or("the page has no canvas called `demo`")?.dyn_into()?;
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
        Self {
            particles: Vec::new(),
            wanted: 4000,
            generator: Generator::new(3),
            mesh: Mesh::default(),
            // Recording is on before the panel is made, so that the first frame is in it.
            _timeline: vor::BrowserSink.install(),
            state: PanelState::new(PanelConfig::FRAME_MS),
            history: VecDeque::new(),
        }
    }

    #[vor::profile]
    fn simulate(&mut self) -> usize {
        self.spawn();
        let share = self.particles.len().div_ceil(SLICES).max(1);
        self.particles.chunks_mut(share).map(advance).sum()
    }

    #[vor::profile]
    fn spawn(&mut self) {
        self.particles.truncate(self.wanted);
        while self.particles.len() < self.wanted {
            let mut number = || (self.generator.signed_unit() + 1.0) / 2.0;
            self.particles.push(Particle {
                place: [number(), number()],
                speed: [number() - 0.5, number() - 0.5],
            });
        }
    }

    #[vor::profile]
    fn draw(&mut self, ui: &egui::Ui, rect: Rect) {
        self.mesh.clear();
        for particle in &self.particles {
            let [x, y] = particle.place;
            let place = pos2(rect.left() + x * rect.width(), rect.bottom() - y * rect.height());
            let heat = (particle.speed[0].abs() + particle.speed[1].abs()).min(1.0);
            let color = Color32::from_rgb(90 + (150.0 * heat) as u8, 150, 250 - (140.0 * heat) as u8);
            self.mesh
                .add_colored_rect(Rect::from_center_size(place, vec2(2.0, 2.0)), color);
        }
        ui.painter().add(self.mesh.clone());
    }
}

#[vor::profile(args(particles = slice.len()))]
fn advance(slice: &mut [Particle]) -> usize {
    let mut bounces = 0;
    for particle in slice {
        particle.speed[1] -= 0.01;
        for axis in 0..2 {
            particle.place[axis] += particle.speed[axis] * 0.01;
            if !(0.0..=1.0).contains(&particle.place[axis]) {
                particle.place[axis] = particle.place[axis].clamp(0.0, 1.0);
                particle.speed[axis] *= -0.98;
                bounces += 1;
            }
        }
    }
    bounces
}

impl eframe::App for App {
    fn ui(&mut self, ui: &mut egui::Ui, _: &mut eframe::Frame) {
        // What is drawn while the panel is paused is no frame, but is shown all the same.
        let bounces = self.simulate();
        egui::CentralPanel::default().show(ui, |ui| {
            ui.add(
                Slider::new(&mut self.wanted, 0..=200_000)
                    .logarithmic(true)
                    .text("particles"),
            );
            let height = (ui.available_height() * 0.25).clamp(60.0, 240.0);
            let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), height), egui::Sense::hover());
            ui.painter().rect_filled(rect, 4.0, ui.visuals().extreme_bg_color);
            self.draw(ui, rect);
            // Skip both while the panel is paused, so that all graphs stand still together.
            if !self.state.is_paused() {
                self.state.tick();
                if self.history.len() == PanelConfig::FRAME_MS.history_capacity {
                    self.history.pop_front();
                }
                self.history.push_back(Workload {
                    particles: self.particles.len(),
                    bounces,
                });
            }
            vor::viz::show(ui, &mut self.state, &self.history, METRICS);
        });
        ui.ctx().request_repaint();
    }
}
