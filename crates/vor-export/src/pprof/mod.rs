//! Profiles of pprof: stacks with values, for `go tool pprof`, Pyroscope, Grafana and speedscope.
//!
//! Each distinct stack of scopes is a sample. Its values are the sums over its spans *without*
//! their children: `wall`, and as far as the capture has them `cpu`, `cpu_user`, `cpu_sys`,
//! `off_cpu`, its parts `wall_runqueue` and `wall_blocked`, `alloc_objects` and `alloc_bytes`
//! ([`measures`](vor_capture::model::measures)). A frame is a call site, with its name, file and
//! line. The thread's name is the label `thread`, and threads with one name are merged.
//! [`PprofExporter::label`] makes labels of arguments, for the span that has them and for
//! everything inside it.
//!
//! Nothing is sampled, so the period is 1 ns of `wall`. A scope that measures only its duration
//! passes the measures of its children on to its parent.
//!
//! If the capture has polled tasks, `wall` is the sum of two values: `wall_busy` is the time of
//! scopes, including polls, and `wall_idle` the time that tasks waited between their polls. The
//! latter are separate samples with the name of the task and without a thread. So `wall` also
//! includes the whole time of tasks.
//!
//! The format has no messages or metrics; a comment has the number of missing spans. Memory is
//! bounded by the number of distinct stacks. As for [`collapsed`](super::collapsed) stacks, a
//! temporary file may be necessary. [`finish`](FrameSink::finish) writes everything.
//!
//! [`HeapPprof::write_pprof`] writes a snapshot of the heap; a [`ProfileBuilder`] makes any other
//! profile.

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
    /// Makes an exporter; only [`finish`](FrameSink::finish) writes.
    pub fn new(writer: W) -> Self {
        Self {
            writer,
            labels: Vec::new(),
            profile: None,
            dropped_spans: 0,
            finished: false,
        }
    }

    /// Makes a label of the arguments with this name. Call it before the first batch.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>) -> Self {
        self.labels.push(name.into());
        self
    }

    /// Returns the number of spans that were lost because a ring was full.
    pub fn dropped_spans(&self) -> u64 {
        self.profile
            .as_ref()
            .map_or(self.dropped_spans, SpanProfile::dropped_spans)
    }

    /// Returns the writer. It has received nothing unless the exporter was finished before.
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
