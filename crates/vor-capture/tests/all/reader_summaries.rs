//! The frames of a capture without their spans, and captures that grow while they are read.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up should stop"
)]

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use vor_capture::format::RECORD_HEAD_BYTES;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::reader::{Capture, FrameScan, FrameSummary};
use vor_fixtures::make;

fn of(frame: &FrameSnapshot) -> FrameSummary {
    vor_capture::filled!(FrameSummary {
        index: frame.index,
        start_ticks: frame.start_ticks,
        end_ticks: frame.end_ticks,
        span_count: frame.span_count,
        dropped_spans: frame.dropped_spans,
        merged_marks: frame.merged_marks,
        lost_records: 0,
    })
}

#[test]
fn summaries_agree_with_the_frames_from_anywhere() {
    for close in [true, false] {
        let made = make(21, 700, 12, close);
        let mut capture = Capture::new(Cursor::new(made.bytes.clone())).unwrap();
        let expected: Vec<_> = made.frames.iter().map(|frame| of(frame)).collect();
        for from in [0, 1, 350, 699, 700, 5000] {
            let found: Vec<_> = capture.summaries(from).map(Result::unwrap).collect();
            assert_eq!(found, expected[(from as usize).min(700)..], "from {from}");
        }
    }
}

#[test]
fn a_pass_pauses_while_frames_are_read() {
    for close in [true, false] {
        let made = make(22, 300, 9, close);
        let mut capture = Capture::new(Cursor::new(made.bytes.clone())).unwrap();
        let mut scan = FrameScan::new(0);
        for i in 0..300 {
            assert_eq!(scan.next_frame(), i);
            let found = capture.next_summary(&mut scan).unwrap().unwrap();
            let elsewhere = (i * 7919) % 300;
            let frame = capture.frame(elsewhere).unwrap();
            assert_eq!(frame.index, elsewhere);
            assert_eq!(found, of(&made.frames[i as usize]));
        }
        assert!(capture.next_summary(&mut scan).is_none());
    }
}

#[test]
fn a_lost_frame_is_an_error_in_its_place() {
    for close in [true, false] {
        let mut made = make(23, 100, 9, close);
        let last = made.frame_ends[50] - 1;
        made.bytes[last] ^= 1;
        let mut capture = Capture::new(Cursor::new(made.bytes)).unwrap();
        let found: Vec<_> = capture.summaries(0).collect();
        // Without an index, nothing shows that the frame existed.
        let after = if close { 51 } else { 50 };
        assert_eq!(found.len(), if close { 100 } else { 99 });
        if close {
            assert!(found[50].as_ref().unwrap_err().is_corrupt());
        }
        for (found, frame) in found[..50].iter().zip(&made.frames) {
            assert_eq!(*found.as_ref().unwrap(), of(frame));
        }
        for (found, frame) in found[after..].iter().zip(&made.frames[51..]) {
            assert_eq!(*found.as_ref().unwrap(), of(frame));
        }
    }
}

#[test]
fn a_batch_that_lost_bytes_hides_no_frame() {
    for close in [true, false] {
        let made = make(27, 60, 9, close);
        let mut led_astray = 0;
        for (a, &at) in made.records.iter().enumerate() {
            let payload = at + RECORD_HEAD_BYTES..made.records.get(a + 1).copied().unwrap_or(at);
            // The head leads to a later record, past those in between, when exactly the bytes of
            // those are missing.
            for &led_to in made.records.iter().skip(a + 2) {
                let lost = led_to - payload.end;
                if lost >= payload.len() {
                    break;
                }
                let mut bytes = made.bytes.clone();
                bytes.drain(payload.start..payload.start + lost);
                let mut capture = Capture::new(Cursor::new(bytes)).unwrap();
                let found: Vec<_> = capture.summaries(0).collect();
                assert_eq!(found.len() as u64, capture.frame_count());
                for (i, found) in found.iter().enumerate() {
                    let frame = capture.recovered(i as u64);
                    let what = format!(
                        "frame {i}, {lost} bytes cut out of the record at {at}: {found:?}, \
                        {frame:?}"
                    );
                    match (found, frame) {
                        (Ok(found), Ok(frame)) => assert_eq!(
                            (found.index, found.start_ticks, found.lost_records),
                            (
                                frame.frame.index,
                                frame.frame.start_ticks,
                                frame.lost_records
                            ),
                            "{what}"
                        ),
                        (Err(found), Err(frame)) => {
                            assert!(found.is_corrupt() && frame.is_corrupt(), "{what}")
                        }
                        _ => panic!("{what}"),
                    }
                }
                led_astray += 1;
            }
        }
        assert!(led_astray > 100, "{led_astray}");
    }
}

/// Counts the bytes read.
pub struct Counting(pub Cursor<Vec<u8>>, pub Arc<AtomicU64>);

impl Read for Counting {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(bytes)?;
        self.1.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl Seek for Counting {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn summaries_jump_over_spans() {
    let made = make(24, 40, 40_000, true);
    let bytes_read = Arc::new(AtomicU64::new(0));
    let all = made.bytes.len() as u64;
    let input = Counting(Cursor::new(made.bytes), Arc::clone(&bytes_read));
    let mut capture = Capture::new(input).unwrap();
    bytes_read.store(0, Ordering::Relaxed);
    assert_eq!(capture.summaries(0).map(Result::unwrap).count(), 40);
    let read = bytes_read.load(Ordering::Relaxed);
    assert!(read * 8 < all, "{read} of {all} bytes");
}

/// A file in memory that grows.
#[derive(Clone)]
struct Growing {
    bytes: Arc<Mutex<Vec<u8>>>,
    at: u64,
    read: Arc<AtomicU64>,
}

impl Read for Growing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.lock().unwrap();
        let mut rest = &bytes[bytes.len().min(self.at as usize)..];
        let n = rest.read(into)?;
        self.at += n as u64;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl Seek for Growing {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(back) => {
                let end = self.bytes.lock().unwrap().len() as u64;
                end.saturating_add_signed(back)
            }
            SeekFrom::Current(by) => self.at.saturating_add_signed(by),
        };
        Ok(self.at)
    }
}

#[test]
fn a_growing_file_is_read_once_however_small_its_pieces() {
    let v2 = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/data/v2/flame.vor");
    let v2 = std::fs::read(v2).unwrap();
    // Version 3, with records of some hundred kilobytes.
    for (bytes, first) in [(make(28, 4, 60_000, false).bytes, 100), (v2, 200)] {
        for piece in [200_000, 3000, 100] {
            let file = Growing {
                bytes: Arc::new(Mutex::new(bytes[..first].to_vec())),
                at: 0,
                read: Arc::default(),
            };
            let mut capture = Capture::new(file.clone()).unwrap();
            for piece in bytes[first..].chunks(piece) {
                file.bytes.lock().unwrap().extend_from_slice(piece);
                capture.extend().unwrap();
            }
            let expected = Capture::new(Cursor::new(bytes.clone())).unwrap();
            assert_eq!(capture.frame_count(), expected.frame_count());
            assert_eq!(capture.info().damage, expected.info().damage);
            let (read, all) = (file.read.load(Ordering::Relaxed), bytes.len() as u64);
            assert!(read <= 4 * all, "pieces of {piece}: {read} of {all} bytes");
        }
    }
}

#[test]
fn a_growing_file_is_followed_frame_by_frame() {
    let made = make(25, 120, 10, true);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let mut file = File::create(&path).unwrap();
    let first = made.records[3];
    file.write_all(&made.bytes[..first]).unwrap();
    let mut capture = Capture::open(&path).unwrap();
    let mut scan = FrameScan::new(0);
    let (mut written, mut known) = (first, 0);
    // Pieces of any length end at any point within records.
    for piece in (1..).map(|i| i * 37 % 1999) {
        let end = (written + piece).min(made.bytes.len());
        file.write_all(&made.bytes[written..end]).unwrap();
        written = end;
        let whole = made
            .frame_ends
            .partition_point(|&frame_end| frame_end <= written) as u64;
        assert_eq!(capture.extend().unwrap(), whole, "{written} bytes");
        assert_eq!(
            (capture.frame_count(), capture.info().frames),
            (whole, whole)
        );
        while let Some(summary) = capture.next_summary(&mut scan) {
            assert_eq!(summary.unwrap(), of(&made.frames[known]));
            known += 1;
        }
        assert_eq!(known as u64, whole);
        for i in whole.saturating_sub(2)..whole {
            let frame = capture.frame(i).unwrap();
            assert_eq!(frame.threads, made.frames[i as usize].threads, "frame {i}");
        }
        if written == made.bytes.len() {
            break;
        }
    }
    let info = capture.info();
    assert!(info.closed && info.damage.is_none(), "{:?}", info.damage);
    let spans: u64 = made.frames.iter().map(|frame| frame.span_count).sum();
    assert_eq!((info.spans, info.file_bytes), (spans, written as u64));
    let duration = (made.frames[119].end_ticks - made.frames[0].start_ticks) * 2;
    assert_eq!(info.duration_ns, duration);
    capture.select_frame_set(1).unwrap();
    assert_eq!(capture.frame_count(), made.ticks_frames);
}

#[test]
fn a_file_that_becomes_shorter_is_an_error() {
    let made = make(26, 20, 5, false);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    std::fs::write(&path, &made.bytes).unwrap();
    let mut capture = Capture::open(&path).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(made.records[10] as u64).unwrap();
    assert!(capture.extend().unwrap_err().is_corrupt());
}

#[test]
fn version_2_is_summed_up_and_followed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/data/v2");
    for name in ["metrics_only", "flame", "every3_threads", "torn"] {
        let bytes = std::fs::read(format!("{folder}/{name}.vor")).unwrap();
        let mut whole = Capture::new(Cursor::new(bytes.clone())).unwrap();
        let expected: Vec<_> = whole
            .frames(0..u64::MAX)
            .map(|frame| of(&frame.unwrap()))
            .collect();
        let found: Vec<_> = whole.summaries(0).map(Result::unwrap).collect();
        assert_eq!(found, expected, "{name}");

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        let begin = bytes.len() * 2 / 5;
        std::fs::write(&path, &bytes[..begin]).unwrap();
        let mut capture = Capture::open(&path).unwrap();
        let mut scan = FrameScan::new(0);
        let mut found = Vec::new();
        let mut file = File::options().append(true).open(&path).unwrap();
        for piece in bytes[begin..].chunks(331) {
            file.write_all(piece).unwrap();
            capture.extend().unwrap();
            while let Some(summary) = capture.next_summary(&mut scan) {
                found.push(summary.unwrap());
            }
        }
        // Before the first flame, times have another origin: compare only the numbers that do not
        // depend on it.
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(
                (found.index, found.span_count),
                (expected.index, expected.span_count)
            );
        }
        assert_eq!(capture.catalog().columns, whole.catalog().columns);
        let frames: Vec<_> = capture.frames(0..u64::MAX).map(Result::unwrap).collect();
        let same = whole.frames(0..u64::MAX).map(Result::unwrap);
        assert!(
            frames
                .iter()
                .zip(same)
                .all(|(found, frame)| **found == *frame),
            "{name}"
        );
    }
}
