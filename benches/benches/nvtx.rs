//! The cost of a scope with an NVTX tool attached, and of the tool itself.
//!
//! The scope is also recorded, for which it reads the clock twice. The bench prints three
//! differences. The first is over the tool's own push and pop. The second is over these and two
//! clock reads. The third is over these and the scope without a tool, and is the cost of a range
//! for a recorded scope.
//!
//! A tool is attached until the process ends, so rounds with and without one are processes in turn.
//! The tool is that of the tests, without its log.

#![allow(
    clippy::expect_used,
    reason = "a bench that cannot be set up should stop"
)]

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use vor_benches::clock::bare_ticks;
use vor_benches::rounds::{Loop, contest, keep_quiet, median};
use vor_recorder::setup::Config;
use vor_recorder::{drain, profile_scope};

const TOOL: &str = "NVTX_INJECTION64_PATH";
const CHILD: &str = "VOR_BENCH_CHILD";
const PROCESSES: usize = 7;
const ROUNDS: usize = 2000;
const PASSES: u32 = 500;

fn main() {
    if std::env::var_os(CHILD).is_some() {
        return measure();
    }
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let tool = vor_fixtures::libraries::build("nvtx_tool.rs", folder.path(), "libtool.so");
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..PROCESSES {
        without.push(child(None));
        with.push(child(Some(&tool)));
    }
    let of = |rows: &[Vec<f64>], at: usize| median(rows.iter().map(|row| row[at]).collect());
    println!(
        "two clock readings            {:6.2} ns, {:6.2} ns with a tool in the process",
        of(&without, 0),
        of(&with, 0)
    );
    println!("the tool's own push and pop   {:6.2} ns", of(&with, 3));
    let floor = of(&with, 0);
    for (at, name) in [(1, "empty scope"), (2, "scope with two integers")] {
        let (bare, told, tool) = (of(&without, at), of(&with, at), of(&with, 3));
        println!("{name}: {bare:.2} ns without a tool, {told:.2} ns with one");
        println!(
            "    over the tool's own                          {:6.2} ns",
            told - tool
        );
        println!(
            "    over that and two clock readings             {:6.2} ns",
            told - tool - floor
        );
        println!(
            "    over that and the scope without a tool       {:6.2} ns",
            told - tool - bare
        );
    }
}

/// Runs this program again, and returns its output: one number per contestant.
fn child(tool: Option<&Path>) -> Vec<f64> {
    let mut command = Command::new(std::env::current_exe().expect("a bench has a path"));
    command.env(CHILD, "1").env_remove(TOOL);
    if let Some(tool) = tool {
        command.env(TOOL, tool);
    }
    let output = vor_fixtures::process::run_to_success(&mut command);
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(numbers.len(), if tool.is_some() { 4 } else { 3 }, "{text}");
    numbers
}

fn measure() {
    Config::new().enable();
    let mut contestants: Vec<Loop<'_>> = vec![
        Box::new(|passes| {
            for _ in 0..passes {
                black_box(bare_ticks());
                black_box(bare_ticks());
            }
        }),
        Box::new(|passes| {
            for _ in 0..passes {
                profile_scope!("empty");
            }
        }),
        Box::new(|passes| {
            for pass in 0..passes {
                profile_scope!("two integers", pass = pass, passes = passes);
            }
        }),
    ];
    if let Some(path) = std::env::var_os(TOOL) {
        contestants.push(tool_alone(&path));
    }
    let mut times = contest(ROUNDS, PASSES, &mut contestants, 8, &mut || drain::flush());
    keep_quiet(&mut times);
    times
        .iter()
        .for_each(|times| println!("{}", times.median_ns()));
}

#[expect(unsafe_code, reason = "the tool is a library")]
fn tool_alone(path: &std::ffi::OsStr) -> Loop<'static> {
    type Push = unsafe extern "system" fn(*const c_void) -> c_int;
    type Pop = unsafe extern "system" fn() -> c_int;
    // SAFETY: `main` built the library, which is already loaded and stays loaded, and exports
    // functions with these signatures.
    let (push, pop) = unsafe {
        let library = libloading::Library::new(path).expect("the tool is there");
        let push = *library
            .get::<Push>(b"vor_test_push\0")
            .expect("the tool exports it");
        let pop = *library
            .get::<Pop>(b"vor_test_pop\0")
            .expect("the tool exports it");
        std::mem::forget(library);
        (push, pop)
    };
    let attributes = [0_u64; 6];
    Box::new(move |passes| {
        for _ in 0..passes {
            // SAFETY: without a log, the tool does not read the attributes, and these are large
            // enough.
            unsafe {
                push(black_box(attributes.as_ptr()).cast());
                pop();
            }
        }
    })
}
