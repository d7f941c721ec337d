//! vor's own cost, as a capture says it.

use std::sync::Arc;

use egui_kittest::kittest::Queryable;
use vor_capture::filled;
use vor_capture::model::catalog::{Catalog, MachineInfo};
use vor_fixtures::even::{catalog, make_with};

use crate::find::{Viewer, opened_bytes, settle};

/// Opens a capture of frames with 30 spans each, whose recorder measured `scope_ps`, and switches
/// the cost on.
fn opened_with(scope_ps: u64) -> Viewer {
    let catalog = Arc::new(filled!(Catalog {
        machine: Arc::new(filled!(MachineInfo { scope_ps })),
        ..Catalog::clone(&catalog())
    }));
    let mut viewer = opened_bytes(make_with(&catalog, 300, 30, true).bytes, true);
    viewer.get_by_label("vor's cost").click();
    settle(&mut viewer);
    viewer
}

#[test]
fn a_capture_says_what_its_recorder_cost() {
    let mut viewer = opened_with(20_000);
    viewer.get_by_label("an empty scope took 20 ns when recording began");
    // 30 spans of 20 ns in a frame of a millisecond, and in one of three.
    for (frame, expected) in [
        (0, "frame_ms 1.00 of which vor 600 ns (0.06 %)"),
        (199, "frame_ms 3.00 of which vor 600 ns (0.02 %)"),
    ] {
        viewer.state_mut().go_to(frame);
        settle(&mut viewer);
        viewer.get_by_label(expected);
    }
}

#[test]
fn a_capture_of_an_older_recorder_does_not_say_it() {
    let mut viewer = opened_with(0);
    viewer.state_mut().go_to(0);
    settle(&mut viewer);
    viewer.get_by_label("the capture does not say what its recorder cost");
}
