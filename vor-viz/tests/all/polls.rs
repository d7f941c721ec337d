//! The polls of tasks: in the rows of the store, in the pixels of the chart, and under the pointer.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use egui::{Modifiers, pos2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use image::RgbaImage;
use vor_capture::filled;
use vor_capture::format::RecordRef;
use vor_capture::model::batch::{AsyncSpan, SpanBatch, TaskEvent, TaskEventKind, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::model::frame::{FrameSnapshot, TreeBuilder};
use vor_capture::sink::FrameSink;
use vor_export::chrome::ChromeExporter;
use vor_fixtures::Random;
use vor_fixtures::even;
use vor_fixtures::random::{rounds, seeds};
use vor_viz::replay::{ReplayState, WindowLimits};
use vor_viz::store::{FrameBlock, PixelScale, Polls, Store, TaskArgs, TrackId};

use crate::flame::{App, harness_of};
use crate::pointer::{click, hover};

const THREADS: usize = 3;
const FRAME_NS: u64 = 1_000;

/// A poll: its begin, its end and its thread.
type Seen = (i64, i64, ThreadId);

/// The frames of a program, and the polls of its tasks by their ids.
struct Program {
    frames: Vec<SpanBatch>,
    polls: BTreeMap<u64, Vec<Seen>>,
}

fn catalog(names: [&'static str; 2]) -> Arc<Catalog> {
    let site = |name: &'static str| Some(Arc::new(filled!(SiteInfo { name: name.into() })));
    let thread = |name: &str| Some(Arc::new(filled!(ThreadInfo { name: name.into() })));
    Arc::new(filled!(Catalog {
        sites: Arc::new(names.map(site).to_vec()),
        threads: Arc::new(["worker-1", "worker-2", "worker-3"].map(thread).to_vec()),
    }))
}

/// Runs a program whose tasks are polled on all threads for any time, over several frames or not at
/// all. With `overlaps`, several threads may poll a task at once.
fn program(random: &mut Random, overlaps: bool) -> Program {
    let catalog = catalog(["load", "save"]);
    let frames = 1 + random.below(12);
    let mut program = Program {
        frames: Vec::new(),
        polls: BTreeMap::new(),
    };
    let batch = |thread| {
        filled!(ThreadBatch {
            thread: ThreadId(thread as u32)
        })
    };
    let mut threads: Vec<Vec<ThreadBatch>> = (0..frames)
        .map(|_| (0..THREADS).map(batch).collect())
        .collect();
    // A frame has what ends with it.
    let frame_of = |ticks: u64| (ticks.saturating_sub(1) / FRAME_NS) as usize;
    // Coarse times meet each other, and the ends of frames.
    let unit = [1, 20, 100][random.below(3)];
    let all_units = frames * FRAME_NS as usize / unit;
    for id in 1..=random.below(60) as u64 {
        let site = SiteId(1 + random.below(2) as u32);
        let start_ticks = (random.below(all_units) * unit) as u64;
        let (mut at, mut last) = (start_ticks, start_ticks);
        let longest = 2 + [3, 40, 900][random.below(3)] / unit;
        for _ in 0..random.below(20) {
            let duration_ticks = (random.below(longest) * unit) as u64;
            let end_ticks = at + duration_ticks;
            let thread = random.below(THREADS);
            if frame_of(end_ticks) >= frames {
                break;
            }
            let event = filled!(TaskEvent {
                task: id,
                site,
                start_ticks: at,
                kind: TaskEventKind::Poll { duration_ticks },
            });
            threads[frame_of(end_ticks)][thread].task_events.push(event);
            let seen = (at as i64, end_ticks as i64, ThreadId(thread as u32));
            program.polls.entry(id).or_default().push(seen);
            last = last.max(end_ticks);
            let gap_ticks = (random.below(longest) * unit) as u64;
            at = match random.below(4) {
                0 => last,
                1 | 2 if overlaps => at + gap_ticks / 4,
                _ => last + gap_ticks,
            };
        }
        // A task may be dropped long after its last poll, or never.
        let end_ticks = last + [0, 0, 700][random.below(3)];
        // Equal tasks of no duration have the arguments of the first one.
        let end_ticks = end_ticks.max(start_ticks + 1);
        if frame_of(end_ticks) < frames {
            let thread = random.below(THREADS);
            threads[frame_of(end_ticks)][thread]
                .async_spans
                .push(filled!(AsyncSpan {
                    id,
                    site,
                    start_ticks,
                    duration_ticks: end_ticks - start_ticks,
                }));
        }
    }
    for mut threads in threads {
        for thread in &mut threads {
            thread.async_spans.sort_by_key(AsyncSpan::end_ticks);
            thread.task_events.sort_by_key(TaskEvent::end_ticks);
        }
        program.frames.push(filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads,
        }));
    }
    program
}

/// Returns the `index`-th frame of a program.
fn frame_of(batch: &SpanBatch, index: u64, frame_ns: u64) -> FrameSnapshot {
    let mut builder = TreeBuilder::new(10_000);
    batch.threads.iter().for_each(|thread| builder.add(thread));
    filled!(FrameSnapshot {
        catalog: Arc::clone(&batch.catalog),
        index,
        start_ticks: index * frame_ns,
        end_ticks: (index + 1) * frame_ns,
        threads: builder.finish().threads,
    })
}

/// Returns the polls of each row of tasks, and the ids of its tasks.
fn rows(store: &Store) -> Vec<(&Polls, Vec<u64>)> {
    let tracks = store.shown_tracks().iter();
    let tasks = tracks.filter(|track| matches!(track.id, TrackId::Tasks(_)));
    let rows = tasks.flat_map(|track| track.rows.iter().zip(&track.polls));
    let rows = rows.map(|(row, polls)| {
        let spans = row.spans(i64::MIN, i64::MAX);
        let ids = spans.map(|span| TaskArgs::read(row.args(&span)).unwrap().id);
        (polls, ids.collect())
    });
    rows.collect()
}

fn sorted(polls: impl Iterator<Item = Seen>) -> Vec<Seen> {
    let mut polls: Vec<Seen> = polls.collect();
    polls.sort_unstable();
    polls
}

/// Returns the polls that overlap a time, as the store has them.
fn seen(polls: &Polls, (begin_ns, end_ns): (i64, i64)) -> Vec<Seen> {
    let within = polls.within(begin_ns, end_ns);
    sorted(within.map(|poll| (poll.begin_ns, poll.end_ns, poll.thread)))
}

/// Returns the pixels in which a poll is, one by one.
fn pixels(polls: &[Seen], scale: &PixelScale) -> Vec<usize> {
    let covers = |poll: &Seen, pixel: usize| {
        let (begin, end) = (scale.x(poll.0), scale.x(poll.1));
        let pixel = pixel as f64;
        (begin < pixel + 1.0 && end > pixel) || (pixel..pixel + 1.0).contains(&begin)
    };
    let pixels = 0..scale.width();
    let covered = pixels.filter(|pixel| polls.iter().any(|poll| covers(poll, *pixel)));
    covered.collect()
}

#[test]
fn rows_have_the_polls_of_their_tasks_at_any_zoom() {
    let mut compared = 0;
    for seed in seeds(400) {
        let random = &mut Random(seed);
        let program = program(random, true);
        let most = 1 + random.below(program.frames.len() + 4);
        let mut store = Store::new(most, usize::MAX);
        for (index, batch) in (0..).zip(&program.frames) {
            store.push_block(FrameBlock::new(&frame_of(batch, index, FRAME_NS), 0));
            let is_full = index as usize >= most;
            let first_ns = store.frames()[0].begin_ns;
            for (polls, tasks) in rows(&store) {
                let own = tasks.iter().filter_map(|task| program.polls.get(task));
                let mut own: Vec<Seen> = sorted(own.flatten().copied());
                // A frame that left took the polls before the first one that ends later.
                if is_full {
                    let stays = |poll: &Seen| poll.1 > first_ns;
                    own.drain(..own.iter().position(stays).unwrap_or(own.len()));
                }
                assert_eq!(seen(polls, (i64::MIN, i64::MAX)), own, "seed {seed}");
                assert_eq!((polls.len(), polls.is_empty()), (own.len(), own.is_empty()));
                compared += own.len();

                let passed = ((index + 1) * FRAME_NS) as usize;
                for _ in 0..6 {
                    let begin = random.below(passed) as i64 - 50;
                    let width = 1 + random.below(300);
                    // Some pixels begin at whole nanoseconds.
                    let pixel = [1.0, 7.0, 20.0, 0.13, 1.7, 16.3][random.below(6)];
                    let end = begin + 1 + (width as f64 * pixel) as i64;
                    let overlap = own.iter().filter(|poll| poll.0 <= end && poll.1 >= begin);
                    let overlap = sorted(overlap.copied());
                    assert_eq!(seen(polls, (begin, end)), overlap, "seed {seed}");
                    let end = begin as f64 + width as f64 * pixel;
                    let scale = PixelScale::new(begin as f64, end, width);
                    let runs = polls.pixels(&scale);
                    let apart = |pair: &[Range<usize>]| pair[0].end < pair[1].start;
                    assert!(runs.windows(2).all(apart) && runs.iter().all(|run| !run.is_empty()));
                    let found: Vec<usize> = runs.into_iter().flatten().collect();
                    assert_eq!(found, pixels(&own, &scale), "seed {seed}");
                }
            }
        }
        // Every task that has ended has a lane.
        if most >= program.frames.len() {
            let threads = program.frames.iter().flat_map(|batch| &batch.threads);
            let ended = threads
                .flat_map(|thread| &thread.async_spans)
                .map(|task| task.id);
            let polled = ended.filter_map(|task| program.polls.get(&task)).flatten();
            let stored = rows(&store)
                .iter()
                .map(|(polls, _)| polls.len())
                .sum::<usize>();
            assert_eq!(stored, polled.count(), "seed {seed}");
        }
    }
    assert!(compared > rounds(400) * 100, "{compared}");
}

#[test]
fn rows_have_the_polls_of_a_trace() {
    for seed in seeds(100) {
        let program = program(&mut Random(seed), false);
        let mut store = Store::new(100, usize::MAX);
        let mut trace = Vec::new();
        let mut exporter = ChromeExporter::new(&mut trace);
        let mut ended = Vec::new();
        for (index, batch) in (0..).zip(&program.frames) {
            let frame = frame_of(batch, index, FRAME_NS);
            exporter.accept_batch(batch).unwrap();
            store.push_block(FrameBlock::new(&frame, 0));
            exporter.accept_frame(&Arc::new(frame)).unwrap();
            let tasks = batch.threads.iter().flat_map(|thread| &thread.async_spans);
            ended.extend(tasks.map(|task| task.id));
        }
        exporter.finish().unwrap();
        drop(exporter);
        let events: Vec<serde_json::Value> = serde_json::from_slice(&trace).unwrap();
        let ns =
            |event: &serde_json::Value| (event["ts"].as_f64().unwrap() * 1000.0).round() as i64;
        let mut begun = BTreeMap::new();
        let mut expected = Vec::new();
        let (mut first_ns, mut zero_ns) = (i64::MAX, i64::MAX);
        for event in events.iter().filter(|event| event["name"] == "poll") {
            let id = event["id2"]["local"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            match event["ph"].as_str().unwrap() {
                "b" => _ = begun.insert(id, ns(event)),
                _ => expected.push((begun.remove(&id).unwrap(), ns(event))),
            }
            first_ns = first_ns.min(ns(event));
        }
        let all = program.polls.values().flatten();
        all.for_each(|poll| zero_ns = zero_ns.min(poll.0));
        // The trace also has the polls of tasks that are still open.
        let open = program
            .polls
            .iter()
            .filter(|(task, _)| !ended.contains(task));
        let open = open
            .flat_map(|(_, polls)| polls)
            .map(|poll| (poll.0, poll.1));
        let drawn = rows(&store)
            .into_iter()
            .flat_map(|(polls, _)| seen(polls, (i64::MIN, i64::MAX)));
        let mut found: Vec<(i64, i64)> = drawn.map(|poll| (poll.0, poll.1)).chain(open).collect();
        found.sort_unstable();
        expected.iter_mut().for_each(|poll| {
            poll.0 += zero_ns - first_ns;
            poll.1 += zero_ns - first_ns;
        });
        expected.sort_unstable();
        assert_eq!(found, expected, "seed {seed}");
    }
}

/// Returns a task that begins with a frame, and a number of short polls of it.
fn often_polled(index: u64, polls: u64) -> ThreadBatch {
    let begin = index * FRAME_NS;
    let poll = |nth: u64| {
        filled!(TaskEvent {
            task: index + 1,
            site: SiteId(1),
            start_ticks: begin + 4 * nth,
            kind: TaskEventKind::Poll { duration_ticks: 3 },
        })
    };
    filled!(ThreadBatch {
        thread: ThreadId(0),
        async_spans: vec![filled!(AsyncSpan {
            id: index + 1,
            site: SiteId(1),
            start_ticks: begin,
            duration_ticks: 900,
        })],
        task_events: (0..polls).map(poll).collect(),
    })
}

#[test]
fn polls_are_limited_as_spans_are() {
    let catalog = catalog(["load", "save"]);
    let mut store = Store::new(100, 50);
    for index in 0..20_u64 {
        if index == 10 {
            store.clear();
        }
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: vec![often_polled(index, 20)],
        });
        store.push_block(FrameBlock::new(&frame_of(&batch, index, FRAME_NS), 0));
        let stored = rows(&store)
            .iter()
            .map(|(polls, _)| polls.len())
            .sum::<usize>();
        assert_eq!(stored, 20 * store.frames().len());
        assert_eq!(store.frames().len() as u64, (index % 10 + 1).min(2));
    }
}

#[test]
fn a_window_with_many_polls_has_the_requested_frame() {
    let catalog = even::catalog();
    let (mut encoder, mut bytes) = even::begin(&catalog);
    for index in 0..200_u64 {
        let mut thread = often_polled(index, 100);
        thread.start_ticks = vec![index * FRAME_NS];
        thread.duration_ticks = vec![900];
        thread.sites = vec![SiteId(1)];
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: vec![thread],
        });
        encoder.encode(RecordRef::Batch(&batch), &mut bytes);
        let mut frame = frame_of(&batch, index, FRAME_NS);
        (frame.span_count, frame.threads) = (1, Vec::new());
        encoder.encode(RecordRef::Frame(&frame), &mut bytes);
    }
    let mut replay = ReplayState::from_bytes(bytes, "memory").unwrap();
    replay.set_limits(WindowLimits {
        frames: 200,
        spans: 1_000,
    });
    replay.go_to(100);
    let context = egui::Context::default();
    while !replay.is_settled() {
        std::thread::sleep(Duration::from_micros(100));
        replay.poll(&context);
    }
    let window = replay.window();
    assert!(window.contains(&100), "{window:?}");
    assert!(replay.store().frames().len() <= 13, "{window:?}");
}

/// A frame of 10 ms and a task from 1 ms to 9 ms with a name, which is polled at these times, in
/// microseconds.
fn with_task(name: &'static str, polls: &[(u64, u64)], row_height: f32) -> Harness<'static, App> {
    let event = |&(begin_us, end_us): &(u64, u64)| {
        filled!(TaskEvent {
            task: 1,
            site: SiteId(1),
            start_ticks: begin_us * 1_000,
            kind: TaskEventKind::Poll {
                duration_ticks: (end_us - begin_us) * 1_000
            },
        })
    };
    let batch = filled!(SpanBatch {
        catalog: catalog([name, "save"]),
        threads: vec![filled!(ThreadBatch {
            thread: ThreadId(2),
            async_spans: vec![filled!(AsyncSpan {
                id: 1,
                site: SiteId(1),
                start_ticks: 1_000_000,
                duration_ticks: 8_000_000,
            })],
            task_events: polls.iter().map(event).collect(),
        })],
    });
    let mut store = Store::new(4, usize::MAX);
    store.push_block(FrameBlock::new(&frame_of(&batch, 0, 10_000_000), 0));
    let mut harness = harness_of(store, true);
    harness.state_mut().chart.set_row_height(row_height);
    harness.run();
    harness
}

/// Returns the position of a moment in the chart, in points.
fn x(harness: &Harness<'_, App>, us: u64) -> f32 {
    let chart = harness.get_by_label("flame chart").rect();
    let app = harness.state();
    let time = app.view.flame_axis(&app.store);
    let share = (us as f64 * 1e3 - time.begin_ns) / time.len_ns();
    chart.left() + share as f32 * chart.width()
}

/// Returns the top of the first row, in points.
fn top(harness: &Harness<'_, App>) -> f32 {
    harness.get_by_label("flame chart").rect().top() + 18.0
}

/// Returns the places at which two pictures of the first row differ.
fn differing(harness: &Harness<'_, App>, one: &RgbaImage, other: &RgbaImage) -> Vec<(u32, u32)> {
    let (left, top) = (x(harness, 0) as u32, top(harness) as u32);
    let lines = top..top + harness.state().chart.row_height() as u32;
    let places = lines.flat_map(|y| (left..x(harness, 10_000) as u32).map(move |x| (x, y)));
    let places = places.filter(|&(x, y)| one.get_pixel(x, y) != other.get_pixel(x, y));
    places.collect()
}

#[test]
fn polls_are_a_line_below_the_name_of_their_task() {
    let polls = [(1_200, 3_000), (5_000, 5_001), (6_000, 8_500)];
    for height in [12.0, 13.0, 14.0, 16.0, 18.0, 20.0, 21.0, 24.0, 32.0] {
        let picture = |name, polls: &[(u64, u64)]| {
            let mut harness = with_task(name, polls, height);
            (harness.render().unwrap(), harness)
        };
        let (with, harness) = picture("gypsy (q), j", &polls);
        // A poll without a duration leaves space for the line, too.
        let (other, _) = picture("gypsy (q), j", &[(8_999, 8_999)]);
        let lines: Vec<(u32, u32)> = differing(&harness, &with, &other);
        let first_line = lines.iter().map(|place| place.1).min().unwrap();
        let (top, bottom) = (top(&harness), top(&harness) + height);
        assert!(bottom - first_line as f32 <= 5.0, "height {height}");
        let columns = |us: u64| x(&harness, us).round() as u32;
        let expected: Vec<u32> = polls
            .iter()
            .flat_map(|poll| columns(poll.0)..columns(poll.1).max(columns(poll.0) + 1))
            .collect();
        for &(x, y) in &lines {
            let is_other = x.abs_diff(columns(8_999)) <= 1;
            let is_near = expected.iter().any(|near| x.abs_diff(*near) <= 1);
            assert!(is_other || is_near, "height {height}: {x}, {y}");
        }
        for x in expected {
            let is_drawn = |near: u32| lines.contains(&(near, first_line));
            assert!((x - 1..=x + 1).any(is_drawn), "height {height}: {x}");
        }
        let (unnamed, _) = picture("", &polls);
        let ink = differing(&harness, &with, &unnamed);
        assert!(!ink.is_empty() || height < 14.0, "height {height}");
        for (x, y) in ink {
            assert!(
                y < first_line && y >= top as u32,
                "height {height}: {x}, {y}"
            );
        }
    }
}

#[test]
fn the_pointer_at_the_line_tells_the_poll() {
    let mut harness = with_task("request", &[(1_200, 3_000), (5_000, 5_400)], 16.0);
    let y = top(&harness);
    let polls = ["poll, 1.80 ms, on worker-3", "poll, 400 µs, on worker-3"];
    for (us, below, expected) in [
        (2_000, 14.0, Some(polls[0])),
        (5_200, 13.0, Some(polls[1])),
        (5_200, 6.0, None),
        (4_000, 14.0, None),
    ] {
        let place = pos2(x(&harness, us), y + below);
        hover(&mut harness, place);
        for text in polls {
            let is_shown = harness.query_by_label(text).is_some();
            assert_eq!(is_shown, expected == Some(text), "at {us} µs, {below}");
        }
        // Elsewhere is the task.
        let is_task = harness.query_by_label("8.00 ms").is_some();
        assert_eq!(is_task, expected.is_none(), "at {us} µs, {below}");
    }
    // A click beside the line chooses the task.
    let place = pos2(x(&harness, 4_000), y + 14.0);
    click(&mut harness, place, Modifiers::NONE);
    assert!(harness.state().view.focus.is_some());
}
