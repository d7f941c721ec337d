//! The table `metrics`: a row per value that a frame of the main set has.

use std::sync::Arc;

use vor_capture::Error;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::Interest;

use super::exporter::{ParquetExporter, Table};
use super::origin::OriginColumns;
use super::table::{Column, Output, Period, ROW_GROUP_ROWS};
use super::texts::TextColumn;
use crate::saturated;

/// Writes the metrics of frames, a row per value, as the table `metrics` of the [module](super).
pub type MetricsParquet<W> = ParquetExporter<MetricsTable, W>;

/// The table `metrics`.
#[derive(Debug)]
pub struct MetricsTable {
    origin: OriginColumns,
    catalog: Arc<Catalog>,
    period: Period,
    frames: Vec<i64>,
    times_ns: Vec<i64>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Table for MetricsTable {
    const NAME: &'static str = "metrics";
    const INTEREST: Interest = Interest::METRICS;
    const COLUMNS: &'static str = "
        required int64 frame;
        required int64 time_ns;
        required binary name (STRING);
        required binary unit (STRING);
        required double value;";

    fn new(origin: OriginColumns) -> Self {
        Self {
            origin,
            catalog: Arc::default(),
            period: Period::default(),
            frames: Vec::new(),
            times_ns: Vec::new(),
            columns: Vec::new(),
            values: Vec::new(),
        }
    }

    fn add_frame(&mut self, frame: &FrameSnapshot, output: &mut dyn Output) -> Result<(), Error> {
        if frame.frame_set != 0 || frame.metrics.is_empty() {
            return Ok(());
        }
        let time_ns = frame.catalog.unix_ns(frame.end_ticks);
        if !self.period.contains(time_ns) || self.values.len() >= ROW_GROUP_ROWS {
            self.write_rows(output)?;
            self.period = Period::of(output, time_ns);
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

    fn finish(&mut self, output: &mut dyn Output) -> Result<(), Error> {
        self.write_rows(output)
    }
}

impl MetricsTable {
    fn write_rows(&mut self, output: &mut dyn Output) -> Result<(), Error> {
        if self.values.is_empty() {
            return Ok(());
        }
        // Only metrics with a row are in the dictionaries. A value whose column was lost has no
        // name, but it has a row.
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
        let metrics = used.iter().map(|&column| {
            let column = self.catalog.columns.get(column as usize);
            column.map(|column| &column.metric)
        });
        let names = metrics
            .clone()
            .map(|metric| metric.map_or("?", |metric| &metric.name));
        let names = TextColumn::new(names, &self.columns);
        let units = metrics.map(|metric| metric.map_or("", |metric| &metric.unit));
        let units = TextColumn::new(units, &self.columns);
        let zeros = vec![0; self.values.len()];
        let mut columns = Vec::with_capacity(9);
        self.origin
            .push(&self.catalog.process, &zeros, &mut columns);
        columns.push(Column::Ints(&self.frames));
        columns.push(Column::Ints(&self.times_ns));
        columns.push(names.column());
        columns.push(units.column());
        columns.push(Column::Doubles(&self.values));
        let result = output.write(self.period.unix_ns, &columns);
        self.frames.clear();
        self.times_ns.clear();
        self.columns.clear();
        self.values.clear();
        result
    }
}

#[cfg(test)]
mod tests {
    use vor_capture::filled;
    use vor_capture::model::frame::MetricValue;

    use super::*;
    use crate::parquet::origin::Origin;
    use crate::parquet::table::RowCounts;

    #[test]
    fn a_row_group_ends_with_the_frame_that_fills_it() {
        let mut table = MetricsTable::new(OriginColumns {
            origin: Origin::default(),
            with_host: true,
        });
        let frame = |values: usize| {
            filled!(FrameSnapshot {
                metrics: vec![MetricValue::default(); values]
            })
        };
        let mut groups = RowCounts::default();
        for values in [ROW_GROUP_ROWS - 1, 2, 100, ROW_GROUP_ROWS - 100, 7] {
            table.add_frame(&frame(values), &mut groups).unwrap();
        }
        table.finish(&mut groups).unwrap();
        assert_eq!(groups.0, [ROW_GROUP_ROWS + 1, ROW_GROUP_ROWS, 7]);
    }
}
