//! The flames in captures of version 2, byte by byte.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use vor_capture::format::v2::flame::{self, Flame, FlameScope, FlameSpan, FlameThread};
use vor_fixtures::v2::{
    block, entry, meta, option, puffin, puffin_with, scope, streams, table, thread, varint, zigzag,
};

/// Two threads with five spans: one around two, of which the second is around a third; and one.
fn two_threads() -> Vec<Vec<u8>> {
    let deepest = scope(70_000, 130, "x = 3", &[], 140);
    let inner = [
        scope(2, 110, "", &[], 120),
        scope(3, 125, "", &deepest, 150),
    ]
    .concat();
    let stream = scope(1, 100, "größer", &inner, 200);
    let alone = scope(2, -50, "", &[], i64::MAX);
    vec![
        thread(Some(-4), "main", &stream, 4),
        thread(None, "", &alone, 1),
    ]
}

fn entries() -> Vec<Vec<u8>> {
    vec![
        entry(Some(1), None, "update", "src/a.rs", 250),
        entry(Some(70_000), Some("inner"), "draw", "", 251),
        entry(None, Some("lost"), "", "b", u64::from(u32::MAX)),
    ]
}

fn range() -> (i64, i64) {
    (i64::MIN, 65_536)
}

fn whole() -> Vec<u8> {
    puffin(
        &meta(u64::MAX, range(), 5),
        &streams(&two_threads()),
        &table(&entries()),
    )
}

#[test]
fn a_flame_has_the_threads_spans_and_scopes_of_its_bytes() {
    let span = |scope_id, start_ns, end_ns, depth, subtree_len, data: &str| FlameSpan {
        scope_id,
        start_ns,
        end_ns,
        depth,
        subtree_len,
        data: data.into(),
    };
    let scope =
        |id, scope_name: Option<&str>, function_name: &str, file_path: &str, line| FlameScope {
            id,
            scope_name: scope_name.map(str::to_owned),
            function_name: function_name.into(),
            file_path: file_path.into(),
            line,
        };
    let expected = Flame {
        frame_index: u64::MAX,
        range_ns: range(),
        threads: vec![
            FlameThread {
                name: "main".into(),
                start_time_ns: Some(-4),
                spans: vec![
                    span(1, 100, 200, 0, 4, "größer"),
                    span(2, 110, 120, 1, 1, ""),
                    span(3, 125, 150, 1, 2, ""),
                    span(70_000, 130, 140, 2, 1, "x = 3"),
                ],
            },
            FlameThread {
                name: String::new(),
                start_time_ns: None,
                spans: vec![span(2, -50, i64::MAX, 0, 1, "")],
            },
        ],
        scopes: vec![
            scope(Some(1), None, "update", "src/a.rs", 250),
            scope(Some(70_000), Some("inner"), "draw", "", 251),
            scope(None, Some("lost"), "", "b", u32::MAX),
        ],
    };
    assert_eq!(flame::parse(&whole()).unwrap(), expected);
    let names: Vec<_> = expected.scopes.iter().map(FlameScope::name).collect();
    assert_eq!(names, ["update", "inner", "lost"]);
    // The smallest one.
    let none = puffin(&meta(0, (0, 0), 0), &streams(&[]), &table(&[]));
    assert_eq!(flame::parse(&none).unwrap(), Flame::default());
}

#[test]
fn numbers_of_each_size_are_read() {
    for index in [
        0,
        250,
        251,
        0xffff,
        0x1_0000,
        0xffff_ffff,
        0x1_0000_0000,
        u64::MAX - 1,
    ] {
        for start in [0, -1, 1, 125, -126, 0x7fff, -0x8001, i64::MAX, i64::MIN] {
            let bytes = puffin(&meta(index, (start, 3), 0), &streams(&[]), &table(&[]));
            let flame = flame::parse(&bytes).unwrap();
            assert_eq!((flame.frame_index, flame.range_ns), (index, (start, 3)));
        }
    }
}

/// Asserts why a flame is refused.
fn refused(bytes: &[u8], expected: &str) {
    assert_eq!(flame::parse(bytes).unwrap_err(), expected);
}

#[test]
fn each_part_must_be_there() {
    let (meta, table) = (meta(3, (4, 5), 0), table(&[]));
    let bytes = puffin(&meta, &streams(&[]), &table);
    // The mark, the head of 7 bytes, streams of 6, and a table of one.
    assert_eq!(bytes.len(), 4 + (4 + 7) + (4 + 1 + 6) + (4 + 1));
    for len in 0..bytes.len() {
        let expected = match len {
            0..4 => "a puffin frame should begin with `PFD4`".to_owned(),
            4..8 => "the length of the meta is missing".to_owned(),
            8..15 => "meta of 7 bytes is cut off".to_owned(),
            15..20 => "the length of the streams is missing".to_owned(),
            20..26 => format!("the streams are 6 bytes long, and {} are there", len - 20),
            26..30 => "the length of the scope table is missing".to_owned(),
            _ => "scope table of 1 bytes is cut off".to_owned(),
        };
        refused(&bytes[..len], &expected);
    }
    refused(
        &[&bytes[..], &[0, 0]].concat(),
        "2 bytes follow the scope table",
    );
    let mut other = bytes.clone();
    other[3] = b'3';
    refused(&other, "a puffin frame should begin with `PFD4`");
    let mut other = bytes;
    other[19] = 2;
    refused(&other, "the compression of the streams is 2, not LZ4 (1)");
}

#[test]
fn each_part_must_be_used_up() {
    let (whole_meta, whole_table) = (meta(3, (4, 500), 5), table(&entries()));
    let whole_streams = streams(&two_threads());
    let other = "the meta section is not what puffin writes";
    for len in 0..whole_meta.len() {
        refused(
            &puffin(&whole_meta[..len], &whole_streams, &whole_table),
            other,
        );
    }
    let longer = [&whole_meta[..], &[0]].concat();
    refused(&puffin(&longer, &whole_streams, &whole_table), other);

    let other = "the scope table is not what puffin writes";
    for len in 0..whole_table.len() {
        refused(
            &puffin(&whole_meta, &whole_streams, &whole_table[..len]),
            other,
        );
    }
    let most = u64::from(u32::MAX);
    for wrong in [
        [&whole_table[..], &[0]].concat(),
        table(&[entry(Some(most + 1), None, "f", "", 1)]),
        table(&[entry(Some(1), None, "f", "", most + 1)]),
        // Neither there nor not, and a number in 128 bits.
        vec![1, 2, 0, 0, 0, 0],
        vec![1, 0, 0, 0, 0, 254],
        vec![1, 1, 255, 0, 0, 0, 0],
        // A name that is not UTF-8.
        vec![1, 0, 0, 1, 0xff, 0, 0],
    ] {
        refused(&puffin(&whole_meta, &whole_streams, &wrong), other);
    }
    let largest = table(&[entry(Some(most), None, "f", "", most)]);
    assert!(flame::parse(&puffin(&whole_meta, &whole_streams, &largest)).is_ok());

    for len in 0..whole_streams.len() {
        refused(
            &puffin(&whole_meta, &whole_streams[..len], &whole_table),
            "the streams end inside a thread",
        );
    }
    let longer = [&whole_streams[..], &[0, 0, 0]].concat();
    refused(
        &puffin(&whole_meta, &longer, &whole_table),
        "3 bytes follow the 2 threads",
    );
    for (found, expected) in [(4, "5 spans, not the 4"), (6, "5 spans, not the 6")] {
        refused(
            &puffin(&meta(3, (4, 500), found), &whole_streams, &whole_table),
            &format!("the flame has {expected} of its head"),
        );
    }
}

#[test]
fn streams_have_the_size_that_they_announce() {
    let meta = meta(3, (4, 5), 0);
    let refused = |packed: &[u8], expected: &str| {
        refused(&puffin_with(&meta, packed, &table(&[])), expected);
    };
    for len in 0..4 {
        refused(&[9, 9, 9][..len], "the raw size of the streams is missing");
    }
    // A byte may become 255.
    let packed = |raw: u32, block: &[u8]| [&raw.to_le_bytes()[..], block].concat();
    refused(
        &packed(1531, &[0x10, 0]),
        "the streams are 1531 bytes long, more than 1530",
    );
    refused(
        &packed(1530, &[0x10, 0]),
        "streams of 1530 bytes unpack to 1",
    );
    refused(&packed(2, &block(&[0])), "streams of 2 bytes unpack to 1");
    let large = [0xff; 100_000];
    let most = 24 << 20;
    refused(
        &packed(most + 1, &large),
        "the streams are 25165825 bytes long, more than 25165824",
    );
    for raw in [0, 1530, most] {
        let packed = packed(raw, &large[..if raw == most { 100_000 } else { 2 }]);
        let error = flame::parse(&puffin_with(&meta, &packed, &table(&[]))).unwrap_err();
        assert!(error.starts_with("the streams are not LZ4: "), "{error}");
    }
}

/// Asserts why a stream of one thread is refused.
fn refused_stream(stream: &[u8], num_scopes: u64, expected: &str) {
    let streams = streams(&[thread(None, "main", stream, num_scopes)]);
    refused(
        &puffin(&meta(3, (4, 5), 1), &streams, &table(&[])),
        expected,
    );
}

#[test]
fn scopes_must_nest() {
    // 22 bytes to the children, and 9 of the end.
    let inner = scope(2, 20, "", &[], 30);
    assert_eq!(inner.len(), 31);
    let whole = scope(1, 10, "", &inner, 40);
    for (num_scopes, found) in [(1, 2), (3, 2)] {
        let expected =
            format!("{num_scopes} spans of thread \"main\" were announced, found {found}");
        refused_stream(&whole, num_scopes, &expected);
    }
    let with = |changes: &[(usize, u8)]| {
        let mut stream = whole.clone();
        for &(at, byte) in changes {
            stream[at] = byte;
        }
        stream
    };
    let none_at = |at| format!("no scope begins at byte {at} of a stream");
    for (changes, expected) in [
        (&[(0, b'[')][..], none_at(0)),
        (&[(22, b')')], none_at(22)),
        // The children of the outer one end with the stream, or behind it.
        (&[(14, 40)], none_at(53)),
        (&[(14, 41)], none_at(0)),
        // Those of the inner one end with the children of the outer one, or behind them.
        (&[(36, 9)], none_at(44)),
        (&[(36, 10)], none_at(22)),
        // A length of more than the largest file.
        (&[(21, 0xff)], none_at(0)),
        (
            &[(53, b'(')],
            "a scope that ends at byte 53 of a stream has no end mark".into(),
        ),
        (
            &[(44, 0)],
            "a scope that ends at byte 44 of a stream has no end mark".into(),
        ),
        // The inner one ends nine bytes behind the children of the outer one.
        (
            &[(14, 22)],
            "a scope reaches beyond the one around it".into(),
        ),
        (
            &[(14, 30)],
            "a scope reaches beyond the one around it".into(),
        ),
    ] {
        refused_stream(&with(changes), 2, &expected);
    }
    // Each beginning of it, of which the first is no scope.
    for len in 1..whole.len() {
        let expected = match len {
            0..53 => none_at(0),
            _ => "a scope that ends at byte 53 of a stream has no end mark".into(),
        };
        refused_stream(&whole[..len], 2, &expected);
    }
    // A text that is not UTF-8.
    let mut stream = scope(1, 10, "ab", &[], 40);
    stream[15] = 0xff;
    refused_stream(&stream, 1, &none_at(0));
}

#[test]
fn optional_values_have_one_of_two_marks() {
    for mark in [2, 255] {
        let mut other = thread(Some(3), "main", &[], 0);
        assert_eq!(other[0], 1);
        other[0] = mark;
        refused(
            &puffin(&meta(3, (4, 5), 0), &streams(&[other]), &table(&[])),
            "the streams end inside a thread",
        );
    }
    assert_eq!(option(Some(zigzag(-1))), [1, 1]);
    assert_eq!(varint(251), [251, 251, 0]);
}
