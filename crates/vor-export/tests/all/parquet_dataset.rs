//! A data set in folders: the paths of its files, and that none is incomplete.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::parquet_rows::{Row, int, rows};
use vor_capture::filled;
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};
use vor_capture::model::timeline::{ClockSync, RATE_BITS, Timeline};
use vor_capture::reader::{Event, Reader};
use vor_capture::sink::{FrameSink, Interest};
use vor_export::parquet::{Dataset, Origin, Partition};

const SECOND: u64 = 1_000_000_000;

/// The last second of 2025.
const BEFORE_MIDNIGHT: i64 = 1_767_225_599 * SECOND as i64;

/// A catalog whose tick 0 is a second before midnight; a tick is a nanosecond.
fn catalog() -> Arc<Catalog> {
    let mut timeline = Timeline::default();
    timeline.push(filled!(ClockSync {
        ticks: 0,
        unix_ns: BEFORE_MIDNIGHT,
        rate: 1 << RATE_BITS,
        wall_ns: BEFORE_MIDNIGHT,
    }));
    Arc::new(filled!(Catalog {
        timeline: Arc::new(timeline),
        ..vor_fixtures::catalog()
    }))
}

fn batch(catalog: &Arc<Catalog>, threads: &[&[(u64, u64)]]) -> SpanBatch {
    let thread = |(i, spans): (usize, &&[(u64, u64)])| {
        filled!(ThreadBatch {
            thread: ThreadId(i as u32),
            start_ticks: spans.iter().map(|span| span.0).collect(),
            duration_ticks: spans.iter().map(|span| span.1).collect(),
            sites: vec![SiteId(1); spans.len()]
        })
    };
    filled!(SpanBatch {
        catalog: Arc::clone(catalog),
        threads: threads.iter().enumerate().map(thread).collect(),
    })
}

fn origin(host: &str) -> Origin {
    Origin::default().host(host)
}

/// Returns the paths of all files and folders below a folder, as text that is the same on all
/// systems.
fn all_below(folder: &Path) -> Vec<String> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let parts = path.strip_prefix(root).unwrap().iter();
            found.push(
                parts
                    .map(|part| part.to_str().unwrap())
                    .collect::<Vec<_>>()
                    .join("/"),
            );
            if path.is_dir() {
                walk(root, &path, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}

fn read(path: &Path) -> Vec<Row> {
    rows(std::fs::read(path).unwrap())
}

#[test]
fn midnight_splits_a_capture_by_the_ends_of_spans() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog();
    let list = Partition::list("host, date").unwrap();
    let mut data = Dataset::new(folder.path(), "run", &list, origin("web/17")).unwrap();
    // Two threads extend over midnight, which is at one second.
    let spans: &[(u64, u64)] = &[
        (10, 5),
        (SECOND - 20, 19),
        (SECOND - 10, 10),
        (SECOND + 5, 5),
    ];
    data.accept_batch(&batch(&catalog, &[spans, spans]))
        .unwrap();
    let frame = |index, end_ticks| {
        Arc::new(filled!(FrameSnapshot {
            catalog: Arc::clone(&catalog),
            index,
            end_ticks,
            metrics: vec![filled!(MetricValue {
                column: 0,
                value: 1.0,
            })]
        }))
    };
    data.accept_frame(&frame(0, SECOND - 1)).unwrap();
    data.accept_frame(&frame(1, SECOND)).unwrap();
    assert!(data.paths().is_empty());
    let before = all_below(folder.path());
    assert!(
        before.iter().all(|path| !path.ends_with(".parquet")),
        "nothing has its final name yet: {before:?}"
    );
    data.finish().unwrap();
    let ms = BEFORE_MIDNIGHT / 1_000_000;
    let mut expected: Vec<String> = Vec::new();
    for table in ["metrics", "sketches", "spans"] {
        for date in ["2025-12-31", "2026-01-01"] {
            expected.push(format!(
                "{table}/host=web%2F17/date={date}/run-5-{ms}.parquet"
            ));
        }
    }
    let files: Vec<String> = all_below(folder.path())
        .into_iter()
        .filter(|path| path.contains('.'))
        .collect();
    assert_eq!(files, expected);
    let mut paths: Vec<PathBuf> = data.paths().to_vec();
    paths.sort();
    assert_eq!(
        paths,
        expected
            .iter()
            .map(|path| folder.path().join(path))
            .collect::<Vec<_>>()
    );
    let starts = |path: &str| {
        let starts = read(&folder.path().join(path));
        assert!(starts.iter().all(|row| !row.contains_key("host")));
        let mut starts: Vec<i64> = starts
            .iter()
            .map(|row| int(row, "start_ns") - BEFORE_MIDNIGHT)
            .collect();
        starts.sort_unstable();
        starts
    };
    let second = SECOND as i64;
    assert_eq!(starts(&expected[4]), [10, 10, second - 20, second - 20]);
    assert_eq!(
        starts(&expected[5]),
        [second - 10, second - 10, second + 5, second + 5]
    );
    assert_eq!(int(&read(&folder.path().join(&expected[0]))[0], "frame"), 0);
    assert_eq!(int(&read(&folder.path().join(&expected[1]))[0], "frame"), 1);
    let minutes: Vec<i64> = expected[2..4]
        .iter()
        .map(|path| int(&read(&folder.path().join(path))[0], "minute"))
        .collect();
    assert_eq!(minutes, [1_767_225_540, 1_767_225_600]);
}

#[test]
fn a_second_export_of_a_capture_replaces_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let made = vor_fixtures::make(5, 30, 40, true);
    let mut sizes = Vec::new();
    for _ in 0..2 {
        let mut data = Dataset::new(folder.path(), "run", &[], origin("a")).unwrap();
        let mut reader = Reader::new(made.bytes.as_slice()).unwrap();
        while let Some(event) = reader.next_event().unwrap() {
            match event {
                Event::Batch(batch) => data.accept_batch(&batch).unwrap(),
                Event::Frame(recovered) => data.accept_frame(&recovered.frame).unwrap(),
                _ => {}
            }
        }
        data.finish().unwrap();
        let name = "run-5-1700000000000.parquet";
        assert_eq!(
            all_below(folder.path()),
            [
                "metrics".into(),
                format!("metrics/{name}"),
                "sketches".into(),
                format!("sketches/{name}"),
                "spans".into(),
                format!("spans/{name}"),
            ]
        );
        let rows = read(&folder.path().join("spans").join(name));
        assert_eq!(rows.len() as u64, made.spans);
        assert_eq!(crate::parquet_rows::text(&rows[0], "host"), "a");
        sizes.push(rows.len());
    }
    assert_eq!(sizes[0], sizes[1]);
}

#[test]
fn times_in_no_order_open_no_more_files_than_days() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog();
    let mut data = Dataset::new(folder.path(), "run", &[Partition::Date], origin("a")).unwrap();
    let days = [0, 3, 1, 2, 0, 3, 1, 0];
    let spans: Vec<(u64, u64)> = days
        .iter()
        .map(|day| (2 * SECOND + day * 86_400 * SECOND, 1))
        .collect();
    data.accept_batch(&batch(&catalog, &[&spans])).unwrap();
    data.finish().unwrap();
    let rows: usize = data
        .paths()
        .iter()
        .filter(|path| path.starts_with(folder.path().join("spans")))
        .map(|path| read(path).len())
        .sum();
    assert_eq!(rows, days.len(), "each is in one file: {:?}", data.paths());
    // Two days are open at a time, and a day that returns later has another file.
    let ms = BEFORE_MIDNIGHT / 1_000_000;
    let expected = [
        ("2026-01-01", ""),
        ("2026-01-01", "-2"),
        ("2026-01-01", "-3"),
        ("2026-01-02", ""),
        ("2026-01-02", "-2"),
        ("2026-01-03", ""),
        ("2026-01-04", ""),
        ("2026-01-04", "-2"),
    ];
    let expected = expected.map(|(date, number)| format!("date={date}/run-5-{ms}{number}.parquet"));
    let mut found = all_below(&folder.path().join("spans"));
    found.retain(|path| path.ends_with(".parquet"));
    found.sort_by_key(|path| path.replace(".parquet", ""));
    assert_eq!(found, expected);
}

#[test]
fn an_unfinished_export_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("new/data");
    let catalog = catalog();
    let mut data = Dataset::new(&root, "run", &[Partition::Host], origin("a")).unwrap();
    assert!(!root.exists(), "nothing to write, nothing made");
    let spans: Vec<(u64, u64)> = (0..200_000).map(|i| (100 * i, 50)).collect();
    data.accept_batch(&batch(&catalog, &[&spans])).unwrap();
    data.accept_frame(&Arc::new(filled!(FrameSnapshot {
        catalog: Arc::clone(&catalog)
    })))
    .unwrap();
    assert!(root.exists(), "a row group is full and written");
    drop(data);
    assert_eq!(all_below(folder.path()), Vec::<String>::new());
    assert!(folder.path().exists(), "a folder that was there remains");
}

#[test]
fn without_dates_a_table_is_one_file_even_over_midnight() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog();
    let mut data = Dataset::new(folder.path(), "run", &[Partition::Host], origin("a")).unwrap();
    assert_eq!(data.interest(), Interest::BATCHES);
    data.accept_batch(&batch(&catalog, &[&[(10, 5), (SECOND + 5, 5)]]))
        .unwrap();
    data.finish().unwrap();
    let ms = BEFORE_MIDNIGHT / 1_000_000;
    let mut paths = data.paths().to_vec();
    paths.sort();
    let expected = ["sketches", "spans"].map(|table| {
        folder
            .path()
            .join(format!("{table}/host=a/run-5-{ms}.parquet"))
    });
    assert_eq!(paths, expected);
    assert_eq!(read(&expected[1]).len(), 2);
}

#[test]
fn an_existing_folder_remains_when_an_export_ends_early() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    std::fs::create_dir_all(root.join("spans")).unwrap();
    let mut data = Dataset::new(&root, "run", &[Partition::Host], origin("a")).unwrap();
    let spans: Vec<(u64, u64)> = (0..200_000).map(|i| (100 * i, 50)).collect();
    data.accept_batch(&batch(&catalog(), &[&spans])).unwrap();
    data.accept_frame(&Arc::default()).unwrap();
    assert!(root.join("spans/host=a").exists());
    drop(data);
    assert_eq!(all_below(folder.path()), ["data", "data/spans"]);
}

#[test]
fn an_error_names_the_path_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    // Even root cannot create a folder inside a file.
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    let mut data = Dataset::new(&file, "run", &[Partition::Date], origin("a")).unwrap();
    data.accept_batch(&batch(&catalog(), &[&[(10, 5)]]))
        .unwrap();
    let error = data.finish().unwrap_err();
    assert!(error.is_io(), "{error:?}");
    let text = error.to_string();
    assert!(
        text.starts_with("cannot write ") && text.contains("file"),
        "{text}"
    );
    drop(data);
    assert_eq!(all_below(folder.path()), ["file"]);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "kept");
}

#[test]
fn partitions_are_host_and_date() {
    for wrong in ["day", "host,host", "host;date", "Date"] {
        let error = Partition::list(wrong).unwrap_err();
        assert!(
            error.is_config() && !error.to_string().contains('\n'),
            "{error}"
        );
    }
}
