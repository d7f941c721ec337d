//! A sink that keeps spans with their measured values.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use vor_capture::Error;
use vor_capture::model::batch::{ArgValue, SpanBatch};
use vor_capture::model::catalog::SiteInfo;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::measures::Measured;
use vor_capture::sink::{FrameSink, Interest};

/// Keeps the spans that it receives.
pub struct SpanSink(pub Arc<Mutex<Vec<Span>>>);

/// A recorded span.
pub struct Span {
    pub site: SiteInfo,
    pub args: Vec<ArgValue>,
    pub duration_ns: u64,
}

impl FrameSink for SpanSink {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        for thread in &batch.threads {
            for (i, &site) in thread.sites.iter().enumerate() {
                let args = thread.args.iter().find(|args| args.span as usize == i);
                let (start, duration) = (thread.start_ticks[i], thread.duration_ticks[i]);
                let ns = batch.catalog.unix_ns(start + duration) - batch.catalog.unix_ns(start);
                self.0.lock().unwrap().push(Span {
                    site: batch.catalog.site(site).unwrap().clone(),
                    args: args.map_or_else(Vec::new, |args| args.values.clone()),
                    duration_ns: ns as u64,
                });
            }
        }
        Ok(())
    }
}

impl Span {
    pub fn measured(&self) -> Measured {
        Measured::of(&self.site, &self.args)
    }
}
