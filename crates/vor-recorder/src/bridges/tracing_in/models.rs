//! Models of the table of spans: handles that several threads drop, slots that are taken again, and
//! fields that change while a scope ends.
//!
//! A model's table has two homes of one slot each, and two shared slots.

use loom::sync::Arc;
use loom::thread;

use super::table::{self, Slot, claim_next, claim_shared, end_thread, find, slot, word_of};
use super::{registered, steps};
use crate::sync::Ordering::Relaxed;

/// The layer or subscriber of all modelled spans.
const INSTANCE: u32 = 1;

/// The end of the time for which the creator has entered a span.
const ONCE_END: u64 = 5;

/// Asserts that a slot is as a free one must be, and fills it as for a new span of a site.
fn fill(slot: &Slot, site: u32) {
    let once_end = slot.once_end.load(Relaxed);
    let task = (slot.task.load(Relaxed), slot.task_start.load(Relaxed));
    assert_eq!((once_end, task), (0, (0, 0)), "the last span's fields");
    slot.handles.store(1, Relaxed);
    slot.word.store(word_of(site, 0, 0), Relaxed);
}

/// Makes a span of a site, with an id of vor's own.
fn make(site: u32) -> (u64, &'static Slot) {
    let (key, slot) = claim_next(INSTANCE).unwrap();
    fill(slot, site);
    (key, slot)
}

/// Returns the site of a span, found by its id.
fn site_of(found: Option<(table::Place, &'static Slot)>) -> u32 {
    let (_, slot) = found.unwrap();
    table::id_in(slot.word.load(Relaxed))
}

#[test]
fn the_last_handle_frees_a_span_once_and_completely() {
    loom::model(|| {
        let (key, slot) = make(1);
        steps::own::clone_handle(key, INSTANCE);
        let other = thread::spawn(move || {
            assert_eq!(site_of(find(key, INSTANCE)), 1);
            steps::own::drop_handle(key, INSTANCE)
        });
        // Its creator leaves it.
        slot.once_end.store(ONCE_END, Relaxed);
        let is_last = steps::own::drop_handle(key, INSTANCE);
        let (next, _) = make(2);
        assert_eq!(site_of(find(next, INSTANCE)), 2);
        let other_is_last = other.join().unwrap();
        assert!(is_last != other_is_last, "{is_last} and {other_is_last}");
        assert!(find(key, INSTANCE).is_none());
        let (third, _) = make(3);
        assert_eq!(site_of(find(next, INSTANCE)), 2);
        assert_eq!(site_of(find(third, INSTANCE)), 3);
        end_thread();
    });
}

#[test]
fn a_copied_handle_keeps_a_span_while_others_are_dropped() {
    loom::model(|| {
        let (key, slot) = make(1);
        slot.once_end.store(ONCE_END, Relaxed);
        steps::own::clone_handle(key, INSTANCE);
        let other = thread::spawn(move || {
            steps::own::clone_handle(key, INSTANCE);
            assert!(!steps::own::drop_handle(key, INSTANCE), "one is left");
            assert_eq!(site_of(find(key, INSTANCE)), 1);
            steps::own::drop_handle(key, INSTANCE)
        });
        let is_last = steps::own::drop_handle(key, INSTANCE);
        assert!(is_last != other.join().unwrap());
        assert!(find(key, INSTANCE).is_none());
        end_thread();
    });
}

#[test]
fn two_threads_never_share_a_slot() {
    loom::model(|| {
        let claim = |key: u64| claim_shared(0, |_| key, INSTANCE).unwrap().0;
        slot(0);
        let other = thread::spawn(move || claim(1));
        let place = claim(2);
        assert_ne!(place, other.join().unwrap());
    });
}

/// Makes a span with an id of a registry.
fn make_registered(key: u64, site: u32) {
    let (_, slot) = registered::claim(key, INSTANCE).unwrap();
    fill(slot, site);
    slot.once_end.store(ONCE_END, Relaxed);
}

/// Returns the site of a span, found by an id of a registry.
fn registered_site(key: u64) -> u32 {
    site_of(registered::find_registered(key, INSTANCE))
}

#[test]
fn a_span_of_a_registry_is_found_by_its_own_id_until_it_closes() {
    loom::model(|| {
        make_registered(1, 1);
        let other = thread::spawn(|| {
            assert_eq!(registered_site(1), 1);
            steps::registered::close(1, INSTANCE);
        });
        make_registered(2, 2);
        assert_eq!(registered_site(2), 2);
        steps::registered::close(2, INSTANCE);
        other.join().unwrap();
        assert!(registered::find_registered(1, INSTANCE).is_none());
        make_registered(3, 3);
        assert_eq!(registered_site(3), 3);
        end_thread();
    });
}

#[test]
fn a_home_goes_to_the_next_thread_with_the_spans_that_live_on() {
    loom::model(|| {
        make_registered(1, 1);
        end_thread();
        let next = thread::spawn(|| {
            make_registered(2, 2);
            assert_eq!(registered_site(2), 2);
            end_thread();
        });
        assert_eq!(registered_site(1), 1);
        steps::registered::close(1, INSTANCE);
        next.join().unwrap();
        assert_eq!(registered_site(2), 2);
        assert!(registered::find_registered(1, INSTANCE).is_none());
    });
}

#[test]
fn a_scope_that_ends_never_takes_words_of_two_values() {
    loom::model(|| {
        let slot = Arc::new(Slot::new());
        let reader = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || {
                let version = slot.version();
                let words = [slot.words[0].load(Relaxed), slot.words[1].load(Relaxed)];
                if slot.is_still(version) {
                    assert_eq!(words[0], words[1]);
                }
            })
        };
        slot.rewrite(|| {
            slot.words[0].store(1, Relaxed);
            slot.words[1].store(1, Relaxed);
        });
        reader.join().unwrap();
    });
}
