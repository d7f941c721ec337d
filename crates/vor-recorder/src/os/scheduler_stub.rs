//! Stands in for `scheduler` where the system has no events with the processor's own ticks, and in
//! a build without the feature.

use vor_capture::model::scheduler::SchedulerBatch;

/// Never made.
#[derive(Debug)]
pub(crate) enum SchedulerTrace {}

impl SchedulerTrace {
    pub(crate) fn start() -> Result<Self, String> {
        let reason = match cfg!(feature = "scheduler") {
            true => "only Linux on x86-64 reports events with the processor's own ticks",
            false => "this build of vor has no feature `scheduler`",
        };
        Err(reason.into())
    }

    pub(crate) fn is_of_parent(&self) -> bool {
        match *self {}
    }

    pub(crate) fn take(&mut self) -> Option<SchedulerBatch> {
        match *self {}
    }
}

#[cfg(all(test, not(loom), not(feature = "scheduler")))]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_the_feature_names_it() {
        let Err(reason) = SchedulerTrace::start();
        assert!(reason.contains("feature `scheduler`"), "{reason}");
    }
}
