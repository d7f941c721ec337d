//! A semaphore of tokio that records the waits for its permits.
//!
//! A permit may be given back by another task than the one that took it, so a wait has no holder.

use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;

use ::tokio::sync;
pub use ::tokio::sync::{AcquireError, SemaphorePermit, TryAcquireError};

use super::waited::{Unheld, Waited, spend_budget};
use crate::hot::named_site::{NamedSite, ValueName};
use crate::locks::blocked::TO_GO_ON;

/// A semaphore with the interface of [`tokio::sync::Semaphore`] that records the
/// waits for its permits.
///
/// A future that finds too few permits while recording is on begins a task `wait: NAME`, which ends
/// when it is polled with its permits, or with the step `cancelled` when it is dropped.
///
/// The name is the one given to [`named`](Self::named), or else the place at which the semaphore
/// was made.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub mod tokio {
/// #     pub use vor_recorder::locks::tokio::semaphore::Semaphore;
/// # } } }
/// use vor::sync::tokio::Semaphore;
///
/// static UPLOADS: Semaphore = Semaphore::named("uploads", 2);
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let first = UPLOADS.acquire().await?;
/// let _second = UPLOADS.acquire().await?;
/// assert!(UPLOADS.try_acquire().is_err());
/// drop(first);
/// assert!(UPLOADS.try_acquire().is_ok());
/// # Ok::<(), tokio::sync::AcquireError>(())
/// # }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Semaphore {
    name: ValueName,
    site: NamedSite,
    inner: sync::Semaphore,
}

/// Permits of a [`Semaphore`] that keep it alive. Dropping them gives them back.
#[must_use = "if unused the permits are given back immediately"]
#[derive(Debug)]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
    permits: usize,
}

impl Semaphore {
    /// Most permits of a semaphore.
    pub const MAX_PERMITS: usize = sync::Semaphore::MAX_PERMITS;

    /// Makes a semaphore with a number of permits, whose name is the place of this call.
    ///
    /// # Panics
    ///
    /// Panics if `permits` is more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[must_use]
    #[track_caller]
    pub const fn new(permits: usize) -> Self {
        Self::with_name(ValueName::Place(Location::caller()), permits)
    }

    /// Does the same as [`new`](Self::new), and has the name of tokio's constant constructor.
    ///
    /// # Panics
    ///
    /// Panics if `permits` is more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[must_use]
    #[track_caller]
    pub const fn const_new(permits: usize) -> Self {
        Self::new(permits)
    }

    /// Makes a semaphore with a name and a number of permits.
    ///
    /// # Panics
    ///
    /// Panics if `permits` is more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[must_use]
    pub const fn named(name: &'static str, permits: usize) -> Self {
        Self::with_name(ValueName::Named(name), permits)
    }

    const fn with_name(name: ValueName, permits: usize) -> Self {
        Self {
            name,
            site: NamedSite::new(TO_GO_ON),
            inner: sync::Semaphore::const_new(permits),
        }
    }

    /// Takes a permit, and waits until there is one. Tasks get permits in the order in which they
    /// asked.
    ///
    /// # Errors
    ///
    /// Returns an error if the semaphore is closed.
    pub async fn acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        if let Ok(permit) = self.try_acquire() {
            spend_budget().await;
            return Ok(permit);
        }
        Waited::new(pin!(self.inner.acquire()), self.awaited()).await
    }

    /// Takes `permits` at once, and waits until there are so many.
    ///
    /// # Errors
    ///
    /// Returns an error if the semaphore is closed.
    pub async fn acquire_many(&self, permits: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        if let Ok(permits) = self.try_acquire_many(permits) {
            spend_budget().await;
            return Ok(permits);
        }
        let acquired = pin!(self.inner.acquire_many(permits));
        Waited::new(acquired, self.awaited()).await
    }

    fn awaited(&self) -> Unheld<'_> {
        Unheld {
            site: &self.site,
            name: self.name,
        }
    }

    /// Takes a permit if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none, or if the semaphore is closed.
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.inner.try_acquire()
    }

    /// Takes `permits` at once if there are so many.
    ///
    /// # Errors
    ///
    /// Returns an error if there are fewer, or if the semaphore is closed.
    pub fn try_acquire_many(&self, permits: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.inner.try_acquire_many(permits)
    }

    /// Takes a permit as [`acquire`](Self::acquire) does. It keeps the semaphore alive.
    ///
    /// # Errors
    ///
    /// Returns an error if the semaphore is closed.
    pub async fn acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many_owned(1).await
    }

    /// Takes permits as [`acquire_many`](Self::acquire_many) does. They keep the semaphore alive.
    ///
    /// # Errors
    ///
    /// Returns an error if the semaphore is closed.
    pub async fn acquire_many_owned(
        self: Arc<Self>,
        permits: u32,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many(permits).await?.forget();
        Ok(OwnedSemaphorePermit::new(self, permits as usize))
    }

    /// Takes a permit if there is one. It keeps the semaphore alive.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none, or if the semaphore is closed.
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// Takes `permits` at once if there are so many. They keep the semaphore alive.
    ///
    /// # Errors
    ///
    /// Returns an error if there are fewer, or if the semaphore is closed.
    pub fn try_acquire_many_owned(
        self: Arc<Self>,
        permits: u32,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many(permits)?.forget();
        Ok(OwnedSemaphorePermit::new(self, permits as usize))
    }

    /// Adds permits.
    ///
    /// # Panics
    ///
    /// Panics if there are more than [`MAX_PERMITS`](Self::MAX_PERMITS) then.
    pub fn add_permits(&self, permits: usize) {
        self.inner.add_permits(permits);
    }

    /// Removes up to `permits` that nobody holds, and returns how many.
    pub fn forget_permits(&self, permits: usize) -> usize {
        self.inner.forget_permits(permits)
    }

    /// Returns the number of permits that nobody holds.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        self.inner.available_permits()
    }

    /// Closes the semaphore: all that wait get an error, and so does everyone who asks later.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Returns whether the semaphore is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}

impl OwnedSemaphorePermit {
    fn new(semaphore: Arc<Semaphore>, permits: usize) -> Self {
        Self { semaphore, permits }
    }

    /// Keeps the permits for ever: the semaphore has fewer until
    /// [`add_permits`](Semaphore::add_permits).
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Adds the permits of another value of the same semaphore.
    ///
    /// # Panics
    ///
    /// Panics if they are of another semaphore.
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(
            Arc::ptr_eq(&self.semaphore, &other.semaphore),
            "merging permits from different semaphore instances"
        );
        self.permits += std::mem::take(&mut other.permits);
    }

    /// Moves `permits` into a value of their own, unless there are fewer.
    pub fn split(&mut self, permits: usize) -> Option<Self> {
        self.permits = self.permits.checked_sub(permits)?;
        Some(Self::new(Arc::clone(&self.semaphore), permits))
    }

    /// Returns the semaphore of the permits.
    #[must_use]
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }

    /// Returns the number of permits.
    #[must_use]
    pub fn num_permits(&self) -> usize {
        self.permits
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        self.semaphore.add_permits(self.permits);
    }
}
