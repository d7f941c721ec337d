//! The waits of condition variables: for a notification, and then for the mutex.

#![cfg(not(feature = "off"))]

use std::sync::mpsc;
use std::time::Duration;

use vor_fixtures::own_process;
use vor_recorder::hot::scope::scope;
use vor_recorder::locks::condvar::Condvar;
use vor_recorder::locks::mutex::Mutex;
use vor_recorder::profile_scope;
use vor_recorder::setup::{self, Config};

use crate::locks_support::{
    LENGTH, Recorded, Recording, assert_length, let_others_wait, named, read, start,
};

static IS_READY: Mutex<bool> = Mutex::named("state", false);
static READY: Condvar = Condvar::named("ready");

/// Waits on a thread `waiter` until [`IS_READY`] is set by `set`, which begins when the thread has
/// waited for [`LENGTH`].
fn wait_until(set: impl FnOnce()) {
    *IS_READY.lock().unwrap() = false;
    let (locked, is_locked) = mpsc::channel();
    let waiter = named("waiter", move || {
        profile_scope!("waits");
        let mut is_ready = IS_READY.lock().unwrap();
        locked.send(()).unwrap();
        while !*is_ready {
            is_ready = READY.wait(is_ready).unwrap();
        }
    });
    is_locked.recv().unwrap();
    let_others_wait();
    set();
    waiter.join().unwrap();
}

fn waits_for<'a>(recording: &'a Recording, name: &str) -> Vec<&'a Recorded> {
    recording.waits().filter(|wait| wait.name == name).collect()
}

#[test]
fn a_wait_for_a_notification_lasts_until_it_comes() {
    own_process!();
    let (_folder, path) = start(Config::new());
    wait_until(|| {
        *IS_READY.lock().unwrap() = true;
        READY.notify_one();
    });
    let recording = read(&path);
    let waits: Vec<_> = recording.waits().collect();
    assert_eq!(waits.len(), 1, "the mutex was free: {waits:?}");
    assert_eq!(waits[0].name, "wait: ready");
    assert_eq!(waits[0].thread, "waiter");
    assert!(waits[0].args.is_empty());
    assert_length(waits[0]);
}

#[test]
fn a_mutex_that_is_held_after_the_notification_is_a_wait_of_its_own() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let notifier = || {
        named("notifier", || {
            let _scope = scope("notifies and holds");
            let mut is_ready = IS_READY.lock().unwrap();
            *is_ready = true;
            READY.notify_all();
            let_others_wait();
        })
    };
    wait_until(|| notifier().join().unwrap());
    let recording = read(&path);
    let [notification] = waits_for(&recording, "wait: ready")[..] else {
        panic!("{recording:?}")
    };
    let [mutex] = waits_for(&recording, "wait: state")[..] else {
        panic!("{recording:?}")
    };
    assert_length(notification);
    assert_length(mutex);
    assert!(notification.end_ticks <= mutex.start_ticks);
    assert_eq!(mutex.args, ["state", "notifier", "notifies and holds"]);
}

#[test]
fn a_wait_that_times_out_lasts_as_long_as_its_timeout() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let waited = READY.wait_timeout_while(IS_READY.lock().unwrap(), LENGTH, |is_ready| !*is_ready);
    let (guard, result) = waited.unwrap();
    assert!(result.timed_out());
    drop(guard);
    let recording = read(&path);
    let waits = waits_for(&recording, "wait: ready");
    let total_ns = waits.iter().map(|wait| wait.duration_ns).sum();
    assert!(
        Duration::from_nanos(total_ns) >= LENGTH * 9 / 10,
        "{waits:?}"
    );
}

#[test]
fn nothing_is_recorded_without_a_wait() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let is_ready = || IS_READY.lock().unwrap();
    for _ in 0..100 {
        READY.notify_one();
        READY.notify_all();
        drop(READY.wait_while(is_ready(), |is_ready| *is_ready).unwrap());
        let waited = READY.wait_timeout_while(is_ready(), LENGTH, |is_ready| *is_ready);
        assert!(!waited.unwrap().1.timed_out());
    }
    setup::disable();
    let _ = READY.wait_timeout(is_ready(), Duration::from_millis(1));
    setup::enable();
    let recording = read(&path);
    recording.assert_empty();
}

#[test]
fn a_condition_variable_without_a_name_has_that_of_its_place() {
    own_process!();
    static LINE: u32 = line!() + 1;
    static HERE: Condvar = Condvar::new();
    let (_folder, path) = start(Config::new());
    let _ = HERE.wait_timeout(IS_READY.lock().unwrap(), Duration::from_millis(1));
    let recording = read(&path);
    let names: Vec<_> = recording.waits().map(|wait| wait.name.as_str()).collect();
    assert_eq!(names, [format!("wait: {}:{LINE}", file!())]);
}

/// Threads hand a token on for as long as a lost notification would take to be noticed.
#[test]
fn no_notification_is_lost() {
    own_process!();
    const THREADS: usize = 3;
    const TURNS: usize = 2_000;
    static TURN: Mutex<usize> = Mutex::named("turn", 0);
    static CHANGED: Condvar = Condvar::named("changed");
    let (_folder, path) = start(Config::new());
    std::thread::scope(|scope| {
        for me in 0..THREADS {
            scope.spawn(move || {
                for _ in 0..TURNS {
                    let is_other = |turn: &mut usize| *turn % THREADS != me;
                    let mut turn = CHANGED.wait_while(TURN.lock().unwrap(), is_other).unwrap();
                    *turn += 1;
                    drop(turn);
                    CHANGED.notify_all();
                }
            });
        }
    });
    assert_eq!(*TURN.lock().unwrap(), THREADS * TURNS);
    let recording = read(&path);
    assert!(!waits_for(&recording, "wait: changed").is_empty());
}
