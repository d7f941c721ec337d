//! A killed process loses at most the records that its rings held since the last drain.

#![cfg(all(unix, not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::robust_support::{child, folder, read, role};
use vor_fixtures::random::rounds;
use vor_fixtures::test_name;

/// Kills per run of the test.
const KILLS: usize = 50;
/// The guarantee: a span that ended more than this before the kill is in the file.
const INTERVAL_NS: u64 = 50_000_000;

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

/// Interval of the witness.
const WITNESS_NS: u64 = 5_000_000;

/// A note of the witness.
#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    at_ns: u64,
    /// How long the worker was ready to run and got no core. The system adds a wait when the wait
    /// ends; 0 where the system does not count it.
    delay_ns: u64,
    /// How long the worker has run.
    ran_ns: u64,
    /// 1 while the worker runs or is ready to run.
    is_ready: u64,
    /// Time that the host took from this machine's processors.
    stolen_ns: u64,
}

const NOTE_BYTES: usize = 40;

impl Stamp {
    fn now() -> Self {
        let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default();
        let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).unwrap_or(0);
        let mut note = Self {
            at_ns: now_ns(),
            ..Self::default()
        };
        // Hundredths of a second: the eighth number of the first line.
        let stat = read("/proc/stat".as_ref());
        note.stolen_ns = 10_000_000 * number(stat.split_whitespace().nth(8));
        let tasks = std::fs::read_dir("/proc/self/task");
        for task in tasks
            .into_iter()
            .flatten()
            .flatten()
            .map(|task| task.path())
        {
            if read(&task.join("comm")).trim_end() == "vor-drain" {
                let schedule = read(&task.join("schedstat"));
                let mut words = schedule.split_whitespace();
                note.ran_ns = number(words.next());
                note.delay_ns = number(words.next());
                note.is_ready = u64::from(read(&task.join("stat")).contains(") R "));
            }
        }
        note
    }

    fn to_bytes(self) -> [u8; NOTE_BYTES] {
        let words = [
            self.at_ns,
            self.delay_ns,
            self.ran_ns,
            self.is_ready,
            self.stolen_ns,
        ];
        let mut bytes = [0; NOTE_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let word = |i: usize| number(&bytes[8 * i..8 * i + 8]);
        Self {
            at_ns: word(0),
            delay_ns: word(1),
            ran_ns: word(2),
            is_ready: word(3),
            stolen_ns: word(4),
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// Notes a few times per drain interval that this thread got a core, and how long the worker got
/// none. Time that the machine withholds from both is not the recorder's fault.
fn witness() {
    let mut notes = std::fs::File::create(folder().join("witness")).unwrap();
    loop {
        std::thread::sleep(Duration::from_nanos(WITNESS_NS));
        notes.write_all(&Stamp::now().to_bytes()).unwrap();
    }
}

/// Returns how long the machine kept the witness and the worker waiting in the last half second
/// before `last_ns`.
fn kept_waiting_ns(notes: &[Stamp], last_ns: u64) -> u64 {
    const LOOKED_AT_NS: u64 = 500_000_000;
    let from = notes.partition_point(|note| note.at_ns + LOOKED_AT_NS < last_ns);
    let recent = &notes[from..];
    let (Some(first), Some(last)) = (recent.first(), recent.last()) else {
        return LOOKED_AT_NS;
    };
    let gaps = recent.windows(2).map(|pair| pair[1].at_ns - pair[0].at_ns);
    let longest = gaps
        .chain([last_ns.saturating_sub(last.at_ns)])
        .max()
        .unwrap_or(0);
    // A wait that had not ended at the kill is not counted yet. The worker was ready in each of the
    // last notes, and its run time did not grow.
    let is_waiting = |note: &&Stamp| note.is_ready == 1 && note.ran_ns == last.ran_ns;
    let since = recent.iter().rev().take_while(is_waiting).last();
    let pending = since.map_or(0, |note| last_ns.saturating_sub(note.at_ns));
    let counted = last.delay_ns - first.delay_ns + last.stolen_ns.saturating_sub(first.stolen_ns);
    longest.saturating_sub(WITNESS_NS) + counted + pending
}

/// A sink after the capture: notes how many spans the capture received before it.
struct Delivered {
    spans: u64,
    notes: std::fs::File,
}

impl vor::sinks::FrameSink for Delivered {
    fn interest(&self) -> vor::sinks::Interest {
        vor::sinks::Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &vor::capture::SpanBatch) -> Result<(), vor::Error> {
        let held = |thread: &vor_capture::model::batch::ThreadBatch| {
            thread.len() as u64 + thread.dropped_spans
        };
        self.spans += batch.threads.iter().map(held).sum::<u64>();
        self.notes.write_all(&self.spans.to_le_bytes()).unwrap();
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<vor::capture::FrameSnapshot>) -> Result<(), vor::Error> {
        Ok(())
    }
}

/// Records at full speed without end. Writes a line of progress each millisecond: how many spans
/// had ended, and when.
fn record_flat_out() {
    let mut progress = std::fs::File::create(folder().join("progress")).unwrap();
    // Without optimisation, the worker takes some hundred nanoseconds per span, so a ring of the
    // default size holds more than one interval's work.
    let ring_kib = if cfg!(debug_assertions) {
        256
    } else {
        vor_recorder::setup::DEFAULT_RING_KIB
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
    // In memory where possible: the test does not measure how long a disk keeps the worker waiting.
    let memory = std::path::Path::new("/dev/shm");
    let place = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    for kill in 0..rounds(KILLS) {
        let folder = tempfile::tempdir_in(&place).unwrap();
        let test = test_name!();
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
        let pair = |note: &[u8]| (number(&note[..8]), number(&note[8..]));
        let notes: Vec<(u64, u64)> = notes.chunks_exact(16).map(pair).collect();
        let (_, last_ns) = *notes.last().unwrap();
        let summary = read(&folder.path().join("run.vor"));
        assert!(
            summary.damage.len() <= 1,
            "kill {kill}: expected at most one torn record: {:?}",
            summary.damage
        );
        assert!(!summary.closed, "kill {kill}");
        let held = summary.count("work") as u64 + summary.dropped_in_batches;
        // The exact check: each span delivered before the kill is in the file, except the record
        // that was being written.
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
        // The check of time: the last note of progress is at most a millisecond and one preemption
        // before the kill.
        let missing_since = notes
            .iter()
            .find(|(made, _)| *made > held)
            .map_or(last_ns, |(_, ns)| *ns);
        let stamps = notes_of("witness");
        let stamps: Vec<Stamp> = stamps
            .chunks_exact(NOTE_BYTES)
            .map(Stamp::from_bytes)
            .collect();
        let late_ns = last_ns - missing_since;
        let max_ns = INTERVAL_NS + kept_waiting_ns(&stamps, last_ns);
        assert!(
            late_ns <= max_ns,
            "kill {kill}: expected at most {max_ns} ns to be lost, lost {late_ns} ns"
        );
        late.push(late_ns);
    }
    assert!(delivered_in_all > 0);
    late.sort_unstable();
    println!(
        "lost before the kill: median {} us, worst {} us",
        late[late.len() / 2] / 1000,
        late[late.len() - 1] / 1000
    );
}
