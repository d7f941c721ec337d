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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_segments_follow_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, third] = ["a-1.vor", "a-2.vor", "b-0.vor"].map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, b"").unwrap();
            path
        });
        let next = |path: &Path| next_segments(folder.path(), path).unwrap();
        assert_eq!(next(&first), [second.clone(), third.clone()]);
        assert_eq!(next(&second), std::slice::from_ref(&third));
        assert!(next(&third).is_empty());
        assert!(next_segments(&first, &first).unwrap().is_empty(), "a file");
    }

    #[test]
    fn a_capture_has_a_header_once_all_of_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        assert!(!has_header(&path));
        for (bytes, expected) in [(-1, false), (0, true), (1, true)] {
            let bytes = HEADER_BYTES.checked_add_signed(bytes).unwrap();
            std::fs::write(&path, vec![0; bytes]).unwrap();
            assert_eq!(has_header(&path), expected, "{bytes}");
        }
    }
}
