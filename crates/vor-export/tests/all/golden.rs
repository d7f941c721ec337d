//! Every exporter writes one capture with all kinds of records as before. `.ci/oracle-*` has other
//! programs judge the formats; these files show each change of what they hold.
//!
//! `UPDATE_GOLDEN=1` writes the files of `tests/golden` anew. Read their difference then.
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
use vor_export::perfetto::{CounterUnit, PerfettoExporter};
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
                for thread in &mut batch.threads {
                    if thread.duration_ticks.contains(&u64::MAX) {
                        thread.start_ticks.clear();
                        thread.duration_ticks.clear();
                        thread.sites.clear();
                    }
                }
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
fn counters_of_a_program_in_a_perfetto_trace() {
    let bytes = capture();
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    while reader.next_event().unwrap().is_some() {}
    let catalog = Arc::new(reader.catalog().unwrap().clone());
    let mut first = PerfettoExporter::new(Vec::new());
    assert_eq!(first.next_sequence(), 1);
    first.start(&catalog).unwrap();
    let units = [
        CounterUnit::None,
        CounterUnit::TimeNs,
        CounterUnit::SizeBytes,
        CounterUnit::Custom("%".into()),
    ];
    let mut second = PerfettoExporter::with_sequences_from(Vec::new(), first.next_sequence());
    second.start(&catalog).unwrap();
    assert!(second.next_sequence() > first.next_sequence());
    let mut files = Vec::new();
    for exporter in [&mut first, &mut second] {
        for (number, unit) in units.iter().enumerate() {
            let (fixed, summed) = (format!("value {number}"), format!("sum {number}"));
            let fixed = exporter.add_counter(&fixed, unit, 1 << number);
            let summed = exporter.add_incremental_counter(&summed, unit, 1);
            exporter.put_counter(fixed, 2_000 + number as u64, 0.5);
            exporter.put_counter(fixed, 2_000, f64::NAN);
            exporter.put_integer_counter(summed, 3_000 + number as u64, -7);
        }
        files.extend(exporter.take_bytes());
        assert!(exporter.take_bytes().is_empty());
    }
    compare("perfetto_counters.txt", &listing(&files));
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
fn unzipped(bytes: &[u8]) -> Vec<u8> {
    use std::io::Read as _;
    let mut profile = Vec::new();
    flate2::read::GzDecoder::new(bytes)
        .read_to_end(&mut profile)
        .unwrap();
    profile
}

#[cfg(feature = "pprof")]
#[test]
fn a_pprof_profile() {
    let mut exporter = vor_export::pprof::PprofExporter::new(Vec::new()).label("n");
    export(&mut exporter);
    assert_eq!(exporter.dropped_spans(), 6);
    compare("pprof.txt", &listing(&unzipped(&exporter.into_inner())));
}

#[cfg(feature = "pprof")]
#[test]
fn heaps_as_pprof_profiles() {
    use vor_export::pprof::HeapPprof as _;
    let bytes = capture();
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    let mut heaps = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Heap(heap) = event {
            heaps.push(heap);
        }
    }
    let mut files = vec![Vec::new(); 4];
    heaps[0].write_pprof(&mut files[0]).unwrap();
    heaps[1].write_pprof(&mut files[1]).unwrap();
    heaps[2]
        .write_pprof_since(&heaps[0], &mut files[2])
        .unwrap();
    let off = vor_capture::model::heap::HeapSnapshot::default();
    off.write_pprof(&mut files[3]).unwrap();
    let profiles: Vec<_> = files.iter().map(|file| unzipped(file)).collect();
    let listings: Vec<_> = profiles.iter().map(|profile| listing(profile)).collect();
    compare("pprof_heaps.txt", &listings.join("\n"));
}
