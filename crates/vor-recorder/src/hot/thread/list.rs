//! The list of all threads: their states, and spare states of ended threads.

use std::sync::{Arc, PoisonError};

use vor_capture::model::catalog::{Catalog, ThreadInfo};
#[cfg(unix)]
use vor_capture::model::catalog::{SiteId, ThreadId};

use super::current;
use super::state_box::StateBox;
use crate::hot::shared;
use crate::sync::{Mutex, MutexGuard, statics};

/// The states of all threads.
pub(crate) struct Threads {
    pub(super) live: Vec<Arc<StateBox>>,
    /// States of threads that were added since the worker's last pass, each with the number of
    /// records that its ring had dropped for earlier threads.
    added: Vec<(Arc<StateBox>, u64)>,
    /// Empty states for the next threads.
    spare: Vec<Arc<StateBox>>,
    pub(super) infos: Vec<Arc<ThreadInfo>>,
    ring_slots: usize,
}

/// Most spare states. Further ones are freed. When this many threads have ended, the worker is
/// woken to reclaim their states.
pub(super) const MAX_SPARE: usize = 32;

statics! {
    static THREADS: Mutex<Threads> = Mutex::new(Threads {
        live: Vec::new(),
        added: Vec::new(),
        spare: Vec::new(),
        infos: Vec::new(),
        ring_slots: if cfg!(loom) { 8 } else { 1 << 16 },
    });
}

pub(super) fn threads() -> MutexGuard<'static, Threads> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `mutex` without waiting in its queue. Tries a few times, and returns `None` if another
/// thread holds it during all of them.
#[cfg(unix)]
pub(crate) fn try_lock<T>(
    mutex: &'static Mutex<T>,
    tries: u32,
    pause: std::time::Duration,
) -> Option<MutexGuard<'static, T>> {
    for _ in 0..tries {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => std::thread::sleep(pause),
        }
    }
    None
}

/// Calls `each` for every thread with open scopes, with its number, its description and the scopes.
/// Used in a process that crashes: allocates nothing if `open` has room for
/// [`MAX_OPEN`](super::MAX_OPEN) scopes. Returns `false` if another thread holds the list during
/// all tries.
#[cfg(unix)]
pub(crate) fn try_each_open(
    tries: u32,
    pause: std::time::Duration,
    open: &mut Vec<(SiteId, u64)>,
    mut each: impl FnMut(ThreadId, Option<&ThreadInfo>, &[(SiteId, u64)]),
) -> bool {
    let Some(threads) = try_lock(&THREADS, tries, pause) else {
        return false;
    };
    for state in threads.live.iter().filter(|state| !state.has_exited()) {
        state.read_open(open);
        if !open.is_empty() {
            let info = threads.infos.get(state.id().0 as usize);
            each(state.id(), info.map(|info| &**info), open);
        }
    }
    true
}

/// Returns the name of this thread, empty if it has none. `None` inside vor, and while the thread
/// has no state.
pub(crate) fn own_name() -> Option<String> {
    let number = current::current()?.id().0;
    current::while_busy(|| {
        let info = threads().infos.get(number as usize).cloned();
        info.map(|info| info.name.clone())
    })
}

/// Locks the list of threads for the duration of a fork.
#[cfg(unix)]
pub(crate) fn lock_for_fork() -> impl std::any::Any {
    threads()
}

/// Returns whether the locks of this module and of `counted` are free. Used at the end of a
/// process.
#[cfg(any(unix, windows))]
pub(crate) fn is_open() -> bool {
    crate::os::detach::is_open(THREADS.try_lock()) && super::counted::is_open()
}

impl Threads {
    pub(super) fn take_state(&mut self, number: u32) -> Arc<StateBox> {
        let spare = self.spare.pop();
        let state = spare.unwrap_or_else(|| {
            let state = shared::new_state(self.ring_slots);
            Arc::new(state.unwrap_or_else(|| StateBox::new(self.ring_slots)))
        });
        state.assign(number);
        shared::declare_owner(&state, number);
        self.live.push(Arc::clone(&state));
        self.added.push((Arc::clone(&state), state.ring.dropped()));
        state
    }

    pub(super) fn add_info(&mut self, info: ThreadInfo) -> u32 {
        let number = u32::try_from(self.infos.len()).unwrap_or(u32::MAX);
        let info = Arc::new(info);
        shared::declare_thread(number, &info);
        self.infos.push(info);
        number
    }

    /// Returns all threads so far, by number.
    pub(crate) fn infos(&self) -> &[Arc<ThreadInfo>] {
        &self.infos
    }
}

/// Locks the list of threads.
pub(crate) fn lock_list() -> MutexGuard<'static, Threads> {
    threads()
}

/// Frees the states for the next threads, which then get new ones.
pub(crate) fn take_spare() {
    threads().spare.clear();
}

/// Sets the capacity of the rings of new threads, in slots.
pub(crate) fn set_ring_slots(slots: usize) {
    let mut threads = threads();
    threads.ring_slots = slots;
    threads.spare.clear();
}

/// Returns the states of threads that were added since the last call, each with the number of
/// records that its ring had dropped before.
pub(crate) fn take_added() -> Vec<(Arc<StateBox>, u64)> {
    current::reset_ended_count();
    std::mem::take(&mut threads().added)
}

/// Adds the missing threads to a catalog.
pub(crate) fn declare_new(catalog: &mut Arc<Catalog>) {
    let threads = threads();
    let new = threads.infos.get(catalog.threads.len()..).unwrap_or(&[]);
    if !new.is_empty() {
        let known = &mut Arc::make_mut(catalog).threads;
        Arc::make_mut(known).extend(new.iter().cloned().map(Some));
    }
}

/// Reclaims the state of a thread that has ended and whose ring is empty.
pub(crate) fn reclaim(state: &Arc<StateBox>) {
    let mut threads = threads();
    threads.live.retain(|live| !Arc::ptr_eq(live, state));
    // One in a file stays in it, and keeps its last records until another thread needs it.
    let is_in_file = state.ring_number().is_some();
    if (threads.spare.len() < MAX_SPARE || is_in_file)
        && state.ring.capacity() as usize == threads.ring_slots.next_power_of_two()
    {
        threads.spare.push(Arc::clone(state));
    }
}

/// Removes every thread from the list. Used in the child of a fork, in which none of them runs.
#[cfg(unix)]
pub(crate) fn forget_all() {
    let mut threads = threads();
    for state in threads.live.drain(..) {
        // The forking thread may still hold guards that point here, so the memory is not freed.
        std::mem::forget(state);
    }
    threads.added.clear();
    threads.spare.clear();
    threads.infos.clear();
}

#[cfg(all(test, not(any(feature = "off", loom)), not(target_family = "wasm")))]
mod tests {
    #![allow(
        clippy::expect_used,
        clippy::unwrap_used,
        reason = "a test fails by panicking"
    )]

    use vor_fixtures::own_process;

    use super::*;
    use crate::drain;
    use crate::profile_scope;
    use crate::setup::Config;

    /// Records on a thread that ends, and returns its state.
    fn state_of_a_thread() -> Arc<StateBox> {
        let record = || {
            {
                profile_scope!("on a thread");
            }
            let own = current::current().map(std::ptr::from_ref);
            let threads = threads();
            let mut live = threads.live.iter();
            let state = live.find(|state| Some(state.as_ptr()) == own);
            state.map(Arc::clone)
        };
        let state = std::thread::spawn(record).join().unwrap();
        state.expect("a thread that records has a state")
    }

    /// The test holds every state, so no other one can have its address.
    #[test]
    fn the_states_of_ended_threads_are_reused() {
        own_process!();
        const THREADS: usize = 500;
        // The worker would be an owner of states.
        Config::new().inline_drain(true).enable();
        let mut states: Vec<Arc<StateBox>> = Vec::new();
        for number in 0..THREADS {
            let state = state_of_a_thread();
            assert_eq!(state.id().0, number as u32, "each thread has its number");
            if !states.iter().any(|known| Arc::ptr_eq(known, &state)) {
                states.push(state);
            }
            if number % 4 == 3 {
                drain::flush();
            }
        }
        assert_eq!(states.len(), 4, "as many as end between two passes");
        // Not under the lock: a panic flushes, which takes it.
        let lens = |threads: &Threads| {
            let infos = threads.infos.len();
            (threads.live.len(), threads.spare.len(), infos)
        };
        let lens = lens(&threads());
        assert_eq!(lens, (0, 4, THREADS));
    }
}
