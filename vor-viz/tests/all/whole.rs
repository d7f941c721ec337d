//! A whole capture in the viewer: shown when it is opened, at any zoom, and counted in any range.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use egui::{Event, Key, Modifiers, PointerButton, Pos2, RawInput, Rect, Role, pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use vor_fixtures::even::{frame_ns, make};
use vor_viz::panel::Tab;
use vor_viz::replay::{ReplayState, WindowLimits};
use vor_viz::scopes::ScopeRows;
use vor_viz::store::{FrameId, Layer};

use crate::find::settle;
use crate::pictures::rest;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Frames of the capture, and spans of each.
const FRAMES: u64 = 2_000;
const SPANS: u32 = 30;

/// A viewer with its screen.
struct Shown {
    ctx: egui::Context,
    replay: ReplayState,
    time: f64,
}

impl Shown {
    fn new(replay: ReplayState) -> Self {
        Self {
            ctx: egui::Context::default(),
            replay,
            time: 0.0,
        }
    }

    fn pass(&mut self, events: Vec<Event>, modifiers: Modifiers) {
        self.time += 0.05;
        let input = RawInput {
            screen_rect: Some(Rect::from_min_size(Pos2::ZERO, vec2(1200.0, 900.0))),
            time: Some(self.time),
            events: [vec![Event::ModifiersChanged(modifiers)], events].concat(),
            focused: true,
            ..RawInput::default()
        };
        let replay = &mut self.replay;
        self.ctx
            .run_ui(input, |ui| {
                egui::CentralPanel::default().show(ui, |ui| replay.show(ui));
            })
            .drop_without_applying_deltas();
    }

    /// Runs passes until everything is read that is shown.
    fn settle(&mut self) {
        let began = Instant::now();
        let mut settled = 0;
        while settled < 3 {
            assert!(began.elapsed() < TIMEOUT);
            self.pass(Vec::new(), Modifiers::NONE);
            settled = if self.replay.is_settled() {
                settled + 1
            } else {
                0
            };
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn key(&mut self, key: Key) {
        // Keys work where the pointer is over the panel.
        self.pass(
            vec![Event::PointerMoved(pos2(600.0, 500.0))],
            Modifiers::NONE,
        );
        let pressed = Event::Key {
            key,
            physical_key: None,
            pressed: true,
            repeat: false,
            modifiers: Modifiers::NONE,
        };
        self.pass(vec![pressed], Modifiers::NONE);
        self.settle();
    }

    fn drag(&mut self, from: Pos2, to: Pos2, modifiers: Modifiers) {
        let button = |pos, pressed| Event::PointerButton {
            pos,
            button: PointerButton::Primary,
            pressed,
            modifiers,
        };
        self.pass(vec![Event::PointerMoved(from)], modifiers);
        self.pass(vec![button(from, true)], modifiers);
        for share in [0.3, 0.6, 1.0] {
            self.pass(vec![Event::PointerMoved(from.lerp(to, share))], modifiers);
        }
        self.pass(vec![button(to, false)], modifiers);
        self.settle();
    }

    fn rows(&self) -> &ScopeRows {
        self.replay.panel().scopes().rows().unwrap()
    }

    fn layer(&self) -> &Layer {
        self.replay.store().layer().unwrap()
    }

    fn axis(&self) -> (f64, f64) {
        let time = self.replay.panel().view().flame_axis(self.replay.store());
        (time.begin_ns, time.end_ns)
    }
}

fn opened() -> Shown {
    let bytes = make(FRAMES, SPANS, true).bytes;
    let mut shown = Shown::new(ReplayState::from_bytes(bytes, "memory").unwrap());
    shown.replay.panel_mut().set_tab(Tab::Scopes);
    shown.settle();
    shown
}

fn length_ns() -> u64 {
    (0..FRAMES).map(frame_ns).sum()
}

fn spans_of(layer: &Layer) -> usize {
    layer.tracks().iter().map(|track| track.span_count()).sum()
}

#[test]
fn an_opened_capture_is_shown_and_counted_as_a_whole() {
    let shown = opened();
    let view = shown.replay.panel().view();
    assert_eq!((view.pinned(), view.selection()), (None, None));
    assert_eq!(shown.axis(), (0.0, length_ns() as f64));
    // The window of frames is a small part of it.
    assert_eq!(shown.replay.window(), 0..256);
    assert_eq!(spans_of(shown.layer()) as u64, FRAMES * u64::from(SPANS));
    assert_eq!(shown.rows().spans, FRAMES * u64::from(SPANS));
    assert_eq!(shown.replay.survey_progress(), None);
    let slowest = shown.rows().rows.iter().map(|row| &row.slowest[0]);
    // The frames of three milliseconds have the longest spans, far from the window.
    assert!(
        slowest
            .into_iter()
            .all(|call| call.span.duration_ns > 60_000)
    );
}

/// Returns the top of the flame chart, where its scale is.
fn scale_top() -> f32 {
    let bytes = make(300, 3, true).bytes;
    let mut replay = ReplayState::from_bytes(bytes, "memory").unwrap();
    let show = move |ui: &mut egui::Ui| {
        egui::CentralPanel::default().show(ui, |ui| replay.show(ui));
    };
    let builder = egui_kittest::Harness::builder().with_size(vec2(1200.0, 900.0));
    let mut harness = builder.build_ui(show);
    for _ in 0..4 {
        harness.step();
    }
    harness.get_by_label("flame chart").rect().top()
}

#[test]
fn a_selected_time_is_counted_until_it_is_left() {
    let mut shown = opened();
    let whole = shown.rows().spans;
    let top = scale_top();
    // With shift over the chart, and without in its scale.
    for (y, modifiers) in [
        (top + 120.0, Modifiers::SHIFT),
        (top + 6.0, Modifiers::NONE),
    ] {
        shown.drag(pos2(500.0, y), pos2(700.0, y), modifiers);
        let view = shown.replay.panel().view();
        let (begin_ns, end_ns) = view.time_selection().unwrap_or_else(|| panic!("at {y}"));
        assert!(0 < begin_ns && begin_ns < end_ns && end_ns < length_ns() as i64);
        let shares = (end_ns - begin_ns) as f64 / length_ns() as f64;
        assert!((0.15..0.35).contains(&shares), "{shares}");
        let of_range = shown.rows().spans;
        let expected = whole as f64 * shares;
        assert!(
            (of_range as f64 - expected).abs() < 0.05 * expected + 60.0,
            "{of_range} of {whole} in {shares}"
        );
        assert_eq!(shown.rows().time_ns, (end_ns - begin_ns) as u64);
        // The view did not move.
        assert_eq!(shown.axis(), (0.0, length_ns() as f64));
        shown.key(Key::Z);
        assert_eq!(shown.axis(), (begin_ns as f64, end_ns as f64));
        shown.key(Key::R);
        shown.key(Key::Escape);
        assert_eq!(shown.replay.panel().view().time_selection(), None);
        assert_eq!(shown.rows().spans, whole);
    }
}

#[test]
fn a_pinned_frame_is_one_way_to_select() {
    let mut shown = opened();
    shown.replay.go_to(1_500);
    shown.settle();
    let pinned = shown.replay.panel().view().pinned();
    assert_eq!(pinned, shown.replay.id_of(1_500));
    assert_eq!(shown.rows().spans, u64::from(SPANS));
    let begin_ns: u64 = (0..1_500).map(frame_ns).sum();
    let end_ns = begin_ns + frame_ns(1_500);
    assert_eq!(shown.axis(), (begin_ns as f64, end_ns as f64));
    // The time axis goes on beyond the frame and beyond the window.
    let (store, view) = shown.replay.panel_mut().parts();
    view.pan_by(store, -1e12);
    assert_eq!(shown.axis().0, 0.0);
    let (store, view) = shown.replay.panel_mut().parts();
    view.pan_by(store, 1e12);
    assert_eq!(shown.axis().1, length_ns() as f64);
}

#[test]
fn details_of_a_range_come_where_the_picture_is_thinned() {
    let mut shown = opened();
    shown.replay.set_limits(WindowLimits {
        frames: 256,
        spans: 4_000,
    });
    shown.settle();
    let bin_ns = shown.layer().bin_ns();
    assert!(bin_ns > 0 && spans_of(shown.layer()) <= 4_100);
    // Ten frames far behind the window.
    let begin_ns: u64 = (0..1_700).map(frame_ns).sum();
    let end_ns: u64 = (0..1_710).map(frame_ns).sum();
    let view = shown.replay.panel_mut().view_mut();
    view.zoom_to(begin_ns as f64, end_ns as f64);
    shown.settle();
    let layer = shown.layer();
    assert_eq!(layer.bin_ns(), 0);
    let rows = layer.tracks().iter().flat_map(|track| &track.rows);
    let within = rows.map(|row| row.count(begin_ns as i64, end_ns as i64));
    assert_eq!(within.sum::<usize>(), 10 * SPANS as usize);
    // The frames under the view come too.
    let window = shown.replay.window();
    assert!(window.contains(&1_705), "{window:?}");
    let track = &layer.tracks()[0];
    let all = layer.total_spans(track.id);
    assert_eq!(all, FRAMES * u64::from(SPANS));
    // The whole is still there.
    shown.replay.panel_mut().view_mut().reset_zoom();
    shown.settle();
    assert_eq!(shown.layer().bin_ns(), bin_ns);
}

/// The whole capture with a part of its time selected.
#[test]
fn a_selection_in_the_whole_is_drawn() {
    let bytes = make(1_200, 300, true).bytes;
    let replay = ReplayState::from_bytes(bytes, "game.vor").unwrap();
    let show = |ui: &mut egui::Ui, replay: &mut ReplayState| {
        ui.ctx().set_theme(egui::Theme::Dark);
        egui::CentralPanel::default().show(ui, |ui| replay.show(ui));
    };
    let mut harness = crate::pictures::builder()
        .with_size(vec2(1280.0, 800.0))
        .build_ui_state(show, replay);
    harness.state_mut().panel_mut().set_tab(Tab::Scopes);
    let (store, view) = harness.state_mut().panel_mut().parts();
    view.select_time(store, 420_000_000, 700_000_000);
    settle(&mut harness);
    rest(&mut harness);
    harness.snapshot("whole_selected_dark");
}

#[test]
fn a_followed_capture_shows_its_newest_frames() {
    let made = make(100, 9, false);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    std::fs::write(&path, &made.bytes).unwrap();
    let mut shown = Shown::new(ReplayState::open(&path).unwrap());
    shown.settle();
    assert!(shown.replay.follows());
    assert!(shown.replay.store().layer().is_none());
    shown.replay.set_follow(false);
    shown.settle();
    assert_eq!(spans_of(shown.layer()), 900);
    shown.replay.set_follow(true);
    shown.settle();
    assert!(shown.replay.store().layer().is_none());
    assert_eq!(shown.replay.frame_of(FrameId(u64::MAX)), None);
}

#[test]
fn a_bar_shows_the_progress_of_counting() {
    let bytes = make(FRAMES, SPANS, true).bytes;
    let mut replay = ReplayState::from_bytes(bytes, "game.vor").unwrap();
    replay.panel_mut().set_tab(Tab::Scopes);
    let show = |ui: &mut egui::Ui, replay: &mut ReplayState| {
        egui::CentralPanel::default().show(ui, |ui| replay.show(ui));
    };
    let mut viewer = Harness::builder().build_ui_state(show, replay);
    let bars = |viewer: &Harness<'_, ReplayState>| {
        let bars = viewer.query_all_by_role(Role::ProgressIndicator);
        bars.count()
    };
    assert_eq!(bars(&viewer), 1);
    settle(&mut viewer);
    assert_eq!(bars(&viewer), 0);
}
