//! The time of a span in which its thread did not run, as one state to colour it by.

use serde::{Deserialize, Serialize};
use vor_capture::model::measures::{Measured, Measures};

/// The state in which a span was for most of its time, where that is not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum OffCpu {
    /// Its thread was runnable, and had no processor.
    Queued,
    /// Its thread waited for something else than a processor.
    Blocked,
    /// Its thread did not run, and only its CPU time was measured.
    Unknown,
}

impl OffCpu {
    /// Returns the state of a span; `None` if it ran for most of its time.
    pub(super) fn of(measures: Measures, measured: &Measured, duration_ns: u64) -> Option<Self> {
        let off_cpu_ns = measured.off_cpu_ns;
        let cpu_ns = duration_ns.saturating_sub(off_cpu_ns);
        if !measures.has(Measures::WAIT) {
            return (off_cpu_ns > cpu_ns).then_some(Self::Unknown);
        }
        let [queued_ns, blocked_ns] = measured.queued_and_blocked_ns(off_cpu_ns);
        match blocked_ns >= queued_ns {
            true => (blocked_ns > cpu_ns).then_some(Self::Blocked),
            false => (queued_ns > cpu_ns).then_some(Self::Queued),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_state_counts() {
        let of = |measures, off_cpu_ns, run_queue_ns| {
            let mut measured = Measured::default();
            (measured.off_cpu_ns, measured.run_queue_ns) = (off_cpu_ns, run_queue_ns);
            OffCpu::of(measures, &measured, 100)
        };
        assert_eq!(of(Measures::WAITS, 50, 0), None);
        assert_eq!(of(Measures::WAITS, 51, 0), Some(OffCpu::Blocked));
        assert_eq!(of(Measures::WAITS, 70, 36), Some(OffCpu::Queued));
        assert_eq!(of(Measures::WAITS, 70, 34), Some(OffCpu::Blocked));
        // It ran longer than it did either of both.
        assert_eq!(of(Measures::WAITS, 60, 30), None);
        assert_eq!(of(Measures::CPU, 50, 0), None);
        assert_eq!(of(Measures::CPU, 51, 0), Some(OffCpu::Unknown));
    }
}
