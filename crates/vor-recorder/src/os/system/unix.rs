//! The counters that Linux and macOS report through the same calls.
#![expect(unsafe_code, reason = "system calls of libc")]

use std::mem::MaybeUninit;

use super::ProcessSample;

/// Fills in CPU time, page faults and context switches.
pub(super) fn fill(sample: &mut ProcessSample) {
    sample.cpu_time_ns = cpu_time_ns();
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a `rusage` of this stack frame, which the call may write and does
    // not keep.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: the memory was zeroed, and all bits zero are a valid `rusage`, which consists of
    // integers only.
    let usage = unsafe { usage.assume_init() };
    sample.minor_page_faults = u64::try_from(usage.ru_minflt).ok();
    sample.major_page_faults = u64::try_from(usage.ru_majflt).ok();
    sample.voluntary_context_switches = u64::try_from(usage.ru_nvcsw).ok();
    sample.involuntary_context_switches = u64::try_from(usage.ru_nivcsw).ok();
}

/// Returns the CPU time of all threads of the process. This clock counts nanoseconds, while
/// `getrusage` counts microseconds or scheduler ticks.
fn cpu_time_ns() -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a `timespec` of this stack frame, which the call may write and does
    // not keep.
    if unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) } != 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let ns = u64::try_from(time.tv_nsec).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// Returns the size of a page of memory.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn page_bytes() -> Option<u64> {
    // SAFETY: `sysconf` accepts any number, and accesses no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).ok().filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn usage() -> libc::rusage {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a `rusage` of this stack frame, which the call may write and
        // does not keep.
        let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
        assert_eq!(result, 0);
        // SAFETY: the memory was zeroed, and all bits zero are a valid `rusage`.
        unsafe { usage.assume_init() }
    }

    #[test]
    fn each_counter_is_that_of_the_system() {
        // Many switches of one kind, so that the counters differ.
        for _ in 0..50 {
            std::thread::sleep(Duration::from_micros(100));
        }
        let before = usage();
        let mut sample = ProcessSample::default();
        fill(&mut sample);
        let after = usage();
        let is_between = |counter: Option<u64>, of: fn(&libc::rusage) -> libc::c_long| {
            let between = of(&before) as u64..=of(&after) as u64;
            assert!(
                counter.is_some_and(|counter| between.contains(&counter)),
                "{counter:?} is not in {between:?}"
            );
        };
        is_between(sample.minor_page_faults, |usage| usage.ru_minflt);
        is_between(sample.major_page_faults, |usage| usage.ru_majflt);
        is_between(sample.voluntary_context_switches, |usage| usage.ru_nvcsw);
        is_between(sample.involuntary_context_switches, |usage| usage.ru_nivcsw);
    }
}
