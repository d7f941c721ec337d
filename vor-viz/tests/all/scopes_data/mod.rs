//! An invented program: an engine with two workers, tasks, and a slow frame now and then. It is the
//! same in every run.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::Arc;

use vor_capture::filled;
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_viz::store::{FrameBlock, FrameEntry, RowBlock, Store, Task, ThreadBlock};

pub use vor_fixtures::Random;

pub const NAMES: [&str; 14] = [
    "frame",
    "update",
    "physics",
    "collide",
    "render",
    "cull",
    "draw",
    "present",
    "worker::run",
    "decode",
    "inflate",
    "load texture",
    "a scope whose name goes on and on, as those of closures within generic functions within impls \
    do",
    "audio",
];

fn within(random: &mut Random, low: u64, high: u64) -> u64 {
    low + random.below((high - low) as usize) as u64
}

pub fn catalog_of(names: &[&str]) -> Arc<Catalog> {
    let site = |(i, name): (usize, &&str)| {
        Some(Arc::new(filled!(SiteInfo {
            name: (*name).to_owned().into(),
            module_path: "engine".into(),
            file: "src/engine.rs".into(),
            line: i as u32 * 10 + 5
        })))
    };
    let thread = |name: &str| {
        Some(Arc::new(filled!(ThreadInfo {
            os_id: 1,
            name: name.to_owned(),
        })))
    };
    Arc::new(filled!(Catalog {
        sites: Arc::new(names.iter().enumerate().map(site).collect()),
        threads: Arc::new(["main", "worker 0", "worker 1"].map(thread).to_vec())
    }))
}

pub fn site(name: &str) -> SiteId {
    let at = NAMES
        .iter()
        .position(|have| *have == name)
        .unwrap_or(usize::MAX - 1);
    SiteId(at as u32 + 1)
}

/// Writes nested scopes.
#[derive(Default)]
pub struct Writer {
    pub rows: Vec<RowBlock>,
}

impl Writer {
    pub fn span(&mut self, depth: usize, begin_ns: i64, duration_ns: u64, name: &str) {
        if depth >= self.rows.len() {
            self.rows.resize_with(depth + 1, RowBlock::default);
        }
        self.rows[depth].push(begin_ns, duration_ns, site(name));
    }
}

/// Returns a frame that begins at `begin_ns`. `slow` makes its physics slower by that many percent.
pub fn frame(
    random: &mut Random,
    catalog: &Arc<Catalog>,
    number: u64,
    begin_ns: i64,
    slow: u64,
) -> FrameBlock {
    let mut main = Writer::default();
    let mut at = begin_ns + 1_000;
    let update = at;
    main.span(2, at + 30_000, within(random, 3_000, 20_000), "audio");
    at += 60_000;
    for _ in 0..12 {
        let length = within(random, 20_000, 90_000) * (100 + slow) / 100;
        main.span(3, at, length, "collide");
        at += length as i64 + within(random, 500, 9_000) as i64;
    }
    let physics = update + 55_000;
    main.span(2, physics, (at - physics) as u64, "physics");
    main.span(1, update, (at - update) as u64 + 10_000, "update");
    at += 20_000;
    let render = at;
    main.span(2, at + 1_000, within(random, 200_000, 400_000), NAMES[12]);
    at += 420_000;
    main.span(2, at, within(random, 90_000, 190_000), "cull");
    at += 200_000;
    for _ in 0..20 {
        let length = within(random, 4_000, 30_000)
            + if within(random, 0, 40) == 0 {
                300_000
            } else {
                0
            };
        main.span(2, at, length, "draw");
        at += length as i64 + 300;
    }
    main.span(1, render, (at - render) as u64, "render");
    main.span(1, at + 100, within(random, 100_000, 2_000_000), "present");
    let end = main.rows[1].begin_ns[2] + i64::from(main.rows[1].duration_ns[2]) + 500;
    main.span(0, begin_ns + 500, (end - begin_ns - 600) as u64, "frame");
    let mut threads = vec![ThreadBlock {
        thread: ThreadId(0),
        rows: main.rows,
        ..ThreadBlock::default()
    }];
    for worker in 1..=2 {
        let mut writer = Writer::default();
        let mut at = begin_ns + 10_000 * i64::from(worker);
        for _ in 0..4 {
            let inside = within(random, 30_000, 400_000);
            writer.span(2, at + 2_000, inside / 2, "inflate");
            writer.span(1, at + 1_000, inside, "decode");
            writer.span(0, at, inside + 3_000, "worker::run");
            at += inside as i64 + 50_000;
        }
        let task = |i: u64, length: u64| Task {
            id: number * 10 + i,
            site: site("load texture"),
            begin_ns: begin_ns + 5_000 * i as i64,
            duration_ns: length,
        };
        threads.push(ThreadBlock {
            thread: ThreadId(worker),
            rows: writer.rows,
            tasks: (0..2).map(|i| task(i, 100_000 + 700_000 * i)).collect(),
            ..ThreadBlock::default()
        });
    }
    FrameBlock {
        frame: FrameEntry {
            number,
            begin_ns,
            end_ns: end,
            ..FrameEntry::default()
        },
        catalog: Arc::clone(catalog),
        threads,
    }
}

/// Returns a store of `frames` frames; those with a number divisible by 16 are slow.
pub fn store(frames: u64, seed: u64, slow: u64) -> Store {
    let mut store = Store::new(10_000, usize::MAX);
    push(&mut store, frames, seed, slow);
    store
}

/// Appends frames.
pub fn push(store: &mut Store, frames: u64, seed: u64, slow: u64) {
    let catalog = catalog_of(&NAMES);
    let mut random = Random(seed);
    for _ in 0..frames {
        let number = store.frames().back().map_or(800, |frame| frame.number + 1);
        let begin_ns = store.frames().back().map_or(0, |frame| frame.end_ns);
        let odd = if number.is_multiple_of(16) { 120 } else { 0 };
        store.push_block(frame(&mut random, &catalog, number, begin_ns, slow + odd));
    }
}
