//! An open capture: a walk over its batches and frames, its frames by number, and warnings about
//! damage.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::reader::{Damage, Info, Piece, SegmentedCapture};
use vor_capture::units;
use vor_export::thread_label;

use crate::command::failure::{Failure, warn};
use crate::command::progress::Progress;
use crate::command::range::FrameRange;

/// An open capture.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) capture: SegmentedCapture,
    pub(crate) info: Info,
}

/// The result of a walk.
#[derive(Debug)]
pub(crate) struct WalkResult {
    /// The damage up to the end of the walk.
    pub(crate) damage: Damage,
    /// Resolves all ids up to the end of the walk.
    pub(crate) catalog: Arc<Catalog>,
}

impl Source {
    /// Opens a file, a folder of segments, or a pattern. Segments that are missing or cannot be
    /// read are reported on stderr, in a line each.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let capture = SegmentedCapture::open(path)?;
        capture.problems().iter().for_each(|problem| warn(problem));
        Ok(Self {
            path: path.to_owned(),
            info: capture.info(),
            capture,
        })
    }

    pub(crate) fn is_v2(&self) -> bool {
        self.info.version == 2
    }

    /// Makes an error that names the file.
    pub(crate) fn failure(&self, problem: impl std::fmt::Display) -> Failure {
        Failure::in_file(&self.path, problem)
    }

    /// Passes the pieces of the file to `visit` in order, until it breaks.
    pub(crate) fn walk(
        &mut self,
        progress: &mut Progress,
        mut visit: impl FnMut(Piece) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<WalkResult, Failure> {
        let Self { path, capture, .. } = self;
        let named = |error: vor_capture::Error| Failure::in_file(path, error);
        let mut pieces = capture.pieces().map_err(named)?;
        while let Some(piece) = pieces.next_piece().map_err(named)? {
            let spans = match &piece {
                Piece::Batch(batch) => batch.span_count() as u64,
                _ => 0,
            };
            let flow = visit(piece)?;
            let (done, total) = pieces.progress();
            progress.advance(spans, done, total);
            if flow.is_break() {
                break;
            }
        }
        Ok(WalkResult {
            damage: pieces.damage(),
            catalog: Arc::clone(pieces.catalog()),
        })
    }

    /// Returns the labels of all threads, as tables show them.
    pub(crate) fn thread_labels(&self) -> Vec<String> {
        let catalog = self.capture.catalog();
        let ids = 0..u32::try_from(catalog.threads.len()).unwrap_or(u32::MAX);
        ids.map(|id| thread_label(catalog, ThreadId(id)).into_owned())
            .collect()
    }

    /// Returns the frames of the main set whose numbers are in `range`, as positions in the file.
    ///
    /// Numbers and positions differ after lost frames, and if recording was enabled late.
    pub(crate) fn positions(&mut self, range: FrameRange) -> Result<std::ops::Range<u64>, Failure> {
        let count = self.capture.frame_count();
        if count == 0 {
            return Err(self.failure("no frames"));
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
                "no frame in {range}: the capture has frames {first}..{}",
                last.saturating_add(1)
            )));
        }
        Ok(from..to)
    }

    /// Returns the positions in the file of the frames with these numbers, in the same order.
    pub(crate) fn positions_of(&mut self, indices: &[u64]) -> Result<Vec<u64>, Failure> {
        let count = self.capture.frame_count();
        let Some(end) = count.checked_sub(1) else {
            return Err(self.failure("no frames"));
        };
        let (first, last) = (self.index_at(0)?, self.index_at(end)?);
        let positions = indices
            .iter()
            .map(|&index| self.position(index, first, last, count));
        positions.collect()
    }

    /// Returns the range with an explicit end after its last frame, which excludes spans after that
    /// frame.
    pub(crate) fn bounded(&mut self, range: FrameRange) -> Result<FrameRange, Failure> {
        let positions = self.positions(range)?;
        let last = self.index_at(positions.end - 1)?;
        Ok(FrameRange {
            from: range.from,
            to: Some(last.saturating_add(1)),
        })
    }

    /// Returns the position of the first frame whose number is at least `index`.
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

    /// Returns the number of the frame at a position, or of the nearest readable frame, trying
    /// later ones first.
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
            None => self.failure("no frames"),
        })
    }

    /// Warns on stderr if the file is damaged.
    pub(crate) fn warn_of(&self, damage: &Damage) {
        warn_of(&self.path, damage);
    }
}

/// Warns on stderr if a file is damaged.
pub(crate) fn warn_of(path: &Path, damage: &Damage) {
    let path = path.display();
    if damage.count > 0 {
        let losses = units::counted(damage.count, "place");
        let bytes = units::bytes(damage.bytes);
        warn(&format!(
            "{path}: damaged in {losses}, {bytes} skipped; see `vor check`"
        ));
    }
    if let Some(tail) = &damage.tail
        && tail.bytes > 0
    {
        let bytes = units::bytes(tail.bytes);
        warn(&format!(
            "{path}: the last {bytes} are an incomplete record; see `vor check`"
        ));
    }
}

/// Returns whether data is lost. A missing end mark alone costs none.
pub(crate) fn is_damaged(damage: &Damage) -> bool {
    damage.count > 0 || damage.tail.as_ref().is_some_and(|tail| tail.bytes > 0)
}

/// Returns the error for a capture with so many frames and no spans.
pub(crate) fn no_spans(frames: u64) -> String {
    let place = match frames {
        0 => String::new(),
        frames => format!(" in {}", units::counted(frames, "frame")),
    };
    format!(
        "no spans{place}: the program opened no scope, or recorded metrics only \
         (VOR_RECORD_SPANS=1 records spans too)"
    )
}
