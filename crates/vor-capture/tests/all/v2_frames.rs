//! The frames of captures of version 2 that were written byte by byte: their trees, their
//! boundaries, and what is found when the file grows.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::fs::File;
use std::io::{Cursor, Write as _};

use vor_capture::filled;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_capture::model::frame::{MetricValue, Span, ThreadTree};
use vor_capture::reader::{Capture, Info};
use vor_fixtures::v2::{
    column, entry, frame, header, meta, puffin, record, scope, streams, table, thread,
};

const SECOND: i64 = 1_000_000_000;
/// Some moment in 2023.
const MOMENT: i64 = 1_700_000_000 * SECOND;

/// A flame with this number, this end, and these threads, each with a stream of one span or two.
fn flame(index: u64, end_ns: i64, threads: &[(&str, Option<i64>, Vec<u8>, u64)]) -> Vec<u8> {
    let spans: u64 = threads.iter().map(|(.., spans)| spans).sum();
    let threads = threads
        .iter()
        .map(|(name, start_ns, stream, spans)| thread(*start_ns, name, stream, *spans));
    let entries = [
        entry(Some(1), None, "update", "src/a.rs", 7),
        entry(Some(2), Some("inner"), "draw", "src/b.rs", 9),
        entry(None, Some("unused"), "", "", 0),
    ];
    puffin(
        &meta(index, (MOMENT, end_ns), spans),
        &streams(&threads.collect::<Vec<_>>()),
        &table(&entries),
    )
}

/// One span of the scope 1 around one of the scope 2.
fn nested(start_ns: i64) -> Vec<u8> {
    let inner = scope(2, start_ns + 10, "n = 5", &[], start_ns + 40);
    scope(1, start_ns, "", &inner, start_ns + 90)
}

/// A capture with every kind of frame.
fn every_kind() -> Vec<u8> {
    let main = ("main", Some(3), nested(MOMENT + 100), 2);
    let worker = |at, id, data| ("worker", None, scope(id, at, data, &[], at + 7), 1);
    let of_main = |index, end_ns| flame(index, end_ns, std::slice::from_ref(&main));
    let bytes = [
        header(1, &[("memory_mb", "MB"), ("frame_ms", "ms")]),
        record(&column(2, "loss", "nats")),
        // Its flame has no threads, so it is no anchor.
        record(&frame(&[1.5, 2.0], &[(2, 0.5)], &flame(8, 77, &[]))),
        // The end of this flame is that of the frame.
        record(&frame(&[2.5, 3.0], &[], &of_main(9, MOMENT + 5_000_000))),
        record(&column(3, "size", "B")),
        // A repetition.
        record(&frame(
            &[3.5, 1.0],
            &[(3, 7.0), (2, 0.25), (3, 8.0)],
            &of_main(9, MOMENT + 5_000_000),
        )),
        // A flame whose last span ends behind the frame, with an unknown scope.
        record(&frame(
            &[4.5, 1.0],
            &[],
            &flame(
                10,
                MOMENT + 8_500_000,
                &[worker(MOMENT + 6_000_000, 3, "x"), main.clone()],
            ),
        )),
        // One that ends before it, with a span from before 1970.
        record(&frame(
            &[5.5, 1.0],
            &[],
            &flame(11, MOMENT, &[worker(-3, 2, "")]),
        )),
        // Durations that are none, and one of a year and more.
        record(&frame(&[6.5, f64::NAN], &[], &flame(12, i64::MAX, &[]))),
        record(&frame(&[7.5, -4.0], &[], &[])),
        record(&frame(&[8.5, 5e10], &[], &[])),
    ];
    bytes.concat()
}

#[test]
fn frames_have_the_trees_and_boundaries_of_their_bytes() {
    let bytes = every_kind();
    let mut capture = Capture::new(Cursor::new(bytes.clone())).unwrap();
    let info = capture.info();
    // Without the empty flames and the repetition.
    let expected = filled!(Info {
        version: 2,
        file_bytes: bytes.len() as u64,
        frames: 8,
        marked: true,
        spans: 2 + 3 + 1,
        threads: 2,
        duration_ns: 9_500_000 + 32_000_000_000_000_000,
        closed: true
    });
    assert_eq!(info, expected);

    let catalog = capture.catalog();
    assert_eq!(catalog.process.recorder, "0.2");
    let columns = catalog.columns.iter();
    let columns: Vec<_> = columns
        .map(|column| (&*column.metric.name, &*column.metric.unit, column.system))
        .collect();
    assert_eq!(
        columns,
        [
            ("memory_mb", "MB", true),
            ("frame_ms", "ms", true),
            ("loss", "nats", false),
            ("size", "B", false),
        ]
    );
    let sites: Vec<_> = (1..=3)
        .map(|site| catalog.site(SiteId(site)).unwrap())
        .map(|site| (&*site.name, &*site.module_path, &*site.file, site.line))
        .collect();
    assert_eq!(
        sites,
        [
            ("update", "", "src/a.rs", 7),
            ("inner", "draw", "src/b.rs", 9),
            ("unused", "", "", 0),
        ]
    );
    assert_eq!(catalog.sites.len(), 3);
    let names = [0, 1].map(|thread| catalog.thread_name(ThreadId(thread)));
    assert_eq!((names, catalog.threads.len()), (["main", "worker"], 2));
    // The first frame that has spans ends with them, and the one before it took 2 ms.
    let origin = MOMENT;
    let syncs = catalog.timeline.syncs();
    let sync = syncs.first().unwrap();
    assert_eq!((syncs.len(), sync.ticks), (1, origin.cast_unsigned()));
    assert_eq!((sync.unix_ns, sync.wall_ns), (origin, origin));

    let at = |ns: i64| (origin + ns).cast_unsigned();
    let boundaries = [
        0,
        2_000_000,
        5_000_000,
        6_000_000,
        8_500_000,
        9_500_000,
        9_500_000,
        9_500_000,
        9_500_000 + 32_000_000_000_000_000,
    ];
    let span = |site, start_ticks, duration_ticks, depth, subtree_len, args| {
        filled!(Span {
            start_ticks,
            duration_ticks,
            site: SiteId(site),
            depth,
            subtree_len,
            args,
        })
    };
    let tree = |thread, spans: &[Span], args: &[&str]| {
        filled!(ThreadTree {
            thread: ThreadId(thread),
            spans: spans.to_vec(),
            arg_values: args.iter().map(|&arg| ArgValue::Str(arg.into())).collect(),
        })
    };
    let main = tree(
        0,
        &[
            span(1, at(100), 90, 0, 2, (0, 0)),
            span(2, at(110), 30, 1, 1, (0, 1)),
        ],
        &["n = 5"],
    );
    let worker = tree(1, &[span(0, at(6_000_000), 7, 0, 1, (0, 1))], &["x"]);
    let early = tree(1, &[span(2, 0, 4, 0, 1, (0, 0))], &[]);
    let trees = [
        vec![],
        vec![main.clone()],
        vec![],
        vec![main, worker],
        vec![early],
        vec![],
        vec![],
        vec![],
    ];
    let metrics: [&[(u32, f64)]; 8] = [
        &[(0, 1.5), (1, 2.0), (2, 0.5)],
        &[(0, 2.5), (1, 3.0)],
        &[(0, 3.5), (1, 1.0), (2, 0.25), (3, 7.0)],
        &[(0, 4.5), (1, 1.0)],
        &[(0, 5.5), (1, 1.0)],
        &[(0, 6.5), (1, f64::NAN)],
        &[(0, 7.5), (1, -4.0)],
        &[(0, 8.5), (1, 5e10)],
    ];
    for i in [3, 0, 7, 1, 2, 3, 4, 5, 6, 7, 0, 2] {
        let recovered = capture.recovered(i).unwrap();
        let (frame, i) = (recovered.frame, i as usize);
        assert_eq!((frame.index, recovered.lost_records), (i as u64, 0));
        let expected = (at(boundaries[i]), at(boundaries[i + 1]));
        assert_eq!((frame.start_ticks, frame.end_ticks), expected, "frame {i}");
        assert_eq!(frame.threads, trees[i], "frame {i}");
        let spans: usize = trees[i].iter().map(|tree| tree.spans.len()).sum();
        assert_eq!(frame.span_count, spans as u64, "frame {i}");
        let expected = metrics[i].iter();
        let expected = expected.map(|&(column, value)| filled!(MetricValue { column, value }));
        // Also where the value is no number.
        let expected: Vec<_> = expected.collect();
        assert_eq!(format!("{:?}", frame.metrics), format!("{expected:?}"));
    }
}

#[test]
fn a_capture_without_flames_begins_at_0() {
    let bytes = [
        header(0, &[("frame_ms", "ms")]),
        record(&frame(&[2.0], &[], &[])),
        record(&frame(&[0.5], &[], &[])),
    ];
    let mut capture = Capture::new(Cursor::new(bytes.concat())).unwrap();
    assert!(capture.catalog().timeline.syncs().is_empty());
    let frame = capture.frame(1).unwrap();
    assert_eq!((frame.start_ticks, frame.end_ticks), (2_000_000, 2_500_000));
    // Without the column, frames take no time.
    let bytes = [
        header(0, &[("memory_mb", "MB")]),
        record(&frame_of(3.0)),
        record(&frame_of(4.0)),
    ];
    let mut capture = Capture::new(Cursor::new(bytes.concat())).unwrap();
    let frame = capture.frame(1).unwrap();
    assert_eq!((frame.start_ticks, frame.end_ticks), (0, 0));
}

fn frame_of(value: f64) -> Vec<u8> {
    frame(&[value], &[], &[])
}

#[test]
fn any_frame_of_a_long_capture_has_the_columns_declared_before_it() {
    let mut bytes = header(0, &[("frame_ms", "ms")]);
    let frames = 20_000_u64;
    let mut ends = vec![0];
    for i in 0..frames {
        if i == 100 || i == 15_000 {
            let name = if i == 100 { "a" } else { "b" };
            bytes.extend(record(&column(9, name, "")));
        }
        let us = i % 5 + 1;
        let user: &[(u16, f64)] = if i < 100 { &[] } else { &[(9, i as f64)] };
        bytes.extend(record(&frame(&[us as f64 / 1000.0], user, &[])));
        ends.push(ends.last().unwrap() + 1000 * us);
    }
    let mut capture = Capture::new(Cursor::new(bytes)).unwrap();
    assert_eq!(capture.frame_count(), frames);
    // The places of every fourth frame are known.
    for i in [
        19_999, 0, 99, 100, 14_999, 15_000, 15_001, 3, 4, 5, 16_383, 16_384, 101, 102, 19_998,
    ] {
        let frame = capture.frame(i).unwrap();
        let expected = (ends[i as usize], ends[i as usize + 1]);
        assert_eq!((frame.start_ticks, frame.end_ticks), expected, "frame {i}");
        let column = match i {
            ..100 => None,
            100..15_000 => Some((1, i as f64)),
            _ => Some((2, i as f64)),
        };
        let user = frame
            .metrics
            .get(1)
            .map(|value| (value.column, value.value));
        assert_eq!(user, column, "frame {i}");
    }
}

/// A file that grows.
struct Growing {
    file: File,
    capture: Capture,
    _folder: tempfile::TempDir,
}

impl Growing {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        let mut file = File::create(&path).unwrap();
        file.write_all(bytes).unwrap();
        let capture = Capture::open(&path).unwrap();
        Self {
            file,
            capture,
            _folder: folder,
        }
    }

    /// Appends bytes one by one. Returns the numbers of bytes at which frames were found.
    fn found_while_adding(&mut self, bytes: &[u8]) -> Vec<usize> {
        let mut found = Vec::new();
        for (at, byte) in bytes.iter().enumerate() {
            self.file.write_all(&[*byte]).unwrap();
            let before = self.capture.frame_count();
            if self.capture.extend().unwrap() > before {
                found.push(at + 1);
            }
        }
        found
    }
}

#[test]
fn a_growing_file_is_read_on_where_a_record_ends() {
    let start = [header(0, &[("frame_ms", "ms")]), record(&frame_of(1.0))].concat();
    let next = [
        record(&frame_of(2.0)),
        record(&column(1, "a", "")),
        record(&frame_of(3.0)),
    ];
    let [first, second, third] = next.each_ref().map(Vec::len);
    let mut growing = Growing::new(&start);
    assert_eq!(growing.capture.extend().unwrap(), 1);
    let found = growing.found_while_adding(&next.concat());
    assert_eq!(found, [first, first + second + third]);
    let info = growing.capture.info();
    assert_eq!(
        info.file_bytes,
        (start.len() + first + second + third) as u64
    );
    assert_eq!(
        (info.frames, info.duration_ns, info.closed),
        (3, 6_000_000, true)
    );
    assert_eq!(growing.capture.catalog().columns.len(), 2);
    assert_eq!(growing.capture.frame(2).unwrap().start_ticks, 3_000_000);

    // Equal is not shorter.
    assert_eq!(growing.capture.extend().unwrap(), 3);
    growing.file.set_len(start.len() as u64).unwrap();
    let error = growing.capture.extend().unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the capture has shrunk from {} to {} bytes while it was read",
            info.file_bytes,
            start.len()
        )
    );
    assert!(error.is_corrupt());
}

#[test]
fn damage_at_the_end_of_a_growing_file_is_read_again_at_twice_its_length() {
    let start = [header(0, &[("frame_ms", "ms")]), record(&frame_of(1.0))].concat();
    let whole = record(&frame_of(2.0));
    assert_eq!(whole.len(), 25);
    let damage = [&[0xff; 50][..], &whole[..20]].concat();
    let mut growing = Growing::new(&[&start[..], &damage].concat());
    let info = growing.capture.info();
    let tail = info.damage.tail.unwrap();
    assert_eq!((tail.offset, tail.bytes), (start.len() as u64, 70));
    assert_eq!((info.damage.count, info.closed), (0, false));

    // The rest of that record, and three more, of which the last is found when it ends.
    let rest = [&whole[20..], &whole, &whole, &whole, &whole[..8]].concat();
    let found = growing.found_while_adding(&rest);
    assert_eq!(found, [70, 80]);
    let info = growing.capture.info();
    assert_eq!((info.damage.count, info.damage.bytes), (1, 50));
    assert_eq!(info.damage.losses[0].offset, start.len() as u64);
    assert_eq!(info.frames, 5);
    let tail = info.damage.tail.unwrap();
    assert_eq!(
        (tail.offset, tail.bytes),
        ((start.len() + 50 + 4 * 25) as u64, 8)
    );
    let reason = "the file ends 8 bytes into a record of 25";
    assert_eq!(tail.reason, reason);
}

#[test]
fn a_lazily_opened_capture_has_no_frames_until_it_is_extended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let header = header(0, &[("frame_ms", "ms")]);
    let bytes = [
        &header[..],
        &record(&frame_of(1.0)),
        &record(&frame_of(2.0)),
    ]
    .concat();
    std::fs::write(&path, &bytes).unwrap();
    let mut capture = Capture::open_lazily(&path).unwrap();
    let info = capture.info();
    assert_eq!((info.frames, info.file_bytes), (0, header.len() as u64));
    assert_eq!(capture.extend().unwrap(), 2);
    let info = capture.info();
    assert_eq!((info.frames, info.file_bytes), (2, bytes.len() as u64));
    assert_eq!(info.duration_ns, 3_000_000);
}
