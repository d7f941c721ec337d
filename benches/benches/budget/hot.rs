//! The cost for the measured program: scopes, phases and metrics, each against the bare clock in
//! the same rounds.

use std::hint::black_box;

use vor_benches::clock::{TwoReads, bare_ticks, two_ticks};
use vor_benches::rounds::{Loop, Times, contest, keep_quiet};
use vor_benches::work::chain;

use crate::Options;
use crate::table::{Table, Target};

/// Rounds of each contest: an odd number, so that the median is one of them.
const ROUNDS: usize = 2001;
/// Scopes of a round: some tens of microseconds, so that most rounds run undisturbed.
const SCOPES: u32 = 1000;
/// Steps of the chain that makes about 200 ns.
const WORK_STEPS: u32 = 105;

fn nothing(passes: u32) {
    for i in 0..passes {
        black_box(i);
    }
}

/// The minimal work of a profiler.
fn two_ticks_and_a_store(passes: u32) {
    for i in 0..passes {
        let _reads = TwoReads::new();
        black_box(i);
    }
}

/// Empty scopes.
pub fn empty(passes: u32) {
    for i in 0..passes {
        vor::profile_scope!("empty");
        black_box(i);
    }
}

macro_rules! ten_times {
    ($body:block) => {
        $body $body $body $body $body $body $body $body $body $body
    };
}

/// Ten steps per pass.
fn straight_nothing(passes: u32) {
    for i in 0..passes {
        ten_times!({
            black_box(i);
        });
    }
}

/// Ten scopes per pass, one after the other.
fn straight(passes: u32) {
    for i in 0..passes {
        ten_times!({
            vor::profile_scope!("straight");
            black_box(i);
        });
    }
}

/// Scopes with two integers.
pub fn two_args(passes: u32) {
    for i in 0..passes {
        vor::profile_scope!("two_args", index = i, bytes = 4096_u64);
        black_box(i);
    }
}

/// Ten nested scopes per pass.
fn nested(passes: u32) {
    for i in 0..passes {
        vor::profile_scope!("1");
        vor::profile_scope!("2");
        vor::profile_scope!("3");
        vor::profile_scope!("4");
        vor::profile_scope!("5");
        vor::profile_scope!("6");
        vor::profile_scope!("7");
        vor::profile_scope!("8");
        vor::profile_scope!("9");
        vor::profile_scope!("10");
        black_box(i);
    }
}

fn bare_work(passes: u32) {
    for i in 0..passes {
        black_box(bare_ticks());
        black_box(chain(u64::from(i), WORK_STEPS));
        black_box(bare_ticks());
    }
}

fn scoped_work(passes: u32) {
    for i in 0..passes {
        vor::profile_scope!("work");
        black_box(chain(u64::from(i), WORK_STEPS));
    }
}

fn one_tick(passes: u32) {
    for _ in 0..passes {
        black_box(bare_ticks());
    }
}

fn phases(passes: u32) {
    let mut phases = vor::profile_phase!("first");
    for i in 0..passes {
        vor::profile_phase!(phases, "next");
        black_box(i);
    }
}

/// Measures scopes and phases.
pub fn measure(_: &Options, table: &mut Table) {
    assert!(
        !vor::is_enabled(),
        "the switched-off scope is measured first"
    );
    add_off(table, "scope switched off", Target::None);

    vor::Config::new().enable();
    // A flush after every second round, about 14 000 records, replaces the worker. The worker runs
    // every 20 ms and may get no core here.
    let mut contestants: [Loop<'_>; 9] = [
        Box::new(two_ticks),
        Box::new(two_ticks_and_a_store),
        Box::new(empty),
        Box::new(two_args),
        Box::new(|passes| nested(passes / 10)),
        Box::new(|passes| bare_work(passes / 10)),
        Box::new(|passes| scoped_work(passes / 10)),
        Box::new(one_tick),
        Box::new(phases),
    ];
    let mut times = contest(ROUNDS, SCOPES, &mut contestants, 2, &mut vor::flush);
    let quiet = keep_quiet(&mut times);
    let [floor, store, empty, args, nested, bare, scoped, tick, phase] = &times[..] else {
        return;
    };
    add_floor(table, floor, quiet);
    table.add(
        "two clock reads and a store / two clock reads",
        Target::None,
        store.ratio_to(floor),
        "x",
    );
    table.add("empty scope", Target::None, empty.median_ns(), "ns");
    table.add(
        "empty scope / two clock reads",
        Target::AtMost(1.10),
        empty.ratio_to(floor),
        "x",
    );
    table.add(
        "scope nested 10 deep / two clock reads",
        Target::AtMost(1.10),
        nested.ratio_to(floor),
        "x",
    );
    table.add(
        "scope with 2 integer arguments / two clock reads",
        Target::AtMost(1.25),
        args.ratio_to(floor),
        "x",
    );
    // These two ran a tenth of the passes that their times were divided by, hence the factor of 10.
    let note = format!(
        "the work: {:.0} ns",
        10.0 * (bare.median_ns()) - floor.median_ns()
    );
    let more = 10.0 * scoped.more_than_ns(bare);
    table.add_noted(
        "scope around 200 ns of work, over two clock reads",
        Target::AtMost(3.0),
        more,
        "ns",
        note,
    );
    table.add(
        "phase / one clock read",
        Target::AtMost(1.15),
        phase.ratio_to(tick),
        "x",
    );
    if let Err(error) = vor::set_scopes("*=off") {
        panic!("{error}");
    }
    add_off(table, "scope that a rule switched off", Target::AtMost(0.2));
    if let Err(error) = vor::set_scopes("") {
        panic!("{error}");
    }
    vor::disable();
    add_off(table, "scope switched off again", Target::None);
}

/// Adds the cost of a scope that is off, in a loop and between other code. The instructions are
/// counted by `.ci/callgrind`. In a loop they run beside the jump back, if they jump no further.
fn add_off(table: &mut Table, scope: &str, in_loop: Target) {
    let mut contestants: [Loop<'_>; 4] = [
        Box::new(nothing),
        Box::new(empty),
        Box::new(|passes| straight_nothing(passes / 10)),
        Box::new(|passes| straight(passes / 10)),
    ];
    let times = contest(
        ROUNDS,
        20 * SCOPES,
        &mut contestants,
        usize::MAX,
        &mut || {},
    );
    let [nothing, empty, straight_nothing, straight] = &times[..] else {
        return;
    };
    table.add(
        format!("{scope}, over the empty loop"),
        in_loop,
        empty.more_than_ns(nothing),
        "ns",
    );
    table.add(
        format!("{scope}, each of ten in a row"),
        Target::None,
        straight.more_than_ns(straight_nothing),
        "ns",
    );
}

fn named(passes: u32) {
    for i in 0..passes {
        let _scope = vor::scope(black_box("made at run time"));
        black_box(i);
    }
}

/// Adds the row by which the others are divided.
fn add_floor(table: &mut Table, floor: &Times, quiet: usize) {
    table.add_noted(
        "two clock reads (the floor)",
        Target::None,
        floor.median_ns(),
        "ns",
        format!("{quiet} quiet rounds of {ROUNDS}"),
    );
}

/// Measures scopes that are counted and not recorded. The process cannot leave this mode.
pub fn measure_counted(_: &Options, table: &mut Table) {
    vor::Config::new()
        .count_scopes(true)
        .print_stats(false)
        .enable();
    let mut contestants: [Loop<'_>; 9] = [
        Box::new(two_ticks),
        Box::new(empty),
        Box::new(two_args),
        Box::new(|passes| nested(passes / 10)),
        Box::new(|passes| bare_work(passes / 10)),
        Box::new(|passes| scoped_work(passes / 10)),
        Box::new(one_tick),
        Box::new(phases),
        Box::new(named),
    ];
    let mut times = contest(ROUNDS, SCOPES, &mut contestants, usize::MAX, &mut || {});
    let quiet = keep_quiet(&mut times);
    let [floor, empty, args, nested, bare, scoped, tick, phase, named] = &times[..] else {
        return;
    };
    add_floor(table, floor, quiet);
    table.add(
        "empty scope, counted",
        Target::None,
        empty.median_ns(),
        "ns",
    );
    for (what, times) in [
        ("empty scope, counted / two clock reads", empty),
        ("counted, nested 10 deep / two clock reads", nested),
        ("counted, 2 integer arguments / two clock reads", args),
    ] {
        table.add(what, Target::AtMost(1.5), times.ratio_to(floor), "x");
    }
    table.add(
        "counted, name made at run time / two clock reads",
        Target::None,
        named.ratio_to(floor),
        "x",
    );
    // These two ran a tenth of the passes that their times were divided by, hence the factor of 10.
    let more = 10.0 * scoped.more_than_ns(bare);
    table.add(
        "counted, around 200 ns of work, over two clock reads",
        Target::None,
        more,
        "ns",
    );
    table.add(
        "counted phase / one clock read",
        Target::None,
        phase.ratio_to(tick),
        "x",
    );
    vor::disable();
}

static COUNTER: vor::Counter = vor::Counter::new("budget_counter", "");
static HISTOGRAM: vor::Histogram = vor::Histogram::new("budget_histogram", "ns");

/// Measures metrics and counters.
pub fn measure_metrics(_: &Options, table: &mut Table) {
    vor::Config::new().enable();
    let mut contestants: [Loop<'_>; 4] = [
        Box::new(nothing),
        Box::new(|passes| {
            for i in 0..passes {
                vor::record_metric("queue_depth", f64::from(black_box(i)));
            }
        }),
        Box::new(|passes| {
            for i in 0..passes {
                COUNTER.add(u64::from(black_box(i)));
            }
        }),
        Box::new(|passes| {
            for i in 0..passes {
                HISTOGRAM.record(u64::from(black_box(i)));
            }
        }),
    ];
    let times = contest(ROUNDS, SCOPES, &mut contestants, 64, &mut vor::frame_mark);
    table.add(
        "record_metric by name",
        Target::AtMost(25.0),
        times[1].more_than_ns(&times[0]),
        "ns",
    );
    table.add(
        "Counter::add",
        Target::AtMost(5.0),
        times[2].more_than_ns(&times[0]),
        "ns",
    );
    table.add(
        "Histogram::record",
        Target::None,
        times[3].more_than_ns(&times[0]),
        "ns",
    );
    vor::flush();
    vor::disable();
}
