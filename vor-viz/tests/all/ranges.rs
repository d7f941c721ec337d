//! Selected time of a capture, compared.

use egui_kittest::kittest::Queryable;
use vor_fixtures::even::frame_ns;
use vor_viz::compare::Per;
use vor_viz::panel::Tab;

use crate::find::{opened, settle};

/// Time of the first scope in a frame: ten calls of three steps each, without their gaps.
fn update_ns(frame: u64) -> u64 {
    10 * (3 * (frame_ns(frame) / 31) - 10)
}

#[test]
fn a_kept_time_is_compared_with_another_of_another_length() {
    let mut viewer = opened(true);
    viewer.state_mut().panel_mut().set_tab(Tab::Compare);
    let mut select = |begin_ns: i64, end_ns: i64| {
        let (store, view) = viewer.state_mut().panel_mut().parts();
        view.select_time(store, begin_ns, end_ns);
        settle(&mut viewer);
        if let Some(keep) = viewer.query_by_label("Keep selected 99.0 ms") {
            keep.click();
        }
        settle(&mut viewer);
    };
    // 99 frames of a millisecond, and one of three, which is outside the window of frames.
    select(0, 99_000_000);
    let end_ns: u64 = (0..1_000).map(frame_ns).sum();
    select(end_ns as i64 - 3_000_000, end_ns as i64);
    let merged = viewer.state().panel().comparison().merged().unwrap();
    assert_eq!(merged.per, Per::Second);
    let row = merged
        .rows
        .iter()
        .find(|row| &*row.name == "update")
        .unwrap();
    let [kept, now] = row.sides.map(|side| side.unwrap());
    let close = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-9;
    let (of_short, of_long) = (update_ns(0) as f64 * 1e3, update_ns(99) as f64 * 1e3 / 3.0);
    assert!(close(kept.frame_ns, of_short), "{kept:?}");
    assert!(close(now.frame_ns, of_long), "{now:?}");
    assert!(close(kept.frame_count, 10.0 * 1e3));
    assert!(close(now.frame_count, 10.0 * 1e3 / 3.0));
    viewer.get_by_label("sort by A ms/s");
}

/// The scope that a slow frame spends its time in is far from the median, and the interval says so.
#[test]
fn a_slow_frame_differs_from_the_median_of_the_capture() {
    let mut viewer = opened(true);
    let panel = viewer.state_mut().panel_mut();
    panel.set_tab(Tab::Compare);
    panel.set_explains(true);
    settle(&mut viewer);
    viewer.get_by_label("Pin a frame to see how it differs from the median frame.");
    for (frame, is_usual) in [(699, false), (700, true)] {
        viewer.state_mut().go_to(frame);
        settle(&mut viewer);
        let result = viewer.state().panel().why().result().unwrap();
        assert!(result.frames > 1_000, "{}", result.frames);
        assert_eq!(result.rows.len(), 2);
        let row = result
            .rows
            .iter()
            .find(|row| &*row.name == "update")
            .unwrap();
        assert_eq!(row.here_ns, update_ns(frame));
        assert!(
            (row.median_ns - update_ns(0) as f64).abs() < 100.0,
            "{row:?}"
        );
        let (low, high) = row.change_interval_ns().unwrap();
        assert!(low <= row.change_ns() && row.change_ns() <= high);
        assert_eq!(row.change_ns() < 1_000_000.0, is_usual, "{row:?}");
        assert_eq!(row.calls, (10, 10.0));
        assert!(is_usual || !row.is_usual());
    }
    viewer.state_mut().go_to(699);
    settle(&mut viewer);
    viewer.snapshot("why_dark");
}
