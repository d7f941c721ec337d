//! Captures of version 3, through both readers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up should stop"
)]

use std::io::{self, Cursor, Read};
use std::sync::{Arc, Mutex};

use vor_capture::filled;
use vor_capture::format::{Encoder, Header, RECORD_HEAD_BYTES, RecordHead, RecordRef};
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::reader::{Capture, Event, Frame, Reader};
use vor_fixtures::sealed::seal;
use vor_fixtures::{TestCapture, make};

fn bits(frame: &Frame) -> (Vec<u64>, Vec<(String, u64)>) {
    let system = frame.system.iter().map(|value| value.to_bits()).collect();
    let user = frame.user.iter();
    (
        system,
        user.map(|(name, value)| (name.clone(), value.to_bits()))
            .collect(),
    )
}

/// Compares bit by bit, because metrics may be NaN.
fn assert_same(
    found: &vor_capture::model::frame::FrameSnapshot,
    expected: &vor_capture::model::frame::FrameSnapshot,
) {
    assert_eq!(format!("{found:?}"), format!("{expected:?}"));
}

#[test]
fn frames_come_back_with_trees_in_any_order() {
    for close in [true, false] {
        let made = make(1, 300, 12, close);
        let mut capture = Capture::new(Cursor::new(made.bytes.clone())).unwrap();
        let info = capture.info();
        assert_eq!(info.indexed, close);
        assert_eq!(info.closed, close);
        assert_eq!(info.damage.is_none(), close, "{:?}", info.damage);
        assert_eq!(info.frames, 300);
        assert_eq!(info.spans, made.spans);
        assert_eq!(info.threads, 2);
        let ticks = made.frames[299].end_ticks - made.frames[0].start_ticks;
        assert_eq!(info.duration_ns, ticks * 2);
        for i in [299, 0, 1, 2, 150, 149, 298, 17] {
            assert_same(&capture.frame(i).unwrap(), &made.frames[i as usize]);
        }
        let all: Vec<_> = capture.frames(0..1000).map(Result::unwrap).collect();
        assert_eq!(all.len(), 300);
        for (found, expected) in all.iter().zip(&made.frames) {
            assert_same(found, expected);
        }
        let spans: usize = capture
            .batches()
            .unwrap()
            .map(|batch| batch.unwrap().span_count())
            .sum();
        assert_eq!(spans as u64, made.spans);
        assert!(capture.frame(300).is_err());
        assert_eq!(capture.verify().unwrap().is_none(), close);
    }
}

#[test]
fn a_secondary_frame_set_can_be_selected() {
    for close in [true, false] {
        let made = make(2, 50, 3, close);
        let mut capture = Capture::new(Cursor::new(made.bytes.clone())).unwrap();
        capture.select_frame_set(1).unwrap();
        assert_eq!(capture.frame_count(), made.ticks_frames);
        for i in 0..made.ticks_frames {
            let frame = capture.frame(i).unwrap();
            assert_eq!((frame.index, frame.frame_set), (i, 1));
            assert_eq!(frame.end_ticks, made.frames[3 * i as usize].end_ticks);
        }
        assert!(capture.select_frame_set(2).is_err());
    }
}

#[test]
fn events_stream_batches_and_frames() {
    let made = make(3, 40, 9, true);
    let mut reader = Reader::new(made.bytes.as_slice()).unwrap();
    let (mut spans, mut frames) = (0, 0);
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Batch(batch) => spans += batch.span_count() as u64,
            Event::Frame(found) if found.frame.frame_set == 0 => {
                assert_eq!(found.lost_records, 0);
                frames += 1;
            }
            Event::Loss(loss) => panic!("{loss:?}"),
            _ => {}
        }
    }
    assert_eq!((spans, frames), (made.spans, 40));
    assert!(reader.damage().is_none());
}

fn plain_frames(made: &TestCapture) -> Vec<Frame> {
    let mut reader = Reader::new(made.bytes.as_slice()).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        frames.push(frame);
    }
    frames
}

#[test]
fn the_predecessors_reader_interface_reads_version_3() {
    let made = make(4, 60, 8, true);
    let reader = Reader::new(made.bytes.as_slice()).unwrap();
    let names = |columns: &[vor_capture::model::catalog::MetricColumn]| {
        columns
            .iter()
            .map(|column| column.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(reader.columns()), ["frame_ms", "memory_mb"]);
    assert_eq!(names(reader.user_columns()), ["loss"]);
    let frames = plain_frames(&made);
    assert_eq!(frames.len(), 60);
    for (frame, expected) in frames.iter().zip(&made.frames) {
        let (system, user) = bits(frame);
        assert_eq!(
            system,
            [expected.metrics[0].value.to_bits(), f64::NAN.to_bits()]
        );
        assert_eq!(
            user,
            [("loss".to_owned(), expected.metrics[1].value.to_bits())]
        );
    }
}

/// A file that another process writes.
#[derive(Clone, Default)]
struct Growing(Arc<Mutex<(Vec<u8>, usize)>>);

impl Read for Growing {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut file = self.0.lock().unwrap();
        let n = (&file.0[file.1..]).read(out)?;
        file.1 += n;
        Ok(n)
    }
}

#[test]
fn a_growing_file_is_followed() {
    let made = make(6, 50, 6, true);
    let file = Growing::default();
    let mut given = 60;
    file.0
        .lock()
        .unwrap()
        .0
        .extend_from_slice(&made.bytes[..given]);
    let mut reader = Reader::new(file.clone()).unwrap();
    let (mut frames, mut nones) = (0, 0);
    while given < made.bytes.len() {
        let next = (given + 37).min(made.bytes.len());
        file.0
            .lock()
            .unwrap()
            .0
            .extend_from_slice(&made.bytes[given..next]);
        given = next;
        while reader.next_frame().unwrap().is_some() {
            frames += 1;
        }
        nones += 1;
    }
    assert_eq!(frames, 50);
    assert!(nones > 50);
    assert!(reader.damage().is_none(), "{:?}", reader.damage());
    assert_eq!(reader.columns().len(), 2);
}

#[test]
fn spans_beyond_the_limit_are_counted() {
    let made = make(7, 10, 30, true);
    let mut capture = Capture::new(Cursor::new(made.bytes)).unwrap();
    capture.set_max_spans(4);
    for (i, expected) in made.frames.iter().enumerate() {
        let found = capture.recovered(i as u64).unwrap();
        assert_eq!(found.lost_records, 0);
        assert_eq!(found.frame.span_count, expected.span_count);
        assert_eq!(found.held_spans(), expected.span_count.min(4));
    }
}

/// Returns the spans in the batches of a file, and the dropped ones, according to the stream.
fn counted(bytes: &[u8]) -> (u64, u64) {
    let mut reader = Reader::new(bytes).unwrap();
    let (mut spans, mut dropped) = (0, 0);
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Batch(batch) = event {
            spans += batch.span_count() as u64;
            dropped += batch
                .threads
                .iter()
                .map(|thread| thread.dropped_spans)
                .sum::<u64>();
        }
    }
    (spans, dropped)
}

#[test]
fn a_torn_file_counts_the_spans_after_its_last_frame() {
    let made = make(8, 12, 9, true);
    let (mut behind_frames, mut cuts) = (0, 0);
    for pair in made.records.windows(2) {
        // At a record, and within it.
        for cut in [pair[0], (pair[0] + pair[1]) / 2] {
            let torn = &made.bytes[..cut];
            let capture = Capture::new(Cursor::new(torn.to_vec())).unwrap();
            let info = capture.info();
            assert_eq!(
                (info.spans, info.dropped_spans),
                counted(torn),
                "cut at byte {cut}"
            );
            let marks = made.frame_ends.iter().filter(|&&end| end <= cut).count();
            let in_frames: u64 = made.frames[..marks]
                .iter()
                .map(|frame| frame.span_count)
                .sum();
            behind_frames += info.spans - in_frames;
            cuts += 1;
        }
    }
    assert!(cuts > 50 && behind_frames > 0);
}

#[test]
fn dropped_spans_are_the_same_with_and_without_an_index() {
    let made = make(9, 0, 0, false);
    let with_drops = |given_up: u64| {
        let mut encoder = Encoder::new(Header {
            file_id: 99,
            ..Header::default()
        });
        let mut bytes = Vec::new();
        encoder.header(&mut bytes);
        let batch = |dropped_spans: u64| {
            filled!(SpanBatch {
                catalog: Arc::clone(&made.catalog),
                threads: vec![filled!(ThreadBatch {
                    thread: ThreadId(0),
                    start_ticks: vec![10, 20],
                    duration_ticks: vec![5, 5],
                    sites: vec![SiteId(1); 2],
                    dropped_spans
                })],
            })
        };
        encoder.encode(RecordRef::Batch(&batch(3)), &mut bytes);
        // A flight recorder may discard spans of a frame, which are then in no batch.
        let frame = filled!(FrameSnapshot {
            span_count: 2,
            dropped_spans: 3 + given_up
        });
        encoder.encode(RecordRef::Frame(&frame), &mut bytes);
        encoder.encode(RecordRef::Batch(&batch(4)), &mut bytes);
        let torn = bytes.clone();
        encoder.close(&made.catalog, &mut bytes);
        [torn, bytes].map(|bytes| {
            let info = Capture::new(Cursor::new(bytes)).unwrap().info();
            (info.indexed, info.frames, info.spans, info.dropped_spans)
        })
    };
    assert_eq!(with_drops(0), [(false, 1, 4, 7), (true, 1, 4, 7)]);
    assert_eq!(with_drops(100), [(false, 1, 4, 107), (true, 1, 4, 107)]);
}

/// Sequence numbers wrap at 2^32; the contents of a frame do not depend on the place of the wrap.
#[test]
fn frames_are_whole_where_sequence_numbers_wrap() {
    let made = make(9, 20, 6, false);
    let (header, len) = Header::decode(&made.bytes).unwrap().unwrap();
    let records = made.records.len() - 1;
    for before_wrap in [0, 1, 20, 33, records - 1] {
        let mut bytes = made.bytes[..len].to_vec();
        for record in made.records.windows(2) {
            let record = &made.bytes[record[0]..record[1]];
            let head = RecordHead::parse(&header, record).unwrap();
            let seq = head.seq.wrapping_sub(before_wrap as u32);
            let payload = &record[RECORD_HEAD_BYTES..];
            let resealed = seal(header.file_id, seq, head.kind, head.codec, payload);
            bytes.extend(resealed);
        }
        let mut reader = Reader::new(bytes.as_slice()).unwrap();
        let mut frames = made.frames.iter();
        while let Some(recovered) = reader.next_recovered().unwrap() {
            assert_eq!(recovered.lost_records, 0, "{before_wrap} before the wrap");
            assert_same(&recovered.frame, frames.next().unwrap());
        }
        assert_eq!(frames.len(), 0);
        // The first record shows that all records before it are missing.
        assert_eq!(reader.damage().count, u64::from(before_wrap > 0));

        let mut capture = Capture::new(Cursor::new(bytes)).unwrap();
        assert_eq!(capture.frame_count(), 20);
        for summary in capture.summaries(0) {
            assert_eq!(summary.unwrap().lost_records, 0, "{before_wrap} before");
        }
        for i in (0..20).rev() {
            let recovered = capture.recovered(i).unwrap();
            assert_eq!(recovered.lost_records, 0, "{before_wrap} before the wrap");
            assert_same(&recovered.frame, &made.frames[i as usize]);
        }
    }
}

#[test]
fn the_head_of_an_index_that_reaches_beyond_the_file_is_none() {
    let made = make(5, 20, 6, true);
    let (header, _) = Header::decode(&made.bytes).unwrap().unwrap();
    let [.., index, end, _] = made.records.as_slice() else {
        panic!("{:?}", made.records)
    };
    let head = RecordHead::parse(&header, &made.bytes[*index..]).unwrap();
    for payload_bytes in [1000, 100_000] {
        let payload = vec![0; payload_bytes];
        let sealed = seal(header.file_id, head.seq, head.kind, 0, &payload);
        let bytes = [&made.bytes[..*index], &sealed[..40], &made.bytes[*end..]].concat();
        let mut capture = Capture::new(Cursor::new(bytes)).unwrap();
        let info = capture.info();
        assert_eq!((info.indexed, info.frames), (false, 20));
        for i in [19, 0, 7] {
            assert_same(&capture.frame(i).unwrap(), &made.frames[i as usize]);
        }
    }
}

#[test]
fn a_batch_that_is_late_counts_once() {
    let mut encoder = Encoder::new(Header {
        file_id: 99,
        ..Header::default()
    });
    let mut bytes = Vec::new();
    encoder.header(&mut bytes);
    let mut offsets = vec![bytes.len()];
    let batch = |spans: usize| {
        filled!(SpanBatch {
            catalog: Arc::default(),
            threads: vec![filled!(ThreadBatch {
                start_ticks: vec![10; spans],
                duration_ticks: vec![5; spans],
                sites: vec![SiteId(1); spans],
                dropped_spans: 100
            })],
        })
    };
    let frame = filled!(FrameSnapshot {
        span_count: 2 + 3,
        dropped_spans: 200
    });
    let (first, second, third) = (batch(2), batch(3), batch(7));
    for record in [
        RecordRef::Batch(&first),
        RecordRef::Batch(&second),
        RecordRef::Frame(&frame),
        RecordRef::Batch(&third),
    ] {
        encoder.encode(record, &mut bytes);
        offsets.push(bytes.len());
    }
    for (order, missing) in [
        ([0, 1, 2, 3], 0),
        ([0, 2, 1, 3], 1),
        ([0, 2, 3, 1], 1),
        ([0, 2, 3, 3], 1),
    ] {
        let records = order.map(|record| &bytes[offsets[record]..offsets[record + 1]]);
        let file = [&bytes[..offsets[0]], &records.concat()].concat();
        let mut capture = Capture::new(Cursor::new(file)).unwrap();
        let info = capture.info();
        assert_eq!((info.frames, info.spans), (1, 2 + 3 + 7), "{order:?}");
        assert_eq!(info.dropped_spans, 200 + 100, "{order:?}");
        assert_eq!(capture.recovered(0).unwrap().lost_records, missing);
    }
}
