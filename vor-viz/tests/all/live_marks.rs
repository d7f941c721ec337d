//! A program that marks its frames and ticks the panel gets one frame per mark, in either order.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::drain;
use vor_viz::{PanelConfig, PanelState};

static FRAMES: AtomicU64 = AtomicU64::new(0);

struct Count;

impl FrameSink for Count {
    fn interest(&self) -> Interest {
        Interest::METRICS
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        FRAMES.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_tick_before_the_first_mark_makes_no_frame_of_its_own() {
    own_process!();
    vor_recorder::setup::Config::new()
        .sink("count", Count)
        .enable();
    let frames = || {
        drain::flush();
        FRAMES.load(Ordering::Relaxed)
    };
    let mut state = PanelState::new(PanelConfig::FRAME_MS);
    for _ in 0..3 {
        state.tick();
        drain::frame_mark();
    }
    assert_eq!(frames(), 3, "tick and mark");
    for _ in 0..3 {
        drain::frame_mark();
        state.tick();
    }
    assert_eq!(frames(), 6, "mark and tick");
    for _ in 0..3 {
        state.tick();
    }
    assert_eq!(frames(), 9, "ticks alone");
}
