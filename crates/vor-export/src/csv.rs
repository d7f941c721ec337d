//! Comma-separated values as in RFC 4180, except that lines end with line feeds: a row per span,
//! and a row of metrics per frame.
//!
//! Spans come from frames with trees, where depth and self time are known. They are ordered by
//! frame, thread and start:
//!
//! | column | value |
//! |---|---|
//! | `process` | name of the program, or its process id |
//! | `frame` | number of the frame in which the span ended |
//! | `thread` | name of the thread; if several have one name, all but the first also have their number |
//! | `depth` | number of spans around it |
//! | `name`, `file`, `line` | its call site; `line` is empty when unknown |
//! | `start_ns` | nanoseconds since the begin of the recording |
//! | `dur_ns` | its duration in nanoseconds |
//! | `self_ns` | `dur_ns` minus that of the spans directly inside it |
//! | `args` | `k=v, k=v` |

use std::io::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::Error;
use vor_capture::model::catalog::{Catalog, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::model::frame::{FrameSnapshot, ThreadTree};
use vor_capture::sink::{FrameSink, Interest};

use crate::chunked::ChunkedWriter;
use crate::per_site::PerSite;
use crate::text::push_integer;
use crate::{origin_ns, push_args_text, thread_label};

/// Context of an error of the writer.
const FAILURE: &str = "cannot write the CSV";

/// Writes the spans of frames, a row each.
#[derive(Debug)]
pub struct SpanCsv<W: Write> {
    out: ChunkedWriter<W>,
    /// Names of the threads in `threads`, for the column `thread`.
    labels: FxHashMap<ThreadId, String>,
    threads: Arc<Vec<Option<Arc<ThreadInfo>>>>,
    /// Text of the columns of a call site.
    site_columns: PerSite<Box<[u8]>>,
    /// Duration and self time of each span of a tree.
    times_ns: Vec<(u64, u64)>,
    /// The spans around the current one, outermost first.
    ancestors: Vec<usize>,
}

/// Writes the metrics of the main frames: `frame`, then a column per metric, which is empty if a
/// frame has no value.
///
/// The first row names the columns, so they must be known before the first frame. In a capture they
/// all are.
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
            site_columns: PerSite::default(),
            times_ns: Vec::new(),
            ancestors: Vec::new(),
        }
    }

    /// Returns the writer. Rows that were not flushed or finished before are lost.
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
        // The first columns are the same in all rows of the tree.
        let mut head = Vec::new();
        push_process(&mut head, catalog);
        head.push(b',');
        push_integer(&mut head, frame.index);
        head.push(b',');
        push_field(&mut head, label.as_bytes());
        head.push(b',');
        let mut args = Vec::new();
        for (span, &(dur_ns, self_ns)) in tree.spans.iter().zip(&self.times_ns) {
            let row = &mut self.out.bytes;
            row.extend_from_slice(&head);
            push_integer(row, span.depth);
            row.push(b',');
            let columns = self.site_columns.get(span.site);
            row.extend_from_slice(columns.map_or(b"?,,", |columns| columns));
            row.push(b',');
            push_integer(
                row,
                catalog.unix_ns(span.start_ticks).saturating_sub(origin),
            );
            row.push(b',');
            push_integer(row, dur_ns);
            row.push(b',');
            push_integer(row, self_ns);
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

    /// Fills `times_ns` for the spans of a tree.
    fn measure(&mut self, catalog: &Catalog, tree: &ThreadTree) {
        self.times_ns.clear();
        self.ancestors.clear();
        for (i, span) in tree.spans.iter().enumerate() {
            let dur_ns = catalog
                .timeline
                .duration_ns(span.start_ticks, span.duration_ticks);
            self.times_ns.push((dur_ns, dur_ns));
            self.ancestors.truncate(span.depth as usize);
            if let Some(&parent) = self.ancestors.last() {
                let self_ns = &mut self.times_ns[parent].1;
                *self_ns = self_ns.saturating_sub(dur_ns);
            }
            self.ancestors.push(i);
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
        self.site_columns.update(&frame.catalog, site_columns);
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

    /// Returns the writer. Rows that were not flushed or finished before are lost.
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
        push_integer(row, frame.index);
        let mut metrics = frame.metrics.iter().peekable();
        for column in 0..self.columns {
            row.push(b',');
            if let Some(metric) = metrics.next_if(|metric| metric.column as usize == column) {
                // The shortest text that parses to the same number. Writing to a `Vec` does not
                // fail.
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

    /// Writes the remaining rows.
    ///
    /// # Errors
    ///
    /// The writer fails, or values have no column because their metric was declared after the
    /// heading was written.
    fn finish(&mut self) -> Result<(), Error> {
        self.out.flush()?;
        match std::mem::take(&mut self.late_values) {
            0 => Ok(()),
            values => Err(Error::sink(format!(
                "{values} values belong to metrics that were declared after the heading of the CSV \
                 was written"
            ))),
        }
    }
}

/// Returns the text of a call site's columns.
fn site_columns(site: &Arc<SiteInfo>) -> Box<[u8]> {
    let mut text = Vec::new();
    push_field(&mut text, site.name.as_bytes());
    text.push(b',');
    push_field(&mut text, site.file.as_bytes());
    text.push(b',');
    if site.line > 0 {
        push_integer(&mut text, site.line);
    }
    text.into()
}

fn push_process(row: &mut Vec<u8>, catalog: &Catalog) {
    match catalog.process.name.as_str() {
        "" => push_integer(row, catalog.process.pid),
        name => push_field(row, name.as_bytes()),
    }
}

/// Returns the name of a thread, with its number if an earlier thread has the same name.
fn unique_label(catalog: &Catalog, id: ThreadId) -> String {
    let label = thread_label(catalog, id);
    let is_used = (0..id.0.min(catalog.threads.len() as u32))
        .any(|other| thread_label(catalog, ThreadId(other)) == label);
    if is_used {
        format!("{label} ({})", id.0)
    } else {
        label.into_owned()
    }
}

/// Appends a field, in quotes if its text needs them.
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
