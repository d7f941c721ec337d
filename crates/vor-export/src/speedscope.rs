//! speedscope's own JSON: a timeline and a flame graph per thread.
//!
//! A file has a table of frames, with name, file and line, and a profile of type `evented` per
//! thread. A span is an event `O` at its begin and an event `C` at its end, in nanoseconds since
//! the begin of the recording. Events must be balanced and in order of time. So spans are stored
//! until [`finish`](FrameSink::finish) writes everything; beyond some megabytes they are in a
//! temporary file. Memory is bounded by the numbers of call sites and threads.
//!
//! The profile has the name of the process, followed by the number of dropped spans. The format has
//! no messages, arguments, tasks (they overlap) or metrics.

use std::io::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::Error;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};

use crate::chunked::ChunkedWriter;
use crate::labels::{process_label, thread_label};
use crate::replay::{Edge, Replay};
use crate::text::{push_integer, push_json_str};

/// Writes a profile for speedscope.
#[derive(Debug)]
pub struct SpeedscopeExporter<W: Write> {
    out: ChunkedWriter<W>,
    replay: Replay,
    dropped_spans: u64,
    finished: bool,
}

/// The frames, each with a number.
#[derive(Debug, Default)]
struct Frames {
    numbers: FxHashMap<SiteId, u32>,
    sites: Vec<SiteId>,
}

impl Frames {
    fn number(&mut self, site: SiteId) -> u32 {
        *self.numbers.entry(site).or_insert_with(|| {
            self.sites.push(site);
            (self.sites.len() - 1) as u32
        })
    }
}

impl<W: Write> SpeedscopeExporter<W> {
    /// Makes an exporter; only [`finish`](FrameSink::finish) writes.
    pub fn new(writer: W) -> Self {
        Self {
            out: ChunkedWriter::new(writer, "cannot write the speedscope profile"),
            replay: Replay::default(),
            dropped_spans: 0,
            finished: false,
        }
    }

    /// Returns the writer. It has received nothing unless the exporter was finished before.
    pub fn into_inner(self) -> W {
        self.out.into_inner()
    }

    fn write(&mut self) -> Result<(), Error> {
        let catalog = Arc::clone(self.replay.catalog());
        self.write_head(&catalog);
        let mut frames = Frames::default();
        let threads = self.replay.threads();
        for (i, &thread) in threads.iter().enumerate() {
            if i > 0 {
                self.out.bytes.push(b',');
            }
            self.begin_profile(&thread_label(&catalog, thread));
            let (mut last_ns, mut is_first) = (0, true);
            let edges = self.replay.edges(thread);
            for edge in edges.map_err(|error| self.out.error(error))? {
                let edge = edge.map_err(|error| self.out.error(error))?;
                let frame = frames.number(edge.site);
                push_event(&mut self.out.bytes, edge, frame, is_first);
                (last_ns, is_first) = (edge.ns, false);
                self.out.write_full()?;
            }
            self.end_profile(last_ns);
        }
        if threads.is_empty() {
            // The importer rejects a file without profiles.
            self.begin_profile("no spans");
            self.end_profile(0);
        }
        self.out
            .bytes
            .extend_from_slice(b"],\n\"shared\":{\"frames\":[");
        for (i, &site) in frames.sites.iter().enumerate() {
            if i > 0 {
                self.out.bytes.push(b',');
            }
            push_frame(&mut self.out.bytes, &catalog, site);
        }
        self.out.bytes.extend_from_slice(b"\n]}}\n");
        self.out.flush()
    }

    fn write_head(&mut self, catalog: &Catalog) {
        self.out.bytes.extend_from_slice(
            b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n\"exporter\":",
        );
        push_json_str(
            &mut self.out.bytes,
            concat!("vor ", env!("CARGO_PKG_VERSION")),
        );
        self.out.bytes.extend_from_slice(b",\"name\":");
        let mut name = process_label(catalog).to_owned();
        if self.dropped_spans > 0 {
            name.push_str(&format!(" ({} spans dropped)", self.dropped_spans));
        }
        push_json_str(&mut self.out.bytes, &name);
        self.out
            .bytes
            .extend_from_slice(b",\"activeProfileIndex\":0,\n\"profiles\":[");
    }

    fn begin_profile(&mut self, name: &str) {
        self.out
            .bytes
            .extend_from_slice(b"\n{\"type\":\"evented\",\"name\":");
        push_json_str(&mut self.out.bytes, name);
        self.out
            .bytes
            .extend_from_slice(b",\"unit\":\"nanoseconds\",\"startValue\":0,\"events\":[");
    }

    fn end_profile(&mut self, last_ns: u64) {
        self.out.bytes.extend_from_slice(b"\n],\"endValue\":");
        push_integer(&mut self.out.bytes, last_ns);
        self.out.bytes.push(b'}');
    }
}

impl<W: Write + Send> FrameSink for SpeedscopeExporter<W> {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        if self.finished {
            return Err(Error::sink("the speedscope profile is already finished"));
        }
        for thread in &batch.threads {
            self.dropped_spans = self.dropped_spans.saturating_add(thread.dropped_spans);
        }
        let stored = self.replay.push(batch);
        stored.map_err(|error| Error::io("cannot store the spans of the speedscope profile", error))
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.replay.set_catalog(&frame.catalog);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        self.write()
    }
}

fn push_event(out: &mut Vec<u8>, edge: Edge, frame: u32, is_first: bool) {
    if !is_first {
        out.push(b',');
    }
    out.extend_from_slice(if edge.is_begin {
        b"\n{\"type\":\"O\",\"frame\":"
    } else {
        b"\n{\"type\":\"C\",\"frame\":"
    });
    push_integer(out, frame);
    out.extend_from_slice(b",\"at\":");
    push_integer(out, edge.ns);
    out.push(b'}');
}

fn push_frame(out: &mut Vec<u8>, catalog: &Catalog, site: SiteId) {
    out.extend_from_slice(b"\n{\"name\":");
    push_json_str(out, catalog.site_name(site));
    if let Some(site) = catalog.site(site) {
        if !site.file.is_empty() {
            out.extend_from_slice(b",\"file\":");
            push_json_str(out, &site.file);
        }
        if site.line > 0 {
            out.extend_from_slice(b",\"line\":");
            push_integer(out, site.line);
        }
    }
    out.push(b'}');
}
