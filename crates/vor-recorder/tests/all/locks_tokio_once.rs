//! The waits that a barrier, a cell and a timed send of tokio record, and that they behave as
//! tokio's own.

#![cfg(not(feature = "off"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Builder;
use vor_capture::model::batch::FlowStage;
use vor_fixtures::own_process;
use vor_recorder::hot::scope::scope;
use vor_recorder::locks::tokio::barrier::Barrier;
use vor_recorder::locks::tokio::mpsc::{self, error::SendTimeoutError};
use vor_recorder::locks::tokio::mutex::Mutex;
use vor_recorder::locks::tokio::once_cell::OnceCell;
use vor_recorder::locks::tokio::rwlock::{RwLock, RwLockWriteGuard};
use vor_recorder::locks::tokio::semaphore::Semaphore;
use vor_recorder::setup::Config;

use crate::locks_support::{read, start};
use crate::locks_tokio::{pending, poll, ready, waits};

#[test]
fn a_barrier_records_the_waits_for_the_last_task() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let barrier = Barrier::named("loaded", 3);
    for round in 0..2 {
        let (mut first, mut second) = (Box::pin(barrier.wait()), Box::pin(barrier.wait()));
        pending(first.as_mut());
        pending(second.as_mut());
        assert!(ready(pin!(barrier.wait())).is_leader(), "in round {round}");
        assert!(!ready(first.as_mut()).is_leader());
        assert!(!ready(second.as_mut()).is_leader());
    }
    // The last one to come does not wait, nor does a single one.
    assert!(ready(pin!(Barrier::named("alone", 1).wait())).is_leader());
    assert!(ready(pin!(Barrier::named("alone", 0).wait())).is_leader());
    assert_eq!(waits(&read(&path)), ["wait: loaded"; 4]);
}

/// tokio's own barrier counts a future that is dropped, and so does ours.
#[test]
fn a_future_of_a_barrier_that_is_dropped_has_come() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let (theirs, ours) = (tokio::sync::Barrier::new(2), Barrier::named("left", 2));
    let mut dropped = (Box::pin(theirs.wait()), Box::pin(ours.wait()));
    pending(dropped.0.as_mut());
    pending(dropped.1.as_mut());
    drop(dropped);
    let leaders = [
        ready(pin!(theirs.wait())).is_leader(),
        ready(pin!(ours.wait())).is_leader(),
    ];
    assert_eq!(leaders, [true; 2]);
    assert_eq!(waits(&read(&path)), ["wait: left, cancelled"]);
}

#[test]
fn a_wait_for_a_cell_names_the_scope_that_initialises_it() {
    own_process!();
    let (_folder, path) = start(Config::new());
    static LIMIT: OnceCell<u32> = OnceCell::named("limit");
    let (go_on, went_on) = tokio::sync::oneshot::channel();
    let runs = &AtomicUsize::new(0);
    let mut first = Box::pin(LIMIT.get_or_init(|| async {
        runs.fetch_add(1, Ordering::Relaxed);
        went_on.await.unwrap()
    }));
    {
        let _scope = scope("connect");
        pending(first.as_mut());
    }
    // Its own pending polls are no waits for the cell.
    pending(first.as_mut());
    let other = || async {
        runs.fetch_add(1, Ordering::Relaxed);
        8
    };
    let mut second = Box::pin(LIMIT.get_or_init(other));
    let mut third = Box::pin(LIMIT.get_or_init(other));
    pending(second.as_mut());
    pending(third.as_mut());
    pending(second.as_mut());
    drop(third);
    assert!(LIMIT.set(1).is_err_and(|error| error.is_initializing_err()));
    assert!(LIMIT.get().is_none() && !LIMIT.initialized());
    go_on.send(7).unwrap();
    assert_eq!(*ready(first.as_mut()), 7);
    assert_eq!(*ready(second.as_mut()), 7);
    assert_eq!(*ready(pin!(LIMIT.get_or_init(other))), 7);
    assert!(LIMIT.set(1).is_err_and(|error| error.is_already_init_err()));
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let recording = read(&path);
    assert_eq!(
        waits(&recording),
        [
            "wait: limit, holder_scope: connect",
            "wait: limit, holder_scope: connect, cancelled"
        ]
    );
    // An arrow points from the end of the initialisation to the wait that it ended.
    let points: Vec<_> = recording.flows.values().flatten().collect();
    let stages: Vec<_> = points.iter().map(|(_, point)| point.stage).collect();
    assert_eq!(stages, [FlowStage::Begin, FlowStage::End], "{points:?}");
}

#[test]
fn another_task_takes_the_place_of_one_that_fails_to_initialise() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let cell = OnceCell::<u32>::named("address");
    let (go_on, went_on) = tokio::sync::oneshot::channel::<()>();
    let mut fails = Box::pin(cell.get_or_try_init(|| async {
        went_on.await.unwrap();
        Err::<u32, _>("not found")
    }));
    pending(fails.as_mut());
    let (done, is_done) = tokio::sync::oneshot::channel();
    let mut next =
        Box::pin(cell.get_or_try_init(|| async { Ok::<_, &str>(is_done.await.unwrap()) }));
    pending(next.as_mut());
    go_on.send(()).unwrap();
    assert_eq!(ready(fails.as_mut()), Err("not found"));
    assert!(cell.get().is_none());
    // From here on it initialises the cell, and does not wait for it.
    pending(next.as_mut());
    let waited = waits(&read(&path));
    assert_eq!(waited, ["wait: address, holder: unknown"]);
    done.send(5).unwrap();
    assert_eq!(ready(next.as_mut()), Ok(&5));
    // One that is dropped leaves the cell to others too.
    let cell = OnceCell::<u32>::new();
    let mut dropped = Box::pin(cell.get_or_init(std::future::pending));
    pending(dropped.as_mut());
    drop(dropped);
    assert_eq!(*ready(pin!(cell.get_or_init(|| async { 3 }))), 3);
}

#[test]
fn a_cell_has_the_constructors_and_traits_of_tokios() {
    static MADE: OnceCell<u32> = OnceCell::const_new_with(4);
    static EMPTY: OnceCell<u32> = OnceCell::const_new();
    assert_eq!((MADE.get(), EMPTY.get()), (Some(&4), None));
    let mut cell = OnceCell::new_with(Some(4));
    assert!(cell == MADE.clone() && cell != OnceCell::default() && cell == OnceCell::from(4));
    *cell.get_mut().unwrap() += 1;
    assert_eq!(
        format!("{cell:?}"),
        format!("{:?}", tokio::sync::OnceCell::new_with(Some(5)))
    );
    assert_eq!((cell.take(), cell.take()), (Some(5), None));
    assert_eq!((cell.set(6), cell.into_inner()), (Ok(()), Some(6)));
}

#[test]
fn a_timed_send_waits_no_longer_than_its_time() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let (sender, mut receiver) = mpsc::named("timed", 1);
    let sender = Arc::new(sender);
    runtime.block_on(async {
        let (short, long) = (Duration::from_millis(5), Duration::from_mins(1));
        assert_eq!(sender.send_timeout(1, short).await, Ok(()));
        let full = sender.send_timeout(2, short).await;
        assert_eq!(full, Err(SendTimeoutError::Timeout(2)));
        let waiting = tokio::spawn({
            let sender = Arc::clone(&sender);
            async move { sender.send_timeout(3, long).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(receiver.recv().await, Some(1));
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert_eq!(receiver.recv().await, Some(3));
        receiver.close();
        let closed = sender.send_timeout(4, long).await;
        assert_eq!(closed, Err(SendTimeoutError::Closed(4)));
    });
    let waits = waits(&read(&path));
    assert_eq!(
        waits,
        ["wait: timed to send, cancelled", "wait: timed to send"]
    );
}

/// A free lock is taken before the budget is asked, and given back if the future is dropped.
#[test]
fn a_future_that_is_dropped_for_want_of_budget_has_taken_nothing() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mutex, lock) = (Mutex::new(0), RwLock::new(0));
        let permits = Semaphore::new(1);
        let (sender, mut receiver) = mpsc::channel(1);
        while tokio::task::coop::has_budget_remaining() {
            let _ = poll(pin!(tokio::task::coop::consume_budget()));
        }
        for _ in 0..2 {
            pending(pin!(mutex.lock()));
            pending(pin!(lock.read()));
            pending(pin!(lock.write()));
            pending(pin!(permits.acquire()));
            pending(pin!(permits.acquire_many(1)));
            pending(pin!(sender.reserve()));
            pending(pin!(sender.send(1)));
            pending(pin!(receiver.recv()));
            assert!(mutex.try_lock().is_ok() && lock.try_write().is_ok());
            assert_eq!((permits.available_permits(), sender.capacity()), (1, 1));
            assert!(receiver.try_recv().is_err());
        }
    });
    assert!(read(&path).tasks.is_empty());
}

#[test]
fn a_writer_reads_on_only_if_there_is_such_a_part() {
    let lock = RwLock::new((1, Some(2)));
    let guard = ready(pin!(lock.write()));
    let Err(mut guard) = RwLockWriteGuard::try_downgrade_map(guard, |_| None::<&u32>) else {
        panic!("there is no such part");
    };
    // It still writes alone.
    assert!(lock.try_read().is_err());
    guard.0 += 1;
    let part = RwLockWriteGuard::try_downgrade_map(guard, |pair| pair.1.as_ref()).unwrap();
    assert_eq!((*part, lock.try_read().unwrap().0), (2, 2));
    assert!(lock.try_write().is_err());
    drop(part);
    assert!(lock.try_write().is_ok());
}
