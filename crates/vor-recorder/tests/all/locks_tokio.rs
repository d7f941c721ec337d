//! The waits that the locks and channels of tokio record.

#![cfg(not(feature = "off"))]

use std::collections::HashMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Builder;
use tokio::task::yield_now;
use vor_capture::model::batch::FlowStage;
use vor_fixtures::own_process;
use vor_recorder::bridges::tokio::named;
use vor_recorder::clock;
use vor_recorder::drain;
use vor_recorder::hot::future::ProfileFuture as _;
use vor_recorder::hot::scope::scope;
use vor_recorder::locks::tokio::mutex::{Mutex, MutexGuard};
use vor_recorder::locks::tokio::notify::Notify;
use vor_recorder::locks::tokio::rwlock::{RwLock, RwLockReadGuard};
use vor_recorder::locks::tokio::semaphore::Semaphore;
use vor_recorder::locks::tokio::{broadcast, mpsc, oneshot, watch};
use vor_recorder::setup::Config;

use crate::locks_holds::{check_holds, compare};
use crate::locks_support::{
    Random, RecordedTask, Recording, assert_length, let_others_wait, read, start,
};

pub(crate) const RELEASED: &str = "holder: released meanwhile";
const UNKNOWN: &str = "holder: unknown";

pub(crate) fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future once more, which must be ready then.
pub(crate) fn ready<F: Future + ?Sized>(future: Pin<&mut F>) -> F::Output {
    match poll(future) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is not ready"),
    }
}

pub(crate) fn pending<F: Future + ?Sized>(future: Pin<&mut F>) {
    assert!(poll(future).is_pending());
}

/// Runs tasks on this thread.
fn on_one_thread<F: Future>(future: F) -> F::Output {
    Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

/// Returns the names and the steps of all tasks whose name begins with `wait: `, by their begin.
pub(crate) fn waits(recording: &Recording) -> Vec<String> {
    let tasks = recording.ended_tasks().into_iter();
    tasks
        .filter(|task| task.name.starts_with("wait: "))
        .map(|task| {
            let mut parts = vec![task.name.as_str()];
            parts.extend(task.steps());
            parts.join(", ")
        })
        .collect()
}

#[test]
fn what_does_not_wait_records_nothing() {
    own_process!();
    let (_folder, path) = start(Config::new());
    static LOCK: Mutex<u64> = Mutex::named("alone", 0);
    let rwlock = Arc::new(RwLock::new(0_u64));
    let mutex = Arc::new(Mutex::new(0_u64));
    let semaphore = Arc::new(Semaphore::new(3));
    let notify = Notify::new();
    let (sender, mut receiver) = mpsc::channel(4);
    let (free, mut freed) = mpsc::unbounded_channel();
    let (news, mut reader) = broadcast::channel(4);
    let (change, mut changes) = watch::channel(0);
    on_one_thread(async {
        for turn in 0..500 {
            let _work = scope("work");
            *LOCK.lock().await += 1;
            *LOCK.try_lock().unwrap() += 1;
            let guard = Arc::clone(&mutex).lock_owned().await;
            assert!(Arc::clone(&mutex).try_lock_owned().is_err());
            drop(guard);
            *rwlock.write().await += 1;
            let (first, second) = (rwlock.read().await, rwlock.try_read().unwrap());
            drop((first, second));
            *Arc::clone(&rwlock).write_owned().await += 1;
            assert_eq!(*Arc::clone(&rwlock).read_owned().await, 2 * (turn + 1));
            let permits = semaphore.acquire_many(2).await.unwrap();
            let owned = Arc::clone(&semaphore).acquire_owned().await.unwrap();
            assert!(semaphore.try_acquire().is_err());
            drop((permits, owned));
            notify.notify_one();
            notify.notified().await;
            sender.send(turn).await.unwrap();
            sender.reserve().await.unwrap().send(turn);
            assert_eq!(receiver.recv().await, Some(turn));
            assert_eq!(receiver.try_recv(), Ok(turn));
            free.send(turn).unwrap();
            assert_eq!(freed.recv().await, Some(turn));
            news.send(turn).unwrap();
            assert_eq!(reader.recv().await, Ok(turn));
            change.send(turn).unwrap();
            changes.changed().await.unwrap();
            let (one, shot) = oneshot::channel();
            one.send(turn).unwrap();
            assert_eq!(shot.await, Ok(turn));
        }
    });
    // A thread that does not wait records nothing either.
    drop(LOCK.blocking_lock());
    drop(Arc::clone(&mutex).blocking_lock_owned());
    drop(rwlock.blocking_write());
    drop(rwlock.blocking_read());
    sender.blocking_send(1).unwrap();
    assert_eq!(receiver.blocking_recv(), Some(1));
    drop(sender);
    assert_eq!(receiver.blocking_recv(), None);
    let recording = read(&path);
    assert!(recording.spans.iter().all(|span| span.name == "work"));
    assert!(recording.tasks.is_empty() && recording.flows.is_empty());
    assert_eq!((recording.spans.len(), recording.dropped), (500, 0));
}

/// A task that has used up its budget waits for nothing, and yields as with tokio's own lock.
#[test]
fn a_used_up_budget_is_no_wait() {
    own_process!();
    const LOCKS: usize = 2_000;
    let (_folder, path) = start(Config::new());
    /// Counts the polls of a future.
    async fn polls(future: impl Future<Output = ()>) -> usize {
        let mut future = pin!(future);
        let mut polls = 0;
        std::future::poll_fn(|context| {
            polls += 1;
            future.as_mut().poll(context)
        })
        .await;
        polls
    }
    let polls = on_one_thread(async {
        let (mine, tokios) = (Mutex::new(0), tokio::sync::Mutex::new(0));
        let mine = polls(async {
            for _ in 0..LOCKS {
                *mine.lock().await += 1;
            }
        });
        let mine = mine.await;
        yield_now().await;
        let tokios = polls(async {
            for _ in 0..LOCKS {
                *tokios.lock().await += 1;
            }
        });
        (mine, tokios.await)
    });
    assert!(polls.0 > 10 && polls.0.abs_diff(polls.1) <= 1, "{polls:?}");
    let recording = read(&path);
    assert!(recording.tasks.is_empty(), "{:?}", recording.tasks);
}

/// Tasks of many workers wait for each other, and the lock is only ever taken in the scopes
/// `inside` and `deeper`.
#[test]
fn no_wait_names_a_scope_in_which_the_lock_was_not_taken() {
    own_process!();
    const TASKS: usize = 8;
    const TURNS: usize = 1_500;
    static LOCK: Mutex<u64> = Mutex::named("busy", 0);
    let (_folder, path) = start(Config::new().ring_kib(8192));
    let runtime = Builder::new_multi_thread()
        .worker_threads(4)
        .build()
        .unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let take = || async {
                let guard = LOCK.lock().profiled("inside").await;
                drop(scope("outside"));
                guard
            };
            let body = async move {
                let mut random = Random(task as u64);
                for _ in 0..TURNS {
                    let mut guard = match random.index(2) {
                        0 => take().await,
                        _ => LOCK.lock().profiled("deeper").await,
                    };
                    *guard += 1;
                    for _ in 0..random.index(3) {
                        yield_now().await;
                    }
                    drop(guard);
                    for _ in 0..random.index(3) {
                        yield_now().await;
                    }
                }
            };
            runtime.spawn(named("outside around", body))
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    drop(runtime);
    let recording = read(&path);
    assert_eq!(*LOCK.try_lock().unwrap(), (TASKS * TURNS) as u64);
    assert_eq!(recording.dropped, 0);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let tasks = recording.ended_tasks();
    let waits: Vec<_> = tasks
        .iter()
        .filter(|task| task.name == "wait: busy")
        .collect();
    for wait in &waits {
        let [step] = wait.steps()[..] else {
            panic!("{wait:?}")
        };
        *counts.entry(step).or_default() += 1;
    }
    println!("{counts:?}");
    let known = ["holder_scope: inside", "holder_scope: deeper", RELEASED];
    assert!(counts.keys().all(|step| known.contains(step)), "{counts:?}");
    assert!(counts.values().sum::<usize>() > TURNS);
    // No arrow ends twice, and each ends in a wait.
    for points in recording.flows.values() {
        let ends: Vec<_> = points
            .iter()
            .filter(|(_, point)| point.stage == FlowStage::End)
            .collect();
        assert!(ends.len() <= 1);
        for (_, end) in ends {
            let is_around =
                |wait: &RecordedTask| (wait.start_ticks..=wait.end_ticks).contains(&end.ticks);
            assert!(waits.iter().any(|wait| is_around(wait)));
        }
    }
}

#[test]
fn readers_wait_for_a_writer_and_writers_for_the_last_reader() {
    own_process!();
    static LOCK: RwLock<u64> = RwLock::named("limits", 0);
    let (_folder, path) = start(Config::new());
    let taken_in = |name: &str, future: Pin<&mut dyn Future<Output = ()>>| {
        let _scope = scope(name);
        ready(future);
    };
    // A writer lets two readers go.
    let writer = {
        let _scope = scope("writes");
        ready(pin!(LOCK.write()))
    };
    let (mut first, mut second) = (Box::pin(LOCK.read()), Box::pin(LOCK.read()));
    pending(first.as_mut());
    pending(second.as_mut());
    {
        let _scope = scope("lets go");
        drop(writer);
    }
    let first = ready(first.as_mut());
    let second = {
        let _scope = scope("reads second");
        ready(second.as_mut())
    };
    // The reader that came last is the holder, until it leaves.
    let mut third = Box::pin(LOCK.write());
    pending(third.as_mut());
    drop(second);
    let mut fourth = Box::pin(LOCK.write());
    pending(fourth.as_mut());
    drop(first);
    let mut guard = ready(third.as_mut());
    *guard += 1;
    drop(guard);
    drop(fourth);
    // A writer that goes on as a reader lets readers in, and its part of the value is a reader too.
    taken_in(
        "downgrades",
        Box::pin(async {
            let guard = LOCK.write().await;
            let mut waiting = Box::pin(LOCK.read());
            pending(waiting.as_mut());
            let guard = guard.downgrade();
            assert_eq!((*ready(waiting.as_mut()), *guard), (1, 1));
            let part = tokio_part(guard);
            let mut waiting = Box::pin(LOCK.write());
            pending(waiting.as_mut());
            drop(part);
            drop(ready(waiting.as_mut()));
        })
        .as_mut(),
    );
    let recording = read(&path);
    assert_eq!(
        waits(&recording),
        [
            "wait: limits, holder_scope: writes",
            "wait: limits, holder_scope: writes",
            "wait: limits, holder_scope: reads second",
            "wait: limits, holder: unknown, cancelled",
            "wait: limits, holder_scope: downgrades",
            "wait: limits, holder: unknown",
        ]
    );
    // One of two readers has the arrow, and so has the writer after the last reader.
    let ends = recording.flows.values().filter(|points| points.len() == 2);
    assert_eq!(ends.count(), 4);
}

/// Returns a guard of a part of a value, the whole of it.
fn tokio_part(
    guard: vor_recorder::locks::tokio::rwlock::RwLockReadGuard<'_, u64>,
) -> vor_recorder::locks::tokio::rwlock::RwLockReadGuard<'_, u64> {
    vor_recorder::locks::tokio::rwlock::RwLockReadGuard::map(guard, |value| value)
}

#[test]
fn a_holder_outside_of_scopes_or_from_before_the_recording_is_unknown() {
    own_process!();
    static LOCK: Mutex<u64> = Mutex::named("early", 0);
    let wait = || {
        let mut future = Box::pin(LOCK.lock());
        pending(future.as_mut());
        drop(future);
    };
    let guard = {
        let _scope = scope("not recorded");
        ready(pin!(LOCK.lock()))
    };
    wait();
    let (_folder, path) = start(Config::new());
    wait();
    drop(guard);
    let guard = ready(pin!(LOCK.lock()));
    wait();
    drop(guard);
    let scopes: Vec<_> = (0..130).map(|_| scope("too deep")).collect();
    let guard = ready(pin!(LOCK.lock()));
    wait();
    drop(scopes);
    vor_recorder::setup::disable();
    wait();
    drop(guard);
    let recording = read(&path);
    let expected = format!("wait: early, {UNKNOWN}, cancelled");
    assert_eq!(waits(&recording), vec![expected; 3]);
}

#[test]
fn owned_guards_and_parts_hold_and_release_as_guards_do() {
    own_process!();
    let lock: Arc<Mutex<(u64, u64)>> = Arc::new(Mutex::named("owned", (1, 2)));
    let (_folder, path) = start(Config::new());
    let guard = {
        let _scope = scope("owner");
        ready(pin!(Arc::clone(&lock).lock_owned()))
    };
    let mut next = Box::pin(Arc::clone(&lock).lock_owned());
    pending(next.as_mut());
    drop(guard);
    let guard = {
        let _scope = scope("next owner");
        ready(next.as_mut())
    };
    let mut part = Box::pin(lock.lock());
    pending(part.as_mut());
    drop(guard);
    let borrowed = {
        let _scope = scope("borrower");
        ready(part.as_mut())
    };
    drop(part);
    let part = MutexGuard::map(borrowed, |pair| &mut pair.1);
    let mut last = Box::pin(Arc::clone(&lock).lock_owned());
    pending(last.as_mut());
    drop(part);
    // The guard alone keeps the lock alive.
    let guard = ready(last.as_mut());
    drop((next, last, lock));
    assert_eq!(guard.1, 2);
    drop(guard);
    let recording = read(&path);
    assert_eq!(
        waits(&recording),
        [
            "wait: owned, holder_scope: owner",
            "wait: owned, holder_scope: next owner",
            "wait: owned, holder_scope: borrower",
        ]
    );
    let ends = recording.flows.values().filter(|points| points.len() == 2);
    assert_eq!(ends.count(), 3);
}

#[test]
fn waits_without_a_holder_have_no_step_but_their_cancellation() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let semaphore = Semaphore::named("uploads", 1);
    let permit = ready(pin!(semaphore.acquire())).unwrap();
    let mut waiting = Box::pin(semaphore.acquire());
    pending(waiting.as_mut());
    drop(permit);
    drop(ready(waiting.as_mut()));
    let notify = Notify::named("ready");
    let mut waiting = Box::pin(notify.notified());
    pending(waiting.as_mut());
    notify.notify_waiters();
    ready(waiting.as_mut());
    let mut waiting = Box::pin(notify.notified());
    pending(waiting.as_mut());
    drop(waiting);
    let (sender, mut receiver) = mpsc::named("jobs", 1);
    let mut waiting = Box::pin(receiver.recv());
    pending(waiting.as_mut());
    ready(pin!(sender.send(1))).unwrap();
    assert_eq!(ready(waiting.as_mut()), Some(1));
    drop(waiting);
    sender.try_send(2).unwrap();
    let mut waiting = Box::pin(sender.send(3));
    pending(waiting.as_mut());
    let mut reserving = Box::pin(sender.reserve());
    pending(reserving.as_mut());
    drop(reserving);
    assert_eq!(receiver.try_recv(), Ok(2));
    ready(waiting.as_mut()).unwrap();
    drop(waiting);
    drop(sender);
    let (sender, mut receiver) = mpsc::unbounded_named::<u8>("events");
    let mut buffer = Vec::new();
    let mut waiting = Box::pin(receiver.recv_many(&mut buffer, 8));
    pending(waiting.as_mut());
    drop(sender);
    assert_eq!(ready(waiting.as_mut()), 0);
    let (sender, mut receiver) = oneshot::named("answer");
    pending(Pin::new(&mut receiver));
    sender.send(1).unwrap();
    assert_eq!(ready(Pin::new(&mut receiver)), Ok(1));
    let (_sender, mut receiver) = oneshot::named::<u8>("answer");
    pending(Pin::new(&mut receiver));
    drop(receiver);
    let (sender, mut receiver) = broadcast::named("news", 2);
    let mut waiting = Box::pin(receiver.recv());
    pending(waiting.as_mut());
    sender.send(1).unwrap();
    assert_eq!(ready(waiting.as_mut()), Ok(1));
    let (sender, mut receiver) = watch::named("settings", 1);
    let mut waiting = Box::pin(receiver.wait_for(|value| *value == 2));
    pending(waiting.as_mut());
    sender.send(2).unwrap();
    assert_eq!(*ready(waiting.as_mut()).unwrap(), 2);
    drop(waiting);
    let mut waiting = Box::pin(receiver.changed());
    pending(waiting.as_mut());
    drop(sender);
    assert!(ready(waiting.as_mut()).is_err());
    let recording = read(&path);
    assert_eq!(
        waits(&recording),
        [
            "wait: uploads",
            "wait: ready",
            "wait: ready, cancelled",
            "wait: jobs to receive",
            "wait: jobs to send",
            "wait: jobs to send, cancelled",
            "wait: events to receive",
            "wait: answer to receive",
            "wait: answer to receive, cancelled",
            "wait: news to receive",
            "wait: settings to change",
            "wait: settings to change",
        ]
    );
    assert!(recording.flows.is_empty() && recording.dropped == 0);
}

#[test]
fn a_thread_that_blocks_waits_in_a_scope() {
    own_process!();
    static LOCK: Mutex<u64> = Mutex::named("shared", 0);
    static LIMITS: RwLock<u64> = RwLock::named("limits", 0);
    let (_folder, path) = start(Config::new());
    /// Runs `hold` on another thread in a scope, and ends what it returns after this thread waits.
    fn while_held<G>(hold: impl FnOnce() -> G + Send + 'static, wait: impl FnOnce()) {
        let (held, is_held) = std::sync::mpsc::channel();
        let holder = std::thread::spawn(move || {
            let _scope = scope("holds");
            let guard = hold();
            held.send(()).unwrap();
            let_others_wait();
            drop(guard);
        });
        is_held.recv().unwrap();
        wait();
        holder.join().unwrap();
    }
    while_held(|| LOCK.blocking_lock(), || *LOCK.blocking_lock() += 1);
    while_held(|| LIMITS.blocking_write(), || _ = *LIMITS.blocking_read());
    while_held(|| LIMITS.blocking_read(), || *LIMITS.blocking_write() += 1);
    let (sender, mut receiver) = mpsc::named("jobs", 1);
    let second = sender.clone();
    while_held(
        move || drop_sends(sender),
        || {
            assert_eq!(receiver.blocking_recv(), Some(1));
        },
    );
    second.try_send(2).unwrap();
    let third = second.clone();
    while_held(
        move || Later(Some(move || assert_eq!(receiver.blocking_recv(), Some(2)))),
        // The receiver is gone afterwards, perhaps before this thread runs.
        || _ = third.blocking_send(3),
    );
    let (sender, receiver) = oneshot::named("answer");
    while_held(
        move || Later(Some(move || sender.send(1).unwrap())),
        || assert_eq!(receiver.blocking_recv(), Ok(1)),
    );
    let (sender, mut receiver) = broadcast::named("news", 2);
    while_held(
        move || Later(Some(move || _ = sender.send(1).unwrap())),
        || assert_eq!(receiver.blocking_recv(), Ok(1)),
    );
    let recording = read(&path);
    let found: Vec<_> = recording
        .waits()
        .map(|wait| format!("{}: {}", wait.name, wait.args.join(", ")))
        .collect();
    assert_eq!(
        found,
        [
            "wait: shared: shared, , holds",
            "wait: limits: limits, , holds",
            "wait: limits: limits, , holds",
            "wait: jobs to receive: ",
            "wait: jobs to send: ",
            "wait: answer to receive: ",
            "wait: news to receive: ",
        ]
    );
    assert!(recording.tasks.is_empty());
    recording.waits().for_each(assert_length);
    let ends = recording.flows.values().filter(|points| points.len() == 2);
    assert_eq!(ends.count(), 3);
}

/// Does something when it is dropped.
struct Later<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Later<F> {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            work();
        }
    }
}

fn drop_sends(sender: mpsc::Sender<u8>) -> impl Send {
    Later(Some(move || sender.try_send(1).unwrap()))
}

#[test]
fn the_depth_of_a_channel_is_a_metric_and_so_is_what_receivers_missed() {
    own_process!();
    let (_folder, path) = start(Config::new());
    let (sender, mut receiver) = mpsc::named("jobs", 8);
    let (events, mut event) = mpsc::unbounded_named("events");
    let (news, mut reader) = broadcast::named("news", 2);
    let (change, _changes) = watch::named("settings", 0);
    for message in 0..5 {
        sender.try_send(message).unwrap();
        events.send(message).unwrap();
        news.send(message).unwrap();
        change.send(message).unwrap();
    }
    let permit = ready(pin!(sender.clone().reserve_owned())).unwrap();
    let sender = permit.send(5);
    for permit in ready(pin!(sender.reserve_many(2))).unwrap() {
        permit.send(6);
    }
    assert_eq!(receiver.try_recv(), Ok(0));
    let mut buffer = Vec::new();
    assert_eq!(ready(pin!(event.recv_many(&mut buffer, 3))), 3);
    assert!(ready(pin!(reader.recv())).is_err());
    drain::frame_mark();
    assert_eq!(ready(pin!(reader.recv())), Ok(3));
    assert_eq!(receiver.blocking_recv_many(&mut buffer, 10), 7);
    drop(event);
    read(&path);
    let mut reader = vor_capture::reader::Reader::open(&path).unwrap();
    let mut frames = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let vor_capture::reader::Event::Frame(frame) = event {
            let metric = |name| frame.frame.metric(name);
            let names = [
                "depth: jobs",
                "received: jobs",
                "depth: events",
                "depth: news",
                "sent: news",
                "lagged: news",
                "changes: settings",
            ];
            frames.push(names.map(metric));
        }
    }
    assert_eq!(
        frames,
        [
            [7.0, 1.0, 2.0, 2.0, 5.0, 3.0, 5.0].map(Some),
            [0.0, 7.0, 0.0, 1.0, 0.0, 0.0, 0.0].map(Some),
        ]
    );
}

/// A future that waits when recording ends, and is polled when it is on again.
#[test]
fn a_wait_ends_even_if_recording_is_off_by_then() {
    own_process!();
    static LOCK: Mutex<u64> = Mutex::named("sometimes", 0);
    let (_folder, path) = start(Config::new());
    let guard = ready(pin!(LOCK.lock()));
    let (mut first, mut second) = (Box::pin(LOCK.lock()), Box::pin(LOCK.lock()));
    pending(first.as_mut());
    vor_recorder::setup::disable();
    pending(second.as_mut());
    drop(guard);
    drop(ready(first.as_mut()));
    vor_recorder::setup::enable();
    drop(ready(second.as_mut()));
    let recording = read(&path);
    assert_eq!(waits(&recording), [format!("wait: sometimes, {UNKNOWN}")]);
}

/// The arrow of an unlock whose waiter has given up is not taken for that of a later one, which was
/// not recorded.
#[test]
fn a_cancelled_wait_takes_its_arrow_with_it() {
    own_process!();
    static LOCK: Mutex<u64> = Mutex::named("given up", 0);
    let (_folder, path) = start(Config::new());
    let guard = ready(pin!(LOCK.lock()));
    let mut waiting = Box::pin(LOCK.lock());
    pending(waiting.as_mut());
    drop(guard);
    drop(waiting);
    let guard = ready(pin!(LOCK.lock()));
    let mut waiting = Box::pin(LOCK.lock());
    pending(waiting.as_mut());
    vor_recorder::setup::disable();
    drop(guard);
    vor_recorder::setup::enable();
    drop(ready(waiting.as_mut()));
    let recording = read(&path);
    assert_eq!(waits(&recording).len(), 2);
    let points: Vec<_> = recording.flows.values().map(Vec::len).collect();
    assert_eq!(points, [1]);
}

/// Waits on workers of a runtime while recording is on, and no cancellation is missed.
#[test]
fn select_cancels_the_waits_that_lose() {
    own_process!();
    const TURNS: usize = 500;
    let (_folder, path) = start(Config::new());
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let lock: Arc<Mutex<u64>> = Arc::new(Mutex::named("contended", 0));
    let is_done = Arc::new(AtomicBool::new(false));
    let guard = Arc::clone(&lock).try_lock_owned().unwrap();
    let (task_lock, task_done) = (Arc::clone(&lock), Arc::clone(&is_done));
    let task = runtime.spawn(async move {
        for _ in 0..TURNS {
            let mut lock = pin!(task_lock.lock());
            let mut turn = 0;
            // The branch that gives up wins after its second poll.
            std::future::poll_fn(|context| {
                turn += 1;
                assert!(lock.as_mut().poll(context).is_pending());
                context.waker().wake_by_ref();
                if turn == 2 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        }
        task_done.store(true, Ordering::Release);
    });
    runtime.block_on(task).unwrap();
    assert!(is_done.load(Ordering::Acquire));
    drop(guard);
    let recording = read(&path);
    let waits = waits(&recording);
    assert_eq!(waits.len(), TURNS);
    assert!(waits.iter().all(|wait| wait.ends_with(", cancelled")));
    assert!(recording.flows.is_empty());
}

#[test]
fn holds_of_a_mutex_have_their_times() {
    own_process!();
    let cache = Arc::new(Mutex::named_with_holds("cache", 0));
    let round = AtomicUsize::new(0);
    check_holds("cache", |run| {
        on_one_thread(async {
            let kind = round.fetch_add(1, Ordering::Relaxed) % 3;
            if kind == 2 {
                let mut cache = Arc::clone(&cache).lock_owned().await;
                run();
                *cache += 1;
                return;
            }
            let guard = cache.lock().await;
            if kind == 0 {
                let mut part = MutexGuard::map(guard, |cache| cache);
                run();
                *part += 1;
                return;
            }
            run();
            // A hold may end on another thread.
            std::thread::scope(|threads| threads.spawn(|| drop(guard)).join().unwrap());
        });
    });
}

#[test]
fn holds_of_a_writer_end_where_it_becomes_a_reader() {
    own_process!();
    let limit = Arc::new(RwLock::named_with_holds("limit", 0));
    let round = AtomicUsize::new(0);
    check_holds("limit", |run| {
        on_one_thread(async {
            drop(limit.read().await);
            drop(Arc::clone(&limit).read_owned().await);
            if round.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
                let mut limit = Arc::clone(&limit).write_owned().await;
                run();
                *limit += 1;
                return;
            }
            let mut limit = limit.write().await;
            run();
            *limit += 1;
            drop(limit.downgrade());
        });
    });
}

/// Readers hold a lock at the same time, and end their holds in any order and on any thread.
#[test]
fn holds_of_readers_have_their_times() {
    own_process!();
    const READERS: usize = 40;
    let limit = Arc::new(RwLock::named_with_holds("limit", 0));
    let (_folder, path) = start(Config::new());
    let mut holds = Vec::new();
    on_one_thread(async {
        let mut borrowed = Vec::new();
        let mut owned = Vec::new();
        for reader in 0..READERS {
            let before = clock::ticks();
            if reader.is_multiple_of(2) {
                let guard = limit.read().await;
                borrowed.push((reader, RwLockReadGuard::map(guard, |limit| limit)));
            } else {
                owned.push((reader, Arc::clone(&limit).read_owned().await));
            }
            holds.push([before, clock::ticks(), 0, 0]);
        }
        let mut end = |reader: usize, guard: &mut dyn FnMut()| {
            holds[reader][2] = clock::ticks();
            guard();
            holds[reader][3] = clock::ticks();
        };
        for (reader, guard) in owned {
            let mut guard = Some(guard);
            end(reader, &mut || drop(guard.take()));
        }
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for (reader, guard) in borrowed.into_iter().rev() {
                    let mut guard = Some(guard);
                    end(reader, &mut || drop(guard.take()));
                }
            });
        });
    });
    // Each has freed its place.
    for _ in 0..2000 {
        let before = clock::ticks();
        let guard = limit.try_read().unwrap();
        let begun = clock::ticks();
        drop(guard);
        holds.push([before, begun, begun, clock::ticks()]);
    }
    let recording = read(&path);
    assert_eq!(recording.dropped, 0);
    compare(&recording, "limit to read", holds);
}

#[test]
fn more_readers_than_there_are_places_are_counted() {
    own_process!();
    let limit = RwLock::named_with_holds("limit", 0);
    let (_folder, path) = start(Config::new());
    let guards: Vec<_> = (0..3000).map(|_| limit.try_read().unwrap()).collect();
    drop(guards);
    let recording = read(&path);
    let holds = recording.ended_tasks().len() as u64;
    assert_eq!(holds + recording.dropped, 3000);
    assert!((900..=1024).contains(&holds), "{holds}");
}
