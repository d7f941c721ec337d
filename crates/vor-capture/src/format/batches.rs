//! Payload of a batch record: blocks of spans, one after the other, with their arguments and
//! messages.
//!
//! Texts are written where they first occur in a record and get a number there; later occurrences
//! are that number.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::spans::{
    BLOCK_SPANS, BlockCoder, FLAG_ARGS, FLAG_ASYNC, FLAG_DROPS, FLAG_FIRST, FLAG_MESSAGES,
};
use super::wire::{Cursor, clip, put_text, put_varint, unzigzag, zigzag};
use super::{MAX_RECORD_SPANS, MAX_TEXT_BYTES};
use crate::Error;
use crate::model::batch::{ArgValue, AsyncSpan, Message, SpanArgs, SpanBatch, ThreadBatch};
use crate::model::catalog::{SiteId, ThreadId};

/// Payload size at which a record ends and another begins.
const RECORD_GOAL_BYTES: usize = 256 << 10;
/// Approximate most bytes in memory of the arguments, and of the messages, of one block. A value or
/// a message has at least 12, so a block has at most 43 690 of them.
const BLOCK_TEXT_BYTES: usize = 512 << 10;
/// Most values of one span; later ones are cut.
const MAX_SPAN_ARGS: usize = 256;
/// Most tasks in a block.
const BLOCK_TASKS: usize = 1 << 14;
/// Caps of a record's content when it is read; each is above what the writer puts into one.
const MAX_RECORD_ARG_VALUES: usize = 1 << 18;
const MAX_RECORD_MESSAGES: usize = 1 << 18;
const MAX_RECORD_TASKS: usize = 1 << 18;
const MAX_RECORD_THREADS: usize = 1 << 16;
const MAX_RECORD_TEXTS: usize = 1 << 18;

const TAG_FALSE: u8 = 0;
const TAG_TRUE: u8 = 1;
const TAG_I64: u8 = 2;
const TAG_U64: u8 = 3;
const TAG_F64: u8 = 4;
const TAG_TEXT: u8 = 5;

/// Totals of batches, for the index.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BatchTotals {
    pub(super) spans: u64,
    pub(super) messages: u64,
    pub(super) async_spans: u64,
    pub(super) dropped_spans: u64,
}

impl BatchTotals {
    /// Returns the totals of the batches of some threads.
    pub(super) fn of(threads: &[ThreadBatch]) -> Self {
        let mut totals = Self::default();
        for batch in threads {
            totals.spans += batch.len() as u64;
            totals.messages += batch.messages.len() as u64;
            totals.async_spans += batch.async_spans.len() as u64;
            totals.dropped_spans = totals.dropped_spans.saturating_add(batch.dropped_spans);
        }
        totals
    }
}

/// Encodes and decodes batches, and keeps the buffers for it.
#[derive(Debug, Default)]
pub(super) struct BatchCoder {
    blocks: BlockCoder,
    /// Numbers of the texts that the record being written holds.
    written_texts: FxHashMap<Arc<str>, u32>,
    texts_written: u32,
    read_texts: Vec<Arc<str>>,
}

impl BatchCoder {
    /// Writes a batch into the empty `payload`, and calls `end_record` with it for each record;
    /// that empties it.
    pub(super) fn put(
        &mut self,
        batch: &SpanBatch,
        payload: &mut Vec<u8>,
        mut end_record: impl FnMut(&mut Vec<u8>),
    ) -> BatchTotals {
        let mut totals = BatchTotals::default();
        let (mut record_spans, mut record_values, mut record_blocks) = (0, 0, 0);
        for thread in &batch.threads {
            let len = thread
                .len()
                .min(thread.duration_ticks.len())
                .min(thread.sites.len());
            totals.spans += len as u64;
            totals.messages += thread.messages.len() as u64;
            totals.async_spans += thread.async_spans.len() as u64;
            totals.dropped_spans = totals.dropped_spans.saturating_add(thread.dropped_spans);
            let (mut from, mut args, mut messages) = (0, &thread.args[..], &thread.messages[..]);
            let mut tasks = &thread.async_spans[..];
            let mut first = true;
            while first || from < len || !messages.is_empty() || !tasks.is_empty() {
                let (to, args_here) = block_end(from, len, args);
                let messages_here = messages_that_fit(messages);
                let begins_record = payload.is_empty();
                put_varint(payload, u64::from(thread.thread.0));
                let flags_at = payload.len();
                let mut flags = 0;
                if first || begins_record {
                    flags |= FLAG_FIRST;
                }
                payload.push(0);
                put_varint(payload, (to - from) as u64);
                if first && thread.dropped_spans > 0 {
                    flags |= FLAG_DROPS;
                    put_varint(payload, thread.dropped_spans);
                }
                if to > from {
                    let spans = from..to;
                    flags |= self.blocks.put(
                        payload,
                        &thread.start_ticks[spans.clone()],
                        &thread.duration_ticks[spans.clone()],
                        &thread.sites[spans],
                    );
                }
                if args_here > 0 {
                    flags |= FLAG_ARGS;
                    record_values += self.put_args(payload, &args[..args_here], from);
                }
                if messages_here > 0 {
                    flags |= FLAG_MESSAGES;
                    self.put_messages(payload, &messages[..messages_here]);
                }
                let tasks_here = tasks.len().min(BLOCK_TASKS);
                if tasks_here > 0 {
                    flags |= FLAG_ASYNC;
                    put_tasks(payload, &tasks[..tasks_here]);
                }
                payload[flags_at] = flags;
                record_spans += to - from;
                record_blocks += 1;
                (from, args, messages) = (to, &args[args_here..], &messages[messages_here..]);
                tasks = &tasks[tasks_here..];
                first = false;
                if payload.len() >= RECORD_GOAL_BYTES
                    || record_spans > MAX_RECORD_SPANS - BLOCK_SPANS
                    || record_values > MAX_RECORD_ARG_VALUES / 2
                    || record_blocks == MAX_RECORD_THREADS
                {
                    end_record(payload);
                    self.forget_texts();
                    (record_spans, record_values, record_blocks) = (0, 0, 0);
                }
            }
        }
        if !payload.is_empty() {
            end_record(payload);
        }
        self.forget_texts();
        totals
    }

    fn put_args(&mut self, out: &mut Vec<u8>, args: &[SpanArgs], from: usize) -> usize {
        put_varint(out, args.len() as u64);
        let mut next = from;
        let mut written = 0;
        for span in args {
            let at = span.span as usize;
            put_varint(out, (at - next) as u64);
            next = at + 1;
            let values = fitting_values(&span.values);
            put_varint(out, values.len() as u64);
            written += values.len();
            for value in values {
                match value {
                    ArgValue::Bool(false) => out.push(TAG_FALSE),
                    ArgValue::Bool(true) => out.push(TAG_TRUE),
                    ArgValue::I64(value) => {
                        out.push(TAG_I64);
                        put_varint(out, zigzag(*value));
                    }
                    ArgValue::U64(value) => {
                        out.push(TAG_U64);
                        put_varint(out, *value);
                    }
                    ArgValue::F64(value) => {
                        out.push(TAG_F64);
                        out.extend_from_slice(&value.to_bits().to_le_bytes());
                    }
                    ArgValue::Str(text) => {
                        out.push(TAG_TEXT);
                        self.put_text(out, text);
                    }
                }
            }
        }
        written
    }

    fn put_messages(&mut self, out: &mut Vec<u8>, messages: &[Message]) {
        put_varint(out, messages.len() as u64);
        let mut before = 0_u64;
        for message in messages {
            put_varint(out, zigzag(message.ticks.wrapping_sub(before) as i64));
            before = message.ticks;
            self.put_text(out, &message.text);
        }
    }

    fn put_text(&mut self, out: &mut Vec<u8>, text: &Arc<str>) {
        if let Some(number) = self.written_texts.get(text) {
            put_varint(out, u64::from(*number));
            return;
        }
        put_varint(out, 0);
        put_text(out, text);
        // The reader counts every text in the record, so this does as well; not all of them get a
        // number.
        self.texts_written += 1;
        if self.texts_written < MAX_RECORD_TEXTS as u32 && text.len() <= MAX_TEXT_BYTES {
            self.written_texts
                .insert(Arc::clone(text), self.texts_written);
        }
    }

    /// Forgets the texts of a record.
    fn forget_texts(&mut self) {
        self.written_texts.clear();
        self.texts_written = 0;
    }

    /// Reads the payload of a batch record.
    pub(super) fn get(&mut self, payload: &[u8]) -> Result<Vec<ThreadBatch>, Error> {
        self.read_texts.clear();
        let mut cursor = Cursor::new(payload);
        let mut threads: Vec<ThreadBatch> = Vec::new();
        let mut room = Room {
            spans: MAX_RECORD_SPANS,
            values: MAX_RECORD_ARG_VALUES,
            messages: MAX_RECORD_MESSAGES,
            tasks: MAX_RECORD_TASKS,
            threads: MAX_RECORD_THREADS,
        };
        while !cursor.is_empty() {
            let thread = ThreadId(cursor.varint_u32()?);
            let flags = cursor.u8()?;
            if flags & FLAG_FIRST != 0 {
                room.threads = room.threads.checked_sub(1).ok_or_else(|| full("threads"))?;
                threads.push(ThreadBatch {
                    thread,
                    ..ThreadBatch::default()
                });
            }
            let Some(into) = threads.last_mut().filter(|last| last.thread == thread) else {
                return Err(Error::corrupt(format!(
                    "a block continues thread {}, which has no block before it",
                    thread.0
                )));
            };
            self.get_block(&mut cursor, flags, into, &mut room)?;
        }
        Ok(threads)
    }

    fn get_block(
        &mut self,
        cursor: &mut Cursor<'_>,
        flags: u8,
        into: &mut ThreadBatch,
        room: &mut Room,
    ) -> Result<(), Error> {
        let len = cursor.varint()?;
        if len > BLOCK_SPANS as u64 {
            return Err(Error::corrupt(format!(
                "a block has {len} spans, more than {BLOCK_SPANS}"
            )));
        }
        let len = len as usize;
        room.spans = room.spans.checked_sub(len).ok_or_else(|| full("spans"))?;
        if flags & FLAG_DROPS != 0 {
            into.dropped_spans = into.dropped_spans.saturating_add(cursor.varint()?);
        }
        let from = into.start_ticks.len();
        if len > 0 {
            let ThreadBatch {
                start_ticks,
                duration_ticks,
                sites,
                ..
            } = into;
            self.blocks
                .get(cursor, flags, len, start_ticks, duration_ticks, sites)?;
        }
        if flags & FLAG_ARGS != 0 {
            self.get_args(cursor, into, from, len, room)?;
        }
        if flags & FLAG_MESSAGES != 0 {
            let count = cursor.count(2, room.messages)?;
            room.messages -= count;
            let mut ticks = 0_u64;
            into.messages.reserve_exact(count);
            for _ in 0..count {
                ticks = ticks.wrapping_add(unzigzag(cursor.varint()?) as u64);
                let text = self.get_text(cursor)?;
                into.messages.push(Message { ticks, text });
            }
        }
        if flags & FLAG_ASYNC != 0 {
            get_tasks(cursor, into, room)?;
        }
        Ok(())
    }

    fn get_args(
        &mut self,
        cursor: &mut Cursor<'_>,
        into: &mut ThreadBatch,
        from: usize,
        len: usize,
        room: &mut Room,
    ) -> Result<(), Error> {
        let count = cursor.count(2, len)?;
        into.args.reserve(count);
        let mut next = 0_u64;
        for _ in 0..count {
            let at = next.saturating_add(cursor.varint()?);
            if at >= len as u64 {
                return Err(Error::corrupt(format!(
                    "arguments of span {at} in a record of {len} spans"
                )));
            }
            next = at + 1;
            let value_count = cursor.count(1, room.values.min(MAX_SPAN_ARGS))?;
            room.values -= value_count;
            let mut values = Vec::with_capacity(value_count);
            for _ in 0..value_count {
                values.push(match cursor.u8()? {
                    TAG_FALSE => ArgValue::Bool(false),
                    TAG_TRUE => ArgValue::Bool(true),
                    TAG_I64 => ArgValue::I64(unzigzag(cursor.varint()?)),
                    TAG_U64 => ArgValue::U64(cursor.varint()?),
                    TAG_F64 => ArgValue::F64(f64::from_bits(cursor.u64()?)),
                    TAG_TEXT => ArgValue::Str(self.get_text(cursor)?),
                    tag => {
                        return Err(Error::corrupt(format!(
                            "the type of an argument is {tag}, not 0 to 5"
                        )));
                    }
                });
            }
            into.args.push(SpanArgs {
                span: (from + at as usize) as u32,
                values,
            });
        }
        Ok(())
    }

    fn get_text(&mut self, cursor: &mut Cursor<'_>) -> Result<Arc<str>, Error> {
        let number = cursor.varint()?;
        if number == 0 {
            let text: Arc<str> = cursor.text()?.into();
            if self.read_texts.len() < MAX_RECORD_TEXTS {
                self.read_texts.push(Arc::clone(&text));
            }
            return Ok(text);
        }
        let known = self
            .read_texts
            .get((number - 1).min(u64::from(u32::MAX)) as usize);
        known.map(Arc::clone).ok_or_else(|| {
            Error::corrupt(format!(
                "a record of {} texts refers to text {number}",
                self.read_texts.len()
            ))
        })
    }
}

fn put_tasks(out: &mut Vec<u8>, tasks: &[AsyncSpan]) {
    put_varint(out, tasks.len() as u64);
    let (mut next_id, mut before_ticks) = (0_u64, 0_u64);
    for task in tasks {
        let end_ticks = task.start_ticks.wrapping_add(task.duration_ticks);
        put_varint(out, zigzag(task.id.wrapping_sub(next_id) as i64));
        put_varint(out, u64::from(task.site.0));
        put_varint(out, zigzag(end_ticks.wrapping_sub(before_ticks) as i64));
        put_varint(out, task.duration_ticks);
        (next_id, before_ticks) = (task.id.wrapping_add(1), end_ticks);
    }
}

fn get_tasks(
    cursor: &mut Cursor<'_>,
    into: &mut ThreadBatch,
    room: &mut Room,
) -> Result<(), Error> {
    let count = cursor.count(4, room.tasks)?;
    room.tasks -= count;
    into.async_spans.reserve_exact(count);
    let (mut next_id, mut end_ticks) = (0_u64, 0_u64);
    for _ in 0..count {
        let id = next_id.wrapping_add(unzigzag(cursor.varint()?) as u64);
        let site = SiteId(cursor.varint_u32()?);
        end_ticks = end_ticks.wrapping_add(unzigzag(cursor.varint()?) as u64);
        let duration_ticks = cursor.varint()?;
        next_id = id.wrapping_add(1);
        into.async_spans.push(AsyncSpan {
            id,
            site,
            start_ticks: end_ticks.wrapping_sub(duration_ticks),
            duration_ticks,
        });
    }
    Ok(())
}

/// The remaining capacity of a record.
struct Room {
    spans: usize,
    values: usize,
    messages: usize,
    tasks: usize,
    threads: usize,
}

fn full(what: &str) -> Error {
    Error::corrupt(format!("a record has more than {MAX_RECORD_SPANS} {what}"))
}

/// Returns where the block that begins at span `from` ends, and how many of `args` belong to it.
/// Arguments that are not ascending or belong to no span end the list.
fn block_end(from: usize, len: usize, args: &[SpanArgs]) -> (usize, usize) {
    let mut to = len.min(from + BLOCK_SPANS);
    let (mut count, mut bytes, mut next) = (0, 0, from);
    for span in args {
        let at = span.span as usize;
        if at < next || at >= to {
            break;
        }
        let fitting = fitting_values(&span.values);
        bytes += fitting.iter().map(value_bytes).sum::<usize>();
        if count > 0 && bytes > BLOCK_TEXT_BYTES {
            to = at;
            break;
        }
        count += 1;
        next = at + 1;
    }
    (to, count)
}

/// Returns the values of a span that are written: as many as fit into a block.
fn fitting_values(values: &[ArgValue]) -> &[ArgValue] {
    let mut bytes = 0;
    let fits = |value: &&ArgValue| {
        bytes += value_bytes(value);
        bytes <= BLOCK_TEXT_BYTES
    };
    let count = values.iter().take(MAX_SPAN_ARGS).take_while(fits).count();
    &values[..count]
}

fn value_bytes(value: &ArgValue) -> usize {
    match value {
        ArgValue::Str(text) => clip(text).len() + 16,
        _ => 12,
    }
}

fn messages_that_fit(messages: &[Message]) -> usize {
    let mut bytes = 0;
    let fits = |message: &&Message| {
        let before = bytes;
        bytes += clip(&message.text).len() + 16;
        before < BLOCK_TEXT_BYTES
    };
    messages.iter().take_while(fits).count()
}
