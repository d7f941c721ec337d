//! The heap of a running program beside the profiles of its spans: as files, and pushed to a server
//! that acts as Pyroscope.

#![cfg(feature = "pyroscope")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use vor_fixtures::pprof::Profile;
use vor_fixtures::process::{child, run_to_success};
use vor_fixtures::server::{FINE, Server};
use vor_fixtures::{own_process, test_name};
use vor_recorder::allocations::process_allocations;
use vor_recorder::sinks::Sink as _;
use vor_recorder::sinks::pprof::PprofSink;
use vor_recorder::sinks::pyroscope::PyroscopeSink;
use vor_recorder::{drain, profile_scope, setup};

const LEAKED_BYTES: i64 = 1_000;

/// Leaks an object in every turn until `is_enough`; returns the number of objects.
fn leak_until(mut is_enough: impl FnMut() -> bool) -> i64 {
    let begin = Instant::now();
    let mut leaked = 0;
    while !is_enough() {
        {
            profile_scope!("request");
            profile_scope!("remember");
            std::mem::forget(black_box(vec![1_u8; LEAKED_BYTES as usize]));
            leaked += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
        assert!(begin.elapsed() < Duration::from_secs(120), "took too long");
    }
    leaked
}

/// Returns the objects and bytes leaked so far.
fn leaked(heap: &Profile) -> (i64, i64) {
    assert_eq!(heap.type_names(), ["inuse_bytes", "inuse_objects"]);
    assert!(
        heap.time_nanos > 0
            && heap.duration_nanos > 0
            && heap.program.starts_with("tracking_exact")
    );
    let of = |name: &str| {
        let stack: Vec<String> = ["request", "remember"].map(str::to_owned).to_vec();
        heap.sums(name).get(&stack).copied().unwrap_or(0)
    };
    (of("inuse_objects"), of("inuse_bytes"))
}

/// Asserts that snapshots grow by the leaked objects, and that the last one has all of them.
fn check(heaps: &[Profile], all: i64) {
    assert!(heaps.len() >= 2);
    let leaked: Vec<(i64, i64)> = heaps.iter().map(leaked).collect();
    for (objects, bytes) in &leaked {
        assert_eq!(objects * LEAKED_BYTES, *bytes);
    }
    assert!(leaked.is_sorted());
    assert_eq!(leaked[leaked.len() - 1].0, all);
}

#[test]
fn a_server_receives_the_live_heap() {
    own_process!();
    let server = Server::start(FINE);
    let sink = vor_capture::filled!(PyroscopeSink {
        url: server.url.clone(),
        application: "shop".to_owned(),
        interval: Duration::from_millis(20),
        ..PyroscopeSink::default()
    });
    let (sink, counts) = sink.build().unwrap();
    setup::enable();
    let pushing = drain::add_sink("Pyroscope", sink);
    let all = leak_until(|| counts.sent_profiles() >= 6);
    drop(pushing);
    let (mut heaps, mut spans) = (Vec::new(), 0);
    for request in server.requests() {
        assert_eq!(request.query["name"], "shop{}");
        let form = vor_fixtures::server::form(&request);
        let config: serde_json::Value =
            serde_json::from_slice(&form["sample_type_config"].1).unwrap();
        assert_eq!(config["inuse_bytes"]["aggregation"], "average");
        assert_eq!(config["inuse_bytes"]["units"], "bytes");
        assert_eq!(config["wall"]["aggregation"], "sum");
        let profile = vor_fixtures::pprof::read(&form["profile"].1);
        if profile.type_names().contains(&"inuse_bytes") {
            heaps.push(profile);
        } else {
            assert_eq!(profile.type_names()[0], "wall");
            spans += 1;
        }
    }
    assert!(spans >= 2);
    check(&heaps, all);
}

#[test]
fn files_have_the_live_heap() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let sink = vor_capture::filled!(PprofSink {
        path: path("run.pb.gz"),
        interval: Duration::from_millis(20),
        keep: 3,
        ..PprofSink::default()
    });
    let profiles = sink.install();
    let all = leak_until(|| path("run.heap.5.pb.gz").exists());
    drop(profiles);
    let mut heaps = Vec::new();
    for number in 0..10_000 {
        let file = path(&format!("run.heap.{number}.pb.gz"));
        if file.exists() {
            heaps.push(vor_fixtures::pprof::read(&std::fs::read(file).unwrap()));
        }
    }
    let count = |is_heap: bool| {
        let names = std::fs::read_dir(folder.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.contains(".heap.") == is_heap)
            .count()
    };
    assert_eq!((count(true), count(false)), (3, 3));
    check(&heaps, all);
}

const PROFILE: &str = "VOR_TEST_PROFILES_HEAP";

/// The allocations of the profile threads are not the program's. The test runs in a process of its
/// own, in which nothing else runs.
#[test]
fn allocations_of_the_profiles_are_not_counted() {
    if let Some(path) = std::env::var_os(PROFILE) {
        let path = Path::new(&path);
        let sink = vor_capture::filled!(PprofSink {
            path: path.to_owned(),
            interval: Duration::from_millis(10),
            ..PprofSink::default()
        });
        let profiles = sink.install();
        let numbered = |number: u32| path.with_file_name(format!("run.heap.{number}.pb.gz"));
        let wait_for = |number: u32| {
            while !vor_recorder::allocations::untracked(|| numbered(number).exists()) {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        wait_for(2);
        let before = process_allocations();
        wait_for(12);
        let made = process_allocations().since(before);
        drop(profiles);
        assert_eq!((made.alloc_objects, made.free_objects), (0, 0));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    run_to_success(child(test_name!(), "child").env(PROFILE, folder.path().join("run.pb.gz")));
}
