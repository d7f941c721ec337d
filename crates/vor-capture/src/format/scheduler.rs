//! Payload of a scheduler record: which task ran on which processor, and who made it runnable.
//!
//! Each record lists the tasks that it names, so a lost record costs no other one its names.

use super::wire::{Cursor, clip_to, put_varint, unzigzag, zigzag};
use crate::Error;
use crate::model::scheduler::{
    SchedulerBatch, SchedulerEvent, SchedulerEventKind, SchedulerTask, TaskState,
};

/// Most events and most tasks of a record; a writer continues in another one.
const MAX_EVENTS: usize = 1 << 14;
const MAX_TASKS: usize = 2 * MAX_EVENTS;
/// Most bytes of a task's name.
const MAX_NAME_BYTES: usize = 64;

/// Kinds of events.
const SWITCH: u8 = 0;
const WAKING: u8 = 1;

/// Position of a task that the record does not list yet.
const UNLISTED: u32 = u32::MAX;

/// Writes a batch into the empty `payload`, and calls `end_record` with it for each record. Events
/// that name tasks beyond the batch's are left out.
pub(super) fn put(
    batch: &SchedulerBatch,
    payload: &mut Vec<u8>,
    mut end_record: impl FnMut(&[u8]),
) {
    let is_known = |event: &SchedulerEvent| {
        let known = |task: u32| (task as usize) < batch.tasks.len();
        event.tasks().into_iter().all(known)
    };
    let mut lost_events = batch.lost_events;
    let mut events = &batch.events[..];
    loop {
        let (here, more) = events.split_at(events.len().min(MAX_EVENTS));
        let known = || here.iter().copied().filter(is_known);
        let (places, listed) = list(batch.tasks.len(), known());
        put_varint(payload, lost_events);
        put_varint(payload, listed.len() as u64);
        for task in listed {
            put_task(payload, &batch.tasks[task as usize]);
        }
        put_varint(payload, known().count() as u64);
        let mut before_ticks = 0;
        for event in known() {
            put_event(payload, event, before_ticks, &places);
            before_ticks = event.ticks;
        }
        end_record(payload);
        payload.clear();
        (events, lost_events) = (more, 0);
        if events.is_empty() {
            return;
        }
    }
}

/// Returns the place of each task in a record of these events, and the tasks in their places.
fn list(tasks: usize, events: impl Iterator<Item = SchedulerEvent>) -> (Vec<u32>, Vec<u32>) {
    let (mut places, mut listed) = (vec![UNLISTED; tasks], Vec::new());
    for task in events.flat_map(|event| event.tasks()) {
        let place = &mut places[task as usize];
        if *place == UNLISTED {
            *place = listed.len() as u32;
            listed.push(task);
        }
    }
    (places, listed)
}

fn put_task(out: &mut Vec<u8>, task: &SchedulerTask) {
    let name = clip_to(&task.name, MAX_NAME_BYTES);
    put_varint(out, u64::from(task.tid) << 1 | u64::from(task.is_own));
    put_varint(out, name.len() as u64);
    out.extend_from_slice(name.as_bytes());
}

fn put_event(out: &mut Vec<u8>, event: SchedulerEvent, before_ticks: u64, places: &[u32]) {
    let place = |task: u32| u64::from(places[task as usize]);
    let signed = |value: i32| zigzag(i64::from(value));
    let (kind, numbers) = match event.kind {
        SchedulerEventKind::Switch {
            from,
            from_priority,
            from_state,
            to,
            to_priority,
        } => (
            SWITCH,
            &[
                place(from),
                signed(from_priority),
                u64::from(from_state.0),
                place(to),
                signed(to_priority),
            ][..],
        ),
        SchedulerEventKind::Waking {
            waker,
            woken,
            priority,
            target_cpu,
        } => (
            WAKING,
            &[
                place(waker),
                place(woken),
                signed(priority),
                u64::from(target_cpu),
            ][..],
        ),
    };
    out.push(kind);
    put_varint(out, u64::from(event.cpu));
    put_varint(out, zigzag(event.ticks.wrapping_sub(before_ticks) as i64));
    for &number in numbers {
        put_varint(out, number);
    }
}

/// Reads a batch.
pub(super) fn get(cursor: &mut Cursor<'_>) -> Result<SchedulerBatch, Error> {
    let lost_events = cursor.varint()?;
    let count = cursor.count(2, MAX_TASKS)?;
    let mut tasks = Vec::with_capacity(count);
    for _ in 0..count {
        tasks.push(get_task(cursor)?);
    }
    let count = cursor.count(7, MAX_EVENTS)?;
    let mut events = Vec::with_capacity(count);
    let mut ticks = 0_u64;
    for _ in 0..count {
        let event = get_event(cursor, ticks)?;
        ticks = event.ticks;
        if let Some(task) = event.tasks().into_iter().max()
            && task as usize >= tasks.len()
        {
            return Err(Error::corrupt(format!(
                "an event names task {task} of {}",
                tasks.len()
            )));
        }
        events.push(event);
    }
    Ok(SchedulerBatch {
        tasks,
        events,
        lost_events,
    })
}

fn get_task(cursor: &mut Cursor<'_>) -> Result<SchedulerTask, Error> {
    let number = cursor.varint()?;
    let tid = u32::try_from(number >> 1)
        .map_err(|_| Error::corrupt(format!("a task has the number {}", number >> 1)))?;
    let name = cursor.text()?;
    if name.len() > MAX_NAME_BYTES {
        return Err(Error::corrupt(format!(
            "the name of a task has {} bytes, more than {MAX_NAME_BYTES}",
            name.len()
        )));
    }
    Ok(SchedulerTask {
        tid,
        is_own: number & 1 == 1,
        name: name.to_owned(),
    })
}

fn get_event(cursor: &mut Cursor<'_>, before_ticks: u64) -> Result<SchedulerEvent, Error> {
    let kind = cursor.u8()?;
    let cpu = cursor.varint_u32()?;
    let ticks = before_ticks.wrapping_add(unzigzag(cursor.varint()?) as u64);
    let kind = match kind {
        SWITCH => SchedulerEventKind::Switch {
            from: cursor.varint_u32()?,
            from_priority: get_priority(cursor)?,
            from_state: TaskState(cursor.varint_u32()?),
            to: cursor.varint_u32()?,
            to_priority: get_priority(cursor)?,
        },
        WAKING => SchedulerEventKind::Waking {
            waker: cursor.varint_u32()?,
            woken: cursor.varint_u32()?,
            priority: get_priority(cursor)?,
            target_cpu: cursor.varint_u32()?,
        },
        _ => {
            return Err(Error::corrupt(format!(
                "an event of the scheduler has the kind {kind}, which is unknown"
            )));
        }
    };
    Ok(SchedulerEvent { ticks, cpu, kind })
}

fn get_priority(cursor: &mut Cursor<'_>) -> Result<i32, Error> {
    let priority = unzigzag(cursor.varint()?);
    i32::try_from(priority)
        .map_err(|_| Error::corrupt(format!("a task has the priority {priority}")))
}
