//! Particles that fall and bounce: work for the examples with a panel.

use crate::Generator;

/// A point in the unit square that moves.
#[derive(Clone, Copy, Debug)]
pub struct Particle {
    /// From 0 to 1.
    pub position: [f32; 2],
    /// In hundredths of the square per frame.
    pub velocity: [f32; 2],
}

/// Particles in the unit square.
#[derive(Debug)]
pub struct Particles {
    /// The particles in the air.
    pub all: Vec<Particle>,
    /// The number after the next [`spawn`](Self::spawn).
    pub target: usize,
    generator: Generator,
}

impl Particles {
    /// Starts without particles; `target` is the number after the first
    /// [`spawn`](Self::spawn).
    #[must_use]
    pub fn new(target: usize) -> Self {
        Self {
            all: Vec::new(),
            target,
            generator: Generator::new(3),
        }
    }

    /// Adds or removes particles until there are as many as the target.
    #[vor::profile]
    pub fn spawn(&mut self) {
        self.all.truncate(self.target);
        while self.all.len() < self.target {
            let mut number = || (self.generator.signed_unit() + 1.0) / 2.0;
            self.all.push(Particle {
                position: [number(), number()],
                velocity: [number() - 0.5, number() - 0.5],
            });
        }
    }

    /// Moves all particles for one frame, in slices that are a scope each, and returns the number
    /// of bounces.
    #[vor::profile]
    pub fn simulate(&mut self, slices: usize) -> usize {
        self.spawn();
        let share = self.all.len().div_ceil(slices).max(1);
        self.all.chunks_mut(share).map(advance).sum()
    }
}

/// Moves particles for one frame, and returns the number of bounces.
#[vor::profile(args(particles = particles.len()))]
pub fn advance(particles: &mut [Particle]) -> usize {
    let mut bounces = 0;
    for particle in particles {
        particle.velocity[1] -= 0.01;
        for axis in 0..2 {
            particle.position[axis] += particle.velocity[axis] * 0.01;
            if !(0.0..=1.0).contains(&particle.position[axis]) {
                particle.position[axis] = particle.position[axis].clamp(0.0, 1.0);
                particle.velocity[axis] *= -0.98;
                bounces += 1;
            }
        }
    }
    bounces
}
