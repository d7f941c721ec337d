//! Takes a profile of each interval of the running program, and of the heap at its end if the
//! allocator tracks it.
//!
//! A sink merges the drained batches. A dedicated thread takes the sums at every interval, and
//! passes them to a receiver that writes or sends them. So neither the program nor the drain waits
//! for a disk or a network. The number of stacks in memory is bounded, however long an interval and
//! the program are.
//!
//! ```text
//! drain ──batches──▶ SpanProfile ◀──cut── thread `vor-profiles` ──FinishedProfile──▶ Receiver
//!                           heap_snapshot ◀──────┘                           files, Pyroscope
//! ```

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vor_capture::Error;
use vor_capture::model::batch::{OpenStarts, SpanBatch};
use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_export::pprof::{OpenSpan, OpenSpans, ProfileBuilder, SpanProfile, snapshot_profile};

use crate::drain;
use crate::hot::thread;
use crate::hot::thread::{OpenScope, OpenThread, Usage};
use crate::os::report;
use crate::sync::lock;
use crate::{allocations, clock};

/// Shortest interval: a shorter one would mostly measure itself.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// How long dropping the sink waits for the last profile.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The kind of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The scopes that ran in an interval.
    Spans,
    /// The live heap at the end of an interval.
    Heap,
}

/// The profile of an interval, or of the live heap at its end.
#[cfg_attr(
    not(feature = "pyroscope"),
    expect(dead_code, reason = "a profile says its time itself")
)]
#[derive(Debug)]
pub(super) struct FinishedProfile {
    /// In nanoseconds since 1970.
    pub(super) from_unix_ns: u64,
    /// In nanoseconds since 1970.
    pub(super) until_unix_ns: u64,
    pub(super) kind: Kind,
    pub(super) profile: ProfileBuilder,
}

/// The destination of profiles. Its methods run on the thread of the profiles.
pub(super) trait Receiver: Send + 'static {
    /// Takes a profile that is not empty.
    fn take(&mut self, finished: FinishedProfile);

    /// Does one step of other work. Called at the time of [`wants_at`](Self::wants_at), and after
    /// each profile.
    fn work(&mut self) {}

    /// Returns the time of its next work before the next profile, if there is any.
    fn wants_at(&self) -> Option<Instant> {
        None
    }

    /// Finishes the remaining work, and reports failures.
    fn end(&mut self);
}

/// The state that the sink and the thread share. The order of the locks is `profile`, then `open`
/// or `state`; none is held during a call of the drain.
#[derive(Debug)]
struct Shared {
    profile: Mutex<SpanProfile>,
    /// The scopes that were open after the last batch.
    open: Mutex<OpenStarts>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Whether the thread must take a last profile and end.
    is_ending: bool,
    has_ended: bool,
}

/// The sink that collects profiles, and the thread that passes them on. Dropping it waits for the
/// last profile.
#[derive(Debug)]
pub(super) struct Profiles {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The sink's name in messages.
    name: String,
    pid: u32,
}

impl Profiles {
    /// Begins to take profiles. `labels` are arguments that become labels.
    ///
    /// # Errors
    ///
    /// A thread cannot be started.
    pub(super) fn start(
        name: String,
        interval: Duration,
        labels: Vec<String>,
        receiver: impl Receiver,
    ) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            profile: Mutex::new(SpanProfile::new(labels)),
            open: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let thread = {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name("vor-profiles".to_owned());
            let run = move || shared.run(interval.max(MIN_INTERVAL), receiver);
            let started = builder.spawn(run);
            started
                .map_err(|error| Error::io(format!("{name}: a thread cannot be started"), error))?
        };
        Ok(Self {
            shared,
            thread: Some(thread),
            name,
            pid: std::process::id(),
        })
    }
}

impl Drop for Profiles {
    fn drop(&mut self) {
        // The child of a fork has no such thread.
        if self.pid != std::process::id() {
            return;
        }
        self.shared.request_end();
        if !self.shared.wait_for_end() {
            let seconds = SHUTDOWN_TIMEOUT.as_secs();
            report::line(&format!(
                "{} took more than {seconds} s to end; the program does not wait for them",
                self.name
            ));
        } else if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of the thread.
            drop(thread.join());
        }
    }
}

impl FrameSink for Profiles {
    fn reads_metrics(&self) -> bool {
        false
    }

    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        lock(&self.shared.profile).accept_bounded(batch)
    }

    fn wants_open(&self) -> bool {
        true
    }

    fn accept_open(&mut self, open: &OpenStarts) -> Result<(), Error> {
        lock(&self.shared.profile).settle(open);
        lock(&self.shared.open).clone_from(open);
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.shared.request_end();
        Ok(())
    }
}

impl Shared {
    /// Signals the thread to take the last profile and to end.
    fn request_end(&self) {
        lock(&self.state).is_ending = true;
        self.changed.notify_all();
    }

    /// Waits up to `SHUTDOWN_TIMEOUT` for the thread's end. Returns whether it has ended.
    fn wait_for_end(&self) -> bool {
        let until = Instant::now() + SHUTDOWN_TIMEOUT;
        self.wait_while(until, |state| !state.has_ended).has_ended
    }

    fn run(&self, interval: Duration, mut receiver: impl Receiver) {
        /// Sets `has_ended` when the thread ends, also by a panic.
        struct EndGuard<'a>(&'a Shared);
        impl Drop for EndGuard<'_> {
            fn drop(&mut self) {
                lock(&self.0.state).has_ended = true;
                self.0.changed.notify_all();
            }
        }
        let _guard = EndGuard(self);
        // Exclude this thread from the measurements.
        allocations::stay_untracked();
        let mut from_unix_ns = unix_ns();
        let mut next = Instant::now() + interval;
        loop {
            let wake = receiver.wants_at().map_or(next, |at| at.min(next));
            let state = self.wait_until(wake);
            if state.is_ending || Instant::now() >= next {
                let spans = self.take(state.is_ending);
                let spans = spans.map_err(|error| report::line(&error.to_string())).ok();
                let until_unix_ns = unix_ns().max(from_unix_ns);
                let heap = crate::heap::tracks_heap().then(|| self.take_heap());
                let profiles = [(Kind::Spans, spans), (Kind::Heap, heap)];
                for (kind, profile) in profiles {
                    let Some(mut profile) = profile.filter(|profile| !profile.is_empty()) else {
                        continue;
                    };
                    let start = i64::try_from(from_unix_ns).unwrap_or(i64::MAX);
                    profile.set_time(start, until_unix_ns - from_unix_ns);
                    receiver.take(FinishedProfile {
                        from_unix_ns,
                        until_unix_ns,
                        kind,
                        profile,
                    });
                }
                from_unix_ns = until_unix_ns;
                // If the receiver took longer than an interval, the next interval is longer, and
                // none is made up.
                next = (next + interval).max(Instant::now());
            }
            if state.is_ending {
                return receiver.end();
            }
            receiver.work();
        }
    }

    fn wait_until(&self, until: Instant) -> State {
        self.wait_while(until, |state| !state.is_ending)
    }

    /// Waits until the condition does not hold or the time has come, and returns the state then.
    fn wait_while(&self, until: Instant, condition: impl Fn(&State) -> bool) -> State {
        let timeout = until.saturating_duration_since(Instant::now());
        let state = lock(&self.state);
        let waited = self
            .changed
            .wait_timeout_while(state, timeout, |state| condition(state));
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Takes the profile up to now. At the end, no batch follows.
    fn take(&self, is_ending: bool) -> Result<ProfileBuilder, Error> {
        /// Most attempts, a millisecond apart; batches arrive every few milliseconds.
        const TRIES: usize = 64;
        /// Attempts that wait for the batch of a scope that has closed. A program whose scopes are
        /// shorter than an attempt may never be without one.
        const EXACT_TRIES: usize = 48;
        let now_ticks = clock::ticks();
        let used = thread::usages();
        let catalog = drain::catalog();
        for attempt in 0..TRIES {
            let batches = lock(&self.profile).batches();
            // Read without holding this lock, since it takes others.
            let open = thread::open_scopes();
            let mut profile = lock(&self.profile);
            let may_miss = is_ending || attempt >= EXACT_TRIES;
            if profile.batches() == batches && (may_miss || self.are_open(&open)) {
                return cut(&mut profile, now_ticks, &used, &open, catalog);
            }
            drop(profile);
            std::thread::sleep(Duration::from_millis(1));
        }
        cut(&mut lock(&self.profile), now_ticks, &used, &[], catalog)
    }

    /// Returns whether all scopes that were open after the last batch are among those that are open
    /// now. A scope that has closed since is in neither.
    fn are_open(&self, now: &[OpenThread]) -> bool {
        let before = lock(&self.open);
        before.threads.iter().all(|(id, starts)| {
            let thread = now.iter().find(|thread| thread.thread == *id);
            let scopes = thread.map_or(&[][..], |thread| &thread.scopes);
            starts
                .iter()
                .all(|start| scopes.iter().any(|scope| scope.start_ticks == *start))
        })
    }

    /// Takes a profile of the live heap.
    fn take_heap(&self) -> ProfileBuilder {
        let mut profile = snapshot_profile(&crate::heap::heap_snapshot());
        profile.set_program(lock(&self.profile).program());
        profile
    }
}

/// Takes the profile up to now. `used` is the threads' usage at `now_ticks`, and `open` the scopes
/// that were open after the last batch.
fn cut(
    profile: &mut SpanProfile,
    now_ticks: u64,
    used: &[(ThreadId, Usage)],
    open: &[OpenThread],
    catalog: Option<Arc<Catalog>>,
) -> Result<ProfileBuilder, Error> {
    let span = |scope: &OpenScope| OpenSpan {
        site: scope.site,
        start_ticks: scope.start_ticks,
    };
    let spans: Vec<OpenSpans> = open
        .iter()
        .map(|thread| OpenSpans {
            thread: thread.thread,
            spans: thread.scopes.iter().map(span).collect(),
        })
        .collect();
    let measured = |id, open_span, until_ticks: u64| {
        let (_, used) = used.iter().find(|(thread, _)| *thread == id)?;
        let thread = open.iter().find(|thread| thread.thread == id)?;
        let scope = thread
            .scopes
            .iter()
            .find(|scope| span(scope) == open_span)?;
        let duration_ticks = until_ticks.saturating_sub(scope.start_ticks);
        Some(used.since(scope.baseline.as_ref()?, duration_ticks))
    };
    let measured =
        |thread, span, until_ticks| measured(thread, span, until_ticks).unwrap_or_default();
    profile.cut(now_ticks, &spans, measured, catalog)
}

fn unix_ns() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
