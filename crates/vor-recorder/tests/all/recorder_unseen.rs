//! Records made while no sink takes spans, and those of them that later spans still need.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex};

use vor_capture::model::batch::{ArgValue, SpanBatch};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::setup::Config;
use vor_recorder::{drain, profile_scope};

/// A span's name and arguments.
type Span = (String, Vec<String>);

/// Keeps the spans that it takes, if it takes any, and the number of spans of each frame.
#[derive(Clone, Default)]
struct RecordingSink {
    takes: bool,
    spans: Arc<Mutex<Vec<Span>>>,
    frames: Arc<Mutex<Vec<u64>>>,
}

impl FrameSink for RecordingSink {
    fn interest(&self) -> Interest {
        if self.takes {
            Interest::BATCHES
        } else {
            Interest::METRICS
        }
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), vor_capture::Error> {
        for thread in &batch.threads {
            assert_eq!(thread.dropped_spans, 0);
            for i in 0..thread.len() {
                let values = thread.args.iter().find(|args| args.span == i as u32);
                let texts = values
                    .iter()
                    .flat_map(|args| &args.values)
                    .map(ArgValue::to_string);
                let name = batch.catalog.site_name(thread.sites[i]).to_owned();
                self.spans.lock().unwrap().push((name, texts.collect()));
            }
        }
        Ok(())
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        self.frames.lock().unwrap().push(frame.span_count);
        Ok(())
    }
}

#[test]
fn texts_recorded_without_a_sink_are_kept_until_their_spans_end() {
    own_process!();
    let config = Config::new();
    #[cfg(feature = "puffin")]
    let config = config.puffin(false);
    config.enable();
    let counts = RecordingSink::default();
    let _counts = drain::add_sink("counts", counts.clone());
    let (short, long) = ("kurz: äöü".to_owned(), "lang ".repeat(40));
    for _ in 0..3 {
        profile_scope!("unseen", text = short.as_str(), number = 7);
        vor_recorder::message!("nobody reads this");
    }
    let seen = RecordingSink {
        takes: true,
        ..RecordingSink::default()
    };
    let _handle;
    {
        profile_scope!("outer", text = short.as_str());
        {
            profile_scope!("inner", text = long.as_str(), number = 8);
            {
                profile_scope!("also unseen", text = long.as_str());
            }
            // The texts of the two open scopes are read now.
            drain::flush();
            drain::frame_mark();
            drain::flush();
            _handle = drain::add_sink("seen", seen.clone());
        }
        drain::flush();
    }
    drain::frame_mark();
    drain::flush();
    let spans = seen.spans.lock().unwrap();
    let expected = [
        ("inner".to_owned(), vec![long.clone(), "8".to_owned()]),
        ("outer".to_owned(), vec![short.clone()]),
    ];
    assert_eq!(*spans, expected);
    assert_eq!(*counts.frames.lock().unwrap(), [4, 2]);
}
