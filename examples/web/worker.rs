//! The program in a web worker.

use vor::Sink as _;
use vor_examples::particles::Particles;

use crate::SLICES;

const FRAMES: usize = 20;

/// Moves particles, with its scopes in the developer tools.
pub(crate) fn run() {
    let _timeline = vor::BrowserSink.install();
    let mut particles = Particles::new(200_000);
    for frame in 0..FRAMES {
        work(&mut particles, frame);
        vor::frame_mark();
    }
}

#[vor::profile(args(frame = frame))]
fn work(particles: &mut Particles, frame: usize) {
    for _ in 0..=frame % 3 {
        particles.simulate(SLICES);
    }
}
