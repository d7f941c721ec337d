//! Asynchronous spans: spans that begin in one place and end in another, overlap each other, and
//! may move between threads.
//!
//! A [`scope`](crate::hot::scope) belongs to a thread and nests. A request, a download or a job
//! does neither. Its span is recorded when it ends, on the thread on which it ends, beside the tree
//! of scopes. A [profiled future](crate::hot::future) is such a span too, and its polls are its
//! events.

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
use std::ops::Range;
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
use std::time::Instant;

use crate::clock;
use crate::hot::ring::Special;
use crate::hot::scope::{elapsed_ticks, name_id};
use crate::hot::{callsite, record_state, thread};
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// An open asynchronous span. Dropping it ends the span. It can be sent to another thread.
///
/// ```
/// # mod vor { pub use vor_recorder::hot::task::{AsyncScope, async_span}; }
/// let download: vor::AsyncScope = vor::async_span("download", 7);
/// download.step("connected");
/// std::thread::spawn(move || drop(download)); // the task ends here
/// ```
#[must_use = "an asynchronous span lasts as long as it is held"]
#[derive(Debug)]
pub struct AsyncScope {
    /// The name's id, 0 when nothing is being recorded.
    site: u32,
    id: u64,
    start_ticks: u64,
}

/// Begins an asynchronous span, such as a request that many threads work on. It ends when the
/// returned guard is dropped.
///
/// `id` is the program's own number for it, which viewers show. It need not be unique. A name that
/// this thread has used before costs one look-up in the thread's cache.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::hot::task::async_span; }
/// let request = vor::async_span("request", 17);
/// let worker = std::thread::spawn(move || {
///     request.step("parsed");
///     // … the answer is made and sent …
///     drop(request);
/// });
/// # worker.join().unwrap();
/// ```
pub fn async_span(name: &str, id: u64) -> AsyncScope {
    if cfg!(feature = "off") || !record_state::is_on() {
        return AsyncScope::off();
    }
    let site = zero_if_unregistered(name_id(name));
    if site == 0 {
        thread::count_drop();
        return AsyncScope::off();
    }
    AsyncScope::begin(site, id)
}

impl AsyncScope {
    /// Makes a span that records nothing.
    const fn off() -> Self {
        Self {
            site: 0,
            id: 0,
            start_ticks: 0,
        }
    }

    /// Begins a span of a registered site while recording is on, with the program's number.
    pub(crate) fn begin(site: u32, given_id: u64) -> Self {
        let (id, start_ticks) = (new_id(), clock::ticks());
        thread::push_special(Special::Begin, start_ticks, site, [id, given_id]);
        Self {
            site,
            id,
            start_ticks,
        }
    }

    /// Marks a step of the span, on any thread. Viewers show it at its moment within the span.
    pub fn step(&self, name: &str) {
        if self.site != 0 && record_state::is_on() {
            push_step(self.id, name);
        }
    }
}

impl Drop for AsyncScope {
    fn drop(&mut self) {
        // It is recorded even if recording is off by now, like an open scope.
        if self.site != 0 {
            push_task(self.site, self.id, self.start_ticks, clock::ticks());
        }
    }
}

/// Records an asynchronous span that is already over, such as a pass of a graphics card, whose
/// times arrive later. Like [`async_span`] it has a name and the program's own number.
///
/// Ages are converted by the first calibration of vor's clock, so the error of a time grows with
/// its age: record a span soon after its end. A time in the future becomes the present, and an end
/// before the start becomes the start. Does nothing while recording is off.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::hot::task::record_async_span; }
/// use std::time::{Duration, Instant};
///
/// let end = Instant::now();
/// let start = end - Duration::from_micros(120); // a duration that a device reported
/// vor::record_async_span("gpu: shadows", 1, start..end);
/// ```
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub fn record_async_span(name: &str, id: u64, times: Range<Instant>) {
    if cfg!(feature = "off") || !record_state::is_on() {
        return;
    }
    let site = zero_if_unregistered(name_id(name));
    if site == 0 {
        thread::count_drop();
        return;
    }
    let (now, now_ticks) = (Instant::now(), clock::ticks());
    // At most now: a record with a later end would hold up those behind it in the ring.
    let ticks_at = |time: Instant| {
        let age_ns = now.saturating_duration_since(time).as_nanos();
        let age_ns = u64::try_from(age_ns).unwrap_or(u64::MAX);
        now_ticks.saturating_sub(clock::approximate_ticks(age_ns))
    };
    let (start_ticks, end_ticks) = (ticks_at(times.start), ticks_at(times.end));
    push_numbered(site, id, start_ticks, end_ticks.max(start_ticks));
}

/// Records a span that is over, with the program's number.
#[cfg_attr(
    all(target_arch = "wasm32", target_os = "unknown", not(feature = "tokio")),
    allow(dead_code, reason = "nothing ends before it is recorded")
)]
pub(crate) fn push_numbered(site: u32, given_id: u64, start_ticks: u64, end_ticks: u64) {
    let task = new_id();
    thread::push_special(Special::Begin, start_ticks, site, [task, given_id]);
    push_task(site, task, start_ticks, end_ticks);
}

/// Records a step of a task now.
pub(crate) fn push_step(task: u64, name: &str) {
    let site = zero_if_unregistered(name_id(name));
    if site == 0 {
        thread::count_drop();
    } else {
        thread::push_special(Special::Step, clock::ticks(), site, [task, 0]);
    }
}

/// Returns 0 in place of [`callsite::UNREGISTERED`], the id of names made inside vor.
fn zero_if_unregistered(site: u32) -> u32 {
    if site == callsite::UNREGISTERED {
        0
    } else {
        site
    }
}

/// Records the whole life of a task, on the thread on which it ended.
pub(crate) fn push_task(site: u32, id: u64, start_ticks: u64, end_ticks: u64) {
    let duration_ticks = elapsed_ticks(start_ticks, end_ticks);
    thread::push_special(Special::Async, start_ticks, site, [id, duration_ticks]);
}

/// Ids in a block. A thread takes a whole block, so it writes the shared counter below only once
/// per block.
const ID_BLOCK: u64 = 1 << 16;

/// The next block of ids. Incremented by any thread, relaxed: it orders nothing, and no block is
/// taken twice. Block 0 is never taken, so no id is 0.
static NEXT_BLOCK: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The next id of this thread. An id at the start of a block means that the thread takes a new
    /// block. Read and written by the thread and its signal handlers (relaxed).
    static NEXT_ID: AtomicU64 = const { AtomicU64::new(0) };
}

/// Returns an id that is unique among the tasks and flows of this process.
pub(crate) fn new_id() -> u64 {
    let new_block = || NEXT_BLOCK.fetch_add(1, Ordering::Relaxed) * ID_BLOCK;
    NEXT_ID.with(|next| {
        let known = next.load(Ordering::Relaxed);
        let is_used_up = known.is_multiple_of(ID_BLOCK);
        let id = if is_used_up { new_block() } else { known };
        match next.compare_exchange(known, id + 1, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => id,
            // A handler has taken an id in the meantime. The first id of a new block is still
            // unique.
            Err(_) if is_used_up => id,
            Err(_) => new_block(),
        }
    })
}
