//! A window with the live panel: particles move above, and the panel below shows their cost.
//!
//! ```text
//! cargo run --release --example live_panel --features viz
//! ```
//!
//! Particles fall and bounce; a slider sets their number. Worker threads compute them in slices. A
//! frame is in the panel some milliseconds after its end: pause it, click a bar, scroll over the
//! flame chart, press `?`.

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};

use eframe::egui;
use vor_examples::particles::{Particle, advance};
use vor_examples::stage::Stage;

const WORKERS: usize = 3;

/// A part of the particles, on its way to a worker and back.
struct Slice {
    /// The index of the first particle.
    first: usize,
    particles: Vec<Particle>,
    bounces: usize,
}

struct App {
    stage: Stage,
    work: Vec<Sender<Slice>>,
    done: Receiver<Slice>,
}

impl App {
    fn new() -> Self {
        let (finished, done) = channel();
        let work = (0..WORKERS).map(|i| {
            let (sender, receiver) = channel::<Slice>();
            let finished = finished.clone();
            let worker = std::thread::Builder::new().name(format!("worker {}", i + 1));
            // If the thread cannot start, its particles stand still.
            let _ = worker.spawn(move || {
                for mut slice in receiver {
                    slice.bounces = advance(&mut slice.particles);
                    if finished.send(slice).is_err() {
                        break;
                    }
                }
            });
            sender
        });
        Self {
            stage: Stage::new(),
            work: work.collect(),
            done,
        }
    }

    #[vor::profile]
    fn simulate(&mut self) -> usize {
        self.stage.particles.spawn();
        let all = &mut self.stage.particles.all;
        let share = all.len().div_ceil(WORKERS).max(1);
        let mut sent = 0;
        for (i, particles) in all.chunks(share).enumerate() {
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
            all[slice.first..slice.first + slice.particles.len()].copy_from_slice(&slice.particles);
            bounces += slice.bounces;
        }
        bounces
    }
}

impl eframe::App for App {
    fn ui(&mut self, ui: &mut egui::Ui, _: &mut eframe::Frame) {
        let bounces = self.simulate();
        egui::CentralPanel::default().show(ui, |ui| self.stage.show(ui, bounces));
    }
}

fn main() -> ExitCode {
    vor::enable();
    let options = eframe::NativeOptions {
        viewport: egui::ViewportBuilder::default().with_inner_size([1280.0, 860.0]),
        ..Default::default()
    };
    match eframe::run_native(
        "vor live panel",
        options,
        Box::new(|_| Ok(Box::new(App::new()))),
    ) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("live_panel: cannot open a window: {error}");
            ExitCode::FAILURE
        }
    }
}
