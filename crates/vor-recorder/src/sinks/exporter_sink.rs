//! Wraps an exporter of `vor-export` as a sink of the recorder.

use std::sync::Arc;

use vor_capture::Error;
use vor_capture::model::batch::{OpenStarts, SpanBatch};
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::heap::HeapSnapshot;
use vor_capture::model::scheduler::SchedulerBatch;
use vor_capture::sink::{FrameSink, Interest};

/// An exporter, with a value that must live as long as it does.
#[derive(Debug)]
pub(super) struct ExporterSink<S, K> {
    pub(super) exporter: S,
    /// Whether the exporter only writes a file.
    pub(super) writes_file: bool,
    pub(super) _guard: K,
}

impl<S> ExporterSink<S, ()> {
    /// Wraps an exporter that only writes a file.
    pub(super) fn file(exporter: S) -> Self {
        Self {
            exporter,
            writes_file: true,
            _guard: (),
        }
    }
}

impl<S: FrameSink, K: Send> FrameSink for ExporterSink<S, K> {
    fn interest(&self) -> Interest {
        self.exporter.interest()
    }

    fn reads_metrics(&self) -> bool {
        self.exporter.reads_metrics()
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        self.exporter.accept_batch(batch)
    }

    fn wants_open(&self) -> bool {
        self.exporter.wants_open()
    }

    fn accept_open(&mut self, open: &OpenStarts) -> Result<(), Error> {
        self.exporter.accept_open(open)
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.exporter.accept_frame(frame)
    }

    fn accept_heap(
        &mut self,
        snapshot: &HeapSnapshot,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Error> {
        self.exporter.accept_heap(snapshot, catalog)
    }

    fn accept_scheduler(
        &mut self,
        batch: &SchedulerBatch,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Error> {
        self.exporter.accept_scheduler(batch, catalog)
    }

    fn takes_frames(&self) -> bool {
        self.exporter.takes_frames()
    }

    fn writes_file(&self) -> bool {
        self.writes_file
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.exporter.commit()
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.exporter.flush()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.exporter.finish()
    }
}
