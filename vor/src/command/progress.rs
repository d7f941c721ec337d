//! Progress on stderr, for work that takes longer than a second in front of a terminal.
//!
//! Several threads may work on one thing: each has a [`Progress`], and all of them one bar.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::command::units;

/// Work that takes less is not worth a bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Length of the bar, in steps of its own: parts may count in bytes and in frames.
const STEPS: f64 = 10_000.0;

/// How far a command, or a part of it, is.
#[derive(Debug)]
pub(crate) struct Progress {
    part: usize,
    /// Present where someone could see it.
    shared: Option<Arc<Mutex<Shared>>>,
}

/// What is shown of all parts.
#[derive(Debug)]
struct Shared {
    what: &'static str,
    begun: Instant,
    bar: ProgressBar,
    shown: bool,
    spans: u64,
    /// How much of each part is done, up to 1.
    done: Vec<f64>,
}

impl Progress {
    /// Makes a progress of nothing yet. `stays_quiet` says that the bar would mix with the output.
    pub(crate) fn new(what: &'static str, stays_quiet: bool) -> Self {
        let visible = !stays_quiet && io::stderr().is_terminal();
        let shared = visible.then(|| {
            Arc::new(Mutex::new(Shared {
                what,
                begun: Instant::now(),
                bar: ProgressBar::hidden(),
                shown: false,
                spans: 0,
                done: vec![0.0],
            }))
        });
        Self { part: 0, shared }
    }

    /// Makes the progress of a further part, as large as each of the others.
    pub(crate) fn beside(&self) -> Self {
        let shared = self.shared.clone();
        let part = shared.as_ref().map_or(0, |shared| {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.done.push(0.0);
            shared.done.len() - 1
        });
        Self { part, shared }
    }

    /// Counts spans, and notes that `done` of `total` bytes or frames are done.
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
        let elapsed = self.begun.elapsed();
        if elapsed < PATIENCE {
            return;
        }
        let bar = &self.bar;
        if !self.shown {
            self.shown = true;
            // A template without a mistake in it is always taken; the default style does as well.
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
