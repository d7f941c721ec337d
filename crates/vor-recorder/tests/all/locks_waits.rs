//! The waits that locks record: their holders, waiters, durations and arrows.

#![cfg(not(feature = "off"))]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, mpsc};
use std::time::{Duration, Instant};

use vor_capture::model::batch::FlowStage;
use vor_fixtures::own_process;
use vor_fixtures::random::rounds;
use vor_recorder::clock;
use vor_recorder::hot::scope::scope;
use vor_recorder::hot::thread::{OpenThread, open_scopes};
use vor_recorder::locks::mutex::Mutex;
use vor_recorder::locks::rwlock::RwLock;
use vor_recorder::setup::Config;
use vor_recorder::{drain, profile_scope};

use crate::locks_support::{Point, Random, Recorded, let_others_wait, named, read, start};

const RELEASED: &str = "released meanwhile";

/// Returns the name of the innermost span around a moment.
fn scope_at<'a>(scopes: &[&'a Recorded], ticks: u64) -> Option<&'a str> {
    let begun = scopes.partition_point(|span| span.start_ticks <= ticks);
    let mut begun = scopes[..begun].iter().rev();
    let innermost = begun.find(|span| ticks <= span.end_ticks)?;
    Some(&innermost.name)
}

fn spin(duration: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < duration {
        std::hint::spin_loop();
    }
}

#[test]
fn an_uncontended_lock_records_nothing() {
    own_process!();
    let (_folder, path) = start(Config::new());
    static MUTEX: Mutex<u64> = Mutex::named("alone", 0);
    static LOCK: RwLock<u64> = RwLock::named("alone too", 0);
    for _ in 0..1_000 {
        profile_scope!("work");
        *MUTEX.lock().unwrap() += 1;
        *MUTEX.try_lock().unwrap() += 1;
        *LOCK.write().unwrap() += 1;
        let (_first, _second) = (LOCK.read().unwrap(), LOCK.try_read().unwrap());
        // A lock that is tried does not wait.
        let _held = MUTEX.lock().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(MUTEX.try_lock().is_err()));
        });
    }
    let recording = read(&path);
    assert_eq!(recording.spans.len(), 1_000);
    assert!(recording.spans.iter().all(|span| span.name == "work"));
    assert!(recording.flows.is_empty() && recording.dropped == 0);
}

/// One wait of a schedule.
struct Turn {
    holder_scope: usize,
    waiter_scope: usize,
    hold: Duration,
}

#[test]
fn holders_waiters_and_durations_are_those_of_the_schedule() {
    own_process!();
    static CACHE: Mutex<u64> = Mutex::named("cache", 0);
    check_schedule(3_000, || CACHE.lock().unwrap());
}

/// The waits of a schedule.
#[derive(Debug, Default)]
struct Found {
    /// Those that name the holder and its scope.
    right: usize,
    /// Those that found the lock released, because the waiter was descheduled.
    released: usize,
    /// Those of the first with the arrow of their holder.
    arrows: usize,
}

impl Found {
    fn is_right_enough(&self) -> bool {
        self.right * 1_000 >= 999 * (self.right + self.released)
    }
}

/// Runs random schedules, and checks that 99.9 % of the waits name their holder. A few turns cannot
/// show that if one of them is disturbed, so more of them decide then.
pub(crate) fn check_schedule<G: DerefMut<Target = u64>>(
    turn_count: usize,
    lock: impl Fn() -> G + Sync,
) {
    const MAX_SCHEDULES: u64 = 8;
    let mut all = Found::default();
    for seed in 0..MAX_SCHEDULES {
        let found = run_schedule(7 + seed, rounds(turn_count), &lock);
        all.right += found.right;
        all.released += found.released;
        all.arrows += found.arrows;
        println!("{all:?}");
        if all.is_right_enough() {
            break;
        }
    }
    assert!(all.is_right_enough());
    assert!(all.arrows * 100 >= 99 * all.right);
}

/// One thread holds the lock `cache` for a time and in a scope that a random schedule says, and
/// another one waits for it. They change places from turn to turn.
fn run_schedule<G: DerefMut<Target = u64>>(
    seed: u64,
    turn_count: usize,
    lock: &(impl Fn() -> G + Sync),
) -> Found {
    const SCOPES: [&str; 5] = ["evict", "insert", "", "look up", "write back"];
    const THREADS: [&str; 2] = ["left", "right"];
    let (_folder, path) = start(Config::new());
    let count_before = *lock();
    let mut random = Random(seed);
    let turns: Vec<Turn> = (0..turn_count)
        .map(|_| Turn {
            holder_scope: random.below(SCOPES.len() as u64) as usize,
            waiter_scope: random.below(SCOPES.len() as u64) as usize,
            // An interrupt of a virtual machine takes some tens of microseconds.
            hold: Duration::from_micros(100 + random.below(200)),
        })
        .collect();
    let barrier = Barrier::new(2);
    let is_waiting = AtomicBool::new(false);
    // Ticks of each turn: before the other waits, before the unlock, and at the end.
    let held: Vec<[AtomicU64; 3]> = turns.iter().map(|_| Default::default()).collect();
    std::thread::scope(|threads| {
        for (me, name) in THREADS.iter().enumerate() {
            let (turns, barrier, is_waiting, held) = (&turns, &barrier, &is_waiting, &held);
            let run = move || {
                for (at, turn) in turns.iter().enumerate() {
                    let is_holder = at % 2 == me;
                    let which = if is_holder {
                        turn.holder_scope
                    } else {
                        turn.waiter_scope
                    };
                    let open = || (!SCOPES[which].is_empty()).then(|| scope(SCOPES[which]));
                    if is_holder {
                        let _around = scope("around the holder");
                        let _scope = scope("holder");
                        let inner = open();
                        let guard = lock();
                        barrier.wait();
                        while !is_waiting.load(Ordering::Acquire) {
                            std::hint::spin_loop();
                        }
                        spin(turn.hold);
                        held[at][1].store(clock::ticks(), Ordering::Relaxed);
                        drop(guard);
                        drop(inner);
                    } else {
                        let _around = scope("waiter");
                        let _inner = open();
                        barrier.wait();
                        held[at][0].store(clock::ticks(), Ordering::Relaxed);
                        is_waiting.store(true, Ordering::Release);
                        *lock() += 1;
                    }
                    barrier.wait();
                    // A waiter that is descheduled after it has tried to lock begins its wait late.
                    if is_holder {
                        held[at][2].store(clock::ticks(), Ordering::Relaxed);
                    }
                    is_waiting.store(false, Ordering::Release);
                    barrier.wait();
                }
            };
            let builder = std::thread::Builder::new().name((*name).into());
            builder.spawn_scoped(threads, run).unwrap();
        }
    });
    let recording = read(&path);
    // The next schedule has a capture of its own.
    drain::close_capture().unwrap();
    let counted = *lock() - count_before;
    assert_eq!((counted, recording.dropped), (turn_count as u64, 0));

    // A waiter that is descheduled before it locks may find the lock free.
    let mut waits: Vec<&Recorded> = recording.waits().collect();
    waits.sort_by_key(|wait| wait.start_ticks);
    let mut found = waits.iter().peekable();
    let scopes = THREADS.map(|thread| recording.scopes_of(thread));
    let mut flows: Vec<_> = recording.flows.values().cloned().collect();
    let begin_of = |points: &[(String, Point)]| points[0].1.ticks;
    for points in &mut flows {
        points.sort_by_key(|(_, point)| (point.ticks, point.stage == FlowStage::End));
    }
    flows.sort_by_key(|points| begin_of(points));
    let (mut right, mut released, mut arrows) = (0, 0, 0);
    for (at, (turn, held)) in turns.iter().zip(&held).enumerate() {
        let [from, to, after] = held.each_ref().map(|ticks| ticks.load(Ordering::Relaxed));
        let Some(wait) = found.next_if(|wait| wait.start_ticks < after) else {
            continue;
        };
        assert_eq!(wait.name, "wait: cache");
        let (holder, waiter) = (THREADS[at % 2], THREADS[1 - at % 2]);
        let scope_or = |which: usize, other| match SCOPES[which] {
            "" => other,
            name => name,
        };
        assert_eq!(wait.thread, waiter, "turn {at}");
        assert_eq!(
            scope_at(&scopes[1 - at % 2], wait.start_ticks),
            Some(scope_or(turn.waiter_scope, "waiter"))
        );
        // No tolerance: the wait begins after the reading before it, and ends after the reading
        // within the hold.
        assert!(
            from <= wait.start_ticks && to <= wait.end_ticks,
            "turn {at}"
        );
        let [lock, thread, scope] = &wait.args[..] else {
            panic!("{wait:?}")
        };
        assert_eq!(lock, "cache");
        if thread == RELEASED {
            released += 1;
            continue;
        }
        let expected = (holder, scope_or(turn.holder_scope, "holder"));
        assert_eq!((thread.as_str(), scope.as_str()), expected, "turn {at}");
        right += 1;
        // The arrow begins within the hold, so it is the first one after the wait's begin.
        let flow = flows.partition_point(|points| begin_of(points) < wait.start_ticks);
        if let Some([(from, begin), (to, end)]) = flows.get(flow).map(Vec::as_slice) {
            let stages = (begin.stage, end.stage);
            arrows += usize::from(
                (from.as_str(), to.as_str()) == (holder, waiter)
                    && stages == (FlowStage::Begin, FlowStage::End)
                    && end.ticks <= wait.end_ticks,
            );
        }
    }
    assert!(found.next().is_none(), "every wait is one of the schedule");
    assert!(right + released >= turn_count / 2, "most turns have a wait");
    Found {
        right,
        released,
        arrows,
    }
}

#[test]
fn no_wait_names_a_scope_in_which_the_lock_was_not_held() {
    own_process!();
    static BUSY: Mutex<u64> = Mutex::named("busy", 0);
    check_names(|| BUSY.lock().unwrap());
}

/// The holder opens and closes scopes as fast as it can, inside and outside of its holds.
pub(crate) fn check_names<G: DerefMut<Target = u64>>(lock: impl Fn() -> G + Copy + Send + 'static) {
    let (_folder, path) = start(Config::new().ring_kib(4096));
    let is_done = &*Box::leak(Box::new(AtomicBool::new(false)));
    let holder = named("holder", move || {
        let mut random = Random(3);
        while !is_done.load(Ordering::Relaxed) {
            let _around = scope("outside around");
            {
                profile_scope!("inside");
                let mut guard = lock();
                for _ in 0..random.below(3) {
                    *guard += 1;
                    profile_scope!("inside deeper");
                }
            }
            for _ in 0..random.below(3) {
                profile_scope!("outside");
            }
        }
    });
    let waiter = named("waiter", move || {
        let begin = Instant::now();
        let mut locks = 0_u64;
        while begin.elapsed() < Duration::from_millis(rounds(2_000) as u64) {
            profile_scope!("waits");
            *lock() += 1;
            locks += 1;
        }
        is_done.store(true, Ordering::Relaxed);
        locks
    });
    let locks = waiter.join().unwrap();
    holder.join().unwrap();
    let recording = read(&path);
    let mut names: BTreeMap<(String, String), u64> = BTreeMap::new();
    for wait in recording.waits().filter(|wait| wait.thread == "waiter") {
        let [_, holder, scope] = &wait.args[..] else {
            panic!("{wait:?}")
        };
        *names.entry((holder.clone(), scope.clone())).or_default() += 1;
    }
    println!(
        "{locks} locks, {} dropped, waits: {names:?}",
        recording.dropped
    );
    for ((holder, scope), _) in names {
        let known = ["inside", "inside deeper", "unknown"];
        assert!(
            (holder == "holder" && known.contains(&scope.as_str()))
                || (holder == RELEASED && scope.is_empty())
                || holder.starts_with("(lost"),
            "{holder}, {scope}"
        );
    }
}

#[test]
fn a_crowd_of_readers_and_a_writer_name_each_other() {
    own_process!();
    static BUSY: RwLock<u64> = RwLock::named("crowded", 0);
    check_crowd(|| BUSY.read().unwrap(), || BUSY.write().unwrap());
}

/// Readers crowd a lock, also in each other's holds, and a writer comes between them.
pub(crate) fn check_crowd<R: Deref<Target = u64>, W: DerefMut<Target = u64>>(
    read_lock: impl Fn() -> R + Copy + Send + 'static,
    write_lock: impl Fn() -> W + Copy + Send + 'static,
) {
    const READERS: usize = 6;
    let (_folder, path) = start(Config::new().ring_kib(4096));
    let writes = rounds(2_000) as u64;
    let is_done = &*Box::leak(Box::new(AtomicBool::new(false)));
    let read_in_crowd = move || {
        let mut last = 0;
        while !is_done.load(Ordering::Relaxed) {
            {
                profile_scope!("outside");
            }
            profile_scope!("reads");
            let value = read_lock();
            // No value comes back.
            assert!(*value >= last, "{} after {last}", *value);
            last = *value;
            // Holds that last over a switch of threads overlap.
            std::thread::yield_now();
        }
    };
    let readers: Vec<_> = (0..READERS)
        .map(|reader| named(&format!("reader-{reader}"), read_in_crowd))
        .collect();
    let writer = named("writer", move || {
        for _ in 0..writes {
            {
                profile_scope!("outside");
            }
            profile_scope!("writes");
            let mut value = write_lock();
            *value += 1;
            std::thread::yield_now();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    writer.join().unwrap();
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    assert_eq!(*read_lock(), writes);
    let recording = read(&path);
    let mut names: BTreeMap<(String, String, String), u64> = BTreeMap::new();
    for wait in recording.waits() {
        let [_, holder, scope] = &wait.args[..] else {
            panic!("{wait:?}")
        };
        assert_ne!(holder, &wait.thread, "a thread waits for itself");
        let kind = wait
            .thread
            .trim_end_matches(|letter: char| letter.is_ascii_digit());
        let key = (kind.to_owned(), holder.clone(), scope.clone());
        *names.entry(key).or_default() += 1;
    }
    println!("{} dropped, waits: {names:?}", recording.dropped);
    let by = |waiter: &str| names.keys().filter(|key| key.0 == waiter).count();
    assert!(by("writer") > 0 && by("reader-") > 0, "{names:?}");
    for (waiter, holder, scope) in names.keys() {
        let is_right = match &**holder {
            "writer" => waiter != "writer" && ["writes", "unknown"].contains(&&**scope),
            RELEASED | "unknown" => scope.is_empty(),
            holder if holder.starts_with("reader-") => ["reads", "unknown"].contains(&&**scope),
            holder => holder.starts_with("(lost"),
        };
        assert!(is_right, "{waiter}, {holder}, {scope}");
    }
}

/// Returns when a thread of this process sleeps in a system call.
#[cfg(target_os = "linux")]
fn until_blocked(os_id: i32) {
    let path = format!("/proc/self/task/{os_id}/stat");
    let is_blocked = || {
        let stat = std::fs::read_to_string(&path).unwrap();
        stat.rsplit_once(')').unwrap().1.starts_with(" S")
    };
    while !is_blocked() {
        std::thread::yield_now();
    }
}

/// The waits of one thread, with a ring for the records of about twenty of them that nobody drains
/// meanwhile. Each wait is a span and the end of a flow that the holder has begun.
#[test]
#[cfg(target_os = "linux")]
fn recorded_and_dropped_waits_add_up_to_those_made() {
    own_process!();
    const WAITS: u64 = 300;
    static LOCK: Mutex<u64> = Mutex::named("contended", 0);
    let (_folder, path) = start(Config::new().ring_kib(4).inline_drain(true));
    let (to_waiter, from_holder) = mpsc::channel::<()>();
    let (to_holder, from_waiter) = mpsc::channel::<i32>();
    let waiter = named("waiter", move || {
        for () in from_holder {
            #[expect(unsafe_code, reason = "the thread's number is a system call")]
            // SAFETY: gettid takes nothing, touches no memory and cannot fail.
            let os_id = unsafe { libc::gettid() };
            to_holder.send(os_id).unwrap();
            *LOCK.lock().unwrap() += 1;
            to_holder.send(0).unwrap();
        }
    });
    let mut begun = 0;
    for turn in 0..WAITS {
        let guard = LOCK.lock().unwrap();
        to_waiter.send(()).unwrap();
        until_blocked(from_waiter.recv().unwrap());
        drop(guard);
        from_waiter.recv().unwrap();
        begun += 1;
        // The second half of the waits finds a ring that is full.
        if turn == WAITS / 2 {
            drain::flush();
        }
    }
    drop(to_waiter);
    waiter.join().unwrap();
    let recording = read(&path);
    let waits = recording.waits().count() as u64;
    let points = recording.flows.values().map(|points| points.len() as u64);
    let points: u64 = points.sum();
    let dropped = recording.dropped;
    println!("{waits} waits, {points} points of flows, {dropped} dropped");
    assert!(dropped > 0 && waits > 10);
    assert_eq!(waits, recording.spans.len() as u64);
    assert_eq!(waits + points + dropped, WAITS + WAITS + begun);
}

/// Returns when `count` threads have an innermost open scope of this name.
fn until_waits_are_open(name: &str, count: usize) {
    let begin = Instant::now();
    let waits = |thread: &OpenThread| thread.scopes.last().is_some_and(|open| open.name == name);
    while open_scopes().into_iter().filter(waits).count() < count {
        assert!(begin.elapsed() < Duration::from_secs(60), "nobody waits");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn every_contended_lock_is_a_wait_and_every_wait_has_a_waiter() {
    own_process!();
    const WAITERS: usize = 6;
    static LOCK: Mutex<u64> = Mutex::named("queue", 0);
    let (_folder, path) = start(Config::new());
    for _ in 0..50 {
        let guard = LOCK.lock().unwrap();
        let (ready, is_ready) = mpsc::channel();
        let waiters: Vec<_> = (0..WAITERS)
            .map(|at| {
                let ready = ready.clone();
                named(&format!("waiter {at}"), move || {
                    profile_scope!("waits");
                    ready.send(()).unwrap();
                    *LOCK.lock().unwrap() += 1;
                })
            })
            .collect();
        (0..WAITERS).for_each(|_| is_ready.recv().unwrap());
        until_waits_are_open("wait: queue", WAITERS);
        drop(guard);
        waiters
            .into_iter()
            .for_each(|waiter| waiter.join().unwrap());
    }
    let recording = read(&path);
    assert_eq!(
        (*LOCK.lock().unwrap(), recording.dropped),
        (50 * WAITERS as u64, 0)
    );
    assert_eq!(recording.waits().count(), 50 * WAITERS);
    // No flow ends twice, and each ends in a wait.
    for points in recording.flows.values() {
        let ends: Vec<_> = points
            .iter()
            .filter(|(_, point)| point.stage == FlowStage::End)
            .collect();
        assert!(ends.len() <= 1);
        for (thread, end) in ends {
            assert!(recording.waits().any(|wait| wait.thread == *thread
                && wait.start_ticks <= end.ticks
                && end.ticks <= wait.end_ticks));
        }
    }
}

/// Holds `lock` by `hold` in a scope of another thread while this thread waits by `wait`.
pub(crate) fn held_by_another<G>(hold: impl FnOnce() -> G + Send + 'static, wait: impl FnOnce()) {
    let (locked, is_locked) = mpsc::channel();
    let holder = named("holder", move || {
        profile_scope!("holds");
        let _guard = hold();
        locked.send(()).unwrap();
        let_others_wait();
    });
    is_locked.recv().unwrap();
    wait();
    holder.join().unwrap();
}

#[test]
fn readers_wait_for_a_writer_and_writers_for_a_reader() {
    own_process!();
    static LOCK: RwLock<u64> = RwLock::named("limits", 0);
    let (_folder, path) = start(Config::new());
    held_by_another(|| LOCK.write().unwrap(), || _ = *LOCK.read().unwrap());
    held_by_another(|| LOCK.write().unwrap(), || *LOCK.write().unwrap() += 1);
    held_by_another(|| LOCK.read().unwrap(), || *LOCK.write().unwrap() += 1);
    // A reader that has left is no holder, and another one may be.
    held_by_another(
        || {
            let first = LOCK.read().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| _ = *LOCK.read().unwrap());
            });
            first
        },
        || *LOCK.write().unwrap() += 1,
    );
    let recording = read(&path);
    let args: Vec<_> = recording.waits().map(|wait| wait.args.join(", ")).collect();
    assert_eq!(
        args,
        [
            "limits, holder, holds",
            "limits, holder, holds",
            "limits, holder, holds",
            "limits, unknown, "
        ]
    );
    let ends = recording.flows.values().filter(|points| points.len() == 2);
    assert_eq!(ends.count(), 4);
}

#[test]
fn a_lock_without_a_name_has_that_of_its_place() {
    own_process!();
    static LINE: u32 = line!() + 1;
    static LOCK: Mutex<u64> = Mutex::new(0);
    let (_folder, path) = start(Config::new());
    let local: &Mutex<u64> = Box::leak(Box::default());
    // Each use of a constant is another lock with the place of the constant.
    #[expect(clippy::declare_interior_mutable_const, reason = "it makes locks")]
    const MADE: RwLock<u64> = RwLock::new(0);
    const MADE_LINE: u32 = line!() - 1;
    static SOME: [RwLock<u64>; 2] = [MADE; 2];
    for lock in &SOME {
        held_by_another(|| lock.write().unwrap(), || *lock.write().unwrap() += 1);
        assert_eq!(*lock.read().unwrap(), 1);
    }
    held_by_another(|| LOCK.lock().unwrap(), || *LOCK.lock().unwrap() += 1);
    held_by_another(|| local.lock().unwrap(), || *local.lock().unwrap() += 1);
    let recording = read(&path);
    let names: BTreeSet<_> = recording.waits().map(|wait| wait.name.as_str()).collect();
    let [place, made] = [LINE, MADE_LINE].map(|line| format!("wait: {}:{line}", file!()));
    assert!(
        names.contains(place.as_str()) && names.contains(made.as_str()) && names.len() == 3,
        "{names:?}"
    );
    let args: Vec<_> = recording
        .waits()
        .map(|wait| wait.args[0].as_str())
        .collect();
    assert!(
        made.ends_with(args[0]) && made.ends_with(args[1]),
        "{args:?}"
    );
    assert!(place.ends_with(args[2]), "{args:?}");
}

#[test]
fn a_holder_without_a_scope_or_with_too_many_is_named_without_one() {
    own_process!();
    static LOCK: Mutex<u64> = Mutex::named("deep", 0);
    let (_folder, path) = start(Config::new());
    let hold = |depth: usize| {
        let (locked, is_locked) = mpsc::channel();
        let holder = named("holder", move || {
            let _scopes: Vec<_> = (0..depth).map(|_| scope("one of many")).collect();
            let _guard = LOCK.lock().unwrap();
            locked.send(()).unwrap();
            until_waits_are_open("wait: deep", 1);
            // The waiter looks for the holder just after its scope opened.
            let_others_wait();
        });
        is_locked.recv().unwrap();
        *LOCK.lock().unwrap() += 1;
        holder.join().unwrap();
    };
    [0, 1, 127, 128, 200].into_iter().for_each(hold);
    let recording = read(&path);
    let args: Vec<_> = recording.waits().map(|wait| wait.args.join(", ")).collect();
    assert_eq!(
        args,
        [
            "deep, holder, ",
            "deep, holder, one of many",
            "deep, holder, one of many",
            "deep, holder, unknown",
            "deep, holder, unknown"
        ]
    );
}

#[test]
fn waits_are_recorded_only_while_recording_is_on() {
    own_process!();
    static LOCK: Mutex<u64> = Mutex::named("sometimes", 0);
    let hold = || LOCK.lock().unwrap();
    // Locked before recording is on, and so by a thread that is not known.
    held_by_another(hold, || *LOCK.lock().unwrap() += 1);
    let (_folder, path) = start(Config::new());
    held_by_another(hold, || *LOCK.lock().unwrap() += 1);
    vor_recorder::setup::disable();
    held_by_another(hold, || *LOCK.lock().unwrap() += 1);
    vor_recorder::setup::enable();
    held_by_another(hold, || *LOCK.lock().unwrap() += 1);
    let recording = read(&path);
    assert_eq!(recording.waits().count(), 2);
    assert!(
        recording
            .waits()
            .all(|wait| wait.args == ["sometimes", "holder", "holds"])
    );
    assert_eq!(*LOCK.lock().unwrap(), 4);
}

#[test]
fn waits_are_counted_with_counted_scopes() {
    own_process!();
    static LOCK: Mutex<u64> = Mutex::named("counted", 0);
    Config::new().count_scopes(true).print_stats(false).enable();
    for _ in 0..3 {
        held_by_another(|| LOCK.lock().unwrap(), || *LOCK.lock().unwrap() += 1);
    }
    let stats = drain::stats();
    let wait = stats
        .iter()
        .find(|row| row.name == "wait: counted")
        .unwrap();
    assert_eq!(wait.count, 3);
    assert!(wait.total_ns > 60_000_000, "{wait:?}");
}

#[test]
fn waits_are_measured_with_the_other_scopes() {
    own_process!();
    static LOCK: Mutex<u64> = Mutex::named("measured", 0);
    let (_folder, path) = start(Config::new().cpu_time(true));
    held_by_another(|| LOCK.lock().unwrap(), || *LOCK.lock().unwrap() += 1);
    let recording = read(&path);
    let wait = recording.waits().next().unwrap();
    assert_eq!(wait.args[..3], ["measured", "holder", "holds"]);
    let off_cpu: u64 = wait.args[3]
        .trim_start_matches("U64(")
        .trim_end_matches(')')
        .parse()
        .unwrap();
    assert!(off_cpu > 10_000_000, "{wait:?}");
}
