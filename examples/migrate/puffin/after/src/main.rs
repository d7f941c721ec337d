//! A game: a thread loads levels, and the loop updates and draws particles.

use std::sync::mpsc;
use std::thread;

/// The frames that the game runs.
const FRAMES: u32 = 60;

struct World {
    heights: Vec<f32>,
    speeds: Vec<f32>,
}

impl World {
    fn update(&mut self, seconds: f32) {
        vor::profile_function!();
        // Two steps, because one would let fast particles pass the floor.
        for step in 0..2 {
            self.fall(seconds / 2.0, step);
        }
        let bounced = self.bounce();
        vor::profile_scope_if!(bounced > 4, "many bounces", bounced = bounced);
    }

    fn fall(&mut self, seconds: f32, step: u32) {
        vor::profile_function!(step = step);
        for (height, speed) in self.heights.iter_mut().zip(&mut self.speeds) {
            *speed -= 9.81 * seconds;
            *height += *speed * seconds;
        }
    }

    fn bounce(&mut self) -> usize {
        vor::profile_scope!("bounce");
        let mut bounced = 0;
        for (height, speed) in self.heights.iter().zip(&mut self.speeds) {
            if *height < 0.0 && *speed < 0.0 {
                *speed = -0.8 * *speed;
                bounced += 1;
            }
        }
        bounced
    }

    fn draw(&self) -> f32 {
        let scope = vor::scope("draw");
        let sum = self.heights.iter().sum();
        drop(scope);
        sum
    }
}

fn load(path: &str) -> World {
    vor::profile_function!(path = path);
    let heights = (0_u8..50).map(|n| f32::from(n) / 100.0).collect();
    vor::profile_scope!("place particles", path);
    World {
        heights,
        speeds: vec![0.0; 50],
    }
}

fn main() {
    vor::enable();
    let (sender, levels) = mpsc::channel();
    let loader = thread::Builder::new().name("loader".into()).spawn(move || {
        for path in ["hill.level", "lake.level", "cave.level"] {
            let sent = sender.send(load(path));
            sent.expect("the game waits for all levels");
        }
    });
    let mut worlds: Vec<World> = levels.iter().collect();
    loader
        .expect("the system has threads")
        .join()
        .expect("no level panics");
    let mut drawn = 0.0;
    for frame in 0..FRAMES {
        let world = &mut worlds[frame as usize % 3];
        world.update(1.0 / 60.0);
        drawn += world.draw();
        vor::frame_mark();
    }
    eprintln!("drew {drawn:.1} m");
}
