//! A program with a viewer of puffin's frames. As in vor 0.2.1, puffin gets frames while its scopes
//! are on, and none while they are off.

#![cfg(all(feature = "puffin", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;

use puffin::{FrameData, GlobalFrameView, ScopeCollection, Stream};
use vor::Sink;
use vor_fixtures::own_process;

/// A scope as puffin's reader returns it: depth, name, start and duration in nanoseconds.
type Scope = (usize, String, i64, i64);

/// Reads the scopes of all threads of a frame.
fn scopes(frame: &FrameData, names: &ScopeCollection) -> Vec<Scope> {
    // Puffin's reader opens scopes of its own.
    puffin::set_scopes_on(false);
    let unpacked = frame.unpacked().unwrap();
    let mut all = Vec::new();
    for stream in unpacked.thread_streams.values() {
        collect(&stream.stream, 0, 0, names, &mut all);
    }
    all
}

fn collect(
    stream: &Stream,
    offset: u64,
    depth: usize,
    names: &ScopeCollection,
    all: &mut Vec<Scope>,
) {
    for scope in puffin::Reader::with_offset(stream, offset).unwrap() {
        let scope = scope.unwrap();
        let name = names.fetch_by_id(&scope.id).unwrap().name().to_string();
        all.push((depth, name, scope.record.start_ns, scope.record.duration_ns));
        if scope.child_begin_position < scope.child_end_position {
            collect(stream, scope.child_begin_position, depth + 1, names, all);
        }
    }
}

fn step() {
    vor::profile_scope!("step");
    for _ in 0..2 {
        vor::profile_scope!("part");
        std::hint::black_box(());
    }
    // A scope of puffin's own, on a thread that ends before the frame.
    let own = std::thread::spawn(|| {
        puffin::profile_scope!("puffin's own");
    });
    own.join().unwrap();
}

fn names(scopes: &[Scope]) -> Vec<(usize, &str)> {
    let mut names: Vec<_> = scopes
        .iter()
        .map(|(depth, name, ..)| (*depth, name.as_str()))
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn frames_reach_puffin_while_its_scopes_are_on() {
    own_process!();
    let view = GlobalFrameView::default();
    let mut taken = 0;
    let mut new_frames = || {
        let view = view.lock();
        let new: Vec<Arc<FrameData>> = view.recent_frames().skip(taken).cloned().collect();
        taken += new.len();
        new
    };
    let read = |frame: &FrameData| scopes(frame, view.lock().scope_collection());
    vor::enable();
    let frame = || {
        step();
        vor::frame_mark();
        vor::flush();
    };
    assert!(puffin::are_scopes_on(), "there is a viewer");
    puffin::set_scopes_on(false);
    frame();
    assert!(new_frames().is_empty(), "puffin's scopes are off");

    let expected = [(0, "puffin's own"), (0, "step"), (1, "part"), (1, "part")];
    puffin::set_scopes_on(true);
    frame();
    let frames = new_frames();
    assert_eq!(frames.len(), 1);
    let found = read(&frames[0]);
    assert_eq!(names(&found), expected);
    let (_, _, begin_ns, length_ns) = found.iter().find(|scope| scope.1 == "step").unwrap();
    for (_, _, start_ns, duration_ns) in found.iter().filter(|scope| scope.1 == "part") {
        let within = start_ns >= begin_ns && start_ns + duration_ns <= begin_ns + length_ns;
        assert!(within, "{found:?}");
    }

    // Puffin's scopes are switched on in the middle of a frame: that frame is left out, and the
    // next one arrives.
    step();
    vor::flush();
    puffin::set_scopes_on(true);
    frame();
    assert!(new_frames().is_empty());
    frame();
    let frames = new_frames();
    assert_eq!(frames.len(), 1);
    // Puffin kept its own scope of the frame that vor left out.
    let found = read(&frames[0]);
    assert!(
        found
            .iter()
            .filter(|scope| scope.1 == "puffin's own")
            .count()
            >= 1
    );
    assert_eq!(found.iter().filter(|scope| scope.1 == "step").count(), 1);

    // A sink that the program installs takes over, with the scopes on or off.
    let sink = vor::puffin::PuffinSink::new().install();
    for on in [true, false] {
        puffin::set_scopes_on(on);
        frame();
        assert_eq!(new_frames().len(), 1, "scopes on: {on}");
    }
    drop(sink);
    frame();
    assert!(new_frames().is_empty(), "puffin's scopes are off");

    // The program's choice counts until the program makes another.
    puffin::set_scopes_on(true);
    for (allowed, expected) in [(Some(false), 0), (None, 0), (Some(true), 1)] {
        let config = vor::Config::new();
        match allowed {
            Some(allowed) => config.puffin(allowed),
            None => config,
        }
        .enable();
        frame();
        assert_eq!(new_frames().len(), expected, "{allowed:?}");
    }
}
