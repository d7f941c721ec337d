//! Exporters ask for no more than they need, and write all they have when they are flushed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use vor_capture::filled;
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::model::timeline::ClockSnapshot;
use vor_capture::reader::{Capture, Event, Reader};
use vor_capture::sink::{FrameSink, Interest};
use vor_export::chrome::ChromeExporter;
use vor_export::collapsed::CollapsedExporter;
use vor_export::csv::{MetricsCsv, SpanCsv};
use vor_export::perfetto::PerfettoExporter;
use vor_export::samply::SamplyExporter;
use vor_export::speedscope::SpeedscopeExporter;
use vor_fixtures::captures::every_kind_of;

/// A file that a test reads while an exporter writes it.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

fn capture() -> Vec<u8> {
    every_kind_of(3, [6, 9, 3, 5], true)
}

fn samply() -> SamplyExporter<impl FnMut(&Catalog, ThreadId, &[u8]) -> io::Result<()> + Send> {
    SamplyExporter::new(ClockSnapshot::default(), |_: &Catalog, _, _: &[u8]| Ok(()))
}

#[test]
fn exporters_ask_for_what_they_write() {
    let none = || io::sink();
    let columns = Catalog::default();
    let sinks: [(&str, Box<dyn FrameSink>, Interest, bool); _] = [
        (
            "chrome",
            Box::new(ChromeExporter::new(none())),
            Interest::BATCHES,
            false,
        ),
        (
            "collapsed",
            Box::new(CollapsedExporter::new(none())),
            Interest::BATCHES,
            true,
        ),
        (
            "metrics",
            Box::new(MetricsCsv::new(none(), &columns)),
            Interest::METRICS,
            false,
        ),
        (
            "perfetto",
            Box::new(PerfettoExporter::new(none())),
            Interest::BATCHES,
            true,
        ),
        ("samply", Box::new(samply()), Interest::BATCHES, false),
        (
            "spans",
            Box::new(SpanCsv::new(none())),
            Interest::FRAMES,
            false,
        ),
        (
            "speedscope",
            Box::new(SpeedscopeExporter::new(none())),
            Interest::BATCHES,
            false,
        ),
        #[cfg(feature = "firefox")]
        (
            "firefox",
            Box::new(vor_export::firefox::FirefoxExporter::new(none())),
            Interest::BATCHES,
            false,
        ),
        #[cfg(feature = "pprof")]
        (
            "pprof",
            Box::new(vor_export::pprof::PprofExporter::new(none())),
            Interest::BATCHES,
            true,
        ),
    ];
    for (name, sink, interest, wants_open) in &sinks {
        assert_eq!(sink.interest(), *interest, "{name}");
        assert_eq!(sink.wants_open(), *wants_open, "{name}");
        assert_eq!(sink.reads_metrics(), *name != "samply", "{name}");
    }
}

#[test]
fn flushed_rows_are_whole() {
    let mut capture = Capture::new(io::Cursor::new(capture())).unwrap();
    let (spans, metrics) = (Shared::default(), Shared::default());
    let mut sinks: Vec<(Box<dyn FrameSink>, Shared)> = vec![
        (Box::new(SpanCsv::new(spans.clone())), spans),
        (
            Box::new(MetricsCsv::new(metrics.clone(), capture.catalog())),
            metrics,
        ),
    ];
    for (sink, written) in &mut sinks {
        let mut length = 0;
        for i in 0..capture.frame_count() {
            sink.accept_frame(&capture.frame(i).unwrap()).unwrap();
            sink.flush().unwrap();
            let bytes = written.bytes();
            assert!(bytes.len() > length && bytes.ends_with(b"\n"), "frame {i}");
            length = bytes.len();
        }
        sink.finish().unwrap();
        assert_eq!(written.bytes().len(), length);
    }
}

#[test]
fn flushed_markers_are_written() {
    let bytes = capture();
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    let lines = Shared::default();
    let mut file = lines.clone();
    let clock = filled!(ClockSnapshot { ticks: 1000 });
    let mut sink = SamplyExporter::new(clock, move |_: &Catalog, _, lines: &[u8]| {
        file.write_all(lines)
    });
    let mut growths = 0;
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Batch(batch) = event {
            let before = lines.bytes().len();
            sink.accept_batch(&batch).unwrap();
            sink.flush().unwrap();
            growths += usize::from(lines.bytes().len() > before);
        }
    }
    let flushed = lines.bytes();
    sink.finish().unwrap();
    assert_eq!(lines.bytes(), flushed);
    assert!(growths > 1);
}

#[test]
fn the_names_of_a_profile_are_those_of_the_last_frame() {
    let mut capture = Capture::new(io::Cursor::new(capture())).unwrap();
    let batch = filled!(SpanBatch {
        threads: vec![filled!(ThreadBatch {
            start_ticks: vec![10],
            duration_ticks: vec![5],
            sites: vec![SiteId(1)]
        })]
    });
    let frame = capture.frame(0).unwrap();
    let mut sink = SpeedscopeExporter::new(Vec::new());
    sink.accept_batch(&batch).unwrap();
    sink.accept_frame(&frame).unwrap();
    sink.finish().unwrap();
    let profile: serde_json::Value = serde_json::from_slice(&sink.into_inner()).unwrap();
    assert_eq!(profile["name"], frame.catalog.process.name);
    let name = frame.catalog.site_name(SiteId(1));
    assert_ne!(name, "?");
    assert_eq!(profile["shared"]["frames"][0]["name"], name);
}

#[test]
fn an_exporter_of_markers_is_shown_with_its_clock() {
    let clock = filled!(ClockSnapshot { ticks: 1234 });
    let sink = SamplyExporter::new(clock, |_: &Catalog, _, _: &[u8]| Ok(()));
    let shown = format!("{sink:?}");
    assert!(shown.starts_with("SamplyExporter") && shown.contains("1234"));
}
