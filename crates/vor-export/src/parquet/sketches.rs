//! The table `sketches`: the durations of a call site's spans in a minute, as a histogram.
//!
//! A span counts in the minute in which it ends, as it belongs to the frame in which it ends. Spans
//! arrive roughly in order of their ends. So the two newest minutes stay open, and older ones
//! become rows. A span that arrives later gets separate rows.

use std::sync::Arc;

use vor_capture::Error;
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::sink::Interest;
use vor_capture::stats::{Histogram, SpanTimes};

use super::coded::NULL;
use super::exporter::{ParquetExporter, Table};
use super::origin::OriginColumns;
use super::table::{Column, Levels, Output, Period, ROW_GROUP_ROWS};
use super::texts::SiteColumns;
use crate::saturated;

/// Minutes that stay open after a batch: spans of two threads may arrive in a different order than
/// they ended.
const OPEN_MINUTES: usize = 2;

/// Minutes that stay open within a batch, even if a damaged batch has arbitrary times.
const OPEN_MINUTES_IN_BATCH: usize = 4;

/// Buckets at which a row group ends early.
const MAX_BUCKETS: usize = 1 << 20;

const MINUTE_NS: i64 = 60_000_000_000;

/// Writes a sketch per call site and minute, as the table `sketches` of the [module](super).
pub type SketchParquet<W> = ParquetExporter<SketchTable, W>;

/// The table `sketches`.
#[derive(Debug)]
pub struct SketchTable {
    origin: OriginColumns,
    catalog: Arc<Catalog>,
    /// The open minutes, ascending.
    minutes: Vec<Minute>,
    rows: Rows,
}

/// The sketches of a minute.
#[derive(Debug)]
struct Minute {
    /// Minutes since 1970.
    number: i64,
    sketches: Vec<Sketch>,
    /// Positions in `sketches` by site, or [`NULL`].
    positions: Vec<u32>,
}

#[derive(Debug)]
struct Sketch {
    site: SiteId,
    count: u64,
    sum_ns: u64,
    self_sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
    histogram: Histogram,
}

/// The columns of the next row group.
#[derive(Debug, Default)]
struct Rows {
    period: Period,
    minutes: Vec<i64>,
    sites: Vec<SiteId>,
    counts: Vec<i64>,
    sums_ns: Vec<i64>,
    self_sums_ns: Vec<i64>,
    mins_ns: Vec<i64>,
    maxs_ns: Vec<i64>,
    buckets: Vec<i64>,
    middles_ns: Vec<i64>,
    bucket_counts: Vec<i64>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl Table for SketchTable {
    const NAME: &'static str = "sketches";
    const INTEREST: Interest = Interest::BATCHES;
    const COLUMNS: &'static str = "
        required int64 minute;
        required binary name (STRING);
        required binary file (STRING);
        optional int64 line;
        required int64 count;
        required int64 sum_ns;
        required int64 self_sum_ns;
        required int64 min_ns;
        required int64 max_ns;
        required group buckets (LIST) {
            repeated group list {
                required group element {
                    required int64 bucket;
                    required int64 middle_ns;
                    required int64 count;
                }
            }
        }";

    fn new(origin: OriginColumns) -> Self {
        Self {
            origin,
            catalog: Arc::default(),
            minutes: Vec::new(),
            rows: Rows::default(),
        }
    }

    fn add_spans(
        &mut self,
        catalog: &Arc<Catalog>,
        batch: &ThreadBatch,
        times: &[SpanTimes],
        output: &mut dyn Output,
    ) -> Result<(), Error> {
        if !Arc::ptr_eq(&self.catalog, catalog) {
            self.catalog = Arc::clone(catalog);
        }
        let mut begin = 0;
        while begin < times.len() {
            let number = times[begin].end_unix_ns().div_euclid(MINUTE_NS);
            let from_ns = number.saturating_mul(MINUTE_NS);
            let until_ns = from_ns.saturating_add(MINUTE_NS);
            let is_in = |times: &SpanTimes| (from_ns..until_ns).contains(&times.end_unix_ns());
            // The first is in it, even if the largest time cuts the minute short.
            let count = 1 + times[begin + 1..]
                .iter()
                .position(|times| !is_in(times))
                .unwrap_or(times.len() - begin - 1);
            let at = match self
                .minutes
                .binary_search_by_key(&number, |minute| minute.number)
            {
                Ok(at) => at,
                Err(at) => {
                    self.minutes.insert(at, Minute::new(number));
                    at
                }
            };
            let minute = &mut self.minutes[at];
            let sites = &batch.sites[begin..begin + count];
            for (&site, times) in sites.iter().zip(&times[begin..begin + count]) {
                minute.sketch(site, catalog.sites.len()).add(times);
            }
            begin += count;
            self.close_minutes(OPEN_MINUTES_IN_BATCH, output)?;
        }
        Ok(())
    }

    fn end_batch(&mut self, output: &mut dyn Output) -> Result<(), Error> {
        self.close_minutes(OPEN_MINUTES, output)
    }

    fn finish(&mut self, output: &mut dyn Output) -> Result<(), Error> {
        self.close_minutes(0, output)?;
        self.write_rows(output)
    }
}

impl SketchTable {
    /// Makes rows of the oldest minutes until at most `open` are open.
    fn close_minutes(&mut self, open: usize, output: &mut dyn Output) -> Result<(), Error> {
        while self.minutes.len() > open {
            let minute = self.minutes.remove(0);
            self.push_minute(&minute, output)?;
        }
        Ok(())
    }

    fn push_minute(&mut self, minute: &Minute, output: &mut dyn Output) -> Result<(), Error> {
        let from_ns = minute.number.saturating_mul(MINUTE_NS);
        for sketch in &minute.sketches {
            let rows = &mut self.rows;
            let is_full = rows.counts.len() >= ROW_GROUP_ROWS || rows.buckets.len() >= MAX_BUCKETS;
            if is_full || !rows.period.contains(from_ns) {
                self.write_rows(output)?;
                self.rows.period = Period::of(output, from_ns);
            }
            self.rows.push(minute.number, sketch);
        }
        Ok(())
    }

    fn write_rows(&mut self, output: &mut dyn Output) -> Result<(), Error> {
        let rows = &mut self.rows;
        if rows.counts.is_empty() {
            return Ok(());
        }
        let catalog = &*self.catalog;
        let zeros = vec![0; rows.counts.len()];
        let each: Vec<u32> = (0..rows.counts.len() as u32).collect();
        let sites = SiteColumns::new(catalog, &rows.sites, &each);
        let mut columns = Vec::with_capacity(16);
        self.origin.push(&catalog.process, &zeros, &mut columns);
        columns.push(Column::Ints(&rows.minutes));
        sites.push(&mut columns);
        for ints in [
            &rows.counts,
            &rows.sums_ns,
            &rows.self_sums_ns,
            &rows.mins_ns,
            &rows.maxs_ns,
        ] {
            columns.push(Column::Ints(ints));
        }
        let levels = Levels {
            definition: &rows.definition,
            repetition: &rows.repetition,
        };
        for ints in [&rows.buckets, &rows.middles_ns, &rows.bucket_counts] {
            columns.push(Column::NestedInts(ints, levels));
        }
        let result = output.write(rows.period.unix_ns, &columns);
        rows.clear();
        result
    }
}

impl Minute {
    fn new(number: i64) -> Self {
        Self {
            number,
            sketches: Vec::new(),
            positions: Vec::new(),
        }
    }

    #[inline]
    fn sketch(&mut self, site: SiteId, declared: usize) -> &mut Sketch {
        // An id beyond the table was never declared; all such ids count as one site.
        let id = if site.0 as usize <= declared {
            site
        } else {
            SiteId(0)
        };
        let at = id.0 as usize;
        if self.positions.len() <= at {
            self.positions.resize(declared.min(at + at / 2) + 1, NULL);
        }
        if self.positions[at] == NULL {
            self.positions[at] = self.sketches.len() as u32;
            self.sketches.push(Sketch {
                site: id,
                count: 0,
                sum_ns: 0,
                self_sum_ns: 0,
                min_ns: u64::MAX,
                max_ns: 0,
                histogram: Histogram::default(),
            });
        }
        &mut self.sketches[self.positions[at] as usize]
    }
}

impl Sketch {
    #[inline]
    fn add(&mut self, times: &SpanTimes) {
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(times.total_ns);
        self.self_sum_ns = self.self_sum_ns.saturating_add(times.self_ns);
        self.min_ns = self.min_ns.min(times.total_ns);
        self.max_ns = self.max_ns.max(times.total_ns);
        self.histogram.add(times.total_ns);
    }
}

impl Rows {
    fn push(&mut self, minute: i64, sketch: &Sketch) {
        self.minutes.push(minute.saturating_mul(60));
        self.sites.push(sketch.site);
        self.counts.push(saturated(sketch.count));
        self.sums_ns.push(saturated(sketch.sum_ns));
        self.self_sums_ns.push(saturated(sketch.self_sum_ns));
        self.mins_ns.push(saturated(sketch.min_ns));
        self.maxs_ns.push(saturated(sketch.max_ns));
        for (i, bucket) in sketch.histogram.buckets().enumerate() {
            self.buckets.push(bucket.number as i64);
            self.middles_ns.push(saturated(bucket.middle()));
            self.bucket_counts.push(saturated(bucket.count));
            self.definition.push(1);
            self.repetition.push(i16::from(i > 0));
        }
    }

    fn clear(&mut self) {
        self.minutes.clear();
        self.sites.clear();
        self.counts.clear();
        self.sums_ns.clear();
        self.self_sums_ns.clear();
        self.mins_ns.clear();
        self.maxs_ns.clear();
        self.buckets.clear();
        self.middles_ns.clear();
        self.bucket_counts.clear();
        self.definition.clear();
        self.repetition.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::origin::Origin;
    use crate::parquet::table::RowCounts;

    /// Returns a duration in each of the first buckets.
    fn durations(buckets: u64) -> impl Iterator<Item = u64> {
        // Those of the documentation of the table.
        (0..buckets).map(|bucket| match bucket {
            0..64 => bucket,
            _ => (bucket % 32 + 32) << (bucket / 32 - 1),
        })
    }

    /// Returns the rows of the row groups of a minute, in which each of the sites has spans in this
    /// number of buckets.
    fn groups(sites: usize, buckets: u64) -> Vec<usize> {
        let mut minute = Minute::new(0);
        for site in 1..=sites as u32 {
            let sketch = minute.sketch(SiteId(site), sites);
            for total_ns in durations(buckets) {
                sketch.add(&SpanTimes {
                    start_unix_ns: 0,
                    total_ns,
                    self_ns: total_ns,
                });
            }
        }
        let mut table = SketchTable::new(OriginColumns {
            origin: Origin::default(),
            with_host: true,
        });
        let mut groups = RowCounts::default();
        table.push_minute(&minute, &mut groups).unwrap();
        table.finish(&mut groups).unwrap();
        groups.0
    }

    #[test]
    fn a_row_group_has_at_most_as_many_rows_as_allowed() {
        assert_eq!(groups(ROW_GROUP_ROWS, 1), [ROW_GROUP_ROWS]);
        assert_eq!(groups(ROW_GROUP_ROWS + 5, 1), [ROW_GROUP_ROWS, 5]);
    }

    #[test]
    fn a_row_group_ends_with_the_row_that_has_the_last_of_its_buckets() {
        let sites = 1 << 10;
        let buckets = (MAX_BUCKETS / sites) as u64;
        assert_eq!(groups(sites + 2, buckets), [sites, 2]);
        assert_eq!(groups(sites, buckets + 2), [sites - 1, 1]);
    }
}
