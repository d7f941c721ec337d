//! Progress on stderr, for work that takes longer than a second in front of a terminal.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::units;

/// Work that takes less is not worth a bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// How far a command is, in bytes or in frames.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    begun: Instant,
    /// Present where someone could see it.
    bar: Option<ProgressBar>,
    shown: bool,
    spans: u64,
}

impl Progress {
    /// Makes a progress of nothing yet. `stays_quiet` says that the bar would mix with the output.
    pub(crate) fn new(what: &'static str, stays_quiet: bool) -> Self {
        let visible = !stays_quiet && io::stderr().is_terminal();
        Self {
            what,
            begun: Instant::now(),
            bar: visible.then(ProgressBar::hidden),
            shown: false,
            spans: 0,
        }
    }

    /// Counts spans, and notes that `done` of `total` bytes or frames are done.
    pub(crate) fn advance(&mut self, spans: u64, done: u64, total: u64) {
        self.spans += spans;
        let elapsed = self.begun.elapsed();
        let Some(bar) = &self.bar else {
            return;
        };
        if elapsed < PATIENCE {
            return;
        }
        if !self.shown {
            self.shown = true;
            // A template without a mistake in it is always taken; the default style does as well.
            if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:24} {percent:>3} %  {msg}") {
                bar.set_style(style);
            }
            bar.set_prefix(self.what);
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        }
        bar.set_length(total);
        bar.set_position(done.min(total));
        let s = elapsed.as_secs_f64();
        let left_ns = elapsed.as_nanos() as f64 * total.saturating_sub(done) as f64 / done.max(1) as f64;
        bar.set_message(format!(
            "{:.1} M spans, {:.1} M/s, {} left",
            self.spans as f64 / 1e6,
            self.spans as f64 / 1e6 / s,
            units::duration(left_ns)
        ));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
