//! Locks behave as those of `parking_lot`: the same tests of both.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::like_std::like_std;

fn panics(work: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

fn is_shared<T: Send + Sync>(_: &T) {}

fn short() -> Duration {
    Duration::from_millis(20)
}

like_std! {
    {
        use parking_lot::{
            Condvar, FairMutex, MappedMutexGuard, MappedRwLockWriteGuard, Mutex, MutexGuard, Once,
            OnceState, ReentrantMutex, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard,
            RwLockWriteGuard, const_fair_mutex, const_mutex, const_reentrant_mutex, const_rwlock,
        };
    }
    {
        use vor_recorder::locks::parking_lot::{
            Condvar, FairMutex, MappedMutexGuard, MappedRwLockWriteGuard, Mutex, MutexGuard, Once,
            OnceState, ReentrantMutex, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard,
            RwLockWriteGuard, const_fair_mutex, const_mutex, const_reentrant_mutex, const_rwlock,
        };
    }

    fn a_mutex_excludes() {
        static COUNT: Mutex<u64> = const_mutex(0);
        *COUNT.lock() = 0;
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..2_000).for_each(|_| *COUNT.lock() += 1));
            }
        });
        assert_eq!(*COUNT.lock(), 8_000);
        let mut mutex = Mutex::new(vec![1]);
        is_shared(&mutex);
        let guard = mutex.lock();
        assert!(mutex.is_locked() && mutex.try_lock().is_none());
        assert_eq!(format!("{mutex:?}"), "Mutex { data: <locked> }");
        assert_eq!(format!("{guard:?}"), "[1]");
        drop(guard);
        assert_eq!(format!("{mutex:?}"), "Mutex { data: [1] }");
        mutex.get_mut().push(2);
        assert_eq!(mutex.into_inner(), [1, 2]);
        assert_eq!(*Mutex::<u8>::default().lock(), 0);
        assert_eq!(*Mutex::from("a").try_lock().unwrap(), "a");
    }

    fn a_panic_does_not_poison() {
        let (mutex, lock) = (Mutex::new(1), RwLock::new(1));
        assert!(panics(|| {
            let _guards = (mutex.lock(), lock.write());
            panic!("with the locks");
        }));
        assert_eq!((*mutex.lock(), *lock.read()), (1, 1));
    }

    fn a_mutex_of_an_unsized_value_is_one_of_its_trait() {
        let shared: Arc<Mutex<dyn Fn() -> u8 + Send>> = Arc::new(Mutex::new(|| 7));
        let slice: &Mutex<[u8]> = &Mutex::new([1, 2]);
        assert_eq!((shared.lock()(), slice.lock().len()), (7, 2));
        let (lock, changed): (&RwLock<[u8]>, _) = (&RwLock::new([1, 2]), Condvar::new());
        lock.write()[0] = 3;
        let mut guard = slice.lock();
        assert!(changed.wait_for(&mut guard, Duration::ZERO).timed_out());
        assert_eq!(lock.read().first(), Some(&3));
    }

    fn a_lock_that_is_tried_for_a_time_waits_as_long() {
        let (mutex, lock) = (Mutex::new(()), RwLock::new(()));
        let _held = (mutex.lock(), lock.write());
        thread::scope(|scope| {
            scope.spawn(|| {
                let begin = Instant::now();
                assert!(mutex.try_lock_for(short()).is_none());
                assert!(lock.try_read_for(short()).is_none());
                assert!(lock.try_write_until(Instant::now() + short()).is_none());
                assert!(lock.try_upgradable_read_for(short()).is_none());
                assert!(begin.elapsed() >= 4 * short());
                assert!(mutex.try_lock_until(begin).is_none());
                assert!(lock.try_read_recursive_for(Duration::ZERO).is_none());
            });
        });
        let fair = const_fair_mutex(1);
        let held = fair.lock();
        thread::scope(|scope| {
            scope.spawn(|| *fair.try_lock_for(1_000 * short()).unwrap() += 1);
            thread::sleep(short());
            drop(held);
        });
        assert_eq!(fair.into_inner(), 2);
    }

    fn guards_can_be_mapped_unlocked_and_bumped() {
        let mutex = Mutex::new((1, 2));
        let first: MappedMutexGuard<'_, u8> = MutexGuard::map(mutex.lock(), |pair| &mut pair.0);
        assert!(mutex.is_locked());
        let failed = MappedMutexGuard::try_map(first, |_| None::<&mut u8>);
        *failed.unwrap_err() += 1;
        let mut guard = mutex.lock();
        MutexGuard::unlocked(&mut guard, || {
            thread::scope(|scope| _ = scope.spawn(|| mutex.lock().1 = 5));
        });
        assert_eq!(*guard, (2, 5));
        MutexGuard::bump(&mut guard);
        MutexGuard::unlock_fair(guard);
        let lock = RwLock::new((1, 2));
        let mut second: MappedRwLockWriteGuard<'_, u8> =
            RwLockWriteGuard::map(lock.write(), |pair| &mut pair.1);
        *second = 9;
        drop(second);
        let mut read = lock.read();
        RwLockReadGuard::bump(&mut read);
        assert_eq!(*RwLockReadGuard::map(read, |pair| &pair.1), 9);
        assert!(!lock.is_locked());
    }

    fn readers_share_and_writers_do_not() {
        static LOCK: RwLock<u32> = const_rwlock(0);
        *LOCK.write() = 0;
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..1_000).for_each(|_| *LOCK.write() += 1));
                scope.spawn(|| for _ in 0..1_000 {
                    let first = LOCK.read();
                    assert_eq!(*first, *LOCK.read_recursive());
                });
            }
        });
        assert_eq!(*LOCK.read(), 3_000);
        let mut lock = RwLock::new(1);
        is_shared(&lock);
        let readers = (lock.read(), lock.try_read().unwrap());
        assert!(lock.try_write().is_none() && !lock.is_locked_exclusive());
        drop(readers);
        let writer = lock.write();
        assert!(lock.try_read().is_none() && lock.is_locked_exclusive());
        assert_eq!(format!("{lock:?}"), "RwLock { data: <locked> }");
        drop(writer);
        *lock.get_mut() += 1;
        assert_eq!(lock.into_inner(), 2);
    }

    fn an_upgradable_reader_becomes_the_writer_and_back() {
        let lock = RwLock::new(1);
        let upgradable = lock.upgradable_read();
        assert!(lock.try_upgradable_read().is_none() && lock.try_write().is_none());
        let reader = lock.read();
        let upgradable = RwLockUpgradableReadGuard::try_upgrade(upgradable).unwrap_err();
        let failed = RwLockUpgradableReadGuard::try_upgrade_for(upgradable, short());
        let upgradable = failed.unwrap_err();
        drop(reader);
        let mut writer = RwLockUpgradableReadGuard::upgrade(upgradable);
        assert!(lock.try_read().is_none());
        *writer = 2;
        let upgradable = RwLockWriteGuard::downgrade_to_upgradable(writer);
        assert!(lock.try_read().is_some());
        let reader = RwLockUpgradableReadGuard::downgrade(upgradable);
        assert!(lock.try_upgradable_read().is_some() && lock.try_write().is_none());
        drop(reader);
        let reader = RwLockWriteGuard::downgrade(lock.write());
        assert_eq!((*reader, *lock.try_read().unwrap()), (2, 2));
    }

    fn an_upgrade_waits_until_the_readers_have_left() {
        let lock = RwLock::new(0);
        let begin = Instant::now();
        let upgradable = lock.upgradable_read();
        let reader = lock.read();
        thread::scope(|scope| {
            let lock = &lock;
            scope.spawn(move || {
                let _late = lock.try_read();
                thread::sleep(short());
            });
            drop(reader);
            *RwLockUpgradableReadGuard::upgrade(upgradable) += 1;
        });
        assert_eq!(*lock.read(), 1);
        assert!(begin.elapsed() < 1_000 * short());
    }

    fn a_reentrant_mutex_excludes_other_threads_only() {
        static MUTEX: ReentrantMutex<u8> = const_reentrant_mutex(3);
        let outer = MUTEX.lock();
        let inner = MUTEX.lock();
        thread::scope(|scope| _ = scope.spawn(|| assert!(MUTEX.try_lock().is_none())));
        drop(outer);
        thread::scope(|scope| _ = scope.spawn(|| assert!(MUTEX.try_lock().is_none())));
        assert_eq!(*inner, 3);
        drop(inner);
        thread::scope(|scope| _ = scope.spawn(|| assert!(MUTEX.try_lock().is_some())));
        assert_eq!(ReentrantMutex::new(1).into_inner(), 1);
    }

    fn a_thread_that_waits_for_a_fair_mutex_is_the_next() {
        let mutex = FairMutex::new(0);
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        thread::scope(|scope| {
            let mut held = Some(mutex.lock());
            let mutex = &mutex;
            scope.spawn(move || {
                let mut count = mutex.lock();
                *count += 1;
                is_done.recv().unwrap();
            });
            // Until the other thread waits, the mutex is free after each unlock.
            while held.take().is_some() {
                held = mutex.try_lock();
            }
            done.send(()).unwrap();
        });
        assert_eq!(mutex.into_inner(), 1);
    }

    fn a_notification_tells_whom_it_woke() {
        let (mutex, changed) = (Mutex::new(0), Condvar::default());
        is_shared(&changed);
        assert!(!changed.notify_one());
        assert_eq!((changed.notify_all(), format!("{changed:?}")), (0, "Condvar { .. }".into()));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut waiting = mutex.lock();
                    *waiting += 1;
                    changed.wait(&mut waiting);
                    *waiting -= 1;
                });
            }
            // A thread that has unlocked the mutex can be woken.
            while *mutex.lock() != 3 {
                thread::yield_now();
            }
            assert!(changed.notify_one());
            while *mutex.lock() != 2 {
                thread::yield_now();
            }
            assert_eq!(changed.notify_all(), 2);
        });
        assert_eq!((mutex.into_inner(), changed.notify_all()), (0, 0));
    }

    fn a_wait_for_a_condition_times_out_or_does_not() {
        let (mutex, changed) = (Mutex::new(()), Condvar::new());
        let begin = Instant::now();
        let mut guard = mutex.lock();
        assert!(changed.wait_while_for(&mut guard, |()| true, short()).timed_out());
        assert!(changed.wait_for(&mut guard, short()).timed_out());
        assert!(changed.wait_until(&mut guard, Instant::now() + short()).timed_out());
        assert!(begin.elapsed() >= 3 * short());
        for timeout in [Duration::ZERO, short(), Duration::MAX] {
            assert!(!changed.wait_while_for(&mut guard, |()| false, timeout).timed_out());
        }
        assert!(changed.wait_while_until(&mut guard, |()| true, begin).timed_out());
        assert!(mutex.is_locked());
    }

    fn an_initialisation_runs_once() {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        RUNS.store(0, SeqCst);
        let once = Once::new();
        is_shared(&once);
        assert_eq!(once.state(), OnceState::New);
        assert_eq!(format!("{once:?}"), "Once { state: New }");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    once.call_once(|| {
                        assert_eq!(once.state(), OnceState::InProgress);
                        thread::sleep(short());
                        RUNS.fetch_add(1, SeqCst);
                    });
                    assert_eq!(RUNS.load(SeqCst), 1);
                });
            }
        });
        once.call_once_force(|_| unreachable!());
        assert!(once.state().done());
    }

    fn an_initialisation_that_panics_poisons() {
        let once = Once::default();
        assert!(panics(|| once.call_once(|| panic!("in the initialisation"))));
        assert_eq!(once.state(), OnceState::Poisoned);
        assert!(panics(|| once.call_once(|| unreachable!())));
        once.call_once_force(|state| assert!(state.poisoned()));
        assert!(once.state().done());
    }
}
