//! Named tasks of tokio, the delay of their polls, and the numbers of a runtime.

#![cfg(all(feature = "tokio", not(feature = "off")))]

use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use vor::tokio::{named, watch};
use vor_fixtures::own_process;

use crate::adapter_capture::Contents;
use crate::futures::{pause, poll};

/// How long a worker is blocked.
const BLOCKED: Duration = Duration::from_millis(60);

fn one_worker() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap()
}

fn record(path: &Path) {
    vor::Config::new().capture(path).enable();
}

/// Returns the delays of the polls with a name in milliseconds, `None` without one.
fn delays_ms(contents: &Contents, name: &str) -> Vec<Option<f64>> {
    let delay = |args: &String| {
        let us: f64 = args.strip_prefix("delay_us=")?.parse().unwrap();
        Some(us / 1e3)
    };
    contents.args_of(name).iter().map(delay).collect()
}

/// The waker of a task that waits, and whether it may go on.
#[derive(Default)]
struct Gate(Mutex<(Option<Waker>, bool)>);

impl Gate {
    async fn wait(&self) -> Instant {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.1 {
                return Poll::Ready(Instant::now());
            }
            state.0 = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn has_waiter(&self) -> bool {
        self.0.lock().unwrap().0.is_some()
    }

    fn open(&self) {
        let mut state = self.0.lock().unwrap();
        state.1 = true;
        state.0.take().unwrap().wake();
    }
}

#[test]
fn a_blocked_worker_delays_the_poll_of_a_task_that_is_ready() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    record(&path);
    let runtime = one_worker();
    let gate = Arc::new(Gate::default());
    let waits = Arc::clone(&gate);
    let waiting = runtime.spawn(named("waits", async move { waits.wait().await }));
    while !gate.has_waiter() {
        std::thread::yield_now();
    }
    // The task that blocks the only worker wakes the other one first, and makes a third.
    let blocks = Arc::clone(&gate);
    let blocking = runtime.spawn(named("blocks", async move {
        let before = Instant::now();
        blocks.open();
        let spawned = tokio::spawn(named("spawned", async {}));
        sleep(BLOCKED);
        (before, spawned)
    }));
    let (before, spawned) = runtime.block_on(blocking).unwrap();
    let polled = runtime.block_on(waiting).unwrap();
    runtime.block_on(spawned).unwrap();
    vor::frame_mark();
    vor::close_capture();

    let contents = Contents::read(&path);
    let delays = delays_ms(&contents, "waits");
    let [Some(_), Some(delay)] = delays[..] else {
        panic!("two polls with a delay: {delays:?}")
    };
    let blocked = BLOCKED.as_secs_f64() * 1e3;
    let longest = (polled - before).as_secs_f64() * 1e3;
    // The calibration of the clock has an error far below a thousandth.
    assert!(
        delay >= blocked * 0.999 && delay <= longest * 1.001,
        "{delay} {longest}"
    );
    let delays = delays_ms(&contents, "spawned");
    assert!(delays[0].unwrap() >= blocked * 0.999, "{delays:?}");
    // The task that blocked had nothing to wait for.
    let delays = delays_ms(&contents, "blocks");
    assert!(delays[0].unwrap() < blocked, "{delays:?}");
    let largest_us = contents.metric("poll_delay.max")[0].unwrap();
    assert!(largest_us / 1e3 >= delay * 0.99, "{largest_us}");
    let waits = contents.tasks.iter().find(|task| task.name == "waits");
    assert_eq!(contents.life_of(waits.unwrap()).1, 2);
}

#[test]
fn a_poll_that_nothing_woke_has_no_delay() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    record(&path);
    let mut future = pin!(named("by hand", pause(2)));
    while poll(future.as_mut()).is_pending() {}
    vor::close_capture();
    let delays = delays_ms(&Contents::read(&path), "by hand");
    assert!(matches!(delays[..], [Some(_), None, None]), "{delays:?}");
}

/// Counts its wakes.
struct Count(Mutex<u32>);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        *self.0.lock().unwrap() += 1;
    }
}

#[test]
fn a_wake_reaches_the_waker_of_the_latest_poll() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    record(&folder.path().join("run.vor"));
    let counts = [0; 2].map(|_| Arc::new(Count(Mutex::new(0))));
    let kept = Mutex::new(None);
    let mut future = Box::pin(named(
        "moves",
        poll_fn(|context| {
            *kept.lock().unwrap() = Some(context.waker().clone());
            Poll::<()>::Pending
        }),
    ));
    for count in &counts {
        let waker = Waker::from(Arc::clone(count));
        let _ = Pin::as_mut(&mut future).poll(&mut Context::from_waker(&waker));
    }
    let waker = kept.lock().unwrap().take().unwrap();
    waker.wake_by_ref();
    waker.wake_by_ref();
    let woken = || [0, 1].map(|i| *counts[i].0.lock().unwrap());
    assert_eq!(woken(), [0, 2]);
    // A waker that outlives the future does not keep the executor's.
    drop(future);
    waker.wake();
    assert_eq!(woken(), [0, 2]);
    assert_eq!(counts.map(|count| Arc::strong_count(&count)), [1, 1]);
}

#[test]
fn a_runtime_has_rows_until_its_guard_is_dropped() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    record(&path);
    let runtime = one_worker();
    let rows = watch("tokio", runtime.handle());
    let start = Instant::now();
    let _tasks: Vec<_> = (0..3)
        .map(|_| runtime.spawn(std::future::pending::<()>()))
        .collect();
    runtime
        .block_on(runtime.spawn(async { sleep(BLOCKED) }))
        .unwrap();
    // The runtime counts the time when the worker looks for work again.
    while runtime.metrics().worker_total_busy_duration(0) < BLOCKED {
        std::thread::yield_now();
    }
    vor::frame_mark();
    let longest = start.elapsed();
    vor::frame_mark();
    drop(rows);
    vor::frame_mark();
    vor::close_capture();

    let contents = Contents::read(&path);
    assert_eq!(
        contents.metric("tokio_workers"),
        [Some(1.0), Some(1.0), None]
    );
    assert_eq!(contents.metric("tokio_tasks"), [Some(3.0), Some(3.0), None]);
    assert_eq!(contents.metric("tokio_global_queue")[0], Some(0.0));
    let busy = contents.metric("tokio_busy");
    let least = 100.0 * BLOCKED.as_secs_f64() / longest.as_secs_f64();
    assert!(
        (least * 0.99..=101.0).contains(&busy[0].unwrap()),
        "{busy:?} {least}"
    );
    // It is the time since the mark before.
    assert!(busy[1].unwrap() < least, "{busy:?}");
    let alone = contents.metric("tokio_worker0_busy");
    assert!(
        (alone[0].unwrap() - busy[0].unwrap()).abs() < 5.0,
        "{alone:?} {busy:?}"
    );
}
