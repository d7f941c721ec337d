//! The table `metrics`: a row per value that a frame of the main set has.

use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::Arc;

use parquet::schema::types::TypePtr;
use vor_capture::Error;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};

use super::names::{Names, Origin};
use super::saturated;
use super::table::{self, Column, Output, ROW_GROUP_ROWS, TableFile};

/// Writes the metrics of frames, a row per value, as the table `metrics` of the [module](super).
#[derive(Debug)]
pub struct MetricsParquet<W: Write + Send> {
    table: MetricsTable,
    file: TableFile<W>,
}

impl<W: Write + Send> MetricsParquet<W> {
    /// Makes an exporter. The file is whole only after [`finish`](FrameSink::finish).
    ///
    /// # Errors
    ///
    /// When the writer fails.
    pub fn new(writer: W, origin: Origin) -> Result<Self, Error> {
        Ok(Self {
            table: MetricsTable::new(origin, true),
            file: TableFile::new(writer, schema(true)?)?,
        })
    }

    /// Returns the writer. What was accepted since the last full row group is lost if the file was
    /// not finished before.
    ///
    /// # Errors
    ///
    /// When the writer fails.
    pub fn into_inner(self) -> Result<W, Error> {
        self.file.into_inner()
    }
}

impl<W: Write + Send> FrameSink for MetricsParquet<W> {
    fn interest(&self) -> Interest {
        Interest::METRICS
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.table.add(frame, &mut self.file)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.file.flush()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.table.finish(&mut self.file)?;
        self.file.finish()
    }
}

/// Returns the schema of the table, with a column for the host or without.
pub(super) fn schema(with_host: bool) -> Result<TypePtr, Error> {
    table::schema(&format!(
        "message metrics {{
            {}
            required int64 frame;
            required int64 time_ns;
            required binary name (STRING);
            required binary unit (STRING);
            required double value;
        }}",
        Origin::schema(with_host)
    ))
}

/// Gathers rows for an output.
#[derive(Debug)]
pub(super) struct MetricsTable {
    origin: Origin,
    with_host: bool,
    catalog: Arc<Catalog>,
    period: Option<RangeInclusive<i64>>,
    period_ns: i64,
    frames: Vec<i64>,
    times_ns: Vec<i64>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl MetricsTable {
    pub(super) fn new(origin: Origin, with_host: bool) -> Self {
        Self {
            origin,
            with_host,
            catalog: Arc::default(),
            period: None,
            period_ns: 0,
            frames: Vec::new(),
            times_ns: Vec::new(),
            columns: Vec::new(),
            values: Vec::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        frame: &FrameSnapshot,
        output: &mut dyn Output,
    ) -> Result<(), Error> {
        if frame.frame_set != 0 || frame.metrics.is_empty() {
            return Ok(());
        }
        let time_ns = frame.catalog.unix_ns(frame.end_ticks);
        let fits = self
            .period
            .as_ref()
            .is_some_and(|period| period.contains(&time_ns));
        if !fits || self.values.len() >= ROW_GROUP_ROWS {
            self.write_rows(output)?;
            self.period = Some(output.period(time_ns));
            self.period_ns = time_ns;
        }
        self.catalog = Arc::clone(&frame.catalog);
        for metric in &frame.metrics {
            self.frames.push(saturated(frame.index));
            self.times_ns.push(time_ns);
            self.columns.push(metric.column);
            self.values.push(metric.value);
        }
        Ok(())
    }

    /// Writes what is left.
    pub(super) fn finish(&mut self, output: &mut dyn Output) -> Result<(), Error> {
        self.write_rows(output)
    }

    fn write_rows(&mut self, output: &mut dyn Output) -> Result<(), Error> {
        if self.values.is_empty() {
            return Ok(());
        }
        // Only metrics that have a row are in the dictionaries. A value whose column was lost has
        // no name, but it is not lost.
        let declared = self.catalog.columns.len();
        let mut by_column = vec![u32::MAX; declared + 1];
        let mut used = Vec::new();
        for column in &mut self.columns {
            let code = &mut by_column[declared.min(*column as usize)];
            if *code == u32::MAX {
                *code = used.len() as u32;
                used.push(*column);
            }
            *column = *code;
        }
        let metric = |&column: &u32| {
            self.catalog
                .columns
                .get(column as usize)
                .map(|column| &column.metric)
        };
        let names = Names::of(
            used.iter()
                .map(|column| metric(column).map_or("?", |metric| &metric.name)),
        );
        let units = Names::of(
            used.iter()
                .map(|column| metric(column).map_or("", |metric| &metric.unit)),
        );
        let (name_codes, unit_codes) = (names.codes(&self.columns), units.codes(&self.columns));
        let same = vec![0; self.values.len()];
        let mut columns = Vec::with_capacity(9);
        let process = &self.catalog.process;
        self.origin
            .push_columns(process, self.with_host, &same, &mut columns);
        columns.push(Column::Ints(&self.frames));
        columns.push(Column::Ints(&self.times_ns));
        columns.push(Column::Coded(&name_codes, names.dictionary()));
        columns.push(Column::Coded(&unit_codes, units.dictionary()));
        columns.push(Column::Doubles(&self.values));
        let result = output.write(self.period_ns, &columns);
        self.frames.clear();
        self.times_ns.clear();
        self.columns.clear();
        self.values.clear();
        result
    }
}
