//! Comma-separated values as RFC 4180 has them, with line feeds as line ends: spans, a row each,
//! and metrics, a row per frame.
//!
//! Spans come from frames with trees, so that depth and self time are known, in the order of frame,
//! thread and start:
//!
//! | column | value |
//! |---|---|
//! | `process` | name of the program, its number where it has none |
//! | `frame` | number of the frame in which the span ended |
//! | `thread` | name of the thread; of several with one name, all but the first have their number behind it |
//! | `depth` | number of spans around it |
//! | `name`, `file`, `line` | its call site; `line` is empty when unknown |
//! | `start_ns` | nanoseconds since the begin of the recording |
//! | `dur_ns` | its length in nanoseconds |
//! | `self_ns` | `dur_ns` less that of the spans directly inside it |
//! | `args` | `k=v, k=v` |

use std::io::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::Error;
use vor_capture::model::catalog::{Catalog, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::model::frame::{FrameSnapshot, ThreadTree};
use vor_capture::sink::{FrameSink, Interest};

use super::chunked::ChunkedWriter;
use super::{origin_ns, push_args_text, push_i64, push_u64, thread_label};

/// Context of an error of the writer.
const FAILURE: &str = "cannot write the CSV";

/// Writes the spans of frames, a row each.
#[derive(Debug)]
pub struct SpanCsv<W: Write> {
    out: ChunkedWriter<W>,
    /// Names of threads as they are written, for the table in `threads`.
    labels: FxHashMap<ThreadId, String>,
    threads: Arc<Vec<Option<Arc<ThreadInfo>>>>,
    /// Text of a call site's columns, by `SiteId - 1`, and the table from which it was last made.
    site_columns: Vec<Option<Box<[u8]>>>,
    sites: Arc<Vec<Option<Arc<SiteInfo>>>>,
    /// Of each span of a tree, its length and its self time.
    times_ns: Vec<(u64, u64)>,
    around: Vec<usize>,
}

/// Writes the metrics of the main frames: `frame`, then a column per metric, empty where a frame
/// has no value.
///
/// The first row names the columns, so they must be known before the first frame: from a capture
/// they all are.
#[derive(Debug)]
pub struct MetricsCsv<W: Write> {
    out: ChunkedWriter<W>,
    columns: usize,
    late_values: u64,
}

impl<W: Write> SpanCsv<W> {
    /// Makes an exporter; the heading is written before the first frame.
    pub fn new(writer: W) -> Self {
        let mut out = ChunkedWriter::new(writer, FAILURE);
        out.bytes.extend_from_slice(
            b"process,frame,thread,depth,name,file,line,start_ns,dur_ns,self_ns,args\n",
        );
        Self {
            out,
            labels: FxHashMap::default(),
            threads: Arc::default(),
            site_columns: Vec::new(),
            sites: Arc::default(),
            times_ns: Vec::new(),
            around: Vec::new(),
        }
    }

    /// Returns the writer. What was not flushed or finished before is lost.
    pub fn into_inner(self) -> W {
        self.out.into_inner()
    }

    fn write_tree(&mut self, frame: &FrameSnapshot, tree: &ThreadTree) -> Result<(), Error> {
        let catalog = &*frame.catalog;
        self.measure(catalog, tree);
        let origin = origin_ns(catalog);
        let label = self
            .labels
            .entry(tree.thread)
            .or_insert_with(|| unique_label(catalog, tree.thread));
        // What all rows of the tree begin with.
        let mut head = Vec::new();
        push_process(&mut head, catalog);
        head.push(b',');
        push_u64(&mut head, frame.index);
        head.push(b',');
        push_field(&mut head, label.as_bytes());
        head.push(b',');
        let mut args = Vec::new();
        for (span, &(dur_ns, self_ns)) in tree.spans.iter().zip(&self.times_ns) {
            let row = &mut self.out.bytes;
            row.extend_from_slice(&head);
            push_u64(row, u64::from(span.depth));
            row.push(b',');
            let columns = (span.site.0 as usize).checked_sub(1);
            let columns = columns.and_then(|at| self.site_columns.get(at)?.as_deref());
            row.extend_from_slice(columns.unwrap_or(b"?,,"));
            row.push(b',');
            push_i64(
                row,
                catalog.unix_ns(span.start_ticks).saturating_sub(origin),
            );
            row.push(b',');
            push_u64(row, dur_ns);
            row.push(b',');
            push_u64(row, self_ns);
            row.push(b',');
            args.clear();
            let values = tree.args(span);
            if !values.is_empty() {
                push_args_text(&mut args, catalog.site(span.site), values);
                push_field(row, &args);
            }
            row.push(b'\n');
            self.out.write_full()?;
        }
        Ok(())
    }

    /// Makes the text of the call sites that are new in the catalog.
    fn declare_sites(&mut self, catalog: &Catalog) {
        if Arc::ptr_eq(&self.sites, &catalog.sites) {
            return;
        }
        self.sites = Arc::clone(&catalog.sites);
        if self.site_columns.len() < catalog.sites.len() {
            self.site_columns.resize(catalog.sites.len(), None);
        }
        // A lost declaration may turn up later, so gaps are looked at again; there are few or none.
        for (columns, site) in self.site_columns.iter_mut().zip(catalog.sites.iter()) {
            if let (None, Some(site)) = (&columns, site) {
                let mut text = Vec::new();
                push_field(&mut text, site.name.as_bytes());
                text.push(b',');
                push_field(&mut text, site.file.as_bytes());
                text.push(b',');
                if site.line > 0 {
                    push_u64(&mut text, u64::from(site.line));
                }
                *columns = Some(text.into());
            }
        }
    }

    /// Fills `times_ns` for the spans of a tree.
    fn measure(&mut self, catalog: &Catalog, tree: &ThreadTree) {
        self.times_ns.clear();
        self.around.clear();
        for (i, span) in tree.spans.iter().enumerate() {
            let length = catalog
                .timeline
                .duration_ns(span.start_ticks, span.duration_ticks);
            self.times_ns.push((length, length));
            self.around.truncate(span.depth as usize);
            if let Some(&parent) = self.around.last() {
                let self_ns = &mut self.times_ns[parent].1;
                *self_ns = self_ns.saturating_sub(length);
            }
            self.around.push(i);
        }
    }
}

impl<W: Write + Send> FrameSink for SpanCsv<W> {
    fn interest(&self) -> Interest {
        Interest::FRAMES
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        if frame.frame_set != 0 {
            return Ok(());
        }
        if !Arc::ptr_eq(&self.threads, &frame.catalog.threads) {
            self.threads = Arc::clone(&frame.catalog.threads);
            self.labels.clear();
        }
        self.declare_sites(&frame.catalog);
        for tree in &frame.threads {
            self.write_tree(frame, tree)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.out.flush()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.out.flush()
    }
}

impl<W: Write> MetricsCsv<W> {
    /// Makes an exporter for the columns of a catalog.
    pub fn new(writer: W, catalog: &Catalog) -> Self {
        let mut out = ChunkedWriter::new(writer, FAILURE);
        let heading = &mut out.bytes;
        heading.extend_from_slice(b"frame");
        for column in catalog.columns.iter() {
            heading.push(b',');
            push_field(heading, column.metric.name.as_bytes());
        }
        heading.push(b'\n');
        Self {
            out,
            columns: catalog.columns.len(),
            late_values: 0,
        }
    }

    /// Returns the writer. What was not flushed or finished before is lost.
    pub fn into_inner(self) -> W {
        self.out.into_inner()
    }
}

impl<W: Write + Send> FrameSink for MetricsCsv<W> {
    fn interest(&self) -> Interest {
        Interest::METRICS
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        if frame.frame_set != 0 {
            return Ok(());
        }
        let row = &mut self.out.bytes;
        push_u64(row, frame.index);
        let mut metrics = frame.metrics.iter().peekable();
        for column in 0..self.columns {
            row.push(b',');
            if let Some(metric) = metrics.next_if(|metric| metric.column as usize == column) {
                // Writing to a `Vec` does not fail. The shortest text that reads back to the same
                // number.
                drop(write!(row, "{}", metric.value));
            }
        }
        row.push(b'\n');
        self.late_values += metrics.count() as u64;
        self.out.write_full()
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.out.flush()
    }

    /// Writes what is left.
    ///
    /// # Errors
    ///
    /// When the writer fails, and when values had no column because their metric was declared after
    /// the heading was written.
    fn finish(&mut self) -> Result<(), Error> {
        self.out.flush()?;
        match std::mem::take(&mut self.late_values) {
            0 => Ok(()),
            values => Err(Error::sink(format!(
                "{values} values belong to metrics that were declared after the heading of the CSV was written"
            ))),
        }
    }
}

fn push_process(row: &mut Vec<u8>, catalog: &Catalog) {
    match catalog.process.name.as_str() {
        "" => push_u64(row, u64::from(catalog.process.pid)),
        name => push_field(row, name.as_bytes()),
    }
}

/// Returns the name of a thread, with its number if a thread before it has the same name.
fn unique_label(catalog: &Catalog, id: ThreadId) -> String {
    let label = thread_label(catalog, id);
    let taken = (0..id.0.min(catalog.threads.len() as u32))
        .any(|other| thread_label(catalog, ThreadId(other)) == label);
    if taken {
        format!("{label} ({})", id.0)
    } else {
        label.into_owned()
    }
}

/// Appends a field, in quotes where its text needs them.
fn push_field(row: &mut Vec<u8>, text: &[u8]) {
    let special = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !text.iter().any(special) {
        row.extend_from_slice(text);
        return;
    }
    row.push(b'"');
    for part in text.split_inclusive(|&byte| byte == b'"') {
        row.extend_from_slice(part);
        if part.ends_with(b"\"") {
            row.push(b'"');
        }
    }
    row.push(b'"');
}
