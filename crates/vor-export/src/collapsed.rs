//! Collapsed stacks: the text that `flamegraph.pl`, inferno, speedscope and most other flame graph
//! tools read.
//!
//! Each distinct stack is a line: its frames from the outermost to the innermost, separated by `;`,
//! then a space and the total self time of its spans in nanoseconds.
//!
//! ```text
//! main;step;decode 1250300
//! main;step 48211
//! ```
//!
//! The outermost frame is the thread's name, and threads of one name are merged; see
//! [`CollapsedExporter::without_threads`]. A stack without self time has no line.
//!
//! Names are unchanged, including spaces, except for characters that readers interpret: `;` becomes
//! `:`, and control characters become spaces. In a span's name the space before a number at the end
//! becomes `_`, because readers take that number for a second weight. So `row 17; x` becomes
//! `row 17: x`, and `row 17` becomes `row_17`.
//!
//! The format has no messages, arguments, tasks (they overlap) or metrics. Memory is bounded by the
//! number of distinct stacks, not by the number of spans. Many spans that wait for an open scope go
//! to a temporary file. A caller can avoid that by reporting the open scopes with
//! [`accept_open`](FrameSink::accept_open). [`finish`](FrameSink::finish) writes everything.

use std::io::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::Error;
use vor_capture::model::batch::{OpenStarts, SpanBatch};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};

use crate::chunked::ChunkedWriter;
use crate::merged::Merged;
use crate::per_site::PerSite;
use crate::text::push_integer;
use crate::thread_label;

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
    frames: Frames,
    /// Frames of call sites.
    site_frames: PerSite<u32>,
}

/// The distinct names of frames, each with a number.
#[derive(Debug, Default)]
struct Frames {
    numbers: FxHashMap<Box<[u8]>, u32>,
    names: Vec<Box<[u8]>>,
}

impl Frames {
    /// Returns the frame of a name.
    fn number(&mut self, name: Box<[u8]>) -> u32 {
        if let Some(&frame) = self.numbers.get(&*name) {
            return frame;
        }
        let frame = self.names.len() as u32;
        self.names.push(name.clone());
        self.numbers.insert(name, frame);
        frame
    }
}

impl<W: Write> CollapsedExporter<W> {
    /// Makes an exporter; only [`finish`](FrameSink::finish) writes.
    pub fn new(writer: W) -> Self {
        Self {
            out: ChunkedWriter::new(writer, "cannot write the collapsed stacks"),
            with_threads: true,
            finished: false,
            merged: Merged::default(),
            frames: Frames::default(),
            site_frames: PerSite::default(),
        }
    }

    /// Omits the thread from the stacks, so that the work of all threads is one flame graph.
    #[must_use]
    pub fn without_threads(mut self) -> Self {
        self.with_threads = false;
        self
    }

    /// Returns the number of spans that were lost because a ring was full. The format cannot
    /// express it.
    pub fn dropped_spans(&self) -> u64 {
        self.merged.dropped_spans
    }

    /// Returns the writer. It has received nothing unless the exporter was finished before.
    pub fn into_inner(self) -> W {
        self.out.into_inner()
    }

    fn write(&mut self) -> Result<(), Error> {
        let mut merged = std::mem::take(&mut self.merged);
        let with_threads = self.with_threads;
        let roots = merged.take(|catalog, thread| {
            with_threads.then(|| {
                let label = plain_name(&thread_label(catalog, thread));
                self.frames.number(label.into_bytes().into())
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
                    line.extend_from_slice(&self.frames.names[frame as usize]);
                }
                line.push(b' ');
                push_integer(line, self_ns);
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
        let Self {
            frames,
            site_frames,
            merged,
            ..
        } = self;
        site_frames.update(&batch.catalog, |site| frames.number(frame_name(&site.name)));
        let unknown = frames.number(frame_name("?"));
        let accepted = merged.accept(batch, |site, _, ns| {
            (site_frames.get(site).copied().unwrap_or(unknown), ns)
        });
        accepted.map_err(|error| Error::io("cannot write the stacks to a temporary file", error))
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

/// Returns a name without characters that separate frames.
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

/// Returns a name that may also precede the weight.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_that_ends_with_a_number_is_changed() {
        let named = |name| String::from_utf8(frame_name(name).into()).unwrap();
        assert_eq!(named("step 7"), "step_7");
        assert_eq!(named("step 1.5"), "step_1.5");
        for name in ["step", "step7", "step ", "7 steps", "7"] {
            assert_eq!(named(name), name);
        }
    }
}
