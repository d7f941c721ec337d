//! Scopes that are still open when the program exits, on its other threads and on threads that
//! have ended.

#![cfg(all(unix, not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::mpsc;

use vor_capture::reader::{Event, Reader};
use vor_fixtures::test_name;

use crate::robust_support::{child, folder, read, role, run};

/// Passes that the scopes of an ended thread outlast, and those that they do not.
const FEW_PASSES: u32 = 10;
const MANY_PASSES: u32 = 100;

/// Starts a thread that opens scopes and waits in them.
fn wait_in_scopes() {
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        {
            vor::profile_scope!("ended");
        }
        vor::profile_scope!("waits");
        vor::profile_scope!("waits inside");
        ready.send(()).unwrap();
        loop {
            std::thread::park();
        }
    });
    is_ready.recv().unwrap();
}

/// Runs a thread that ends inside a scope, as one that a foreign library ends does.
fn end_in_a_scope() {
    let thread = std::thread::spawn(|| {
        {
            vor::profile_scope!("ended");
        }
        std::mem::forget(vor::scope("never ends"));
    });
    thread.join().unwrap();
}

/// Records, and exits in the way that `how` names. Only marks make passes.
fn exit(how: &str) -> ! {
    vor::Config::new()
        .capture(folder().join("run.vor"))
        .inline_drain(true)
        .enable();
    vor::profile_scope!("of the main thread");
    vor::frame_mark();
    match how {
        "others wait" => wait_in_scopes(),
        "one has ended" => end_in_a_scope(),
        "one has ended some time ago" => {
            end_in_a_scope();
            (0..FEW_PASSES).for_each(|_| vor::frame_mark());
        }
        "one has ended long ago" => {
            end_in_a_scope();
            (0..MANY_PASSES).for_each(|_| vor::frame_mark());
        }
        other => panic!("{other}"),
    }
    std::process::exit(0)
}

/// Returns the open scopes in a capture, outermost first, by thread.
fn open_in(path: &std::path::Path) -> Vec<Vec<String>> {
    let mut reader = Reader::open(path).unwrap();
    let mut open = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::OpenScopes(scopes) = event {
            open.extend(scopes.threads.into_iter().map(|(_, scopes)| scopes));
        }
    }
    let catalog = reader.catalog().unwrap();
    let name = |site| catalog.site_name(site).to_owned();
    let names = open.into_iter().map(|scopes| {
        assert!(scopes.iter().all(|(_, start_ticks)| *start_ticks > 0));
        scopes.into_iter().map(|(site, _)| name(site)).collect()
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn scopes_that_are_open_at_exit_are_in_the_capture() {
    if let Some(role) = role() {
        exit(&role);
    }
    let main = "of the main thread";
    let cases: [(&str, &[&[&str]]); 4] = [
        ("others wait", &[&[main], &["waits", "waits inside"]]),
        ("one has ended", &[&["never ends"], &[main]]),
        ("one has ended some time ago", &[&["never ends"], &[main]]),
        // Its state is free for another thread.
        ("one has ended long ago", &[&[main]]),
    ];
    for (how, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let output = run(&mut child(test_name!(), how, folder.path()));
        assert!(output.status.success(), "{how}: {output:?}");
        let path = folder.path().join("run.vor");
        assert_eq!(open_in(&path), expected, "{how}");
        let summary = read(&path);
        assert!(summary.closed && summary.damage.is_empty(), "{how}");
        // The scope that a thread has ended is there, and nothing else is a span.
        assert_eq!(summary.count("ended"), 1, "{how}");
        assert_eq!(summary.spans.len(), 1, "{how}: {:?}", summary.spans);
    }
}
