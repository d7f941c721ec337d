//! Tasks and flows as Chrome events.

use std::io::Write;

use vor_capture::Error;
use vor_capture::model::batch::{AsyncSpan, FlowStage, TaskEventKind, ThreadBatch};
use vor_capture::model::catalog::{Catalog, ThreadId};

use super::{ChromeExporter, middle, push_us};
use crate::tasks::{OpenTask, in_order};
use crate::text::{push_integer, push_json_str};

impl<W: Write> ChromeExporter<W> {
    /// Writes the events of tasks.
    pub(super) fn write_task_events(
        &mut self,
        catalog: &Catalog,
        threads: &[ThreadBatch],
    ) -> Result<(), Error> {
        for (thread, event) in in_order(threads) {
            // An event of an unknown task has no track. Its poll is still a span of its thread.
            let Some((task, begins)) = self.tasks.event(event) else {
                continue;
            };
            let Some(middle) = self.thread_middle(catalog, thread) else {
                continue;
            };
            if begins {
                self.write_task(catalog, b'b', &task, &middle, task.start_ticks);
            }
            match event.kind {
                TaskEventKind::Poll { .. } => {
                    for (phase, ticks) in [(b'b', event.start_ticks), (b'e', event.end_ticks())] {
                        self.write_in_task(
                            phase,
                            task.id,
                            "poll",
                            &middle,
                            self.ns(catalog, ticks),
                        );
                    }
                }
                TaskEventKind::Step => {
                    let name = catalog.site_name(event.site);
                    let ns = self.ns(catalog, event.start_ticks);
                    self.write_in_task(b'n', task.id, name, &middle, ns);
                }
                // The begin is written with the task.
                _ => {}
            }
            self.out.write_full()?;
        }
        Ok(())
    }

    /// Writes the points of flows on a thread.
    pub(super) fn write_flows(
        &mut self,
        catalog: &Catalog,
        batch: &ThreadBatch,
    ) -> Result<(), Error> {
        if batch.flows.is_empty() {
            return Ok(());
        }
        let Some(middle) = self.thread_middle(catalog, batch.thread) else {
            return Ok(());
        };
        for point in &batch.flows {
            let ns = self.ns(catalog, point.ticks);
            let out = &mut self.out.bytes;
            out.extend_from_slice(match point.stage {
                FlowStage::Begin => b",\n{\"ph\":\"s\",\"bp\":\"e\"",
                FlowStage::Step => b",\n{\"ph\":\"t\",\"bp\":\"e\"",
                FlowStage::End => b",\n{\"ph\":\"f\",\"bp\":\"e\"",
            });
            out.extend_from_slice(b",\"cat\":\"flow\",\"name\":\"flow\",\"id\":\"");
            push_integer(out, point.flow);
            out.push(b'"');
            out.extend_from_slice(&middle);
            push_us(out, ns);
            out.push(b'}');
        }
        self.out.write_full()
    }

    /// Writes the ends of tasks that ended on a thread, and the begins of tasks without an earlier
    /// event.
    pub(super) fn write_tasks(
        &mut self,
        catalog: &Catalog,
        thread: ThreadId,
        tasks: &[AsyncSpan],
    ) -> Result<(), Error> {
        let Some(middle) = self
            .thread_middle(catalog, thread)
            .filter(|_| !tasks.is_empty())
        else {
            return Ok(());
        };
        for task in tasks {
            let (open, begins) = self.tasks.end(task);
            if begins {
                self.write_task(catalog, b'b', &open, &middle, task.start_ticks);
            }
            let end_ticks = task.end_ticks().max(open.start_ticks);
            self.write_task(catalog, b'e', &open, &middle, end_ticks);
            self.out.write_full()?;
        }
        Ok(())
    }

    /// Ends the tasks that are still open, at the time of the last event of any task.
    pub(super) fn end_open_tasks(&mut self, catalog: &Catalog) {
        let (open, last_ticks) = self.tasks.take_open();
        let middle = middle(self.pid, u64::from(self.pid));
        for task in open {
            self.write_task(catalog, b'e', &task, &middle, last_ticks);
            let out = &mut self.out.bytes;
            out.pop();
            out.extend_from_slice(b",\"args\":{\"unfinished\":true}}");
        }
    }

    /// Writes the begin or the end of a task.
    fn write_task(
        &mut self,
        catalog: &Catalog,
        phase: u8,
        task: &OpenTask,
        middle: &[u8],
        ticks: u64,
    ) {
        let ns = self.ns(catalog, ticks);
        self.write_in_task(phase, task.id, catalog.site_name(task.site), middle, ns);
        if let Some(id) = task.given_id.filter(|_| phase == b'b') {
            let out = &mut self.out.bytes;
            out.pop();
            out.extend_from_slice(b",\"args\":{\"id\":\"");
            push_integer(out, id);
            out.extend_from_slice(b"\"}}");
        }
    }

    /// Writes an event of a task.
    fn write_in_task(&mut self, phase: u8, task: u64, name: &str, middle: &[u8], ns: u64) {
        let out = &mut self.out.bytes;
        out.extend_from_slice(b",\n{\"ph\":\"");
        out.push(phase);
        out.extend_from_slice(b"\",\"cat\":\"task\",\"id2\":{\"local\":\"");
        push_integer(out, task);
        out.extend_from_slice(b"\"},\"name\":");
        push_json_str(out, name);
        out.extend_from_slice(middle);
        push_us(out, ns);
        out.push(b'}');
    }
}
