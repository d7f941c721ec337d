//! The waits and arrows of a lock of tokio against a model of a fair lock.

#![cfg(not(feature = "off"))]

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use vor_capture::model::batch::FlowStage;
use vor_fixtures::own_process;
use vor_recorder::hot::scope::scope;
use vor_recorder::locks::tokio::mutex::{Mutex, MutexGuard};
use vor_recorder::setup::Config;

use crate::locks_support::{Random, read, start};
use crate::locks_tokio::{RELEASED, poll};

type Lock = Pin<Box<dyn Future<Output = MutexGuard<'static, u64>>>>;

/// A step of a task in a schedule.
enum Doing {
    Nothing,
    /// It waits; the number of the wait.
    Waiting(Lock, usize),
    Holding(MutexGuard<'static, u64>),
}

/// A wait that the model of a lock expects.
#[derive(Debug)]
struct ExpectedWait {
    begin: usize,
    end: usize,
    steps: Vec<String>,
}

/// An arrow that the model expects: the operation that unlocks, and that which has got the lock.
#[derive(Debug)]
struct ExpectedArrow {
    from: usize,
    to: Option<usize>,
}

/// A lock as tokio promises it: fair, and handed to the task that has waited the longest.
#[derive(Default)]
struct Model {
    /// The operation in which the holder has taken the lock.
    taken_in: Option<usize>,
    /// The task to which the lock was handed, and which has not run since.
    handed_to: Option<usize>,
    queue: VecDeque<usize>,
    /// The arrow of the last unlock that nobody has ended.
    open_arrow: Option<usize>,
    waits: Vec<ExpectedWait>,
    arrows: Vec<ExpectedArrow>,
}

impl Model {
    fn is_free(&self) -> bool {
        self.taken_in.is_none() && self.handed_to.is_none()
    }

    fn begin_wait(&mut self, task: usize, op: usize) -> usize {
        let step = match self.taken_in {
            Some(op) => format!("holder_scope: op {op}"),
            None => RELEASED.to_owned(),
        };
        self.queue.push_back(task);
        self.waits.push(ExpectedWait {
            begin: op,
            end: usize::MAX,
            steps: vec![step],
        });
        self.waits.len() - 1
    }

    fn hand_on(&mut self) {
        self.handed_to = self.queue.pop_front();
    }

    fn unlock(&mut self, op: usize) {
        self.taken_in = None;
        if !self.queue.is_empty() {
            self.open_arrow = Some(self.arrows.len());
            self.arrows.push(ExpectedArrow { from: op, to: None });
        }
        self.hand_on();
    }

    fn acquire(&mut self, wait: usize, op: usize) {
        self.handed_to = None;
        self.taken_in = Some(op);
        self.waits[wait].end = op;
        if let Some(arrow) = self.open_arrow.take() {
            self.arrows[arrow].to = Some(op);
        }
    }

    fn cancel(&mut self, task: usize, wait: usize, op: usize) {
        if self.handed_to == Some(task) {
            self.hand_on();
        }
        self.queue.retain(|waiting| *waiting != task);
        if self.queue.is_empty() && self.handed_to.is_none() {
            self.open_arrow = None;
        }
        self.waits[wait].end = op;
        self.waits[wait].steps.push("cancelled".to_owned());
    }
}

/// Six tasks lock, wait, give up and unlock at random, polled by hand, each time in a scope of a
/// name of its own. A model says which waits and which arrows there are.
#[test]
fn waits_holders_and_arrows_are_those_of_a_model() {
    own_process!();
    const OPS: usize = 20_000;
    const TASKS: usize = 6;
    static LOCK: Mutex<u64> = Mutex::named("cache", 0);
    let (_folder, path) = start(Config::new());
    let mut random = Random(11);
    let mut model = Model::default();
    let mut tasks: Vec<Doing> = (0..TASKS).map(|_| Doing::Nothing).collect();
    let mut locked = 0;
    for op in 0..OPS {
        let task = random.index(TASKS);
        let chance = random.index(8);
        let _scope = scope(&format!("op {op}"));
        tasks[task] = match std::mem::replace(&mut tasks[task], Doing::Nothing) {
            Doing::Nothing => {
                let mut future: Lock = Box::pin(LOCK.lock());
                match poll(future.as_mut()) {
                    Poll::Ready(guard) => {
                        assert!(model.is_free(), "op {op}");
                        model.taken_in = Some(op);
                        Doing::Holding(guard)
                    }
                    Poll::Pending => {
                        assert!(!model.is_free(), "op {op}");
                        let wait = model.begin_wait(task, op);
                        Doing::Waiting(future, wait)
                    }
                }
            }
            Doing::Waiting(future, wait) if chance == 0 => {
                drop(future);
                model.cancel(task, wait, op);
                Doing::Nothing
            }
            Doing::Waiting(mut future, wait) => match poll(future.as_mut()) {
                Poll::Ready(guard) => {
                    assert_eq!(model.handed_to, Some(task), "op {op}");
                    model.acquire(wait, op);
                    Doing::Holding(guard)
                }
                Poll::Pending => {
                    assert_ne!(model.handed_to, Some(task), "op {op}");
                    Doing::Waiting(future, wait)
                }
            },
            Doing::Holding(mut guard) => {
                *guard += 1;
                locked += 1;
                drop(guard);
                model.unlock(op);
                Doing::Nothing
            }
        };
    }
    // Those that wait give up before the holder unlocks, so no arrow begins outside of operations.
    tasks.sort_by_key(|task| matches!(task, Doing::Holding(_)));
    drop(tasks);
    let recording = read(&path);
    assert_eq!(recording.dropped, 0);
    assert_eq!(*LOCK.try_lock().unwrap(), locked);

    let span_of: HashMap<&str, _> = recording
        .spans
        .iter()
        .map(|span| (span.name.as_str(), span.start_ticks..=span.end_ticks))
        .collect();
    let is_in = |op: usize, ticks: u64| span_of[format!("op {op}").as_str()].contains(&ticks);
    // Waits that last until the end are cancelled outside of all operations.
    let expected: Vec<_> = model.waits.iter().collect();
    let waits = recording.ended_tasks();
    assert_eq!(waits.len(), expected.len());
    let mut cancelled = 0;
    for (wait, expected) in waits.iter().zip(&expected) {
        assert_eq!(wait.name, "wait: cache");
        assert!(
            is_in(expected.begin, wait.start_ticks),
            "{wait:?} {expected:?}"
        );
        if expected.end == usize::MAX {
            assert_eq!(wait.steps()[1..], ["cancelled"], "{wait:?}");
            continue;
        }
        assert_eq!(wait.steps(), expected.steps);
        assert!(is_in(expected.end, wait.end_ticks), "{wait:?} {expected:?}");
        cancelled += usize::from(expected.steps.len() == 2);
    }
    let mut flows: Vec<_> = recording.flows.values().cloned().collect();
    for points in &mut flows {
        points.sort_by_key(|(_, point)| (point.ticks, point.stage == FlowStage::End));
    }
    flows.sort_by_key(|points| points[0].1.ticks);
    assert_eq!(flows.len(), model.arrows.len());
    let mut ended = 0;
    for (points, expected) in flows.iter().zip(&model.arrows) {
        assert_eq!(points[0].1.stage, FlowStage::Begin);
        assert!(is_in(expected.from, points[0].1.ticks), "{expected:?}");
        match (expected.to, &points[1..]) {
            (Some(to), [(_, end)]) => {
                assert_eq!(end.stage, FlowStage::End);
                assert!(is_in(to, end.ticks), "{expected:?}");
                ended += 1;
            }
            (None, []) => {}
            _ => panic!("{expected:?} {points:?}"),
        }
    }
    let handed = expected
        .iter()
        .filter(|wait| wait.steps[0] == RELEASED)
        .count();
    println!(
        "{locked} locks, {} waits, {cancelled} cancelled, {handed} released, {ended} arrows",
        waits.len()
    );
    assert!(locked > 1_000 && cancelled > 500 && handed > 500 && ended > 500);
}
