//! One recording for all tests: into a capture, and into a witness that stores every span and frame
//! that the drain delivers.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use vor::capture::{FrameSnapshot, SpanBatch, ThreadId};
use vor::sinks::{FrameSink, Interest};
use vor_capture::model::catalog::Catalog;
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

/// Number of marked frames.
pub const FRAMES: u64 = 60;
/// The frame that takes far longer than the others.
pub const SLOW_FRAME: u64 = 41;
/// Frames in which the scope `across` begins and ends.
pub const ACROSS: (u64, u64) = (10, 12);

/// A span as the witness received it.
#[derive(Clone, Debug)]
pub struct RecordedSpan {
    pub thread: ThreadId,
    pub name: String,
    pub start_ns: i64,
    pub end_ns: i64,
    /// The frame in which it ended; the number of frames for spans that ended after the last mark.
    pub frame: u64,
}

/// The closed capture, and the records of the witness.
#[derive(Debug)]
pub struct Recording {
    pub path: PathBuf,
    pub spans: Vec<RecordedSpan>,
    /// Frames of the main set.
    pub frames: Vec<Arc<FrameSnapshot>>,
    /// Frames of the set `physics`.
    pub physics: usize,
    pub catalog: Arc<Catalog>,
    /// Bytes of the capture.
    pub bytes: Vec<u8>,
    _folder: tempfile::TempDir,
}

#[derive(Debug, Default)]
struct Notes {
    /// Batches, each with the number of main frames before it.
    batches: Vec<(u64, SpanBatch)>,
    frames: Vec<Arc<FrameSnapshot>>,
    physics: usize,
}

struct Witness(Arc<Mutex<Notes>>);

impl FrameSink for Witness {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), vor::Error> {
        let mut notes = self.0.lock().unwrap();
        let frame = notes.frames.len() as u64;
        notes.batches.push((frame, batch.clone()));
        Ok(())
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), vor::Error> {
        let mut notes = self.0.lock().unwrap();
        match frame.frame_set {
            0 => notes.frames.push(Arc::clone(frame)),
            _ => notes.physics += 1,
        }
        Ok(())
    }
}

/// Returns the recording; the first caller makes it.
pub fn recording() -> &'static Recording {
    static RECORDING: OnceLock<Recording> = OnceLock::new();
    RECORDING.get_or_init(record)
}

fn record() -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let notes = Arc::new(Mutex::new(Notes::default()));
    vor::Config::new()
        .sink("witness", Witness(Arc::clone(&notes)))
        .enable();
    let sink = CaptureSink::create(&path, CaptureOptions::default()).unwrap();
    let capture = vor::add_sink("capture", sink);
    let driver = std::thread::Builder::new().name("driver".into());
    driver.spawn(drive).unwrap().join().unwrap();
    vor::flush();
    drop(capture);
    let notes = std::mem::take(&mut *notes.lock().unwrap());
    // The last batch has every name.
    let catalog = Arc::clone(&notes.batches.last().unwrap().1.catalog);
    let mut spans = Vec::new();
    for (frame, batch) in &notes.batches {
        for thread in &batch.threads {
            for i in 0..thread.len() {
                spans.push(RecordedSpan {
                    thread: thread.thread,
                    name: catalog.site_name(thread.sites[i]).to_owned(),
                    start_ns: catalog.unix_ns(thread.start_ticks[i]),
                    end_ns: catalog.unix_ns(thread.end_ticks(i)),
                    frame: *frame,
                });
            }
        }
    }
    Recording {
        bytes: std::fs::read(&path).unwrap(),
        path,
        spans,
        frames: notes.frames,
        physics: notes.physics,
        catalog,
        _folder: folder,
    }
}

fn drive() {
    vor::record_metric_unit("loss", "nats");
    let mut across = None;
    for frame in 0..FRAMES {
        if frame == ACROSS.0 {
            across = Some(vor::scope("across"));
        }
        {
            vor::profile_scope!("step", frame = frame);
            for item in 0..20 {
                decode(item);
            }
            if frame % 7 == 0 {
                work_elsewhere();
            }
            if frame == SLOW_FRAME {
                vor::profile_scope!("stall");
                spin(Duration::from_millis(80));
            }
        }
        if frame == ACROSS.1 {
            across = None;
        }
        vor::record_metric("loss", 1.0 / (frame as f64 + 1.0));
        if frame % 10 == 0 {
            if frame % 20 == 0 {
                vor::frame_mark_named("physics");
            } else {
                vor::frame_mark_named!("physics");
            }
        }
        vor::frame_mark();
    }
    drop(across);
    vor::profile_scope!("after the last mark");
    decode(1);
}

fn decode(item: u32) {
    vor::profile_scope!("decode", item = item, codec = "lz4");
    spin(Duration::from_nanos(200 * u64::from(item % 5)));
    if item.is_multiple_of(2) {
        vor::profile_scope!("inner, \"quoted\"");
        spin(Duration::from_nanos(300));
    }
}

fn work_elsewhere() {
    let names = ["worker-1", "worker-2"];
    let threads = names.map(|name| {
        let thread = std::thread::Builder::new().name(name.into());
        thread.spawn(|| (0..5).for_each(decode)).unwrap()
    });
    for thread in threads {
        thread.join().unwrap();
    }
}

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}
