//! Profiles of a program whose allocations, leaks and CPU time are known, read back: of its spans,
//! and of its heap.
//!
//! With `VOR_ORACLE_OUT`, the profiles are also written to that folder, where `go tool pprof` can
//! check the same numbers.

#![cfg(feature = "pprof")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

use vor_export::pprof::{HeapPprof, PprofExporter};
use vor_fixtures::own_process;
use vor_recorder::allocations::untracked;
use vor_recorder::clock::cpu::thread_cpu_ns;
use vor_recorder::heap::heap_snapshot;
use vor_recorder::setup::Config;
use vor_recorder::{drain, profile_scope, setup};

/// Leaks an object, which stays live without a reference.
fn leak(bytes: usize) {
    std::mem::forget(black_box(vec![1_u8; bytes]));
}

/// Computes for some tens of milliseconds.
fn compute() -> u64 {
    profile_scope!("compute");
    (0..20_000_000_u64).fold(1, |sum, i| black_box(sum ^ i.rotate_left(7)))
}

fn wait() {
    profile_scope!("wait");
    std::thread::sleep(Duration::from_millis(30));
}

#[test]
fn a_program_with_known_numbers_has_them_in_its_profiles() {
    own_process!();
    let temporary = untracked(|| tempfile::tempdir().unwrap());
    let folder = std::env::var_os("VOR_ORACLE_OUT")
        .map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let path = |name: &str| folder.join(name);
    Config::new().cpu_time(true).enable();
    let file = fs::File::create(path("program.pb.gz")).unwrap();
    let exporter = drain::add_sink("profile", PprofExporter::new(file));
    {
        profile_scope!("start");
        leak(1_000);
    }
    let before = heap_snapshot();
    {
        profile_scope!("serve");
        for _ in 0..10 {
            profile_scope!("remember");
            leak(300);
        }
        drop(black_box(vec![1_u8; 50_000]));
    }
    let after = heap_snapshot();
    let began_ns = thread_cpu_ns().unwrap();
    compute();
    let computed_ns = thread_cpu_ns().unwrap() - began_ns;
    wait();
    drop(exporter);
    untracked(|| {
        after
            .write_pprof(fs::File::create(path("heap.pb.gz")).unwrap())
            .unwrap();
        after
            .write_pprof_since(&before, fs::File::create(path("leak.pb.gz")).unwrap())
            .unwrap();
    });
    setup::disable();
    let read = |name: &str| vor_fixtures::pprof::read(&fs::read(path(name)).unwrap());
    let stack = |names: &[&str]| {
        names
            .iter()
            .map(|&name| name.to_owned())
            .collect::<Vec<_>>()
    };
    let value =
        |sums: &BTreeMap<Vec<String>, i64>, names: &[&str]| sums.get(&stack(names)).copied();

    let program = read("program.pb.gz");
    let of = |index: &str| program.sums(index);
    assert_eq!(value(&of("alloc_bytes"), &["serve"]), Some(50_000));
    assert_eq!(
        value(&of("alloc_bytes"), &["serve", "remember"]),
        Some(3_000)
    );
    assert_eq!(
        value(&of("alloc_objects"), &["serve", "remember"]),
        Some(10)
    );
    assert_eq!(value(&of("alloc_bytes"), &["start"]), Some(1_000));
    // The thread's clock was read outside of the scope. The scope has at most that time, and misses
    // only the time of the readings.
    let cpu_ns = value(&of("cpu"), &["compute"]).unwrap();
    assert!(
        cpu_ns <= i64::try_from(computed_ns).unwrap() + 100_000,
        "{cpu_ns} of {computed_ns}"
    );
    assert!(
        cpu_ns >= i64::try_from(computed_ns).unwrap() - 1_000_000,
        "{cpu_ns} of {computed_ns}"
    );
    let waited_ns = value(&of("cpu"), &["wait"]).unwrap_or(0);
    assert!(waited_ns < 5_000_000 && value(&of("wall"), &["wait"]).unwrap() >= 30_000_000);

    let heap = read("heap.pb.gz");
    assert_eq!(heap.type_names(), ["inuse_bytes", "inuse_objects"]);
    let (bytes, objects) = (heap.sums("inuse_bytes"), heap.sums("inuse_objects"));
    assert_eq!(value(&bytes, &["serve", "remember"]), Some(3_000));
    assert_eq!(value(&objects, &["serve", "remember"]), Some(10));
    assert_eq!(value(&bytes, &["start"]), Some(1_000));
    assert_eq!(value(&bytes, &["serve"]), None, "all of it was freed");
    assert!(value(&bytes, &["(outside of scopes)"]).is_some_and(|bytes| bytes > 0));
    let sample = heap
        .samples
        .iter()
        .find(|sample| sample.names() == ["start"])
        .unwrap();
    assert!(sample.stack[0].1.ends_with("pprof_known.rs") && sample.stack[0].2 > 0);

    let bytes = read("leak.pb.gz").sums("inuse_bytes");
    assert_eq!(value(&bytes, &["serve", "remember"]), Some(3_000));
    assert_eq!(value(&bytes, &["start"]), None);
}
