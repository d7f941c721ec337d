//! The recording part of locks that another language implements.

#![cfg(not(feature = "off"))]

use std::sync::{Mutex, mpsc};

use vor_capture::model::batch::FlowStage;
use vor_fixtures::own_process;
use vor_recorder::hot::scope::scope;
use vor_recorder::locks::foreign::{ForeignLock, ForeignName, LockerToken};
use vor_recorder::setup::Config;

use crate::locks_holds::check_holds;
use crate::locks_support::{Point, Recorded, Recording, named, read, start};

static LOCK: ForeignLock = ForeignLock::new();

fn place() -> ForeignName {
    ForeignName::Place("app.py", 12)
}

/// Waits for the lock, which the calling thread holds in the scope `holds`, on a thread `waiter`,
/// which gets it or gives up. `between` runs on the holder during the wait.
fn wait_once(gets_it: bool, between: impl FnOnce()) {
    let (begun, has_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    LOCK.locked(LockerToken::of_this_thread());
    let holds = scope("holds");
    let waiter = named("waiter", move || {
        let _around = scope("around");
        let token = LockerToken::of_this_thread();
        let wait = LOCK.begin_wait(place);
        begun.send(()).unwrap();
        may_go_on.recv().unwrap();
        if gets_it {
            LOCK.locked(token);
        }
        wait.end(gets_it);
        if gets_it {
            LOCK.unlocking(place);
        }
    });
    has_begun.recv().unwrap();
    between();
    go_on.send(()).unwrap();
    waiter.join().unwrap();
    drop(holds);
}

/// Returns the points of each flow, as the role of the thread and the stage, by stage.
fn stages(recording: &Recording) -> Vec<Vec<(&'static str, FlowStage)>> {
    let role = |thread: &str| {
        if thread == "waiter" {
            "waiter"
        } else {
            "holder"
        }
    };
    let mut flows: Vec<_> = recording.flows.values().collect();
    flows.sort_by_key(|points| points[0].1.ticks);
    let of = |points: &[(String, Point)]| {
        let mut stages: Vec<_> = points
            .iter()
            .map(|(name, point)| (role(name), point.stage))
            .collect();
        stages.sort_by_key(|(_, stage)| *stage as u32);
        stages
    };
    flows.into_iter().map(|points| of(points)).collect()
}

#[test]
fn a_wait_that_gets_the_lock_has_the_holder_and_an_arrow() {
    own_process!();
    let (_folder, path) = start(Config::new());
    wait_once(true, || LOCK.unlocking(place));
    let recording = read(&path);
    let waits: Vec<_> = recording.waits().collect();
    assert_eq!(waits.len(), 1);
    assert_eq!(
        (&*waits[0].name, &*waits[0].thread),
        ("wait: app.py:12", "waiter")
    );
    assert_eq!(
        (&*waits[0].args[0], &*waits[0].args[2]),
        ("app.py:12", "holds")
    );
    let ends = [("holder", FlowStage::Begin), ("waiter", FlowStage::End)];
    assert_eq!(stages(&recording), [ends]);
    assert_eq!(recording.dropped, 0);
}

#[test]
fn a_wait_that_gives_up_leaves_its_arrow_without_an_end() {
    own_process!();
    let (_folder, path) = start(Config::new());
    wait_once(false, || LOCK.unlocking(place));
    // Nobody waits any more, so this unlock begins no arrow.
    LOCK.locked(LockerToken::of_this_thread());
    LOCK.unlocking(place);
    let first = read(&path);
    assert_eq!(first.waits().count(), 1);
    assert_eq!(stages(&first), [[("holder", FlowStage::Begin)]]);
    // A later wait began after that unlock, which did not end it.
    wait_once(true, || {});
    assert_eq!(stages(&read(&path)), [[("holder", FlowStage::Begin)]]);
}

#[test]
fn holds_have_their_times_and_the_name_of_the_binding() {
    own_process!();
    static HELD: ForeignLock = ForeignLock::with_holds(true);
    static INNER: Mutex<()> = Mutex::new(());
    check_holds("app.py:12", |run| {
        let inner = INNER.lock().unwrap();
        HELD.locked(LockerToken::of_this_thread());
        run();
        HELD.unlocking(place);
        drop(inner);
    });
}

#[test]
fn the_child_of_a_fork_forgets_the_holder_and_the_waiters() {
    own_process!();
    let (_folder, path) = start(Config::new());
    // The fork loses a thread that waits.
    named("lost", || drop(LOCK.begin_wait(place)))
        .join()
        .unwrap();
    LOCK.locked(LockerToken::of_this_thread());
    LOCK.forget_threads();
    named("waiter", || LOCK.begin_wait(place).end(false))
        .join()
        .unwrap();
    LOCK.unlocking(place);
    let recording = read(&path);
    let of_waiter = |wait: &&Recorded| wait.thread == "waiter";
    let wait = recording.waits().find(of_waiter).unwrap();
    assert_eq!(wait.args, ["app.py:12", "released meanwhile", ""]);
    assert!(recording.flows.is_empty(), "nobody waits any more");
}

#[test]
fn a_notification_has_no_holder() {
    own_process!();
    LOCK.begin_notification(|| unreachable!("recording is off"))
        .end();
    let (_folder, path) = start(Config::new());
    LOCK.locked(LockerToken::of_this_thread());
    LOCK.begin_notification(|| ForeignName::Named("ready"))
        .end();
    let recording = read(&path);
    let waits: Vec<_> = recording.waits().collect();
    assert_eq!(waits.len(), 1);
    assert_eq!((&*waits[0].name, waits[0].args.len()), ("wait: ready", 0));
}
