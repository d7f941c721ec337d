//! Captures say which scopes were not recorded as ever, and when.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use vor_capture::model::catalog::Catalog;
use vor_capture::reader::{Capture, Reader};
use vor_fixtures::own_process;
use vor_recorder::drain::{close_capture, flush, frame_mark};
use vor_recorder::hot::rules::set_scopes;
use vor_recorder::hot::scope::scope;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;
use vor_recorder::sinks::segments::Segments;

/// Returns the changes of modes of a catalog, as names and modes.
fn changes(catalog: &Catalog) -> Vec<String> {
    let changes: Vec<_> = catalog.scope_modes.after(None).collect();
    assert!(
        changes
            .windows(2)
            .all(|pair| pair[0].ticks <= pair[1].ticks)
    );
    let text = |change: &vor_capture::model::scope_modes::ScopeModeChange| {
        format!("{} {}", catalog.site_name(change.site), change.mode)
    };
    changes.iter().map(text).collect()
}

fn by_reader(path: &Path) -> Vec<String> {
    let mut reader = Reader::open(path).unwrap();
    while reader.next_event().unwrap().is_some() {}
    changes(reader.catalog().unwrap())
}

fn work() {
    profile_scope!("first");
    {
        profile_scope!("second");
    }
    drop(scope("named"));
}

#[test]
fn a_capture_has_each_change_of_a_mode() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    // Before the first scope: the mode is declared when the site is registered.
    let rules = "second=off,named=min:50us";
    Config::new().capture(&path).scopes(rules).enable();
    work();
    flush();
    for rules in ["first=count", "first=1/100+tree", "first=1/100+tree", ""] {
        set_scopes(rules).unwrap();
        work();
        frame_mark();
    }
    close_capture();
    let expected = [
        "named min:50us",
        "first count",
        "second record",
        "named record",
        "first 1/100+tree",
        "first record",
    ];
    let capture = Capture::open(&path).unwrap();
    let found = changes(capture.catalog());
    assert_eq!(found, [&["second off"][..], &expected[..]].concat());
    assert_eq!(by_reader(&path), found);
}

#[test]
fn each_segment_begins_with_the_modes_that_hold() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let segments = Segments::new().size(16_000);
    let path = format!("{}/", folder.path().display());
    Config::new().capture(path).segments(segments).enable();
    for rules in ["", "first=count", "second=1/2"] {
        set_scopes(rules).unwrap();
        work();
        flush();
    }
    let paths = || {
        let mut paths: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "vor"))
            .collect();
        paths.sort();
        paths
    };
    while paths().len() < 3 {
        (0..1000).for_each(|_| work());
        frame_mark();
        flush();
    }
    close_capture();
    let paths = paths();
    let first = ["first count", "first record", "second 1/2"];
    assert_eq!(by_reader(&paths[0]), first);
    for path in &paths[1..] {
        assert_eq!(by_reader(path), ["second 1/2"]);
    }
}
