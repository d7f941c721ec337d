//! Reads of everything that a test of waits has recorded.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vor_capture::model::batch::{ArgValue, FlowStage, SpanBatch, TaskEventKind};
use vor_capture::reader::{Event, Reader};
use vor_recorder::drain;
use vor_recorder::setup::Config;

/// A span that was recorded.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) thread: String,
    pub(crate) name: String,
    pub(crate) start_ticks: u64,
    pub(crate) end_ticks: u64,
    pub(crate) duration_ns: u64,
    pub(crate) args: Vec<String>,
}

/// A task that was recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedTask {
    pub(crate) name: String,
    /// The thread on which it ended.
    pub(crate) thread: String,
    pub(crate) start_ticks: u64,
    pub(crate) end_ticks: u64,
    /// Names with their times.
    pub(crate) steps: Vec<(u64, String)>,
}

impl RecordedTask {
    /// Returns the names of the steps, by their time. Threads record them in any order.
    #[cfg(feature = "tokio")]
    pub(crate) fn steps(&self) -> Vec<&str> {
        let mut steps: Vec<_> = self.steps.iter().collect();
        steps.sort_by_key(|(ticks, _)| *ticks);
        steps.iter().map(|(_, name)| name.as_str()).collect()
    }
}

/// A point of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) ticks: u64,
    pub(crate) stage: FlowStage,
}

/// Everything that was recorded.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) spans: Vec<Recorded>,
    /// By their ids.
    pub(crate) tasks: HashMap<u64, RecordedTask>,
    pub(crate) flows: HashMap<u64, Vec<(String, Point)>>,
    pub(crate) dropped: u64,
}

impl Recording {
    /// Fails unless nothing was recorded and nothing dropped.
    pub(crate) fn assert_empty(&self) {
        assert!(self.spans.is_empty() && self.dropped == 0, "{self:?}");
    }

    pub(crate) fn add(&mut self, batch: &SpanBatch) {
        let catalog = &batch.catalog;
        for thread in &batch.threads {
            let name = &catalog.thread(thread.thread).unwrap().name;
            let first = self.spans.len();
            for at in 0..thread.len() {
                let start_ticks = thread.start_ticks[at];
                let duration_ticks = thread.duration_ticks[at];
                self.spans.push(Recorded {
                    thread: name.clone(),
                    name: catalog.site_name(thread.sites[at]).to_owned(),
                    start_ticks,
                    end_ticks: start_ticks + duration_ticks,
                    duration_ns: catalog.timeline.duration_ns(start_ticks, duration_ticks),
                    args: Vec::new(),
                });
            }
            for args in &thread.args {
                let texts = args.values.iter().map(|value| match value {
                    ArgValue::Str(text) => text.to_string(),
                    value => format!("{value:?}"),
                });
                self.spans[first + args.span as usize].args = texts.collect();
            }
            for span in &thread.async_spans {
                let task = self.tasks.entry(span.id).or_default();
                task.name = catalog.site_name(span.site).to_owned();
                task.thread.clone_from(name);
                task.start_ticks = span.start_ticks;
                task.end_ticks = span.start_ticks + span.duration_ticks;
            }
            for event in &thread.task_events {
                if event.kind == TaskEventKind::Step {
                    let name = catalog.site_name(event.site).to_owned();
                    let task = self.tasks.entry(event.task).or_default();
                    task.steps.push((event.start_ticks, name));
                }
            }
            for flow in &thread.flows {
                let point = Point {
                    ticks: flow.ticks,
                    stage: flow.stage,
                };
                let points = self.flows.entry(flow.flow).or_default();
                points.push((name.clone(), point));
            }
            self.dropped += thread.dropped_spans;
        }
    }

    pub(crate) fn waits(&self) -> impl Iterator<Item = &Recorded> {
        let is_wait = |span: &&Recorded| span.name.starts_with("wait: ");
        self.spans.iter().filter(is_wait)
    }

    /// Returns the tasks that have ended, by their start.
    #[cfg(any(feature = "parking_lot", feature = "tokio"))]
    pub(crate) fn ended_tasks(&self) -> Vec<&RecordedTask> {
        let mut tasks: Vec<_> = self.tasks.values().collect();
        tasks.retain(|task| !task.name.is_empty());
        tasks.sort_by_key(|task| task.start_ticks);
        tasks
    }

    /// Returns the spans of a thread except waits, by their start.
    pub(crate) fn scopes_of(&self, thread: &str) -> Vec<&Recorded> {
        let is_scope = |span: &&Recorded| span.thread == thread && !span.name.starts_with("wait: ");
        let mut scopes: Vec<_> = self.spans.iter().filter(is_scope).collect();
        scopes.sort_by_key(|span| span.start_ticks);
        scopes
    }
}

/// Returns the names of the innermost scopes around the begin and each end of each flow, in order
/// of the begins.
#[cfg(any(feature = "tokio", all(feature = "crossbeam", feature = "flume")))]
pub(crate) fn arrows(recording: &Recording) -> Vec<(String, String)> {
    arrows_to(recording, FlowStage::End)
}

/// Does the same for the points of a stage instead of the ends.
#[cfg(any(feature = "tokio", all(feature = "crossbeam", feature = "flume")))]
pub(crate) fn arrows_to(recording: &Recording, stage: FlowStage) -> Vec<(String, String)> {
    let scope_at = |(thread, point): &(String, Point)| {
        let is_around = |span: &&Recorded| {
            span.thread == *thread && (span.start_ticks..=span.end_ticks).contains(&point.ticks)
        };
        let around = recording.spans.iter().filter(is_around);
        let innermost = around.max_by_key(|span| span.start_ticks)?;
        Some(innermost.name.clone())
    };
    let mut flows: Vec<_> = recording.flows.values().cloned().collect();
    for points in &mut flows {
        points.sort_by_key(|(_, point)| point.ticks);
    }
    flows.sort_by_key(|points| points[0].1.ticks);
    let mut arrows = Vec::new();
    for points in &flows {
        let of = |stage| points.iter().filter(move |(_, point)| point.stage == stage);
        let begin = of(FlowStage::Begin).next().and_then(scope_at);
        let ends = of(stage).filter_map(scope_at);
        arrows.extend(
            begin
                .into_iter()
                .flat_map(|begin| ends.clone().map(move |end| (begin.clone(), end))),
        );
    }
    arrows
}

/// Numbers that look random and follow from the seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }
}

/// The least time for which a scripted wait lasts.
pub(crate) const LENGTH: Duration = Duration::from_millis(40);

/// Returns [`LENGTH`] after all other threads of this process have begun to wait.
pub(crate) fn let_others_wait() {
    let mut still = 0;
    while cfg!(target_os = "linux") && still < 2 {
        still = if do_others_sleep() { still + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(LENGTH);
}

fn do_others_sleep() -> bool {
    let own = std::fs::read_link("/proc/thread-self").unwrap();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let mut others = tasks.map(|task| task.unwrap().path());
    others.all(|task| {
        // A thread that has ended meanwhile does not wait for anything.
        let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
        let state = stat
            .rsplit_once(')')
            .map_or("", |(_, state)| state.trim_start());
        own.file_name() == task.file_name() || state.is_empty() || state.starts_with('S')
    })
}

/// Checks that a scripted wait has lasted for [`LENGTH`], and not much longer than a busy machine
/// keeps a thread off its cores.
pub(crate) fn assert_length(wait: &Recorded) {
    let length = Duration::from_nanos(wait.duration_ns);
    let least = if cfg!(target_os = "linux") {
        LENGTH * 99 / 100
    } else {
        LENGTH / 2
    };
    assert!((least..LENGTH * 50).contains(&length), "{wait:?}");
}

/// Starts a recording of a process with this configuration.
pub(crate) fn start(config: Config) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    config.capture(&path).enable();
    (folder, path)
}

pub(crate) fn read(path: &Path) -> Recording {
    drain::frame_mark();
    drain::flush();
    let mut recording = Recording::default();
    let mut reader = Reader::open(path).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Batch(batch) = event {
            recording.add(&batch);
        }
    }
    recording
}

pub(crate) fn named<R: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> R + Send + 'static,
) -> std::thread::JoinHandle<R> {
    let builder = std::thread::Builder::new().name(name.into());
    builder.spawn(work).unwrap()
}
