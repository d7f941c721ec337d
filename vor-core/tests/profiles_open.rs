//! What a scope uses up that stays open is in the profiles of the time in which it does, and no more is there when it has ended.

#![cfg(feature = "pprof")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "common/again.rs"]
mod again;
mod common;
#[path = "common/pprof.rs"]
mod pprof;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use vor_core::alloc::{TrackingAllocator, untracked};
use vor_core::config::Config;
use vor_core::cpu::thread_cpu_ns;
use vor_core::sink::pprof::PprofSink;
use vor_core::sink::{Guard, Sink as _};
use vor_core::{profile_scope, thread};

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::system();

const CHILD: &str = "VOR_TEST_PROFILES_OPEN";

/// Runs the test of this name in a process of its own, as settings are for good; there it gets a folder.
fn in_a_process_of_its_own(test: &str, work: impl FnOnce(&Path)) {
    if let Some(folder) = std::env::var_os(CHILD) {
        return work(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = again::again();
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    let output = command.env(CHILD, folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The profiles of a folder, one after the other.
struct Files {
    folder: PathBuf,
    read: u64,
    sums: BTreeMap<(&'static str, Vec<String>), i64>,
}

const VALUES: [&str; 5] = ["wall", "cpu", "off_cpu", "alloc_objects", "alloc_bytes"];

impl Files {
    fn start(folder: &Path) -> (Guard, Self) {
        let profiles = PprofSink {
            path: folder.join("run.pb.gz"),
            interval: Duration::from_millis(20),
            keep: 100_000,
            ..PprofSink::default()
        };
        let files = Self {
            folder: folder.to_owned(),
            read: 0,
            sums: BTreeMap::new(),
        };
        (profiles.install(), files)
    }

    /// Adds up what has come.
    fn read(&mut self) {
        untracked(|| {
            while let Ok(file) = std::fs::read(self.folder.join(format!("run.{}.pb.gz", self.read))) {
                let profile = pprof::read(&file);
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

    /// Reads files until two more than now are there: the second begins after this was called.
    fn read_two_more(&mut self) {
        let begin = Instant::now();
        self.read();
        let enough = self.read + 2;
        while self.read < enough {
            std::thread::sleep(Duration::from_millis(2));
            self.read();
            assert!(begin.elapsed() < Duration::from_secs(120), "waited in vain");
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
fn what_open_scopes_have_used_is_told_before_they_end_and_once() {
    in_a_process_of_its_own(
        "what_open_scopes_have_used_is_told_before_they_end_and_once",
        |folder| {
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
                    // Both are open still.
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
            }
            in_all = i64::try_from(thread_cpu_ns().unwrap() - began_ns).unwrap();
            drop(profiles);
            files.read();
            let of = |value| {
                let stacks: [&[&str]; 3] =
                    [&["program"], &["program", "phase"], &["program", "phase", "step"]];
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
        },
    );
}

/// A scope that is measured alone keeps what it needs in its guard.
#[test]
fn a_single_scope_of_which_processor_time_is_measured_is_told_of_too() {
    in_a_process_of_its_own(
        "a_single_scope_of_which_processor_time_is_measured_is_told_of_too",
        |folder| {
            Config::new().allocations(false).enable();
            // The first use of a site goes the long way.
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
        },
    );
}
