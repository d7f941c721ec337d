//! One pass over a capture, or over some of its frames, that collects the contents of tables.
//!
//! For a few frames of a large file, the pass uses the file's index. The self time of a span is
//! correct only if all spans inside it were read. So if a span began before the first of these
//! frames, the pass reads the file from its start, as `vor stats --frames` does.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pyo3::prelude::*;
use vor_capture::Error;
use vor_capture::filled;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::reader::{Columns, ColumnsBuilder, Damage, FrameSummary, Piece, SegmentedCapture};
use vor_capture::stats::StatsBuilder;

use super::error::failed;
use super::pages::large_columns;
use super::table::frames_within;

/// Pieces that are read between two checks for Ctrl-C.
const PIECES_BETWEEN_SIGNALS: usize = 256;

/// The results of a pass.
pub(super) struct PassData {
    pub(super) columns: Columns,
    pub(super) metrics: Vec<FrameMetric>,
    /// Resolves all ids in the results.
    pub(super) catalog: Arc<Catalog>,
    /// The damage that the pass found.
    pub(super) damage: Damage,
}

/// A metric of a frame.
pub(super) struct FrameMetric {
    /// Number of the frame.
    pub(super) frame: u64,
    /// The mark that ended the frame, in nanoseconds since 1970.
    pub(super) time_ns: i64,
    /// Index into the catalog's columns.
    pub(super) column: u32,
    pub(super) value: f64,
}

/// The reason why a pass ended early.
pub(super) enum Interruption {
    Failed(Error),
    /// A signal handler raised.
    Raised(PyErr),
}

impl Interruption {
    /// Makes the exception.
    pub(super) fn raise(self, path: &Path) -> PyErr {
        match self {
            Self::Failed(error) => failed(path, error),
            Self::Raised(error) => error,
        }
    }
}

impl From<Error> for Interruption {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The frames to read: all, including spans after the last one, or a range of numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum FrameSelection {
    All,
    Range { first: u64, last: u64 },
}

impl FrameSelection {
    pub(super) fn new(range: Option<(u64, u64)>) -> Self {
        range.map_or(Self::All, |(first, last)| Self::Range { first, last })
    }

    fn contains(self, frame: u64) -> bool {
        match self {
            Self::All => true,
            Self::Range { first, last } => (first..=last).contains(&frame),
        }
    }

    /// Returns whether the selection begins after a frame.
    fn is_after(self, frame: u64) -> bool {
        matches!(self, Self::Range { first, .. } if frame < first)
    }

    /// Returns whether the selection ends with a frame or before it.
    fn is_before(self, frame: u64) -> bool {
        matches!(self, Self::Range { last, .. } if frame >= last)
    }
}

/// Checks for signals periodically.
#[derive(Default)]
struct Signals {
    pieces: usize,
}

impl Signals {
    fn check(&mut self) -> Result<(), Interruption> {
        self.pieces += 1;
        if !self.pieces.is_multiple_of(PIECES_BETWEEN_SIGNALS) {
            return Ok(());
        }
        Python::attach(|py| py.check_signals()).map_err(Interruption::Raised)
    }
}

/// Collects the contents of the selected frames, with spans or metrics only. `frames` are all
/// readable frames of the capture, with their places in it.
pub(super) fn gather(
    capture: &mut SegmentedCapture,
    frames: &[(u64, FrameSummary)],
    selection: FrameSelection,
    with_spans: bool,
) -> Result<PassData, Interruption> {
    let info = capture.info();
    // A count that a file declares must not reserve more than the file can hold. A span takes more
    // than a byte.
    let room = |spans: u64| usize::try_from(spans.min(info.file_bytes)).unwrap_or(0);
    let FrameSelection::Range { first, last } = selection else {
        return stream(capture, selection, with_spans, room(info.spans));
    };
    let chosen = &frames[frames_within(frames, |(_, frame)| frame.index, first, last)];
    let spans: u64 = chosen.iter().fold(0, |sum: u64, (_, frame)| {
        sum.saturating_add(frame.span_count)
    });
    if spans <= info.spans / 2
        && let Some(gathered) = seek(capture, chosen, room(spans))?
    {
        return Ok(gathered);
    }
    stream(capture, selection, with_spans, room(spans))
}

/// Reads from the beginning to the last selected frame.
fn stream(
    capture: &mut SegmentedCapture,
    selection: FrameSelection,
    with_spans: bool,
    room: usize,
) -> Result<PassData, Interruption> {
    let mut builder =
        ColumnsBuilder::with_columns(large_columns(if with_spans { room } else { 0 }));
    let mut metrics = Vec::new();
    let (catalog, damage) = visit(capture, |piece| {
        match piece {
            Piece::Batch(batch) if with_spans => builder.add_batch(batch),
            Piece::Frame(recovered) if recovered.frame.frame_set == 0 => {
                let frame = &recovered.frame;
                if selection.contains(frame.index) {
                    builder.end_frame(frame.index);
                    push_metrics(frame, &mut metrics);
                } else {
                    builder.skip_frame();
                }
                if selection.is_before(frame.index) {
                    return ControlFlow::Break(());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    if let FrameSelection::Range { .. } = selection {
        builder.skip_frame();
    }
    Ok(PassData {
        columns: builder.finish(),
        metrics,
        catalog,
        damage,
    })
}

/// Reads frames at their places. Returns `None` if a span or task began before them.
fn seek(
    capture: &mut SegmentedCapture,
    chosen: &[(u64, FrameSummary)],
    room: usize,
) -> Result<Option<PassData>, Interruption> {
    let mut builder = ColumnsBuilder::with_columns(large_columns(room));
    let mut metrics = Vec::new();
    let mut signals = Signals::default();
    let begin_ticks = chosen.first().map_or(0, |(_, frame)| frame.start_ticks);
    for &(place, _) in chosen {
        signals.check()?;
        let (recovered, threads) = match capture.recovered_batches(place) {
            Ok(found) => found,
            Err(error) if error.is_corrupt() => continue,
            Err(error) => return Err(error.into()),
        };
        let frame = &recovered.frame;
        let batch = if frame.threads.is_empty() {
            filled!(SpanBatch {
                catalog: Arc::clone(&frame.catalog),
                threads,
            })
        } else {
            SpanBatch::of_trees(frame)
        };
        let mut starts = batch.threads.iter().flat_map(|thread| {
            let tasks = thread.async_spans.iter().map(|task| task.start_ticks);
            thread.start_ticks.iter().copied().chain(tasks)
        });
        if starts.any(|start_ticks| start_ticks < begin_ticks) {
            return Ok(None);
        }
        builder.add_batch(batch);
        builder.end_frame(frame.index);
        push_metrics(frame, &mut metrics);
    }
    Ok(Some(PassData {
        columns: builder.finish(),
        metrics,
        catalog: Arc::clone(capture.catalog()),
        damage: capture.info().damage,
    }))
}

fn push_metrics(frame: &FrameSnapshot, metrics: &mut Vec<FrameMetric>) {
    let time_ns = frame.catalog.unix_ns(frame.end_ticks);
    metrics.extend(frame.metrics.iter().map(|value| FrameMetric {
        frame: frame.index,
        time_ns,
        column: value.column,
        value: value.value,
    }));
}

/// Computes the statistics of the selected frames, as `vor stats` does.
pub(super) fn statistics(
    capture: &mut SegmentedCapture,
    selection: FrameSelection,
) -> Result<(StatsBuilder, Arc<Catalog>, Damage), Interruption> {
    let mut found = statistics_once(capture, selection, StatsBuilder::new())?;
    // If too many spans waited for their parents, another pass with the boundaries from this one
    // resolves them.
    for _ in 1..StatsBuilder::MAX_PASSES {
        let Some(builder) = found.0.for_second_pass() else {
            break;
        };
        found = statistics_once(capture, selection, builder)?;
    }
    Ok(found)
}

/// Computes the statistics of the spans that can be read until `deadline`, in one pass. Returns
/// whether these are all.
pub(super) fn statistics_until(
    capture: &mut SegmentedCapture,
    deadline: Instant,
) -> Result<(StatsBuilder, Arc<Catalog>, bool), Interruption> {
    let (mut builder, mut is_whole) = (StatsBuilder::new(), true);
    let (catalog, _) = visit(capture, |piece| {
        if let Piece::Batch(batch) = piece {
            builder.add_batch(&batch);
            is_whole = Instant::now() < deadline;
        }
        match is_whole {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    Ok((builder, catalog, is_whole))
}

fn statistics_once(
    capture: &mut SegmentedCapture,
    selection: FrameSelection,
    mut builder: StatsBuilder,
) -> Result<(StatsBuilder, Arc<Catalog>, Damage), Interruption> {
    let (catalog, damage) = visit(capture, |piece| {
        match piece {
            Piece::Batch(batch) => builder.add_batch(&batch),
            Piece::Frame(recovered) if recovered.frame.frame_set == 0 => {
                let index = recovered.frame.index;
                if selection.is_after(index) {
                    builder.restart();
                }
                if selection.is_before(index) {
                    return ControlFlow::Break(());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok((builder, catalog, damage))
}

/// Calls `use_piece` with every piece of a file until it breaks. Returns the catalog and the
/// damage.
fn visit(
    capture: &mut SegmentedCapture,
    mut use_piece: impl FnMut(Piece) -> ControlFlow<()>,
) -> Result<(Arc<Catalog>, Damage), Interruption> {
    let mut signals = Signals::default();
    let mut pieces = capture.pieces()?;
    while let Some(piece) = pieces.next_piece()? {
        signals.check()?;
        if use_piece(piece).is_break() {
            break;
        }
    }
    Ok((Arc::clone(pieces.catalog()), pieces.damage()))
}
