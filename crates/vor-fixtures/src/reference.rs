//! A second decoder of payloads, written from `FORMAT.md`: slow, plain, and without the code of the
//! first. Tests compare the two, so a check that either lacks is a difference.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::format::{FrameRecord, Index, OpenScopes, Record, Seek};
use vor_capture::model::batch::{
    ArgValue, AsyncSpan, FlowPoint, FlowStage, Message, SpanArgs, TaskEvent, TaskEventKind,
    ThreadBatch,
};
use vor_capture::model::catalog::{
    Column, DumpInfo, MachineInfo, MetricColumn, ProcessInfo, SegmentInfo, SiteId, SiteInfo,
    ThreadId, ThreadInfo,
};
use vor_capture::model::frame::MetricValue;
use vor_capture::model::heap::{HeapMode, HeapScope, HeapSnapshot, HeapStack};
use vor_capture::model::scheduler::{
    SchedulerBatch, SchedulerEvent, SchedulerEventKind, SchedulerTask, TaskState,
};
use vor_capture::model::scope_modes::{ScopeMode, ScopeModeChange};
use vor_capture::model::timeline::{ClockSnapshot, ClockSync};

/// A value, or the rule that the bytes break.
pub type Judged<T> = Result<T, &'static str>;

/// The kinds of records that [`decode`] knows.
pub const KINDS: RangeInclusive<u8> = 1..=18;
const MAX_PAYLOAD_BYTES: usize = 4 << 20;
const GROUP: usize = 256;

/// Returns the raw payload of a record. Absent for a codec that is not known.
pub fn unpack(codec: u8, stored: &[u8]) -> Judged<Option<Vec<u8>>> {
    match codec {
        0 => Ok(Some(stored.to_vec())),
        1 => {
            let mut bytes = Bytes(stored);
            let raw_bytes = bytes.varint()?;
            let block = bytes.0;
            let most = MAX_PAYLOAD_BYTES.min(block.len() * 255);
            require(raw_bytes <= most as u64, "a raw payload is too long")?;
            let mut raw = vec![0; raw_bytes as usize];
            let unpacked = lz4_flex::block::decompress_into(block, &mut raw);
            require(
                unpacked.is_ok_and(|bytes| bytes == raw.len()),
                "not LZ4 of the stated length",
            )?;
            Ok(Some(raw))
        }
        _ => Ok(None),
    }
}

/// Decodes the raw payload of the record number `seq`. Absent for a kind that is not known.
pub fn decode(kind: u8, seq: u32, payload: &[u8]) -> Judged<Option<Record>> {
    let mut bytes = Bytes(payload);
    let record = match kind {
        1 => Record::Process(filled!(ProcessInfo {
            pid: bytes.u32()?,
            name: bytes.text()?,
            recorder: bytes.text()?,
        })),
        2 => {
            let (first, sites) = bytes.table(1 << 21, site)?;
            let first = SiteId(first);
            Record::Sites { first, sites }
        }
        3 => {
            let thread = |bytes: &mut Bytes<'_>| {
                Ok(filled!(ThreadInfo {
                    os_id: bytes.varint()?,
                    name: bytes.text()?,
                }))
            };
            let (first, threads) = bytes.table(1 << 21, thread)?;
            let first = ThreadId(first);
            Record::Threads { first, threads }
        }
        4 => {
            let column = |bytes: &mut Bytes<'_>| {
                Ok(filled!(Column {
                    system: bytes.u8()? & 1 == 1,
                    metric: MetricColumn {
                        name: bytes.text()?,
                        unit: bytes.text()?,
                    },
                }))
            };
            let (first, columns) = bytes.table(1 << 16, column)?;
            Record::Columns { first, columns }
        }
        5 => {
            let (first, names) = bytes.table(1 << 12, Bytes::text)?;
            Record::FrameSets { first, names }
        }
        6 => {
            let (ticks, unix_ns, rate) = (bytes.varint()?, bytes.zigzag()?, bytes.varint()?);
            let wall_ns = unix_ns.wrapping_add(bytes.zigzag()?);
            Record::Clock(filled!(ClockSync {
                ticks,
                unix_ns,
                rate,
                wall_ns,
            }))
        }
        7 => Record::Batch(batch(&mut bytes)?),
        8 => Record::Frame(frame(&mut bytes, seq)?),
        9 => Record::OpenScopes(open_scopes(&mut bytes)?),
        10 => Record::Index(index(&mut bytes)?),
        11 => {
            let index_offset = bytes.u64()?;
            require(bytes.take(8)? == b"VOR3END.", "the end mark is wrong")?;
            Record::End { index_offset }
        }
        12 => Record::Machine(machine(&mut bytes)?),
        13 => Record::Batch(events(&mut bytes)?),
        14 => Record::Heap(heap(&mut bytes)?),
        15 => Record::Segment(filled!(SegmentInfo {
            run: bytes.u64()?,
            number: bytes.varint()?,
        })),
        16 => Record::Dump(filled!(DumpInfo {
            ticks: bytes.varint()?,
            number: bytes.varint()?,
            missed: bytes.varint()?,
            reason: bytes.text()?,
        })),
        17 => Record::ScopeModes(scope_modes(&mut bytes)?),
        18 => Record::Scheduler(scheduler(&mut bytes)?),
        _ => return Ok(None),
    };
    require(bytes.0.is_empty(), "bytes after the last field")?;
    Ok(Some(record))
}

fn scope_modes(bytes: &mut Bytes<'_>) -> Judged<Vec<ScopeModeChange>> {
    let count = bytes.varint()?;
    require(count <= 1 << 14, "too many changes of modes")?;
    let (mut changes, mut ticks) = (Vec::new(), 0_u64);
    for _ in 0..count {
        ticks = ticks.wrapping_add(bytes.varint()?);
        let site = u32::try_from(bytes.varint()?).map_err(|_| "a site above 32 bits")?;
        let (mode, value) = (bytes.varint()?, bytes.varint()?);
        let one_in = value;
        let mode = match mode {
            0 => ScopeMode::Record,
            1 => ScopeMode::Count,
            2 => ScopeMode::Off,
            3 => ScopeMode::Min { ns: value },
            4 | 5 => ScopeMode::Sample {
                one_in,
                tree: mode == 5,
            },
            _ => continue,
        };
        let site = SiteId(site);
        changes.push(filled!(ScopeModeChange { ticks, site, mode }));
    }
    Ok(changes)
}

fn require(holds: bool, rule: &'static str) -> Judged<()> {
    if holds { Ok(()) } else { Err(rule) }
}

/// The bytes that are left.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Judged<&'a [u8]> {
        require(len <= self.0.len(), "a payload ends too early")?;
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Judged<u8> {
        Ok(self.take(1)?[0])
    }

    fn u64(&mut self) -> Judged<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().unwrap()))
    }

    fn f64(&mut self) -> Judged<f64> {
        Ok(f64::from_bits(self.u64()?))
    }

    fn varint(&mut self) -> Judged<u64> {
        let mut value = 0;
        for place in 0..10 {
            let byte = self.u8()?;
            require(place < 9 || byte <= 1, "a varint has more than 64 bits")?;
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a varint has more than ten bytes")
    }

    fn u32(&mut self) -> Judged<u32> {
        u32::try_from(self.varint()?).map_err(|_| "more than 32 bits")
    }

    fn zigzag(&mut self) -> Judged<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads a count. Nothing is allocated for it, so only the cap limits it.
    fn count(&mut self, cap: usize) -> Judged<usize> {
        let count = self.varint()?;
        require(count <= cap as u64, "a count is above its cap")?;
        Ok(count as usize)
    }

    fn text(&mut self) -> Judged<String> {
        let len = self.count(1 << 16)?;
        let text = String::from_utf8(self.take(len)?.to_vec());
        text.map_err(|_| "a text is not UTF-8")
    }

    fn table<T>(
        &mut self,
        end_id: u64,
        entry: impl Fn(&mut Self) -> Judged<T>,
    ) -> Judged<(u32, Vec<T>)> {
        let (first, count) = (self.u32()?, self.count(16_384)?);
        require(
            u64::from(first) + count as u64 <= end_id,
            "an id above the last one",
        )?;
        let entries = (0..count).map(|_| entry(self)).collect::<Judged<_>>()?;
        Ok((first, entries))
    }

    /// Reads the bits of up to 256 numbers, one bit after the other.
    fn bits(&mut self, len: usize, width: usize) -> Judged<Vec<u32>> {
        let packed = self.take((len * width).div_ceil(8))?;
        let bit = |number: usize, bit: usize| {
            let (byte, shift) = if len == GROUP {
                let (lane, at) = (number % 8, number / 8 * width + bit);
                (4 * (8 * (at / 32) + lane) + at % 32 / 8, at % 8)
            } else {
                let at = number * width + bit;
                (at / 8, at % 8)
            };
            u32::from(packed[byte] >> shift & 1) << bit
        };
        let number = |number| (0..width).map(|at| bit(number, at)).sum();
        Ok((0..len).map(number).collect())
    }

    fn column(&mut self, len: usize) -> Judged<Vec<u64>> {
        let mut numbers = Vec::new();
        while numbers.len() < len {
            let group = GROUP.min(len - numbers.len());
            let width = self.u8()?;
            if width == 64 {
                for _ in 0..group {
                    numbers.push(self.u64()?);
                }
                continue;
            }
            let exceptions = usize::from(self.u8()?);
            let base = self.varint()?;
            require(width <= 32, "a width above 32")?;
            let low = self.bits(group, usize::from(width))?;
            let begin = numbers.len();
            numbers.extend(low.iter().map(|low| base.wrapping_add(u64::from(*low))));
            for position in self.take(exceptions)? {
                let high = self.varint()?;
                let at = usize::from(*position);
                require(at < group, "an exception outside of its group")?;
                numbers[begin + at] = numbers[begin + at].wrapping_add(high << width);
            }
        }
        Ok(numbers)
    }
}

fn site(bytes: &mut Bytes<'_>) -> Judged<SiteInfo> {
    let text = |bytes: &mut Bytes<'_>| Ok(Cow::Owned(bytes.text()?));
    Ok(filled!(SiteInfo {
        name: text(bytes)?,
        module_path: text(bytes)?,
        file: text(bytes)?,
        line: bytes.u32()?,
        category: text(bytes)?,
        color: match bytes.varint()? {
            0 => None,
            color => Some(u32::try_from(color - 1).map_err(|_| "a colour above 32 bits")?),
        },
        arg_names: {
            let count = bytes.count(256)?;
            (0..count).map(|_| text(bytes)).collect::<Judged<_>>()?
        },
    }))
}

fn machine(bytes: &mut Bytes<'_>) -> Judged<MachineInfo> {
    let (host, boot_id) = (bytes.text()?, bytes.text()?);
    let flags = bytes.u8()?;
    let mut clocks = None;
    if flags & 2 != 0 {
        clocks = Some(filled!(ClockSnapshot {
            ticks: bytes.varint()?,
            monotonic_ns: bytes.zigzag()?,
            boottime_ns: bytes.zigzag()?,
        }));
    }
    let scope_ps = if flags & 4 != 0 { bytes.varint()? } else { 0 };
    Ok(filled!(MachineInfo {
        host,
        boot_id,
        hardware_ticks: flags & 1 != 0,
        clocks,
        scope_ps,
    }))
}

fn frame(bytes: &mut Bytes<'_>, seq: u32) -> Judged<FrameRecord> {
    let (index, frame_set) = (bytes.varint()?, bytes.u32()?);
    let start_ticks = bytes.varint()?;
    let end_ticks = start_ticks.wrapping_add(bytes.varint()?);
    let first_seq = seq.wrapping_sub(bytes.u32()?);
    let [span_count, dropped_spans, merged_marks] =
        [bytes.varint()?, bytes.varint()?, bytes.varint()?];
    let mut metrics = Vec::new();
    let mut column = 0_u32;
    for _ in 0..bytes.count(1 << 18)? {
        let head = bytes.varint()?;
        let step = u32::try_from(head >> 2).map_err(|_| "a column above 32 bits")?;
        column = column.wrapping_add(step);
        let value = match head & 3 {
            0 => bytes.zigzag()? as f64,
            1 => f64::from(f32::from_le_bytes(bytes.take(4)?.try_into().unwrap())),
            2 => bytes.f64()?,
            _ => return Err("an unknown shape of a value"),
        };
        metrics.push(filled!(MetricValue { column, value }));
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

fn open_scopes(bytes: &mut Bytes<'_>) -> Judged<OpenScopes> {
    let ticks = bytes.varint()?;
    let (mut threads, mut all) = (Vec::new(), 0);
    for _ in 0..bytes.count(1 << 16)? {
        let thread = ThreadId(bytes.u32()?);
        let mut scopes = Vec::new();
        for _ in 0..bytes.count((1 << 18) - all)? {
            let site = SiteId(bytes.u32()?);
            scopes.push((site, ticks.wrapping_sub(bytes.zigzag()? as u64)));
        }
        all += scopes.len();
        threads.push((thread, scopes));
    }
    Ok(filled!(OpenScopes { ticks, threads }))
}

fn index(bytes: &mut Bytes<'_>) -> Judged<Index> {
    let mut found = Index {
        tables_offset: bytes.varint()?,
        ..Index::default()
    };
    for _ in 0..bytes.count(1 << 12)? {
        found.frames.push(bytes.varint()?);
    }
    found.spans = bytes.varint()?;
    found.dropped_spans = bytes.varint()?;
    found.messages = bytes.varint()?;
    found.async_spans = bytes.varint()?;
    found.records = bytes.varint()?;
    found.start_ticks = bytes.varint()?;
    found.end_ticks = bytes.varint()?;
    let mut place = Seek::default();
    for _ in 0..bytes.count(16_384)? {
        place = Seek {
            ordinal: place.ordinal.wrapping_add(bytes.varint()?),
            index: place.index.wrapping_add(bytes.zigzag()? as u64),
            offset: place.offset.wrapping_add(bytes.varint()?),
            start_ticks: place.start_ticks.wrapping_add(bytes.zigzag()? as u64),
        };
        found.seeks.push(place);
    }
    let ascends = |a: &Seek, b: &Seek| a.ordinal < b.ordinal && a.offset < b.offset;
    require(
        found.seeks.is_sorted_by(ascends),
        "places that do not ascend",
    )?;
    Ok(found)
}

/// The totals of a batch record so far.
#[derive(Default)]
struct Totals {
    spans: usize,
    values: usize,
    messages: usize,
    tasks: usize,
    texts: Vec<Arc<str>>,
}

fn batch(bytes: &mut Bytes<'_>) -> Judged<Vec<ThreadBatch>> {
    let mut threads: Vec<ThreadBatch> = Vec::new();
    let mut totals = Totals::default();
    while !bytes.0.is_empty() {
        let thread = ThreadId(bytes.u32()?);
        let flags = bytes.u8()?;
        if flags & 1 != 0 {
            threads.push(filled!(ThreadBatch { thread }));
            require(threads.len() <= 1 << 16, "too many entries of threads")?;
        }
        let Some(into) = threads.last_mut() else {
            return Err("a first block that continues an entry");
        };
        require(into.thread == thread, "a block of another thread")?;
        block(bytes, flags, into, &mut totals)?;
    }
    Ok(threads)
}

fn block(
    bytes: &mut Bytes<'_>,
    flags: u8,
    into: &mut ThreadBatch,
    totals: &mut Totals,
) -> Judged<()> {
    let len = bytes.count(4096)?;
    totals.spans += len;
    require(totals.spans <= 1 << 18, "too many spans")?;
    if flags & 1 << 6 != 0 {
        into.dropped_spans = into.dropped_spans.saturating_add(bytes.varint()?);
    }
    let begin = into.sites.len();
    if len > 0 {
        let base = bytes.varint()?;
        for (start, end) in times(bytes, flags & 2 != 0, base, len)? {
            into.start_ticks.push(start);
            into.duration_ticks.push(end.wrapping_sub(start));
        }
        into.sites.extend(sites(bytes, flags >> 2 & 3, len)?);
    }
    if flags & 1 << 4 != 0 {
        let mut next = 0;
        for _ in 0..bytes.count(len)? {
            let at = bytes.varint()?.saturating_add(next);
            require(at < len as u64, "arguments of no span")?;
            next = at + 1;
            let count = bytes.count(256)?;
            totals.values += count;
            require(totals.values <= 1 << 18, "too many values")?;
            let values = (0..count)
                .map(|_| argument(bytes, totals))
                .collect::<Judged<_>>()?;
            let span = (begin as u64 + at) as u32;
            into.args.push(filled!(SpanArgs { span, values }));
        }
    }
    if flags & 1 << 5 != 0 {
        let count = bytes.count((1 << 18) - totals.messages)?;
        totals.messages += count;
        let mut ticks = 0_u64;
        for _ in 0..count {
            ticks = ticks.wrapping_add(bytes.zigzag()? as u64);
            let text = text_reference(bytes, totals)?;
            into.messages.push(filled!(Message { ticks, text }));
        }
    }
    if flags & 1 << 7 != 0 {
        let count = bytes.count((1 << 18) - totals.tasks)?;
        totals.tasks += count;
        let (mut id, mut end) = (u64::MAX, 0_u64);
        for _ in 0..count {
            id = id.wrapping_add(1).wrapping_add(bytes.zigzag()? as u64);
            let site = SiteId(bytes.u32()?);
            end = end.wrapping_add(bytes.zigzag()? as u64);
            let duration_ticks = bytes.varint()?;
            into.async_spans.push(filled!(AsyncSpan {
                id,
                site,
                start_ticks: end.wrapping_sub(duration_ticks),
                duration_ticks,
            }));
        }
    }
    Ok(())
}

/// Reads the start and the end of each span.
fn times(bytes: &mut Bytes<'_>, is_tree: bool, base: u64, len: usize) -> Judged<Vec<(u64, u64)>> {
    let mut spans = Vec::new();
    let mut end = base;
    if !is_tree {
        let (gaps, durations) = (bytes.column(len)?, bytes.column(len)?);
        for (gap, duration) in gaps.iter().zip(durations) {
            let start = end.wrapping_add(*gap);
            end = start.wrapping_add(duration);
            spans.push((start, end));
        }
        return Ok(spans);
    }
    let children = bytes.column(len)?;
    let gaps = bytes.column(len)?;
    let leaves = children.iter().filter(|count| **count == 0).count();
    let mut durations = bytes.column(leaves)?.into_iter();
    let mut leads = bytes.column(len - leaves)?.into_iter();
    let mut starts: Vec<u64> = Vec::new();
    for (count, gap) in children.into_iter().zip(gaps) {
        let edge = end.wrapping_add(gap);
        let start = if count == 0 {
            end = edge.wrapping_add(durations.next().unwrap());
            edge
        } else {
            require(count <= starts.len() as u64, "more children than spans")?;
            let last = starts[starts.len() - count as usize];
            starts.truncate(starts.len() - count as usize);
            end = edge;
            last.wrapping_sub(leads.next().unwrap())
        };
        starts.push(start);
        spans.push((start, end));
    }
    Ok(spans)
}

fn sites(bytes: &mut Bytes<'_>, way: u8, len: usize) -> Judged<Vec<SiteId>> {
    if way == 0 {
        return Ok(vec![SiteId(bytes.u32()?); len]);
    }
    let count = bytes.count(len)?;
    let declared: Vec<SiteId> = (0..count)
        .map(|_| bytes.u32().map(SiteId))
        .collect::<Judged<_>>()?;
    let mut indices = Vec::new();
    match way {
        1 => {
            let width = (0..).find(|width| count <= 1 << width).unwrap();
            while indices.len() < len {
                indices.extend(bytes.bits(GROUP.min(len - indices.len()), width)?);
            }
        }
        2 => indices.extend(bytes.take(len)?.iter().map(|byte| u32::from(*byte))),
        _ => return Err("an unknown way of sites"),
    }
    let site = |index: &u32| declared.get(*index as usize).copied();
    let sites: Option<Vec<SiteId>> = indices.iter().map(site).collect();
    sites.ok_or("an index of no site")
}

fn argument(bytes: &mut Bytes<'_>, totals: &mut Totals) -> Judged<ArgValue> {
    Ok(match bytes.u8()? {
        0 => ArgValue::Bool(false),
        1 => ArgValue::Bool(true),
        2 => ArgValue::I64(bytes.zigzag()?),
        3 => ArgValue::U64(bytes.varint()?),
        4 => ArgValue::F64(bytes.f64()?),
        5 => ArgValue::Str(text_reference(bytes, totals)?),
        _ => return Err("an unknown type of an argument"),
    })
}

fn text_reference(bytes: &mut Bytes<'_>, totals: &mut Totals) -> Judged<Arc<str>> {
    let number = bytes.varint()?;
    if number == 0 {
        let text: Arc<str> = bytes.text()?.into();
        totals.texts.push(Arc::clone(&text));
        return Ok(text);
    }
    require(number <= 1 << 18, "a text that cannot be referenced")?;
    let known = totals.texts.get(number as usize - 1);
    known.cloned().ok_or("a reference to no text")
}

fn events(bytes: &mut Bytes<'_>) -> Judged<Vec<ThreadBatch>> {
    let mut threads = Vec::new();
    let mut room = 1 << 18;
    while !bytes.0.is_empty() {
        require(threads.len() < 1 << 16, "too many entries")?;
        let thread = ThreadId(bytes.u32()?);
        let count = bytes.count(room)?;
        room -= count;
        let (mut task, mut end) = (0_u64, 0_u64);
        let mut task_events = Vec::new();
        for _ in 0..count {
            let kind = bytes.u8()?;
            task = task.wrapping_add(bytes.zigzag()? as u64);
            let site = SiteId(bytes.u32()?);
            end = end.wrapping_add(bytes.zigzag()? as u64);
            let (kind, duration) = match kind {
                0 => (TaskEventKind::Step, 0),
                1 => {
                    let duration_ticks = bytes.varint()?;
                    (TaskEventKind::Poll { duration_ticks }, duration_ticks)
                }
                2 => {
                    let given_id = bytes.varint()?;
                    (TaskEventKind::Begin { given_id }, 0)
                }
                _ => return Err("an unknown kind of an event"),
            };
            let start_ticks = end.wrapping_sub(duration);
            task_events.push(filled!(TaskEvent {
                task,
                site,
                start_ticks,
                kind,
            }));
        }
        let count = bytes.count(room)?;
        room -= count;
        let (mut flow, mut ticks) = (0_u64, 0_u64);
        let mut flows = Vec::new();
        for _ in 0..count {
            let stage = match bytes.u8()? {
                0 => FlowStage::Begin,
                1 => FlowStage::Step,
                2 => FlowStage::End,
                _ => return Err("an unknown stage of a flow"),
            };
            flow = flow.wrapping_add(bytes.zigzag()? as u64);
            ticks = ticks.wrapping_add(bytes.zigzag()? as u64);
            flows.push(filled!(FlowPoint { ticks, flow, stage }));
        }
        threads.push(filled!(ThreadBatch {
            thread,
            task_events,
            flows,
        }));
    }
    Ok(threads)
}

fn heap(bytes: &mut Bytes<'_>) -> Judged<HeapSnapshot> {
    let (ticks, interval_bytes) = (bytes.varint()?, bytes.varint()?);
    let mode = match interval_bytes {
        0 => HeapMode::Exact,
        _ => HeapMode::Sampled { interval_bytes },
    };
    let (mut stacks, mut path, mut all) = (Vec::new(), Vec::new(), 0);
    for _ in 0..bytes.count(1 << 16)? {
        let shared = bytes.count(path.len())?;
        path.truncate(shared);
        let more = bytes.count(256 - shared)?;
        for _ in 0..more {
            let site = SiteId(bytes.u32()?);
            path.push(filled!(HeapScope { site }));
        }
        all += path.len();
        require(all <= 1 << 18, "too many scopes")?;
        let mut stack = filled!(HeapStack {
            scopes: path.clone(),
            inuse_objects: bytes.varint()?,
            inuse_bytes: bytes.varint()?,
        });
        if interval_bytes != 0 {
            stack.samples = bytes.varint()?;
            stack.objects_error = bytes.f64()?;
            stack.bytes_error = bytes.f64()?;
        }
        stacks.push(stack);
    }
    let paths: HashSet<Vec<u32>> = stacks.iter().map(path_of).collect();
    require(paths.len() == stacks.len(), "two stacks of the same scopes")?;
    Ok(HeapSnapshot::new(mode, ticks, stacks))
}

fn scheduler(bytes: &mut Bytes<'_>) -> Judged<SchedulerBatch> {
    let mut batch = filled!(SchedulerBatch {
        lost_events: bytes.varint()?
    });
    for _ in 0..bytes.count(1 << 15)? {
        let number = bytes.varint()?;
        let name = bytes.text()?;
        require(name.len() <= 64, "a task's name is too long")?;
        batch.tasks.push(filled!(SchedulerTask {
            tid: u32::try_from(number / 2).map_err(|_| "a task's number is too large")?,
            is_own: number % 2 == 1,
            name,
        }));
    }
    let mut ticks = 0_u64;
    for _ in 0..bytes.count(1 << 14)? {
        let (kind, cpu) = (bytes.u8()?, bytes.u32()?);
        ticks = ticks.wrapping_add(bytes.zigzag()? as u64);
        let priority = |bytes: &mut Bytes<'_>| -> Judged<i32> {
            i32::try_from(bytes.zigzag()?).map_err(|_| "a priority is too large")
        };
        let kind = match kind {
            0 => SchedulerEventKind::Switch {
                from: bytes.u32()?,
                from_priority: priority(bytes)?,
                from_state: TaskState(bytes.u32()?),
                to: bytes.u32()?,
                to_priority: priority(bytes)?,
            },
            1 => SchedulerEventKind::Waking {
                waker: bytes.u32()?,
                woken: bytes.u32()?,
                priority: priority(bytes)?,
                target_cpu: bytes.u32()?,
            },
            _ => return Err("an unknown kind of scheduler event"),
        };
        let event = SchedulerEvent::new(ticks, cpu, kind);
        let tasks = batch.tasks.len() as u64;
        let is_known = event.tasks().iter().all(|task| u64::from(*task) < tasks);
        require(is_known, "an event names no task of the record")?;
        batch.events.push(event);
    }
    Ok(batch)
}

fn path_of(stack: &HeapStack) -> Vec<u32> {
    stack.scopes.iter().map(|scope| scope.site.0).collect()
}
