//! How long locks are held, for those that record it.

#![cfg(not(feature = "off"))]

use std::cell::Cell;
use std::time::{Duration, Instant};

use vor_fixtures::own_process;
use vor_recorder::clock;
use vor_recorder::locks::condvar::Condvar;
use vor_recorder::locks::mutex::Mutex;
use vor_recorder::locks::rwlock::{RwLock, RwLockWriteGuard};
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

use crate::locks_support::{RecordedTask, Recording, read, start};

/// Ticks before a lock, within its hold, and after its unlock, in this order: each hold begins
/// between the first two and ends between the last two.
type Hold = [u64; 4];

const THREADS: u64 = 4;
const ROUNDS: u64 = 50;

/// Holds a lock once by `hold`, which runs what it gets while it holds the lock.
fn one(hold: &dyn Fn(&mut dyn FnMut())) -> Hold {
    let mut ticks = [clock::ticks(); 4];
    hold(&mut || {
        ticks[1] = clock::ticks();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(20) {
            std::hint::spin_loop();
        }
        ticks[2] = clock::ticks();
    });
    ticks[3] = clock::ticks();
    ticks
}

/// Checks that the holds of several threads are recorded with their times, and no others.
pub(crate) fn check_holds(name: &str, hold: impl Fn(&mut dyn FnMut()) + Sync) {
    let (recording, holds) = record_holds(hold);
    let found = compare(&recording, name, holds.into_iter().flatten().collect());
    for pair in found.windows(2) {
        assert!(pair[0].end_ticks <= pair[1].start_ticks, "{pair:?}");
    }
}

/// Checks the same of readers, which hold a lock at the same time. Each ends its hold on the thread
/// on which it began.
pub(crate) fn check_read_holds(name: &str, hold: impl Fn(&mut dyn FnMut()) + Sync) {
    let (recording, holds) = record_holds(hold);
    let name = format!("{name} to read");
    for (thread, holds) in holds.into_iter().enumerate() {
        let mut own = Recording::default();
        let tasks = recording.tasks.iter();
        let is_own = |(_, task): &(&u64, &RecordedTask)| task.thread == format!("{thread}");
        own.tasks = tasks
            .filter(is_own)
            .map(|(id, task)| (*id, task.clone()))
            .collect();
        compare(&own, &name, holds);
    }
}

/// Holds a lock on several threads, and returns the holds of each.
fn record_holds(hold: impl Fn(&mut dyn FnMut()) + Sync) -> (Recording, Vec<Vec<Hold>>) {
    let (_folder, path) = start(Config::new());
    let hold = &hold;
    let holds = std::thread::scope(|threads| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let builder = std::thread::Builder::new().name(format!("{thread}"));
                let work = move || -> Vec<Hold> {
                    let round = |_| {
                        profile_scope!("work");
                        one(&|run| hold(run))
                    };
                    (0..ROUNDS).map(round).collect()
                };
                builder.spawn_scoped(threads, work).unwrap()
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    });
    (read(&path), holds)
}

/// Checks that a recording has these holds of a lock, and returns them by their start.
pub(crate) fn compare<'a>(
    recording: &'a Recording,
    name: &str,
    mut expected: Vec<Hold>,
) -> Vec<&'a RecordedTask> {
    let name = format!("hold: {name}");
    let tasks = recording.tasks.values();
    let mut found: Vec<&RecordedTask> = tasks.filter(|task| task.name == name).collect();
    found.sort_by_key(|task| task.start_ticks);
    expected.sort_by_key(|times| times[1]);
    assert_eq!(found.len(), expected.len());
    for (task, [before, begun, ending, after]) in found.iter().zip(expected) {
        assert!((before..=begun).contains(&task.start_ticks), "{task:?}");
        assert!((ending..=after).contains(&task.end_ticks), "{task:?}");
    }
    found
}

#[test]
fn holds_of_a_mutex_have_their_times() {
    own_process!();
    static CACHE: Mutex<u64> = Mutex::named_with_holds("cache", 0);
    check_holds("cache", |run| {
        let mut cache = CACHE.lock().unwrap();
        run();
        *cache += 1;
    });
    assert_eq!(*CACHE.lock().unwrap(), THREADS * ROUNDS);
}

#[test]
fn holds_of_writers_have_their_times() {
    own_process!();
    static LIMIT: RwLock<u64> = RwLock::named_with_holds("limit", 0);
    check_holds("limit", |run| {
        let first = LIMIT.read().unwrap();
        let (second, tried) = (LIMIT.try_read(), *first);
        drop((first, second, tried));
        let mut limit = LIMIT.write().unwrap();
        run();
        *limit += 1;
    });
}

#[test]
fn holds_of_readers_have_their_times() {
    own_process!();
    static LIMIT: RwLock<u64> = RwLock::named_with_holds("limit", 0);
    static OTHER: RwLock<u64> = RwLock::named_with_holds("other", 0);
    check_read_holds("limit", |run| {
        let _other = OTHER.read().unwrap();
        drop(LIMIT.write().unwrap());
        let limit = LIMIT.read().unwrap();
        drop(OTHER.read().unwrap());
        run();
        drop(limit);
    });
}

#[test]
fn a_writer_that_goes_on_as_a_reader_has_two_holds() {
    own_process!();
    static LIMIT: RwLock<u64> = RwLock::named_with_holds("limit", 0);
    let (_folder, path) = start(Config::new());
    let between = Cell::new(0);
    let read_part = one(&|run| {
        let limit = LIMIT.write().unwrap();
        between.set(clock::ticks());
        let limit = RwLockWriteGuard::downgrade(limit);
        run();
        drop(limit);
    });
    let [before, begun, ending, after] = read_part;
    let between = between.get();
    let recording = read(&path);
    compare(&recording, "limit", vec![[before, between, between, begun]]);
    compare(
        &recording,
        "limit to read",
        vec![[between, begun, ending, after]],
    );
}

#[test]
fn a_thread_that_reads_many_locks_drops_the_oldest_hold() {
    own_process!();
    let locks = std::array::from_fn::<_, 20, _>(|_| RwLock::named_with_holds("page", 0));
    let (_folder, path) = start(Config::new());
    let (forgotten, locks) = locks.split_first().unwrap();
    std::mem::forget(forgotten.read());
    let mut guards = Vec::new();
    let mut holds: Vec<Hold> = Vec::new();
    for lock in locks {
        let before = clock::ticks();
        guards.push(Some(lock.read().unwrap()));
        holds.push([before, clock::ticks(), 0, 0]);
    }
    // Neither in the order in which they began nor in the opposite one.
    for at in (0..holds.len()).map(|at| at * 7 % locks.len()) {
        holds[at][2] = clock::ticks();
        drop(guards[at].take());
        holds[at][3] = clock::ticks();
    }
    let recording = read(&path);
    // A thread remembers 16: not the forgotten one, nor the three that began next.
    assert_eq!(recording.dropped, 4);
    compare(&recording, "page to read", holds.split_off(3));
}

#[test]
fn a_wait_for_a_condition_ends_a_hold_and_begins_another() {
    own_process!();
    let (_folder, path) = start(Config::new());
    static READY: Mutex<bool> = Mutex::named_with_holds("ready", false);
    static CHANGED: Condvar = Condvar::named("changed");
    let waiter = std::thread::spawn(|| {
        let ready = READY.lock().unwrap();
        drop(CHANGED.wait_while(ready, |ready| !*ready).unwrap());
    });
    std::thread::sleep(Duration::from_millis(50));
    let notified = clock::ticks();
    *READY.lock().unwrap() = true;
    CHANGED.notify_all();
    waiter.join().unwrap();
    let recording = read(&path);
    let holds = recording.tasks.values();
    let holds: Vec<_> = holds.filter(|task| task.name == "hold: ready").collect();
    // One of this thread, and two or more of the waiter, which may wake without a reason.
    assert!(holds.len() >= 3, "{holds:?}");
    let is_before = |task: &&&RecordedTask| task.end_ticks < notified;
    assert!(holds.iter().filter(is_before).count() >= 1, "{holds:?}");
    let crosses = |task: &&RecordedTask| task.start_ticks < notified && task.end_ticks > notified;
    assert!(!holds.iter().any(crosses), "{holds:?}");
}

#[test]
fn other_locks_and_pauses_of_the_recording_have_no_holds() {
    own_process!();
    static QUIET: Mutex<u64> = Mutex::named("quiet", 0);
    static LOUD: Mutex<u64> = Mutex::named_with_holds("loud", 0);
    // Before the recording, and across its begin.
    drop(LOUD.lock());
    let across = LOUD.lock().unwrap();
    let (_folder, path) = start(Config::new());
    drop(across);
    profile_scope!("work");
    drop(QUIET.lock());
    let mut expected = vec![one(&|run| {
        let _loud = LOUD.lock().unwrap();
        run();
    })];
    expected.push(one(&|run| {
        let _loud = LOUD.try_lock().unwrap();
        run();
    }));
    let recording = read(&path);
    assert_eq!(recording.tasks.len(), 2);
    compare(&recording, "loud", expected);
}
