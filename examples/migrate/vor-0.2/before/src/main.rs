//! A training loop, with the names of vor 0.2.1.

use std::time::Instant;

struct Model {
    weights: Vec<f64>,
}

#[vor::all_functions]
impl Model {
    fn forward(&self, input: f64) -> f64 {
        self.weights.iter().map(|weight| weight * input).sum()
    }

    fn backward(&mut self, error: f64) {
        for layer in 0..2 {
            vor::profile_scope!("layer");
            for weight in self.weights.iter_mut().skip(layer).step_by(2) {
                *weight -= 0.001 * error;
            }
        }
    }

    #[vor::skip]
    fn len(&self) -> usize {
        self.weights.len()
    }
}

#[vor::profile]
fn load(step: u32) -> f64 {
    let started = Instant::now();
    let batch = f64::from(step % 7);
    vor::record_io(started.elapsed().as_nanos() as u64, 4096);
    batch
}

fn main() {
    vor::enable();
    vor::record_metric_unit("weights", "1");
    let mut model = Model {
        weights: vec![0.5; 32],
    };
    for step in 0..40 {
        let input = load(step);
        let error = model.forward(input) - 3.0 * input;
        model.backward(error);
        if step % 10 == 0 {
            let _scope = vor::scope(&format!("checkpoint {}", step / 10));
            vor::record_metric("weights", model.len() as f64);
        }
        vor::record_metric("loss", error.abs());
        vor::frame_mark();
    }
    vor::flush_recording();
}
