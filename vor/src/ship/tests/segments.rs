//! Which segments are shipped, and under which names.

use std::fs::{self, File};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use object_store::ObjectStore;
use vor_fixtures::captures::make;

use super::store::{Fault, Faulty};
use super::{Place, damaged, shipper};

/// A segment that its recorder did not close, with a part of the next record.
fn unclosed(seed: u64) -> Vec<u8> {
    let capture = make(seed, 40, 60, false);
    let end = capture.frame_ends[20];
    capture.bytes[..end + 7].to_vec()
}

#[test]
fn objects_are_named_by_host_date_and_segment() {
    let place = Place::with(1);
    let report = place.shipper().ship().unwrap();
    let bytes: usize = place.objects().values().map(Vec::len).sum();
    assert_eq!((report.objects, report.bytes), (4, bytes as u64));
    let names: Vec<String> = place.objects().into_keys().collect();
    let date = "host=web-1/date=2023-11-14";
    assert_eq!(
        names,
        [
            format!("fleet/captures/{date}/app-0.vor"),
            format!("fleet/metrics/{date}/app-0-5-1700000000000.parquet"),
            format!("fleet/sketches/{date}/app-0-5-1700000000000.parquet"),
            format!("fleet/spans/{date}/app-0-5-1700000000000.parquet"),
        ]
    );
    // Nothing is left in the folder but the journal and its lock.
    let left = fs::read_dir(place.folder.path()).unwrap().count();
    assert_eq!(left, 3);
}

#[test]
fn segments_that_are_locked_written_or_growing_wait() {
    let place = Place::with(4);
    fs::write(place.path("app-0.vor.lock"), "").unwrap();
    let written = File::options()
        .append(true)
        .open(place.path("app-1.vor"))
        .unwrap();
    written.lock().unwrap();
    let whole = fs::read(place.path("app-2.vor")).unwrap();
    fs::write(place.path("app-2.vor"), unclosed(9)).unwrap();
    fs::write(place.path("empty.vor"), "").unwrap();
    fs::write(place.path("other.txt"), "no segment").unwrap();
    fs::create_dir(place.path("folder.vor")).unwrap();
    let report = place.shipper().ship().unwrap();
    assert_eq!((report.segments, report.unsealed, report.left), (1, 4, 0));
    let names: Vec<String> = place.objects().into_keys().collect();
    assert!(names.iter().all(|name| name.contains("app-3")), "{names:?}");

    fs::remove_file(place.path("app-0.vor.lock")).unwrap();
    drop(written);
    fs::write(place.path("app-2.vor"), whole).unwrap();
    fs::remove_file(place.path("empty.vor")).unwrap();
    let report = place.shipper().ship().unwrap();
    assert_eq!((report.segments, report.unsealed), (3, 0));
    fs::remove_dir(place.path("folder.vor")).unwrap();
    place.expect_complete();
}

#[test]
fn the_segment_of_a_killed_program_is_shipped_with_parquet_after_some_time() {
    let place = Place::with(0);
    fs::write(place.path("app-0.vor"), unclosed(9)).unwrap();
    assert_eq!(place.shipper().ship().unwrap().unsealed, 1);
    let mut shipper = place.shipper();
    shipper.pace.quiet = Duration::from_millis(1);
    std::thread::sleep(Duration::from_millis(5));
    let report = shipper.ship().unwrap();
    assert_eq!((report.segments, report.objects, report.damaged), (1, 4, 0));
    // A file from the future is as old as one of this moment.
    fs::write(place.path("app-1.vor"), unclosed(8)).unwrap();
    let file = File::options().append(true).open(place.path("app-1.vor"));
    let hour = Duration::from_secs(3600);
    file.unwrap()
        .set_modified(SystemTime::now() + hour)
        .unwrap();
    assert_eq!(shipper.ship().unwrap().unsealed, 1);
    shipper.pace.quiet = Duration::ZERO;
    assert_eq!(shipper.ship().unwrap().segments, 1);
}

#[test]
fn a_segment_that_is_gone_is_skipped_and_an_unreadable_one_is_left() {
    let place = Place::with(1);
    let [gone, folder] = ["app-1.vor", "app-2.vor"].map(|name| place.path(name));
    for path in [&gone, &folder] {
        fs::write(path, "").unwrap();
    }
    let changing = folder.clone();
    let mut is_first = true;
    let store = Faulty::new(place.store.clone(), move |_, _| {
        if std::mem::take(&mut is_first) {
            fs::remove_file(&gone).unwrap();
            fs::remove_file(&changing).unwrap();
            fs::create_dir(&changing).unwrap();
        }
        Fault::None
    });
    let mut shipper = place.shipper_to(store).captures(false);
    shipper.pace.quiet = Duration::ZERO;
    let report = shipper.ship().unwrap();
    assert_eq!(
        (report.segments, report.objects, report.unsealed),
        (1, 3, 1)
    );
    assert_eq!((report.left, report.lost, report.damaged), (1, 0, 0));
    // The segment is named, and once.
    let problem = report.problem.unwrap();
    let start = format!("{}: ", folder.display());
    assert!(problem.starts_with(&start), "{problem}");
    assert_eq!(problem.matches("app-2.vor").count(), 1, "{problem}");
}

#[cfg(unix)]
#[test]
fn a_segment_that_cannot_be_opened_is_left() {
    let place = Place::with(2);
    let path = place.path("app-1.vor");
    let mut is_first = true;
    let store = Faulty::new(place.store.clone(), move |_, _| {
        if std::mem::take(&mut is_first) {
            fs::remove_file(&path).unwrap();
            // Nobody can open a socket.
            std::os::unix::net::UnixListener::bind(&path).unwrap();
        }
        Fault::None
    });
    let report = place.shipper_to(store).ship().unwrap();
    assert_eq!((report.segments, report.unsealed, report.left), (1, 0, 1));
    let problem = report.problem.unwrap();
    let start = format!("{}: ", place.path("app-1.vor").display());
    assert!(problem.starts_with(&start), "{problem}");
}

#[test]
fn a_host_is_the_given_one_the_recorded_one_or_this_machine() {
    let here = vor_recorder::__private::host_name();
    assert!(!here.is_empty() && here != "web-1" && here != "recorded");
    let place = Place::with(0);
    let given = place.shipper();
    for named in [Some("recorded"), Some(""), None] {
        assert_eq!(given.host_of(named), "web-1");
    }
    let none = given.host("");
    assert_eq!(none.host_of(Some("recorded")), "recorded");
    assert_eq!(none.host_of(Some("")), here);
    assert_eq!(none.host_of(None), here);
}

#[test]
fn a_segment_that_has_grown_is_shipped_again() {
    let place = Place::with(0);
    let path = place.path("app-0.vor");
    let whole = make(9, 40, 60, false).bytes;
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let mut shipper = place.shipper();
    shipper.pace.quiet = Duration::ZERO;
    assert_eq!(shipper.ship().unwrap().segments, 1);
    fs::write(&path, &whole).unwrap();
    assert_eq!(shipper.ship().unwrap().segments, 1);
    assert_eq!(shipper.ship().unwrap().segments, 0);
    let objects = place.objects();
    assert_eq!(objects.len(), 4);
    assert!(objects["fleet/captures/host=web-1/date=2023-11-14/app-0.vor"] == whole);
}

#[test]
fn a_segment_that_grows_while_it_is_shipped_is_not_noted() {
    let place = Place::with(1);
    let path = place.path("app-0.vor");
    let mut is_first = true;
    let store = Faulty::new(place.store.clone(), move |_, _| {
        if std::mem::take(&mut is_first) {
            let mut file = File::options().append(true).open(&path).unwrap();
            file.write_all(b"more").unwrap();
        }
        Fault::None
    });
    let report = place.shipper_to(store).ship().unwrap();
    assert_eq!((report.segments, report.unsealed), (0, 1));
}

#[test]
fn a_recorder_does_not_delete_a_segment_that_is_being_shipped() {
    let place = Place::with(1);
    let path = place.path("app-0.vor");
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&outcomes);
    let store = Faulty::new(place.store.clone(), move |_, _| {
        // As a recorder does before it deletes.
        let is_free = File::open(&path).unwrap().try_lock().is_ok();
        seen.lock().unwrap().push(is_free);
        Fault::None
    });
    place.shipper_to(store).ship().unwrap();
    let outcomes = outcomes.lock().unwrap();
    assert!(outcomes.len() > 4 && outcomes.iter().all(|is_free| !is_free));
}

#[test]
fn a_damaged_segment_costs_its_own_tables_only() {
    let place = Place::with(3);
    let bytes = damaged();
    fs::write(place.path("app-1.vor"), &bytes).unwrap();
    let mut shipper = place.shipper();
    shipper.pace.quiet = Duration::ZERO;
    fs::write(place.path("app-9.vor"), "%PDF").unwrap();
    let report = shipper.ship().unwrap();
    assert_eq!((report.segments, report.damaged, report.left), (4, 2, 0));
    assert_eq!(report.objects, 2 * 4 + 2);
    let objects = place.objects();
    assert!(objects["fleet/captures/host=web-1/date=2023-11-14/app-1.vor"] == bytes);
    assert!(objects["fleet/captures/host=web-1/date=unknown/app-9.vor"] == b"%PDF");
    assert!(
        !objects
            .keys()
            .any(|name| name.contains("parquet") && name.contains("app-1"))
    );
    // Neither is tried again.
    assert_eq!(shipper.ship().unwrap().objects, 0);

    // Without captures, it is not in the storage, and so not deleted.
    let report = shipper.captures(false).delete_shipped(true).ship().unwrap();
    assert_eq!(report.objects, 0);
    let left: Vec<bool> = ["app-0.vor", "app-1.vor", "app-9.vor"]
        .map(|name| place.path(name).exists())
        .to_vec();
    assert_eq!(
        left,
        [false, false, false],
        "the captures were shipped before"
    );
    fs::write(place.path("app-1.vor"), &bytes).unwrap();
    let report = place
        .shipper()
        .captures(false)
        .delete_shipped(true)
        .ship()
        .unwrap();
    assert_eq!((report.segments, report.damaged, report.objects), (0, 1, 0));
    assert!(place.path("app-1.vor").exists());
    // With them it is, and its tables are not tried again.
    let store = Faulty::new(place.store.clone(), |_, location| {
        assert!(location.contains("/captures/"));
        Fault::None
    });
    let report = place.shipper_to(store).delete_shipped(true).ship().unwrap();
    assert_eq!((report.segments, report.damaged, report.objects), (1, 1, 1));
    assert!(!place.path("app-1.vor").exists());
}

#[test]
fn two_hosts_with_the_same_segments_do_not_collide() {
    let (one, other) = (Place::with(2), Place::with(2));
    let store: Arc<dyn ObjectStore> = one.store.clone();
    one.shipper().ship().unwrap();
    shipper(other.folder.path(), store)
        .host("web/2 ö")
        .ship()
        .unwrap();
    let names: Vec<String> = one.objects().into_keys().collect();
    assert_eq!(names.len(), 16);
    let of_other = names
        .iter()
        .filter(|name| name.contains("/host=web%2F2%20%C3%B6/"));
    assert_eq!(of_other.count(), 8);
}

#[test]
fn names_are_parts_of_paths() {
    let place = Place::with(1);
    let name = "a b%2e\u{e9}=?#.vor";
    fs::rename(place.path("app-0.vor"), place.path(name)).unwrap();
    assert_eq!(place.shipper().ship().unwrap().objects, 4);
    assert_eq!(place.shipper().ship().unwrap().objects, 0);
    let names: Vec<String> = place.objects().into_keys().collect();
    assert!(
        names[0].ends_with("/a%20b%252e%C3%A9%3D%3F%23.vor"),
        "{names:?}"
    );
}

#[test]
fn forms_are_shipped_once_each() {
    let place = Place::with(2);
    let report = place.shipper().parquet(false).ship().unwrap();
    assert_eq!((report.segments, report.objects), (2, 2));
    let report = place.shipper().parquet(false).ship().unwrap();
    assert_eq!(report.objects, 0);
    let report = place.shipper().ship().unwrap();
    assert_eq!((report.segments, report.objects), (2, 6));
    place.expect_complete();

    let place = Place::with(2);
    let report = place.shipper().captures(false).ship().unwrap();
    assert_eq!((report.segments, report.objects), (2, 6));
    let report = place.shipper().ship().unwrap();
    assert_eq!((report.segments, report.objects), (2, 2));
    place.expect_complete();
}

#[test]
fn one_shipper_ships_a_folder_to_a_target() {
    let place = Place::with(1);
    let (folder, store) = (place.folder.path().to_owned(), place.store.clone());
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&outcomes);
    let to_faulty = Faulty::new(place.store.clone(), move |_, _| {
        let second = shipper(&folder, store.clone());
        let elsewhere = shipper(&folder, store.clone()).host("web-2");
        // Another host is another target. It has a thread and a store of its own.
        let outcome = (second.ship().map(|_| ()), elsewhere.ship().is_ok());
        seen.lock().unwrap().push(outcome);
        Fault::None
    });
    place.shipper_to(to_faulty).ship().unwrap();
    let outcomes = outcomes.lock().unwrap();
    for (second, elsewhere) in outcomes.iter() {
        let error = second.as_ref().unwrap_err().to_string();
        assert!(
            error.ends_with("another process ships it to memory:///fleet already"),
            "{error}"
        );
        assert!(elsewhere);
    }
}
