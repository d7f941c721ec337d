//! The frames of a capture as bytes of puffin, read by puffin.
#![cfg(feature = "puffin")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up should stop"
)]

use vor_fixtures::make;
use vor_recorder::bridges::reader::Reader;

#[test]
fn flames_of_version_3_are_read_by_puffin() {
    let made = make(5, 20, 10, true);
    let mut reader = Reader::new(made.bytes.as_slice()).unwrap();
    for (frame, expected) in made
        .frames
        .iter()
        .map(|expected| (reader.next_frame().unwrap().unwrap(), expected))
    {
        assert_eq!(frame.flame.is_some(), expected.span_count > 0);
        let Some(flame) = &frame.flame else {
            continue;
        };
        let data = puffin::FrameData::read_next(&mut flame.as_slice())
            .unwrap()
            .unwrap();
        assert_eq!(data.meta().num_scopes as u64, expected.span_count);
        let parsed = vor_capture::format::v2::flame::parse(flame).unwrap();
        for tree in expected
            .threads
            .iter()
            .filter(|tree| !tree.spans.is_empty())
        {
            let name = expected.catalog.thread_name(tree.thread);
            let thread = parsed
                .threads
                .iter()
                .find(|thread| thread.name == name)
                .unwrap();
            for (span, found) in tree.spans.iter().zip(&thread.spans) {
                assert_eq!(found.start_ns, expected.catalog.unix_ns(span.start_ticks));
                assert_eq!(found.end_ns, expected.catalog.unix_ns(span.end_ticks()));
                assert_eq!(
                    (found.depth, found.subtree_len),
                    (span.depth, span.subtree_len)
                );
            }
        }
    }
}
