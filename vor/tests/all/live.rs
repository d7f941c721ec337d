//! The commands that watch a running program, which is this test itself.

#![cfg(all(feature = "cli", unix, not(feature = "off")))]
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use vor_fixtures::own_process;

/// A program that listens and works until it is dropped.
struct Program {
    folder: TempDir,
    address: String,
    ends: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
    /// One message for each frame that has ended.
    ended_frames: mpsc::Receiver<()>,
}

impl Program {
    /// Returns once the first frame has ended: its scopes are known, and its spans are recorded.
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("unix:{}", folder.path().join("s").display());
        let last = vor::Last::new().size(2_000_000);
        let dumps = folder.path().join("dumps");
        std::fs::create_dir(&dumps).unwrap();
        vor::Config::new()
            .capture(dumps)
            .last(last)
            .listen(address.parse().unwrap())
            .enable();
        let ends = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ends);
        let (frame_ended, ended_frames) = mpsc::channel();
        let work = move || {
            while !stop.load(Ordering::Relaxed) {
                {
                    vor::profile_scope!("render");
                    std::thread::sleep(Duration::from_millis(2));
                    vor::profile_scope!("physics");
                    std::thread::sleep(Duration::from_millis(1));
                }
                vor::record_metric("queue", 7.0);
                vor::frame_mark();
                frame_ended.send(()).ok();
            }
        };
        let worker = std::thread::Builder::new()
            .name("worker".into())
            .spawn(work)
            .unwrap();
        ended_frames.recv().unwrap();
        Self {
            folder,
            address,
            ends,
            worker: Some(worker),
            ended_frames,
        }
    }

    fn vor(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vor"));
        command.arg(args[0]).arg(&self.address).args(&args[1..]);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        let output = self.vor(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output
    }

    fn clients(&self) -> usize {
        let output = self.run(&["ctl"]);
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines()
            .filter(|line| line.starts_with("client: "))
            .count()
    }

    fn wait_until_alone(&self) {
        let begun = Instant::now();
        while self.clients() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(30));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            worker.join().unwrap();
        }
    }
}

fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: the call touches no memory; the child was not waited for, so the number is its own.
    #[expect(unsafe_code, reason = "the standard library sends SIGKILL only")]
    let sent = unsafe { libc::kill(pid, libc::SIGINT) };
    assert_eq!(sent, 0);
}

fn spans_and_frames(path: &Path) -> (u64, u64) {
    let capture = vor::capture::Capture::open(path).unwrap();
    let info = capture.info();
    assert!(info.closed, "{info:?}");
    (info.spans, capture.frame_count())
}

#[test]
fn a_recording_ends_by_time_or_by_ctrl_c_as_a_whole_capture() {
    own_process!();
    let program = Program::start();
    let path = program.folder.path().join("a.vor");
    let file = path.to_str().unwrap();
    program.run(&["record", "-o", file, "--seconds", "0.5"]);
    let check = Command::new(env!("CARGO_BIN_EXE_vor"))
        .arg("check")
        .arg(&path)
        .output()
        .unwrap();
    assert!(check.status.success(), "{check:?}");
    let text = program.run(&["record", "-o", file, "--seconds", "0.2", "--spans", "none"]);
    assert!(String::from_utf8(text.stderr).unwrap().lines().count() == 2);

    let path = program.folder.path().join("b.vor");
    let mut child = program
        .vor(&["record", "-o", path.to_str().unwrap()])
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while std::fs::metadata(&path).map_or(0, |file| file.len()) < 10_000 {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(10));
    }
    interrupt(&child);
    assert!(child.wait().unwrap().success());
    let stats = Command::new(env!("CARGO_BIN_EXE_vor"))
        .args(["stats", "--json"])
        .arg(&path)
        .output()
        .unwrap();
    let stats = String::from_utf8(stats.stdout).unwrap();
    assert!(
        stats.contains("\"render\"") && stats.contains("\"physics\""),
        "{stats}"
    );
    let check = Command::new(env!("CARGO_BIN_EXE_vor"))
        .arg("check")
        .arg(&path)
        .output()
        .unwrap();
    assert!(check.status.success(), "{check:?}");
    program.wait_until_alone();
}

#[test]
fn tail_prints_a_frame_soon_after_its_end() {
    own_process!();
    let program = Program::start();
    let mut tail = program
        .vor(&["tail", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let mut ended = 1;
    let mut frames_behind = Vec::new();
    let mut last = None;
    for line in lines.take(100) {
        let frame: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(frame["user"]["queue"], 7.0);
        let index = frame["index"].as_i64().unwrap();
        assert!(
            last.is_none_or(|last| index == last + 1),
            "{last:?}, {index}"
        );
        last = Some(index);
        ended += i64::try_from(program.ended_frames.try_iter().count()).unwrap();
        frames_behind.push(ended - index);
    }
    frames_behind.sort_unstable();
    let median = frames_behind[frames_behind.len() / 2];
    println!("tail is {median} frames behind");
    // Frames take 3 ms or longer; a tenth of a second is the promise.
    assert!(median < 33, "{median} frames");
    interrupt(&tail);
    tail.wait().unwrap();
    program.wait_until_alone();
}

#[test]
fn ctl_shows_what_is_on_dumps_and_sets_rules() {
    own_process!();
    let program = Program::start();
    let status = String::from_utf8(program.run(&["ctl", "status"]).stdout).unwrap();
    for part in [
        "recording: on",
        "capture: ",
        "sink: ",
        "scopes: 2",
        "threads: ",
    ] {
        assert!(status.contains(part), "{status}");
    }
    let path = String::from_utf8(program.run(&["ctl", "dump"]).stdout).unwrap();
    let (spans, frames) = spans_and_frames(Path::new(path.trim()));
    assert!(spans > 0 && frames > 0);
    let scopes = |rules: &[&str]| {
        let mut command = program.vor(&[&["ctl", "scopes"], rules].concat());
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (text, String::from_utf8(output.stderr).unwrap())
    };
    let (all, _) = scopes(&[]);
    assert!(all.starts_with("rules: \nrecord: "), "{all}");
    let (counted, _) = scopes(&["*=count"]);
    assert!(counted.starts_with("rules: *=count\ncount: "), "{counted}");
    let (nothing, refused) = scopes(&["*=cuont"]);
    assert!(nothing.is_empty() && refused.contains("cuont"), "{refused}");
    assert!(scopes(&[]).0.starts_with("rules: *=count\n"));
    assert!(scopes(&[""]).0.starts_with("rules: \nrecord: "));
    let none = Command::new(env!("CARGO_BIN_EXE_vor"))
        .args(["ctl", "unix:/nowhere/vor.sock"])
        .output()
        .unwrap();
    assert_eq!(none.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(none.stderr).unwrap(),
        "vor: unix:/nowhere/vor.sock: no program listens there; start it with VOR_LISTEN=unix\n"
    );
}

#[test]
fn the_viewer_gets_a_file_that_grows() {
    own_process!();
    use std::os::unix::fs::PermissionsExt;
    let program = Program::start();
    let tools = program.folder.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    let vor = tools.join("vor");
    std::fs::copy(env!("CARGO_BIN_EXE_vor"), &vor).unwrap();
    let viewer = tools.join("vor-viz");
    let script = "#!/bin/sh\ncase $1 in *live.vor) ;; *) exit 3;; esac\n\
        a=$(wc -c < \"$1\"); sleep 1; b=$(wc -c < \"$1\")\n\
        echo \"$1 $a $b $2 $3\"; [ \"$b\" -gt \"$a\" ]\n";
    std::fs::write(&viewer, script).unwrap();
    std::fs::set_permissions(&viewer, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(&vor)
        .args(["view", &program.address, "--frame", "3"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let line = String::from_utf8(output.stdout).unwrap();
    assert!(line.trim_end().ends_with("--frame 3"), "{line}");
    let path = line.split(' ').next().unwrap();
    assert!(!Path::new(path).exists(), "{path} is removed");
    program.wait_until_alone();
}

#[cfg(feature = "top")]
#[test]
fn top_shows_the_scopes_of_a_running_program_and_of_a_capture() {
    own_process!();
    let program = Program::start();
    let path = program.folder.path().join("a.vor");
    program.run(&["record", "-o", path.to_str().unwrap(), "--seconds", "2.5"]);
    let live = program.run(&["top", "--once"]).stdout;
    let file = Command::new(env!("CARGO_BIN_EXE_vor"))
        .arg("top")
        .arg(&path)
        .arg("--once")
        .output()
        .unwrap();
    for screen in [live, file.stdout] {
        let screen = String::from_utf8(screen).unwrap();
        println!("{screen}");
        assert_eq!(screen.lines().count(), 24);
        for name in ["render", "physics"] {
            assert!(
                screen.lines().any(|line| line.starts_with(name)),
                "{screen}"
            );
        }
        assert!(
            screen.contains("memory") && screen.contains("frames"),
            "{screen}"
        );
    }
}
