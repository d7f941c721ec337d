//! What every exporter writes for one capture with all kinds of records, as it was when other
//! programs last read it: `.ci/oracle-*` has them judge the formats.
//!
//! `UPDATE_GOLDEN=1` writes the files of `tests/golden` anew, whose difference is then to be read.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::timeline::ClockSnapshot;
use vor_capture::reader::{Capture, Event, Reader};
use vor_capture::sink::FrameSink;
use vor_export::chrome::ChromeExporter;
use vor_export::collapsed::CollapsedExporter;
use vor_export::csv::{MetricsCsv, SpanCsv};
use vor_export::perfetto::PerfettoExporter;
use vor_export::samply::SamplyExporter;
use vor_export::speedscope::SpeedscopeExporter;
use vor_fixtures::captures::every_kind_of;
use vor_fixtures::wire::listing;

fn capture() -> Vec<u8> {
    every_kind_of(3, [6, 9, 3, 5], true)
}

/// Hands everything that the capture holds to an exporter.
fn export(sink: &mut dyn FrameSink) {
    let bytes = capture();
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        let catalog = Arc::new(reader.catalog().unwrap().clone());
        match event {
            Event::Batch(mut batch) => {
                // A span as long as time itself tests decoders, and would fill a profile.
                (batch.threads).retain(|thread| !thread.duration_ticks.contains(&u64::MAX));
                sink.accept_batch(&batch).unwrap();
            }
            Event::Frame(recovered) => sink.accept_frame(&recovered.frame).unwrap(),
            Event::Heap(heap) => sink.accept_heap(&heap, &catalog).unwrap(),
            Event::Scheduler(events) => sink.accept_scheduler(&events, &catalog).unwrap(),
            _ => {}
        }
    }
    sink.finish().unwrap();
}

/// Compares a text with the file of this name.
fn compare(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = folder.join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, text).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (number, (is, was)) in text.lines().zip(golden.lines()).enumerate() {
        assert_eq!(is, was, "line {} of {name}", number + 1);
    }
    assert_eq!(text.len(), golden.len(), "the length of {name}");
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_chrome_trace() {
    let mut exporter = ChromeExporter::new(Vec::new());
    export(&mut exporter);
    compare("chrome.json", &text(exporter.into_inner()));
}

#[test]
fn a_perfetto_trace() {
    let mut exporter = PerfettoExporter::new(Vec::new());
    export(&mut exporter);
    compare("perfetto.txt", &listing(&exporter.into_inner()));
}

#[test]
fn a_speedscope_profile() {
    let mut exporter = SpeedscopeExporter::new(Vec::new());
    export(&mut exporter);
    let version = concat!("vor ", env!("CARGO_PKG_VERSION"));
    compare(
        "speedscope.json",
        &text(exporter.into_inner()).replace(version, "vor VERSION"),
    );
}

#[test]
fn collapsed_stacks() {
    let mut exporter = CollapsedExporter::new(Vec::new());
    export(&mut exporter);
    compare("collapsed.txt", &text(exporter.into_inner()));
    let mut exporter = CollapsedExporter::new(Vec::new()).without_threads();
    export(&mut exporter);
    compare(
        "collapsed_without_threads.txt",
        &text(exporter.into_inner()),
    );
}

#[test]
fn rows_of_spans_and_metrics() {
    let mut capture = Capture::new(Cursor::new(capture())).unwrap();
    let mut spans = SpanCsv::new(Vec::new());
    let mut metrics = MetricsCsv::new(Vec::new(), capture.catalog());
    for i in 0..capture.frame_count() {
        let frame = capture.frame(i).unwrap();
        spans.accept_frame(&frame).unwrap();
        metrics.accept_frame(&frame).unwrap();
    }
    spans.finish().unwrap();
    metrics.finish().unwrap();
    compare("spans.csv", &text(spans.into_inner()));
    compare("metrics.csv", &text(metrics.into_inner()));
}

#[test]
fn markers_of_samply() {
    let mut files = String::new();
    let clock = filled!(ClockSnapshot {
        ticks: 1000,
        monotonic_ns: 77,
    });
    export(&mut SamplyExporter::new(
        clock,
        |catalog: &Catalog, thread, lines: &[u8]| {
            files.push_str(&vor_export::thread_label(catalog, thread));
            files.push('\n');
            files.push_str(std::str::from_utf8(lines).unwrap());
            Ok(())
        },
    ));
    compare("samply.txt", &files);
}

#[cfg(feature = "firefox")]
#[test]
fn a_firefox_profile() {
    let mut exporter = vor_export::firefox::FirefoxExporter::new(Vec::new());
    export(&mut exporter);
    let profile: serde_json::Value = serde_json::from_slice(&exporter.into_inner()).unwrap();
    compare(
        "firefox.json",
        &serde_json::to_string_pretty(&profile).unwrap(),
    );
}

#[cfg(feature = "pprof")]
#[test]
fn a_pprof_profile() {
    use std::io::Read as _;
    let mut exporter = vor_export::pprof::PprofExporter::new(Vec::new()).label("n");
    export(&mut exporter);
    let mut profile = Vec::new();
    flate2::read::GzDecoder::new(exporter.into_inner().as_slice())
        .read_to_end(&mut profile)
        .unwrap();
    compare("pprof.txt", &listing(&profile));
}
