//! The flame chart of a running program, which paints only what is new, against a chart that paints
//! all of the same moment.

use std::sync::Arc;

use crate::synthetic::{Random, catalog};
use egui::epaint::ClippedPrimitive;
use egui::{Color32, Context, Event, Pos2, RawInput, Rect, TextureFilter, pos2, vec2};
use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_viz::flame::FlameChart;
use vor_viz::raster::Canvas;
use vor_viz::store::{FrameBlock, FrameEntry, RowBlock, Store, Task, ThreadBlock};
use vor_viz::theme::Theme;
use vor_viz::view::View;

const SIZE: [usize; 2] = [800, 300];

/// The width of the time axis at that size, and its left end.
const AXIS_PIXELS: f64 = 420.0;
const AXIS_LEFT: f64 = 156.0;

/// Pixels of a span's row, one above the other, in a column.
const ROW_PIXELS: usize = 15;

/// A chart on a screen of its own.
struct Screen {
    ctx: Context,
    canvas: Canvas,
    chart: FlameChart,
    pointer: Option<Pos2>,
    /// Texels that were painted in the last pass.
    painted: usize,
}

impl Screen {
    fn new() -> Self {
        let ctx = Context::default();
        ctx.set_theme(egui::Theme::Dark);
        let mut screen = Self {
            ctx,
            canvas: Canvas::new(SIZE[0], SIZE[1], Color32::BLACK),
            chart: FlameChart::default(),
            pointer: None,
            painted: 0,
        };
        // The first two passes of egui make fonts and layouts.
        let mut view = View::default();
        (0..2).for_each(|_| drop(screen.pass(&Store::new(1, 1), &mut view)));
        screen
    }

    /// Shows the chart, and takes its textures.
    fn pass(&mut self, store: &Store, view: &mut View) -> Vec<ClippedPrimitive> {
        let [width, height] = SIZE.map(|side| side as f32);
        let input = RawInput {
            screen_rect: Some(Rect::from_min_size(pos2(0.0, 0.0), vec2(width, height))),
            max_texture_side: Some(2048),
            events: self.pointer.map(Event::PointerMoved).into_iter().collect(),
            ..RawInput::default()
        };
        let mut output = self.ctx.run_ui(input, |ui| {
            let theme = Theme::of(ui.visuals());
            self.chart
                .show(ui, 290.0, store, view, &theme, &|_, _| None);
        });
        // The chart's textures are not smoothed, those of letters are.
        let changes = output.textures_delta.set.values().flatten();
        let images = changes
            .filter(|change| change.pos.is_some())
            .filter(|change| change.options.magnification == TextureFilter::Nearest)
            .map(|change| change.image.size().iter().product::<usize>());
        self.painted = images.sum();
        self.canvas.take_textures(&mut output.textures_delta);
        self.ctx.tessellate(output.shapes, output.pixels_per_point)
    }

    /// Shows the chart, and returns its pixels.
    fn paint(&mut self, store: &Store, view: &mut View) -> Vec<Color32> {
        let primitives = self.pass(store, view);
        self.canvas.clear(SIZE[0], SIZE[1], Color32::BLACK);
        self.canvas.paint(&primitives, 1.0);
        self.canvas.pixels().to_vec()
    }
}

/// Makes the frames of a program on some threads, which also ends a span of many frames at times.
struct Program {
    random: Random,
    shortest_ns: u64,
    now_ns: i64,
    frames: u64,
    /// Since when each thread has no span of many frames.
    free_ns: [i64; 6],
}

impl Program {
    fn new(seed: u64, shortest_ns: u64) -> Self {
        Self {
            random: Random(seed),
            shortest_ns,
            now_ns: 1_000_000,
            frames: 0,
            free_ns: [1_000_000; 6],
        }
    }

    fn frame(&mut self) -> FrameBlock {
        let begin_ns = self.now_ns;
        let end_ns = begin_ns + 2_000_000 + self.random.below(2_000_000) as i64;
        self.now_ns = end_ns;
        self.frames += 1;
        // Threads come with time.
        let threads = (2 + self.frames / 40).min(6);
        let threads = (0..threads).map(|thread| self.thread(thread as usize, begin_ns, end_ns));
        let threads: Vec<ThreadBlock> = threads.collect();
        let spans = |thread: &ThreadBlock| thread.rows.iter().map(RowBlock::len).sum::<usize>();
        let stored_spans = threads.iter().map(spans).sum::<usize>() as u64;
        FrameBlock {
            frame: FrameEntry {
                number: self.frames,
                begin_ns,
                end_ns,
                span_count: stored_spans,
                stored_spans,
                ..FrameEntry::default()
            },
            catalog: catalog(),
            threads,
        }
    }

    fn thread(&mut self, thread: usize, begin_ns: i64, end_ns: i64) -> ThreadBlock {
        let mut rows = vec![RowBlock::default(); 2];
        let mut at = begin_ns;
        let steps = match self.shortest_ns {
            0 => [200, 20_000, 900_000],
            _ => [900_000; 3],
        };
        let step = steps[self.random.below(3) as usize];
        while at + 3 * step < end_ns {
            let begin = at + self.random.below(step as u64) as i64;
            let duration = 1 + 2 * self.shortest_ns + self.random.below(step as u64);
            let mut site = || SiteId(1 + self.random.below(23) as u32);
            rows[0].push(begin, duration, site());
            rows[1].push(begin, duration / 2, site());
            at = begin + duration as i64 + self.random.below(20 * step as u64) as i64;
        }
        let mut tasks = Vec::new();
        if self.random.below(30) == 0 {
            // All spans since some moment were inside this one.
            let free_ns = self.free_ns[thread];
            let begin = free_ns.max(end_ns - self.random.below(60_000_000) as i64);
            let mut outer = RowBlock::default();
            outer.push(begin, (end_ns - begin) as u64, SiteId(3));
            let inner = |row: &RowBlock| row.begin_ns.iter().all(|&inside| inside >= begin);
            if rows.iter().all(inner) {
                rows.insert(0, outer);
                self.free_ns[thread] = end_ns;
            }
            let duration_ns = 1 + self.random.below(30_000_000);
            tasks.push(Task {
                id: self.frames * 8 + thread as u64,
                site: SiteId(24),
                begin_ns: end_ns - duration_ns as i64,
                duration_ns,
            });
        }
        ThreadBlock {
            thread: ThreadId(thread as u32),
            rows: rows.into_iter().filter(|row| !row.is_empty()).collect(),
            tasks,
            ..ThreadBlock::default()
        }
    }
}

/// Returns whether two pixels have nearly the same colour. The edges of a letter depend on its
/// place in the texture of letters.
fn are_alike(a: Color32, b: Color32) -> bool {
    let channels = a.to_array().into_iter().zip(b.to_array());
    channels.into_iter().all(|(a, b)| a.abs_diff(b) <= 2)
}

/// The frames that a store keeps, and a span's least duration: some pixels, or none.
const WIDE: (usize, u64) = (24, 300_000);
const NARROW: (usize, u64) = (150, 0);

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
    for seed in 1..=2 {
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
    for seed in 1..=2 {
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
        screen.pointer = pointer;
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
