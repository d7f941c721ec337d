//! The scopes that are open now, of every thread.

use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_capture::model::measures::Measured;

use super::used::Used;
use super::{ThreadState, is_busy, is_silent, threads, while_busy};
use crate::clock;
use crate::hot::callsite;
use crate::hot::scope::Noted;

/// The scopes that a thread has open now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OpenThread {
    /// The thread.
    pub thread: ThreadId,
    /// Its name, empty when it has none.
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
    /// How long it has been open, in nanoseconds.
    pub age_ns: u64,
    /// When it was opened, in ticks.
    pub start_ticks: u64,
    /// What it has measured so far, beside its length; 0 what is not measured, or known only at its
    /// end, as how processor time divides between program and kernel.
    pub measured: Measured,
    /// What its thread had used up when it was opened, where that is measured.
    pub(crate) noted: Option<Noted>,
}

/// Returns, for every thread that has any, the scopes that are open now, outermost first. At most
/// [`MAX_OPEN`](super::MAX_OPEN) per thread; scopes that come and go faster than they can be read
/// are left out.
///
/// Inside vor nothing is returned: in a signal handler that interrupts vor, and in a sink where the
/// program's own thread drains.
#[must_use]
pub fn open_scopes() -> Vec<OpenThread> {
    if is_busy() && !is_silent() {
        // This very thread may hold one of the locks. Threads of vor's own take no signals.
        return Vec::new();
    }
    open_scopes_of(|state| !state.has_exited())
}

/// Returns the scopes that are open at the end of the process. The thread that ends the process has
/// ended itself by then, inside its scopes.
pub(crate) fn open_scopes_at_end() -> Vec<OpenThread> {
    open_scopes_of(|_| true)
}

fn open_scopes_of(concerns: impl Fn(&ThreadState) -> bool) -> Vec<OpenThread> {
    while_busy(|| {
        let threads = threads();
        let registry = callsite::lock();
        let now = clock::ticks();
        let mut all = Vec::new();
        let mut open = Vec::new();
        for state in threads.live.iter().filter(|state| concerns(state)) {
            let mut used = None;
            let scope = |(depth, (site, start_ticks)): (usize, (SiteId, u64))| {
                let age_ticks = now.saturating_sub(start_ticks);
                let noted = state.noted(depth, start_ticks);
                let measured = noted.map(|noted| {
                    let used = used.get_or_insert_with(|| Used::of(state, &threads.infos));
                    used.since(&noted, age_ticks).1
                });
                OpenScope {
                    site,
                    name: registry
                        .name_of(site)
                        .map_or_else(|| "?".into(), |info| info.name.to_string()),
                    age_ns: clock::approximate_ns(age_ticks),
                    start_ticks,
                    measured: measured.unwrap_or_default(),
                    noted,
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
