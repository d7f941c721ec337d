//! The resource usage of a live thread, as other threads read it: now, and at the start of each of
//! its open scopes.
//!
//! The data is in thread-locals, which only the thread writes. Its state points there from the time
//! at which the thread gets the state until the thread ends. A reader holds the lock of the list of
//! threads while it follows a pointer. The thread holds the lock while it withdraws the pointers.

use std::sync::Arc;

#[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
use vor_capture::model::catalog::ThreadId;
use vor_capture::model::catalog::ThreadInfo;
use vor_capture::model::measures::{Measured, Measures};

use super::state::ThreadState;
use crate::allocations::{self, AllocCounts};
use crate::clock::cpu;
use crate::hot::scope::{Baseline, Baselines, own_baselines};
use crate::sync::Ordering;
use crate::sync::global::AtomicPtr;

/// Pointers into a thread's thread-locals, null if it shares none. Written by the thread under the
/// lock of the list of threads, read by others under that lock, all relaxed.
#[derive(Debug)]
pub(super) struct SharedView {
    baselines: AtomicPtr<Baselines>,
    cpu: AtomicPtr<cpu::Account>,
    allocated: AtomicPtr<allocations::Counters>,
}

impl SharedView {
    pub(super) const fn none() -> Self {
        Self {
            baselines: AtomicPtr::new(std::ptr::null_mut()),
            cpu: AtomicPtr::new(std::ptr::null_mut()),
            allocated: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Points to the calling thread's data. The caller holds the lock.
    pub(super) fn publish(&self) {
        self.baselines
            .store(own_baselines().cast_mut(), Ordering::Relaxed);
        self.cpu
            .store(cpu::own_account().cast_mut(), Ordering::Relaxed);
        self.allocated
            .store(allocations::own_counters().cast_mut(), Ordering::Relaxed);
    }

    /// Clears the pointers. The caller holds the lock, and the thread-locals are not freed yet.
    pub(super) fn withdraw(&self) {
        self.baselines
            .store(std::ptr::null_mut(), Ordering::Relaxed);
        self.cpu.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.allocated
            .store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Returns the baseline of the scope of a level. The caller holds the lock.
    pub(super) fn baseline(&self, depth: usize, start_ticks: u64) -> Option<Baseline> {
        follow(&self.baselines)?.read(depth, start_ticks)
    }
}

/// Follows a pointer of a view. The caller holds the lock of the list of threads, and does not keep
/// the reference after it releases the lock.
#[expect(unsafe_code, reason = "the view points into thread-locals")]
fn follow<T>(pointer: &AtomicPtr<T>) -> Option<&T> {
    // SAFETY: The pointer is null or points into a thread-local without a destructor, of a thread
    // that has not ended. A thread withdraws its view under the lock, which the caller holds, from
    // the destructor of another thread-local, so before its memory is freed. Everything behind the
    // pointer is atomic.
    unsafe { pointer.load(Ordering::Relaxed).as_ref() }
}

/// The resource usage of a thread up to a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// `None` if the thread never read it, or the system does not report it.
    off_cpu_ticks: Option<u64>,
    allocated: AllocCounts,
}

/// Returns the usage of each thread up to now.
#[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
pub(crate) fn usages() -> Vec<(ThreadId, Usage)> {
    super::while_busy(|| {
        let threads = super::list::threads();
        let live = threads.live.iter().filter(|state| !state.has_exited());
        live.map(|state| (state.id(), Usage::of(state, &threads.infos)))
            .collect()
    })
}

impl Usage {
    /// Returns the usage of a thread up to now. The caller holds the lock of the list of threads,
    /// which contains `infos`.
    pub(super) fn of(state: &ThreadState, infos: &[Arc<ThreadInfo>]) -> Self {
        let os_id = infos
            .get(state.id().0 as usize)
            .map_or(0, |info| info.os_id);
        Self {
            off_cpu_ticks: follow(&state.view.cpu).and_then(|account| account.off_cpu_ticks(os_id)),
            allocated: follow(&state.view.allocated)
                .map_or(AllocCounts::NONE, allocations::Counters::read),
        }
    }

    /// Returns the measures of an open scope of the thread that began with this baseline,
    /// `duration_ticks` ago. The split of its CPU time is known only at its end.
    pub(crate) fn since(&self, baseline: &Baseline, duration_ticks: u64) -> (Measures, Measured) {
        let mut measures = Measures::NONE;
        let mut measured = Measured::default();
        if let Some(now) = self
            .off_cpu_ticks
            .filter(|_| baseline.measures.has(Measures::CPU))
        {
            measures = measures.union(Measures::CPU);
            let off_ticks = cpu::off_of_span(baseline.off_cpu_ticks, now, duration_ticks);
            measured.off_cpu_ns = crate::clock::approximate_ns(off_ticks);
        }
        if baseline.measures.has(Measures::ALLOC) {
            measures = measures.union(Measures::ALLOC);
            let (now, then) = (self.allocated, baseline.allocated);
            measured.alloc_objects = now.alloc_objects.saturating_sub(then.alloc_objects);
            measured.alloc_bytes = now.alloc_bytes.saturating_sub(then.alloc_bytes);
            measured.free_objects = now.free_objects.saturating_sub(then.free_objects);
            measured.free_bytes = now.free_bytes.saturating_sub(then.free_bytes);
        }
        (measures, measured)
    }
}
