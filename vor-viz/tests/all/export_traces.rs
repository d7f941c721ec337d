//! The viewer exports frames from the middle of a capture with the data that the capture has for
//! them.
//!
//! With `VOR_ORACLE_OUT`, the traces are written to that folder, beside the data of the capture as
//! lines of JSON. A script can then check that Perfetto itself reads the same.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vor_capture::model::batch::{SpanBatch, TaskEventKind};
use vor_capture::model::catalog::Catalog;
use vor_capture::reader::{Event, Reader};
use vor_fixtures::json::arg;
use vor_fixtures::own_process;
use vor_recorder::hot::task::async_span;
use vor_recorder::metrics::{record_metric, record_metric_unit};
use vor_recorder::setup::Config;
use vor_recorder::{drain, message, profile_scope};
use vor_viz::export::{ExportFormat, export};
use vor_viz::replay::{ReplayState, WindowLimits};

const FRAMES: u64 = 48;

/// The exported frames, by place in the capture. The viewer holds some frames before and after
/// these, and the capture has more.
const SELECTED: RangeInclusive<u64> = 18..=27;

/// A step of a thread.
enum Turn {
    Work,
    /// Opens a scope, which is open until `Close`.
    Open,
    Close,
}

/// The frames in which each of the two threads opens and closes a scope: around the first or the
/// last selected frame, and around all of them.
const ACROSS: [&[(u64, u64)]; 2] = [&[(16, 20), (26, 30)], &[(13, 31)]];

fn work() {
    profile_scope!("work");
    for turn in 0_u64..20 {
        profile_scope!(
            "turn",
            even = turn % 2 == 0,
            signed = -(turn as i64) << 40,
            large = u64::MAX - turn,
            ratio = turn as f64 / 3.0,
            text = if turn % 2 == 0 { "größe \"x\"" } else { "" }
        );
        if turn % 10 == 0 {
            message!("at turn {turn}");
        }
        for _ in 0..turn % 4 {
            profile_scope!("leaf");
        }
    }
}

fn serve(turns: &Receiver<Turn>, done: &Sender<()>) {
    while let Ok(turn) = turns.recv() {
        match turn {
            Turn::Work => work(),
            Turn::Open => {
                profile_scope!("across frames");
                done.send(()).unwrap();
                serve(turns, done);
            }
            Turn::Close => return,
        }
        done.send(()).unwrap();
    }
}

fn record(capture: &Path) {
    Config::new().capture(capture).enable();
    record_metric_unit("throughput", "MB/s");
    std::thread::scope(|scope| {
        let threads = [1, 2].map(|i| {
            let (turn, turns) = channel();
            let (done, is_done) = channel();
            let thread = std::thread::Builder::new().name(format!("worker {i}"));
            thread
                .spawn_scoped(scope, move || serve(&turns, &done))
                .unwrap();
            (turn, is_done)
        });
        let mut requests = Vec::new();
        for frame in 0..FRAMES {
            requests.push((frame + frame % 5, async_span("request", 1_000 + frame)));
            for ((turn, is_done), across) in threads.iter().zip(ACROSS) {
                let run_turn = |what| {
                    turn.send(what).unwrap();
                    is_done.recv().unwrap();
                };
                if across.iter().any(|(open, _)| *open == frame) {
                    run_turn(Turn::Open);
                }
                run_turn(Turn::Work);
                if across.iter().any(|(_, close)| *close == frame) {
                    run_turn(Turn::Close);
                }
            }
            work();
            for (_, request) in &requests {
                request.step("waits");
            }
            requests.retain(|(end, _)| *end > frame);
            record_metric("throughput", frame as f64 * 1.5);
            drain::frame_mark();
        }
    });
    drain::flush();
    assert!(drain::close_capture().is_some());
}

/// Exports the selected frames as the viewer does.
fn export_selected(capture: &Path, folder: &Path) {
    let mut replay = ReplayState::open(capture).unwrap();
    replay.set_limits(WindowLimits {
        frames: 32,
        ..WindowLimits::default()
    });
    replay.go_to(24);
    let began = Instant::now();
    while replay.is_loading() {
        assert!(began.elapsed() < Duration::from_secs(60), "{replay:.0?}");
        replay.poll(&egui::Context::default());
        std::thread::sleep(Duration::from_millis(1));
    }
    let window = replay.window();
    assert!(
        window.start > 0 && window.start < 13 && window.end > 31 && window.end < FRAMES,
        "{window:?}"
    );
    let (first, last) = SELECTED.into_inner();
    let [first, last] = [first, last].map(|frame| (frame - window.start) as usize);
    let (store, view) = replay.panel_mut().parts();
    view.select(store, first, last);
    let frames = replay.panel().view().table_frames(replay.store());
    assert_eq!(frames, Some((first, last)));
    for (format, name) in [
        (ExportFormat::Perfetto, "selection.pftrace"),
        (ExportFormat::Chrome, "selection.json"),
    ] {
        let file = std::fs::File::create(folder.join(name)).unwrap();
        export(replay.store(), (first, last), format, file).unwrap();
    }
}

/// Adds the records that ended in a frame, as rows with the times of the capture. Steps of a task
/// are added only if the selection has the begin of the task.
fn add_rows(rows: &mut Vec<Value>, catalog: &Catalog, batches: &[SpanBatch], tasks: &mut Tasks) {
    let ns = |ticks| catalog.unix_ns(ticks);
    for share in batches.iter().flat_map(|batch| &batch.threads) {
        let thread = catalog.thread(share.thread).unwrap();
        for i in 0..share.len() {
            let (start, dur) = (share.start_ticks[i], share.duration_ticks[i]);
            let site = catalog.site(share.sites[i]).unwrap();
            let args = share.args.iter().find(|args| args.span as usize == i);
            let values = args.map(|args| args.values.iter().map(arg));
            let names = site.arg_names.iter().map(ToString::to_string);
            let args: serde_json::Map<String, Value> =
                names.zip(values.into_iter().flatten()).collect();
            rows.push(json!({
                "kind": "span",
                "name": site.name,
                "category": site.category,
                "module": site.module_path,
                "file": site.file,
                "line": site.line,
                "tid": thread.os_id,
                "thread": thread.name,
                "ts": ns(start),
                "dur": ns(start + dur) - ns(start),
                "args": args,
            }));
        }
        rows.extend(share.messages.iter().map(|message| {
            json!({
                "kind": "message",
                "tid": thread.os_id,
                "ts": ns(message.ticks),
                "name": &*message.text,
            })
        }));
        for event in &share.task_events {
            match event.kind {
                TaskEventKind::Begin { .. } => tasks.begun.push(event.task),
                TaskEventKind::Step if tasks.begun.contains(&event.task) => {
                    let name = catalog.site_name(event.site);
                    let row = json!({
                        "kind": "in task",
                        "name": name,
                        "ts": ns(event.start_ticks),
                        "dur": 0,
                    });
                    tasks.steps.push((event.task, row));
                }
                TaskEventKind::Step | TaskEventKind::Poll { .. } => {}
                kind => panic!("this test does not know {kind:?}"),
            }
        }
        for task in &share.async_spans {
            tasks.ended.push(task.id);
            let name = catalog.site_name(task.site);
            let dur = ns(task.end_ticks()) - ns(task.start_ticks);
            rows.push(
                json!({ "kind": "task", "name": name, "ts": ns(task.start_ticks), "dur": dur }),
            );
        }
    }
}

/// Tasks of the selection, by number.
#[derive(Default)]
struct Tasks {
    begun: Vec<u64>,
    ended: Vec<u64>,
    steps: Vec<(u64, Value)>,
}

/// Returns the capture's rows for the selected frames. Times count from the earliest of these
/// frames.
fn recorded(capture: &Path) -> Vec<Value> {
    let (mut rows, mut tasks) = (Vec::new(), Tasks::default());
    let (mut batches, mut place) = (Vec::new(), 0);
    let mut reader = Reader::open(capture).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Batch(batch) => batches.push(batch),
            Event::Frame(recovered) => {
                let frame = &recovered.frame;
                if SELECTED.contains(&place) {
                    add_rows(&mut rows, &frame.catalog, &batches, &mut tasks);
                    let set = &frame.catalog.frame_sets[frame.frame_set as usize];
                    let start = frame.catalog.unix_ns(frame.start_ticks);
                    let dur = frame.catalog.unix_ns(frame.end_ticks) - start;
                    let index = frame.index;
                    rows.push(json!({
                        "kind": "frame",
                        "set": set,
                        "index": index,
                        "ts": start,
                        "dur": dur,
                    }));
                    for metric in frame
                        .metrics
                        .iter()
                        .filter(|metric| metric.value.is_finite())
                    {
                        let column = &frame.catalog.columns[metric.column as usize].metric;
                        let (name, unit, value) = (&column.name, &column.unit, metric.value);
                        rows.push(json!({
                            "kind": "counter",
                            "name": name,
                            "unit": unit,
                            "ts": start,
                            "value": value,
                        }));
                    }
                }
                batches.clear();
                place += 1;
            }
            _ => {}
        }
    }
    assert_eq!(place, FRAMES);
    let Tasks { ended, steps, .. } = tasks;
    rows.extend(
        steps
            .into_iter()
            .filter(|(task, _)| ended.contains(task))
            .map(|(_, row)| row),
    );
    let zero = rows.iter().map(ts).min().unwrap();
    for row in &mut rows {
        row["ts"] = json!(ts(row) - zero);
    }
    rows.push(json!({ "kind": "begin", "ts": 0 }));
    rows
}

fn ts(row: &Value) -> i64 {
    row["ts"].as_i64().unwrap()
}

/// Returns the spans, tasks, steps and frames of a Chrome trace, as kind, name, begin and duration
/// in nanoseconds.
pub(crate) fn in_chrome(trace: &[u8]) -> Vec<(String, String, i64, i64)> {
    let events: Vec<Value> = serde_json::from_slice(trace).unwrap();
    let ns = |us: &Value| (us.as_f64().unwrap() * 1000.0).round() as i64;
    let name = |event: &Value| event["name"].as_str().unwrap().to_owned();
    let mut found = Vec::new();
    let mut open = std::collections::HashMap::new();
    for event in &events {
        let key = (
            event["cat"].to_string(),
            event["id2"].to_string(),
            name(event),
        );
        match event["ph"].as_str().unwrap() {
            "X" => found.push((
                "span".to_owned(),
                name(event),
                ns(&event["ts"]),
                ns(&event["dur"]),
            )),
            "n" => found.push(("in task".to_owned(), name(event), ns(&event["ts"]), 0)),
            "b" => assert!(open.insert(key, ns(&event["ts"])).is_none(), "{event}"),
            "e" => {
                let kind = if event["cat"] == "frame" {
                    "frame"
                } else {
                    "task"
                };
                let start = open.remove(&key).unwrap();
                found.push((
                    kind.to_owned(),
                    name(event),
                    start,
                    ns(&event["ts"]) - start,
                ));
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    found.sort();
    found
}

#[test]
fn the_selection_matches_the_capture() {
    own_process!();
    let temporary = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("VOR_ORACLE_OUT").map_or(temporary.path().to_owned(), Into::into);
    let capture = folder.join("viewed.vor");
    record(&capture);
    export_selected(&capture, &folder);
    let rows = recorded(&capture);

    let of = |kind: &str| {
        rows.iter()
            .filter(|row| row["kind"] == kind)
            .collect::<Vec<_>>()
    };
    let first_frame = of("frame").into_iter().map(ts).min().unwrap();
    let across = of("span")
        .into_iter()
        .filter(|row| row["name"] == "across frames");
    let across: Vec<_> = across.map(ts).collect();
    assert!(
        across.len() == 1 && across[0] < first_frame,
        "the selection has only the span across frames that ends in it"
    );
    assert!(of("task").into_iter().any(|row| ts(row) < first_frame));
    assert!(of("in task").len() > 5 && of("message").len() == 60 && of("frame").len() == 10);

    let mut expected: Vec<_> = ["span", "task", "in task", "frame"]
        .into_iter()
        .flat_map(&of)
        .map(|row| {
            let kind = row["kind"].as_str().unwrap().to_owned();
            let name = row["name"].as_str().unwrap_or("frame").to_owned();
            (kind, name, ts(row), row["dur"].as_i64().unwrap())
        })
        .collect();
    expected.sort();
    let found = in_chrome(&std::fs::read(folder.join("selection.json")).unwrap());
    let only = |these: &[_], others: &[_]| {
        let others: std::collections::HashSet<_> = others.iter().cloned().collect();
        let only = these.iter().filter(|row| !others.contains(*row)).cloned();
        only.collect::<Vec<(String, String, i64, i64)>>()
    };
    assert_eq!(only(&expected, &found), [], "is not in the trace");
    assert_eq!(only(&found, &expected), [], "is only in the trace");
    assert_eq!(found.len(), expected.len());

    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    std::fs::write(folder.join("selection.jsonl"), lines).unwrap();
}
