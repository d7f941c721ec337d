//! Linux, Android and macOS.

#![expect(unsafe_code, reason = "system calls of libc")]

use std::mem::MaybeUninit;

#[inline(always)]
pub(super) fn read() -> Option<u64> {
    system_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Derives the number of another thread's clock from that of the thread: its complement, and three
/// bits for a thread's clock that counts like the scheduler.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn read_of(os_id: u64) -> Option<u64> {
    let id = libc::clockid_t::try_from(os_id).ok().filter(|id| *id > 0)?;
    system_ns(!id << 3 | 6)
}

#[cfg(target_os = "macos")]
pub(super) fn read_of(_: u64) -> Option<u64> {
    None
}

#[inline(always)]
pub(super) fn counts_ticks() -> bool {
    false
}

/// Reads a clock of the system.
#[inline(always)]
pub(crate) fn system_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a `timespec` of this stack frame, which the call may write and does
    // not keep.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let ns = u64::try_from(time.tv_nsec).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// The kernel updates the result of `getrusage` for a running thread only at some of its ticks: a
/// thread that ran 300 ms may see none of it. Reading the thread's clock updates it.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn user_sys_ns() -> Option<(u64, u64)> {
    read()?;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a `rusage` of this stack frame, which the call may write and does
    // not keep.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the memory was zeroed, and all bits zero are a valid `rusage`, which consists of
    // integers only.
    let usage = unsafe { usage.assume_init() };
    let ns = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).ok()?;
        let micros = u64::try_from(time.tv_usec).ok()?;
        seconds
            .checked_mul(1_000_000_000)?
            .checked_add(micros * 1_000)
    };
    Some((ns(usage.ru_utime)?, ns(usage.ru_stime)?))
}

#[cfg(target_os = "macos")]
pub(super) fn user_sys_ns() -> Option<(u64, u64)> {
    let mut info = MaybeUninit::<libc::thread_basic_info>::zeroed();
    let mut count = libc::THREAD_BASIC_INFO_COUNT;
    // SAFETY: the thread's port is that of the calling thread, and this call does not count it.
    // `info` has room for `count` words, and the call writes at most that number.
    let result = unsafe {
        libc::thread_info(
            libc::pthread_mach_thread_np(libc::pthread_self()),
            libc::THREAD_BASIC_INFO as libc::thread_flavor_t,
            info.as_mut_ptr().cast(),
            &raw mut count,
        )
    };
    if result != libc::KERN_SUCCESS {
        return None;
    }
    // SAFETY: the memory was zeroed, and all bits zero are valid for this structure of integers.
    let info = unsafe { info.assume_init() };
    let ns = |time: libc::time_value_t| {
        let seconds = u64::try_from(time.seconds).ok()?;
        let micros = u64::try_from(time.microseconds).ok()?;
        seconds
            .checked_mul(1_000_000_000)?
            .checked_add(micros * 1_000)
    };
    Some((ns(info.user_time)?, ns(info.system_time)?))
}
