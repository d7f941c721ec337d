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

/// A frame that can be read: its number, and its position in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Readable {
    index: u64,
    at: u64,
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
        let ends = self.ends()?;
        let from = self.position(range.from, ends)?;
        let to = match range.to {
            Some(to) => self.position(to, ends)?,
            None => self.capture.frame_count(),
        };
        if from >= to {
            let [first, last] = ends;
            return Err(self.failure(format!(
                "no frame in {range}: the capture has frames {}..{}",
                first.index,
                last.index.saturating_add(1)
            )));
        }
        Ok(from..to)
    }

    /// Returns the positions in the file of the frames with these numbers, in the same order.
    pub(crate) fn positions_of(&mut self, indices: &[u64]) -> Result<Vec<u64>, Failure> {
        let ends = self.ends()?;
        let positions = indices.iter().map(|&index| self.position(index, ends));
        positions.collect()
    }

    /// Returns the range with an explicit end after its last frame, which excludes spans after that
    /// frame.
    pub(crate) fn bounded(&mut self, range: FrameRange) -> Result<FrameRange, Failure> {
        let positions = self.positions(range)?;
        let last = self.readable(positions.end - 1)?;
        Ok(FrameRange {
            from: range.from,
            to: Some(last.index.saturating_add(1)),
        })
    }

    /// Returns the first and the last frame that can be read.
    fn ends(&mut self) -> Result<[Readable; 2], Failure> {
        match self.capture.frame_count().checked_sub(1) {
            Some(last) => Ok([self.readable(0)?, self.readable(last)?]),
            None => Err(self.failure("no frames")),
        }
    }

    /// Returns the position of the first frame whose number is at least `index`.
    fn position(&mut self, index: u64, [first, last]: [Readable; 2]) -> Result<u64, Failure> {
        if index < first.index {
            return Ok(0);
        }
        if index > last.index {
            return Ok(self.capture.frame_count());
        }
        // Numbers ascend, so none is missing in between.
        if last.index - first.index == last.at - first.at {
            return Ok(first.at + (index - first.index));
        }
        let (mut low, mut high) = (first.at, last.at);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.readable(middle)?.index < index {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Returns the frame at a position, or the nearest one that can be read, trying later ones
    /// first.
    fn readable(&mut self, position: u64) -> Result<Readable, Failure> {
        let later = position..self.capture.frame_count();
        let mut failure = None;
        for at in later.chain((0..position).rev()) {
            match self.capture.frame(at) {
                Ok(frame) => {
                    let index = frame.index;
                    return Ok(Readable { index, at });
                }
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

/// Returns the warning about frames with lost records, unless the warning about damage explains
/// them.
pub(crate) fn lost_records(path: &Path, frames: u64, damage: &Damage) -> Option<String> {
    (frames > 0 && !is_damaged(damage)).then(|| {
        let (path, frames) = (path.display(), units::counted(frames, "frame"));
        format!("{path}: {frames} with lost records; see `vor check`")
    })
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

#[cfg(test)]
mod tests {
    use vor_capture::filled;
    use vor_capture::format::RecordRef;
    use vor_capture::model::batch::{SpanBatch, ThreadBatch};
    use vor_capture::model::catalog::SiteId;
    use vor_capture::model::frame::FrameSnapshot;
    use vor_fixtures::captures::record_offsets;
    use vor_fixtures::even;
    use vor_fixtures::sealed::kind;

    use super::*;

    /// Makes a closed capture of frames with these numbers, each of one span. The records of the
    /// frames at the positions `damaged` are damaged.
    fn capture(indices: &[u64], damaged: &[usize]) -> Vec<u8> {
        let catalog = even::catalog();
        let (mut encoder, mut bytes) = even::begin(&catalog);
        for (&index, start_ticks) in indices.iter().zip((1_000..).step_by(100)) {
            let batch = filled!(SpanBatch {
                catalog: Arc::clone(&catalog),
                threads: vec![filled!(ThreadBatch {
                    start_ticks: vec![start_ticks + 10],
                    duration_ticks: vec![50],
                    sites: vec![SiteId(1)]
                })],
            });
            encoder.encode(RecordRef::Batch(&batch), &mut bytes);
            let frame = filled!(FrameSnapshot {
                catalog: Arc::clone(&catalog),
                index,
                start_ticks,
                end_ticks: start_ticks + 100,
                span_count: 1
            });
            encoder.encode(RecordRef::Frame(&frame), &mut bytes);
        }
        encoder.close(&catalog, &mut bytes);
        let records = record_offsets(&bytes);
        let is_frame = |at: &usize| bytes.get(at + 12) == Some(&kind::FRAME);
        let frames: Vec<usize> = records.into_iter().filter(is_frame).collect();
        damaged.iter().for_each(|&at| bytes[frames[at] + 16] ^= 1);
        bytes
    }

    fn open(folder: &tempfile::TempDir, bytes: &[u8]) -> Source {
        let path = folder.path().join("run.vor");
        std::fs::write(&path, bytes).unwrap();
        Source::open(&path).unwrap()
    }

    fn message<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
        match result.unwrap_err() {
            Failure::Message(message) => message,
            Failure::PipeClosed => panic!("a pipe"),
        }
    }

    #[test]
    fn ranges_of_numbers_are_ranges_of_positions() {
        let folder = tempfile::tempdir().unwrap();
        // Without gaps, and with one, two and more numbers missing.
        for indices in [
            &[0, 1, 2, 3][..],
            &[10, 11, 12, 13, 14],
            &[10, 11, 12, 14, 15],
            &[10, 12, 13, 15, 16],
            &[0, 2, 3, 4, 5, 6, 7],
            &[3, 30, 31, 300, 301, 3000, 3001, 3002],
            &[7],
        ] {
            let mut source = open(&folder, &capture(indices, &[]));
            let at = |number: u64| indices.partition_point(|index| *index < number) as u64;
            let near = |index: &u64| [index.saturating_sub(1), *index, index + 1];
            let numbers: Vec<u64> = indices.iter().flat_map(near).collect();
            for &from in &numbers {
                let count = indices.len() as u64;
                let ends = numbers.iter().map(|&to| (Some(to), at(to)));
                for (to, end) in ends.chain([(None, count)]) {
                    let positions = source.positions(FrameRange { from, to }).ok();
                    let expected = at(from)..end;
                    let expected = Some(expected).filter(|expected| !expected.is_empty());
                    assert_eq!(positions, expected, "{from}..{to:?} of {indices:?}");
                }
            }
            let positions = source.positions_of(indices).unwrap();
            assert!(positions.into_iter().eq(0..indices.len() as u64));
        }
        let mut source = open(&folder, &capture(&[10, 12, 13, 15, 16], &[]));
        let range = |from, to| FrameRange { from, to };
        assert_eq!(
            source.bounded(range(3, Some(15))).unwrap(),
            range(3, Some(14))
        );
        assert_eq!(
            source.bounded(range(13, None)).unwrap(),
            range(13, Some(17))
        );
        let path = source.path.display().to_string();
        assert_eq!(
            message(source.positions(range(17, Some(20)))),
            format!("{path}: no frame in 17..20: the capture has frames 10..17")
        );
        let mut empty = open(&folder, &capture(&[], &[]));
        let nothing = format!("{path}: no frames");
        assert_eq!(message(empty.positions(FrameRange::ALL)), nothing);
        assert_eq!(message(empty.positions_of(&[])), nothing);
    }

    #[test]
    fn numbers_are_found_beside_damaged_frames() {
        let folder = tempfile::tempdir().unwrap();
        let frame = |index, at| Readable { index, at };
        // The nearest later frame, or the nearest earlier one.
        let mut source = open(&folder, &capture(&[10, 12, 13, 15, 16], &[0, 2, 4]));
        let found: Vec<_> = (0..5).map(|at| source.readable(at).unwrap()).collect();
        assert_eq!(
            found,
            [
                frame(12, 1),
                frame(12, 1),
                frame(15, 3),
                frame(15, 3),
                frame(15, 3)
            ]
        );
        // The last frames that can be read are as far apart as all of them.
        let mut source = open(&folder, &capture(&[10, 12, 13, 15, 16], &[0]));
        assert_eq!(
            source.positions_of(&[12, 13, 15, 16]).unwrap(),
            [1, 2, 3, 4]
        );
        let mut source = open(&folder, &capture(&[10, 13, 14, 15, 18], &[0]));
        assert_eq!(source.positions_of(&[14, 15, 18]).unwrap(), [2, 3, 4]);
        // No number is missing.
        let mut source = open(&folder, &capture(&[10, 11, 12, 13, 14], &[0, 4]));
        assert_eq!(source.positions_of(&[11, 12, 13]).unwrap(), [1, 2, 3]);
        assert_eq!(source.positions_of(&[10, 14]).unwrap(), [0, 5]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_no_damaged_frame() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, indices) in [("1.vor", [1, 2]), ("2.vor", [3, 4])] {
            std::fs::write(path(name), capture(&indices, &[])).unwrap();
        }
        let mut source = Source::open(folder.path()).unwrap();
        // The second file stays open.
        let last = source.readable(3).unwrap();
        std::fs::remove_file(path("1.vor")).unwrap();
        assert_eq!(source.readable(3).unwrap(), last);
        let failed = message(source.readable(0));
        assert!(
            failed.contains("1.vor: the capture cannot be opened: "),
            "{failed}"
        );
    }

    #[test]
    fn a_walk_counts_spans_and_ends_where_the_visitor_breaks() {
        let folder = tempfile::tempdir().unwrap();
        let mut source = open(&folder, &capture(&[1, 2, 3], &[]));
        let walk = |source: &mut Source, most: u32| {
            let (mut progress, mut frames) = (Progress::of_test(), 0);
            let walked = source.walk(&mut progress, |piece| {
                frames += u32::from(matches!(piece, Piece::Frame(_)));
                Ok(match frames < most {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                })
            });
            walked.unwrap();
            (frames, progress.spans())
        };
        assert_eq!(walk(&mut source, 9), (3, 3));
        assert_eq!(walk(&mut source, 2), (2, 2));
        let failed = source.walk(&mut Progress::of_test(), |_| Err(Failure::PipeClosed));
        assert!(matches!(failed, Err(Failure::PipeClosed)));
    }
}
