//! Events of the operating system's scheduler, for the capture and other sinks.

use std::time::Duration;

use vor_capture::model::scheduler::SchedulerBatch;

use crate::clock;
use crate::hot::record_state;
use crate::os::report;
use crate::os::scheduler::SchedulerTrace;
use crate::sync::Ordering;
use crate::sync::global::AtomicBool;

/// Whether the events are wanted. Set by `start`, cleared when the system refuses; read by the
/// worker, relaxed.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// Time between two readings of the kernel's buffers, which must not fill meanwhile.
const INTERVAL: Duration = Duration::from_millis(100);

/// Wants the events from now on.
pub(super) fn start() {
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// Limits a sleep of the worker to the interval of readings.
pub(super) fn longest_sleep(longest: Duration) -> Duration {
    if IS_WANTED.load(Ordering::Relaxed) {
        longest.min(INTERVAL)
    } else {
        longest
    }
}

/// The trace of the scheduler, once it is wanted.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    trace: Option<SchedulerTrace>,
    next_ticks: u64,
}

impl Scheduler {
    /// Takes the events since the last reading, if one is due or if `is_last`. Starts the trace at
    /// the first call. Events are dropped while recording is off.
    pub(super) fn take(&mut self, now_ticks: u64, is_last: bool) -> Option<SchedulerBatch> {
        if !IS_WANTED.load(Ordering::Relaxed) || (now_ticks < self.next_ticks && !is_last) {
            return None;
        }
        self.next_ticks = now_ticks.saturating_add(interval_ticks());
        if self.trace.as_ref().is_none_or(SchedulerTrace::is_of_parent) {
            self.trace = start_trace();
        }
        let batch = self.trace.as_mut()?.take()?;
        record_state::is_on().then_some(batch)
    }

    /// Ends the trace, at the end of the process: a later pass must not start another one.
    #[cfg(any(unix, windows))]
    pub(super) fn end(&mut self) {
        IS_WANTED.store(false, Ordering::Relaxed);
        self.trace = None;
    }
}

fn interval_ticks() -> u64 {
    clock::approximate_ticks(INTERVAL.as_nanos() as u64)
}

/// Starts the trace, or reports once why there is none.
fn start_trace() -> Option<SchedulerTrace> {
    let started = if clock::allows_fast_path() {
        SchedulerTrace::start()
    } else {
        Err("recorded times are not the processor's own ticks".into())
    };
    let reason = match started {
        Ok(trace) => return Some(trace),
        Err(reason) => reason,
    };
    IS_WANTED.store(false, Ordering::Relaxed);
    report::line(&format!(
        "events of the scheduler are not recorded: {reason}"
    ));
    None
}
