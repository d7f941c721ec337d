//! Profiles of a running program as files: numbered, complete, and at most as many as configured.

#![cfg(feature = "pprof")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use vor_fixtures::process::{child, run_to_success, vor_lines};
use vor_fixtures::{own_process, test_name};
use vor_recorder::sinks::Sink as _;
use vor_recorder::sinks::pprof::PprofSink;
use vor_recorder::{drain, profile_scope};

fn work_until(mut is_enough: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_enough() {
        {
            profile_scope!("step", n = 1);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "took too long");
    }
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    names
}

fn sink(path: &Path, keep: usize) -> PprofSink {
    vor_capture::filled!(PprofSink {
        path: path.to_owned(),
        interval: Duration::from_millis(25),
        keep,
        span_labels: vec!["n".into()],
    })
}

/// Returns the second name and the number of a step, if one ended during a profile in the folder.
fn step_in(folder: &Path) -> Option<(String, String)> {
    let names = files(folder);
    let profiles = names.iter().filter(|name| name.ends_with(".pb.gz"));
    // A file may be deleted before it is read.
    let bytes = profiles.filter_map(|name| std::fs::read(folder.join(name)).ok());
    let samples = bytes.flat_map(|bytes| vor_fixtures::pprof::read(&bytes).samples);
    samples.into_iter().find_map(|sample| {
        let number = sample.labels.get("n")?.clone();
        Some((sample.names()[1].to_owned(), number))
    })
}

#[test]
fn files_are_numbered_and_the_oldest_are_deleted() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let profiles = sink(&folder.path().join("run.pb.gz"), 3).install();
    let mut step = None;
    {
        profile_scope!("program");
        work_until(|| {
            step = step.take().or_else(|| step_in(folder.path()));
            step.is_some() && folder.path().join("run.6.pb.gz").exists()
        });
    }
    assert_eq!(step, Some(("step".to_owned(), "1".to_owned())));
    drop(profiles);
    let names = files(folder.path());
    assert_eq!(names.len(), 3, "{names:?}");
    let first: u64 = names[0].split('.').nth(1).unwrap().parse().unwrap();
    assert!(first >= 4);
    let numbered = |at| format!("run.{}.pb.gz", first + at);
    assert_eq!(names, [numbered(0), numbered(1), numbered(2)]);
    for name in &names {
        let profile = vor_fixtures::pprof::read(&std::fs::read(folder.path().join(name)).unwrap());
        assert!(profile.time_nanos > 0 && profile.duration_nanos > 0);
        for sample in &profile.samples {
            assert_eq!(sample.names()[0], "program", "{name}");
            assert!(sample.values[0] > 0);
        }
    }
    assert_eq!(drain::failed_sinks(), 0);
}

#[test]
fn a_single_file_is_replaced_and_always_complete() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pb.gz");
    let profiles = sink(&path, 1).install();
    let mut times = std::collections::BTreeSet::new();
    work_until(|| {
        if let Ok(bytes) = std::fs::read(&path) {
            times.insert(vor_fixtures::pprof::read(&bytes).time_nanos);
        }
        times.len() >= 4
    });
    drop(profiles);
    assert_eq!(files(folder.path()), ["run.pb.gz"]);
}

#[test]
fn an_interval_in_which_nothing_ran_has_no_file() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let profiles = sink(&folder.path().join("run.pb.gz"), 100).install();
    std::thread::sleep(Duration::from_millis(200));
    drop(profiles);
    assert_eq!(files(folder.path()), [""; 0]);
}

#[test]
fn a_profile_that_cannot_get_its_name_leaves_no_file() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    // A folder has the name of the first profile.
    std::fs::create_dir(folder.path().join("run.0.pb.gz")).unwrap();
    let profiles = sink(&folder.path().join("run.pb.gz"), 2).install();
    {
        profile_scope!("step");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(profiles);
    assert_eq!(files(folder.path()), ["run.0.pb.gz"]);
}

const PROFILE: &str = "VOR_TEST_PPROF";

#[test]
fn an_unwritable_profile_is_reported_once_and_the_program_runs_on() {
    if let Some(path) = std::env::var_os(PROFILE) {
        let path = Path::new(&path);
        let profiles = sink(path, 2).install();
        let folder = path.parent().unwrap();
        if folder.exists() {
            // The folder is missing while the program runs, for many profiles.
            std::fs::remove_dir(folder).unwrap();
            let begin = Instant::now();
            work_until(|| begin.elapsed() > Duration::from_millis(500));
        }
        drop(profiles);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    std::fs::create_dir(&there).unwrap();
    for (path, expected) in [
        (folder.path().join("missing/run.pb.gz"), 1),
        (there.join("run.pb.gz"), 2),
    ] {
        let output = run_to_success(child(test_name!(), "child").env(PROFILE, &path));
        let lines = vor_lines(&output);
        assert_eq!(lines.len(), expected, "{lines:?}");
        assert!(lines[0].contains("run.pb.gz"), "{lines:?}");
    }
}

#[test]
fn a_program_that_ends_before_its_guard_has_its_last_profile() {
    if let Some(path) = std::env::var_os(PROFILE) {
        let profiles = vor_capture::filled!(PprofSink {
            interval: Duration::from_secs(3_600),
            ..sink(Path::new(&path), 1)
        });
        std::mem::forget(profiles.install());
        for _ in 0..5 {
            profile_scope!("step");
            std::hint::black_box((0..1_000_u64).sum::<u64>());
        }
        std::process::exit(0);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pb.gz");
    run_to_success(child(test_name!(), "child").env(PROFILE, &path));
    let profile = vor_fixtures::pprof::read(&std::fs::read(&path).unwrap());
    assert!(
        profile
            .samples
            .iter()
            .any(|sample| sample.names() == ["step"]),
        "{profile:?}"
    );
}
