//! The numbers are true: durations against the clock around them, and every output against every
//! other.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::FrameSink;
use vor_fixtures::own_process;
use vor_recorder::clock;
use vor_recorder::drain;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

#[derive(Clone, Default)]
struct FrameLog(Arc<Mutex<Vec<Arc<FrameSnapshot>>>>);

impl FrameSink for FrameLog {
    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        self.0.lock().unwrap().push(Arc::clone(frame));
        Ok(())
    }
}

/// Runs `work` as one frame and returns it.
fn frame_of(work: impl FnOnce()) -> Arc<FrameSnapshot> {
    Config::new().enable();
    drain::frame_mark();
    let sink = FrameLog::default();
    let handle = drain::add_sink("sink", sink.clone());
    work();
    drain::frame_mark();
    drain::flush();
    drop(handle);
    let mut frames = sink.0.lock().unwrap();
    assert_eq!(frames.len(), 1);
    frames.remove(0)
}

/// Ticks per nanosecond, accurate to some parts per million.
fn ticks_per_ns(catalog: &Catalog) -> f64 {
    let rate = catalog
        .timeline
        .syncs()
        .last()
        .expect("the clock is calibrated")
        .rate;
    (1_u64 << vor_capture::model::timeline::RATE_BITS) as f64 / rate as f64
}

/// The ticks measured around and inside of a span.
struct Bounds {
    inside: u64,
    around: u64,
}

#[inline(never)]
fn busy(length_ticks: u64) -> Bounds {
    let around = clock::ticks();
    let inside = {
        profile_scope!("busy");
        let begin = clock::ticks();
        while clock::ticks() - begin < length_ticks {
            std::hint::spin_loop();
        }
        clock::ticks() - begin
    };
    Bounds {
        inside,
        around: clock::ticks() - around,
    }
}

/// The distance between the bounds depends on the load of the machine; the bench `budget` measures
/// it.
#[test]
fn a_busy_loop_lasts_between_the_inner_and_the_outer_reading() {
    own_process!();
    for (length_ns, repetitions) in [
        (100_u64, 2001),
        (1_000, 2001),
        (10_000, 501),
        (100_000, 101),
        (1_000_000, 51),
        (100_000_000, 5),
        (1_000_000_000, 1),
    ] {
        let mut bounds = Vec::new();
        // The first scope of a site and of a thread takes longer than the others.
        let frame = frame_of(|| {
            busy(1);
            let per_ns = ticks_per_ns(&drain::catalog().expect("recording is on"));
            bounds.extend((0..repetitions).map(|_| busy((length_ns as f64 * per_ns) as u64)));
        });
        let spans = &frame.threads[0].spans[1..];
        assert_eq!(spans.len(), bounds.len());
        for (span, bounds) in spans.iter().zip(&bounds) {
            // No tolerance: the span contains the ticks read inside of it, and the ticks read
            // around it contain the span.
            assert!(
                bounds.inside <= span.duration_ticks && span.duration_ticks <= bounds.around,
                "{length_ns} ns: {} ticks inside, {} reported, {} around",
                bounds.inside,
                span.duration_ticks,
                bounds.around
            );
        }
    }
}

#[test]
fn a_second_is_a_second_of_the_systems_clock() {
    own_process!();
    // Reads the clock and the counter as close together as a busy machine allows.
    let both = || {
        let read = |_| {
            let before = clock::ticks();
            let now = Instant::now();
            (clock::ticks() - before, before, now)
        };
        let (width, before, now) = (0..1000)
            .map(read)
            .min_by_key(|(width, ..)| *width)
            .unwrap();
        (before + width / 2, now)
    };
    let mut bounds = None;
    let frame = frame_of(|| {
        let begin = both();
        std::thread::sleep(Duration::from_secs(1));
        bounds = Some((begin, both()));
    });
    let ((begin_ticks, begin), (end_ticks, end)) = bounds.unwrap();
    let expected_ns = (end - begin).as_nanos() as f64;
    let found_ns = frame
        .catalog
        .timeline
        .duration_ns(begin_ticks, end_ticks - begin_ticks) as f64;
    let off = (found_ns - expected_ns).abs();
    assert!(
        off <= 25.0 + expected_ns / 10_000.0,
        "{found_ns} ns for {expected_ns} ns"
    );
}

#[cfg(feature = "puffin")]
#[test]
fn capture_puffin_and_chrome_agree_to_the_tick() {
    own_process!();
    use puffin::FrameData;
    use vor_capture::reader::Capture;
    use vor_export::chrome::ChromeExporter;
    use vor_recorder::sinks::puffin::frame_bytes;

    #[inline(never)]
    fn tree(depth: u32) {
        profile_scope!("tree", depth = depth);
        if depth > 0 {
            tree(depth - 1);
            profile_scope!("between");
            tree(depth - 1);
        }
    }

    /// The exporter's writer, which the drain owns.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let json = Shared::default();
    Config::new().capture(&path).enable();
    drain::flush();
    let chrome = drain::add_sink("chrome", ChromeExporter::new(json.clone()));
    let frame = frame_of(|| {
        let threads: Vec<_> = (0..3)
            .map(|depth| std::thread::spawn(move || tree(depth + 4)))
            .collect();
        tree(6);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    drop(chrome);

    // The capture has the same ticks and the same tree.
    let mut capture = Capture::open(&path).unwrap();
    let recorded = (0..capture.frame_count()).map(|i| capture.frame(i).unwrap());
    let recorded = recorded
        .into_iter()
        .find(|recorded| recorded.index == frame.index)
        .expect("the frame is in the capture");
    assert_eq!(recorded.threads, frame.threads);
    assert_eq!(
        (recorded.start_ticks, recorded.end_ticks),
        (frame.start_ticks, frame.end_ticks)
    );

    // All spans as start and duration in nanoseconds, mapped with the capture's own timeline.
    let timeline = &recorded.catalog.timeline;
    let spans = recorded.threads.iter().flat_map(|tree| &tree.spans);
    let mut expected: Vec<_> = spans
        .map(|span| {
            let start_ns = timeline.unix_ns(span.start_ticks);
            (
                start_ns,
                timeline.duration_ns(span.start_ticks, span.duration_ticks),
            )
        })
        .collect();
    expected.sort_unstable();
    assert!(expected.len() > 200);

    fn walk(stream: &puffin::Stream, reader: puffin::Reader<'_>, out: &mut Vec<(i64, u64)>) {
        for scope in reader {
            let scope = scope.expect("a whole scope");
            out.push((
                scope.record.start_ns,
                u64::try_from(scope.record.duration_ns).unwrap(),
            ));
            let children =
                puffin::Reader::with_offset(stream, scope.child_begin_position).expect("children");
            walk(stream, children, out);
        }
    }
    let bytes = frame_bytes(&recorded).expect("the frame has spans");
    assert_eq!(
        Some(&bytes),
        frame_bytes(&frame).as_ref(),
        "live and recorded frames are the same bytes"
    );
    let data = FrameData::read_next(&mut &bytes[..])
        .unwrap()
        .unwrap()
        .unpacked()
        .unwrap();
    let mut in_puffin = Vec::new();
    for info in data.thread_streams.values() {
        walk(
            &info.stream,
            puffin::Reader::from_start(&info.stream),
            &mut in_puffin,
        );
    }
    in_puffin.sort_unstable();
    assert_eq!(in_puffin, expected);

    let json = json.0.lock().unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_slice(&json).unwrap();
    let number = |event: &serde_json::Value, key: &str| {
        (event[key].as_f64().unwrap() * 1000.0).round() as i64
    };
    let spans = events.iter().filter(|event| event["ph"] == "X");
    let mut in_chrome: Vec<_> = spans
        .map(|event| (number(event, "ts"), number(event, "dur") as u64))
        .collect();
    in_chrome.sort_unstable();
    // A Chrome trace begins near its start, not in 1970.
    let origin_ns = expected[0].0 - in_chrome[0].0;
    in_chrome
        .iter_mut()
        .for_each(|(start_ns, _)| *start_ns += origin_ns);
    assert_eq!(in_chrome, expected);
}
