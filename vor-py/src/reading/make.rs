//! Makes tables from the columns that vor-capture reads.
//!
//! Their columns have the same names as in the tables of `vor export --to parquet`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, MapArray,
    PrimitiveArray, StringArray, StructArray, UInt32Array, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::reader::{ArgsRow, Columns, FrameSummary, MessageRow, Run, TaskRow};
use vor_capture::stats::ScopeStats;
use vor_export::{arg_keys, thread_label};

use super::gather::FrameMetric;
use super::pages::large_vec;
use super::table::{FrameEnd, LazyColumn, Table};

/// The name of a site whose declaration was lost.
const UNKNOWN: &str = "?";

/// The source of the computed columns of spans.
struct Rows {
    sites: Vec<u32>,
    runs: Vec<Run>,
    args: Vec<ArgsRow>,
    catalog: Arc<Catalog>,
}

/// Makes the table of spans. Numbers are moved, not copied.
pub(super) fn spans(columns: &mut Columns, catalog: &Arc<Catalog>) -> Table {
    let rows = Arc::new(Rows {
        sites: std::mem::take(&mut columns.sites),
        runs: std::mem::take(&mut columns.runs),
        args: std::mem::take(&mut columns.args),
        catalog: Arc::clone(catalog),
    });
    let count = rows.sites.len();
    let mut end = 0;
    let frames = ends(rows.runs.iter().map(|run| {
        end += run.rows;
        (run.frame, end)
    }));
    let made =
        |name: &str, of: DataType, is_nullable, make: fn(&Rows) -> Result<ArrayRef, ArrowError>| {
            let rows = Arc::clone(&rows);
            LazyColumn::computed(name, of, is_nullable, move || make(&rows))
        };
    let constant = rows.constants();
    let columns = vec![
        made("thread", coded(), false, Rows::threads).with_constant(constant.thread),
        made("tid", DataType::UInt32, false, Rows::thread_ids).with_constant(constant.tid),
        made("frame", DataType::Int64, true, Rows::frames),
        LazyColumn::ready(
            "depth",
            numbers::<UInt32Array>(std::mem::take(&mut columns.depths)),
            false,
        ),
        made("name", coded(), false, Rows::names),
        made("file", coded(), false, Rows::files).with_constant(constant.file),
        made("line", DataType::UInt32, true, Rows::lines).with_constant(constant.line),
        LazyColumn::ready(
            "start_ns",
            numbers::<Int64Array>(std::mem::take(&mut columns.start_ns)),
            false,
        ),
        LazyColumn::ready(
            "dur_ns",
            numbers::<Int64Array>(std::mem::take(&mut columns.dur_ns)),
            false,
        ),
        LazyColumn::ready(
            "self_ns",
            numbers::<Int64Array>(std::mem::take(&mut columns.self_ns)),
            false,
        ),
        made("args", args_type(), true, Rows::args).with_constant(constant.args),
    ];
    Table::new(columns, count, frames)
}

/// One row of each column whose rows are known to be equal, as in a program with one thread, or
/// whose scopes have no place or no arguments.
#[derive(Default)]
struct Constants {
    thread: Option<ArrayRef>,
    tid: Option<ArrayRef>,
    file: Option<ArrayRef>,
    line: Option<ArrayRef>,
    args: Option<ArrayRef>,
}

impl Rows {
    fn names(&self) -> Result<ArrayRef, ArrowError> {
        by_site(&self.catalog, &self.sites, |site| &site.name, UNKNOWN)
    }

    fn files(&self) -> Result<ArrayRef, ArrowError> {
        by_site(&self.catalog, &self.sites, |site| &site.file, "")
    }

    fn lines(&self) -> Result<ArrayRef, ArrowError> {
        Ok(lines(&self.catalog, &self.sites))
    }

    fn threads(&self) -> Result<ArrayRef, ArrowError> {
        threads(
            &self.catalog,
            self.runs.iter().map(|run| (run.thread, run.rows)),
            self.sites.len(),
        )
    }

    fn constants(&self) -> Constants {
        let Some((&site, run)) = self.sites.first().zip(self.runs.first()) else {
            return Constants::default();
        };
        // One row is computed by the same code as all rows.
        let row = Self {
            sites: vec![site],
            runs: vec![Run { rows: 1, ..*run }],
            args: Vec::new(),
            catalog: Arc::clone(&self.catalog),
        };
        let made = |is_constant: bool, make: fn(&Self) -> Result<ArrayRef, ArrowError>| {
            is_constant.then(|| make(&row).ok()).flatten()
        };
        let is_one_thread = self.runs.iter().all(|other| other.thread == run.thread);
        // Sites whose declaration was lost have neither file nor line.
        let mut sites = self.catalog.sites.iter().flatten();
        Constants {
            thread: made(is_one_thread, Self::threads),
            tid: made(is_one_thread, Self::thread_ids),
            file: made(sites.clone().all(|site| site.file.is_empty()), Self::files),
            line: made(sites.all(|site| site.line == 0), Self::lines),
            args: made(self.args.is_empty(), Self::args),
        }
    }

    fn thread_ids(&self) -> Result<ArrayRef, ArrowError> {
        let mut ids = large_vec(self.sites.len());
        for run in &self.runs {
            ids.resize(ids.len() + run.rows, run.thread.0);
        }
        Ok(numbers::<UInt32Array>(ids))
    }

    fn frames(&self) -> Result<ArrayRef, ArrowError> {
        Ok(frames(
            self.runs.iter().map(|run| (run.frame, run.rows)),
            self.sites.len(),
        ))
    }

    /// Makes a map of strings per row, as in Parquet, because arguments of one name may differ in
    /// type.
    fn args(&self) -> Result<ArrayRef, ArrowError> {
        if self.args.is_empty() {
            // Zeroed memory, which the system does not allocate before it is read.
            let offsets = vec![0_i32; self.sites.len() + 1];
            return maps(
                offsets,
                StringArray::new_null(0),
                StringArray::new_null(0),
                NullBuffer::new_null(self.sites.len()),
            );
        }
        let mut offsets: Vec<i32> = large_vec(self.sites.len() + 1);
        let (mut keys, mut values) = (StringBuilder::new(), StringBuilder::new());
        let mut names_of: HashMap<(u32, usize), Vec<String>> = HashMap::new();
        let mut has_args = vec![false; self.sites.len()];
        let mut count = 0_i32;
        for args in &self.args {
            let Some(&site) = self.sites.get(args.row) else {
                continue;
            };
            offsets.resize(args.row + 1, count);
            has_args[args.row] = !args.values.is_empty();
            let names = names_of
                .entry((site, args.values.len()))
                .or_insert_with(|| arg_keys(self.catalog.site(SiteId(site)), args.values.len()));
            for (name, value) in names.iter().zip(&args.values) {
                keys.append_value(name);
                match value {
                    ArgValue::Str(text) => values.append_value(text),
                    value => values.append_value(value.to_string()),
                }
                count = count.checked_add(1).ok_or_else(too_many)?;
            }
        }
        offsets.resize(self.sites.len() + 1, count);
        maps(
            offsets,
            keys.finish(),
            values.finish(),
            NullBuffer::from(has_args),
        )
    }
}

/// Makes a column of maps of strings. The offsets separate the pairs of each row.
fn maps(
    offsets: Vec<i32>,
    keys: StringArray,
    values: StringArray,
    nulls: NullBuffer,
) -> Result<ArrayRef, ArrowError> {
    let pairs: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(values)];
    let pairs = StructArray::try_new(entry_fields(), pairs, None)?;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let maps = MapArray::try_new(entries(), offsets, pairs, Some(nulls), false)?;
    Ok(Arc::new(maps))
}

fn too_many() -> ArrowError {
    ArrowError::ComputeError("2^31 arguments or more: read fewer frames at a time".into())
}

/// Makes the table of tasks.
pub(super) fn tasks(tasks: &[TaskRow], catalog: &Catalog) -> Result<Table, ArrowError> {
    let sites: Vec<u32> = tasks.iter().map(|task| task.site.0).collect();
    let count = tasks.len();
    let columns = vec![
        LazyColumn::ready(
            "thread",
            threads(catalog, tasks.iter().map(|task| (task.thread, 1)), count)?,
            false,
        ),
        values::<UInt32Array>("tid", tasks.iter().map(|task| task.thread.0)),
        LazyColumn::ready(
            "frame",
            frames(tasks.iter().map(|task| (task.frame, 1)), count),
            true,
        ),
        values::<UInt64Array>("id", tasks.iter().map(|task| task.id)),
        LazyColumn::ready(
            "name",
            by_site(catalog, &sites, |site| &site.name, UNKNOWN)?,
            false,
        ),
        LazyColumn::ready(
            "file",
            by_site(catalog, &sites, |site| &site.file, "")?,
            false,
        ),
        LazyColumn::ready("line", lines(catalog, &sites), true),
        values::<Int64Array>("start_ns", tasks.iter().map(|task| task.start_ns)),
        values::<Int64Array>("dur_ns", tasks.iter().map(|task| task.dur_ns)),
        values::<Int64Array>("busy_ns", tasks.iter().map(|task| task.busy_ns)),
        values::<UInt64Array>("polls", tasks.iter().map(|task| task.polls)),
    ];
    Ok(Table::new(
        columns,
        count,
        ends_of(tasks.iter().map(|task| task.frame)),
    ))
}

/// Makes the table of messages.
pub(super) fn messages(messages: &[MessageRow], catalog: &Catalog) -> Result<Table, ArrowError> {
    let count = messages.len();
    let texts: StringArray = messages
        .iter()
        .map(|message| Some(&*message.text))
        .collect();
    let columns = vec![
        LazyColumn::ready(
            "thread",
            threads(
                catalog,
                messages.iter().map(|message| (message.thread, 1)),
                count,
            )?,
            false,
        ),
        values::<UInt32Array>("tid", messages.iter().map(|message| message.thread.0)),
        LazyColumn::ready(
            "frame",
            frames(messages.iter().map(|message| (message.frame, 1)), count),
            true,
        ),
        values::<Int64Array>("time_ns", messages.iter().map(|message| message.time_ns)),
        LazyColumn::ready("text", Arc::new(texts), false),
    ];
    Ok(Table::new(
        columns,
        count,
        ends_of(messages.iter().map(|message| message.frame)),
    ))
}

/// Makes the table of metrics: a row per value of a frame.
pub(super) fn metrics(metrics: &[FrameMetric], catalog: &Catalog) -> Result<Table, ArrowError> {
    let count = metrics.len();
    let by_column = |what: fn(&vor_capture::model::catalog::Column) -> &str, unknown: &str| {
        let mut texts = Texts::default();
        let codes: Vec<i32> = catalog
            .columns
            .iter()
            .map(|column| texts.code(what(column)))
            .collect();
        let keys = metrics
            .iter()
            .map(|metric| match codes.get(metric.column as usize) {
                Some(&code) => code,
                None => texts.code(unknown),
            });
        let keys = keys.collect();
        texts.array(keys)
    };
    let columns = vec![
        values::<Int64Array>(
            "frame",
            metrics.iter().map(|metric| saturated(metric.frame)),
        ),
        values::<Int64Array>("time_ns", metrics.iter().map(|metric| metric.time_ns)),
        LazyColumn::ready(
            "name",
            by_column(|column| &column.metric.name, UNKNOWN)?,
            false,
        ),
        LazyColumn::ready("unit", by_column(|column| &column.metric.unit, "")?, false),
        values::<Float64Array>("value", metrics.iter().map(|metric| metric.value)),
    ];
    Ok(Table::new(
        columns,
        count,
        ends_of(metrics.iter().map(|metric| Some(metric.frame))),
    ))
}

/// Makes the table of frames.
pub(super) fn frame_table(summaries: &[FrameSummary], catalog: &Catalog) -> Table {
    let ints = |value: &dyn Fn(&FrameSummary) -> i64| {
        numbers::<Int64Array>(summaries.iter().map(value).collect())
    };
    let start = |frame: &FrameSummary| catalog.unix_ns(frame.start_ticks);
    let columns = vec![
        LazyColumn::ready("frame", ints(&|frame| saturated(frame.index)), false),
        LazyColumn::ready("start_ns", ints(&start), false),
        LazyColumn::ready(
            "dur_ns",
            ints(&|frame| {
                catalog
                    .unix_ns(frame.end_ticks)
                    .saturating_sub(start(frame))
            }),
            false,
        ),
        LazyColumn::ready("spans", ints(&|frame| saturated(frame.span_count)), false),
        LazyColumn::ready(
            "dropped_spans",
            ints(&|frame| saturated(frame.dropped_spans)),
            false,
        ),
        LazyColumn::ready(
            "merged_marks",
            ints(&|frame| saturated(frame.merged_marks)),
            false,
        ),
        LazyColumn::ready(
            "lost_records",
            ints(&|frame| saturated(frame.lost_records)),
            false,
        ),
    ];
    let ends = ends_of(summaries.iter().map(|frame| Some(frame.index)));
    Table::new(columns, summaries.len(), ends)
}

/// Makes the table of statistics, a row per call site.
pub(super) fn stats(rows: &[ScopeStats], catalog: &Catalog) -> Result<Table, ArrowError> {
    let sites: Vec<u32> = rows.iter().map(|row| row.site.0).collect();
    let ints = |value: fn(&ScopeStats) -> u64| {
        numbers::<Int64Array>(rows.iter().map(|row| saturated(value(row))).collect())
    };
    let mut columns = vec![
        LazyColumn::ready(
            "name",
            by_site(catalog, &sites, |site| &site.name, UNKNOWN)?,
            false,
        ),
        LazyColumn::ready(
            "module_path",
            by_site(catalog, &sites, |site| &site.module_path, "")?,
            false,
        ),
        LazyColumn::ready(
            "file",
            by_site(catalog, &sites, |site| &site.file, "")?,
            false,
        ),
        LazyColumn::ready("line", lines(catalog, &sites), true),
        LazyColumn::ready("count", ints(|row| row.count), false),
        LazyColumn::ready("total_ns", ints(|row| row.total_ns), false),
        LazyColumn::ready("self_ns", ints(|row| row.self_ns), false),
        LazyColumn::ready("min_ns", ints(|row| row.min_ns), false),
        values::<Float64Array>("mean_ns", rows.iter().map(|row| row.mean_ns)),
        LazyColumn::ready("p50_ns", ints(|row| row.p50_ns), false),
        LazyColumn::ready("p95_ns", ints(|row| row.p95_ns), false),
        LazyColumn::ready("p99_ns", ints(|row| row.p99_ns), false),
        LazyColumn::ready("max_ns", ints(|row| row.max_ns), false),
        LazyColumn::ready("child_spans", ints(|row| row.child_spans), false),
        LazyColumn::ready("descendant_spans", ints(|row| row.descendant_spans), false),
    ];
    let cpu = |name: &str, value: fn(&ScopeStats) -> Option<u64>| {
        let values: Int64Array = rows.iter().map(|row| value(row).map(saturated)).collect();
        (values.null_count() < rows.len()).then(|| LazyColumn::ready(name, Arc::new(values), true))
    };
    columns.extend(cpu("cpu_ns", ScopeStats::cpu_ns));
    columns.extend(cpu("self_cpu_ns", ScopeStats::self_cpu_ns));
    Ok(Table::new(columns, rows.len(), Vec::new()))
}

/// Distinct strings and their codes.
#[derive(Default)]
struct Texts {
    codes: HashMap<String, i32>,
    texts: Vec<String>,
}

impl Texts {
    fn code(&mut self, text: &str) -> i32 {
        if let Some(&code) = self.codes.get(text) {
            return code;
        }
        let code = self.texts.len() as i32;
        self.texts.push(text.to_owned());
        self.codes.insert(text.to_owned(), code);
        code
    }

    fn array(&self, keys: Vec<i32>) -> Result<ArrayRef, ArrowError> {
        let values = Arc::new(StringArray::from_iter_values(&self.texts));
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(
            Int32Array::from(keys),
            values,
        )?))
    }
}

/// Returns the type of a column of repeated strings.
fn coded() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

fn entry_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Utf8, false),
    ])
}

fn entries() -> FieldRef {
    Arc::new(Field::new(
        "entries",
        DataType::Struct(entry_fields()),
        false,
    ))
}

fn args_type() -> DataType {
    DataType::Map(entries(), false)
}

/// Makes a column of numbers without copying them.
fn numbers<A: FromNumbers + Array + 'static>(values: Vec<A::Number>) -> ArrayRef {
    Arc::new(A::from_numbers(values))
}

/// Makes a column of numbers, none of which is missing.
fn values<A: FromNumbers + Array + 'static>(
    name: &str,
    values: impl Iterator<Item = A::Number>,
) -> LazyColumn {
    LazyColumn::ready(name, numbers::<A>(values.collect()), false)
}

/// An array of numbers.
trait FromNumbers {
    type Number;

    fn from_numbers(values: Vec<Self::Number>) -> Self;
}

impl<T: arrow_array::ArrowPrimitiveType> FromNumbers for PrimitiveArray<T> {
    type Number = T::Native;

    fn from_numbers(values: Vec<T::Native>) -> Self {
        Self::new(values.into(), None)
    }
}

/// Makes a column with a string of each row's call site.
fn by_site(
    catalog: &Catalog,
    sites: &[u32],
    text: fn(&SiteInfo) -> &str,
    unknown: &str,
) -> Result<ArrayRef, ArrowError> {
    const NONE: i32 = -1;
    let mut texts = Texts::default();
    // Ids of sites begin with 1. Undeclared ones, if there are any, get the last code.
    let declared = catalog
        .sites
        .iter()
        .map(|site| site.as_deref().map_or(NONE, |site| texts.code(text(site))));
    let mut codes: Vec<i32> = std::iter::once(NONE).chain(declared).collect();
    let code = |codes: &[i32], site: u32| codes.get(site as usize).copied().unwrap_or(NONE);
    let mut keys = large_vec(sites.len());
    keys.extend(sites.iter().map(|&site| code(&codes, site)));
    if keys.contains(&NONE) {
        let unknown = texts.code(unknown);
        codes
            .iter_mut()
            .filter(|code| **code == NONE)
            .for_each(|code| *code = unknown);
        keys.iter_mut()
            .filter(|key| **key == NONE)
            .for_each(|key| *key = unknown);
    }
    texts.array(keys)
}

/// Makes a column of the lines of call sites. An unknown line is 0 and missing.
fn lines(catalog: &Catalog, sites: &[u32]) -> ArrayRef {
    let declared = catalog
        .sites
        .iter()
        .map(|site| site.as_deref().map_or(0, |site| site.line));
    let by_site: Vec<u32> = std::iter::once(0).chain(declared).collect();
    let mut lines = large_vec(sites.len());
    lines.extend(
        sites
            .iter()
            .map(|&site| by_site.get(site as usize).copied().unwrap_or(0)),
    );
    let nulls = lines.contains(&0).then(|| {
        NullBuffer::new(BooleanBuffer::collect_bool(lines.len(), |row| {
            lines[row] != 0
        }))
    });
    Arc::new(UInt32Array::new(lines.into(), nulls))
}

/// Makes a column of the names of threads, from runs of rows.
fn threads(
    catalog: &Catalog,
    runs: impl Iterator<Item = (ThreadId, usize)>,
    count: usize,
) -> Result<ArrayRef, ArrowError> {
    let mut texts = Texts::default();
    let mut codes: HashMap<ThreadId, i32> = HashMap::new();
    let mut keys = large_vec(count);
    for (thread, rows) in runs {
        let code = *codes
            .entry(thread)
            .or_insert_with(|| texts.code(&thread_label(catalog, thread)));
        keys.resize(keys.len() + rows, code);
    }
    texts.array(keys)
}

/// Makes a column of the numbers of frames, from runs of rows. A row after the last frame is -1 and
/// missing.
fn frames(runs: impl Iterator<Item = (Option<u64>, usize)> + Clone, count: usize) -> ArrayRef {
    let mut values = large_vec(count);
    for (frame, rows) in runs.clone() {
        values.resize(values.len() + rows, frame.map_or(-1, saturated));
    }
    let nulls = runs.clone().any(|(frame, _)| frame.is_none()).then(|| {
        let mut valid = BooleanBufferBuilder::new(count);
        for (frame, rows) in runs {
            valid.append_n(rows, frame.is_some());
        }
        NullBuffer::new(valid.finish())
    });
    Arc::new(Int64Array::new(values.into(), nulls))
}

/// Returns the end of the rows of each frame, from the frame of each row.
fn ends_of(rows: impl Iterator<Item = Option<u64>>) -> Vec<FrameEnd> {
    ends(rows.zip(1..))
}

/// Returns the end of the rows of each frame, from the ends of runs.
fn ends(runs: impl Iterator<Item = (Option<u64>, usize)>) -> Vec<FrameEnd> {
    let mut ends: Vec<FrameEnd> = Vec::new();
    for (frame, end) in runs {
        let frame = frame.unwrap_or(u64::MAX);
        match ends.last_mut() {
            Some(last) if last.frame == frame => last.end = end,
            _ => ends.push(FrameEnd { frame, end }),
        }
    }
    ends
}

fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
