//! Every thread records at full speed into small rings. Meanwhile, other threads start and end,
//! read the open scopes and flush.
//!
//! The test holds for a plain build, and gives the address and thread sanitizers work to check.
//! They check every ring, the hand-over of a thread's state to the next thread, and the stacks of
//! open scopes that other threads read.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vor_capture::Error;
use vor_capture::model::batch::{ArgValue, SpanBatch};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::hot::thread;
use vor_recorder::setup::Config;
use vor_recorder::{drain, message, profile_scope};

const WRITERS: u64 = 3;
const ROUNDS: u64 = 4_000;
const SHORT_LIVED: u64 = 60;

/// The text that the reader gets where the ring had no room for it.
const LOST_TEXT: &str = "(lost: the ring was full)";

/// Counts the received records, and checks that arguments belong to their spans.
struct Counting {
    spans: Arc<AtomicU64>,
    dropped: Arc<AtomicU64>,
}

impl FrameSink for Counting {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        for share in &batch.threads {
            self.spans.fetch_add(share.len() as u64, Ordering::Relaxed);
            self.dropped
                .fetch_add(share.dropped_spans, Ordering::Relaxed);
            for args in &share.args {
                let [ArgValue::U64(number), ArgValue::Str(text)] = &args.values[..] else {
                    return Err(Error::sink("the arguments differ from the recorded ones"));
                };
                if **text != *LOST_TEXT && **text != *format!("text {}", number % 7) {
                    return Err(Error::sink(format!(
                        "arguments of two spans mixed: {number}, {text:?}"
                    )));
                }
            }
        }
        Ok(())
    }

    fn accept_frame(&mut self, _frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }
}

/// Two spans.
fn record(number: u64, text: &str) {
    profile_scope!("outer");
    profile_scope!("inner", number = number, text = text);
}

#[test]
fn every_span_arrives_or_is_counted() {
    own_process!();
    let (spans, dropped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let sink = Counting {
        spans: Arc::clone(&spans),
        dropped: Arc::clone(&dropped),
    };
    Config::new()
        .ring_kib(16)
        .sink("the counting sink", sink)
        .enable();
    let texts: Vec<String> = (0..7).map(|n| format!("text {n}")).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let watcher = threads.spawn(|| {
            let mut seen = 0;
            while !done.load(Ordering::Relaxed) {
                for open in thread::open_scopes() {
                    seen += open.scopes.len();
                    assert!(open.scopes.len() <= 2, "{:?}", open.scopes);
                }
                drain::flush();
            }
            seen
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                threads.spawn(|| {
                    for number in 0..ROUNDS {
                        record(number, &texts[(number % 7) as usize]);
                    }
                })
            })
            .collect();
        for number in 0..SHORT_LIVED {
            let text = &texts[(number % 7) as usize];
            threads.spawn(move || record(number, text)).join().unwrap();
            drain::frame_mark();
            message!("thread {number}");
        }
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
    });
    drain::flush();
    assert_eq!(drain::failed_sinks(), 0);
    let (spans, dropped) = (
        spans.load(Ordering::Relaxed),
        dropped.load(Ordering::Relaxed),
    );
    let recorded = 2 * (WRITERS * ROUNDS + SHORT_LIVED);
    // A dropped record may also be a text or a message, so there may be more drops than missing
    // spans.
    assert!(spans <= recorded, "{spans} arrived of {recorded}");
    assert!(
        spans + dropped >= recorded,
        "{spans} arrived and {dropped} dropped of {recorded}"
    );
    assert!(spans >= 2 * SHORT_LIVED, "{spans} arrived of {recorded}");
}
