//! Which frames, scopes and messages ask for a dump: they take longer than a limit, or are too
//! many.

use std::collections::VecDeque;
use std::time::Duration;

use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::frame::FrameSnapshot;

use crate::clock;
use crate::drain::dumps::{Cause, Causes, request};
use crate::drain::exit::{self, End};

/// Causes of a dump besides a call of [`dump`](super::dump) and SIGUSR2.
///
/// By default that is a panic and a crash: SIGSEGV, SIGABRT, SIGBUS, SIGILL or SIGFPE. A slow frame
/// or scope, too many of a kind, a stall and a panic are dumped at most once in the time that the
/// memory covers, or in a minute if its age has no limit. The next dump says how many of them were
/// not.
///
/// # Examples
///
/// ```no_run
/// # mod vor {
/// #     pub use vor_recorder::setup::Config;
/// #     pub use vor_recorder::sinks::last::{DumpOn, Last};
/// # }
/// use std::time::Duration;
///
/// let dump_on = vor::DumpOn::new()
///     .slow_frame(Duration::from_millis(50))
///     .slow_scope("db::query", Duration::from_millis(200));
/// vor::Config::new().last(vor::Last::new()).dump_on(dump_on).enable();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DumpOn {
    slow_frame: Option<Duration>,
    slow_scopes: Vec<(String, Duration)>,
    counts: Vec<Count>,
    stall: bool,
    panic: bool,
    crash: bool,
    exit: bool,
    failure: bool,
}

/// How many events of a name, within a time, ask for a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Count {
    name: String,
    times: u32,
    within: Duration,
}

impl Default for DumpOn {
    fn default() -> Self {
        Self::new()
    }
}

impl DumpOn {
    /// The default: a panic and a crash.
    #[must_use]
    pub fn new() -> Self {
        Self {
            panic: true,
            crash: true,
            ..Self::nothing()
        }
    }

    /// Nothing but [`dump`](super::dump) and SIGUSR2.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            slow_frame: None,
            slow_scopes: Vec::new(),
            counts: Vec::new(),
            stall: false,
            panic: false,
            crash: false,
            exit: false,
            failure: false,
        }
    }

    /// Dumps when a frame of the main set took longer than `limit`.
    #[must_use]
    pub fn slow_frame(mut self, limit: Duration) -> Self {
        self.slow_frame = Some(limit);
        self
    }

    /// Dumps when a scope of this name took longer than `limit`.
    #[must_use]
    pub fn slow_scope(mut self, name: impl Into<String>, limit: Duration) -> Self {
        self.slow_scopes.push((name.into(), limit));
        self
    }

    /// Dumps when `times` events of this name came within a time: ends of scopes that are called
    /// so, and messages that begin with it. `ERROR` is how the errors of `tracing` begin.
    #[must_use]
    pub fn count(mut self, name: impl Into<String>, times: u32, within: Duration) -> Self {
        self.counts.push(Count {
            name: name.into(),
            times: times.max(1),
            within,
        });
        self
    }

    /// Sets whether a stall is dumped that the [watchdog](crate::setup::Config::watchdog) reports.
    #[must_use]
    pub fn stall(mut self, stall: bool) -> Self {
        self.stall = stall;
        self
    }

    /// Sets whether a panic is dumped. The panicking thread waits for that.
    #[must_use]
    pub fn panic(mut self, panic: bool) -> Self {
        self.panic = panic;
        self
    }

    /// Sets whether a crash is dumped, on Unix. The process waits a second for it.
    #[must_use]
    pub fn crash(mut self, crash: bool) -> Self {
        self.crash = crash;
        self
    }

    /// Sets whether the end of the program is dumped.
    #[must_use]
    pub fn exit(mut self, exit: bool) -> Self {
        self.exit = exit;
        self
    }

    /// Sets whether an end of the program with another exit code than 0 is dumped. Only the C
    /// library of GNU reports the code; elsewhere this is every end that is no signal.
    #[must_use]
    pub fn failure(mut self, failure: bool) -> Self {
        self.failure = failure;
        self
    }

    /// Returns why the end of the program is dumped; `None` if it is not.
    pub(super) fn reason_at_end(&self) -> Option<String> {
        match exit::end() {
            End::Code(code) if self.failure && code != 0 => {
                return Some(format!("the end of the program with exit code {code}"));
            }
            End::Unreported if self.failure => {}
            _ if self.exit => {}
            _ => return None,
        }
        Some("the end of the program".to_owned())
    }

    pub(super) fn causes(&self) -> Causes {
        let Self {
            slow_frame,
            slow_scopes,
            counts,
            stall,
            panic,
            crash,
            exit,
            failure,
        } = self;
        let is_slow = slow_frame.is_some() || !slow_scopes.is_empty();
        let causes = [
            (Cause::Slow, is_slow || !counts.is_empty()),
            (Cause::Stall, *stall),
            (Cause::Panic, *panic),
            (Cause::Crash, *crash),
            (Cause::Exit, *exit || *failure),
        ];
        let on = causes.into_iter().filter(|(_, is_on)| *is_on);
        on.fold(Causes::default(), |causes, (cause, _)| causes.with(cause))
    }
}

/// Compares frames and scopes with their limits.
#[derive(Debug)]
pub(super) struct Watch {
    frame_ns: Option<i64>,
    scopes: Vec<(String, u64)>,
    /// The limit of each site, in ticks, for the sites that have been looked at.
    limits: Vec<u64>,
    /// The lowest limit.
    least: u64,
    counters: Vec<Counter>,
    /// The counter of each site that has been looked at, from 1 on; 0 for none.
    counter_of: Vec<u32>,
}

/// The newest events of a name.
#[derive(Debug)]
struct Counter {
    count: Count,
    within_ticks: u64,
    /// At most as many as ask for a dump, in the order in which they were delivered.
    ticks: VecDeque<u64>,
}

impl Counter {
    fn new(count: &Count) -> Self {
        let ns = u64::try_from(count.within.as_nanos()).unwrap_or(u64::MAX);
        Self {
            count: count.clone(),
            within_ticks: clock::approximate_ticks(ns),
            ticks: VecDeque::new(),
        }
    }

    /// Counts an event, and requests a dump if it is the last of enough.
    fn add(&mut self, ticks: u64) {
        self.ticks.push_back(ticks);
        let Count {
            name,
            times,
            within,
        } = &self.count;
        if self.ticks.len() < *times as usize {
            return;
        }
        // Events of other threads may be delivered later than newer ones.
        let oldest = self.ticks.pop_front().unwrap_or(ticks);
        if ticks.saturating_sub(oldest) <= self.within_ticks {
            self.ticks.clear();
            request(Cause::Slow, || {
                format!("`{name}` came {times} times within {within:?}")
            });
        }
    }
}

impl Watch {
    pub(super) fn new(dump_on: &DumpOn) -> Self {
        let ns = |limit: Duration| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let ticks = |limit| clock::approximate_ticks(ns(limit));
        let scopes: Vec<_> = dump_on
            .slow_scopes
            .iter()
            .map(|(name, limit)| (name.clone(), ticks(*limit)))
            .collect();
        Self {
            frame_ns: dump_on
                .slow_frame
                .map(|limit| i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX)),
            least: scopes
                .iter()
                .map(|(_, limit)| *limit)
                .min()
                .unwrap_or(u64::MAX),
            scopes,
            limits: Vec::new(),
            counters: dump_on.counts.iter().map(Counter::new).collect(),
            counter_of: Vec::new(),
        }
    }

    pub(super) fn frame(&self, frame: &FrameSnapshot) {
        let ns = frame.duration_ns();
        if frame.frame_set == 0 && self.frame_ns.is_some_and(|limit| ns > limit) {
            request(Cause::Slow, || {
                format!("frame {} took {:.1} ms", frame.index, ns as f64 / 1e6)
            });
        }
    }

    pub(super) fn batch(&mut self, batch: &SpanBatch) {
        if self.scopes.is_empty() && self.counters.is_empty() {
            return;
        }
        self.look_at_new_sites(&batch.catalog);
        self.count(batch);
        for thread in &batch.threads {
            for (&site, &ticks) in thread.sites.iter().zip(&thread.duration_ticks) {
                if ticks > self.least && self.limit_of(site).is_some_and(|limit| ticks > limit) {
                    let ns = clock::approximate_ns(ticks);
                    request(Cause::Slow, || {
                        let name = name_of(&batch.catalog, site).unwrap_or("?");
                        format!("`{name}` took {:.1} ms", ns as f64 / 1e6)
                    });
                }
            }
        }
    }

    /// Counts the events of the counted names.
    fn count(&mut self, batch: &SpanBatch) {
        if self.counters.is_empty() {
            return;
        }
        for thread in &batch.threads {
            let spans = thread.sites.iter().zip(&thread.start_ticks);
            for ((&site, &start_ticks), &ticks) in spans.zip(&thread.duration_ticks) {
                let counter = self.counter_of.get((site.0 as usize).wrapping_sub(1));
                let at = counter.map_or(0, |counter| *counter as usize);
                if let Some(counter) = self.counters.get_mut(at.wrapping_sub(1)) {
                    counter.add(start_ticks.wrapping_add(ticks));
                }
            }
            for message in &thread.messages {
                let begins_so =
                    |counter: &&mut Counter| message.text.starts_with(&counter.count.name);
                if let Some(counter) = self.counters.iter_mut().find(begins_so) {
                    counter.add(message.ticks);
                }
            }
        }
    }

    fn limit_of(&self, site: SiteId) -> Option<u64> {
        let at = usize::try_from(site.0).ok()?.checked_sub(1)?;
        self.limits.get(at).copied()
    }

    fn look_at_new_sites(&mut self, catalog: &Catalog) {
        for at in self.limits.len()..catalog.sites.len() {
            let name = name_of(catalog, SiteId(at as u32 + 1));
            let limit = self
                .scopes
                .iter()
                .find(|(scope, _)| name == Some(scope.as_str()));
            self.limits
                .push(limit.map_or(u64::MAX, |(_, limit)| *limit));
            let has_name = |counter: &Counter| name == Some(counter.count.name.as_str());
            let counter = self.counters.iter().position(has_name);
            self.counter_of.push(counter.map_or(0, |at| at as u32 + 1));
        }
    }
}

fn name_of(catalog: &Catalog, site: SiteId) -> Option<&str> {
    let at = usize::try_from(site.0).ok()?.checked_sub(1)?;
    Some(&catalog.sites.get(at)?.as_ref()?.name)
}
