//! Ranges sent to an NVTX tool; the tool of these tests logs every call.
#![cfg(all(feature = "cuda", target_os = "linux", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Output;
use std::sync::{Arc, Barrier, Mutex};

use crate::gpu_support::tool_log::{self, Range, Thread};
use vor_capture::Error;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::FrameSink;
use vor_fixtures::libraries::build;
use vor_fixtures::process::{child, role, run_to_success as run, vor_lines};
use vor_fixtures::random::Random;
use vor_fixtures::test_name;
use vor_recorder::hot::scope;
use vor_recorder::setup::Config;
use vor_recorder::{drain, profile_phase, profile_scope, setup};

/// The log of a child's tool, by thread.
type Log = BTreeMap<u64, Thread>;

/// Runs `test` again as a child with the tool attached, and reads the log of the tool.
fn with_tool(test: &str) -> (Log, Output) {
    let folder = tempfile::tempdir().unwrap();
    let tool = build("nvtx_tool.rs", folder.path(), "libtool.so");
    let log = folder.path().join("log");
    let mut command = child(test, "child");
    let output = run(command
        .env("NVTX_INJECTION64_PATH", tool)
        .env("VOR_TEST_TOOL_LOG", &log));
    (tool_log::read(&log), output)
}

/// Returns the only thread that has ranges.
fn only_thread(log: &Log) -> &Thread {
    let mut threads = log.values().filter(|thread| !thread.ranges.is_empty());
    let thread = threads.next().expect("a thread has ranges");
    assert_eq!(threads.count(), 0);
    assert_eq!(thread.left_open(), 0);
    thread
}

fn names(thread: &Thread) -> Vec<(&str, usize)> {
    let shown = |range: &'_ Range| (range.name.as_str().to_owned().leak() as &str, range.depth);
    thread.ranges.iter().map(shown).collect()
}

/// Keeps the frames of a program.
#[derive(Clone, Default)]
struct Frames(Arc<Mutex<Vec<Arc<FrameSnapshot>>>>);

impl FrameSink for Frames {
    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.0.lock().unwrap().push(Arc::clone(frame));
        Ok(())
    }
}

/// Names that are hard to write correctly.
fn odd_names() -> Vec<String> {
    vec![
        String::new(),
        "100 % %s %n %d".into(),
        "a\0b".into(),
        "größe 🦀 \u{202e}\n\t\"".into(),
        "0123456789".repeat(1000),
    ]
}

/// The scopes that a program of a seed opens: name and depth, in the order of their begins.
type Opened = Vec<(String, usize)>;

/// Opens random scopes of all kinds within scopes, and notes them.
fn nest(random: &mut Random, depth: usize, opened: &mut Opened, odd: &[String]) {
    for _ in 0..random.below(4) {
        if depth > 140 || opened.len() > 4000 {
            return;
        }
        let inner = |random: &mut Random, name: &str, opened: &mut Opened| {
            opened.push((name.into(), depth));
            nest(random, depth + 1, opened, odd);
        };
        match random.below(8) {
            0 => {
                profile_scope!("plain");
                inner(random, "plain", opened);
            }
            1 => {
                profile_scope!(
                    "with arguments",
                    text = "text",
                    count = opened.len(),
                    share = 0.5
                );
                inner(random, "with arguments", opened);
            }
            2 => {
                profile_scope!("processor time", cpu);
                inner(random, "processor time", opened);
            }
            3 => {
                let mut phases = profile_phase!("first phase");
                inner(random, "first phase", opened);
                profile_phase!(phases, "second phase");
                inner(random, "second phase", opened);
                drop(phases);
            }
            4 => {
                let unwound = catch_unwind(AssertUnwindSafe(|| {
                    profile_scope!("unwound");
                    inner(random, "unwound", opened);
                    std::panic::resume_unwind(Box::new(()));
                }));
                assert!(unwound.is_err());
            }
            5 => {
                // Deeper than the open scopes that vor keeps.
                profile_scope!("deep");
                opened.push(("deep".into(), depth));
                if depth < 140 && random.below(4) == 0 {
                    chain(random, depth + 1, opened, odd);
                }
            }
            _ => {
                let name = &odd[random.below(odd.len())];
                let _scope = scope::scope(name);
                inner(random, name, opened);
            }
        }
    }
}

fn chain(random: &mut Random, depth: usize, opened: &mut Opened, odd: &[String]) {
    profile_scope!("chain");
    opened.push(("chain".into(), depth));
    if depth < 138 {
        chain(random, depth + 1, opened, odd);
    } else {
        nest(random, depth + 1, opened, odd);
    }
}

#[test]
fn ranges_match_the_spans_one_to_one() {
    const THREADS: u64 = 6;
    if role().is_none() {
        // The child has checked everything but the log.
        let (log, output) = with_tool(test_name!());
        assert_eq!(vor_lines(&output), Vec::<String>::new());
        let text = String::from_utf8(output.stdout).unwrap();
        let expected = text
            .lines()
            .find_map(|line| line.split_once("EXPECTED "))
            .unwrap()
            .1;
        let expected: BTreeMap<u64, (String, Opened)> = serde_json::from_str(expected).unwrap();
        assert_eq!(expected.len() as u64, THREADS);
        assert_eq!(log.len() as u64, THREADS, "no other thread");
        for (os_id, (name, opened)) in expected {
            let thread = &log[&os_id];
            assert_eq!(thread.name, name);
            assert!(opened.len() > 500 && opened.iter().any(|(_, depth)| *depth > 135));
            let ranges = thread
                .ranges
                .iter()
                .map(|range| (range.name.replace('\u{2400}', "\0"), range.depth));
            assert_eq!(ranges.collect::<Opened>(), opened);
            assert_eq!((thread.left_open(), thread.popped.len()), (0, opened.len()));
        }
        return;
    }
    let frames = Frames::default();
    Config::new().sink("frames", frames.clone()).enable();
    let expected = Arc::new(Mutex::new(BTreeMap::new()));
    let (begin, end) = (
        Arc::new(Barrier::new(THREADS as usize)),
        Arc::new(Barrier::new(THREADS as usize)),
    );
    let work = |number: u64| {
        let (expected, begin, end) = (Arc::clone(&expected), Arc::clone(&begin), Arc::clone(&end));
        let name = format!("worker {number} %s ü");
        let run = move || {
            begin.wait();
            let mut opened = Opened::new();
            let mut random = Random(number);
            // First deeper than the open scopes that vor keeps, then at random.
            chain(&mut random, 0, &mut opened, &odd_names());
            while opened.len() < 600 {
                nest(&mut random, 0, &mut opened, &odd_names());
            }
            // SAFETY: gettid takes no arguments, touches no memory and cannot fail.
            #[expect(unsafe_code, reason = "a system call")]
            let os_id = unsafe { libc::gettid() } as u64;
            let name = std::thread::current().name().unwrap().to_owned();
            expected.lock().unwrap().insert(os_id, (name, opened));
            end.wait();
        };
        std::thread::Builder::new().name(name).spawn(run).unwrap()
    };
    let threads: Vec<_> = (0..THREADS).map(work).collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    drain::frame_mark();
    drain::flush();
    // The captured spans equal the notes of the program, so the log can be compared with either.
    let expected = expected.lock().unwrap();
    let frames = frames.0.lock().unwrap();
    let mut seen = 0;
    for tree in frames.iter().flat_map(|frame| &frame.threads) {
        let catalog = &frames[0].catalog;
        let os_id = catalog.thread(tree.thread).unwrap().os_id;
        let span = |span: &vor_capture::model::frame::Span| {
            (catalog.site_name(span.site).to_owned(), span.depth as usize)
        };
        assert_eq!(
            tree.spans.iter().map(span).collect::<Opened>(),
            expected[&os_id].1
        );
        seen += 1;
    }
    assert_eq!((frames.len(), seen), (1, THREADS));
    println!("EXPECTED {}", serde_json::to_string(&*expected).unwrap());
}

#[test]
fn a_range_has_category_colour_and_payload() {
    if role().is_some() {
        Config::new().enable();
        profile_scope!("none");
        profile_scope!("io", @category = "io", bytes = 4096_u32);
        profile_scope!("more io", @category = "io", name = "x", back = -3_i8, later = 9);
        profile_scope!("net", @category = "net", @color = 0x12_34_56, ok = true, share = 0.25_f32);
        profile_scope!("text", name = "x", ok = false);
        profile_scope!("some", count = Some(7_u64), other = 1);
        profile_scope!("nothing", count = None::<u64>, other = 8_i32);
        return;
    }
    let (log, _) = with_tool(test_name!());
    let thread = only_thread(&log);
    let shown = |range: &Range| (range.name.clone(), range.category.clone(), range.payload);
    let expected = [
        ("none", "", None),
        ("io", "io", Some((1, 4096))),
        ("more io", "io", Some((2, -3_i64 as u64))),
        ("net", "net", Some((3, 0.25_f64.to_bits()))),
        ("text", "", None),
        ("some", "", Some((1, 7))),
        ("nothing", "", Some((2, 8))),
    ];
    let expected =
        expected.map(|(name, category, payload)| (name.to_owned(), category.to_owned(), payload));
    assert_eq!(
        thread.ranges.iter().map(shown).collect::<Vec<_>>(),
        expected
    );
    let colors: Vec<_> = thread.ranges.iter().map(|range| range.color_argb).collect();
    assert!(
        colors[1].is_some_and(|color| color >> 24 == 0xff),
        "{colors:x?}"
    );
    assert_eq!(
        (colors[0], colors[2], colors[3], colors[4]),
        (None, colors[1], Some(0xff12_3456), None)
    );
}

#[test]
fn guards_that_outlive_others_or_are_forgotten_keep_the_ranges_in_order() {
    if role().is_some() {
        Config::new().enable();
        let outer = scope::scope("outer");
        let inner = scope::scope("inner");
        drop(outer);
        {
            profile_scope!("beside");
        }
        drop(inner);
        {
            profile_scope!("around");
            std::mem::forget(scope::scope("forgotten"));
            {
                profile_scope!("in forgotten");
            }
        }
        profile_scope!("last");
        return;
    }
    let (log, _) = with_tool(test_name!());
    let expected = [
        ("outer", 0),
        ("inner", 1),
        ("beside", 0),
        ("around", 0),
        ("forgotten", 1),
        ("in forgotten", 2),
        ("last", 0),
    ];
    assert_eq!(names(only_thread(&log)), expected);
}

#[test]
fn arguments_of_a_scope_are_recorded_beside_its_range() {
    if role().is_some() {
        let frames = Frames::default();
        Config::new().sink("frames", frames.clone()).enable();
        // So many that the ring's pages end after each kind of record.
        for n in 0..2000_u64 {
            profile_scope!("none");
            profile_scope!("one", a = n);
            profile_scope!("two", a = n, b = n + 1);
            profile_scope!("three", a = n, b = n + 1, c = n + 2);
            profile_scope!("five", a = n, b = n + 1, c = n + 2, d = n + 3, e = n + 4);
        }
        drain::frame_mark();
        drain::flush();
        let frames = frames.0.lock().unwrap();
        let mut seen = BTreeMap::new();
        for tree in frames.iter().flat_map(|frame| &frame.threads) {
            for span in &tree.spans {
                let name = frames[0].catalog.site_name(span.site);
                let of_name: &mut Vec<_> = seen.entry(name).or_default();
                let from = of_name.len() as u64;
                let args = BTreeMap::from([
                    ("none", 0),
                    ("one", 1),
                    ("two", 2),
                    ("three", 3),
                    ("five", 5),
                ]);
                let expected: Vec<_> = (from..from + args[name]).map(ArgValue::U64).collect();
                assert_eq!(tree.args(span), expected, "{name} {from}");
                of_name.push(span.site);
            }
        }
        assert_eq!(seen.values().map(Vec::len).collect::<Vec<_>>(), [2000; 5]);
        return;
    }
    let (log, _) = with_tool(test_name!());
    assert_eq!(only_thread(&log).ranges.len(), 10_000);
}

#[test]
fn there_are_ranges_while_recording_or_only_counting() {
    if role().is_some() {
        profile_scope!("before");
        Config::new().enable();
        {
            profile_scope!("recorded");
        }
        setup::disable();
        {
            profile_scope!("off");
        }
        Config::new().count_scopes(true).print_stats(false).enable();
        for _ in 0..2 {
            profile_scope!("counted");
            let _named = scope::scope("counted by name");
        }
        assert_eq!(drain::stats().len(), 2);
        return;
    }
    let (log, _) = with_tool(test_name!());
    let expected = [
        ("recorded", 0),
        ("counted", 0),
        ("counted by name", 1),
        ("counted", 0),
        ("counted by name", 1),
    ];
    assert_eq!(names(only_thread(&log)), expected);
}

#[test]
fn a_tool_that_cannot_be_loaded_is_one_line() {
    if role().is_some() {
        Config::new().enable();
        Config::new().enable();
        for _ in 0..3 {
            profile_scope!("work");
        }
        drain::flush();
        println!("done");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tool = build("nvtx_tool.rs", folder.path(), "libtool.so");
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library").unwrap();
    let other = PathBuf::from("libc.so.6");
    for (path, reason) in [
        (folder.path().join("missing.so"), Some("cannot be loaded")),
        (text, Some("cannot be loaded")),
        (other, Some("does not export InitializeInjectionNvtx2")),
        (tool, Some("reports that it cannot start")),
        (PathBuf::new(), None),
    ] {
        let mut command = child(test_name!(), "child");
        let output = run(command
            .env("NVTX_INJECTION64_PATH", &path)
            .env("VOR_TEST_TOOL_REFUSES", "1"));
        let lines = vor_lines(&output);
        assert_eq!(lines.len(), usize::from(reason.is_some()), "{lines:?}");
        for line in lines {
            assert!(
                line.starts_with("vor: NVTX_INJECTION64_PATH: ") && line.contains(reason.unwrap()),
                "{line}"
            );
        }
        assert!(String::from_utf8_lossy(&output.stdout).contains("done"));
    }
}
