//! Tokio: named tasks with the delay of each poll, and a runtime's numbers as metrics.
//!
//! A named future passes its own waker on, which stores when it was woken. The next poll takes that
//! time: its delay is how long the task was ready and no worker had polled it. The runtime keeps
//! its numbers itself, and each mark reads them.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};

use ::tokio::runtime::{Handle, RuntimeMetrics};
use pin_project_lite::pin_project;

use crate::clock;
use crate::hot::args::{Arg as _, FLOAT};
use crate::hot::future::Task;
use crate::hot::named_site::Shape;
use crate::hot::record_state;
use crate::hot::scope::{NameIds, Scope, cached_id, name_id, open_registered};
use crate::metrics::{self, Gauge, GaugeRegistration, Histogram};
use crate::sync::global::AtomicU64;
use crate::sync::{Ordering, lock};

/// The delays of all polls.
static POLL_DELAY: Histogram = Histogram::new("poll_delay", "us");

/// Names a future: each poll is a scope with the argument `delay_us`, and the whole life is a task.
///
/// The delay of a poll is the time since the task was woken, in microseconds; of the first poll, it
/// is the time since this call. It is long if all workers are busy, or blocked by a task that does
/// not yield. A poll that nothing woke, as by `select!` beside another branch, has no delay. The
/// rows `poll_delay.p50`, `.p99` and `.max` of each frame are the delays of all named futures.
///
/// It works with any executor. A future that is created while recording is off, or polled then, has
/// no delay for its next poll.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod tokio { pub use vor_recorder::bridges::tokio::named; } }
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let answer = tokio::spawn(vor::tokio::named("answer", async { 6 * 7 }));
/// assert_eq!(answer.await?, 42);
/// # Ok::<(), tokio::task::JoinError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn named<F: Future>(name: &str, future: F) -> Named<F> {
    let is_recorded = !cfg!(feature = "off") && record_state::is_on();
    let sites = Sites::of(name);
    Named {
        inner: future,
        polled: Polled {
            task: Task::of_name_id(sites.plain),
            sites,
            created_ticks: if is_recorded { clock::ticks() } else { 0 },
            wakes: None,
        },
    }
}

pin_project! {
    /// A future whose polls are scopes with their delay, made by [`named`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Named<F> {
        #[pin]
        inner: F,
        // Dropped after the inner future: dropping its values is part of the task's time.
        polled: Polled,
    }
}

impl<F> fmt::Debug for Named<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Named").finish_non_exhaustive()
    }
}

impl<F: Future> Future for Named<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if cfg!(feature = "off") || !record_state::is_on() {
            // The task still ends with the future, if it has begun.
            this.polled.created_ticks = 0;
            return this.polled.task.poll(|| this.inner.poll(context));
        }
        let inner = this.inner;
        this.polled.poll(context, |context| inner.poll(context))
    }
}

/// The scopes of all polls of one name.
#[derive(Clone, Copy, Debug)]
struct Sites {
    plain: u32,
    with_delay: u32,
}

thread_local! {
    /// Ids of the names of scopes with a delay.
    static WITH_DELAY: RefCell<NameIds> = const { RefCell::new(NameIds::new()) };
}

impl Sites {
    fn of(name: &str) -> Self {
        const SHAPE: Shape = Shape {
            prefix: "",
            suffix: "",
            category: "tokio",
            arg_names: &["delay_us"],
            kinds: FLOAT,
        };
        Self {
            plain: name_id(name),
            with_delay: cached_id(&WITH_DELAY, name, |measures| {
                SHAPE.register(name, ("", 0), measures)
            }),
        }
    }
}

/// The state of a future between two polls.
struct Polled {
    task: Task,
    sites: Sites,
    /// When the future was named; 0 after the first poll.
    created_ticks: u64,
    /// From the first recorded poll on. The waker stays the same, so that futures which compare
    /// their wakers keep theirs.
    wakes: Option<(Arc<Wakes>, Waker)>,
}

impl Polled {
    fn poll<T>(
        &mut self,
        context: &Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let (wakes, waker) = self.wakes.get_or_insert_with(|| {
            let wakes = Arc::new(Wakes::default());
            (Arc::clone(&wakes), Waker::from(wakes))
        });
        let created_ticks = std::mem::take(&mut self.created_ticks);
        let woken_ticks = wakes.take(context.waker()).max(created_ticks);
        let poll = |_| poll(&mut Context::from_waker(waker));
        if woken_ticks == 0 {
            let scope = open_registered(self.sites.plain, []);
            return self.task.poll_in(scope, poll, |scope, _| scope.close());
        }
        let delay_ns = clock::approximate_ns(clock::ticks().saturating_sub(woken_ticks));
        POLL_DELAY.record(delay_ns / 1000);
        let delay = (delay_ns as f64 / 1e3).encode().word;
        let scope: Scope<1> = open_registered(self.sites.with_delay, [delay]);
        self.task.poll_in(scope, poll, |scope, _| scope.close())
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        // A waker may outlive the future, and must not keep the executor's task.
        if let Some((wakes, _)) = &self.wakes {
            let waker = lock(&wakes.waker).take();
            // Not under the lock: the last waker of a task drops the task.
            drop(waker);
        }
    }
}

/// The state of a waker, which stores the time and wakes the executor's task.
#[derive(Default)]
struct Wakes {
    /// When the task was first woken since the last poll began; 0 if it was not. Written before the
    /// executor's waker is called, which orders it before the next poll; relaxed.
    woken_ticks: AtomicU64,
    /// The waker of the latest poll.
    waker: Mutex<Option<Waker>>,
}

impl Wakes {
    /// Begins a poll: takes the time of the wake, and keeps the executor's waker.
    fn take(&self, waker: &Waker) -> u64 {
        let mut kept = lock(&self.waker);
        let is_kept = kept.as_ref().is_some_and(|kept| kept.will_wake(waker));
        let old = (!is_kept).then(|| kept.replace(waker.clone()));
        drop(kept);
        drop(old);
        self.woken_ticks.swap(0, Ordering::Relaxed)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let (now, relaxed) = (clock::ticks(), Ordering::Relaxed);
        // A later wake before the poll changes nothing.
        let _ = self.woken_ticks.compare_exchange(0, now, relaxed, relaxed);
        let waker = lock(&self.waker).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Records the numbers of a runtime at each mark, until the returned guard is dropped. `name` is
/// the first part of the rows' names.
///
/// | row | unit | meaning |
/// |---|---|---|
/// | `tokio_workers` | | worker threads |
/// | `tokio_tasks` | | tasks that are alive |
/// | `tokio_global_queue` | | tasks that wait for any worker |
/// | `tokio_busy` | % | time for which workers ran, 100 for one worker |
/// | `tokio_worker0_busy`, … | % | the same of each worker |
///
/// The runtime counts a worker's time when the worker looks for work, so a long poll belongs to the
/// frame in which it ends. The rows `busy` need 64-bit atomics.
///
/// Programs that are built with `--cfg tokio_unstable` also have `tokio_blocking_threads`,
/// `tokio_blocking_queue` (calls that wait for such a thread) and `tokio_local_queues` (tasks that
/// wait for one worker).
///
/// # Examples
///
/// ```
/// # mod vor { pub mod tokio { pub use vor_recorder::bridges::tokio::watch; }
/// #     pub use vor_recorder::drain::frame_mark; }
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let _watch = vor::tokio::watch("tokio", runtime.handle());
/// vor::frame_mark(); // its metrics have the rows
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "the rows end when the guard is dropped"]
pub fn watch(name: &str, runtime: &Handle) -> Watch {
    let runtime = runtime.metrics();
    let workers = runtime.num_workers();
    let mut rows = Vec::new();
    let mut row = |suffix: String, unit, number| {
        let new = |row: &Weak<Row>| Row {
            name: format!("{name}_{suffix}"),
            unit,
            number,
            runtime: runtime.clone(),
            _registration: (!cfg!(feature = "off")).then(|| metrics::register(row.clone())),
        };
        rows.push(Arc::new_cyclic(new));
    };
    row("workers".into(), "", Number::Workers);
    row("tasks".into(), "", Number::Tasks);
    row("global_queue".into(), "", Number::GlobalQueue);
    #[cfg(target_has_atomic = "64")]
    {
        let mut busy = |suffix, workers: Range<usize>| {
            let busy = Busy::since_now(&runtime, workers);
            row(suffix, "%", Number::Busy(busy));
        };
        busy("busy".into(), 0..workers);
        for worker in 0..workers {
            busy(format!("worker{worker}_busy"), worker..worker + 1);
        }
    }
    #[cfg(tokio_unstable)]
    {
        row("blocking_threads".into(), "", Number::BlockingThreads);
        row("blocking_queue".into(), "", Number::BlockingQueue);
        row("local_queues".into(), "", Number::LocalQueues);
    }
    Watch { _rows: rows }
}

/// The rows of a runtime, made by [`watch`]. Dropping it ends them.
pub struct Watch {
    _rows: Vec<Arc<Row>>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// One number of a runtime.
struct Row {
    name: String,
    unit: &'static str,
    number: Number,
    runtime: RuntimeMetrics,
    _registration: Option<GaugeRegistration>,
}

enum Number {
    Workers,
    Tasks,
    GlobalQueue,
    #[cfg(target_has_atomic = "64")]
    Busy(Busy),
    #[cfg(tokio_unstable)]
    BlockingThreads,
    #[cfg(tokio_unstable)]
    BlockingQueue,
    #[cfg(tokio_unstable)]
    LocalQueues,
}

impl Gauge for Row {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn unit(&self) -> &'static str {
        self.unit
    }

    fn read(&self) -> f64 {
        let runtime = &self.runtime;
        match &self.number {
            Number::Workers => runtime.num_workers() as f64,
            Number::Tasks => runtime.num_alive_tasks() as f64,
            Number::GlobalQueue => runtime.global_queue_depth() as f64,
            #[cfg(target_has_atomic = "64")]
            Number::Busy(busy) => busy.read(runtime),
            #[cfg(tokio_unstable)]
            Number::BlockingThreads => runtime.num_blocking_threads() as f64,
            #[cfg(tokio_unstable)]
            Number::BlockingQueue => runtime.blocking_queue_depth() as f64,
            #[cfg(tokio_unstable)]
            Number::LocalQueues => (0..runtime.num_workers())
                .map(|worker| runtime.worker_local_queue_depth(worker) as f64)
                .sum(),
        }
    }
}

/// The busy time of some workers between two marks. One mark at a time reads it; relaxed.
#[cfg(target_has_atomic = "64")]
struct Busy {
    workers: Range<usize>,
    last_busy_ns: AtomicU64,
    last_ticks: AtomicU64,
}

#[cfg(target_has_atomic = "64")]
impl Busy {
    fn since_now(runtime: &RuntimeMetrics, workers: Range<usize>) -> Self {
        Self {
            last_busy_ns: AtomicU64::new(busy_ns(runtime, &workers)),
            last_ticks: AtomicU64::new(clock::ticks()),
            workers,
        }
    }

    /// Returns the busy time since the last call in percent of the time that has passed.
    fn read(&self, runtime: &RuntimeMetrics) -> f64 {
        let (busy_ns, ticks) = (busy_ns(runtime, &self.workers), clock::ticks());
        let last_busy_ns = self.last_busy_ns.swap(busy_ns, Ordering::Relaxed);
        let last_ticks = self.last_ticks.swap(ticks, Ordering::Relaxed);
        let passed_ns = clock::approximate_ns(ticks.saturating_sub(last_ticks)).max(1);
        100.0 * busy_ns.saturating_sub(last_busy_ns) as f64 / passed_ns as f64
    }
}

#[cfg(target_has_atomic = "64")]
fn busy_ns(runtime: &RuntimeMetrics, workers: &Range<usize>) -> u64 {
    let busy = |worker| runtime.worker_total_busy_duration(worker).as_nanos() as u64;
    workers.clone().map(busy).sum()
}
