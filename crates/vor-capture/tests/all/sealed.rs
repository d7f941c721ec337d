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
use vor_fixtures::largest;
use vor_fixtures::payload::Payload;
use vor_fixtures::random::Random;
use vor_fixtures::sealed::{Mutation, Sealed, declarations, kind, seeds};

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

#[test]
fn sums_of_the_largest_numbers_do_not_overflow() {
    let file = largest::largest_numbers();
    let refused = decoded::decode(&file, file.len()).unwrap().refused;
    assert!(refused.is_empty(), "{refused:?}");
    any_input::read_everything(&file);
    any_input::check_growing(&file, 1);
    let mut capture = Capture::new(Cursor::new(file)).unwrap();
    assert_eq!(
        capture.catalog().site_name(SiteId(4)),
        largest::MEASURED_SITE.1
    );
    let info = capture.info();
    assert_eq!(info.damage.count, 0);
    assert_eq!(info.frames, largest::FRAMES);
    assert_eq!((info.dropped_spans, info.spans), (u64::MAX, u64::MAX));
    for i in 0..info.frames {
        let recovered = capture.recovered(i).unwrap();
        assert_eq!(recovered.held_spans(), largest::FRAME_SPANS, "frame {i}");
        let is_whole = i % 2 == 1;
        assert_eq!(recovered.lost_records == 0, is_whole, "frame {i}");
        assert_eq!(recovered.has_all_spans(), is_whole, "frame {i}");
    }
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
