//! The places of fields in events, from the kernel's descriptions beside the events.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::page::PageHeader;

/// More than a description has.
const MAX_BYTES: usize = 16 << 10;

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    offset: usize,
    bytes: usize,
}

impl Field {
    pub(super) fn u16(self, data: &[u8]) -> Option<u16> {
        let bytes = data.get(self.offset..)?.first_chunk()?;
        Some(u16::from_ne_bytes(*bytes))
    }

    pub(super) fn u32(self, data: &[u8]) -> Option<u32> {
        let bytes = data.get(self.offset..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    }

    pub(super) fn i32(self, data: &[u8]) -> Option<i32> {
        self.u32(data).map(u32::cast_signed)
    }

    /// Returns the text up to its terminator.
    pub(super) fn text(self, data: &[u8]) -> Option<&[u8]> {
        let bytes = data.get(self.offset..)?.get(..self.bytes)?;
        bytes.split(|byte| *byte == 0).next()
    }
}

/// The fields of `sched_switch`.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwitchLayout {
    pub(super) id: u16,
    pub(super) prev_comm: Field,
    pub(super) prev_pid: Field,
    pub(super) prev_prio: Field,
    pub(super) prev_state: Field,
    pub(super) next_comm: Field,
    pub(super) next_pid: Field,
    pub(super) next_prio: Field,
}

/// The fields of `sched_waking`.
#[derive(Clone, Copy, Debug)]
pub(super) struct WakingLayout {
    pub(super) id: u16,
    pub(super) comm: Field,
    pub(super) pid: Field,
    pub(super) prio: Field,
    pub(super) target_cpu: Field,
}

/// The fields of `task_newtask`.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewTaskLayout {
    pub(super) id: u16,
    pub(super) pid: Field,
    pub(super) clone_flags: Field,
}

/// The fields of all events that are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layouts {
    pub(super) page_bytes: usize,
    pub(super) header: PageHeader,
    /// The id of an event, and the thread that ran when it happened; both are in every event.
    pub(super) id: Field,
    pub(super) pid: Field,
    pub(super) switch: SwitchLayout,
    pub(super) waking: WakingLayout,
    pub(super) new_task: NewTaskLayout,
}

impl Layouts {
    /// Reads the kernel's descriptions in the folder of an instance.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let events = folder.join("events");
        let page = Description::read(events.join("header_page"))?;
        let switch = Description::read(events.join("sched/sched_switch/format"))?;
        let waking = Description::read(events.join("sched/sched_waking/format"))?;
        let new_task = Description::read(events.join("task/task_newtask/format"))?;
        let data = page.field("data")?;
        Ok(Self {
            page_bytes: data.offset + data.bytes,
            header: PageHeader {
                commit_at: page.field("commit")?.offset,
                data_at: data.offset,
            },
            id: switch.field("common_type")?,
            pid: switch.field("common_pid")?,
            switch: SwitchLayout {
                id: switch.id()?,
                prev_comm: switch.field("prev_comm")?,
                prev_pid: switch.field("prev_pid")?,
                prev_prio: switch.field("prev_prio")?,
                prev_state: switch.field("prev_state")?,
                next_comm: switch.field("next_comm")?,
                next_pid: switch.field("next_pid")?,
                next_prio: switch.field("next_prio")?,
            },
            waking: WakingLayout {
                id: waking.id()?,
                comm: waking.field("comm")?,
                pid: waking.field("pid")?,
                prio: waking.field("prio")?,
                target_cpu: waking.field("target_cpu")?,
            },
            new_task: NewTaskLayout {
                id: new_task.id()?,
                pid: new_task.field("pid")?,
                clone_flags: new_task.field("clone_flags")?,
            },
        })
    }
}

/// A description of the kernel: lines such as
/// `field:pid_t prev_pid;  offset:24;  size:4;  signed:1;`.
struct Description {
    path: PathBuf,
    text: String,
}

impl Description {
    fn read(path: PathBuf) -> io::Result<Self> {
        let text = read_text(&path).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot read {}: {error}", path.display()),
            )
        })?;
        Ok(Self { path, text })
    }

    fn field(&self, name: &str) -> io::Result<Field> {
        let mut lines = self.text.lines();
        lines
            .find_map(|line| field(line, name))
            .ok_or_else(|| self.lacks(&format!("no field `{name}`")))
    }

    fn id(&self) -> io::Result<u16> {
        let line = self.text.lines().find_map(|line| line.strip_prefix("ID: "));
        line.and_then(|id| id.trim().parse().ok())
            .ok_or_else(|| self.lacks("no number"))
    }

    fn lacks(&self, what: &str) -> io::Error {
        io::Error::other(format!("{} has {what}", self.path.display()))
    }
}

/// Reads a description. The kernel returns that of the pages to one read only, however short it
/// was, and the standard library begins with a short one.
fn read_text(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut text = vec![0; MAX_BYTES];
    let mut length = 0;
    loop {
        match file.read(&mut text[length..])? {
            0 => break,
            bytes => length += bytes,
        }
    }
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

/// Returns the field in a line, if it has this name.
fn field(line: &str, name: &str) -> Option<Field> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declared = parts.next()?.strip_prefix("field:")?;
    let last = declared.rsplit(' ').next()?;
    if last.split('[').next()? != name {
        return None;
    }
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse().ok();
    Some(Field {
        offset: number("offset:")?,
        bytes: number("size:")?,
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_names() {
        let line = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;";
        let comm = Field {
            offset: 8,
            bytes: 16,
        };
        assert_eq!(field(line, "prev_comm"), Some(comm));
        assert_eq!(field(line, "comm"), None);
        let line = "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;";
        let pid = Field {
            offset: 24,
            bytes: 4,
        };
        assert_eq!(field(line, "prev_pid"), Some(pid));
        assert_eq!(field("name: sched_switch", "sched_switch"), None);
    }

    #[test]
    fn a_field_beyond_the_data_has_no_value() {
        let field = Field {
            offset: 2,
            bytes: 4,
        };
        assert_eq!(field.u16(&[1, 0, 2, 0]), Some(2));
        assert_eq!((field.u32(&[0; 5]), field.text(&[0; 5])), (None, None));
        assert_eq!(field.text(b"..ab\0\0"), Some(&b"ab"[..]));
    }
}
