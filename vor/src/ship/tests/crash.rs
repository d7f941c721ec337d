//! A process that ends at any step, and the one after it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use object_store::local::LocalFileSystem;
use vor_fixtures::process::{role, run};
use vor_fixtures::test_name;

use super::store::{Fault, Faulty};
use super::{
    CRASH_AT, JOURNAL, child_in, expect_equal, given_folder, objects, shipper, undisturbed,
    write_segment,
};

/// Ships `in/` to `out/`, in a child or after one.
fn ship(folder: &Path) -> super::super::Report {
    let store = LocalFileSystem::new_with_prefix(folder.join("out")).unwrap();
    let store = Faulty::new(Arc::new(store), |_, _| Fault::None);
    let shipper = shipper(&folder.join("in"), store).delete_shipped(true);
    shipper.ship().unwrap()
}

fn make_folders(folder: &Path) {
    for name in ["in", "out"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    for number in 0..2 {
        write_segment(&folder.join("in"), number);
    }
}

#[test]
fn a_crash_at_any_step_ships_every_segment_under_the_same_names() {
    if let Some(step) = role() {
        CRASH_AT.store(step.parse().unwrap(), Ordering::Relaxed);
        ship(&given_folder());
        return;
    }
    let reference = tempfile::tempdir().unwrap();
    make_folders(reference.path());
    let expected = undisturbed(&reference.path().join("in"));
    let mut crashes = 0;
    loop {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        make_folders(folder);
        let output = run(&mut child_in(folder, test_name!(), &crashes.to_string()));
        let has_crashed = !output.status.success();
        assert_eq!(ship(folder).left, 0, "after step {crashes}");
        let store = LocalFileSystem::new_with_prefix(folder.join("out")).unwrap();
        // A part of an object that a process left behind has another ending, which nobody reads.
        let mut found = objects(&store);
        found.retain(|name, _| !name.contains('#'));
        expect_equal(&found, &expected);
        // Each segment is deleted, and nothing is left to do.
        let left = std::fs::read_dir(folder.join("in")).unwrap();
        let mut left = left.map(|entry| entry.unwrap().path());
        assert!(left.all(|path| path.extension().is_none_or(|ending| ending != "vor")));
        assert_eq!(ship(folder).objects, 0);
        if !has_crashed {
            break;
        }
        crashes += 1;
    }
    // A put or more requests for 8 objects, an object each, and a journal in two steps, twice, and
    // a deletion.
    assert!(crashes >= 2 * 8 + 8 + 4 + 2, "{crashes} steps");
}

#[test]
fn a_journal_that_cannot_be_read_ships_again() {
    for damage in [
        "",
        "\n",
        "vor ship 9 x\ncp\t1\t1\ta.vor\n",
        "\u{fffd}\t\t%zz",
    ] {
        let place = super::Place::with(2);
        assert_eq!(place.shipper().ship().unwrap().segments, 2);
        assert_eq!(place.shipper().ship().unwrap().segments, 0);
        let journal = place.path(JOURNAL);
        let text = std::fs::read_to_string(&journal).unwrap();
        std::fs::write(&journal, damage).unwrap();
        assert_eq!(place.shipper().ship().unwrap().segments, 2, "{damage:?}");
        assert_eq!(std::fs::read_to_string(&journal).unwrap(), text);
        // A torn last line costs its segment only.
        std::fs::write(&journal, &text[..text.len() - 8]).unwrap();
        assert_eq!(place.shipper().ship().unwrap().segments, 1);
        place.expect_complete();
    }
}
