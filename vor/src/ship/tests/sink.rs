//! The sink of a running program, without the program.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::process::{role, run_to_success, vor_lines};
use vor_fixtures::test_name;

use super::super::ShipSink;
use super::faults::wait_for;
use super::store::{Fault, Faulty};
use super::{JOURNAL, child_in, given_folder, objects, shipper, write_segment};

/// Longer than a test waits.
const LONG: Duration = Duration::from_secs(3600);
/// In which a new thread looks into its folder.
const FIRST_LOOK: Duration = Duration::from_millis(200);

/// Drops a sink, which must not take all of its time.
fn end(sink: impl FrameSink + 'static) {
    let ending = std::thread::spawn(move || drop(sink));
    wait_for(|| ending.is_finished());
    ending.join().unwrap();
}

/// Ships a folder that is not there at first.
fn ship_later(folder: &Path) {
    let store = Arc::new(InMemory::new());
    let sink = ShipSink::new(shipper(folder, store.clone())).exit_bound(LONG);
    let sink = sink.build().unwrap();
    assert_eq!(sink.interest(), Interest::METRICS);
    assert_eq!((sink.takes_frames(), sink.reads_metrics()), (false, false));
    std::thread::sleep(FIRST_LOOK);
    fs::create_dir(folder).unwrap();
    write_segment(folder, 0);
    wait_for(|| objects(&*store).len() == 4);
    write_segment(folder, 1);
    end(sink);
    assert_eq!(objects(&*store).len(), 8);
}

/// Ships a folder that can never be written.
fn ship_never(folder: &Path) {
    fs::create_dir_all(folder.join(format!("{JOURNAL}.lock"))).unwrap();
    write_segment(folder, 0);
    let store = Arc::new(InMemory::new());
    let sink = ShipSink::new(shipper(folder, store.clone())).exit_bound(LONG);
    let sink = sink.build().unwrap();
    std::thread::sleep(FIRST_LOOK);
    end(sink);
    assert!(objects(&*store).is_empty());
}

/// Ships a folder to a storage that refuses everything.
fn ship_refused(folder: &Path) {
    fs::create_dir(folder).unwrap();
    (0..2).for_each(|number| write_segment(folder, number));
    let store = Faulty::new(Arc::new(InMemory::new()), |_, _| Fault::Refused);
    let sink = ShipSink::new(shipper(folder, store.clone())).exit_bound(LONG);
    let sink = sink.build().unwrap();
    wait_for(|| store.requests().len() > 3);
    end(sink);
}

#[test]
fn a_sink_reports_each_problem_once_and_what_is_left() {
    if role().is_some() {
        let folder = given_folder();
        ship_later(&folder.join("later"));
        ship_never(&folder.join("never"));
        ship_refused(&folder.join("refused"));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run_to_success(&mut child_in(folder.path(), test_name!(), "ships"));
    let lines = vor_lines(&output);
    let path = |name: &str| folder.path().join(name).display().to_string();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let lock = format!("vor: cannot write {}/{JOURNAL}.lock: ", path("never"));
    assert!(lines[0].starts_with(&lock), "{lines:?}");
    let refusal = "memory:///fleet: the credentials do not allow it: not for you; 2 segments \
         waiting for the next attempt";
    assert_eq!(lines[1], format!("vor: {refusal}"));
    let left = "2 segments not shipped yet; the next run ships them";
    assert_eq!(lines[2], format!("vor: {}: {left}", path("refused")));
}
