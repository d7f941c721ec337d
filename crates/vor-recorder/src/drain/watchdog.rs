//! The watchdog: reports the open scopes of every thread when a frame or a scope takes too long.
//!
//! The worker checks several times within the limit. It reports a stall on stderr and, as messages
//! on the worker's own track, to the sinks. A stall is reported once: its frame is not reported
//! again. A scope that was open for half the limit when its thread was reported is not reported
//! either, because one stall makes several nested scopes old.

use std::fmt::Write;
use std::time::Duration;

use vor_capture::model::catalog::ThreadId;

use super::dumps;
use super::last_mark_ticks;
use crate::clock;
use crate::hot::record_state;
use crate::hot::thread::{self, OpenThread};
use crate::os::report;
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// How long a frame or a scope may take, in nanoseconds; 0 means no watchdog. Written by `start`,
/// read by the worker, relaxed.
static LIMIT_NS: AtomicU64 = AtomicU64::new(0);

/// How many times the worker checks within the limit.
const CHECKS: u32 = 8;
/// Shortest time between two checks.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// Sets how long a frame or a scope may take.
pub(super) fn set_limit(limit: Duration) {
    let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX).max(1);
    LIMIT_NS.store(limit_ns, Ordering::Relaxed);
}

fn limit() -> Option<Duration> {
    let limit_ns = LIMIT_NS.load(Ordering::Relaxed);
    (limit_ns > 0).then(|| Duration::from_nanos(limit_ns))
}

/// Limits a sleep of the worker to the time until the next check.
pub(super) fn longest_sleep(max_sleep: Duration) -> Duration {
    limit().map_or(max_sleep, |limit| {
        (limit / CHECKS).clamp(MIN_PAUSE, max_sleep)
    })
}

/// The stalls that the worker has reported.
#[derive(Debug, Default)]
pub(super) struct Watchdog {
    next_check_ticks: u64,
    /// The mark at the start of the last reported frame; 0, as before the first mark, if none was.
    reported_mark_ticks: u64,
    /// For each thread, the start of the last scope that counts as reported.
    reported_starts: Vec<(ThreadId, u64)>,
}

impl Watchdog {
    /// If a check is due, looks for a frame or a scope that is too old, and reports it.
    pub(super) fn check(&mut self) {
        let Some(limit) = limit() else {
            return;
        };
        let now = clock::ticks();
        if now < self.next_check_ticks || !record_state::is_on() {
            return;
        }
        let pause = longest_sleep(Duration::MAX);
        let pause_ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        self.next_check_ticks = now.saturating_add(clock::approximate_ticks(pause_ns));

        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let mark = last_mark_ticks();
        let open = thread::open_scopes();
        if let Some(headline) = self.find_stall(limit_ns, mark, now, &open) {
            report_stall(&headline, &open);
            dumps::request(dumps::Cause::Stall, || format!("stalled: {headline}"));
        }
    }

    /// Returns the headline of a stall that has not been reported yet.
    fn find_stall(
        &mut self,
        limit_ns: u64,
        mark: u64,
        now: u64,
        open: &[OpenThread],
    ) -> Option<String> {
        self.reported_starts
            .retain(|(thread, _)| open.iter().any(|open| open.thread == *thread));
        let frame_ns = clock::approximate_ns(now.saturating_sub(mark));
        let late_frame = frame_ns > limit_ns && mark != self.reported_mark_ticks;
        let late_scope = open.iter().find_map(|thread| {
            let reported = self.reported_start(thread.thread);
            let is_new = |start_ticks| reported.is_none_or(|reported| start_ticks > reported);
            let mut scopes = thread.scopes.iter();
            let scope =
                scopes.find(|scope| scope.age_ns > limit_ns && is_new(scope.start_ticks))?;
            Some((thread, scope))
        });
        let limit = Milliseconds(limit_ns);
        let headline = if late_frame {
            format!(
                "no frame mark for {}, the limit is {limit}",
                Milliseconds(frame_ns)
            )
        } else {
            let (thread, scope) = late_scope?;
            let (name, age) = (&scope.name, Milliseconds(scope.age_ns));
            format!(
                "`{name}` has been open for {age} on {}, the limit is {limit}",
                name_of(thread)
            )
        };
        if late_frame {
            self.reported_mark_ticks = mark;
        }
        for thread in open {
            let old = thread
                .scopes
                .iter()
                .filter(|scope| scope.age_ns > limit_ns / 2);
            if let Some(start_ticks) = old.map(|scope| scope.start_ticks).max() {
                let starts = &mut self.reported_starts;
                starts.retain(|(of, _)| *of != thread.thread);
                starts.push((thread.thread, start_ticks));
            }
        }
        Some(headline)
    }

    fn reported_start(&self, thread: ThreadId) -> Option<u64> {
        let mut starts = self.reported_starts.iter();
        starts
            .find(|(of, _)| *of == thread)
            .map(|(_, start)| *start)
    }
}

struct Milliseconds(u64);

impl std::fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} ms", self.0 as f64 / 1e6)
    }
}

fn name_of(thread: &OpenThread) -> String {
    if thread.name.is_empty() {
        format!("thread {}", thread.thread.0)
    } else {
        format!("thread {} `{}`", thread.thread.0, thread.name)
    }
}

fn report_stall(headline: &str, open: &[OpenThread]) {
    let now = clock::ticks();
    let emit = |text: &str| {
        report::line(text);
        thread::while_recording(|| thread::push_message(now, text));
    };
    emit(&format!("stalled: {headline}"));
    if open.is_empty() {
        emit("stalled: no scope is open");
    }
    for thread in open {
        let mut line = format!("stalled: {}:", name_of(thread));
        for (depth, scope) in thread.scopes.iter().enumerate() {
            let arrow = if depth == 0 { "" } else { " >" };
            // Writing into a string cannot fail.
            let _ = write!(
                line,
                "{arrow} {} {}",
                scope.name,
                Milliseconds(scope.age_ns)
            );
        }
        emit(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot::thread::OpenScope;
    use vor_capture::model::catalog::SiteId;

    fn open(thread: u32, scopes: &[(u64, u64)]) -> OpenThread {
        let scope = |&(start_ticks, age_ns): &(u64, u64)| OpenScope {
            site: SiteId(1),
            name: "work".into(),
            age_ns,
            start_ticks,
            measured: Default::default(),
            baseline: None,
        };
        OpenThread {
            thread: ThreadId(thread),
            name: String::new(),
            scopes: scopes.iter().map(scope).collect(),
        }
    }

    #[test]
    fn a_stall_is_reported_once_and_the_next_one_again() {
        let mut dog = Watchdog::default();
        let mut find_stall = |mark, open: &[OpenThread]| dog.find_stall(1_000, mark, 50, open);
        assert_eq!(find_stall(0, &[open(0, &[(10, 900)])]), None);
        let headline = find_stall(0, &[open(0, &[(10, 1_100), (12, 700)])]).unwrap();
        assert_eq!(
            headline,
            "`work` has been open for 0.0 ms on thread 0, the limit is 0.0 ms"
        );
        // The inner scope gets old in the same stall.
        assert_eq!(find_stall(0, &[open(0, &[(10, 1_600), (12, 1_200)])]), None);
        // A later scope is another stall, and so is another thread's.
        assert!(find_stall(0, &[open(0, &[(10, 4_000), (30, 1_001)])]).is_some());
        assert!(find_stall(0, &[open(0, &[(10, 9_000)]), open(1, &[(9, 1_001)])]).is_some());
        assert_eq!(
            find_stall(0, &[open(0, &[(10, 9_100)]), open(1, &[(9, 1_101)])]),
            None
        );
        // The state of a thread is removed with it.
        assert_eq!(find_stall(0, &[]), None);
        assert!(find_stall(0, &[open(1, &[(9, 2_000)])]).is_some());
    }

    #[test]
    fn a_frame_is_reported_once() {
        let mut dog = Watchdog::default();
        let now = clock::ticks();
        let mark = now.saturating_sub(clock::approximate_ticks(5_000_000));
        let headline = dog.find_stall(1_000_000, mark, now, &[]).unwrap();
        assert!(
            headline.starts_with("no frame mark for 5.0 ms"),
            "{headline}"
        );
        assert_eq!(dog.find_stall(1_000_000, mark, now, &[]), None);
        assert!(dog.find_stall(1_000_000, mark + 1, now, &[]).is_some());
        assert_eq!(dog.find_stall(9_000_000, mark + 2, now, &[]), None);
    }

    #[test]
    fn no_frame_is_late_before_the_first_mark() {
        let now = clock::ticks();
        assert!(clock::approximate_ns(now) > 1);
        assert_eq!(Watchdog::default().find_stall(1, 0, now, &[]), None);
    }
}
