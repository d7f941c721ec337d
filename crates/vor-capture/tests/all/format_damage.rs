//! Seeded damage to encoded captures: the decoder never panics, returns no wrong record, keeps
//! every untouched record, and reports every loss.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::format::{
    Checkpoint, Damage, DamageReason, Decoder, Encoder, Event, HEADER_BYTES, Header,
    PayloadDecoder, Record, RecordHead, RecordRef,
};
use vor_capture::model::batch::{ArgValue, Message, SpanArgs, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, ProcessInfo, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};
use vor_capture::model::timeline::ClockSync;

use vor_fixtures::decoded;
use vor_fixtures::random::Random;

/// A capture and the positions of its records.
struct Capture {
    header: Header,
    bytes: Vec<u8>,
    records: Vec<Range<usize>>,
    /// The record with each sequence number.
    contents: BTreeMap<u32, Record>,
}

fn capture(file_id: u64, random: &mut Random) -> Capture {
    let header = Header {
        file_id,
        pid: 1,
        ..Header::default()
    };
    let mut encoder = Encoder::new(header);
    let mut bytes = Vec::new();
    encoder.header(&mut bytes);
    let mut catalog = filled!(Catalog {
        process: Arc::new(filled!(ProcessInfo {
            pid: 1,
            name: "program".into(),
            recorder: "0.3.0".into(),
        }))
    });
    let site = |i| {
        filled!(SiteInfo {
            name: format!("site {i}").into()
        })
    };
    catalog.sites = Arc::new((0..9).map(|i| Some(Arc::new(site(i)))).collect());
    catalog.threads = Arc::new(vec![Some(Arc::new(ThreadInfo::default())); 2]);
    encoder.encode(RecordRef::Process(&catalog.process), &mut bytes);
    let sites = RecordRef::Sites {
        first: SiteId(1),
        sites: &catalog.sites,
    };
    encoder.encode(sites, &mut bytes);
    let threads = RecordRef::Threads {
        first: ThreadId(0),
        threads: &catalog.threads,
    };
    encoder.encode(threads, &mut bytes);
    encoder.encode(RecordRef::Clock(&ClockSync::default()), &mut bytes);
    for index in 0..30 {
        let threads = (0..2).map(|thread| thread_batch(thread, random)).collect();
        let batch = filled!(SpanBatch {
            catalog: Arc::default(),
            threads,
        });
        encoder.encode(RecordRef::Batch(&batch), &mut bytes);
        let frame = filled!(FrameSnapshot {
            index,
            start_ticks: index * 1_000_000,
            end_ticks: (index + 1) * 1_000_000,
            span_count: batch.span_count() as u64,
            metrics: vec![filled!(MetricValue {
                column: 0,
                value: random.next() as f64 / 3.0,
            })]
        });
        encoder.encode(RecordRef::Frame(&frame), &mut bytes);
    }
    encoder.close(&catalog, &mut bytes);

    let mut records = Vec::new();
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        let head = RecordHead::parse(&header, &bytes[at..]).unwrap();
        records.push(at..at + head.record_bytes());
        at += head.record_bytes();
    }
    let clean = decode(&bytes, 4096).unwrap();
    assert!(clean.closed && clean.damage.is_empty());
    assert_eq!(clean.records.len(), records.len());
    Capture {
        header,
        bytes,
        records,
        contents: clean.records,
    }
}

fn thread_batch(thread: u32, random: &mut Random) -> ThreadBatch {
    let mut batch = filled!(ThreadBatch {
        thread: ThreadId(thread)
    });
    let mut now = random.next() >> 20;
    for span in 0..random.below(90) as u32 {
        now += random.next() % 50;
        let duration = random.next() % 3000;
        batch.start_ticks.push(now);
        batch.duration_ticks.push(duration);
        batch.sites.push(SiteId(1 + random.below(9) as u32));
        now += duration;
        if span % 17 == 3 {
            let text = format!("argument {}", random.below(4));
            let values = vec![ArgValue::U64(random.next()), ArgValue::Str(text.into())];
            batch.args.push(filled!(SpanArgs { span, values }));
        }
    }
    batch.messages.push(filled!(Message {
        ticks: now,
        text: format!("at {now}").into(),
    }));
    batch
}

struct Decoded {
    records: BTreeMap<u32, Record>,
    damage: Vec<Damage>,
    closed: bool,
    missing_records: u64,
}

/// Decodes in pieces; a repeated sequence number fails the test.
fn decode(bytes: &[u8], piece_bytes: usize) -> Result<Decoded, String> {
    let decoded = decoded::decode(bytes, piece_bytes)?;
    assert!(decoded.refused.is_empty(), "{:?}", decoded.refused);
    let closed = decoded.is_closed();
    let mut records = BTreeMap::new();
    for found in decoded.records {
        let seq = found.seq as u32;
        if found.is_repeated {
            assert_eq!(records.get(&seq), found.record.as_ref(), "record {seq}");
        } else {
            let before = records.insert(seq, found.record.unwrap());
            assert!(before.is_none(), "record {seq} is repeated");
        }
    }
    Ok(Decoded {
        records,
        damage: decoded
            .damage
            .into_iter()
            .chain(decoded.unfinished)
            .collect(),
        closed,
        missing_records: decoded.missing_records,
    })
}

/// Damages a copy of a capture. Returns the copy, and the part of the original bytes that is
/// missing or split.
fn damaged(capture: &Capture, other: &Capture, random: &mut Random) -> (Vec<u8>, Range<usize>) {
    let mut bytes = capture.bytes.clone();
    let len = bytes.len();
    let record = capture.records[random.below(capture.records.len())].clone();
    let at = random.below(len);
    let end = (at + 1 + random.below(600)).min(len);
    match random.below(9) {
        0 => {
            bytes[at] ^= 1 << random.below(8);
            (bytes, at..at + 1)
        }
        1 => {
            bytes[at..end]
                .iter_mut()
                .for_each(|byte| *byte = random.next() as u8);
            (bytes, at..end)
        }
        2 => {
            bytes.truncate(at);
            (bytes, at..len)
        }
        3 => {
            let length = [0, 5, random.next() as u32, 1 << 22, 1 << 12][random.below(5)];
            bytes[record.start..record.start + 4].copy_from_slice(&length.to_le_bytes());
            (bytes, record.start..record.start + 4)
        }
        4 => {
            let copy = bytes[record.clone()].to_vec();
            bytes.splice(record.end..record.end, copy);
            (bytes, 0..0)
        }
        5 => {
            bytes.drain(record.clone());
            (bytes, record)
        }
        6 => {
            bytes.drain(at..end);
            (bytes, at..end)
        }
        7 => {
            // Whole records of another file, inserted between two records.
            let from = other.records[random.below(other.records.len())].start;
            bytes.splice(
                record.end..record.end,
                other.bytes[from..].iter().copied().take(2000),
            );
            (bytes, 0..0)
        }
        _ => {
            // A range of the same file, inserted anywhere: earlier, later or within a record.
            let copy = bytes[at..end].to_vec();
            let into = random.below(len);
            bytes.splice(into..into, copy);
            (bytes, into.saturating_sub(1)..into + 1)
        }
    }
}

#[test]
fn damage_costs_only_the_records_it_touches_and_is_always_reported() {
    let mut random = Random(20_260_101);
    let capture_a = capture(1, &mut random);
    let capture_b = capture(2, &mut random);
    assert_ne!(capture_a.header, capture_b.header);
    for case in 0..4000 {
        let (bytes, touched) = damaged(&capture_a, &capture_b, &mut random);
        let piece_bytes = 1 + random.below(5000);
        let decoded = match decode(&bytes, piece_bytes) {
            Ok(decoded) => decoded,
            Err(error) => {
                assert!(touched.start < HEADER_BYTES, "case {case}: {error}");
                continue;
            }
        };
        for (seq, record) in &decoded.records {
            assert_eq!(
                record, &capture_a.contents[seq],
                "case {case}: record {seq}"
            );
        }
        for (seq, range) in (0..).zip(&capture_a.records) {
            let untouched = range.end <= touched.start || range.start >= touched.end;
            assert!(
                !untouched || decoded.records.contains_key(&seq),
                "case {case}: record {seq} at {range:?} is lost, though only {touched:?} was \
                touched"
            );
        }
        let complete = decoded.records.len() == capture_a.contents.len();
        let said = !decoded.damage.is_empty() || !decoded.closed;
        assert!(complete || said, "case {case}: loss was not reported");
        if decoded.closed {
            let missing = capture_a.contents.len() - decoded.records.len();
            assert_eq!(decoded.missing_records, missing as u64, "case {case}");
        }
        if bytes.len() > capture_a.bytes.len() {
            assert!(
                !decoded.damage.is_empty(),
                "case {case}: added bytes were not reported"
            );
        }
    }
}

#[test]
fn every_kind_of_damage_has_its_reason() {
    let mut random = Random(7);
    let capture = capture(3, &mut random);
    let [early, late] = [20, 40].map(|at: usize| capture.records[at].clone());
    let reasons = |bytes: &[u8]| -> Vec<_> {
        let decoded = decode(bytes, 1000).unwrap();
        decoded
            .damage
            .iter()
            .map(|damage| (damage.reason, damage.bytes))
            .collect()
    };
    let size = |range: &Range<usize>| range.len() as u64;
    let gap = |seq, next, missing| DamageReason::Gap { seq, next, missing };
    let repeated = |seq, next| DamageReason::Repeated { seq, next };

    let mut bytes = capture.bytes.clone();
    bytes[early.start + 20] ^= 1;
    assert_eq!(
        reasons(&bytes),
        [(DamageReason::Corrupt, size(&early)), (gap(21, 20, 1), 0)]
    );

    let mut bytes = capture.bytes.clone();
    bytes.drain(early.start..capture.records[22].end);
    assert_eq!(reasons(&bytes), [(gap(23, 20, 3), 0)]);

    let mut bytes = capture.bytes.clone();
    let copy = bytes[late.clone()].to_vec();
    bytes.splice(late.end..late.end, copy.clone());
    assert_eq!(reasons(&bytes), [(repeated(40, 41), size(&late))]);

    // A later record before its place: the records that it skips are missing at first, and then
    // late. The first late one reports it for all that follow in order.
    let mut bytes = capture.bytes.clone();
    bytes.splice(early.start..early.start, copy);
    let late_20 = DamageReason::Late { seq: 20, next: 41 };
    assert_eq!(
        reasons(&bytes),
        [
            (gap(40, 20, 20), 0),
            (late_20, 0),
            (repeated(40, 40), size(&late))
        ]
    );
    assert_eq!(decode(&bytes, 1000).unwrap().missing_records, 0);

    let torn = &capture.bytes[..late.end - 1];
    assert_eq!(reasons(torn), [(DamageReason::Torn, size(&late) - 1)]);
    let torn = &capture.bytes[..late.start + 3];
    assert_eq!(reasons(torn), [(DamageReason::Torn, 3)]);
    assert_eq!(reasons(&capture.bytes[..late.end]), []);
}

fn next(decoder: &mut Decoder, at_end: bool) -> Option<Event<'_>> {
    if at_end {
        decoder.next_event_at_end()
    } else {
        decoder.next_event()
    }
}

#[test]
fn a_growing_file_waits_and_is_not_damaged() {
    let mut random = Random(8);
    let capture = capture(4, &mut random);
    let mut decoder = Decoder::new(capture.header, Checkpoint::first(HEADER_BYTES as u64));
    let mut payloads = PayloadDecoder::new();
    let (mut count, mut is_closed) = (0, false);
    for byte in &capture.bytes[HEADER_BYTES..] {
        assert!(!is_closed);
        decoder.push(std::slice::from_ref(byte));
        // A follower does not know whether more bytes will arrive.
        for at_end in [false, true] {
            while let Some(event) = next(&mut decoder, at_end) {
                let Event::Record(raw) = event else {
                    panic!("{event:?}")
                };
                let record = raw.decode(&mut payloads).unwrap().unwrap();
                is_closed = matches!(record, Record::End { .. });
                assert_eq!(record, capture.contents[&(count as u32)]);
                count += 1;
            }
        }
    }
    assert!(is_closed);
    assert_eq!(decoder.unfinished(), None);
    assert_eq!(count, capture.records.len());
}
