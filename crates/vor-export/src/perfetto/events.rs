//! Messages, flows and tasks in a trace.

use std::io::Write;

use vor_capture::Error;
use vor_capture::model::batch::{AsyncSpan, FlowStage, TaskEventKind, ThreadBatch};
use vor_capture::model::catalog::Catalog;

use super::process::{put_arg, put_flag};
use super::schema::{event, legacy};
use super::thread::Thread;
use super::{PerfettoExporter, Times};
use crate::proto::{put_message, put_str, put_u64};
use crate::tasks::{OpenTask, in_order};
use crate::thread_label;

impl<W: Write> PerfettoExporter<W> {
    /// Writes a thread's messages and points of flows.
    ///
    /// The schema attaches flows to the begin of a span, but a scope may be open long before a flow
    /// reaches it. Events of the legacy format have their own time and belong to the span around
    /// it, so points are written as these.
    pub(super) fn write_points(
        &mut self,
        batch: &ThreadBatch,
        times: Times<'_>,
        thread: &mut Thread,
    ) {
        let Some(process) = &self.process else { return };
        for message in &batch.messages {
            thread.put_point(&mut self.out.bytes, times.ns(message.ticks), |out| {
                put_u64(out, event::TYPE, event::INSTANT);
                put_str(out, event::CATEGORIES, "message");
                put_str(out, event::NAME, &message.text);
            });
        }
        for point in &batch.flows {
            let phase = match point.stage {
                FlowStage::Begin => b's',
                FlowStage::Step => b't',
                FlowStage::End => b'f',
            };
            thread.put_point(&mut self.out.bytes, times.ns(point.ticks), |out| {
                put_str(out, event::CATEGORIES, "flow");
                put_str(out, event::NAME, "flow");
                put_message(out, event::LEGACY, |out| {
                    put_u64(out, legacy::PHASE, u64::from(phase));
                    put_u64(out, legacy::UNSCOPED_ID, process.flow(point.flow));
                    put_u64(out, legacy::BIND_TO_ENCLOSING, 1);
                });
            });
        }
    }

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
            if begins {
                self.begin_task(catalog, &task);
            }
            let Some((track, times)) = self.track_of(catalog, &task) else {
                continue;
            };
            let Some(process) = &self.process else {
                continue;
            };
            let (start_ns, end_ns) = (times.ns(event.start_ticks), times.ns(event.end_ticks()));
            match event.kind {
                TaskEventKind::Poll { .. } => {
                    process.put_event(&mut self.out.bytes, start_ns, |out| {
                        put_u64(out, event::TYPE, event::BEGIN);
                        put_u64(out, event::TRACK_UUID, track);
                        put_str(out, event::NAME, "poll");
                        put_message(out, event::DEBUG_ANNOTATIONS, |out| {
                            put_str(out, super::annotation::NAME, "thread");
                            put_str(
                                out,
                                super::annotation::STRING,
                                &thread_label(catalog, thread),
                            );
                        });
                    });
                    process.put_event(&mut self.out.bytes, end_ns.max(start_ns), |out| {
                        put_u64(out, event::TYPE, event::END);
                        put_u64(out, event::TRACK_UUID, track);
                    });
                }
                TaskEventKind::Step => process.put_event(&mut self.out.bytes, start_ns, |out| {
                    put_u64(out, event::TYPE, event::INSTANT);
                    put_u64(out, event::TRACK_UUID, track);
                    put_str(out, event::CATEGORIES, "task");
                    put_str(out, event::NAME, catalog.site_name(event.site));
                }),
                // The begin is written with the task.
                _ => {}
            }
            self.out.write_full()?;
        }
        Ok(())
    }

    /// Writes the ends of tasks, and the begins of tasks without an earlier event.
    pub(super) fn write_tasks(&mut self, catalog: &Catalog, tasks: &[AsyncSpan]) {
        for task in tasks {
            let (open, begins) = self.tasks.end(task);
            if begins {
                self.begin_task(catalog, &open);
            }
            self.end_task(catalog, &open, task.end_ticks(), false);
        }
    }

    /// Ends the tasks that are still open, at the time of the last event of any task.
    pub(super) fn end_open_tasks(&mut self, catalog: &Catalog) {
        let (open, last_ticks) = self.tasks.take_open();
        for task in open {
            self.end_task(catalog, &task, last_ticks, true);
        }
    }

    fn begin_task(&mut self, catalog: &Catalog, task: &OpenTask) {
        let Some((track, times)) = self.track_of(catalog, task) else {
            return;
        };
        let Some(process) = &self.process else { return };
        process.put_event(&mut self.out.bytes, times.ns(task.start_ticks), |out| {
            put_u64(out, event::TYPE, event::BEGIN);
            put_u64(out, event::TRACK_UUID, track);
            put_str(out, event::CATEGORIES, "task");
            put_str(out, event::NAME, catalog.site_name(task.site));
            if let Some(id) = task.given_id {
                put_arg(out, "id", id);
            }
        });
    }

    fn end_task(&mut self, catalog: &Catalog, task: &OpenTask, ticks: u64, is_unfinished: bool) {
        let Some((track, times)) = self.track_of(catalog, task) else {
            return;
        };
        let Some(process) = &self.process else { return };
        let ns = times.ns(ticks).max(times.ns(task.start_ticks));
        process.put_event(&mut self.out.bytes, ns, |out| {
            put_u64(out, event::TYPE, event::END);
            put_u64(out, event::TRACK_UUID, track);
            if is_unfinished {
                put_flag(out, "unfinished");
            }
        });
    }

    /// Returns the track of a task, and the times of the trace.
    fn track_of<'a>(&mut self, catalog: &'a Catalog, task: &OpenTask) -> Option<(u64, Times<'a>)> {
        let process = self.process.as_mut()?;
        let name = catalog.site_name(task.site);
        let track = process.track_of_task(&mut self.out.bytes, task.site, task.lane, name);
        Some((track, process.times(catalog)))
    }
}
