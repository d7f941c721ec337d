//! The one frame of a capture without marks, read from a file.
//!
//! [`UnmarkedFrame`] adds up batches. Here they come from a [`CaptureV3`], which reads them again
//! for each question, so none is held longer than it is needed.

use std::sync::Arc;

use super::Recovered;
use super::capture_v3::CaptureV3;
use super::unmarked::UnmarkedFrame;
use crate::Error;
use crate::model::batch::ThreadBatch;
use crate::model::frame::{FrameSnapshot, TreeBuilder};

impl UnmarkedFrame {
    /// Reads all batches of a capture without frames; `None` where they are empty.
    pub(super) fn read(capture: &mut CaptureV3) -> Result<Option<Self>, Error> {
        let mut unmarked = Self::default();
        capture.rewind();
        while let Some(batch) = capture.next_batch()? {
            unmarked.add(&batch.threads);
        }
        unmarked.losses = capture.info().damage.count;
        Ok((unmarked.start_ticks <= unmarked.end_ticks).then_some(unmarked))
    }

    /// Returns the frame with its trees, which hold up to `max_spans`.
    pub(super) fn recovered(
        &self,
        capture: &mut CaptureV3,
        max_spans: usize,
    ) -> Result<Recovered, Error> {
        let mut builder = TreeBuilder::new(max_spans);
        capture.rewind();
        while let Some(batch) = capture.next_batch()? {
            builder.add_batch(&batch);
        }
        let recovered = self.without_trees(capture.catalog());
        Ok(Recovered {
            frame: Arc::new(FrameSnapshot {
                threads: builder.finish().threads,
                ..FrameSnapshot::clone(&recovered.frame)
            }),
            ..recovered
        })
    }

    /// Returns the frame without trees, and its batches; `None` where they hold more than
    /// `max_items`, or where a part is lost.
    pub(super) fn batches(
        &self,
        capture: &mut CaptureV3,
        max_items: usize,
    ) -> Result<Option<(Recovered, Vec<ThreadBatch>)>, Error> {
        if self.losses > 0 || self.spans > max_items as u64 {
            return Ok(None);
        }
        let (mut all, mut items) = (Vec::new(), 0);
        capture.rewind();
        while let Some(batch) = capture.next_batch()? {
            for thread in batch.threads {
                items += thread.len()
                    + thread.async_spans.len()
                    + thread.task_events.len()
                    + thread.flows.len();
                all.push(thread);
            }
            if items > max_items {
                return Ok(None);
            }
        }
        Ok(Some((self.without_trees(capture.catalog()), all)))
    }
}
