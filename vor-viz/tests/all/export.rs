//! An export has the contents of the panel.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use vor_capture::reader::Capture;
use vor_fixtures::even::make;
use vor_viz::export::{ExportFormat, export, export_time};
use vor_viz::replay::{Arriving, ReplayState};
use vor_viz::store::{Store, TrackKind};

fn exported(store: &Store, frames: (usize, usize), format: ExportFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    export(store, frames, format, &mut bytes).unwrap();
    bytes
}

/// Counts the spans that end in some frames, and sums their durations.
fn span_totals(store: &Store, (first, last): (usize, usize), kind: TrackKind) -> (usize, u64) {
    let time = store.time_of(first..last + 1).unwrap();
    let tracks = store
        .tracks()
        .iter()
        .filter(|track| track.id.kind() == kind);
    let spans = tracks
        .flat_map(|track| &track.rows)
        .flat_map(|row| row.spans(i64::MIN, i64::MAX));
    let inside = spans.filter(|span| span.end_ns() > time.start && span.end_ns() <= time.end);
    inside.fold((0, 0), |(count, sum), span| {
        (count + 1, sum + span.duration_ns)
    })
}

#[test]
fn a_table_has_every_span_once() {
    let store = crate::synthetic::rich_store();
    for frames in [(0, 47), (20, 20), (30, 35)] {
        let text = String::from_utf8(exported(&store, frames, ExportFormat::SpanCsv)).unwrap();
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().unwrap().split(',').collect();
        let column = header.iter().position(|name| *name == "dur_ns").unwrap();
        let durations =
            lines.map(|line| line.split(',').nth(column).unwrap().parse::<u64>().unwrap());
        let found = durations.fold((0, 0), |(count, sum), ns| (count + 1, sum + ns));
        assert_eq!(
            found,
            span_totals(&store, frames, TrackKind::Scopes),
            "frames {frames:?}"
        );
    }
}

#[test]
fn a_chrome_trace_has_spans_tasks_messages_metrics_and_arguments() {
    let store = crate::synthetic::rich_store();
    let bytes = exported(&store, (0, 47), ExportFormat::Chrome);
    let trace: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let events = trace
        .as_array()
        .or_else(|| trace["traceEvents"].as_array())
        .unwrap();
    let phase = |wanted: &str| events.iter().filter(|event| event["ph"] == wanted).count();
    assert_eq!(
        phase("X"),
        span_totals(&store, (0, 47), TrackKind::Scopes).0
    );
    // The program numbers none of these tasks, so each begins with an event of its own.
    assert_eq!(
        phase("b"),
        2 * span_totals(&store, (0, 47), TrackKind::Tasks).0 + 48,
        "tasks, their begins and frames"
    );
    assert_eq!(phase("b"), phase("e"));
    assert_eq!(phase("n"), 48 * 3, "steps of tasks");
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert_eq!(named("loss"), 48);
    assert!(events.iter().any(|event| event["args"]["clip"] == "clip 1"));
    assert!(bytes.windows(14).any(|window| window == b"level 8 loaded"));
}

#[test]
fn a_perfetto_trace_grows_with_the_selection() {
    let store = crate::synthetic::rich_store();
    let (one, all) = (
        exported(&store, (3, 3), ExportFormat::Perfetto),
        exported(&store, (0, 47), ExportFormat::Perfetto),
    );
    assert!(
        one.len() > 500 && all.len() > 20 * one.len() / 2,
        "{} and {} bytes",
        one.len(),
        all.len()
    );
}

#[test]
fn nothing_gives_an_empty_trace() {
    for format in ExportFormat::ALL {
        let bytes = exported(&Store::new(4, 4), (0, 0), format);
        if format == ExportFormat::Chrome {
            serde_json::from_slice::<serde_json::Value>(&bytes).unwrap();
        }
    }
}

#[test]
fn a_full_disk_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("no space left on device"))
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for format in ExportFormat::ALL {
        let error = export(&crate::synthetic::rich_store(), (0, 47), format, Full).unwrap_err();
        assert!(error.to_string().contains("no space left"), "{error}");
    }
}

/// A page has no file to read a selected time from.
#[test]
fn a_time_of_a_capture_in_memory_is_exported() {
    let made = make(600, 9, true);
    let exported = |mut capture: Capture| {
        let mut bytes = Vec::new();
        let time_ns = (400_000_000, 450_000_000);
        export_time(&mut capture, time_ns, ExportFormat::SpanCsv, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let expected = exported(Capture::new(std::io::Cursor::new(made.bytes.clone())).unwrap());
    // Frames of a millisecond with nine spans each, and none of three.
    assert!(expected.lines().count() > 400);
    let replay = ReplayState::from_bytes(made.bytes.clone(), "run.vor").unwrap();
    assert_eq!(exported(replay.source().open().unwrap()), expected);
    // Frames that arrive later are there as well.
    let (first, others) = made.bytes.split_at(made.frame_ends[10]);
    let arriving = Arriving::from(first.to_vec());
    let replay = ReplayState::arriving(&arriving, "run.vor").unwrap();
    arriving.push(others);
    assert_eq!(exported(replay.source().open().unwrap()), expected);
}
