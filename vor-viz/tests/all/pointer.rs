//! Inputs of a mouse.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::time::{Duration, Instant};

use egui::{Event, Modifiers, MouseWheelUnit, PointerButton, Pos2, TouchPhase, Vec2};
use egui_kittest::Harness;

const TIMEOUT: Duration = Duration::from_secs(60);

fn button<S>(
    harness: &Harness<'_, S>,
    pos: Pos2,
    button: PointerButton,
    pressed: bool,
    modifiers: Modifiers,
) {
    let event = Event::PointerButton {
        pos,
        button,
        pressed,
        modifiers,
    };
    harness.event_modifiers(event, modifiers);
}

/// Runs passes until none is asked for. A viewer that reads asks for the next one until it has read
/// all.
fn run<S>(harness: &mut Harness<'_, S>) {
    let began = Instant::now();
    while harness.try_run().is_err() {
        assert!(
            began.elapsed() < TIMEOUT,
            "passes are asked for without end"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Moves the pointer to `pos`.
pub fn hover<S>(harness: &mut Harness<'_, S>, pos: Pos2) {
    harness.hover_at(pos);
    run(harness);
    run(harness);
}

/// Presses and releases at `pos`.
pub fn click<S>(harness: &mut Harness<'_, S>, pos: Pos2, modifiers: Modifiers) {
    hover(harness, pos);
    button(harness, pos, PointerButton::Primary, true, modifiers);
    harness.step();
    button(harness, pos, PointerButton::Primary, false, modifiers);
    run(harness);
    wait(harness);
}

/// Presses and releases twice.
pub fn double_click<S>(harness: &mut Harness<'_, S>, pos: Pos2) {
    hover(harness, pos);
    for _ in 0..2 {
        button(harness, pos, PointerButton::Primary, true, Modifiers::NONE);
        harness.step();
        button(harness, pos, PointerButton::Primary, false, Modifiers::NONE);
        harness.step();
    }
    run(harness);
    wait(harness);
}

/// Presses at `from`, moves in some steps and releases at `to`.
pub fn drag<S>(harness: &mut Harness<'_, S>, from: Pos2, to: Pos2, modifiers: Modifiers) {
    hover(harness, from);
    button(harness, from, PointerButton::Primary, true, modifiers);
    run(harness);
    for step in 1..=8 {
        let pos = from + (to - from) * (step as f32 / 8.0);
        harness.event_modifiers(Event::PointerMoved(pos), modifiers);
        run(harness);
    }
    button(harness, to, PointerButton::Primary, false, modifiers);
    run(harness);
    wait(harness);
}

/// Turns the wheel at `pos`.
pub fn scroll<S>(harness: &mut Harness<'_, S>, pos: Pos2, delta: Vec2, modifiers: Modifiers) {
    hover(harness, pos);
    let event = Event::MouseWheel {
        unit: MouseWheelUnit::Point,
        delta,
        phase: TouchPhase::Move,
        source: egui::MouseWheelSource::Wheel,
        modifiers,
    };
    harness.event_modifiers(event, modifiers);
    run(harness);
    // The distance of the wheel is spread over some passes.
    harness.run_steps(30);
}

/// Waits until the next click is not the second of a double click.
pub fn wait<S>(harness: &mut Harness<'_, S>) {
    harness.run_steps(30);
}
