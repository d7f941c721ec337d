//! The bound on the disk.

use std::fs::{self, File};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use vor_recorder::sinks::segments::Segments;

use super::Place;
use super::faults::{StopOnDrop, wait_for};
use super::store::{Fault, Faulty};

/// A place whose segments are a minute apart, `app-0.vor` the oldest.
fn aged(segments: u64) -> Place {
    let place = Place::with(segments);
    let now = SystemTime::now();
    for number in 0..segments {
        let path = place.path(&format!("app-{number}.vor"));
        let file = File::options().append(true).open(path).unwrap();
        let minutes = (segments - number) * 60;
        file.set_modified(now - Duration::from_secs(minutes))
            .unwrap();
    }
    place
}

fn kept(place: &Place) -> Vec<u64> {
    (0..20)
        .filter(|number| place.path(&format!("app-{number}.vor")).exists())
        .collect()
}

#[test]
fn a_shipped_segment_is_deleted_on_request() {
    let place = aged(3);
    fs::write(place.path("app-1.vor.lock"), "").unwrap();
    let report = place.shipper().delete_shipped(true).ship().unwrap();
    assert_eq!((report.segments, report.unsealed), (2, 1));
    assert_eq!(kept(&place), [1]);
    fs::remove_file(place.path("app-1.vor.lock")).unwrap();
    // It was shipped before it could be deleted.
    place.shipper().ship().unwrap();
    place.shipper().delete_shipped(true).ship().unwrap();
    assert!(kept(&place).is_empty());
    assert_eq!(place.objects().len(), 12);
}

#[test]
fn each_limit_deletes_the_oldest_shipped_segments() {
    let bytes: u64 = (2..6)
        .map(|number| super::make(number + 1, 40, 60, true).bytes.len() as u64)
        .sum();
    for (limits, expected) in [
        (Segments::new(), vec![0, 1, 2, 3, 4, 5]),
        (Segments::new().keep_count(4), vec![2, 3, 4, 5]),
        (Segments::new().keep_size(bytes), vec![2, 3, 4, 5]),
        (
            Segments::new().keep_age(Duration::from_secs(270)),
            vec![2, 3, 4, 5],
        ),
    ] {
        let place = aged(6);
        let report = place.shipper().keep(limits).ship().unwrap();
        assert_eq!((report.left, report.lost), (0, 0), "{limits:?}");
        assert_eq!(kept(&place), expected, "{limits:?}");
        assert_eq!(report.segments, 6);
        assert_eq!(place.objects().len(), 24);
    }
}

#[test]
fn shipped_segments_go_first_and_lost_ones_are_counted() {
    let place = aged(6);
    let only_some = Faulty::new(place.store.clone(), |_, location| {
        let is_some = ["app-2", "app-3"]
            .iter()
            .any(|name| location.contains(name));
        if is_some { Fault::None } else { Fault::Fails }
    });
    let report = place.shipper_to(only_some.clone()).ship().unwrap();
    assert_eq!((report.segments, report.left), (2, 4));
    // Two shipped ones are enough.
    let shipper = place.shipper_to(only_some);
    let report = shipper
        .clone()
        .keep(Segments::new().keep_count(4))
        .ship()
        .unwrap();
    assert_eq!((report.lost, report.left), (0, 4));
    assert_eq!(kept(&place), [0, 1, 4, 5]);
    // They are not.
    let report = shipper.keep(Segments::new().keep_count(2)).ship().unwrap();
    assert_eq!((report.lost, report.left), (2, 2));
    assert_eq!(kept(&place), [4, 5]);
}

#[test]
fn segments_that_are_read_or_written_are_not_deleted() {
    let place = aged(4);
    fs::write(place.path("app-0.vor.lock"), "").unwrap();
    let written = File::open(place.path("app-1.vor")).unwrap();
    written.lock().unwrap();
    let failing = Faulty::new(place.store.clone(), |_, _| Fault::Fails);
    let limits = Segments::new().keep_count(2);
    let report = place.shipper_to(failing).keep(limits).ship().unwrap();
    assert_eq!(report.lost, 2);
    assert_eq!(kept(&place), [0, 1]);
}

#[test]
fn empty_files_and_files_of_this_moment_are_not_deleted() {
    // A recorder that has just begun.
    let place = aged(3);
    for number in 7..10 {
        fs::write(place.path(&format!("app-{number}.vor")), "").unwrap();
    }
    let limits = Segments::new().keep_count(2);
    let report = place.shipper().keep(limits).ship().unwrap();
    assert_eq!((report.segments, report.unsealed, report.lost), (3, 3, 0));
    assert_eq!(kept(&place), [7, 8, 9]);

    let place = aged(2);
    let path = place.path("app-0.vor");
    let file = File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(3600))
        .unwrap();
    let limits = Segments::new().keep_age(Duration::ZERO);
    assert_eq!(place.shipper().keep(limits).ship().unwrap().lost, 0);
    assert_eq!(kept(&place), [0]);
}

#[test]
fn a_follower_keeps_to_the_limit_during_an_outage() {
    let place = aged(2);
    let failing = Faulty::new(place.store.clone(), |_, _| Fault::Fails);
    let mut shipper = place
        .shipper_to(failing)
        .keep(Segments::new().keep_count(3));
    shipper.pace.outage_pauses = (Duration::from_secs(600), Duration::from_secs(600));
    let stop = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let following = scope.spawn(|| shipper.follow(&stop).unwrap());
        for number in 2..8 {
            std::thread::sleep(Duration::from_millis(20));
            place.add(number);
        }
        wait_for(|| kept(&place) == [5, 6, 7]);
        stop.store(true, Ordering::Relaxed);
        following.join().unwrap()
    });
    assert_eq!((report.segments, report.lost), (0, 5));
}

#[test]
fn a_segment_that_somebody_else_deletes_is_counted_as_lost() {
    let place = aged(3);
    let failing = Faulty::new(place.store.clone(), |_, _| Fault::Fails);
    let shipper = place.shipper_to(failing.clone());
    let stop = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let following = scope.spawn(|| shipper.follow(&stop).unwrap());
        wait_for(|| failing.requests().len() > 12);
        fs::remove_file(place.path("app-0.vor")).unwrap();
        let before = failing.requests().len();
        wait_for(|| failing.requests().len() > before + 24);
        stop.store(true, Ordering::Relaxed);
        following.join().unwrap()
    });
    assert_eq!((report.lost, report.left), (1, 2));
}
