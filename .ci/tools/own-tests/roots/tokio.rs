//! Tests of tokio.

#[path = "support/mod.rs"]
mod support;
#[path = "tokio/sync_barrier.rs"]
mod sync_barrier;
#[path = "tokio/sync_broadcast.rs"]
mod sync_broadcast;
#[path = "tokio/sync_broadcast_weak.rs"]
mod sync_broadcast_weak;
#[path = "tokio/sync_errors.rs"]
mod sync_errors;
#[path = "tokio/sync_mpsc.rs"]
mod sync_mpsc;
#[path = "tokio/sync_mpsc_weak.rs"]
mod sync_mpsc_weak;
#[path = "tokio/sync_mutex.rs"]
mod sync_mutex;
#[path = "tokio/sync_mutex_owned.rs"]
mod sync_mutex_owned;
#[path = "tokio/sync_notify.rs"]
mod sync_notify;
#[path = "tokio/sync_once_cell.rs"]
mod sync_once_cell;
#[path = "tokio/sync_oneshot.rs"]
mod sync_oneshot;
#[path = "tokio/sync_panic.rs"]
mod sync_panic;
#[path = "tokio/sync_rwlock.rs"]
mod sync_rwlock;
#[path = "tokio/sync_semaphore.rs"]
mod sync_semaphore;
#[path = "tokio/sync_semaphore_owned.rs"]
mod sync_semaphore_owned;
#[path = "tokio/sync_watch.rs"]
mod sync_watch;

/// The types of vor under the names of `tokio::sync`.
mod of_vor {
    pub use vor::sync::tokio::*;
}
