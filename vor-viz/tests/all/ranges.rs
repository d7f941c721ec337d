//! Selected time of a capture, compared and exported; and a frame beside the median of all.

use std::io::Cursor;

use egui_kittest::kittest::Queryable;
use vor_capture::reader::Capture;
use vor_fixtures::even::{frame_ns, make};
use vor_viz::compare::Per;
use vor_viz::export::{ExportFormat, export_time};
use vor_viz::panel::Tab;

use crate::find::{opened, settle};
use crate::pictures::rest;

/// Time of the first scope in a frame: ten calls of three steps each, without their gaps.
fn update_ns(frame: u64) -> u64 {
    10 * (3 * (frame_ns(frame) / 31) - 10)
}

#[test]
fn a_kept_time_is_compared_with_another_of_another_length() {
    let mut viewer = opened(true);
    viewer.state_mut().panel_mut().set_tab(Tab::Compare);
    let mut select = |begin_ns: i64, end_ns: i64| {
        let (store, view) = viewer.state_mut().panel_mut().parts();
        view.select_time(store, begin_ns, end_ns);
        settle(&mut viewer);
        if let Some(keep) = viewer.query_by_label("Keep selected 99.0 ms") {
            keep.click();
        }
        settle(&mut viewer);
    };
    // 99 frames of a millisecond, and one of three, which is outside the window of frames.
    select(0, 99_000_000);
    let end_ns: u64 = (0..1_000).map(frame_ns).sum();
    select(end_ns as i64 - 3_000_000, end_ns as i64);
    let merged = viewer.state().panel().comparison().merged().unwrap();
    assert_eq!(merged.per, Per::Second);
    let row = merged
        .rows
        .iter()
        .find(|row| &*row.name == "update")
        .unwrap();
    let [kept, now] = row.sides.map(|side| side.unwrap());
    let close = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-9;
    let (of_short, of_long) = (update_ns(0) as f64 * 1e3, update_ns(99) as f64 * 1e3 / 3.0);
    assert!(close(kept.frame_ns, of_short), "{kept:?}");
    assert!(close(now.frame_ns, of_long), "{now:?}");
    assert!(close(kept.frame_count, 10.0 * 1e3));
    assert!(close(now.frame_count, 10.0 * 1e3 / 3.0));
    viewer.get_by_label("sort by A ms/s");
}

/// The scope that a slow frame spends its time in is far from the median, and the interval says so.
#[test]
fn a_slow_frame_differs_from_the_median_of_the_capture() {
    let mut viewer = opened(true);
    let panel = viewer.state_mut().panel_mut();
    panel.set_tab(Tab::Compare);
    panel.set_explains(true);
    settle(&mut viewer);
    viewer.get_by_label("Pin a frame to see how it differs from the median frame.");
    for (frame, is_usual) in [(699, false), (700, true)] {
        viewer.state_mut().go_to(frame);
        settle(&mut viewer);
        let result = viewer.state().panel().why().result().unwrap();
        assert!(result.frames > 1_000, "{}", result.frames);
        assert_eq!(result.rows.len(), 2);
        let row = result
            .rows
            .iter()
            .find(|row| &*row.name == "update")
            .unwrap();
        assert_eq!(row.here_ns, update_ns(frame));
        assert!(
            (row.median_ns - update_ns(0) as f64).abs() < 100.0,
            "{row:?}"
        );
        let (low, high) = row.change_interval_ns().unwrap();
        assert!(low <= row.change_ns() && row.change_ns() <= high);
        assert_eq!(row.change_ns() < 1_000_000.0, is_usual, "{row:?}");
        assert_eq!(row.calls, (10, 10.0));
        assert!(is_usual || !row.is_usual());
    }
    viewer.state_mut().go_to(699);
    settle(&mut viewer);
    rest(&mut viewer);
    viewer.snapshot("why_dark");
}

/// Begin and duration of each exported span.
fn exported(time: (i64, i64), format: ExportFormat) -> Vec<(i64, i64)> {
    let mut capture = Capture::new(Cursor::new(make(1_200, 30, true).bytes)).unwrap();
    let mut bytes = Vec::new();
    assert_eq!(
        export_time(&mut capture, time, format, &mut bytes).unwrap(),
        0
    );
    let text = String::from_utf8(bytes).unwrap();
    if format == ExportFormat::SpanCsv {
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().unwrap().split(',').collect();
        let column = |wanted| header.iter().position(|name| *name == wanted).unwrap();
        let (start, length) = (column("start_ns"), column("dur_ns"));
        let number = |fields: &[&str], at: usize| fields[at].parse().unwrap();
        let spans = lines.map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            (number(&fields, start), number(&fields, length))
        });
        return spans.collect();
    }
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = trace
        .as_array()
        .or_else(|| trace["traceEvents"].as_array())
        .unwrap();
    let spans = events.iter().filter(|event| event["ph"] == "X");
    let ns =
        |event: &serde_json::Value, key: &str| (event[key].as_f64().unwrap() * 1e3).round() as i64;
    spans
        .map(|event| (ns(event, "ts"), ns(event, "dur")))
        .collect()
}

#[test]
fn a_selected_time_is_exported_with_the_spans_that_end_in_it() {
    for format in [ExportFormat::SpanCsv, ExportFormat::Chrome] {
        let all = exported((i64::MIN / 2, i64::MAX / 2), format);
        assert_eq!(all.len(), 36_000, "{format:?}");
        // Frames follow one another, so the first span gives the begin of the first frame.
        let first_ns = all.iter().map(|span| span.0).min().unwrap();
        for (begin_ns, end_ns) in [
            (0, 50_000),
            (98_500_000, 101_700_000),
            (777_123_456, 999_999_999),
        ] {
            let mut found = exported((begin_ns, end_ns), format);
            let ends = |span: &&(i64, i64)| {
                let end_ns_here = span.0 + span.1 - first_ns;
                begin_ns < end_ns_here && end_ns_here <= end_ns
            };
            let mut expected: Vec<_> = all.iter().filter(ends).copied().collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert!(!expected.is_empty());
            // Exports count from their own first moment or from the capture's.
            let shift = found[0].0 - expected[0].0;
            let found: Vec<_> = found.iter().map(|span| (span.0 - shift, span.1)).collect();
            assert_eq!(found, expected, "{format:?} {begin_ns}..{end_ns}");
        }
        assert!(exported((2, 3), format).is_empty());
    }
}
