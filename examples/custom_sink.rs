//! Your own sink: it prints the frames that took too long, and the calls that made them slow.
//!
//! ```text
//! cargo run --release --example custom_sink
//! ```
//!
//! The program moves particles. Most frames sort a few of them, one in forty sorts all, and the
//! sink finds those.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use vor_examples::{Generator, duration};

const FRAMES: u64 = 200;
const PARTICLES: usize = 60_000;
/// A frame is slow if it takes this many times the median.
const SLOW: f64 = 3.0;

fn main() {
    vor::Config::from_env()
        .sink("slow frames", SlowFrames::default())
        .enable();
    let mut world = World::new(PARTICLES);
    for frame in 0..FRAMES {
        world.update(frame);
        vor::record_metric("energy", world.energy());
        vor::frame_mark();
        // In place of the wait for the display.
        std::thread::sleep(Duration::from_micros(200));
    }
    // vor calls the sink on its own thread; a flush waits for it.
    vor::flush();
}

/// Prints slow frames, with the longest call at each depth.
#[derive(Debug, Default)]
struct SlowFrames {
    durations: vor::FrameStats,
}

impl vor::sinks::FrameSink for SlowFrames {
    fn interest(&self) -> vor::sinks::Interest {
        vor::sinks::Interest::FRAMES
    }

    fn accept_frame(&mut self, frame: &Arc<vor::capture::FrameSnapshot>) -> Result<(), vor::Error> {
        let duration_ns = u64::try_from(frame.duration_ns()).unwrap_or(0);
        let median_ns = self.durations.p50_ns();
        self.durations.record_ns(duration_ns);
        // The first frames only define the median.
        if self.durations.count() > 20 && duration_ns as f64 > SLOW * median_ns as f64 {
            print_slow(&mut io::stdout().lock(), frame, duration_ns, median_ns)
                // vor reports an error once and turns the sink off; the program continues.
                .map_err(|error| vor::Error::sink(format!("cannot print: {error}")))?;
        }
        Ok(())
    }
}

/// Prints a frame and the longest calls of its threads.
fn print_slow(
    out: &mut impl Write,
    frame: &vor::capture::FrameSnapshot,
    duration_ns: u64,
    median_ns: u64,
) -> io::Result<()> {
    let energy = frame.metric("energy").unwrap_or(f64::NAN);
    writeln!(
        out,
        "frame {}: {} instead of {}, energy {energy:.1}",
        frame.index,
        duration(duration_ns),
        duration(median_ns)
    )?;
    for thread in &frame.threads {
        print_longest(out, frame, thread)?;
    }
    Ok(())
}

/// Prints the longest span of a thread, the longest inside it, and so on.
fn print_longest(
    out: &mut impl Write,
    frame: &vor::capture::FrameSnapshot,
    thread: &vor::capture::ThreadTree,
) -> io::Result<()> {
    // `spans[begin..end]` holds siblings, each followed by its own subtree.
    let (mut begin, mut end) = (0, thread.spans.len());
    while begin < end {
        let mut longest = begin;
        let mut next = begin;
        while next < end {
            if thread.spans[next].duration_ticks > thread.spans[longest].duration_ticks {
                longest = next;
            }
            next += thread.spans[next].subtree_len as usize;
        }
        let span = &thread.spans[longest];
        let duration_ns = frame
            .catalog
            .timeline
            .duration_ns(span.start_ticks, span.duration_ticks);
        let indent = 2 + 2 * span.depth as usize;
        writeln!(
            out,
            "{:indent$}{} {}{}",
            "",
            duration(duration_ns),
            frame.catalog.site_name(span.site),
            arguments(frame, thread, span)
        )?;
        (begin, end) = (longest + 1, longest + span.subtree_len as usize);
    }
    Ok(())
}

/// Returns the arguments of a span as `(name = value, …)`.
fn arguments(
    frame: &vor::capture::FrameSnapshot,
    thread: &vor::capture::ThreadTree,
    span: &vor::capture::Span,
) -> String {
    let names = frame
        .catalog
        .site(span.site)
        .map(|site| site.arg_names.as_slice())
        .unwrap_or_default();
    let pairs: Vec<String> = names
        .iter()
        .zip(thread.args(span))
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    if pairs.is_empty() {
        String::new()
    } else {
        format!(" ({})", pairs.join(", "))
    }
}

/// Particles on a line.
#[derive(Debug)]
struct World {
    position: Vec<f32>,
    speed: Vec<f32>,
}

#[vor::all_functions]
impl World {
    fn new(particles: usize) -> Self {
        let mut generator = Generator::new(1);
        let mut draw = || {
            (0..particles)
                .map(|_| generator.signed_unit())
                .collect::<Vec<_>>()
        };
        Self {
            position: draw(),
            speed: draw(),
        }
    }

    fn update(&mut self, frame: u64) {
        self.integrate();
        let sorted = if frame % 40 == 39 {
            self.position.len()
        } else {
            self.position.len() / 100
        };
        self.sort(sorted);
    }

    fn integrate(&mut self) {
        for (position, speed) in self.position.iter_mut().zip(&mut self.speed) {
            *position += *speed / 60.0;
            // Walls at both ends.
            if position.abs() > 1.0 {
                *speed = -*speed;
            }
        }
    }

    /// Sorts the first `count` particles by position, and returns the number that changed places.
    #[vor::profile(name = "World::sort", args(count))]
    fn sort(&mut self, count: usize) -> usize {
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| self.position[*a].total_cmp(&self.position[*b]));
        order
            .iter()
            .enumerate()
            .filter(|(place, particle)| place != *particle)
            .count()
    }

    fn energy(&self) -> f64 {
        self.speed
            .iter()
            .map(|speed| f64::from(speed * speed) / 2.0)
            .sum()
    }
}
