//! Several captures as one file, for programs that read one.

use std::io::Write;
use std::sync::Arc;

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
        progress: impl FnMut(u64, u64),
    ) -> Result<Damage, Error> {
        let mut one = OneCapture::begin(self);
        let count = self.segments.len();
        let damage = one.put_all(self, count, out, progress)?;
        one.close(out)?;
        Ok(damage)
    }
}

/// A capture that gets the pieces of several.
#[derive(Debug)]
pub(super) struct OneCapture {
    encoder: Encoder,
    declared: Declared,
    catalog: Arc<Catalog>,
    /// The events of batches without spans, until their frame ends.
    events: SpanBatch,
    /// Bytes that are not written yet.
    bytes: Vec<u8>,
}

impl OneCapture {
    /// Begins a capture with the declarations of `segments`.
    pub(super) fn begin(segments: &SegmentedCapture) -> Self {
        let catalog = Catalog {
            segment: None,
            dump: None,
            ..(**segments.catalog()).clone()
        };
        let mut one = Self {
            encoder: Encoder::new(header_of_all(segments)),
            declared: Declared::default(),
            catalog: Arc::default(),
            events: SpanBatch::default(),
            bytes: Vec::new(),
        };
        one.encoder.header(&mut one.bytes);
        one.declared
            .begin(&catalog, &mut one.encoder, &mut one.bytes);
        one.catalog = Arc::new(catalog);
        one.declare(|_| {});
        one
    }

    /// Lets `add` change the catalog, and declares what is new in it.
    pub(super) fn declare(&mut self, add: impl FnOnce(&mut Catalog)) {
        add(Arc::make_mut(&mut self.catalog));
        let (declared, encoder) = (&mut self.declared, &mut self.encoder);
        declared.put(&self.catalog, encoder, &mut self.bytes);
        declared.put_modes(&self.catalog, true, encoder, &mut self.bytes);
    }

    /// Resolves the ids of the pieces.
    pub(super) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Puts the pieces of the first `count` segments, and returns their damage.
    pub(super) fn put_all(
        &mut self,
        segments: &mut SegmentedCapture,
        count: usize,
        out: &mut impl Write,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Damage, Error> {
        let is_marked = segments.info().marked;
        // A capture without marks is a frame only to its reader.
        let is_made = |piece: &Piece| match piece {
            Piece::Frame(recovered) => recovered.frame.frame_set == 0 && !is_marked,
            _ => false,
        };
        let mut pieces = segments.first_pieces(count)?;
        while let Some(piece) = pieces.next_piece()? {
            if !is_made(&piece) && self.put(&piece, out)? {
                let (read, all) = pieces.progress();
                progress(read, all);
            }
        }
        Ok(pieces.damage())
    }

    /// Puts a piece, and returns whether bytes were written.
    pub(super) fn put(&mut self, piece: &Piece, out: &mut impl Write) -> Result<bool, Error> {
        let (encoder, bytes) = (&mut self.encoder, &mut self.bytes);
        match piece {
            // A reader gets the events of a batch first, and its spans later.
            Piece::Batch(batch) if batch.threads.iter().all(has_events_only) => {
                self.events.threads.extend_from_slice(&batch.threads);
            }
            Piece::Batch(batch) => {
                let batch = with_events(batch.clone(), &mut self.events.threads);
                encoder.encode(RecordRef::Batch(&batch), bytes);
            }
            Piece::Frame(recovered) => {
                encoder.encode(RecordRef::Batch(&self.events), bytes);
                self.events.threads.clear();
                encoder.encode(RecordRef::Frame(&recovered.frame), bytes);
            }
            Piece::Scheduler { batch, .. } => {
                encoder.encode(RecordRef::Scheduler(batch), bytes);
            }
            Piece::Heap { snapshot, .. } => {
                encoder.encode(RecordRef::Heap(snapshot), bytes);
            }
        }
        let is_full = bytes.len() >= GATHERED_BYTES;
        if is_full {
            self.write(out)?;
        }
        Ok(is_full)
    }

    /// Writes what was put.
    pub(super) fn write(&mut self, out: &mut impl Write) -> Result<(), Error> {
        let written = out.write_all(&self.bytes);
        self.bytes.clear();
        written.map_err(|error| Error::io("cannot write the capture", error))
    }

    /// Ends the capture.
    pub(super) fn close(&mut self, out: &mut impl Write) -> Result<(), Error> {
        self.encoder
            .encode(RecordRef::Batch(&self.events), &mut self.bytes);
        self.encoder.close(&self.catalog, &mut self.bytes);
        self.write(out)
    }
}

/// Returns the header of one file with everything.
fn header_of_all(segments: &SegmentedCapture) -> Header {
    let catalog = segments.catalog();
    let first = catalog.timeline.syncs().first();
    let (ticks, unix_ns) = first.map_or((0, 0), |sync| (sync.ticks, sync.unix_ns));
    Header {
        file_id: ticks.rotate_left(32) ^ unix_ns.cast_unsigned(),
        pid: catalog.process.pid,
        flags: match segments.info().spans {
            0 => 0,
            _ => Header::KEEPS_SPANS,
        },
        start_unix_ns: unix_ns,
        start_ticks: ticks,
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
