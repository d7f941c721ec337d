//! The use of an open scope is in the profiles of the time in which it happens, and is not repeated
//! when the scope ends.

#![cfg(feature = "pprof")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vor_capture::Error;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::allocations::untracked;
use vor_recorder::clock::cpu::thread_cpu_ns;
use vor_recorder::hot::thread;
use vor_recorder::setup::Config;
use vor_recorder::sinks::pprof::PprofSink;
use vor_recorder::sinks::{Guard, Sink as _};
use vor_recorder::{drain, profile_scope};

/// The profiles of a folder, one after the other.
struct Files {
    folder: PathBuf,
    read: u64,
    sums: BTreeMap<(&'static str, Vec<String>), i64>,
}

const VALUES: [&str; 5] = ["wall", "cpu", "off_cpu", "alloc_objects", "alloc_bytes"];

impl Files {
    fn start(folder: &Path) -> (Guard, Self) {
        let profiles = vor_capture::filled!(PprofSink {
            path: folder.join("run.pb.gz"),
            interval: Duration::from_millis(20),
            keep: 100_000,
            ..PprofSink::default()
        });
        let files = Self {
            folder: folder.to_owned(),
            read: 0,
            sums: BTreeMap::new(),
        };
        (profiles.install(), files)
    }

    /// Adds up the files that have arrived.
    fn read(&mut self) {
        untracked(|| {
            while let Ok(file) = std::fs::read(self.folder.join(format!("run.{}.pb.gz", self.read)))
            {
                let profile = vor_fixtures::pprof::read(&file);
                for value in VALUES {
                    if profile.type_names().contains(&value) {
                        for (stack, sum) in profile.sums(value) {
                            *self.sums.entry((value, stack)).or_default() += sum;
                        }
                    }
                }
                self.read += 1;
            }
        });
    }

    /// Reads files until there are two more than now; the second one begins after this call.
    fn read_two_more(&mut self) {
        let begin = Instant::now();
        self.read();
        let enough = self.read + 2;
        while self.read < enough {
            std::thread::sleep(Duration::from_millis(2));
            self.read();
            assert!(begin.elapsed() < Duration::from_secs(120), "took too long");
        }
    }

    fn sum(&self, value: &'static str, stack: &[&str]) -> i64 {
        untracked(|| {
            let stack = stack.iter().map(|&name| name.to_owned()).collect();
            self.sums.get(&(value, stack)).copied().unwrap_or(0)
        })
    }
}

fn leak(bytes: usize) {
    std::mem::forget(black_box(vec![1_u8; bytes]));
}

fn burn(ns: u64) {
    let begin = thread_cpu_ns().unwrap();
    while thread_cpu_ns().unwrap() - begin < ns {
        black_box((0..1_000_u64).sum::<u64>());
    }
}

#[test]
fn the_use_of_open_scopes_is_reported_once_and_before_they_end() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Config::new().cpu_time(true).enable();
    let (profiles, mut files) = Files::start(folder);
    let began_ns = thread_cpu_ns().unwrap();
    let (at_first, in_all);
    {
        profile_scope!("program");
        leak(1_000);
        {
            profile_scope!("phase");
            leak(300);
            burn(30_000_000);
            files.read_two_more();
            // Both scopes are still open.
            assert_eq!(files.sum("alloc_bytes", &["program"]), 1_000);
            assert_eq!(files.sum("alloc_bytes", &["program", "phase"]), 300);
            assert_eq!(files.sum("alloc_objects", &["program", "phase"]), 1);
            at_first = files.sum("cpu", &["program", "phase"]);
            assert!(at_first >= 25_000_000, "{at_first}");
            assert!(
                files.sum("off_cpu", &["program", "phase"]) > 0,
                "waiting for files"
            );
            for _ in 0..10 {
                profile_scope!("step");
                leak(50);
            }
            leak(7);
            let open = thread::open_scopes();
            let own = open.iter().find(|open| open.scopes.len() == 2).unwrap();
            assert_eq!(own.scopes[1].measured.alloc_bytes, 807);
            files.read_two_more();
            assert_eq!(files.sum("alloc_bytes", &["program", "phase", "step"]), 500);
            assert_eq!(files.sum("alloc_bytes", &["program", "phase"]), 307);
        }
        leak(20);
        // Time that the hypervisor took can be missing until the thread is switched out.
        std::thread::sleep(Duration::from_millis(2));
    }
    in_all = i64::try_from(thread_cpu_ns().unwrap() - began_ns).unwrap();
    drop(profiles);
    files.read();
    let of = |value| {
        let stacks: [&[&str]; 3] = [
            &["program"],
            &["program", "phase"],
            &["program", "phase", "step"],
        ];
        stacks.map(|stack| files.sum(value, stack))
    };
    assert_eq!(of("alloc_bytes"), [1_020, 307, 500]);
    assert_eq!(of("alloc_objects"), [2, 2, 10]);
    // The thread's clock was read outside of the scopes.
    let cpu_ns: i64 = of("cpu").iter().sum();
    assert!(
        cpu_ns <= in_all + 100_000 && cpu_ns >= in_all - 1_000_000,
        "{cpu_ns} of {in_all}"
    );
    let wall_ns: i64 = of("wall").iter().sum();
    let off_ns: i64 = of("off_cpu").iter().sum();
    assert!(
        (wall_ns - cpu_ns - off_ns).abs() <= 100_000,
        "{wall_ns} {cpu_ns} {off_ns}"
    );
}

/// A scope that is measured alone keeps its state in its guard.
#[test]
fn a_single_scope_with_cpu_time_is_reported_too() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Config::new().allocations(false).enable();
    // The first use of a site takes the slow path.
    for is_long in [false, true] {
        let (profiles, mut files) = Files::start(folder);
        {
            profile_scope!("alone", cpu);
            if is_long {
                burn(30_000_000);
                files.read_two_more();
                let cpu_ns = files.sum("cpu", &["alone"]);
                assert!((25_000_000..1_000_000_000).contains(&cpu_ns), "{cpu_ns}");
            }
        }
        drop(profiles);
        for entry in std::fs::read_dir(folder).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
}

/// Keeps all spans: name, start, and duration in nanoseconds.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(String, u64, u64)>>>);

impl FrameSink for Spans {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        let mut spans = self.0.lock().unwrap();
        for thread in &batch.threads {
            assert_eq!(thread.dropped_spans, 0);
            for i in 0..thread.len() {
                let (start, length) = (thread.start_ticks[i], thread.duration_ticks[i]);
                let name = batch.catalog.site_name(thread.sites[i]).to_owned();
                spans.push((
                    name,
                    start,
                    batch.catalog.timeline.duration_ns(start, length),
                ));
            }
        }
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }
}

fn leaves(turns: u64) {
    for turn in 0..turns {
        profile_scope!("leaf");
        black_box(turn);
        if turn % 1_000 == 999 {
            drain::flush();
        }
    }
}

/// Two frames; the scopes around the leaves end after all leaves were merged.
#[test]
fn forty_thousand_leaves_of_an_open_scope_are_below_it_in_the_profile() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Config::new().allocations(false).enable();
    let spans = Spans::default();
    let sink = drain::add_sink("the spans", spans.clone());
    let profiles = vor_capture::filled!(PprofSink {
        path: folder.join("run.pb.gz"),
        interval: Duration::from_secs(3_600),
        ..PprofSink::default()
    });
    let profiles = profiles.install();
    {
        profile_scope!("run_all");
        leaves(20_000);
        {
            profile_scope!("parse");
            leaves(30_000);
            drain::frame_mark();
            leaves(10_000);
        }
    }
    drop(profiles);
    drop(sink);
    let profile = vor_fixtures::pprof::read(&std::fs::read(folder.join("run.0.pb.gz")).unwrap());
    let spans = spans.0.lock().unwrap();
    let one = |name: &str| {
        let mut found = spans.iter().filter(|span| span.0 == name);
        found.next().unwrap().clone()
    };
    let (run_all, parse) = (one("run_all"), one("parse"));
    let leaves = |inner: bool| -> u64 {
        let leaves = spans.iter().filter(|span| span.0 == "leaf");
        leaves
            .filter(|span| (span.1 >= parse.1) == inner)
            .map(|span| span.2)
            .sum()
    };
    let stack =
        |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
    let expected = BTreeMap::from([
        (stack(&["run_all"]), run_all.2 - parse.2 - leaves(false)),
        (stack(&["run_all", "leaf"]), leaves(false)),
        (stack(&["run_all", "parse"]), parse.2 - leaves(true)),
        (stack(&["run_all", "parse", "leaf"]), leaves(true)),
    ]);
    let found = profile.sums("wall").into_iter();
    let found: BTreeMap<_, _> = found.map(|(stack, ns)| (stack, ns as u64)).collect();
    assert_eq!(found, expected);
}
