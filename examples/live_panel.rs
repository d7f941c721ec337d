//! A window with the live panel: something moves above, and below stands what it costs.
//!
//! ```text
//! cargo run --release --example live_panel --features viz
//! ```
//!
//! Particles fall and bounce; the slider says how many. Worker threads compute them in slices, and each frame's work is in the panel some milliseconds later: pause it, click a bar,
//! scroll over the flame chart, press `?`.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};

use eframe::egui::{self, Color32, Mesh, Rect, Slider, pos2, vec2};
use vor::viz::{Metric, PanelConfig, PanelState};
use vor_examples::Generator;

const WORKERS: usize = 3;

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

/// Particles to move, and where they belong.
struct Slice {
    first: usize,
    particles: Vec<Particle>,
    bounces: usize,
}

struct App {
    particles: Vec<Particle>,
    wanted: usize,
    generator: Generator,
    work: Vec<Sender<Slice>>,
    done: Receiver<Slice>,
    state: PanelState,
    history: VecDeque<Workload>,
}

impl App {
    fn new() -> Self {
        let (finished, done) = channel();
        let work = (0..WORKERS).map(|i| {
            let (sender, receiver) = channel::<Slice>();
            let finished = finished.clone();
            let worker = std::thread::Builder::new().name(format!("worker {}", i + 1));
            // Without the thread its slices come back to nobody, and the particles of them stand still.
            let _ = worker.spawn(move || {
                for mut slice in receiver {
                    advance(&mut slice);
                    if finished.send(slice).is_err() {
                        break;
                    }
                }
            });
            sender
        });
        Self {
            particles: Vec::new(),
            wanted: 4000,
            generator: Generator::new(3),
            work: work.collect(),
            done,
            state: PanelState::new(PanelConfig::FRAME_MS),
            history: VecDeque::new(),
        }
    }

    #[vor::profile]
    fn simulate(&mut self) -> usize {
        self.spawn();
        let share = self.particles.len().div_ceil(WORKERS).max(1);
        let mut sent = 0;
        for (i, particles) in self.particles.chunks(share).enumerate() {
            let slice = Slice {
                first: i * share,
                particles: particles.to_vec(),
                bounces: 0,
            };
            sent += usize::from(self.work[i].send(slice).is_ok());
        }
        vor::profile_scope!("gather");
        let mut bounces = 0;
        for slice in self.done.iter().take(sent) {
            self.particles[slice.first..slice.first + slice.particles.len()]
                .copy_from_slice(&slice.particles);
            bounces += slice.bounces;
        }
        bounces
    }

    fn spawn(&mut self) {
        vor::profile_scope!("spawn");
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
    fn draw(&self, ui: &egui::Ui, rect: Rect) {
        let mut mesh = Mesh::default();
        for particle in &self.particles {
            let [x, y] = particle.place;
            let place = pos2(rect.left() + x * rect.width(), rect.bottom() - y * rect.height());
            let heat = (particle.speed[0].abs() + particle.speed[1].abs()).min(1.0);
            let color = Color32::from_rgb(90 + (150.0 * heat) as u8, 150, 250 - (140.0 * heat) as u8);
            mesh.add_colored_rect(Rect::from_center_size(place, vec2(2.0, 2.0)), color);
        }
        ui.painter().add(mesh);
    }
}

#[vor::profile]
fn advance(slice: &mut Slice) {
    vor::profile_scope!("move and bounce", particles = slice.particles.len());
    for particle in &mut slice.particles {
        particle.speed[1] -= 0.01;
        for axis in 0..2 {
            particle.place[axis] += particle.speed[axis] * 0.01;
            if !(0.0..=1.0).contains(&particle.place[axis]) {
                particle.place[axis] = particle.place[axis].clamp(0.0, 1.0);
                particle.speed[axis] *= -0.98;
                slice.bounces += 1;
            }
        }
    }
}

impl eframe::App for App {
    fn ui(&mut self, ui: &mut egui::Ui, _: &mut eframe::Frame) {
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

fn main() -> ExitCode {
    vor::enable();
    let options = eframe::NativeOptions {
        viewport: egui::ViewportBuilder::default().with_inner_size([1280.0, 860.0]),
        ..Default::default()
    };
    match eframe::run_native("vor live panel", options, Box::new(|_| Ok(Box::new(App::new())))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("live_panel: no window can be opened: {error}");
            ExitCode::FAILURE
        }
    }
}
