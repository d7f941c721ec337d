//! Windows.

#![expect(unsafe_code, reason = "system calls")]

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Threading::GetCurrentThread;
use windows_sys::Win32::System::Threading::GetThreadTimes;
use windows_sys::Win32::System::WindowsProgramming::QueryThreadCycleTime;

use crate::clock;

/// The cycles that the system counts for a thread are ticks of the processor's counter, if
/// [`clock::ticks`] reads that counter. The result of `GetThreadTimes` grows by a whole tick of the
/// system's timer, 16 ms.
pub(super) fn read() -> Option<u64> {
    if !counts_ticks() {
        let (user_ns, sys_ns) = user_sys_ns()?;
        return Some(user_ns + sys_ns);
    }
    let mut cycles = 0;
    // SAFETY: the handle refers to the calling thread, and `cycles` is a valid place for the
    // result.
    let done = unsafe { QueryThreadCycleTime(GetCurrentThread(), &raw mut cycles) };
    (done != 0).then_some(cycles)
}

pub(super) fn read_of(_: u64) -> Option<u64> {
    None
}

pub(super) fn counts_ticks() -> bool {
    cfg!(target_arch = "x86_64") && clock::is_hardware()
}

pub(super) fn user_sys_ns() -> Option<(u64, u64)> {
    const ZERO: FILETIME = FILETIME {
        dwLowDateTime: 0,
        dwHighDateTime: 0,
    };
    let [mut created, mut exited, mut kernel, mut user] = [ZERO; 4];
    // SAFETY: the handle refers to the calling thread, and the four are valid places for the
    // results.
    let done = unsafe {
        GetThreadTimes(
            GetCurrentThread(),
            &raw mut created,
            &raw mut exited,
            &raw mut kernel,
            &raw mut user,
        )
    };
    let ns = |time: FILETIME| {
        (u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)).saturating_mul(100)
    };
    (done != 0).then(|| (ns(user), ns(kernel)))
}
