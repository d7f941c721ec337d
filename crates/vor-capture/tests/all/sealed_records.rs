//! Every rule of the records that are no batches, and of numbers, texts and LZ4 blocks: a payload
//! that breaks just that one is refused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use vor_capture::format::{
    DamageReason, Header, MAX_COLUMNS, MAX_DECLARED_ID, MAX_FRAME_SETS, MAX_PAYLOAD_BYTES,
    RECORD_HEAD_BYTES, Record, RecordHead, decode_payload,
};
use vor_capture::model::catalog::{Catalog, Column, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::reader::Reader;
use vor_fixtures::decoded;
use vor_fixtures::payload::{
    MESSAGES, Payload, TASKS, accept, accept_stored, file_with, refuse, refuse_stored,
};
use vor_fixtures::sealed::{declarations, frame_payload, kind};

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
    let stacks = |shared| Payload::default().numbers(&[1, 0, 2, 0, 1, 1, 3, 3, shared, 0, 2, 2]);
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
        payload.repeated(stacks - 1, &[0x80, 2, 0, 1, 1])
    };
    accept(kind::HEAP, &shared(1024));
    refuse(kind::HEAP, &shared(1025), "more than 262144 scopes");
    let stacks = |count: usize| {
        let payload = Payload::default().numbers(&[1, 0, count as u64]);
        payload.repeated(count, &[0, 0, 1, 1])
    };
    accept(kind::HEAP, &stacks(1 << 16));
    refuse(
        kind::HEAP,
        &stacks((1 << 16) + 1),
        "a count is 65537, more than 65536",
    );
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
fn unknown_kinds_and_codecs_are_skipped() {
    for (kind, codec) in [
        (0, 0),
        (15, 0),
        // It is not unpacked either.
        (15, 1),
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
    let largest = file_with(15, 0, &[0; MAX_PAYLOAD_BYTES]);
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
