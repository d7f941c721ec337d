//! The lists of calls, of messages and of frames.

use std::time::{Duration, Instant};

use egui::{Key, Modifiers, pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use vor_capture::model::catalog::SiteId;
use vor_fixtures::captures;
use vor_fixtures::even::{frame_ns, make};
use vor_viz::bars::Thresholds;
use vor_viz::find::{Found, FoundMessages, Listed, Order};
use vor_viz::panel::{Panel, Tab};
use vor_viz::replay::ReplayState;
use vor_viz::store::{Row, Span, TrackKind};
use vor_viz::view::SpanRef;

use crate::pictures::{self, rest};
use crate::pointer::{click, hover};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Frames of the capture, and spans of each.
pub(crate) const FRAMES: u64 = 1_200;
pub(crate) const SPANS: u32 = 30;

pub(crate) type Viewer = Harness<'static, ReplayState>;

pub(crate) fn opened(dark: bool) -> Viewer {
    opened_bytes(make(FRAMES, SPANS, true).bytes, dark)
}

pub(crate) fn opened_bytes(bytes: Vec<u8>, dark: bool) -> Viewer {
    let replay = ReplayState::from_bytes(bytes, "game.vor").unwrap();
    let show = move |ui: &mut egui::Ui, replay: &mut ReplayState| {
        ui.ctx().set_theme(match dark {
            true => egui::Theme::Dark,
            false => egui::Theme::Light,
        });
        egui::CentralPanel::default().show(ui, |ui| replay.show(ui));
    };
    let mut viewer = pictures::builder()
        .with_size(vec2(1280.0, 800.0))
        .build_ui_state(show, replay);
    viewer.state_mut().panel_mut().set_tab(Tab::Find);
    settle(&mut viewer);
    viewer
}

/// Runs passes until everything is read that is shown.
pub(crate) fn settle(viewer: &mut Viewer) {
    let began = Instant::now();
    let mut settled = 0;
    while settled < 4 {
        assert!(began.elapsed() < TIMEOUT);
        viewer.step();
        settled = if viewer.state().is_settled() {
            settled + 1
        } else {
            0
        };
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn list(viewer: &mut Viewer, site: u32, order: Order) {
    let find = viewer.state_mut().panel_mut().find_mut();
    find.list(Listed::Calls(SiteId(site)));
    find.set_order(order);
    settle(viewer);
}

fn found(viewer: &Viewer) -> &Found {
    viewer.state().panel().find().found().unwrap()
}

pub(crate) fn press(viewer: &mut Viewer, modifiers: Modifiers, key: Key) {
    // Keys work where the pointer is over the panel.
    viewer.hover_at(pos2(80.0, 450.0));
    viewer.key_press_modifiers(modifiers, key);
    settle(viewer);
}

/// Puts the first span of the first track into focus.
pub(crate) fn focus_first(panel: &mut Panel) -> Span {
    let track = &panel.store().layer().unwrap().tracks()[0];
    let (track, span) = (track.id, track.rows[0].span_after(0).unwrap());
    panel.view_mut().focus = Some(SpanRef {
        track,
        row: 0,
        span,
    });
    span
}

fn focus(viewer: &Viewer) -> Option<Span> {
    let view = viewer.state().panel().view();
    view.focus.map(|focus| focus.span)
}

#[test]
fn every_call_of_the_capture_is_counted_and_reached() {
    let mut viewer = opened(true);
    list(&mut viewer, 2, Order::Earliest);
    // Two of three spans are of the second scope.
    let all = FRAMES * u64::from(SPANS) * 2 / 3;
    assert_eq!((found(&viewer).count, found(&viewer).all), (all, all));
    assert_eq!(found(&viewer).listed.len(), 10_000);
    assert!(
        found(&viewer)
            .listed
            .is_sorted_by_key(|call| call.span.begin_ns)
    );
    let last_ns = found(&viewer).listed[9_999].span.begin_ns;
    viewer.get_by_label("›").click();
    settle(&mut viewer);
    assert_eq!(found(&viewer).before, 10_000);
    assert!(found(&viewer).listed[0].span.begin_ns > last_ns);
    viewer.get_by_label("›").click();
    settle(&mut viewer);
    assert_eq!(found(&viewer).listed.len() as u64, all - 20_000);
    assert!(!found(&viewer).has_more());
}

#[test]
fn keys_go_from_call_to_call_far_beyond_the_window() {
    let mut viewer = opened(true);
    list(&mut viewer, 1, Order::Longest);
    let listed: Vec<Span> = found(&viewer).listed.iter().map(|call| call.span).collect();
    assert!(listed.is_sorted_by_key(|span| std::cmp::Reverse(span.duration_ns)));
    for span in &listed[..3] {
        press(&mut viewer, Modifiers::NONE, Key::N);
        assert_eq!(focus(&viewer), Some(*span));
    }
    press(&mut viewer, Modifiers::SHIFT, Key::N);
    assert_eq!(focus(&viewer), Some(listed[1]));
    // The list is still that of the whole capture.
    assert_eq!(found(&viewer).count, FRAMES * u64::from(SPANS) / 3);
    // From the end of a page, they go on to the next one, and back.
    list(&mut viewer, 2, Order::Longest);
    let last = found(&viewer).listed[9_999].clone();
    // Backwards from nowhere is the end of the page.
    press(&mut viewer, Modifiers::SHIFT, Key::N);
    assert_eq!(focus(&viewer), Some(last.span));
    press(&mut viewer, Modifiers::NONE, Key::N);
    assert_eq!(found(&viewer).before, 10_000);
    assert_eq!(focus(&viewer), Some(found(&viewer).listed[0].span));
    press(&mut viewer, Modifiers::SHIFT, Key::N);
    assert_eq!(found(&viewer).before, 0);
    assert_eq!(focus(&viewer), Some(last.span));
}

#[test]
fn filters_and_a_selected_time_narrow_the_list() {
    let mut viewer = opened(true);
    list(&mut viewer, 1, Order::Longest);
    let slow = FRAMES / 100;
    // Only the frames of three milliseconds have calls that long.
    let field = viewer.get_by_label("shortest duration");
    field.click();
    viewer.step();
    viewer.get_by_label("shortest duration").type_text("200 us");
    settle(&mut viewer);
    assert_eq!(found(&viewer).count, slow * u64::from(SPANS) / 3);
    assert_eq!(found(&viewer).all, FRAMES * u64::from(SPANS) / 3);
    assert!(found(&viewer).min_ns >= 200_000);
    // Time with one of these frames.
    let begin_ns: u64 = (0..950).map(frame_ns).sum();
    let (store, view) = viewer.state_mut().panel_mut().parts();
    view.select_time(store, begin_ns as i64, begin_ns as i64 + 60_000_000);
    settle(&mut viewer);
    assert_eq!(found(&viewer).count, u64::from(SPANS) / 3);
    assert!(viewer.query_all_by_label("selected 60.0 ms").count() > 0);
    let field = viewer.get_by_label("thread of the calls");
    field.click();
    viewer.step();
    viewer
        .get_by_label("thread of the calls")
        .type_text("worker");
    settle(&mut viewer);
    assert_eq!(found(&viewer).count, 0);
    viewer.get_by_label("No call passes the filters.");
}

#[test]
fn the_slowest_frames_of_the_capture_are_listed_and_pinned() {
    let mut viewer = opened(true);
    viewer.get_by_label("the 1\u{202f}000 slowest of 1\u{202f}200 frames");
    viewer.get_by_label("slow frame 209").click();
    settle(&mut viewer);
    let replay = viewer.state();
    assert_eq!(replay.panel().view().pinned(), replay.id_of(199));
    assert!(replay.id_of(199).is_some());
    // The list stays, and goes to where the window is not.
    viewer.get_by_label("slow frame 409").click();
    settle(&mut viewer);
    let replay = viewer.state();
    assert_eq!(replay.panel().view().pinned(), replay.id_of(399));
    assert!(replay.id_of(399).is_some());
}

fn drawn(dark: bool, name: &str) {
    let mut viewer = opened(dark);
    list(&mut viewer, 1, Order::Longest);
    press(&mut viewer, Modifiers::NONE, Key::N);
    rest(&mut viewer);
    viewer.snapshot(name);
}

/// On a phone, the list has the columns that identify a call, and the tooltip has the others.
#[test]
fn calls_are_readable_on_a_phone() {
    let mut viewer = opened_bytes(captures::make(3, 200, 6, true).bytes, true);
    viewer.set_size(vec2(390.0, 844.0));
    let with_args = |viewer: &Viewer| {
        let found = viewer.state().panel().find().found()?;
        found.listed.iter().position(|call| !call.args.is_empty())
    };
    let sites = 1..=viewer.state().panel().store().catalog().sites.len() as u32;
    let mut at = sites.filter_map(|site| {
        list(&mut viewer, site, Order::Longest);
        with_args(&viewer).filter(|at| *at < 4)
    });
    let at = at.next().unwrap();
    let args = found(&viewer).listed[at].args.to_string();
    assert!(viewer.query_by_label("sort by arguments").is_none());
    let mut right = 0.0;
    for (title, width) in [("thread", 140.0), ("begin", 80.0), ("duration", 70.0)] {
        let rect = viewer.get_by_label(&format!("sort by {title}")).rect();
        assert!(
            rect.left() >= right && rect.right() <= 390.0,
            "{title}: {rect}"
        );
        assert!(rect.width() >= width, "{title}: {rect}");
        right = rect.right();
    }
    assert!(viewer.query_by_label_contains(&args).is_none());
    let row = viewer
        .get_by_label_contains(&format!("call {} at", at + 1))
        .rect();
    hover(&mut viewer, row.center());
    assert!(viewer.query_by_label_contains(&args).is_some());
    viewer.get_by_label("sort by begin").click();
    settle(&mut viewer);
    let begins = found(&viewer).listed.iter().map(|call| call.span.begin_ns);
    assert!(begins.is_sorted_by(|one, next| one >= next));
}

#[test]
fn a_list_of_calls_is_drawn_dark() {
    drawn(true, "find_calls_dark");
}

#[test]
fn a_list_of_calls_is_drawn_light() {
    drawn(false, "find_calls_light");
}

#[test]
fn all_calls_of_a_span_in_focus_are_listed() {
    let mut viewer = opened(true);
    let panel = viewer.state_mut().panel_mut();
    panel.set_tab(Tab::Metrics);
    let span = focus_first(panel);
    settle(&mut viewer);
    viewer.get_by_label("Find all").click();
    settle(&mut viewer);
    let panel = viewer.state().panel();
    assert_eq!(
        (panel.tab(), panel.find().listed()),
        (Tab::Find, Listed::Calls(span.site))
    );
    assert_eq!(found(&viewer).count, FRAMES * u64::from(SPANS) / 3);
    // A pinned frame does not narrow the list; selected frames do.
    viewer.state_mut().go_to(7);
    settle(&mut viewer);
    assert!(viewer.state().panel().view().pinned().is_some());
    assert_eq!(found(&viewer).count, FRAMES * u64::from(SPANS) / 3);
    let (store, view) = viewer.state_mut().panel_mut().parts();
    view.select(store, 3, 5);
    settle(&mut viewer);
    assert_eq!(found(&viewer).count, u64::from(SPANS));
}

#[test]
fn the_slowest_frame_in_sight_is_of_all_frames() {
    let mut viewer = opened(true);
    let begin_ns: u64 = (0..500).map(frame_ns).sum();
    let end_ns: u64 = (0..800).map(frame_ns).sum();
    let view = viewer.state_mut().panel_mut().view_mut();
    view.zoom_to(begin_ns as f64, end_ns as f64);
    settle(&mut viewer);
    press(&mut viewer, Modifiers::NONE, Key::M);
    let replay = viewer.state();
    assert_eq!(replay.panel().view().pinned(), replay.id_of(599));
    assert!(replay.id_of(599).is_some());
}

/// A click on a bar goes to the longest frame of its column, far beyond the window.
#[test]
fn a_click_on_a_bar_of_the_whole_goes_to_its_frame() {
    let mut viewer = opened(true);
    let bars = viewer.get_by_label("frame bars").rect();
    let all_ns: u64 = (0..FRAMES).map(frame_ns).sum();
    let before_ns: u64 = (0..1_099).map(frame_ns).sum();
    let share = (before_ns as f32 + 1.5e6) / all_ns as f32;
    let place = pos2(bars.left() + share * bars.width(), bars.center().y);
    click(&mut viewer, place, Modifiers::NONE);
    settle(&mut viewer);
    let replay = viewer.state();
    assert_eq!(replay.panel().view().pinned(), replay.id_of(1_099));
    assert!(replay.id_of(1_099).is_some());
}

#[test]
fn slow_frames_and_bars_of_the_whole_are_drawn() {
    let mut viewer = opened(true);
    rest(&mut viewer);
    viewer.snapshot("find_frames_dark");
}

/// The calls of a running program are those of the store.
#[test]
fn a_store_has_the_calls_of_its_rows() {
    let store = crate::synthetic::rich_store();
    let rows = || {
        let tracks = store.tracks().iter();
        tracks.flat_map(|track| track.rows.iter().map(|row| (track.id.kind(), row)))
    };
    let sites: Vec<SiteId> = (1..=store.catalog().sites.len() as u32)
        .map(SiteId)
        .collect();
    let mut expected = Vec::new();
    for &site in &sites {
        let spans = rows().flat_map(|(kind, row)| {
            row.spans(i64::MIN, i64::MAX)
                .map(move |span| (kind, row, span))
        });
        let mut spans: Vec<_> = spans.filter(|(.., span)| span.site == site).collect();
        spans.sort_by_key(|(.., span)| std::cmp::Reverse(span.duration_ns));
        // The arguments of tasks are vor's own.
        let has_args = |(kind, row, span): &&(TrackKind, &Row, Span)| {
            *kind == TrackKind::Scopes && !row.args(span).is_empty()
        };
        let args = spans.iter().filter(has_args).count();
        let durations: Vec<u64> = spans.iter().map(|(.., span)| span.duration_ns).collect();
        expected.push((durations, args));
    }
    assert!(expected.iter().any(|(_, args)| *args > 0));
    let mut panel = Panel::new(store, Thresholds::default());
    for (site, (durations, args)) in sites.into_iter().zip(expected) {
        panel.find_mut().list(Listed::Calls(site));
        panel.finish();
        let found = panel.find().found().unwrap();
        let listed: Vec<u64> = found
            .listed
            .iter()
            .map(|call| call.span.duration_ns)
            .collect();
        assert_eq!(listed, durations, "{site:?}");
        assert_eq!(found.count, durations.len() as u64);
        let with_args = found.listed.iter().filter(|call| !call.args.is_empty());
        assert_eq!(with_args.count(), args, "{site:?}");
    }
}

#[test]
fn a_click_in_the_list_pins_the_frame_of_a_running_program() {
    let show = |ui: &mut egui::Ui, panel: &mut Panel| {
        egui::CentralPanel::default().show(ui, |ui| panel.show(ui, &[]));
    };
    let mut panel = Panel::new(crate::synthetic::rich_store(), Thresholds::default());
    panel.set_tab(Tab::Find);
    panel.find_mut().list(Listed::Calls(SiteId(1)));
    let mut harness = pictures::builder()
        .with_size(vec2(1280.0, 800.0))
        .build_ui_state(show, panel);
    harness.run_steps(10);
    hover(&mut harness, pos2(30.0, 60.0));
    harness.key_press(Key::N);
    harness.run_steps(4);
    let panel = harness.state();
    let longest = &panel.find().found().unwrap().listed[0];
    assert_eq!(
        panel.view().focus.map(|focus| focus.span),
        Some(longest.span)
    );
    assert!(panel.view().pinned().is_some());
}

/// A capture of three threads that write messages.
fn with_messages(dark: bool) -> Viewer {
    let mut viewer = opened_bytes(captures::make(3, 200, 6, true).bytes, dark);
    let find = viewer.state_mut().panel_mut().find_mut();
    find.list(Listed::Messages);
    settle(&mut viewer);
    viewer
}

fn messages(viewer: &Viewer) -> &FoundMessages {
    viewer.state().panel().find().found_messages().unwrap()
}

#[test]
fn messages_lead_to_their_moments() {
    let mut viewer = with_messages(true);
    let found = messages(&viewer).clone();
    assert!(found.count > 3, "{}", found.count);
    assert_eq!((found.all, found.before), (found.count, 0));
    assert!(found.listed.is_sorted_by_key(|message| message.ns));
    let marked = |viewer: &Viewer| viewer.state().panel().view().marked();
    for message in &found.listed[..3] {
        press(&mut viewer, Modifiers::NONE, Key::N);
        assert_eq!(marked(&viewer), Some((message.thread, message.ns)));
        let panel = viewer.state().panel();
        let shown = panel.view().flame_axis(panel.store());
        assert!(shown.contains(message.ns as f64));
        assert!(shown.len_ns() <= 20e6);
    }
    press(&mut viewer, Modifiers::SHIFT, Key::N);
    let second = &found.listed[1];
    assert_eq!(marked(&viewer), Some((second.thread, second.ns)));
    // The last one first.
    viewer.get_by_label("sort by time").click();
    settle(&mut viewer);
    let last = found.listed.last().unwrap();
    assert_eq!(messages(&viewer).listed[0].ns, last.ns);
}

#[test]
fn messages_are_found_by_their_texts_and_threads() {
    let mut viewer = with_messages(true);
    let all = messages(&viewer).clone();
    let wanted = all.listed[0].text.to_uppercase();
    let matching = all.listed.iter();
    let matching = matching.filter(|message| message.text.to_uppercase().contains(&wanted));
    let count = matching.count() as u64;
    assert!(count < all.count);
    viewer.get_by_label("text of the messages").click();
    viewer.step();
    viewer
        .get_by_label("text of the messages")
        .type_text(&wanted);
    settle(&mut viewer);
    assert_eq!(
        (messages(&viewer).count, messages(&viewer).all),
        (count, all.all)
    );
    viewer.get_by_label("thread of the messages").click();
    viewer.step();
    viewer
        .get_by_label("thread of the messages")
        .type_text("no such thread");
    settle(&mut viewer);
    viewer.get_by_label("No message passes the filters.");
}

fn drawn_messages(dark: bool, name: &str) {
    let mut viewer = with_messages(dark);
    press(&mut viewer, Modifiers::NONE, Key::N);
    rest(&mut viewer);
    viewer.snapshot(name);
}

#[test]
fn a_list_of_messages_is_drawn_dark() {
    drawn_messages(true, "find_messages_dark");
}

#[test]
fn a_list_of_messages_is_drawn_light() {
    drawn_messages(false, "find_messages_light");
}

/// The messages of a running program are those of the store, and lead to their frames.
#[test]
fn a_store_has_the_messages_of_its_tracks() {
    let store = crate::synthetic::rich_store();
    let tracks = store.tracks().iter();
    let mut expected: Vec<i64> = tracks
        .flat_map(|track| track.messages.iter().map(|message| message.ns))
        .collect();
    expected.sort_unstable();
    assert!(!expected.is_empty());
    let mut panel = Panel::new(store, Thresholds::default());
    panel.find_mut().list(Listed::Messages);
    panel.finish();
    let found = panel.find().found_messages().unwrap();
    let listed: Vec<i64> = found.listed.iter().map(|message| message.ns).collect();
    assert_eq!(listed, expected);
}
