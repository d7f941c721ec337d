//! Profiles of pprof: stacks with values, as `go tool pprof`, Pyroscope, Grafana and speedscope
//! read them.
//!
//! Each distinct stack of scopes is a sample, with the values that its spans have together *by
//! themselves*, without what is inside them: `wall`, and what the capture has of `cpu`, `cpu_user`,
//! `cpu_sys`, `off_cpu`, `alloc_objects` and `alloc_bytes` ([`measure`](vor_capture::model::measures)). A frame
//! is a call site, with its name, file and line; the thread's name is the label `thread`, and
//! threads of one name are one. Arguments become labels where that is asked for
//! ([`PprofExporter::label`]): of the span that has them, and of what runs inside.
//!
//! Nothing is sampled, so the period is 1 ns of `wall`. A scope that measures only its length
//! passes on what is measured inside it.
//!
//! Where tasks are polled, `wall` divides: `wall_busy` is what scopes ran, polls among them, and
//! `wall_idle` what tasks waited between their polls, as samples of their own under the name of the
//! task and of no thread. So `wall` is then the whole time of tasks too.
//!
//! Messages and metrics have no place in the format; how many spans are missing stands in a
//! comment. Memory is bounded by the number of distinct stacks and a temporary file may be needed,
//! as for [`collapsed`](super::collapsed) ones. Everything is written by
//! [`finish`](FrameSink::finish).
//!
//! A snapshot of the heap writes itself by [`HeapPprof::write_pprof`]; what else is not made of
//! spans is written with a [`ProfileBuilder`].

mod builder;
mod spans;
mod tasks;
mod heap;

use std::io::Write;
use std::sync::Arc;

pub use builder::{Frame, ProfileBuilder, SampleType};
pub use heap::{HEAP_TYPES, HeapPprof, snapshot_profile};
pub use spans::{SPAN_TYPES, SpanProfile, TASK_TYPES};

pub use crate::merged::{OpenSpan, OpenSpans};

use vor_capture::Error;
use vor_capture::model::batch::{OpenStarts, SpanBatch};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};

/// Writes a gzipped profile.
///
/// # Examples
///
/// ```
/// # use vor_capture::model::batch::SpanBatch;
/// use vor_export::pprof::PprofExporter;
/// use vor_capture::sink::FrameSink;
///
/// # let batch = SpanBatch::default();
/// let mut exporter = PprofExporter::new(Vec::new()).label("codec");
/// exporter.accept_batch(&batch)?;
/// exporter.finish()?;
/// assert_eq!(exporter.into_inner()[..2], [0x1f, 0x8b]);
/// # Ok::<(), vor_capture::Error>(())
/// ```
#[derive(Debug)]
pub struct PprofExporter<W: Write> {
    writer: W,
    labels: Vec<String>,
    profile: Option<SpanProfile>,
    dropped_spans: u64,
    finished: bool,
}

impl<W: Write> PprofExporter<W> {
    /// Makes an exporter; nothing is written before it is finished.
    pub fn new(writer: W) -> Self {
        Self {
            writer,
            labels: Vec::new(),
            profile: None,
            dropped_spans: 0,
            finished: false,
        }
    }

    /// Makes a label of the arguments of this name. To be called before the first batch.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>) -> Self {
        self.labels.push(name.into());
        self
    }

    /// Returns how many spans were lost because a ring was full.
    pub fn dropped_spans(&self) -> u64 {
        self.profile
            .as_ref()
            .map_or(self.dropped_spans, SpanProfile::dropped_spans)
    }

    /// Returns the writer. What was not finished before is lost.
    pub fn into_inner(self) -> W {
        self.writer
    }

    fn profile(&mut self) -> &mut SpanProfile {
        let labels = &mut self.labels;
        self.profile
            .get_or_insert_with(|| SpanProfile::new(std::mem::take(labels)))
    }
}

impl<W: Write + Send> FrameSink for PprofExporter<W> {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        if self.finished {
            return Err(Error::sink("the profile is already finished"));
        }
        self.profile().accept(batch)
    }

    fn wants_open(&self) -> bool {
        true
    }

    fn accept_open(&mut self, open: &OpenStarts) -> Result<(), Error> {
        self.profile().settle(open);
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        let profile = self.profile().finish()?;
        self.dropped_spans = self.dropped_spans();
        self.profile = None;
        let written = profile.write_gzipped(&mut self.writer);
        written.map_err(|error| Error::io("cannot write the profile", error))
    }
}
