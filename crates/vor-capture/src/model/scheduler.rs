//! Decisions of the operating system's scheduler about the threads of the program: which thread a
//! processor ran, and which thread made another one runnable.

/// A thread that scheduler events name. It need not be one of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerTask {
    /// The number that the operating system gave it; 0 is the idle task of a processor.
    pub tid: u32,
    /// Whether it is a thread of the program.
    pub is_own: bool,
    /// Its name in the kernel, at most 15 bytes there.
    pub name: String,
}

/// An action of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchedulerEventKind {
    /// The processor went from one task to another. Tasks are positions in
    /// [`SchedulerBatch::tasks`].
    Switch {
        /// The task that stopped running.
        from: u32,
        /// Its priority in the kernel: 0 to 99 real-time, 100 to 139 normal, lower is more urgent.
        from_priority: i32,
        /// Why it stopped.
        from_state: TaskState,
        /// The task that began to run.
        to: u32,
        /// Its priority in the kernel.
        to_priority: i32,
    },
    /// A task made another one runnable. Tasks are positions in [`SchedulerBatch::tasks`].
    Waking {
        /// The task that ran on the processor; an interrupt may have acted in its place.
        waker: u32,
        /// The task that became runnable.
        woken: u32,
        /// Its priority in the kernel.
        priority: i32,
        /// The processor on which it is to run.
        target_cpu: u32,
    },
}

/// Bits of a task's state when it stops running, as Linux reports them since version 4.14.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskState(pub u32);

impl TaskState {
    /// The bits that say for what the task waits, or that it ended.
    const BLOCKED: u32 = 0xff;

    /// Returns whether the task can still run: another task took its place.
    ///
    /// ```
    /// use vor_capture::model::scheduler::TaskState;
    ///
    /// assert!(TaskState(0).is_runnable());
    /// assert!(!TaskState(2).is_runnable()); // waits for a disk, for example
    /// ```
    #[must_use]
    pub const fn is_runnable(self) -> bool {
        self.0 & Self::BLOCKED == 0
    }
}

/// An event of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerEvent {
    /// When it happened, in ticks.
    pub ticks: u64,
    /// The processor on which it happened, from 0.
    pub cpu: u32,
    /// The action.
    pub kind: SchedulerEventKind,
}

impl SchedulerEvent {
    /// Makes an event.
    #[must_use]
    pub const fn new(ticks: u64, cpu: u32, kind: SchedulerEventKind) -> Self {
        Self { ticks, cpu, kind }
    }

    /// Returns the two tasks that it names.
    #[must_use]
    pub const fn tasks(&self) -> [u32; 2] {
        match self.kind {
            SchedulerEventKind::Switch { from, to, .. } => [from, to],
            SchedulerEventKind::Waking { waker, woken, .. } => [waker, woken],
        }
    }
}

/// Events of the scheduler over some time. Those of one processor are in order; batches may overlap
/// by a little.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerBatch {
    /// The tasks that the events name.
    pub tasks: Vec<SchedulerTask>,
    /// The events, in the order of time.
    pub events: Vec<SchedulerEvent>,
    /// Events that the kernel dropped before these, because nobody took them in time.
    pub lost_events: u64,
}
