//! Locks and channels of tokio that are free, beside ours: each pass polls a future to its end.
//!
//! The futures run without tokio's budget, which would make every 128th pass a turn of the runtime.

use std::hint::black_box;

use ::tokio::runtime::Builder;
use ::tokio::sync as theirs;
use ::tokio::task::unconstrained;
use vor::sync::tokio as ours;
use vor_benches::rounds::{Loop, contest};

use super::{ITERATIONS, ROUNDS, print};

/// Makes a loop around one pass, in a runtime.
macro_rules! timed {
    ($runtime:ident, $pass:expr) => {
        Box::new(|iterations| {
            $runtime.block_on(unconstrained(async {
                for _ in 0..iterations {
                    $pass;
                }
            }));
        })
    };
}

pub(super) fn run(state: &str) {
    let runtime = &Builder::new_current_thread().build().unwrap();
    let (their_mutex, mutex) = (theirs::Mutex::new(0_u64), ours::Mutex::new(0_u64));
    let (their_lock, lock) = (theirs::RwLock::new(0_u64), ours::RwLock::new(0_u64));
    let (their_permits, permits) = (theirs::Semaphore::new(1), ours::Semaphore::new(1));
    let names = [
        "tokio Mutex::lock",
        "vor Mutex::lock",
        "tokio RwLock::read",
        "vor RwLock::read",
        "tokio RwLock::write",
        "vor RwLock::write",
        "tokio Semaphore::acquire",
        "vor Semaphore::acquire",
    ];
    let mut loops: [Loop<'_>; 8] = [
        timed!(runtime, *black_box(&their_mutex).lock().await += 1),
        timed!(runtime, *black_box(&mutex).lock().await += 1),
        timed!(runtime, black_box(*black_box(&their_lock).read().await)),
        timed!(runtime, black_box(*black_box(&lock).read().await)),
        timed!(runtime, *black_box(&their_lock).write().await += 1),
        timed!(runtime, *black_box(&lock).write().await += 1),
        timed!(runtime, drop(black_box(&their_permits).acquire().await)),
        timed!(runtime, drop(black_box(&permits).acquire().await)),
    ];
    let times = contest(ROUNDS, ITERATIONS / 4, &mut loops, ROUNDS, &mut || {});
    print(state, &names, &times);

    let (their_sender, mut their_receiver) = theirs::mpsc::channel(16);
    let (sender, mut receiver) = ours::mpsc::channel(16);
    let (their_any, mut their_any_received) = theirs::mpsc::unbounded_channel();
    let (any, mut any_received) = ours::mpsc::unbounded_channel();
    let names = [
        "tokio mpsc, bounded",
        "vor mpsc, bounded",
        "tokio mpsc, unbounded",
        "vor mpsc, unbounded",
    ];
    let mut loops: [Loop<'_>; 4] = [
        timed!(runtime, {
            black_box(&their_sender).send(1_u64).await.unwrap();
            black_box(black_box(&mut their_receiver).recv().await);
        }),
        timed!(runtime, {
            black_box(&sender).send(1_u64).await.unwrap();
            black_box(black_box(&mut receiver).recv().await);
        }),
        timed!(runtime, {
            black_box(&their_any).send(1_u64).unwrap();
            black_box(black_box(&mut their_any_received).recv().await);
        }),
        timed!(runtime, {
            black_box(&any).send(1_u64).unwrap();
            black_box(black_box(&mut any_received).recv().await);
        }),
    ];
    let times = contest(ROUNDS, ITERATIONS / 4, &mut loops, ROUNDS, &mut || {});
    print(state, &names, &times);

    let (their_news, mut their_reader) = theirs::broadcast::channel(16);
    let (news, mut reader) = ours::broadcast::channel(16);
    let (their_state, mut their_watcher) = theirs::watch::channel(0_u64);
    let (watched, mut watcher) = ours::watch::channel(0_u64);
    let names = [
        "tokio broadcast",
        "vor broadcast",
        "tokio watch",
        "vor watch",
    ];
    let mut loops: [Loop<'_>; 4] = [
        timed!(runtime, {
            black_box(&their_news).send(1_u64).unwrap();
            black_box(black_box(&mut their_reader).recv().await.unwrap());
        }),
        timed!(runtime, {
            black_box(&news).send(1_u64).unwrap();
            black_box(black_box(&mut reader).recv().await.unwrap());
        }),
        timed!(runtime, {
            black_box(&their_state).send(1_u64).unwrap();
            black_box(&mut their_watcher).changed().await.unwrap();
        }),
        timed!(runtime, {
            black_box(&watched).send(1_u64).unwrap();
            black_box(&mut watcher).changed().await.unwrap();
        }),
    ];
    let times = contest(ROUNDS, ITERATIONS / 4, &mut loops, ROUNDS, &mut || {});
    print(state, &names, &times);
}
