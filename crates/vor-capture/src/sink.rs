//! The trait of all outputs: a sink takes batches and frames of the model, and nothing else.

use std::sync::Arc;

use crate::Error;
use crate::model::batch::{OpenStarts, SpanBatch};
use crate::model::catalog::Catalog;
use crate::model::frame::FrameSnapshot;
use crate::model::heap::HeapSnapshot;
use crate::model::scheduler::SchedulerBatch;

/// Receives batches and frames from the drain, on the drain's thread.
///
/// A sink that returns an error is reported once, switched off and counted; the others go on.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use vor_capture::Error;
/// use vor_capture::model::frame::FrameSnapshot;
/// use vor_capture::sink::FrameSink;
///
/// struct SlowFrames;
///
/// impl FrameSink for SlowFrames {
///     fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
///         if frame.duration_ns() > 20_000_000 {
///             println!("frame {}: {} spans", frame.index, frame.span_count);
///         }
///         Ok(())
///     }
/// }
/// ```
///
/// A program that uses vor switches it on with `vor::Config::new().sink("slow frames",
/// SlowFrames).enable()`.
pub trait FrameSink: Send {
    /// Returns what the sink needs. Called before anything is delivered, and again where a frame
    /// begins: the result may change.
    fn interest(&self) -> Interest {
        Interest::FRAMES
    }

    /// Returns whether the sink reads the metrics of frames. The rows of GPUs cost time in a
    /// driver, so they are read only while some sink does.
    fn reads_metrics(&self) -> bool {
        true
    }

    /// Takes the batch of one drain. Called only with [`Interest::batches`].
    ///
    /// # Errors
    ///
    /// Any error switches the sink off.
    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        let _ = batch;
        Ok(())
    }

    /// Returns whether the sink needs the open scopes, by [`accept_open`](Self::accept_open).
    fn wants_open(&self) -> bool {
        false
    }

    /// Takes which scopes were open at a moment, once all that had ended by then was delivered.
    /// Called now and then, or never, and only where the sink [wants](Self::wants_open) that: a
    /// sink that holds spans until it knows their parents can release some.
    ///
    /// # Errors
    ///
    /// Any error switches the sink off.
    fn accept_open(&mut self, open: &OpenStarts) -> Result<(), Error> {
        let _ = open;
        Ok(())
    }

    /// Takes a finished frame, after all batches whose spans ended in it. Its trees are filled only
    /// when some sink has [`Interest::trees`].
    ///
    /// # Errors
    ///
    /// Any error switches the sink off.
    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error>;

    /// Takes the live heap at a moment, where `Config::heap_snapshots` is on; `catalog` declares
    /// its call sites.
    ///
    /// # Errors
    ///
    /// Any error switches the sink off.
    fn accept_heap(
        &mut self,
        snapshot: &HeapSnapshot,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Error> {
        let _ = (snapshot, catalog);
        Ok(())
    }

    /// Takes events of the operating system's scheduler, where `Config::scheduler` is on; `catalog`
    /// has the clock.
    ///
    /// # Errors
    ///
    /// Any error switches the sink off.
    fn accept_scheduler(
        &mut self,
        batch: &SchedulerBatch,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Error> {
        let _ = (batch, catalog);
        Ok(())
    }

    /// Returns whether the sink takes frames at the moment; called where
    /// [`interest`](Self::interest) is. A sink that takes none gets none, and while no sink takes
    /// any, no frames are made.
    fn takes_frames(&self) -> bool {
        true
    }

    /// Returns whether the sink only writes a file of its own: it calls no code of the program, and
    /// waits for no other thread and no lock of one. Called once, before anything is delivered.
    /// Such a sink is finished also where a signal ends the process, or where no other thread is
    /// left, and a pass of the drain may end before it [commits](Self::commit).
    fn writes_file(&self) -> bool {
        false
    }

    /// Passes the accepted data to the operating system, where the sink buffers it. Called at the
    /// end of each pass of the drain, every 20 ms or more often.
    ///
    /// # Errors
    ///
    /// Any error switches the sink off.
    fn commit(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Brings everything accepted so far to its destination, as after `vor::flush()`.
    ///
    /// # Errors
    ///
    /// Any error switches the sink off.
    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Ends the output. Called at most once, last; the sink is dropped soon after, when the drain
    /// is free again. A sink with a thread therefore signals its end here, and joins it when
    /// dropped: until then the thread may call the recorder.
    ///
    /// # Errors
    ///
    /// The error is reported.
    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// The contents that a [`FrameSink`] needs. The recorder does no work that no sink needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interest {
    /// Batches, as they are drained.
    pub batches: bool,
    /// Span trees in the frames.
    pub trees: bool,
}

impl Interest {
    /// Frames without spans: boundaries, metrics, drops.
    pub const METRICS: Self = Self {
        batches: false,
        trees: false,
    };
    /// Frames with their span trees.
    pub const FRAMES: Self = Self {
        batches: false,
        trees: true,
    };
    /// Batches, and frames without spans.
    pub const BATCHES: Self = Self {
        batches: true,
        trees: false,
    };
    /// Batches, and frames with their span trees.
    pub const ALL: Self = Self {
        batches: true,
        trees: true,
    };
}
