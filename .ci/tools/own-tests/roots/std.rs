//! Tests of the standard library.

#![feature(mapped_lock_guards, mpmc_channel)]

#[path = "std/barrier.rs"]
mod barrier;
#[path = "std/condvar.rs"]
mod condvar;
#[path = "std/mpsc.rs"]
mod mpsc;
#[path = "std/mpsc_sync.rs"]
mod mpsc_sync;
#[path = "std/mutex.rs"]
mod mutex;
#[path = "std/once.rs"]
mod once;
#[path = "std/once_lock.rs"]
mod once_lock;
#[path = "std/rwlock.rs"]
mod rwlock;
#[path = "support/mod.rs"]
mod support;

/// The types of vor under the names of `std::sync`.
mod of_vor {
    pub use std::sync::{Arc, MappedMutexGuard, MappedRwLockReadGuard, MappedRwLockWriteGuard};

    pub use vor::sync::*;

    pub mod mpsc {
        pub use vor::sync::channel::*;
    }

    pub mod poison {
        pub use super::*;
    }
}

/// Numbers for tests that want random ones.
mod common {
    pub fn test_rng() -> rand_0_9::rngs::ThreadRng {
        rand_0_9::rng()
    }
}

fn result_unwrap<T, E: std::fmt::Debug>(result: Result<T, E>) -> T {
    result.unwrap()
}

/// Makes a test of locks that can be poisoned. The tests make one of others too.
macro_rules! nonpoison_and_poison_unwrap_test {
    (name: $name:ident, test_body: {$($test_body:tt)*}) => {
        #[test]
        fn $name() {
            #[allow(unused_imports, reason = "not every test unwraps")]
            use super::result_unwrap as maybe_unwrap;
            use crate::of_vor::poison as locks;

            $($test_body)*
        }
    }
}

use nonpoison_and_poison_unwrap_test;
