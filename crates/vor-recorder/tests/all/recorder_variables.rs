//! The effects of environment variables on a recording. Each case runs in a process that reads them
//! with [`Config::from_env`].

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::measured::SpanSink;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::model::measures::Measures;
use vor_capture::reader::Reader;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::process::{child, role, run_to_success};
use vor_fixtures::test_name;
use vor_recorder::__private::init_cpu;
use vor_recorder::clock::cpu::Source;
use vor_recorder::setup::Config;
use vor_recorder::{drain, profile_scope};

/// Runs `test` in a child with these variables, and returns the words that the child wrote after
/// `said:`.
fn said(test: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let mut command = child(test, "child");
    let output = run_to_success(command.envs(variables.iter().copied()));
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, line) = text.split_once("said:").unwrap();
    let line = line.lines().next().unwrap();
    line.split_whitespace().map(str::to_owned).collect()
}

fn say(words: &str) {
    println!("said: {words}");
}

const FRAMES: usize = 12;
/// The frames that sleep for longer than the limit of the test.
const SLOW: [usize; 2] = [4, 10];

/// Returns the number of spans in each frame, and whether the frame took longer than `limit_ns`.
fn frames_in(path: &Path, limit_ns: i64) -> Vec<(u64, bool)> {
    let mut reader = Reader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(recovered) = reader.next_recovered().unwrap() {
        frames.push((
            recovered.held_spans(),
            recovered.frame.duration_ns() > limit_ns,
        ));
    }
    frames
}

#[test]
fn variables_keep_the_spans_of_slow_frames_and_of_the_frames_before() {
    if role().is_some() {
        Config::from_env().enable();
        for frame in 0..FRAMES {
            for _ in 0..3 {
                profile_scope!("work");
            }
            if SLOW.contains(&frame) {
                std::thread::sleep(Duration::from_millis(600));
            }
            drain::frame_mark();
        }
        assert!(drain::close_capture().is_some());
        return say("");
    }
    let folder = tempfile::tempdir().unwrap();
    let slow = ("VOR_RECORD_SLOW_FRAMES_MS", "400.5");
    let before = |frames| ("VOR_RECORD_FRAMES_BEFORE", frames);
    // The variables, and the number of frames that are kept before each slow one.
    let cases = [
        (vec![slow], 2),
        (vec![slow, before("0")], 0),
        (vec![slow, before("3")], 3),
    ];
    for (case, (mut variables, frames_before)) in cases.into_iter().enumerate() {
        let path = folder.path().join(format!("{case}.vor"));
        variables.push(("VOR_RECORD", path.to_str().unwrap()));
        said(test_name!(), &variables);
        let frames = frames_in(&path, 400_500_000);
        assert_eq!(frames.len(), FRAMES);
        assert!(SLOW.iter().all(|&frame| frames[frame].1));
        // A busy machine may make other frames slow too, so the slow ones are found by their
        // durations.
        let expected = (0..FRAMES).map(|frame| {
            let next_slow = (frame..FRAMES).find(|&later| frames[later].1);
            match next_slow {
                Some(slow) if slow - frame <= frames_before => 3,
                _ => 0,
            }
        });
        let kept = frames.iter().map(|(spans, _)| *spans);
        assert_eq!(
            kept.collect::<Vec<_>>(),
            expected.collect::<Vec<u64>>(),
            "{variables:?}"
        );
    }
}

/// Counts spans and drops. Its first batch blocks the worker until the other end of `release` is
/// dropped.
struct BlockingSink {
    entered: Option<Sender<()>>,
    release: Receiver<()>,
    counts: Arc<[AtomicU64; 2]>,
}

impl FrameSink for BlockingSink {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), vor_capture::Error> {
        if let Some(entered) = self.entered.take() {
            entered.send(()).unwrap();
            let _ = self.release.recv();
            return Ok(());
        }
        for thread in &batch.threads {
            self.counts[0].fetch_add(thread.len() as u64, Ordering::Relaxed);
            self.counts[1].fetch_add(thread.dropped_spans, Ordering::Relaxed);
        }
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        Ok(())
    }
}

/// While the worker is blocked, a thread records exactly as many spans as its ring has slots.
#[test]
fn a_variable_sets_the_size_of_rings() {
    const MADE: u64 = 20_000;
    if role().is_some() {
        let (entered, is_entered) = channel();
        let (done, release) = channel();
        let counts = Arc::default();
        let sink = BlockingSink {
            entered: Some(entered),
            release,
            counts: Arc::clone(&counts),
        };
        Config::from_env().sink("blocks", sink).enable();
        {
            profile_scope!("blocks the worker");
        }
        is_entered.recv().unwrap();
        let fills = || {
            for _ in 0..MADE {
                profile_scope!("fills the ring");
            }
        };
        std::thread::spawn(fills).join().unwrap();
        drop(done);
        drain::flush();
        let [spans, dropped] = &*counts;
        let [spans, dropped] = [spans, dropped].map(|count| count.load(Ordering::Relaxed));
        return say(&format!("{spans} {dropped}"));
    }
    for kib in [4, 64, 128] {
        let slots = kib * 1024 / 16;
        let said = said(test_name!(), &[("VOR_RING_KIB", &kib.to_string())]);
        let expected = [slots, MADE - slots].map(|count| count.to_string());
        assert_eq!(said, expected, "{kib} KiB");
    }
}

#[test]
fn variables_measure_the_cpu_time_of_scopes() {
    if role().is_some() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        Config::from_env()
            .sink("kept", SpanSink(Arc::clone(&kept)))
            .enable();
        {
            profile_scope!("work");
        }
        drain::flush();
        let kept = std::mem::take(&mut *kept.lock().unwrap());
        assert_eq!(kept.len(), 1);
        let measures = Measures::of(&kept[0].site);
        let has = |measure| measures.has(measure);
        return say(&format!(
            "{} {}",
            has(Measures::CPU),
            has(Measures::CPU_SPLIT)
        ));
    }
    if init_cpu() == Source::None {
        eprintln!("SKIPPED: CPU time; this system does not report a thread's");
        return;
    }
    let measured = |variables| said(test_name!(), variables);
    assert_eq!(measured(&[]), ["false", "false"]);
    assert_eq!(measured(&[("VOR_CPU_TIME", "0")]), ["false", "false"]);
    assert_eq!(measured(&[("VOR_CPU_TIME", "1")]), ["true", "false"]);
    assert_eq!(measured(&[("VOR_CPU_SPLIT", "1")]), ["true", "true"]);
    assert_eq!(measured(&[("VOR_CPU", "time")]), ["true", "false"]);
    assert_eq!(measured(&[("VOR_CPU", "split")]), ["true", "true"]);
    assert_eq!(measured(&[("VOR_CPU", "wait")]), ["true", "false"]);
    assert_eq!(measured(&[("VOR_CPU", "")]), ["false", "false"]);
}
