//! `vor waits`: the time of each scope, by what its thread did.

use std::path::Path;
use std::sync::Arc;

use vor::capture::{ArgValue, SpanArgs, SpanBatch};
use vor::sinks::FrameSink;
use vor_capture::filled;
use vor_capture::model::batch::{FlowPoint, FlowStage, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId, ThreadInfo};
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

use crate::command::{made, run};

const REQUEST: u32 = 1;
const QUERY: u32 = 2;
const LOCK: u32 = 3;
const CHANNEL: u32 = 4;
/// A scope whose name looks like a wait.
const OWN: u32 = 5;
/// Waits for locks that a thread without a scope and a task hold.
const LOG: u32 = 6;
const MAP: u32 = 7;

/// A span in microseconds: its site, its start and its end, and how long it was off the CPU and in
/// the queue.
type Made = (u32, u64, u64, [u64; 2]);

/// Returns the thread and the scope that hold what a wait is for.
fn holder(site: u32) -> Option<[&'static str; 2]> {
    match site {
        LOCK => Some(["worker-3", "evict"]),
        LOG => Some(["main", ""]),
        MAP => Some(["", "merge"]),
        _ => None,
    }
}

fn catalog(is_measured: bool) -> Arc<Catalog> {
    let names = [
        "request",
        "query",
        "wait: cache",
        "wait: jobs to receive",
        "wait: of the program's own",
        "wait: log",
        "wait: map",
    ];
    let scopes = names.map(|name| made::scope(name, 1, 0));
    let mut catalog = made::catalog(&scopes);
    let sites = Arc::make_mut(&mut Arc::make_mut(&mut catalog).sites);
    for (number, site) in (1..).zip(sites.iter_mut().flatten()) {
        let lock: &[&str] = match holder(number) {
            Some(_) => &["lock", "holder", "holder_scope"],
            None => &[],
        };
        let measures: &[&str] = match is_measured {
            true => &["off_cpu_ns", "run_queue_ns"],
            false => &[],
        };
        let all = lock
            .iter()
            .chain(measures)
            .map(|name| (*name).to_owned().into());
        let site = Arc::make_mut(site);
        site.arg_names = all.collect();
        if number == CHANNEL {
            site.category = "wait".into();
        }
    }
    catalog
}

/// Writes spans of one thread, in the order of their ends, with a batch for each part.
fn write(path: &Path, parts: &[&[Made]], is_measured: bool) {
    let catalog = catalog(is_measured);
    let args = |(at, &(site, _, _, measures)): (usize, &Made)| {
        let mut values = Vec::new();
        if let Some(texts) = holder(site) {
            values.push(ArgValue::U64(7));
            values.extend(texts.map(|text| ArgValue::Str(text.into())));
        }
        if is_measured {
            values.extend(measures.map(|measure| ArgValue::U64(measure * 1_000)));
        }
        filled!(SpanArgs {
            span: at as u32,
            values,
        })
    };
    let mut sink = CaptureSink::create(path, CaptureOptions::default()).unwrap();
    for spans in parts {
        let all_args = spans.iter().enumerate().map(args);
        let thread = filled!(ThreadBatch {
            start_ticks: spans
                .iter()
                .map(|span| 1_000_000 + span.1 * 1_000)
                .collect(),
            duration_ticks: spans.iter().map(|span| (span.2 - span.1) * 1_000).collect(),
            sites: spans.iter().map(|span| SiteId(span.0)).collect(),
            args: all_args.filter(|args| !args.values.is_empty()).collect(),
        });
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: vec![thread]
        });
        sink.accept_batch(&batch).unwrap();
    }
    sink.finish().unwrap();
}

/// A request of 40 ms: 31 for the lock, 2 for the channel, 4 in the queue, 3 running. It has a
/// query inside, around the wait for the lock.
const SPANS: [Made; 5] = [
    (LOCK, 1_000, 32_000, [31_000, 500]),
    (QUERY, 500, 34_000, [32_500, 2_000]),
    (CHANNEL, 35_000, 37_000, [2_000, 0]),
    (REQUEST, 0, 40_000, [37_000, 4_500]),
    (QUERY, 41_000, 42_000, [0, 0]),
];

#[test]
fn the_parts_of_a_scope_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("waits.vor");
    write(&path, &[&SPANS], true);
    let found = run("waits", &path, &["--json"]).json();
    let scopes = found["scopes"].as_array().unwrap();
    assert_eq!(scopes.len(), 2, "waits are no scopes: {found}");
    let (request, query) = (&scopes[0], &scopes[1]);
    assert_eq!(
        (&request["name"], &query["name"]),
        (&"request".into(), &"query".into())
    );
    for (key, of_request, of_query) in [
        ("total_ns", 40_000_000, 34_500_000),
        ("waits_ns", 33_000_000, 31_000_000),
        ("running_ns", 3_000_000, 2_000_000),
        ("queued_ns", 4_000_000, 1_500_000),
        ("blocked_ns", 0, 0),
    ] {
        assert_eq!(request[key], of_request, "{key}");
        assert_eq!(query[key], of_query, "{key}");
    }
    let causes = request["causes"].as_array().unwrap();
    assert_eq!(causes[0]["name"], "cache");
    assert_eq!(causes[0]["holder_scope"], "evict");
    assert_eq!(causes[0]["holder_thread"], "worker-3");
    assert_eq!(causes[0]["total_ns"], 31_000_000);
    assert_eq!(causes[1]["name"], "jobs to receive");
    assert_eq!(causes[1]["holder_thread"], "");

    let text = run("waits", &path, &[]).stdout;
    let line = text
        .lines()
        .find(|line| line.starts_with("request"))
        .unwrap();
    assert!(
        line.ends_with("31.0 ms cache ← evict on worker-3, 2.00 ms jobs to receive"),
        "{text}"
    );
    let one = run("waits", &path, &["--name", "quer*", "-n", "1"]).stdout;
    assert!(one.contains("query") && !one.contains("request"), "{one}");
    let refused = run("waits", &path, &["--name", "querry"]);
    assert!(refused.refusal().contains("query"), "{refused:?}");
}

#[test]
fn a_scope_of_the_program_is_no_wait_whatever_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.vor");
    write(
        &path,
        &[&[(OWN, 10, 20, [5, 1]), (REQUEST, 0, 40, [5, 1])]],
        true,
    );
    let found = run("waits", &path, &["--json"]).json();
    let scopes = found["scopes"].as_array().unwrap();
    assert_eq!(scopes.len(), 2, "{found}");
    assert!(scopes.iter().all(|scope| scope["waits_ns"] == 0), "{found}");
    assert!(scopes.iter().all(|scope| scope["blocked_ns"] == 4_000));
}

/// A wait inside a recursive call is one wait of the scope, as its time is.
#[test]
fn a_recursive_call_has_each_wait_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recursive.vor");
    let spans = [
        (LOCK, 10, 20, [10, 0]),
        (REQUEST, 5, 30, [10, 0]),
        (REQUEST, 0, 40, [12, 1]),
    ];
    write(&path, &[&spans], true);
    let found = run("waits", &path, &["--json"]).json();
    let request = &found["scopes"][0];
    assert_eq!(
        (&request["count"], &request["total_ns"]),
        (&2.into(), &40_000.into())
    );
    assert_eq!(request["waits_ns"], 10_000);
    assert_eq!(request["running_ns"], 28_000);
    assert_eq!(
        (&request["queued_ns"], &request["blocked_ns"]),
        (&1_000.into(), &1_000.into())
    );
}

#[test]
fn without_measures_only_recorded_waits_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plain.vor");
    write(&path, &[&SPANS], false);
    let found = run("waits", &path, &["--json"]).json();
    let request = &found["scopes"][0];
    assert_eq!(request["waits_ns"], 33_000_000);
    assert!(request["running_ns"].is_null() && request["queued_ns"].is_null());
    let text = run("waits", &path, &[]).stdout;
    assert!(text.contains("record with VOR_WAITS=1"), "{text}");
}

/// A request of 40 ms: 11 for locks and a channel, 5 in the queue, 15 blocked, 9 running. It ends
/// in a later part than its first waits, and a query without a wait follows it.
const MIXED: [&[Made]; 2] = [
    &[
        (LOCK, 1_000, 4_000, [3_000, 500]),
        (LOG, 5_000, 7_000, [2_000, 0]),
        (CHANNEL, 8_000, 9_000, [1_000, 0]),
    ],
    &[
        (MAP, 10_000, 15_000, [5_000, 1_000]),
        (REQUEST, 0, 40_000, [31_000, 6_500]),
        (QUERY, 41_000, 43_500, [1_000, 300]),
    ],
];

#[test]
fn the_table_has_the_parts_of_each_scope_and_its_longest_waits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mixed.vor");
    write(&path, &MIXED, true);
    let lines = |path: &Path, options: &[&str]| {
        let shown = run("waits", path, options);
        assert_eq!((shown.code, shown.stderr.as_str()), (0, ""));
        let lines = shown.stdout.lines().map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    let heads = "scope    count    total  running   queued  blocked    waits  waited for";
    let rows = [
        "request      1  40.0 ms  9.00 ms  5.00 ms  15.0 ms  11.0 ms  5.00 ms map ← merge, 3.00 ms \
         cache ← evict on worker-3, 2 more",
        "query        1  2.50 ms  1.50 ms   300 µs   700 µs     0 ns",
    ];
    let more = "and 1 more scope; -n shows them";
    assert_eq!(lines(&path, &[]), [heads, rows[0], rows[1]]);
    assert_eq!(lines(&path, &["-n", "1"]), [heads, rows[0], more]);
    let json = run("waits", &path, &["--json"]).json();
    let cause = |[name, thread, scope]: [&str; 3], total_ns: u64| {
        serde_json::json!({
            "name": name,
            "holder_thread": thread,
            "holder_scope": scope,
            "waits": 1,
            "total_ns": total_ns,
        })
    };
    let expected = serde_json::json!({
        "file": path,
        "dropped_spans": 0,
        "scopes": [
            {
                "name": "request",
                "count": 1,
                "total_ns": 40_000_000,
                "waits_ns": 11_000_000,
                "running_ns": 9_000_000,
                "queued_ns": 5_000_000,
                "blocked_ns": 15_000_000,
                "causes": [
                    cause(["map", "", "merge"], 5_000_000),
                    cause(["cache", "worker-3", "evict"], 3_000_000),
                    cause(["log", "main", ""], 2_000_000),
                    cause(["jobs to receive", "", ""], 1_000_000),
                ],
            },
            {
                "name": "query",
                "count": 1,
                "total_ns": 2_500_000,
                "waits_ns": 0,
                "running_ns": 1_500_000,
                "queued_ns": 300_000,
                "blocked_ns": 700_000,
                "causes": [],
            },
        ],
        "damage": {"count": 0, "bytes": 0, "losses": [], "tail": null},
    });
    assert_eq!(json, expected);

    let plain = folder.path().join("plain.vor");
    write(&plain, &[&[(QUERY, 500, 900, [0; 2])], MIXED[1]], false);
    assert_eq!(
        lines(&plain, &[]),
        [
            "scope    count    total  running  queued  blocked    waits  waited for",
            "request      1  40.0 ms        -       -        -  5.00 ms  5.00 ms map ← merge",
            "query        2  2.90 ms        -       -        -     0 ns",
            "only recorded waits are known; record with VOR_WAITS=1 to divide the rest",
        ]
    );
}

/// The flow of a message leads to the scope that sent it, also if that ends much later.
#[test]
fn a_wait_for_a_message_names_its_sender() {
    const RECEIVER: u32 = 0;
    const SENDER: u32 = 1;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("messages.vor");
    let mut catalog = catalog(false);
    let threads =
        ["main", "worker"].map(|name| Some(Arc::new(filled!(ThreadInfo { name: name.into() }))));
    Arc::make_mut(&mut catalog).threads = Arc::new(threads.to_vec());
    let thread = |id, spans: &[(u32, u64, u64)], flows: &[(u64, u64, FlowStage)]| {
        let point = |&(ticks, flow, stage): &(u64, u64, FlowStage)| {
            filled!(FlowPoint { ticks, flow, stage })
        };
        filled!(ThreadBatch {
            thread: ThreadId(id),
            start_ticks: spans.iter().map(|span| span.1).collect(),
            duration_ticks: spans.iter().map(|span| span.2 - span.1).collect(),
            sites: spans.iter().map(|span| SiteId(span.0)).collect(),
            flows: flows.iter().map(point).collect()
        })
    };
    use FlowStage::{Begin, End, Step};
    let first = [
        // The first wait is over, and the last message of the second one has arrived already.
        thread(
            RECEIVER,
            &[(CHANNEL, 1_000, 3_000)],
            &[(2_900, 1, Step), (3_010, 1, End), (5_900, 3, Step)],
        ),
        // The flow 2 is one of the receiver's own, and 1 begins in a scope that has not ended.
        thread(
            SENDER,
            &[(OWN, 1_500, 1_600), (OWN, 5_000, 5_500)],
            &[(2_000, 1, Begin), (5_200, 3, Begin)],
        ),
    ];
    let second = [
        thread(
            RECEIVER,
            &[
                (CHANNEL, 4_000, 6_000),
                (CHANNEL, 7_000, 8_000),
                (REQUEST, 0, 9_000),
            ],
            &[(7_500, 2, Begin), (7_600, 2, Step)],
        ),
        thread(SENDER, &[(QUERY, 1_400, 7_000)], &[]),
    ];
    let mut sink = CaptureSink::create(&path, CaptureOptions::default()).unwrap();
    for threads in [first, second] {
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: threads.to_vec()
        });
        sink.accept_batch(&batch).unwrap();
    }
    sink.finish().unwrap();
    let found = run("waits", &path, &["--json", "--name", "request"]).json();
    let mut causes: Vec<_> = found["scopes"][0]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| {
            let text = |key: &str| cause[key].as_str().unwrap().to_owned();
            let names = ["name", "holder_thread", "holder_scope"].map(text);
            (names.join(" "), cause["total_ns"].as_u64().unwrap())
        })
        .collect();
    causes.sort();
    let expected = [
        ("jobs to receive  ", 1_000),
        ("jobs to receive worker query", 2_000),
        ("jobs to receive worker wait: of the program's own", 2_000),
    ];
    assert_eq!(causes, expected.map(|(name, ns)| (name.to_owned(), ns)));
    let text = run("waits", &path, &["--name", "request"]).stdout;
    assert!(text.contains("jobs to receive ← query on worker"), "{text}");
}
