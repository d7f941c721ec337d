//! What a thread has used up, as other threads see it while it lives: now, and when each of its
//! open scopes began.
//!
//! All of it stands in thread-locals of the thread, which it alone writes. Its state leads there
//! from when the thread gets it until the thread ends, and whoever follows it holds the list of
//! threads meanwhile, as does the thread when it takes the way back.

use std::sync::Arc;

#[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
use vor_capture::model::catalog::ThreadId;
use vor_capture::model::catalog::ThreadInfo;
use vor_capture::model::measures::{Measured, Measures};

use super::state::ThreadState;
use crate::allocations::{self, AllocCounts};
use crate::clock::cpu;
use crate::hot::scope::{Noted, Notes, own_notes};
use crate::sync::Ordering;
use crate::sync::global::AtomicPtr;

/// Ways into a thread's thread-locals, null where the thread has none. Written by the thread under
/// the lock of the list of threads and read by others with it, relaxed.
#[derive(Debug)]
pub(super) struct Ways {
    notes: AtomicPtr<Notes>,
    cpu: AtomicPtr<cpu::Account>,
    allocated: AtomicPtr<allocations::Counters>,
}

impl Ways {
    pub(super) const fn none() -> Self {
        Self {
            notes: AtomicPtr::new(std::ptr::null_mut()),
            cpu: AtomicPtr::new(std::ptr::null_mut()),
            allocated: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Leads to the calling thread's. To be called with the lock.
    pub(super) fn open(&self) {
        self.notes.store(own_notes().cast_mut(), Ordering::Relaxed);
        self.cpu
            .store(cpu::own_account().cast_mut(), Ordering::Relaxed);
        self.allocated
            .store(allocations::own_counters().cast_mut(), Ordering::Relaxed);
    }

    /// Leads nowhere any more. To be called with the lock, before the thread's thread-locals go.
    pub(super) fn close(&self) {
        self.notes.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.cpu.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.allocated
            .store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Returns what was noted of the scope of a level. To be called with the lock.
    pub(super) fn noted(&self, depth: usize, start_ticks: u64) -> Option<Noted> {
        follow(&self.notes)?.read(depth, start_ticks)
    }
}

/// Follows a way. To be called with the lock of the list of threads, and the reference not to be
/// kept beyond it.
#[expect(unsafe_code, reason = "the ways lead into thread-locals")]
fn follow<T>(way: &AtomicPtr<T>) -> Option<&T> {
    // SAFETY: the way is null or leads into a thread-local without a destructor, of a thread that
    // has not ended: a thread closes its ways under the lock, which the caller holds, from the
    // destructor of another thread-local, so before the memory goes. All that is reached this way
    // is atomic.
    unsafe { way.load(Ordering::Relaxed).as_ref() }
}

/// What a thread has used up by a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    /// `None` where it never asked, or the system does not tell.
    off_cpu_ticks: Option<u64>,
    allocated: AllocCounts,
}

/// Returns what each thread has used up by now.
#[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
pub(crate) fn used() -> Vec<(ThreadId, Used)> {
    super::while_busy(|| {
        let threads = super::threads();
        let live = threads.live.iter().filter(|state| !state.has_exited());
        live.map(|state| (state.id(), Used::of(state, &threads.infos)))
            .collect()
    })
}

impl Used {
    /// Returns what a thread has used up by now. To be called with the lock of the list of threads,
    /// whose `infos` those are.
    pub(super) fn of(state: &ThreadState, infos: &[Arc<ThreadInfo>]) -> Self {
        let os_id = infos
            .get(state.id().0 as usize)
            .map_or(0, |info| info.os_id);
        Self {
            off_cpu_ticks: follow(&state.ways.cpu).and_then(|shown| shown.off_cpu_ticks(os_id)),
            allocated: follow(&state.ways.allocated)
                .map_or(AllocCounts::NONE, allocations::Counters::read),
        }
    }

    /// Returns what a scope of the thread has measured, of which this was noted when it began,
    /// `length_ticks` ago. How its processor time divides is only known at its end.
    pub(crate) fn since(&self, noted: &Noted, length_ticks: u64) -> (Measures, Measured) {
        let mut measures = Measures::NONE;
        let mut measured = Measured::default();
        if let Some(now) = self
            .off_cpu_ticks
            .filter(|_| noted.measures.has(Measures::CPU))
        {
            measures = measures.and(Measures::CPU);
            let off_ticks = cpu::off_of_span(noted.off_cpu_ticks, now, length_ticks);
            measured.off_cpu_ns = crate::clock::approximate_ns(off_ticks);
        }
        if noted.measures.has(Measures::ALLOC) {
            measures = measures.and(Measures::ALLOC);
            let (now, then) = (self.allocated, noted.allocated);
            measured.alloc_objects = now.alloc_objects.saturating_sub(then.alloc_objects);
            measured.alloc_bytes = now.alloc_bytes.saturating_sub(then.alloc_bytes);
            measured.free_objects = now.free_objects.saturating_sub(then.free_objects);
            measured.free_bytes = now.free_bytes.saturating_sub(then.free_bytes);
        }
        (measures, measured)
    }
}
