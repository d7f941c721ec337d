//! The panel's interface without a window: measured functions and a measured `impl`, your own
//! metrics, and the loop around [`PanelState`](vor::viz::PanelState).
//!
//! ```text
//! cargo run --release --example custom_metrics --features panel
//! ```
//!
//! A swarm flies for 120 frames. egui runs as in a window, but its pictures are discarded. At the
//! end the example prints the content of the panel.

use std::collections::VecDeque;
use std::io::Write;
use std::process::ExitCode;

use vor::viz::{Metric, PanelConfig, PanelState};
use vor_examples::{Generator, Outcome};

const FRAMES: usize = 120;

/// The program's own values of a frame.
struct Workload {
    alive: usize,
    mean_speed: f32,
}

const METRICS: &[Metric<Workload>] = &[
    Metric::new("alive", |workload: &Workload| workload.alive as f64, "")
        .as_integer()
        .describe("birds in the air at the end of the frame"),
    Metric::new(
        "speed",
        |workload: &Workload| f64::from(workload.mean_speed),
        "m/s",
    )
    .describe("mean over all birds"),
];

struct Bird {
    position: [f32; 2],
    velocity: [f32; 2],
}

struct Swarm {
    birds: Vec<Bird>,
}

/// The scopes are `Swarm::steer` and `Swarm::fly`; a skipped function has none.
#[vor::all_functions]
impl Swarm {
    #[vor::skip]
    fn new(generator: &mut Generator) -> Self {
        let mut number = || generator.signed_unit();
        let birds = (0..600).map(|_| Bird {
            position: [number(), number()],
            velocity: [number(), number()],
        });
        Self {
            birds: birds.collect(),
        }
    }

    /// Pulls every bird towards the centre of the swarm.
    fn steer(&mut self) {
        let count = self.birds.len().max(1) as f32;
        let middle = [0, 1].map(|axis| {
            self.birds
                .iter()
                .map(|bird| bird.position[axis])
                .sum::<f32>()
                / count
        });
        for bird in &mut self.birds {
            for (axis, middle) in middle.iter().enumerate() {
                bird.velocity[axis] += (middle - bird.position[axis]) * 0.02;
            }
        }
    }

    fn fly(&mut self) {
        for bird in &mut self.birds {
            for axis in 0..2 {
                bird.position[axis] += bird.velocity[axis] * 0.016;
            }
        }
        // A bird that strays too far does not come back.
        self.birds
            .retain(|bird| bird.position.iter().all(|axis| axis.abs() < 1.1));
    }
}

#[vor::profile]
fn simulate(swarm: &mut Swarm) -> Workload {
    swarm.steer();
    swarm.fly();
    vor::profile_scope!("sum up", birds = swarm.birds.len());
    let speed = |bird: &Bird| bird.velocity.iter().map(|v| v * v).sum::<f32>().sqrt();
    let alive = swarm.birds.len();
    Workload {
        alive,
        mean_speed: swarm.birds.iter().map(speed).sum::<f32>() / alive.max(1) as f32,
    }
}

fn main() -> ExitCode {
    vor_examples::run(fly_and_report)
}

fn fly_and_report(out: &mut dyn Write) -> Outcome {
    vor::enable();
    let mut swarm = Swarm::new(&mut Generator::new(7));
    let mut state = PanelState::new(PanelConfig::FRAME_MS);
    let mut history = VecDeque::with_capacity(PanelConfig::FRAME_MS.history_capacity);
    let ctx = egui::Context::default();
    for _ in 0..FRAMES {
        let workload = simulate(&mut swarm);
        // A paused panel shows neither new frames nor new values, so that its graphs stay aligned.
        if !state.is_paused() {
            state.tick();
            if history.len() == PanelConfig::FRAME_MS.history_capacity {
                history.pop_front();
            }
            history.push_back(workload);
        }
        let mut output = ctx.run_ui(egui::RawInput::default(), |ui| {
            vor::viz::show(ui, &mut state, &history, METRICS);
        });
        // A window would upload these to the GPU.
        output.textures_delta.clear();
    }
    // A frame reaches the panel some milliseconds after its end.
    vor::flush();
    state.tick();

    let store = state.store();
    writeln!(
        out,
        "The panel holds {} frames and {} spans.",
        store.frames().len(),
        store.stored_spans()
    )?;
    let slowest = store
        .frames()
        .iter()
        .max_by(|a, b| a.duration_ms().total_cmp(&b.duration_ms()));
    if let Some(slowest) = slowest {
        writeln!(
            out,
            "The slowest took {:.3} ms and has {} spans.",
            slowest.duration_ms(),
            slowest.span_count
        )?;
    }
    if let Some(last) = history.back() {
        writeln!(
            out,
            "{} birds are left, {:.2} m/s fast.",
            last.alive, last.mean_speed
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_panel_holds_every_frame_and_span() {
        let mut out = Vec::new();
        fly_and_report(&mut out).expect("the example runs");
        let text = String::from_utf8(out).expect("it prints text");
        // 121 ticks, of which the first ends no frame, and four scopes before each of 120 ticks.
        assert!(
            text.starts_with("The panel holds 120 frames and 480 spans."),
            "{text}"
        );
    }
}
