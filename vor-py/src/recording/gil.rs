//! `gil_wait_ms`: how long a thread that wakes up waits for the interpreter's lock.
//!
//! A thread sleeps for an interval without the lock, and measures how long it takes to get the lock
//! back. That is what each thread of the program pays that returns from I/O, from a sleep or from a
//! wait. Each mark reads the mean since the last mark.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use vor_recorder::metrics::{Gauge, GaugeRegistration, register};

/// The measurements since the last mark. Relaxed: a mark that comes between the two additions of a
/// measurement moves it to the next frame in part.
#[derive(Default)]
struct Waits {
    sum_ns: AtomicU64,
    count: AtomicU64,
    /// The bits of the last mean in milliseconds, which a frame without a measurement repeats.
    last_ms: AtomicU64,
}

impl Waits {
    fn add(&self, wait: Duration) {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(wait_ns, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Gauge for Waits {
    fn name(&self) -> String {
        "gil_wait_ms".to_owned()
    }

    fn unit(&self) -> &'static str {
        "ms"
    }

    fn read(&self) -> f64 {
        let count = self.count.swap(0, Ordering::Relaxed);
        let sum_ns = self.sum_ns.swap(0, Ordering::Relaxed);
        if count == 0 {
            return f64::from_bits(self.last_ms.load(Ordering::Relaxed));
        }
        let mean_ms = sum_ns as f64 / count as f64 / 1e6;
        self.last_ms.store(mean_ms.to_bits(), Ordering::Relaxed);
        mean_ms
    }
}

/// The thread that measures, and its metric.
struct Sampler {
    is_done: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    _waits: Arc<Waits>,
    _registration: GaugeRegistration,
}

/// The thread that measures now. Locked only by threads that have the interpreter's lock, and never
/// while they wait for it.
static SAMPLER: Mutex<Option<Sampler>> = Mutex::new(None);

fn replace(sampler: Option<Sampler>) -> Option<Sampler> {
    let mut current = SAMPLER.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut current, sampler)
}

/// Starts to measure at an interval, and ends an earlier measurement.
pub(super) fn start(py: Python<'_>, interval: Duration) -> PyResult<()> {
    stop(py);
    let waits = Arc::new(Waits::default());
    let is_done = Arc::new(AtomicBool::new(false));
    let (of_thread, done) = (Arc::clone(&waits), Arc::clone(&is_done));
    let thread = thread::Builder::new()
        .name("vor-gil".into())
        .spawn(move || measure(interval, &of_thread, &done))
        .map_err(|error| PyOSError::new_err(format!("record_gil_wait: no thread: {error}")))?;
    let gauge: Weak<Waits> = Arc::downgrade(&waits);
    replace(Some(Sampler {
        is_done,
        thread,
        _waits: waits,
        _registration: register(gauge),
    }));
    Ok(())
}

/// Ends the measurement, and waits for its thread. An interpreter that shuts down must not find it.
pub(super) fn stop(py: Python<'_>) {
    if let Some(sampler) = replace(None) {
        sampler.is_done.store(true, Ordering::Relaxed);
        sampler.thread.thread().unpark();
        // The thread attaches to the interpreter once more.
        py.detach(|| {
            let _ = sampler.thread.join();
        });
    }
}

/// Forgets the thread, which the child of a fork does not have. Returns whether there was one.
pub(super) fn forget() -> bool {
    let Some(Sampler { thread, .. }) = replace(None) else {
        return false;
    };
    // Dropping it would detach a thread of the parent.
    std::mem::forget(thread);
    true
}

fn measure(interval: Duration, waits: &Waits, is_done: &AtomicBool) {
    Python::attach(|py| {
        while !is_done.load(Ordering::Relaxed) {
            let slept = py.detach(|| {
                let begin = Instant::now();
                thread::park_timeout(interval);
                let woken = Instant::now();
                (woken - begin >= interval).then_some(woken)
            });
            // The end of the measurement wakes the thread early.
            if let Some(woken) = slept {
                waits.add(woken.elapsed());
            }
        }
    });
}
