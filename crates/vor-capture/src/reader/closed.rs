//! Whether a capture is complete: a look at both ends of the file, however long it is.

use std::io::{Read, Seek, SeekFrom};

use super::{AnyHeader, read_header};
use crate::format::{END_RECORD_BYTES, parse_end};

/// Returns whether the recorder closed a capture of version 3: it ends with an end record. A
/// capture of version 2 never says so, and something that is no capture is not closed.
///
/// Only the header and the last bytes are read. Damage in between is not noticed.
///
/// # Examples
///
/// ```
/// let bytes = std::io::Cursor::new(b"no capture");
/// assert!(!vor_capture::reader::is_closed(bytes));
/// ```
pub fn is_closed(mut input: impl Read + Seek) -> bool {
    let Ok((AnyHeader::V3(header, _), _)) = read_header(&mut input) else {
        return false;
    };
    let mut end = [0; END_RECORD_BYTES];
    // The end of a file that is shorter than the record lies before its begin.
    let from_end = -(END_RECORD_BYTES as i64);
    input.seek(SeekFrom::End(from_end)).is_ok()
        && input.read_exact(&mut end).is_ok()
        && parse_end(&header, &end).is_some()
}
