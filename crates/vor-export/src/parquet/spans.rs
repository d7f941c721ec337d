//! The table `spans`: a row per span.
//!
//! Rows are ordered by frame, then by thread, then by the end of the spans. Nearly all columns
//! repeat a few values, so a row group gathers codes instead of values; see the `coded` module.

use std::sync::Arc;

use parquet::data_type::ByteArray;
use vor_capture::Error;
use vor_capture::model::batch::{ArgValue, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::measures::{Measured, Measures};
use vor_capture::sink::Interest;
use vor_capture::stats::{SpanMapper, SpanTimes};

use super::coded::{Dictionary, NULL};
use super::current_frame::{CurrentFrame, ThreadSpans};
use super::exporter::{ParquetExporter, Table};
use super::origin::OriginColumns;
use super::table::{Column, Levels, Output, Period, ROW_GROUP_ROWS};
use super::texts::{SiteColumns, TextColumn};
use crate::{arg_keys, saturated, thread_label};

/// Bytes of arguments at which a row group ends early.
const MAX_ARG_BYTES: usize = 16 << 20;

/// Writes the spans of batches, a row each, as the table `spans` of the [module](super).
///
/// Memory does not grow with the number of spans: it holds a row group, and at most 2^20 spans of
/// the current frame. If a frame has more, its earlier spans are written without their depth.
///
/// # Examples
///
/// ```
/// use vor_export::parquet::{Origin, SpanParquet};
/// use vor_capture::sink::FrameSink;
///
/// let mut spans = SpanParquet::new(Vec::new(), Origin::default())?;
/// spans.finish()?;
/// assert!(spans.into_inner()?.ends_with(b"PAR1"));
/// # Ok::<(), vor_capture::Error>(())
/// ```
pub type SpanParquet<W> = ParquetExporter<SpanTable, W>;

/// The table `spans`.
#[derive(Debug)]
pub struct SpanTable {
    origin: OriginColumns,
    frame: CurrentFrame,
    /// The number of the last ended frame.
    last_frame: Option<u64>,
    catalog: Arc<Catalog>,
    depths: Vec<u32>,
    rows: Rows,
}

/// The columns of the next row group. The code of a coded value is the position of its first
/// appearance in the group.
#[derive(Debug, Default)]
struct Rows {
    period: Period,
    threads: Vec<u32>,
    thread_ids: Vec<ThreadId>,
    frames: Vec<u32>,
    frame_numbers: Vec<i64>,
    depths: Vec<u32>,
    sites: Vec<u32>,
    site_ids: Vec<SiteId>,
    /// Codes of sites by id; [`NULL`] for sites without a row in the group.
    site_codes: Vec<u32>,
    start_ns: Vec<i64>,
    dur_ns: Vec<i64>,
    self_ns: Vec<i64>,
    /// Names of the arguments of a site, by its code; made for the first row with arguments.
    arg_names: Vec<Vec<ByteArray>>,
    arg_keys: Vec<ByteArray>,
    arg_values: Vec<ByteArray>,
    arg_definition: Vec<i16>,
    arg_repetition: Vec<i16>,
    arg_bytes: usize,
    queued_ns: Vec<i64>,
    blocked_ns: Vec<i64>,
    /// Whether each row has both: 0 or 1.
    waits_definition: Vec<i16>,
}

impl Table for SpanTable {
    const NAME: &'static str = "spans";
    const INTEREST: Interest = Interest::BATCHES;
    const COLUMNS: &'static str = "
        required binary thread (STRING);
        required int64 tid;
        optional int64 frame;
        optional int64 depth;
        required binary name (STRING);
        required binary file (STRING);
        optional int64 line;
        required int64 start_ns;
        required int64 dur_ns;
        required int64 self_ns;
        optional group args (MAP) {
            repeated group key_value {
                required binary key (STRING);
                required binary value (STRING);
            }
        }
        optional int64 queued_ns;
        optional int64 blocked_ns;";

    fn new(origin: OriginColumns) -> Self {
        Self {
            origin,
            frame: CurrentFrame::default(),
            last_frame: None,
            catalog: Arc::default(),
            depths: Vec::new(),
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
        self.follow(catalog);
        self.frame.add(batch, times);
        if self.frame.is_full() {
            // A frame's number is unknown before its end, but frames are numbered one by one.
            let number = self.last_frame.map(|last| last.saturating_add(1));
            self.write_frame(number, false, output)?;
        }
        Ok(())
    }

    fn add_frame(&mut self, frame: &FrameSnapshot, output: &mut dyn Output) -> Result<(), Error> {
        if frame.frame_set != 0 {
            return Ok(());
        }
        self.follow(&frame.catalog);
        self.last_frame = Some(frame.index);
        self.write_frame(self.last_frame, true, output)
    }

    fn finish(&mut self, output: &mut dyn Output) -> Result<(), Error> {
        self.write_frame(None, true, output)?;
        self.write_rows(output)
    }
}

impl SpanTable {
    fn follow(&mut self, catalog: &Arc<Catalog>) {
        if !Arc::ptr_eq(&self.catalog, catalog) {
            self.catalog = Arc::clone(catalog);
            // A lost declaration of a site may have arrived.
            self.rows.arg_names.iter_mut().for_each(Vec::clear);
        }
    }

    /// Makes rows from the spans of the current frame.
    fn write_frame(
        &mut self,
        number: Option<u64>,
        depths_are_known: bool,
        output: &mut dyn Output,
    ) -> Result<(), Error> {
        let frame = std::mem::take(&mut self.frame);
        let mut depths = std::mem::take(&mut self.depths);
        let result = frame.threads().iter().try_for_each(|spans| {
            depths.clear();
            spans.push_depths(depths_are_known, &mut depths);
            self.write_thread(spans, &depths, number, output)
        });
        self.depths = depths;
        self.frame = frame;
        self.frame.clear();
        result
    }

    fn write_thread(
        &mut self,
        spans: &ThreadSpans,
        depths: &[u32],
        frame: Option<u64>,
        output: &mut dyn Output,
    ) -> Result<(), Error> {
        let catalog = Arc::clone(&self.catalog);
        let mut clock = SpanMapper::new(&catalog.timeline);
        let mut args = spans.args.iter().peekable();
        let mut begin = 0;
        while begin < spans.sites.len() {
            let rows = &mut self.rows;
            let room = ROW_GROUP_ROWS.saturating_sub(rows.len());
            let end = begin + room.min(spans.sites.len() - begin);
            let end = rows.push_times(&mut clock, spans, begin..end);
            if end == begin {
                // The group is full, or the span is in another period.
                self.write_rows(output)?;
                let (start_ns, dur_ns) =
                    clock.place(spans.start_ticks[begin], spans.duration_ticks[begin]);
                let end_ns = start_ns.saturating_add_unsigned(dur_ns);
                self.rows.period = Period::of(output, end_ns);
                continue;
            }
            rows.push_thread(spans.thread, end - begin);
            rows.push_frame(frame, end - begin);
            rows.depths.extend_from_slice(&depths[begin..end]);
            rows.push_sites(&catalog, &spans.sites[begin..end]);
            rows.self_ns
                .extend(spans.self_ns[begin..end].iter().map(|&ns| saturated(ns)));
            let mut unwritten = begin;
            while let Some(values) = args.next_if(|args| (args.span as usize) < end) {
                let at = values.span as usize;
                rows.skip_args(at - unwritten);
                let row = rows.len() - (end - at);
                rows.push_args(catalog.site(spans.sites[at]), row, &values.values);
                unwritten = at + 1;
            }
            rows.skip_args(end - unwritten);
            if rows.arg_bytes > MAX_ARG_BYTES {
                self.write_rows(output)?;
            }
            begin = end;
        }
        Ok(())
    }

    fn write_rows(&mut self, output: &mut dyn Output) -> Result<(), Error> {
        let rows = &mut self.rows;
        if rows.len() == 0 {
            return Ok(());
        }
        let catalog = &*self.catalog;
        let zeros = vec![0; rows.len()];
        let mut columns = Vec::with_capacity(20);
        self.origin.push(&catalog.process, &zeros, &mut columns);
        let labels: Vec<_> = rows
            .thread_ids
            .iter()
            .map(|&id| thread_label(catalog, id))
            .collect();
        let threads = TextColumn::new(labels.iter().map(|label| &**label), &rows.threads);
        columns.push(threads.column());
        let tids = rows.thread_ids.iter().map(|id| i64::from(id.0)).collect();
        columns.push(Column::Coded(&rows.threads, Dictionary::Ints(tids)));
        let frames = Dictionary::Ints(rows.frame_numbers.clone());
        columns.push(Column::Coded(&rows.frames, frames));
        let deepest = rows.depths.iter().filter(|&&depth| depth != NULL).max();
        let depths = deepest.map_or_else(Vec::new, |&deepest| (0..=i64::from(deepest)).collect());
        columns.push(Column::Coded(&rows.depths, Dictionary::Ints(depths)));
        let sites = SiteColumns::new(catalog, &rows.site_ids, &rows.sites);
        sites.push(&mut columns);
        columns.push(Column::Ints(&rows.start_ns));
        columns.push(Column::Ints(&rows.dur_ns));
        columns.push(Column::Ints(&rows.self_ns));
        let levels = Levels {
            definition: &rows.arg_definition,
            repetition: &rows.arg_repetition,
        };
        columns.push(Column::NestedTexts(&rows.arg_keys, levels));
        columns.push(Column::NestedTexts(&rows.arg_values, levels));
        for ns in [&rows.queued_ns, &rows.blocked_ns] {
            columns.push(Column::OptionalInts(ns, &rows.waits_definition));
        }
        let result = output.write(rows.period.unix_ns, &columns);
        rows.clear();
        result
    }
}

impl Rows {
    fn len(&self) -> usize {
        self.start_ns.len()
    }

    /// Appends the times of spans up to the first outside the group's period, and returns its
    /// position.
    fn push_times(
        &mut self,
        clock: &mut SpanMapper<'_>,
        spans: &ThreadSpans,
        range: std::ops::Range<usize>,
    ) -> usize {
        let ticks = spans.start_ticks[range.clone()]
            .iter()
            .zip(&spans.duration_ticks[range.clone()]);
        for (i, (&start_ticks, &duration_ticks)) in ticks.enumerate() {
            let (start_ns, dur_ns) = clock.place(start_ticks, duration_ticks);
            if !self
                .period
                .contains(start_ns.saturating_add_unsigned(dur_ns))
            {
                return range.start + i;
            }
            self.start_ns.push(start_ns);
            self.dur_ns.push(saturated(dur_ns));
        }
        range.end
    }

    fn push_thread(&mut self, thread: ThreadId, count: usize) {
        let code = match self.thread_ids.iter().rposition(|&id| id == thread) {
            Some(code) => code,
            None => {
                self.thread_ids.push(thread);
                self.thread_ids.len() - 1
            }
        };
        self.threads.resize(self.threads.len() + count, code as u32);
    }

    fn push_frame(&mut self, frame: Option<u64>, count: usize) {
        let code = match frame.map(saturated) {
            None => NULL,
            Some(number) => {
                if self.frame_numbers.last() != Some(&number) {
                    self.frame_numbers.push(number);
                }
                self.frame_numbers.len() as u32 - 1
            }
        };
        self.frames.resize(self.frames.len() + count, code);
    }

    fn push_sites(&mut self, catalog: &Catalog, sites: &[SiteId]) {
        if self.site_codes.len() <= catalog.sites.len() {
            self.site_codes.resize(catalog.sites.len() + 1, NULL);
        }
        for &site in sites {
            // An id beyond the table was never declared; all such ids count as one site.
            let id = if (site.0 as usize) < self.site_codes.len() {
                site
            } else {
                SiteId(0)
            };
            let mut code = self.site_codes[id.0 as usize];
            if code == NULL {
                code = self.site_ids.len() as u32;
                self.site_codes[id.0 as usize] = code;
                self.site_ids.push(id);
                self.arg_names.push(Vec::new());
            }
            self.sites.push(code);
        }
    }

    /// Appends rows without arguments.
    fn skip_args(&mut self, count: usize) {
        let rows = self.arg_definition.len() + count;
        self.arg_definition.resize(rows, 0);
        self.arg_repetition.resize(rows, 0);
        let rows = self.waits_definition.len() + count;
        self.waits_definition.resize(rows, 0);
    }

    /// Appends the waits of a row with arguments.
    fn push_waits(&mut self, site: Option<&SiteInfo>, values: &[ArgValue]) {
        let site = site.filter(|site| Measures::of(site).has(Measures::WAIT));
        if let Some(site) = site {
            let measured = Measured::of(site, values);
            let blocked_ns = measured.off_cpu_ns.saturating_sub(measured.run_queue_ns);
            self.queued_ns.push(saturated(measured.run_queue_ns));
            self.blocked_ns.push(saturated(blocked_ns));
        }
        self.waits_definition.push(i16::from(site.is_some()));
    }

    /// Appends the arguments of a row whose site was pushed before.
    fn push_args(&mut self, site: Option<&SiteInfo>, row: usize, values: &[ArgValue]) {
        if values.is_empty() {
            return self.skip_args(1);
        }
        self.push_waits(site, values);
        let names = &mut self.arg_names[self.sites[row] as usize];
        if names.len() < values.len() {
            let keys = arg_keys(site, values.len()).into_iter();
            *names = keys.map(|key| ByteArray::from(key.into_bytes())).collect();
        }
        for (position, value) in values.iter().enumerate() {
            let text = match value {
                ArgValue::Str(text) => ByteArray::from(&**text),
                value => ByteArray::from(value.to_string().into_bytes()),
            };
            self.arg_bytes += text.len() + size_of::<ByteArray>();
            self.arg_keys.push(names[position].clone());
            self.arg_values.push(text);
            self.arg_definition.push(2);
            self.arg_repetition.push(i16::from(position > 0));
        }
    }

    fn clear(&mut self) {
        for id in &self.site_ids {
            self.site_codes[id.0 as usize] = NULL;
        }
        self.threads.clear();
        self.thread_ids.clear();
        self.frames.clear();
        self.frame_numbers.clear();
        self.depths.clear();
        self.sites.clear();
        self.site_ids.clear();
        self.start_ns.clear();
        self.dur_ns.clear();
        self.self_ns.clear();
        self.arg_names.clear();
        self.arg_keys.clear();
        self.arg_values.clear();
        self.arg_definition.clear();
        self.arg_repetition.clear();
        self.arg_bytes = 0;
        self.queued_ns.clear();
        self.blocked_ns.clear();
        self.waits_definition.clear();
    }
}

#[cfg(test)]
mod tests {
    use vor_capture::filled;
    use vor_capture::model::batch::SpanArgs;
    use vor_capture::stats::SpanTimer;

    use super::*;
    use crate::parquet::origin::Origin;
    use crate::parquet::table::RowCounts;

    #[test]
    fn a_row_group_ends_early_if_its_arguments_are_large() {
        let mut table = SpanTable::new(OriginColumns {
            origin: Origin::default(),
            with_host: true,
        });
        let catalog = Arc::new(Catalog::default());
        let mut groups = RowCounts::default();
        let mut now = 0;
        let mut add = |text_bytes: usize| {
            now += 10;
            let value = ArgValue::Str("x".repeat(text_bytes).into());
            let batch = filled!(ThreadBatch {
                start_ticks: vec![now],
                duration_ticks: vec![5],
                sites: vec![SiteId(1)],
                args: vec![filled!(SpanArgs {
                    span: 0,
                    values: vec![value],
                })]
            });
            let mut timer = SpanTimer::default();
            let times = timer.batch(&catalog.timeline, &batch);
            table
                .add_spans(&catalog, &batch, times, &mut groups)
                .unwrap();
            let frame = filled!(FrameSnapshot {
                catalog: Arc::clone(&catalog)
            });
            table.add_frame(&frame, &mut groups).unwrap();
            groups.0.clone()
        };
        // An argument is its text and the value that refers to it.
        let largest = MAX_ARG_BYTES - size_of::<ByteArray>();
        assert_eq!(add(largest - size_of::<ByteArray>()), [0; 0]);
        assert_eq!(add(0), [0; 0]);
        assert_eq!(add(0), [3]);
        assert_eq!(add(largest), [3]);
        assert_eq!(add(1_000), [3, 2]);
        assert_eq!(add(largest + 1), [3, 2, 1]);
    }
}
