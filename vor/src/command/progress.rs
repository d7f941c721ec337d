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
        Self::begin(what, is_visible(is_hidden, io::stderr().is_terminal()))
    }

    /// Starts at 0, with a bar or without one.
    fn begin(what: &'static str, is_visible: bool) -> Self {
        let shared = is_visible.then(|| {
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
            let elapsed = shared.start.elapsed();
            shared.show(elapsed);
        }
    }

    /// Starts a bar that is not shown within the time of a test.
    #[cfg(test)]
    pub(crate) fn of_test() -> Self {
        let progress = Self::begin("testing", true);
        progress.locked().start += Duration::from_secs(3600);
        progress
    }

    /// Returns the number of spans so far.
    #[cfg(test)]
    pub(crate) fn spans(&self) -> u64 {
        self.locked().spans
    }

    #[cfg(test)]
    fn locked(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.as_ref().unwrap().lock().unwrap()
    }
}

/// Returns whether a bar is shown.
fn is_visible(is_hidden: bool, is_terminal: bool) -> bool {
    !is_hidden && is_terminal
}

impl Shared {
    /// Shows the state after so long.
    fn show(&mut self, elapsed: Duration) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_shown_on_a_terminal_that_nothing_else_is_written_to() {
        let states = [(false, true), (false, false), (true, true), (true, false)];
        let visible = states.map(|(is_hidden, is_terminal)| is_visible(is_hidden, is_terminal));
        assert_eq!(visible, [true, false, false, false]);
        let mut hidden = Progress::new("reading", true);
        hidden.advance(1, 1, 1);
        assert!(hidden.shared.is_none() && hidden.add_part().shared.is_none());
    }

    #[test]
    fn the_bar_of_all_parts_is_shown_after_a_second_and_estimates_the_rest() {
        let mut first = Progress::of_test();
        let mut second = first.add_part();
        first.advance(1_000_000, 3, 8);
        second.advance(1_500_000, 0, 0);
        second.advance(500_000, 1, 8);
        assert_eq!(first.locked().done, [0.375, 0.125]);
        let bar = first.locked().bar.clone();
        first.locked().show(Duration::from_millis(999));
        assert_eq!((bar.position(), bar.message().as_str()), (0, ""));
        // A quarter is done, so the rest takes three times as long.
        first.locked().show(Duration::from_secs(1));
        assert_eq!(bar.message(), "3.0 M spans, 3.0 M/s, 3.00 s left");
        first.locked().show(Duration::from_secs(2));
        assert_eq!(bar.message(), "3.0 M spans, 1.5 M/s, 6.00 s left");
        assert_eq!((bar.position(), bar.length()), (2_500, Some(10_000)));
        assert_eq!(bar.prefix(), "testing");
        // More than there was at the beginning is all of it.
        second.advance(0, 9, 8);
        assert_eq!(first.locked().done, [0.375, 1.0]);
        drop((first, second));
        assert!(bar.is_finished());
    }

    #[test]
    fn a_bar_without_progress_estimates_the_rest_from_its_first_step() {
        let progress = Progress::of_test();
        progress.locked().show(Duration::from_secs(3));
        let message = progress.locked().bar.message();
        assert_eq!(message, "0.0 M spans, 0.0 M/s, 8 h 20 min left");
    }
}
