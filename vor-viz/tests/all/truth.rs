//! The panel shows the recorded data: its sums match the reader's, and its picture shows spans at
//! their places and nowhere else.
//!
//! Random programs of three threads, cut into frames at any point, pass through the encoder, the
//! reader, the loader and the store.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up should stop"
)]

use std::collections::BTreeMap;
use std::io::Cursor;
use std::thread;
use std::time::{Duration, Instant};

use crate::headless::User;
use egui::{Color32, ImageData, Shape, TextureId, vec2};
use vor_capture::model::batch::AsyncSpan;
use vor_capture::model::catalog::SiteId;
use vor_capture::reader::Capture;
use vor_capture::stats::StatsBuilder;
use vor_fixtures::Random;
use vor_fixtures::framed::{self, Ended, Ending};
use vor_fixtures::random::{rounds, seeds};
use vor_fixtures::views::{self, Row};
use vor_viz::flame::FlameChart;
use vor_viz::replay::ReplayState;
use vor_viz::scopes::ScopeTable;
use vor_viz::store::{Extent, Store, TrackKind};
use vor_viz::theme::Theme;
use vor_viz::view::View;

/// The capture of a program, and the expected values.
pub struct Program {
    bytes: Vec<u8>,
    pub rows: Vec<Row>,
    /// The ticks of all marks, including the begin of the first frame.
    pub marks: Vec<u64>,
    /// Tasks by the frame in which they ended.
    pub tasks: Vec<Vec<AsyncSpan>>,
}

pub fn program(seed: u64) -> Program {
    let mut random = Random(seed);
    let made = views::make(seed, 300 + random.below(3_000));
    let mut threads = Ended::none(3);
    for ended in made.batches.iter().flat_map(|batch| &batch.threads) {
        let all = &mut threads[ended.thread.0 as usize].spans;
        all.start_ticks.extend(&ended.start_ticks);
        all.duration_ticks.extend(&ended.duration_ticks);
        all.sites.extend(&ended.sites);
    }
    let count = 1 + random.below(30);
    let marks = framed::marks(&mut random, &threads, count);
    let ending = Ending {
        is_marked: true,
        is_closed: true,
    };
    let catalog = (&views::catalog(), seed);
    let framed = framed::record(&mut random, catalog, &threads, &marks, ending);
    Program {
        bytes: framed.bytes,
        rows: made.rows,
        marks,
        tasks: framed.tasks,
    }
}

/// Opens a program's capture and waits until it is fully loaded.
pub fn open(program: &Program) -> ReplayState {
    let replay = open_bytes(program.bytes.clone());
    assert_eq!(replay.store().frames().len(), program.marks.len() - 1);
    replay
}

/// Opens a capture and waits until it is fully loaded.
pub fn open_bytes(bytes: Vec<u8>) -> ReplayState {
    let mut replay = ReplayState::from_bytes(bytes, "made").unwrap();
    let (ctx, begin) = (egui::Context::default(), Instant::now());
    while !replay.is_settled() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{replay:.0?}");
        thread::sleep(Duration::from_micros(100));
        replay.poll(&ctx);
    }
    replay
}

/// Count, total and self time of each call site, in nanoseconds.
type Sums = BTreeMap<u32, (u64, u64, u64)>;

/// Returns the values of the reader and its statistics for the spans that ended in some frames.
fn expected(program: &Program, first: usize, last: usize) -> Sums {
    let mut stats = StatsBuilder::new();
    let mut capture = Capture::new(Cursor::new(program.bytes.clone())).unwrap();
    // One batch per frame.
    for (i, batch) in capture.batches().unwrap().take(last + 1).enumerate() {
        if i == first {
            stats.restart();
        }
        stats.add_batch(&batch.unwrap());
    }
    let rows = stats.scope_stats(&views::catalog());
    rows.iter()
        .map(|row| (row.site.0, (row.count, row.total_ns, row.self_ns)))
        .collect()
}

#[test]
fn sums_of_whole_spans_match_the_reader() {
    for seed in seeds(40) {
        let program = program(seed);
        let replay = open(&program);
        let store = replay.store();
        let frames = store.frames().len();
        let mut random = Random(seed);
        for case in 0..8 {
            let (mut first, mut last) = (0, frames - 1);
            let mut view = View::default();
            if case > 0 {
                first = random.below(frames);
                last = first + random.below(frames - first);
                view.select(store, first, last);
                if first == last {
                    view.clear_selection();
                    view.pin(store.id_at(first));
                }
            }
            view.extent = Extent::Whole;
            view.begin_pass(store);
            let mut table = ScopeTable::default();
            table.finish(store, &view);
            let of = |kind| {
                let rows = table
                    .rows()
                    .unwrap()
                    .rows
                    .iter()
                    .filter(move |row| row.kind == kind);
                let rows = rows.map(|row| (row.site.0, (row.count, row.total_ns, row.self_ns)));
                rows.collect::<Sums>()
            };
            assert_eq!(
                of(TrackKind::Scopes),
                expected(&program, first, last),
                "seed {seed}, frames {first} to {last} of {frames}"
            );
            let mut tasks = Sums::new();
            for task in program.tasks[first..=last].iter().flatten() {
                let sums = tasks.entry(task.site.0).or_default();
                *sums = (sums.0 + 1, sums.1 + task.duration_ticks, 0);
            }
            assert_eq!(
                of(TrackKind::Tasks),
                tasks,
                "seed {seed}, tasks in frames {first} to {last}"
            );
        }
    }
}

/// The rows of some tracks, a pixel high each.
struct Picture {
    width: usize,
    pixels: Vec<Color32>,
}

/// Shows the chart, and puts its textures where its rectangles are, as a GPU does; `None` if no
/// texture was sent.
fn picture(
    user: &mut User,
    chart: &mut FlameChart,
    store: &Store,
    view: &mut View,
) -> Option<Picture> {
    let mut seen = user.idle_pass(|ui| {
        view.begin_pass(store);
        let theme = Theme::of(ui.visuals());
        chart.show(ui, 600.0, store, view, &theme, &|_, _| None);
    });
    // The first texture is that of the fonts. A new one is sent empty before a part of it is sent.
    let sizes: BTreeMap<TextureId, [usize; 2]> = (seen.textures.iter())
        .filter(|(_, delta)| delta.pos.is_none())
        .map(|(id, delta)| (*id, delta.image.size()))
        .collect();
    user.texture_sizes.extend(sizes);
    seen.textures
        .retain(|(id, delta)| *id != TextureId::default() && delta.pos.is_some());
    let images: BTreeMap<TextureId, ImageData> = (seen.textures.into_iter())
        .map(|(id, delta)| (id, delta.image))
        .collect();
    if images.is_empty() {
        return None;
    }
    let meshes = seen.shapes.iter().filter_map(|shape| match &shape.shape {
        Shape::Mesh(mesh) if images.contains_key(&mesh.texture_id) => Some(mesh),
        _ => None,
    });
    let pixels_per_point = user.ctx.pixels_per_point();
    let (mut pixels, mut left, mut width) = (Vec::new(), None, 0);
    for mesh in meshes {
        let ImageData::Color(image) = &images[&mesh.texture_id];
        assert!(image.width().max(image.height()) <= user.max_texture_side);
        let [texels, texel_rows] = user.texture_sizes[&mesh.texture_id].map(|side| side as f32);
        for corners in mesh.vertices.chunks_exact(4) {
            let (first, last) = (&corners[0], &corners[3]);
            let left = *left.get_or_insert(first.pos.x);
            let pixel = |x: f32| ((x - left) * pixels_per_point).round() as usize;
            if first.pos.x == left {
                width = pixels.len();
            }
            assert_eq!(
                pixels.len() - width,
                pixel(first.pos.x),
                "a gap between pieces"
            );
            let row = (first.uv.y * texel_rows) as usize;
            let end = (last.uv.x * texels).round() as usize;
            assert_eq!(
                end,
                pixel(last.pos.x) - pixel(first.pos.x),
                "a stretched piece"
            );
            pixels.extend((0..end).map(|x| image[(x, row)]));
        }
    }
    width = pixels.len() - width;
    Some(Picture { width, pixels })
}

#[test]
fn the_picture_shows_spans_at_their_places_and_nowhere_else() {
    let (mut checked, mut painted) = (0, 0);
    for seed in 0..14 {
        let program = program(seed);
        let replay = open(&program);
        let store = replay.store();
        let origin = store.frames()[0].begin_ns;
        let mut random = Random(seed);
        let pixels_per_point = [1.0, 1.5, 2.0][seed as usize % 3];
        // A screen wider than the GPU's textures gets each row in pieces.
        let (width, max_texture_side) = [(700.0, 8_192), (2_800.0, 1_024)][usize::from(seed >= 7)];
        let mut user = User::new(seed, vec2(width, 700.0), pixels_per_point, seed % 2 == 0);
        user.max_texture_side = max_texture_side;
        let mut chart = FlameChart::default();
        chart.set_row_height(4.0);
        let mut view = View::default();
        view.begin_pass(store);
        let whole = view.flame_axis(store);
        for case in 0..rounds(25) {
            if case > 0 {
                let length = whole.len_ns() * 0.5_f64.powi(random.below(26) as i32);
                let row = program.rows[random.below(program.rows.len())];
                let begin = (row.3 as f64 + origin as f64
                    - length * random.below(100) as f64 / 100.0)
                    .floor();
                view.zoom_to(begin, begin + length);
            }
            view.search = ["", "", "decode", "nothing"][random.below(4)].to_owned();
            let Some(picture) = picture(&mut user, &mut chart, store, &mut view) else {
                continue;
            };
            let time = view.flame_axis(store);
            let x = |ns: u64| {
                (ns as f64 + origin as f64 - time.begin_ns) * picture.width as f64 / time.len_ns()
            };
            let theme = Theme::of(&user.ctx.style_of(user.ctx.theme()).visuals);
            let bright = theme.site(views::catalog().site(SiteId(3)));
            let mut first_row = 0;
            for track in store.shown_tracks() {
                let rows = if track.id.kind() == TrackKind::Tasks {
                    &[][..]
                } else {
                    &track.rows[..]
                };
                for depth in 0..rows.len() {
                    let at = (first_row + depth) * picture.width;
                    let pixels = &picture.pixels[at..at + picture.width];
                    let thread = track.id.thread().unwrap().0;
                    let spans = program.rows.iter();
                    let spans = spans.filter(|row| (row.0, row.1) == (thread, depth));
                    // The pixels that may show a span, and those that may show a `decode`.
                    let mut may = vec![[false; 2]; picture.width];
                    for &(_, _, site, begin, end) in spans {
                        let (from, to) = (x(begin), x(end));
                        if to < -1.0 || from > picture.width as f64 + 1.0 {
                            continue;
                        }
                        let clamp = |x: f64| x.clamp(0.0, picture.width as f64) as usize;
                        let reach = clamp((from - 1.0).floor())..clamp((to + 2.0).ceil());
                        for may in &mut may[reach.clone()] {
                            *may = [true, may[1] || site == 3];
                        }
                        let is_inside = from >= 0.0 && to < picture.width as f64;
                        let shown = pixels[reach.clone()].iter().any(|pixel| pixel.a() > 0);
                        assert!(
                            shown || !is_inside,
                            "seed {seed}, case {case}: a span is missing at {from} to {to}"
                        );
                        // A wide span has no holes, and has its own colour if the search matches
                        // it; its first pixel is darker.
                        let within = clamp(from.ceil() + 1.0)..clamp(to.floor() - 1.0);
                        if within.start < within.end && from + 4.0 < to {
                            let all = pixels[within.clone()].iter().all(|pixel| pixel.a() > 0);
                            assert!(
                                all,
                                "seed {seed}, case {case}: a hole in a span at {from} to {to}"
                            );
                            let is_bright = pixels[within].contains(&bright);
                            assert!(
                                is_bright == (site == 3 && view.search != "nothing")
                                    || view.search.is_empty(),
                                "seed {seed}, case {case}: a search for {:?} and site {site} at \
                                {from} to {to}",
                                view.search
                            );
                        }
                        checked += 1;
                    }
                    for (i, pixel) in pixels.iter().enumerate() {
                        let [some, decode] = may[i];
                        assert!(
                            pixel.a() == 0 || some,
                            "seed {seed}, case {case}: pixel {i} shows a span that is not there"
                        );
                        assert!(
                            *pixel != bright || decode,
                            "seed {seed}, case {case}: pixel {i} shows another call site"
                        );
                        painted += usize::from(pixel.a() > 0);
                    }
                }
                first_row += track.rows.len().max(1);
            }
        }
    }
    println!("{checked} spans and {painted} pixels");
    assert!(
        checked > 10_000 && painted > 100_000,
        "{checked} spans, {painted} pixels"
    );
}
