//! Collapsed stacks: the text that `flamegraph.pl`, inferno, speedscope and most other flame graph
//! tools read.
//!
//! Each distinct stack is a line: its frames from the outermost to the innermost with `;` between
//! them, a space, and the self time in nanoseconds of all its spans together.
//!
//! ```text
//! main;step;decode 1250300
//! main;step 48211
//! ```
//!
//! The outermost frame is the thread's name, and threads of one name are one; see
//! [`CollapsedExporter::without_threads`]. A stack without time of its own has no line.
//!
//! Names stand as they are, spaces included, but for what readers would take for something else:
//! `;` becomes `:`, control characters become spaces, and in a span's name the space before a
//! number at the end becomes `_`, because readers would take that number for a second weight. So
//! `row 17; x` is `row 17: x`, and `row 17` is `row_17`.
//!
//! Messages, arguments, tasks (they overlap) and metrics have no place in the format. Memory is
//! bounded by the number of distinct stacks, not by that of spans: spans that wait for a scope
//! which is open go to a temporary file where they are many. Whoever says what is open, by
//! [`accept_open`](FrameSink::accept_open), spares that. Everything is written by
//! [`finish`](FrameSink::finish).

use std::io::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::Error;
use vor_capture::model::batch::{OpenStarts, SpanBatch};
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};

use super::chunked::ChunkedWriter;
use super::merged::Merged;
use super::{push_u64, thread_label};

/// Writes collapsed stacks.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use vor_capture::filled;
/// use vor_capture::model::batch::{SpanBatch, ThreadBatch};
/// use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo};
/// use vor_export::collapsed::CollapsedExporter;
/// use vor_capture::sink::FrameSink;
///
/// let site = |name: &'static str| Some(Arc::new(filled!(SiteInfo { name: name.into() })));
/// let catalog = filled!(Catalog { sites: Arc::new(vec![site("step"), site("decode")]) });
/// // A span of 100 ns around one of 30 ns, which ended first.
/// let thread = filled!(ThreadBatch {
///     start_ticks: vec![1_020, 1_000],
///     duration_ticks: vec![30, 100],
///     sites: vec![SiteId(2), SiteId(1)],
/// });
/// let batch = filled!(SpanBatch { catalog: Arc::new(catalog), threads: vec![thread] });
///
/// let mut exporter = CollapsedExporter::new(Vec::new()).without_threads();
/// exporter.accept_batch(&batch)?;
/// exporter.finish()?;
/// assert_eq!(exporter.into_inner(), b"step 70\nstep;decode 30\n");
/// # Ok::<(), vor_capture::Error>(())
/// ```
#[derive(Debug)]
pub struct CollapsedExporter<W: Write> {
    out: ChunkedWriter<W>,
    with_threads: bool,
    finished: bool,
    merged: Merged<u64>,
    /// Frames by name, and their names as they are written.
    frames: FxHashMap<Box<[u8]>, u32>,
    names: Vec<Box<[u8]>>,
    /// Frames of call sites, by `SiteId - 1`.
    site_frames: Vec<Option<u32>>,
}

impl<W: Write> CollapsedExporter<W> {
    /// Makes an exporter; nothing is written before it is finished.
    pub fn new(writer: W) -> Self {
        Self {
            out: ChunkedWriter::new(writer, "cannot write the collapsed stacks"),
            with_threads: true,
            finished: false,
            merged: Merged::default(),
            frames: FxHashMap::default(),
            names: Vec::new(),
            site_frames: Vec::new(),
        }
    }

    /// Leaves the thread out of the stacks, so that the work of all threads is one flame.
    #[must_use]
    pub fn without_threads(mut self) -> Self {
        self.with_threads = false;
        self
    }

    /// Returns how many spans were lost because a ring was full: the format has no place for that.
    pub fn dropped_spans(&self) -> u64 {
        self.merged.dropped_spans
    }

    /// Returns the writer. What was not finished before is lost.
    pub fn into_inner(self) -> W {
        self.out.into_inner()
    }

    /// Returns the frame of a name.
    fn frame(&mut self, name: Box<[u8]>) -> u32 {
        if let Some(&frame) = self.frames.get(&*name) {
            return frame;
        }
        let frame = self.names.len() as u32;
        self.names.push(name.clone());
        self.frames.insert(name, frame);
        frame
    }

    /// Makes the frames of the call sites that are new in the catalog.
    fn declare_sites(&mut self, catalog: &Arc<Catalog>) {
        if Arc::ptr_eq(&self.merged.catalog.sites, &catalog.sites) {
            return;
        }
        if self.site_frames.len() < catalog.sites.len() {
            self.site_frames.resize(catalog.sites.len(), None);
        }
        for (at, site) in catalog.sites.iter().enumerate() {
            if let (None, Some(site)) = (self.site_frames[at], site) {
                self.site_frames[at] = Some(self.frame(frame_name(&site.name)));
            }
        }
    }

    fn write(&mut self) -> Result<(), Error> {
        let mut merged = std::mem::take(&mut self.merged);
        let with_threads = self.with_threads;
        let roots = merged.take(|catalog, thread| {
            with_threads.then(|| {
                let label = plain_name(&thread_label(catalog, thread));
                self.frame(label.into_bytes().into())
            })
        });
        let roots = roots.map_err(|error| self.out.error(error))?;
        for (label, root) in roots {
            merged.each(root, |path, self_ns| {
                let line = &mut self.out.bytes;
                for (i, &frame) in label.iter().chain(path).enumerate() {
                    if i > 0 {
                        line.push(b';');
                    }
                    line.extend_from_slice(&self.names[frame as usize]);
                }
                line.push(b' ');
                push_u64(line, self_ns);
                line.push(b'\n');
                self.out.write_full()
            })?;
        }
        self.merged.dropped_spans = merged.dropped_spans;
        self.out.flush()
    }
}

impl<W: Write + Send> FrameSink for CollapsedExporter<W> {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        if self.finished {
            return Err(Error::sink("the collapsed stacks are already finished"));
        }
        self.declare_sites(&batch.catalog);
        let unknown = self.frame(frame_name("?"));
        let site_frames = &self.site_frames;
        let accepted = self.merged.accept(batch, |site, _, ns| {
            (frame_of(site_frames, site).unwrap_or(unknown), ns)
        });
        accepted.map_err(|error| Error::io("cannot keep the stacks in a temporary file", error))
    }

    fn wants_open(&self) -> bool {
        true
    }

    fn accept_open(&mut self, open: &OpenStarts) -> Result<(), Error> {
        self.merged.settle(open);
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        self.write()
    }
}

fn frame_of(site_frames: &[Option<u32>], site: SiteId) -> Option<u32> {
    *site_frames.get((site.0 as usize).checked_sub(1)?)?
}

/// Returns a name as it can stand between two semicolons.
fn plain_name(name: &str) -> String {
    let plain = |character: char| match character {
        ';' => ':',
        character if character.is_control() => ' ',
        character => character,
    };
    let name: String = name.chars().map(plain).collect();
    match name.trim() {
        "" => "?".to_owned(),
        _ => name,
    }
}

/// Returns a name as it can stand before the weight too.
fn frame_name(name: &str) -> Box<[u8]> {
    let mut name = plain_name(name);
    let number =
        name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    if number.len() < name.len() && number.ends_with(' ') {
        let at = number.len() - 1;
        name.replace_range(at..=at, "_");
    }
    name.into_bytes().into()
}
