//! Reads arbitrary bytes in every way, and checks the guarantees of the readers for any input.
//!
//! The fuzz targets call these functions. So do ordinary tests with the committed corpus, so an
//! input that once failed is tested everywhere.

use std::io::Cursor;

use vor_capture::format::{Checkpoint, DamageReason, Decoder, Event, Header, PayloadDecoder, v2};
use vor_capture::reader::{Capture, Reader, Recovered};

/// The maximum number of frames that a target reads; a small file can declare far more.
const MAX_FRAMES: u64 = 256;

/// Tests the streaming reader by frame, by recovered frame and by event, and the decoder below it
/// with input in uneven pieces.
pub fn reader(bytes: &[u8]) {
    if let Ok(mut reader) = Reader::new(bytes) {
        let mut frames = 0;
        while let Ok(Some(frame)) = reader.next_frame() {
            assert!(
                frame.system.len() <= reader.columns().len(),
                "a value without a column"
            );
            frames += 1;
            if frames == MAX_FRAMES {
                break;
            }
        }
        check_losses(reader.damage(), bytes);
    }
    if let Ok(mut reader) = Reader::new(bytes) {
        for _ in 0..MAX_FRAMES {
            let Ok(Some(_)) = reader.next_recovered() else {
                break;
            };
        }
    }
    if let Ok(mut reader) = Reader::new(bytes) {
        for _ in 0..MAX_FRAMES {
            let Ok(Some(_)) = reader.next_event() else {
                break;
            };
        }
    }
    decoder(bytes);
}

/// Tests the decoder with input in uneven pieces: every byte is in a record or in damage, in the
/// order of the file.
fn decoder(bytes: &[u8]) {
    let Ok(Some((header, len))) = Header::decode(bytes) else {
        return;
    };
    let mut decoder = Decoder::new(header, Checkpoint::first(len as u64));
    let mut payloads = PayloadDecoder::new();
    let mut at = len as u64;
    let mut take = |event: Event<'_>| match event {
        Event::Record(raw) => {
            assert_eq!(raw.offset, at, "a record after the previous bytes");
            at += raw.head.record_bytes() as u64;
            let _ = raw.decode(&mut payloads);
        }
        Event::Damage(damage) => {
            assert_eq!(damage.offset, at, "damage after the previous bytes");
            // Other damage belongs to the record that follows it.
            if damage.reason == DamageReason::Corrupt {
                at += damage.bytes;
            }
        }
        _ => {}
    };
    let piece = bytes.first().map_or(1, |byte| usize::from(*byte) + 1);
    for piece in bytes[len..].chunks(piece) {
        decoder.push(piece);
        while let Some(event) = decoder.next_event() {
            take(event);
        }
    }
    while let Some(event) = decoder.next_event_at_end() {
        take(event);
    }
    if let Some(unfinished) = decoder.unfinished() {
        assert_eq!(unfinished.offset, at, "bytes after the last record");
        at += unfinished.bytes;
    }
    assert_eq!(at, bytes.len() as u64, "bytes without an event");
}

/// Tests the seeking reader: the last frame, all frames, their summaries, the batches, and every
/// checksum.
pub fn capture(bytes: &[u8]) {
    let Ok(mut capture) = Capture::new(Cursor::new(bytes.to_vec())) else {
        return;
    };
    let info = capture.info();
    check_losses(&info.damage, bytes);
    let frames = capture.frame_count();
    if let Some(last) = frames.checked_sub(1) {
        let _ = capture.frame(last);
    }
    let _ = capture.frame(frames);
    for frame in capture.frames(0..MAX_FRAMES).flatten() {
        for tree in &frame.threads {
            for (i, span) in tree.spans.iter().enumerate() {
                let subtree = span.subtree_len as usize;
                assert!(
                    subtree >= 1 && i + subtree <= tree.spans.len(),
                    "a subtree ends after its tree"
                );
                let _ = tree.args(span);
            }
        }
    }
    let recovered: Vec<_> = (0..frames.min(MAX_FRAMES))
        .filter_map(|i| Some((i, capture.recovered(i).ok()?)))
        .collect();
    check_summaries(&mut capture, &recovered, "fuzzed");
    check_backwards(bytes, &recovered);
    if let Ok(batches) = capture.batches() {
        for batch in batches.take(MAX_FRAMES as usize).flatten() {
            for share in &batch.threads {
                assert_eq!(share.start_ticks.len(), share.duration_ticks.len());
                assert_eq!(share.start_ticks.len(), share.sites.len());
            }
        }
    }
    if let Ok(damage) = capture.verify() {
        check_losses(&damage, bytes);
    }
}

/// Checks that a capture returns the same frames when it is read from its end.
fn check_backwards(bytes: &[u8], forwards: &[(u64, Recovered)]) {
    let Ok(mut capture) = Capture::new(Cursor::new(bytes.to_vec())) else {
        panic!("a capture cannot be opened a second time");
    };
    let count = capture.frame_count().min(MAX_FRAMES);
    let backwards = (0..count)
        .rev()
        .filter_map(|i| Some((i, capture.recovered(i).ok()?)));
    let backwards: Vec<_> = backwards.collect();
    assert_eq!(backwards.len(), forwards.len(), "number of frames");
    for ((i, found), (j, expected)) in backwards.iter().rev().zip(forwards) {
        assert_eq!(i, j, "position of a frame");
        assert_eq!(found.lost_records, expected.lost_records, "frame {i}");
        assert_eq!(found.frame.index, expected.frame.index, "frame {i}");
        assert_eq!(found.frame.threads, expected.frame.threads, "frame {i}");
    }
}

/// Checks the summary of every frame that could be read. `what` names the file in a failure.
pub fn check_summaries(capture: &mut Capture, given: &[(u64, Recovered)], what: &str) {
    let count = capture.frame_count();
    for from in [0, count / 2] {
        let summaries: Vec<_> = capture.summaries(from).take(MAX_FRAMES as usize).collect();
        let whole = (count - from).min(MAX_FRAMES);
        assert_eq!(summaries.len() as u64, whole, "{what}: summaries");
        for (i, recovered) in given {
            let Some(found) = i
                .checked_sub(from)
                .and_then(|at| summaries.get(at as usize))
            else {
                continue;
            };
            let Ok(found) = found else {
                panic!("{what}: frame {i} can be read, but its summary is {found:?}");
            };
            let frame = &recovered.frame;
            assert_eq!(
                (found.index, found.start_ticks, found.end_ticks),
                (frame.index, frame.start_ticks, frame.end_ticks),
                "{what}: frame {i} from {from}"
            );
            assert_eq!(
                (found.span_count, found.dropped_spans, found.merged_marks),
                (frame.span_count, frame.dropped_spans, frame.merged_marks),
                "{what}: frame {i} from {from}"
            );
            assert!(
                found.lost_records == 0 || recovered.lost_records > 0,
                "{what}: frame {i} from {from} is complete, but its summary has {} lost records",
                found.lost_records
            );
        }
    }
}

/// Tests the headers of both versions. A decoded header of version 3 encodes to the same bytes,
/// unless a later recorder added fields.
pub fn header(bytes: &[u8]) {
    if let Ok(Some((header, len))) = Header::decode(bytes) {
        let mut again = Vec::new();
        header.encode(&mut again);
        if again.len() == len {
            assert_eq!(again, bytes[..len], "a header encodes to its bytes");
        } else {
            assert!(
                again.len() < len,
                "an encoded header is not longer than its bytes"
            );
            let decoded = Header::decode(&again).expect("a header that was just written");
            assert_eq!(
                decoded,
                Some((header, again.len())),
                "a header decodes to itself"
            );
        }
    }
    if let Ok(Some(header)) = v2::parse_header(bytes) {
        assert!(
            header.len <= bytes.len(),
            "a header is longer than its file"
        );
        assert!(
            header.columns.len() <= bytes.len(),
            "more columns than bytes"
        );
    }
}

fn check_losses(damage: &vor_capture::reader::Damage, bytes: &[u8]) {
    for loss in damage.losses.iter().chain(&damage.tail) {
        let end = loss.offset.saturating_add(loss.bytes);
        assert!(
            end <= bytes.len() as u64,
            "a loss after the end of the file: {loss:?}"
        );
        assert!(!loss.reason.is_empty());
    }
}
