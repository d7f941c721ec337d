//! The details of one scope: the distribution of its durations, and its slowest calls.

use egui::{Grid, ScrollArea, Ui, vec2};
use vor_capture::units;

use super::histogram;
use super::sums::{ScopeRow, SlowCall};
use crate::flame::{self, frame_of, seek};
use crate::sheet::small_copy_buttons;
use crate::sketch::shortened;
use crate::store::Store;
use crate::theme::{Theme, space};
use crate::view::View;

/// Width of the list of calls beside the histogram, in points.
const LIST_WIDTH: f32 = 400.0;

/// The user's actions in the details.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DetailsResponse {
    /// The details were closed.
    pub(super) closed: bool,
    /// A call was clicked, and its frame is pinned.
    pub(super) pinned: bool,
}

/// Shows the details of a row in all available space.
pub(super) fn show(
    ui: &mut Ui,
    store: &Store,
    view: &mut View,
    theme: &Theme,
    row: &ScopeRow,
) -> DetailsResponse {
    let mut response = DetailsResponse::default();
    ui.separator();
    ui.horizontal(|ui| {
        response.closed = ui
            .small_button("close")
            .on_hover_text("Closes the details of this scope")
            .clicked();
        let all = ui.small_button("all calls");
        if all.on_hover_text("Lists all calls of this scope").clicked() {
            view.wanted_calls = Some(row.site);
        }
        let percentiles = [
            ("p50", row.p50_ns),
            ("p95", row.p95_ns),
            ("p99", row.p99_ns),
        ];
        let [p50, p95, p99] =
            percentiles.map(|(name, ns)| format!("{name} {}", units::duration(ns as f64)));
        let calls = if row.is_task() { "tasks" } else { "calls" };
        ui.strong(shortened(&row.name));
        let text = format!("{} {calls}, {p50}, {p95}, {p99}", units::count(row.count));
        ui.add(egui::Label::new(egui::RichText::new(text).weak()).truncate())
            .on_hover_text("Durations from begin to end, even outside of the frames");
    });
    let size = ui.available_size();
    let chart_width = (size.x - LIST_WIDTH).max(size.x * 0.4);
    ui.horizontal_top(|ui| {
        let height = ui.available_height();
        histogram::show(
            ui,
            theme,
            &row.into(),
            vec2(chart_width - space::PART - space::TEXT, height),
        );
        ui.vertical(|ui| {
            ui.horizontal(|ui| {
                ui.weak(if row.slowest.len() > 1 {
                    "slowest calls"
                } else {
                    "slowest call"
                });
                copy_slowest(ui, store, view, row);
            });
            ScrollArea::both()
                .id_salt("slowest")
                .auto_shrink(false)
                .show(ui, |ui| {
                    response.pinned = slowest(ui, store, view, row);
                });
        });
    });
    response
}

/// Shows buttons that copy the slowest calls. The frame is that in which a call ended.
fn copy_slowest(ui: &mut Ui, store: &Store, view: &View, row: &ScopeRow) {
    let titles = ["scope", "kind", "thread", "frame", "begin_ns", "ns"];
    let zero_ns = view.zero_ns(store) as i64;
    small_copy_buttons(
        ui,
        ("slowest calls", "the slowest calls"),
        &titles,
        |sheet| {
            for call in &row.slowest {
                let frame = frame_of(store, &call.span);
                let frame = frame.map(|index| store.frames()[index].number.to_string());
                sheet.row([
                    &*row.name,
                    row.kind.of_span(),
                    &*flame::thread_name(call.thread, store.catalog()),
                    &*frame.unwrap_or_default(),
                    &*call.span.begin_ns.saturating_sub(zero_ns).to_string(),
                    &*call.span.duration_ns.to_string(),
                ]);
            }
        },
    );
}

/// Lists the slowest calls; returns whether one was clicked.
fn slowest(ui: &mut Ui, store: &Store, view: &mut View, row: &ScopeRow) -> bool {
    let mut clicked = false;
    Grid::new("slowest calls")
        .num_columns(5)
        .striped(true)
        .show(ui, |ui| {
            for (i, call) in row.slowest.iter().enumerate() {
                let frame = frame_of(store, &call.span);
                if view.whole().is_some() {
                    show_in_whole(ui, store, view, row, i, call);
                    ui.end_row();
                    continue;
                }
                let name = frame.map_or_else(
                    || "left".to_owned(),
                    |index| format!("frame {}", store.frames()[index].number),
                );
                let button = ui.add_enabled(frame.is_some(), egui::Button::new(&name).small());
                let button = button
                    .on_hover_text("Pins this frame, and shows the call in the flame chart")
                    .on_disabled_hover_text("This frame has left")
                    .accessible_name(format!("slowest {}: {name}", i + 1));
                if button.clicked() {
                    clicked = seek(store, view, call.thread, row.kind, &call.span);
                }
                ui.strong(units::duration(call.span.duration_ns as f64));
                let begin = frame.map_or(0, |index| store.frames()[index].begin_ns);
                let after_ns = call.span.begin_ns as f64 - begin as f64;
                let at = units::duration(after_ns);
                ui.weak(if after_ns < 0.0 { at } else { format!("+{at}") })
                    .on_hover_text("When it began, from the begin of the frame in which it ended");
                ui.label(thread_name(store, call));
                show_holder(ui, call);
                ui.end_row();
            }
        });
    clicked
}

/// Shows a call of a capture of which the store holds a part: a click goes to it.
fn show_in_whole(
    ui: &mut Ui,
    store: &Store,
    view: &mut View,
    row: &ScopeRow,
    i: usize,
    call: &SlowCall,
) {
    let at_ns = call.span.begin_ns as f64 - view.zero_ns(store);
    let name = format!("at {}", units::duration(at_ns));
    let button = ui
        .add(egui::Button::new(&name).small())
        .on_hover_text("Shows the call in the flame chart")
        .accessible_name(format!("slowest {}: {name}", i + 1));
    if button.clicked() {
        seek(store, view, call.thread, row.kind, &call.span);
    }
    ui.strong(units::duration(call.span.duration_ns as f64));
    ui.label(thread_name(store, call));
    show_holder(ui, call);
}

/// Shows the holder of the lock that a call waited for.
fn show_holder(ui: &mut Ui, call: &SlowCall) {
    if let Some(holder) = &call.holder {
        let holder = format!("held by {holder}");
        ui.label(shortened(&holder));
    }
}

fn thread_name(store: &Store, call: &SlowCall) -> String {
    match store.catalog().thread_name(call.thread) {
        "" => format!("thread {}", call.thread.0),
        name => shortened(name).into_owned(),
    }
}
