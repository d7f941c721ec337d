//! A program of vor 0.2.1 with a viewer of puffin's frames. `enable()` alone feeds the viewer, and
//! vor does not change puffin while nothing takes its frames.

#![cfg(all(feature = "puffin", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex};

use puffin::{FrameData, GlobalProfiler};
use vor_fixtures::own_process;

/// A frame of the program, with one scope of vor and one of puffin.
fn frame() {
    {
        vor::profile_scope!("step");
    }
    // The thread ends before the frame: puffin reports the scopes of a thread when its outermost
    // scope ends.
    let own = std::thread::spawn(|| {
        puffin::profile_scope!("puffin's own");
    });
    own.join().unwrap();
    vor::frame_mark();
    vor::flush();
}

#[test]
fn enable_alone_feeds_a_viewer_from_its_start_on() {
    own_process!();
    vor::enable();
    for _ in 0..3 {
        frame();
    }
    assert!(!puffin::are_scopes_on(), "nothing takes puffin's frames");

    let seen: Arc<Mutex<Vec<Arc<FrameData>>>> = Arc::default();
    let viewer = Arc::clone(&seen);
    let sink = move |frame| viewer.lock().unwrap().push(frame);
    let id = GlobalProfiler::lock().add_sink(Box::new(sink));
    let scopes_of = |frames: &[Arc<FrameData>]| -> Vec<usize> {
        frames.iter().map(|frame| frame.meta().num_scopes).collect()
    };
    // The next pass finds the viewer; from then on, frames are whole.
    vor::flush();
    assert!(puffin::are_scopes_on());
    for _ in 0..3 {
        frame();
    }
    let frames = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(scopes_of(&frames), [2, 2, 2], "vor's and puffin's own");

    // A later choice of the program counts until it switches recording on again.
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
    assert!(seen.lock().unwrap().is_empty(), "puffin is unchanged");
    GlobalProfiler::lock().remove_sink(id);
}
