//! `Config::puffin(false)` does not change puffin, whether or not something takes its frames.

#![cfg(all(feature = "puffin", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use puffin::GlobalFrameView;
use vor_fixtures::own_process;

#[test]
fn a_program_that_forbids_it_finds_puffin_unchanged() {
    own_process!();
    let view = GlobalFrameView::default();
    vor::Config::new().puffin(false).enable();
    for _ in 0..3 {
        {
            vor::profile_scope!("step");
        }
        vor::frame_mark();
        vor::flush();
    }
    assert!(!puffin::are_scopes_on());
    assert_eq!(view.lock().recent_frames().count(), 0);
    puffin::set_scopes_on(true);
    {
        puffin::profile_scope!("puffin's own");
    }
    vor::frame_mark();
    vor::flush();
    puffin::set_scopes_on(false);
    assert_eq!(
        view.lock().recent_frames().count(),
        0,
        "the program ends frames itself"
    );
    puffin::GlobalProfiler::lock().new_frame();
    assert_eq!(view.lock().recent_frames().count(), 1);
}
