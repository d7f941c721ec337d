//! A process that is killed loses what its rings held since the last drain, and no more.

#![cfg(all(unix, not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

mod robust_support;
use robust_support::{child, folder, read, role};

/// Kills in one run of the test.
const KILLS: usize = 50;
/// The promise: what ended longer before the kill is in the file.
const INTERVAL_NS: u64 = 50_000_000;

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

/// How often the witness looks.
const WITNESS_NS: u64 = 5_000_000;

/// How long the worker has been ready to run and was not let, as the system counts it, in nanoseconds; 0 where it does not.
fn workers_delay_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    tasks
        .map(|task| task.path())
        .filter(|path| read(path.join("comm")).trim_end() == "vor-drain")
        .filter_map(|path| {
            read(path.join("schedstat"))
                .split_whitespace()
                .nth(1)?
                .parse::<u64>()
                .ok()
        })
        .sum()
}

/// Notes a few times per drain interval that a thread got a core, and how long the worker did not: what the machine keeps from them is not the recorder's.
fn witness() {
    let mut notes = std::fs::File::create(folder().join("witness")).unwrap();
    loop {
        std::thread::sleep(Duration::from_nanos(WITNESS_NS));
        let mut note = [0; 16];
        note[..8].copy_from_slice(&now_ns().to_le_bytes());
        note[8..].copy_from_slice(&workers_delay_ns().to_le_bytes());
        notes.write_all(&note).unwrap();
    }
}

/// Returns how long the machine kept the witness and the worker waiting in the last half second before `last_ns`.
fn kept_waiting_ns(notes: &[(u64, u64)], last_ns: u64) -> u64 {
    const LOOKED_AT_NS: u64 = 500_000_000;
    let from = notes.partition_point(|(ns, _)| ns + LOOKED_AT_NS < last_ns);
    let recent = &notes[from..];
    let (Some(first), Some(last)) = (recent.first(), recent.last()) else {
        return LOOKED_AT_NS;
    };
    let gaps = recent.windows(2).map(|pair| pair[1].0 - pair[0].0);
    let longest = gaps.chain([last_ns.saturating_sub(last.0)]).max().unwrap_or(0);
    longest.saturating_sub(WITNESS_NS) + (last.1 - first.1)
}

/// A sink behind the capture: notes how many spans the capture has been handed before it.
struct Delivered {
    spans: u64,
    notes: std::fs::File,
}

impl vor::FrameSink for Delivered {
    fn interest(&self) -> vor::Interest {
        vor::Interest {
            batches: true,
            ..vor::Interest::default()
        }
    }

    fn accept_batch(&mut self, batch: &vor::SpanBatch) -> Result<(), vor::Error> {
        let held = |thread: &vor_core::batch::ThreadBatch| thread.len() as u64 + thread.dropped_spans;
        self.spans += batch.threads.iter().map(held).sum::<u64>();
        self.notes.write_all(&self.spans.to_le_bytes()).unwrap();
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<vor::FrameSnapshot>) -> Result<(), vor::Error> {
        Ok(())
    }
}

/// Records at full speed for ever; a line of progress each millisecond: how many spans had ended, and when that was.
fn record_flat_out() {
    let mut progress = std::fs::File::create(folder().join("progress")).unwrap();
    // Without optimisation the worker takes some hundred nanoseconds per span, so a ring of the default size holds more than an interval's work.
    let ring_kib = if cfg!(debug_assertions) {
        256
    } else {
        vor_core::config::DEFAULT_RING_KIB
    };
    vor::Config::new()
        .ring_kib(ring_kib)
        .capture(folder().join("run.vor"))
        .enable();
    let delivered = Delivered {
        spans: 0,
        notes: std::fs::File::create(folder().join("delivered")).unwrap(),
    };
    std::mem::forget(vor::add_sink("notes what is delivered", delivered));
    std::thread::spawn(witness);
    let mut made = 0_u64;
    let mut noted = Instant::now();
    loop {
        for _ in 0..100 {
            vor::profile_scope!("work");
        }
        made += 100;
        if made.is_multiple_of(10_000) {
            vor::frame_mark();
        }
        if noted.elapsed() > Duration::from_millis(1) {
            noted = Instant::now();
            let mut line = [0; 16];
            line[..8].copy_from_slice(&made.to_le_bytes());
            line[8..].copy_from_slice(&now_ns().to_le_bytes());
            progress.write_all(&line).unwrap();
        }
    }
}

#[test]
fn a_killed_process_loses_one_drain_interval_at_most() {
    if role().is_some() {
        return record_flat_out();
    }
    let mut seed = now_ns();
    let (mut late, mut delivered_in_all) = (Vec::new(), 0);
    // In memory where that can be had: how long a disk keeps the worker waiting is not the question.
    let memory = std::path::Path::new("/dev/shm");
    let place = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    for kill in 0..KILLS {
        let folder = tempfile::tempdir_in(&place).unwrap();
        let test = "a_killed_process_loses_one_drain_interval_at_most";
        let mut process = child(test, "flat out", folder.path());
        process.stdout(std::process::Stdio::null());
        let mut process = process.spawn().unwrap();
        let progress = folder.path().join("progress");
        let noted = || std::fs::metadata(&progress).map_or(0, |metadata| metadata.len());
        while noted() < 16 * 60 {
            std::thread::sleep(Duration::from_millis(1));
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros((seed >> 33) % 50_000));
        process.kill().unwrap();
        process.wait().unwrap();

        let notes = std::fs::read(&progress).unwrap();
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let pairs = |bytes: &[u8]| -> Vec<(u64, u64)> {
            let pair = |note: &[u8]| (number(&note[..8]), number(&note[8..]));
            bytes.chunks_exact(16).map(pair).collect()
        };
        let notes = pairs(&notes);
        let (_, last_ns) = *notes.last().unwrap();
        let summary = read(&folder.path().join("run.vor"));
        assert!(
            summary.damage.len() <= 1,
            "kill {kill}: at most one torn record was expected: {:?}",
            summary.damage
        );
        assert!(!summary.closed, "kill {kill}");
        let held = summary.count("work") as u64 + summary.dropped_in_batches;
        // Exactly: what was delivered before the kill is in the file, but for the record that was being written.
        let notes_of = |name| std::fs::read(folder.path().join(name)).unwrap_or_default();
        let delivered = notes_of("delivered")
            .chunks_exact(8)
            .next_back()
            .map_or(0, number);
        assert!(
            held >= delivered,
            "kill {kill}: {delivered} spans were delivered, the file holds {held}"
        );
        delivered_in_all += delivered;
        // In time: the last note of progress is at most a millisecond and one preemption before the kill.
        let missing_since = notes
            .iter()
            .find(|(made, _)| *made > held)
            .map_or(last_ns, |(_, ns)| *ns);
        let stamps = pairs(&notes_of("witness"));
        let late_ns = last_ns - missing_since;
        let most_ns = INTERVAL_NS + kept_waiting_ns(&stamps, last_ns);
        assert!(
            late_ns <= most_ns,
            "kill {kill}: at most {most_ns} ns were to be lost, {late_ns} ns were"
        );
        late.push(late_ns);
    }
    assert!(delivered_in_all > 0);
    late.sort_unstable();
    println!(
        "lost before the kill: median {} us, worst {} us",
        late[KILLS / 2] / 1000,
        late[KILLS - 1] / 1000
    );
}
