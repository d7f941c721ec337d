//! Shared code of the torture tests: children with a folder, and summaries of captures.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![allow(dead_code, reason = "some features use only a part of it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::reader::{Capture, Event, Reader};
pub use vor_fixtures::process::{role, run, vor_lines};
#[cfg(target_os = "linux")]
use vor_fixtures::skip::skip;

/// Names the folder that parent and child share.
const FOLDER: &str = "VOR_TORTURE_FOLDER";

/// Returns the folder that the parent gave this child.
pub fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os(FOLDER).expect("a child has a folder"))
}

/// Returns the command that runs a test of this program in a child with a role.
pub fn child(test: &str, role: &str, folder: &Path) -> Command {
    let mut command = vor_fixtures::process::child(test, role);
    command.env(FOLDER, folder);
    command
}

/// Runs a child whose folder has a disk of its own, `disk`: a file system in memory, in a name
/// space that ends with the child. Returns nothing, and says so, if this system allows no name
/// spaces.
#[cfg(target_os = "linux")]
pub fn on_small_disk(inside: Command, folder: &Path, bytes: usize) -> Option<Output> {
    let disk = folder.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let name_space = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        command
    };
    let mount = format!("mount -t tmpfs -o size={bytes} none {}", disk.display());
    let allowed = name_space(&mount).output();
    if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
        skip("a full disk", "this system allows no name spaces");
        return None;
    }
    let mut command = name_space(&format!("{mount} && exec \"$0\" \"$@\""));
    command.arg(inside.get_program()).args(inside.get_args());
    for (name, value) in inside.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Some(command.output().unwrap())
}

/// The contents of a capture.
#[derive(Debug, Default)]
pub struct Summary {
    /// Spans by the name of their site, as (thread, start, duration), in the order of the file.
    pub spans: BTreeMap<String, Vec<(u32, u64, u64)>>,
    /// Texts of messages.
    pub messages: Vec<String>,
    /// Frames of the main set, each with the spans read before it: (thread, end).
    pub frames: Vec<(FrameSnapshot, Vec<(u32, u64)>)>,
    /// Frames of other sets.
    pub other_frames: Vec<FrameSnapshot>,
    /// Dropped spans according to the batches.
    pub dropped_in_batches: u64,
    /// Spans after the last frame.
    pub trailing: usize,
    /// Damage, including a torn end.
    pub damage: Vec<String>,
    /// Whether the file was closed in order.
    pub closed: bool,
    /// Number of open scopes recorded at the close.
    pub open_at_close: usize,
    /// The batches themselves, for tests that check details.
    pub batches: Vec<Vec<ThreadBatch>>,
}

impl Summary {
    pub fn count(&self, name: &str) -> usize {
        self.spans.get(name).map_or(0, Vec::len)
    }

    pub fn dropped_in_frames(&self) -> u64 {
        self.frames
            .iter()
            .map(|(frame, _)| frame.dropped_spans)
            .sum()
    }
}

/// Reads a whole capture.
pub fn read(path: &Path) -> Summary {
    let mut summary = Summary::default();
    let mut reader = Reader::open(path).expect("the capture opens");
    let mut since_frame = Vec::new();
    while let Some(event) = reader.next_event().expect("the file can be read") {
        match event {
            Event::Batch(batch) => {
                for thread in &batch.threads {
                    summary.dropped_in_batches += thread.dropped_spans;
                    summary.messages.extend(
                        thread
                            .messages
                            .iter()
                            .map(|message| message.text.to_string()),
                    );
                    for i in 0..thread.len() {
                        let name = batch.catalog.site_name(thread.sites[i]).to_owned();
                        let span = (
                            thread.thread.0,
                            thread.start_ticks[i],
                            thread.duration_ticks[i],
                        );
                        summary.spans.entry(name).or_default().push(span);
                        since_frame.push((thread.thread.0, thread.end_ticks(i)));
                    }
                }
                summary.batches.push(batch.threads);
            }
            Event::Frame(recovered) => {
                let frame = (*recovered.frame).clone();
                if frame.frame_set == 0 {
                    summary
                        .frames
                        .push((frame, std::mem::take(&mut since_frame)));
                } else {
                    summary.other_frames.push(frame);
                }
            }
            Event::OpenScopes(open) => {
                summary.open_at_close = open.threads.iter().map(|(_, open)| open.len()).sum()
            }
            _ => {}
        }
    }
    summary.trailing = since_frame.len();
    let damage = reader.damage();
    summary.damage = damage
        .losses
        .iter()
        .chain(&damage.tail)
        .map(|loss| loss.reason.clone())
        .collect();
    summary.closed = Capture::open(path)
        .expect("the capture opens")
        .info()
        .closed;
    summary
}

/// Returns the captures in a folder, by name.
pub fn captures(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut found: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "vor"));
    found.sort();
    found
}
