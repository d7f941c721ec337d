//! Models of a holder that changes its scopes while another thread reads the innermost one.
//!
//! The holder holds the lock in the site 1 alone, so the reader must find no other site.

use std::sync::Arc;

use loom::thread;
use vor_capture::model::catalog::SiteId;

use super::holder::HolderWord;
use crate::hot::thread::{
    Holder, Innermost, ThreadState, end_thread, hot, own_token, push_record, read_holder, set_up,
};

/// The site of the scope in which the lock is held.
const HOLDING: u32 = 1;
/// The site of the scopes in which it is not.
const OTHER: u32 = 2;

/// The site of waits for the lock.
const WAIT: SiteId = SiteId(3);

/// Closes the innermost scope as the fast path does.
fn close(state: &ThreadState, place: u32) {
    assert!(state.begin_close(place));
    push_record(state, &[[7, 7]]);
    state.release(place);
}

/// Closes the innermost scope without a record.
fn abandon(state: &ThreadState, place: u32) {
    state.pop_open(place);
}

fn check(word: &HolderWord) {
    let token = word.get();
    if token.word() == 0 {
        return;
    }
    match read_holder(token, WAIT, || word.get() == token) {
        Holder::Thread { innermost, .. } => match innermost {
            Innermost::Scope(SiteId(site)) => assert_eq!(site, HOLDING),
            Innermost::NotHeld | Innermost::Unreadable => {}
            Innermost::NoScope => panic!("a scope is open in every hold"),
        },
        holder => panic!("{holder:?}"),
    }
}

/// Holds the lock for a moment within `HOLDING`, which is within `OTHER`.
fn hold(word: &HolderWord, close: fn(&ThreadState, u32)) {
    let state = hot();
    let place = state.push_open(HOLDING, 20);
    word.set(own_token());
    word.clear();
    close(state, place);
}

fn model_of(close: fn(&ThreadState, u32)) {
    loom::model(move || {
        let state = set_up().unwrap();
        state.push_open(OTHER, 10);
        let word = Arc::new(HolderWord::new());
        let reader = {
            let word = Arc::clone(&word);
            thread::spawn(move || check(&word))
        };
        hold(&word, close);
        reader.join().unwrap();
        end_thread();
    });
}

#[test]
fn a_reader_never_finds_the_scope_around_the_holder_s() {
    model_of(close);
}

#[test]
fn a_reader_never_finds_the_scope_around_one_that_leaves_no_record() {
    model_of(abandon);
}

#[test]
fn a_reader_never_finds_a_scope_between_two_holds() {
    loom::model(|| {
        let state = set_up().unwrap();
        let first = state.push_open(HOLDING, 10);
        let word = Arc::new(HolderWord::new());
        word.set(own_token());
        let reader = {
            let word = Arc::clone(&word);
            thread::spawn(move || check(&word))
        };
        word.clear();
        close(state, first);
        state.push_open(OTHER, 20);
        reader.join().unwrap();
        end_thread();
    });
}

#[test]
fn a_reader_skips_the_wait_of_the_holder() {
    loom::model(|| {
        let state = set_up().unwrap();
        state.push_open(HOLDING, 10);
        let wait = state.push_open(WAIT.0, 20);
        let word = Arc::new(HolderWord::new());
        let reader = {
            let word = Arc::clone(&word);
            thread::spawn(move || check(&word))
        };
        word.set(own_token());
        close(state, wait);
        word.clear();
        reader.join().unwrap();
        end_thread();
    });
}
