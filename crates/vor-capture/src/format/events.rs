//! Payload of an events record: events within tasks, and points of flows.
//!
//! These belong to a batch and are rare in most programs, so they have records of their own, which
//! readers that do not know them skip.

use super::wire::{Cursor, put_varint, unzigzag, zigzag};
use crate::Error;
use crate::model::batch::{FlowPoint, FlowStage, SpanBatch, TaskEvent, TaskEventKind, ThreadBatch};
use crate::model::catalog::{SiteId, ThreadId};

/// Most events, and most points, of one entry; a writer continues in another record.
const ENTRY_EVENTS: usize = 1 << 14;
/// Most events and points together in a record that is read.
const MAX_RECORD_EVENTS: usize = 1 << 18;
const MAX_RECORD_THREADS: usize = 1 << 16;
/// Payload size at which a record ends and another begins.
const RECORD_GOAL_BYTES: usize = 256 << 10;

/// Kinds of events.
const STEP: u8 = 0;
const POLL: u8 = 1;
const BEGIN: u8 = 2;

/// Writes the events of a batch into the empty `payload`, and calls `end_record` with it for each
/// record.
pub(super) fn put(batch: &SpanBatch, payload: &mut Vec<u8>, mut end_record: impl FnMut(&[u8])) {
    let mut threads = 0;
    for thread in &batch.threads {
        let (mut events, mut flows) = (&thread.task_events[..], &thread.flows[..]);
        while !events.is_empty() || !flows.is_empty() {
            let (events_here, more_events) = events.split_at(events.len().min(ENTRY_EVENTS));
            let (flows_here, more_flows) = flows.split_at(flows.len().min(ENTRY_EVENTS));
            put_varint(payload, u64::from(thread.thread.0));
            put_task_events(payload, events_here);
            put_flows(payload, flows_here);
            (events, flows) = (more_events, more_flows);
            threads += 1;
            if payload.len() >= RECORD_GOAL_BYTES || threads == MAX_RECORD_THREADS {
                end_record(payload);
                payload.clear();
                threads = 0;
            }
        }
    }
    if !payload.is_empty() {
        end_record(payload);
        payload.clear();
    }
}

fn put_task_events(out: &mut Vec<u8>, events: &[TaskEvent]) {
    put_varint(out, events.len() as u64);
    let (mut before_task, mut before_ticks) = (0_u64, 0_u64);
    for event in events {
        let end_ticks = event.start_ticks.wrapping_add(event.duration_ticks());
        let (kind, value) = match event.kind {
            TaskEventKind::Step => (STEP, None),
            TaskEventKind::Poll { duration_ticks } => (POLL, Some(duration_ticks)),
            TaskEventKind::Begin { given_id } => (BEGIN, Some(given_id)),
        };
        out.push(kind);
        put_varint(out, zigzag(event.task.wrapping_sub(before_task) as i64));
        put_varint(out, u64::from(event.site.0));
        put_varint(out, zigzag(end_ticks.wrapping_sub(before_ticks) as i64));
        if let Some(value) = value {
            put_varint(out, value);
        }
        (before_task, before_ticks) = (event.task, end_ticks);
    }
}

fn put_flows(out: &mut Vec<u8>, flows: &[FlowPoint]) {
    put_varint(out, flows.len() as u64);
    let (mut before_flow, mut before_ticks) = (0_u64, 0_u64);
    for point in flows {
        out.push(match point.stage {
            FlowStage::Begin => 0,
            FlowStage::Step => 1,
            FlowStage::End => 2,
        });
        put_varint(out, zigzag(point.flow.wrapping_sub(before_flow) as i64));
        put_varint(out, zigzag(point.ticks.wrapping_sub(before_ticks) as i64));
        (before_flow, before_ticks) = (point.flow, point.ticks);
    }
}

/// Reads the payload of an events record.
pub(super) fn get(payload: &[u8]) -> Result<Vec<ThreadBatch>, Error> {
    let mut cursor = Cursor::new(payload);
    let mut threads: Vec<ThreadBatch> = Vec::new();
    let mut room = MAX_RECORD_EVENTS;
    while !cursor.is_empty() {
        if threads.len() == MAX_RECORD_THREADS {
            return Err(Error::corrupt(format!(
                "a record has more than {MAX_RECORD_THREADS} entries"
            )));
        }
        let thread = ThreadId(cursor.varint_u32()?);
        let task_events = get_task_events(&mut cursor, &mut room)?;
        let flows = get_flows(&mut cursor, &mut room)?;
        threads.push(ThreadBatch {
            thread,
            task_events,
            flows,
            ..ThreadBatch::default()
        });
    }
    Ok(threads)
}

fn get_task_events(cursor: &mut Cursor<'_>, room: &mut usize) -> Result<Vec<TaskEvent>, Error> {
    let count = cursor.count(4, *room)?;
    *room -= count;
    let (mut task, mut end_ticks) = (0_u64, 0_u64);
    let event = |_| {
        let kind = cursor.u8()?;
        task = task.wrapping_add(unzigzag(cursor.varint()?) as u64);
        let site = SiteId(cursor.varint_u32()?);
        end_ticks = end_ticks.wrapping_add(unzigzag(cursor.varint()?) as u64);
        let kind = match kind {
            STEP => TaskEventKind::Step,
            POLL => TaskEventKind::Poll {
                duration_ticks: cursor.varint()?,
            },
            BEGIN => TaskEventKind::Begin {
                given_id: cursor.varint()?,
            },
            kind => {
                return Err(Error::corrupt(format!(
                    "the kind of an event is {kind}, not 0 to 2"
                )));
            }
        };
        let mut event = TaskEvent {
            task,
            site,
            start_ticks: end_ticks,
            kind,
        };
        event.start_ticks = end_ticks.wrapping_sub(event.duration_ticks());
        Ok(event)
    };
    (0..count).map(event).collect()
}

fn get_flows(cursor: &mut Cursor<'_>, room: &mut usize) -> Result<Vec<FlowPoint>, Error> {
    let count = cursor.count(3, *room)?;
    *room -= count;
    let (mut flow, mut ticks) = (0_u64, 0_u64);
    let point = |_| {
        let stage = match cursor.u8()? {
            0 => FlowStage::Begin,
            1 => FlowStage::Step,
            2 => FlowStage::End,
            stage => {
                return Err(Error::corrupt(format!(
                    "the stage of a flow point is {stage}, not 0 to 2"
                )));
            }
        };
        flow = flow.wrapping_add(unzigzag(cursor.varint()?) as u64);
        ticks = ticks.wrapping_add(unzigzag(cursor.varint()?) as u64);
        Ok(FlowPoint { ticks, flow, stage })
    };
    (0..count).map(point).collect()
}
