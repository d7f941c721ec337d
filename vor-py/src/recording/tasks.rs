//! The suspended coroutines of each thread.
//!
//! A coroutine resumes on the thread on which it was suspended, so a look-up takes the thread's own
//! lock, which is free. Coroutines that never finish end when their thread does, or when recording
//! is switched off by any thread, which takes the locks of all.
//!
//! | lock | held by |
//! |---|---|
//! | [`THREADS`] | a thread with its first task; [`end_all`], which then takes the locks of tasks |
//! | of a thread's tasks | this thread for a look-up; [`end_all`] |
//!
//! No code of Python runs under either. A thread never waits for its own tasks. They are locked
//! only while all tasks end. A build without the global lock may fork meanwhile; then they stay
//! locked in the child, which records no tasks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use vor_recorder::hot::scope::manual::{ManualScope, ManualTask};

/// Tasks by the addresses of their frames or objects.
type Tasks = HashMap<usize, ManualTask>;

/// Most suspended coroutines of a thread. Further ones are not recorded as tasks.
const MAX_TASKS: usize = 1 << 16;

/// The tasks of all threads that had some.
static THREADS: Mutex<Vec<Weak<Mutex<Tasks>>>> = Mutex::new(Vec::new());

/// The suspended coroutines of a thread. Made with the first one.
#[derive(Default)]
pub(crate) struct ThreadTasks(Option<Arc<Mutex<Tasks>>>);

/// Ends the tasks of all threads.
pub(crate) fn end_all() {
    let mut threads = lock(&THREADS);
    threads.retain(|tasks| tasks.strong_count() > 0);
    for tasks in threads.iter().filter_map(Weak::upgrade) {
        end(&tasks);
    }
}

fn end(tasks: &Mutex<Tasks>) {
    for task in std::mem::take(&mut *lock(tasks)).into_values() {
        task.end();
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ThreadTasks {
    /// Begins a task with its first activation.
    pub(crate) fn begin(&mut self, key: usize, first: ManualScope) -> Option<ManualTask> {
        let own = self.0.get_or_insert_with(|| {
            let own = Arc::default();
            let mut threads = lock(&THREADS);
            threads.retain(|tasks| tasks.strong_count() > 0);
            threads.push(Arc::downgrade(&own));
            own
        });
        let mut tasks = own.try_lock().ok()?;
        if tasks.len() == MAX_TASKS {
            return None;
        }
        let task = ManualTask::begin(first)?;
        // If another frame gets the address of a coroutine whose end was missed, it replaces that
        // coroutine.
        tasks.insert(key, task);
        Some(task)
    }

    pub(crate) fn get(&self, key: usize) -> Option<ManualTask> {
        self.0.as_ref()?.try_lock().ok()?.get(&key).copied()
    }

    pub(crate) fn remove(&self, key: usize) -> Option<ManualTask> {
        self.0.as_ref()?.try_lock().ok()?.remove(&key)
    }
}

impl Drop for ThreadTasks {
    /// The thread ends, so its coroutines do not go on.
    fn drop(&mut self) {
        if let Some(tasks) = &self.0 {
            end(tasks);
        }
    }
}
