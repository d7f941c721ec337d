//! Frames that no sound program makes, in the whole panel: with any contents, the panel draws,
//! answers and stays small.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::headless::User;
use egui::{Key, vec2};
use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, AsyncSpan, Message, TaskEvent, TaskEventKind};
use vor_capture::model::catalog::{
    Catalog, Column, MetricColumn, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::frame::{FrameSnapshot, MetricValue, Span, ThreadTree};
use vor_capture::model::timeline::{ClockSync, RATE_BITS, Timeline};
use vor_fixtures::own_process;
use vor_fixtures::random::rounds;
use vor_viz::bars::Thresholds;
use vor_viz::panel::{Panel, Tab};
use vor_viz::store::{FrameBlock, Store};

/// Sizes of the panel in points, and the number of pixels per point.
const SCREENS: [(f32, f32, f32); 5] = [
    (80.0, 60.0, 0.5),
    (333.0, 211.0, 3.0),
    (1000.0, 700.0, 1.0),
    (1400.0, 250.0, 1.5),
    (4000.0, 3000.0, 2.0),
];

const TABS: [Tab; 3] = [Tab::Metrics, Tab::Scopes, Tab::Icicle];

fn site(name: &str) -> Option<Arc<SiteInfo>> {
    Some(Arc::new(filled!(SiteInfo {
        name: name.to_owned().into(),
        file: "src/lib.rs".into(),
        arg_names: vec!["n".into()]
    })))
}

/// A catalog of some call sites, threads and metrics, in which one tick is one nanosecond.
fn catalog(sites: &[&str], threads: usize, columns: &[&str]) -> Catalog {
    let mut timeline = Timeline::default();
    timeline.push(filled!(ClockSync {
        ticks: 0,
        unix_ns: 0,
        rate: 1 << RATE_BITS,
        wall_ns: 0,
    }));
    let thread = |i| {
        Some(Arc::new(filled!(ThreadInfo {
            os_id: i as u64,
            name: format!("thread {i}"),
        })))
    };
    let column = |name: &&str| {
        filled!(Column {
            metric: MetricColumn {
                name: (*name).to_owned(),
                unit: "u".into(),
            },
            system: *name == "frame_ms",
        })
    };
    filled!(Catalog {
        timeline: Arc::new(timeline),
        sites: Arc::new(sites.iter().map(|name| site(name)).collect()),
        threads: Arc::new((0..threads).map(thread).collect()),
        columns: Arc::new(columns.iter().map(column).collect()),
        frame_sets: Arc::new(vec![String::new()])
    })
}

fn span(start_ticks: u64, duration_ticks: u64, site: u32, depth: u32) -> Span {
    filled!(Span {
        start_ticks,
        duration_ticks,
        site: SiteId(site),
        depth
    })
}

fn frame(
    catalog: &Arc<Catalog>,
    start_ticks: u64,
    end_ticks: u64,
    threads: Vec<ThreadTree>,
) -> FrameSnapshot {
    filled!(FrameSnapshot {
        catalog: Arc::clone(catalog),
        start_ticks,
        end_ticks,
        span_count: threads.iter().map(|tree| tree.spans.len() as u64).sum(),
        threads
    })
}

fn tree(thread: u32, spans: Vec<Span>) -> ThreadTree {
    filled!(ThreadTree {
        thread: ThreadId(thread),
        spans
    })
}

fn store(frames: &[FrameSnapshot], origin_ns: i64) -> Store {
    let mut store = Store::new(64, 1 << 20);
    for frame in frames {
        store.push_block(FrameBlock::new(frame, origin_ns));
    }
    store
}

/// Uses the panel on every screen, in both themes and at all tabs: it shows all tabs, then makes
/// `passes` random inputs.
fn attack(store: &Store, passes: usize) {
    for (i, (width, height, pixels_per_point)) in SCREENS.into_iter().enumerate() {
        let mut user = User::new(i as u64, vec2(width, height), pixels_per_point, i % 2 == 0);
        let mut panel = Panel::new(store.clone(), Thresholds::default());
        for tab in TABS {
            panel.set_tab(tab);
            user.idle_pass(|ui| panel.show(ui, &[]));
            user.idle_pass(|ui| panel.show(ui, &[]));
        }
        for key in [
            Key::Home,
            Key::ArrowDown,
            Key::ArrowDown,
            Key::Z,
            Key::M,
            Key::End,
            Key::W,
        ] {
            user.press(key, |ui| panel.show(ui, &[]));
        }
        panel.view_mut().search = "a".into();
        for pass in 0..rounds(passes) {
            panel.set_tab(TABS[pass / 4 % 3]);
            user.random_pass(|ui| panel.show(ui, &[]));
        }
        panel.finish();
        for tab in TABS {
            panel.set_tab(tab);
            user.idle_pass(|ui| panel.show(ui, &[]));
        }
    }
}

#[test]
fn ticks_at_the_first_and_last_possible_time() {
    own_process!();
    const LAST: u64 = u64::MAX;
    let catalog = Arc::new(catalog(&["first", "last", "all"], 2, &["frame_ms"]));
    let spans = |at: u64| {
        vec![
            span(0, LAST, 3, 0),
            span(0, 0, 1, 1),
            span(LAST, LAST, 2, 1),
            span(LAST / 2, LAST, 2, 1),
            span(at, 1, 1, 2),
            span(LAST - 1, 1, 9, 2),
        ]
    };
    let frames = [
        frame(&catalog, 0, 0, vec![tree(0, spans(7))]),
        frame(
            &catalog,
            0,
            LAST,
            vec![tree(0, spans(1 << 40)), tree(1, spans(3))],
        ),
        frame(&catalog, LAST, LAST, vec![tree(1, spans(LAST))]),
        frame(&catalog, LAST, 0, vec![tree(7, spans(5))]),
        frame(&catalog, 1 << 62, 1 << 63, vec![tree(0, spans(5))]),
    ];
    for origin_ns in [0, i64::MIN, i64::MAX] {
        attack(&store(&frames, origin_ns), 8);
    }
    for one in &frames {
        attack(&store(std::slice::from_ref(one), 0), 2);
    }
}

#[test]
fn spans_outside_their_frames_overlapping_and_out_of_order() {
    own_process!();
    let catalog = Arc::new(catalog(&["a", "b", "c"], 3, &["frame_ms"]));
    let mut user = User::new(99, vec2(1.0, 1.0), 1.0, true);
    let mut frames = Vec::new();
    for number in 0..40_u64 {
        let begin = 1_000_000 * (1 + number);
        let spans = (0..60).map(|_| {
            let start = user.below(60_000_000) as u64;
            let duration = [0, 1, 900, 500_000, 30_000_000][user.below(5)];
            span(start, duration, user.below(5) as u32, user.below(4) as u32)
        });
        let spans: Vec<Span> = spans.collect();
        let late = span(begin + 5_000_000, 10, 1, 0);
        let mut one = tree(0, spans);
        one.spans.push(late);
        one.messages = vec![
            filled!(Message {
                ticks: begin + 7,
                text: "late".into(),
            }),
            filled!(Message {
                ticks: 3,
                text: "early".into(),
            }),
        ];
        one.async_spans = (0..300)
            .map(|id| {
                filled!(AsyncSpan {
                    id,
                    site: SiteId(2),
                    start_ticks: user.below(60_000_000) as u64,
                    duration_ticks: 1 << user.below(60),
                })
            })
            .collect();
        one.task_events = vec![filled!(TaskEvent {
            task: 5,
            site: SiteId(77),
            start_ticks: user.below(60_000_000) as u64,
            kind: TaskEventKind::Step,
        })];
        // Durations of zero, negative ones, and numbers that decrease.
        let mut made = frame(
            &catalog,
            begin,
            begin + [1_000_000, 0, 500_000][user.below(3)],
            vec![one],
        );
        if number % 7 == 3 {
            std::mem::swap(&mut made.start_ticks, &mut made.end_ticks);
        }
        made.index = u64::MAX - number;
        made.dropped_spans = u64::MAX;
        made.merged_marks = u64::MAX;
        frames.push(made);
    }
    attack(&store(&frames, 0), 45);
    frames.reverse();
    attack(&store(&frames, 500), 25);
}

#[test]
fn a_hundred_thousand_levels() {
    own_process!();
    const LEVELS: u32 = 100_000;
    let catalog = Arc::new(catalog(&["down"], 1, &["frame_ms"]));
    let spans =
        (0..LEVELS).map(|depth| span(u64::from(depth), u64::from(2 * (LEVELS - depth)), 1, depth));
    let frames = [frame(
        &catalog,
        0,
        3 * u64::from(LEVELS),
        vec![tree(0, spans.collect())],
    )];
    let store = store(&frames, 0);
    assert_eq!(store.stored_spans(), LEVELS as usize);
    attack(&store, 8);
}

#[test]
fn five_thousand_threads() {
    own_process!();
    let catalog = Arc::new(catalog(&["work"], 5_000, &["frame_ms"]));
    let threads = (0..5_000).map(|thread| tree(thread, vec![span(u64::from(thread), 500, 1, 0)]));
    let frames = [frame(&catalog, 0, 6_000, threads.collect())];
    attack(&store(&frames, 0), 20);
}

#[test]
fn a_hundred_thousand_call_sites() {
    own_process!();
    const SITES: u32 = 100_000;
    let names: Vec<String> = (0..SITES).map(|site| format!("site {site}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let catalog = Arc::new(catalog(&names, 1, &["frame_ms"]));
    let spans = (0..SITES)
        .map(|site| span(u64::from(site) * 10, 8, site + 1, 0))
        .collect();
    let far = vec![span(5, 5, u32::MAX, 0), span(15, 5, u32::MAX - 1, 0)];
    let frames = [
        frame(&catalog, 0, u64::from(SITES) * 10, vec![tree(0, spans)]),
        frame(
            &catalog,
            0,
            u64::from(SITES) * 20,
            vec![tree(u32::MAX, far)],
        ),
    ];
    let grown = vor_fixtures::memory::peak_of(|| attack(&store(&frames, 0), 20));
    println!("{SITES} call sites: {grown} bytes at most");
    assert!(grown < 1 << 30, "{grown} bytes");
}

#[test]
fn names_and_texts_that_are_long_or_strange() {
    own_process!();
    let long = "x".repeat(64 << 10);
    let lines = "line\n".repeat(13_000);
    let names = [
        long.as_str(),
        lines.as_str(),
        "\u{0}\u{1}\u{7}\u{1b}[31mred\r\n\t\u{7f}",
        "\u{202e}txet lanoitceridib\u{202c} שלום مرحبا",
        "🦀👩‍👩‍👧‍👦\u{fe0f}é\u{301}\u{301}\u{301}",
        "",
        " ",
        "\u{feff}\u{ffff}\u{10ffff}",
        "%s%n{}{0}\\\"'<script>",
    ];
    let mut catalog = catalog(&names, names.len(), &names);
    let info = |name: &&str| {
        Some(Arc::new(filled!(ThreadInfo {
            os_id: 0,
            name: (*name).to_owned(),
        })))
    };
    catalog.threads = Arc::new(names.iter().map(info).collect());
    let with_args = |name: &&str| {
        Some(Arc::new(filled!(SiteInfo {
            name: (*name).to_owned().into(),
            module_path: (*name).to_owned().into(),
            file: (*name).to_owned().into(),
            category: (*name).to_owned().into(),
            line: u32::MAX,
            arg_names: vec![(*name).to_owned().into(); 40]
        })))
    };
    catalog.sites = Arc::new(names.iter().map(with_args).collect());
    let catalog = Arc::new(catalog);
    let text: Arc<str> = "é🦀".repeat(90_000).into();
    let threads = (0..names.len() as u32).map(|thread| {
        let mut one = tree(thread, Vec::new());
        for site in 1..=names.len() as u32 {
            let mut own = span(u64::from(site) * 1_000, 900, site, 0);
            let first = one.arg_values.len() as u32;
            own.args = (first, first + 40);
            one.arg_values
                .extend(std::iter::repeat_n(ArgValue::Str(Arc::clone(&text)), 38));
            one.arg_values
                .extend([ArgValue::F64(f64::NAN), ArgValue::I64(i64::MIN)]);
            one.spans.push(own);
        }
        one.messages = (0..20)
            .map(|i| {
                filled!(Message {
                    ticks: 1_000 + i,
                    text: Arc::clone(&text),
                })
            })
            .collect();
        one
    });
    let mut frames = [frame(&catalog, 0, 10_000, threads.collect())];
    frames[0].metrics = (0..names.len() as u32)
        .map(|column| filled!(MetricValue { column, value: 1.5 }))
        .collect();
    attack(&store(&frames, 0), 8);
}

#[test]
fn values_that_are_not_numbers_are_gaps_and_are_counted() {
    own_process!();
    let catalog = Arc::new(catalog(&["a"], 1, &["frame_ms", "loss", "huge"]));
    let values = [
        1.0,
        f64::NAN,
        f64::INFINITY,
        -2.0,
        f64::NEG_INFINITY,
        1e-320,
        3.0,
    ];
    let frames: Vec<FrameSnapshot> = values
        .iter()
        .enumerate()
        .map(|(i, &value)| {
            let begin = i as u64 * 1_000_000;
            let mut frame = frame(&catalog, begin, begin + 1_000_000, Vec::new());
            let huge = if i % 2 == 0 { f64::MAX } else { -f64::MAX };
            frame.index = i as u64;
            frame.metrics = vec![
                filled!(MetricValue { column: 1, value }),
                filled!(MetricValue {
                    column: 2,
                    value: huge,
                }),
            ];
            frame
        })
        .collect();
    let store = store(&frames, 0);
    let mut panel = Panel::new(store.clone(), Thresholds::default());
    let mut user = User::new(1, vec2(1200.0, 1000.0), 1.0, true);
    user.idle_pass(|ui| panel.show(ui, &[]));
    let shown = user.idle_pass(|ui| panel.show(ui, &[])).texts();
    assert!(shown.iter().any(|text| text == "u, 3 gaps"), "{shown:?}");
    attack(&store, 24);
}

#[test]
fn a_frame_of_thirty_years() {
    own_process!();
    let catalog = Arc::new(catalog(&["year", "moment"], 1, &["frame_ms"]));
    const YEARS: u64 = 1_000_000_000_000_000_000;
    let spans = vec![
        span(0, YEARS - 5, 1, 0),
        span(100, 3, 2, 1),
        span(YEARS / 2, 1, 2, 1),
        span(YEARS - 100, 40, 2, 1),
    ];
    let frames = [
        frame(&catalog, 0, YEARS, vec![tree(0, spans)]),
        frame(
            &catalog,
            YEARS,
            YEARS + 16_000_000,
            vec![tree(0, vec![span(YEARS + 5, 1_000, 2, 0)])],
        ),
    ];
    for origin_ns in [0, -YEARS.cast_signed() * 8, YEARS.cast_signed() * 8] {
        attack(&store(&frames, origin_ns), 20);
    }
}
