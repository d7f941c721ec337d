//! Stands in for `scheduler` where the system has no events with the processor's own ticks.

use vor_capture::model::scheduler::SchedulerBatch;

/// Never made.
#[derive(Debug)]
pub(crate) enum SchedulerTrace {}

impl SchedulerTrace {
    pub(crate) fn start() -> Result<Self, String> {
        Err("only Linux on x86-64 reports events with the processor's own ticks".into())
    }

    pub(crate) fn is_of_parent(&self) -> bool {
        match *self {}
    }

    pub(crate) fn take(&mut self) -> Option<SchedulerBatch> {
        match *self {}
    }
}
