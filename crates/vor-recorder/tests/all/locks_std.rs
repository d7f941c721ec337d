//! The locks behave as those of the standard library, with recording on and off.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, TryLockError, mpsc};
use std::time::{Duration, Instant};

use vor_fixtures::own_process;
use vor_recorder::locks::condvar::Condvar;
use vor_recorder::locks::mutex::Mutex;
use vor_recorder::locks::rwlock::{RwLock, RwLockWriteGuard};
use vor_recorder::setup::Config;

/// Runs a check with recording off, and then with recording on.
fn off_and_on(check: fn()) {
    check();
    Config::new().enable();
    check();
}

fn poison(with_lock: impl FnOnce()) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let panicked = catch_unwind(AssertUnwindSafe(with_lock));
    std::panic::set_hook(hook);
    assert!(panicked.is_err());
}

fn is_would_block<G>(result: Result<G, TryLockError<G>>) -> bool {
    matches!(result, Err(TryLockError::WouldBlock))
}

fn is_poisoned<G>(result: Result<G, TryLockError<G>>) -> bool {
    matches!(result, Err(TryLockError::Poisoned(_)))
}

/// Returns the result of `check` on another thread.
fn elsewhere<R: Send>(check: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(check).join().unwrap())
}

#[test]
fn a_mutex_behaves_as_that_of_std() {
    own_process!();
    off_and_on(|| {
        let mut mutex = Mutex::new(vec![1]);
        *mutex.get_mut().unwrap() = vec![1, 2];
        mutex.lock().unwrap().push(3);
        {
            let guard = mutex.try_lock().unwrap();
            assert_eq!(*guard, [1, 2, 3]);
            assert!(elsewhere(|| is_would_block(mutex.try_lock())));
            assert_eq!(format!("{guard:?}"), "[1, 2, 3]");
            let std = std::sync::Mutex::new(());
            let _held = std.lock().unwrap();
            assert_eq!(format!("{mutex:?}"), format!("{std:?}"));
        }
        let (shown, std) = (format!("{mutex:?}"), std::sync::Mutex::new(vec![1, 2, 3]));
        assert_eq!(shown, format!("{std:?}"));
        assert_eq!(Mutex::new(7).lock().unwrap().to_string(), "7");
        assert_eq!(mutex.into_inner().unwrap(), [1, 2, 3]);
        assert_eq!(Mutex::<u8>::default().into_inner().unwrap(), 0);
        assert_eq!(Mutex::from("text").into_inner().unwrap(), "text");
    });
}

#[test]
fn a_mutex_is_poisoned_by_a_panic_of_its_holder() {
    own_process!();
    off_and_on(|| {
        let mut mutex = Mutex::named("poisoned", 1);
        poison(|| {
            let mut guard = mutex.lock().unwrap();
            *guard = 2;
            panic!("with the lock");
        });
        assert!(mutex.is_poisoned());
        assert!(is_poisoned(mutex.try_lock()));
        assert_eq!(*mutex.lock().unwrap_err().into_inner(), 2);
        assert_eq!(**mutex.get_mut().as_mut().unwrap_err().get_ref(), 2);
        // A thread that waits gets the poison too.
        let mutex = Arc::new(mutex);
        let guard = mutex.lock().unwrap_err().into_inner();
        let waiter = {
            let mutex = Arc::clone(&mutex);
            std::thread::spawn(move || mutex.lock().map(|_| ()).is_err())
        };
        std::thread::sleep(Duration::from_millis(20));
        drop(guard);
        assert!(waiter.join().unwrap());
        mutex.clear_poison();
        assert!(!mutex.is_poisoned() && mutex.lock().is_ok());
        let mutex = Arc::into_inner(mutex).unwrap();
        assert_eq!(mutex.into_inner().unwrap(), 2);
    });
}

#[test]
fn a_mutex_excludes() {
    own_process!();
    static COUNT: Mutex<u64> = Mutex::new(0);
    off_and_on(|| {
        *COUNT.lock().unwrap() = 0;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| *COUNT.lock().unwrap() += 1));
            }
        });
        assert_eq!(*COUNT.lock().unwrap(), 80_000);
    });
}

#[test]
fn locks_hold_values_without_a_size() {
    own_process!();
    off_and_on(|| {
        let mutex: Box<Mutex<[u8]>> = Box::new(Mutex::new([1, 2, 3]));
        mutex.lock().unwrap()[0] = 9;
        assert_eq!(*mutex.lock().unwrap(), [9, 2, 3]);
        let lock: Arc<RwLock<dyn Fn() -> u8 + Send + Sync>> = Arc::new(RwLock::new(|| 5));
        assert_eq!((lock.read().unwrap())(), 5);
    });
}

#[test]
fn readers_share_a_lock_and_writers_do_not() {
    own_process!();
    off_and_on(|| {
        let mut lock = RwLock::new(1);
        *lock.get_mut().unwrap() += 1;
        {
            let (first, second) = (lock.read().unwrap(), lock.try_read().unwrap());
            assert_eq!((*first, *second), (2, 2));
            assert!(elsewhere(|| is_would_block(lock.try_write())));
            assert!(elsewhere(|| lock.try_read().is_ok()));
            assert_eq!(
                (first.to_string(), format!("{second:?}")),
                ("2".into(), "2".into())
            );
        }
        {
            let mut writer = lock.write().unwrap();
            *writer += 1;
            assert!(elsewhere(|| is_would_block(lock.try_read())));
            assert!(elsewhere(|| is_would_block(lock.try_write())));
            assert_eq!(
                (writer.to_string(), format!("{writer:?}")),
                ("3".into(), "3".into())
            );
            let reader = RwLockWriteGuard::downgrade(writer);
            assert_eq!(elsewhere(|| *lock.try_read().unwrap()), 3);
            assert!(elsewhere(|| is_would_block(lock.try_write())));
            assert_eq!(*reader, 3);
        }
        assert!(lock.try_write().is_ok());
        assert_eq!(
            format!("{lock:?}"),
            format!("{:?}", std::sync::RwLock::new(3))
        );
        assert_eq!(lock.into_inner().unwrap(), 3);
        assert_eq!(RwLock::<u8>::default().into_inner().unwrap(), 0);
        assert_eq!(RwLock::from(4).into_inner().unwrap(), 4);
    });
}

#[test]
fn a_lock_is_poisoned_by_a_panic_of_a_writer_and_not_of_a_reader() {
    own_process!();
    off_and_on(|| {
        let mut lock = RwLock::named("poisoned", 1);
        poison(|| {
            let _guard = lock.read().unwrap();
            panic!("with the lock");
        });
        assert!(!lock.is_poisoned());
        poison(|| {
            *lock.write().unwrap() = 2;
            let _guard = lock.write().unwrap();
            panic!("with the lock");
        });
        assert!(lock.is_poisoned());
        assert!(is_poisoned(lock.try_read()) && is_poisoned(lock.try_write()));
        assert_eq!(*lock.read().unwrap_err().into_inner(), 2);
        assert_eq!(*lock.write().unwrap_err().into_inner(), 2);
        assert!(lock.get_mut().is_err());
        lock.clear_poison();
        assert!(lock.read().is_ok() && lock.write().is_ok());
    });
}

#[test]
fn readers_and_writers_exclude() {
    own_process!();
    static BOTH: RwLock<[u64; 2]> = RwLock::new([0, 0]);
    off_and_on(|| {
        let before = BOTH.read().unwrap()[0];
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let mut both = BOTH.write().unwrap();
                        both[0] += 1;
                        both[1] += 1;
                    }
                });
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let [one, other] = *BOTH.read().unwrap();
                        assert_eq!(one, other);
                    }
                });
            }
        });
        assert_eq!(*BOTH.read().unwrap(), [before + 10_000; 2]);
    });
}

#[test]
fn a_condition_variable_wakes_one_or_all() {
    own_process!();
    static TICKETS: Mutex<u32> = Mutex::named("tickets", 0);
    static CHANGED: Condvar = Condvar::new();
    off_and_on(|| {
        let taken = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut tickets = TICKETS.lock().unwrap();
                    while *tickets == 0 {
                        tickets = CHANGED.wait(tickets).unwrap();
                    }
                    *tickets -= 1;
                    taken.fetch_add(1, Ordering::SeqCst);
                });
            }
            *TICKETS.lock().unwrap() += 1;
            CHANGED.notify_one();
            *TICKETS.lock().unwrap() += 3;
            CHANGED.notify_all();
        });
        assert_eq!((*TICKETS.lock().unwrap(), taken.into_inner()), (0, 4));
    });
}

#[test]
fn a_condition_variable_waits_while_a_condition_holds() {
    own_process!();
    off_and_on(|| {
        let (mutex, changed) = (Mutex::new(0), Condvar::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..10 {
                    *mutex.lock().unwrap() += 1;
                    changed.notify_all();
                }
            });
            let guard = changed.wait_while(mutex.lock().unwrap(), |count| *count < 10);
            assert_eq!(*guard.unwrap(), 10);
            let waited = changed.wait_timeout_while(
                mutex.lock().unwrap(),
                Duration::from_secs(60),
                |count| *count < 10,
            );
            assert!(!waited.unwrap().1.timed_out());
        });
    });
}

#[test]
fn a_wait_for_a_condition_times_out() {
    own_process!();
    off_and_on(|| {
        let (mutex, changed) = (Mutex::new(0), Condvar::new());
        let timeout = Duration::from_millis(20);
        let begin = Instant::now();
        let result = changed.wait_timeout_while(mutex.lock().unwrap(), timeout, |_| true);
        let (guard, result) = result.unwrap();
        assert!(result.timed_out() && begin.elapsed() >= timeout);
        assert!(
            elsewhere(|| is_would_block(mutex.try_lock())),
            "it is locked again"
        );
        drop(guard);
        // It may wake up without a notification.
        let timed_out = (0..100).any(|_| {
            let waited = changed.wait_timeout(mutex.lock().unwrap(), timeout);
            waited.unwrap().1.timed_out()
        });
        assert!(timed_out && mutex.try_lock().is_ok());
    });
}

#[test]
fn a_panic_in_a_condition_poisons_and_releases_the_mutex() {
    own_process!();
    off_and_on(|| {
        let (mutex, changed) = (Mutex::new(0), Condvar::new());
        poison(|| {
            let _ = changed.wait_while(mutex.lock().unwrap(), |_| panic!("a condition"));
        });
        assert!(is_poisoned(mutex.try_lock()));
        let waited = changed.wait_timeout(mutex.lock().unwrap_err().into_inner(), Duration::ZERO);
        let (guard, _) = waited.unwrap_err().into_inner();
        drop(guard);
        mutex.clear_poison();
        assert!(mutex.try_lock().is_ok());
    });
}

#[test]
fn guards_are_shared_between_threads_and_not_sent() {
    fn is_sync<T: Sync>(_: &T) {}
    fn is_send_and_sync<T: Send + Sync>(_: &T) {}
    let (mutex, lock) = (Mutex::new(1), RwLock::new(1));
    is_send_and_sync(&mutex);
    is_send_and_sync(&lock);
    is_send_and_sync(&Condvar::new());
    is_sync(&mutex.lock().unwrap());
    is_sync(&lock.read().unwrap());
    is_sync(&lock.write().unwrap());
    let (sender, receiver) = mpsc::channel();
    sender.send(mutex).unwrap();
    assert_eq!(*receiver.recv().unwrap().lock().unwrap(), 1);
}
