//! Spans exported as profiles of pprof and read back: every stack has the values of its spans
//! without their children.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::model::batch::{
    ArgValue, AsyncSpan, SpanArgs, SpanBatch, TaskEvent, TaskEventKind, ThreadBatch,
};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::model::measures::{Measured, Measures};
use vor_capture::sink::FrameSink;
use vor_export::pprof::{
    Frame, OpenSpan, OpenSpans, PprofExporter, ProfileBuilder, SampleType, SpanProfile,
};
use vor_fixtures::pprof::Profile;
use vor_fixtures::random::seeds;
use vor_fixtures::views::{self, NASTY, Views};

/// With `VOR_ORACLE_OUT`, profiles go into that folder, where other programs can read them.
fn keep(name: &str, bytes: &[u8]) {
    if let Some(folder) = std::env::var_os("VOR_ORACLE_OUT") {
        std::fs::write(std::path::Path::new(&folder).join(name), bytes).unwrap();
    }
}

fn exported(batches: &[SpanBatch], labels: &[&str]) -> Profile {
    vor_fixtures::pprof::read(&exported_bytes(batches, labels))
}

fn exported_bytes(batches: &[SpanBatch], labels: &[&str]) -> Vec<u8> {
    let exporter = PprofExporter::new(Vec::new());
    let mut exporter = labels.iter().copied().fold(exporter, PprofExporter::label);
    for batch in batches {
        exporter.accept_batch(batch).unwrap();
    }
    exporter.finish().unwrap();
    exporter.finish().expect("a second end does nothing");
    assert!(exporter.accept_batch(&SpanBatch::default()).is_err());
    exporter.into_inner()
}

#[test]
fn random_trees_have_the_self_times_of_all_stacks_by_thread() {
    for seed in seeds(20) {
        let Views { batches, rows } = views::make(seed, 2_000);
        let labels = ["main", NASTY, "thread 44"];
        let mut expected = BTreeMap::new();
        for ((thread, path), ns) in views::self_times(&rows) {
            let names: Vec<String> = path.iter().map(|&site| views::name(site)).collect();
            if ns > 0 {
                *expected
                    .entry((labels[thread as usize].to_owned(), names))
                    .or_insert(0) += ns as i64;
            }
        }
        let profile = exported(&batches, &[]);
        let mut found = BTreeMap::new();
        for sample in &profile.samples {
            let names: Vec<String> = sample.names().into_iter().map(str::to_owned).collect();
            assert_eq!(sample.labels.len(), 1);
            let key = (sample.labels["thread"].clone(), names);
            assert_eq!(
                found.insert(key, sample.values[0]),
                None,
                "a stack of a thread is one sample"
            );
        }
        assert_eq!(found, expected);
        assert_eq!(profile.types, [("wall".into(), "nanoseconds".into())]);
        assert_eq!(profile.period, ("wall".into(), "nanoseconds".into(), 1));
        assert_eq!(profile.default_type, "wall");
        assert_eq!(profile.program, "app \"x\"");
        assert_eq!(profile.comments, [""; 0]);
        let first = rows.iter().map(|row| row.3).min().unwrap();
        let last = rows.iter().map(|row| row.4).max().unwrap();
        assert_eq!(profile.time_nanos, 1_700_000_000_123_456_789 + first as i64);
        assert_eq!(profile.duration_nanos, (last - first) as i64);
        // A known call site has a source location.
        for (name, file, line) in profile.samples.iter().flat_map(|sample| &sample.stack) {
            assert_eq!(*line > 0, !file.is_empty(), "{name} {file} {line}");
            assert!(!["step", "größe"].contains(&name.as_str()) || *line > 0);
        }
    }
}

fn site(
    name: &'static str,
    own_args: &[&'static str],
    measures: Measures,
) -> Option<Arc<SiteInfo>> {
    let own_args = own_args.iter().copied();
    Some(Arc::new(filled!(SiteInfo {
        name: name.into(),
        file: "src/work.rs".into(),
        line: 7,
        arg_names: own_args
            .chain(measures.arg_names())
            .map(Into::into)
            .collect()
    })))
}

/// Call site, start, duration and arguments of a span.
type Ended<'a> = (u32, u64, u64, &'a [ArgValue]);

/// Returns a batch of one thread from the spans that it ended, in this order; a tick is a
/// nanosecond.
fn batch(sites: Vec<Option<Arc<SiteInfo>>>, spans: &[Ended<'_>], dropped_spans: u64) -> SpanBatch {
    let thread = Some(Arc::new(filled!(ThreadInfo {
        os_id: 5,
        name: "main".into(),
    })));
    let catalog = filled!(Catalog {
        sites: Arc::new(sites),
        threads: Arc::new(vec![thread])
    });
    let mut thread = filled!(ThreadBatch {
        thread: ThreadId(0),
        dropped_spans
    });
    for (span, &(site, start, length, args)) in (0..).zip(spans) {
        thread.sites.push(SiteId(site));
        thread.start_ticks.push(start);
        thread.duration_ticks.push(length);
        if !args.is_empty() {
            thread.args.push(filled!(SpanArgs {
                span,
                values: args.to_vec(),
            }));
        }
    }
    filled!(SpanBatch {
        catalog: Arc::new(catalog),
        threads: vec![thread],
    })
}

/// A task that `worker` polls twice: it runs 30 of 100, 10 of them in a scope of its poll. Another
/// task is never polled, so its idle time is unknown.
#[test]
fn idle_time_of_tasks_is_separate_from_their_busy_time() {
    let sites = vec![
        site("worker", &[], Measures::NONE),
        site("fetch", &[], Measures::NONE),
        site("parse", &[], Measures::NONE),
    ];
    let spans: &[(u32, u64, u64, &[ArgValue])] = &[
        (2, 10, 20, &[]),
        (3, 95, 10, &[]),
        (2, 95, 10, &[]),
        (1, 0, 200, &[]),
    ];
    let mut batch = batch(sites, spans, 0);
    let poll = |start_ticks, duration_ticks| {
        filled!(TaskEvent {
            task: 5,
            site: SiteId(2),
            start_ticks,
            kind: TaskEventKind::Poll { duration_ticks },
        })
    };
    let without = exported(std::slice::from_ref(&batch), &[]);
    assert_eq!(without.type_names(), ["wall"]);
    let thread = &mut batch.threads[0];
    thread.task_events = vec![poll(10, 20), poll(95, 10)];
    let life = |id, start_ticks| {
        filled!(AsyncSpan {
            id,
            site: SiteId(2),
            start_ticks,
            duration_ticks: 100,
        })
    };
    thread.async_spans = vec![life(5, 10), life(6, 0)];
    let bytes = exported_bytes(&[batch], &[]);
    keep("tasks.pb.gz", &bytes);
    let profile = vor_fixtures::pprof::read(&bytes);
    assert_eq!(profile.type_names(), ["wall", "wall_busy", "wall_idle"]);
    assert_eq!(profile.default_type, "wall");
    let of = |value, stack: &[&str]| {
        let stack: Vec<String> = stack.iter().map(|&name| name.to_owned()).collect();
        profile.sums(value).get(&stack).copied()
    };
    assert_eq!(of("wall_idle", &["fetch"]), Some(70));
    assert_eq!(of("wall_busy", &["fetch"]), Some(0));
    assert_eq!(of("wall_busy", &["worker", "fetch"]), Some(20));
    assert_eq!(of("wall_busy", &["worker", "fetch", "parse"]), Some(10));
    assert_eq!(of("wall_busy", &["worker"]), Some(170));
    for sample in &profile.samples {
        assert_eq!(sample.values[0], sample.values[1] + sample.values[2]);
        assert_eq!(
            sample.labels.contains_key("thread"),
            sample.values[2] == 0,
            "a task has none"
        );
    }
}

#[test]
fn measures_exclude_children_and_pass_through_scopes_without_them() {
    let all = Measures::CPU
        .union(Measures::CPU_SPLIT)
        .union(Measures::ALLOC);
    let sites = vec![
        site("outer", &[], all),
        site("plain", &[], Measures::NONE),
        site("inner", &["bytes"], all),
    ];
    let values = |values: &[u64]| {
        values
            .iter()
            .copied()
            .map(ArgValue::U64)
            .collect::<Vec<_>>()
    };
    // Off-CPU 30 of 100; 60 in user space and 10 in the kernel; three allocations of 300 bytes, one
    // of them freed.
    let inner = values(&[9, 30, 60, 10, 3, 300, 1, 100]);
    let outer = values(&[50, 400, 50, 10, 1_000, 2, 500]);
    // A second inner span was never off-CPU and allocated nothing.
    let spans: [(u32, u64, u64, &[ArgValue]); 4] = [
        (3, 20, 100, &inner),
        (3, 130, 20, &[]),
        (2, 15, 160, &[]),
        (1, 0, 600, &outer),
    ];
    let bytes = exported_bytes(&[batch(sites, &spans, 4)], &["bytes"]);
    keep("known.pb.gz", &bytes);
    let profile = vor_fixtures::pprof::read(&bytes);
    let types = [
        ("wall", "nanoseconds"),
        ("cpu", "nanoseconds"),
        ("cpu_user", "nanoseconds"),
        ("cpu_sys", "nanoseconds"),
        ("off_cpu", "nanoseconds"),
        ("alloc_objects", "count"),
        ("alloc_bytes", "bytes"),
    ];
    assert_eq!(
        profile.types,
        types.map(|(name, unit)| (name.into(), unit.into()))
    );
    let by_name = |name: &str| {
        let samples = profile
            .samples
            .iter()
            .filter(|it| it.names().last() == Some(&name));
        let values = samples.map(|sample| sample.values.clone());
        values
            .reduce(|a, b| a.iter().zip(b).map(|(a, b)| a + b).collect())
            .unwrap()
    };
    // `inner` has 120 of wall-clock time and 70 + 20 of CPU time; `plain` measures nothing.
    assert_eq!(by_name("inner"), [120, 90, 60, 10, 30, 3, 300]);
    assert_eq!(by_name("plain"), [40, 0, 0, 0, 0, 0, 0]);
    assert_eq!(by_name("outer"), [440, 460, 340, 40, 20, 7, 700]);
    assert_eq!(
        profile.comments,
        ["4 spans are missing: the ring of their thread was full"]
    );
}

/// A scope is open from 0 to 80, and a profile is taken at 50 and at 100.
#[test]
fn each_profile_of_a_running_program_has_what_happened_since_the_last_one() {
    let sites = vec![
        site("outer", &[], Measures::ALLOC),
        site("inner", &[], Measures::NONE),
    ];
    let mut profile = SpanProfile::new([]);
    let mut taken = Vec::new();
    let allocated = [5, 500, 0, 0].map(ArgValue::U64);
    let steps: [(&[Ended<'_>], u64, &[u64]); 2] = [
        (&[(2, 20, 10, &[])], 50, &[0]),
        (&[(2, 60, 5, &[]), (1, 0, 80, &allocated)], 100, &[]),
    ];
    for (spans, now_ticks, open) in steps {
        profile
            .accept_bounded(&batch(sites.clone(), spans, 0))
            .unwrap();
        let span = |&start_ticks: &u64| OpenSpan {
            site: SiteId(1),
            start_ticks,
        };
        let open = OpenSpans {
            thread: ThreadId(0),
            spans: open.iter().map(span).collect(),
        };
        // The open scope has made two of its five allocations.
        let measured = |_, _, until_ticks| {
            assert_eq!(until_ticks, now_ticks);
            let measured = filled!(Measured {
                alloc_objects: 2,
                alloc_bytes: 200,
            });
            (Measures::ALLOC, measured)
        };
        let cut = profile.cut(now_ticks, &[open], measured, None).unwrap();
        let mut bytes = Vec::new();
        cut.write_gzipped(&mut bytes).unwrap();
        let cut = vor_fixtures::pprof::read(&bytes);
        assert_eq!(cut.type_names(), ["wall", "alloc_objects", "alloc_bytes"]);
        let samples = cut.samples.iter();
        let mut samples: Vec<_> = samples
            .map(|sample| (sample.names().join(";"), sample.values.clone()))
            .collect();
        samples.sort_unstable();
        taken.push(samples);
    }
    let expected = [
        [("outer", [40, 2, 200]), ("outer;inner", [10, 0, 0])],
        [("outer", [25, 3, 300]), ("outer;inner", [5, 0, 0])],
    ]
    .map(|samples| samples.map(|(stack, values)| (stack.to_owned(), values.to_vec())));
    assert_eq!(taken, expected);
}

#[test]
fn a_capture_has_only_the_types_that_it_measured() {
    let spans: [(u32, u64, u64, &[ArgValue]); 1] = [(1, 0, 600, &[])];
    let types = |measures| {
        // The second call site was never recorded.
        let sites = vec![site("a", &[], measures), site("b", &[], Measures::ALLOC)];
        let profile = exported(&[batch(sites, &spans, 0)], &[]);
        profile
            .types
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    assert_eq!(types(Measures::NONE), ["wall"]);
    assert_eq!(types(Measures::CPU), ["wall", "cpu", "off_cpu"]);
    assert_eq!(
        types(Measures::CPU.union(Measures::WAIT)),
        ["wall", "cpu", "off_cpu", "wall_runqueue", "wall_blocked"]
    );
    assert_eq!(
        types(Measures::CPU_SPLIT),
        ["wall", "cpu", "cpu_user", "cpu_sys"]
    );
    assert_eq!(
        types(Measures::ALLOC),
        ["wall", "alloc_objects", "alloc_bytes"]
    );
}

#[test]
fn the_time_off_the_cpu_is_divided() {
    let waits = Measures::CPU.union(Measures::WAIT);
    let sites = vec![site("outer", &[], waits), site("inner", &[], waits)];
    let values = |values: [u64; 2]| values.map(ArgValue::U64);
    let (inner, outer) = (values([30, 25]), values([90, 40]));
    let spans: [(u32, u64, u64, &[ArgValue]); 2] = [(2, 20, 100, &inner), (1, 0, 600, &outer)];
    let profile = exported(&[batch(sites, &spans, 0)], &[]);
    let of = |name: &str| {
        let mut samples = profile.samples.iter();
        let sample = samples.find(|sample| sample.names().last() == Some(&name));
        sample.unwrap().values.clone()
    };
    assert_eq!(of("inner"), [100, 70, 30, 25, 5]);
    assert_eq!(of("outer"), [500, 440, 60, 15, 45]);
}

#[test]
fn labels_belong_to_the_span_and_its_descendants() {
    let sites = vec![
        site("request", &["route", "user"], Measures::NONE),
        site("query", &["table", "user"], Measures::ALLOC),
        site("row", &[], Measures::NONE),
    ];
    let text = |text: &str| ArgValue::Str(text.into());
    let request = |route| [text(route), ArgValue::U64(7)];
    let (first, second) = (request("/a"), request("/b"));
    let mut query = vec![text("t"), text(""), ArgValue::U64(1), ArgValue::U64(64)];
    query.extend([ArgValue::U64(0), ArgValue::U64(0)]);
    let spans: [(u32, u64, u64, &[ArgValue]); 7] = [
        (3, 2, 1, &[]),
        (2, 1, 5, &query),
        (1, 0, 10, &first),
        (3, 22, 1, &[]),
        (2, 21, 6, &query),
        (1, 20, 10, &second),
        (3, 40, 3, &[]),
    ];
    let batches = [batch(sites, &spans, 0)];
    // A measure is no label, nor is a name that the exporter uses itself.
    let profile = exported(
        &batches,
        &["route", "table", "absent", "alloc_bytes", "thread", "user"],
    );
    let mut found: Vec<_> = profile
        .samples
        .iter()
        .map(|sample| {
            let label = |name: &str| sample.labels.get(name).map_or("", String::as_str);
            assert_eq!(label("thread"), "main");
            let chosen = ["route", "table", "thread", "user"];
            assert!(sample.labels.keys().all(|name| chosen.contains(&&**name)));
            let labels = ["route", "table", "user"].map(label).join(" ");
            (sample.names().join(";"), labels, sample.values[0])
        })
        .collect();
    found.sort_unstable();
    let expected = [
        ("request", "/a  7", 5),
        ("request", "/b  7", 4),
        ("request;query", "/a t 7", 4),
        ("request;query", "/b t 7", 5),
        ("request;query;row", "/a t 7", 1),
        ("request;query;row", "/b t 7", 1),
        ("row", "  ", 3),
    ];
    assert_eq!(
        found,
        expected.map(|(stack, labels, ns)| (stack.into(), labels.into(), ns))
    );
    // Without labels, both requests are one stack.
    assert_eq!(exported(&batches, &[]).samples.len(), 4);
}

#[test]
fn an_argument_that_a_site_does_not_measure_is_no_measure() {
    // The first site has an argument of its own with the name of a measure.
    let sites = vec![
        site("a", &["alloc_objects"], Measures::NONE),
        site("b", &[], Measures::ALLOC),
    ];
    let values = [3, 300, 0, 0].map(ArgValue::U64);
    let spans: [(u32, u64, u64, &[ArgValue]); 2] =
        [(1, 0, 10, &[ArgValue::U64(9)]), (2, 20, 10, &values)];
    let profile = exported(&[batch(sites, &spans, 0)], &[]);
    assert_eq!(
        profile.type_names(),
        ["wall", "alloc_objects", "alloc_bytes"]
    );
    let sums = profile.sums("alloc_objects");
    assert_eq!(sums[&vec!["a".to_owned()]], 0);
    assert_eq!(sums[&vec!["b".to_owned()]], 3);
}

#[test]
fn call_sites_beyond_the_catalog_are_one_frame() {
    let sites = vec![site("a", &[], Measures::NONE)];
    let spans: [(u32, u64, u64, &[ArgValue]); 3] =
        [(2, 0, 10, &[]), (1, 20, 10, &[]), (u32::MAX, 40, 5, &[])];
    let profile = exported(&[batch(sites, &spans, 0)], &[]);
    let mut found: Vec<_> = profile
        .samples
        .iter()
        .map(|sample| (sample.names(), sample.values[0]))
        .collect();
    found.sort_unstable();
    assert_eq!(found, [(vec!["?"], 15), (vec!["a"], 10)]);
}

#[test]
fn values_beyond_those_of_a_profile_are_bounded_and_damage_is_no_panic() {
    let sites = vec![site("a", &[], Measures::ALLOC), None];
    let huge = vec![ArgValue::U64(u64::MAX); 4];
    let spans: [(u32, u64, u64, &[ArgValue]); 4] = [
        (1, 0, u64::MAX, &huge),
        (2, 5, 3, &huge),
        (u32::MAX, 6, 1, &[]),
        (1, u64::MAX, u64::MAX, &huge),
    ];
    let profile = exported(&[batch(sites, &spans, u64::MAX)], &["alloc_objects"]);
    for value in profile.samples.iter().flat_map(|sample| &sample.values) {
        assert!(*value >= 0);
    }
    assert!(
        profile
            .samples
            .iter()
            .any(|sample| sample.names().contains(&"?"))
    );
    assert!(exported(&[], &[]).samples.is_empty());
    let damaged = exported(&[views::damaged(3)], &["n"]);
    assert_eq!(damaged.type_names(), ["wall"]);
}

#[test]
fn a_custom_profile_has_the_added_samples() {
    let mut builder = ProfileBuilder::new(&[SampleType::INUSE_OBJECTS, SampleType::INUSE_BYTES]);
    builder.set_period(&SampleType::new("space", "bytes"), 512 * 1024);
    builder.set_time(1_700_000_000_000_000_000, 5);
    builder.set_program("app");
    builder.add_comment("a note");
    assert!(builder.is_empty());
    let frame = |name, line| Frame::new(name).at("a.rs", line);
    builder.add(
        [frame("main", 1), frame("load", 2)],
        &[3, 4_096],
        [("thread", "x")],
    );
    builder.add([frame("main", 1), frame("load", 9)], &[-1], []);
    builder.add([], &[1, 2], []);
    assert!(!builder.is_empty());
    let mut bytes = Vec::new();
    builder.write_gzipped(&mut bytes).unwrap();
    keep("built.pb.gz", &bytes);
    let profile = vor_fixtures::pprof::read(&bytes);
    assert_eq!(profile.type_names(), ["inuse_objects", "inuse_bytes"]);
    assert_eq!(profile.default_type, "inuse_objects");
    assert_eq!(profile.period, ("space".into(), "bytes".into(), 524_288));
    assert_eq!(profile.comments, ["a note"]);
    let samples: Vec<_> = profile
        .samples
        .iter()
        .map(|it| (it.stack.len(), &it.values[..]))
        .collect();
    assert_eq!(
        samples,
        [(2, &[3, 4_096][..]), (2, &[-1, 0][..]), (0, &[1, 2][..])]
    );
    assert_eq!(
        profile.samples[1].stack[1],
        ("load".into(), "a.rs".into(), 9)
    );
    let main = (vec!["main".to_owned(), "load".to_owned()], 4_096);
    assert_eq!(profile.sums("inuse_bytes").remove(&main.0), Some(main.1));
}
