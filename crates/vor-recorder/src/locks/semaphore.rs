//! A counting semaphore that records the waits for its permits.
//!
//! The permits are a number under a lock of the standard library. A permit may be given back by
//! another thread than the one that took it, so a wait has no holder.

use std::fmt;
use std::panic::Location;
use std::sync::{self, PoisonError};
use std::time::Duration;

use super::blocked::{TO_GO_ON, begin_wait};
use crate::hot::named_site::{NamedSite, ValueName};
use crate::hot::scope::Scope;
use crate::sync::lock;

/// A number of permits that threads take and give back. The standard library has no semaphore.
///
/// A thread that finds no permit while recording is on opens a scope `wait: NAME` until it has one.
/// Threads get permits in no particular order.
///
/// The name is the one given to [`named`](Self::named), or else the place at which the semaphore
/// was made.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub use vor_recorder::locks::semaphore::Semaphore; } }
/// use vor::sync::Semaphore;
///
/// static UPLOADS: Semaphore = Semaphore::named("uploads", 2);
///
/// let first = UPLOADS.acquire();
/// let _second = UPLOADS.acquire();
/// assert!(UPLOADS.try_acquire().is_none());
/// drop(first);
/// assert!(UPLOADS.try_acquire().is_some());
/// ```
pub struct Semaphore {
    name: ValueName,
    site: NamedSite,
    state: sync::Mutex<State>,
    released: sync::Condvar,
}

#[derive(Debug)]
struct State {
    permits: usize,
    /// Threads that wait or have been woken and not run yet.
    waiting: usize,
}

/// A permit of a [`Semaphore`]. Dropping it, on any thread, gives the permit back.
#[must_use = "if unused the permit is given back immediately"]
#[derive(Debug)]
pub struct SemaphoreGuard<'a> {
    semaphore: &'a Semaphore,
}

impl Semaphore {
    /// Makes a semaphore with a number of permits, whose name is the place of this call.
    #[must_use]
    #[inline]
    #[track_caller]
    pub const fn new(permits: usize) -> Self {
        Self::with_name(ValueName::Place(Location::caller()), permits)
    }

    /// Makes a semaphore with a name and a number of permits.
    #[must_use]
    #[inline]
    pub const fn named(name: &'static str, permits: usize) -> Self {
        Self::with_name(ValueName::Named(name), permits)
    }

    const fn with_name(name: ValueName, permits: usize) -> Self {
        Self {
            name,
            site: NamedSite::new(TO_GO_ON),
            state: sync::Mutex::new(State {
                permits,
                waiting: 0,
            }),
            released: sync::Condvar::new(),
        }
    }

    /// Takes a permit, and waits until there is one.
    pub fn acquire(&self) -> SemaphoreGuard<'_> {
        let mut state = lock(&self.state);
        let mut scope = Scope::off();
        if state.permits == 0 {
            scope = begin_wait(&self.site, self.name);
            state.waiting += 1;
            let waited = self.released.wait_while(state, |state| state.permits == 0);
            state = waited.unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state.permits -= 1;
        // Other threads need the lock.
        drop(state);
        drop(scope);
        SemaphoreGuard { semaphore: self }
    }

    /// Takes a permit if there is one.
    pub fn try_acquire(&self) -> Option<SemaphoreGuard<'_>> {
        let mut state = lock(&self.state);
        state.permits = state.permits.checked_sub(1)?;
        Some(SemaphoreGuard { semaphore: self })
    }

    /// Takes a permit, and waits until there is one, but no longer than about `timeout`.
    pub fn acquire_timeout(&self, timeout: Duration) -> Option<SemaphoreGuard<'_>> {
        let mut state = lock(&self.state);
        // A thread that finds no permit and has no time does not wait.
        let mut scope = Scope::off();
        if state.permits == 0 && !timeout.is_zero() {
            scope = begin_wait(&self.site, self.name);
            state.waiting += 1;
            let is_empty = |state: &mut State| state.permits == 0;
            let waited = (self.released).wait_timeout_while(state, timeout, is_empty);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        let taken = state.permits.checked_sub(1);
        state.permits = taken.unwrap_or(0);
        // Other threads need the lock.
        drop(state);
        drop(scope);
        taken.map(|_| SemaphoreGuard { semaphore: self })
    }

    /// Adds permits, for example those of guards that were [forgotten](SemaphoreGuard::forget).
    /// There are never more than [`usize::MAX`].
    pub fn release(&self, permits: usize) {
        let mut state = lock(&self.state);
        state.permits = state.permits.saturating_add(permits);
        let waiting = state.waiting;
        drop(state);
        match permits {
            _ if waiting == 0 => {}
            0 => {}
            1 => self.released.notify_one(),
            _ => self.released.notify_all(),
        }
    }

    /// Returns the number of permits that nobody holds. Other threads may change it at any time.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        lock(&self.state).permits
    }
}

impl SemaphoreGuard<'_> {
    /// Keeps the permit for ever: the semaphore has one less until [`Semaphore::release`] adds one.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for SemaphoreGuard<'_> {
    fn drop(&mut self) {
        self.semaphore.release(1);
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let permits = self.available_permits();
        let mut semaphore = f.debug_struct("Semaphore");
        semaphore.field("permits", &permits).finish_non_exhaustive()
    }
}
