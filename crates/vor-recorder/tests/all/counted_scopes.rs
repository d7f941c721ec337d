//! Scopes that are counted and not recorded: the statistics of programs with known counts and
//! nesting.
#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use vor_capture::Error;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::ThreadId;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_capture::stats::ScopeStats;
use vor_fixtures::own_process;
use vor_recorder::hot::scope;
use vor_recorder::setup::Config;
use vor_recorder::{drain, message, profile_phase, profile_scope, setup};

/// Numbers of records that sinks receive: spans, messages, frames.
#[derive(Default)]
struct SinkCounts {
    spans: AtomicU64,
    messages: AtomicU64,
    frames: AtomicU64,
    dropped: AtomicU64,
}

struct CountingSink(Arc<SinkCounts>);

impl FrameSink for CountingSink {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.0.frames.fetch_add(1, Ordering::Relaxed);
        self.0
            .dropped
            .fetch_add(frame.dropped_spans, Ordering::Relaxed);
        Ok(())
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        for thread in &batch.threads {
            let (spans, messages) = (thread.sites.len(), thread.messages.len());
            self.0.spans.fetch_add(spans as u64, Ordering::Relaxed);
            self.0
                .messages
                .fetch_add(messages as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}

type Rows = BTreeMap<String, ScopeStats>;

fn by_name(rows: Vec<ScopeStats>) -> Rows {
    rows.into_iter()
        .map(|row| (row.name.clone(), row))
        .collect()
}

fn rows() -> Rows {
    by_name(drain::stats())
}

fn burn(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Returns whether `ns` is at least as long as the system's clock reported. The two clocks may
/// differ by the 50 parts per million of their adjustment, by as much again for the first
/// calibration, and by the rounding.
fn lasted(ns: u64, min_ns: u64) -> bool {
    ns + min_ns / 10_000 + 1 >= min_ns
}

/// Fails unless both are equal up to rounding, which may take one nanosecond for each number in the
/// sums.
#[track_caller]
fn assert_adds_up(left_ns: u64, right_ns: u64, roundings: u64) {
    assert!(
        left_ns.abs_diff(right_ns) <= roundings,
        "{left_ns} and {right_ns}"
    );
}

/// A tree: `root` contains `left` twice, which contains `leaf`, and `right` once.
fn tree() {
    profile_scope!("root");
    for i in 0..2 {
        profile_scope!("left", turn = i, text = "not kept");
        burn(Duration::from_micros(20));
        for _ in 0..3 {
            profile_scope!("leaf");
            burn(Duration::from_micros(10));
        }
    }
    profile_scope!("right");
    burn(Duration::from_micros(30));
}

fn a_tree_on_several_threads() {
    const THREADS: u64 = 4;
    const TREES: u64 = 200;
    let barrier = Barrier::new(THREADS as usize + 1);
    let (counted, done) = (&barrier, &Barrier::new(THREADS as usize + 1));
    std::thread::scope(|threads| {
        for i in 0..THREADS {
            let named = std::thread::Builder::new().name(format!("worker {i}"));
            let work = move || {
                (0..TREES).for_each(|_| tree());
                counted.wait();
                done.wait();
            };
            named.spawn_scoped(threads, work).unwrap();
        }
        counted.wait();
        // While the threads live, each has its own rows. A failed check must not leave the threads
        // waiting.
        let all = drain::stats_by_thread();
        done.wait();
        let workers: Vec<_> = all
            .iter()
            .filter(|thread| thread.name.starts_with("worker "))
            .collect();
        assert_eq!(workers.len() as u64, THREADS);
        let ids: Vec<Option<ThreadId>> = workers.iter().map(|worker| worker.thread).collect();
        assert!(ids.iter().all(Option::is_some));
        for worker in workers {
            check_tree(&by_name(worker.scopes.clone()), TREES);
        }
    });
    // The threads may still be ending: each of their counts is found exactly once, with its thread
    // or without.
    check_tree(&rows(), THREADS * TREES);
}

fn check_tree(rows: &Rows, trees: u64) {
    let [root, left, leaf, right] = ["root", "left", "leaf", "right"].map(|name| &rows[name]);
    assert_eq!(
        [root.count, left.count, leaf.count, right.count],
        [1, 2, 6, 1].map(|each| each * trees)
    );
    assert!(
        lasted(leaf.min_ns, 10_000) && lasted(right.min_ns, 30_000) && lasted(left.min_ns, 50_000)
    );
    assert!(lasted(left.self_ns, 2 * trees * 20_000));
    // Each self time is the rest of the total, so all of them add up to the total of the root.
    assert_adds_up(leaf.self_ns, leaf.total_ns, 0);
    assert_adds_up(right.self_ns, right.total_ns, 0);
    assert_adds_up(left.self_ns + leaf.total_ns, left.total_ns, 3);
    assert_adds_up(
        root.self_ns + left.total_ns + right.total_ns,
        root.total_ns,
        4,
    );
    for row in rows.values() {
        assert!(row.min_ns <= row.p50_ns && row.p50_ns <= row.p95_ns && row.p95_ns <= row.p99_ns);
        assert!(row.p99_ns <= row.max_ns && row.max_ns <= row.total_ns);
        assert!((row.mean_ns - row.total_ns as f64 / row.count as f64).abs() < 1.0);
    }
}

fn ten_thousand_short_threads() {
    for _ in 0..1250 {
        std::thread::scope(|threads| {
            for i in 0..8 {
                threads.spawn(move || {
                    profile_scope!("short");
                    for _ in 0..=i {
                        profile_scope!("inside");
                    }
                });
            }
        });
    }
    let rows = rows();
    assert_eq!(
        (rows["short"].count, rows["inside"].count),
        (10_000, 1250 * 36)
    );
    assert_adds_up(
        rows["short"].self_ns + rows["inside"].total_ns,
        rows["short"].total_ns,
        3,
    );
}

/// A reader sees the counts of running threads, and those that a thread hands over at its end, each
/// exactly once.
fn reading_meanwhile() {
    const LONG: u64 = 300_000;
    const SHORT: u64 = 400;
    std::thread::scope(|threads| {
        let long = || (0..LONG).for_each(|_| drop(scope::scope("watched")));
        let short = || {
            for _ in 0..SHORT {
                let work = || (0..10).for_each(|_| drop(scope::scope("watched")));
                std::thread::spawn(work).join().unwrap();
            }
        };
        let workers = [threads.spawn(long), threads.spawn(short)];
        let mut seen = 0;
        while !workers.iter().all(|worker| worker.is_finished()) {
            let now = rows().get("watched").map_or(0, |row| row.count);
            assert!(now >= seen, "{now} after {seen}");
            seen = now;
        }
        assert!(seen > 0);
    });
    assert_eq!(rows()["watched"].count, LONG + 10 * SHORT);
}

fn down(depth: u32) {
    profile_scope!("down");
    if depth > 1 {
        down(depth - 1);
    } else {
        burn(Duration::from_millis(2));
    }
}

/// Deeper than the open scopes that a thread publishes.
fn deep_recursion() {
    let begin = Instant::now();
    {
        profile_scope!("around");
        down(1000);
        down(500);
    }
    let passed_ns = begin.elapsed().as_nanos() as u64;
    let rows = rows();
    let (down, around) = (&rows["down"], &rows["around"]);
    assert_eq!(down.count, 1500);
    assert!(lasted(down.min_ns, 2_000_000));
    // The total counts a recursive call once, as the self times do; the mean is the mean of single
    // calls.
    assert!(lasted(down.mean_ns as u64, 2_000_000));
    assert_adds_up(down.self_ns, down.total_ns, 3);
    assert_adds_up(around.self_ns + down.total_ns, around.total_ns, 3);
    assert!(lasted(passed_ns, around.total_ns));
}

fn even(depth: u32) {
    profile_scope!("even");
    burn(Duration::from_micros(100));
    if depth > 0 {
        odd(depth - 1);
    }
}

fn odd(depth: u32) {
    profile_scope!("odd");
    burn(Duration::from_micros(100));
    if depth > 0 {
        even(depth - 1);
    }
}

/// Shallow, so that the fast path of a scope's end handles the recursion.
fn mutual_recursion() {
    for _ in 0..10 {
        even(6);
    }
    let rows = rows();
    let (even, odd) = (&rows["even"], &rows["odd"]);
    assert_eq!((even.count, odd.count), (40, 30));
    assert!(lasted(even.self_ns, 4_000_000) && lasted(odd.self_ns, 3_000_000));
    assert_adds_up(even.total_ns, even.self_ns + odd.self_ns, 3);
    // The total has all calls of `odd` but only the outermost call of `even`.
    assert!(odd.total_ns < even.total_ns && odd.total_ns + even.self_ns > even.total_ns);
}

/// More nested sites than the set of a level distinguishes.
fn many_sites_inside_each_other() {
    const LEVELS: usize = 200;
    let open: Vec<_> = (0..LEVELS)
        .map(|i| scope::scope(&format!("level {i}")))
        .collect();
    burn(Duration::from_millis(1));
    open.into_iter().rev().for_each(drop);
    let rows = rows();
    let totals = (0..LEVELS).map(|i| rows[&format!("level {i}")].total_ns);
    let totals: Vec<u64> = totals.collect();
    assert!(
        totals.is_sorted_by(|outer, inner| outer >= inner),
        "{totals:?}"
    );
    assert!(lasted(totals[LEVELS - 1], 1_000_000));
}

fn out_of_order() {
    let first = scope::scope("first");
    let second = scope::scope("second");
    burn(Duration::from_millis(1));
    drop(first);
    let third = scope::scope("third");
    let inside = scope::scope("inside the third");
    burn(Duration::from_millis(1));
    // Neither `inside` nor the scopes after it may get the time of this one.
    drop(second);
    let innermost = scope::scope("innermost");
    burn(Duration::from_millis(1));
    drop(innermost);
    drop(inside);
    drop(third);
    let rows = rows();
    for name in ["first", "second", "third", "inside the third", "innermost"] {
        let row = &rows[name];
        assert_eq!(row.count, 1);
        assert!(
            lasted(row.total_ns, 1_000_000) && row.self_ns <= row.total_ns,
            "{row:?}"
        );
    }
    let [first, second, third, inside, innermost] =
        ["first", "second", "third", "inside the third", "innermost"].map(|name| &rows[name]);
    // The first scope ended before the scope that was opened in it.
    assert_eq!(first.self_ns, first.total_ns);
    assert!(lasted(second.total_ns, 2_000_000) && second.self_ns == second.total_ns);
    assert_adds_up(inside.self_ns + innermost.total_ns, inside.total_ns, 3);
    assert_adds_up(third.self_ns + inside.total_ns, third.total_ns, 3);
}

fn phases() {
    {
        profile_scope!("of phases");
        let mut phase = profile_phase!("phase one");
        for _ in 0..10 {
            profile_phase!(phase, "phase two");
            profile_scope!("in a phase");
            burn(Duration::from_micros(50));
        }
        profile_phase!(phase, "phase three");
        drop(phase);
    }
    let rows = rows();
    let of = |name: &str| &rows[name];
    assert_eq!(
        ["phase one", "phase two", "phase three"].map(|name| of(name).count),
        [1, 10, 1]
    );
    assert_adds_up(
        of("phase two").self_ns + of("in a phase").total_ns,
        of("phase two").total_ns,
        3,
    );
    let phases_ns: u64 = ["phase one", "phase two", "phase three"]
        .map(|name| of(name).total_ns)
        .iter()
        .sum();
    assert_adds_up(
        of("of phases").self_ns + phases_ns,
        of("of phases").total_ns,
        5,
    );
}

thread_local! {
    static LATE: RefCell<Option<ThreadLocalScope>> = const { RefCell::new(None) };
}

/// Opens scopes when its thread ends, before and after vor released the thread.
struct ThreadLocalScope;

impl Drop for ThreadLocalScope {
    fn drop(&mut self) {
        profile_scope!("in a destructor");
    }
}

fn in_destructors() {
    for vor_first in [true, false] {
        let work = move || {
            if vor_first {
                profile_scope!("before");
            }
            LATE.with(|late| *late.borrow_mut() = Some(ThreadLocalScope));
            profile_scope!("after");
        };
        std::thread::spawn(work).join().unwrap();
    }
    assert_eq!(rows()["in a destructor"].count, 2);
}

struct Twice(u32);

impl std::future::Future for Twice {
    type Output = ();
    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<()> {
        self.0 += 1;
        match self.0 {
            1 => std::task::Poll::Pending,
            _ => std::task::Poll::Ready(()),
        }
    }
}

fn futures_by_their_polls() {
    use vor_recorder::hot::future::ProfileFuture;
    let mut future = std::pin::pin!(Twice(0).profiled("future"));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    while future.as_mut().poll(&mut context).is_pending() {}
    assert_eq!(rows()["future"].count, 2);
}

fn many(count: u64) {
    for i in 0..count {
        profile_scope!("many", i = i);
    }
}

/// One test: the mode belongs to the process and cannot be changed back.
#[test]
fn counts_and_times_are_exact() {
    own_process!();
    let seen = Arc::new(SinkCounts::default());
    // The ring is so small that it would drop spans.
    let config = Config::new()
        .ring_kib(4)
        .count_scopes(true)
        .print_stats(false);
    config
        .sink("watch", CountingSink(Arc::clone(&seen)))
        .enable();
    assert!(drain::stats().is_empty() && drain::stats_by_thread().is_empty());
    a_tree_on_several_threads();
    ten_thousand_short_threads();
    reading_meanwhile();
    deep_recursion();
    mutual_recursion();
    many_sites_inside_each_other();
    out_of_order();
    phases();
    in_destructors();
    futures_by_their_polls();

    // Names made at run time; one of them is also the name of a call site.
    for i in 0..500 {
        let _named = scope::scope(&format!("name {i}"));
    }
    assert_eq!(
        rows()
            .keys()
            .filter(|name| name.starts_with("name "))
            .count(),
        500
    );

    // Switched off, only open scopes are counted; switched on again, counting goes on.
    many(1_000_000);
    {
        profile_scope!("open meanwhile");
        setup::disable();
        many(1_000);
        assert!(!setup::is_enabled());
    }
    assert_eq!(
        (rows()["many"].count, rows()["open meanwhile"].count),
        (1_000_000, 1)
    );
    setup::enable();
    many(1_000);
    assert_eq!(rows()["many"].count, 1_001_000);

    // No scope reached a ring; all other records go to sinks.
    message!("a message");
    drain::frame_mark();
    drain::flush();
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!(
        (of(&seen.spans), of(&seen.dropped), of(&seen.messages)),
        (0, 0, 1)
    );
    assert!(of(&seen.frames) >= 1);
    setup::disable();
}
