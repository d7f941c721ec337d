//! The exporter of a single table, and the differences between tables.
//!
//! ```text
//! batches, frames ──> Table: gathers a row group ──> Output: a file, or the files of a data set
//! ```

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use parquet::schema::types::TypePtr;
use vor_capture::Error;
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_capture::stats::{SpanTimer, SpanTimes};

use super::origin::{Origin, OriginColumns};
use super::table::{Output, TableFile, parse_schema};

/// A table: gathers rows, and writes them to an output in row groups.
pub trait Table: fmt::Debug + Send {
    /// Its name; also that of its folder in a data set.
    const NAME: &'static str;

    /// Whether it has rows of spans or of frames without spans.
    const INTEREST: Interest;

    /// Its columns after those of the origin, in the format's notation.
    const COLUMNS: &'static str;

    /// Makes a table without rows.
    fn new(origin: OriginColumns) -> Self;

    /// Adds the spans that a thread ended, with their times.
    fn add_spans(
        &mut self,
        _catalog: &Arc<Catalog>,
        _batch: &ThreadBatch,
        _times: &[SpanTimes],
        _output: &mut dyn Output,
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Ends a batch, after the spans of all its threads.
    fn end_batch(&mut self, _output: &mut dyn Output) -> Result<(), Error> {
        Ok(())
    }

    /// Adds a frame, after the spans that ended in it.
    fn add_frame(&mut self, _frame: &FrameSnapshot, _output: &mut dyn Output) -> Result<(), Error> {
        Ok(())
    }

    /// Writes the remaining rows.
    fn finish(&mut self, output: &mut dyn Output) -> Result<(), Error>;
}

/// Returns the schema of a table.
pub(super) fn schema<T: Table>(origin: &OriginColumns) -> Result<TypePtr, Error> {
    let (name, first, columns) = (T::NAME, origin.schema(), T::COLUMNS);
    parse_schema(&format!("message {name} {{ {first} {columns} }}"))
}

/// Writes one table of the [module](super) as a Parquet file.
///
/// Use it by the names [`SpanParquet`](super::SpanParquet),
/// [`MetricsParquet`](super::MetricsParquet) and [`SketchParquet`](super::SketchParquet).
#[derive(Debug)]
pub struct ParquetExporter<T: Table, W: Write + Send> {
    timer: SpanTimer,
    table: T,
    file: TableFile<W>,
}

impl<T: Table, W: Write + Send> ParquetExporter<T, W> {
    /// Makes an exporter. The file is complete only after [`finish`](FrameSink::finish).
    ///
    /// # Errors
    ///
    /// The writer fails.
    pub fn new(writer: W, origin: Origin) -> Result<Self, Error> {
        let origin = OriginColumns {
            origin,
            with_host: true,
        };
        Ok(Self {
            timer: SpanTimer::default(),
            file: TableFile::new(writer, schema::<T>(&origin)?)?,
            table: T::new(origin),
        })
    }

    /// Returns the number of spans whose self time is an estimate. They began among more unfinished
    /// siblings than are held one by one; see
    /// [`estimated_self_times`](vor_capture::stats::StatsBuilder::estimated_self_times).
    /// It is 0 for a table without spans.
    #[must_use]
    pub fn estimated_self_times(&self) -> u64 {
        self.timer.estimated_self_times()
    }

    /// Returns the writer. Rows after the last full row group are lost unless the file was finished
    /// before.
    ///
    /// # Errors
    ///
    /// The writer fails.
    pub fn into_inner(self) -> Result<W, Error> {
        self.file.into_inner()
    }
}

impl<T: Table, W: Write + Send> FrameSink for ParquetExporter<T, W> {
    fn interest(&self) -> Interest {
        T::INTEREST
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        if !T::INTEREST.batches {
            return Ok(());
        }
        for thread in &batch.threads {
            let times = self.timer.batch(&batch.catalog.timeline, thread);
            self.table
                .add_spans(&batch.catalog, thread, times, &mut self.file)?;
        }
        self.table.end_batch(&mut self.file)
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.table.add_frame(frame, &mut self.file)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.file.flush()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.table.finish(&mut self.file)?;
        self.file.finish()
    }
}
