//! The waits for the locks of `parking_lot`: holders, waiters and arrows.

#![cfg(not(feature = "off"))]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use vor_capture::model::batch::FlowStage;
use vor_fixtures::own_process;
use vor_recorder::clock;
use vor_recorder::locks::parking_lot::{
    Condvar, FairMutex, Mutex, MutexGuard, Once, ReentrantMutex, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, const_mutex,
};
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

use crate::locks_holds::{check_holds, check_read_holds, compare};
use crate::locks_support::{LENGTH, Point, Recording, let_others_wait, named, read, start};
use crate::locks_waits::{check_crowd, check_names, check_schedule, held_by_another};

fn args(recording: &Recording) -> Vec<String> {
    recording.waits().map(|wait| wait.args.join(", ")).collect()
}

/// Returns the number of arrows that begin and end in a wait.
fn arrows(recording: &Recording) -> usize {
    let is_in_wait = |points: &&Vec<(String, Point)>| {
        let is_end = |(_, point): &&(String, Point)| point.stage == FlowStage::End;
        let Some((thread, _)) = points.iter().find(is_end) else {
            return false;
        };
        let mut waits = recording.waits().filter(|wait| wait.thread == *thread);
        waits.any(|wait| {
            let range = wait.start_ticks..=wait.end_ticks;
            points.iter().all(|(_, point)| range.contains(&point.ticks))
        })
    };
    recording.flows.values().filter(is_in_wait).count()
}

#[test]
fn holders_and_waiters_of_a_mutex_are_those_of_the_schedule() {
    own_process!();
    static CACHE: Mutex<u64> = Mutex::named("cache", 0);
    check_schedule(1_000, || CACHE.lock());
}

#[test]
fn holders_and_waiters_of_a_fair_mutex_are_those_of_the_schedule() {
    own_process!();
    static CACHE: FairMutex<u64> = FairMutex::named("cache", 0);
    check_schedule(1_000, || CACHE.lock());
}

#[test]
fn no_wait_names_a_scope_in_which_the_lock_was_not_held() {
    own_process!();
    static BUSY: Mutex<u64> = Mutex::named("busy", 0);
    check_names(|| BUSY.lock());
}

#[test]
fn a_crowd_of_readers_and_a_writer_name_each_other() {
    own_process!();
    static BUSY: RwLock<u64> = RwLock::named("crowded", 0);
    check_crowd(|| BUSY.read(), || BUSY.write());
}

#[test]
fn a_lock_that_is_free_or_tried_records_nothing() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let mutex = Mutex::named("alone", 0);
    let lock = RwLock::named("alone too", 0);
    let again = ReentrantMutex::named("again", 0);
    for _ in 0..1_000 {
        *mutex.lock() += 1;
        *lock.write() += 1;
        *RwLockUpgradableReadGuard::upgrade(lock.upgradable_read()) += 1;
        let (_first, _second) = (lock.read(), lock.upgradable_read());
        let (_outer, _inner) = (again.lock(), again.lock());
        let _held = mutex.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(mutex.try_lock().is_none() && lock.try_write().is_none());
                assert!(mutex.try_lock_for(Duration::ZERO).is_none());
                assert!(mutex.try_lock_until(Instant::now()).is_none());
                assert!(lock.try_write_for(Duration::ZERO).is_none());
                assert!(lock.try_upgradable_read().is_none() && again.try_lock().is_none());
            });
        });
    }
    read(&path).assert_empty();
}

#[test]
fn waits_by_every_way_to_lock_name_the_holder() {
    own_process!();
    static MUTEX: Mutex<u64> = Mutex::named("state", 0);
    static LOCK: RwLock<u64> = RwLock::named("limits", 0);
    static AGAIN: ReentrantMutex<u64> = ReentrantMutex::named("screen", 0);
    let (_folder, path) = start(Config::new());
    let long = LENGTH * 1_000;
    held_by_another(|| MUTEX.lock(), || *MUTEX.lock() += 1);
    held_by_another(|| MUTEX.lock(), || *MUTEX.try_lock_for(long).unwrap() += 1);
    let end = Instant::now() + long;
    held_by_another(|| MUTEX.lock(), || *MUTEX.try_lock_until(end).unwrap() += 1);
    held_by_another(|| LOCK.write(), || _ = *LOCK.read());
    held_by_another(|| LOCK.write(), || *LOCK.write() += 1);
    held_by_another(|| LOCK.read(), || *LOCK.try_write_for(long).unwrap() += 1);
    held_by_another(|| LOCK.upgradable_read(), || *LOCK.write() += 1);
    held_by_another(|| LOCK.upgradable_read(), || _ = *LOCK.upgradable_read());
    held_by_another(|| LOCK.write(), || _ = *LOCK.read_recursive());
    held_by_another(|| AGAIN.lock(), || _ = *AGAIN.lock());
    let recording = read(&path);
    let expected = [
        ["state, holder, holds"; 3].as_slice(),
        &["limits, holder, holds"; 6],
    ];
    let expected = [expected.concat(), vec!["screen, holder, holds"]].concat();
    assert_eq!(args(&recording), expected);
    assert_eq!(arrows(&recording), expected.len());
}

/// A thread that upgrades waits for the reader, and not for itself.
#[test]
fn an_upgrade_waits_for_the_readers() {
    own_process!();
    static LOCK: RwLock<u64> = RwLock::named("limits", 0);
    let (_folder, path) = start(Config::new());
    let upgrade = || {
        let guard = LOCK.upgradable_read();
        *RwLockUpgradableReadGuard::upgrade(guard) += 1;
    };
    // The reader comes first, and the thread that upgrades stores itself over it.
    held_by_another(|| LOCK.read(), upgrade);
    // The reader comes last.
    let guard = LOCK.upgradable_read();
    held_by_another(
        || LOCK.read(),
        || *RwLockUpgradableReadGuard::upgrade(guard) += 1,
    );
    assert_eq!(
        args(&read(&path)),
        ["limits, unknown, ", "limits, holder, holds"]
    );
}

/// A writer that becomes a reader is a holder still, and lets readers in.
#[test]
fn a_holder_that_downgrades_remains_one() {
    own_process!();
    static LOCK: RwLock<u64> = RwLock::named("limits", 0);
    let (_folder, path) = start(Config::new());
    held_by_another(
        || RwLockWriteGuard::downgrade(LOCK.write()),
        || *LOCK.write() += 1,
    );
    held_by_another(
        || RwLockWriteGuard::downgrade_to_upgradable(LOCK.write()),
        || *LOCK.write() += 1,
    );
    held_by_another(
        || RwLockUpgradableReadGuard::downgrade(LOCK.upgradable_read()),
        || *LOCK.write() += 1,
    );
    let writer = LOCK.write();
    let reader = named("reader", || _ = *LOCK.read());
    let_others_wait();
    let reading = RwLockWriteGuard::downgrade(writer);
    reader.join().unwrap();
    drop(reading);
    let recording = read(&path);
    assert_eq!(args(&recording)[..3], ["limits, holder, holds"; 3]);
    assert_eq!((recording.waits().count(), arrows(&recording)), (4, 4));
}

#[test]
fn a_wait_that_times_out_takes_no_arrow() {
    own_process!();
    static LOCK: Mutex<u64> = Mutex::named("state", 0);
    let (_folder, path) = start(Config::new());
    let short = Duration::from_millis(5);
    held_by_another(
        || LOCK.lock(),
        || assert!(LOCK.try_lock_for(short).is_none()),
    );
    held_by_another(|| LOCK.lock(), || *LOCK.lock() += 1);
    *LOCK.lock() += 1;
    let recording = read(&path);
    assert_eq!(args(&recording), ["state, holder, holds"; 2]);
    assert!(recording.waits().next().unwrap().duration_ns >= 5_000_000);
    // No unlock takes a thread that has given up for one that waits.
    assert_eq!((arrows(&recording), recording.flows.len()), (1, 1));
}

#[test]
fn an_upgrade_that_times_out_leaves_a_holder() {
    own_process!();
    static LOCK: RwLock<u64> = RwLock::named("limits", 0);
    let (_folder, path) = start(Config::new());
    let upgrade = || {
        let guard = LOCK.upgradable_read();
        let failed = RwLockUpgradableReadGuard::try_upgrade_for(guard, Duration::from_millis(5));
        let guard = failed.err().unwrap();
        let writer = named("writer", || *LOCK.write() += 1);
        let_others_wait();
        drop(guard);
        writer
    };
    let upgrader = named("upgrader", move || {
        profile_scope!("reads on");
        let mut writer = None;
        held_by_another(|| LOCK.read(), || writer = Some(upgrade()));
        writer.unwrap().join().unwrap();
    });
    upgrader.join().unwrap();
    let recording = read(&path);
    let mut waits: Vec<_> = recording.waits().collect();
    waits.sort_by_key(|wait| wait.start_ticks);
    let found: Vec<_> = waits.iter().map(|wait| wait.args.join(", ")).collect();
    assert_eq!(found, ["limits, unknown, ", "limits, upgrader, reads on"]);
}

#[test]
fn a_lock_without_a_name_has_that_of_its_place() {
    own_process!();
    static LINE: u32 = line!() + 1;
    static LOCK: Mutex<u64> = const_mutex(0);
    static NEW: RwLock<u64> = RwLock::new(0);
    let (_folder, path) = start(Config::new());
    let local: &FairMutex<u64> = Box::leak(Box::new(FairMutex::default()));
    held_by_another(|| LOCK.lock(), || *LOCK.lock() += 1);
    held_by_another(|| NEW.write(), || *NEW.write() += 1);
    held_by_another(|| local.lock(), || *local.lock() += 1);
    let recording = read(&path);
    let names: Vec<_> = recording.waits().map(|wait| wait.name.as_str()).collect();
    let at = [LINE, LINE + 1, LINE + 3].map(|line| format!("wait: {}:{line}", file!()));
    assert_eq!(names, at);
}

#[test]
fn a_notification_and_the_mutex_afterwards_are_two_waits() {
    own_process!();
    static IS_READY: Mutex<bool> = Mutex::named("state", false);
    static READY: Condvar = Condvar::named("ready");
    let (_folder, path) = start(Config::new());
    let (locked, is_locked) = mpsc::channel();
    let waiter = named("waiter", move || {
        let mut is_ready = IS_READY.lock();
        locked.send(()).unwrap();
        READY.wait_while(&mut is_ready, |is_ready| !*is_ready);
        assert!(
            READY
                .wait_for(&mut is_ready, Duration::from_millis(5))
                .timed_out()
        );
    });
    is_locked.recv().unwrap();
    let_others_wait();
    let notifier = named("notifier", || {
        profile_scope!("notifies and holds");
        let mut is_ready = IS_READY.lock();
        *is_ready = true;
        assert!(READY.notify_one());
        let_others_wait();
        MutexGuard::unlock_fair(is_ready);
    });
    notifier.join().unwrap();
    waiter.join().unwrap();
    let recording = read(&path);
    let mut waits: Vec<_> = recording.waits().collect();
    waits.sort_by_key(|wait| wait.start_ticks);
    let found: Vec<_> = waits
        .iter()
        .map(|wait| (wait.name.as_str(), wait.args.join(", ")))
        .collect();
    let mutex = "state, notifier, notifies and holds".to_owned();
    let none = String::new;
    assert_eq!(
        found,
        [
            ("wait: ready", none()),
            ("wait: state", mutex),
            ("wait: ready", none())
        ]
    );
    assert!(waits[1].duration_ns as u128 >= LENGTH.as_nanos() / 2);
}

#[test]
fn threads_that_come_during_an_initialisation_wait_for_it() {
    own_process!();
    static START: Once = Once::named("start");
    let (_folder, path) = start(Config::new());
    let (begun, has_begun) = mpsc::channel();
    let first = named("first", move || {
        profile_scope!("initialises");
        START.call_once(|| {
            begun.send(()).unwrap();
            std::thread::sleep(LENGTH);
        });
    });
    has_begun.recv().unwrap();
    START.call_once(|| unreachable!());
    first.join().unwrap();
    assert_eq!(args(&read(&path)), ["start, first, initialises"]);
}

#[test]
fn holds_of_a_mutex_have_their_times() {
    own_process!();
    static PAGES: Mutex<u64> = Mutex::named_with_holds("pages", 0);
    check_holds("pages", |run| {
        let mut pages = PAGES.lock();
        run();
        *pages += 1;
    });
}

#[test]
fn holds_of_a_writer_end_where_it_becomes_a_reader() {
    own_process!();
    static LIMIT: RwLock<u64> = RwLock::named_with_holds("limit", 0);
    check_holds("limit", |run| {
        // One after the other: a reader that waits for the upgradable lock stops an upgrade.
        drop(LIMIT.read());
        drop(LIMIT.upgradable_read());
        let mut limit = RwLockUpgradableReadGuard::upgrade(LIMIT.upgradable_read());
        run();
        *limit += 1;
        drop(RwLockWriteGuard::downgrade(limit));
    });
}

#[test]
fn holds_of_readers_have_their_times() {
    own_process!();
    static LIMIT: RwLock<u64> = RwLock::named_with_holds("limit", 0);
    let round = AtomicUsize::new(0);
    check_read_holds("limit", |run| {
        drop(LIMIT.write());
        match round.fetch_add(1, Ordering::Relaxed) % 3 {
            0 => {
                let limit = LIMIT.read();
                run();
                drop(limit);
            }
            1 => {
                let limit = RwLockReadGuard::map(LIMIT.read_recursive(), |limit| limit);
                run();
                drop(limit);
            }
            _ => {
                let limit = LIMIT.upgradable_read();
                run();
                drop(limit);
            }
        }
    });
}

/// A reader that becomes a writer, or another kind of reader, ends one hold and begins another.
#[test]
fn an_upgrade_ends_the_hold_of_a_reader() {
    own_process!();
    static LIMIT: RwLock<u64> = RwLock::named_with_holds("limit", 0);
    let (_folder, path) = start(Config::new());
    let start = clock::ticks();
    let limit = LIMIT.upgradable_read();
    let upgradable = clock::ticks();
    let other = LIMIT.read();
    let read_twice = clock::ticks();
    let limit = RwLockUpgradableReadGuard::try_upgrade(limit).unwrap_err();
    drop(other);
    let alone = clock::ticks();
    let limit = RwLockUpgradableReadGuard::upgrade(limit);
    let writing = clock::ticks();
    let limit = RwLockWriteGuard::downgrade_to_upgradable(limit);
    let upgradable_again = clock::ticks();
    let limit = RwLockUpgradableReadGuard::downgrade(limit);
    let reading = clock::ticks();
    drop(limit);
    let end = clock::ticks();
    let recording = read(&path);
    let write = [alone, writing, writing, upgradable_again];
    compare(&recording, "limit", vec![write]);
    let reads = [
        [start, upgradable, alone, writing],
        [upgradable, read_twice, read_twice, alone],
        [writing, upgradable_again, upgradable_again, reading],
        [upgradable_again, reading, reading, end],
    ];
    compare(&recording, "limit to read", reads.to_vec());
}

#[test]
fn an_upgrade_that_waits_ends_the_hold_of_a_reader() {
    own_process!();
    static LIMIT: RwLock<u64> = RwLock::named_with_holds("limit", 0);
    let (_folder, path) = start(Config::new());
    let limit = LIMIT.upgradable_read();
    let mut times = [clock::ticks(); 3];
    held_by_another(
        || LIMIT.read(),
        || {
            times[1] = clock::ticks();
            let limit = RwLockUpgradableReadGuard::upgrade(limit);
            times[2] = clock::ticks();
            drop(limit);
        },
    );
    let [begun, waits, writing] = times;
    let recording = read(&path);
    let reads = recording.ended_tasks();
    let mut reads = reads
        .iter()
        .filter(|task| task.name == "hold: limit to read");
    let (first, second) = (reads.next().unwrap(), reads.next().unwrap());
    assert!(first.start_ticks < begun && second.start_ticks < waits);
    assert!((waits..=writing).contains(&first.end_ticks), "{first:?}");
    assert!((waits..=writing).contains(&second.end_ticks), "{second:?}");
    compare(
        &recording,
        "limit",
        vec![[waits, writing, writing, clock::ticks()]],
    );
}

#[test]
fn an_upgrade_that_fails_in_time_leaves_the_hold_of_a_reader() {
    own_process!();
    static LIMIT: RwLock<u64> = RwLock::named_with_holds("limit", 0);
    let (_folder, path) = start(Config::new());
    let before = clock::ticks();
    let limit = LIMIT.upgradable_read();
    let begun = clock::ticks();
    let mut limit = Some(limit);
    held_by_another(
        || LIMIT.read(),
        || {
            let upgradable = limit.take().unwrap();
            let upgraded =
                RwLockUpgradableReadGuard::try_upgrade_for(upgradable, Duration::from_millis(5));
            limit = Some(upgraded.unwrap_err());
        },
    );
    let ending = clock::ticks();
    drop(limit);
    let after = clock::ticks();
    let mut recording = read(&path);
    recording.tasks.retain(|_, task| task.end_ticks >= ending);
    compare(
        &recording,
        "limit to read",
        vec![[before, begun, ending, after]],
    );
}
