//! How long locks are held, for those that record it.

#![cfg(not(feature = "off"))]

use std::sync::Mutex as Plain;
use std::time::{Duration, Instant};

use vor_fixtures::own_process;
use vor_recorder::clock;
use vor_recorder::locks::condvar::Condvar;
use vor_recorder::locks::mutex::Mutex;
use vor_recorder::locks::rwlock::RwLock;
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
    let (_folder, path) = start(Config::new());
    let holds = Plain::new(Vec::new());
    std::thread::scope(|threads| {
        for _ in 0..THREADS {
            threads.spawn(|| {
                for _ in 0..ROUNDS {
                    profile_scope!("work");
                    let times = one(&|run| hold(run));
                    holds.lock().unwrap().push(times);
                }
            });
        }
    });
    compare(&read(&path), name, holds.into_inner().unwrap());
}

fn compare(recording: &Recording, name: &str, mut expected: Vec<Hold>) {
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
    for pair in found.windows(2) {
        assert!(pair[0].end_ticks <= pair[1].start_ticks, "{pair:?}");
    }
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
fn holds_of_writers_have_their_times_and_readers_have_none() {
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
