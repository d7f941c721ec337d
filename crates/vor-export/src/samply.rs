//! Marker files for samply, which shows them in the Firefox Profiler beside its samples.
//!
//! samply reads a text file per thread, `marker-<pid>-<tid>.txt`. A line is a marker: begin and end
//! in nanoseconds of the system's monotonic clock, and a name.
//!
//! ```text
//! 81250440121 81250441770 decode (bytes=4096)
//! ```
//!
//! Spans, tasks and messages are lines; a message has no duration. The format has no frames,
//! metrics or drops. Lines are in order of arrival, because samply sorts them itself. The
//! recorder's sink creates the files and announces them to samply.

use std::io;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::Error;
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::timeline::ClockSnapshot;
use vor_capture::sink::{FrameSink, Interest};

use crate::push_args_text;
use crate::text::push_integer;

/// Writes the lines of marker files. Calls `W` with chunks of a thread's file, which are whole
/// lines.
pub struct SamplyExporter<W> {
    write: W,
    clock: ClockSnapshot,
    /// Unwritten lines.
    threads: FxHashMap<ThreadId, Vec<u8>>,
    catalog: Arc<Catalog>,
}

impl<W> std::fmt::Debug for SamplyExporter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SamplyExporter")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// Bytes at which a thread's lines are written: there may be many threads.
const CHUNK_BYTES: usize = 16 * 1024;

impl<W: FnMut(&Catalog, ThreadId, &[u8]) -> io::Result<()>> SamplyExporter<W> {
    /// Makes an exporter that calls `write` with chunks of the threads' files.
    pub fn new(clock: ClockSnapshot, write: W) -> Self {
        Self {
            write,
            clock,
            threads: FxHashMap::default(),
            catalog: Arc::default(),
        }
    }

    fn add_thread(&mut self, catalog: &Catalog, batch: &ThreadBatch) -> io::Result<()> {
        let clock = self.clock;
        let lines = self.threads.entry(batch.thread).or_default();
        let mut args = batch.args.iter().peekable();
        for (i, &site) in batch.sites.iter().enumerate() {
            let (start, end) = (batch.start_ticks[i], batch.end_ticks(i));
            push_times(lines, &clock, catalog, (start, end));
            let name_from = lines.len();
            lines.extend_from_slice(catalog.site_name(site).as_bytes());
            if let Some(args) = args.next_if(|args| args.span as usize == i) {
                lines.extend_from_slice(b" (");
                push_args_text(lines, catalog.site(site), &args.values);
                lines.push(b')');
            }
            end_line(lines, name_from);
            if lines.len() >= CHUNK_BYTES {
                (self.write)(catalog, batch.thread, lines)?;
                lines.clear();
            }
        }
        for task in &batch.async_spans {
            push_times(lines, &clock, catalog, (task.start_ticks, task.end_ticks()));
            let name_from = lines.len();
            lines.extend_from_slice(catalog.site_name(task.site).as_bytes());
            end_line(lines, name_from);
        }
        for message in &batch.messages {
            push_times(lines, &clock, catalog, (message.ticks, message.ticks));
            let name_from = lines.len();
            lines.extend_from_slice(message.text.as_bytes());
            end_line(lines, name_from);
        }
        Ok(())
    }

    fn write_lines(&mut self) -> Result<(), Error> {
        let mut threads: Vec<_> = self.threads.iter_mut().collect();
        threads.sort_unstable_by_key(|(thread, _)| **thread);
        for (&thread, lines) in threads {
            if !lines.is_empty() {
                let written = (self.write)(&self.catalog, thread, lines);
                lines.clear();
                written.map_err(|error| Error::io("cannot write samply's markers", error))?;
            }
        }
        // Free the memory of written lines: most threads that recorded may have ended.
        self.threads.clear();
        Ok(())
    }
}

impl<W: FnMut(&Catalog, ThreadId, &[u8]) -> io::Result<()> + Send> FrameSink for SamplyExporter<W> {
    fn reads_metrics(&self) -> bool {
        false
    }

    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        self.catalog = Arc::clone(&batch.catalog);
        for thread in batch.threads.iter().filter(|thread| !thread.is_empty()) {
            let added = self.add_thread(&batch.catalog, thread);
            added.map_err(|error| Error::io("cannot write samply's markers", error))?;
        }
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.write_lines()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.write_lines()
    }
}

/// Returns the time of the monotonic clock at a tick. It advances like the wall clock unless the
/// latter is set, and the catalog's timeline ignores such changes.
fn monotonic_ns(clock: &ClockSnapshot, catalog: &Catalog, ticks: u64) -> u64 {
    let since_ns = i128::from(catalog.unix_ns(ticks)) - i128::from(catalog.unix_ns(clock.ticks));
    let ns = i128::from(clock.monotonic_ns) + since_ns;
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}

fn push_times(lines: &mut Vec<u8>, clock: &ClockSnapshot, catalog: &Catalog, ticks: (u64, u64)) {
    for ticks in [ticks.0, ticks.1] {
        push_integer(lines, monotonic_ns(clock, catalog, ticks));
        lines.push(b' ');
    }
}

/// Ends a line whose name begins at `name_from`. Line ends in the name become spaces, and an empty
/// name becomes `?`, because samply rejects a marker without a name.
fn end_line(lines: &mut Vec<u8>, name_from: usize) {
    if lines.len() == name_from {
        lines.push(b'?');
    }
    for byte in &mut lines[name_from..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    lines.push(b'\n');
}
