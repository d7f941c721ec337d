//! The times of parts that a survey has not read yet.
//!
//! A thread notes them from the first part on, while the survey comes from the last one. It only
//! decodes the parts, which takes a fifth of the time of a survey. So the parts between the survey
//! and a range that is read are soon known to hold nothing of it.

use std::sync::{Arc, OnceLock};
use std::thread;

use vor_capture::model::timeline::TickMapper;
use vor_capture::reader::{Capture, Part, PartContents, PartScan};

use crate::store::Clock;

/// The time of all that a part holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartTime {
    pub(super) begin_ns: i64,
    pub(super) end_ns: i64,
    /// When the first span or task ended.
    pub(super) first_end_ns: i64,
}

/// The times of a capture's parts that are noted so far.
#[derive(Clone, Debug, Default)]
pub(super) struct PartTimes(Arc<[OnceLock<PartTime>]>);

impl PartTime {
    pub(super) fn of(contents: &PartContents, clock: &mut Clock<'_>) -> Self {
        let (begin_ns, end_ns) = time_of(contents, clock);
        Self {
            begin_ns,
            end_ns,
            first_end_ns: first_end_ns(contents, clock),
        }
    }
}

impl PartTimes {
    /// Begins to note the times of these parts, in a capture that the thread opens. The thread ends
    /// when nobody else has the times. Where there are no threads, none is noted.
    pub(super) fn begin(
        parts: Vec<Part>,
        origin_ns: i64,
        open: impl FnOnce() -> Option<Capture> + Send + 'static,
    ) -> Self {
        let times = Self::of_len(parts.len());
        let noted = times.clone();
        let note = move || {
            let Some(mut capture) = open() else {
                return;
            };
            // A scan finds the timeline too. A file that was replaced has other parts.
            let mut scan = PartScan::default();
            for part in &parts {
                if !matches!(capture.next_part(&mut scan), Ok(Some(found)) if found == *part) {
                    return;
                }
            }
            for (at, part) in parts.into_iter().enumerate() {
                let is_alone = Arc::strong_count(&noted.0) == 1;
                if is_alone || noted.note(at, part, &mut capture, origin_ns).is_none() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("vor-viz times".into());
        _ = thread.spawn(note);
        times
    }

    /// Makes a place for the times of some parts.
    pub(super) fn of_len(len: usize) -> Self {
        Self((0..len).map(|_| OnceLock::new()).collect())
    }

    /// Notes the time of a part; returns `None` if it cannot be read.
    pub(super) fn note(
        &self,
        at: usize,
        part: Part,
        capture: &mut Capture,
        origin_ns: i64,
    ) -> Option<()> {
        let contents = capture.part(part).ok()?;
        let timeline = &capture.catalog().timeline;
        let mut clock = Clock::new(TickMapper::new(timeline), origin_ns);
        _ = self.0.get(at)?.set(PartTime::of(&contents, &mut clock));
        Some(())
    }

    /// Returns the time of a part, if it is noted.
    pub(super) fn get(&self, at: usize) -> Option<&PartTime> {
        self.0.get(at)?.get()
    }
}

/// Returns the begin and the end of all that a part holds.
fn time_of(contents: &PartContents, clock: &mut Clock<'_>) -> (i64, i64) {
    let (mut begin, mut end) = (u64::MAX, 0);
    let mut cover = |from: u64, to: u64| (begin, end) = (begin.min(from), end.max(to));
    for frame in &contents.frames {
        cover(frame.start_ticks, frame.end_ticks);
    }
    for batch in &contents.threads {
        let spans = batch.start_ticks.iter().zip(&batch.duration_ticks);
        spans.for_each(|(&start, &duration)| cover(start, start.wrapping_add(duration)));
        for task in &batch.async_spans {
            cover(task.start_ticks, task.end_ticks());
        }
        let messages = batch.messages.iter().map(|message| message.ticks);
        let flows = batch.flows.iter().map(|point| point.ticks);
        let events = batch.task_events.iter().map(|event| event.start_ticks);
        let moments = messages.chain(flows).chain(events);
        moments.for_each(|ticks| cover(ticks, ticks));
    }
    match begin <= end {
        true => (clock.ns(begin), clock.ns(end)),
        false => (i64::MAX, i64::MIN),
    }
}

/// Returns when the first span or task of a part ended.
pub(super) fn first_end_ns(contents: &PartContents, clock: &mut Clock<'_>) -> i64 {
    let threads = contents.threads.iter();
    let ends = threads.flat_map(|batch| {
        let spans = (!batch.sites.is_empty()).then(|| batch.end_ticks(0));
        let tasks = batch.async_spans.first().map(|task| task.end_ticks());
        spans.into_iter().chain(tasks)
    });
    ends.min().map_or(i64::MAX, |ticks| clock.ns(ticks))
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::{self, Cursor, Read, Seek, SeekFrom};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use vor_fixtures::even::make;

    use super::*;

    fn parts_of(capture: &mut Capture) -> Vec<Part> {
        let mut scan = PartScan::default();
        std::iter::from_fn(|| capture.next_part(&mut scan).unwrap()).collect()
    }

    /// Begins to note the times of one capture in another, and waits for the end of the thread.
    fn noted(bytes: &[u8], opened: &[u8]) -> (Vec<Part>, PartTimes) {
        let mut capture = Capture::new(Cursor::new(bytes.to_vec())).unwrap();
        let parts = parts_of(&mut capture);
        let opened = Cursor::new(opened.to_vec());
        let times = PartTimes::begin(parts.clone(), 7, || Capture::new(opened).ok());
        let began = Instant::now();
        while Arc::strong_count(&times.0) > 1 {
            assert!(began.elapsed() < Duration::from_secs(300));
            thread::sleep(Duration::from_millis(1));
        }
        (parts, times)
    }

    #[test]
    fn a_thread_notes_the_times_of_all_parts() {
        let bytes = make(2_000, 100, true).bytes;
        let (parts, times) = noted(&bytes, &bytes);
        assert!(parts.len() > 1);
        let mut capture = Capture::new(Cursor::new(bytes)).unwrap();
        let expected = PartTimes::of_len(parts.len());
        for (at, part) in parts.into_iter().enumerate() {
            expected.note(at, part, &mut capture, 7).unwrap();
            let (time, expected) = (times.get(at).unwrap(), expected.get(at).unwrap());
            assert_eq!(format!("{time:?}"), format!("{expected:?}"));
        }
    }

    #[test]
    fn nothing_of_another_file_is_noted() {
        let bytes = make(2_000, 100, true).bytes;
        let (parts, times) = noted(&bytes, &make(2_000, 90, true).bytes);
        assert!((0..parts.len()).all(|at| times.get(at).is_none()));
    }

    /// Bytes that count how many of them are read.
    struct Counted {
        bytes: Cursor<Vec<u8>>,
        read: Arc<AtomicU64>,
    }

    impl Read for Counted {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let len = self.bytes.read(out)?;
            self.read.fetch_add(len as u64, Ordering::Relaxed);
            Ok(len)
        }
    }

    impl Seek for Counted {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.bytes.seek(to)
        }
    }

    #[test]
    fn the_thread_reads_no_part_when_nobody_has_the_times() {
        let bytes = make(2_000, 100, true).bytes;
        let read_bytes = |has_times: bool| {
            let read = Arc::default();
            let counted = Counted {
                bytes: Cursor::new(bytes.clone()),
                read: Arc::clone(&read),
            };
            let mut capture = Capture::new(counted).unwrap();
            let parts = parts_of(&mut capture);
            let opened = read.load(Ordering::Relaxed);
            let (send, receive) = mpsc::channel();
            let times = PartTimes::begin(parts, 0, move || receive.recv().ok());
            let left = Arc::downgrade(&times.0);
            let times = has_times.then_some(times);
            send.send(capture).unwrap();
            let began = Instant::now();
            while left.strong_count() > usize::from(has_times) {
                assert!(began.elapsed() < Duration::from_secs(300));
                thread::sleep(Duration::from_millis(1));
            }
            drop(times);
            read.load(Ordering::Relaxed) - opened
        };
        let (all, none) = (read_bytes(true), read_bytes(false));
        assert!(none < all / 2, "{none} of {all} bytes");
    }
}
