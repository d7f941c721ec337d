//! The scope of `profile_scope!("…", cpu)`. Its guard holds the thread's off-CPU ticks at the open,
//! so the common case of the end needs neither a call nor a baseline.

use std::mem::ManuallyDrop;

use vor_capture::model::measures::Measures;

use super::record::Record;
use super::slow::{Opened, elapsed_ticks};
use super::{Scope, commit_record, end_slow, measured, open_slow};
use crate::clock::{self, Halves, cpu};
use crate::hot::callsite::{self, CallSite};
use crate::hot::record_state::{self, RecordMode};
use crate::hot::thread::{self, ThreadState};
use crate::hot::tracing_out;

/// An open scope whose CPU time is measured. Dropping it ends the span.
#[must_use = "a scope lasts as long as its guard is held"]
#[derive(Debug)]
pub struct CpuScope {
    scope: ManuallyDrop<Scope>,
    off_cpu_ticks: u64,
}

/// Opens a scope whose CPU time is measured at a call site.
#[inline(always)]
pub fn open_cpu(site: &'static CallSite) -> CpuScope {
    if record_state::mode() == RecordMode::Measured
        && Measures::CPU.has(record_state::measures())
        && let Some(id) = site.measured_id(0, Measures::CPU)
    {
        let state = thread::hot();
        if let Some(place) = state.free_place() {
            let start_ticks = clock::hardware_ticks();
            state.push_open_at(place, id, start_ticks);
            let off_cpu_ticks = cpu::off_cpu_ticks_at(start_ticks);
            measured::share_cpu_baseline(place, start_ticks, off_cpu_ticks);
            return CpuScope {
                scope: ManuallyDrop::new(Scope::new(start_ticks, id, place, [])),
                off_cpu_ticks,
            };
        }
    }
    let is_off =
        callsite::is_ruled_off(site.word()) || !record_state::is_on() && !tracing_out::is_wanted();
    let opened = if is_off {
        Opened::default()
    } else {
        open_slow(site, 0, 0)
    };
    // A scope that opens while its thread ends has no baseline, and no flag for that.
    let is_unflagged = opened.flagged as i32 > 0;
    CpuScope {
        scope: ManuallyDrop::new(Scope::from_opened(opened, [])),
        off_cpu_ticks: if is_unflagged {
            off_cpu_ticks_of(opened)
        } else {
            0
        },
    }
}

/// Returns the thread's off-CPU ticks at the start of a scope. Out of line, because the inlined
/// reading would be in the code of each scope twice.
#[cold]
#[inline(never)]
fn off_cpu_ticks_of(opened: Opened) -> u64 {
    cpu::off_cpu_ticks_at(opened.start_ticks)
}

impl Drop for CpuScope {
    #[inline(always)]
    fn drop(&mut self) {
        let scope = &self.scope;
        if scope.site > 0 {
            let state = thread::hot();
            if state.begin_close(scope.place) {
                let end = Halves::read();
                let (low, may_be_more) = end.since(scope.start_ticks);
                let off_cpu_ticks = cpu::off_cpu_ticks_at(end.ticks());
                if off_cpu_ticks == self.off_cpu_ticks
                    && !may_be_more
                    && let Some(record) = scope.reserve_record(state)
                {
                    commit_record(state, record, low);
                } else {
                    push(
                        state,
                        scope.opened(),
                        end.ticks(),
                        self.off_cpu_ticks,
                        off_cpu_ticks,
                    );
                }
                state.release(scope.place);
                return;
            }
            record(scope.opened(), self.off_cpu_ticks);
        } else if scope.site != 0 {
            end_slow(scope.opened(), &[]);
        }
    }
}

/// Records a span in which the thread was off the CPU, or which does not fit under the ring's
/// limit. `before` and `after` are its off-CPU ticks at the start and the end. Called only where no
/// handler records.
#[cold]
#[inline(never)]
// The C calling convention serves only to forbid unwinding.
extern "C" fn push(state: &ThreadState, opened: Opened, end_ticks: u64, before: u64, after: u64) {
    let record = record_of(opened, end_ticks, [before, after]);
    thread::push_record(state, record.slots());
}

/// Records a span that is not the innermost one on the stack, or whose thread has no state.
#[cold]
#[inline(never)]
extern "C" fn record(opened: Opened, off_at_begin: u64) {
    let make = || {
        let end_ticks = clock::ticks();
        record_of(
            opened,
            end_ticks,
            [off_at_begin, cpu::off_cpu_ticks_at(end_ticks)],
        )
    };
    let recorded = thread::with_state(|state| {
        thread::push_record(state, make().slots());
        state.pop_open(opened.place);
    });
    if recorded.is_none() {
        thread::push_without_state(make().slots());
    }
}

fn record_of(opened: Opened, end_ticks: u64, [at_begin, at_end]: [u64; 2]) -> Record {
    let duration_ticks = elapsed_ticks(opened.start_ticks, end_ticks);
    let off_cpu_ticks = cpu::off_of_span(at_begin, at_end, duration_ticks);
    let words: &[u64] = if off_cpu_ticks == 0 {
        &[]
    } else {
        &[off_cpu_ticks]
    };
    Record::new(opened, duration_ticks, [&[], words])
}
