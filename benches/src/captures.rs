//! Captures of any size, which repeat one frame.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::FrameSink;
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

/// Writes a capture whose frames all hold the spans of `batch`, until `is_enough` accepts the
/// number of frames. Returns that number.
///
/// # Errors
///
/// The file cannot be written, or `is_enough` fails.
pub fn write(
    path: &Path,
    mut batch: SpanBatch,
    mut is_enough: impl FnMut(u64) -> Result<bool, Box<dyn Error>>,
) -> Result<u64, Box<dyn Error>> {
    let mut sink = CaptureSink::create(path, CaptureOptions::default())?;
    let length_ticks = last_end(&batch);
    let mut index = 0;
    while !is_enough(index)? {
        sink.accept_batch(&batch)?;
        let frame = filled!(FrameSnapshot {
            catalog: Arc::clone(&batch.catalog),
            index,
            start_ticks: index * length_ticks,
            end_ticks: (index + 1) * length_ticks,
            span_count: batch.span_count() as u64
        });
        sink.accept_frame(&Arc::new(frame))?;
        index += 1;
        for share in &mut batch.threads {
            share
                .start_ticks
                .iter_mut()
                .for_each(|start| *start += length_ticks);
        }
    }
    sink.finish()?;
    Ok(index)
}

fn last_end(batch: &SpanBatch) -> u64 {
    let ends = batch.threads.iter().flat_map(|share| {
        let each = share.start_ticks.iter().zip(&share.duration_ticks);
        each.map(|(start, duration)| start + duration)
    });
    ends.max().unwrap_or(0)
}
