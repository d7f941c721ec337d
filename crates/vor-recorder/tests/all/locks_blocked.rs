//! The waits for initialisations, barriers and permits.

#![cfg(not(feature = "off"))]

use std::sync::mpsc;
use std::time::Duration;

use vor_fixtures::own_process;
use vor_recorder::hot::scope::scope;
use vor_recorder::locks::barrier::Barrier;
use vor_recorder::locks::once::{Once, OnceLock};
use vor_recorder::locks::semaphore::{Semaphore, SemaphoreGuard};
use vor_recorder::setup::{self, Config};

use crate::locks_support::{LENGTH, Recording, assert_length, let_others_wait, named, read, start};

/// Runs `begin` on a thread `holder` in a scope `holds`. When it has sent, this thread runs `wait`.
fn while_another(begin: impl FnOnce(&mpsc::Sender<()>) + Send + 'static, wait: impl FnOnce()) {
    let (begun, has_begun) = mpsc::channel();
    let holder = named("holder", move || {
        let _scope = scope("holds");
        begin(&begun);
    });
    has_begun.recv().unwrap();
    wait();
    holder.join().unwrap();
}

/// Reports that the work has begun, and works until the other thread has waited for [`LENGTH`].
fn work(begun: &mpsc::Sender<()>) {
    begun.send(()).unwrap();
    let_others_wait();
}

fn names_and_args(recording: &Recording) -> Vec<(&str, String)> {
    let shown = recording.waits().map(|wait| {
        assert_length(wait);
        (wait.name.as_str(), wait.args.join(", "))
    });
    shown.collect()
}

#[test]
fn an_initialisation_is_waited_for_with_its_thread_and_scope() {
    own_process!();
    static ONCE: Once = Once::named("once");
    static SECOND: Once = Once::named("second");
    static CELL: OnceLock<u32> = OnceLock::named("cell");
    static TABLE: OnceLock<u32> = OnceLock::named("table");
    static LATER: OnceLock<u32> = OnceLock::named("later");
    let (_folder, path) = start(Config::new());
    while_another(
        |begun| ONCE.call_once(|| work(begun)),
        || ONCE.call_once(|| unreachable!()),
    );
    while_another(
        |begun| SECOND.call_once_force(|_| work(begun)),
        || SECOND.wait(),
    );
    let init = |begun: &mpsc::Sender<()>| {
        CELL.get_or_init(|| {
            work(begun);
            1
        });
    };
    while_another(init, || assert_eq!(CELL.get_or_init(|| unreachable!()), &1));
    let init = |begun: &mpsc::Sender<()>| {
        TABLE.get_or_init(|| {
            work(begun);
            1
        });
    };
    while_another(init, || assert_eq!(TABLE.set(2), Err(2)));
    let set = |begun: &mpsc::Sender<()>| {
        work(begun);
        LATER.set(3).unwrap();
    };
    while_another(set, || assert_eq!(LATER.wait(), &3));
    let recording = read(&path);
    assert_eq!(
        names_and_args(&recording),
        [
            ("wait: once", "once, holder, holds".into()),
            ("wait: second", "second, holder, holds".into()),
            ("wait: cell", "cell, holder, holds".into()),
            ("wait: table", "table, holder, holds".into()),
            ("wait: later", "later, nobody, ".into()),
        ]
    );
    // The three that go through the gate have an arrow. A thread that waits for the value alone may
    // see it before the arrow begins.
    let arrows = recording.flows.values().filter(|points| points.len() == 2);
    assert!((3..=5).contains(&arrows.count()));
}

#[test]
fn all_but_the_last_thread_of_a_barrier_wait() {
    own_process!();
    static BARRIER: Barrier = Barrier::named("round", 3);
    let (_folder, path) = start(Config::new());
    let threads = [1, 2].map(|at| named(&format!("thread {at}"), || BARRIER.wait().is_leader()));
    let_others_wait();
    assert!(BARRIER.wait().is_leader());
    assert_eq!(threads.map(|thread| thread.join().unwrap()), [false; 2]);
    let recording = read(&path);
    let none = String::new;
    assert_eq!(
        names_and_args(&recording),
        [("wait: round", none()), ("wait: round", none())]
    );
    assert!(
        recording
            .waits()
            .all(|wait| wait.thread.starts_with("thread "))
    );
}

#[test]
fn a_thread_without_a_permit_waits() {
    own_process!();
    static PERMITS: Semaphore = Semaphore::named("permits", 1);
    let (_folder, path) = start(Config::new());
    let hold = |begun: &mpsc::Sender<()>| {
        let _permit = PERMITS.acquire();
        work(begun);
    };
    while_another(hold, || drop(PERMITS.acquire()));
    let long = Duration::from_secs(60);
    while_another(hold, || assert!(PERMITS.acquire_timeout(long).is_some()));
    let _permit = PERMITS.acquire();
    assert!(PERMITS.acquire_timeout(LENGTH).is_none());
    let recording = read(&path);
    let waits = names_and_args(&recording);
    assert_eq!(waits, [(); 3].map(|()| ("wait: permits", String::new())));
}

#[test]
fn nothing_is_recorded_without_blocking() {
    own_process!();
    static ONCE: Once = Once::new();
    static BARRIER: Barrier = Barrier::new(1);
    static PERMITS: Semaphore = Semaphore::new(1);
    static CELL: OnceLock<u32> = OnceLock::new();
    let (_folder, path) = start(Config::new());
    for _ in 0..100 {
        ONCE.call_once(|| {});
        ONCE.wait();
        BARRIER.wait();
        assert_eq!(
            (CELL.get_or_init(|| 1), CELL.wait(), CELL.set(2)),
            (&1, &1, Err(2))
        );
        let _permit = PERMITS.acquire();
        assert!(PERMITS.try_acquire().is_none());
        assert!(PERMITS.acquire_timeout(Duration::ZERO).is_none());
    }
    setup::disable();
    let _permit = PERMITS.acquire();
    assert!(PERMITS.acquire_timeout(Duration::from_millis(1)).is_none());
    setup::enable();
    let recording = read(&path);
    recording.assert_empty();
}

#[test]
fn places_name_what_has_no_name() {
    own_process!();
    static LINE: u32 = line!() + 1;
    static PERMITS: Semaphore = Semaphore::new(0);
    let (_folder, path) = start(Config::new());
    assert!(PERMITS.acquire_timeout(Duration::from_millis(1)).is_none());
    let recording = read(&path);
    let names: Vec<_> = recording.waits().map(|wait| wait.name.as_str()).collect();
    assert_eq!(names, [format!("wait: {}:{LINE}", file!())]);
}

#[test]
fn permits_are_taken_and_given_back() {
    own_process!();
    static PERMITS: Semaphore = Semaphore::named("permits", 2);
    assert_eq!(format!("{PERMITS:?}"), "Semaphore { permits: 2, .. }");
    {
        let (_first, _second) = (PERMITS.acquire(), PERMITS.try_acquire().unwrap());
        assert_eq!(PERMITS.available_permits(), 0);
        assert!(PERMITS.try_acquire().is_none());
        assert!(PERMITS.acquire_timeout(Duration::from_millis(1)).is_none());
    }
    assert_eq!(PERMITS.available_permits(), 2);
    PERMITS.acquire().forget();
    PERMITS.release(2);
    assert_eq!(PERMITS.available_permits(), 3);
    PERMITS.release(usize::MAX);
    assert_eq!(PERMITS.available_permits(), usize::MAX);
    // A permit moves to another thread.
    let permit: SemaphoreGuard<'static> = PERMITS.acquire();
    named("other", move || drop(permit)).join().unwrap();
    assert_eq!(PERMITS.available_permits(), usize::MAX);
}

#[test]
fn several_permits_wake_several_threads() {
    own_process!();
    static PERMITS: Semaphore = Semaphore::named("permits", 0);
    let (_folder, path) = start(Config::new());
    let threads = [(); 3].map(|()| named("waiter", || PERMITS.acquire().forget()));
    let_others_wait();
    PERMITS.release(0);
    PERMITS.release(1);
    PERMITS.release(2);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(
        (PERMITS.available_permits(), read(&path).waits().count()),
        (0, 3)
    );
}

/// No more threads than permits are inside, and all come in.
#[test]
fn permits_bound_the_threads_that_are_inside() {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    own_process!();
    static PERMITS: Semaphore = Semaphore::named("permits", 2);
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    let (_folder, _path) = start(Config::new());
    let entered: usize = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| {
            scope.spawn(|| {
                let mut entered = 0;
                for turn in 0..2_000 {
                    let permit = match turn % 3 {
                        0 => PERMITS.try_acquire(),
                        1 => PERMITS.acquire_timeout(Duration::from_micros(10)),
                        _ => Some(PERMITS.acquire()),
                    };
                    if permit.is_some() {
                        assert!(INSIDE.fetch_add(1, SeqCst) < 2);
                        std::hint::spin_loop();
                        INSIDE.fetch_sub(1, SeqCst);
                        entered += 1;
                    }
                }
                entered
            })
        });
        threads
            .map(|thread| thread.join().unwrap())
            .into_iter()
            .sum()
    });
    assert!(entered >= 4 * 666);
    assert_eq!(PERMITS.available_permits(), 2);
}
