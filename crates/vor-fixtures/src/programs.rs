//! Random programs: the spans of their threads in batches of any size, and the self time of every
//! stack, summed during the run.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::model::timeline::{ClockSync, Timeline};

use crate::random::Random;

/// The properties of a program.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub threads: usize,
    /// Spans of all threads together.
    pub spans: usize,
    pub sites: usize,
    pub max_depth: usize,
    /// Percentage of steps that open a scope with children, and of those that end a scope; the
    /// others are leaves.
    pub opens: usize,
    pub ends: usize,
    /// Maximum number of spans of a thread in a batch.
    pub max_batch: usize,
    /// Dropped scopes per thousand.
    pub drops: usize,
    /// Maximum number of ticks between two events; with 0, all events have the same time.
    pub max_ticks: usize,
    /// Thousandths of a nanosecond per tick.
    pub tick_ps: u64,
}

/// The spans of a program, and the self times of its stacks.
pub struct Program {
    pub batches: Vec<SpanBatch>,
    /// By thread and sites from the outermost scope, in nanoseconds; without stacks of 0.
    pub self_ns: BTreeMap<(u32, Vec<u32>), u64>,
    pub dropped: u64,
}

pub const BEGIN: u64 = 1_000;

pub fn catalog(threads: usize, sites: usize, tick_ps: u64) -> Arc<Catalog> {
    let site = |i| {
        filled!(SiteInfo {
            name: format!("s{i}").into()
        })
    };
    let thread = |i: usize| {
        filled!(ThreadInfo {
            os_id: 100 + i as u64,
            name: format!("t{i}"),
        })
    };
    let mut timeline = Timeline::default();
    timeline.push(filled!(ClockSync {
        ticks: BEGIN,
        unix_ns: 1_700_000_000_000_000_000,
        rate: ((u128::from(tick_ps) << 40) / 1_000) as u64,
        wall_ns: 1_700_000_000_000_000_000,
    }));
    Arc::new(filled!(Catalog {
        timeline: Arc::new(timeline),
        sites: Arc::new((1..=sites).map(|i| Some(Arc::new(site(i)))).collect()),
        threads: Arc::new((0..threads).map(|i| Some(Arc::new(thread(i)))).collect())
    }))
}

/// An open scope. A dropped one has no effect on stacks.
struct Open {
    start: u64,
    site: u32,
    /// Its stack, or the stack around it if it is dropped.
    node: usize,
    is_dropped: bool,
}

struct Thread {
    id: u32,
    now: u64,
    open: Vec<Open>,
    ended: ThreadBatch,
    room: usize,
    left: usize,
}

/// All distinct stacks: the parent, thread, site and self time of each.
#[derive(Default)]
struct Model {
    nodes: Vec<(Option<usize>, u32, u32, u64)>,
    known: HashMap<(Option<usize>, u32, u32), usize>,
}

impl Model {
    fn node(&mut self, parent: Option<usize>, thread: u32, site: u32) -> usize {
        let next = self.nodes.len();
        let node = *self.known.entry((parent, thread, site)).or_insert(next);
        if node == next {
            self.nodes.push((parent, thread, site, 0));
        }
        node
    }

    fn sums(&self) -> BTreeMap<(u32, Vec<u32>), u64> {
        let mut sums = BTreeMap::new();
        for (at, &(_, thread, site, ns)) in self.nodes.iter().enumerate() {
            // Site 0 is the thread outside of all scopes.
            if ns == 0 || site == 0 {
                continue;
            }
            let mut path = Vec::new();
            let mut next = Some(at);
            while let Some((parent, _, site, _)) = next.map(|at| self.nodes[at]) {
                if site != 0 {
                    path.push(site);
                }
                next = parent;
            }
            path.reverse();
            sums.insert((thread, path), ns);
        }
        sums
    }
}

/// Runs a program.
pub fn run(seed: u64, shape: Shape) -> Program {
    let mut random = Random(seed);
    let catalog = catalog(shape.threads, shape.sites, shape.tick_ps);
    let ns_at = |ticks| (catalog.timeline.unix_ns(ticks) - catalog.timeline.unix_ns(BEGIN)) as u64;
    let mut model = Model::default();
    let mut program = Program {
        batches: Vec::new(),
        self_ns: BTreeMap::new(),
        dropped: 0,
    };
    let mut threads: Vec<Thread> = (0..shape.threads)
        .map(|id| Thread {
            id: id as u32,
            now: BEGIN,
            open: Vec::new(),
            ended: ThreadBatch::default(),
            room: 1 + random.below(shape.max_batch),
            left: shape.spans.div_ceil(shape.threads),
        })
        .collect();
    let outside: Vec<usize> = (0..threads.len())
        .map(|id| model.node(None, id as u32, 0))
        .collect();
    while let Some(at) = pick(&mut random, &threads) {
        let thread = &mut threads[at];
        let innermost = thread.open.last().map_or(outside[at], |open| open.node);
        let mut wait = |thread: &mut Thread, node: usize, model: &mut Model| {
            let before = ns_at(thread.now);
            thread.now += random_ticks(&mut random, shape.max_ticks);
            model.nodes[node].3 += ns_at(thread.now) - before;
            random.below(1_000_000)
        };
        let drawn = wait(thread, innermost, &mut model);
        let step = drawn % 100;
        let may_open = thread.left > 0 && thread.open.len() < shape.max_depth;
        if thread.left > 0 && (step >= shape.ends || thread.open.is_empty()) {
            let site = 1 + (drawn / 100 % shape.sites) as u32;
            let is_dropped = drawn / 100 % 1_000 < shape.drops;
            let node = if is_dropped {
                innermost
            } else {
                model.node(Some(innermost), thread.id, site)
            };
            thread.left -= 1;
            thread.open.push(Open {
                start: thread.now,
                site,
                node,
                is_dropped,
            });
            if may_open && step < shape.ends + shape.opens {
                continue;
            }
            wait(thread, node, &mut model);
        }
        let Some(open) = thread.open.pop() else {
            continue;
        };
        if open.is_dropped {
            thread.ended.dropped_spans += 1;
            program.dropped += 1;
        } else {
            thread.ended.start_ticks.push(open.start);
            thread.ended.duration_ticks.push(thread.now - open.start);
            thread.ended.sites.push(SiteId(open.site));
        }
        // A scope that follows an empty one within its tick would enclose it.
        thread.now += 1;
        let parent = thread.open.last().map_or(outside[at], |open| open.node);
        model.nodes[parent].3 += ns_at(thread.now) - ns_at(thread.now - 1);
        let is_over = thread.left == 0 && thread.open.is_empty();
        if thread.ended.len() >= thread.room || is_over {
            thread.room = 1 + random.below(shape.max_batch);
            let mut ended = std::mem::take(&mut thread.ended);
            ended.thread = ThreadId(thread.id);
            program.batches.push(filled!(SpanBatch {
                catalog: Arc::clone(&catalog),
                threads: vec![ended],
            }));
        }
    }
    program.self_ns = model.sums();
    program
}

fn random_ticks(random: &mut Random, most: usize) -> u64 {
    random.below(most + 1) as u64
}

/// Returns a random thread that is still running.
fn pick(random: &mut Random, threads: &[Thread]) -> Option<usize> {
    let from = random.below(threads.len());
    let all = (0..threads.len()).map(|i| (from + i) % threads.len());
    let mut running = all.filter(|&at| threads[at].left > 0 || !threads[at].open.is_empty());
    running.next()
}
