//! A training loop without a window: loss and speed as metrics, a frame per step, and a capture
//! that the program reads back.
//!
//! ```text
//! cargo run --release --example headless
//! VOR_RECORD=run.vor VOR_RECORD_SPANS=1 cargo run --release --example headless
//! ```
//!
//! The network is a perceptron with one hidden layer. It learns which points of a square lie inside
//! a circle. The points come from a seeded generator, so every run learns the same. Without
//! `VOR_RECORD_SPANS` the capture holds metrics only: tens of bytes per step.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use vor_examples::{Generator, Outcome};

const HIDDEN: usize = 16;
const BATCH: usize = 256;
const STEPS: usize = 1000;
const RATE: f32 = 0.8;
/// Half of the square's area lies inside a circle of this radius.
const RADIUS: f32 = 0.798;

fn main() -> ExitCode {
    vor_examples::run(train_and_read_back)
}

fn train_and_read_back(out: &mut dyn Write) -> Outcome {
    vor_examples::config("headless").enable();

    let mut generator = Generator::new(1);
    let mut network = Network::new(&mut generator);
    train(&mut network, &mut generator, STEPS);
    vor::flush();

    let unseen = generate(&mut generator);
    writeln!(
        out,
        "{STEPS} steps, accuracy on unseen points {:.1} %.",
        network.accuracy(&unseen) * 100.0
    )?;
    // None if `VOR_RECORD` names a path that cannot be written, which vor has reported.
    if let Some(capture) = vor::capture_path() {
        print_capture(out, &capture)?;
        vor_examples::print_how_to_open(out, &capture)?;
    }
    Ok(())
}

/// Trains with a frame per step, and returns the loss of each step.
fn train(network: &mut Network, generator: &mut Generator, steps: usize) -> Vec<f32> {
    vor::record_metric_unit("samples_per_s", "1/s");
    let mut losses = Vec::with_capacity(steps);
    for _ in 0..steps {
        let begin = Instant::now();
        let batch = generate(generator);
        let loss = network.train(&batch);
        losses.push(loss);
        vor::record_metric("loss", f64::from(loss));
        vor::record_metric(
            "samples_per_s",
            BATCH as f64 / begin.elapsed().as_secs_f64(),
        );
        vor::frame_mark();
    }
    losses
}

/// Reads the capture back, and prints every hundredth frame.
fn print_capture(out: &mut dyn Write, path: &Path) -> io::Result<()> {
    let mut reader = vor::Reader::open(path)?;
    let frame_ms = reader
        .columns()
        .iter()
        .position(|column| column.name == "frame_ms");
    writeln!(
        out,
        "{:>6} {:>10} {:>10} {:>14} {:>12}",
        "step", "frame_ms", "loss", "samples_per_s", "flame bytes"
    )?;
    let mut step = 0;
    while let Some(frame) = reader.next_frame()? {
        let user = |name: &str| {
            frame
                .user
                .iter()
                .find(|(known, _)| known == name)
                .map_or(f64::NAN, |(_, value)| *value)
        };
        if step % 100 == 0 {
            let frame_ms = frame_ms
                .and_then(|column| frame.system.get(column))
                .copied()
                .unwrap_or(f64::NAN);
            let flame = frame.flame.as_ref().map_or(0, Vec::len);
            let (loss, speed) = (user("loss"), user("samples_per_s"));
            writeln!(
                out,
                "{step:>6} {frame_ms:>10.3} {loss:>10.4} {speed:>14.0} {flame:>12}"
            )?;
        }
        step += 1;
    }
    writeln!(out, "{step} frames read back.")
}

/// A point and whether it lies inside the circle.
#[derive(Clone, Copy, Debug)]
struct Sample {
    point: [f32; 2],
    inside: f32,
}

#[vor::profile]
fn generate(generator: &mut Generator) -> Vec<Sample> {
    let sample = |_| {
        let point = [generator.signed_unit(), generator.signed_unit()];
        let inside = point[0].hypot(point[1]) < RADIUS;
        Sample {
            point,
            inside: f32::from(u8::from(inside)),
        }
    };
    (0..BATCH).map(sample).collect()
}

/// Two inputs, a hidden layer with `tanh`, and one logistic output. The last weight of each row is
/// its bias.
#[derive(Clone, Debug)]
struct Network {
    hidden: [[f32; 3]; HIDDEN],
    output: [f32; HIDDEN + 1],
}

/// The gradient of a batch, summed over its samples, and the mean loss.
#[derive(Clone, Debug)]
struct Gradient {
    hidden: [[f32; 3]; HIDDEN],
    output: [f32; HIDDEN + 1],
    loss: f32,
}

#[vor::all_functions]
impl Network {
    fn new(generator: &mut Generator) -> Self {
        Self {
            hidden: std::array::from_fn(|_| std::array::from_fn(|_| generator.signed_unit() * 1.5)),
            output: std::array::from_fn(|_| generator.signed_unit() * 0.5),
        }
    }

    /// Learns from a batch, and returns the loss before that.
    fn train(&mut self, batch: &[Sample]) -> f32 {
        let gradient = self.gradient(batch);
        self.step(&gradient);
        gradient.loss
    }

    fn gradient(&self, batch: &[Sample]) -> Gradient {
        let mut sum = Gradient {
            hidden: [[0.0; 3]; HIDDEN],
            output: [0.0; HIDDEN + 1],
            loss: 0.0,
        };
        for sample in batch {
            let (hidden, predicted) = self.forward(sample.point);
            let right = if sample.inside > 0.5 {
                predicted
            } else {
                1.0 - predicted
            };
            sum.loss -= right.max(1e-7).ln();
            let error = predicted - sample.inside;
            sum.output[HIDDEN] += error;
            for (unit, activation) in hidden.iter().enumerate() {
                sum.output[unit] += error * activation;
                let before = error * self.output[unit] * (1.0 - activation * activation);
                sum.hidden[unit][0] += before * sample.point[0];
                sum.hidden[unit][1] += before * sample.point[1];
                sum.hidden[unit][2] += before;
            }
        }
        sum.loss /= batch.len() as f32;
        sum
    }

    fn step(&mut self, gradient: &Gradient) {
        let rate = RATE / BATCH as f32;
        let hidden = self
            .hidden
            .iter_mut()
            .flatten()
            .zip(gradient.hidden.iter().flatten());
        let output = self.output.iter_mut().zip(&gradient.output);
        for (weight, slope) in hidden.chain(output) {
            *weight -= rate * slope;
        }
    }

    /// Returns the hidden layer and the prediction. It runs for every sample and is too short to
    /// be worth a scope.
    #[vor::skip]
    fn forward(&self, point: [f32; 2]) -> ([f32; HIDDEN], f32) {
        let hidden = self
            .hidden
            .map(|[x, y, bias]| (x * point[0] + y * point[1] + bias).tanh());
        let sum: f32 = hidden
            .iter()
            .zip(&self.output)
            .map(|(a, weight)| a * weight)
            .sum();
        (hidden, 1.0 / (1.0 + (-sum - self.output[HIDDEN]).exp()))
    }

    fn accuracy(&self, batch: &[Sample]) -> f32 {
        let right =
            |sample: &&Sample| (self.forward(sample.point).1 > 0.5) == (sample.inside > 0.5);
        batch.iter().filter(right).count() as f32 / batch.len() as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_learns_the_circle_and_the_capture_holds_every_loss() {
        let mut generator = Generator::new(1);
        let mut network = Network::new(&mut generator);
        let unseen = generate(&mut Generator::new(2));
        let before = network.accuracy(&unseen);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        vor::Config::new().capture(&path).spans(false).enable();
        let losses = train(&mut network, &mut generator, STEPS);
        vor::disable();
        let after = network.accuracy(&unseen);
        assert!(
            before < 0.8 && after > 0.95,
            "{before} before, {after} after"
        );

        // The capture holds the same losses, to the bit.
        let mut reader = vor::Reader::open(&path).unwrap();
        let mut read_back = Vec::new();
        while let Some(frame) = reader.next_frame().unwrap() {
            let loss = frame
                .user
                .iter()
                .find(|(name, _)| name == "loss")
                .unwrap()
                .1;
            assert!(
                frame
                    .user
                    .iter()
                    .any(|(name, speed)| name == "samples_per_s" && *speed > 0.0)
            );
            read_back.push(loss as f32);
        }
        assert_eq!(read_back, losses);
        let speed = reader
            .user_columns()
            .iter()
            .find(|column| column.name == "samples_per_s")
            .unwrap();
        assert_eq!(speed.unit, "1/s");
        let bytes_per_frame = std::fs::metadata(&path).unwrap().len() as usize / STEPS;
        assert!(
            bytes_per_frame < 100,
            "{bytes_per_frame} bytes per frame of metrics only"
        );
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_loss() {
        let mut generator = Generator::new(3);
        let network = Network::new(&mut generator);
        let batch = generate(&mut generator);
        let gradient = network.gradient(&batch);
        let loss_with = |unit: usize, change: f32| {
            let mut changed = network.clone();
            changed.hidden[unit][0] += change;
            changed.gradient(&batch).loss
        };
        for unit in 0..HIDDEN {
            let slope = (loss_with(unit, 1e-2) - loss_with(unit, -1e-2)) / 2e-2;
            let computed = gradient.hidden[unit][0] / BATCH as f32;
            assert!(
                (slope - computed).abs() < 1e-3,
                "unit {unit}: {slope} measured, {computed} computed"
            );
        }
    }
}
