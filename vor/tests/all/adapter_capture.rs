//! The contents of a capture, as tests of adapters compare them.

use std::path::Path;
use std::sync::Arc;

use vor::capture::{Catalog, Event, FrameSnapshot, Reader, TaskEventKind, ThreadBatch};

/// A scope with its arguments, as `name=value` each.
#[derive(Clone, Debug)]
pub struct Scope {
    pub name: String,
    pub args: Vec<String>,
}

/// A task that has ended.
#[derive(Clone, Debug)]
pub struct Task {
    pub id: u64,
    pub name: String,
}

#[derive(Debug, Default)]
pub struct Contents {
    pub scopes: Vec<Scope>,
    pub tasks: Vec<Task>,
    /// The task and the name of each step.
    pub steps: Vec<(u64, String)>,
    /// The task of each poll.
    pub polls: Vec<u64>,
    pub frames: Vec<Arc<FrameSnapshot>>,
}

impl Contents {
    pub fn read(path: &Path) -> Self {
        let mut contents = Self::default();
        let mut reader = Reader::open(path).unwrap();
        while let Some(event) = reader.next_event().unwrap() {
            match event {
                Event::Batch(batch) => {
                    for thread in &batch.threads {
                        assert_eq!(thread.dropped_spans, 0);
                        contents.add(thread, &batch.catalog);
                    }
                }
                Event::Frame(recovered) => contents.frames.push(recovered.frame),
                _ => {}
            }
        }
        contents
    }

    fn add(&mut self, thread: &ThreadBatch, catalog: &Catalog) {
        for span in 0..thread.len() {
            let site = catalog.site(thread.sites[span]).unwrap();
            let values = thread.args.iter().find(|args| args.span == span as u32);
            let values = values.into_iter().flat_map(|args| &args.values);
            let args = site.arg_names.iter().zip(values);
            self.scopes.push(Scope {
                name: site.name.to_string(),
                args: args
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect(),
            });
        }
        for task in &thread.async_spans {
            self.tasks.push(Task {
                id: task.id,
                name: catalog.site_name(task.site).to_owned(),
            });
        }
        for event in &thread.task_events {
            let name = catalog.site_name(event.site).to_owned();
            match event.kind {
                TaskEventKind::Step => self.steps.push((event.task, name)),
                TaskEventKind::Poll { .. } => self.polls.push(event.task),
                _ => {}
            }
        }
    }

    /// Returns the arguments of the scopes with a name, in the order in which they ended.
    pub fn args_of(&self, name: &str) -> Vec<String> {
        let scopes = self.scopes.iter().filter(|scope| scope.name == name);
        scopes.map(|scope| scope.args.join(" ")).collect()
    }

    /// Returns the steps of a task, and the number of its polls.
    pub fn life_of(&self, task: &Task) -> (Vec<&str>, usize) {
        let steps = self.steps.iter().filter(|(of, _)| *of == task.id);
        let polls = self.polls.iter().filter(|of| **of == task.id).count();
        (steps.map(|(_, name)| name.as_str()).collect(), polls)
    }

    /// Returns a metric of each frame, as far as it has one.
    pub fn metric(&self, name: &str) -> Vec<Option<f64>> {
        self.frames.iter().map(|frame| frame.metric(name)).collect()
    }
}
