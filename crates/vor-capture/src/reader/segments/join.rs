//! Several captures as one file, for programs that read one.

use std::io::Write;

use super::SegmentedCapture;
use crate::Error;
use crate::format::{Declared, Encoder, Header, RecordRef};
use crate::model::batch::{SpanBatch, ThreadBatch};
use crate::model::catalog::Catalog;
use crate::reader::{Damage, Piece};

/// Bytes that are gathered before they are written.
const GATHERED_BYTES: usize = 1 << 20;

impl SegmentedCapture {
    /// Writes everything as one capture, and returns the damage that was met. `progress` gets the
    /// bytes that were read, and how many there are.
    ///
    /// The ids and the time are those of this capture; the scopes that were open at the ends of the
    /// files are left out.
    ///
    /// # Errors
    ///
    /// A file cannot be read if it is the only one, or `out` cannot be written.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # mod vor { pub use vor_capture::Error; pub use vor_capture::reader as capture; }
    /// let mut segments = vor::capture::SegmentedCapture::open("captures/")?;
    /// let mut file = std::fs::File::create("all.vor").unwrap();
    /// segments.write_as_one(&mut file, |read, all| eprintln!("{read} of {all} bytes"))?;
    /// # Ok::<(), vor::Error>(())
    /// ```
    pub fn write_as_one(
        &mut self,
        out: &mut impl Write,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Damage, Error> {
        let mut write = |bytes: &mut Vec<u8>| {
            let written = out.write_all(bytes);
            bytes.clear();
            written.map_err(|error| Error::io("cannot write the capture", error))
        };
        let catalog = Catalog {
            segment: None,
            dump: None,
            ..(**self.catalog()).clone()
        };
        let is_marked = self.info().marked;
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(self.header_of_all());
        encoder.header(&mut bytes);
        let mut declared = Declared::default();
        declared.begin(&catalog, &mut encoder, &mut bytes);
        declared.put(&catalog, &mut encoder, &mut bytes);
        declared.put_modes(&catalog, true, &mut encoder, &mut bytes);
        let mut pieces = self.pieces()?;
        let mut events = SpanBatch::default();
        while let Some(piece) = pieces.next_piece()? {
            match &piece {
                // A reader gets the events of a batch first, and its spans later.
                Piece::Batch(batch) if batch.threads.iter().all(has_events_only) => {
                    events.threads.extend_from_slice(&batch.threads);
                }
                Piece::Batch(batch) => {
                    let batch = with_events(batch.clone(), &mut events.threads);
                    encoder.encode(RecordRef::Batch(&batch), &mut bytes);
                }
                // A capture without marks is a frame only to its reader.
                Piece::Frame(recovered) if recovered.frame.frame_set == 0 && !is_marked => {}
                Piece::Frame(recovered) => {
                    encoder.encode(RecordRef::Batch(&events), &mut bytes);
                    events.threads.clear();
                    encoder.encode(RecordRef::Frame(&recovered.frame), &mut bytes);
                }
                Piece::Scheduler { batch, .. } => {
                    encoder.encode(RecordRef::Scheduler(batch), &mut bytes);
                }
                Piece::Heap { snapshot, .. } => {
                    encoder.encode(RecordRef::Heap(snapshot), &mut bytes);
                }
            }
            if bytes.len() >= GATHERED_BYTES {
                write(&mut bytes)?;
                let (read, all) = pieces.progress();
                progress(read, all);
            }
        }
        let damage = pieces.damage();
        encoder.encode(RecordRef::Batch(&events), &mut bytes);
        encoder.close(&catalog, &mut bytes);
        write(&mut bytes)?;
        Ok(damage)
    }

    /// Returns the header of one file with everything.
    fn header_of_all(&self) -> Header {
        let first = self.catalog().timeline.syncs().first();
        let (ticks, unix_ns) = first.map_or((0, 0), |sync| (sync.ticks, sync.unix_ns));
        Header {
            file_id: ticks.rotate_left(32) ^ unix_ns.cast_unsigned(),
            pid: self.catalog().process.pid,
            flags: match self.info().spans {
                0 => 0,
                _ => Header::KEEPS_SPANS,
            },
            start_unix_ns: unix_ns,
            start_ticks: ticks,
        }
    }
}

fn has_events_only(thread: &ThreadBatch) -> bool {
    thread.sites.is_empty()
        && thread.messages.is_empty()
        && thread.async_spans.is_empty()
        && thread.dropped_spans == 0
}

/// Returns the batch with earlier events of its threads.
fn with_events(mut batch: SpanBatch, events: &mut Vec<ThreadBatch>) -> SpanBatch {
    for earlier in events.drain(..) {
        let same = |thread: &&mut ThreadBatch| thread.thread == earlier.thread;
        match batch.threads.iter_mut().find(same) {
            Some(thread) => {
                thread.task_events.splice(0..0, earlier.task_events);
                thread.flows.splice(0..0, earlier.flows);
            }
            None => batch.threads.push(earlier),
        }
    }
    batch
}
