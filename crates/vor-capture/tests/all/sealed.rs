//! Payloads that were changed under the right checksum: only their decoder can refuse them, and
//! what it accepts is read like any other.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::io::Cursor;
use std::time::{Duration, Instant};

use vor_capture::filled;
use vor_capture::format::{Encoder, Header, Record, RecordRef};
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_capture::model::heap::{HeapMode, HeapSnapshot, HeapStack};
use vor_capture::reader::Capture;
use vor_fixtures::any_input;
use vor_fixtures::decoded;
use vor_fixtures::payload::{ARGS, Payload, TREE};
use vor_fixtures::random::Random;
use vor_fixtures::sealed::{Mutation, Sealed, declarations, frame_payload, kind, seeds};

/// The longest time for one file of a few kilobytes; a file takes milliseconds.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Changes payloads of each seed, and calls `test` with the number of the case and the file.
fn for_mutations(cases: u64, mut test: impl FnMut(u64, &[u8])) {
    for (seed, capture) in seeds().iter().enumerate() {
        let whole = Sealed::of(capture);
        for case in 0..cases {
            let mut random = Random((seed as u64) << 32 | case);
            let mut sealed = whole.clone();
            let count = 1 + random.below(3);
            let mutations: Vec<_> = (0..count).map(|_| Mutation::random(&mut random)).collect();
            sealed.mutate(&mutations);
            println!("seed {seed}, case {case}: {mutations:?}");
            let begin = Instant::now();
            test(case, &sealed.bytes());
            assert!(begin.elapsed() < MAX_TIME, "{:?}", begin.elapsed());
        }
    }
}

#[test]
fn sealing_changes_no_contents() {
    for capture in seeds() {
        let mut sealed = Sealed::of(&capture);
        sealed.mutate(&[]);
        let sealed = sealed.bytes();
        let expected: Vec<_> = decoded::records(&capture).collect();
        assert_eq!(decoded::records(&sealed).count(), expected.len());
        for ((_, found), (_, expected)) in decoded::records(&sealed).zip(&expected) {
            if !matches!(found, Record::Index(_) | Record::End { .. }) {
                assert_eq!(format!("{found:?}"), format!("{expected:?}"));
            }
        }
        let [found, expected] = [sealed, capture].map(|file| {
            let capture = Capture::new(Cursor::new(file)).unwrap();
            let info = capture.info();
            (info.indexed, info.frames, info.damage.count)
        });
        assert_eq!(found, expected);
    }
}

#[test]
fn changed_payloads_are_decoded_as_the_format_says_or_refused() {
    for_mutations(500, |_, file| vor_fixtures::invariants::records(file));
}

#[test]
fn changed_payloads_are_read_in_all_ways() {
    for_mutations(100, |_, file| any_input::read_everything(file));
}

#[test]
fn changed_payloads_are_read_alike_while_the_file_grows() {
    for_mutations(50, |case, file| any_input::check_growing(file, case));
}

/// Counts and times that no program reaches.
fn file_of_largest_numbers() -> Vec<u8> {
    let mut sealed = declarations();
    for index in 0..3 {
        let drops = Payload::default().numbers(&[0]).bytes(&[1 | 1 << 6]);
        let drops = drops.numbers(&[1, u64::MAX, u64::MAX]);
        let block = drops.equal(1, u64::MAX).equal(1, u64::MAX).numbers(&[1]);
        sealed.push(kind::BATCH, &[block.0.clone(), block.0].concat());
        let stack = |sites: &[u64]| {
            let stack = Payload::default().numbers(&[0, sites.len() as u64]);
            stack
                .numbers(sites)
                .numbers(&[u64::MAX, u64::MAX, u64::MAX])
        };
        let stack = |sites| stack(sites).bytes(&[0xff; 16]).0;
        let heap = Payload::default().numbers(&[u64::MAX, u64::MAX, 2]);
        let heap = heap.bytes(&stack(&[])).bytes(&stack(&[1]));
        sealed.push(kind::HEAP, &heap.0);
        let most = [u64::MAX; 3];
        let frame = Payload::default().numbers(&[index, 0, u64::MAX, u64::MAX, 2]);
        sealed.push(kind::FRAME, &frame.numbers(&most).numbers(&[0]).0);
    }
    // A batch that no frame counts.
    sealed.push(kind::BATCH, &Payload::default().block(0, 4).numbers(&[1]).0);
    sealed.bytes()
}

#[test]
fn sums_of_the_largest_numbers_do_not_overflow() {
    let file = file_of_largest_numbers();
    any_input::read_everything(&file);
    any_input::check_growing(&file, 1);
    let capture = Capture::new(Cursor::new(file)).unwrap();
    assert_eq!(capture.info().frames, 3);
    assert_eq!(capture.info().dropped_spans, u64::MAX);
    assert_eq!(capture.info().spans, u64::MAX);
}

#[test]
fn the_time_between_the_first_and_the_last_moment_does_not_overflow() {
    let mut sealed = declarations();
    for (ticks, unix_ns) in [(2000, i64::MIN), (3000, i64::MAX)] {
        let clock = Payload::default().numbers(&[ticks]).zigzag(unix_ns);
        sealed.push(kind::CLOCK, &clock.numbers(&[1 << 40]).zigzag(0).0);
    }
    let frame = Payload::default().numbers(&[0, 0, 2000, 1000, 2, 0, 0, 0, 0]);
    sealed.push(kind::FRAME, &frame.0);
    let file = sealed.bytes();
    any_input::read_everything(&file);
    let mut capture = Capture::new(Cursor::new(file)).unwrap();
    assert_eq!(capture.info().duration_ns, i64::MAX as u64);
    assert_eq!(capture.frame(0).unwrap().duration_ns(), i64::MAX);
}

#[test]
fn measures_of_the_largest_numbers_do_not_overflow() {
    let mut sealed = declarations();
    let names = [
        "off_cpu_ns",
        "cpu_user_ns",
        "cpu_sys_ns",
        "alloc_objects",
        "alloc_bytes",
        "free_objects",
        "free_bytes",
    ];
    let site = Payload::default().numbers(&[4, 1]).text("measured");
    let site = site.bytes(&[0; 5]).numbers(&[names.len() as u64]);
    let site = names.iter().fold(site, |site, name| site.text(name));
    sealed.push(kind::SITES, &site.0);
    // Three spans, of which the last contains the others, and the values of each.
    let tree = Payload::default().numbers(&[0]).bytes(&[1 | TREE | ARGS]);
    let tree = tree.numbers(&[3, 5000]).column(&[0, 0, 2]).equal(3, 5);
    let mut tree = tree.equal(2, 7).equal(1, 2).numbers(&[4, 3]);
    for value in [u64::MAX, u64::MAX, 1] {
        tree = tree.numbers(&[0, names.len() as u64]);
        tree = (0..names.len()).fold(tree, |tree, _| tree.bytes(&[3]).numbers(&[value]));
    }
    for _ in 0..3 {
        sealed.push(kind::BATCH, &tree.0);
    }
    sealed.push(kind::FRAME, &frame_payload(3, 9));
    let file = sealed.bytes();
    any_input::read_everything(&file);
    let capture = Capture::new(Cursor::new(file)).unwrap();
    assert_eq!(capture.catalog().site_name(SiteId(4)), "measured");
    assert_eq!((capture.info().spans, capture.info().damage.count), (9, 0));
}

#[test]
fn differences_of_the_largest_heaps_do_not_overflow() {
    let heap = |inuse_bytes| {
        let stack = filled!(HeapStack {
            inuse_objects: 1,
            inuse_bytes
        });
        HeapSnapshot::new(HeapMode::Exact, 1, vec![stack])
    };
    for (now, before, expected) in [
        (1 << 63, 1, i64::MAX - 1),
        (1, u64::MAX, 1 - i64::MAX),
        (u64::MAX, 0, i64::MAX),
    ] {
        let changes = heap(now).difference(&heap(before));
        assert_eq!(changes[0].inuse_bytes, expected);
    }
}

#[test]
fn drops_of_the_largest_numbers_are_written() {
    let thread = |thread| {
        filled!(ThreadBatch {
            thread: ThreadId(thread),
            dropped_spans: u64::MAX,
        })
    };
    let batch = filled!(SpanBatch {
        threads: [0, 1].map(thread).to_vec()
    });
    let mut encoder = Encoder::new(Header::default());
    encoder.encode(RecordRef::Batch(&batch), &mut Vec::new());
    assert_eq!(encoder.index().dropped_spans, u64::MAX);
}
