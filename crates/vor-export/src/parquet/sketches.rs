//! The table `sketches`: the lengths of a call site's spans in a minute, as a histogram.
//!
//! A span counts in the minute in which it ends, as it belongs to the frame in which it ends. Spans
//! come about in the order of their ends, so minutes pass by: the two newest are held, and an older
//! one becomes rows. What comes later than that makes rows of its own.

use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::Arc;

use parquet::schema::types::TypePtr;
use vor_capture::Error;
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_capture::stats::Histogram;
use vor_capture::stats::{SpanTimer, SpanTimes};

use super::coded::{Dictionary, NULL};
use super::names::{Names, Origin};
use super::saturated;
use super::spans::lines;
use super::table::{self, Column, Levels, Output, ROW_GROUP_ROWS, TableFile};

/// Minutes that are held: spans of two threads may come in another order than they ended.
const HELD_MINUTES: usize = 2;

/// Minutes that are held within a batch, whatever times a damaged one claims.
const HELD_AT_ONCE: usize = 4;

/// Buckets of a row group, beyond which it ends early.
const MAX_BUCKETS: usize = 1 << 20;

const MINUTE_NS: i64 = 60_000_000_000;

/// Writes a sketch per call site and minute, as the table `sketches` of the [module](super).
#[derive(Debug)]
pub struct SketchParquet<W: Write + Send> {
    measure: SpanTimer,
    table: SketchTable,
    file: TableFile<W>,
}

impl<W: Write + Send> SketchParquet<W> {
    /// Makes an exporter. The file is whole only after [`finish`](FrameSink::finish).
    ///
    /// # Errors
    ///
    /// When the writer fails.
    pub fn new(writer: W, origin: Origin) -> Result<Self, Error> {
        Ok(Self {
            measure: SpanTimer::default(),
            table: SketchTable::new(origin, true),
            file: TableFile::new(writer, schema(true)?)?,
        })
    }

    /// Returns the number of spans whose self time is an estimate, because they began among more
    /// unfinished siblings than are held one by one; see
    /// [`StatsBuilder::estimated_self_times`](vor_capture::stats::StatsBuilder::estimated_self_times).
    #[must_use]
    pub fn estimated_self_times(&self) -> u64 {
        self.measure.estimated_self_times()
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

impl<W: Write + Send> FrameSink for SketchParquet<W> {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        for thread in &batch.threads {
            let times = self.measure.batch(&batch.catalog.timeline, thread);
            self.table
                .add(&batch.catalog, thread, times, &mut self.file)?;
        }
        self.table.settle(&mut self.file)
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
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
        "message sketches {{
            {}
            required int64 minute;
            required binary name (STRING);
            required binary file (STRING);
            optional int64 line;
            required int64 count;
            required int64 sum_ns;
            required int64 self_sum_ns;
            required int64 min_ns;
            required int64 max_ns;
            required group buckets (LIST) {{
                repeated group list {{
                    required group element {{
                        required int64 bucket;
                        required int64 middle_ns;
                        required int64 count;
                    }}
                }}
            }}
        }}",
        Origin::schema(with_host)
    ))
}

/// Gathers sketches, and rows for an output.
#[derive(Debug)]
pub(super) struct SketchTable {
    origin: Origin,
    with_host: bool,
    catalog: Arc<Catalog>,
    /// The minutes that are held, ascending.
    minutes: Vec<Minute>,
    rows: Rows,
}

/// The sketches of a minute.
#[derive(Debug)]
struct Minute {
    /// Minutes since 1970.
    number: i64,
    sketches: Vec<Sketch>,
    /// Places in `sketches` by site; [`NULL`] where there is none.
    places: Vec<u32>,
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

/// The columns of the row group to come.
#[derive(Debug, Default)]
struct Rows {
    period: Option<RangeInclusive<i64>>,
    period_ns: i64,
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

impl SketchTable {
    pub(super) fn new(origin: Origin, with_host: bool) -> Self {
        Self {
            origin,
            with_host,
            catalog: Arc::default(),
            minutes: Vec::new(),
            rows: Rows::default(),
        }
    }

    /// Counts what a thread ended, with its times.
    pub(super) fn add(
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
            // The first is in it, even where the end of all time cuts the minute short.
            let length = 1 + times[begin + 1..]
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
            let sites = &batch.sites[begin..begin + length];
            for (&site, times) in sites.iter().zip(&times[begin..begin + length]) {
                minute.sketch(site, catalog.sites.len()).add(times);
            }
            begin += length;
            self.settle_to(HELD_AT_ONCE, output)?;
        }
        Ok(())
    }

    /// Makes rows of minutes that have passed. Called after each batch.
    pub(super) fn settle(&mut self, output: &mut dyn Output) -> Result<(), Error> {
        self.settle_to(HELD_MINUTES, output)
    }

    fn settle_to(&mut self, held: usize, output: &mut dyn Output) -> Result<(), Error> {
        while self.minutes.len() > held {
            let minute = self.minutes.remove(0);
            self.push_minute(&minute, output)?;
        }
        Ok(())
    }

    /// Writes what is left.
    pub(super) fn finish(&mut self, output: &mut dyn Output) -> Result<(), Error> {
        for minute in std::mem::take(&mut self.minutes) {
            self.push_minute(&minute, output)?;
        }
        self.write_rows(output)
    }

    fn push_minute(&mut self, minute: &Minute, output: &mut dyn Output) -> Result<(), Error> {
        let from_ns = minute.number.saturating_mul(MINUTE_NS);
        for sketch in &minute.sketches {
            let rows = &mut self.rows;
            let fits = rows
                .period
                .as_ref()
                .is_some_and(|period| period.contains(&from_ns));
            if !fits || rows.counts.len() >= ROW_GROUP_ROWS || rows.buckets.len() >= MAX_BUCKETS {
                self.write_rows(output)?;
                self.rows.period = Some(output.period(from_ns));
                self.rows.period_ns = from_ns;
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
        let same = vec![0; rows.counts.len()];
        let each: Vec<u32> = (0..rows.counts.len() as u32).collect();
        let mut columns = Vec::with_capacity(16);
        let process = &catalog.process;
        self.origin
            .push_columns(process, self.with_host, &same, &mut columns);
        columns.push(Column::Ints(&rows.minutes));
        let names = Names::of(rows.sites.iter().map(|&id| catalog.site_name(id)));
        let file = |&id: &SiteId| catalog.site(id).map_or("", |site| &*site.file);
        let files = Names::of(rows.sites.iter().map(file));
        let (name_codes, file_codes) = (names.codes(&each), files.codes(&each));
        columns.push(Column::Coded(&name_codes, names.dictionary()));
        columns.push(Column::Coded(&file_codes, files.dictionary()));
        let (line_codes, lines) = lines(catalog, &rows.sites, &each);
        columns.push(Column::Coded(&line_codes, Dictionary::Ints(lines)));
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
        let result = output.write(rows.period_ns, &columns);
        rows.clear();
        result
    }
}

impl Minute {
    fn new(number: i64) -> Self {
        Self {
            number,
            sketches: Vec::new(),
            places: Vec::new(),
        }
    }

    #[inline]
    fn sketch(&mut self, site: SiteId, declared: usize) -> &mut Sketch {
        // An id beyond the table was never declared; all of these are as one.
        let id = if site.0 as usize <= declared {
            site
        } else {
            SiteId(0)
        };
        let at = id.0 as usize;
        if self.places.len() <= at {
            self.places.resize(declared.min(at + at / 2) + 1, NULL);
        }
        if self.places[at] == NULL {
            self.places[at] = self.sketches.len() as u32;
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
        &mut self.sketches[self.places[at] as usize]
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
