//! Prints the table of counted scopes on stderr: at the end of the process, and on SIGUSR1.
//!
//! The signal's handler only sets a flag. The worker checks it ten times a second; if
//! `frame_mark()` drains itself, it checks the flag instead.

use std::time::Duration;

use super::engine::Engine;
use super::{pass, table, with_engine};
use crate::clock;
use crate::os::{report, signals};
use crate::sync::Ordering;
use crate::sync::global::AtomicBool;

/// Whether the table is printed. Set once by [`begin`], read by the worker and at the end of the
/// process.
static PRINTS: AtomicBool = AtomicBool::new(false);

/// Longest sleep of a worker while the table may be requested.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// Enables printing of the table from now on.
pub(crate) fn begin() {
    if !PRINTS.swap(true, Ordering::SeqCst) {
        signals::listen(signals::UserSignal::Table);
    }
}

/// Limits a sleep of the worker while the table may be requested.
pub(super) fn longest_sleep(longest: Duration) -> Duration {
    if PRINTS.load(Ordering::Relaxed) {
        longest.min(MAX_SLEEP)
    } else {
        longest
    }
}

/// Prints the table if it was requested.
pub(super) fn print_if_requested() {
    if signals::take_request(signals::UserSignal::Table) {
        print();
    }
}

/// Prints the table if the program has one.
pub(super) fn print() {
    if PRINTS.load(Ordering::Relaxed)
        && let Some(text) = with_engine(text)
    {
        report::text(&text);
    }
}

fn text(engine: &mut Engine) -> String {
    pass(engine);
    let rows = engine.counted();
    let process = &engine.catalog().process;
    let passed_ns = clock::approximate_ns(clock::ticks().saturating_sub(engine.start_ticks()));
    let of = report::escaped(&process.name);
    let heading = format!(
        "vor: {} scopes of {of} (process {}) after {:.3} s\n",
        rows.len(),
        process.pid,
        passed_ns as f64 / 1e9
    );
    if rows.is_empty() {
        return heading;
    }
    heading + &table::table(&rows)
}
