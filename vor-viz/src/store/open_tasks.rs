//! Facts about tasks that have not ended, and the arguments that a row keeps of an ended one.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::{SiteId, ThreadId};

use super::block::{RowBlock, Step, Task, TaskBegin};
use super::polls::{LanePoll, OpenPolls, Poll};
use crate::holder::Holder;

/// Maximum number of open tasks with a known number, and of steps of open tasks.
const MAX_OPEN: usize = 1 << 18;

/// The numbers that the program gave open tasks, the steps that these have made, and their polls.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenTasks {
    given_ids: FxHashMap<u64, u64>,
    steps: FxHashMap<u64, Vec<Step>>,
    step_count: usize,
    polls: OpenPolls,
}

/// The facts about a task that has ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EndedTask {
    pub(super) args: TaskArgs,
    pub(super) steps: Vec<Step>,
    pub(super) polls: Vec<LanePoll>,
}

impl OpenTasks {
    pub(super) fn begin(&mut self, begin: &TaskBegin) {
        if self.given_ids.len() < MAX_OPEN {
            self.given_ids.insert(begin.task, begin.given_id);
        }
    }

    pub(super) fn step(&mut self, step: &Step) {
        if self.step_count < MAX_OPEN {
            self.steps.entry(step.task).or_default().push(*step);
            self.step_count += 1;
        }
    }

    /// Adds a poll of a thread.
    pub(super) fn poll(&mut self, thread: ThreadId, poll: &Poll) {
        self.polls.add(thread, poll);
    }

    /// Forgets the earlier polls if there are too many.
    pub(super) fn keep_to_limit(&mut self) {
        self.polls.keep_to_limit();
    }

    /// Forgets a task that has ended on a thread, and returns what was known of it.
    pub(super) fn end(&mut self, task: u64, thread: ThreadId) -> EndedTask {
        let args = TaskArgs {
            id: task,
            thread,
            given_id: self.given_ids.remove(&task),
        };
        let steps = self.steps.remove(&task).unwrap_or_default();
        self.step_count -= steps.len();
        EndedTask {
            args,
            steps,
            polls: self.polls.take(task),
        }
    }
}

/// The arguments of a span in a track of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskArgs {
    /// The task's id, as in its steps. It means nothing to the program.
    pub id: u64,
    /// The thread on which the task ended.
    pub thread: ThreadId,
    /// The number that the program gave the task; unknown if the task's begin is.
    pub given_id: Option<u64>,
}

impl TaskArgs {
    /// Reads the arguments of a span in a track of tasks.
    #[must_use]
    pub fn read(values: &[ArgValue]) -> Option<Self> {
        let (ArgValue::U64(id), rest) = values.split_first()? else {
            return None;
        };
        // The holder of a lock is where `Holder` reads it.
        let (thread, given_id) = match rest {
            [ArgValue::Str(_), ArgValue::Str(_), rest @ ..] | rest => match rest {
                [ArgValue::U64(thread)] => (thread, None),
                [ArgValue::U64(thread), ArgValue::U64(given_id)] => (thread, Some(*given_id)),
                _ => return None,
            },
        };
        Some(Self {
            id: *id,
            thread: ThreadId(u32::try_from(*thread).ok()?),
            given_id,
        })
    }

    /// Returns a row of one task, with the holder of the lock that it waited for.
    pub(super) fn row_of(&self, task: &Task, holder: Option<&Holder>) -> RowBlock {
        let mut row = RowBlock::default();
        row.push(task.begin_ns, task.duration_ns, SiteId(task.site.0));
        let texts = holder.map(|holder| [&holder.thread, &holder.scope]);
        let texts = texts.into_iter().flatten();
        let texts = texts.map(|text| ArgValue::Str(Arc::clone(text)));
        let thread = std::iter::once(u64::from(self.thread.0));
        let numbers = thread.chain(self.given_id).map(ArgValue::U64);
        let id = std::iter::once(ArgValue::U64(self.id));
        row.args.push((0, id.chain(texts).chain(numbers).collect()));
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_known_of_a_task_is_returned_once() {
        let mut open = OpenTasks::default();
        open.begin(&TaskBegin {
            task: 7,
            given_id: 70,
        });
        let step = |task, ns| Step {
            task,
            site: SiteId(1),
            ns,
        };
        for step in [step(7, 3), step(8, 4), step(7, 5)] {
            open.step(&step);
        }
        let ended = open.end(7, ThreadId(2));
        let args = &ended.args;
        assert_eq!((args.given_id, args.thread), (Some(70), ThreadId(2)));
        assert_eq!(ended.steps, [step(7, 3), step(7, 5)]);
        assert_eq!(open.step_count, 1);
        let ended = open.end(7, ThreadId(2));
        assert_eq!((ended.args.given_id, ended.steps), (None, Vec::new()));
    }

    #[test]
    fn a_row_has_the_arguments_of_its_task() {
        let task = Task {
            id: 9,
            site: SiteId(1),
            begin_ns: 5,
            duration_ns: 6,
        };
        for given_id in [None, Some(u64::MAX)] {
            let args = TaskArgs {
                id: 9,
                thread: ThreadId(u32::MAX),
                given_id,
            };
            for step in [None, Some("holder_scope: load"), Some("holder: unknown")] {
                let holder = step.and_then(Holder::of_step);
                assert_eq!(holder.is_some(), step.is_some());
                let row = args.row_of(&task, holder.as_ref());
                assert_eq!(TaskArgs::read(&row.args[0].1), Some(args));
                assert_eq!(Holder::of(&row.args[0].1), holder);
            }
        }
        assert_eq!(TaskArgs::read(&[]), None);
    }
}
