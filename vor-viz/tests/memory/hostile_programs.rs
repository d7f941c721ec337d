//! Programs that use the live panel in ways for which it was not made: its memory stays bounded,
//! and shown data is complete.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;

use crate::headless::User;
use egui::{Key, vec2};
use vor_fixtures::own_process;
use vor_recorder::{drain, profile_scope, setup};
use vor_viz::{PanelConfig, PanelState, show};

fn enable() {
    setup::enable();
    drain::flush();
}

/// Records some spans, fewer at once than a ring holds.
fn work(spans: u64) {
    for first in (0..spans).step_by(20_000) {
        for _ in first..spans.min(first + 20_000) {
            profile_scope!("work");
        }
        drain::flush();
    }
}

fn draw(user: &mut User, state: &mut PanelState) {
    user.idle_pass(|ui| show(ui, state, &VecDeque::<()>::new(), &[]));
}

#[test]
fn a_pinned_frame_gets_its_pending_spans() {
    own_process!();
    enable();
    let mut state = PanelState::new(PanelConfig::FRAME_MS);
    let mut user = User::new(1, vec2(900.0, 600.0), 1.0, true);
    state.tick();
    for _ in 0..5 {
        work(7);
        state.tick();
    }
    // The frame that ends here is pinned before the drain has delivered it.
    {
        profile_scope!("the last");
    }
    state.tick();
    draw(&mut user, &mut state);
    user.move_pointer(vec2(450.0, 300.0), |ui| {
        show(ui, &mut state, &VecDeque::<()>::new(), &[])
    });
    user.press(Key::Space, |ui| {
        show(ui, &mut state, &VecDeque::<()>::new(), &[])
    });
    assert!(state.is_paused());
    drain::flush();
    // Later spans are not part of any existing frame.
    work(50);
    drain::frame_mark();
    drain::flush();
    draw(&mut user, &mut state);
    let newest = state.store().frames().back().unwrap();
    assert_eq!((newest.span_count, newest.stored_spans), (1, 1));
    let held = state.store().stored_spans();
    for _ in 0..10 {
        work(50);
        drain::frame_mark();
        drain::flush();
        draw(&mut user, &mut state);
    }
    assert_eq!(
        state.store().stored_spans(),
        held,
        "a paused panel takes no new frames"
    );
    state.unpin();
    state.tick();
    work(1);
    state.tick();
    assert!(state.store().stored_spans() > held);
}

#[test]
fn a_panel_that_is_never_ticked_nor_shown_forgets() {
    own_process!();
    enable();
    let mut state = PanelState::new(PanelConfig::FRAME_MS);
    state.tick();
    let grown = vor_fixtures::memory::peak_of(|| {
        for _ in 0..200 {
            work(20_000);
            drain::frame_mark();
            drain::flush();
        }
    });
    println!("4 000 000 spans, never ticked: {grown} bytes at most");
    assert!(grown < 300 << 20, "{grown} bytes");
    // The waiting frames are taken at once, and the newest one is there.
    state.tick();
    assert_eq!(state.store().frames().len(), 1);
    assert!(state.store().stored_spans() <= (4 << 20) + 20_000);
}

#[test]
fn a_panel_that_is_ticked_but_never_shown_forgets() {
    own_process!();
    enable();
    let config = PanelConfig {
        history_capacity: 64,
        ..PanelConfig::FRAME_MS
    };
    let mut state = PanelState::new(config).with_max_spans(100_000);
    let grown = vor_fixtures::memory::peak_of(|| {
        for _ in 0..150 {
            work(20_000);
            state.tick();
        }
    });
    println!("3 000 000 spans, never shown: {grown} bytes at most");
    assert!(grown < 100 << 20, "{grown} bytes");
    assert!(state.store().stored_spans() <= 100_000 + 2 * 20_000);
    assert!(state.store().frames().len() <= 64);
}

#[test]
fn a_frame_that_does_not_end_is_bounded_and_its_rest_is_counted() {
    own_process!();
    const SPANS: u64 = 3_000_000;
    enable();
    let mut state = PanelState::new(PanelConfig::FRAME_MS);
    let mut user = User::new(1, vec2(900.0, 600.0), 1.0, true);
    state.tick();
    let grown = vor_fixtures::memory::peak_of(|| {
        work(SPANS);
        state.tick();
        drain::flush();
        state.tick();
        draw(&mut user, &mut state);
    });
    println!("a frame of {SPANS} spans: {grown} bytes at most");
    assert!(grown < 400 << 20, "{grown} bytes");
    let long = &state.store().frames()[0];
    assert_eq!(long.span_count + long.dropped_spans, SPANS);
    assert!(
        long.stored_spans < long.span_count && long.stored_spans > 0,
        "{long:?}"
    );
}
