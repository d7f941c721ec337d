//! The header and the records of captures of version 2, byte by byte, and what is reported about
//! damaged ones.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use vor_capture::filled;
use vor_capture::format::v2::{
    Damage, Decoder, Event, Frame, Header, MAX_HEADER_BYTES, MAX_RECORD_BYTES, parse_header,
};
use vor_capture::model::catalog::MetricColumn;
use vor_fixtures::v2::{block, column, frame, header, meta, puffin, record, stored, table};

fn metric(name: &str, unit: &str) -> MetricColumn {
    filled!(MetricColumn {
        name: name.into(),
        unit: unit.into(),
    })
}

#[test]
fn a_header_has_the_columns_of_its_bytes() {
    let columns = [("frame_ms", "ms"), ("", ""), ("größe", "")];
    for (flame, flame_enabled) in [(0, false), (1, true), (2, true)] {
        let bytes = header(flame, &columns);
        let expected = Header {
            flame_enabled,
            columns: columns.map(|(name, unit)| metric(name, unit)).to_vec(),
            len: bytes.len(),
        };
        for len in 0..bytes.len() {
            assert_eq!(parse_header(&bytes[..len]).unwrap(), None, "{len}");
        }
        let longer = [&bytes[..], b"records"].concat();
        for bytes in [bytes, longer] {
            assert_eq!(parse_header(&bytes).unwrap(), Some(expected.clone()));
        }
    }
}

#[test]
fn something_else_is_no_header() {
    for (bytes, expected) in [
        (&b"%PDF-1"[..], "not a vor capture: it starts with \"%PDF\""),
        (b"VOX", "not a vor capture: it starts with \"VOX\""),
        (b"vOR1\x02\0", "not a vor capture: it starts with \"vOR1\""),
        (
            b"VOR1\x03\0",
            "not a capture of version 2: its version is 3",
        ),
        (
            b"VOR1\x02\x01",
            "not a capture of version 2: its version is 258",
        ),
    ] {
        let error = parse_header(bytes).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let is_magic = bytes.starts_with(b"VOR1");
        assert_eq!(
            (error.is_version(), error.is_corrupt()),
            (is_magic, !is_magic)
        );
    }
    for (at, expected) in [
        (11, "the name of a system column of 5 bytes is not UTF-8"),
        (18, "the unit of a system column of 3 bytes is not UTF-8"),
    ] {
        let mut bytes = header(0, &[("abcde", "fgh")]);
        bytes[at] = 0xff;
        assert_eq!(parse_header(&bytes).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_header_has_a_largest_size() {
    let name = "n".repeat(30);
    let columns = vec![(&*name, ""); 65_535];
    let bytes = header(0, &columns);
    assert_eq!(parse_header(&bytes).unwrap().unwrap().len, bytes.len());
    assert_eq!(parse_header(&bytes[..MAX_HEADER_BYTES - 1]).unwrap(), None);
    let error = parse_header(&bytes[..MAX_HEADER_BYTES]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "its 65535 columns do not fit into a header of 1048576 bytes"
    );
}

/// The header of captures whose frames have `system` values.
fn head(system: usize) -> Header {
    let bytes = header(1, &vec![("a", "b"); system]);
    parse_header(&bytes).unwrap().unwrap()
}

/// Decodes the bytes behind a header, in pieces of any size. Returns the events, and what is left.
fn decode(header: &Header, bytes: &[u8]) -> (Vec<Event>, Option<Damage>) {
    let mut found = Vec::new();
    for piece_bytes in [bytes.len().max(1), 1, 7] {
        let mut decoder = Decoder::new(header);
        let mut events = Vec::new();
        for piece in bytes.chunks(piece_bytes) {
            decoder.push(piece);
            events.extend(std::iter::from_fn(|| decoder.next_event(false)));
        }
        events.extend(std::iter::from_fn(|| decoder.next_event(true)));
        found.push((events, decoder.pending()));
    }
    assert!(found[1] == found[0] && found[2] == found[0], "{found:?}");
    found.swap_remove(0)
}

fn damage(offset: u64, bytes: usize, reason: impl Into<String>) -> Damage {
    Damage {
        offset,
        bytes: bytes as u64,
        reason: reason.into(),
    }
}

#[test]
fn records_are_columns_and_frames() {
    let header = head(2);
    let begin = header.len as u64;
    let flame = puffin(&meta(3, (4, 5), 0), &[0], &table(&[]));
    let records = [
        record(&column(7, "loss", "nats")),
        record(&column(3, "size", "B")),
        // Declared again as it was, and as another one.
        record(&column(7, "loss", "nats")),
        record(&frame(&[1.5, -2.0], &[(7, 0.25), (3, 8.0)], &flame)),
        record(&column(7, "loss", "")),
        record(&frame(
            &[3.0, f64::MAX],
            &[(7, 9.5), (4, 1.0), (3, 2.0)],
            b"PFD3",
        )),
        record(&column(3, "size", "")),
        record(&frame(&[0.5, 0.75], &[], &[])),
    ];
    let offset = |n: usize| begin + records[..n].iter().map(Vec::len).sum::<usize>() as u64;
    let a_frame = |n, system: [f64; 2], user: &[(usize, f64)]| Frame {
        offset: offset(n),
        system: system.to_vec(),
        user: user.to_vec(),
        ..Frame::default()
    };
    let bytes = records.concat();
    let expected = vec![
        Event::Column(0),
        Event::Column(1),
        Event::Frame(Frame {
            flame: Some(flame),
            parsed: Some(vor_capture::format::v2::flame::Flame {
                frame_index: 3,
                range_ns: (4, 5),
                ..Default::default()
            }),
            ..a_frame(3, [1.5, -2.0], &[(0, 0.25), (1, 8.0)])
        }),
        Event::Column(2),
        Event::Damage(damage(
            offset(5),
            0,
            "the value 1 belongs to column 4, which is not declared",
        )),
        Event::Damage(damage(
            offset(5),
            0,
            "the flame of a frame is damaged: a puffin frame should begin with `PFD4`",
        )),
        Event::Frame(a_frame(5, [3.0, f64::MAX], &[(2, 9.5), (1, 2.0)])),
        Event::Column(3),
        Event::Frame(a_frame(7, [0.5, 0.75], &[])),
    ];
    assert_eq!(decode(&header, &bytes), (expected.clone(), None));

    let mut decoder = Decoder::new(&header);
    assert_eq!((decoder.offset(), decoder.declared()), (begin, 0));
    decoder.push(&bytes);
    let events: Vec<_> = std::iter::from_fn(|| decoder.next_event(false)).collect();
    assert_eq!(events, expected);
    let columns = [("loss", "nats"), ("size", "B"), ("loss", ""), ("size", "")];
    assert_eq!(
        decoder.user_columns(),
        columns.map(|(name, unit)| metric(name, unit))
    );
    let end = begin + bytes.len() as u64;
    assert_eq!((decoder.offset(), decoder.declared()), (end, 4));

    // A place has the columns declared before it, which it then declares again.
    for (n, declared, events) in [(0, 0, 0..9), (3, 2, 2..9), (5, 3, 4..9), (7, 4, 8..9)] {
        decoder.resume_at(offset(n), declared);
        assert_eq!(
            (decoder.offset(), decoder.declared()),
            (offset(n), declared)
        );
        decoder.push(&bytes[(offset(n) - begin) as usize..]);
        let found: Vec<_> = std::iter::from_fn(|| decoder.next_event(false)).collect();
        let is_new = |event: &&Event| !matches!(event, Event::Column(_));
        let expected: Vec<_> = expected[events].iter().filter(is_new).cloned().collect();
        assert_eq!(found, expected, "from record {n}");
        assert_eq!((decoder.offset(), decoder.declared()), (end, 4));
    }
    decoder.resume_at(begin, 9);
    assert_eq!(decoder.declared(), 4, "no more than there are");
}

#[test]
fn texts_of_a_column_may_be_longer_than_their_lengths_say() {
    let long = |extra: usize| "x".repeat(0x1_0000 + extra);
    let header = head(0);
    for (name, unit) in [
        (String::new(), String::new()),
        ("n".to_owned(), String::new()),
        (String::new(), "u".to_owned()),
        (long(3), long(2)),
        ("n".to_owned(), long(0)),
        (long(0), "unit".to_owned()),
        (long(0x1_0000), String::new()),
    ] {
        let mut decoder = Decoder::new(&header);
        decoder.push(&record(&column(513, &name, &unit)));
        assert_eq!(decoder.next_event(false), Some(Event::Column(0)));
        assert!(decoder.user_columns() == [metric(&name, &unit)]);
    }
}

/// Asserts why the bytes are no record.
fn refused(header: &Header, bytes: &[u8], reason: &str) {
    let expected = damage(header.len as u64, bytes.len(), reason);
    assert_eq!(decode(header, bytes), (Vec::new(), Some(expected)));
}

#[test]
fn a_record_that_breaks_a_rule_is_named() {
    let header = head(2);
    let refused = |bytes: &[u8], reason: &str| refused(&header, bytes, reason);
    let sizes = |len: u32, raw: u32| [len.to_le_bytes(), raw.to_le_bytes()].concat();
    let most = MAX_RECORD_BYTES as u32;
    for len in [0, 4, most + 1, u32::MAX] {
        let reason = format!("the length of a record is {len}, not 5 to 25165824");
        refused(&len.to_le_bytes(), &reason);
        refused(&sizes(len, 1), &reason);
    }
    for (len, raw, limit) in [(5, 0, 1275), (5, 1276, 1275), (98_690, most + 1, most)] {
        let reason =
            format!("a record of {len} bytes declares {raw} unpacked bytes, not 1 to {limit}");
        refused(&sizes(len, raw), &reason);
    }
    // The same numbers at the limits begin a record.
    for (len, raw) in [(5, 1), (5, 1275), (98_690, most), (most, most)] {
        for bytes in 4..8 {
            let reason = format!("the file ends {bytes} bytes into a record of {}", len + 4);
            refused(&sizes(len, raw)[..bytes], &reason);
        }
        let reason = format!("the file ends 8 bytes into a record of {}", len + 4);
        refused(&sizes(len, raw), &reason);
    }
    for bytes in 1..4 {
        let reason = format!("the file ends {bytes} bytes into a record of 4");
        refused(&[0xff; 3][..bytes], &reason);
    }

    let whole = frame(&[1.0, 2.0], &[(1, 3.0)], b"flame");
    let one_more = stored(whole.len() as u32 + 1, &block(&whole));
    refused(&one_more, "a block of 39 bytes unpacks to 38");
    let reason = "a frame is cut off after 38 bytes";
    // Values of columns, their number, user values, and the length of the flame.
    for (at, byte) in [(17, 2), (17, 255), (29, 4), (29, 6)] {
        let mut other = whole.clone();
        other[at] = byte;
        refused(&record(&other), reason);
    }
    for len in 1..whole.len() {
        let reason = format!("a frame is cut off after {len} bytes");
        refused(&record(&whole[..len]), &reason);
    }
    let declared = column(5, "ab", "c");
    for len in 1..declared.len() {
        let reason = format!("{len} bytes are not the declaration of a column");
        refused(&record(&declared[..len]), &reason);
    }
    let longer = [&declared[..], b"d"].concat();
    refused(
        &record(&longer),
        "11 bytes are not the declaration of a column",
    );
    for at in [5, 9] {
        let mut other = declared.clone();
        other[at] = 0xff;
        refused(
            &record(&other),
            "10 bytes are not the declaration of a column",
        );
    }
    refused(
        &record(&[2, 0, 0]),
        "the kind of a record is Some(2), not 0 or 1",
    );

    // A match before there is anything to match.
    let (found, left) = decode(&header, &stored(9, &[0x10, 0, 9, 0, 0]));
    let reason = left.unwrap().reason;
    assert!(
        found.is_empty() && reason.starts_with("a block of 9 bytes is not LZ4: "),
        "{reason}"
    );
}

#[test]
fn an_unfinished_record_says_where_it_ends() {
    let header = head(1);
    let begin = header.len as u64;
    let first = record(&frame(&[1.0], &[], &[]));
    let second = record(&frame(&[2.0], &[], b"PFD4 and more"));
    let mut decoder = Decoder::new(&header);
    assert_eq!((decoder.unfinished_to(), decoder.pending()), (None, None));
    decoder.push(&first);
    decoder.push(&second[..3]);
    assert!(decoder.next_event(false).is_some());
    let at = begin + first.len() as u64;
    assert_eq!(decoder.next_event(true), None);
    assert_eq!(decoder.unfinished_to(), None);
    let reason = "the file ends 3 bytes into a record of 4";
    assert_eq!(decoder.pending(), Some(damage(at, 3, reason)));
    decoder.push(&second[3..10]);
    assert_eq!(decoder.next_event(true), None);
    assert_eq!(decoder.unfinished_to(), Some(at + second.len() as u64));
    let reason = format!("the file ends 10 bytes into a record of {}", second.len());
    assert_eq!(decoder.pending(), Some(damage(at, 10, reason)));
    decoder.push(&second[10..]);
    assert!(matches!(decoder.next_event(false), Some(Event::Damage(_))));
    assert!(matches!(decoder.next_event(false), Some(Event::Frame(_))));
    assert_eq!((decoder.next_event(true), decoder.pending()), (None, None));
    assert_eq!(decoder.unfinished_to(), None);
    // Damage has no end.
    decoder.push(&[0xff; 5]);
    assert_eq!(decoder.next_event(true), None);
    assert_eq!(decoder.unfinished_to(), None);
    let reason = "the length of a record is 4294967295, not 5 to 25165824";
    let end = at + second.len() as u64;
    assert_eq!(decoder.pending(), Some(damage(end, 5, reason)));
}

/// A frame of one system value whose record has this many bytes in its body.
fn frame_of(body_bytes: usize) -> Vec<u8> {
    let flame = vec![7; body_bytes - 15];
    let body = frame(&[1.0], &[], &flame);
    assert_eq!(body.len(), body_bytes);
    record(&body)
}

#[test]
fn the_first_whole_record_behind_damage_is_found() {
    let header = head(1);
    let begin = header.len as u64;
    let reason = "the length of a record is 4294967295, not 5 to 25165824";
    // Heads of blocks of each length: 15 literals are the first with a byte of their own.
    for body_bytes in [
        15,
        16,
        15 + 254,
        15 + 255,
        15 + 256,
        15 + 509,
        15 + 510,
        15 + 600,
    ] {
        for garbage in [4, 5, 9, 10, 11, 30] {
            let whole = frame_of(body_bytes);
            let bytes = [&vec![0xff; garbage][..], &whole].concat();
            let (events, left) = decode(&header, &bytes);
            let skipped = damage(begin, garbage, reason);
            assert_eq!(
                events.first(),
                Some(&Event::Damage(skipped)),
                "{body_bytes}"
            );
            match events.last() {
                Some(Event::Frame(frame)) => {
                    assert_eq!(frame.offset, begin + garbage as u64);
                    assert_eq!(frame.system, [1.0]);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(left, None);
        }
    }
    // Damage ends at the first of several, and may begin again.
    let (one, two) = (frame_of(15), record(&column(1, "a", "")));
    let bytes = [&[0xff; 6][..], &one, &two, &[0xff; 20], &one, &[0xff; 4]].concat();
    let (events, left) = decode(&header, &bytes);
    let second = begin + 6 + (one.len() + two.len()) as u64;
    let places: Vec<_> = events
        .iter()
        .map(|event| match event {
            Event::Damage(damage) => (damage.offset, damage.bytes),
            Event::Frame(frame) => (frame.offset, 0),
            Event::Column(index) => (*index as u64, 0),
        })
        .collect();
    assert_eq!(
        places,
        [
            (begin, 6),
            (begin + 6, 0),
            (0, 0),
            (second, 20),
            (second + 20, 0)
        ]
    );
    let third = second + 20 + one.len() as u64;
    assert_eq!(left, Some(damage(third, 4, reason)));
}

#[test]
fn a_column_behind_damage_has_no_id_of_a_system_column() {
    let header = head(2);
    let begin = header.len as u64;
    let system = record(&column(1, "a", ""));
    let user = record(&column(2, "b", ""));
    // In its place, any id is declared.
    let (events, _) = decode(&header, &system);
    assert_eq!(events, [Event::Column(0)]);
    let bytes = [&[0xff; 6][..], &system, &user].concat();
    let (events, left) = decode(&header, &bytes);
    let reason = "the length of a record is 4294967295, not 5 to 25165824";
    let skipped = damage(begin, 6 + system.len(), reason);
    assert_eq!(
        (events, left),
        (vec![Event::Damage(skipped), Event::Column(0)], None)
    );
}

#[test]
fn records_behind_a_wrong_length_prove_it() {
    let header = head(1);
    let begin = header.len as u64;
    // A record of 504 bytes, of which 30 are there.
    let torn = [&[0xf4, 1, 0, 0, 100, 0, 0, 0, 0xf0][..], &[0xff; 21]].concat();
    let (one, other) = (frame_of(15), frame_of(40));
    let unfinished = &other[..20];
    let reason = |bytes| {
        format!("a record of 504 bytes is cut off after {bytes} bytes, where whole records follow")
    };
    let left = |bytes| {
        let reason = format!("the file ends {bytes} bytes into a record of 504");
        (Vec::new(), Some(damage(begin, bytes, reason)))
    };
    let frame = |offset: usize| {
        Event::Frame(Frame {
            offset: begin + offset as u64,
            system: vec![1.0],
            ..Frame::default()
        })
    };
    assert_eq!(decode(&header, &torn), left(30));
    // One that ends where the file ends, two in a row, or one before an unfinished one.
    let found = vec![Event::Damage(damage(begin, 30, reason(30))), frame(30)];
    assert_eq!(
        decode(&header, &[&torn[..], &one].concat()),
        (found.clone(), None)
    );
    let mut two = found.clone();
    two.push(frame(30 + one.len()));
    assert_eq!(
        decode(&header, &[&torn[..], &one, &one].concat()),
        (two, None)
    );
    let (events, _) = decode(&header, &[&torn[..], &one, unfinished].concat());
    assert_eq!(events, found);
    // A record before bytes that are none may be part of the large one.
    let bytes = [&torn[..], &one, &[0xff; 9]].concat();
    assert_eq!(decode(&header, &bytes), left(bytes.len()));
    let bytes = [&torn[..], &one, &[0xff; 9], &one].concat();
    let second = 30 + one.len() + 9;
    let skipped = Event::Damage(damage(begin, second, reason(second)));
    assert_eq!(
        decode(&header, &bytes),
        (vec![skipped, frame(second)], None)
    );
}

#[test]
fn a_search_unpacks_64_mib_and_16_bytes_for_each_place() {
    let header = head(0);
    // Three places that look like frames of this size in a block of 98 700 bytes.
    let block_bytes = 98_700_u32;
    let looks = |raw: u32| {
        let sizes = [(block_bytes + 4).to_le_bytes(), raw.to_le_bytes()].concat();
        [&sizes[..], &[0x10, 0, 0xff, 0xff]].concat()
    };
    let cost = |raw: u32| u64::from(raw) + u64::from(block_bytes) + 4;
    let whole = record(&frame(&[], &[], &[9; 300]));
    // Its sizes: 307 bytes in a block of 310, after the raw size.
    let whole_cost = 307 + (4 + 310);
    let heads_begin = 4;
    let whole_at = heads_begin + 3 * looks(1).len() as u64;
    // The places behind the first one, up to that of the record.
    let allowance = (64 << 20) + 16 * (whole_at - 1);
    let large = 24 << 20;
    let rest = allowance - whole_cost - 2 * cost(large);
    let last = u32::try_from(rest).unwrap() - block_bytes - 4;
    assert_eq!(2 * cost(large) + cost(last) + whole_cost, allowance);
    for (raw, is_found) in [(last - 1, true), (last, true), (last + 1, false)] {
        let heads = [vec![0xff; 4], looks(large), looks(large), looks(raw)].concat();
        let filler = vec![0xff; block_bytes as usize];
        let bytes = [&heads[..], &whole, &filler].concat();
        let mut decoder = Decoder::new(&header);
        decoder.push(&bytes);
        let events: Vec<_> = std::iter::from_fn(|| decoder.next_event(true)).collect();
        let offset = header.len as u64 + whole_at;
        let frames = events
            .iter()
            .filter(|event| matches!(event, Event::Frame(frame) if frame.offset == offset));
        assert_eq!(frames.count(), usize::from(is_found), "{raw}");
    }
}
