//! Every rule of the records that are no batches, and of numbers, texts and LZ4 blocks: a payload
//! that breaks just that one is refused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::io::Cursor;

use vor_capture::format::{
    DamageReason, END_RECORD_BYTES, HEADER_BYTES, Header, Index, MAX_COLUMNS, MAX_DECLARED_ID,
    MAX_FRAME_SETS, MAX_PAYLOAD_BYTES, RECORD_HEAD_BYTES, Record, RecordHead, decode_payload,
    parse_end,
};
use vor_capture::model::catalog::{Catalog, Column, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::reader::{Capture, Reader};
use vor_fixtures::captures::every_kind;
use vor_fixtures::payload::{
    MESSAGES, Payload, TASKS, accept, accept_stored, file_with, refuse, refuse_stored,
};
use vor_fixtures::sealed::{Sealed, declarations, frame_payload, index_payload, kind};
use vor_fixtures::{decoded, invariants, reference};

#[test]
fn unknown_events_and_stages_are_refused() {
    let event = |kind| Payload::default().bytes(&[0, 1, kind, 0, 1, 0, 0]);
    let step = Payload::default().bytes(&[0, 1, 0, 0, 1, 0, 0]);
    accept(kind::EVENTS, &step);
    accept(kind::EVENTS, &event(2).bytes(&[0]));
    refuse(
        kind::EVENTS,
        &event(3).bytes(&[0]),
        "the kind of an event is 3",
    );
    let point = |stage| Payload::default().bytes(&[0, 0, 1, stage, 0, 0]);
    accept(kind::EVENTS, &point(2));
    refuse(kind::EVENTS, &point(3), "the stage of a flow point is 3");
}

#[test]
fn too_many_events_are_refused() {
    let events = |events: usize, points: usize| {
        let payload = Payload::default().numbers(&[0, events as u64]);
        let payload = payload.repeated(events, &[0, 0, 1, 0]);
        payload
            .numbers(&[points as u64])
            .repeated(points, &[0, 0, 0])
    };
    let reason = "more than";
    accept(kind::EVENTS, &events(3, 2));
    refuse(kind::EVENTS, &events((1 << 18) + 1, 0), "a count is 262145");
    refuse(kind::EVENTS, &events(0, (1 << 18) + 1), "a count is 262145");
    // Events and points share the room, and so do entries.
    refuse(
        kind::EVENTS,
        &events((1 << 18) - 1, 2),
        "a count is 2, more than 1",
    );
    let two = Payload([events(2, 0).0, events((1 << 18) - 1, 0).0].concat());
    refuse(kind::EVENTS, &two, reason);
    let entries = |count| Payload::default().repeated(count, &[0, 0, 0]);
    accept(kind::EVENTS, &entries(1 << 16));
    refuse(
        kind::EVENTS,
        &entries((1 << 16) + 1),
        "more than 65536 entries",
    );
}

#[test]
fn a_stack_that_shares_more_scopes_than_there_are_is_refused() {
    let stacks = |shared| {
        let payload = Payload::default().numbers(&[1, 0, 2, 0, 1, 1, 3, 3]);
        payload.numbers(&[shared, 1, 2, 2, 2])
    };
    accept(kind::HEAP, &stacks(1));
    refuse(kind::HEAP, &stacks(2), "a stack shares 2 scopes");
    refuse(
        kind::HEAP,
        &stacks(u64::MAX),
        "a stack shares 18446744073709551615 scopes",
    );
}

#[test]
fn too_many_scopes_and_stacks_are_refused() {
    let scopes = |first: usize, more: usize| {
        let payload = Payload::default().numbers(&[1, 0, 2, 0, first as u64]);
        let payload = payload.repeated(first, &[1]).numbers(&[3, 3]);
        let payload = payload.numbers(&[first as u64, more as u64]);
        payload.repeated(more, &[2]).numbers(&[3, 3])
    };
    accept(kind::HEAP, &scopes(255, 1));
    refuse(kind::HEAP, &scopes(257, 0), "a count is 257, more than 256");
    refuse(kind::HEAP, &scopes(255, 2), "a count is 2, more than 1");
    // Shared scopes count for every stack.
    let shared = |stacks: usize| {
        let payload = Payload::default().numbers(&[1, 0, stacks as u64, 0, 256]);
        let payload = payload.repeated(256, &[1]).numbers(&[3, 3]);
        (1..stacks as u64).fold(payload, |payload, stack| {
            payload.numbers(&[255, 1, 1 + stack, 1, 1])
        })
    };
    accept(kind::HEAP, &shared(1024));
    refuse(kind::HEAP, &shared(1025), "more than 262144 scopes");
    let stacks = |count: usize| {
        let payload = Payload::default().numbers(&[1, 0, count as u64]);
        (0..count as u64).fold(payload, |payload, site| {
            payload.numbers(&[0, 1, site, 1, 1])
        })
    };
    accept(kind::HEAP, &stacks(1 << 16));
    refuse(
        kind::HEAP,
        &stacks((1 << 16) + 1),
        "a count is 65537, more than 65536",
    );
}

#[test]
fn scheduler_events_name_tasks_of_their_record() {
    // Nothing lost, two tasks `a` and `b`, one event: task 0 wakes the other on processor 1.
    let waking = |woken: u64| {
        let payload = Payload::default().numbers(&[0, 2, 3, 1, 97, 4, 1, 98, 1]);
        payload.numbers(&[1, 1, 8, 0, woken, 240, 1])
    };
    accept(kind::SCHEDULER, &waking(1));
    refuse(kind::SCHEDULER, &waking(2), "an event names task 2 of 2");
    let of_kind = |kind: u64| {
        let payload = Payload::default().numbers(&[0, 1, 3, 0, 1]);
        payload.numbers(&[kind, 1, 8, 0, 0, 240, 1])
    };
    refuse(kind::SCHEDULER, &of_kind(2), "the kind 2, which is unknown");
    let priority = |priority: u64| {
        let payload = Payload::default().numbers(&[0, 1, 3, 0, 1]);
        payload.numbers(&[1, 1, 8, 0, 0, priority, 1])
    };
    accept(kind::SCHEDULER, &priority(u64::from(u32::MAX)));
    let large = priority(u64::from(u32::MAX) + 1);
    refuse(kind::SCHEDULER, &large, "the priority 2147483648");
}

#[test]
fn too_many_tasks_and_long_names_are_refused() {
    let named = |bytes: usize| {
        let payload = Payload::default().numbers(&[0, 1, 3, bytes as u64]);
        payload.repeated(bytes, &[97]).numbers(&[0])
    };
    accept(kind::SCHEDULER, &named(64));
    refuse(kind::SCHEDULER, &named(65), "65 bytes, more than 64");
    let number = |tid: u64| Payload::default().numbers(&[0, 1, tid << 1, 0, 0]);
    accept(kind::SCHEDULER, &number(u64::from(u32::MAX)));
    let large = number(u64::from(u32::MAX) + 1);
    refuse(kind::SCHEDULER, &large, "the number 4294967296");
    let tasks = |count: usize| {
        let payload = Payload::default().numbers(&[0, count as u64]);
        payload.repeated(count, &[3, 0]).numbers(&[0])
    };
    accept(kind::SCHEDULER, &tasks(1 << 15));
    refuse(
        kind::SCHEDULER,
        &tasks((1 << 15) + 1),
        "a count is 32769, more than 32768",
    );
    let events = |count: usize| {
        let payload = Payload::default().numbers(&[0, 1, 3, 0, count as u64]);
        payload.repeated(count, &[1, 0, 2, 0, 0, 0, 0])
    };
    accept(kind::SCHEDULER, &events(1 << 14));
    refuse(
        kind::SCHEDULER,
        &events((1 << 14) + 1),
        "a count is 16385, more than 16384",
    );
}

#[test]
fn two_stacks_of_the_same_scopes_are_refused() {
    let stacks = |stacks: &[&[u64]]| {
        let payload = Payload::default().numbers(&[1, 0, stacks.len() as u64]);
        stacks.iter().fold(payload, |payload, stack| {
            payload.numbers(stack).numbers(&[3, 3])
        })
    };
    let (one, two) = (&[0, 2, 1, 2][..], &[0, 1, 2][..]);
    accept(kind::HEAP, &stacks(&[one, two, &[0, 0], &[0, 2, 2, 1]]));
    let reason = "two stacks have the same scopes";
    // Beside each other, apart, written with shared scopes, and without scopes.
    refuse(kind::HEAP, &stacks(&[one, one]), reason);
    refuse(kind::HEAP, &stacks(&[one, two, one]), reason);
    refuse(kind::HEAP, &stacks(&[one, &[2, 0]]), reason);
    refuse(kind::HEAP, &stacks(&[&[0, 0], one, &[0, 0]]), reason);
}

#[test]
fn declared_ids_have_an_end() {
    let end = |kind, end: u64, entry: &[u8]| {
        let one = |first: u64, count| {
            let payload = Payload::default().numbers(&[first, count]);
            payload.repeated(count as usize, entry)
        };
        accept(kind, &one(end - 1, 1));
        refuse(
            kind,
            &one(end, 1),
            &format!("1 ids from {end} on exceed {end}"),
        );
        refuse(kind, &one(end - 1, 2), &format!("exceed {end}"));
        refuse(kind, &one(u64::from(u32::MAX), 1), &format!("exceed {end}"));
        refuse(kind, &one(1 << 32, 1), "does not fit into 32 bits");
    };
    end(kind::SITES, 1 << 21, &[0; 7]);
    end(kind::THREADS, 1 << 21, &[0; 2]);
    end(kind::COLUMNS, 1 << 16, &[0; 3]);
    end(kind::FRAME_SETS, 1 << 12, &[0]);
}

#[test]
fn too_many_entries_of_a_declaration_are_refused() {
    let threads = |count: u64| {
        let payload = Payload::default().numbers(&[0, count]);
        payload.repeated(count as usize, &[0, 0])
    };
    accept(kind::THREADS, &threads(16_384));
    refuse(
        kind::THREADS,
        &threads(16_385),
        "a count is 16385, more than 16384",
    );
}

#[test]
fn a_site_with_a_wrong_colour_or_too_many_names_is_refused() {
    let site = |line: u64, color: u64, names: u64| {
        let payload = Payload::default()
            .numbers(&[1, 1])
            .text("name")
            .bytes(&[0, 0]);
        let payload = payload.numbers(&[line]).bytes(&[0]);
        payload
            .numbers(&[color, names])
            .repeated(names as usize, &[0])
    };
    accept(kind::SITES, &site(u64::from(u32::MAX), 1 << 32, 256));
    refuse(
        kind::SITES,
        &site(1 << 32, 0, 0),
        "does not fit into 32 bits",
    );
    refuse(
        kind::SITES,
        &site(0, (1 << 32) + 1, 0),
        "the colour 4294967297 does not fit",
    );
    refuse(
        kind::SITES,
        &site(0, 0, 257),
        "a count is 257, more than 256",
    );
}

#[test]
fn a_metric_of_a_wrong_column_or_shape_is_refused() {
    let frame = |head: u64| {
        let payload = Payload::default().numbers(&[0, 1, 0, 9, 0, 0, 0, 0, 1]);
        payload.numbers(&[head]).bytes(&[2])
    };
    accept(kind::FRAME, &frame(u64::from(u32::MAX) << 2));
    refuse(
        kind::FRAME,
        &frame(1 << 34),
        "the column 4294967296 does not fit",
    );
    refuse(kind::FRAME, &frame(3), "the shape of a value is 3");
}

#[test]
fn columns_of_metrics_are_steps_that_wrap() {
    let frame = Payload::default().numbers(&[0, 1, 0, 9, 0, 0, 0, 0, 3]);
    let step = |frame: Payload, step: u64| frame.numbers(&[step << 2]).zigzag(1);
    let frame = step(step(step(frame, u64::from(u32::MAX) - 2), 2), 4);
    let Record::Frame(frame) = accept(kind::FRAME, &frame) else {
        panic!("not a frame");
    };
    let columns: Vec<u32> = frame.metrics.iter().map(|metric| metric.column).collect();
    assert_eq!(columns, [u32::MAX - 2, u32::MAX, 3]);
}

#[test]
fn too_many_metrics_are_refused() {
    let frame = |count: usize| {
        let payload = Payload::default().numbers(&[0, 1, 0, 9, 0, 0, 0, 0, count as u64]);
        payload.repeated(count, &[0, 2])
    };
    accept(kind::FRAME, &frame(1 << 18));
    refuse(
        kind::FRAME,
        &frame((1 << 18) + 1),
        "a count is 262145, more than 262144",
    );
}

#[test]
fn too_many_open_scopes_are_refused() {
    let open = |threads: &[usize]| {
        let payload = Payload::default().numbers(&[9, threads.len() as u64]);
        threads.iter().fold(payload, |payload, scopes| {
            payload
                .numbers(&[0, *scopes as u64])
                .repeated(*scopes, &[1, 0])
        })
    };
    accept(kind::OPEN_SCOPES, &open(&[1 << 17, 1 << 17]));
    let reason = "a count is 131073, more than 131072";
    refuse(kind::OPEN_SCOPES, &open(&[1 << 17, (1 << 17) + 1]), reason);
    accept(kind::OPEN_SCOPES, &open(&[0; 1 << 16]));
    let reason = "a count is 65537, more than 65536";
    refuse(kind::OPEN_SCOPES, &open(&[0; (1 << 16) + 1]), reason);
}

#[test]
fn too_many_frame_sets_and_places_of_an_index_are_refused() {
    let index = |sets: usize, places: usize| {
        let payload = Payload::default().numbers(&[44, sets as u64]);
        let payload = payload.repeated(sets, &[1]).bytes(&[0; 7]);
        payload
            .numbers(&[places as u64])
            .repeated(places, &[1, 2, 1, 2])
    };
    accept(kind::INDEX, &index(4096, 16_384));
    refuse(
        kind::INDEX,
        &index(4097, 0),
        "a count is 4097, more than 4096",
    );
    refuse(
        kind::INDEX,
        &index(0, 16_385),
        "a count is 16385, more than 16384",
    );
}

#[test]
fn places_of_an_index_that_do_not_ascend_are_refused() {
    let index = |places: &[[i64; 3]]| {
        let payload = Payload::default().numbers(&[44, 1, 9]).bytes(&[0; 7]);
        let payload = payload.numbers(&[places.len() as u64]);
        places
            .iter()
            .fold(payload, |payload, &[frames, number, offset]| {
                let payload = payload.numbers(&[frames as u64]).zigzag(number);
                payload.numbers(&[offset as u64]).zigzag(5)
            })
    };
    let Record::Index(found) = accept(kind::INDEX, &index(&[[0, 7, 44], [2, -3, 1]])) else {
        panic!("not an index");
    };
    // The numbers of the frames are the program's, and may descend.
    let second = found.seeks[1];
    assert_eq!((second.ordinal, second.index, second.offset), (2, 4, 45));
    assert_eq!(second.start_ticks, 10);
    let reason = "place 1 of an index is not behind the place before it";
    for second in [[0, 2, 1], [2, 2, 0], [-1, 2, 1], [2, 2, -1]] {
        refuse(kind::INDEX, &index(&[[1, 7, 44], second]), reason);
    }
    let reason = "place 2 of an index";
    refuse(
        kind::INDEX,
        &index(&[[0, 0, 44], [1, 1, 9], [1, 1, 0]]),
        reason,
    );
}

#[test]
fn places_that_contradict_the_file_are_not_used() {
    let mut sound = Sealed::of(&every_kind(1, true));
    // Its records get the places that they have when they are sealed again.
    sound.mutate(&[]);
    let at = sound.find(kind::INDEX);
    let Some((_, Record::Index(index))) =
        decoded::records(&sound.bytes()).find(|(_, record)| matches!(record, Record::Index(_)))
    else {
        panic!("no index");
    };
    let is_used = |change: &dyn Fn(&mut Index)| {
        let mut index = index.clone();
        change(&mut index);
        let mut sealed = sound.clone();
        sealed.records[at].payload = index_payload(&index, |offset| offset);
        let mut capture = Capture::new(Cursor::new(sealed.bytes())).unwrap();
        let info = capture.info();
        assert_eq!((info.frames, info.closed), (4, true));
        for i in 0..4 {
            assert!(capture.recovered(i).unwrap().has_all_spans(), "frame {i}");
        }
        info.indexed
    };
    assert!(is_used(&|_| {}));
    assert!(is_used(&|index| {
        index.seeks.remove(1);
    }));
    // Two frames between two numbers that are one apart.
    assert!(!is_used(&|index| {
        index.seeks.drain(1..3);
        index.seeks[1].index = index.seeks[0].index + 1;
    }));
    assert!(!is_used(&|index| index.seeks[3].index = 0));
    // Places before the records and behind them.
    assert!(!is_used(
        &|index| index.seeks[0].offset = HEADER_BYTES as u64 - 1
    ));
    assert!(!is_used(
        &|index| index.seeks[3].offset = index.tables_offset
    ));
    // No place for the first frame or for the last one.
    assert!(!is_used(&|index| {
        index.seeks.remove(0);
    }));
    assert!(!is_used(&|index| index.seeks.truncate(3)));
    assert!(!is_used(&|index| index.seeks[3].ordinal = 4));
    // A frame among the repeated tables, and tables that end before the index or behind it.
    let file = sound.bytes();
    let decoded = decoded::decode(&file, file.len()).unwrap();
    let of = |is_it: fn(&Record) -> bool| {
        let found = decoded
            .records
            .iter()
            .rev()
            .find(|found| found.record.as_ref().is_some_and(is_it));
        found.unwrap().bytes.start as u64
    };
    let frame = of(|record| matches!(record, Record::Frame(frame) if frame.frame_set == 0));
    let end = of(|record| matches!(record, Record::Index(_)));
    assert!(!is_used(&|index| index.tables_offset = frame));
    assert!(!is_used(
        &|index| index.tables_offset = index.tables_offset.midpoint(end)
    ));
    assert!(!is_used(&|index| index.tables_offset = end + 1));
    // Without tables there are no names.
    assert!(is_used(&|index| index.tables_offset = end));
}

#[test]
fn a_frame_may_have_records_on_both_sides_of_the_wrap_of_sequence_numbers() {
    let mut sealed = declarations();
    let frames = |sealed: &mut Sealed| {
        for records in [4, 1] {
            for _ in 0..records {
                let block = Payload::default().block(0, 2).numbers(&[1]);
                sealed.push(kind::BATCH, &block.0);
            }
            sealed.push(kind::FRAME, &frame_payload(records, 2 * records));
        }
    };
    let before = sealed.records.len();
    frames(&mut sealed);
    for (record, seq) in sealed.records[before..]
        .iter_mut()
        .zip(u32::MAX - 1..=u32::MAX)
    {
        record.seq = seq;
    }
    for (record, seq) in sealed.records[before + 2..].iter_mut().zip(0..) {
        record.seq = seq;
    }
    let file = sealed.bytes();
    invariants::records(&file);
    let decoded = decoded::decode(&file, file.len()).unwrap();
    let first_seqs = decoded
        .records
        .iter()
        .filter_map(|found| match &found.record {
            Some(Record::Frame(frame)) => Some(frame.first_seq),
            _ => None,
        });
    assert_eq!(first_seqs.collect::<Vec<_>>(), [u32::MAX - 1, 3]);
    let mut reader = Reader::new(&file[..]).unwrap();
    for spans in [8, 2] {
        let recovered = reader.next_recovered().unwrap().unwrap();
        assert_eq!(
            (recovered.lost_records, recovered.frame.span_count),
            (0, spans)
        );
        assert!(recovered.has_all_spans());
    }
    // The records that are missing before the wrap belong to no frame.
    assert_eq!(reader.damage().count, 1);
}

/// A closed file, whose end record is the last one.
fn closed() -> Sealed {
    let mut sealed = Sealed::of(&every_kind(1, true));
    assert_eq!(sealed.records.pop().unwrap().kind, kind::END);
    sealed
}

#[test]
fn a_last_record_that_is_no_end_record_does_not_close_a_file() {
    let index_offset = |file: &[u8]| {
        let (header, _) = Header::decode(file).unwrap().unwrap();
        parse_end(&header, file)
    };
    let end = Payload::default()
        .bytes(&44_u64.to_le_bytes())
        .bytes(b"VOR3END.");
    let with_last = |kind, codec, payload: &[u8]| {
        let mut sealed = closed();
        sealed.push(kind, payload);
        sealed.records.last_mut().unwrap().stated_codec = Some(codec);
        sealed.bytes()
    };
    let sound = with_last(kind::END, 0, &end.0);
    assert_eq!(index_offset(&sound), Some(44));
    let is_closed = |file: Vec<u8>| Capture::new(Cursor::new(file)).unwrap().info().closed;
    assert!(is_closed(sound.clone()));
    // Kinds and codecs of a later version, in records that look like an end record otherwise.
    for (kind, codec) in [(17, 0), (255, 0), (kind::END, 2), (kind::END, 1)] {
        let file = with_last(kind, codec, &end.0);
        assert_eq!(index_offset(&file), None, "kind {kind}, codec {codec}");
        assert!(!is_closed(file), "kind {kind}, codec {codec}");
    }
    // A length of another record, under a checksum of these bytes.
    for bytes in [0, 15, 17, 1000] {
        let mut sealed = closed();
        sealed.push(kind::END, &end.0);
        sealed.records.last_mut().unwrap().stated_bytes = Some(bytes);
        let file = sealed.bytes();
        assert_eq!(index_offset(&file), None, "{bytes} bytes");
        assert!(!is_closed(file), "{bytes} bytes");
    }
    // Each byte of the payload, under a checksum that was right before.
    for back in 1..=end.0.len() {
        let mut file = sound.clone();
        let at = file.len() - back;
        file[at] ^= 1;
        assert_eq!(index_offset(&file), None, "{back} bytes before the end");
        assert!(!is_closed(file), "{back} bytes before the end");
    }
    let mark = with_last(kind::END, 0, &[&end.0[..15], b","].concat());
    assert_eq!(index_offset(&mark), None, "another mark");
    for len in [0, RECORD_HEAD_BYTES, END_RECORD_BYTES - 1] {
        let (header, _) = Header::decode(&sound).unwrap().unwrap();
        assert_eq!(parse_end(&header, &sound[sound.len() - len..]), None);
    }
}

#[test]
fn a_wrong_end_mark_is_refused() {
    let end = |mark: &[u8]| Payload::default().bytes(&[0; 8]).bytes(mark);
    accept(kind::END, &end(b"VOR3END."));
    refuse(kind::END, &end(b"VOR3END,"), "not with the end mark");
    refuse(
        kind::END,
        &end(b"VOR3END.."),
        "1 bytes are left at the end of a payload",
    );
}

#[test]
fn a_byte_behind_the_last_field_is_refused() {
    let whole = declarations();
    for record in &whole.records {
        let longer = Payload(record.payload.clone()).bytes(&[0]);
        refuse(
            record.kind,
            &longer,
            "1 bytes are left at the end of a payload",
        );
    }
    let frame = Payload(frame_payload(0, 0)).bytes(&[0]);
    refuse(kind::FRAME, &frame, "1 bytes are left");
    let open = Payload::default().numbers(&[9, 0]);
    accept(kind::OPEN_SCOPES, &open);
    refuse(kind::OPEN_SCOPES, &open.bytes(&[0]), "1 bytes are left");
    let heap = Payload::default().numbers(&[9, 0, 0]);
    accept(kind::HEAP, &heap);
    refuse(kind::HEAP, &heap.bytes(&[0]), "1 bytes are left");
}

#[test]
fn a_payload_that_ends_too_early_is_refused() {
    for record in &declarations().records {
        for len in 0..record.payload.len() {
            refuse(record.kind, &Payload(record.payload[..len].to_vec()), "");
        }
    }
}

#[test]
fn numbers_of_more_than_64_bits_are_refused() {
    let clock = |ticks: &[u8]| Payload::default().bytes(ticks).bytes(&[0, 0, 0]);
    let mut number = [0xff; 10];
    number[9] = 1;
    accept(kind::CLOCK, &clock(&number));
    number[9] = 2;
    refuse(kind::CLOCK, &clock(&number), "is longer than 64 bits");
    refuse(kind::CLOCK, &clock(&[0x80; 11]), "is longer than 64 bits");
}

#[test]
fn a_wrong_text_is_refused() {
    let process = |name: &[u8]| {
        let payload = Payload::default().numbers(&[1, name.len() as u64]);
        payload.bytes(name).text("recorder")
    };
    accept(kind::PROCESS, &process("größe".as_bytes()));
    refuse(
        kind::PROCESS,
        &process(b"gr\xf6\xdfe"),
        "a text is not UTF-8",
    );
    accept(kind::PROCESS, &process(&[b'a'; 1 << 16]));
    let reason = "a count is 65537, more than 65536";
    refuse(kind::PROCESS, &process(&[b'a'; (1 << 16) + 1]), reason);
}

#[test]
fn a_wrong_lz4_block_is_refused() {
    const LZ4: u8 = 1;
    let process = Payload::default()
        .numbers(&[1])
        .text("name")
        .text("recorder")
        .0;
    let stored = |len: usize, raw: &[u8]| {
        let block = lz4_flex::block::compress(raw);
        Payload::default().numbers(&[len as u64]).bytes(&block).0
    };
    accept_stored(kind::PROCESS, LZ4, &stored(process.len(), &process));
    let longer = stored(process.len() + 1, &process);
    refuse_stored(kind::PROCESS, LZ4, &longer, "unpacks to");
    let shorter = stored(process.len() - 1, &process);
    refuse_stored(kind::PROCESS, LZ4, &shorter, "a payload is not LZ4");
    // A match before the first byte.
    let block = Payload::default()
        .numbers(&[20])
        .bytes(&[0x10, b'a', 9, 0])
        .0;
    refuse_stored(kind::PROCESS, LZ4, &block, "a payload is not LZ4");
    // The length is compared before memory is taken for it.
    let small = stored(255 * 40, &process);
    refuse_stored(kind::PROCESS, LZ4, &small, "bytes long, more than");
    let huge = stored(MAX_PAYLOAD_BYTES + 1, &vec![0; MAX_PAYLOAD_BYTES + 1]);
    refuse_stored(
        kind::BATCH,
        LZ4,
        &huge,
        "a payload is 4194305 bytes long, more than 4194304",
    );
}

#[test]
fn a_count_above_the_bytes_that_are_left_is_refused() {
    let block = |flag| Payload::default().block(flag, 0).numbers(&[9]);
    refuse(kind::BATCH, &block(MESSAGES), "a count is 9, more than 0");
    refuse(
        kind::BATCH,
        &block(TASKS).bytes(&[0; 12]),
        "a count is 9, more than 3",
    );
    let events = Payload::default().numbers(&[0, 9]).bytes(&[0; 8]);
    refuse(kind::EVENTS, &events, "a count is 9, more than 2");
    let flows = Payload::default().numbers(&[0, 0, 9]).bytes(&[0; 8]);
    refuse(kind::EVENTS, &flows, "a count is 9, more than 2");
    let heap = Payload::default().numbers(&[1, 0, 9]).bytes(&[0; 8]);
    refuse(kind::HEAP, &heap, "a count is 9, more than 2");
    let open = Payload::default().numbers(&[1, 9]).bytes(&[0; 8]);
    refuse(kind::OPEN_SCOPES, &open, "a count is 9, more than 4");
    let frame = Payload::default()
        .numbers(&[0; 8])
        .numbers(&[9])
        .bytes(&[0; 8]);
    refuse(kind::FRAME, &frame, "a count is 9, more than 4");
    let index = Payload::default()
        .bytes(&[0; 9])
        .numbers(&[9])
        .bytes(&[0; 8]);
    refuse(kind::INDEX, &index, "a count is 9, more than 2");
}

#[test]
fn a_capture_of_every_kind_has_each_kind_that_the_reference_knows() {
    let records = Sealed::of(&every_kind(1, true)).records;
    let found: BTreeSet<u8> = records.iter().map(|record| record.kind).collect();
    assert!(found.into_iter().eq(reference::KINDS));
    for kind in 0..=255 {
        let known = !matches!(reference::decode(kind, 0, &[]), Ok(None));
        assert_eq!(known, reference::KINDS.contains(&kind), "kind {kind}");
    }
}

#[test]
fn unknown_kinds_and_codecs_are_skipped() {
    for (kind, codec) in [
        (0, 0),
        (19, 0),
        // It is not unpacked either.
        (19, 1),
        (255, 0),
        (kind::BATCH, 2),
        (kind::CLOCK, 15),
    ] {
        let file = file_with(kind, codec, &[0xff; 20]);
        let decoded = decoded::decode(&file, file.len()).unwrap();
        assert!(decoded.refused.is_empty() && decoded.damage.is_empty());
        assert_eq!(decoded.records[decoded.records.len() - 2].record, None);
    }
}

#[test]
fn a_record_of_an_impossible_codec_or_size_is_damage() {
    for (codec, len) in [(16, 20), (0, MAX_PAYLOAD_BYTES + 1)] {
        let file = file_with(kind::BATCH, codec, &vec![0; len]);
        let decoded = decoded::decode(&file, file.len()).unwrap();
        let reasons: Vec<_> = decoded.damage.iter().map(|damage| damage.reason).collect();
        assert_eq!(
            reasons[0],
            DamageReason::Corrupt,
            "codec {codec}, {len} bytes"
        );
        assert_eq!(decoded.missing_records, 1);
    }
    let largest = file_with(17, 0, &[0; MAX_PAYLOAD_BYTES]);
    assert!(
        decoded::decode(&largest, largest.len())
            .unwrap()
            .damage
            .is_empty()
    );
}

#[test]
fn a_clock_that_is_not_later_is_not_declared() {
    let mut sealed = declarations();
    // The declarations have a clock of tick 1000.
    for ticks in [1000, 999, 2000, 2000, 1500] {
        let clock = Payload::default().numbers(&[ticks]).zigzag(9).numbers(&[3]);
        sealed.push(kind::CLOCK, &clock.zigzag(0).0);
    }
    let file = sealed.bytes();
    let mut reader = Reader::new(&file[..]).unwrap();
    assert!(reader.next_event().unwrap().is_none());
    let syncs = reader.catalog().unwrap().timeline.syncs();
    let ticks: Vec<u64> = syncs.iter().map(|sync| sync.ticks).collect();
    assert_eq!(ticks, [1000, 2000]);
}

#[test]
fn a_site_without_a_number_is_not_declared() {
    let site = |first| Payload::default().numbers(&[first, 1]).bytes(&[0; 7]);
    let Record::Sites { first, .. } = accept(kind::SITES, &site(0)) else {
        panic!("not a declaration of sites");
    };
    assert_eq!(first.0, 0);
    let mut catalog = Catalog::default();
    for (record, sites) in [(site(0), 0), (site(2), 2)] {
        assert!(accept(kind::SITES, &record).declare_into(&mut catalog));
        assert_eq!(catalog.sites.len(), sites);
    }
}

#[test]
fn declarations_beyond_the_last_id_do_not_grow_a_catalog() {
    let mut catalog = Catalog::default();
    for record in [
        Record::Sites {
            first: SiteId(u32::MAX),
            sites: vec![SiteInfo::default()],
        },
        Record::Threads {
            first: ThreadId(MAX_DECLARED_ID),
            threads: vec![ThreadInfo::default()],
        },
        Record::Columns {
            first: MAX_COLUMNS - 1,
            columns: vec![Column::default(); 2],
        },
        Record::FrameSets {
            first: MAX_FRAME_SETS,
            names: vec![String::new()],
        },
    ] {
        assert!(record.declare_into(&mut catalog));
        assert_eq!(catalog, Catalog::default());
    }
}

#[test]
fn a_payload_of_another_checksum_is_refused_wherever_it_comes_from() {
    let file = declarations().bytes();
    let (header, begin) = Header::decode(&file).unwrap().unwrap();
    let head = RecordHead::parse(&header, &file[begin..]).unwrap();
    let payload = &file[begin + RECORD_HEAD_BYTES..begin + head.record_bytes()];
    let found = decode_payload(&header, &head, payload).unwrap();
    assert!(matches!(found, Some(Record::Process(_))));
    let mut changed = payload.to_vec();
    changed[0] ^= 1;
    let error = decode_payload(&header, &head, &changed).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the checksum of a record is not"),
        "{error}"
    );
}

/// A file whose header has this length, and zeros behind the fields that are known.
fn with_header_of(len: u16) -> Vec<u8> {
    let file = declarations().bytes();
    let mut header = file[..HEADER_BYTES].to_vec();
    header[6..8].copy_from_slice(&len.to_le_bytes());
    header.resize(usize::from(len), 0);
    let body = usize::from(len) - 4;
    // The checksum of a known header is where a longer one has fields.
    header[HEADER_BYTES - 4..].fill(0);
    let checksum = crc32fast::hash(&header[..body]);
    header[body..].copy_from_slice(&checksum.to_le_bytes());
    header.extend_from_slice(&file[HEADER_BYTES..]);
    header
}

#[test]
fn a_header_has_44_to_4096_bytes() {
    let known = Header::decode(&declarations().bytes()).unwrap().unwrap().0;
    for len in [44, 45, 4096] {
        let file = with_header_of(len);
        let len = usize::from(len);
        assert_eq!(Header::decode(&file).unwrap(), Some((known, len)));
        assert_eq!(Header::decode(&file[..len - 1]).unwrap(), None);
        assert_eq!(
            decoded::records(&file).count(),
            declarations().records.len()
        );
        let sites = Capture::new(Cursor::new(file))
            .unwrap()
            .catalog()
            .sites
            .len();
        assert!(sites > 0, "the declarations behind a header of {len} bytes");
    }
    for len in [43, 42, 4097, u16::MAX] {
        let file = with_header_of(len);
        let error = Header::decode(&file).unwrap_err();
        let expected = format!("the length of the header is {len}, not 44 to 4096");
        assert!(error.to_string().contains(&expected), "{error}");
        // The length is refused before the bytes are there.
        assert!(Header::decode(&file[..8]).is_err());
    }
}
