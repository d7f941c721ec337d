//! The golden file of format version 3: this build reads the same values from it, and writes the
//! same bytes for them.

use std::borrow::Cow;
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::format::{Encoder, FrameRecord, Header, OpenScopes, Record, RecordRef, parse_end};
use vor_capture::model::batch::{ArgValue, AsyncSpan, Message, SpanArgs, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{
    Catalog, Column, MetricColumn, ProcessInfo, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};
use vor_capture::model::timeline::{ClockSync, Timeline};
use vor_fixtures::decoded::records;

/// Never replaced: an incompatible change needs a new version of the format and a second file.
pub(crate) const GOLDEN: &[u8] = include_bytes!("../data/golden_v3.vor");

const HEADER: Header = Header {
    file_id: 0x1122_3344_5566_7788,
    pid: 4321,
    flags: Header::KEEPS_SPANS,
    start_unix_ns: 1_760_000_000_123_456_789,
    start_ticks: 9_007_199_254_740_993,
};

fn catalog() -> Catalog {
    let site = |name: &'static str, line, color| {
        Some(Arc::new(filled!(SiteInfo {
            name: Cow::Borrowed(name),
            module_path: Cow::Borrowed("golden::parts"),
            file: Cow::Borrowed("src/parts.rs"),
            line,
            category: Cow::Borrowed("io"),
            color,
            arg_names: vec![Cow::Borrowed("bytes"), Cow::Borrowed("codec")],
        })))
    };
    let column = |name: &str, unit: &str, system| {
        filled!(Column {
            metric: MetricColumn {
                name: name.into(),
                unit: unit.into(),
            },
            system,
        })
    };
    let mut timeline = Timeline::default();
    timeline.push(filled!(ClockSync {
        ticks: HEADER.start_ticks,
        unix_ns: HEADER.start_unix_ns,
        rate: 422_212_465_066,
        wall_ns: HEADER.start_unix_ns - 17,
    }));
    filled!(Catalog {
        process: Arc::new(filled!(ProcessInfo {
            pid: 4321,
            name: "golden".into(),
            recorder: "0.3.0".into(),
        })),
        timeline: Arc::new(timeline),
        sites: Arc::new(vec![
            site("read", 10, None),
            site("decode", 20, Some(0x00ff_8000)),
            site("größe", 30, Some(0)),
        ]),
        threads: Arc::new(vec![
            Some(Arc::new(filled!(ThreadInfo {
                os_id: 4321,
                name: "main".into(),
            }))),
            Some(Arc::new(ThreadInfo::default())),
        ]),
        columns: Arc::new(vec![
            column("frame_ms", "ms", true),
            column("temp", "°C", false)
        ]),
        frame_sets: Arc::new(vec![String::new(), "physics".into()])
    })
}

/// A flat thread of 300 spans over three sites, and a nested one with arguments, messages and
/// drops.
fn batch() -> SpanBatch {
    let mut flat = filled!(ThreadBatch {
        thread: ThreadId(0)
    });
    let mut now = HEADER.start_ticks;
    for i in 0..300_u64 {
        now += 31 + i * i % 7;
        let duration = if i == 77 {
            1 << 40
        } else {
            600 + i * 7919 % 1500
        };
        flat.start_ticks.push(now);
        flat.duration_ticks.push(duration);
        flat.sites.push(SiteId(1 + (i * i % 3) as u32));
        now += duration;
    }
    let nested = filled!(ThreadBatch {
        thread: ThreadId(1),
        start_ticks: vec![110, 150, 100, 400, 390, u64::MAX, 5],
        duration_ticks: vec![20, 30, 100, 1, 20, 3, u64::MAX],
        sites: [2, 2, 1, 3, 1, 2, 900_000].map(SiteId).to_vec(),
        args: vec![
            filled!(SpanArgs {
                span: 1,
                values: vec![ArgValue::U64(4096), ArgValue::Str("lz4".into())],
            }),
            filled!(SpanArgs {
                span: 4,
                values: vec![
                    ArgValue::Bool(true),
                    ArgValue::Bool(false),
                    ArgValue::I64(-3),
                    ArgValue::F64(0.1),
                    ArgValue::Str("lz4".into()),
                ],
            }),
        ],
        messages: vec![
            filled!(Message {
                ticks: 120,
                text: "checkpoint 1".into(),
            }),
            filled!(Message {
                ticks: 119,
                text: "lz4".into(),
            }),
        ],
        async_spans: vec![
            filled!(AsyncSpan {
                id: 1 << 16,
                site: SiteId(2),
                start_ticks: 90,
                duration_ticks: 300,
            }),
            filled!(AsyncSpan {
                id: 7 << 16,
                site: SiteId(1),
                start_ticks: 95,
                duration_ticks: 1 << 40,
            }),
        ],
        dropped_spans: 12
    });
    filled!(SpanBatch {
        catalog: Arc::default(),
        threads: vec![flat, nested],
    })
}

fn frame(index: u64, frame_set: u32) -> FrameSnapshot {
    let values = [16.625, -3.0, 0.1];
    let metrics = (0..)
        .zip(values)
        .map(|(column, value)| filled!(MetricValue { column, value }));
    filled!(FrameSnapshot {
        index,
        frame_set,
        start_ticks: HEADER.start_ticks + index * 50_000_000,
        end_ticks: HEADER.start_ticks + (index + 1) * 50_000_000,
        metrics: metrics.collect(),
        dropped_spans: 12,
        merged_marks: 1,
        span_count: 307
    })
}

fn open_scopes() -> OpenScopes {
    filled!(OpenScopes {
        ticks: 1000,
        threads: vec![(ThreadId(1), vec![(SiteId(1), 900), (SiteId(2), 950)])],
    })
}

/// The declarations of a catalog, in the order of this file.
fn declarations(catalog: &Catalog) -> Vec<RecordRef<'_>> {
    vec![
        RecordRef::Process(&catalog.process),
        RecordRef::Clock(&catalog.timeline.syncs()[0]),
        RecordRef::Sites {
            first: SiteId(1),
            sites: &catalog.sites,
        },
        RecordRef::Threads {
            first: ThreadId(0),
            threads: &catalog.threads,
        },
        RecordRef::Columns {
            first: 0,
            columns: &catalog.columns,
        },
        RecordRef::FrameSets {
            first: 0,
            names: &catalog.frame_sets,
        },
    ]
}

/// Writes a file of these records, closes it with this catalog, and expects the golden bytes.
#[track_caller]
pub(crate) fn assert_written(
    golden: &[u8],
    header: Header,
    records: Vec<RecordRef<'_>>,
    catalog: &Catalog,
) {
    let mut encoder = Encoder::new(header);
    let mut bytes = Vec::new();
    encoder.header(&mut bytes);
    for record in records {
        encoder.encode(record, &mut bytes);
    }
    encoder.close(catalog, &mut bytes);
    assert!(
        bytes == golden,
        "{} bytes instead of {}",
        bytes.len(),
        golden.len()
    );
}

#[test]
fn the_golden_file_is_written_unchanged() {
    let (catalog, batch, open) = (catalog(), batch(), open_scopes());
    let frames = [0, 1, 2].map(|index| [frame(index, 1), frame(index, 0)]);
    let mut records = declarations(&catalog);
    for frames in &frames {
        records.push(RecordRef::Batch(&batch));
        records.extend(frames.iter().map(RecordRef::Frame));
    }
    records.push(RecordRef::OpenScopes(&open));
    assert_written(GOLDEN, HEADER, records, &catalog);
}

#[test]
fn the_golden_file_reads_unchanged() {
    let (header, _) = Header::decode(GOLDEN).unwrap().unwrap();
    assert_eq!(header, HEADER);
    let mut read = Catalog::default();
    let (mut batches, mut frames, mut open, mut rest) = (0, Vec::new(), Vec::new(), Vec::new());
    for (expected_seq, (found, record)) in (0..).zip(records(GOLDEN)) {
        assert_eq!((found.seq, found.is_repeated), (expected_seq, false));
        match record {
            Record::Batch(threads) => {
                assert_eq!(threads, batch().threads);
                batches += 1;
            }
            Record::Frame(frame) => frames.push(frame),
            Record::OpenScopes(scopes) => open.push(scopes),
            declaration if declaration.declare_into(&mut read) => {}
            other => rest.push((found.bytes.start as u64, other)),
        }
    }
    assert_eq!(read, catalog());
    assert_eq!(batches, 3);
    assert_eq!(open, [open_scopes()]);
    let expected = |index, frame_set, first_seq| {
        let frame = frame(index, frame_set);
        FrameRecord {
            index,
            frame_set,
            start_ticks: frame.start_ticks,
            end_ticks: frame.end_ticks,
            metrics: frame.metrics,
            dropped_spans: 12,
            merged_marks: 1,
            span_count: 307,
            first_seq,
        }
    };
    // Twelve declarations come first, and count as records of the first frame.
    let all = [
        (0, 1, 13),
        (0, 0, 0),
        (1, 1, 16),
        (1, 0, 15),
        (2, 1, 19),
        (2, 0, 18),
    ];
    assert_eq!(
        frames,
        all.map(|(index, set, seq)| expected(index, set, seq))
    );
    let [
        (index_offset, Record::Index(index)),
        (
            _,
            Record::End {
                index_offset: named,
            },
        ),
    ] = &rest[..]
    else {
        panic!("{rest:?}")
    };
    assert_eq!(index_offset, named);
    assert_eq!(parse_end(&HEADER, GOLDEN), Some(*named));
    assert_eq!(
        (index.frames.as_slice(), index.spans, index.messages),
        (&[3, 3][..], 921, 6)
    );
    assert_eq!(
        (index.dropped_spans, index.async_spans, index.seeks.len()),
        (36, 6, 3)
    );
}
