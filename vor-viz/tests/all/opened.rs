//! What an opened capture shows beside its spans: the plots of all frames, the frame budget, and
//! places that are opened again.

use egui::{Key, Modifiers, pos2, vec2};
use egui_kittest::kittest::Queryable;
use vor_capture::model::catalog::SiteId;
use vor_fixtures::captures;
use vor_fixtures::even::{frame_ns, make};
use vor_viz::find::Listed;
use vor_viz::panel::Tab;
use vor_viz::replay::Place;
use vor_viz::store::{Series, ValueSummary};

use crate::copied::copied;
use crate::find::{FRAMES, SPANS, Viewer, focus_first, opened, opened_bytes, press, settle};
use crate::pictures::rest;
use crate::pointer::click;

/// The tab of metrics of a capture that is shown as a whole.
fn with_metrics(dark: bool) -> Viewer {
    let mut viewer = opened(dark);
    viewer.state_mut().panel_mut().set_tab(Tab::Metrics);
    settle(&mut viewer);
    viewer
}

/// Count, minimum, maximum and mean of a series of the picture.
fn values_of(viewer: &Viewer, series: Series) -> (u64, f64, f64, f64) {
    let bins = viewer.state().panel().store().layer().unwrap().metrics();
    let mut all = ValueSummary::NONE;
    let mut frames = 0;
    for bin in bins.bins(series) {
        all.add(&bin.values);
        frames += u64::from(bin.frames);
    }
    (frames, all.min, all.max, all.mean())
}

#[test]
fn metrics_of_the_whole_capture_are_plotted() {
    let mut viewer = with_metrics(true);
    let all_ns: u64 = (0..FRAMES).map(frame_ns).sum();
    let lengths = values_of(&viewer, Series::FrameLengths);
    let mean = all_ns as f64 / FRAMES as f64 / 1e6;
    assert_eq!((lengths.0, lengths.1, lengths.2), (FRAMES, 1.0, 3.0));
    assert!((lengths.3 - mean).abs() < 1e-9, "{lengths:?}");
    // Of a range that is looked at, the picture has finer bins, and its own values.
    let (begin_ns, end_ns): (u64, u64) =
        ((0..650).map(frame_ns).sum(), (0..690).map(frame_ns).sum());
    let view = viewer.state_mut().panel_mut().view_mut();
    view.zoom_to(begin_ns as f64, end_ns as f64);
    settle(&mut viewer);
    let bins = viewer.state().panel().store().layer().unwrap().metrics();
    let shown = bins.bins(Series::FrameLengths);
    let shown = shown.filter(|bin| bin.begin_ns >= begin_ns as i64 && bin.end_ns <= end_ns as i64);
    let longest = shown.map(|bin| bin.values.max).fold(0.0, f64::max);
    assert_eq!(longest, 1.0);
}

/// Spans that need no thinning do not keep the plots coarse: a zoom reads finer bins of metrics.
#[test]
fn plots_are_as_fine_as_the_zoom() {
    let frames = 150_000;
    let mut viewer = opened_bytes(make(frames, 3, true).bytes, true);
    let bin_ns = |viewer: &Viewer| {
        let layer = viewer.state().panel().store().layer().unwrap();
        assert_eq!(layer.bin_ns(), 0);
        layer.metrics().bin_ns()
    };
    let whole_ns = bin_ns(&viewer);
    let (begin_ns, end_ns): (u64, u64) = (
        (0..5_000).map(frame_ns).sum(),
        (0..5_600).map(frame_ns).sum(),
    );
    let view = viewer.state_mut().panel_mut().view_mut();
    view.zoom_to(begin_ns as f64, end_ns as f64);
    settle(&mut viewer);
    // More frames than the window has, each of about a pixel.
    let zoomed_ns = bin_ns(&viewer);
    assert!(whole_ns > 3_000_000, "{whole_ns}");
    assert!(zoomed_ns <= 2 * (end_ns - begin_ns) / 800, "{zoomed_ns}");
}

/// A click in a plot goes to the frame there, far beyond the window.
#[test]
fn a_click_in_a_plot_of_the_whole_goes_to_its_frame() {
    let mut viewer = with_metrics(true);
    let plot = viewer.get_by_label("plot loss").rect();
    let all_ns: u64 = (0..FRAMES).map(frame_ns).sum();
    let before_ns: u64 = (0..1_099).map(frame_ns).sum();
    let share = (before_ns as f32 + 1.5e6) / all_ns as f32;
    let place = pos2(plot.left() + share * plot.width(), plot.center().y);
    click(&mut viewer, place, Modifiers::NONE);
    settle(&mut viewer);
    let replay = viewer.state();
    assert_eq!(replay.panel().view().pinned(), replay.id_of(1_099));
    assert!(replay.id_of(1_099).is_some());
}

fn drawn_metrics(dark: bool, name: &str) {
    let mut viewer = with_metrics(dark);
    rest(&mut viewer);
    viewer.snapshot(name);
}

#[test]
fn metrics_of_the_whole_are_drawn_dark() {
    drawn_metrics(true, "whole_metrics_dark");
}

#[test]
fn metrics_of_the_whole_are_drawn_light() {
    drawn_metrics(false, "whole_metrics_light");
}

/// A place that is looked at is opened again, also where the scale begins before the first frame.
#[test]
fn a_place_is_opened_again() {
    let even = make(FRAMES, SPANS, true).bytes;
    let early = captures::make(3, 200, 6, true).bytes;
    for (bytes, time_ns) in [
        (even, (300_000_000, 310_000_001)),
        (early, (200_000, 300_000)),
    ] {
        let reopened = |place: Place| {
            let mut viewer = opened_bytes(bytes.clone(), true);
            viewer.state_mut().go_to_place(place);
            settle(&mut viewer);
            assert_eq!(viewer.state().place(), Some(place));
            viewer
        };
        let mut viewer = opened_bytes(bytes.clone(), true);
        assert_eq!(viewer.state().place(), None);
        let (store, view) = viewer.state_mut().panel_mut().parts();
        view.select_time(store, time_ns.0, time_ns.1);
        settle(&mut viewer);
        let selected = viewer.state().place().unwrap();
        assert!(matches!(selected, Place::Time(..)));
        let again = reopened(selected.to_string().parse().unwrap());
        let view = again.state().panel().view();
        assert_eq!(view.time_selection(), Some(time_ns));
        assert!(view.is_zoomed());
        let view = viewer.state_mut().panel_mut().view_mut();
        view.clear_selection();
        view.zoom_to(time_ns.0 as f64, time_ns.1 as f64);
        settle(&mut viewer);
        let zoomed = viewer.state().place().unwrap();
        assert!(matches!(zoomed, Place::Zoom(..)));
        let again = reopened(zoomed);
        let panel = again.state().panel();
        let shown = panel.view().flame_axis(panel.store());
        assert_eq!((shown.begin_ns as i64, shown.end_ns as i64), time_ns);
    }
    let mut viewer = opened(true);
    viewer.state_mut().go_to_place("frame=709".parse().unwrap());
    settle(&mut viewer);
    assert_eq!(viewer.state().place(), Some(Place::Frame(709)));
    assert_eq!(
        viewer.state().panel().view().pinned(),
        viewer.state().id_of(699)
    );
    assert!("time=5..6".parse::<Place>().unwrap_err().contains("`5..6`"));
    assert!("5s".parse::<Place>().is_err());
}

/// Frames of a millisecond are not compared with those of a display.
#[test]
fn the_budget_follows_the_frames_until_it_is_set() {
    let mut viewer = opened(true);
    let good = |viewer: &Viewer| viewer.state().panel().thresholds().good;
    assert_eq!(good(&viewer), 2.0);
    let mut choose = |budget: &str| {
        viewer.get_by_label("frame budget").click();
        viewer.run_steps(2);
        viewer.get_by_label(budget).click();
        settle(&mut viewer);
        good(&viewer)
    };
    assert_eq!(choose("60 per second (16.7 ms)"), 1000.0 / 60.0);
    assert_eq!(choose("240 per second (4.17 ms)"), 1000.0 / 240.0);
    assert_eq!(choose("adaptive"), 2.0);
}

/// A selected time that was kept with a note, and another one without.
fn with_bookmarks(dark: bool) -> Viewer {
    let mut viewer = opened(dark);
    viewer.state_mut().panel_mut().set_tab(Tab::Metrics);
    for (time_ns, note) in [
        ((700_000_000, 720_000_000), ""),
        ((90_000_000, 110_000_000), "slow"),
    ] {
        let (store, view) = viewer.state_mut().panel_mut().parts();
        view.select_time(store, time_ns.0, time_ns.1);
        press(&mut viewer, Modifiers::NONE, Key::B);
        viewer.get_by_label("note of the bookmark").type_text(note);
        viewer.run_steps(2);
        viewer.key_press(Key::Enter);
        settle(&mut viewer);
    }
    viewer
}

#[test]
fn a_time_is_kept_with_a_note() {
    let mut viewer = with_bookmarks(true);
    assert_eq!(viewer.state().panel().tab(), Tab::Find);
    let text = "90ms..110ms\tslow\n700ms..720ms\t\n";
    assert_eq!(viewer.state().bookmarks().to_text(), text);
    assert!(viewer.state_mut().take_changed_bookmarks().is_some());
    assert!(viewer.state_mut().take_changed_bookmarks().is_none());
    let selected = |viewer: &Viewer| viewer.state().panel().view().time_selection();
    // They come by time.
    viewer.get_by_label("bookmark  at 700 ms").click();
    settle(&mut viewer);
    assert_eq!(selected(&viewer), Some((700_000_000, 720_000_000)));
    press(&mut viewer, Modifiers::SHIFT, Key::N);
    assert_eq!(selected(&viewer), Some((90_000_000, 110_000_000)));
    viewer.get_by_label("Delete").click();
    settle(&mut viewer);
    assert_eq!(viewer.state().bookmarks().list().len(), 1);
}

#[test]
fn bookmarks_are_drawn_dark() {
    let mut viewer = with_bookmarks(true);
    rest(&mut viewer);
    viewer.snapshot("find_bookmarks_dark");
}

#[test]
fn bookmarks_are_drawn_light() {
    let mut viewer = with_bookmarks(false);
    rest(&mut viewer);
    viewer.snapshot("find_bookmarks_light");
}

/// Rows of every view can be copied, all that are listed.
#[test]
fn every_view_is_copied_as_text() {
    let mut viewer = with_bookmarks(true);
    assert_eq!(
        copied(&mut viewer, "CSV"),
        "note,begin_ns,end_ns\nslow,90000000,110000000\n,700000000,720000000\n"
    );
    let list = |viewer: &mut Viewer, listed: Listed| {
        viewer.state_mut().panel_mut().find_mut().list(listed);
        settle(viewer);
        copied(viewer, "TSV")
    };
    // The selected 20 ms have 18 frames of a millisecond and one of three: their begins.
    let calls = list(&mut viewer, Listed::Calls(SiteId(1)));
    let found = viewer.state().panel().find().found().unwrap();
    assert_eq!(calls.lines().count() as u64, 1 + found.count);
    assert!(
        calls
            .lines()
            .nth(1)
            .unwrap()
            .starts_with("update\tscope\tmain\t"),
        "{calls}"
    );
    viewer.state_mut().panel_mut().view_mut().clear_selection();
    let frames = list(&mut viewer, Listed::Frames);
    assert_eq!(frames.lines().count(), 1 + 1_000);
    assert_eq!(frames.lines().nth(1), Some("109\t99000000\t3000000"));
    let panel = viewer.state_mut().panel_mut();
    panel.set_tab(Tab::Icicle);
    settle(&mut viewer);
    let stacks = copied(&mut viewer, "Copy stacks");
    let total_ns: u64 = stacks
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    let all_ns: u64 = (0..FRAMES).map(frame_ns).sum();
    assert!(
        stacks.lines().any(|line| line.starts_with("update;draw ")),
        "{stacks}"
    );
    assert!(
        total_ns > all_ns / 2 && total_ns <= all_ns,
        "{total_ns} of {all_ns}"
    );
    let panel = viewer.state_mut().panel_mut();
    panel.set_tab(Tab::Compare);
    panel.set_explains(true);
    viewer.state_mut().go_to(699);
    settle(&mut viewer);
    let why = copied(&mut viewer, "CSV");
    assert_eq!(why.lines().count(), 3, "{why}");
    assert!(
        why.starts_with("name,kind,change_ns,least_change_ns,"),
        "{why}"
    );
    viewer.state_mut().panel_mut().set_explains(false);
    settle(&mut viewer);
    viewer.get_by_label("Keep frame 709").click();
    settle(&mut viewer);
    viewer.state_mut().go_to(700);
    settle(&mut viewer);
    let compared = copied(&mut viewer, "CSV");
    assert!(
        compared.starts_with("name,module,kind,a_ns_per_"),
        "{compared}"
    );
    assert_eq!(compared.lines().count(), 3, "{compared}");
}

#[test]
fn messages_are_copied_as_text() {
    let mut viewer = opened_bytes(captures::make(3, 200, 6, true).bytes, true);
    let panel = viewer.state_mut().panel_mut();
    panel.find_mut().list(Listed::Messages);
    settle(&mut viewer);
    let text = copied(&mut viewer, "CSV");
    let found = viewer.state().panel().find().found_messages().unwrap();
    assert_eq!(text.lines().count() as u64, 1 + found.count);
    let first = &found.listed[0];
    assert!(
        text.lines()
            .nth(1)
            .unwrap()
            .ends_with(&format!(",{}", first.text)),
        "{text}"
    );
}

/// The page on a phone, with a span in focus.
fn on_a_phone(dark: bool) -> Viewer {
    let mut viewer = with_metrics(dark);
    viewer.set_size(vec2(390.0, 844.0));
    settle(&mut viewer);
    let panel = viewer.state_mut().panel_mut();
    focus_first(panel);
    settle(&mut viewer);
    rest(&mut viewer);
    viewer
}

#[test]
fn a_phone_shows_details_over_the_chart() {
    let mut viewer = on_a_phone(true);
    let plot = viewer.get_by_label("plot loss").rect();
    assert!(plot.width() > 270.0, "{plot}");
    viewer.get_by_label("Close").click();
    settle(&mut viewer);
    assert!(viewer.state().panel().view().focus.is_none());
    assert!(viewer.query_by_label("Close").is_none());
}

#[test]
fn a_phone_is_drawn_dark() {
    on_a_phone(true).snapshot("phone_dark");
}

#[test]
fn a_phone_is_drawn_light() {
    on_a_phone(false).snapshot("phone_light");
}
