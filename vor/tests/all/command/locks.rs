//! `vor locks` on captures with known waits.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::model::batch::{
    ArgValue, AsyncSpan, SpanArgs, SpanBatch, TaskEvent, TaskEventKind, ThreadBatch,
};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::sink::FrameSink as _;
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

use crate::command::made::{self, ScopeSpec, scope};
use crate::command::recording::recording;
use crate::command::{run, v2};

const SCOPES: [ScopeSpec; 7] = [
    scope("request", 1, 0),
    scope("evict", 2, 0),
    scope("wait: cache", 0, 0),
    scope("wait: log", 0, 0),
    // No wait, whatever its name says.
    scope("wait: for it", 5, 0),
    scope("main", 6, 0),
    scope("wait: jobs to receive", 0, 0),
];
const REQUEST: u32 = 1;
const EVICT: u32 = 2;
const CACHE: u32 = 3;
const LOG: u32 = 4;
const OTHER: u32 = 5;
const MAIN: u32 = 6;
/// A wait without a holder.
const JOBS: u32 = 7;

/// A span: thread, begin, duration, site, and the holder if it is a wait.
type SpanSpec = (u32, u64, u64, u32, Option<(&'static str, &'static str)>);

fn catalog() -> Arc<Catalog> {
    let mut catalog = Catalog::clone(&made::catalog(&SCOPES));
    let sites = Arc::make_mut(&mut catalog.sites);
    for site in [CACHE, LOG] {
        let info = sites[site as usize - 1].as_mut().unwrap();
        let names = ["lock", "holder", "holder_scope"];
        Arc::<SiteInfo>::make_mut(info).arg_names = names.map(Into::into).to_vec();
    }
    let jobs = sites[JOBS as usize - 1].as_mut().unwrap();
    Arc::<SiteInfo>::make_mut(jobs).category = "wait".into();
    let other = filled!(ThreadInfo {
        os_id: 2,
        name: "worker".into(),
    });
    Arc::make_mut(&mut catalog.threads).push(Some(Arc::new(other)));
    Arc::new(catalog)
}

/// Writes a capture with one batch for each part. Spans are in the order of their ends.
fn write(path: &Path, parts: &[&[SpanSpec]]) {
    let catalog = catalog();
    let mut sink = CaptureSink::create(path, CaptureOptions::default()).unwrap();
    for part in parts {
        let mut threads = [0, 1].map(|id| {
            let mut thread = ThreadBatch::default();
            thread.thread = ThreadId(id);
            thread
        });
        for &(thread, start_ticks, duration_ticks, site, holder) in *part {
            let thread = &mut threads[thread as usize];
            if let Some((name, scope)) = holder {
                let texts = [SCOPES[site as usize - 1].name, name, scope];
                thread.args.push(filled!(SpanArgs {
                    span: thread.len() as u32,
                    values: texts.map(|text| ArgValue::Str(text.into())).to_vec(),
                }));
            }
            made::end(thread, start_ticks, duration_ticks, site);
        }
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: threads.to_vec(),
        });
        sink.accept_batch(&batch).unwrap();
    }
    sink.finish().unwrap();
}

fn file(parts: &[&[SpanSpec]]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    write(&path, parts);
    (folder, path)
}

const MS: u64 = 1_000_000;
const EVICTS: Option<(&str, &str)> = Some(("worker", "evict"));

/// Two requests of `main` wait three times for the cache. `worker` waits for the log, once in a
/// scope and once outside of all.
const WAITS: [&[SpanSpec]; 3] = [
    &[
        (0, 2 * MS, 31 * MS, CACHE, EVICTS),
        (0, 40 * MS, 5 * MS, OTHER, None),
        (0, 46 * MS, 3 * MS, JOBS, None),
        (0, MS, 50 * MS, REQUEST, None),
        (1, 3 * MS, 2 * MS, LOG, Some(("main", ""))),
    ],
    // The second request ends in a later batch than its waits.
    &[
        (0, 62 * MS, MS, CACHE, EVICTS),
        (0, 64 * MS, 2 * MS, CACHE, Some(("released meanwhile", ""))),
    ],
    &[
        (0, 61 * MS, 20 * MS, REQUEST, None),
        (0, 0, 100 * MS, MAIN, None),
        (1, 8 * MS, MS, LOG, Some(("main", ""))),
        (1, 7 * MS, 3 * MS, EVICT, None),
    ],
];

#[test]
fn rows_have_the_lock_its_holder_and_the_waiter() {
    let (_folder, path) = file(&WAITS);
    let shown = run("locks", &path, &[]);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "5 waits for locks, 37.0 ms in total",
            "lock   held by             waiter               waits    total     mean      max",
            "cache  evict on worker     request                  2  32.0 ms  16.0 ms  31.0 ms",
            "cache  released meanwhile  request                  1  2.00 ms  2.00 ms  2.00 ms",
            "log    main                (outside of scopes)      1  2.00 ms  2.00 ms  2.00 ms",
            "log    main                evict                    1  1.00 ms  1.00 ms  1.00 ms",
        ]
    );
    assert_eq!((shown.code, shown.stderr.as_str()), (0, ""));
    let first = run("locks", &path, &["-n", "1"]).stdout;
    assert_eq!(first.lines().count(), 4);
    assert!(
        first.ends_with("and 3 more rows; -n shows them\n"),
        "{first}"
    );
    let all = run("locks", &path, &["--limit", "4"]).stdout;
    assert_eq!(all, shown.stdout);
}

#[test]
fn waits_without_a_holder_are_shown_on_request() {
    let (_folder, path) = file(&WAITS);
    let locks = run("locks", &path, &[]).stdout;
    let shown = run("locks", &path, &["--all"]);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    assert_eq!(lines[0], "6 waits, 40.0 ms in total");
    let row: Vec<&str> = lines[3].split_whitespace().collect();
    let expected = "jobs to receive (no holder) request 1 3.00 ms 3.00 ms 3.00 ms";
    assert_eq!(row.join(" "), expected);
    assert_eq!(lines.len(), locks.lines().count() + 1);
    let json = run("locks", &path, &["--all", "--json"]).json();
    let row = &json["rows"][1];
    assert_eq!(
        (&row["lock"], &row["holder_thread"]),
        (&"jobs to receive".into(), &"".into())
    );
    let (_folder, path) = file(&[&[(0, 1, 5, OTHER, None), (0, 0, 9, MAIN, None)]]);
    let line = "no thread waited for anything of `vor::sync` (feature `locks`)\n";
    assert_eq!(run("locks", &path, &["--all"]).stdout, line);
}

#[test]
fn json_has_all_rows() {
    let (_folder, path) = file(&WAITS);
    let json = run("locks", &path, &["--json", "-n", "1"]).json();
    assert_eq!(
        (&json["waits"], &json["total_ns"]),
        (&5.into(), &37_000_000.into())
    );
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    let expected = serde_json::json!({
        "lock": "cache",
        "holder_thread": "worker",
        "holder_scope": "evict",
        "waiter_scope": "request",
        "waits": 2,
        "total_ns": 32_000_000,
        "mean_ns": 16_000_000.0,
        "max_ns": 31_000_000,
    });
    assert_eq!(rows[0], expected);
    let names = |at: usize| {
        let row = &rows[at];
        ["lock", "holder_thread", "holder_scope", "waiter_scope"].map(|name| row[name].as_str())
    };
    assert_eq!(names(2), ["log", "main", "", ""].map(Some));
    assert_eq!(json["damage"]["count"], 0);
}

#[test]
fn a_recording_without_waits_has_an_empty_report() {
    let (_folder, path) = file(&[&[(0, 1, 5, OTHER, None), (0, 0, 9, MAIN, None)]]);
    for path in [&path, &recording().path, &v2("flame.vor")] {
        let shown = run("locks", path, &[]);
        assert_eq!(shown.code, 0, "{shown:?}");
        let line = "no thread waited for a lock of `vor::sync` (feature `locks`)\n";
        assert_eq!(shown.stdout, line);
        let json = run("locks", path, &["--json"]).json();
        assert_eq!(
            (&json["waits"], &json["rows"]),
            (&0.into(), &serde_json::json!([]))
        );
    }
}

#[test]
fn captures_without_spans_and_wrong_numbers_are_refused() {
    let line = run("locks", &v2("metrics_only.vor"), &[])
        .refusal()
        .to_owned();
    assert!(line.contains("no spans in 60 frames"), "{line}");
    let (_folder, path) = file(&WAITS);
    for number in ["0", "many", "-1"] {
        assert!(
            run("locks", &path, &["-n", number])
                .refusal()
                .contains(number)
        );
    }
}

/// The names of tasks that wait, those of their steps, and a scope around the begin of a wait.
const TASKS: [ScopeSpec; 7] = [
    scope("serve", 1, 0),
    scope("wait: cache", 0, 0),
    scope("wait: jobs to receive", 0, 0),
    scope("holder_scope: evict", 0, 0),
    scope("holder: released meanwhile", 0, 0),
    scope("cancelled", 0, 0),
    // No wait, whatever its name says.
    scope("wait: of the program", 0, 0),
];

/// Writes a capture of tasks that wait. They begin on the first thread and end on the second one,
/// whose batch is the first of its part.
fn tasks_file() -> (tempfile::TempDir, PathBuf) {
    let mut catalog = Catalog::clone(&made::catalog(&TASKS));
    let sites = Arc::make_mut(&mut catalog.sites);
    for (site, category) in [(2, "lock"), (3, "wait")] {
        let info = sites[site - 1].as_mut().unwrap();
        Arc::<SiteInfo>::make_mut(info).category = category.into();
    }
    Arc::make_mut(&mut catalog.threads).push(Some(Arc::new(ThreadInfo::default())));
    let catalog = Arc::new(catalog);
    let event = |task: u64, site: u32, start_ticks: u64, kind: TaskEventKind| {
        filled!(TaskEvent {
            task: task,
            site: SiteId(site),
            start_ticks: start_ticks,
            kind: kind,
        })
    };
    let begin = TaskEventKind::Begin { given_id: 0 };
    let span = |id: u64, site: u32, start_ticks: u64, duration_ticks: u64| {
        filled!(AsyncSpan {
            id: id,
            site: SiteId(site),
            start_ticks: start_ticks,
            duration_ticks: duration_ticks,
        })
    };
    let thread = |id: u32| {
        filled!(ThreadBatch {
            thread: ThreadId(id)
        })
    };
    // Task 1 waits in `serve`, task 2 after it, task 3 without a holder, task 5 in a scope that
    // ends in the next part. Task 4 is none that waits, and task 6 has lost its begin.
    let mut first = thread(0);
    first.task_events = vec![
        event(1, 2, 2 * MS, begin),
        event(1, 4, 2 * MS, TaskEventKind::Step),
        event(2, 2, 12 * MS, begin),
        event(2, 5, 12 * MS, TaskEventKind::Step),
        event(3, 3, 13 * MS, begin),
        event(4, 7, 14 * MS, begin),
        event(4, 4, 14 * MS, TaskEventKind::Step),
        event(5, 2, 16 * MS, begin),
        event(5, 4, 16 * MS, TaskEventKind::Step),
    ];
    made::end(&mut first, MS, 4 * MS, 1);
    let mut second = thread(1);
    second.task_events = vec![event(2, 6, 14 * MS, TaskEventKind::Step)];
    second.async_spans = vec![
        span(1, 2, 2 * MS, 8 * MS),
        span(2, 2, 12 * MS, 2 * MS),
        span(3, 3, 13 * MS, 3 * MS),
        span(4, 7, 14 * MS, 3 * MS),
        span(6, 2, 14 * MS, 4 * MS),
    ];
    let mut last = thread(0);
    made::end(&mut last, 15 * MS, 2 * MS, 1);
    last.async_spans = vec![span(5, 2, 16 * MS, 5 * MS)];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let mut sink = CaptureSink::create(&path, CaptureOptions::default()).unwrap();
    for threads in [vec![second, first], vec![last]] {
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: threads,
        });
        sink.accept_batch(&batch).unwrap();
    }
    sink.finish().unwrap();
    (folder, path)
}

#[test]
fn tasks_that_wait_have_rows_with_the_scope_in_which_the_lock_was_taken() {
    let (_folder, path) = tasks_file();
    let shown = run("locks", &path, &["--all"]);
    let lines: Vec<String> = shown
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        lines,
        [
            "5 waits, 22.0 ms in total",
            "lock held by waiter waits total mean max",
            "cache evict serve 2 13.0 ms 6.50 ms 8.00 ms",
            "cache (no holder) (outside of scopes) 1 4.00 ms 4.00 ms 4.00 ms",
            "jobs to receive (no holder) (outside of scopes) 1 3.00 ms 3.00 ms 3.00 ms",
            "cache released meanwhile (outside of scopes) 1 2.00 ms 2.00 ms 2.00 ms",
        ]
    );
    let json = run("locks", &path, &["--json"]).json();
    assert_eq!(json["waits"], 3);
    assert_eq!(json["rows"][0]["holder_thread"], "");
    assert_eq!(json["rows"][0]["holder_scope"], "evict");
}

/// The command reads what the recorder writes.
#[test]
#[cfg(all(feature = "locks", feature = "tokio", not(feature = "off")))]
fn a_recorded_wait_of_a_task_has_a_row() {
    use std::pin::pin;
    use std::task::{Context, Waker};

    vor_fixtures::own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    vor::Config::new().capture(&path).enable();
    let cache = vor::sync::tokio::Mutex::named("cache", 0);
    let context = &mut Context::from_waker(Waker::noop());
    let guard = {
        let _scope = vor::scope("evict");
        let mut locked = pin!(cache.lock());
        match Future::poll(locked.as_mut(), context) {
            std::task::Poll::Ready(guard) => guard,
            std::task::Poll::Pending => panic!("the lock is free"),
        }
    };
    let mut waiting = pin!(cache.lock());
    {
        let _scope = vor::scope("serve");
        assert!(Future::poll(waiting.as_mut(), context).is_pending());
    }
    drop(guard);
    assert!(Future::poll(waiting.as_mut(), context).is_ready());
    vor::close_capture();
    let json = run("locks", &path, &["--json"]).json();
    let row = &json["rows"][0];
    let texts = ["lock", "holder_thread", "holder_scope", "waiter_scope"];
    assert_eq!(
        texts.map(|name| row[name].as_str().unwrap()),
        ["cache", "", "evict", "serve"]
    );
    assert_eq!(json["waits"], 1);
}

#[test]
fn holds_have_a_table_of_their_own() {
    let mut catalog = Catalog::clone(&made::catalog(&[
        scope("hold: cache", 0, 0),
        scope("hold: log", 0, 0),
        // No hold, whatever its name says.
        scope("hold: the line", 3, 0),
    ]));
    for site in &mut Arc::make_mut(&mut catalog.sites)[..2] {
        Arc::<SiteInfo>::make_mut(site.as_mut().unwrap()).category = "hold".into();
    }
    let catalog = Arc::new(catalog);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let mut sink = CaptureSink::create(&path, CaptureOptions::default()).unwrap();
    let mut thread = ThreadBatch::default();
    for (id, (site, ticks)) in (1..).zip([(1, 2 * MS), (2, 9 * MS), (1, 5 * MS), (3, MS)]) {
        thread.async_spans.push(filled!(AsyncSpan {
            id,
            site: SiteId(site),
            start_ticks: id * MS,
            duration_ticks: ticks,
        }));
    }
    made::end(&mut thread, 0, 20 * MS, 3);
    let batch = filled!(SpanBatch {
        catalog: Arc::clone(&catalog),
        threads: vec![thread],
    });
    sink.accept_batch(&batch).unwrap();
    sink.finish().unwrap();

    let shown = run("locks", &path, &[]).stdout;
    let lines: Vec<&str> = shown.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "",
            "lock   holds     held     mean      max",
            "log        1  9.00 ms  9.00 ms  9.00 ms",
            "cache      2  7.00 ms  3.50 ms  5.00 ms",
        ]
    );
    let first = run("locks", &path, &["-n", "1"]).stdout;
    let lines: Vec<&str> = first.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "",
            "lock  holds     held     mean      max",
            "log       1  9.00 ms  9.00 ms  9.00 ms",
            "and 1 more lock; -n shows them",
        ]
    );
    let json = run("locks", &path, &["--json"]).json();
    assert_eq!(json["waits"], 0);
    let cache = &json["holds"][1];
    assert_eq!(
        (&cache["lock"], &cache["holds"]),
        (&"cache".into(), &2.into())
    );
    let ns = ["total_ns", "mean_ns", "max_ns"].map(|name| cache[name].as_f64());
    assert_eq!(ns, [7e6, 3.5e6, 5e6].map(Some));
}
