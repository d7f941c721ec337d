//! All tables of a capture as files of a data set.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vor_capture::Error;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_capture::stats::SpanTimer;

use super::exporter::{Table, schema};
use super::files::{Partition, TableFiles};
use super::metrics::MetricsTable;
use super::origin::{Origin, OriginColumns};
use super::sketches::SketchTable;
use super::spans::SpanTable;
use crate::origin_ns;

/// Writes the tables `spans`, `metrics` and `sketches` of the [module](super) into folders whose
/// names engines read as columns (Hive partitions).
///
/// ```text
/// data/spans/host=web-17/date=2026-11-21/run-4711-1763683200000.parquet
/// data/metrics/…  data/sketches/…
/// ```
///
/// One folder can receive many captures, one after the other or concurrently. Their files are named
/// `<capture>-<pid>-<begin of the recording>`. A capture that extends over midnight has a file per
/// day, and a table without rows has none. [`finish`](FrameSink::finish) moves the files to their
/// final paths once all are complete; without it, no file remains.
///
/// # Examples
///
/// ```no_run
/// use std::path::Path;
/// use vor_export::parquet::{Dataset, Origin, Partition};
/// use vor_capture::reader::{Event, Reader};
/// use vor_capture::sink::FrameSink;
///
/// let origin = Origin::default().host("web-17");
/// let mut data = Dataset::new(Path::new("data"), "run", &Partition::list("host,date")?, origin)?;
/// let mut reader = Reader::open("run.vor")?;
/// while let Some(event) = reader.next_event()? {
///     match event {
///         Event::Batch(batch) => data.accept_batch(&batch)?,
///         Event::Frame(recovered) => data.accept_frame(&recovered.frame)?,
///         _ => {}
///     }
/// }
/// data.finish()?;
/// println!("{:?}", data.paths());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Dataset {
    /// The capture's name, until the files are named.
    stem: Option<String>,
    timer: SpanTimer,
    spans: Part<SpanTable>,
    metrics: Part<MetricsTable>,
    sketches: Part<SketchTable>,
    paths: Vec<PathBuf>,
}

/// A table of the data set, and its files.
#[derive(Debug)]
struct Part<T> {
    table: T,
    files: TableFiles,
}

impl<T: Table> Part<T> {
    fn new(folder: &Path, partitions: &[Partition], origin: &Origin) -> Result<Self, Error> {
        let columns = OriginColumns {
            origin: origin.clone(),
            with_host: !partitions.contains(&Partition::Host),
        };
        let schema = schema::<T>(&columns)?;
        Ok(Self {
            files: TableFiles::new(folder.join(T::NAME), partitions, origin.host_text(), schema),
            table: T::new(columns),
        })
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.table.finish(&mut self.files)
    }
}

impl Dataset {
    /// Makes an exporter into `folder`, which need not exist. `stem` is the capture's file name
    /// without its extension.
    ///
    /// # Errors
    ///
    /// A schema is invalid, which does not depend on the arguments. The folder is first accessed
    /// when there is something to write.
    pub fn new(
        folder: &Path,
        stem: &str,
        partitions: &[Partition],
        origin: Origin,
    ) -> Result<Self, Error> {
        Ok(Self {
            stem: Some(stem.to_owned()),
            timer: SpanTimer::default(),
            spans: Part::new(folder, partitions, &origin)?,
            metrics: Part::new(folder, partitions, &origin)?,
            sketches: Part::new(folder, partitions, &origin)?,
            paths: Vec::new(),
        })
    }

    /// Returns the final paths of the files: none before [`finish`](FrameSink::finish), then all.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Returns the number of spans whose self time is an estimate. They began among more unfinished
    /// siblings than are held one by one; see
    /// [`estimated_self_times`](vor_capture::stats::StatsBuilder::estimated_self_times).
    #[must_use]
    pub fn estimated_self_times(&self) -> u64 {
        self.timer.estimated_self_times()
    }

    /// Names the files after the process of the first batch or frame.
    fn name_files(&mut self, catalog: &Catalog) {
        let Some(stem) = self.stem.take() else {
            return;
        };
        let begin_ms = origin_ns(catalog).div_euclid(1_000_000);
        let name = format!("{stem}-{}-{begin_ms}", catalog.process.pid);
        for files in self.files() {
            files.set_name(&name);
        }
    }

    fn files(&mut self) -> [&mut TableFiles; 3] {
        [
            &mut self.spans.files,
            &mut self.metrics.files,
            &mut self.sketches.files,
        ]
    }
}

impl FrameSink for Dataset {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        self.name_files(&batch.catalog);
        let Self {
            timer,
            spans,
            sketches,
            ..
        } = self;
        for thread in &batch.threads {
            let (catalog, times) = (&batch.catalog, timer.batch(&batch.catalog.timeline, thread));
            sketches
                .table
                .add_spans(catalog, thread, times, &mut sketches.files)?;
            spans
                .table
                .add_spans(catalog, thread, times, &mut spans.files)?;
        }
        sketches.table.end_batch(&mut sketches.files)
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.name_files(&frame.catalog);
        let Self { spans, metrics, .. } = self;
        metrics.table.add_frame(frame, &mut metrics.files)?;
        spans.table.add_frame(frame, &mut spans.files)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.spans.finish()?;
        self.metrics.finish()?;
        self.sketches.finish()?;
        for files in self.files() {
            files.close()?;
        }
        let mut paths = Vec::new();
        for files in self.files() {
            files.publish(&mut paths)?;
        }
        self.paths = paths;
        Ok(())
    }
}
