//! Frames read by puffin's own readers.
#![cfg(feature = "puffin")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::borrow::Cow;
use std::sync::Arc;

use puffin::{FrameData, GlobalFrameView, Reader, ScopeCollection, ScopeDetails, Stream};
use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, SpanArgs, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::model::frame::{FrameSnapshot, ThreadTree, TreeBuilder};
use vor_capture::model::timeline::{ClockSync, RATE_BITS, Timeline};
use vor_capture::sink::FrameSink;
use vor_fixtures::own_process;
use vor_recorder::sinks::puffin::{PuffinSink, frame_bytes};

const SITES: [&str; 5] = ["step", "read", "decode", "read", "größe"];

/// Two sites share the name `read`, and two threads share a name. A tick is about 0.37 ns, and its
/// rate changes in the middle.
fn catalog() -> Arc<Catalog> {
    let site = |(i, name): (usize, &&'static str)| {
        Some(Arc::new(filled!(SiteInfo {
            name: Cow::Borrowed(name),
            module_path: "app::codec".into(),
            file: format!("src/file{i}.rs").into(),
            line: 10 + i as u32,
            arg_names: vec!["bytes".into(), "codec".into()]
        })))
    };
    let thread = |name: &str, os_id| {
        Some(Arc::new(filled!(ThreadInfo {
            os_id,
            name: name.into(),
        })))
    };
    let rate = (1_u64 << RATE_BITS) * 37 / 100;
    let mut timeline = Timeline::default();
    let mut unix_ns = 1_700_000_000_000_000_000;
    for (ticks, rate) in [(1_000, rate), (500_000, rate + 12_345)] {
        if let Some(last) = timeline.syncs().last() {
            let passed = u128::from(ticks - last.ticks) * u128::from(last.rate);
            unix_ns = last.unix_ns + (passed >> RATE_BITS) as i64;
        }
        timeline.push(filled!(ClockSync {
            ticks,
            unix_ns,
            rate,
            wall_ns: unix_ns,
        }));
    }
    Arc::new(filled!(Catalog {
        timeline: Arc::new(timeline),
        sites: Arc::new(SITES.iter().enumerate().map(site).collect()),
        threads: Arc::new(vec![
            thread("main", 7),
            thread("worker", 8),
            thread("worker", 9),
            thread("", 10),
        ])
    }))
}

/// Nested spans from a small linear congruential generator, so every run tests the same ones.
fn frame(index: u64, seed: u64, threads: u32) -> FrameSnapshot {
    let mut state = seed;
    let mut draw = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let begin = 2_000 + index * 400_000;
    let mut end = begin;
    let mut builder = TreeBuilder::new(1 << 20);
    for thread in 0..threads {
        let mut batch = filled!(ThreadBatch {
            thread: ThreadId(thread)
        });
        let mut now = begin + draw(100);
        let mut open = Vec::new();
        for _ in 0..600 {
            now += draw(3) * draw(400);
            if draw(2) == 0 {
                open.push(now);
            } else if let Some(start) = open.pop() {
                if draw(4) == 0 {
                    let codec = ["lz4".to_owned(), "zstd, best".into(), "ä".repeat(100)];
                    let codec = codec[draw(3) as usize].as_str();
                    batch.args.push(filled!(SpanArgs {
                        span: batch.len() as u32,
                        values: vec![ArgValue::U64(draw(1_000)), ArgValue::Str(codec.into())],
                    }));
                }
                batch.start_ticks.push(start);
                batch.duration_ticks.push(now - start);
                // Site 6 was never declared.
                batch.sites.push(SiteId(1 + draw(6) as u32));
            }
        }
        end = end.max(now);
        builder.add(&batch);
    }
    let trees = builder.finish();
    filled!(FrameSnapshot {
        catalog: catalog(),
        index,
        start_ticks: begin,
        end_ticks: end,
        span_count: trees.span_count,
        threads: trees.threads
    })
}

/// A scope as puffin's reader returns it: start, duration, depth, details and data.
type DecodedScope = (i64, i64, u32, ScopeFacts, String);
type ScopeFacts = (String, String, u32);

fn facts(details: &ScopeDetails) -> ScopeFacts {
    (
        details.name().to_string(),
        details.file_path.to_string(),
        details.line_nr,
    )
}

fn read_scopes(
    stream: &Stream,
    offset: u64,
    depth: u32,
    scopes: &ScopeCollection,
    into: &mut Vec<DecodedScope>,
) {
    let reader = Reader::with_offset(stream, offset).expect("an offset inside the stream");
    for scope in reader {
        let scope = scope.expect("a valid scope");
        let details = scopes.fetch_by_id(&scope.id).expect("details of the scope");
        into.push((
            scope.record.start_ns,
            scope.record.duration_ns,
            depth,
            facts(details),
            scope.record.data.to_owned(),
        ));
        if scope.child_begin_position < scope.child_end_position {
            read_scopes(stream, scope.child_begin_position, depth + 1, scopes, into);
        }
    }
}

fn expected(frame: &FrameSnapshot, tree: &ThreadTree) -> Vec<DecodedScope> {
    let catalog = &frame.catalog;
    let see = |span: &vor_capture::model::frame::Span| {
        let start = catalog.unix_ns(span.start_ticks);
        let site = catalog.site(span.site);
        let mut data = match tree.args(span) {
            [ArgValue::U64(bytes), ArgValue::Str(codec)] => match site {
                Some(_) => format!("bytes={bytes}, codec={codec}"),
                None => format!("arg0={bytes}, arg1={codec}"),
            },
            _ => String::new(),
        };
        while data.len() > 127 {
            data.pop();
        }
        let facts = match site {
            Some(site) => (site.name.to_string(), site.file.to_string(), site.line),
            None => ("?".into(), String::new(), 0),
        };
        (
            start,
            catalog.unix_ns(span.end_ticks()) - start,
            span.depth,
            facts,
            data,
        )
    };
    tree.spans.iter().map(see).collect()
}

fn assert_shows(data: &FrameData, frame: &FrameSnapshot, scopes: &ScopeCollection) {
    let unpacked = data.unpacked().expect("a frame that unpacks");
    let catalog = &frame.catalog;
    assert_eq!(unpacked.thread_streams.len(), frame.threads.len());
    assert_eq!(data.meta().num_scopes as u64, frame.span_count);
    let boundaries = (
        catalog.unix_ns(frame.start_ticks),
        catalog.unix_ns(frame.end_ticks),
    );
    assert_eq!(data.range_ns(), boundaries);
    // Puffin orders threads by name, and equal names by start; ours start in the order of their
    // ids.
    let mut trees: Vec<&ThreadTree> = frame.threads.iter().collect();
    let label = |tree: &ThreadTree| match catalog.thread_name(tree.thread) {
        "" => format!(
            "thread {}",
            catalog.thread(tree.thread).map_or(0, |t| t.os_id)
        ),
        name => name.to_owned(),
    };
    for (info, stream) in &unpacked.thread_streams {
        let at = trees
            .iter()
            .position(|tree| label(tree) == info.name)
            .expect("a thread of ours");
        let expected = expected(frame, trees.remove(at));
        let mut seen = Vec::new();
        read_scopes(&stream.stream, 0, 0, scopes, &mut seen);
        assert_eq!(seen, expected);
        let deepest = expected.iter().map(|scope| scope.2 as usize + 1).max();
        assert_eq!(Some(stream.depth), deepest);
        assert_eq!(stream.num_scopes, expected.len());
    }
}

#[test]
fn frame_bytes_are_a_puffin_frame() {
    let mut file = Vec::new();
    let frames: Vec<FrameSnapshot> = (0..5).map(|i| frame(i, 11 + i, 1 + i as u32 % 4)).collect();
    for frame in &frames {
        file.extend(frame_bytes(frame).expect("a frame with spans"));
    }
    let mut read = file.as_slice();
    // One collection for all frames, as in a viewer of a file: ids must not change their meaning.
    let mut shared = ScopeCollection::default();
    for frame in &frames {
        let data = FrameData::read_next(&mut read)
            .expect("a valid frame")
            .expect("as many frames as were written");
        assert_eq!(data.frame_index(), frame.index);
        let mut alone = ScopeCollection::default();
        for details in &data.scope_delta {
            shared.insert(Arc::clone(details));
            alone.insert(Arc::clone(details));
        }
        assert_shows(&data, frame, &alone);
        assert_shows(&data, frame, &shared);
    }
    assert!(read.is_empty());
}

#[test]
fn a_frame_without_spans_has_no_bytes() {
    let empty = filled!(FrameSnapshot {
        threads: vec![ThreadTree::default()]
    });
    assert_eq!(frame_bytes(&empty), None);
}

#[test]
fn a_clock_that_goes_back_still_gives_a_readable_frame() {
    let mut timeline = Timeline::default();
    for (ticks, unix_ns) in [(0, 1_000_000), (500, 10)] {
        timeline.push(filled!(ClockSync {
            ticks,
            unix_ns,
            rate: 1 << RATE_BITS,
            wall_ns: unix_ns,
        }));
    }
    let mut frame = frame(0, 3, 1);
    frame.catalog = Arc::new(filled!(Catalog {
        timeline: Arc::new(timeline)
    }));
    frame.threads[0].spans.truncate(1);
    frame.threads[0].spans[0].subtree_len = 1;
    frame.threads[0].spans[0].start_ticks = 400;
    frame.threads[0].spans[0].duration_ticks = 200;
    let bytes = frame_bytes(&frame).expect("a frame with a span");
    let data = FrameData::read_next(&mut bytes.as_slice())
        .expect("a valid frame")
        .expect("one frame");
    let unpacked = data.unpacked().expect("a frame that unpacks");
    for stream in unpacked.thread_streams.values() {
        let scopes = Reader::from_start(&stream.stream).read_top_scopes();
        assert_eq!(scopes.expect("valid scopes")[0].record.duration_ns, 0);
    }
}

#[test]
fn the_global_frame_view_gets_our_frames_and_puffin_scopes() {
    // Puffin's reader opens scopes of its own, which must not be on while another test reads.
    own_process!();
    let view = GlobalFrameView::default();
    let mut sink = PuffinSink::new();
    let frames: Vec<Arc<FrameSnapshot>> = (0..4)
        .map(|i| Arc::new(frame(i, 100 + i, 1 + i as u32)))
        .collect();
    for frame in &frames {
        sink.accept_frame(frame).expect("a sink that cannot fail");
        let secondary = filled!(FrameSnapshot {
            frame_set: 1,
            ..FrameSnapshot::clone(frame)
        });
        sink.accept_frame(&Arc::new(secondary))
            .expect("a sink that cannot fail");
    }
    {
        let view = view.lock();
        let seen: Vec<_> = view.recent_frames().cloned().collect();
        assert_eq!(seen.len(), frames.len());
        for (data, frame) in seen.iter().zip(&frames) {
            assert_shows(data, frame, view.scope_collection());
        }
    }

    puffin::set_scopes_on(true);
    {
        puffin::profile_scope!("from_puffin");
    }
    puffin::set_scopes_on(false);
    let last = Arc::new(frame(9, 9, 1));
    sink.accept_frame(&last).expect("a sink that cannot fail");
    let view = view.lock();
    let data = view.latest_frame().expect("a frame");
    let unpacked = data.unpacked().expect("a frame that unpacks");
    let mut names = Vec::new();
    for stream in unpacked.thread_streams.values() {
        let mut seen = Vec::new();
        read_scopes(&stream.stream, 0, 0, view.scope_collection(), &mut seen);
        names.extend(seen.into_iter().map(|scope| scope.3.0));
    }
    assert_eq!(names.len() as u64, last.span_count + 1);
    assert!(names.iter().any(|name| name == "from_puffin"));
}
