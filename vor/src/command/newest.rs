//! The segments of a folder that come after another one.

use std::path::{Path, PathBuf};

use vor_capture::format::HEADER_BYTES;
use vor_capture::reader::SegmentedCapture;

use crate::command::failure::Failure;

/// Returns the segments after `path`: names are in the order of time.
pub(crate) fn next_segments(all: &Path, path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = SegmentedCapture::list(all)?.unwrap_or_default();
    paths.retain(|next| **next > *path);
    Ok(paths)
}

/// Returns whether a capture has its header, which its recorder writes after it has created it.
pub(crate) fn has_header(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.len() >= HEADER_BYTES as u64)
}
