//! A barrier of tokio that records the waits for the last task.

use std::fmt;
use std::panic::Location;
use std::pin::pin;

use ::tokio::sync;
pub use ::tokio::sync::BarrierWaitResult;

use super::waited::{Unheld, Waited};
use crate::hot::named_site::{NamedSite, ValueName};
use crate::locks::blocked::TO_GO_ON;

/// A barrier with the interface of [`tokio::sync::Barrier`] that records the waits for it.
///
/// A future that is not the last to come while recording is on begins a task `wait: NAME`, which
/// ends when it is polled after the last one has come, or with the step `cancelled` when it is
/// dropped.
///
/// The name is the one given to [`named`](Self::named), or else the place at which the barrier was
/// made.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub mod tokio {
/// #     pub use vor_recorder::locks::tokio::barrier::Barrier;
/// # } } }
/// use vor::sync::tokio::Barrier;
///
/// let loaded = std::sync::Arc::new(Barrier::named("loaded", 2));
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let of_task = std::sync::Arc::clone(&loaded);
/// let task = tokio::spawn(async move { of_task.wait().await.is_leader() });
/// let is_leader = loaded.wait().await.is_leader();
/// assert_ne!(is_leader, task.await.unwrap());
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Barrier {
    name: ValueName,
    site: NamedSite,
    inner: sync::Barrier,
}

impl Barrier {
    /// Makes a barrier for a number of tasks, whose name is the place of this call. A barrier for
    /// no task is one for a single task.
    #[must_use]
    #[track_caller]
    pub fn new(tasks: usize) -> Self {
        Self::with_name(ValueName::Place(Location::caller()), tasks)
    }

    /// Makes a barrier with a name for a number of tasks.
    #[must_use]
    #[track_caller]
    pub fn named(name: &'static str, tasks: usize) -> Self {
        Self::with_name(ValueName::Named(name), tasks)
    }

    #[track_caller]
    fn with_name(name: ValueName, tasks: usize) -> Self {
        Self {
            name,
            site: NamedSite::new(TO_GO_ON),
            inner: sync::Barrier::new(tasks),
        }
    }

    /// Waits until all tasks have come. The last one is the leader and does not wait. The barrier
    /// can then be used again. A future that is dropped after its first poll has come all the same.
    pub async fn wait(&self) -> BarrierWaitResult {
        let awaited = Unheld {
            site: &self.site,
            name: self.name,
        };
        Waited::new(pin!(self.inner.wait()), awaited).await
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").finish_non_exhaustive()
    }
}
