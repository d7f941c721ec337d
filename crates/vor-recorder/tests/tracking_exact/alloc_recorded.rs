//! Heap snapshots in a capture: a leak between the first and the last is found in the file, beside
//! its frames, and by every other sink.

#![cfg(not(any(feature = "off", target_family = "wasm")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vor_capture::Error;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::heap::{HeapMode, HeapSnapshot};
use vor_capture::reader::{Event, Reader};
use vor_capture::sink::FrameSink;
use vor_fixtures::process::{self, role, run_to_success, vor_lines};
use vor_fixtures::{own_process, test_name};
use vor_recorder::allocations::untracked;
use vor_recorder::setup::Config;
use vor_recorder::{drain, profile_scope, setup};

/// Keeps the snapshots that it receives.
struct SnapshotSink(Arc<Mutex<Vec<HeapSnapshot>>>);

impl FrameSink for SnapshotSink {
    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }

    fn accept_heap(
        &mut self,
        snapshot: &HeapSnapshot,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Error> {
        for scope in snapshot.stacks.iter().flat_map(|stack| &stack.scopes) {
            assert_eq!(
                catalog.site(scope.site),
                Some(&*scope.info),
                "every scope is declared"
            );
        }
        self.0.lock().unwrap().push(snapshot.clone());
        Ok(())
    }
}

fn leak_in_a_request() {
    profile_scope!("request");
    profile_scope!("remember");
    std::mem::forget(black_box(vec![1_u8; 1_000]));
    drop(black_box(vec![1_u8; 50_000]));
}

#[test]
fn a_leak_is_found_in_the_file() {
    own_process!();
    let folder = untracked(|| tempfile::tempdir().unwrap());
    let path = folder.path().join("run.vor");
    let kept = Arc::new(Mutex::new(Vec::new()));
    Config::new()
        .capture(&path)
        .sink("snapshots", SnapshotSink(Arc::clone(&kept)))
        .heap_snapshots(Duration::from_millis(10))
        .enable();
    let begin = Instant::now();
    while kept.lock().unwrap().is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(120), "took too long");
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut leaked = 0;
    while kept.lock().unwrap().len() < 5 || leaked < 100 {
        leak_in_a_request();
        leaked += 1;
        drain::frame_mark();
        assert!(begin.elapsed() < Duration::from_secs(120), "took too long");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(drain::close_capture().as_deref(), Some(&*path));
    setup::disable();

    let mut reader = Reader::open(&path).unwrap();
    let (mut heaps, mut frames, mut spans) = (Vec::new(), 0, 0);
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Heap(heap) => heaps.push(heap),
            Event::Batch(batch) => spans += batch.span_count() as u64,
            Event::Frame(recovered) => {
                assert_eq!(recovered.lost_records, 0);
                frames += 1;
            }
            Event::Loss(loss) => panic!("{loss:?}"),
            _ => {}
        }
    }
    assert_eq!((frames, spans), (leaked, 2 * leaked));
    let (first, last) = (&heaps[0], &heaps[heaps.len() - 1]);
    assert!(first.mode == HeapMode::Exact && first.ticks < last.ticks);
    let changes = last.difference(first);
    let leak = changes
        .iter()
        .find(|change| {
            change
                .scopes
                .last()
                .is_some_and(|scope| scope.info.name == "remember")
        })
        .unwrap();
    assert_eq!(
        (leak.inuse_objects, leak.inuse_bytes),
        (leaked as i64, 1_000 * leaked as i64)
    );
    assert_eq!(leak.scopes[0].info.name, "request");
    assert!(leak.scopes[1].info.file.ends_with("alloc_recorded.rs"));

    // Every sink received the same snapshots; the last one was taken for the close.
    let mut kept = kept.lock().unwrap();
    for heap in &mut *kept {
        heap.stacks
            .sort_by_key(|stack| std::cmp::Reverse(stack.inuse_bytes));
    }
    assert!(kept.len() >= heaps.len());
    assert!(
        heaps.iter().eq(kept.iter().take(heaps.len())),
        "the file has the snapshots of the sink"
    );

    // Snapshots in between do not affect trees and frames.
    let mut reader = Reader::open(&path).unwrap();
    let mut trees = 0;
    while let Some(frame) = reader.next_recovered().unwrap() {
        assert!(frame.has_all_spans());
        trees += 1;
    }
    assert_eq!(trees, leaked);
}

/// Runs the test with this name in a process of its own, and returns the lines of vor on stderr.
fn child(test: &str, seconds: &str, capture: &std::path::Path) -> String {
    let mut command = process::child(test, "child");
    command
        .env("VOR_HEAP_SNAPSHOTS_S", seconds)
        .env("VOR_RECORD", capture)
        .env("VOR_RECORD_SPANS", "0");
    let ours = vor_lines(&run_to_success(&mut command));
    ours.iter().map(|line| format!("{line}\n")).collect()
}

fn count(path: &std::path::Path) -> usize {
    let mut reader = Reader::open(path).unwrap();
    std::iter::from_fn(|| reader.next_event().unwrap())
        .filter(|event| matches!(event, Event::Heap(_)))
        .count()
}

#[test]
fn the_variable_enables_snapshots_and_the_end_takes_the_last_one() {
    if role().is_some() {
        setup::enable();
        leak_in_a_request();
        // The first snapshot comes with the first pass; the next one would come in an hour.
        drain::flush();
        // On Windows, `std::process::exit` calls no handlers at the end, so `main` returns here.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let test = test_name!();
    assert_eq!(child(test, "3600", &path), "");
    assert_eq!(count(&path), 2);
    let said = child(test, "often", &path);
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(
        said.contains("VOR_HEAP_SNAPSHOTS_S: `often` is not a number of seconds above 0"),
        "{said}"
    );
    assert_eq!(count(&path), 0);
}
