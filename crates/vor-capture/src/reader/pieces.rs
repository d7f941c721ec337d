//! A capture of either version as one stream of batches and frames.
//!
//! A file of version 3 is streamed in the memory of one record, however long its frames. One of
//! version 2 has frames with trees; each becomes a batch, its spans in the order in which they
//! ended, and the frame. The batches of a frame come before it.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use super::{Capture, Damage, Event, Reader, Recovered};
use crate::Error;
use crate::model::batch::SpanBatch;
use crate::model::catalog::Catalog;
use crate::model::heap::HeapSnapshot;
use crate::model::scheduler::SchedulerBatch;

/// The next part of a capture.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Piece {
    /// Spans that ended in the frame to come.
    Batch(SpanBatch),
    /// A finished frame of any set, without trees where it comes from version 3.
    Frame(Recovered),
    /// Events of the operating system's scheduler.
    Scheduler {
        /// The events.
        batch: SchedulerBatch,
        /// Has the clock of their ticks.
        catalog: Arc<Catalog>,
    },
    /// A snapshot of the live heap.
    Heap {
        /// The snapshot.
        snapshot: HeapSnapshot,
        /// Has the clock of its tick.
        catalog: Arc<Catalog>,
    },
}

/// The batches and frames of a capture of either version from its beginning on. The batches of a
/// frame come before it.
///
/// Each has the fullest known catalog: that of the whole file has names whose declaration in the
/// stream is damaged, that of the stream has declarations written since.
///
/// # Examples
///
/// ```no_run
/// use vor_capture::reader::{Capture, Piece, Pieces};
///
/// let mut capture = Capture::open("run.vor")?;
/// let mut pieces = Pieces::open("run.vor", &mut capture)?;
/// let mut spans = 0;
/// while let Some(piece) = pieces.next_piece()? {
///     if let Piece::Batch(batch) = piece {
///         spans += batch.span_count();
///     }
/// }
/// println!("{spans} spans, {} places damaged", pieces.damage().count);
/// # Ok::<(), vor_capture::Error>(())
/// ```
#[derive(Debug)]
pub struct Pieces<'a> {
    inner: Inner<'a>,
    catalog: Arc<Catalog>,
    /// The one frame of a file without marks, until it was returned or a mark came.
    unmarked: Option<Recovered>,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one per pass, and it is not moved about"
)]
enum Inner<'a> {
    V2 {
        capture: &'a mut Capture,
        /// The frame that comes next.
        next: u64,
        /// The frame whose batch was returned.
        frame: Option<Recovered>,
    },
    V3 {
        reader: Reader<CountingFile>,
        read_bytes: Rc<Cell<u64>>,
        file_bytes: u64,
    },
}

impl<'a> Pieces<'a> {
    /// Opens the capture at `path`, from which `capture` was opened too.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn open(path: impl AsRef<Path>, capture: &'a mut Capture) -> Result<Self, Error> {
        let catalog = Arc::clone(capture.catalog());
        let info = capture.info();
        let unmarked = capture.unmarked();
        if info.version == 2 {
            let inner = Inner::V2 {
                capture,
                next: 0,
                frame: None,
            };
            return Ok(Self {
                inner,
                catalog,
                unmarked,
            });
        }
        let failed = |error| Error::io("cannot read the capture", error);
        let read_bytes = Rc::new(Cell::new(0));
        let counting = CountingFile {
            inner: File::open(path).map_err(failed)?,
            read_bytes: Rc::clone(&read_bytes),
        };
        let inner = Inner::V3 {
            reader: Reader::new(counting).map_err(failed)?,
            read_bytes,
            file_bytes: info.file_bytes,
        };
        Ok(Self {
            inner,
            catalog,
            unmarked,
        })
    }

    /// Returns the next piece; `None` at the end, and at an unfinished record.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a frame of a version-2 capture was lost to damage
    /// ([`Error::is_corrupt`]).
    pub fn next_piece(&mut self) -> Result<Option<Piece>, Error> {
        match &mut self.inner {
            Inner::V2 {
                capture,
                next,
                frame,
            } => {
                if let Some(frame) = frame.take() {
                    return Ok(Some(Piece::Frame(frame)));
                }
                if *next >= capture.frame_count() {
                    return Ok(None);
                }
                let recovered = capture.recovered(*next)?;
                *next += 1;
                if recovered.frame.threads.is_empty() {
                    return Ok(Some(Piece::Frame(recovered)));
                }
                let batch = SpanBatch::of_trees(&recovered.frame);
                *frame = Some(recovered);
                Ok(Some(Piece::Batch(batch)))
            }
            Inner::V3 { reader, .. } => loop {
                let event = reader.next_event();
                let Some(event) =
                    event.map_err(|error| Error::io("cannot read the capture", error))?
                else {
                    return Ok(self.take_unmarked());
                };
                if let Some(streamed) = reader.catalog()
                    && is_richer(streamed, &self.catalog)
                {
                    self.catalog = Arc::clone(streamed);
                }
                match event {
                    Event::Batch(mut batch) => {
                        batch.catalog = Arc::clone(&self.catalog);
                        return Ok(Some(Piece::Batch(batch)));
                    }
                    Event::Frame(mut recovered) => {
                        self.unmarked.take_if(|_| recovered.frame.frame_set == 0);
                        Arc::make_mut(&mut recovered.frame).catalog = Arc::clone(&self.catalog);
                        return Ok(Some(Piece::Frame(recovered)));
                    }
                    Event::Scheduler(batch) => {
                        let catalog = Arc::clone(&self.catalog);
                        return Ok(Some(Piece::Scheduler { batch, catalog }));
                    }
                    Event::Heap(mut snapshot) => {
                        let catalog = Arc::clone(&self.catalog);
                        snapshot.name_by(&catalog);
                        return Ok(Some(Piece::Heap { snapshot, catalog }));
                    }
                    Event::OpenScopes(_) | Event::Loss(_) => {}
                }
            },
        }
    }

    /// Returns the one frame of a file without marks, once.
    fn take_unmarked(&mut self) -> Option<Piece> {
        let mut unmarked = self.unmarked.take()?;
        Arc::make_mut(&mut unmarked.frame).catalog = Arc::clone(&self.catalog);
        Some(Piece::Frame(unmarked))
    }

    /// Returns the catalog, which resolves all ids met so far.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the damage met so far.
    #[must_use]
    pub fn damage(&self) -> Damage {
        match &self.inner {
            Inner::V2 { capture, .. } => capture.info().damage,
            Inner::V3 { reader, .. } => reader.damage().clone(),
        }
    }

    /// Returns how much was read and how much there was at the beginning: in bytes, for a version-2
    /// capture in frames.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        match &self.inner {
            Inner::V2 { capture, next, .. } => (*next, capture.frame_count()),
            Inner::V3 {
                read_bytes,
                file_bytes,
                ..
            } => (read_bytes.get(), *file_bytes),
        }
    }
}

fn is_richer(streamed: &Catalog, known: &Catalog) -> bool {
    streamed.sites.len() > known.sites.len()
        || streamed.threads.len() > known.threads.len()
        || streamed.columns.len() > known.columns.len()
        || streamed.timeline.syncs().len() > known.timeline.syncs().len()
}

/// Counts the bytes that are read from a file.
#[derive(Debug)]
struct CountingFile {
    inner: File,
    read_bytes: Rc<Cell<u64>>,
}

impl Read for CountingFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(bytes)?;
        self.read_bytes.set(self.read_bytes.get() + n as u64);
        Ok(n)
    }
}
