//! Locks behave as those of the standard library: the same tests of both.

use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::like_std::like_std;

fn panics(work: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

fn is_shared<T: Send + Sync + UnwindSafe + RefUnwindSafe>(_: &T) {}

fn short() -> Duration {
    Duration::from_millis(20)
}

like_std! {
    { use std::sync::{Barrier, Condvar, Mutex, Once, OnceLock}; }
    {
        use vor_recorder::locks::barrier::Barrier;
        use vor_recorder::locks::condvar::Condvar;
        use vor_recorder::locks::mutex::Mutex;
        use vor_recorder::locks::once::{Once, OnceLock};
    }

    fn one_thread_of_a_barrier_is_the_leader_of_each_round() {
        const THREADS: usize = 3;
        const ROUNDS: usize = 200;
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        COUNT.store(0, SeqCst);
        let barrier = Barrier::new(THREADS);
        is_shared(&barrier);
        let leaders: usize = thread::scope(|scope| {
            let threads = [(); THREADS].map(|()| scope.spawn(|| {
                let mut leader = 0;
                for round in 1..=ROUNDS {
                    COUNT.fetch_add(1, SeqCst);
                    leader += usize::from(barrier.wait().is_leader());
                    // All have come, and none has begun the round after the next.
                    let count = COUNT.load(SeqCst);
                    assert!((THREADS * round..THREADS * (round + 1)).contains(&count));
                }
                leader
            }));
            threads.map(|thread| thread.join().unwrap()).into_iter().sum()
        });
        assert_eq!(leaders, ROUNDS);
        assert_eq!(format!("{barrier:?}"), "Barrier { .. }");
    }

    fn a_barrier_for_one_thread_or_none_does_not_wait() {
        static NONE: Barrier = Barrier::new(0);
        for threads in [0, 1] {
            let result = Barrier::new(threads).wait();
            assert!(result.is_leader() && NONE.wait().is_leader());
            assert_eq!(format!("{result:?}"), "BarrierWaitResult { is_leader: true }");
        }
    }

    fn an_initialisation_runs_once() {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        RUNS.store(0, SeqCst);
        let once = Once::new();
        is_shared(&once);
        assert!(!once.is_completed());
        assert_eq!(format!("{once:?}"), "Once { .. }");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    once.call_once(|| {
                        thread::sleep(short());
                        RUNS.fetch_add(1, SeqCst);
                    });
                    assert_eq!(RUNS.load(SeqCst), 1);
                });
                scope.spawn(|| {
                    once.wait();
                    assert!(RUNS.load(SeqCst) == 1 && once.is_completed());
                });
            }
        });
        once.call_once_force(|_| unreachable!());
        once.wait_force();
    }

    fn an_initialisation_that_panics_poisons() {
        let once = Once::new();
        assert!(panics(|| once.call_once(|| panic!("in the initialisation"))));
        assert!(!once.is_completed());
        assert!(panics(|| once.call_once(|| unreachable!())));
        assert!(panics(|| once.wait()));
        thread::scope(|scope| {
            scope.spawn(|| once.wait_force());
            assert!(panics(|| once.call_once_force(|state| {
                assert!(state.is_poisoned());
                panic!("again");
            })));
            once.call_once_force(|state| assert!(state.is_poisoned()));
        });
        assert!(once.is_completed());
        once.wait();
    }

    fn a_cell_is_written_once() {
        static CELL: OnceLock<usize> = OnceLock::new();
        let value = *CELL.get_or_init(|| 7);
        assert!(value == 7 && CELL.get() == Some(&7) && CELL.set(8) == Err(8));
        let mut cell = OnceLock::new();
        is_shared(&cell);
        assert_eq!((cell.get(), format!("{cell:?}")), (None, "OnceLock(<uninit>)".into()));
        assert_eq!(cell.get_mut(), None);
        assert_eq!(cell.set(String::from("a")), Ok(()));
        assert_eq!(cell.set(String::from("b")), Err(String::from("b")));
        assert_eq!((cell.wait().as_str(), format!("{cell:?}")), ("a", "OnceLock(\"a\")".into()));
        cell.get_mut().unwrap().push('c');
        assert_eq!(cell.clone(), cell);
        assert_eq!(OnceLock::from(String::from("ac")), cell);
        assert_ne!(OnceLock::default(), cell);
        assert_eq!(cell.take(), Some("ac".into()));
        assert_eq!(cell.into_inner(), None);
        assert_eq!(OnceLock::from(3).into_inner(), Some(3));
    }

    fn threads_agree_on_the_value_of_a_cell() {
        let (cell, runs) = (OnceLock::new(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for me in 0..4 {
                let (cell, runs) = (&cell, &runs);
                scope.spawn(move || {
                    let value = *cell.get_or_init(|| {
                        runs.fetch_add(1, SeqCst);
                        thread::sleep(short());
                        me
                    });
                    assert_eq!(*cell.wait(), value);
                    assert_eq!(cell.set(9), Err(9));
                });
                scope.spawn(|| assert!(*cell.wait() < 4));
            }
        });
        assert_eq!(runs.into_inner(), 1);
    }

    fn a_cell_whose_initialisation_panics_stays_empty() {
        let cell = OnceLock::new();
        assert!(panics(|| { cell.get_or_init(|| panic!("in the initialisation")); }));
        assert_eq!(cell.get(), None);
        assert_eq!(*cell.get_or_init(|| 5), 5);
    }

    fn a_condition_variable_unlocks_the_mutex_while_it_waits() {
        static PAIR: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());
        let (mutex, changed) = &PAIR;
        is_shared(changed);
        assert_eq!(format!("{changed:?}"), "Condvar { .. }");
        *mutex.lock().unwrap() = 0;
        let waiter = thread::spawn(|| {
            let (mutex, changed) = &PAIR;
            let mut count = mutex.lock().unwrap();
            *count = 1;
            changed.notify_all();
            count = changed.wait_while(count, |count| *count != 2).unwrap();
            *count = 3;
            changed.notify_all();
        });
        let mut count = changed.wait_while(mutex.lock().unwrap(), |count| *count != 1).unwrap();
        *count = 2;
        changed.notify_one();
        count = changed.wait_while(count, |count| *count != 3).unwrap();
        drop(count);
        waiter.join().unwrap();
    }

    fn a_wait_for_a_condition_times_out_or_does_not() {
        let (mutex, changed) = (Mutex::new(()), Condvar::default());
        let begin = Instant::now();
        let locked = || mutex.lock().unwrap();
        let (guard, result) = changed.wait_timeout_while(locked(), short(), |()| true).unwrap();
        assert!(result.timed_out() && begin.elapsed() >= short());
        drop(guard);
        for timeout in [Duration::ZERO, Duration::from_nanos(1), short(), Duration::MAX] {
            let waited = changed.wait_timeout_while(locked(), timeout, |()| false);
            assert!(!waited.unwrap().1.timed_out());
        }
        let waited = changed.wait_timeout_while(locked(), Duration::ZERO, |()| true);
        assert!(waited.unwrap().1.timed_out());
        assert!(changed.wait_timeout(locked(), Duration::ZERO).unwrap().1.timed_out());
    }

    fn a_thread_that_waits_for_a_condition_gets_the_poison() {
        let (mutex, changed) = (Mutex::new(false), Condvar::new());
        let (locked, is_locked) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let guard = mutex.lock().unwrap();
                locked.send(()).unwrap();
                changed.wait_while(guard, |is_set| !*is_set).is_err()
            });
            assert!(panics(|| {
                is_locked.recv().unwrap();
                let mut is_set = mutex.lock().unwrap();
                *is_set = true;
                changed.notify_all();
                panic!("with the mutex");
            }));
            assert!(waiter.join().unwrap());
        });
        let guard = mutex.lock().unwrap_err().into_inner();
        let waited = changed.wait_timeout(guard, Duration::ZERO);
        assert!(waited.unwrap_err().into_inner().1.timed_out());
    }
}
