//! The file that remembers what was shipped, and the locks beside it.

use std::fs::{self, File};
use std::sync::{Arc, Mutex};

use super::super::Outputs;
use super::super::journal::Shipped;
use super::store::{Fault, Faulty};
use super::{JOURNAL, Place, damaged, set_written};

fn names(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.folder.path()).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_segment_is_done_with_its_forms_and_may_be_deleted_with_its_bytes() {
    let all = ["-", "c", "p", "cp", "d", "cd", "pd", "cpd"];
    for (captures, parquet, done, safe) in [
        (true, true, "cp cd cpd", "cp cd cpd"),
        (true, false, "c cp cd cpd", "c cp cd cpd"),
        (false, true, "p cp d cd pd cpd", "p cp cd cpd"),
        (false, false, "- c p cp d cd pd cpd", "- c p cp cd cpd"),
    ] {
        let outputs = Outputs { captures, parquet };
        let which = |is_it: fn(Shipped, Outputs) -> bool| {
            let shipped = |flags: &str| Shipped {
                capture: flags.contains('c'),
                parquet: flags.contains('p'),
                damaged: flags.contains('d'),
            };
            let those = all
                .into_iter()
                .filter(|flags| is_it(shipped(flags), outputs));
            those.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(which(Shipped::is_done), done, "{outputs:?}");
        assert_eq!(which(Shipped::is_safe), safe, "{outputs:?}");
    }
}

#[test]
fn a_journal_has_a_line_for_each_shipped_segment_of_the_folder() {
    let place = Place::with(3);
    fs::write(place.path("app-1.vor"), damaged()).unwrap();
    fs::rename(place.path("app-2.vor"), place.path("a b%.vor")).unwrap();
    let bytes = ["app-0.vor", "app-1.vor", "a b%.vor"].map(|name| {
        let path = place.path(name);
        set_written(&path, 1_700_000_001_000_000_000 + name.len() as u64);
        fs::metadata(path).unwrap().len()
    });
    let journal = || fs::read_to_string(place.path(JOURNAL)).unwrap();
    let expected = |flags: [&str; 3]| {
        format!(
            "vor ship 1 memory:///fleet\n\
             {}\t{}\t1700000001000000008\ta%20b%25.vor\n\
             {}\t{}\t1700000001000000009\tapp-0.vor\n\
             {}\t{}\t1700000001000000009\tapp-1.vor\n",
            flags[0], bytes[2], flags[1], bytes[0], flags[2], bytes[1]
        )
    };
    place.shipper().parquet(false).ship().unwrap();
    assert_eq!(journal(), expected(["c", "c", "c"]));
    let report = place.shipper().ship().unwrap();
    assert_eq!((report.segments, report.objects, report.damaged), (3, 6, 1));
    let all = expected(["cp", "cp", "cd"]);
    assert_eq!(journal(), all);
    assert_eq!(place.shipper().ship().unwrap().objects, 0);

    // A line of another version, or with another field, says nothing.
    fs::write(place.path(JOURNAL), all.replacen("ship 1", "ship 9", 1)).unwrap();
    assert_eq!(place.shipper().ship().unwrap().segments, 3);
    assert_eq!(journal(), all);
    fs::write(
        place.path(JOURNAL),
        all.replace("app-0.vor", "app-0.vor\t1"),
    )
    .unwrap();
    assert_eq!(place.shipper().ship().unwrap().segments, 1);
    assert_eq!(journal(), all);

    // A file of another time is another segment, and a deleted one is forgotten.
    fs::remove_file(place.path("a b%.vor")).unwrap();
    fs::remove_file(place.path("app-1.vor")).unwrap();
    set_written(&place.path("app-0.vor"), 1_700_000_002_000_000_003);
    assert_eq!(place.shipper().ship().unwrap().segments, 1);
    let line = format!("cp\t{}\t1700000002000000003\tapp-0.vor\n", bytes[0]);
    assert_eq!(journal(), format!("vor ship 1 memory:///fleet\n{line}"));
}

#[test]
fn tables_lie_in_the_folder_until_they_are_sent() {
    let place = Place::with(1);
    let tables = place.path(&format!("{JOURNAL}.tables"));
    // A crash has left this behind.
    let old = tables.join("spans/old.parquet");
    fs::create_dir_all(old.parent().unwrap()).unwrap();
    fs::write(&old, "").unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sent = Arc::clone(&seen);
    let store = Faulty::new(place.store.clone(), move |_, location| {
        let name = location.strip_prefix("fleet/").unwrap();
        let is_there = tables.join(name).exists();
        let mut sent = sent.lock().unwrap();
        assert!(!old.exists());
        if !sent.iter().any(|(known, _)| known == name) {
            sent.push((name.to_owned(), is_there));
        }
        Fault::None
    });
    place.shipper_to(store).ship().unwrap();
    let date = "host=web-1/date=2023-11-14";
    let mut seen = seen.lock().unwrap();
    seen.sort();
    assert_eq!(
        *seen,
        [
            (format!("captures/{date}/app-0.vor"), false),
            (
                format!("metrics/{date}/app-0-5-1700000000000.parquet"),
                true
            ),
            (
                format!("sketches/{date}/app-0-5-1700000000000.parquet"),
                true
            ),
            (format!("spans/{date}/app-0-5-1700000000000.parquet"), true),
        ]
    );
    let lock = format!("{JOURNAL}.lock");
    assert_eq!(names(&place), [JOURNAL, &*lock, "app-0.vor"]);
}

#[test]
fn a_folder_that_is_none_is_refused() {
    let place = Place::with(1);
    let path = place.path("app-0.vor");
    let error = super::shipper(&path, place.store.clone())
        .ship()
        .unwrap_err();
    assert!(error.is_config());
    let expected = "not a folder; name the folder of the segments";
    assert_eq!(error.to_string(), format!("{}: {expected}", path.display()));
}

/// Returns other numbers of the files that this process has open at a path, as a forked child has.
#[cfg(target_os = "linux")]
fn copies_of(path: &std::path::Path) -> Vec<std::os::fd::OwnedFd> {
    use std::os::fd::{FromRawFd as _, OwnedFd};

    let mut copies = Vec::new();
    for entry in fs::read_dir("/proc/self/fd").unwrap() {
        let entry = entry.unwrap();
        if fs::read_link(entry.path()).is_ok_and(|target| target == path) {
            let number: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
            #[expect(unsafe_code, reason = "only the C library copies the number of a file")]
            // SAFETY: the call takes numbers, and nobody else has the one that it returns.
            let copy = unsafe {
                let copy = libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0);
                assert!(copy >= 0);
                OwnedFd::from_raw_fd(copy)
            };
            copies.push(copy);
        }
    }
    copies
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_holds_neither_the_folder_nor_a_segment() {
    let place = Place::with(1);
    let paths = [format!("{JOURNAL}.lock"), "app-0.vor".to_owned()].map(|name| place.path(&name));
    let copied = paths.clone();
    let copies = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&copies);
    let store = Faulty::new(place.store.clone(), move |_, _| {
        let mut kept = kept.lock().unwrap();
        if kept.is_empty() {
            kept.extend(copied.iter().map(|path| copies_of(path)));
        }
        Fault::None
    });
    place.shipper_to(store).ship().unwrap();
    assert!(
        copies
            .lock()
            .unwrap()
            .iter()
            .all(|copies| !copies.is_empty())
    );
    for path in paths {
        let is_free = File::open(&path).unwrap().try_lock().is_ok();
        assert!(is_free, "{}", path.display());
    }
    assert_eq!(copies.lock().unwrap().len(), 2);
}
