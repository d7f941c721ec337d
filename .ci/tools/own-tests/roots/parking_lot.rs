//! Tests of parking_lot.

#[path = "parking_lot/condvar.rs"]
mod condvar;
#[path = "parking_lot/fair_mutex.rs"]
mod fair_mutex;
#[path = "parking_lot/mutex.rs"]
mod mutex;
#[path = "parking_lot/once.rs"]
mod once;
#[path = "parking_lot/remutex.rs"]
mod remutex;
#[path = "parking_lot/rwlock.rs"]
mod rwlock;
#[path = "support/mod.rs"]
mod support;

/// The types of vor under the names of `parking_lot`.
mod of_vor {
    pub use vor::sync::parking_lot::*;
}
