//! Loops whose instructions `.ci/callgrind` counts, one per kind of scope.
//!
//! `instructions KIND PASSES` runs the loop of that kind; the script subtracts the loop `empty` and
//! divides by the passes. The loops are separate functions with known names, so that the count
//! starts and ends with them and excludes the worker thread.

use std::hint::black_box;
use std::process::ExitCode;

/// KiB of the ring: more than any loop fills. The worker is as slow as the simulator, and a full
/// ring takes another path.
const RING_KIB: usize = 64 << 10;

#[inline(never)]
fn counted_empty(passes: u64) {
    for i in 0..passes {
        black_box(i);
    }
}

#[inline(never)]
fn counted_scope(passes: u64) {
    for i in 0..passes {
        vor::profile_scope!("scope");
        black_box(i);
    }
}

#[inline(never)]
fn counted_two_args(passes: u64) {
    for i in 0..passes {
        vor::profile_scope!("two_args", index = i, bytes = 4096_u64);
        black_box(i);
    }
}

#[inline(never)]
fn counted_phase(passes: u64) {
    // Compiled out, a chain is the unit value, and nothing changes it.
    #[allow(
        clippy::let_unit_value,
        unused_mut,
        unused_variables,
        reason = "whether these hold depends on the feature `off`"
    )]
    let mut phases = vor::profile_phase!("first");
    for i in 0..passes {
        vor::profile_phase!(phases, "next");
        black_box(i);
    }
}

/// A lock that is free, and its unlock.
#[cfg(feature = "lock")]
#[inline(never)]
fn counted_lock(passes: u64) {
    static LOCK: vor::sync::Mutex<u64> = vor::sync::Mutex::named("free", 0);
    for i in 0..passes {
        if let Ok(mut value) = black_box(&LOCK).lock() {
            *value += i;
        }
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let kind = args.next().unwrap_or_default();
    let passes = args.next().and_then(|text| text.parse::<u64>().ok());
    let counts = kind == "scope-counted";
    let (run, on): (fn(u64), bool) = match kind.as_str() {
        "empty" => (counted_empty, false),
        "scope" | "scope-shared" => (counted_scope, true),
        "scope-counted" => (counted_scope, true),
        "scope-off" => (counted_scope, false),
        "scope-ruled-off" | "scope-ruled" => (counted_scope, true),
        "two-args" => (counted_two_args, true),
        "phase" => (counted_phase, true),
        #[cfg(feature = "lock")]
        "lock" => (counted_lock, true),
        _ => {
            eprintln!(
                "instructions: expected empty, scope, scope-shared, scope-counted, scope-off, \
                scope-ruled, scope-ruled-off, two-args, phase or lock, found `{kind}`"
            );
            return ExitCode::from(2);
        }
    };
    let Some(passes) = passes else {
        eprintln!("instructions: expected a number of passes");
        return ExitCode::from(2);
    };
    if on {
        vor::Config::new()
            .ring_kib(RING_KIB)
            .count_scopes(counts)
            .print_stats(false)
            .shared_memory(kind == "scope-shared")
            .enable();
    }
    let rules = match kind.as_str() {
        // Other sites have rules, which cost this one nothing.
        "scope-ruled" => "other=off,scope=record",
        "scope-ruled-off" => "scope=off",
        _ => "",
    };
    if let Err(error) = vor::set_scopes(rules) {
        eprintln!("instructions: {error}");
        return ExitCode::from(2);
    }
    run(passes);
    ExitCode::SUCCESS
}
