//! Every rule of a batch: a payload that breaks just that one is refused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use vor_capture::format::Record;
use vor_fixtures::decoded;
use vor_fixtures::payload::{
    ARGS, BYTE_SITES, DROPS, MESSAGES, PACKED_SITES, Payload, TASKS, TREE, accept, accept_large,
    refuse,
};
use vor_fixtures::sealed::{declarations, kind};

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
fn dropped_spans_of_all_blocks_of_an_entry_count() {
    let block = |flags: u8, dropped: u64| {
        Payload::default()
            .numbers(&[0])
            .bytes(&[flags, 0])
            .numbers(&[dropped])
    };
    let dropped = |first, second| {
        let two = [block(1 | DROPS, first).0, block(DROPS, second).0].concat();
        let Record::Batch(threads) = accept(kind::BATCH, &Payload(two)) else {
            panic!("not a batch");
        };
        assert_eq!(threads.len(), 1, "the second block continues the entry");
        threads[0].dropped_spans
    };
    assert_eq!(dropped(3, 4), 7);
    assert_eq!(dropped(u64::MAX, 4), u64::MAX);
}

#[test]
fn arguments_of_a_continuing_block_belong_to_its_own_spans() {
    let first = Payload::default().block(ARGS, 3).numbers(&[1]);
    // The spans 0 and 2 have arguments, of one value each.
    let first = first
        .numbers(&[2, 0, 1])
        .bytes(&[1])
        .numbers(&[1, 1])
        .bytes(&[0]);
    let second = Payload::default()
        .numbers(&[0])
        .bytes(&[ARGS])
        .numbers(&[4, 5000]);
    let second = second.equal(4, 3).equal(4, 7).numbers(&[1]);
    let second = second.numbers(&[2, 1, 0, 1, 0]);
    let both = Payload([first.0, second.0].concat());
    let Record::Batch(threads) = accept(kind::BATCH, &both) else {
        panic!("not a batch");
    };
    let spans: Vec<u32> = threads[0].args.iter().map(|args| args.span).collect();
    assert_eq!(spans, [0, 2, 3 + 1, 3 + 3]);
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
        accept_large(&items(most));
        refuse(
            kind::BATCH,
            &items(most + 1),
            "a count is 262145, more than 262144",
        );
        // Items of an earlier block count too.
        let two = Payload([items(2).0, items(most - 1).0].concat());
        refuse(kind::BATCH, &two, "a count is 262143, more than 262142");
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
fn texts_beyond_the_last_number_cannot_be_referenced() {
    let most = 1 << 18;
    let messages = Payload::default().block(MESSAGES, 0).numbers(&[most]);
    let messages = messages.repeated(most as usize, &[0, 0, 0]);
    let reference = |number| {
        let block = Payload::default().block(ARGS, 1).numbers(&[1, 1, 0, 2]);
        // One text more, and the reference.
        let block = block.bytes(&[5, 0]).text("last").bytes(&[5]);
        Payload([messages.0.clone(), block.numbers(&[number]).0].concat())
    };
    accept_large(&reference(most));
    let reason = "a record of 262144 texts refers to text 262145";
    refuse(kind::BATCH, &reference(most + 1), reason);
}
