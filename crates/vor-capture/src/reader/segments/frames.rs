//! The frames of several captures by number: with trees, as batches, and their summaries.

use std::sync::Arc;

use super::SegmentedCapture;
use crate::Error;
use crate::model::batch::{SpanBatch, ThreadBatch};
use crate::model::frame::{FrameSnapshot, TreeBuilder};
use crate::reader::unmarked::UnmarkedFrame;
use crate::reader::{Capture, FrameScan, FrameSummary, Recovered};

impl SegmentedCapture {
    /// Returns frame `i` of the selected set, counted from 0 over all files, with its span trees.
    ///
    /// # Errors
    ///
    /// There is no such frame, the frame was lost to damage ([`Error::is_corrupt`]), or a file
    /// cannot be read.
    pub fn frame(&mut self, i: u64) -> Result<Arc<FrameSnapshot>, Error> {
        self.recovered(i).map(|recovered| recovered.frame)
    }

    /// Like [`frame`](Self::frame), and returns whether the frame is whole.
    ///
    /// # Errors
    ///
    /// Those of [`frame`](Self::frame).
    pub fn recovered(&mut self, i: u64) -> Result<Recovered, Error> {
        self.expect_frame(i)?;
        if self.is_unmarked() {
            return self.recovered_unmarked();
        }
        let (at, own) = self.place(i);
        let Some(capture) = self.capture(at)? else {
            return Err(Error::corrupt(format!("frame {i} is lost")));
        };
        let mut recovered = capture.recovered(own)?;
        self.map_frame(at, &mut recovered);
        Ok(recovered)
    }

    /// Like [`recovered`](Self::recovered), but returns the spans as batches where
    /// [`Capture::recovered_batches`] does. The one frame of several captures without marks has its
    /// trees, and no batches.
    ///
    /// # Errors
    ///
    /// Those of [`frame`](Self::frame).
    pub fn recovered_batches(&mut self, i: u64) -> Result<(Recovered, Vec<ThreadBatch>), Error> {
        self.expect_frame(i)?;
        if self.is_unmarked() {
            return Ok((self.recovered_unmarked()?, Vec::new()));
        }
        let (at, own) = self.place(i);
        let Some(capture) = self.capture(at)? else {
            return Err(Error::corrupt(format!("frame {i} is lost")));
        };
        let (mut recovered, mut threads) = capture.recovered_batches(own)?;
        self.map_frame(at, &mut recovered);
        if let Some(mapping) = &self.segments[at].mapping {
            threads
                .iter_mut()
                .for_each(|thread| mapping.map_thread(thread));
        }
        Ok((recovered, threads))
    }

    /// Selects the main set of frames, and returns the summaries of all its frames that can be
    /// read, with their places for [`frame`](Self::frame).
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub fn summaries(&mut self) -> Result<Vec<(u64, FrameSummary)>, Error> {
        self.select_frame_set(0)?;
        if self.is_unmarked() {
            let unmarked = self.unmarked(|_| {})?;
            return Ok(vec![(0, FrameSummary::of(&unmarked))]);
        }
        let (mut found, mut first) = (Vec::new(), 0);
        for at in 0..self.segments.len() {
            let mapping = self.segments[at].mapping.clone();
            let Some(capture) = self.capture(at)? else {
                continue;
            };
            let mut scan = FrameScan::new(0);
            loop {
                let place = scan.next_frame();
                match capture.next_summary(&mut scan) {
                    None => break,
                    Some(Ok(mut summary)) => {
                        if let Some(mapping) = &mapping {
                            mapping.map_summary(&mut summary);
                        }
                        found.push((first + place, summary));
                    }
                    // A damaged frame, which the damage counts.
                    Some(Err(error)) if error.is_corrupt() => {}
                    Some(Err(error)) => return Err(error),
                }
            }
            first += self.segments[at].frames;
        }
        Ok(found)
    }

    fn expect_frame(&self, i: u64) -> Result<(), Error> {
        let count = self.frame_count();
        if i < count {
            return Ok(());
        }
        Err(Error::config(format!(
            "there is no frame {i}: the capture has {count}"
        )))
    }

    /// Returns the segment of an existing frame, and the frame's number in it.
    fn place(&self, i: u64) -> (usize, u64) {
        let (mut at, mut own) = (0, i);
        while own >= self.segments[at].frames {
            own -= self.segments[at].frames;
            at += 1;
        }
        (at, own)
    }

    /// Maps a frame of a segment to the common catalog.
    fn map_frame(&self, at: usize, recovered: &mut Recovered) {
        if self.is_one() {
            return;
        }
        let frame = Arc::make_mut(&mut recovered.frame);
        if let Some(mapping) = &self.segments[at].mapping {
            mapping.map_frame(frame);
        }
        frame.catalog = Arc::clone(&self.catalog);
    }

    /// Opens a segment with the selected frame set; `None` if it has no such set.
    pub(super) fn capture(&mut self, at: usize) -> Result<Option<&mut Capture>, Error> {
        let segment = &self.segments[at];
        let set = match &segment.mapping {
            Some(mapping) => mapping.own_frame_set(self.frame_set),
            None => Some(self.frame_set),
        };
        if self.open.as_ref().is_none_or(|(open, _)| *open != at) {
            let mut capture = Capture::open(&segment.path)?;
            capture.set_max_spans(self.max_spans);
            self.open = Some((at, capture));
        }
        let Some((_, capture)) = &mut self.open else {
            return Ok(None);
        };
        let known = capture.catalog().frame_sets.len().max(1);
        let Some(set) = set.filter(|set| (*set as usize) < known) else {
            return Ok(None);
        };
        capture.select_frame_set(set)?;
        Ok(Some(capture))
    }

    /// Returns the one frame of captures without marks, with its trees.
    fn recovered_unmarked(&mut self) -> Result<Recovered, Error> {
        let mut builder = TreeBuilder::new(self.max_spans);
        let mut recovered = self.unmarked(|batch| builder.add_batch(batch))?;
        Arc::make_mut(&mut recovered.frame).threads = builder.finish().threads;
        Ok(recovered)
    }

    /// Returns the one frame of captures without marks, without its trees, and passes its batches
    /// on.
    fn unmarked(&mut self, mut use_batch: impl FnMut(&SpanBatch)) -> Result<Recovered, Error> {
        let mut unmarked = UnmarkedFrame::default();
        let mut lost_records = 0;
        for at in 0..self.segments.len() {
            let mapping = self.segments[at].mapping.clone();
            let Some(capture) = self.capture(at)? else {
                continue;
            };
            for batch in capture.batches()? {
                let mut batch = batch?;
                if let Some(mapping) = &mapping {
                    mapping.map_batch(&mut batch);
                }
                unmarked.add(&batch.threads);
                use_batch(&batch);
            }
            lost_records += capture.info().damage.count;
        }
        let mut recovered = unmarked.without_trees(&self.catalog);
        recovered.lost_records = lost_records;
        Ok(recovered)
    }
}
