//! The time of a scope in which it waited for a processor or for something else, against the
//! kernel's own counts.

#![cfg(all(target_os = "linux", not(feature = "off")))]
#![allow(unsafe_code, reason = "affinities are the C library's")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vor_capture::model::measures::{Measured, Measures};
use vor_capture::reader::{Event, Reader};
use vor_fixtures::own_process;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

/// The parts may differ by this: readings are made at slightly different moments.
const BOUND_NS: u64 = 50_000;
const ROUNDS: usize = 9;

/// Returns for how long this thread waited for a processor so far.
fn queued_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Returns how often this thread was switched out so far, by itself and by the kernel.
fn switched() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].map(|name| {
        let mut lines = text.lines();
        let number = lines.find_map(|line| line.strip_prefix(name)).unwrap();
        number.trim().parse().unwrap()
    })
}

fn stay_on_one_processor() {
    // SAFETY: the sets are plain memory of the stated size, for which all zeros are valid.
    unsafe {
        let size = size_of::<libc::cpu_set_t>();
        let (mut all, mut one): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size, &raw mut all), 0);
        let first = (0..1024).find(|cpu| libc::CPU_ISSET(*cpu, &all)).unwrap();
        libc::CPU_SET(first, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size, &raw const one), 0);
    }
}

fn work_for(duration: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// Returns the name, the duration and the measures of each span.
fn spans(path: &Path) -> Vec<(String, u64, Measured)> {
    let mut reader = Reader::open(path).unwrap();
    let mut spans = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let Event::Batch(batch) = event else { continue };
        for thread in &batch.threads {
            for i in 0..thread.len() {
                let site = batch.catalog.site(thread.sites[i]).unwrap();
                assert!(Measures::of(site).has(Measures::WAITS));
                let args = thread.args.iter().find(|args| args.span as usize == i);
                let measured = args.map(|args| Measured::of(site, &args.values));
                let (start, ticks) = (thread.start_ticks[i], thread.duration_ticks[i]);
                let ns = batch.catalog.timeline.duration_ns(start, ticks);
                spans.push((site.name.to_string(), ns, measured.unwrap_or_default()));
            }
        }
    }
    spans
}

#[test]
fn a_wait_is_for_a_processor_or_for_something_else() {
    own_process!();
    if std::fs::metadata("/proc/thread-self/schedstat").is_err() {
        vor_fixtures::skip("waits for a processor", "the kernel has no schedstat");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    Config::new().capture(&path).waits(true).enable();
    let truth = std::thread::spawn(|| {
        static STOP: AtomicBool = AtomicBool::new(false);
        stay_on_one_processor();
        let competitor = std::thread::spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let mut truth = Vec::new();
        for _ in 0..ROUNDS {
            let before = queued_ns();
            {
                profile_scope!("beside a competitor");
                work_for(Duration::from_millis(100));
            }
            truth.push(queued_ns() - before);
        }
        STOP.store(true, Ordering::Relaxed);
        competitor.join().unwrap();
        for _ in 0..ROUNDS {
            profile_scope!("asleep");
            std::thread::sleep(Duration::from_millis(20));
        }
        for _ in 0..ROUNDS {
            profile_scope!("nothing");
        }
        truth
    });
    let truth = truth.join().unwrap();
    vor_recorder::drain::close_capture().unwrap();
    let all = spans(&path);
    let named = |name: &'static str| all.iter().filter(move |span| span.0 == name);
    assert_eq!(all.len(), 3 * ROUNDS);
    for (_, ns, measured) in &all {
        assert!(measured.run_queue_ns <= measured.off_cpu_ns, "{measured:?}");
        assert!(measured.off_cpu_ns <= *ns, "{measured:?} of {ns} ns");
    }
    // Single rounds may be interrupted between the two readings.
    let agree = named("beside a competitor")
        .zip(&truth)
        .filter(|(span, truth)| {
            let found = span.2.run_queue_ns;
            found.abs_diff(**truth) <= BOUND_NS + **truth / 100
        });
    assert!(agree.count() > ROUNDS / 2, "{all:?} {truth:?}");
    // Both threads always want the processor.
    assert!(
        truth.iter().sum::<u64>() > 10_000_000 * ROUNDS as u64,
        "{truth:?}"
    );
    let blocked = named("asleep").filter(|(_, ns, measured)| {
        let blocked_ns = measured.off_cpu_ns - measured.run_queue_ns;
        blocked_ns > 19_000_000 && blocked_ns <= *ns
    });
    assert!(blocked.count() > ROUNDS / 2, "{all:?}");
    // A scope in which the thread was not switched carries no values.
    let untouched = named("nothing").filter(|span| span.2 == Measured::default());
    assert!(untouched.count() > ROUNDS / 2, "{all:?}");
}

#[test]
fn a_single_scope_may_measure_its_waits() {
    own_process!();
    if std::fs::metadata("/proc/thread-self/schedstat").is_err() {
        vor_fixtures::skip("waits for a processor", "the kernel has no schedstat");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    Config::new().capture(&path).enable();
    for _ in 0..ROUNDS {
        profile_scope!("asleep", waits);
        std::thread::sleep(Duration::from_millis(20));
    }
    {
        profile_scope!("with arguments", waits, @category = "io", bytes = 7);
        std::thread::sleep(Duration::from_millis(20));
    }
    vor_recorder::drain::close_capture().unwrap();
    let all = spans(&path);
    assert_eq!(all.len(), ROUNDS + 1);
    let blocked = all.iter().filter(|(_, ns, measured)| {
        let blocked_ns = measured.off_cpu_ns - measured.run_queue_ns;
        blocked_ns > 19_000_000 && blocked_ns <= *ns
    });
    assert!(blocked.count() > ROUNDS / 2, "{all:?}");
}

/// The kernel counts the same switches in another file, where it divides them by who caused them.
#[test]
fn switches_are_those_that_the_kernel_counts() {
    const SLEEPS: u64 = 7;
    own_process!();
    if std::fs::metadata("/proc/thread-self/schedstat").is_err() {
        vor_fixtures::skip("switches", "the kernel has no schedstat");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    Config::new().capture(&path).waits(true).enable();
    let truth = std::thread::spawn(|| {
        static STOP: AtomicBool = AtomicBool::new(false);
        stay_on_one_processor();
        let mut truth = Vec::new();
        let mut round = |pass: &dyn Fn()| {
            for _ in 0..ROUNDS {
                let before = switched();
                pass();
                let after = switched();
                truth.push([after[0] - before[0], after[1] - before[1]]);
            }
        };
        round(&|| {
            profile_scope!("sleeps");
            for _ in 0..SLEEPS {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        round(&|| {
            profile_scope!("spins");
            work_for(Duration::from_micros(200));
        });
        let competitor = std::thread::spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        round(&|| {
            profile_scope!("beside a competitor");
            work_for(Duration::from_millis(50));
        });
        STOP.store(true, Ordering::Relaxed);
        competitor.join().unwrap();
        truth
    });
    let truth = truth.join().unwrap();
    vor_recorder::drain::close_capture().unwrap();
    let all = spans(&path);
    assert_eq!(all.len(), truth.len());
    for (at, name) in ["sleeps", "spins", "beside a competitor"]
        .iter()
        .enumerate()
    {
        let rounds = at * ROUNDS..(at + 1) * ROUNDS;
        let pairs = || all[rounds.clone()].iter().zip(&truth[rounds.clone()]);
        assert!(pairs().all(|(span, _)| span.0 == *name), "{all:?}");
        // In single rounds the thread is switched out beside the scope.
        let agree = pairs().filter(|(span, [by_itself, by_kernel])| {
            span.2.context_switches == by_itself + by_kernel
        });
        assert!(agree.count() > ROUNDS / 2, "{name}: {all:?} {truth:?}");
        // The kernel's counts are read around the scope.
        for (span, [by_itself, by_kernel]) in pairs() {
            let known = by_itself + by_kernel;
            assert!(span.2.context_switches <= known, "{all:?} {truth:?}");
        }
    }
    let found = |at: usize| {
        all[at * ROUNDS..(at + 1) * ROUNDS]
            .iter()
            .map(|span| span.2)
    };
    assert!(
        found(0).all(|measured| measured.context_switches >= SLEEPS),
        "{all:?}"
    );
    // Both threads always want the processor, and neither gives it back by itself.
    let beside = &truth[2 * ROUNDS..];
    let by_kernel: u64 = beside.iter().map(|switches| switches[1]).sum();
    assert!(by_kernel >= ROUNDS as u64, "{truth:?}");
}

/// A group of threads that gets a fifth of a processor, removed when dropped.
///
/// Its share is taken before all others: beside busy programs, it would seldom be used up.
struct Quota {
    folder: PathBuf,
    /// The file with the group's threads.
    threads: &'static str,
    /// The name of the throttled time, and its unit in nanoseconds.
    throttled: (&'static str, u64),
}

impl Quota {
    /// Makes a group for the calling thread; `None` where that is not allowed.
    fn new() -> Option<Self> {
        let name = format!("vor-test-{}", std::process::id());
        // The first version of control groups, and the second.
        let mut groups = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].into_iter();
        let group = groups.find(|group| Path::new(group).join("cgroup.procs").is_file())?;
        let folder = Path::new(group).join(name);
        std::fs::create_dir(&folder).ok()?;
        let is_first = folder.join("cpu.cfs_quota_us").is_file();
        let quota = Self {
            folder,
            threads: if is_first { "tasks" } else { "cgroup.threads" },
            throttled: match is_first {
                true => ("throttled_time", 1),
                false => ("throttled_usec", 1_000),
            },
        };
        let write = |name: &str, text: &str| std::fs::write(quota.folder.join(name), text).ok();
        match is_first {
            true => {
                write("cpu.shares", "262144")?;
                write("cpu.cfs_period_us", "50000")?;
                write("cpu.cfs_quota_us", "10000")?;
            }
            false => {
                write("cgroup.type", "threaded")?;
                write("cpu.weight", "10000")?;
                write("cpu.max", "10000 50000")?;
            }
        }
        write(quota.threads, "0")?;
        Some(quota)
    }

    /// Returns for how long the group was held back so far.
    fn throttled_ns(&self) -> u64 {
        let text = std::fs::read_to_string(self.folder.join("cpu.stat")).unwrap();
        let (name, unit_ns) = self.throttled;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse::<u64>().unwrap() * unit_ns
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A group with a thread in it cannot be removed, and a thread leaves it a little later.
        let outside = self.folder.with_file_name("cgroup.procs");
        std::fs::write(outside, std::process::id().to_string()).unwrap();
        for _ in 0..1_000 {
            match std::fs::remove_dir(&self.folder) {
                Ok(()) => return,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        panic!("{} is still in use", self.folder.display());
    }
}

/// A container with a share of a processor: the time without it is the wait for a processor.
#[test]
fn a_quota_of_the_kernel_is_a_wait_for_a_processor() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    Config::new().capture(&path).waits(true).enable();
    // The recorder has its threads by now, which would be in the group too.
    let Some(quota) = Quota::new() else {
        vor_fixtures::skip("waits under a quota", "no group of threads can be made");
        return;
    };
    // Each processor counts the time for which it held the group back.
    stay_on_one_processor();
    let mut throttled = Vec::new();
    for _ in 0..ROUNDS {
        let before = quota.throttled_ns();
        {
            profile_scope!("held back");
            work_for(Duration::from_millis(250));
        }
        throttled.push(quota.throttled_ns() - before);
    }
    drop(quota);
    vor_recorder::drain::close_capture().unwrap();
    let found: Vec<Measured> = spans(&path).iter().map(|span| span.2).collect();
    assert!(throttled.iter().sum::<u64>() > 100_000_000 * ROUNDS as u64);
    let agree = found.iter().zip(&throttled);
    let agree = agree.filter(|(found, throttled)| {
        let bound_ns = BOUND_NS + **throttled / 100;
        let blocked_ns = found.off_cpu_ns - found.run_queue_ns;
        // Other programs may have the processor too.
        found.run_queue_ns + bound_ns >= **throttled && blocked_ns <= bound_ns
    });
    // Single rounds may be interrupted between the two readings.
    assert!(agree.count() > ROUNDS / 2, "{throttled:?} {found:?}");
}

/// The child of a fork reads the count of its own thread.
#[test]
fn a_child_of_a_fork_counts_from_its_own_beginning() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    Config::new().capture(&path).waits(true).enable();
    {
        profile_scope!("parent");
        // More often than the child, whose own number is the smaller one.
        for _ in 0..50 {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    // SAFETY: the child only records, and ends without the parent's destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        {
            profile_scope!("child");
            std::thread::sleep(Duration::from_millis(10));
        }
        vor_recorder::drain::close_capture();
        // SAFETY: the call ends the process.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: the place for the status lives across the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    let of_child = path.with_file_name(format!("run.{child}.vor"));
    let all = spans(&of_child);
    let (name, ns, measured) = all.last().unwrap();
    assert_eq!(name, "child");
    assert!(measured.off_cpu_ns > 5_000_000 && measured.off_cpu_ns <= *ns);
    assert!(measured.run_queue_ns <= measured.off_cpu_ns);
    assert!((1..50).contains(&measured.context_switches), "{measured:?}");
}
