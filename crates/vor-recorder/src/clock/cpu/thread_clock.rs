//! The CPU time of the calling thread, from the system.
//!
//! | | Linux, Android | macOS | Windows | elsewhere |
//! |---|---|---|---|---|
//! | CPU time | `clock_gettime` | `clock_gettime` | `QueryThreadCycleTime`; `GetThreadTimes` if the counter is not the processor's | – |
//! | program and kernel | `getrusage` | `thread_info` | `GetThreadTimes` | – |

#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos"))]
mod unix;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos"))]
use unix as platform;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as platform;
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "macos",
    windows
)))]
mod stub;
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "macos",
    windows
)))]
use stub as platform;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use platform::system_ns;

/// Reads the thread's clock, in nanoseconds, or in ticks if [`counts_ticks`].
#[inline(always)]
pub(super) fn read() -> Option<u64> {
    platform::read()
}

/// Reads the clock of the thread with this number, in the unit of [`read`]. `None` if there is no
/// such thread, or the system does not report it.
pub(super) fn read_of(os_id: u64) -> Option<u64> {
    platform::read_of(os_id)
}

/// Returns whether the thread's clock counts ticks of [`clock::ticks`](crate::clock::ticks).
#[inline(always)]
pub(super) fn counts_ticks() -> bool {
    platform::counts_ticks()
}

/// Returns the CPU time of the calling thread, in nanoseconds. `None` if the system does not report
/// it.
///
/// It takes a system call of some hundred nanoseconds.
///
/// # Examples
///
/// ```
/// # use vor_recorder::clock::cpu::thread_cpu_ns;
/// let before = thread_cpu_ns();
/// let sum: u64 = (0..1000).map(std::hint::black_box).sum();
/// assert!(sum > 0 && thread_cpu_ns() >= before);
/// ```
#[must_use]
pub fn thread_cpu_ns() -> Option<u64> {
    let cpu = platform::read()?;
    if counts_ticks() {
        // This measures the rate.
        let _ = super::init();
        Some(super::rate::ns_of_ticks(cpu))
    } else {
        Some(cpu)
    }
}

/// Returns the CPU time of the calling thread in the program and in the kernel, in nanoseconds,
/// with the system's resolution. `None` if it does not report them.
///
/// Neither ever falls. If the kernel samples the mode only at its ticks, the share of each is an
/// estimate; the sum is accurate to two microseconds.
#[must_use]
pub fn user_sys_ns() -> Option<(u64, u64)> {
    platform::user_sys_ns()
}
