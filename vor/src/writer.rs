//! Finds out whether the process that writes a capture still runs. The answer is known on Linux, if
//! the process runs on this machine.
//!
//! A capture names its process and its machine. A process that has ended cannot write, and a
//! process with the same number that started after the recording is another one. Any process that
//! has the file open for writing counts as its writer.

use std::path::Path;

use vor_capture::model::catalog::Catalog;

/// The state of the process that writes a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// It runs, or its state is unknown.
    MayRun,
    /// It ended without closing the capture; holds its description for a message.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only Linux lists processes like files")
    )]
    Gone(String),
}

/// Looks for the process that writes the capture at `path`, whose catalog is `catalog`.
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
        return Writer::MayRun;
    }
    let is_same_boot = machine.boot_id == boot_id;
    let recorded_ns = machine.clocks.map(|clocks| clocks.boottime_ns);
    let is_running = is_same_boot
        && match (linux::start_ns(process.pid), recorded_ns) {
            (Some(start_ns), Some(recorded_ns)) => start_ns <= recorded_ns,
            (start_ns, _) => start_ns.is_some(),
        };
    if is_running || linux::is_open_for_writing(path) {
        return Writer::MayRun;
    }
    Writer::Gone(match process.name.as_str() {
        "" => format!("process {}", process.pid),
        name => format!("process {} ({name})", process.pid),
    })
}

/// Only Linux lists its processes as files.
#[cfg(not(target_os = "linux"))]
pub(crate) fn find(_: &Path, _: &Catalog) -> Writer {
    Writer::MayRun
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::{self, Metadata};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// The unit of process start times in `/proc`, which is the same on all architectures.
    const CLOCK_TICK_NS: i64 = 10_000_000;

    /// Returns the start of a process, in nanoseconds since boot; `None` if it does not exist or
    /// has ended.
    pub(super) fn start_ns(pid: u32) -> Option<i64> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of the program is in parentheses and may contain any character.
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let state = fields.next()?;
        // A zombie has ended; its parent has not read its exit code yet.
        let has_ended = matches!(state, "Z" | "X" | "x");
        let start: i64 = fields.nth(18)?.parse().ok()?;
        (!has_ended).then_some(start.saturating_mul(CLOCK_TICK_NS))
    }

    /// Returns whether a process has the file open for writing, among those that may be inspected.
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

    /// Returns whether a descriptor is writable, from its `fdinfo`.
    fn is_writable(info: &str) -> bool {
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        // The last two bits are the access mode; 0 is read-only.
        flags.is_some_and(|flags| flags & 3 != 0)
    }

    #[cfg(test)]
    mod tests {
        use std::time::Duration;

        use super::*;

        #[test]
        fn this_process_has_a_start_and_process_0_has_none() {
            // The 22nd field, in hundredths of a second.
            let stat = fs::read_to_string("/proc/self/stat").unwrap();
            let after_name = stat.rsplit(')').next().unwrap();
            let start: i64 = after_name
                .split_whitespace()
                .nth(19)
                .unwrap()
                .parse()
                .unwrap();
            assert!(start > 0);
            assert_eq!(start_ns(std::process::id()), Some(start * 10_000_000));
            assert_eq!(start_ns(0), None);
        }

        #[test]
        fn the_flags_of_a_descriptor_say_whether_it_is_writable() {
            for (flags, expected) in [
                ("0100000", false),
                ("0100001", true),
                ("0100002", true),
                ("02004", false),
                ("02105", true),
                ("8", false),
                ("", false),
            ] {
                let info = format!("pos:\t3\nflags:\t{flags}\nmnt_id:\t33\n");
                assert_eq!(is_writable(&info), expected, "{flags}");
            }
            assert!(!is_writable("pos:\t1\n"));
        }

        #[test]
        fn a_file_open_for_writing_is_found() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            let file = fs::File::create(&path).unwrap();
            assert!(is_open_for_writing(&path));
            drop(file);
            let _reader = fs::File::open(&path).unwrap();
            // A child that another test starts has the descriptor until it executes its program.
            let is_closed = (0..1000).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                !is_open_for_writing(&path)
            });
            assert!(is_closed);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::{self, File};
    use std::process::Command;
    use std::sync::Arc;

    use vor_capture::filled;
    use vor_capture::model::catalog::{MachineInfo, ProcessInfo};
    use vor_capture::model::timeline::ClockSnapshot;

    use super::*;

    #[test]
    fn a_writer_is_gone_if_no_process_of_this_boot_is_it_or_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, open) = (folder.path().join("closed"), folder.path().join("open"));
        fs::write(&path, "").unwrap();
        let _file = File::create(&open).unwrap();
        let read = |path| fs::read_to_string(path).unwrap().trim().to_owned();
        let here = read("/proc/sys/kernel/hostname");
        let boot = read("/proc/sys/kernel/random/boot_id");
        // Until it is waited for, no process gets its number.
        let mut child = Command::new("true").spawn().unwrap();
        let (own, ended) = (std::process::id(), child.id());
        while linux::start_ns(ended).is_some() {
            std::thread::yield_now();
        }
        let start_ns = linux::start_ns(own).unwrap();

        let state = |path, pid, host: &str, boot_id: &str, recorded_ns: Option<i64>| {
            let clocks = recorded_ns.map(|boottime_ns| filled!(ClockSnapshot { boottime_ns }));
            let catalog = filled!(Catalog {
                process: Arc::new(filled!(ProcessInfo {
                    pid,
                    name: "app".into()
                })),
                machine: Arc::new(filled!(MachineInfo {
                    host: host.into(),
                    boot_id: boot_id.into(),
                    clocks,
                })),
            });
            match find(path, &catalog) {
                Writer::MayRun => String::new(),
                Writer::Gone(who) => who,
            }
        };
        let now = Some(start_ns + 1);
        let gone = format!("process {ended} (app)");
        assert_eq!(state(&path, ended, &here, &boot, now), gone);
        assert_eq!(state(&path, ended, &here, &boot, None), gone);
        // It may run, or nobody knows.
        assert_eq!(state(&open, ended, &here, &boot, now), "");
        assert_eq!(state(&path, 0, &here, &boot, now), "");
        assert_eq!(state(&path, ended, "elsewhere", &boot, now), "");
        assert_eq!(state(&path, ended, "", &boot, now), "");
        assert_eq!(state(&path, ended, &here, "", now), "");
        assert_eq!(state(&path, own, &here, &boot, now), "");
        assert_eq!(state(&path, own, &here, &boot, None), "");
        assert_eq!(state(&path, own, &here, &boot, Some(start_ns)), "");
        // Another process with the same number recorded before this one started.
        let gone = format!("process {own} (app)");
        assert_eq!(state(&path, own, &here, &boot, Some(start_ns - 1)), gone);
        assert_eq!(state(&path, own, &here, "another boot", now), gone);

        let catalog = filled!(Catalog {
            process: Arc::new(filled!(ProcessInfo { pid: ended })),
            machine: Arc::new(filled!(MachineInfo {
                host: here,
                boot_id: boot,
            })),
        });
        let gone = Writer::Gone(format!("process {ended}"));
        assert_eq!(find(&path, &catalog), gone);
        child.wait().unwrap();
    }
}
