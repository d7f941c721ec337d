//! All tables of a capture as files of a data set.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vor_capture::Error;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_capture::stats::SpanTimer;

use super::metrics::{self, MetricsTable};
use super::names::Origin;
use super::place::{Partition, TableFiles};
use super::sketches::{self, SketchTable};
use super::spans::{self, SpanTable};
use crate::origin_ns;

/// Writes the tables `spans`, `metrics` and `sketches` of the [module](super) into folders that
/// engines take for columns, as Hive named them.
///
/// ```text
/// data/spans/host=web-17/date=2026-11-21/run-4711-1763683200000.parquet
/// data/metrics/…  data/sketches/…
/// ```
///
/// Many captures are exported into one folder, one after the other or at once;
/// `<capture>-<pid>-<begin of the recording>` tells their files apart. A capture that goes over
/// midnight has a file per day, and a table without rows has none. Files come to their places when
/// all are whole, in [`finish`](FrameSink::finish); without that, nothing is left of them.
///
/// # Examples
///
/// ```no_run
/// use std::path::Path;
/// use vor_export::parquet::{Dataset, Origin, Partition};
/// use vor_capture::reader::{Event, Reader};
/// use vor_capture::sink::FrameSink;
///
/// let origin = Origin { host: Some("web-17".into()), version: None };
/// let mut data = Dataset::new(Path::new("data"), "run", &Partition::list("host,date")?, origin)?;
/// let mut reader = Reader::open("run.vor")?;
/// while let Some(event) = reader.next_event()? {
///     match event {
///         Event::Batch(batch) => data.accept_batch(&batch)?,
///         Event::Frame(recovered) => data.accept_frame(&recovered.frame)?,
///         Event::OpenScopes(_) | Event::Heap(_) | Event::Loss(_) => {}
///     }
/// }
/// data.finish()?;
/// println!("{:?}", data.paths());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Dataset {
    /// The capture's name, until the files have theirs.
    stem: Option<String>,
    measure: SpanTimer,
    spans: SpanTable,
    metrics: MetricsTable,
    sketches: SketchTable,
    span_files: TableFiles,
    metric_files: TableFiles,
    sketch_files: TableFiles,
    paths: Vec<PathBuf>,
}

impl Dataset {
    /// Makes an exporter into `folder`, which need not be there. `stem` is the capture's name,
    /// without its folder and its end.
    ///
    /// # Errors
    ///
    /// None that depends on what is given; the folder is first looked at when there is something to
    /// write.
    pub fn new(
        folder: &Path,
        stem: &str,
        partitions: &[Partition],
        origin: Origin,
    ) -> Result<Self, Error> {
        let with_host = !partitions.contains(&Partition::Host);
        let files = |table: &str, schema| {
            TableFiles::new(folder.join(table), partitions, origin.host(), schema)
        };
        Ok(Self {
            stem: Some(stem.to_owned()),
            measure: SpanTimer::default(),
            span_files: files("spans", spans::schema(with_host)?),
            metric_files: files("metrics", metrics::schema(with_host)?),
            sketch_files: files("sketches", sketches::schema(with_host)?),
            spans: SpanTable::new(origin.clone(), with_host),
            metrics: MetricsTable::new(origin.clone(), with_host),
            sketches: SketchTable::new(origin, with_host),
            paths: Vec::new(),
        })
    }

    /// Returns the files that are in their places: none before [`finish`](FrameSink::finish), then
    /// all.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Returns the number of spans whose self time is an estimate, because they began among more
    /// unfinished siblings than are held one by one; see
    /// [`StatsBuilder::estimated_self_times`](vor_capture::stats::StatsBuilder::estimated_self_times).
    #[must_use]
    pub fn estimated_self_times(&self) -> u64 {
        self.measure.estimated_self_times()
    }

    /// Names the files after what the first batch or frame tells of the process.
    fn name_files(&mut self, catalog: &Catalog) {
        let Some(stem) = self.stem.take() else {
            return;
        };
        let begin_ms = origin_ns(catalog).div_euclid(1_000_000);
        let name = format!("{stem}-{}-{begin_ms}", catalog.process.pid);
        for files in self.files() {
            files.name(&name);
        }
    }

    fn files(&mut self) -> [&mut TableFiles; 3] {
        [
            &mut self.span_files,
            &mut self.metric_files,
            &mut self.sketch_files,
        ]
    }
}

impl FrameSink for Dataset {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        self.name_files(&batch.catalog);
        for thread in &batch.threads {
            let times = self.measure.batch(&batch.catalog.timeline, thread);
            self.sketches
                .add(&batch.catalog, thread, times, &mut self.sketch_files)?;
            self.spans
                .add(&batch.catalog, thread, times, &mut self.span_files)?;
        }
        self.sketches.settle(&mut self.sketch_files)
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.name_files(&frame.catalog);
        self.metrics.add(frame, &mut self.metric_files)?;
        self.spans.end_frame(frame, &mut self.span_files)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.spans.finish(&mut self.span_files)?;
        self.metrics.finish(&mut self.metric_files)?;
        self.sketches.finish(&mut self.sketch_files)?;
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
