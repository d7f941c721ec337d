//! Captures of either version as one stream of batches and frames.
//!
//! A version-3 file is streamed in the memory of one record, however long its frames. A version-2 file has frames with trees;
//! each becomes a batch, its spans in the order in which they ended, and the frame. The batches of a frame come before it.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use vor_core::batch::{SpanArgs, SpanBatch, ThreadBatch};
use vor_core::catalog::{Catalog, ThreadId};
use vor_core::export::thread_label;
use vor_core::frame::{FrameSnapshot, ThreadTree};
use vor_core::reader::{Capture, Damage, Event, Info, Reader, Recovered};

use crate::failure::{Failure, warn};
use crate::progress::Progress;
use crate::range::FrameRange;
use crate::units;

/// An open capture.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) capture: Capture,
    pub(crate) info: Info,
}

/// What a walk over a capture comes to.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Spans that ended in the frame to come.
    Batch(SpanBatch),
    /// A finished frame of any set, without trees where it comes from version 3.
    Frame(Recovered),
}

/// What a whole walk found.
#[derive(Debug)]
pub(crate) struct Walked {
    /// What could not be read, as far as the walk went.
    pub(crate) damage: Damage,
    /// Resolves all ids that were met.
    pub(crate) catalog: Arc<Catalog>,
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let capture = Capture::open(path)?;
        Ok(Self {
            path: path.to_owned(),
            info: capture.info(),
            capture,
        })
    }

    pub(crate) fn is_v2(&self) -> bool {
        self.info.version == 2
    }

    /// Makes a failure that names the file.
    pub(crate) fn failure(&self, what: impl std::fmt::Display) -> Failure {
        Failure::in_file(&self.path, what)
    }

    /// Hands every piece of the file to `visit`, in the order of the file, until it breaks off.
    pub(crate) fn walk(
        &mut self,
        progress: &mut Progress,
        mut visit: impl FnMut(Piece) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<Walked, Failure> {
        if self.is_v2() {
            return self.walk_v2(progress, visit);
        }
        let named = |error: io::Error| Failure::in_file(&self.path, error);
        let file = File::open(&self.path).map_err(named)?;
        let read_bytes = Rc::new(Cell::new(0));
        let counting = Counting {
            inner: file,
            read_bytes: Rc::clone(&read_bytes),
        };
        let mut reader = Reader::new(counting).map_err(named)?;
        let mut catalog = Arc::clone(self.capture.catalog());
        while let Some(event) = reader.next_event().map_err(named)? {
            // The catalog of the whole file knows names whose declaration is damaged here; that of the stream knows what was
            // written since.
            if let Some(streamed) = reader.catalog()
                && is_richer(streamed, &catalog)
            {
                catalog = Arc::clone(streamed);
            }
            let mut spans = 0;
            let flow = match event {
                Event::Batch(mut batch) => {
                    spans = batch.span_count() as u64;
                    batch.catalog = Arc::clone(&catalog);
                    visit(Piece::Batch(batch))?
                }
                Event::Frame(mut recovered) => {
                    let frame = Arc::make_mut(&mut recovered.frame);
                    frame.catalog = Arc::clone(&catalog);
                    visit(Piece::Frame(recovered))?
                }
                Event::OpenScopes(_) | Event::Loss(_) => ControlFlow::Continue(()),
            };
            progress.advance(spans, read_bytes.get(), self.info.file_bytes);
            if flow.is_break() {
                break;
            }
        }
        Ok(Walked {
            damage: reader.damage().clone(),
            catalog,
        })
    }

    fn walk_v2(
        &mut self,
        progress: &mut Progress,
        mut visit: impl FnMut(Piece) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<Walked, Failure> {
        let frames = self.capture.frame_count();
        for i in 0..frames {
            let recovered = self.capture.recovered(i).map_err(|error| self.failure(error))?;
            if !recovered.frame.threads.is_empty()
                && visit(Piece::Batch(batch_of(&recovered.frame)))?.is_break()
            {
                break;
            }
            progress.advance(recovered.frame.span_count, i, frames);
            if visit(Piece::Frame(recovered))?.is_break() {
                break;
            }
        }
        Ok(Walked {
            damage: self.info.damage.clone(),
            catalog: Arc::clone(self.capture.catalog()),
        })
    }

    /// Returns what tables call the threads that are known.
    pub(crate) fn thread_labels(&self) -> Vec<String> {
        let catalog = self.capture.catalog();
        let ids = 0..u32::try_from(catalog.threads.len()).unwrap_or(u32::MAX);
        ids.map(|id| thread_label(catalog, ThreadId(id)).into_owned())
            .collect()
    }

    /// Returns the frames of the main set whose numbers are in `range`, as positions in the file.
    ///
    /// Numbers and positions differ where damage took frames, and where recording was switched on late.
    pub(crate) fn positions(&mut self, range: FrameRange) -> Result<std::ops::Range<u64>, Failure> {
        let count = self.capture.frame_count();
        if count == 0 {
            return Err(self.failure("frames were expected, found none"));
        }
        let first = self.index_at(0)?;
        let last = self.index_at(count - 1)?;
        let from = self.position(range.from, first, last, count)?;
        let to = match range.to {
            Some(to) => self.position(to, first, last, count)?,
            None => count,
        };
        if from >= to {
            return Err(self.failure(format!(
                "a range within frames {first}..{} was expected, found {range}",
                last + 1
            )));
        }
        Ok(from..to)
    }

    /// Returns where frames of known numbers are in the file, each in its place.
    pub(crate) fn positions_of(&mut self, indices: &[u64]) -> Result<Vec<u64>, Failure> {
        let count = self.capture.frame_count();
        let Some(end) = count.checked_sub(1) else {
            return Err(self.failure("frames were expected, found none"));
        };
        let (first, last) = (self.index_at(0)?, self.index_at(end)?);
        let positions = indices
            .iter()
            .map(|&index| self.position(index, first, last, count));
        positions.collect()
    }

    /// Returns a range with the number of its last frame as the end, so that what follows the last frame is not in it.
    pub(crate) fn bounded(&mut self, range: FrameRange) -> Result<FrameRange, Failure> {
        let positions = self.positions(range)?;
        let last = self.index_at(positions.end - 1)?;
        Ok(FrameRange {
            from: range.from,
            to: Some(last.saturating_add(1)),
        })
    }

    /// Returns the position of the first frame whose number is not below `index`.
    fn position(&mut self, index: u64, first: u64, last: u64, count: u64) -> Result<u64, Failure> {
        if index <= first {
            return Ok(0);
        }
        if index > last {
            return Ok(count);
        }
        if last - first == count - 1 {
            return Ok(index - first);
        }
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.index_at(middle)? < index {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Returns the number of the frame at a position, or of the nearest one that can be read, later ones first.
    fn index_at(&mut self, position: u64) -> Result<u64, Failure> {
        let later = position..self.capture.frame_count();
        let mut failure = None;
        for near in later.chain((0..position).rev()) {
            match self.capture.frame(near) {
                Ok(frame) => return Ok(frame.index),
                Err(error) if error.is_corrupt() => failure = failure.or(Some(error)),
                Err(error) => return Err(self.failure(error)),
            }
        }
        Err(match failure {
            Some(error) => self.failure(error),
            None => self.failure("frames were expected, found none"),
        })
    }

    /// Says on stderr that not all of the file could be read.
    pub(crate) fn warn_of(&self, damage: &Damage) {
        warn_of(&self.path, damage);
    }
}

/// Says on stderr that not all of a file could be read.
pub(crate) fn warn_of(path: &Path, damage: &Damage) {
    let path = path.display();
    if damage.count > 0 {
        let losses = units::counted(damage.count, "place");
        let bytes = units::bytes(damage.bytes);
        warn(&format!(
            "{path}: damaged in {losses}, {bytes} passed over; see `vor check`"
        ));
    }
    if let Some(tail) = &damage.tail
        && tail.bytes > 0
    {
        let bytes = units::bytes(tail.bytes);
        warn(&format!(
            "{path}: the last {bytes} are no whole record; see `vor check`"
        ));
    }
}

/// Returns whether something could not be read. That only the end mark of a closed file is missing takes nothing away.
pub(crate) fn is_damaged(damage: &Damage) -> bool {
    damage.count > 0 || damage.tail.as_ref().is_some_and(|tail| tail.bytes > 0)
}

/// Returns what to say of a capture of so many frames that has no spans.
pub(crate) fn no_spans(frames: u64) -> String {
    format!(
        "spans were expected, found none in {}; captures of metrics only have none (VOR_RECORD_FLAME=1 records them)",
        units::counted(frames, "frame")
    )
}

/// Makes a batch of a frame with trees: the same spans in the order in which they ended.
pub(crate) fn batch_of(frame: &FrameSnapshot) -> SpanBatch {
    SpanBatch {
        catalog: Arc::clone(&frame.catalog),
        threads: frame.threads.iter().map(thread_batch).collect(),
    }
}

fn thread_batch(tree: &ThreadTree) -> ThreadBatch {
    let mut batch = ThreadBatch {
        thread: tree.thread,
        messages: tree.messages.clone(),
        async_spans: tree.async_spans.clone(),
        task_events: tree.task_events.clone(),
        flows: tree.flows.clone(),
        ..ThreadBatch::default()
    };
    let mut open: Vec<usize> = Vec::new();
    for (i, span) in tree.spans.iter().enumerate() {
        while open.len() > span.depth as usize {
            end_last(&mut open, tree, &mut batch);
        }
        open.push(i);
    }
    while !open.is_empty() {
        end_last(&mut open, tree, &mut batch);
    }
    batch
}

/// Moves the innermost open span of a tree to a batch.
fn end_last(open: &mut Vec<usize>, tree: &ThreadTree, batch: &mut ThreadBatch) {
    let Some(span) = open.pop().map(|i| &tree.spans[i]) else {
        return;
    };
    let values = tree.args(span);
    if !values.is_empty() {
        batch.args.push(SpanArgs {
            span: batch.sites.len() as u32,
            values: values.to_vec(),
        });
    }
    batch.start_ticks.push(span.start_ticks);
    batch.duration_ticks.push(span.duration_ticks);
    batch.sites.push(span.site);
}

fn is_richer(streamed: &Catalog, known: &Catalog) -> bool {
    streamed.sites.len() > known.sites.len()
        || streamed.threads.len() > known.threads.len()
        || streamed.columns.len() > known.columns.len()
        || streamed.timeline.syncs().len() > known.timeline.syncs().len()
}

/// Counts what is read of a file.
struct Counting {
    inner: File,
    read_bytes: Rc<Cell<u64>>,
}

impl Read for Counting {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(bytes)?;
        self.read_bytes.set(self.read_bytes.get() + n as u64);
        Ok(n)
    }
}
