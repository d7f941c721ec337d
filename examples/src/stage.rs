//! The window of the examples with a panel: particles, a slider for their number, and the panel
//! below.

use std::collections::VecDeque;

use egui::{Color32, Mesh, Rect, Slider, Ui, pos2, vec2};
use vor::viz::{Metric, PanelConfig, PanelState};

use crate::particles::Particles;

/// The program's own values of a frame.
#[derive(Debug)]
pub struct Workload {
    particles: usize,
    bounces: usize,
}

const METRICS: &[Metric<Workload>] = &[
    Metric::new(
        "particles",
        |workload: &Workload| workload.particles as f64,
        "",
    )
    .as_integer()
    .describe("particles in the air"),
    Metric::new("bounces", |workload: &Workload| workload.bounces as f64, "")
        .as_integer()
        .describe("particles that hit the ground or a wall in the frame"),
];

/// The particles, and the panel below them.
#[derive(Debug)]
pub struct Stage {
    /// The particles in the air, which the program moves.
    pub particles: Particles,
    mesh: Mesh,
    state: PanelState,
    history: VecDeque<Workload>,
}

impl Stage {
    /// Makes a stage with 4000 particles, and turns recording on.
    #[must_use]
    pub fn new() -> Self {
        Self {
            particles: Particles::new(4000),
            mesh: Mesh::default(),
            state: PanelState::new(PanelConfig::FRAME_MS),
            history: VecDeque::new(),
        }
    }

    /// Shows the particles and the panel, and ends the frame, which had a number of bounces.
    pub fn show(&mut self, ui: &mut Ui, bounces: usize) {
        ui.add(
            Slider::new(&mut self.particles.target, 0..=200_000)
                .logarithmic(true)
                .text("particles"),
        );
        let height = (ui.available_height() * 0.25).clamp(60.0, 240.0);
        let (rect, _) =
            ui.allocate_exact_size(vec2(ui.available_width(), height), egui::Sense::hover());
        ui.painter()
            .rect_filled(rect, 4.0, ui.visuals().extreme_bg_color);
        self.draw(ui, rect);
        // A paused panel shows neither new frames nor new values, so that its graphs stay aligned.
        if !self.state.is_paused() {
            self.state.tick();
            if self.history.len() == PanelConfig::FRAME_MS.history_capacity {
                self.history.pop_front();
            }
            self.history.push_back(Workload {
                particles: self.particles.all.len(),
                bounces,
            });
        }
        vor::viz::show(ui, &mut self.state, &self.history, METRICS);
        ui.ctx().request_repaint();
    }

    #[vor::profile]
    fn draw(&mut self, ui: &Ui, rect: Rect) {
        self.mesh.clear();
        for particle in &self.particles.all {
            let [x, y] = particle.position;
            let center = pos2(
                rect.left() + x * rect.width(),
                rect.bottom() - y * rect.height(),
            );
            let heat = (particle.velocity[0].abs() + particle.velocity[1].abs()).min(1.0);
            let color =
                Color32::from_rgb(90 + (150.0 * heat) as u8, 150, 250 - (140.0 * heat) as u8);
            self.mesh
                .add_colored_rect(Rect::from_center_size(center, vec2(2.0, 2.0)), color);
        }
        ui.painter().add(self.mesh.clone());
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}
