//! The scope of `profile_scope!("…", cpu)`: its guard keeps what the thread had not run until it opened, so that the usual end needs neither a call nor a look elsewhere.

use std::mem::ManuallyDrop;

use super::cold::{Opened, Record};
use super::{Scope, end_slowly, measured, open_slowly, publish};
use crate::callsite::CallSite;
use crate::clock::Halves;
use crate::measure::Measures;
use crate::{clock, cpu, switch, tap, thread};

/// An open scope whose processor time is measured; dropping it ends the span.
#[must_use = "a scope lasts as long as its guard is held"]
#[derive(Debug)]
pub struct CpuScope {
    scope: ManuallyDrop<Scope>,
    off_cpu_ticks: u64,
}

/// Opens a scope at a call site that has its processor time measured.
#[inline(always)]
pub fn open_cpu(site: &'static CallSite) -> CpuScope {
    if switch::measures_leanly()
        && Measures::CPU.has(switch::measures())
        && let Some(id) = site.measured_id(0, Measures::CPU)
    {
        let state = thread::hot();
        if let Some(place) = state.next_place() {
            let start_ticks = clock::hardware_ticks();
            state.push_open_at(place, id, start_ticks);
            let off_cpu_ticks = cpu::off_cpu_ticks_at(start_ticks);
            measured::show_cpu(place, start_ticks, off_cpu_ticks);
            return CpuScope {
                scope: ManuallyDrop::new(Scope::new(start_ticks, id, place, [])),
                off_cpu_ticks,
            };
        }
    }
    let opened = if switch::is_on() || tap::is_wanted() {
        open_slowly(site, 0, 0)
    } else {
        Opened::default()
    };
    // Where the thread ends there is no note of what it had not run, and no flag that tells of one.
    let is_unflagged = opened.flagged as i32 > 0;
    CpuScope {
        scope: ManuallyDrop::new(Scope::of(opened, [])),
        off_cpu_ticks: if is_unflagged { off_cpu_ticks_of(opened) } else { 0 },
    }
}

/// Returns what the thread had not run until a scope opened. Not in place, where it would stand twice.
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
            let end = Halves::read();
            let (low, may_be_more) = end.since(scope.start_ticks);
            let off_cpu_ticks = cpu::off_cpu_ticks_at(end.ticks());
            if off_cpu_ticks == self.off_cpu_ticks
                && !may_be_more
                && let Some(begun) = scope.begin_record(state)
            {
                publish(state, begun, low);
                // After the record: whoever sees the scope closed also sees it.
                state.pop_open(scope.place);
                return;
            }
            record(scope.opened(), end.ticks(), self.off_cpu_ticks, off_cpu_ticks);
        } else if scope.site != 0 {
            end_slowly(scope.opened(), &[]);
        }
    }
}

/// Records a span in which the thread did not always run, or for which the ring has no place at hand.
#[cold]
#[inline(never)]
// Of the C calling convention only that it cannot unwind is wanted.
extern "C" fn record(opened: Opened, end_ticks: u64, off_at_begin: u64, off_at_end: u64) {
    let duration_ticks = super::elapsed_ticks(opened.start_ticks, end_ticks);
    let off_cpu_ticks = cpu::off_of_span(off_at_begin, off_at_end, duration_ticks);
    let words: &[u64] = if off_cpu_ticks == 0 { &[] } else { &[off_cpu_ticks] };
    let record = Record::new(opened, duration_ticks, [&[], words]);
    thread::push_anyhow(record.slots());
    if let Some(state) = thread::current() {
        state.pop_open(opened.place);
    }
}
