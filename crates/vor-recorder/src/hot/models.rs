//! Models of the words of call sites: registration, and the change of the way to record, of all
//! sites or by rules.

use std::sync::Arc;

use loom::sync::atomic::AtomicBool;
use loom::{lazy_static, thread};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo};

use super::callsite::{self, CallSite, is_fast, is_ruled_off};
use super::modes::{self, Decide, Mode, ModeWord, Way};
use super::record_state;
use crate::clock;
use crate::sync::Ordering;

lazy_static! {
    static ref SITE: CallSite = CallSite::new("site", "", "", 1);
    static ref IS_OFF: AtomicBool = AtomicBool::new(false);
}

fn site() -> &'static CallSite {
    &SITE
}

/// Returns whether a scope may take the fast path while recording is on. The first reading of the
/// clock decides it.
fn allows_fast() -> bool {
    let _ = clock::ticks();
    clock::allows_fast_path()
}

#[test]
fn two_threads_that_register_a_site_get_one_id() {
    loom::model(|| {
        site();
        let other = thread::spawn(|| site().register(0));
        let id = site().register(0);
        assert_eq!(other.join().unwrap(), id);
        assert_eq!(site().any_id(), Some(id));
        let mut catalog = Arc::new(Catalog::default());
        callsite::declare_new(&mut catalog);
        assert_eq!(catalog.sites.len(), 1);
    });
}

#[test]
fn a_site_that_is_registered_while_recording_starts_takes_the_fast_path() {
    let allows_fast = allows_fast();
    loom::model(move || {
        site();
        let other = thread::spawn(|| site().register(0));
        record_state::set(true);
        let id = other.join().unwrap();
        assert_eq!(site().any_id(), Some(id));
        assert_eq!(is_fast(site().word()), allows_fast);
    });
}

#[test]
fn a_word_with_an_id_names_a_known_site() {
    loom::model(|| {
        site();
        let other = thread::spawn(|| site().register(0));
        if let Some(id) = site().any_id() {
            let info = callsite::lock().info_of(SiteId(id));
            assert_eq!(info.unwrap().name, "site");
        }
        other.join().unwrap();
    });
}

#[test]
fn a_scope_after_the_end_of_recording_is_not_recorded() {
    let allows_fast = allows_fast();
    loom::model(move || {
        site().register(0);
        record_state::set(true);
        assert_eq!(is_fast(site().word()), allows_fast);
        IS_OFF.load(Ordering::Relaxed);
        let scope = thread::spawn(|| {
            if IS_OFF.load(Ordering::Acquire) {
                assert!(!is_fast(site().word()) && !record_state::is_on());
                assert_eq!(record_state::mode(), record_state::RecordMode::Mixed);
            }
        });
        record_state::set(false);
        IS_OFF.store(true, Ordering::Release);
        scope.join().unwrap();
    });
}

/// Rules by which every scope is recorded in one way.
struct All(Way);

impl Decide for All {
    fn of_site(&self, _: &SiteInfo) -> ModeWord {
        let way = self.0;
        ModeWord::new(
            Mode {
                way,
                ..Mode::RECORD
            },
            1,
        )
    }

    fn of_thread(&self, _: &str) -> ModeWord {
        ModeWord::default()
    }

    fn last_thread_rank(&self) -> u16 {
        0
    }
}

fn set_rules(way: Way) {
    record_state::set_rules(Some(Arc::new(All(way))));
}

#[test]
fn a_site_that_is_registered_while_rules_change_gets_the_word_of_the_last_rules() {
    let _ = clock::ticks();
    loom::model(|| {
        site();
        let other = thread::spawn(|| site().register(0));
        set_rules(Way::Off);
        let id = other.join().unwrap();
        assert!(is_ruled_off(site().word()) && site().any_id().is_none());
        assert_eq!(modes::of_scope(id).way, Way::Off);
        set_rules(Way::Count);
        assert!(!is_ruled_off(site().word()) && !is_fast(site().word()));
        assert_eq!(site().any_id(), Some(id));
        record_state::set_rules(None);
        assert_eq!(site().any_id(), Some(id));
        assert_eq!(modes::of_scope(id), Mode::RECORD);
    });
}

#[test]
fn a_scope_during_a_change_finds_one_of_the_modes_and_afterwards_the_new_one() {
    let _ = clock::ticks();
    loom::model(|| {
        let id = site().register(0);
        IS_OFF.load(Ordering::Relaxed);
        let scope = thread::spawn(move || {
            let is_changed = IS_OFF.load(Ordering::Acquire);
            let (word, found) = (site().word(), site().any_id());
            assert!(is_ruled_off(word) || found == Some(id) || site().word() != word);
            // The bound and the way are from one word.
            let way = modes::of_scope(id).way;
            assert!(matches!(
                way,
                Way::Record | Way::Off | Way::Min { bound: 77 }
            ));
            if is_changed {
                assert!(is_ruled_off(site().word()) && way == Way::Off);
            }
        });
        set_rules(Way::Min { bound: 77 });
        set_rules(Way::Off);
        IS_OFF.store(true, Ordering::Release);
        scope.join().unwrap();
    });
}
