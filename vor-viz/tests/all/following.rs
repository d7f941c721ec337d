//! The flame chart of a running program, which paints only what is new, against a chart that paints
//! all of the same moment.

use std::sync::Arc;

use crate::chart_screen::{AXIS_LEFT, AXIS_PIXELS, Screen, are_alike};
use crate::program::{NARROW, Program, WIDE};
use egui::{Color32, Event, Pos2, pos2};
use vor_fixtures::random::rounds;
use vor_viz::flame::FlameChart;
use vor_viz::store::Store;
use vor_viz::view::View;

/// Pixels of a span's row, one above the other, in a column.
const ROW_PIXELS: usize = 15;

/// Shows a program's frames as they come. Passes pictures of the chart that follows them, and of a
/// new one, to `compare`. Most passes paint a small part of the chart.
fn follow(
    seed: u64,
    (frames, shortest_ns): (usize, u64),
    mut compare: impl FnMut(&[Color32], &[Color32]),
) {
    let mut program = Program::new(seed, shortest_ns);
    let mut store = Store::new(frames, usize::MAX);
    let mut view = View::default();
    view.follow(true);
    let (mut following, mut whole) = (Screen::new(), Screen::new());
    let mut few = 0;
    for pass in 0..120 {
        // Some passes have no new frame, others have several.
        for _ in 0..program.random.below(4) {
            store.push_block(program.frame());
        }
        if pass == 70 {
            // A new catalog may give any span another colour.
            store.set_catalog(Arc::clone(store.catalog()));
        }
        view.begin_pass(&store);
        if pass % 5 != 0 {
            following.pass(&store, &mut view);
            continue;
        }
        let shown = following.paint(&store, &mut view);
        let painted = following.painted;
        whole.chart = FlameChart::default();
        compare(&shown, &whole.paint(&store, &mut view.clone()));
        few += usize::from(painted < whole.painted / 4);
    }
    assert!(few >= 8, "{few} of 24 painted a part");
}

#[test]
fn a_chart_that_paints_only_what_is_new_shows_every_span_of_a_pixel_or_more() {
    for seed in 1..=rounds(2) as u64 {
        follow(seed, WIDE, |shown, whole| {
            let pixels = shown.iter().zip(whole);
            let different = pixels.filter(|(a, b)| !are_alike(**a, **b)).count();
            assert_eq!(different, 0, "seed {seed}");
        });
    }
}

/// Spans below a pixel are merged with those that came by then, so a pixel may show its neighbour.
#[test]
fn a_chart_that_paints_only_what_is_new_merges_spans_as_they_come() {
    for seed in 1..=rounds(2) as u64 {
        follow(seed, NARROW, |shown, whole| {
            let is_near = |i: usize| {
                let near = i.saturating_sub(1)..(i + 2).min(whole.len());
                whole[near].iter().any(|&near| are_alike(near, shown[i]))
            };
            let far = (0..shown.len()).filter(|&i| !is_near(i)).count();
            assert!(far <= 10 * ROW_PIXELS, "seed {seed}: {far}");
        });
    }
}

#[test]
fn a_chart_follows_again_once_all_is_in_view() {
    let mut program = Program::new(5, 0);
    let mut store = Store::new(50, usize::MAX);
    let mut view = View::default();
    view.follow(true);
    let mut pass = |view: &mut View| {
        store.push_block(program.frame());
        view.begin_pass(&store);
        store.clone()
    };
    (0..60).for_each(|_| drop(pass(&mut view)));
    let store = pass(&mut view);
    let shown = view.flame_axis(&store);
    view.zoom_by(&store, shown.end_ns, 0.5);
    let zoomed = view.flame_axis(&store);
    pass(&mut view);
    assert_eq!(view.flame_axis(&store), zoomed);
    let store = pass(&mut view);
    view.zoom_by(&store, zoomed.end_ns, 8.0);
    assert!(!view.is_zoomed());
    let store = pass(&mut view);
    let newest = store.frames().back().unwrap().end_ns as f64;
    assert_eq!(view.flame_axis(&store).end_ns, newest);
}

#[test]
fn a_chart_that_is_moved_by_whole_pixels_shows_what_a_new_one_does() {
    let mut program = Program::new(6, WIDE.1);
    let mut store = Store::new(WIDE.0, usize::MAX);
    (0..WIDE.0).for_each(|_| _ = store.push_block(program.frame()));
    let mut view = View::default();
    view.follow(true);
    view.begin_pass(&store);
    let (mut moved, mut whole) = (Screen::new(), Screen::new());
    let all = view.flame_axis(&store);
    let length_ns = all.len_ns() / 8.0;
    let pixel_ns = length_ns / AXIS_PIXELS;
    for pixels in (0..200).step_by(4) {
        let begin_ns = all.begin_ns + f64::from(pixels) * pixel_ns;
        view.zoom_to(begin_ns, begin_ns + length_ns);
        let shown = moved.paint(&store, &mut view);
        whole.chart = FlameChart::default();
        let expected = whole.paint(&store, &mut view.clone());
        let pixels = shown.iter().zip(&expected);
        assert_eq!(pixels.filter(|(a, b)| !are_alike(**a, **b)).count(), 0);
    }
}

#[test]
fn spans_of_frames_that_went_have_no_card() {
    let mut program = Program::new(7, 0);
    // All spans are in the last chunks of their rows, so none leaves with its frame.
    let mut store = Store::new(40, usize::MAX);
    let mut view = View::default();
    view.follow(true);
    let mut screen = Screen::new();
    for _ in 0..80 {
        store.push_block(program.frame());
        view.begin_pass(&store);
        screen.pass(&store, &mut view);
    }
    let axis = view.flame_axis(&store);
    let empty_ns = store.frames().front().unwrap().begin_ns as f64 - axis.begin_ns;
    let empty = empty_ns / axis.len_ns();
    assert!(empty > 0.01, "{empty} of the axis has no frames");
    let mut layers = |pointer: Option<Pos2>| {
        screen.events.extend(pointer.map(Event::PointerMoved));
        let passes = (0..5).map(|_| screen.pass(&store, &mut view).len());
        passes.last().unwrap()
    };
    let without = layers(None);
    let at = |share: f64| pos2((AXIS_LEFT + share * AXIS_PIXELS) as f32, 27.0);
    assert!(layers(Some(at(0.9))) > without, "there is a card");
    for part in 1..40 {
        let share = empty * f64::from(part) / 40.0;
        assert_eq!(layers(Some(at(share))), without, "at {share}");
    }
}
