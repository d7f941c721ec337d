//! The list of the slowest frames.

use egui::Ui;
use vor_capture::units;

use super::slow_frames::{FramePlace, SlowFrames};
use crate::replay::Summary;
use crate::scopes::grid::{Column, Grid, Sort};
use crate::scopes::scope_caption;
use crate::sheet::copy_buttons;
use crate::store::Store;
use crate::theme::Theme;
use crate::view::{Scope, View};

const COLUMNS: [Column; 3] = [
    Column {
        title: "frame",
        hint: "The number of the frame; in a capture, frames count from 0",
        digits: 0.0,
    },
    Column {
        title: "begin",
        hint: "When it began, from the begin of the scale above the flame chart",
        digits: 12.0,
    },
    Column {
        title: "duration",
        hint: "How long it took",
        digits: 10.0,
    },
];

impl SlowFrames {
    /// Shows the line above the list, with `choose` in it, and the list. Returns the frame of a
    /// capture that was chosen, counted from 0. `summary` is of all frames of the capture.
    pub(super) fn show(
        &mut self,
        ui: &mut Ui,
        store: &Store,
        view: &mut View,
        theme: &Theme,
        (scope, summary): (Option<Scope>, Option<&Summary>),
        choose: impl FnOnce(&mut Ui, &View),
    ) -> Option<u64> {
        self.update(store, view, scope, summary);
        let is_all = view.time_selection().is_none() && view.selection().is_none();
        ui.horizontal_wrapped(|ui| {
            ui.strong(match summary {
                // A followed capture has more frames than the store.
                Some(_) if is_all => "whole capture".to_owned(),
                _ => scope_caption(store, scope),
            });
            choose(ui, view);
            let listed = units::count(self.frames.len() as u64);
            ui.weak(match summary.filter(|_| is_all) {
                Some(summary) => format!(
                    "the {listed} slowest of {} frames",
                    units::count(summary.durations_ms().len() as u64)
                ),
                None => format!("{listed} frames, the slowest first"),
            });
            let zero_ns = view.zero_ns(store) as i64;
            copy_buttons(ui, &["frame", "begin_ns", "ns"], |sheet| {
                for frame in &self.frames {
                    let ns = (f64::from(frame.duration_ms) * 1e6).round() as i64;
                    let begin_ns = frame.begin_ns.saturating_sub(zero_ns);
                    sheet.row([
                        frame.number.to_string(),
                        begin_ns.to_string(),
                        ns.to_string(),
                    ]);
                }
            });
        });
        let frames = &self.frames;
        if frames.is_empty() {
            ui.weak("There are no frames here.");
            return None;
        }
        let zero_ns = view.zero_ns(store);
        let pinned = view.pinned();
        let pinned_ns = pinned
            .and_then(|id| store.frame(id))
            .map(|frame| frame.begin_ns);
        let is_pinned = |place: FramePlace, begin_ns: i64| match place {
            FramePlace::Store(id) => pinned == Some(id),
            FramePlace::Capture(frame) => pinned_ns.is_some_and(|ns| {
                let known = summary.and_then(|summary| summary.frame_at(ns.saturating_add(1)));
                known == Some(frame) || ns == begin_ns
            }),
        };
        let grid = Grid {
            id: ui.scope_id().with("frames"),
            columns: &COLUMNS,
            rows: frames.len(),
            selected: frames
                .iter()
                .position(|frame| is_pinned(frame.place, frame.begin_ns)),
            dimmed: false,
            height: ui.available_height(),
            row_role: "slow frame",
        };
        let duration = |i: usize| units::duration(f64::from(frames[i].duration_ms) * 1e6);
        // The slowest come first; there is no other order.
        let mut sort = Sort {
            column: 2,
            descending: true,
        };
        let response = grid.show(
            ui,
            theme,
            &mut sort,
            |i| units::count(frames[i].number),
            |i, cells| {
                cells.name(theme.line, &units::count(frames[i].number), "");
                cells.number(&units::duration(frames[i].begin_ns as f64 - zero_ns));
                cells.number(&duration(i));
            },
            |i, ui| {
                ui.strong(format!("frame {}", units::count(frames[i].number)));
                ui.weak("Click to pin it.");
            },
        );
        let chosen = response.clicked.or(response.moved_to);
        match frames.get(chosen?)?.place {
            FramePlace::Capture(frame) => Some(frame),
            FramePlace::Store(id) => {
                view.pin(id);
                None
            }
        }
    }
}
