//! The open scopes of every thread.

use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_capture::model::measures::Measured;

use super::list::threads;
use super::usage::Usage;
use super::{ThreadState, is_busy, is_silent, while_busy};
use crate::clock;
use crate::hot::callsite;
use crate::hot::scope::Baseline;

/// The scopes that a thread has open now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OpenThread {
    /// The thread.
    pub thread: ThreadId,
    /// Its name, empty if it has none.
    pub name: String,
    /// Its open scopes, outermost first.
    pub scopes: Vec<OpenScope>,
}

/// A scope that is open now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OpenScope {
    /// Its call site.
    pub site: SiteId,
    /// Its name.
    pub name: String,
    /// Time since it was opened, in nanoseconds.
    pub age_ns: u64,
    /// Start in ticks.
    pub start_ticks: u64,
    /// Its measures so far, beside its duration. 0 for those that are not measured, or that are
    /// known only at its end, such as the split of CPU time between program and kernel.
    pub measured: Measured,
    /// The counters of its thread when it was opened, if it is measured.
    pub(crate) baseline: Option<Baseline>,
}

/// Returns the open scopes of every thread that has any, outermost first. At most
/// [`MAX_OPEN`](super::MAX_OPEN) per thread. Scopes that open and close faster than they can be
/// read are omitted.
///
/// Returns nothing inside vor: in a signal handler that interrupts vor, and in a sink if the
/// program's own thread drains.
#[must_use]
pub fn open_scopes() -> Vec<OpenThread> {
    if is_busy() && !is_silent() {
        // This thread itself may hold one of the locks. Threads of vor's own handle no signals.
        return Vec::new();
    }
    open_scopes_of(|state| !state.has_exited())
}

/// Returns the scopes that are open at the end of the process. The thread that ends the process has
/// already ended, inside its scopes.
pub(crate) fn open_scopes_at_end() -> Vec<OpenThread> {
    open_scopes_of(|_| true)
}

fn open_scopes_of(filter: impl Fn(&ThreadState) -> bool) -> Vec<OpenThread> {
    while_busy(|| {
        let threads = threads();
        let registry = callsite::lock();
        let now = clock::ticks();
        let mut all = Vec::new();
        let mut open = Vec::new();
        for state in threads.live.iter().filter(|state| filter(state)) {
            let mut usage = None;
            let scope = |(depth, (site, start_ticks)): (usize, (SiteId, u64))| {
                let age_ticks = now.saturating_sub(start_ticks);
                let baseline = state.baseline(depth, start_ticks);
                let measured = baseline.map(|baseline| {
                    let usage = usage.get_or_insert_with(|| Usage::of(state, &threads.infos));
                    usage.since(&baseline, age_ticks).1
                });
                OpenScope {
                    site,
                    name: registry
                        .info_of(site)
                        .map_or_else(|| "?".into(), |info| info.name.to_string()),
                    age_ns: clock::approximate_ns(age_ticks),
                    start_ticks,
                    measured: measured.unwrap_or_default(),
                    baseline,
                }
            };
            state.read_open(&mut open);
            let scopes: Vec<_> = open.iter().copied().enumerate().map(scope).collect();
            if !scopes.is_empty() {
                let info = threads.infos.get(state.id().0 as usize);
                let name = info.map_or_else(String::new, |info| info.name.clone());
                all.push(OpenThread {
                    thread: state.id(),
                    name,
                    scopes,
                });
            }
        }
        all
    })
}
