//! A progress bar on stderr, for work that takes longer than a second on a terminal.
//!
//! Each thread that takes part in the work has a [`Progress`]; they share one bar.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use vor_capture::units;

/// Shorter work has no bar.
const DELAY: Duration = Duration::from_secs(1);

/// Length of the bar in steps, since parts may count in bytes or in frames.
const STEPS: f64 = 10_000.0;

/// The progress of a command, or of one part of it.
#[derive(Debug)]
pub(crate) struct Progress {
    part: usize,
    /// `None` if no bar is shown.
    shared: Option<Arc<Mutex<Shared>>>,
}

/// The bar of all parts.
#[derive(Debug)]
struct Shared {
    what: &'static str,
    start: Instant,
    bar: ProgressBar,
    is_shown: bool,
    spans: u64,
    /// The finished share of each part, up to 1.
    done: Vec<f64>,
}

impl Progress {
    /// Starts at 0. `is_hidden` is for output that goes to the same terminal.
    pub(crate) fn new(what: &'static str, is_hidden: bool) -> Self {
        let visible = !is_hidden && io::stderr().is_terminal();
        let shared = visible.then(|| {
            Arc::new(Mutex::new(Shared {
                what,
                start: Instant::now(),
                bar: ProgressBar::hidden(),
                is_shown: false,
                spans: 0,
                done: vec![0.0],
            }))
        });
        Self { part: 0, shared }
    }

    /// Adds a part, which has the same share of the bar as each of the others.
    pub(crate) fn add_part(&self) -> Self {
        let shared = self.shared.clone();
        let part = shared.as_ref().map_or(0, |shared| {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.done.push(0.0);
            shared.done.len() - 1
        });
        Self { part, shared }
    }

    /// Adds spans, and sets this part to `done` of `total` bytes or frames.
    pub(crate) fn advance(&mut self, spans: u64, done: u64, total: u64) {
        if let Some(shared) = &self.shared {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.spans += spans;
            shared.done[self.part] = (done as f64 / total.max(1) as f64).min(1.0);
            shared.show();
        }
    }
}

impl Shared {
    fn show(&mut self) {
        let elapsed = self.start.elapsed();
        if elapsed < DELAY {
            return;
        }
        let bar = &self.bar;
        if !self.is_shown {
            self.is_shown = true;
            // The template is valid; otherwise the default style would do.
            if let Ok(style) =
                ProgressStyle::with_template("{prefix} {bar:24} {percent:>3} %  {msg}")
            {
                bar.set_style(style);
            }
            bar.set_prefix(self.what);
            bar.set_length(STEPS as u64);
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        }
        let done = self.done.iter().sum::<f64>() / self.done.len() as f64;
        bar.set_position((done * STEPS) as u64);
        let s = elapsed.as_secs_f64();
        let left_s = s * (1.0 - done) / done.max(1.0 / STEPS);
        bar.set_message(format!(
            "{:.1} M spans, {:.1} M/s, {} left",
            self.spans as f64 / 1e6,
            self.spans as f64 / 1e6 / s,
            units::duration(left_s * 1e9)
        ));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
