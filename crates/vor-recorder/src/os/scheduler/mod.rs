//! Events of Linux's scheduler about the threads of this process, from a tracefs instance of its
//! own.
//!
//! The instance counts time by the processor's own counter (`x86-tsc`), so its events have ticks
//! without any conversion. The kernel keeps events in one buffer for each processor, and drops new
//! ones when it is full. It records an event if one of its threads is in the instance's list, which
//! follows new threads by itself.
//!
//! | file | holds |
//! |---|---|
//! | `instance` | the instance: made, set up, removed |
//! | `layout` | the places of fields in an event, from the kernel's description |
//! | `page` | the events of a page of a buffer |
//! | `tasks` | names of tasks, and which ones are threads of this process |
//!
//! Writing to tracefs needs root.

mod instance;
mod layout;
mod page;
mod tasks;

use std::fs::File;
use std::io::{self, Read};

use vor_capture::model::scheduler::{
    SchedulerBatch, SchedulerEvent, SchedulerEventKind, TaskState,
};
use vor_capture::sort::sort_by;

use self::instance::Instance;
use self::layout::{Layouts, SwitchLayout, WakingLayout};
use self::page::{Page, PageEvent};
use self::tasks::{BatchTasks, Names};

/// Most pages that one [`SchedulerTrace::take`] reads of a processor, so that a busy machine holds
/// up nobody: 4 MiB.
const MAX_PAGES: usize = 1024;

/// Scheduler events of this process, as they come.
#[derive(Debug)]
pub(crate) struct SchedulerTrace {
    /// The buffer of each processor.
    buffers: Vec<(u32, File)>,
    layouts: Layouts,
    names: Names,
    page: Vec<u8>,
    instance: Instance,
}

impl SchedulerTrace {
    /// Starts to trace the threads of this process.
    ///
    /// # Errors
    ///
    /// The reason why the kernel does not allow it, for a message.
    pub(crate) fn start() -> Result<Self, String> {
        let instance = Instance::make()?;
        let layouts = Layouts::read(instance.folder()).map_err(|error| error.to_string())?;
        Ok(Self {
            buffers: instance.buffers()?,
            page: vec![0; layouts.page_bytes],
            layouts,
            names: Names::default(),
            instance,
        })
    }

    /// Returns whether another process made it, of which this one is a fork.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.instance.is_of_parent()
    }

    /// Takes the events since the last call, or `None` if there are none.
    pub(crate) fn take(&mut self) -> Option<SchedulerBatch> {
        let mut batch = SchedulerBatch::default();
        let mut tasks = BatchTasks::new(&mut self.names);
        for (cpu, file) in &mut self.buffers {
            for _ in 0..MAX_PAGES {
                let Some(bytes) = read_page(file, &mut self.page) else {
                    break;
                };
                let page = Page::new(&self.page[..bytes], self.layouts.header);
                batch.lost_events += page.lost_events();
                for event in page.events() {
                    batch
                        .events
                        .extend(decode(&self.layouts, *cpu, event, &mut tasks));
                }
            }
        }
        batch.tasks = tasks.finish();
        sort_by(&mut batch.events, |a, b| a.ticks.cmp(&b.ticks));
        let is_empty = batch.events.is_empty() && batch.lost_events == 0;
        (!is_empty).then_some(batch)
    }
}

/// Reads the next page of a buffer, and returns how many bytes it has; `None` if there is none.
fn read_page(file: &mut File, page: &mut [u8]) -> Option<usize> {
    loop {
        match file.read(page) {
            Ok(0) => return None,
            Ok(bytes) => return Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Nothing to read, or a processor that was switched off.
            Err(_) => return None,
        }
    }
}

/// Returns the event, if it is one of the scheduler and whole.
fn decode(
    layouts: &Layouts,
    cpu: u32,
    event: PageEvent<'_>,
    tasks: &mut BatchTasks<'_>,
) -> Option<SchedulerEvent> {
    let data = event.data;
    let id = layouts.id.u16(data)?;
    let kind = if id == layouts.switch.id {
        switch(&layouts.switch, data, tasks)?
    } else if id == layouts.waking.id {
        waking(layouts, &layouts.waking, data, tasks)?
    } else {
        if id == layouts.new_task.id {
            begin_task(layouts, event, tasks);
        }
        return None;
    };
    Some(SchedulerEvent::new(event.ticks, cpu, kind))
}

fn begin_task(layouts: &Layouts, event: PageEvent<'_>, tasks: &mut BatchTasks<'_>) -> Option<()> {
    let layout = &layouts.new_task;
    // The flags are a `long`, whose meaningful bits are the lowest.
    let is_thread = layout.clone_flags.u32(event.data)? & libc::CLONE_THREAD.cast_unsigned() != 0;
    if is_thread {
        let maker = layouts.pid.u32(event.data)?;
        tasks.begin_thread(event.ticks, maker, layout.pid.u32(event.data)?);
    }
    Some(())
}

fn switch(
    layout: &SwitchLayout,
    data: &[u8],
    tasks: &mut BatchTasks<'_>,
) -> Option<SchedulerEventKind> {
    let from = tasks.named(layout.prev_pid.u32(data)?, layout.prev_comm.text(data)?);
    let to = tasks.named(layout.next_pid.u32(data)?, layout.next_comm.text(data)?);
    Some(SchedulerEventKind::Switch {
        from,
        from_priority: layout.prev_prio.i32(data)?,
        // The state is a `long`, whose meaningful bits are the lowest.
        from_state: TaskState(layout.prev_state.u32(data)?),
        to,
        to_priority: layout.next_prio.i32(data)?,
    })
}

fn waking(
    layouts: &Layouts,
    layout: &WakingLayout,
    data: &[u8],
    tasks: &mut BatchTasks<'_>,
) -> Option<SchedulerEventKind> {
    let waker = tasks.unnamed(layouts.pid.u32(data)?);
    let woken = tasks.named(layout.pid.u32(data)?, layout.comm.text(data)?);
    Some(SchedulerEventKind::Waking {
        waker,
        woken,
        priority: layout.prio.i32(data)?,
        target_cpu: layout.target_cpu.u32(data)?,
    })
}
