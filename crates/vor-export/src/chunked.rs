//! A writer that receives an export in chunks.
//!
//! Exporters append to a buffer and change the last bytes: a protobuf message gets its length when
//! it is complete, and a JSON object is reopened for another field. `io::BufWriter` cannot do that.
//! So the buffer is a plain `Vec`, and the exporter calls [`ChunkedWriter::write_full`] where the
//! end of the buffer is final.
//!
//! ```text
//! exporter ── append ──> bytes ── write_full, from CHUNK_BYTES on ──> writer
//!                              └─ flush, whatever is buffered ──────> writer, flushed
//! ```
//!
//! A buffer never holds more than a chunk and the bytes that are appended between two calls.

use std::io::{self, Write};

use vor_capture::Error;

/// Bytes at which a buffer is written.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// A writer, and the bytes that it has not received yet.
#[derive(Debug)]
pub(crate) struct ChunkedWriter<W> {
    /// The buffered bytes; exporters append to them.
    pub(crate) bytes: Vec<u8>,
    writer: W,
    /// The context of an error, such as `cannot write the CSV`.
    failure: &'static str,
}

impl<W: Write> ChunkedWriter<W> {
    /// Makes a writer with an empty buffer. `failure` names the incomplete file in an error.
    pub(crate) fn new(writer: W, failure: &'static str) -> Self {
        Self {
            // Room for a chunk and the record that exceeds it.
            bytes: Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4),
            writer,
            failure,
        }
    }

    /// Writes the buffer if it is full.
    ///
    /// Bytes that the writer refuses are lost: it may have received some of them, and a second
    /// attempt would repeat these.
    #[inline]
    pub(crate) fn write_full(&mut self) -> Result<(), Error> {
        if self.bytes.len() < CHUNK_BYTES {
            return Ok(());
        }
        self.write_all()
    }

    /// Writes the buffer and flushes the writer.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if !self.bytes.is_empty() {
            self.write_all()?;
        }
        self.writer.flush().map_err(|error| self.error(error))
    }

    /// Returns an error that names the file.
    pub(crate) fn error(&self, error: io::Error) -> Error {
        Error::io(self.failure, error)
    }

    /// Returns the writer. Buffered bytes are lost.
    pub(crate) fn into_inner(self) -> W {
        self.writer
    }

    fn write_all(&mut self) -> Result<(), Error> {
        let result = self.writer.write_all(&self.bytes);
        self.bytes.clear();
        result.map_err(|error| self.error(error))
    }
}

impl ChunkedWriter<Vec<u8>> {
    /// Takes everything that was written or buffered since the last call.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let mut taken = std::mem::take(&mut self.writer);
        taken.append(&mut self.bytes);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts a few bytes per call, is interrupted every fifth call, and fails once it has `room`
    /// bytes.
    #[derive(Debug)]
    struct Reluctant {
        received: Vec<u8>,
        /// Sizes of the buffers that were offered.
        offered: Vec<usize>,
        calls: usize,
        flushes: usize,
        room: usize,
    }

    impl Reluctant {
        fn with_room(room: usize) -> Self {
            Self {
                received: Vec::new(),
                offered: Vec::new(),
                calls: 0,
                flushes: 0,
                room,
            }
        }
    }

    impl Write for Reluctant {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            self.offered.push(bytes.len());
            if self.calls.is_multiple_of(5) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if self.received.len() >= self.room {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let accepted = bytes.len().min(1 + self.calls % 700);
            self.received.extend_from_slice(&bytes[..accepted]);
            Ok(accepted)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.flushes += 1;
            Ok(())
        }
    }

    fn record(number: usize) -> Vec<u8> {
        let length = number * 7919 % 997;
        (0..length).map(|i| (number + i) as u8).collect()
    }

    #[test]
    fn short_and_interrupted_writes_lose_no_byte() {
        let mut out = ChunkedWriter::new(Reluctant::with_room(usize::MAX), "cannot write");
        let mut expected = Vec::new();
        for number in 0..1_000 {
            out.bytes.extend_from_slice(&record(number));
            expected.extend_from_slice(&record(number));
            out.write_full().unwrap();
        }
        out.flush().unwrap();
        out.flush().unwrap();
        let writer = out.into_inner();
        assert!(
            writer.received == expected,
            "every byte arrives once and in order"
        );
        assert_eq!(writer.flushes, 2);
    }

    #[test]
    fn a_buffer_is_bounded_by_a_chunk_and_the_record_that_exceeds_it() {
        let mut out = ChunkedWriter::new(Vec::new(), "cannot write");
        let (mut appended, mut fullest) = (0, 0);
        for number in 0..2_000 {
            out.bytes.extend_from_slice(&record(number));
            appended += record(number).len();
            fullest = fullest.max(out.bytes.len());
            out.write_full().unwrap();
            assert!(out.bytes.len() < CHUNK_BYTES);
            assert_eq!(out.writer.len() + out.bytes.len(), appended);
        }
        assert!((CHUNK_BYTES..CHUNK_BYTES + 997).contains(&fullest));
        assert_eq!(
            out.bytes.capacity(),
            CHUNK_BYTES + CHUNK_BYTES / 4,
            "the first allocation is enough"
        );
    }

    #[test]
    fn writes_are_whole_chunks_until_a_flush() {
        let mut out = ChunkedWriter::new(Reluctant::with_room(usize::MAX), "cannot write");
        out.bytes.resize(CHUNK_BYTES - 1, 7);
        out.write_full().unwrap();
        assert_eq!(out.writer.calls, 0, "a byte is missing");
        out.bytes.push(7);
        out.write_full().unwrap();
        assert_eq!(out.writer.offered[0], CHUNK_BYTES);
        assert_eq!((out.bytes.len(), out.writer.flushes), (0, 0));
        out.bytes.push(8);
        out.flush().unwrap();
        assert_eq!(out.writer.offered.last(), Some(&1));
        assert_eq!(out.writer.received.last(), Some(&8));
    }

    #[test]
    fn a_refused_chunk_is_an_error_and_leaves_no_bytes_to_repeat() {
        let mut out = ChunkedWriter::new(Reluctant::with_room(40_000), "cannot write the CSV");
        out.bytes.resize(CHUNK_BYTES, 1);
        let error = out.write_full().unwrap_err();
        assert_eq!(error.io_kind(), Some(io::ErrorKind::StorageFull));
        assert!(error.to_string().starts_with("cannot write the CSV"));
        assert!(out.bytes.is_empty(), "a full disk does not fill the memory");
        out.bytes.push(2);
        assert_eq!(
            out.flush().unwrap_err().io_kind(),
            Some(io::ErrorKind::StorageFull)
        );
        // Nothing is buffered, so the writer has nothing to refuse.
        out.flush().unwrap();
        let received = out.into_inner().received;
        assert!((40_000..CHUNK_BYTES).contains(&received.len()));
        assert!(received.iter().all(|&byte| byte == 1));
    }

    #[test]
    fn a_writer_that_accepts_nothing_is_an_error() {
        let mut full = [0; 0];
        let mut out = ChunkedWriter::new(&mut full[..], "cannot write");
        out.bytes.push(1);
        assert_eq!(
            out.flush().unwrap_err().io_kind(),
            Some(io::ErrorKind::WriteZero)
        );
    }

    #[test]
    fn taking_returns_written_and_buffered_bytes_in_order() {
        let mut out = ChunkedWriter::new(Vec::new(), "cannot write");
        out.bytes.resize(CHUNK_BYTES, 1);
        out.write_full().unwrap();
        out.bytes.push(2);
        let taken = out.take();
        assert_eq!((taken.len(), taken[CHUNK_BYTES]), (CHUNK_BYTES + 1, 2));
        assert!(out.take().is_empty());
    }
}
