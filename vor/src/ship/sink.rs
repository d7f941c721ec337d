//! A sink that ships the program's own segments while it runs.
//!
//! The sink takes neither batches nor frames. It holds a thread that follows the folder. At the end
//! of the program the recorder finishes all sinks, so the last segment is complete, and then drops
//! them. The drop has the thread ship the rest, and waits for it within a bound.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use vor_capture::Error;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_capture::units;
use vor_recorder::__private::{for_new_thread, report_line, stay_silent};

use super::Shipper;
use super::pass::Run;
use super::upload::Bound;

/// How long the end of the program waits for the last segments by default.
const EXIT_BOUND: Duration = Duration::from_secs(5);
/// Between two attempts to open the folder, the thread looks for its end this many times, after
/// this time each.
const RETRY_POLLS: (u32, Duration) = (50, Duration::from_millis(20));

/// Ships the segments of the running program, on a thread of its own.
///
/// No scope and no drain waits for it. Several programs may ship the same folder: one of them does,
/// and the others take over when it ends. At the end of the program, the last segments are shipped
/// within 5 seconds. What is left then, or after a signal or a crash, is shipped by the next run
/// that ships the folder. The child of a fork ships nothing.
///
/// # Examples
///
/// ```no_run
/// use vor::ship::{ShipSink, Shipper};
///
/// let shipper = Shipper::new("captures/", "s3://bucket/fleet")?.delete_shipped(true);
/// vor::Config::new()
///     .capture("captures/")
///     .sink("ship", ShipSink::new(shipper).build()?)
///     .enable();
/// # Ok::<(), vor::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ShipSink {
    /// What is shipped, and where to.
    pub shipper: Shipper,
    /// How long the end of the program waits for the last segments. Default: 5 seconds.
    pub exit_bound: Duration,
}

impl ShipSink {
    /// Ships what `shipper` names.
    #[must_use]
    pub fn new(shipper: Shipper) -> Self {
        Self {
            shipper,
            exit_bound: EXIT_BOUND,
        }
    }

    /// Sets [`exit_bound`](Self::exit_bound).
    #[must_use]
    pub fn exit_bound(mut self, bound: Duration) -> Self {
        self.exit_bound = bound;
        self
    }

    /// Starts to ship.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn build(self) -> Result<impl FrameSink + use<>, Error> {
        let shared = Arc::new(Shared::default());
        let builder = std::thread::Builder::new().name("vor-ship".to_owned());
        let (on_thread, exit_bound) = (Arc::clone(&shared), self.exit_bound);
        let run = move || on_thread.run(&self.shipper, exit_bound);
        let thread = for_new_thread(|| builder.spawn(run))
            .map_err(|error| Error::io("a thread that ships segments cannot be started", error))?;
        Ok(Follower {
            shared,
            exit_bound,
            pid: std::process::id(),
            thread: Some(thread),
        })
    }
}

/// The thread and the sink that ends it.
#[derive(Debug)]
struct Follower {
    shared: Arc<Shared>,
    exit_bound: Duration,
    /// The process that has the thread.
    pid: u32,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Set by the sink, read by the thread.
    is_ending: AtomicBool,
    has_ended: Mutex<bool>,
    ended: Condvar,
}

impl FrameSink for Follower {
    fn interest(&self) -> Interest {
        Interest::METRICS
    }

    fn reads_metrics(&self) -> bool {
        false
    }

    fn takes_frames(&self) -> bool {
        false
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // The child of a fork has no such thread.
        if self.pid != std::process::id() {
            return;
        }
        self.shared.is_ending.store(true, Ordering::Relaxed);
        // The thread ends a request itself when the time is over, and needs a moment for it.
        let most = self.exit_bound + Duration::from_millis(500);
        let ended =
            self.shared
                .ended
                .wait_timeout_while(self.shared.ended_flag(), most, |has_ended| !*has_ended);
        let has_ended = *ended.unwrap_or_else(PoisonError::into_inner).0;
        if has_ended && let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of the thread.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn ended_flag(&self) -> MutexGuard<'_, bool> {
        self.has_ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, shipper: &Shipper, exit_bound: Duration) {
        /// Reports the end of the thread, also after a panic.
        struct EndGuard<'a>(&'a Shared);
        impl Drop for EndGuard<'_> {
            fn drop(&mut self) {
                *self.0.ended_flag() = true;
                self.0.ended.notify_all();
            }
        }
        let _guard = EndGuard(self);
        stay_silent();
        let mut last_problem = LastProblem::default();
        let bound = Bound::stopped_by(&self.is_ending, exit_bound);
        let run = loop {
            match Run::open(shipper) {
                Ok(mut run) => match run.follow(&bound, false) {
                    Ok(_) => break Some(run),
                    Err(error) => last_problem.report(&error),
                },
                // The folder may not exist yet, and another process may ship it.
                Err(error) if error.is_config() => {}
                Err(error) => last_problem.report(&error),
            }
            if !bound.may_begin() {
                break None;
            }
            let (polls, time) = RETRY_POLLS;
            (0..polls)
                .take_while(|_| bound.may_begin())
                .for_each(|_| std::thread::sleep(time));
        };
        let Some(run) = run else {
            return;
        };
        // The time counts from the request.
        match run.once(&bound.rest()) {
            Ok(report) if report.left > 0 => report_line(&format!(
                "{}: {} not shipped yet; the next run ships them",
                shipper.folder().display(),
                units::counted(report.left, "segment")
            )),
            Ok(_) => {}
            Err(error) => last_problem.report(&error),
        }
    }
}

/// Reports a problem once for each row of the same.
#[derive(Debug, Default)]
struct LastProblem(String);

impl LastProblem {
    fn report(&mut self, error: &Error) {
        let problem = error.to_string();
        if self.0 != problem {
            report_line(&problem);
            self.0 = problem;
        }
    }
}
