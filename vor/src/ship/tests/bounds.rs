//! Until when objects are sent, and in which pieces.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use object_store::memory::InMemory;
use object_store::path::Path as Location;

use super::super::Pace;
use super::super::target::Target;
use super::super::upload::{Bound, Problem, send};
use super::store::{Fault, Faulty, Request};
use super::{QUICK, objects};

const HOUR: Duration = Duration::from_secs(3600);

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

#[test]
fn a_flag_ends_further_objects_and_the_current_one_some_time_later() {
    let stop = AtomicBool::new(false);
    let at_once = Bound::stopped_by(&stop, Duration::ZERO);
    let later = Bound::stopped_by(&stop, HOUR);
    let state = |bound: &Bound<'_>| (bound.may_begin(), bound.is_over());
    for bound in [&at_once, &later] {
        assert_eq!(state(bound), (true, false));
        assert_eq!(state(&bound.rest()), (true, false));
    }
    stop.store(true, Ordering::Relaxed);
    assert_eq!(state(&at_once), (false, true));
    assert_eq!(state(&at_once.rest()), (false, true));
    assert_eq!(state(&later), (false, false));
    assert_eq!(state(&later.rest()), (true, false));
    // The time counts from the first look at the flag.
    let grace = Duration::from_millis(20);
    let soon = Bound::stopped_by(&stop, grace);
    soon.is_over();
    std::thread::sleep(grace);
    assert_eq!(state(&soon), (false, true));
}

#[test]
fn a_pause_takes_its_time_unless_the_flag_ends_it() {
    let (runtime, stop) = (runtime(), AtomicBool::new(false));
    let bound = Bound::stopped_by(&stop, Duration::ZERO);
    let pause = Duration::from_millis(50);
    let begun = Instant::now();
    runtime.block_on(bound.pause(pause));
    assert!(begun.elapsed() >= pause);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(pause);
            stop.store(true, Ordering::Relaxed);
        });
        // The test hangs if it lasts.
        runtime.block_on(bound.pause(HOUR));
    });
}

/// Sends `bytes` bytes of a file of `file_bytes`. Returns the requests.
fn sent(file_bytes: u64, bytes: u64, part_bytes: u64) -> Result<Vec<Request>, Problem> {
    let (store, stop) = (Arc::new(InMemory::new()), AtomicBool::new(false));
    let faulty = Faulty::new(store.clone(), |_, _| Fault::None);
    let target = Target::of_store(faulty.clone(), "fleet");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let contents: Vec<u8> = (0..file_bytes).map(|at| (at % 251) as u8).collect();
    std::fs::write(&path, &contents).unwrap();
    let pace = Pace {
        part_bytes,
        ..QUICK
    };
    runtime().block_on(send(
        &target,
        &Location::from("object"),
        &mut File::open(&path).unwrap(),
        bytes,
        &pace,
        &Bound::stopped_by(&stop, HOUR),
    ))?;
    let objects = objects(&*store);
    assert_eq!(objects.keys().collect::<Vec<_>>(), ["object"]);
    assert!(objects["object"] == contents[..bytes as usize]);
    Ok(faulty.requests())
}

#[test]
fn a_file_of_more_than_a_part_is_sent_in_parts() {
    let in_parts = |count| {
        let parts = (0..count).map(Request::Part);
        let begun = [Request::Begin].into_iter().chain(parts);
        begun.chain([Request::Complete]).collect::<Vec<_>>()
    };
    let usual = Pace::USUAL.part_bytes;
    for (bytes, part_bytes, expected) in [
        (0, 4, vec![Request::Put]),
        (4, 4, vec![Request::Put]),
        (5, 4, in_parts(2)),
        (8, 4, in_parts(2)),
        (9, 4, in_parts(3)),
        // A part is of 8 MiB.
        (8_388_608, usual, vec![Request::Put]),
        (8_388_609, usual, in_parts(2)),
        // An object has 9 000 parts at most, so these have 2 bytes and 3.
        (18_000, 1, in_parts(9_000)),
        (18_001, 1, in_parts(6_001)),
    ] {
        let found = sent(bytes, bytes, part_bytes).unwrap();
        assert!(
            found == expected,
            "{bytes} by {part_bytes}: {}",
            found.len()
        );
    }
    // A file may have grown since; one that has shrunk is no whole object.
    assert_eq!(sent(12, 9, 4).unwrap(), in_parts(3));
    for part_bytes in [4, 10] {
        match sent(9, 10, part_bytes) {
            Err(Problem::Local(error)) => {
                assert!(error.to_string().starts_with("cannot read the file: "));
            }
            other => panic!("{other:?}"),
        }
    }
}
