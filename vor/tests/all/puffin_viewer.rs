//! A program of vor 0.2.1 with a viewer of puffin's frames: `enable()` alone feeds it, and puffin
//! is left alone while nobody takes its frames.

#![cfg(all(feature = "puffin", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex};

use puffin::{FrameData, GlobalProfiler};
use vor_fixtures::own_process;

/// A frame of the program's, with a scope of vor's and one of puffin's.
fn frame() {
    {
        vor::profile_scope!("step");
    }
    // On a thread that ends before the frame: puffin reports what a thread has when its outermost
    // scope ends.
    let own = std::thread::spawn(|| {
        puffin::profile_scope!("puffin's own");
    });
    own.join().unwrap();
    vor::frame_mark();
    vor::flush();
}

#[test]
fn a_viewer_is_fed_by_enable_alone_from_when_it_comes() {
    own_process!();
    vor::enable();
    for _ in 0..3 {
        frame();
    }
    assert!(!puffin::are_scopes_on(), "nobody takes puffin's frames");

    let seen: Arc<Mutex<Vec<Arc<FrameData>>>> = Arc::default();
    let viewer = Arc::clone(&seen);
    let sink = move |frame| viewer.lock().unwrap().push(frame);
    let id = GlobalProfiler::lock().add_sink(Box::new(sink));
    let scopes_of = |frames: &[Arc<FrameData>]| -> Vec<usize> {
        frames.iter().map(|frame| frame.meta().num_scopes).collect()
    };
    // The viewer is seen at the next pass; from there on frames are whole.
    vor::flush();
    assert!(puffin::are_scopes_on());
    for _ in 0..3 {
        frame();
    }
    let frames = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(scopes_of(&frames), [2, 2, 2], "vor's and puffin's own");

    // What the program says later counts, until it switches recording on anew.
    puffin::set_scopes_on(false);
    frame();
    vor::enable();
    frame();
    assert!(seen.lock().unwrap().is_empty() && !puffin::are_scopes_on());
    vor::disable();
    vor::enable();
    vor::flush();
    assert!(puffin::are_scopes_on());
    frame();
    assert_eq!(scopes_of(&std::mem::take(&mut *seen.lock().unwrap())), [2]);

    vor::Config::new().puffin(false).enable();
    frame();
    assert!(seen.lock().unwrap().is_empty(), "vor leaves puffin alone");
    GlobalProfiler::lock().remove_sink(id);
}
