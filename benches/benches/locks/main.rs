//! The cost of locks and channels that do not block, beside those of the standard library and of
//! the crates `parking_lot`, `crossbeam-channel`, `flume` and `tokio`: lock and unlock, send and
//! receive, with recording off and on. Then two threads that share a lock, and two that wake each
//! other. `waits` has the cost of a wait.
//!
//! With the feature `locks-peers`, other profilers of locks take part: `peers`.
//!
//! An argument such as `parking_lot` runs the contests of that name alone.
//!
//! The contestants of a round run within the same hundred microseconds, so a neighbour slows all of
//! them. The figures are medians over rounds.

#![expect(clippy::unwrap_used, reason = "nothing poisons these locks")]

#[cfg(feature = "locks-peers")]
mod peers;
mod tokio;
mod waits;

use std::hint::black_box;
use std::sync::{Barrier, Condvar, Mutex, OnceLock, RwLock, mpsc};

use vor::sync::{self, channel};
use vor_benches::rounds::{Loop, Times, contest};
use vor_benches::work::chain;

/// Rounds of each contest.
const ROUNDS: usize = 3_000;
/// Rounds of the contests of two threads.
const CONTENDED_ROUNDS: usize = 300;
/// Passes of a contestant in a round.
const ITERATIONS: u32 = 4_000;
/// Passes in which each of two threads blocks.
const BLOCKED_ITERATIONS: u32 = 200;

/// Makes a loop around one pass.
fn timed<'a>(mut pass: impl FnMut() + 'a) -> Loop<'a> {
    Box::new(move |iterations| (0..iterations).for_each(|_| pass()))
}

fn print(state: &str, names: &[&str], times: &[Times]) {
    // Each pair is a lock of another library and ours.
    for (names, times) in names.chunks(2).zip(times.chunks(2)) {
        let ([theirs, ours], [name, our_name]) = (times, names) else {
            continue;
        };
        println!("{state:<4} {name:<24} {:6.2} ns", theirs.median_ns());
        println!(
            "{state:<4} {our_name:<24} {:6.2} ns, {:5.3} × theirs, {:+.2} ns",
            ours.median_ns(),
            ours.ratio_to(theirs),
            ours.more_than_ns(theirs)
        );
    }
}

fn run(state: &str) {
    let (std_mutex, mutex) = (&Mutex::new(0_u64), &sync::Mutex::new(0_u64));
    let (std_lock, lock) = (&RwLock::new(0_u64), &sync::RwLock::new(0_u64));
    let names = [
        "std Mutex::lock",
        "vor Mutex::lock",
        "std Mutex::try_lock",
        "vor Mutex::try_lock",
        "std RwLock::read",
        "vor RwLock::read",
        "std RwLock::write",
        "vor RwLock::write",
    ];
    let mut loops = [
        timed(|| *black_box(std_mutex).lock().unwrap() += 1),
        timed(|| *black_box(mutex).lock().unwrap() += 1),
        timed(|| *black_box(std_mutex).try_lock().unwrap() += 1),
        timed(|| *black_box(mutex).try_lock().unwrap() += 1),
        timed(|| _ = black_box(*black_box(std_lock).read().unwrap())),
        timed(|| _ = black_box(*black_box(lock).read().unwrap())),
        timed(|| *black_box(std_lock).write().unwrap() += 1),
        timed(|| *black_box(lock).write().unwrap() += 1),
    ];
    let times = contest(ROUNDS, ITERATIONS, &mut loops, ROUNDS, &mut || {});
    print(state, &names, &times);
}

fn run_others(state: &str) {
    let (std_cell, cell) = (&OnceLock::new(), &sync::OnceLock::new());
    let (std_changed, changed) = (&Condvar::new(), &sync::Condvar::new());
    let (std_barrier, barrier) = (&Barrier::new(1), &sync::Barrier::new(1));
    // A semaphore of the standard library's parts.
    let (std_permits, std_released) = (&Mutex::new(1_usize), &Condvar::new());
    let permits = &sync::Semaphore::new(1);
    let names = [
        "std OnceLock, a value",
        "vor OnceLock, a value",
        "std notify_one, nobody",
        "vor notify_one, nobody",
        "std Barrier of 1",
        "vor Barrier of 1",
        "std Mutex and Condvar",
        "vor Semaphore",
    ];
    let mut loops = [
        timed(|| _ = black_box(black_box(std_cell).get_or_init(|| 1))),
        timed(|| _ = black_box(black_box(cell).get_or_init(|| 1))),
        timed(|| black_box(std_changed).notify_one()),
        timed(|| black_box(changed).notify_one()),
        timed(|| _ = black_box(std_barrier).wait()),
        timed(|| _ = black_box(barrier).wait()),
        timed(|| {
            *black_box(std_permits).lock().unwrap() -= 1;
            *black_box(std_permits).lock().unwrap() += 1;
            black_box(std_released).notify_one();
        }),
        timed(|| drop(black_box(permits).acquire())),
    ];
    let times = contest(ROUNDS, ITERATIONS / 4, &mut loops, ROUNDS, &mut || {});
    print(state, &names, &times);
}

/// A message of the contest `N`. With a type per contest, the code of each channel has one user, as
/// in a program that uses the channel in one way: the compiler puts it there. See [`Shared`].
struct Message<const N: usize>(u64);

fn run_channels(state: &str) {
    let (std_sender, std_receiver) = mpsc::channel();
    let (sender, receiver) = channel::channel();
    let (std_polled, std_polled_receiver) = mpsc::channel();
    let (polled, polled_receiver) = channel::channel();
    let (std_shared, std_shared_receiver) = mpsc::channel();
    let (shared, shared_receiver) = channel::channel();
    std_shared.send(Shared(1)).unwrap();
    shared.send(Shared(1)).unwrap();
    black_box((
        std_shared_receiver.try_recv().unwrap(),
        shared_receiver.try_recv().unwrap(),
    ));
    let (std_other, std_other_receiver) = mpsc::channel();
    let (other, other_receiver) = channel::channel();
    // Four threads have counts of their own before, here threads that have ended.
    let all_have_sent = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                std_other.send(Message::<2>(0)).unwrap();
                other.send(Message::<2>(0)).unwrap();
                all_have_sent.wait();
            });
        }
    });
    let (std_bounded, std_bounded_receiver) = mpsc::sync_channel(16);
    let (bounded, bounded_receiver) = channel::sync_channel(16);
    let names = [
        "std send, recv",
        "vor send, recv",
        "std send, try_recv",
        "vor send, try_recv",
        "std, shared code",
        "vor, shared code",
        "std, a fifth thread",
        "vor, a fifth thread",
        "std bounded send, recv",
        "vor bounded send, recv",
        "std channel for 1 message",
        "vor channel for 1 message",
        "std clone and drop",
        "vor clone and drop",
    ];
    let mut loops = [
        timed(|| {
            black_box(&std_sender).send(Message::<0>(1)).unwrap();
            black_box(black_box(&std_receiver).recv().unwrap().0);
        }),
        timed(|| {
            black_box(&sender).send(Message::<0>(1)).unwrap();
            black_box(black_box(&receiver).recv().unwrap().0);
        }),
        timed(|| {
            black_box(&std_polled).send(Message::<1>(1)).unwrap();
            black_box(black_box(&std_polled_receiver).try_recv().unwrap().0);
        }),
        timed(|| {
            black_box(&polled).send(Message::<1>(1)).unwrap();
            black_box(black_box(&polled_receiver).try_recv().unwrap().0);
        }),
        timed(|| {
            black_box(&std_shared).send(Shared(1)).unwrap();
            black_box(black_box(&std_shared_receiver).recv().unwrap().0);
        }),
        timed(|| {
            black_box(&shared).send(Shared(1)).unwrap();
            black_box(black_box(&shared_receiver).recv().unwrap().0);
        }),
        timed(|| {
            black_box(&std_other).send(Message::<2>(1)).unwrap();
            black_box(black_box(&std_other_receiver).recv().unwrap().0);
        }),
        timed(|| {
            black_box(&other).send(Message::<2>(1)).unwrap();
            black_box(black_box(&other_receiver).recv().unwrap().0);
        }),
        timed(|| {
            black_box(&std_bounded).send(Message::<3>(1)).unwrap();
            black_box(black_box(&std_bounded_receiver).recv().unwrap().0);
        }),
        timed(|| {
            black_box(&bounded).send(Message::<3>(1)).unwrap();
            black_box(black_box(&bounded_receiver).recv().unwrap().0);
        }),
        timed(|| {
            let (sender, receiver) = mpsc::channel();
            sender.send(Message::<4>(1)).unwrap();
            black_box(receiver.recv().unwrap().0);
        }),
        timed(|| {
            let (sender, receiver) = channel::channel();
            sender.send(Message::<4>(1)).unwrap();
            black_box(receiver.recv().unwrap().0);
        }),
        timed(|| drop(black_box(&std_sender).clone())),
        timed(|| drop(black_box(&sender).clone())),
    ];
    let times = contest(ROUNDS, ITERATIONS / 4, &mut loops, ROUNDS, &mut || {});
    print(state, &names, &times);
}

/// Two threads that send a message to and fro: each blocks until the other has answered.
macro_rules! ping_pong {
    ($channel:path) => {
        Box::new(|iterations| {
            let ((ping, pinged), (pong, ponged)) = ($channel(), $channel());
            std::thread::scope(|scope| {
                scope.spawn(move || pinged.iter().for_each(|i: u32| pong.send(i).unwrap()));
                for i in 0..iterations {
                    ping.send(i).unwrap();
                    black_box(ponged.recv().unwrap());
                }
                drop(ping);
            });
            vor::flush();
        })
    };
}

fn run_parking_lot(state: &str) {
    use parking_lot as pl;
    use vor::sync::parking_lot as ours;

    let (pl_mutex, mutex) = (&pl::Mutex::new(0_u64), &ours::Mutex::new(0_u64));
    let (pl_lock, lock) = (&pl::RwLock::new(0_u64), &ours::RwLock::new(0_u64));
    let (pl_changed, changed) = (&pl::Condvar::new(), &ours::Condvar::new());
    let names = [
        "parking_lot Mutex::lock",
        "vor Mutex::lock",
        "parking_lot try_lock",
        "vor try_lock",
        "parking_lot RwLock::read",
        "vor RwLock::read",
        "parking_lot RwLock::write",
        "vor RwLock::write",
        "parking_lot notify_one",
        "vor notify_one, nobody",
    ];
    let mut loops = [
        timed(|| *black_box(pl_mutex).lock() += 1),
        timed(|| *black_box(mutex).lock() += 1),
        timed(|| *black_box(pl_mutex).try_lock().unwrap() += 1),
        timed(|| *black_box(mutex).try_lock().unwrap() += 1),
        timed(|| _ = black_box(*black_box(pl_lock).read())),
        timed(|| _ = black_box(*black_box(lock).read())),
        timed(|| *black_box(pl_lock).write() += 1),
        timed(|| *black_box(lock).write() += 1),
        timed(|| _ = black_box(pl_changed).notify_one()),
        timed(|| _ = black_box(changed).notify_one()),
    ];
    let times = contest(ROUNDS, ITERATIONS, &mut loops, ROUNDS, &mut || {});
    print(state, &names, &times);
    let add_theirs = || {
        let mut count = pl_mutex.lock();
        *count = black_box(chain(*count, 50));
    };
    let add = || {
        let mut count = mutex.lock();
        *count = black_box(chain(*count, 50));
    };
    let mut loops = [two_threads(&add_theirs), two_threads(&add)];
    let times = contest(CONTENDED_ROUNDS, ITERATIONS, &mut loops, ROUNDS, &mut || {});
    print(
        state,
        &["parking_lot, two threads", "vor, two threads"],
        &times,
    );
}

/// Contests of the channels of a crate: in one thread, between two, and with a flow per message.
macro_rules! run_channels_of {
    ($run:ident, $name:literal, $theirs:ident, $ours:path) => {
        fn $run(state: &str) {
            use $ours as ours;

            let (their_sender, their_receiver) = $theirs::unbounded();
            let (sender, receiver) = ours::unbounded();
            let (their_bounded, their_bounded_receiver) = $theirs::bounded(16);
            let (bounded, bounded_receiver) = ours::bounded(16);
            let (their_shared, their_shared_receiver) = $theirs::unbounded();
            let (shared, shared_receiver) = ours::unbounded();
            their_shared.try_send(Shared(1)).unwrap();
            shared.try_send(Shared(1)).unwrap();
            black_box((
                their_shared_receiver.try_recv().unwrap(),
                shared_receiver.try_recv().unwrap(),
            ));
            let names = [
                concat!($name, " send, recv"),
                "vor send, recv",
                concat!($name, ", shared code"),
                "vor, shared code",
                concat!($name, " bounded"),
                "vor bounded",
                concat!($name, " clone, drop"),
                "vor clone, drop",
            ];
            let mut loops = [
                timed(|| {
                    black_box(&their_sender).send(Message::<0>(1)).unwrap();
                    black_box(black_box(&their_receiver).recv().unwrap().0);
                }),
                timed(|| {
                    black_box(&sender).send(Message::<0>(1)).unwrap();
                    black_box(black_box(&receiver).recv().unwrap().0);
                }),
                timed(|| {
                    black_box(&their_shared).send(Shared(1)).unwrap();
                    black_box(black_box(&their_shared_receiver).recv().unwrap().0);
                }),
                timed(|| {
                    black_box(&shared).send(Shared(1)).unwrap();
                    black_box(black_box(&shared_receiver).recv().unwrap().0);
                }),
                timed(|| {
                    black_box(&their_bounded).send(Message::<1>(1)).unwrap();
                    black_box(black_box(&their_bounded_receiver).recv().unwrap().0);
                }),
                timed(|| {
                    black_box(&bounded).send(Message::<1>(1)).unwrap();
                    black_box(black_box(&bounded_receiver).recv().unwrap().0);
                }),
                timed(|| drop(black_box(&their_receiver).clone())),
                timed(|| drop(black_box(&receiver).clone())),
            ];
            let times = contest(ROUNDS, ITERATIONS / 4, &mut loops, ROUNDS, &mut || {});
            print(state, &names, &times);
            let mut loops: [Loop<'_>; 2] =
                [ping_pong!($theirs::unbounded), ping_pong!(ours::unbounded)];
            let rounds = CONTENDED_ROUNDS;
            let times = contest(rounds, BLOCKED_ITERATIONS, &mut loops, rounds, &mut || {});
            let names = [concat!($name, ", to and fro"), "vor, to and fro"];
            print(state, &names, &times);
        }
    };
}

/// A message whose channels are also used otherwise than by `send` and `recv`. The compiler puts
/// the code of a channel into its only user, so a channel with two is slower.
struct Shared(u64);

run_channels_of! { run_crossbeam, "crossbeam", crossbeam_channel, vor::sync::crossbeam }
run_channels_of! { run_flume, "flume", flume, vor::sync::flume }

/// The cost of a flow per message. Each pass records two points of a flow.
fn run_flows(state: &str) {
    let (sender, receiver) = vor::sync::channel!("plain");
    let (with_flows, with_flows_receiver) = vor::sync::channel!("with flows", flows);
    let mut loops = [
        timed(|| {
            black_box(&sender).send(1_u64).unwrap();
            black_box(black_box(&receiver).recv().unwrap());
        }),
        timed(|| {
            black_box(&with_flows).send(1_u64).unwrap();
            black_box(black_box(&with_flows_receiver).recv().unwrap());
        }),
    ];
    let times = contest(ROUNDS, ITERATIONS / 4, &mut loops, ROUNDS, &mut || {
        vor::flush();
    });
    print(state, &["vor without flows", "vor with flows"], &times);
}

/// Two threads that take turns: each blocks until the other has notified it.
macro_rules! turns {
    ($mutex:path, $condvar:path) => {
        Box::new(|iterations| {
            let (turn, changed) = ($mutex(0), $condvar());
            std::thread::scope(|scope| {
                for me in 0..2 {
                    let (turn, changed) = (&turn, &changed);
                    scope.spawn(move || {
                        for _ in 0..iterations {
                            let mut turn = turn.lock().unwrap();
                            while *turn % 2 != me {
                                turn = changed.wait(turn).unwrap();
                            }
                            *turn += 1;
                            drop(turn);
                            changed.notify_one();
                        }
                    });
                }
            });
            vor::flush();
        })
    };
}

fn run_blocked(state: &str) {
    let mut loops: [Loop<'_>; 4] = [
        ping_pong!(mpsc::channel),
        ping_pong!(channel::channel),
        turns!(Mutex::new, Condvar::new),
        turns!(sync::Mutex::new, sync::Condvar::new),
    ];
    let names = [
        "std channels, to and fro",
        "vor channels, to and fro",
        "std Condvar, two turns",
        "vor Condvar, two turns",
    ];
    let rounds = CONTENDED_ROUNDS;
    let times = contest(rounds, BLOCKED_ITERATIONS, &mut loops, rounds, &mut || {});
    print(state, &names, &times);
}

/// Two threads that take turns: each adds 1 and works for a moment with the lock, and without it.
fn two_threads(add: &(impl Fn() + Sync)) -> Loop<'_> {
    Box::new(move |iterations| {
        let turns = || {
            for i in 0..iterations / 2 {
                add();
                black_box(chain(u64::from(i), 50));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(turns);
            turns();
        });
        vor::flush();
    })
}

fn run_contended(state: &str) {
    let (std_mutex, mutex) = (&Mutex::new(0_u64), &sync::Mutex::named("contended", 0_u64));
    let add_std = || {
        let mut count = std_mutex.lock().unwrap();
        *count = black_box(chain(*count, 50));
    };
    let add = || {
        let mut count = mutex.lock().unwrap();
        *count = black_box(chain(*count, 50));
    };
    let mut loops = [two_threads(&add_std), two_threads(&add)];
    let times = contest(CONTENDED_ROUNDS, ITERATIONS, &mut loops, ROUNDS, &mut || {});
    print(state, &["std, two threads", "vor, two threads"], &times);
}

/// A group of contests, which takes the state of the recording.
type Group = fn(&str);

const GROUPS: &[(&str, Group)] = &[
    ("locks", run),
    ("others", run_others),
    ("channels", run_channels),
    ("contended", run_contended),
    ("blocked", run_blocked),
    ("parking_lot", run_parking_lot),
    ("crossbeam", run_crossbeam),
    ("flume", run_flume),
    ("flows", run_flows),
    ("tokio", tokio::run),
    ("waits", waits::run),
    #[cfg(feature = "locks-peers")]
    ("peers", peers::run),
];

fn run_all(state: &str) {
    // Cargo passes `--bench`.
    let only = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    for (name, run) in GROUPS {
        if only.as_ref().is_none_or(|only| only == *name) {
            run(state);
        }
    }
}

fn main() {
    run_all("off");
    vor::Config::new().enable();
    {
        vor::profile_scope!("a state for this thread");
    }
    run_all("on");
}
