//! The active sinks, and the handling of sinks that fail.
//!
//! If vor gives up a file because its reader is slow, the file lacks everything from then on. The
//! loss is counted, and reported at the end.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use vor_capture::Error;
use vor_capture::model::batch::{OpenStarts, SpanBatch, ThreadBatch};
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::heap::HeapSnapshot;
use vor_capture::model::scheduler::SchedulerBatch;
use vor_capture::sink::{FrameSink, Interest};

use crate::os::report;

/// All sinks, in the order in which they were added. A sink that fails or panics is reported once,
/// switched off and counted.
#[derive(Default)]
pub(crate) struct Outputs {
    sinks: Vec<Output>,
    wants_trees: bool,
    /// Whether files may gather records until the pass ends. They may if no foreign code runs in
    /// between, which may be slow or crash.
    may_gather: bool,
    failed: u64,
    losses: Vec<Loss>,
    /// Sinks that were removed.
    ended: Vec<Box<dyn FrameSink>>,
    /// Spans and frames accepted since the last commit; a file that fails may not have written
    /// them.
    uncommitted: (u64, u64),
}

struct Output {
    name: String,
    number: u64,
    interest: Interest,
    takes_frames: bool,
    /// Whether it only writes a file, which needs no other thread and no lock.
    is_file: bool,
    sink: Box<dyn FrameSink>,
}

/// The loss of a file whose reader was given up: its unwritten records, and everything after them.
struct Loss {
    name: String,
    number: u64,
    spans: u64,
    frames: u64,
}

impl Loss {
    fn report(&self) {
        let Self {
            name,
            spans,
            frames,
            ..
        } = self;
        report::line(&format!(
            "{name} is incomplete: it was switched off before the last {spans} spans and {frames} \
            frames"
        ));
    }
}

impl Outputs {
    pub(crate) fn add(&mut self, number: u64, name: String, sink: Box<dyn FrameSink>) {
        let (interest, takes_frames) = (sink.interest(), sink.takes_frames());
        let is_file = sink.writes_file();
        self.sinks.push(Output {
            name,
            number,
            interest,
            takes_frames,
            is_file,
            sink,
        });
        self.settle();
    }

    /// Returns whether a sink is on.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.sinks.iter().any(|output| output.number == number)
    }

    /// Returns the names of the sinks.
    #[cfg(all(feature = "live", not(target_family = "wasm")))]
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.sinks.iter().map(|output| output.name.clone());
        names.collect()
    }

    /// Ends one sink and removes it. Returns whether it was on and ended well.
    pub(crate) fn remove(&mut self, number: u64) -> bool {
        self.each(&|output| output.number == number, &mut |output| {
            output.sink.finish()
        });
        // A sink that failed at its end is already removed.
        let ended_well = self.has(number);
        let removed = self.sinks.extract_if(.., |output| output.number == number);
        self.ended.extend(removed.map(|output| output.sink));
        for loss in self.losses.extract_if(.., |loss| loss.number == number) {
            loss.report();
        }
        self.settle();
        ended_well
    }

    pub(crate) fn wants_trees(&self) -> bool {
        self.wants_trees
    }

    /// Returns whether a sink takes spans, as batches or in the trees of frames, or whether a
    /// failed file's lost spans are being counted.
    pub(crate) fn want_spans(&self) -> bool {
        let wants = |output: &Output| output.interest.batches || output.interest.trees;
        self.sinks.iter().any(wants) || !self.losses.is_empty()
    }

    /// Returns whether a sink reads the metrics of frames.
    pub(crate) fn read_metrics(&self) -> bool {
        self.sinks.iter().any(|output| output.sink.reads_metrics())
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Reads every sink's interest again. Must be called where a frame begins, so that no sink gets
    /// half a frame.
    pub(crate) fn refresh_interest(&mut self) {
        let mut refresh = |output: &mut Output| {
            output.interest = output.sink.interest();
            output.takes_frames = output.sink.takes_frames();
            Ok(())
        };
        self.each(&|_| true, &mut refresh);
        self.settle();
    }

    /// Returns whether a sink takes frames, or whether a failed file's lost frames are being
    /// counted.
    pub(crate) fn take_frames(&self) -> bool {
        self.sinks.iter().any(|output| output.takes_frames) || !self.losses.is_empty()
    }

    pub(crate) fn accept_batch(&mut self, batch: &SpanBatch) {
        let dropped = |thread: &ThreadBatch| thread.dropped_spans;
        let dropped: u64 = batch.threads.iter().map(dropped).sum();
        let spans = (batch.span_count() + batch.async_span_count()) as u64 + dropped;
        self.count(spans, 0);
        self.each_in_pass(&|output| output.interest.batches, &mut |sink| {
            sink.accept_batch(batch)
        });
    }

    /// Counts spans and frames that the sinks are about to accept.
    fn count(&mut self, spans: u64, frames: u64) {
        if !self.may_gather {
            self.uncommitted = (0, 0);
        }
        self.uncommitted.0 += spans;
        self.uncommitted.1 += frames;
        for loss in &mut self.losses {
            loss.spans += spans;
            loss.frames += frames;
        }
    }

    /// Returns whether a sink wants the open scopes.
    pub(crate) fn want_open(&self) -> bool {
        self.sinks.iter().any(|output| output.sink.wants_open())
    }

    pub(crate) fn accept_open(&mut self, open: &OpenStarts) {
        self.each_in_pass(
            &|output| output.interest.batches && output.sink.wants_open(),
            &mut |sink| sink.accept_open(open),
        );
    }

    pub(crate) fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) {
        self.count(0, 1);
        self.each_in_pass(&|output| output.takes_frames, &mut |sink| {
            sink.accept_frame(frame)
        });
    }

    /// Makes every sink write the records that it gathered in a pass.
    pub(crate) fn commit(&mut self) {
        self.each(&|_| true, &mut |output| output.sink.commit());
        self.uncommitted = (0, 0);
    }

    /// Calls every sink that `concerns` selects; files may gather what they receive.
    fn each_in_pass(
        &mut self,
        concerns: &dyn Fn(&Output) -> bool,
        call: &mut dyn FnMut(&mut dyn FrameSink) -> Result<(), Error>,
    ) {
        let may_gather = self.may_gather;
        self.each(concerns, &mut |output| {
            call(&mut *output.sink)?;
            if may_gather {
                Ok(())
            } else {
                output.sink.commit()
            }
        });
    }

    pub(crate) fn accept_heap(&mut self, snapshot: &HeapSnapshot, catalog: &Arc<Catalog>) {
        self.each(&|_| true, &mut |output| {
            output.sink.accept_heap(snapshot, catalog)
        });
    }

    pub(crate) fn accept_scheduler(&mut self, batch: &SchedulerBatch, catalog: &Arc<Catalog>) {
        self.each(&|_| true, &mut |output| {
            output.sink.accept_scheduler(batch, catalog)
        });
    }

    pub(crate) fn flush(&mut self) {
        self.each(&|_| true, &mut |output| output.sink.flush());
    }

    #[cfg(any(unix, windows))]
    pub(crate) fn finish(&mut self) {
        self.each(&|_| true, &mut |output| output.sink.finish());
        self.ended
            .extend(self.sinks.drain(..).map(|output| output.sink));
        self.losses.drain(..).for_each(|loss| loss.report());
        self.settle();
    }

    /// Removes, for the last thread of a process, the sinks that may wait for another thread. They
    /// are not dropped, since a drop may wait as well.
    #[cfg(any(unix, windows))]
    pub(crate) fn keep_files_only(&mut self) {
        let (files, others) = std::mem::take(&mut self.sinks)
            .into_iter()
            .partition(|output| output.is_file);
        self.sinks = files;
        std::mem::forget::<Vec<Output>>(others);
        self.settle();
    }

    /// Returns the sinks that were removed since the last call. Drop them without the engine's
    /// lock: a sink may wait for a thread that needs the engine.
    #[must_use]
    pub(crate) fn take_ended(&mut self) -> Vec<Box<dyn FrameSink>> {
        std::mem::take(&mut self.ended)
    }

    /// Calls every sink that `concerns` selects, and removes those that fail.
    fn each(
        &mut self,
        concerns: &dyn Fn(&Output) -> bool,
        call: &mut dyn FnMut(&mut Output) -> Result<(), Error>,
    ) {
        let before = self.sinks.len();
        let (spans, frames) = self.uncommitted;
        let has_failed = |output: &mut Output| {
            if !concerns(output) {
                return false;
            }
            // A sink that panicked is only dropped after this, so nothing sees its broken state.
            let result = catch_unwind(AssertUnwindSafe(|| call(output)));
            let reason = match result {
                Ok(Ok(())) => return false,
                Ok(Err(error)) => {
                    if output.is_file && error.io_kind() == Some(ErrorKind::TimedOut) {
                        self.losses.push(Loss {
                            name: output.name.clone(),
                            number: output.number,
                            spans,
                            frames,
                        });
                    }
                    error.to_string()
                }
                Err(_) => "it panicked".to_owned(),
            };
            report::line(&format!("{} is switched off: {reason}", output.name));
            true
        };
        let failed = self.sinks.extract_if(.., has_failed);
        self.ended.extend(failed.map(|output| output.sink));
        if self.sinks.len() != before {
            self.failed += (before - self.sinks.len()) as u64;
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.wants_trees = self.sinks.iter().any(|output| output.interest.trees);
        let is_called = |output: &&Output| output.takes_frames || output.interest.batches;
        self.may_gather = self
            .sinks
            .iter()
            .filter(is_called)
            .all(|output| output.is_file);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use vor_capture::filled;
    use vor_capture::model::batch::AsyncSpan;
    use vor_capture::model::catalog::SiteId;

    use super::*;

    /// Records each call.
    struct Notes(Arc<Mutex<String>>);

    impl FrameSink for Notes {
        fn interest(&self) -> Interest {
            Interest::BATCHES
        }

        fn accept_batch(&mut self, _: &SpanBatch) -> Result<(), Error> {
            self.0.lock().unwrap().push('b');
            Ok(())
        }

        fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
            self.0.lock().unwrap().push('f');
            Ok(())
        }

        fn writes_file(&self) -> bool {
            true
        }

        fn commit(&mut self) -> Result<(), Error> {
            self.0.lock().unwrap().push('.');
            Ok(())
        }
    }

    struct Other {
        takes_frames: bool,
    }

    impl FrameSink for Other {
        fn interest(&self) -> Interest {
            Interest::METRICS
        }

        fn takes_frames(&self) -> bool {
            self.takes_frames
        }

        fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
            assert!(self.takes_frames);
            Ok(())
        }
    }

    /// A file whose reader has stopped.
    struct Stuck;

    impl FrameSink for Stuck {
        fn interest(&self) -> Interest {
            Interest::BATCHES
        }

        fn accept_batch(&mut self, _: &SpanBatch) -> Result<(), Error> {
            Ok(())
        }

        fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
            Err(Error::io("a pipe", ErrorKind::TimedOut.into()))
        }

        fn writes_file(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_file_whose_reader_stopped_lacks_all_spans_since_the_last_commit() {
        let mut outputs = Outputs::default();
        outputs.add(1, "pipe".into(), Box::new(Stuck));
        let batch = filled!(SpanBatch {
            threads: vec![filled!(ThreadBatch {
                start_ticks: vec![1, 2],
                duration_ticks: vec![1, 1],
                sites: vec![SiteId(1); 2],
                async_spans: vec![AsyncSpan::default()],
                dropped_spans: 5
            })]
        });
        outputs.accept_batch(&batch);
        outputs.commit();
        outputs.accept_batch(&batch);
        outputs.accept_frame(&Arc::default());
        let losses = |outputs: &Outputs| {
            let losses = outputs.losses.iter().map(|loss| (loss.spans, loss.frames));
            losses.collect::<Vec<_>>()
        };
        assert_eq!(losses(&outputs), [(2 + 1 + 5, 1)]);
        assert_eq!(outputs.failed(), 1);
        outputs.accept_batch(&batch);
        outputs.accept_frame(&Arc::default());
        assert_eq!(losses(&outputs), [(2 * 8, 2)]);
    }

    #[test]
    fn files_gather_until_the_pass_ends_unless_foreign_code_runs_in_between() {
        let notes = Arc::<Mutex<String>>::default();
        let mut outputs = Outputs::default();
        outputs.add(1, "file".into(), Box::new(Notes(Arc::clone(&notes))));
        let pass = |outputs: &mut Outputs| {
            outputs.refresh_interest();
            for _ in 0..2 {
                outputs.accept_batch(&SpanBatch::default());
                outputs.accept_frame(&Arc::default());
            }
            outputs.commit();
            std::mem::take(&mut *notes.lock().unwrap())
        };
        assert_eq!(pass(&mut outputs), "bfbf.");
        for (takes_frames, expected) in [(false, "bfbf."), (true, "b.f.b.f..")] {
            outputs.add(2, "other".into(), Box::new(Other { takes_frames }));
            assert_eq!(
                pass(&mut outputs),
                expected,
                "another takes frames: {takes_frames}"
            );
            assert!(outputs.remove(2));
        }
        assert_eq!(
            (pass(&mut outputs).as_str(), outputs.failed()),
            ("bfbf.", 0)
        );
    }
}
