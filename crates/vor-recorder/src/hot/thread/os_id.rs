//! The operating system's id of a thread.

#[cfg(any(target_os = "linux", target_os = "android"))]
#[expect(unsafe_code, reason = "the thread's number is a system call")]
pub(crate) fn os_id() -> u64 {
    // SAFETY: gettid takes nothing, touches no memory and cannot fail.
    u64::try_from(unsafe { libc::gettid() }).unwrap_or(0)
}

#[cfg(target_os = "macos")]
#[expect(unsafe_code, reason = "the thread's number is a system call")]
pub(crate) fn os_id() -> u64 {
    let mut id = 0;
    // SAFETY: thread 0 means the calling one, and `id` is a valid place for the result.
    unsafe { libc::pthread_threadid_np(0, &mut id) };
    id
}

#[cfg(windows)]
#[expect(unsafe_code, reason = "the thread's number is a system call")]
pub(crate) fn os_id() -> u64 {
    // SAFETY: GetCurrentThreadId takes nothing, touches no memory and cannot fail.
    u64::from(unsafe { windows_sys::Win32::System::Threading::GetCurrentThreadId() })
}

#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "macos",
    windows
)))]
pub(crate) fn os_id() -> u64 {
    0
}
