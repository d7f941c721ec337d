//! Exports of random selections of random captures have the spans, tasks and frames that the reader
//! returns for them, also where a capture is damaged.

use std::io::Cursor;

use vor_capture::model::batch::SpanBatch;
use vor_capture::reader::Capture;
use vor_capture::sink::FrameSink;
use vor_export::chrome::ChromeExporter;
use vor_export::csv::SpanCsv;
use vor_export::perfetto::PerfettoExporter;
use vor_fixtures::Random;
use vor_fixtures::framed::make_damaged;
use vor_fixtures::perfetto;
use vor_fixtures::random::{rounds, seeds};
use vor_fixtures::recorded::RecordedSpan;
use vor_viz::export::{ExportFormat, export, export_time};

use crate::export_traces::in_chrome;
use crate::selections::Opened;

/// Kind, name, begin from the first one on, and duration.
type Exported = (String, String, i64, i64);

/// Counts begins from the first one, and sorts.
fn from_first(mut all: Vec<Exported>) -> Vec<Exported> {
    let first = all.iter().map(|one| one.2).min().unwrap_or(0);
    all.iter_mut().for_each(|one| one.2 -= first);
    all.sort_unstable();
    all
}

fn read_capture(opened: &Opened) -> Capture {
    Capture::new(Cursor::new(opened.bytes.clone())).unwrap()
}

/// Writes frames as `vor export --frames` does; frames that are lost are left out.
fn of_frames(opened: &Opened, (first, last): (u64, u64), sink: &mut dyn FrameSink) {
    let mut capture = read_capture(opened);
    for place in first..=last {
        let Ok(frame) = capture.frame(place) else {
            continue;
        };
        if sink.interest().batches {
            sink.accept_batch(&SpanBatch::of_trees(&frame)).unwrap();
        }
        sink.accept_frame(&frame).unwrap();
    }
    sink.finish().unwrap();
}

/// Returns the fields of the rows of a table, sorted, with begins from the first one on.
fn rows(csv: &[u8]) -> Vec<Vec<String>> {
    const START: usize = 7;
    let mut lines = std::str::from_utf8(csv).unwrap().lines();
    let heading = lines.next().unwrap().split(',');
    assert_eq!(heading.clone().nth(START), Some("start_ns"));
    let width = heading.count();
    let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut rows: Vec<Vec<String>> = lines.map(fields).collect();
    let start = |row: &Vec<String>| row[START].parse::<i64>().unwrap();
    let first = rows.iter().map(start).min().unwrap_or(0);
    for row in &mut rows {
        assert_eq!(row.len(), width);
        row[START] = (start(row) - first).to_string();
    }
    rows.sort_unstable();
    rows
}

/// Returns the spans of threads in a Perfetto trace.
fn in_perfetto(trace: &[u8]) -> Vec<Exported> {
    let trace = perfetto::read(trace);
    let slices = trace.slices.into_iter();
    let of_threads = slices.filter(|slice| trace.threads.contains_key(&slice.track));
    from_first(
        of_threads
            .map(|slice| {
                let (begin, end) = (slice.start_ns as i64, slice.end_ns as i64);
                ("span".to_owned(), slice.name, begin, end - begin)
            })
            .collect(),
    )
}

/// Returns spans or tasks that end in a time, after its begin.
fn ended<'a>(
    opened: &'a Opened,
    kind: &'a str,
    spans: &'a [RecordedSpan],
    (begin_ns, end_ns): (i64, i64),
) -> impl Iterator<Item = Exported> + 'a {
    let catalog = opened.replay.store().catalog();
    let within = move |span: &&RecordedSpan| begin_ns < span.end_ns && span.end_ns <= end_ns;
    spans.iter().filter(within).map(move |span| {
        let name = catalog.site_name(vor_capture::model::catalog::SiteId(span.site));
        let ns = span.end_ns - span.begin_ns;
        (kind.to_owned(), name.to_owned(), span.begin_ns, ns)
    })
}

#[test]
fn exports_of_frames_are_those_of_vor_export() {
    let (mut spans, mut tasks) = (0, 0);
    for seed in seeds(150) {
        let Some(opened) = Opened::new(make_damaged(seed)) else {
            continue;
        };
        // Without marks, the only frame begins with its first span, which may have no duration.
        if !opened.replay.info().marked {
            continue;
        }
        let mut random = Random(seed);
        for case in 0..3 {
            let [first, last] = opened.frames(&mut random);
            let case = format!("seed {seed}, case {case}, frames {first:?} to {last:?}");
            let time = (first.begin_ns, last.end_ns);
            let places = (first.place, last.place);
            let exported = |format| {
                let (store, mut bytes) = (opened.replay.store(), Vec::new());
                let frames = (places.0 as usize, places.1 as usize);
                export(store, frames, format, &mut bytes).unwrap();
                bytes
            };
            let mut csv = SpanCsv::new(Vec::new());
            of_frames(&opened, places, &mut csv);
            let found = rows(&exported(ExportFormat::SpanCsv));
            assert_eq!(found, rows(&csv.into_inner()), "{case}");

            let mut chrome = ChromeExporter::new(Vec::new());
            of_frames(&opened, places, &mut chrome);
            let found = from_first(in_chrome(&exported(ExportFormat::Chrome)));
            let expected = from_first(in_chrome(&chrome.into_inner()));
            assert_eq!(found, expected, "{case}");

            let mut trace = PerfettoExporter::new(Vec::new());
            of_frames(&opened, places, &mut trace);
            let in_trace = in_perfetto(&exported(ExportFormat::Perfetto));
            assert_eq!(in_trace, in_perfetto(&trace.into_inner()), "{case}");

            let of_spans = ended(&opened, "span", &opened.by_frames.spans, time);
            assert_eq!(in_trace, from_first(of_spans.collect()), "{case}");
            spans += in_trace.len();
            tasks += found.iter().filter(|one| one.0 == "task").count();
        }
    }
    assert!(
        spans > rounds(5_000) && tasks > rounds(500),
        "{spans}, {tasks}"
    );
}

#[test]
fn exports_of_a_time_have_what_ends_in_it() {
    let (mut spans, mut tasks) = (0, 0);
    for seed in seeds(150) {
        let Some(opened) = Opened::new(make_damaged(seed)) else {
            continue;
        };
        let mut random = Random(seed);
        let mut capture = read_capture(&opened);
        let recorded = &opened.by_frames;
        for case in 0..3 {
            let (one, other) = (opened.moment(&mut random), opened.moment(&mut random));
            let time = (one.min(other), one.max(other));
            let case = format!("seed {seed}, case {case}, {time:?}");
            let mut exported = |format| {
                let mut bytes = Vec::new();
                let lost = export_time(&mut capture, time, format, &mut bytes).unwrap();
                let readable = recorded.frames.len() as u64;
                assert!(lost <= recorded.frame_count - readable, "{case}");
                bytes
            };
            let of_spans = || ended(&opened, "span", &recorded.spans, time);
            let expected = from_first(of_spans().collect());
            let csv = rows(&exported(ExportFormat::SpanCsv)).into_iter();
            let in_csv = csv.map(|row| {
                let number = |at: usize| row[at].parse().unwrap();
                ("span".to_owned(), row[4].clone(), number(7), number(8))
            });
            assert_eq!(from_first(in_csv.collect()), expected, "{case}");
            let in_trace = in_perfetto(&exported(ExportFormat::Perfetto));
            assert_eq!(in_trace, expected, "{case}");

            let of_tasks = ended(&opened, "task", &recorded.tasks, time);
            let frames = recorded.frames.iter();
            let frames = frames
                .filter(|frame| time.0 < frame.end_ns && frame.end_ns <= time.1)
                .map(|frame| {
                    let ns = frame.end_ns - frame.begin_ns;
                    ("frame".to_owned(), String::new(), frame.begin_ns, ns)
                });
            let all = from_first(of_spans().chain(of_tasks).chain(frames).collect());
            let mut in_chrome = in_chrome(&exported(ExportFormat::Chrome));
            let of_frame = |one: &&mut Exported| one.0 == "frame";
            let names = in_chrome.iter_mut().filter(of_frame);
            names.for_each(|frame| frame.1.clear());
            assert_eq!(from_first(in_chrome), all, "{case}");
            spans += expected.len();
            tasks += all.iter().filter(|one| one.0 == "task").count();
        }
    }
    assert!(
        spans > rounds(5_000) && tasks > rounds(500),
        "{spans}, {tasks}"
    );
}
