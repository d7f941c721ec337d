//! A child records, counts in a side channel what it has finished, and is killed at a random
//! moment. Everything that it had counted is recovered, once and right.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::Duration;

use vor_capture::model::batch::ArgValue;
use vor_capture::reader::{Event, Reader};
use vor_fixtures::process::{child, role};
use vor_fixtures::random::Random;
use vor_fixtures::test_name;
use vor_recorder::drain::recovery::{Recovered, Remains};
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

use crate::counters;

/// The variable that names the folder of a child.
const FOLDER: &str = "VOR_SHARED_MEMORY_IN";
/// The variable that sets how many children are killed.
const ROUNDS: &str = "VOR_SHARED_MEMORY_ROUNDS";
const DEFAULT_ROUNDS: u64 = 20;
/// Counter of threads that record.
const READY: usize = 63;
/// Plain spans in each numbered one.
const INNER: u64 = 2;
/// One numbered span in so many has a text.
const TEXT_EVERY: u64 = 16;
/// One numbered span in so many is open for longer than a pass of the drain.
const LONG_EVERY: u64 = 20_000;

/// Records without end on `threads` threads, each of which counts its finished numbered spans.
fn record_on(folder: &Path, threads: usize, with_capture: bool) -> ! {
    let counters = counters::map(&folder.join("counters"));
    let mut config = Config::new().shared_memory_in(folder);
    if with_capture {
        // So often that many children are killed during a pass.
        let interval = Duration::from_millis(1);
        config = config
            .drain_interval(interval)
            .capture(folder.join("run.vor"));
    }
    config.enable();
    let work = move |thread: usize| {
        profile_scope!("whole");
        for number in 0_u64.. {
            if number.is_multiple_of(TEXT_EVERY) {
                profile_scope!("numbered", number = number, text = format!("text {number}"));
                step(number);
            } else {
                profile_scope!("numbered", number = number);
                step(number);
            }
            counters[thread].store(number + 1, Ordering::SeqCst);
            if number == 0 {
                counters[READY].fetch_add(1, Ordering::SeqCst);
            }
            if number % 512 == 511 {
                // At the pace of a program that does something else, too.
                std::thread::sleep(Duration::from_micros(500));
            }
        }
    };
    for thread in 0..threads {
        let builder = std::thread::Builder::new().name(format!("thread {thread}"));
        builder.spawn(move || work(thread)).unwrap();
    }
    loop {
        std::thread::park();
    }
}

fn step(number: u64) {
    for _ in 0..INNER {
        profile_scope!("inner");
    }
    if number % LONG_EVERY == TEXT_EVERY {
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// The records of a thread in a capture.
#[derive(Debug, Default)]
struct Spans {
    /// Numbers of the numbered spans, with the texts of some, in the order of the file.
    numbered: Vec<(u64, Option<String>)>,
    inner: u64,
    inner_before_last: u64,
    dropped: u64,
    open: Vec<String>,
}

fn read(path: &Path) -> BTreeMap<String, Spans> {
    let mut reader = Reader::open(path).unwrap();
    let mut all = BTreeMap::<String, Spans>::new();
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Batch(batch) => {
                for share in &batch.threads {
                    let info = batch.catalog.thread(share.thread).unwrap();
                    let spans = all.entry(info.name.clone()).or_default();
                    spans.dropped += share.dropped_spans;
                    let mut args = share.args.iter().peekable();
                    for (i, site) in (0..).zip(&share.sites) {
                        match &*batch.catalog.site(*site).unwrap().name {
                            "inner" => spans.inner += 1,
                            "numbered" => {
                                let args = args.next_if(|args| args.span == i).unwrap();
                                let (number, text) = match &args.values[..] {
                                    [ArgValue::U64(number)] => (*number, None),
                                    [ArgValue::U64(number), ArgValue::Str(text)] => {
                                        (*number, Some(text.to_string()))
                                    }
                                    other => panic!("{other:?}"),
                                };
                                spans.numbered.push((number, text));
                                spans.inner_before_last = spans.inner;
                            }
                            other => panic!("{other}"),
                        }
                    }
                }
            }
            Event::OpenScopes(open) => {
                let catalog = reader.catalog().unwrap();
                for (thread, scopes) in &open.threads {
                    let info = catalog.thread(*thread).unwrap();
                    let names = scopes.iter().map(|(site, _)| {
                        let site = catalog.site(*site).unwrap();
                        site.name.to_string()
                    });
                    all.entry(info.name.clone()).or_default().open = names.collect();
                }
            }
            Event::Loss(loss) => panic!("{loss:?}"),
            _ => {}
        }
    }
    let bytes = std::fs::read(path).unwrap();
    assert!(
        bytes.ends_with(b"VOR3END."),
        "a recovered capture has an index"
    );
    all
}

/// Kills a child after `delay`, and checks what is recovered. Returns the numbers of spans from the
/// rings and from the capture, and of those that were dropped.
fn kill_one(threads: usize, with_capture: bool, delay: Duration) -> (Recovered, u64) {
    let folder = tempfile::tempdir().unwrap();
    let counters = counters::map(&folder.path().join("counters"));
    let test = test_name!("a_killed_process_loses_no_finished_span");
    let role = format!("{threads} {with_capture}");
    let mut child = child(test, &role);
    let child = child.env(FOLDER, folder.path()).stdout(Stdio::null());
    let mut child = child.spawn().unwrap();
    while counters[READY].load(Ordering::SeqCst) < threads as u64 {
        std::thread::sleep(Duration::from_micros(100));
        assert!(child.try_wait().unwrap().is_none(), "the child has ended");
    }
    std::thread::sleep(delay);
    child.kill().unwrap();
    child.wait().unwrap();

    let remains = Remains::open(&shared_file(folder.path())).unwrap();
    assert!(!remains.is_alive());
    assert_eq!(remains.pid(), child.id());
    let capture = with_capture.then(|| folder.path().join("run.vor"));
    assert_eq!(remains.capture(), capture);
    let path = folder.path().join("recovered.vor");
    let mut out = std::fs::File::create(&path).unwrap();
    let recovered = remains.write(capture.as_deref(), &mut out).unwrap();
    assert_eq!((recovered.overwritten, recovered.damaged_rings), (0, 0));
    let all = read(&path);
    let (mut ring_or_capture, mut finished, mut dropped) = (0, 0, 0);
    for thread in 0..threads {
        let done = counters[thread].load(Ordering::SeqCst);
        let spans = &all[&format!("thread {thread}")];
        check(spans, done, with_capture, delay);
        ring_or_capture += spans.numbered.len() as u64 + spans.inner;
        finished += done;
        dropped += spans.dropped;
    }
    assert!(finished > 0);
    assert_eq!(recovered.spans + recovered.captured_spans, ring_or_capture);
    (recovered, dropped)
}

fn check(spans: &Spans, done: u64, with_capture: bool, delay: Duration) {
    let what = format!("{done} counted, capture {with_capture}, after {delay:?}");
    let numbers: Vec<u64> = spans.numbered.iter().map(|(number, _)| *number).collect();
    assert!(
        numbers.is_sorted_by(|a, b| a < b),
        "once and in order: {what}"
    );
    let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
    // The scope may have ended, and the thread not have counted it.
    assert!(
        (done..=done + 1).contains(&(last + 1)),
        "up to {last}: {what}"
    );
    if spans.dropped == 0 {
        assert_eq!(last - first + 1, numbers.len() as u64, "{what}");
        let inner = (spans.inner_before_last, INNER * numbers.len() as u64);
        // The first one's inner spans may be behind the ring.
        let lost = if first == 0 { 0 } else { INNER };
        assert!(
            inner.0 + lost >= inner.1 && inner.0 <= inner.1 + lost,
            "{inner:?}: {what}"
        );
        assert!(spans.inner - spans.inner_before_last <= INNER, "{what}");
    }
    if with_capture || done < 50_000 {
        assert!(first == 0 || spans.dropped > 0, "from {first}: {what}");
    }
    for (number, text) in &spans.numbered {
        let expected = number
            .is_multiple_of(TEXT_EVERY)
            .then(|| format!("text {number}"));
        if spans.dropped == 0 {
            assert_eq!(*text, expected, "{what}");
        }
    }
    assert_eq!(
        spans.open.first().map(String::as_str),
        Some("whole"),
        "{what}"
    );
}

/// Returns the one file of shared memory in a folder.
pub(crate) fn shared_file(folder: &Path) -> PathBuf {
    let paths = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files = paths.filter(|path| path.extension().is_some_and(|ending| ending == "shm"));
    let file = files.next().expect("a killed process leaves its file");
    assert_eq!(files.next(), None);
    file
}

#[test]
fn a_killed_process_loses_no_finished_span() {
    if let Some(role) = role() {
        let (threads, with_capture) = role.split_once(' ').unwrap();
        let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
        record_on(&folder, threads.parse().unwrap(), with_capture == "true");
    }
    let rounds = std::env::var(ROUNDS).map_or(DEFAULT_ROUNDS, |rounds| rounds.parse().unwrap());
    let mut random = Random(rounds);
    let (mut from_rings, mut captured, mut dropped) = (0, 0, 0);
    for round in 0..rounds {
        let (threads, with_capture) = ([1, 4][round as usize % 2], round / 2 % 2 == 1);
        let delay = Duration::from_micros(random.below(100_000) as u64);
        let (recovered, of_them_dropped) = kill_one(threads, with_capture, delay);
        dropped += of_them_dropped;
        from_rings += recovered.spans;
        captured += recovered.captured_spans;
    }
    println!(
        "{rounds} rounds: {from_rings} spans from rings, {captured} from captures, {dropped} \
        dropped"
    );
    assert!(from_rings > 0 && captured > 0);
}
