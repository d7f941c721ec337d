//! Events of the scheduler, as a trace of the whole system has them: a bundle of events for each
//! processor.
//!
//! The recording has only events that concern the program, and does not say what a processor did
//! between two of its threads. So the exporter writes tasks of other programs as the idle task:
//! they would seem to run until the program's next thread does. Tasks that woke a thread keep their
//! names.

use vor_capture::model::scheduler::{
    SchedulerBatch, SchedulerEvent, SchedulerEventKind, SchedulerTask,
};

use super::Times;
use super::schema::{PACKET, ftrace, packet};
use crate::proto::{put_i64, put_message, put_str, put_u64};

/// The idle task of a processor.
const IDLE: (&str, u32) = ("swapper", 0);

/// Appends a packet for each processor that has events.
pub(super) fn put_batch(out: &mut Vec<u8>, mut times: Times<'_>, batch: &SchedulerBatch) {
    let mut cpus: Vec<u32> = batch.events.iter().map(|event| event.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    for cpu in cpus {
        put_message(out, PACKET, |out| {
            put_message(out, packet::FTRACE_EVENTS, |out| {
                put_u64(out, ftrace::CPU, u64::from(cpu));
                for event in batch.events.iter().filter(|event| event.cpu == cpu) {
                    put_message(out, ftrace::EVENT, |out| {
                        put_event(out, &mut times, batch, event);
                    });
                }
            });
        });
    }
}

fn put_event(
    out: &mut Vec<u8>,
    times: &mut Times<'_>,
    batch: &SchedulerBatch,
    event: &SchedulerEvent,
) {
    let task = |task: u32| &batch.tasks[task as usize];
    put_u64(out, ftrace::TIMESTAMP, times.at(event.ticks));
    match event.kind {
        SchedulerEventKind::Switch {
            from,
            from_priority,
            from_state,
            to,
            to_priority,
        } => {
            let (from_name, from_tid) = own(task(from));
            let (to_name, to_tid) = own(task(to));
            put_u64(out, ftrace::PID, u64::from(from_tid));
            put_message(out, ftrace::SWITCH, |out| {
                put_str(out, ftrace::PREV_COMM, from_name);
                put_u64(out, ftrace::PREV_PID, u64::from(from_tid));
                put_i64(out, ftrace::PREV_PRIO, i64::from(from_priority));
                put_i64(out, ftrace::PREV_STATE, i64::from(from_state.0));
                put_str(out, ftrace::NEXT_COMM, to_name);
                put_u64(out, ftrace::NEXT_PID, u64::from(to_tid));
                put_i64(out, ftrace::NEXT_PRIO, i64::from(to_priority));
            });
        }
        SchedulerEventKind::Waking {
            waker,
            woken,
            priority,
            target_cpu,
        } => {
            put_u64(out, ftrace::PID, u64::from(task(waker).tid));
            put_message(out, ftrace::WAKING, |out| {
                put_str(out, ftrace::COMM, &task(woken).name);
                put_u64(out, ftrace::WOKEN_PID, u64::from(task(woken).tid));
                put_i64(out, ftrace::PRIO, i64::from(priority));
                put_u64(out, ftrace::SUCCESS, 1);
                put_u64(out, ftrace::TARGET_CPU, u64::from(target_cpu));
            });
        }
        _ => {}
    }
}

/// Returns the name and the number of a task of the program, and of the idle task for others.
fn own(task: &SchedulerTask) -> (&str, u32) {
    if task.is_own {
        (&task.name, task.tid)
    } else {
        IDLE
    }
}
