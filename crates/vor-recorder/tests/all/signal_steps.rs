//! Handlers that interrupt vor at every single instruction.
//!
//! With the trap flag set, the processor raises SIGTRAP after each instruction, so the handler runs
//! between any two instructions of the tested code. Scopes that the handler opens are recorded or
//! counted as dropped, and the interrupted scopes are recorded whole.
#![cfg(all(target_os = "linux", target_arch = "x86_64", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::signal_support::{ADDED, Adder, Delivered, Operation, in_a_process, stepping};
use crate::signal_support::{HANDLER, HANDLER_EVENTS, OUTER, OUTER_EVENTS};
#[cfg(feature = "tracing-subscriber")]
use crate::signal_support::{HANDLER_TRACED, OUTER_TRACED};
use vor_fixtures::random::rounds;
use vor_fixtures::test_name;
use vor_recorder::hot::{scope, thread};
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

/// The operation that each trap runs; none beyond the last one.
static NEXT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The first step in which the handler runs an operation.
static FIRST: AtomicU64 = AtomicU64::new(0);
static STEPS: AtomicU64 = AtomicU64::new(0);
/// Number of records made by handlers.
static MADE: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_trap(_: libc::c_int) {
    let step = STEPS.fetch_add(1, Ordering::Relaxed);
    let next = NEXT.load(Ordering::Relaxed);
    let Some((run, records)) = operations().nth(next) else {
        return;
    };
    if step < FIRST.load(Ordering::Relaxed) {
        return;
    }
    run();
    MADE.fetch_add(records, Ordering::Relaxed);
}

/// Whether handlers make only spans of `tracing`.
static IS_TRACED: AtomicBool = AtomicBool::new(false);

fn operations() -> impl Iterator<Item = Operation> {
    let is_traced = IS_TRACED.load(Ordering::Relaxed);
    let all = HANDLER.into_iter().chain(HANDLER_EVENTS);
    #[cfg(feature = "tracing-subscriber")]
    let all = all.chain(HANDLER_TRACED);
    let untraced = HANDLER.len() + HANDLER_EVENTS.len();
    let (skipped, taken) = match is_traced {
        true => (untraced, usize::MAX),
        false => (0, untraced),
    };
    all.skip(skipped).take(taken)
}

/// Returns the first of some handlers if tests make a part of their rounds.
fn some(handlers: &[usize]) -> &[usize] {
    &handlers[..rounds(handlers.len())]
}

/// Steps through each of `outer` with each of some handlers. Returns the number of records of
/// `outer`.
fn step_through(outer: &[Operation], handlers: &[usize]) -> u64 {
    // Once without traps, so that each site is known and each thread-local exists.
    for (run, _) in outer {
        run();
    }
    operations().for_each(|(run, _)| run());
    let once: u64 = outer.iter().map(|(_, records)| records).sum();
    MADE.fetch_add(
        operations().map(|(_, records)| records).sum(),
        Ordering::Relaxed,
    );
    for handler in handlers {
        NEXT.store(*handler, Ordering::Relaxed);
        for (i, (run, _)) in outer.iter().enumerate() {
            let before = STEPS.load(Ordering::Relaxed);
            stepping::run(run);
            println!(
                "handler {handler}, operation {i}: {} steps",
                STEPS.load(Ordering::Relaxed) - before
            );
            assert_eq!(thread::open_scopes(), [], "every opened scope is closed");
        }
    }
    NEXT.store(usize::MAX, Ordering::Relaxed);
    once * (handlers.len() as u64 + 1)
}

/// Checks that no interrupted record is lost, and that every record of handlers is recorded or
/// counted.
fn check(delivered: &Delivered, outer: u64, flows: u64) {
    let (steps, made) = (STEPS.load(Ordering::Relaxed), MADE.load(Ordering::Relaxed));
    // Both sides make flows, which have no names.
    let by_handlers = delivered.of("handler") + (delivered.of("flow") - flows);
    println!(
        "{steps} steps, {made} made by handlers, {} of them dropped",
        delivered.dropped
    );
    assert!(steps > 1000, "the processor stepped: {steps}");
    assert_eq!(delivered.of("outer") + flows, outer, "{delivered:?}");
    assert_eq!(by_handlers + delivered.dropped, made, "{delivered:?}");
    assert_eq!(delivered.lost_texts, 0, "{delivered:?}");
    assert!(
        by_handlers > delivered.dropped / 10,
        "handlers record: {delivered:?}"
    );
    let added = ADDED.load(Ordering::Relaxed) as f64;
    assert!(
        delivered.metrics.values().any(|sum| *sum == added),
        "{added}: {delivered:?}"
    );
}

#[test]
fn scopes_are_recorded_whole_and_scopes_of_handlers_recorded_or_counted() {
    let test = test_name!();
    in_a_process(test, || {
        stepping::install(on_trap);
        let adder = Adder::enable(Config::new());
        let made = step_through(&OUTER, some(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]));
        check(&adder.read().with_tasks(), made, 0);
    });
}

#[test]
fn other_records_are_whole_and_those_of_handlers_recorded_or_counted() {
    let test = test_name!();
    in_a_process(test, || {
        stepping::install(on_trap);
        let adder = Adder::enable(Config::new());
        // A scope, and the operation that is interrupted.
        let made = step_through(&OUTER_EVENTS, &[0, 10, 11, 12]);
        check(&adder.read().with_tasks(), made, 2 * 5);
    });
}

#[test]
fn measured_scopes_are_recorded_whole() {
    in_a_process(test_name!(), || {
        stepping::install(on_trap);
        let adder = Adder::enable(Config::new().cpu_time(true).allocations(true));
        // Plain scopes, nested ones, phases, and one with measures of its own.
        let made = step_through(&OUTER, some(&[0, 3, 4, 6]));
        check(&adder.read().with_tasks(), made, 0);
    });
}

#[test]
fn counted_scopes_are_counted_or_dropped() {
    in_a_process(test_name!(), || {
        stepping::install(on_trap);
        let adder = Adder::enable(Config::new().count_scopes(true).print_stats(false));
        let made = step_through(&OUTER, &[0, 3, 4, 5]);
        let mut delivered = adder.read().with_tasks();
        for row in vor_recorder::drain::stats() {
            *delivered.records.entry(row.name.to_string()).or_default() += row.count;
        }
        check(&delivered, made, 0);
    });
}

/// The number of call sites of [`SPANS_OF_MANY_SITES`], some of which share a slot with those of
/// handlers.
#[cfg(feature = "tracing-subscriber")]
const MANY_SITES: u64 = 128;

/// Functions that make a span of each of many call sites.
#[cfg(feature = "tracing-subscriber")]
const SPANS_OF_MANY_SITES: [Operation; 4] = {
    macro_rules! spans {
        ($($site:literal)*) => {
            {$({
                let _ = $site;
                drop(tracing::info_span!("outer of many").entered());
            })*}
        };
    }
    macro_rules! four_times {
        ($($site:literal)*) => { (|| spans!($($site 10 20 30)*), MANY_SITES / 4) };
    }
    [
        four_times!(0 1 2 3 4 5 6 7),
        four_times!(0 1 2 3 4 5 6 7),
        four_times!(0 1 2 3 4 5 6 7),
        four_times!(0 1 2 3 4 5 6 7),
    ]
};

#[cfg(feature = "tracing-subscriber")]
#[test]
fn spans_of_many_sites_of_tracing_are_not_mixed_up() {
    in_a_process(test_name!(), || {
        let subscriber = vor_recorder::bridges::subscriber::TracingSubscriber::new();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        stepping::install(on_trap);
        IS_TRACED.store(true, Ordering::Relaxed);
        let adder = Adder::enable(Config::new());
        let some = &SPANS_OF_MANY_SITES[..rounds(4)];
        let made = step_through(some, &[0]);
        crate::signal_support::COUNTER.add(0);
        check(&adder.read(), made, 0);
    });
}

#[cfg(feature = "tracing-subscriber")]
#[test]
fn spans_of_tracing_are_recorded_whole() {
    in_a_process(test_name!(), || {
        let subscriber = vor_recorder::bridges::subscriber::TracingSubscriber::new();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        stepping::install(on_trap);
        IS_TRACED.store(true, Ordering::Relaxed);
        let adder = Adder::enable(Config::new());
        let made = step_through(&OUTER_TRACED, &[0, 1]);
        crate::signal_support::COUNTER.add(0);
        let mut delivered = adder.read();
        // A thread keeps 256 texts of such spans. Here, handlers record more than that before the
        // interrupted span is recorded.
        assert!(
            delivered.lost_texts <= delivered.of("outer fields"),
            "{delivered:?}"
        );
        delivered.lost_texts = 0;
        check(&delivered, made, 0);
    });
}

#[test]
fn first_scopes_of_threads_and_names_survive_handlers() {
    in_a_process(test_name!(), || {
        stepping::install(on_trap);
        let adder = Adder::enable(Config::new());
        // The sites of the handler are known.
        HANDLER[0].0();
        NEXT.store(0, Ordering::Relaxed);
        let threads = rounds(24) as u64;
        for i in 0..threads {
            let work = move || {
                let name = format!("outer name {i}");
                STEPS.store(0, Ordering::Relaxed);
                FIRST.store(i * 797 * 24 / threads, Ordering::Relaxed);
                stepping::run(|| {
                    profile_scope!("outer first");
                    drop(scope::scope(&name));
                });
            };
            std::thread::spawn(work).join().unwrap();
        }
        NEXT.store(usize::MAX, Ordering::Relaxed);
        let delivered = adder.read();
        let made = MADE.load(Ordering::Relaxed) + 1;
        println!(
            "{made} made by handlers, {} of them dropped",
            delivered.dropped
        );
        assert_eq!(delivered.of("outer"), 2 * threads, "{delivered:?}");
        assert_eq!(delivered.of("handler") + delivered.dropped, made);
        assert!(
            delivered.dropped > 0,
            "some handlers interrupt the first uses"
        );
    });
}

#[test]
fn handlers_read_the_scopes_that_are_open() {
    in_a_process(test_name!(), || {
        stepping::install(on_trap);
        let _adder = Adder::enable(Config::new());
        let names = || -> Vec<Vec<String>> {
            let threads = thread::open_scopes();
            let names = |thread: &thread::OpenThread| -> Vec<String> {
                thread
                    .scopes
                    .iter()
                    .map(|scope| scope.name.clone())
                    .collect()
            };
            threads.iter().map(names).collect()
        };
        HANDLER.iter().for_each(|(run, _)| run());
        for handler in 0..HANDLER.len() {
            NEXT.store(handler, Ordering::Relaxed);
            for _ in 0..rounds(3) {
                let mut outer = None;
                stepping::run(|| outer = Some(scope::scope("outer open")));
                assert_eq!(names(), [["outer open"]]);
                let mut inner = None;
                stepping::run(|| inner = Some(scope::scope("inner open")));
                assert_eq!(names(), [["outer open", "inner open"]]);
                stepping::run(|| drop(inner));
                assert_eq!(names(), [["outer open"]]);
                stepping::run(|| drop(outer));
                assert_eq!(names(), [[""; 0]; 0]);
            }
        }
        NEXT.store(usize::MAX, Ordering::Relaxed);
    });
}
