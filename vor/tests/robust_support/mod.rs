//! What the torture tests share: children that are this same test binary run again, and captures
//! summed up.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![expect(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::reader::{Capture, Event, Reader};

/// Names the part that a child plays.
const ROLE: &str = "VOR_TORTURE_ROLE";
/// Names the folder that parent and child share.
const FOLDER: &str = "VOR_TORTURE_FOLDER";

/// Returns the part this process has to play, `None` in the parent.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Returns the folder that the parent gave this child.
pub fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os(FOLDER).expect("a child has a folder"))
}

/// Makes the command that runs `test` of this binary again as a child with a part to play.
/// Variables of vor are not inherited.
pub fn child(test: &str, role: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("VOR_") {
            command.env_remove(name);
        }
    }
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command
        .env(ROLE, role)
        .env(FOLDER, folder)
        .env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null());
    command
}

/// Runs a child to its end; `VOR_…` lines of stderr are what the caller usually looks at.
pub fn run(command: &mut Command) -> Output {
    command.output().expect("a child can be started")
}

/// Runs a child that may hang, which is a failure: by then it is killed.
pub fn run_to_its_end(command: &mut Command) -> Output {
    const LONG: Duration = Duration::from_secs(120);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("a child can be started");
    let pid = child.id().to_string();
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    is_done.recv_timeout(LONG).map_or_else(
        |_| {
            // It is a child that nobody has waited for, so the number is still its own.
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
            panic!("the child has not ended after {LONG:?}");
        },
        |output| output.expect("a child can be waited for"),
    )
}

/// Returns the lines that vor itself wrote to stderr.
pub fn vor_lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines()
        .filter(|line| line.starts_with("vor: "))
        .map(str::to_owned)
        .collect()
}

/// What a capture holds.
#[derive(Debug, Default)]
pub struct Summary {
    /// Spans by the name of their site, as (thread, start, duration), in the order of the file.
    pub spans: BTreeMap<String, Vec<(u32, u64, u64)>>,
    /// Texts of messages.
    pub messages: Vec<String>,
    /// Frames of the main set, each with the spans found before it: (thread, end).
    pub frames: Vec<(FrameSnapshot, Vec<(u32, u64)>)>,
    /// Frames of other sets.
    pub other_frames: Vec<FrameSnapshot>,
    /// Spans dropped, as the batches say.
    pub dropped_in_batches: u64,
    /// Spans after the last frame.
    pub trailing: usize,
    /// Losses, the tail included.
    pub damage: Vec<String>,
    /// Whether the file was ended in order.
    pub closed: bool,
    /// Number of open scopes that the close noted.
    pub open_at_close: usize,
    /// Batches as they are, for tests that look closer.
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
