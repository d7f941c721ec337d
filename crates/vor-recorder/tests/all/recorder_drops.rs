//! A ring that is much too small: recorded and dropped records add up to those made, in batches,
//! frames and the capture.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vor_capture::model::batch::{ArgValue, SpanBatch};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::reader::{Event, Reader};
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::setup::Config;
use vor_recorder::{drain, message, profile_scope};

const THREADS: u64 = 4;
const SPANS: u64 = 200_000;

static IN_FRAMES: AtomicU64 = AtomicU64::new(0);

/// Adds up the spans and drops of the frames.
struct TotalsSink;

impl FrameSink for TotalsSink {
    fn interest(&self) -> Interest {
        Interest::METRICS
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        IN_FRAMES.fetch_add(frame.span_count + frame.dropped_spans, Ordering::Relaxed);
        Ok(())
    }
}

/// Makes records at full speed and returns their number. Texts are not separate records.
fn flat_out(thread: u64) -> u64 {
    for i in 0..SPANS / 4 {
        {
            profile_scope!("plain");
        }
        {
            profile_scope!("numbers", a = i, b = 1.5, c = true);
        }
        {
            profile_scope!(
                "text",
                number = i,
                text = if i % 2 == 0 {
                    "short"
                } else {
                    "a text of more than one slot of the ring"
                }
            );
        }
        message!("message {i} of {thread}");
    }
    SPANS
}

#[test]
fn recorded_and_dropped_add_up_to_made() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    Config::new()
        .ring_kib(4)
        .capture(&path)
        .sink("adds", TotalsSink)
        .enable();
    // Twice, so that rings with drops of an earlier thread are reused.
    for _ in 0..2 {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| std::thread::spawn(move || flat_out(thread)))
            .collect();
        let made: u64 = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum();
        assert_eq!(made, THREADS * SPANS);
        drain::flush();
    }
    drain::frame_mark();
    drain::flush();

    let (mut spans, mut messages, mut dropped, mut frame_drops, mut lost_texts) = (0, 0, 0, 0, 0);
    let mut check = |batch: SpanBatch| {
        for thread in &batch.threads {
            spans += thread.len() as u64;
            messages += thread.messages.len() as u64;
            dropped += thread.dropped_spans;
            for args in &thread.args {
                let name = batch.catalog.site_name(thread.sites[args.span as usize]);
                let [ArgValue::U64(number), rest @ ..] = &args.values[..] else {
                    panic!("{args:?}")
                };
                match (name, rest) {
                    ("numbers", [ArgValue::F64(1.5), ArgValue::Bool(true)]) => {}
                    ("text", [ArgValue::Str(text)]) if text.starts_with("(lost") => lost_texts += 1,
                    // Each text has its own number.
                    ("text", [ArgValue::Str(text)]) => {
                        assert_eq!(&**text == "short", number % 2 == 0)
                    }
                    _ => panic!("{name}: {args:?}"),
                }
            }
        }
    };
    let mut reader = Reader::open(&path).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Batch(batch) => check(batch),
            Event::Frame(recovered) => frame_drops += recovered.frame.dropped_spans,
            Event::Loss(loss) => panic!("{loss:?}"),
            _ => {}
        }
    }
    let made = 2 * THREADS * SPANS;
    println!("{made} made, {dropped} dropped, {lost_texts} texts lost");
    assert!(dropped > 0, "the ring is deliberately too small");
    assert_eq!(spans + messages + dropped, made);
    assert_eq!(
        frame_drops, dropped,
        "drops reach the frames of the capture"
    );
    assert_eq!(
        IN_FRAMES.load(Ordering::Relaxed) + messages,
        made,
        "drops reach the frames of the sinks"
    );
}
