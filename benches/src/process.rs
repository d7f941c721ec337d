//! The system's values of this process and its children, read from `/proc`.
//!
//! Every function returns `None` if there is no such file; the benches then skip the value.

use std::fs;
use std::path::Path;

/// Returns the peak of resident memory, in KiB.
#[must_use]
pub fn peak_resident_kib() -> Option<u64> {
    status_number("/proc/self/status", "VmHWM:")
}

/// Returns the peak of another process's resident memory, in KiB.
#[must_use]
pub fn peak_resident_kib_of(pid: u32) -> Option<u64> {
    status_number(format!("/proc/{pid}/status"), "VmHWM:")
}

/// Returns the resident memory, in KiB.
#[must_use]
pub fn resident_kib() -> Option<u64> {
    status_number("/proc/self/status", "VmRSS:")
}

/// Returns the CPU time of all children that have ended and were waited for, in nanoseconds, with a
/// resolution of 10 ms.
#[must_use]
pub fn children_cpu_ns() -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold any character; the third field follows it. Fields 16 and 17
    // are cutime and cstime, in units that Linux fixes at a hundredth of a second for this file.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let hundredths: u64 =
        fields.get(13)?.parse::<u64>().ok()? + fields.get(14)?.parse::<u64>().ok()?;
    Some(hundredths * 10_000_000)
}

/// Returns the number of voluntary context switches of the threads named `name`.
#[must_use]
pub fn sleeps_of(name: &str) -> Option<u64> {
    let mut sleeps = 0;
    for task in fs::read_dir("/proc/self/task").ok()? {
        let path = task.ok()?.path();
        if fs::read_to_string(path.join("comm")).ok()?.trim_end() == name {
            sleeps += status_number(path.join("status"), "voluntary_ctxt_switches:")?;
        }
    }
    Some(sleeps)
}

fn status_number(path: impl AsRef<Path>, key: &str) -> Option<u64> {
    let status = fs::read_to_string(path).ok()?;
    let line = status.lines().find(|line| line.starts_with(key))?;
    line[key.len()..].split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The system counts per core and adds up late, so both values are off by some hundred KiB.
    #[test]
    fn the_peak_includes_memory_that_is_no_longer_resident() {
        const KIB: u64 = 64 << 10;
        let before = resident_kib().unwrap();
        let block = vec![1_u8; (KIB << 10) as usize];
        let during = resident_kib().unwrap();
        drop(std::hint::black_box(block));
        let after = resident_kib().unwrap();
        assert!(before > 0 && during > before + KIB * 3 / 4 && after < during - KIB * 3 / 4);
        assert!(peak_resident_kib().unwrap() > before + KIB * 3 / 4);
    }

    #[test]
    fn a_child_that_worked_is_charged() {
        let before = children_cpu_ns().unwrap();
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(
            std::process::Command::new("sh")
                .args(["-c", busy])
                .status()
                .unwrap()
                .success()
        );
        assert!(children_cpu_ns().unwrap() > before);
    }
}
