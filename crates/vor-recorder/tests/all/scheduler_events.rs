//! Events of the scheduler, against the time in which a scope ran, was runnable and was blocked.

#![cfg(all(
    feature = "scheduler",
    target_os = "linux",
    target_arch = "x86_64",
    not(feature = "off")
))]
#![allow(unsafe_code, reason = "affinities are the C library's")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vor_capture::model::catalog::Catalog;
use vor_capture::model::measures::{Measured, Measures};
use vor_capture::model::scheduler::{SchedulerBatch, SchedulerEventKind};
use vor_capture::reader::{Event, Reader};
use vor_fixtures::own_process;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

const INSTANCES: &str = "/sys/kernel/tracing/instances";
/// The parts may differ by this: readings are made at slightly different moments.
const BOUND_NS: u64 = 50_000;

fn has_tracefs() -> bool {
    // SAFETY: it only reads a number of the process.
    let is_root = unsafe { libc::geteuid() } == 0;
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let is_whole_machine = namespace == Path::new("pid:[4026531836]");
    let is_there = is_root && is_whole_machine && Path::new(INSTANCES).is_dir();
    if !is_there {
        let missing = "it needs root, no container, and tracefs at /sys/kernel/tracing";
        vor_fixtures::skip("events of the scheduler", missing);
    }
    is_there
}

fn instance() -> PathBuf {
    Path::new(INSTANCES).join(format!("vor-{}", std::process::id()))
}

/// Keeps this thread, and those that it starts, on the first processor: the kernel of a virtual
/// machine may leave out the switch with which another one leaves its idle task.
fn stay_on_the_first_processor() {
    // SAFETY: the set is plain memory of the stated size, for which all zeros are valid.
    unsafe {
        let mut first: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut first);
        let size = size_of::<libc::cpu_set_t>();
        assert_eq!(libc::sched_setaffinity(0, size, &raw const first), 0);
    }
}

fn work_for(duration: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// A capture's spans with their measures, and its events of the scheduler.
struct Recorded {
    catalog: std::sync::Arc<Catalog>,
    spans: Vec<(String, u64, u64, Measured)>,
    batches: Vec<SchedulerBatch>,
}

fn read(path: &Path) -> Recorded {
    let mut reader = Reader::open(path).unwrap();
    let (mut spans, mut batches) = (Vec::new(), Vec::new());
    while let Some(event) = reader.next_event().unwrap() {
        let batch = match event {
            Event::Scheduler(batch) => {
                batches.push(batch);
                continue;
            }
            Event::Batch(batch) => batch,
            _ => continue,
        };
        for thread in &batch.threads {
            for i in 0..thread.len() {
                let site = batch.catalog.site(thread.sites[i]).unwrap();
                if !Measures::of(site).has(Measures::WAIT) {
                    continue;
                }
                let args = thread.args.iter().find(|args| args.span as usize == i);
                let measured = args.map(|args| Measured::of(site, &args.values));
                let (start, end) = (thread.start_ticks[i], thread.end_ticks(i));
                let measured = measured.unwrap_or_default();
                spans.push((site.name.to_string(), start, end, measured));
            }
        }
    }
    let catalog = std::sync::Arc::clone(reader.catalog().unwrap());
    Recorded {
        catalog,
        spans,
        batches,
    }
}

/// The state of a thread between two of its events.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Running,
    Runnable,
    Blocked,
}

/// Returns how long a thread that runs at `start` was runnable and blocked until `end`, in ns.
///
/// Returns `None` if the thread stops without having begun: kernels of virtual machines leave out
/// the switches from some tasks.
fn waits(recorded: &Recorded, tid: u32, start: u64, end: u64) -> Option<(u64, u64)> {
    let (mut state, mut since) = (State::Running, start);
    let (mut runnable, mut blocked) = (0, 0);
    let mut enter = |next: State, ticks: u64| {
        let ns = recorded.catalog.timeline.duration_ns(since, ticks - since);
        match state {
            State::Running => {}
            State::Runnable => runnable += ns,
            State::Blocked => blocked += ns,
        }
        since = ticks;
        std::mem::replace(&mut state, next)
    };
    for batch in &recorded.batches {
        assert_eq!(batch.lost_events, 0);
        let is_it = |task: u32| batch.tasks[task as usize].tid == tid;
        let is_within = |ticks: u64| (start..end).contains(&ticks);
        for event in batch.events.iter().filter(|event| is_within(event.ticks)) {
            let (next, possible) = match event.kind {
                SchedulerEventKind::Switch {
                    from, from_state, ..
                } if is_it(from) => {
                    let is_runnable = from_state.is_runnable();
                    let next = if is_runnable {
                        State::Runnable
                    } else {
                        State::Blocked
                    };
                    (next, State::Running)
                }
                SchedulerEventKind::Switch { to, .. } if is_it(to) => {
                    (State::Running, State::Runnable)
                }
                SchedulerEventKind::Waking { woken, .. } if is_it(woken) => {
                    (State::Runnable, State::Blocked)
                }
                _ => continue,
            };
            if enter(next, event.ticks) != possible {
                return None;
            }
        }
    }
    (enter(State::Running, end) == State::Running).then_some((runnable, blocked))
}

#[test]
fn the_scheduler_agrees_with_the_waits_of_scopes() {
    own_process!();
    if !has_tracefs() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    Config::new()
        .capture(&path)
        .waits(true)
        .scheduler(true)
        .enable();
    assert!(instance().is_dir());
    let tid = std::thread::spawn(|| {
        static STOP: AtomicBool = AtomicBool::new(false);
        stay_on_the_first_processor();
        let rival = std::thread::spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        for _ in 0..5 {
            profile_scope!("run");
            work_for(Duration::from_millis(60));
        }
        for _ in 0..5 {
            profile_scope!("sleep");
            std::thread::sleep(Duration::from_millis(30));
        }
        STOP.store(true, Ordering::Relaxed);
        rival.join().unwrap();
        // SAFETY: it only reads a number of the thread.
        unsafe { libc::gettid() as u32 }
    });
    let tid = tid.join().unwrap();
    vor_recorder::drain::close_capture().unwrap();
    let recorded = read(&path);
    assert_eq!(recorded.spans.len(), 10);
    let (mut all_runnable, mut all_blocked) = (0, 0);
    let (mut compared, mut agreeing) = (0, 0);
    for (name, start, end, measured) in &recorded.spans {
        let Some((runnable, blocked)) = waits(&recorded, tid, *start, *end) else {
            continue;
        };
        compared += 1;
        let is_near = |found: u64, truth: u64| found.abs_diff(truth) <= BOUND_NS + truth / 100;
        let measured_blocked = measured.off_cpu_ns - measured.run_queue_ns;
        let parts = [
            (measured.run_queue_ns, runnable),
            (measured_blocked, blocked),
        ];
        agreeing += usize::from(parts.iter().all(|&(found, truth)| is_near(found, truth)));
        println!("{name}: runnable and blocked, measured and by events: {parts:?} ns");
        all_runnable += runnable;
        all_blocked += blocked;
    }
    // The rival takes half of the processor.
    if compared <= recorded.spans.len() / 2 {
        let missing = "the kernel leaves out switches in most of the scopes";
        vor_fixtures::skip("switches beside waits", missing);
        return;
    }
    // Single scopes are interrupted between their two readings, or by the machine's host.
    assert!(agreeing > compared / 2, "{agreeing} of {compared} agree");
    assert!(all_runnable > 50_000_000, "{all_runnable}");
    assert!(all_blocked > 50_000_000, "{all_blocked}");
}

#[test]
fn events_name_the_thread_that_woke_another() {
    own_process!();
    if !has_tracefs() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    Config::new().capture(&path).scheduler(true).enable();
    let named = |name: &str| std::thread::Builder::new().name(name.into());
    let (sender, receiver) = std::sync::mpsc::channel();
    let (says_tid, its_tid) = std::sync::mpsc::channel();
    let receiving = named("receiver")
        .spawn(move || {
            // SAFETY: it only reads a number of the thread.
            says_tid.send(unsafe { libc::gettid() }).unwrap();
            receiver.iter().count()
        })
        .unwrap();
    let tid = its_tid.recv().unwrap();
    let sending = named("sender").spawn(move || {
        for i in 0..50 {
            // A thread that runs, or waits for a processor, is not woken.
            while !sleeps(tid) {
                std::thread::sleep(Duration::from_millis(1));
            }
            sender.send(i).unwrap();
        }
    });
    sending.unwrap().join().unwrap();
    assert_eq!(receiving.join().unwrap(), 50);
    vor_recorder::drain::close_capture().unwrap();
    let mut wakings = 0;
    for batch in read(&path).batches {
        for event in &batch.events {
            let [waker, woken] = event.tasks().map(|task| &batch.tasks[task as usize]);
            let is_waking = matches!(event.kind, SchedulerEventKind::Waking { .. });
            if is_waking && (&*waker.name, &*woken.name) == ("sender", "receiver") {
                assert!(waker.is_own && woken.is_own && waker.tid != woken.tid);
                wakings += 1;
            }
        }
    }
    assert!(wakings >= 49, "{wakings} of 50");
}

/// Returns whether a thread of this process sleeps.
fn sleeps(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
    let state = stat.rsplit_once(')').unwrap().1.trim_start();
    state.starts_with('S')
}

/// The instance of a process that was killed is removed by the next one.
#[test]
fn nothing_is_left_in_the_kernel() {
    if !has_tracefs() {
        return;
    }
    let left = Path::new(INSTANCES).join("vor-4194305");
    std::fs::create_dir(&left).unwrap();
    let run = |test: &str| {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .output()
            .unwrap();
        assert!(child.status.success(), "{child:?}");
    };
    run("scheduler_events::events_name_the_thread_that_woke_another");
    assert!(!left.exists());
    let entries = std::fs::read_dir(INSTANCES).unwrap().flatten();
    for entry in entries {
        let name = entry.file_name().into_string().unwrap();
        if let Some(pid) = name.strip_prefix("vor-") {
            let is_running = Path::new("/proc").join(pid).exists();
            // Other tests end meanwhile.
            assert!(is_running || !entry.path().exists(), "{name} is left");
        }
    }
}
