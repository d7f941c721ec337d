//! The sinks that are on, and what happens when one fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::Error;
use crate::alloc::HeapSnapshot;
use crate::batch::SpanBatch;
use crate::catalog::Catalog;
use crate::frame::FrameSnapshot;
use crate::sink::{FrameSink, Interest};

/// All sinks, in the order in which they were added. A sink that fails or panics is reported once, switched off and counted.
#[derive(Default)]
pub(crate) struct Outputs {
    sinks: Vec<Output>,
    wants_trees: bool,
    failed: u64,
}

struct Output {
    name: String,
    number: u64,
    interest: Interest,
    /// Whether it writes a file of its own, and needs no other thread and no lock for that.
    #[cfg_attr(
        not(any(unix, windows)),
        expect(dead_code, reason = "in a browser no program ends alone")
    )]
    is_file: bool,
    sink: Box<dyn FrameSink>,
}

impl Outputs {
    pub(crate) fn add(&mut self, number: u64, name: String, sink: Box<dyn FrameSink>) {
        self.push(number, name, sink, false);
    }

    /// Adds a sink that writes a file of its own, and needs no other thread and no lock for that.
    pub(crate) fn add_file(&mut self, number: u64, name: String, sink: Box<dyn FrameSink>) {
        self.push(number, name, sink, true);
    }

    fn push(&mut self, number: u64, name: String, sink: Box<dyn FrameSink>, is_file: bool) {
        let interest = sink.interest();
        self.sinks.push(Output {
            name,
            number,
            interest,
            is_file,
            sink,
        });
        self.settle();
    }

    /// Returns whether a sink is on.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.sinks.iter().any(|output| output.number == number)
    }

    /// Ends one sink and takes it out. Returns whether it was on and ended well.
    pub(crate) fn remove(&mut self, number: u64) -> bool {
        self.each(|output| output.number == number, |output| output.sink.finish());
        // One that failed at its end is gone already.
        let ended_well = self.has(number);
        self.sinks.retain(|output| output.number != number);
        self.settle();
        ended_well
    }

    pub(crate) fn wants_trees(&self) -> bool {
        self.wants_trees
    }

    /// Returns whether a sink takes spans, as batches or in the trees of frames.
    pub(crate) fn want_spans(&self) -> bool {
        let wants = |output: &Output| output.interest.batches || output.interest.trees;
        self.sinks.iter().any(wants)
    }

    /// Returns whether a sink reads the metrics of frames.
    pub(crate) fn read_metrics(&self) -> bool {
        self.sinks.iter().any(|output| output.sink.reads_metrics())
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Asks every sink again what it needs. To be called where a frame begins, so that nobody gets half of one.
    pub(crate) fn ask_again(&mut self) {
        let ask = |output: &mut Output| {
            output.interest = output.sink.interest();
            Ok(())
        };
        self.each(|_| true, ask);
        self.settle();
    }

    pub(crate) fn accept_batch(&mut self, batch: &SpanBatch) {
        self.each(
            |output| output.interest.batches,
            |output| output.sink.accept_batch(batch),
        );
    }

    pub(crate) fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) {
        self.each(|_| true, |output| output.sink.accept_frame(frame));
    }

    pub(crate) fn accept_heap(&mut self, snapshot: &HeapSnapshot, catalog: &Arc<Catalog>) {
        self.each(|_| true, |output| output.sink.accept_heap(snapshot, catalog));
    }

    pub(crate) fn flush(&mut self) {
        self.each(|_| true, |output| output.sink.flush());
    }

    #[cfg(any(unix, windows))]
    pub(crate) fn finish(&mut self) {
        self.each(|_| true, |output| output.sink.finish());
        self.sinks.clear();
        self.settle();
    }

    /// Forgets, for the last thread of a process, the sinks that may wait for another. They are not dropped: that may wait as well.
    #[cfg(any(unix, windows))]
    pub(crate) fn give_up_others(&mut self) {
        let (files, others) = std::mem::take(&mut self.sinks)
            .into_iter()
            .partition(|output| output.is_file);
        self.sinks = files;
        std::mem::forget::<Vec<Output>>(others);
        self.settle();
    }

    /// Calls every sink that `concerns` picks, and takes out those that fail.
    fn each(
        &mut self,
        concerns: impl Fn(&Output) -> bool,
        mut call: impl FnMut(&mut Output) -> Result<(), Error>,
    ) {
        let before = self.sinks.len();
        self.sinks.retain_mut(|output| {
            if !concerns(output) {
                return true;
            }
            // A sink that panicked is dropped here and never looked at again, so what it left half done is seen by nobody.
            let result = catch_unwind(AssertUnwindSafe(|| call(output)));
            let reason = match result {
                Ok(Ok(())) => return true,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it panicked".to_owned(),
            };
            crate::drain::report::line(&format!("{} is switched off: {reason}", output.name));
            false
        });
        if self.sinks.len() != before {
            self.failed += (before - self.sinks.len()) as u64;
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.wants_trees = self.sinks.iter().any(|output| output.interest.trees);
    }
}
