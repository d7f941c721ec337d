//! A capture of the largest numbers that the format can hold, in every place where one can be: more
//! spans, bytes and time than any program reaches. Its checksums are right, so readers return all
//! of it, and whatever adds two of these numbers must expect that the sum does not fit.

use crate::payload::{ARGS, DROPS, MESSAGES, Payload, TASKS, TREE};
use crate::sealed::{Sealed, declarations, kind};

const MAX: u64 = u64::MAX;

/// The names by which a site has all measures.
const MEASURES: [&str; 9] = [
    "off_cpu_ns",
    "cpu_user_ns",
    "cpu_sys_ns",
    "alloc_objects",
    "alloc_bytes",
    "free_objects",
    "free_bytes",
    "run_queue_ns",
    "context_switches",
];

/// The number of the site that has all measures, and its name.
pub const MEASURED_SITE: (u64, &str) = (4, "measured");

/// Frames of the main set.
pub const FRAMES: u64 = 4;

/// Spans of each of them.
pub const FRAME_SPANS: u64 = 8;

/// Makes the capture, which is not closed. Two of its frames count the largest number of spans, two
/// count those that they have. The last frame has the largest number.
pub fn largest_numbers() -> Vec<u8> {
    let mut sealed = declarations();
    // One tick is one nanosecond, from here on.
    let clock = Payload::default().numbers(&[2000]).zigzag(1 << 60);
    sealed.push(kind::CLOCK, &clock.numbers(&[1 << 40]).zigzag(0).0);
    sealed.push(kind::SITES, &measured_site().0);
    for index in 0..FRAMES {
        let is_true = index % 2 == 1;
        for batch in [plain(), measured(), tree()] {
            sealed.push(kind::BATCH, &batch.0);
        }
        sealed.push(kind::EVENTS, &events(index).0);
        sealed.push(kind::BATCH, &tasks(index).0);
        // Records that are no part of the frame.
        sealed.push(kind::HEAP, &heap(index).0);
        let open = Payload::default().numbers(&[MAX, 1, 0, 1, 1]).zigzag(-1);
        sealed.push(kind::OPEN_SCOPES, &open.0);
        for frame_set in [1, 0] {
            let records = if frame_set == 0 { 8 } else { 0 };
            let spans = if is_true { FRAME_SPANS } else { MAX };
            let number = if index + 1 == FRAMES { MAX } else { index };
            push_frame(&mut sealed, number, frame_set, records, spans);
        }
    }
    // A batch that no frame counts.
    sealed.push(kind::BATCH, &plain().0);
    sealed.bytes()
}

fn measured_site() -> Payload {
    let (number, name) = MEASURED_SITE;
    let site = Payload::default().numbers(&[number, 1]).text(name);
    let site = site.bytes(&[0; 5]).numbers(&[MEASURES.len() as u64]);
    MEASURES.iter().fold(site, |site, name| site.text(name))
}

/// Two entries of a thread, with one span each, and as many that were dropped.
fn plain() -> Payload {
    let block = Payload::default().numbers(&[0]).bytes(&[1 | DROPS]);
    let block = block.numbers(&[1, MAX, MAX]);
    let block = block.equal(1, MAX).equal(1, MAX).numbers(&[1]);
    Payload([block.0.clone(), block.0].concat())
}

/// Three measured spans, of which the last contains the others, with the values of each.
fn measured() -> Payload {
    let tree = Payload::default().numbers(&[0]).bytes(&[1 | TREE | ARGS]);
    let tree = tree.numbers(&[3, 5000]).column(&[0, 0, 2]).equal(3, 5);
    let mut tree = tree.equal(2, 7).equal(1, 2).numbers(&[MEASURED_SITE.0, 3]);
    for value in [MAX, MAX, 1] {
        tree = tree.numbers(&[0, MEASURES.len() as u64]);
        tree = (0..MEASURES.len()).fold(tree, |tree, _| tree.bytes(&[3]).numbers(&[value]));
    }
    tree
}

/// Spans of a second thread that take half of all time and all time, from its begin.
fn tree() -> Payload {
    let tree = Payload::default().numbers(&[1]).bytes(&[1 | TREE | DROPS]);
    let tree = tree.numbers(&[3, MAX, 0]).column(&[0, 0, 2]);
    // Each begins where the one before ended; the last ends at the last tick.
    let tree = tree.column(&[0, 0, 1]).equal(2, MAX / 2).equal(1, 0);
    tree.numbers(&[2])
}

/// Tasks and messages of all times.
fn tasks(index: u64) -> Payload {
    let tasks = Payload::default().block(MESSAGES | TASKS, 0).numbers(&[2]);
    let tasks = tasks.zigzag(-1).numbers(&[0]).text("the last moment");
    let tasks = tasks.zigzag(1).numbers(&[1]);
    let tasks = tasks.numbers(&[2]).zigzag(index as i64 - 9);
    // They end at the last tick, and began at the first one or after it.
    let tasks = tasks.numbers(&[1]).zigzag(-1).numbers(&[MAX]);
    tasks
        .zigzag(1 << 50)
        .numbers(&[2])
        .zigzag(0)
        .numbers(&[MAX - 3])
}

/// Events of tasks, of all kinds, and points of a flow.
fn events(index: u64) -> Payload {
    let events = Payload::default().numbers(&[0, 3]);
    let event = |events: Payload, kind, task| events.bytes(&[kind]).zigzag(task).numbers(&[1]);
    let events = event(events, 2, index as i64 - 9).zigzag(0).numbers(&[MAX]);
    let events = event(events, 1, 0).zigzag(-1).numbers(&[MAX]);
    let events = event(events, 0, 0).zigzag(0).numbers(&[3]);
    [(0, 1), (1, -2), (2, 1)]
        .into_iter()
        .fold(events, |points, (stage, step)| {
            points.bytes(&[stage]).zigzag(step).zigzag(step)
        })
}

/// Two stacks, estimated from samples in every second frame.
fn heap(index: u64) -> Payload {
    let is_exact = index.is_multiple_of(2);
    let stack = |sites: &[u64]| {
        let stack = Payload::default().numbers(&[0, sites.len() as u64]);
        let stack = stack.numbers(sites).numbers(&[MAX, MAX]);
        match is_exact {
            true => stack.0,
            false => stack.numbers(&[MAX]).bytes(&[0xff; 16]).0,
        }
    };
    let heap = Payload::default().numbers(&[MAX, if is_exact { 0 } else { MAX }, 2]);
    heap.bytes(&stack(&[])).bytes(&stack(&[1]))
}

/// A frame that lasts from the first tick to the last one, with metrics of all shapes.
fn push_frame(sealed: &mut Sealed, number: u64, frame_set: u64, records: u64, spans: u64) {
    let frame = Payload::default().numbers(&[number, frame_set, 0, MAX, records]);
    let frame = frame.numbers(&[spans, MAX, MAX, 3]);
    let frame = frame.numbers(&[0]).zigzag(i64::MIN);
    let frame = frame.numbers(&[1 << 2 | 1]).bytes(&f32::MAX.to_le_bytes());
    let frame = frame.numbers(&[1 << 2 | 2]).bytes(&f64::MAX.to_le_bytes());
    sealed.push(kind::FRAME, &frame.0);
}
