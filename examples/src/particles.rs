//! Particles that fall and bounce: work for the examples with a panel.

use crate::Generator;

/// A point in the unit square that moves.
#[derive(Clone, Copy, Debug)]
pub struct Particle {
    /// Where it is, from 0 to 1.
    pub place: [f32; 2],
    /// Where it goes, in hundredths of the square per frame.
    pub speed: [f32; 2],
}

/// Particles in the unit square.
#[derive(Debug)]
pub struct Particles {
    /// Those that there are.
    pub all: Vec<Particle>,
    /// How many there shall be.
    pub wanted: usize,
    generator: Generator,
}

impl Particles {
    /// Makes none yet, and says how many there shall be.
    #[must_use]
    pub fn new(wanted: usize) -> Self {
        Self {
            all: Vec::new(),
            wanted,
            generator: Generator::new(3),
        }
    }

    /// Makes as many as there shall be.
    #[vor::profile]
    pub fn spawn(&mut self) {
        self.all.truncate(self.wanted);
        while self.all.len() < self.wanted {
            let mut number = || (self.generator.signed_unit() + 1.0) / 2.0;
            self.all.push(Particle {
                place: [number(), number()],
                speed: [number() - 0.5, number() - 0.5],
            });
        }
    }

    /// Moves all of them for one frame, in so many slices, each of which is a scope; returns how
    /// many bounced.
    #[vor::profile]
    pub fn simulate(&mut self, slices: usize) -> usize {
        self.spawn();
        let share = self.all.len().div_ceil(slices).max(1);
        self.all.chunks_mut(share).map(advance).sum()
    }
}

/// Moves particles for one frame and returns how many bounced.
#[vor::profile(args(particles = particles.len()))]
pub fn advance(particles: &mut [Particle]) -> usize {
    let mut bounces = 0;
    for particle in particles {
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
