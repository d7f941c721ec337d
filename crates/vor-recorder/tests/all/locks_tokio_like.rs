//! The locks and channels of `locks::tokio` behave as tokio's: the same random programs, with one
//! and with the other, leave the same traces.

#![cfg(not(feature = "off"))]

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::locks_support::Random;

/// The names of `tokio::sync`, of this crate.
mod recorded {
    pub(super) use vor_recorder::locks::tokio::mutex::{Mutex, MutexGuard, OwnedMutexGuard};
    pub(super) use vor_recorder::locks::tokio::notify::Notify;
    pub(super) use vor_recorder::locks::tokio::rwlock::{
        OwnedRwLockReadGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    };
    pub(super) use vor_recorder::locks::tokio::semaphore::{OwnedSemaphorePermit, Semaphore};
    pub(super) use vor_recorder::locks::tokio::{broadcast, mpsc, oneshot, watch};
}

const OPS: usize = 4_000;

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

fn poll<T>(future: &mut Boxed<T>) -> Poll<T> {
    future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}

fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// The events of a program, in order.
#[derive(Default, PartialEq)]
struct Trace(Vec<String>);

impl Trace {
    fn note(&mut self, what: impl Debug) {
        self.0.push(format!("{what:?}"));
    }

    /// Polls the future at `at`. If it is ready, removes it and returns what it is ready with.
    fn poll<T>(&mut self, futures: &mut Vec<Boxed<T>>, at: usize) -> Option<T> {
        let polled = poll(futures.get_mut(at)?);
        self.note(("polled", at, polled.is_ready()));
        match polled {
            Poll::Ready(output) => {
                drop(futures.remove(at));
                Some(output)
            }
            Poll::Pending => None,
        }
    }
}

/// Removes the value at `at` if there is one.
fn take<T>(values: &mut Vec<T>, at: usize) -> Option<T> {
    (at < values.len()).then(|| values.remove(at))
}

fn no_part(_: &mut usize) -> Option<&mut u8> {
    None
}

macro_rules! programs {
    ($module:ident, $($sync:tt)+) => {
        mod $module {
            use super::*;
            use $($sync)+::*;

            pub(super) fn mutex(seed: u64) -> Trace {
                let (mut trace, mut random) = (Trace::default(), Random(seed));
                let shared = Arc::new(Mutex::new(0_usize));
                let lock: &'static Mutex<usize> = leaked(Mutex::new(0_usize));
                let (mut waiting, mut owning) = (Vec::new(), Vec::new());
                let mut guards: Vec<MutexGuard<'static, usize>> = Vec::new();
                let mut owned: Vec<OwnedMutexGuard<usize>> = Vec::new();
                for _ in 0..OPS {
                    let (op, at) = (random.index(10), random.index(4));
                    match op {
                        0 if waiting.len() < 4 => waiting.push(Box::pin(lock.lock()) as Boxed<_>),
                        1 | 2 => guards.extend(trace.poll(&mut waiting, at)),
                        3 if at == 0 => drop(take(&mut waiting, at)),
                        4 => {
                            let tried = lock.try_lock();
                            let value = tried.as_ref().map(|value| **value);
                            trace.note(value.map_err(ToString::to_string));
                            guards.extend(tried.ok());
                        }
                        5 => {
                            if let Some(mut guard) = take(&mut guards, at) {
                                *guard += 1;
                                trace.note((&guard, std::ptr::eq(MutexGuard::mutex(&guard), lock)));
                                let part = MutexGuard::map(guard, |value| value);
                                trace.note(&part);
                            }
                        }
                        6 if owning.len() < 4 => {
                            owning.push(Box::pin(Arc::clone(&shared).lock_owned()) as Boxed<_>);
                        }
                        7 => owned.extend(trace.poll(&mut owning, at)),
                        8 => {
                            if let Some(mut guard) = take(&mut owned, at) {
                                *guard += 1;
                                let mutex = OwnedMutexGuard::mutex(&guard);
                                trace.note((&guard, Arc::ptr_eq(mutex, &shared)));
                            }
                        }
                        9 if at == 0 => drop(take(&mut owning, at)),
                        _ => owned.extend(Arc::clone(&shared).try_lock_owned().ok()),
                    }
                    trace.note((guards.len(), owned.len()));
                }
                trace.note(lock);
                trace
            }

            pub(super) fn rwlock(seed: u64) -> Trace {
                let (mut trace, mut random) = (Trace::default(), Random(seed));
                let lock: &'static RwLock<usize> = leaked(RwLock::with_max_readers(0_usize, 3));
                let shared = Arc::new(RwLock::new(0_usize));
                let (mut reading, mut writing, mut owning) = (Vec::new(), Vec::new(), Vec::new());
                let mut readers: Vec<RwLockReadGuard<'static, usize>> = Vec::new();
                let mut writers: Vec<RwLockWriteGuard<'static, usize>> = Vec::new();
                let mut owned: Vec<OwnedRwLockReadGuard<usize>> = Vec::new();
                for _ in 0..OPS {
                    let (op, at) = (random.index(12), random.index(3));
                    match op {
                        0 if reading.len() < 4 => reading.push(Box::pin(lock.read()) as Boxed<_>),
                        1 if writing.len() < 4 => writing.push(Box::pin(lock.write()) as Boxed<_>),
                        2 | 3 => readers.extend(trace.poll(&mut reading, at)),
                        4 | 5 => writers.extend(trace.poll(&mut writing, at)),
                        6 => drop(take(&mut readers, at)),
                        7 => {
                            if let Some(mut guard) = take(&mut writers, at) {
                                *guard += 1;
                                match at {
                                    0 => readers.push(guard.downgrade()),
                                    1 => trace.note(RwLockWriteGuard::map(guard, |value| value)),
                                    _ => {
                                        let part = RwLockWriteGuard::try_map(guard, no_part);
                                        trace.note(part.is_err());
                                        writers.extend(part.err());
                                    }
                                }
                            }
                        }
                        8 => readers.extend(lock.try_read().ok()),
                        9 => writers.extend(lock.try_write().ok()),
                        10 if at == 0 => {
                            drop((take(&mut reading, random.index(4)), take(&mut writing, at)));
                        }
                        _ if at == 0 => {
                            owning.push(Box::pin(Arc::clone(&shared).read_owned()) as Boxed<_>);
                        }
                        _ if at == 1 => owned.extend(trace.poll(&mut owning, 0)),
                        _ => {
                            drop(take(&mut owned, 0));
                            let write = Arc::clone(&shared).try_write_owned();
                            trace.note(write.map(|mut value| {
                                *value += 1;
                                *value
                            }));
                        }
                    }
                    trace.note((readers.len(), writers.len(), owned.len()));
                    let values: Vec<_> = readers.iter().map(|value| **value).collect();
                    trace.note(values);
                }
                trace.note((lock, shared));
                trace
            }

            pub(super) fn semaphore(seed: u64) -> Trace {
                let (mut trace, mut random) = (Trace::default(), Random(seed));
                let semaphore: &'static Semaphore = leaked(Semaphore::new(3));
                let shared = Arc::new(Semaphore::new(5));
                let (mut waiting, mut owning) = (Vec::new(), Vec::new());
                let (mut permits, mut owned) = (Vec::new(), Vec::<OwnedSemaphorePermit>::new());
                for op in 0..OPS {
                    let (what, at) = (random.index(11), random.index(3));
                    match what {
                        0 if waiting.len() < 4 => {
                            let count = random.index(4) as u32;
                            waiting.push(Box::pin(semaphore.acquire_many(count)) as Boxed<_>);
                        }
                        1 => permits.extend(trace.poll(&mut waiting, at)),
                        2 => drop(take(&mut waiting, at)),
                        3 => drop(take(&mut permits, at)),
                        4 => {
                            let tried = semaphore.try_acquire_many(1);
                            trace.note(tried.as_ref().map(|_| ()).map_err(ToString::to_string));
                            permits.extend(tried.ok().map(Ok));
                        }
                        5 if owning.len() < 4 => {
                            let count = random.index(3) as u32;
                            let shared = Arc::clone(&shared);
                            owning.push(Box::pin(shared.acquire_many_owned(count)) as Boxed<_>);
                        }
                        6 => owned.extend(trace.poll(&mut owning, at).and_then(Result::ok)),
                        7 => {
                            let two = (take(&mut owned, 0), take(&mut owned, 0));
                            if let (Some(mut first), Some(second)) = two {
                                first.merge(second);
                                let part = first.split(at);
                                let split = part.as_ref().map(OwnedSemaphorePermit::num_permits);
                                trace.note((first.num_permits(), split));
                                trace.note(Arc::ptr_eq(first.semaphore(), &shared));
                                match part {
                                    Some(part) if at == 1 => part.forget(),
                                    part => owned.extend(part),
                                }
                            }
                        }
                        8 => shared.add_permits(at),
                        9 => trace.note(shared.forget_permits(at)),
                        _ if op > OPS - 20 => shared.close(),
                        _ => owned.extend(Arc::clone(&shared).try_acquire_owned().ok()),
                    }
                    trace.note((semaphore.available_permits(), shared.is_closed()));
                    trace.note(shared.available_permits());
                    trace.note(Arc::strong_count(&shared));
                }
                trace
            }

            pub(super) fn channel(seed: u64) -> Trace {
                let (mut trace, mut random) = (Trace::default(), Random(seed));
                for _ in 0..OPS / 50 {
                    let (sender, mut receiver) = mpsc::channel::<usize>(1 + random.index(3));
                    let (free, mut freed) = mpsc::unbounded_channel::<usize>();
                    let weak = sender.downgrade();
                    let weak_free = free.downgrade();
                    let (mut senders, mut frees) = (vec![sender], vec![free]);
                    let mut sending = Vec::new();
 let mut owning: Vec<Boxed<Result<mpsc::OwnedPermit<usize>, _>>> = Vec::new();
                    for message in 0..50 {
                        let (op, at) = (random.index(16), random.index(3));
                        match op {
                            0..=2 => {
                                if let Some(sender) = senders.get(at).cloned() {
                                    let send = async move { sender.send(message).await.is_ok() };
                                    sending.push(Box::pin(send) as Boxed<_>);
                                }
                            }
                            3 | 4 => {
                                let sent = trace.poll(&mut sending, at);
                                trace.note(sent);
                            }
                            5 => drop(take(&mut sending, at)),
                            6 | 7 => trace.note(receiver.try_recv()),
                            8 => {
                                let mut buffer = Vec::new();
                                let context = &mut Context::from_waker(Waker::noop());
                                trace.note(receiver.poll_recv_many(context, &mut buffer, at));
                                trace.note((buffer, receiver.poll_recv(context)));
                            }
                            9 => {
                                let waiting = std::pin::pin!(receiver.recv());
                                trace.note(waiting.poll(&mut Context::from_waker(Waker::noop())));
                            }
                            10 => {
                                if let Some(sender) = senders.get(at) {
                                    trace.note(sender.try_send(message));
                                    trace.note((sender.capacity(), sender.max_capacity()));
                                    trace.note((sender.strong_count(), sender.is_closed()));
                                    trace.note(sender.try_reserve_many(at).map(|permits| {
                                        permits.map(|permit| permit.send(message)).count()
                                    }));
                                }
                            }
                            11 if at == 0 => drop(take(&mut senders, random.index(3))),
                            11 => senders.extend(weak.upgrade()),
                            12 => {
                                if let Some(sender) = senders.get(at).cloned() {
                                    owning.push(Box::pin(sender.reserve_owned()) as Boxed<_>);
                                }
                            }
                            13 => {
                                if let Some(Ok(permit)) = trace.poll(&mut owning, at) {
                                    match at {
                                        0 => senders.push(permit.send(message)),
                                        1 => senders.push(permit.release()),
                                        _ => drop(permit),
                                    }
                                }
                            }
                            14 => {
                                if let Some(sender) = frees.get(at) {
                                    trace.note((sender.send(message), sender.strong_count()));
                                }
                                trace.note((freed.try_recv(), freed.len(), freed.is_empty()));
                                match at {
                                    0 => drop(frees.pop()),
                                    _ => frees.extend(weak_free.upgrade()),
                                }
                            }
                            _ if at == 0 && message > 40 => receiver.close(),
                            _ => {
                                let tried = senders.pop().map(|sender| sender.try_reserve_owned());
                                match tried {
                                    Some(Ok(permit)) => senders.push(permit.send(message)),
                                    Some(Err(error)) => {
                                        trace.note(error.to_string());
                                        senders.push(error.into_inner());
                                    }
                                    None => {}
                                }
                            }
                        }
                        trace.note((receiver.len(), receiver.capacity(), receiver.is_closed()));
                        trace.note((receiver.sender_strong_count(), receiver.sender_weak_count()));
                    }
                    // A receiver that is gone closes the channel.
                    drop(receiver);
                    for mut send in sending {
                        trace.note(poll(&mut send));
                    }
                }
                trace
            }

            pub(super) fn notify(seed: u64) -> Trace {
                let (mut trace, mut random) = (Trace::default(), Random(seed));
                let notify: &'static Notify = leaked(Notify::new());
                let mut waiting = Vec::new();
                for _ in 0..OPS {
                    let (op, at) = (random.index(9), random.index(4));
                    match op {
                        0 | 1 if waiting.len() < 6 => waiting.push(Box::pin(notify.notified())),
                        2 => {
                            if let Some(waiting) = waiting.get_mut(at) {
                                trace.note(waiting.as_mut().enable());
                            }
                        }
                        3 if at == 0 => notify.notify_waiters(),
                        4 => notify.notify_last(),
                        5 => notify.notify_one(),
                        6 => drop(take(&mut waiting, at)),
                        _ => {
                            let context = &mut Context::from_waker(Waker::noop());
                            let future = waiting.get_mut(at);
                            let polled = future.map(|future| future.as_mut().poll(context));
                            trace.note(polled);
                            if polled.is_some_and(|polled| polled.is_ready()) {
                                drop(waiting.remove(at));
                            }
                        }
                    }
                }
                trace
            }

            pub(super) fn values(seed: u64) -> Trace {
                let (mut trace, mut random) = (Trace::default(), Random(seed));
                for _ in 0..OPS / 40 {
                    let (news, reader) = broadcast::channel::<usize>(2);
                    let weak = news.downgrade();
                    let (change, watcher) = watch::channel(0_usize);
                    let (answer, mut asked) = oneshot::channel::<usize>();
                    let mut answer = Some(answer);
                    let (mut news, mut readers) = (vec![news], vec![reader]);
                    let (mut changes, mut watchers) = (vec![change], vec![watcher]);
                    let context = &mut Context::from_waker(Waker::noop());
                    for message in 1..40 {
                        let (op, at) = (random.index(14), random.index(3));
                        match op {
                            0 | 1 => trace.note(news.get(at).map(|news| news.send(message))),
                            2 => readers.extend(news.get(at).map(|news| news.subscribe())),
                            3 => {
                                if let Some(reader) = readers.get_mut(at) {
                                    trace.note(std::pin::pin!(reader.recv()).poll(context));
                                    trace.note((reader.len(), reader.is_empty()));
                                }
                            }
                            4 => {
                                let tried = readers.get_mut(at).map(|reader| reader.try_recv());
                                trace.note(tried);
                                let more = readers.get(at).map(|reader| reader.resubscribe());
                                readers.extend(more);
                            }
                            5 if at == 0 => drop((news.pop(), readers.pop())),
                            5 => news.extend(weak.upgrade()),
                            6 => {
                                let news = news.first();
                                trace.note(news.map(|news| (news.len(), news.receiver_count())));
                            }
                            7 => trace.note(changes.first().map(|change| change.send(message))),
                            8 => {
                                if let Some(watcher) = watchers.get_mut(at) {
                                    trace.note(std::pin::pin!(watcher.changed()).poll(context));
                                    trace.note(*watcher.borrow());
                                }
                            }
                            9 => {
                                if let Some(watcher) = watchers.get_mut(at) {
                                    let is_third = |value: &usize| value % 3 == 0;
                                    let mut waiting = Box::pin(watcher.wait_for(is_third));
                                    let polled = waiting.as_mut().poll(context);
                                    trace.note(polled.map(|value| value.map(|value| *value)));
                                    drop(waiting);
                                    trace.note(watcher.has_changed());
                                }
                            }
                            10 => watchers.extend(changes.first().map(|change| change.subscribe())),
                            11 => {
                                if let Some(change) = changes.get(at) {
                                    trace.note(change.send_replace(message));
                                    trace.note(change.send_if_modified(|value| *value % 2 == 0));
                                    trace.note((change.receiver_count(), change.sender_count()));
                                }
                                match at {
                                    0 => drop(changes.pop()),
                                    1 => changes.extend(changes.first().cloned()),
                                    _ => drop(watchers.pop()),
                                }
                            }
                            12 => {
                                if let Some(watcher) = watchers.get_mut(at) {
                                    match at {
                                        0 => watcher.mark_changed(),
                                        1 => watcher.mark_unchanged(),
                                        _ => trace.note(*watcher.borrow_and_update()),
                                    }
                                }
                            }
                            _ => trace.note(asked.try_recv()),
                        }
                    }
                    match random.index(4) {
                        0 => drop(answer.take()),
                        1 => asked.close(),
                        _ => {}
                    }
                    if random.index(2) == 0 {
                        trace.note(Pin::new(&mut asked).poll(context));
                    }
                    trace.note(answer.map(|answer| (answer.is_closed(), answer.send(1))));
                    let is_over = asked.try_recv();
                    trace.note(is_over);
                }
                trace
            }
        }
    };
}

programs!(with_tokio, tokio::sync);
programs!(with_vor, super::recorded);

/// Checks that a program does the same with both.
fn assert_same(tokios: fn(u64) -> Trace, mine: fn(u64) -> Trace) {
    for seed in 0..20 {
        let (tokios, mine) = (tokios(seed).0, mine(seed).0);
        let differs = tokios
            .iter()
            .zip(&mine)
            .position(|(tokios, mine)| tokios != mine);
        if let Some(at) = differs {
            let from = at.saturating_sub(5);
            panic!(
                "seed {seed}: {:?}\n{:?}",
                &tokios[from..=at],
                &mine[from..=at]
            );
        }
        assert_eq!(tokios.len(), mine.len());
        assert!(tokios.len() > OPS / 4);
    }
}

#[test]
fn mutexes_are_alike() {
    assert_same(with_tokio::mutex, with_vor::mutex);
}

#[test]
fn rwlocks_are_alike() {
    assert_same(with_tokio::rwlock, with_vor::rwlock);
}

#[test]
fn semaphores_are_alike() {
    assert_same(with_tokio::semaphore, with_vor::semaphore);
}

#[test]
fn channels_are_alike() {
    assert_same(with_tokio::channel, with_vor::channel);
}

#[test]
fn notifications_are_alike() {
    assert_same(with_tokio::notify, with_vor::notify);
}

#[test]
fn values_that_are_sent_to_all_are_alike() {
    assert_same(with_tokio::values, with_vor::values);
}

/// A thread of a runtime must not block, also if it would get the lock at once.
#[test]
fn blocking_in_a_task_panics() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mutex = Arc::new(recorded::Mutex::new(0));
    let rwlock = recorded::RwLock::new(0);
    let (sender, mut receiver) = recorded::mpsc::channel(1);
    let calls: [Box<dyn FnOnce()>; 6] = [
        Box::new(|| drop(mutex.blocking_lock())),
        Box::new(|| drop(Arc::clone(&mutex).blocking_lock_owned())),
        Box::new(|| drop(rwlock.blocking_read())),
        Box::new(|| drop(rwlock.blocking_write())),
        Box::new(|| _ = sender.blocking_send(1)),
        Box::new(|| _ = receiver.blocking_recv()),
    ];
    runtime.block_on(async {
        for call in calls {
            let call = std::panic::AssertUnwindSafe(call);
            assert!(std::panic::catch_unwind(call).is_err());
        }
    });
}

/// Values, guards and futures may move between threads as those of tokio.
#[test]
fn all_of_them_are_send_and_sync() {
    fn is_send<T: Send>(_: &T) {}
    fn is_sync<T: Sync>(_: &T) {}
    let mutex = Arc::new(recorded::Mutex::new(0));
    let rwlock = Arc::new(recorded::RwLock::new(0));
    let semaphore = Arc::new(recorded::Semaphore::new(1));
    let notify = recorded::Notify::new();
    is_sync(&(&mutex, &rwlock, &semaphore, &notify));
    is_send(&(mutex.lock(), Arc::clone(&mutex).lock_owned()));
    is_send(&(
        rwlock.read(),
        rwlock.write(),
        Arc::clone(&rwlock).read_owned(),
    ));
    is_send(&(Arc::clone(&rwlock).write_owned(), semaphore.acquire()));
    is_send(&(Arc::clone(&semaphore).acquire_owned(), notify.notified()));
    is_send(&(mutex.try_lock().unwrap(), rwlock.try_write().unwrap()));
    let (sender, mut receiver) = recorded::mpsc::channel::<u8>(1);
    is_send(&(sender.send(1), sender.reserve(), receiver.recv()));
    is_sync(&sender);
    let (sender, mut receiver) = recorded::broadcast::channel::<u8>(1);
    is_send(&receiver.recv());
    is_sync(&sender);
    let (sender, mut receiver) = recorded::watch::channel::<u8>(1);
    is_send(&receiver.changed());
    is_sync(&sender);
    let (_, receiver) = recorded::oneshot::channel::<u8>();
    is_send(&receiver);
}

#[test]
fn readers_are_let_in_when_a_part_is_chosen() {
    let lock = leaked(recorded::RwLock::new(3));
    let writer = lock.try_write().unwrap();
    let mut reader: Boxed<_> = Box::pin(lock.read());
    assert!(poll(&mut reader).is_pending());
    let part = recorded::RwLockWriteGuard::downgrade_map(writer, |value| {
        assert!(poll(&mut reader).is_pending());
        value
    });
    assert!(poll(&mut reader).is_ready());
    assert_eq!(*part, 3);
}

#[cfg(target_pointer_width = "64")]
#[test]
fn merged_permits_exceed_32_bits() {
    let semaphore = Arc::new(recorded::Semaphore::new(6_000_000_000));
    let take = || Arc::clone(&semaphore).try_acquire_many_owned(3_000_000_000);
    let (mut permits, more) = (take().unwrap(), take().unwrap());
    permits.merge(more);
    assert_eq!(permits.num_permits(), 6_000_000_000);
    let part = permits.split(5_000_000_000).unwrap();
    assert_eq!(part.num_permits(), 5_000_000_000);
    drop((part, permits));
    assert_eq!(semaphore.available_permits(), 6_000_000_000);
}

/// Channels can be moved while they are polled, and cross a panic, whatever they carry.
#[test]
fn channels_have_the_traits_of_those_of_tokio() {
    use std::cell::Cell;
    use std::marker::PhantomPinned;
    use std::panic::UnwindSafe;

    fn check<T: Unpin + UnwindSafe>() {}
    type Value = (PhantomPinned, Cell<u8>);
    check::<tokio::sync::mpsc::Receiver<Value>>();
    check::<recorded::mpsc::Receiver<Value>>();
    check::<recorded::mpsc::UnboundedReceiver<Value>>();
    check::<recorded::mpsc::Sender<Value>>();
}
