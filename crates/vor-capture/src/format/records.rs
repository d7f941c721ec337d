//! Payloads of all records but batches.

use std::borrow::Cow;

use super::head::{END_MARK, decode_end, kind};
use super::wire::{Cursor, clip, put_text, put_varint, unzigzag, zigzag};
use super::{
    FrameRecord, Index, MAX_COLUMNS, MAX_DECLARED_ID, MAX_FRAME_SETS, OpenScopes, Record, Seek,
    heap, scheduler,
};
use crate::Error;
use crate::model::catalog::{
    Column, DumpInfo, MachineInfo, MetricColumn, ProcessInfo, SegmentInfo, SiteId, SiteInfo,
    ThreadId, ThreadInfo,
};
use crate::model::frame::{FrameSnapshot, MetricValue};
use crate::model::scope_modes::{ScopeMode, ScopeModeChange};
use crate::model::timeline::{ClockSnapshot, ClockSync};

/// Most argument names of a site, and most bytes of one; the rest is cut.
const MAX_ARG_NAMES: usize = 256;
const MAX_ARG_NAME_BYTES: usize = 1 << 10;
/// Most metrics of a frame, and most open scopes of a record; the rest is cut.
const MAX_METRICS: usize = 1 << 18;
const MAX_OPEN_SCOPES: usize = 1 << 18;
const MAX_OPEN_THREADS: usize = 1 << 16;
/// Most places and frame sets in an index.
pub(super) const MAX_SEEKS: usize = 1 << 14;
pub(super) const MAX_INDEXED_SETS: usize = MAX_FRAME_SETS as usize;

/// Flags of a machine.
const HARDWARE_TICKS: u8 = 1;
const CLOCKS: u8 = 2;
const SCOPE_COST: u8 = 4;

const SHAPE_INTEGER: u64 = 0;
const SHAPE_F32: u64 = 1;
const SHAPE_F64: u64 = 2;
/// From here on an integer takes as many bytes as a varint as it does as `f64`.
const SMALL_INTEGER: f64 = (1_u64 << 47) as f64;

pub(super) fn put_process(out: &mut Vec<u8>, process: &ProcessInfo) {
    put_varint(out, u64::from(process.pid));
    put_text(out, &process.name);
    put_text(out, &process.recorder);
}

pub(super) fn put_machine(out: &mut Vec<u8>, machine: &MachineInfo) {
    put_text(out, &machine.host);
    put_text(out, &machine.boot_id);
    let mut flags = 0;
    if machine.hardware_ticks {
        flags |= HARDWARE_TICKS;
    }
    if machine.clocks.is_some() {
        flags |= CLOCKS;
    }
    if machine.scope_ps != 0 {
        flags |= SCOPE_COST;
    }
    out.push(flags);
    if let Some(clocks) = &machine.clocks {
        put_varint(out, clocks.ticks);
        put_varint(out, zigzag(clocks.monotonic_ns));
        put_varint(out, zigzag(clocks.boottime_ns));
    }
    if machine.scope_ps != 0 {
        put_varint(out, machine.scope_ps);
    }
}

pub(super) fn put_segment(out: &mut Vec<u8>, segment: SegmentInfo) {
    out.extend_from_slice(&segment.run.to_le_bytes());
    put_varint(out, segment.number);
}

pub(super) fn put_dump(out: &mut Vec<u8>, dump: &DumpInfo) {
    put_varint(out, dump.ticks);
    put_varint(out, dump.number);
    put_varint(out, dump.missed);
    put_text(out, &dump.reason);
}

const MODE_RECORD: u64 = 0;
const MODE_COUNT: u64 = 1;
const MODE_OFF: u64 = 2;
const MODE_MIN: u64 = 3;
const MODE_SAMPLE: u64 = 4;
const MODE_SAMPLE_TREE: u64 = 5;

pub(super) fn put_scope_modes(out: &mut Vec<u8>, changes: &[ScopeModeChange]) {
    put_varint(out, changes.len() as u64);
    let mut before = 0;
    for change in changes {
        put_varint(out, change.ticks.wrapping_sub(before));
        before = change.ticks;
        put_varint(out, u64::from(change.site.0));
        let (mode, value) = match change.mode {
            ScopeMode::Record => (MODE_RECORD, 0),
            ScopeMode::Count => (MODE_COUNT, 0),
            ScopeMode::Off => (MODE_OFF, 0),
            ScopeMode::Min { ns } => (MODE_MIN, ns),
            ScopeMode::Sample {
                one_in,
                tree: false,
            } => (MODE_SAMPLE, one_in),
            ScopeMode::Sample { one_in, tree: true } => (MODE_SAMPLE_TREE, one_in),
        };
        put_varint(out, mode);
        put_varint(out, value);
    }
}

/// Reads changes of modes, without those to a mode of a later version.
fn get_scope_modes(cursor: &mut Cursor<'_>) -> Result<Vec<ScopeModeChange>, Error> {
    let count = cursor.count(4, MAX_TABLE_ENTRIES)?;
    let mut changes = Vec::with_capacity(count);
    let mut ticks = 0_u64;
    for _ in 0..count {
        ticks = ticks.wrapping_add(cursor.varint()?);
        let site = SiteId(cursor.varint_u32()?);
        let (mode, value) = (cursor.varint()?, cursor.varint()?);
        let mode = match mode {
            MODE_RECORD => ScopeMode::Record,
            MODE_COUNT => ScopeMode::Count,
            MODE_OFF => ScopeMode::Off,
            MODE_MIN => ScopeMode::Min { ns: value },
            MODE_SAMPLE | MODE_SAMPLE_TREE => ScopeMode::Sample {
                one_in: value,
                tree: mode == MODE_SAMPLE_TREE,
            },
            _ => continue,
        };
        changes.push(ScopeModeChange { ticks, site, mode });
    }
    Ok(changes)
}

fn get_machine(cursor: &mut Cursor<'_>) -> Result<MachineInfo, Error> {
    let host = cursor.text()?.to_owned();
    let boot_id = cursor.text()?.to_owned();
    let flags = cursor.u8()?;
    let clocks = if flags & CLOCKS == 0 {
        None
    } else {
        Some(ClockSnapshot {
            ticks: cursor.varint()?,
            monotonic_ns: unzigzag(cursor.varint()?),
            boottime_ns: unzigzag(cursor.varint()?),
        })
    };
    let scope_ps = match flags & SCOPE_COST {
        0 => 0,
        _ => cursor.varint()?,
    };
    Ok(MachineInfo {
        host,
        boot_id,
        hardware_ticks: flags & HARDWARE_TICKS != 0,
        clocks,
        scope_ps,
    })
}

pub(super) fn put_site(out: &mut Vec<u8>, site: &SiteInfo) {
    put_text(out, &site.name);
    put_text(out, &site.module_path);
    put_text(out, &site.file);
    put_varint(out, u64::from(site.line));
    put_text(out, &site.category);
    put_varint(out, site.color.map_or(0, |color| u64::from(color) + 1));
    let names = &site.arg_names[..site.arg_names.len().min(MAX_ARG_NAMES)];
    put_varint(out, names.len() as u64);
    for name in names {
        let name = clip(name);
        let mut end = name.len().min(MAX_ARG_NAME_BYTES);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        put_text(out, &name[..end]);
    }
}

pub(super) fn put_thread(out: &mut Vec<u8>, thread: &ThreadInfo) {
    put_varint(out, thread.os_id);
    put_text(out, &thread.name);
}

pub(super) fn put_column(out: &mut Vec<u8>, column: &Column) {
    out.push(u8::from(column.system));
    put_text(out, &column.metric.name);
    put_text(out, &column.metric.unit);
}

pub(super) fn put_clock(out: &mut Vec<u8>, sync: &ClockSync) {
    put_varint(out, sync.ticks);
    put_varint(out, zigzag(sync.unix_ns));
    put_varint(out, sync.rate);
    put_varint(out, zigzag(sync.wall_ns.wrapping_sub(sync.unix_ns)));
}

/// Appends a frame whose batches begin `records` records before it.
pub(super) fn put_frame(out: &mut Vec<u8>, frame: &FrameSnapshot, records: u32) {
    put_varint(out, frame.index);
    put_varint(out, u64::from(frame.frame_set));
    put_varint(out, frame.start_ticks);
    put_varint(out, frame.end_ticks.wrapping_sub(frame.start_ticks));
    put_varint(out, u64::from(records));
    put_varint(out, frame.span_count);
    put_varint(out, frame.dropped_spans);
    put_varint(out, frame.merged_marks);
    let metrics = &frame.metrics[..frame.metrics.len().min(MAX_METRICS)];
    put_varint(out, metrics.len() as u64);
    let mut before = 0_u32;
    for metric in metrics {
        let column = u64::from(metric.column.wrapping_sub(before)) << 2;
        before = metric.column;
        let value = metric.value;
        let bits = value.to_bits();
        let integer = value as i64;
        if value.abs() < SMALL_INTEGER && (integer as f64).to_bits() == bits {
            put_varint(out, column | SHAPE_INTEGER);
            put_varint(out, zigzag(integer));
        } else if f64::from(value as f32).to_bits() == bits {
            put_varint(out, column | SHAPE_F32);
            out.extend_from_slice(&(value as f32).to_bits().to_le_bytes());
        } else {
            put_varint(out, column | SHAPE_F64);
            out.extend_from_slice(&bits.to_le_bytes());
        }
    }
}

pub(super) fn put_open_scopes(out: &mut Vec<u8>, open: &OpenScopes) {
    put_varint(out, open.ticks);
    let threads = &open.threads[..open.threads.len().min(MAX_OPEN_THREADS)];
    put_varint(out, threads.len() as u64);
    let mut room = MAX_OPEN_SCOPES;
    for (thread, scopes) in threads {
        put_varint(out, u64::from(thread.0));
        let scopes = &scopes[..scopes.len().min(room)];
        room -= scopes.len();
        put_varint(out, scopes.len() as u64);
        for (site, start_ticks) in scopes {
            put_varint(out, u64::from(site.0));
            put_varint(out, zigzag(open.ticks.wrapping_sub(*start_ticks) as i64));
        }
    }
}

pub(super) fn put_index(out: &mut Vec<u8>, index: &Index) {
    put_varint(out, index.tables_offset);
    put_varint(out, index.frames.len() as u64);
    for &frames in &index.frames {
        put_varint(out, frames);
    }
    let totals = [
        index.spans,
        index.dropped_spans,
        index.messages,
        index.async_spans,
        index.records,
    ];
    for total in totals {
        put_varint(out, total);
    }
    put_varint(out, index.start_ticks);
    put_varint(out, index.end_ticks);
    put_varint(out, index.seeks.len() as u64);
    let mut before = Seek::default();
    for seek in &index.seeks {
        put_varint(out, seek.ordinal.wrapping_sub(before.ordinal));
        put_varint(out, zigzag(seek.index.wrapping_sub(before.index) as i64));
        put_varint(out, seek.offset.wrapping_sub(before.offset));
        put_varint(
            out,
            zigzag(seek.start_ticks.wrapping_sub(before.start_ticks) as i64),
        );
        before = *seek;
    }
}

pub(super) fn put_end(out: &mut Vec<u8>, index_offset: u64) {
    out.extend_from_slice(&index_offset.to_le_bytes());
    out.extend_from_slice(&END_MARK);
}

/// Reads the payload of any kind but a batch. `seq` is the record's own. Returns `None` for an
/// unknown kind.
pub(super) fn get(kind: u8, seq: u32, payload: &[u8]) -> Result<Option<Record>, Error> {
    let mut cursor = Cursor::new(payload);
    let record = match kind {
        kind::PROCESS => Record::Process(ProcessInfo {
            pid: cursor.varint_u32()?,
            name: cursor.text()?.to_owned(),
            recorder: cursor.text()?.to_owned(),
        }),
        kind::MACHINE => Record::Machine(get_machine(&mut cursor)?),
        kind::SEGMENT => Record::Segment(SegmentInfo {
            run: cursor.u64()?,
            number: cursor.varint()?,
        }),
        kind::DUMP => Record::Dump(DumpInfo {
            ticks: cursor.varint()?,
            number: cursor.varint()?,
            missed: cursor.varint()?,
            reason: cursor.text()?.to_owned(),
        }),
        kind::SCOPE_MODES => Record::ScopeModes(get_scope_modes(&mut cursor)?),
        kind::SITES => {
            let (first, sites) = get_table(&mut cursor, MAX_DECLARED_ID, 7, get_site)?;
            Record::Sites {
                first: SiteId(first),
                sites,
            }
        }
        kind::THREADS => {
            let (first, threads) = get_table(&mut cursor, MAX_DECLARED_ID, 2, |cursor| {
                Ok(ThreadInfo {
                    os_id: cursor.varint()?,
                    name: cursor.text()?.to_owned(),
                })
            })?;
            Record::Threads {
                first: ThreadId(first),
                threads,
            }
        }
        kind::COLUMNS => {
            let (first, columns) = get_table(&mut cursor, MAX_COLUMNS, 3, |cursor| {
                Ok(Column {
                    system: cursor.u8()? & 1 != 0,
                    metric: MetricColumn {
                        name: cursor.text()?.to_owned(),
                        unit: cursor.text()?.to_owned(),
                    },
                })
            })?;
            Record::Columns { first, columns }
        }
        kind::FRAME_SETS => {
            let (first, names) = get_table(&mut cursor, MAX_FRAME_SETS, 1, |cursor| {
                Ok(cursor.text()?.to_owned())
            })?;
            Record::FrameSets { first, names }
        }
        kind::CLOCK => {
            let ticks = cursor.varint()?;
            let unix_ns = unzigzag(cursor.varint()?);
            let rate = cursor.varint()?;
            let wall_ns = unix_ns.wrapping_add(unzigzag(cursor.varint()?));
            Record::Clock(ClockSync {
                ticks,
                unix_ns,
                rate,
                wall_ns,
            })
        }
        kind::FRAME => Record::Frame(get_frame(&mut cursor, seq)?),
        kind::OPEN_SCOPES => Record::OpenScopes(get_open_scopes(&mut cursor)?),
        kind::HEAP => Record::Heap(heap::get(&mut cursor)?),
        kind::SCHEDULER => Record::Scheduler(scheduler::get(&mut cursor)?),
        kind::INDEX => Record::Index(get_index(&mut cursor)?),
        kind::END => {
            return Ok(Some(Record::End {
                index_offset: decode_end(payload)?,
            }));
        }
        _ => return Ok(None),
    };
    cursor.end()?;
    Ok(Some(record))
}

/// Reads the first id and the entries of a declaration. Ids are below `end_id`, and an entry takes
/// at least `min_bytes`.
fn get_table<T>(
    cursor: &mut Cursor<'_>,
    end_id: u32,
    min_bytes: usize,
    mut entry: impl FnMut(&mut Cursor<'_>) -> Result<T, Error>,
) -> Result<(u32, Vec<T>), Error> {
    let first = cursor.varint_u32()?;
    let count = cursor.count(min_bytes, MAX_TABLE_ENTRIES)?;
    if u64::from(first) + count as u64 > u64::from(end_id) {
        return Err(Error::corrupt(format!(
            "{count} ids from {first} on exceed {end_id}"
        )));
    }
    let entries = (0..count)
        .map(|_| entry(cursor))
        .collect::<Result<_, _>>()?;
    Ok((first, entries))
}

/// Most entries of one declaration record.
pub(super) const MAX_TABLE_ENTRIES: usize = 1 << 14;

fn get_site(cursor: &mut Cursor<'_>) -> Result<SiteInfo, Error> {
    let mut text = || cursor.text().map(|text| Cow::Owned(text.to_owned()));
    let (name, module_path, file) = (text()?, text()?, text()?);
    let line = cursor.varint_u32()?;
    let category = Cow::Owned(cursor.text()?.to_owned());
    let color = match cursor.varint()? {
        0 => None,
        color => Some(u32::try_from(color - 1).map_err(|_| {
            Error::corrupt(format!("the colour {color} does not fit into 32 bits"))
        })?),
    };
    let count = cursor.count(1, MAX_ARG_NAMES)?;
    let arg_names = (0..count)
        .map(|_| cursor.text().map(|text| Cow::Owned(text.to_owned())))
        .collect::<Result<_, _>>()?;
    Ok(SiteInfo {
        name,
        module_path,
        file,
        line,
        category,
        color,
        arg_names,
    })
}

fn get_frame(cursor: &mut Cursor<'_>, seq: u32) -> Result<FrameRecord, Error> {
    let index = cursor.varint()?;
    let frame_set = cursor.varint_u32()?;
    let start_ticks = cursor.varint()?;
    let end_ticks = start_ticks.wrapping_add(cursor.varint()?);
    let first_seq = seq.wrapping_sub(cursor.varint_u32()?);
    let span_count = cursor.varint()?;
    let dropped_spans = cursor.varint()?;
    let merged_marks = cursor.varint()?;
    let count = cursor.count(2, MAX_METRICS)?;
    let mut metrics = Vec::with_capacity(count);
    let mut column = 0_u32;
    for _ in 0..count {
        let head = cursor.varint()?;
        let step = u32::try_from(head >> 2).map_err(|_| {
            Error::corrupt(format!(
                "the column {} does not fit into 32 bits",
                head >> 2
            ))
        })?;
        column = column.wrapping_add(step);
        let value = match head & 3 {
            SHAPE_INTEGER => unzigzag(cursor.varint()?) as f64,
            SHAPE_F32 => f64::from(f32::from_bits(cursor.u32()?)),
            SHAPE_F64 => f64::from_bits(cursor.u64()?),
            shape => {
                return Err(Error::corrupt(format!(
                    "the shape of a value is {shape}, not 0 to 2"
                )));
            }
        };
        metrics.push(MetricValue { column, value });
    }
    Ok(FrameRecord {
        index,
        frame_set,
        start_ticks,
        end_ticks,
        metrics,
        dropped_spans,
        merged_marks,
        span_count,
        first_seq,
    })
}

fn get_open_scopes(cursor: &mut Cursor<'_>) -> Result<OpenScopes, Error> {
    let ticks = cursor.varint()?;
    let count = cursor.count(2, MAX_OPEN_THREADS)?;
    let mut threads = Vec::with_capacity(count);
    let mut room = MAX_OPEN_SCOPES;
    for _ in 0..count {
        let thread = ThreadId(cursor.varint_u32()?);
        let scopes = cursor.count(2, room)?;
        room -= scopes;
        let scopes = (0..scopes)
            .map(|_| {
                let site = SiteId(cursor.varint_u32()?);
                let age = unzigzag(cursor.varint()?) as u64;
                Ok((site, ticks.wrapping_sub(age)))
            })
            .collect::<Result<_, Error>>()?;
        threads.push((thread, scopes));
    }
    Ok(OpenScopes { ticks, threads })
}

fn get_index(cursor: &mut Cursor<'_>) -> Result<Index, Error> {
    let tables_offset = cursor.varint()?;
    let count = cursor.count(1, MAX_INDEXED_SETS)?;
    let frames = (0..count)
        .map(|_| cursor.varint())
        .collect::<Result<_, _>>()?;
    let (spans, dropped_spans) = (cursor.varint()?, cursor.varint()?);
    let (messages, async_spans, records) = (cursor.varint()?, cursor.varint()?, cursor.varint()?);
    let (start_ticks, end_ticks) = (cursor.varint()?, cursor.varint()?);
    let count = cursor.count(4, MAX_SEEKS)?;
    let mut seeks: Vec<Seek> = Vec::with_capacity(count);
    for _ in 0..count {
        let before = seeks.last().copied().unwrap_or_default();
        let seek = Seek {
            ordinal: before.ordinal.wrapping_add(cursor.varint()?),
            index: before.index.wrapping_add(unzigzag(cursor.varint()?) as u64),
            offset: before.offset.wrapping_add(cursor.varint()?),
            start_ticks: before
                .start_ticks
                .wrapping_add(unzigzag(cursor.varint()?) as u64),
        };
        let ascends = before.ordinal < seek.ordinal && before.offset < seek.offset;
        if !seeks.is_empty() && !ascends {
            return Err(Error::corrupt(format!(
                "place {} of an index is not behind the place before it",
                seeks.len()
            )));
        }
        seeks.push(seek);
    }
    Ok(Index {
        tables_offset,
        frames,
        spans,
        dropped_spans,
        messages,
        async_spans,
        records,
        start_ticks,
        end_ticks,
        seeks,
    })
}
