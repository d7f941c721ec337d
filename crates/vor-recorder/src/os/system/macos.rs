//! macOS: `proc_pidinfo` for memory and threads, `proc_pid_rusage` for the disk.
#![expect(unsafe_code, reason = "system calls of libc")]

use std::mem::{self, MaybeUninit};

use super::{ProcessSample, unix};

#[derive(Debug)]
pub(super) struct Sampler;

impl Sampler {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) fn sample(&mut self) -> ProcessSample {
        let mut sample = ProcessSample::default();
        unix::fill(&mut sample);
        if let Some(task) = task_info() {
            sample.memory_bytes = Some(task.pti_resident_size);
            sample.threads = u64::try_from(task.pti_threadnum).ok();
        }
        if let Some(usage) = resource_usage() {
            sample.disk_read_bytes = Some(usage.ri_diskio_bytesread);
            sample.disk_write_bytes = Some(usage.ri_diskio_byteswritten);
        }
        sample
    }
}

pub(super) fn memory_bytes() -> Option<u64> {
    task_info().map(|task| task.pti_resident_size)
}

/// Returns the reason why a row is absent.
pub(super) fn why_absent(row: &str) -> String {
    let call = match row {
        "memory_mb" | "threads" => "proc_pidinfo",
        "disk_read_MB" | "disk_write_MB" => "proc_pid_rusage",
        "cpu_pct" => "clock_gettime",
        _ => "getrusage",
    };
    format!("the system refuses {call}")
}

fn own_pid() -> Option<libc::c_int> {
    libc::c_int::try_from(std::process::id()).ok()
}

fn task_info() -> Option<libc::proc_taskinfo> {
    let pid = own_pid()?;
    let mut task = MaybeUninit::<libc::proc_taskinfo>::zeroed();
    let bytes = libc::c_int::try_from(mem::size_of::<libc::proc_taskinfo>()).ok()?;
    // SAFETY: the pointer is to `bytes` bytes of this stack frame, which the call may write and
    // does not keep.
    let written = unsafe {
        libc::proc_pidinfo(
            pid,
            libc::PROC_PIDTASKINFO,
            0,
            task.as_mut_ptr().cast(),
            bytes,
        )
    };
    // The call returns how many bytes it wrote. Fewer would leave fields zero that are not.
    if written != bytes {
        return None;
    }
    // SAFETY: the memory was zeroed, and all bits zero are a valid `proc_taskinfo`, which consists
    // of integers only.
    Some(unsafe { task.assume_init() })
}

fn resource_usage() -> Option<libc::rusage_info_v2> {
    let pid = own_pid()?;
    let mut usage = MaybeUninit::<libc::rusage_info_v2>::zeroed();
    // SAFETY: for the flavour `RUSAGE_INFO_V2` the call writes one `rusage_info_v2` to the pointer,
    // which is to one in this stack frame, and does not keep it. The parameter is declared as a
    // pointer to a pointer, but is the buffer itself.
    let status =
        unsafe { libc::proc_pid_rusage(pid, libc::RUSAGE_INFO_V2, usage.as_mut_ptr().cast()) };
    if status != 0 {
        return None;
    }
    // SAFETY: the memory was zeroed, and all bits zero are a valid `rusage_info_v2`, which consists
    // of integers only.
    Some(unsafe { usage.assume_init() })
}
