//! The CPU time of a thread.

use std::time::Duration;

/// Returns the CPU time of this thread. It does not grow while a busy machine does other work, or
/// while the test is suspended.
#[cfg(unix)]
#[expect(unsafe_code, reason = "only the C library reads a thread's clock")]
pub fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writes, and the call touches nothing else.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the elapsed time, on systems without a clock per thread.
#[cfg(not(unix))]
pub fn cpu_time() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}
