//! The tracefs instance of this process: `/sys/kernel/tracing/instances/vor-PID`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use vor_capture::sort::sort_by;

/// The mount points of tracefs, the usual one first.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The namespace of process numbers of the whole machine (`PROC_PID_INIT_INO` in the kernel's
/// source). In another one, threads have other numbers than in events.
const WHOLE_MACHINE: &str = "pid:[4026531836]";
/// Memory of the kernel for each processor: about 3600 switches.
const BUFFER_KIB: u32 = 256;
/// Times that the list of threads is written, so that one that began meanwhile is in it.
const MAX_LISTINGS: usize = 4;

/// The instance. Dropping it removes it, but not in a fork of the process that made it.
#[derive(Debug)]
pub(super) struct Instance {
    folder: PathBuf,
    pid: u32,
}

impl Instance {
    /// Makes the instance and lets it trace the threads of this process.
    pub(super) fn make() -> Result<Self, String> {
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        if namespace != Path::new(WHOLE_MACHINE) {
            return Err(
                "the process runs in a container, where its threads have other \
                        numbers than in the kernel's events"
                    .into(),
            );
        }
        let Some(mount) = MOUNTS
            .iter()
            .map(Path::new)
            .find(|mount| mount.join("instances").is_dir())
        else {
            return Err(format!(
                "{} is not mounted, or not readable without root; root mounts it with \
                 `mount -t tracefs tracefs {0}`",
                MOUNTS[0]
            ));
        };
        let instances = mount.join("instances");
        remove_orphans(&instances);
        let pid = std::process::id();
        let folder = instances.join(format!("vor-{pid}"));
        match fs::create_dir(&folder) {
            // Left by a process of the same number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|error| problem("make", &folder, &error))?,
        }
        let instance = Self { folder, pid };
        instance.set_up()?;
        Ok(instance)
    }

    fn set_up(&self) -> Result<(), String> {
        self.write("tracing_on", "0")?;
        self.write("trace", "")?;
        self.write("trace_clock", "x86-tsc")?;
        self.write("buffer_size_kb", &BUFFER_KIB.to_string())?;
        self.write("options/overwrite", "0")?;
        self.write("options/event-fork", "1")?;
        self.list_threads()?;
        self.write("events/sched/sched_switch/enable", "1")?;
        self.write("events/sched/sched_waking/enable", "1")?;
        self.write("events/task/task_newtask/enable", "1")?;
        self.write("tracing_on", "1")
    }

    /// Enters all threads of this process into the list. From then on the kernel adds the threads
    /// that they start.
    fn list_threads(&self) -> Result<(), String> {
        let mut listed = Vec::new();
        for _ in 0..MAX_LISTINGS {
            let tasks = fs::read_dir("/proc/self/task")
                .map_err(|error| problem("read", Path::new("/proc/self/task"), &error))?;
            let names = tasks.flatten().map(|task| task.file_name());
            let all: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
            if all.iter().all(|task| listed.contains(task)) {
                break;
            }
            self.write("set_event_pid", &all.join(" "))?;
            listed = all;
        }
        Ok(())
    }

    fn write(&self, file: &str, value: &str) -> Result<(), String> {
        let path = self.folder.join(file);
        fs::write(&path, value).map_err(|error| problem("write", &path, &error))
    }

    /// Returns the folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens the buffer of each processor, with its number.
    pub(super) fn buffers(&self) -> Result<Vec<(u32, File)>, String> {
        let folder = self.folder.join("per_cpu");
        let entries = fs::read_dir(&folder).map_err(|error| problem("read", &folder, &error))?;
        let mut buffers: Vec<(u32, File)> = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("cpu"));
            let Some(cpu) = number.and_then(|number| number.parse().ok()) else {
                continue;
            };
            let path = entry.path().join("trace_pipe_raw");
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
                .open(&path)
                .map_err(|error| problem("open", &path, &error))?;
            buffers.push((cpu, file));
        }
        sort_by(&mut buffers, |a, b| a.0.cmp(&b.0));
        Ok(buffers)
    }

    /// Returns whether another process made it, of which this one is a fork.
    pub(super) fn is_of_parent(&self) -> bool {
        self.pid != std::process::id()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if !self.is_of_parent() {
            remove(&self.folder);
        }
    }
}

/// Removes the instances of processes that ended without a chance to do so.
fn remove_orphans(instances: &Path) {
    let entries = fs::read_dir(instances).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("vor-"));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&entry.path());
        }
    }
}

/// Stops and removes an instance. One that somebody else reads stays, without events.
fn remove(folder: &Path) {
    let _ = fs::write(folder.join("tracing_on"), "0");
    let _ = fs::write(folder.join("events/enable"), "0");
    let _ = fs::remove_dir(folder);
}

fn problem(what: &str, path: &Path, error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => " (it needs root)",
        _ => "",
    };
    format!("cannot {what} {}: {error}{hint}", path.display())
}
