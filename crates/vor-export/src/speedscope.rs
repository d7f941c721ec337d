//! speedscope's own JSON: a timeline and a flame graph per thread.
//!
//! A file has a table of frames, with name, file and line, and a profile of kind `evented` per
//! thread, in which a span is an event `O` where it begins and an event `C` where it ends, in
//! nanoseconds since the begin of the recording. Events must be in the order of time and balanced,
//! so spans are held, beyond some megabytes in a temporary file, and everything is written by
//! [`finish`](FrameSink::finish): see `export::replay`. Memory is bounded by the numbers of call
//! sites and threads.
//!
//! The file is called by the process's name, and says in it how many spans were dropped. Messages,
//! arguments, tasks (they overlap) and metrics have no place in the format.

use std::io::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::Error;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};

use super::chrome::push_json_str;
use super::chunked::ChunkedWriter;
use super::replay::{Edge, Replay};
use super::{push_u64, thread_label};

/// Writes a profile for speedscope.
#[derive(Debug)]
pub struct SpeedscopeExporter<W: Write> {
    out: ChunkedWriter<W>,
    replay: Replay,
    dropped_spans: u64,
    finished: bool,
}

/// The frames in the order of their numbers.
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
    /// Makes an exporter; nothing is written before it is finished.
    pub fn new(writer: W) -> Self {
        Self {
            out: ChunkedWriter::new(writer, "cannot write the speedscope profile"),
            replay: Replay::default(),
            dropped_spans: 0,
            finished: false,
        }
    }

    /// Returns the writer. What was not finished before is lost.
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
            let edges = self.replay.play(thread);
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
            // The importer refuses a file without profiles.
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
        let mut name = match catalog.process.name.as_str() {
            "" => "process".to_owned(),
            name => name.to_owned(),
        };
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
        push_u64(&mut self.out.bytes, last_ns);
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
        let dropped = batch.threads.iter().map(|thread| thread.dropped_spans);
        self.dropped_spans += dropped.sum::<u64>();
        let held = self.replay.push(batch);
        held.map_err(|error| Error::io("cannot hold the spans of the speedscope profile", error))
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.replay.see(&frame.catalog);
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
    push_u64(out, u64::from(frame));
    out.extend_from_slice(b",\"at\":");
    push_u64(out, edge.ns);
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
            push_u64(out, u64::from(site.line));
        }
    }
    out.push(b'}');
}
