//! The lines on stderr, of children whose folders the parents know.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use object_store::memory::InMemory;
use vor_fixtures::process::{role, run_to_success, vor_lines};
use vor_fixtures::test_name;
use vor_recorder::sinks::segments::Segments;

use super::faults::{StopOnDrop, wait_for};
use super::store::{Fault, Faulty};
use super::{
    JOURNAL, child_in, damaged, given_folder, objects, set_written, shipper, write_segment,
};

/// Runs a test again in a child with a folder. Returns the child's lines, in which the folder is
/// `DIR`.
fn lines_of(test: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let output = run_to_success(&mut child_in(folder.path(), test, "ships"));
    let path = folder.path().to_str().unwrap();
    let lines = vor_lines(&output).into_iter();
    lines.map(|line| line.replace(path, "DIR")).collect()
}

#[test]
fn each_outage_is_one_line() {
    if role().is_none() {
        let line = |waiting: &str| {
            format!("vor: memory:///fleet: it fails; {waiting} waiting for the next attempt")
        };
        let expected = [line("2 segments"), line("1 segment")];
        assert_eq!(lines_of(test_name!()), expected);
        return;
    }
    let folder = given_folder();
    (0..2).for_each(|number| write_segment(&folder, number));
    let (inner, fault) = (
        Arc::new(InMemory::new()),
        Arc::new(Mutex::new(Fault::Fails)),
    );
    let planned = Arc::clone(&fault);
    let store = Faulty::new(inner.clone(), move |_, _| *planned.lock().unwrap());
    let (shipper, stop) = (shipper(&folder, store.clone()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let following = scope.spawn(|| shipper.follow(&stop).unwrap());
        let end_after_some_passes = |number_of_objects| {
            let before = store.requests().len();
            wait_for(|| store.requests().len() > before + 24);
            *fault.lock().unwrap() = Fault::None;
            wait_for(|| objects(&*inner).len() == number_of_objects);
        };
        end_after_some_passes(8);
        *fault.lock().unwrap() = Fault::Fails;
        write_segment(&folder, 2);
        end_after_some_passes(12);
        stop.store(true, Ordering::Relaxed);
        let report = following.join().unwrap();
        assert_eq!((report.segments, report.left), (3, 0));
    });
}

#[test]
fn a_fault_before_a_success_is_no_outage() {
    if role().is_none() {
        assert_eq!(lines_of(test_name!()), [""; 0]);
        return;
    }
    let folder = given_folder();
    (0..3).for_each(|number| write_segment(&folder, number));
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let store = Faulty::new(Arc::new(InMemory::new()), move |_, location| {
        if location.contains("app-0") {
            return Fault::Fails;
        }
        // The pass ends after this segment.
        flag.store(true, Ordering::Relaxed);
        Fault::None
    });
    let mut shipper = shipper(&folder, store);
    shipper.pace.grace = Duration::from_secs(3600);
    let report = shipper.follow(&stop).unwrap();
    assert_eq!((report.segments, report.left), (1, 2));
    assert_eq!(report.problem.as_deref(), Some("it fails"));
}

#[test]
fn a_damaged_segment_is_one_line_with_what_becomes_of_it() {
    if role().is_none() {
        // Bytes that are no record, and the gap between the numbers of those around them.
        let damaged = "vor: DIR/app-1.vor: damaged in 2 places; ";
        let none = "vor: DIR/app-2.vor: not a vor capture: it starts with \"%PDF\"; ";
        let with_captures = "shipped as a capture, without Parquet";
        let without = "not shipped: it has no Parquet";
        let expected = [
            format!("{damaged}{with_captures}"),
            format!("{none}{with_captures}"),
            format!("{damaged}{without}"),
            format!("{none}{without}"),
        ];
        assert_eq!(lines_of(test_name!()), expected);
        return;
    }
    let folder = given_folder();
    let write = |unix_s: u64| {
        for (name, bytes) in [("app-1.vor", &*damaged()), ("app-2.vor", b"%PDF")] {
            fs::write(folder.join(name), bytes).unwrap();
            set_written(
                &folder.join(name),
                unix_s * 1_000_000_000 + name.len() as u64,
            );
        }
    };
    write(1_700_000_000);
    // The first one changes during two passes, so three of them ship it.
    let path = folder.join("app-1.vor");
    let mut changes = 2;
    let store = Faulty::new(Arc::new(InMemory::new()), move |_, location| {
        if location.contains("app-1") && changes > 0 {
            changes -= 1;
            set_written(&path, 1_600_000_000_000_000_000 + changes);
        }
        Fault::None
    });
    let mut shipper = shipper(&folder, store.clone());
    shipper.pace.quiet = Duration::ZERO;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let following = scope.spawn(|| shipper.follow(&stop).unwrap());
        let journal = folder.join(JOURNAL);
        let has_both = || {
            let text = fs::read_to_string(&journal).unwrap_or_default();
            text.contains("app-1") && text.contains("app-2")
        };
        wait_for(has_both);
        stop.store(true, Ordering::Relaxed);
        let report = following.join().unwrap();
        assert_eq!((report.segments, report.damaged, report.left), (2, 2, 0));
    });
    write(1_800_000_000);
    let report = shipper.captures(false).ship().unwrap();
    assert_eq!((report.segments, report.damaged, report.left), (0, 2, 0));
}

#[test]
fn each_lost_segment_is_a_line_with_the_reason() {
    if role().is_none() {
        let limit = "deleted before it was shipped: the folder has more than may be kept";
        let other = "deleted by another process before it was shipped";
        assert_eq!(
            lines_of(test_name!()),
            [
                format!("vor: DIR/app-0.vor: {limit}"),
                format!("vor: DIR/app-1.vor: {limit}"),
                "vor: memory:///fleet: it fails; 2 segments waiting for the next attempt"
                    .to_owned(),
                format!("vor: DIR/app-2.vor: {other}"),
            ]
        );
        return;
    }
    let folder = given_folder();
    for number in 0..4 {
        write_segment(&folder, number);
        let path = folder.join(format!("app-{number}.vor"));
        set_written(&path, 1_700_000_000_000_000_000 + number);
    }
    let failing = Faulty::new(Arc::new(InMemory::new()), |_, _| Fault::Fails);
    let limit = Segments::new().keep_count(2);
    let report = shipper(&folder, failing.clone())
        .keep(limit)
        .ship()
        .unwrap();
    assert_eq!((report.lost, report.left), (2, 2));

    let (shipper, stop) = (shipper(&folder, failing.clone()), AtomicBool::new(false));
    let report = std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let following = scope.spawn(|| shipper.follow(&stop).unwrap());
        let two_passes = || {
            let before = failing.requests().len();
            wait_for(|| failing.requests().len() > before + 24);
        };
        two_passes();
        fs::remove_file(folder.join("app-2.vor")).unwrap();
        two_passes();
        stop.store(true, Ordering::Relaxed);
        following.join().unwrap()
    });
    assert_eq!((report.lost, report.left), (1, 1));
}
