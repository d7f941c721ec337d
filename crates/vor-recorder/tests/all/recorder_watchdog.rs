//! The watchdog as the program sets it.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vor_capture::model::batch::SpanBatch;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

/// Keeps the texts of messages.
#[derive(Clone, Default)]
struct MessagesSink(Arc<Mutex<Vec<String>>>);

impl FrameSink for MessagesSink {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), vor_capture::Error> {
        let messages = batch.threads.iter().flat_map(|thread| &thread.messages);
        let texts = messages.map(|message| message.text.to_string());
        self.0.lock().unwrap().extend(texts);
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        Ok(())
    }
}

/// The scope stays open until the report arrives, so a slow machine only reports it later.
#[test]
fn the_watchdog_of_the_settings_reports_a_scope_that_stays_open() {
    own_process!();
    let messages = MessagesSink::default();
    Config::new()
        .watchdog(Duration::from_millis(30))
        .sink("messages", messages.clone())
        .enable();
    profile_scope!("stays open");
    let begun = Instant::now();
    let reported = loop {
        let texts = messages.0.lock().unwrap().clone();
        if !texts.is_empty() {
            break texts;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "nothing is reported"
        );
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(
        reported[0].starts_with("stalled: `stays open` has been open for ")
            && reported[0].ends_with(", the limit is 30.0 ms"),
        "{reported:?}"
    );
}
