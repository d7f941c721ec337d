//! A process that runs: what is read of it meanwhile, and what stays of its file.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use vor_capture::reader::{Event, Reader};
use vor_fixtures::process::{child, role};
use vor_fixtures::random::rounds;
use vor_fixtures::{own_process, test_name};
use vor_recorder::drain::recovery::Remains;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

use crate::counters;
use crate::killed::shared_file;

/// The variable that names the folder of a child.
const FOLDER: &str = "VOR_SHARED_MEMORY_IN";
const SPANS: u64 = 10_000;
const READY: usize = 0;
const BUSY: usize = 1;

/// A child that ends with the test, however that ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Records some spans and then hangs inside a scope; another thread records on.
fn hang(folder: &Path) -> ! {
    Config::new().shared_memory_in(folder).enable();
    let counters = counters::map(&folder.join("counters"));
    std::thread::spawn(|| {
        loop {
            {
                profile_scope!("busy");
            }
            counters[BUSY].store(1, Ordering::Relaxed);
        }
    });
    for _ in 0..SPANS {
        profile_scope!("done");
    }
    profile_scope!("stuck");
    counters[READY].store(1, Ordering::SeqCst);
    loop {
        std::thread::park();
    }
}

#[test]
fn a_process_that_hangs_shows_its_spans_and_open_scopes() {
    if role().is_some() {
        hang(&PathBuf::from(std::env::var_os(FOLDER).unwrap()));
    }
    let folder = tempfile::tempdir().unwrap();
    let test = test_name!("a_process_that_hangs_shows_its_spans_and_open_scopes");
    let mut child = child(test, "hang");
    let child = child.env(FOLDER, folder.path()).stdout(Stdio::null());
    let mut child = Killed(child.spawn().unwrap());
    let counters = counters::map(&folder.path().join("counters"));
    counters::wait_for(&counters[READY]);
    counters::wait_for(&counters[BUSY]);
    for round in 0..rounds(20) as u64 {
        // The drain has emptied the rings by then.
        std::thread::sleep(Duration::from_millis(10 * round));
        let remains = Remains::open(&shared_file(folder.path())).unwrap();
        assert!(remains.is_alive());
        let mut bytes = Vec::new();
        let recovered = remains.write(None, &mut bytes).unwrap();
        assert_eq!(recovered.damaged_rings, 0);
        let mut reader = Reader::new(std::io::Cursor::new(bytes)).unwrap();
        let (mut done, mut busy, mut open) = (0, Vec::new(), Vec::new());
        while let Some(event) = reader.next_event().unwrap() {
            match event {
                Event::Batch(batch) => {
                    for share in &batch.threads {
                        let starts = share.start_ticks.iter().zip(&share.duration_ticks);
                        for (site, (start, duration)) in share.sites.iter().zip(starts) {
                            match &*batch.catalog.site(*site).unwrap().name {
                                "done" => done += 1,
                                _ => busy.push((*start, start + duration)),
                            }
                        }
                    }
                }
                Event::OpenScopes(scopes) => open.push(scopes),
                _ => {}
            }
        }
        assert_eq!(done, SPANS);
        assert!(!busy.is_empty());
        // Whole records: a scope ends before the next one begins.
        assert!(busy.is_sorted_by(|a, b| a.1 <= b.0), "round {round}");
        let [open] = &open[..] else {
            panic!("{open:?}");
        };
        let catalog = reader.catalog().unwrap();
        let names = open.threads.iter().flat_map(|(_, scopes)| scopes);
        let names = names.map(|(site, start)| {
            assert!(*start <= open.ticks);
            catalog.site(*site).unwrap().name.to_string()
        });
        let names: Vec<_> = names.collect();
        assert!(names.iter().any(|name| name == "stuck"), "{names:?}");
        assert!(names.iter().all(|name| name != "done"), "{names:?}");
    }
    child.0.kill().unwrap();
}

#[test]
fn an_orderly_end_removes_the_file() {
    if role().is_some() {
        let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
        Config::new().shared_memory_in(&folder).enable();
        profile_scope!("work");
        let file = std::fs::metadata(shared_file(&folder)).unwrap();
        assert_eq!(file.mode() & 0o777, 0o600);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let test = test_name!("an_orderly_end_removes_the_file");
    vor_fixtures::process::run_to_success(child(test, "ends").env(FOLDER, folder.path()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_that_is_missing_is_one_line_and_the_program_records() {
    own_process!();
    Config::new()
        .shared_memory_in("/no/such/folder")
        .stats(true)
        .enable();
    {
        profile_scope!("work");
    }
    assert_eq!(vor_recorder::drain::stats()[0].count, 1);
}

#[test]
fn threads_that_come_and_go_keep_their_spans_apart() {
    own_process!();
    const THREADS: u64 = 200;
    let folder = tempfile::tempdir().unwrap();
    Config::new().shared_memory_in(folder.path()).enable();
    for number in 0..THREADS {
        let thread = std::thread::Builder::new().name(format!("thread {number}"));
        let work = move || {
            profile_scope!("work", number = number);
        };
        thread.spawn(work).unwrap().join().unwrap();
        if number % 7 == 0 {
            vor_recorder::drain::flush();
        }
    }
    let mut bytes = Vec::new();
    Remains::open(&shared_file(folder.path()))
        .unwrap()
        .write(None, &mut bytes)
        .unwrap();
    let mut reader = Reader::new(std::io::Cursor::new(bytes)).unwrap();
    let mut seen = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Batch(batch) = event {
            for share in &batch.threads {
                let name = &batch.catalog.thread(share.thread).unwrap().name;
                for args in &share.args {
                    assert_eq!(*name, format!("thread {}", args.values[0]));
                    seen.push(args.values[0].to_string().parse::<u64>().unwrap());
                }
            }
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..THREADS).collect::<Vec<_>>());
}

#[test]
fn a_ring_that_gets_no_more_memory_drops_and_goes_on() {
    own_process!();
    const SPANS: u64 = 300_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    Config::new().shared_memory_in(folder.path()).enable();
    {
        profile_scope!("work", number = u64::MAX);
    }
    // Nothing can be written behind the log from now on: chunks of the ring that were never used
    // get no memory.
    let limit = libc::rlimit {
        rlim_cur: 128 << 10,
        rlim_max: libc::RLIM_INFINITY,
    };
    #[expect(unsafe_code, reason = "limits are the C library's")]
    // SAFETY: the limit is valid during the call.
    let set = |limit: &libc::rlimit| unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, limit) };
    assert_eq!(set(&limit), 0);
    for number in 0..SPANS {
        profile_scope!("work", number = number);
    }
    vor_recorder::drain::flush();
    for number in SPANS..SPANS + 100 {
        profile_scope!("work", number = number);
    }
    assert_eq!(
        set(&libc::rlimit {
            rlim_cur: libc::RLIM_INFINITY,
            ..limit
        }),
        0
    );
    vor_recorder::drain::flush();
    let mut out = std::fs::File::create(&path).unwrap();
    Remains::open(&shared_file(folder.path()))
        .unwrap()
        .write(None, &mut out)
        .unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let mut last = None;
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Batch(batch) = event {
            last = batch
                .threads
                .last()
                .and_then(|share| share.args.last().cloned())
                .or(last);
        }
    }
    // Chunks that were read are used again, so later spans find room.
    assert_eq!(
        last.unwrap().values[0].to_string(),
        (SPANS + 99).to_string()
    );
}
