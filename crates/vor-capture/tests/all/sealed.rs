//! Payloads that break a rule of the format under the right checksum: the decoder of the payload
//! refuses them, and nothing else can.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::time::{Duration, Instant};

use vor_capture::format::{
    DamageReason, MAX_COLUMNS, MAX_DECLARED_ID, MAX_FRAME_SETS, MAX_PAYLOAD_BYTES, Record,
};
use vor_capture::model::catalog::{Catalog, Column, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::reader::{Capture, Event, Reader};
use vor_fixtures::any_input;
use vor_fixtures::decoded;
use vor_fixtures::random::Random;
use vor_fixtures::sealed::{
    Mutation, Sealed, declarations, frame_payload, kind, put_varint, put_zigzag, seeds,
};

/// The longest time for one file of a few kilobytes; a file takes milliseconds.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Changes payloads of each seed, and calls `test` with the number of the case and the file.
fn for_mutations(cases: u64, mut test: impl FnMut(u64, &[u8])) {
    for (seed, capture) in seeds().iter().enumerate() {
        let whole = Sealed::of(capture);
        for case in 0..cases {
            let mut random = Random((seed as u64) << 32 | case);
            let mut sealed = whole.clone();
            let count = 1 + random.below(3);
            let mutations: Vec<_> = (0..count).map(|_| Mutation::random(&mut random)).collect();
            sealed.mutate(&mutations);
            println!("seed {seed}, case {case}: {mutations:?}");
            let begin = Instant::now();
            test(case, &sealed.bytes());
            assert!(begin.elapsed() < MAX_TIME, "{:?}", begin.elapsed());
        }
    }
}

#[test]
fn sealing_changes_no_contents() {
    for capture in seeds() {
        let mut sealed = Sealed::of(&capture);
        sealed.mutate(&[]);
        let sealed = sealed.bytes();
        let expected: Vec<_> = decoded::records(&capture).collect();
        assert_eq!(decoded::records(&sealed).count(), expected.len());
        for ((_, found), (_, expected)) in decoded::records(&sealed).zip(&expected) {
            if !matches!(found, Record::Index(_) | Record::End { .. }) {
                assert_eq!(format!("{found:?}"), format!("{expected:?}"));
            }
        }
        let [found, expected] = [sealed, capture].map(|file| {
            let capture = Capture::new(std::io::Cursor::new(file)).unwrap();
            let info = capture.info();
            (info.indexed, info.frames, info.damage.count)
        });
        assert_eq!(found, expected);
    }
}

#[test]
fn changed_payloads_are_decoded_as_the_format_says_or_refused() {
    for_mutations(500, |_, file| vor_fixtures::invariants::records(file));
}

#[test]
fn changed_payloads_are_read_in_all_ways() {
    for_mutations(100, |_, file| any_input::read_everything(file));
}

#[test]
fn changed_payloads_are_read_alike_while_the_file_grows() {
    for_mutations(50, |case, file| any_input::check_growing(file, case));
}

/// A payload that is written field by field.
#[derive(Clone, Default)]
struct Payload(Vec<u8>);

impl Payload {
    fn numbers(mut self, numbers: &[u64]) -> Self {
        numbers
            .iter()
            .for_each(|number| put_varint(&mut self.0, *number));
        self
    }

    fn zigzag(mut self, number: i64) -> Self {
        put_zigzag(&mut self.0, number);
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, text: &str) -> Self {
        self.numbers(&[text.len() as u64]).bytes(text.as_bytes())
    }

    /// A column of different numbers.
    fn column(mut self, numbers: &[u64]) -> Self {
        assert!(numbers.len() <= 256);
        self.0.push(64);
        numbers
            .iter()
            .for_each(|number| self.0.extend_from_slice(&number.to_le_bytes()));
        self
    }

    /// A column of equal numbers.
    fn equal(mut self, count: usize, number: u64) -> Self {
        for _ in 0..count.div_ceil(256) {
            self = self.bytes(&[0, 0]).numbers(&[number]);
        }
        self
    }

    /// The head of a block of the first thread, and the times of its spans.
    fn block(self, flags: u8, spans: usize) -> Self {
        let head = self.numbers(&[0]).bytes(&[1 | flags]);
        let head = head.numbers(&[spans as u64]);
        match spans {
            0 => head,
            _ => head.numbers(&[5000]).equal(spans, 3).equal(spans, 7),
        }
    }

    fn repeated(mut self, count: usize, bytes: &[u8]) -> Self {
        (0..count).for_each(|_| self.0.extend_from_slice(bytes));
        self
    }
}

const PACKED_SITES: u8 = 1 << 2;
const BYTE_SITES: u8 = 2 << 2;
const TREE: u8 = 1 << 1;
const ARGS: u8 = 1 << 4;
const MESSAGES: u8 = 1 << 5;
const TASKS: u8 = 1 << 7;

/// Makes a file of declarations, a record with this payload, and a frame of it.
fn file_with(kind: u8, codec: u8, stored: &[u8], spans: u64) -> Vec<u8> {
    let mut sealed = declarations();
    sealed.push(kind, stored);
    sealed.records.last_mut().unwrap().stated_codec = Some(codec);
    sealed.push(kind::FRAME, &frame_payload(1, spans));
    sealed.bytes()
}

/// Expects that a payload is refused for a reason, by the decoder and by the reader: it reports the
/// loss, and the frame behind it lacks a record.
#[track_caller]
fn refuse_stored(kind: u8, codec: u8, stored: &[u8], reason: &str) {
    let file = file_with(kind, codec, stored, 0);
    let refused = decoded::decode(&file, file.len()).unwrap().refused;
    assert_eq!(refused.len(), 1, "the payload is not refused for: {reason}");
    assert!(refused[0].is_corrupt());
    let found = refused[0].to_string();
    assert!(found.contains(reason), "{found}, not {reason}");
    let mut reader = Reader::new(&file[..]).unwrap();
    let Some(Event::Loss(loss)) = reader.next_event().unwrap() else {
        panic!("the loss is not reported");
    };
    assert_eq!(loss.reason, found);
    let Some(Event::Frame(recovered)) = reader.next_event().unwrap() else {
        panic!("the frame behind the loss is not read");
    };
    assert_eq!(recovered.lost_records, 1);
    assert_eq!(reader.damage().count, 1);
    vor_fixtures::invariants::records(&file);
}

#[track_caller]
fn refuse(kind: u8, payload: &Payload, reason: &str) {
    refuse_stored(kind, 0, &payload.0, reason);
}

/// Expects that a payload is decoded; returns the record.
#[track_caller]
fn accept_stored(kind: u8, codec: u8, stored: &[u8]) -> Record {
    let file = file_with(kind, codec, stored, 0);
    vor_fixtures::invariants::records(&file);
    let mut records: Vec<_> = decoded::records(&file).collect();
    let (_, record) = records.swap_remove(records.len() - 2);
    record
}

#[track_caller]
fn accept(kind: u8, payload: &Payload) -> Record {
    accept_stored(kind, 0, &payload.0)
}

#[test]
fn an_index_beyond_the_sites_of_a_block_is_refused() {
    let block = |flags| Payload::default().block(flags, 3).numbers(&[3, 1, 2, 3]);
    let packed = |bits| block(PACKED_SITES).bytes(&[bits]);
    accept(kind::BATCH, &packed(0b10_01_00));
    refuse(
        kind::BATCH,
        &packed(0b11_01_00),
        "site number 3 of a record that has 3",
    );
    let bytes = |last| block(BYTE_SITES).bytes(&[0, 1, last]);
    accept(kind::BATCH, &bytes(2));
    refuse(
        kind::BATCH,
        &bytes(3),
        "site number 3 of a record that has 3",
    );
    // No index has a site here.
    let none = Payload::default().block(PACKED_SITES, 3).numbers(&[0]);
    refuse(kind::BATCH, &none, "site number 0 of a record that has 0");
}

#[test]
fn a_site_that_is_not_declared_is_read() {
    let block = Payload::default().block(0, 2).numbers(&[900_000]);
    let Record::Batch(threads) = accept(kind::BATCH, &block) else {
        panic!("not a batch");
    };
    assert_eq!(threads[0].sites[1].0, 900_000);
}

#[test]
fn more_sites_than_spans_in_a_block_are_refused() {
    let block = Payload::default().block(BYTE_SITES, 2);
    accept(
        kind::BATCH,
        &block.clone().numbers(&[2, 1, 2]).bytes(&[0, 1]),
    );
    let more = block.numbers(&[3, 1, 2, 3]).bytes(&[0, 1]);
    refuse(kind::BATCH, &more, "a count is 3, more than 2");
}

#[test]
fn an_unknown_encoding_of_sites_is_refused() {
    let block = Payload::default().block(PACKED_SITES | BYTE_SITES, 1);
    let block = block.numbers(&[1, 1]).bytes(&[0]);
    refuse(kind::BATCH, &block, "the encoding of sites is 3");
}

#[test]
fn a_span_with_more_children_than_open_spans_is_refused() {
    let tree = |children: &[u64]| {
        let parents = children.iter().filter(|count| **count > 0).count();
        Payload::default()
            .numbers(&[0])
            .bytes(&[1 | TREE])
            .numbers(&[children.len() as u64, 5000])
            .column(children)
            .equal(children.len(), 10)
            .equal(children.len() - parents, 4)
            .equal(parents, 2)
            .numbers(&[1])
    };
    let Record::Batch(threads) = accept(kind::BATCH, &tree(&[0, 0, 2, 1])) else {
        panic!("not a batch");
    };
    assert_eq!(threads[0].start_ticks, [5010, 5024, 5008, 5006]);
    for (children, reason) in [
        (&[0, 2][..], "a span has 2 children, but only 1 spans"),
        (&[1, 0], "a span has 1 children, but only 0 spans"),
        (&[0, 0, 2, 2], "a span has 2 children, but only 1 spans"),
        (&[0, u64::MAX, 0], "children, but only 1 spans"),
    ] {
        refuse(kind::BATCH, &tree(children), reason);
    }
}

#[test]
fn arguments_of_no_span_are_refused() {
    let args = |args: &[u64]| {
        let block = Payload::default().block(ARGS, 2).numbers(&[1]);
        block.numbers(&[args.len() as u64 / 2]).numbers(args)
    };
    let Record::Batch(threads) = accept(kind::BATCH, &args(&[0, 0, 0, 0])) else {
        panic!("not a batch");
    };
    let spans: Vec<u32> = threads[0].args.iter().map(|args| args.span).collect();
    assert_eq!(spans, [0, 1]);
    let reason = "arguments of span 2 in a record of 2 spans";
    refuse(kind::BATCH, &args(&[2, 0]), reason);
    refuse(kind::BATCH, &args(&[0, 0, 1, 0]), reason);
    refuse(kind::BATCH, &args(&[u64::MAX, 0]), "in a record of 2 spans");
    refuse(
        kind::BATCH,
        &args(&[0, 0, u64::MAX, 0]),
        "in a record of 2 spans",
    );
    // The span of the block before is not one of this block.
    let two = Payload::default().block(0, 2).numbers(&[1]);
    let two = two.numbers(&[0]).bytes(&[ARGS]).numbers(&[1, 5000]);
    let two = two.equal(1, 3).equal(1, 7).numbers(&[1]);
    accept(kind::BATCH, &two.clone().numbers(&[1, 0, 0]));
    let reason = "arguments of span 1 in a record of 1 spans";
    refuse(kind::BATCH, &two.numbers(&[1, 1, 0]), reason);
}

#[test]
fn more_arguments_than_spans_are_refused() {
    let block = Payload::default().block(ARGS, 1).numbers(&[1]);
    let reason = "a count is 2, more than 1";
    refuse(kind::BATCH, &block.numbers(&[2, 0, 0, 0, 0]), reason);
}

#[test]
fn too_many_values_of_a_span_are_refused() {
    let values = |count| {
        let block = Payload::default().block(ARGS, 1).numbers(&[1, 1, 0]);
        block.numbers(&[count]).repeated(count as usize, &[0])
    };
    accept(kind::BATCH, &values(256));
    refuse(kind::BATCH, &values(257), "a count is 257, more than 256");
}

#[test]
fn too_many_values_of_a_record_are_refused() {
    let span = [&[0, 0x80, 2][..], &[1; 256]].concat();
    let block = |spans: usize| {
        let block = Payload::default().block(ARGS, spans).numbers(&[1]);
        block.numbers(&[spans as u64])
    };
    accept(kind::BATCH, &block(1024).repeated(1024, &span));
    let more = block(1025).repeated(1024, &span).bytes(&[0, 1, 1]);
    refuse(kind::BATCH, &more, "a count is 1, more than 0");
}

#[test]
fn an_unknown_type_of_an_argument_is_refused() {
    let value = |tag| {
        let block = Payload::default().block(ARGS, 1).numbers(&[1, 1, 0, 1]);
        block.bytes(&[tag, 0, 0])
    };
    let text = Payload(value(5).0);
    accept(kind::BATCH, &text);
    refuse(kind::BATCH, &value(6), "the type of an argument is 6");
}

#[test]
fn a_reference_to_no_text_is_refused() {
    let message = |reference: u64| {
        let block = Payload::default().block(MESSAGES, 0).numbers(&[2]);
        let block = block.zigzag(1).numbers(&[0]).text("one");
        block.zigzag(1).numbers(&[reference])
    };
    let Record::Batch(threads) = accept(kind::BATCH, &message(1)) else {
        panic!("not a batch");
    };
    assert_eq!(&*threads[0].messages[1].text, "one");
    refuse(
        kind::BATCH,
        &message(2),
        "a record of 1 texts refers to text 2",
    );
    let most = "refers to text 18446744073709551615";
    refuse(kind::BATCH, &message(u64::MAX), most);
}

#[test]
fn texts_of_the_record_before_are_not_known() {
    let mut sealed = declarations();
    let block = Payload::default()
        .block(MESSAGES, 0)
        .numbers(&[1])
        .zigzag(1);
    sealed.push(kind::BATCH, &block.clone().numbers(&[0]).text("one").0);
    sealed.push(kind::BATCH, &block.numbers(&[1]).0);
    let refused = decoded::decode(&sealed.bytes(), 1 << 16).unwrap().refused;
    let found: Vec<_> = refused.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["a record of 0 texts refers to text 1"]);
}

#[test]
fn a_block_that_continues_no_entry_is_refused() {
    let block = |thread, flags| Payload::default().numbers(&[thread]).bytes(&[flags, 0]);
    let two = |thread| Payload([block(0, 1).0, block(thread, 0).0].concat());
    accept(kind::BATCH, &two(0));
    refuse(kind::BATCH, &two(1), "a block continues thread 1");
    refuse(kind::BATCH, &block(0, 0), "a block continues thread 0");
}

#[test]
fn too_many_spans_of_a_block_are_refused() {
    accept(
        kind::BATCH,
        &Payload::default().block(0, 4096).numbers(&[1]),
    );
    let more = Payload::default().block(0, 4097).numbers(&[1]);
    refuse(kind::BATCH, &more, "a block has 4097 spans, more than 4096");
}

#[test]
fn too_many_spans_of_a_record_are_refused() {
    let block = Payload::default().block(0, 4096).numbers(&[1]);
    let full = Payload::default().repeated(64, &block.0);
    accept(kind::BATCH, &full);
    let more = full.block(0, 1).numbers(&[1]);
    refuse(kind::BATCH, &more, "a record has more than 262144 spans");
}

#[test]
fn too_many_entries_of_threads_are_refused() {
    let blocks = |count| Payload::default().repeated(count, &[0, 1, 0]);
    accept(kind::BATCH, &blocks(1 << 16));
    refuse(kind::BATCH, &blocks((1 << 16) + 1), "threads");
}

#[test]
fn too_many_messages_and_tasks_are_refused() {
    let most = 1 << 18;
    for (flag, item) in [(MESSAGES, &[0, 1][..]), (TASKS, &[0, 1, 0, 0])] {
        let items = |count: usize| {
            let payload = Payload::default().block(flag, 0);
            let payload = payload.numbers(&[count as u64]);
            match flag {
                MESSAGES => payload.bytes(&[0, 0, 0]).repeated(count - 1, item),
                _ => payload.repeated(count, item),
            }
        };
        accept_compressed(&items(most));
        refuse(
            kind::BATCH,
            &items(most + 1),
            "a count is 262145, more than 262144",
        );
        // Those of an earlier block count too.
        let two = Payload([items(2).0, items(most - 1).0].concat());
        refuse(kind::BATCH, &two, "a count is 262143, more than 262142");
    }
}

/// Expects that a large payload is decoded. The second decoder is too slow for it.
#[track_caller]
fn accept_compressed(payload: &Payload) {
    let mut sealed = declarations();
    sealed.push(kind::BATCH, &payload.0);
    assert!(
        decoded::decode(&sealed.bytes(), 1 << 20)
            .unwrap()
            .refused
            .is_empty()
    );
}

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
fn a_wrong_width_of_a_column_is_refused() {
    let block = |width: u8| {
        let payload = Payload::default()
            .numbers(&[0])
            .bytes(&[1])
            .numbers(&[1, 5000]);
        let payload = payload
            .bytes(&[width, 0, 9])
            .repeated(usize::from(width).div_ceil(8), &[1]);
        payload.equal(1, 2).numbers(&[1])
    };
    accept(kind::BATCH, &block(32));
    for width in [33, 63, 65, 255] {
        refuse(
            kind::BATCH,
            &block(width),
            &format!("are {width} bits wide"),
        );
    }
}

#[test]
fn an_exception_outside_of_its_group_is_refused() {
    let block = |at: u8| {
        let payload = Payload::default()
            .numbers(&[0])
            .bytes(&[1])
            .numbers(&[2, 5000]);
        payload.bytes(&[0, 1, 9, at, 3]).equal(2, 7).numbers(&[1])
    };
    let Record::Batch(threads) = accept(kind::BATCH, &block(1)) else {
        panic!("not a batch");
    };
    assert_eq!(threads[0].start_ticks, [5009, 5028]);
    refuse(kind::BATCH, &block(2), "an exception is at 2 of 2 values");
    refuse(
        kind::BATCH,
        &block(255),
        "an exception is at 255 of 2 values",
    );
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

/// Counts and times that no program reaches.
fn file_of_largest_numbers() -> Vec<u8> {
    let mut sealed = declarations();
    for index in 0..3 {
        let drops = Payload::default().numbers(&[0]).bytes(&[1 | 1 << 6]);
        let drops = drops.numbers(&[1, u64::MAX, u64::MAX]);
        let block = drops.equal(1, u64::MAX).equal(1, u64::MAX).numbers(&[1]);
        sealed.push(kind::BATCH, &[block.0.clone(), block.0].concat());
        let stack = |sites: &[u64]| {
            let stack = Payload::default().numbers(&[0, sites.len() as u64]);
            stack
                .numbers(sites)
                .numbers(&[u64::MAX, u64::MAX, u64::MAX])
        };
        let stack = |sites| stack(sites).bytes(&[0xff; 16]).0;
        let heap = Payload::default().numbers(&[u64::MAX, u64::MAX, 2]);
        let heap = heap.bytes(&stack(&[])).bytes(&stack(&[1]));
        sealed.push(kind::HEAP, &heap.0);
        let most = [u64::MAX; 3];
        let frame = Payload::default().numbers(&[index, 0, u64::MAX, u64::MAX, 2]);
        sealed.push(kind::FRAME, &frame.numbers(&most).numbers(&[0]).0);
    }
    sealed.bytes()
}

#[test]
fn sums_of_the_largest_numbers_do_not_overflow() {
    let file = file_of_largest_numbers();
    any_input::read_everything(&file);
    any_input::check_growing(&file, 1);
    let capture = Capture::new(std::io::Cursor::new(file)).unwrap();
    assert_eq!(capture.info().frames, 3);
    assert_eq!(capture.info().dropped_spans, u64::MAX);
}

#[test]
fn the_time_between_the_first_and_the_last_moment_does_not_overflow() {
    let mut sealed = declarations();
    for (ticks, unix_ns) in [(2000, i64::MIN), (3000, i64::MAX)] {
        let clock = Payload::default().numbers(&[ticks]).zigzag(unix_ns);
        sealed.push(kind::CLOCK, &clock.numbers(&[1 << 40]).zigzag(0).0);
    }
    let frame = Payload::default().numbers(&[0, 0, 2000, 1000, 2, 0, 0, 0, 0]);
    sealed.push(kind::FRAME, &frame.0);
    let file = sealed.bytes();
    any_input::read_everything(&file);
    let mut capture = Capture::new(std::io::Cursor::new(file)).unwrap();
    assert_eq!(capture.info().duration_ns, i64::MAX as u64);
    assert_eq!(capture.frame(0).unwrap().duration_ns(), i64::MAX);
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
        (255, 0),
        (kind::BATCH, 2),
        (kind::CLOCK, 15),
    ] {
        let file = file_with(kind, codec, &[0xff; 20], 0);
        let decoded = decoded::decode(&file, file.len()).unwrap();
        assert!(decoded.refused.is_empty() && decoded.damage.is_empty());
        assert_eq!(decoded.records[decoded.records.len() - 2].record, None);
    }
}

#[test]
fn a_record_of_an_impossible_codec_or_size_is_damage() {
    for (codec, len) in [(16, 20), (0, MAX_PAYLOAD_BYTES + 1)] {
        let file = file_with(kind::BATCH, codec, &vec![0; len], 0);
        let decoded = decoded::decode(&file, file.len()).unwrap();
        let reasons: Vec<_> = decoded.damage.iter().map(|damage| damage.reason).collect();
        assert_eq!(
            reasons[0],
            DamageReason::Corrupt,
            "codec {codec}, {len} bytes"
        );
        assert_eq!(decoded.missing_records, 1);
    }
    let largest = file_with(15, 0, &[0; MAX_PAYLOAD_BYTES], 0);
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
