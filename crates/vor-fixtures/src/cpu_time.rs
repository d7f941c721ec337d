//! The CPU time of a thread.

use std::time::Duration;

/// Returns the CPU time that this thread has used: what a busy machine, or one that stops the test
/// for a while, does not add to.
#[cfg(unix)]
#[expect(unsafe_code, reason = "a thread's clock is the C library's")]
pub fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result, and the call touches nothing else.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the time that has passed, where a thread's own cannot be asked.
#[cfg(not(unix))]
pub fn cpu_time() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}
