//! The panel inside the program that it shows: the program's records arrive in it.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::time::Duration;

use crate::pictures;
use egui_kittest::kittest::Queryable;
use vor_fixtures::own_process;
use vor_recorder::drain;
use vor_recorder::profile_scope;
use vor_recorder::setup;
use vor_viz::scopes::{Job, ScopeSums};
use vor_viz::store::Extent;
use vor_viz::{Metric, PanelConfig, PanelState, show};

fn enable() {
    setup::enable();
}

fn small() -> PanelConfig {
    PanelConfig {
        history_capacity: 8,
        ..PanelConfig::FRAME_MS
    }
}

fn frame(state: &mut PanelState) {
    {
        profile_scope!("outer");
        for _ in 0..3 {
            profile_scope!("inner");
            std::hint::black_box(());
        }
    }
    state.tick();
    // The drain delivers the frame before the next tick reads it.
    drain::flush();
}

fn spans(state: &PanelState, name: &str) -> usize {
    let store = state.store();
    let rows = store.tracks().iter().flat_map(|track| &track.rows);
    let all = rows.flat_map(|row| row.spans(i64::MIN, i64::MAX));
    all.filter(|span| store.catalog().site_name(span.site) == name)
        .count()
}

fn numbers(state: &PanelState) -> Vec<u64> {
    let frames = state.store().frames().iter();
    frames.map(|entry| entry.number).collect()
}

#[test]
fn spans_and_metrics_arrive_at_the_frame_they_belong_to() {
    own_process!();
    enable();
    let mut state = PanelState::new(small());
    state.tick();
    for i in 0..5 {
        vor_recorder::metrics::record_metric("loss", f64::from(i));
        frame(&mut state);
    }
    state.tick();
    let store = state.store();
    assert_eq!(store.frames().len(), 6);
    assert_eq!(spans(&state, "outer"), 5);
    assert_eq!(spans(&state, "inner"), 15);
    let loss = store
        .catalog()
        .columns
        .iter()
        .position(|column| column.metric.name == "loss")
        .unwrap() as u32;
    for (i, entry) in store.frames().iter().enumerate().take(5) {
        assert_eq!(entry.metric(loss), Some(i as f64), "frame {i}");
        assert_eq!((entry.span_count, entry.stored_spans), (4, 4), "frame {i}");
        let inside = |span: &vor_viz::store::Span| {
            entry.begin_ns <= span.begin_ns && span.end_ns() <= entry.end_ns
        };
        let rows = store.tracks().iter().flat_map(|track| &track.rows);
        let count = rows
            .flat_map(|row| row.spans(i64::MIN, i64::MAX))
            .filter(inside)
            .count();
        assert_eq!(count, 4, "the spans of frame {i} are within it");
    }
    assert_eq!(numbers(&state), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_program_that_marks_frames_itself_is_not_marked_twice() {
    own_process!();
    enable();
    let mut state = PanelState::new(small());
    state.tick();
    for _ in 0..3 {
        for _ in 0..2 {
            profile_scope!("half");
        }
        drain::frame_mark();
        drain::frame_mark();
        let marked = drain::last_mark_ticks();
        state.tick();
        assert_eq!(
            drain::last_mark_ticks(),
            marked,
            "the tick makes no mark of its own"
        );
        drain::flush();
    }
    state.tick();
    drain::flush();
    state.tick();
    // The program's marks are the ends of frames 0 to 5; each entry has the number of its last one.
    assert_eq!(numbers(&state), [1, 3, 5, 6, 7]);
    assert_eq!(spans(&state, "half"), 6);
}

#[test]
fn a_panel_that_opens_later_has_the_recorders_numbers() {
    own_process!();
    enable();
    for _ in 0..3 {
        drain::frame_mark();
    }
    let mut state = PanelState::new(small());
    for _ in 0..3 {
        frame(&mut state);
    }
    state.tick();
    assert_eq!(numbers(&state), [3, 4, 5]);
}

#[test]
fn an_entry_sums_the_measured_values_of_its_frames() {
    own_process!();
    enable();
    let mut state = PanelState::new(small());
    state.tick();
    for bytes in [100_u64, 20, 3] {
        {
            // An argument with this reserved name is a measured value.
            profile_scope!("load", alloc_bytes = bytes);
            profile_scope!("decode", alloc_bytes = 2 * bytes);
        }
        drain::frame_mark();
    }
    state.tick();
    drain::flush();
    state.tick();
    let mut job = Job::<ScopeSums>::default();
    let last = state.store().frames().len() - 1;
    job.finish(state.store(), Some((0, last).into()), &Extent::Clipped);
    let rows = &job.output().unwrap().rows;
    let bytes = |name: &str| {
        let row = rows.iter().find(|row| &*row.name == name).unwrap();
        row.alloc_bytes()
    };
    assert_eq!([bytes("load"), bytes("decode")], [Some(123), Some(246)]);
}

#[test]
fn the_ring_keeps_its_capacity_and_a_pin_holds() {
    own_process!();
    enable();
    let mut state = PanelState::new(small());
    for _ in 0..20 {
        frame(&mut state);
    }
    assert_eq!(state.store().frames().len(), 8);
    assert!(!state.is_paused());
    state.pin_latest();
    assert_eq!(state.pinned(), Some(7));
    assert!(state.is_paused());
    state.toggle_pause();
    assert_eq!((state.pinned(), state.selection()), (None, None));
    state.pin_latest();
    for _ in 0..3 {
        frame(&mut state);
    }
    assert_eq!(
        state.pinned(),
        Some(4),
        "the same frame has moved towards the old end"
    );
    state.unpin();
    assert_eq!(state.pinned(), None);
}

#[test]
fn without_recording_there_are_durations_and_system_metrics() {
    own_process!();
    enable();
    setup::disable();
    let mut state = PanelState::new(small());
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(5));
        state.tick();
    }
    let frame = &state.store().frames()[1];
    assert!(frame.duration_ms() >= 5.0, "{} ms", frame.duration_ms());
    let column = |name: &str| {
        let columns = state.store().catalog().columns.iter();
        let at = columns
            .clone()
            .position(|column| column.metric.name == name)?;
        frame.metric(at as u32)
    };
    assert!(column("frame_ms").unwrap() >= 5.0);
    if cfg!(target_os = "linux") {
        assert!(column("memory_mb").unwrap() > 1.0);
    }
}

#[test]
fn the_panel_draws_the_programs_own_metrics() {
    own_process!();
    struct Workload {
        particles: usize,
    }
    const METRICS: &[Metric<Workload>] = &[
        Metric::new("particles", |w: &Workload| w.particles as f64, "")
            .as_integer()
            .describe("alive at the end of the frame"),
        Metric::new("broken", |_| f64::NAN, "ms"),
    ];
    enable();
    let state = PanelState::new(small());
    let history = VecDeque::new();
    let mut harness = pictures::builder()
        .with_size(egui::vec2(1000.0, 700.0))
        .build_ui_state(
            |ui, (state, history): &mut (PanelState, VecDeque<Workload>)| {
                if !state.is_paused() {
                    frame(state);
                    if history.len() == 8 {
                        history.pop_front();
                    }
                    history.push_back(Workload {
                        particles: 1000 + history.len(),
                    });
                }
                show(ui, state, history, METRICS);
            },
            (state, history),
        );
    harness.run_steps(12);
    assert!(harness.query_by_label("plot particles").is_some());
    harness.get_by_label("Pause").click();
    harness.run_steps(3);
    let (state, history) = harness.state();
    assert!(state.is_paused());
    assert_eq!(
        (state.store().frames().len(), history.len()),
        (8, 8),
        "both rings stop together"
    );
    let before = state.store().version();
    harness.run_steps(3);
    assert_eq!(harness.state().0.store().version(), before);
}

#[test]
fn a_dropped_panel_leaves_no_sink() {
    own_process!();
    enable();
    let mut state = PanelState::new(small());
    state.tick();
    drop(state);
    drain::frame_mark();
    drain::flush();
    assert_eq!(drain::failed_sinks(), 0);
}
