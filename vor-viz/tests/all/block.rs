//! Frames of one thread, made by hand.

use vor_capture::model::catalog::ThreadId;
use vor_viz::store::{FrameBlock, FrameEntry, RowBlock, ThreadBlock};

/// Returns a frame whose first thread has these rows.
pub fn block(number: u64, begin_ns: i64, end_ns: i64, rows: Vec<RowBlock>) -> FrameBlock {
    FrameBlock {
        frame: FrameEntry {
            number,
            begin_ns,
            end_ns,
            ..FrameEntry::default()
        },
        threads: vec![ThreadBlock {
            thread: ThreadId(0),
            rows,
            ..ThreadBlock::default()
        }],
        ..FrameBlock::default()
    }
}
