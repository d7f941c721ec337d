//! Requests that fail, hang, or lose their answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::store::{Fault, Faulty, Request};
use super::{Place, QUICK};

#[test]
fn requests_that_fail_are_repeated() {
    for failing in 0..4 {
        let place = Place::with(2);
        let mut left = failing;
        let store = Faulty::new(place.store.clone(), move |_, _| {
            if left == 0 {
                return Fault::None;
            }
            left -= 1;
            Fault::Fails
        });
        let report = place.shipper_to(store).ship().unwrap();
        assert_eq!(
            (report.segments, report.objects, report.retries),
            (2, 8, failing)
        );
        assert_eq!((report.left, report.problem), (0, None));
        place.expect_complete();
    }
}

#[test]
fn a_fault_within_a_large_object_sends_it_again() {
    for (at, fault) in [
        (Request::Begin, Fault::Fails),
        (Request::Begin, Fault::AnswerLost),
        (Request::Part(2), Fault::Fails),
        (Request::Part(2), Fault::AnswerLost),
        (Request::Complete, Fault::Fails),
        (Request::Complete, Fault::AnswerLost),
    ] {
        let place = Place::with(1);
        let mut is_first = true;
        let store = Faulty::new(place.store.clone(), move |request, _| {
            let is_it = request == at && std::mem::take(&mut is_first);
            if is_it { fault } else { Fault::None }
        });
        let report = place.shipper_to(store.clone()).ship().unwrap();
        assert_eq!(
            (report.segments, report.retries),
            (1, 1),
            "{at:?} {fault:?}"
        );
        let aborted = store.requests().contains(&Request::Abort);
        assert_eq!(
            aborted,
            at != Request::Begin,
            "{at:?}: the parts are forgotten"
        );
        place.expect_complete();
    }
}

#[test]
fn an_answer_that_is_lost_leaves_nothing_twice() {
    let place = Place::with(2);
    let mut count = 0;
    let store = Faulty::new(place.store.clone(), move |request, _| {
        count += 1;
        match request {
            Request::Put | Request::Complete if count % 3 == 0 => Fault::AnswerLost,
            _ => Fault::None,
        }
    });
    let report = place.shipper_to(store).ship().unwrap();
    assert_eq!(report.segments, 2);
    assert!(report.retries > 0);
    place.expect_complete();
}

#[test]
fn a_request_without_an_answer_is_given_up_and_repeated() {
    let place = Place::with(1);
    let mut count = 0;
    let store = Faulty::new(place.store.clone(), move |_, _| {
        count += 1;
        if count == 2 {
            Fault::Hangs
        } else {
            Fault::None
        }
    });
    let mut shipper = place.shipper_to(store);
    shipper.pace.request = Duration::from_millis(50);
    let report = shipper.ship().unwrap();
    assert_eq!((report.segments, report.retries), (1, 1));
    place.expect_complete();
}

#[test]
fn an_outage_leaves_the_segments_for_the_next_run() {
    let place = Place::with(5);
    let store = Faulty::new(place.store.clone(), |_, _| Fault::Fails);
    let report = place.shipper_to(store.clone()).ship().unwrap();
    assert_eq!((report.segments, report.left), (0, 5));
    assert_eq!(report.problem.as_deref(), Some("it fails"));
    // Three segments with four attempts each, and then no more.
    assert_eq!(store.requests().len(), 12);
    // Those that are not tried count as left if they are sealed.
    for name in ["app-3.vor.lock", "app-4.vor.lock"] {
        std::fs::write(place.path(name), "").unwrap();
    }
    let report = place.shipper_to(store.clone()).ship().unwrap();
    assert_eq!((report.left, report.unsealed), (3, 2));
    assert_eq!(store.requests().len(), 24);
    for name in ["app-3.vor.lock", "app-4.vor.lock"] {
        std::fs::remove_file(place.path(name)).unwrap();
    }
    let report = place.shipper().ship().unwrap();
    assert_eq!((report.segments, report.left, report.problem), (5, 0, None));
    place.expect_complete();
}

#[test]
fn one_object_that_fails_costs_its_segment_only() {
    let place = Place::with(3);
    let store = Faulty::new(place.store.clone(), |_, location| {
        let is_it = location.contains("spans") && location.contains("app-1");
        if is_it { Fault::Fails } else { Fault::None }
    });
    let report = place.shipper_to(store).ship().unwrap();
    assert_eq!((report.segments, report.left), (2, 1));
    let report = place.shipper().ship().unwrap();
    assert_eq!((report.segments, report.left), (1, 0));
    place.expect_complete();
}

#[test]
fn a_refusal_is_not_repeated() {
    let place = Place::with(5);
    let store = Faulty::new(place.store.clone(), |_, _| Fault::Refused);
    let shipper = place.shipper_to(store.clone());
    let report = shipper.ship().unwrap();
    assert_eq!((report.segments, report.left, report.retries), (0, 5, 0));
    let problem = report.problem.unwrap();
    assert_eq!(problem, "the credentials do not allow it: not for you");
    assert_eq!(store.requests(), [Request::Begin]);
    let error = shipper.follow(&AtomicBool::new(false)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "memory:///fleet: the credentials do not allow it: not for you"
    );
}

#[test]
fn a_refusal_after_an_object_or_an_outage_is_waited_for() {
    // The requests of one segment, or the attempts of one pass.
    for (first, fault) in [(requests_of_one(), Fault::None), (8, Fault::Fails)] {
        let place = Place::with(2);
        let mut count = 0;
        let store = Faulty::new(place.store.clone(), move |_, _| {
            count += 1;
            if count <= first {
                fault
            } else if count <= first + 5 {
                Fault::Refused
            } else {
                Fault::None
            }
        });
        let (shipper, stop) = (place.shipper_to(store), AtomicBool::new(false));
        let report = std::thread::scope(|scope| {
            let _stop = StopOnDrop(&stop);
            let following = scope.spawn(|| shipper.follow(&stop).unwrap());
            wait_for(|| following.is_finished() || place.objects().len() == 8);
            stop.store(true, Ordering::Relaxed);
            following.join().unwrap()
        });
        assert_eq!((report.segments, report.left), (2, 0), "{fault:?}");
        place.expect_complete();
    }
}

/// Returns how many requests ship the first segment of a [`Place`].
fn requests_of_one() -> usize {
    let place = Place::with(1);
    let store = Faulty::new(place.store.clone(), |_, _| Fault::None);
    place.shipper_to(store.clone()).ship().unwrap();
    store.requests().len()
}

#[test]
fn a_follower_waits_for_the_end_of_an_outage() {
    let place = Place::with(2);
    let is_out = Arc::new(AtomicBool::new(true));
    let out = Arc::clone(&is_out);
    let store = Faulty::new(place.store.clone(), move |_, _| {
        match out.load(Ordering::Relaxed) {
            true => Fault::Fails,
            false => Fault::None,
        }
    });
    let (shipper, stop) = (place.shipper_to(store.clone()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let following = scope.spawn(|| shipper.follow(&stop));
        wait_for(|| store.requests().len() > 40);
        is_out.store(false, Ordering::Relaxed);
        wait_for(|| place.objects().len() == 8);
        place.add(2);
        wait_for(|| place.objects().len() == 12);
        stop.store(true, Ordering::Relaxed);
        let report = following.join().unwrap().unwrap();
        assert_eq!((report.segments, report.left), (3, 0));
    });
    place.expect_complete();
}

#[test]
fn a_request_to_stop_ends_the_current_object_within_its_time() {
    let place = Place::with(3);
    let store = Faulty::new(place.store.clone(), |request, _| match request {
        Request::Part(3) => Fault::Hangs,
        _ => Fault::None,
    });
    let (shipper, stop) = (place.shipper_to(store.clone()), AtomicBool::new(false));
    let stopped = Mutex::new(None);
    let report = std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let following = scope.spawn(|| shipper.follow(&stop).unwrap());
        wait_for(|| store.requests().contains(&Request::Part(3)));
        stop.store(true, Ordering::Relaxed);
        *stopped.lock().unwrap() = Some(Instant::now());
        following.join().unwrap()
    });
    let took = stopped.lock().unwrap().unwrap().elapsed();
    assert!(
        took >= QUICK.grace && took < Duration::from_secs(10),
        "{took:?}"
    );
    assert_eq!((report.segments, report.left), (0, 3));
    assert_eq!(store.requests().last(), Some(&Request::Abort));
    assert!(place.objects().is_empty());
}

/// Ends a follower when a test fails, since its thread is waited for.
pub(super) struct StopOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until a condition holds.
pub(super) fn wait_for(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it takes too long"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}
