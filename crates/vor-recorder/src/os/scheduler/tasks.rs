//! The tasks that events name: what they are called, and which ones are threads of this process.

use std::collections::HashMap;
use std::path::Path;

use rustc_hash::FxBuildHasher;
use vor_capture::filled;
use vor_capture::model::scheduler::SchedulerTask;
use vor_capture::sort::sort_by;

/// Tasks whose names are kept; with more, all are forgotten and learnt again.
const MAX_KNOWN: usize = 4096;

/// The tasks of earlier events, with their names.
///
/// A task is a thread of this process if the process has it when its first event is read. One that
/// has ended by then is recognised by the event with which a thread of this process made it.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: HashMap<u32, SchedulerTask, FxBuildHasher>,
}

/// The tasks of a batch, and their positions in it.
pub(super) struct BatchTasks<'a> {
    names: &'a mut Names,
    tasks: Vec<SchedulerTask>,
    places: HashMap<u32, u32, FxBuildHasher>,
    /// When a thread was made, which one made it, and its number.
    begun: Vec<(u64, u32, u32)>,
}

impl<'a> BatchTasks<'a> {
    pub(super) fn new(names: &'a mut Names) -> Self {
        Self {
            names,
            tasks: Vec::new(),
            places: HashMap::default(),
            begun: Vec::new(),
        }
    }

    /// Returns the position of a task whose name the event has.
    pub(super) fn named(&mut self, tid: u32, name: &[u8]) -> u32 {
        let place = self.unnamed(tid);
        let task = &mut self.tasks[place as usize];
        if task.name.as_bytes() != name {
            task.name = String::from_utf8_lossy(name).into_owned();
            self.names.known.insert(tid, task.clone());
        }
        place
    }

    /// Returns the position of a task of which the event has the number only.
    pub(super) fn unnamed(&mut self, tid: u32) -> u32 {
        if let Some(&place) = self.places.get(&tid) {
            return place;
        }
        let place = self.tasks.len() as u32;
        self.tasks.push(self.names.task(tid));
        self.places.insert(tid, place);
        place
    }

    /// Adds that a thread made another one of the same process.
    pub(super) fn begin_thread(&mut self, ticks: u64, maker: u32, tid: u32) {
        self.begun.push((ticks, maker, tid));
    }

    pub(super) fn finish(mut self) -> Vec<SchedulerTask> {
        // Processors are read one after the other.
        sort_by(&mut self.begun, |a, b| a.0.cmp(&b.0));
        for (_, maker, tid) in std::mem::take(&mut self.begun) {
            let place = self.unnamed(maker);
            if self.tasks[place as usize].is_own {
                let place = self.unnamed(tid);
                let task = &mut self.tasks[place as usize];
                task.is_own = true;
                self.names.known.insert(tid, task.clone());
            }
        }
        self.tasks
    }
}

impl Names {
    fn task(&mut self, tid: u32) -> SchedulerTask {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let new = || {
            let is_own = tid != 0 && Path::new(&format!("/proc/self/task/{tid}")).exists();
            filled!(SchedulerTask { tid, is_own })
        };
        self.known.entry(tid).or_insert_with(new).clone()
    }
}
