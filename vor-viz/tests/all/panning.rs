//! The flame chart under a pointer that moves its time, which paints only what comes in, against a
//! chart that paints all of the same moment.

use crate::chart_screen::{AXIS_LEFT, AXIS_PIXELS, Screen, are_alike};
use crate::program::{NARROW, Program, WIDE};
use crate::synthetic::Random;
use egui::{Event, Modifiers, MouseWheelUnit, PointerButton, Pos2, TouchPhase, Vec2, pos2, vec2};
use vor_fixtures::random::rounds;
use vor_viz::flame::FlameChart;
use vor_viz::store::Store;
use vor_viz::view::{TimeRange, View};

/// A pointer over the rows of a chart.
struct Pointer {
    at: Pos2,
    is_down: bool,
}

impl Pointer {
    fn new() -> Self {
        Self {
            at: pos2(350.0, 120.0),
            is_down: false,
        }
    }

    fn move_to(&mut self, screen: &mut Screen, x: f32) {
        // The area of the rows: the names are before it, and the details after it.
        self.at.x = x.clamp(165.0, 565.0);
        screen.events.push(Event::PointerMoved(self.at));
    }

    fn press(&mut self, screen: &mut Screen, pressed: bool) {
        self.is_down = pressed;
        screen.events.push(Event::PointerButton {
            pos: self.at,
            button: PointerButton::Primary,
            pressed,
            modifiers: Modifiers::NONE,
        });
    }

    /// Begins a drag: a press that has moved some points.
    fn grab(&mut self, screen: &mut Screen, store: &Store, view: &mut View, x: f32) {
        self.move_to(screen, x);
        screen.pass(store, view);
        self.press(screen, true);
        screen.pass(store, view);
        let away = if x < 350.0 { 8.0 } else { -8.0 };
        self.move_to(screen, x + away);
        screen.pass(store, view);
    }

    /// Ends a drag, and leaves the chart.
    fn release(&mut self, screen: &mut Screen) {
        self.press(screen, false);
        screen.events.push(Event::PointerGone);
    }
}

fn wheel(delta: Vec2) -> Event {
    Event::MouseWheel {
        unit: MouseWheelUnit::Point,
        delta,
        phase: TouchPhase::Move,
        source: egui::MouseWheelSource::Wheel,
        modifiers: Modifiers::NONE,
    }
}

/// A chart that is used at random, and one that is new in each pass.
struct Charts {
    used: Screen,
    new: Screen,
    pointer: Pointer,
    random: Random,
    /// Passes that painted some pixels, but not all.
    parts: usize,
}

impl Charts {
    fn new(seed: u64) -> Self {
        Self {
            used: Screen::new(),
            new: Screen::new(),
            pointer: Pointer::new(),
            random: Random(seed),
            parts: 0,
        }
    }

    fn share(&mut self) -> f64 {
        self.random.below(10_001) as f64 / 10_000.0
    }

    /// Moves or zooms the time in a way that is chosen at random.
    fn act(&mut self, store: &Store, view: &mut View) {
        let Self { used, pointer, .. } = self;
        let action = self.random.below(16);
        if action < 11 {
            if !pointer.is_down {
                let x = 200.0 + self.random.below(300) as f32;
                pointer.grab(used, store, view, x);
            }
            let by = self.random.below(8_001) as f32 / 100.0 - 40.0;
            pointer.move_to(used, pointer.at.x + by);
            return;
        }
        if pointer.is_down {
            pointer.release(used);
            used.pass(store, view);
        }
        let shown = view.flame_axis(store);
        match action {
            11 => {
                let x = 200.0 + self.random.below(300) as f32;
                pointer.move_to(used, x);
                let by = self.random.below(20_001) as f32 / 100.0 - 100.0;
                used.events.push(wheel(vec2(by, 0.0)));
                (0..4).for_each(|_| drop(used.pass(store, view)));
                used.events.push(Event::PointerGone);
            }
            12 => {
                let pixels = self.random.below(801) as f64 - 400.0;
                view.pan_by(store, pixels * shown.len_ns() / AXIS_PIXELS);
            }
            13 => view.pan_by(store, (self.share() - 0.5) * shown.len_ns()),
            14 if shown.len_ns() > 200_000.0 => {
                let anchor_ns = shown.begin_ns + self.share() * shown.len_ns();
                view.zoom_by(store, anchor_ns, 0.3 + 0.6 * self.share());
            }
            _ if shown.len_ns() < view.axis().len_ns() / 4.0 => {
                let anchor_ns = shown.begin_ns + self.share() * shown.len_ns();
                view.zoom_by(store, anchor_ns, 1.0 + 2.0 * self.share());
            }
            _ => {}
        }
    }

    /// Compares every pixel of a pass.
    fn compare(&mut self, store: &Store, view: &mut View, case: &str) {
        let shown = self.used.paint(store, view);
        self.new.chart = FlameChart::default();
        let expected = self.new.paint(store, &mut view.clone());
        let pixels = shown.iter().zip(&expected);
        let different = pixels.filter(|(a, b)| !are_alike(**a, **b)).count();
        assert_eq!(different, 0, "{case}");
        let painted = self.used.painted;
        self.parts += usize::from(0 < painted && painted < self.new.painted / 2);
    }
}

/// Returns a store that is full of a program's frames.
fn filled(program: &mut Program, frames: usize) -> Store {
    let mut store = Store::new(frames, usize::MAX);
    (0..frames).for_each(|_| _ = store.push_block(program.frame()));
    store
}

#[test]
fn a_chart_that_is_moved_shows_what_a_new_one_does() {
    for seed in 1..=3 {
        let (frames, shortest_ns) = [WIDE, NARROW][seed as usize % 2];
        let store = filled(&mut Program::new(seed, shortest_ns), frames / 2);
        let mut view = View::default();
        view.begin_pass(&store);
        if seed == 2 {
            view.search = "c".to_owned();
        }
        let mut charts = Charts::new(seed);
        view.zoom_by(&store, view.axis().end_ns / 2.0, 0.2);
        let steps = rounds(60);
        for step in 0..steps {
            charts.act(&store, &mut view);
            view.begin_pass(&store);
            charts.compare(&store, &mut view, &format!("seed {seed}, step {step}"));
        }
        let parts = charts.parts;
        assert!(parts >= steps / 2, "{parts} of {steps} painted a part");
    }
}

#[test]
fn a_chart_of_a_running_program_that_is_moved_shows_what_a_new_one_does() {
    for seed in 11..=12 {
        let (frames, shortest_ns) = WIDE;
        let mut program = Program::new(seed, shortest_ns);
        let mut store = filled(&mut program, frames);
        let mut view = View::default();
        view.follow(true);
        view.begin_pass(&store);
        let mut charts = Charts::new(seed);
        let steps = rounds(100);
        for step in 0..steps {
            match program.random.below(12) {
                0 => view.reset_zoom(),
                1 if !view.is_zoomed() => {
                    view.zoom_by(&store, view.axis().begin_ns, 0.3);
                }
                2..=8 if view.is_zoomed() => charts.act(&store, &mut view),
                _ => {}
            }
            for _ in 0..program.random.below(3) {
                store.push_block(program.frame());
            }
            view.begin_pass(&store);
            charts.compare(&store, &mut view, &format!("seed {seed}, step {step}"));
        }
        let parts = charts.parts;
        assert!(parts >= steps / 4, "{parts} of {steps} painted a part");
    }
}

/// Returns the moment at an x of a chart.
fn moment(shown: &TimeRange, x: f32) -> f64 {
    shown.begin_ns + (f64::from(x) - AXIS_LEFT) / AXIS_PIXELS * shown.len_ns()
}

#[test]
fn the_pointer_stays_on_the_moment_that_it_grabbed() {
    let store = filled(&mut Program::new(21, WIDE.1), WIDE.0);
    for pixels_per_point in [1.0, 1.5] {
        let mut screen = Screen::new();
        let mut view = View::default();
        let mut random = Random(21);
        screen.ctx.set_pixels_per_point(pixels_per_point);
        view.begin_pass(&store);
        let all = view.axis();
        view.zoom_to(0.4 * all.end_ns, 0.55 * all.end_ns);
        let length_ns = view.flame_axis(&store).len_ns();
        let mut pointer = Pointer::new();
        // A part of a pixel that the wheel turned does not count in a drag.
        pointer.move_to(&mut screen, 300.0);
        screen.events.push(wheel(vec2(0.3, 0.0)));
        (0..30).for_each(|_| drop(screen.pass(&store, &mut view)));
        pointer.grab(&mut screen, &store, &mut view, 300.0);
        let grabbed_ns = moment(&view.flame_axis(&store), pointer.at.x);
        let pixel_ns = length_ns / (AXIS_PIXELS * f64::from(pixels_per_point));
        for step in 0..300 {
            let before = view.flame_axis(&store);
            let by = match step {
                0 => 0.5,
                _ => random.below(2_001) as f32 / 250.0 - 4.0,
            };
            pointer.move_to(&mut screen, pointer.at.x + by);
            screen.pass(&store, &mut view);
            let painted = screen.painted;
            let shown = view.flame_axis(&store);
            let away_px = (moment(&shown, pointer.at.x) - grabbed_ns) / pixel_ns;
            let case = format!("step {step} at {pixels_per_point}: {away_px} pixels");
            assert!(away_px.abs() < 0.501, "{case}");
            assert!(
                (shown.len_ns() - length_ns).abs() < 1e-6 * pixel_ns,
                "{case}"
            );
            let moved_px = (shown.begin_ns - before.begin_ns) / pixel_ns;
            assert!(
                (moved_px - moved_px.round()).abs() < 1e-6,
                "{case}: by {moved_px}"
            );
            // Only the columns that came in were painted, and two at each end, which became others.
            let rows = store.shown_tracks().iter().map(|track| track.rows.len());
            let columns = moved_px.abs().round() as usize;
            let most = rows.sum::<usize>() * (columns + 4);
            assert!(painted <= most, "{case}: {painted}");
            assert_eq!(painted > 0, columns > 0, "{case}");
            // The pointer rests.
            screen.pass(&store, &mut view);
            assert_eq!(view.flame_axis(&store), shown, "{case}");
        }
    }
}

#[test]
fn parts_of_pixels_by_which_the_wheel_turns_add_up() {
    let store = filled(&mut Program::new(22, WIDE.1), WIDE.0);
    let mut screen = Screen::new();
    let mut view = View::default();
    view.begin_pass(&store);
    let all = view.axis();
    view.zoom_to(0.4 * all.end_ns, 0.5 * all.end_ns);
    let shown = view.flame_axis(&store);
    let pixel_ns = shown.len_ns() / AXIS_PIXELS;
    let mut pointer = Pointer::new();
    let mut random = Random(22);
    let mut wanted_px = 0.0;
    for step in 0..100 {
        let by = random.below(101) as f32 / 50.0 - 0.4;
        wanted_px -= f64::from(by);
        pointer.move_to(&mut screen, 350.0);
        screen.events.push(wheel(vec2(by, 0.0)));
        // A turn is spread over some passes.
        (0..30).for_each(|_| drop(screen.pass(&store, &mut view)));
        let now = view.flame_axis(&store);
        let moved_px = (now.begin_ns - shown.begin_ns) / pixel_ns;
        let case = format!("step {step}: {moved_px} of {wanted_px} pixels");
        assert!((moved_px - wanted_px).abs() < 0.52, "{case}");
        assert!((moved_px - moved_px.round()).abs() < 1e-6, "{case}");
    }
}
