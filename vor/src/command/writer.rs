//! Whether the process that writes a capture still lives, as far as that can be known: it runs on
//! this machine, and the system lists its processes.
//!
//! A capture names its process and its machine. A process that is not there any more cannot write;
//! one of the same number that began after the recording is another one. Any process that has the
//! file open for writing counts as its writer, whoever that is.

use std::path::Path;

use vor_capture::model::catalog::Catalog;

/// What is known of a capture's writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// It lives, or nobody can tell.
    MayLive,
    /// It ended without closing the capture; in words for a message.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only Linux lists processes like files")
    )]
    Gone(String),
}

/// Looks for the process that writes the capture at `path`, which says `catalog` of itself.
#[cfg(target_os = "linux")]
pub(crate) fn find(path: &Path, catalog: &Catalog) -> Writer {
    let (process, machine) = (&catalog.process, &catalog.machine);
    let text = |path: &str| {
        std::fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let is_here = !machine.host.is_empty() && machine.host == text("/proc/sys/kernel/hostname");
    let boot_id = text("/proc/sys/kernel/random/boot_id");
    if process.pid == 0 || !is_here || machine.boot_id.is_empty() || boot_id.is_empty() {
        return Writer::MayLive;
    }
    let is_same_start = machine.boot_id == boot_id;
    let recorded_ns = machine.clocks.map(|clocks| clocks.boottime_ns);
    let lives = is_same_start
        && match (linux::start_ns(process.pid), recorded_ns) {
            (Some(start_ns), Some(recorded_ns)) => start_ns <= recorded_ns,
            (start_ns, _) => start_ns.is_some(),
        };
    if lives || linux::is_open_for_writing(path) {
        return Writer::MayLive;
    }
    Writer::Gone(match process.name.as_str() {
        "" => format!("process {}", process.pid),
        name => format!("process {} ({name})", process.pid),
    })
}

/// Other systems have no list of processes that is read like files.
#[cfg(not(target_os = "linux"))]
pub(crate) fn find(_: &Path, _: &Catalog) -> Writer {
    Writer::MayLive
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::{self, Metadata};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// Length of the unit in which the system gives the start of a process. It is the same on all
    /// architectures that Linux runs on today.
    const UNIT_NS: i64 = 10_000_000;

    /// Returns when a process began, in nanoseconds since the machine was started; `None` when it
    /// is not there or has ended.
    pub(super) fn start_ns(pid: u32) -> Option<i64> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of the program stands in brackets, and may hold anything.
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let state = fields.next()?;
        // A zombie has ended, and waits for its parent to ask how.
        let has_ended = matches!(state, "Z" | "X" | "x");
        let start: i64 = fields.nth(18)?.parse().ok()?;
        (!has_ended).then_some(start.saturating_mul(UNIT_NS))
    }

    /// Returns whether a process that can be looked into has the file open for writing.
    pub(super) fn is_open_for_writing(path: &Path) -> bool {
        let Ok(file) = fs::metadata(path) else {
            return false;
        };
        let is_it = |found: Metadata| (found.dev(), found.ino()) == (file.dev(), file.ino());
        let numbers = |path: &Path| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name());
            names.filter_map(|name| name.to_str()?.parse::<u32>().ok())
        };
        numbers(Path::new("/proc")).any(|pid| {
            let process = Path::new("/proc").join(pid.to_string());
            numbers(&process.join("fd")).any(|descriptor| {
                let descriptor = descriptor.to_string();
                let info = || fs::read_to_string(process.join("fdinfo").join(&descriptor));
                fs::metadata(process.join("fd").join(&descriptor)).is_ok_and(is_it)
                    && info().is_ok_and(|info| is_writable(&info))
            })
        })
    }

    /// Returns whether a descriptor can be written to, by what the system says of it.
    fn is_writable(info: &str) -> bool {
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        // The last two bits are the mode: 0 is for reading only.
        flags.is_some_and(|flags| flags & 3 != 0)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn this_process_began_and_no_process_0_did() {
            assert!(start_ns(std::process::id()).is_some_and(|ns| ns > 0));
            assert_eq!(start_ns(0), None);
        }

        #[test]
        fn who_writes_a_file_has_it_open_for_writing() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            let file = fs::File::create(&path).unwrap();
            assert!(is_open_for_writing(&path));
            drop(file);
            let _reader = fs::File::open(&path).unwrap();
            assert!(!is_open_for_writing(&path));
        }
    }
}
