//! Linux: files of `/proc/self`, which stay open and are read from the beginning for each sample.
//!
//! `/proc/self/stat` is one line, `pid (name) state ...`. The name may contain spaces and
//! parentheses, so fields are counted from the last `)`. `/proc/self/io` has a `key: value` per
//! line. It may be missing, or unreadable for a process that changed its user.
//!
//! An open file of `/proc/self` belongs to the process that opened it. After `fork` the child would
//! still read its parent's numbers. So a sampler stores its process and reopens the files in
//! another one.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::{ProcessSample, unix};

/// Longer than a line of `stat` (52 numbers of at most 20 digits, and a name) and than the seven
/// lines of `io`.
const MAX_FILE_BYTES: usize = 2_048;

/// Indices of fields of `stat`, from 0 for the one after the name.
const STAT_THREADS: usize = 17;
const STAT_RESIDENT_PAGES: usize = 21;

#[derive(Debug)]
pub(super) struct Sampler {
    pid: u32,
    page_bytes: Option<u64>,
    stat: Option<File>,
    io: Option<File>,
}

impl Sampler {
    pub(super) fn new() -> Self {
        Self {
            pid: std::process::id(),
            page_bytes: unix::page_bytes(),
            stat: File::open("/proc/self/stat").ok(),
            io: File::open("/proc/self/io").ok(),
        }
    }

    pub(super) fn sample(&mut self) -> ProcessSample {
        if self.pid != std::process::id() {
            *self = Self::new();
        }
        let mut sample = ProcessSample::default();
        unix::fill(&mut sample);
        let mut buffer = [0; MAX_FILE_BYTES];
        if let Some(line) = read(self.stat.as_ref(), &mut buffer) {
            sample.threads = stat_field(line, STAT_THREADS);
            sample.memory_bytes = resident_bytes(line, self.page_bytes);
        }
        if let Some(lines) = read(self.io.as_ref(), &mut buffer) {
            sample.disk_read_bytes = io_value(lines, b"read_bytes: ");
            sample.disk_write_bytes = io_value(lines, b"write_bytes: ");
        }
        sample
    }
}

pub(super) fn memory_bytes() -> Option<u64> {
    let stat = File::open("/proc/self/stat").ok();
    let mut buffer = [0; MAX_FILE_BYTES];
    let line = read(stat.as_ref(), &mut buffer)?;
    resident_bytes(line, unix::page_bytes())
}

/// Returns the reason why a row is absent.
pub(super) fn why_absent(row: &str) -> String {
    let path = match row {
        "memory_mb" | "threads" => "/proc/self/stat",
        "disk_read_MB" | "disk_write_MB" => "/proc/self/io",
        _ => return "the system refuses it".to_owned(),
    };
    match std::fs::read(path) {
        Ok(_) => format!("{path} does not report it"),
        Err(error) => format!("{path}: {error}"),
    }
}

/// Reads a file from its beginning, up to the size of the buffer.
fn read<'a>(file: Option<&File>, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let len = file?.read_at(buffer, 0).ok()?;
    buffer.get(..len)
}

fn resident_bytes(line: &[u8], page_bytes: Option<u64>) -> Option<u64> {
    stat_field(line, STAT_RESIDENT_PAGES)?.checked_mul(page_bytes?)
}

/// Returns a field of a line of `stat` as a number, by its index after the name.
fn stat_field(line: &[u8], index: usize) -> Option<u64> {
    let name_end = line.iter().rposition(|&byte| byte == b')')?;
    let fields = line.get(name_end + 2..)?;
    number(fields.split(|&byte| byte == b' ').nth(index)?)
}

/// Returns the value of a line that begins with `key`.
fn io_value(lines: &[u8], key: &[u8]) -> Option<u64> {
    let mut lines = lines.split(|&byte| byte == b'\n');
    number(lines.find_map(|line| line.strip_prefix(key))?)
}

/// Parses a decimal number.
fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &[u8] =
        b"4242 (a) b (c) S 1 4242 4242 0 -1 4194304 1077 0 3 0 25 7 0 0 20 0 9 0 631832 \
        3133440 390 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        assert_eq!(stat_field(STAT, STAT_THREADS), Some(9));
        assert_eq!(resident_bytes(STAT, Some(4_096)), Some(390 * 4_096));
    }

    #[test]
    fn a_field_that_is_missing_or_not_a_number_is_none() {
        assert_eq!(stat_field(b"", STAT_THREADS), None);
        assert_eq!(stat_field(b"1 (x", STAT_THREADS), None);
        assert_eq!(stat_field(b"1 (x)", STAT_THREADS), None);
        assert_eq!(stat_field(STAT, 400), None);
        assert_eq!(stat_field(STAT, 0), None, "the state is a letter");
        assert_eq!(resident_bytes(STAT, None), None);
        assert_eq!(resident_bytes(STAT, Some(u64::MAX)), None);
    }

    #[test]
    fn cancelled_writes_are_not_writes() {
        let lines =
            b"rchar: 6\nwchar: 7\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 11\n";
        assert_eq!(io_value(lines, b"read_bytes: "), Some(4_096));
        assert_eq!(io_value(lines, b"write_bytes: "), Some(8_192));
        assert_eq!(io_value(b"rchar: 6\n", b"read_bytes: "), None);
        assert_eq!(io_value(b"read_bytes: many\n", b"read_bytes: "), None);
    }

    #[test]
    #[expect(unsafe_code, reason = "fork has no safe wrapper")]
    fn a_forked_child_reports_on_itself() {
        let mut sampler = Sampler::new();
        // This process has at least two threads; a child of `fork` has one.
        let other = std::thread::spawn(std::thread::park);
        assert!(sampler.sample().threads >= Some(2));
        // SAFETY: The child calls nothing that needs a lock another thread may hold: it reads files
        // without allocating, and ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let threads = sampler.sample().threads;
            let status = threads
                .and_then(|threads| libc::c_int::try_from(threads).ok())
                .unwrap_or(0);
            // SAFETY: `_exit` ends the child immediately and runs no code of ours.
            unsafe { libc::_exit(status) };
        }
        assert!(child > 0, "fork failed");
        let mut status = 0;
        // SAFETY: the pointer is to an integer of this stack frame, which the call may write and
        // does not keep.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        other.thread().unpark();
        assert!(other.join().is_ok());
        assert_eq!(waited, child);
        assert_eq!(
            (libc::WIFEXITED(status), libc::WEXITSTATUS(status)),
            (true, 1)
        );
    }
}
