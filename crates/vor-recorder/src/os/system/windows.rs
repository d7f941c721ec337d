//! Windows: `kernel32` for the process, a Toolhelp snapshot for its threads.
//!
//! A Toolhelp snapshot lists every process of the machine and takes around a millisecond. So
//! threads are counted once a second, and the count is repeated in between. Windows reports neither
//! context switches nor how many of the bytes read and written reached a disk.
#![expect(unsafe_code, reason = "system calls of windows-sys")]

use std::mem;
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{CloseHandle, FILETIME, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetProcessIoCounters, GetProcessTimes, IO_COUNTERS,
};

use super::ProcessSample;

/// How long a count of threads is repeated.
const THREADS_VALID: Duration = Duration::from_secs(1);

/// Unit of [`FILETIME`].
const FILETIME_NS: u64 = 100;

#[derive(Debug)]
pub(super) struct Sampler {
    threads: Option<(Instant, Option<u64>)>,
}

impl Sampler {
    pub(super) fn new() -> Self {
        Self { threads: None }
    }

    pub(super) fn sample(&mut self) -> ProcessSample {
        let memory = memory_counters();
        let io = io_counters();
        ProcessSample {
            memory_bytes: memory.map(|memory| memory.WorkingSetSize as u64),
            cpu_time_ns: cpu_time_ns(),
            minor_page_faults: memory.map(|memory| u64::from(memory.PageFaultCount)),
            threads: self.threads(),
            disk_read_bytes: io.map(|io| io.ReadTransferCount),
            disk_write_bytes: io.map(|io| io.WriteTransferCount),
            ..ProcessSample::default()
        }
    }

    fn threads(&mut self) -> Option<u64> {
        let now = Instant::now();
        match self.threads {
            Some((counted, threads)) if now.duration_since(counted) < THREADS_VALID => threads,
            _ => {
                let threads = count_threads();
                self.threads = Some((now, threads));
                threads
            }
        }
    }
}

pub(super) fn memory_bytes() -> Option<u64> {
    memory_counters().map(|memory| memory.WorkingSetSize as u64)
}

/// Returns the reason why a row is absent.
pub(super) fn why_absent(row: &str) -> String {
    let call = match row {
        "memory_mb" | "page_faults" => "K32GetProcessMemoryInfo",
        "cpu_pct" => "GetProcessTimes",
        "threads" => "CreateToolhelp32Snapshot",
        "disk_read_MB" | "disk_write_MB" => "GetProcessIoCounters",
        _ => return "Windows does not report it".to_owned(),
    };
    format!("the system refuses {call}")
}

fn memory_counters() -> Option<PROCESS_MEMORY_COUNTERS> {
    let cb = u32::try_from(mem::size_of::<PROCESS_MEMORY_COUNTERS>()).ok()?;
    let mut counters = PROCESS_MEMORY_COUNTERS {
        cb,
        ..PROCESS_MEMORY_COUNTERS::default()
    };
    // SAFETY: the handle is the pseudo handle of this process, which is always valid. The pointer
    // is to `cb` bytes of this stack frame, which the call may write and does not keep.
    let done = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, cb) };
    (done != 0).then_some(counters)
}

fn io_counters() -> Option<IO_COUNTERS> {
    let mut counters = IO_COUNTERS::default();
    // SAFETY: the handle is the pseudo handle of this process, which is always valid. The pointer
    // is to an `IO_COUNTERS` of this stack frame, which the call may write and does not keep.
    let done = unsafe { GetProcessIoCounters(GetCurrentProcess(), &raw mut counters) };
    (done != 0).then_some(counters)
}

fn cpu_time_ns() -> Option<u64> {
    let [mut created, mut exited, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: the handle is the pseudo handle of this process, which is always valid. The pointers
    // are to four distinct `FILETIME`s of this stack frame, which the call may write and does not
    // keep.
    let done = unsafe {
        GetProcessTimes(
            GetCurrentProcess(),
            &raw mut created,
            &raw mut exited,
            &raw mut kernel,
            &raw mut user,
        )
    };
    let units =
        |time: FILETIME| u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    (done != 0).then(|| {
        units(kernel)
            .saturating_add(units(user))
            .saturating_mul(FILETIME_NS)
    })
}

/// Returns the number of threads of this process, from a snapshot of all processes.
fn count_threads() -> Option<u64> {
    let pid = std::process::id();
    let mut entry = PROCESSENTRY32W {
        dwSize: u32::try_from(mem::size_of::<PROCESSENTRY32W>()).ok()?,
        ..PROCESSENTRY32W::default()
    };
    // SAFETY: the call takes two numbers and returns a handle that this function owns.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0) };
    if snapshot == INVALID_HANDLE_VALUE {
        return None;
    }
    // SAFETY: `snapshot` is a snapshot of processes and not closed yet. The pointer is to a
    // `PROCESSENTRY32W` of this stack frame, with its size in `dwSize`.
    let mut more = unsafe { Process32FirstW(snapshot, &raw mut entry) } != 0;
    let mut threads = None;
    while more && threads.is_none() {
        threads = (entry.th32ProcessID == pid).then_some(u64::from(entry.cntThreads));
        // SAFETY: as for the first entry.
        more = unsafe { Process32NextW(snapshot, &raw mut entry) } != 0;
    }
    // SAFETY: this function owns `snapshot`, which is not closed yet and not used after this.
    unsafe { CloseHandle(snapshot) };
    threads
}
