//! The table of differences between a frame and the median frame.

use std::cmp::Ordering;
use std::sync::Arc;

use egui::Ui;
use vor_capture::units;

use super::SAMPLE;
use super::cells::{FrameCells, WhyOptions, WhyResult, WhyRow};
use crate::replay::Summary;
use crate::scopes::grid::{Column, Grid, Sort};
use crate::scopes::row_order::RowOrder;
use crate::scopes::{Job, filter_field, percent, show_progress, show_waiting, signed};
use crate::sheet::copy_buttons;
use crate::sketch::shortened;
use crate::store::{FrameId, Store, TrackKind};
use crate::theme::Theme;
use crate::view::{Scope, View};

const COLUMNS: [Column; 9] = [
    Column {
        title: "name",
        hint: "What the scope is called",
        digits: 0.0,
    },
    Column {
        title: "change",
        hint: "How much longer any of its spans was open in this frame than in the median frame",
        digits: 10.0,
    },
    Column {
        title: "95 % interval",
        hint: "The change, as far as the median is known from these frames; grey where it contains \
            no change at all",
        digits: 21.0,
    },
    Column {
        title: "this frame",
        hint: "How long any of its spans was open in this frame, threads together",
        digits: 10.0,
    },
    Column {
        title: "median",
        hint: "The same in the median frame",
        digits: 10.0,
    },
    Column {
        title: "self",
        hint: "The change of its time without the scopes inside it",
        digits: 10.0,
    },
    Column {
        title: "calls",
        hint: "How many of its spans are in this frame",
        digits: 8.0,
    },
    Column {
        title: "usual calls",
        hint: "How many of its spans are in the median frame",
        digits: 9.0,
    },
    Column {
        title: "above",
        hint: "The share of the other frames in which it took less time",
        digits: 8.0,
    },
];

/// The frames to choose from.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Inputs {
    pinned: FrameId,
    here: (i64, i64),
    /// Number of known frames of the capture, or the version of the store.
    version: u64,
    is_capture: bool,
}

/// The explanation of a frame.
#[derive(Clone, Debug)]
pub struct Why {
    job: Job<FrameCells>,
    options: Option<(Inputs, WhyOptions)>,
    sort: Sort,
    filter: String,
    order: RowOrder,
    selected: Option<(Box<str>, TrackKind)>,
}

impl Default for Why {
    fn default() -> Self {
        Self {
            job: Job::default(),
            options: None,
            // A scope that took longer by itself explains the others.
            sort: Sort {
                column: 5,
                descending: true,
            },
            filter: String::new(),
            order: RowOrder::default(),
            selected: None,
        }
    }
}

impl Why {
    /// Returns the latest result, unless another one is being computed.
    #[must_use]
    pub fn result(&self) -> Option<&WhyResult> {
        self.job.output().filter(|_| !self.job.is_dimmed())
    }

    /// Chooses the frames again if the inputs changed; `None` without a pinned frame.
    fn choose(&mut self, store: &Store, view: &View, summary: Option<&Summary>) -> Option<Scope> {
        let pinned = view.pinned()?;
        let frame = store.frame(pinned)?;
        let here = (frame.begin_ns, frame.end_ns);
        let summary = summary.filter(|_| view.whole().is_some());
        let inputs = Inputs {
            pinned,
            here,
            version: summary.map_or(store.version(), Summary::frames),
            is_capture: summary.is_some(),
        };
        if self.options.as_ref().is_none_or(|(of, _)| *of != inputs) {
            let others = match summary {
                Some(summary) => sampled(summary, here),
                None => {
                    let all = store.frames().iter();
                    let all = all.map(|frame| (frame.begin_ns, frame.end_ns));
                    all.filter(|time| *time != here).collect()
                }
            };
            self.options = Some((inputs, WhyOptions { here, others }));
        }
        let (_, options) = self.options.as_ref()?;
        Some(match summary {
            None => Scope::Frames(0, store.frames().len().checked_sub(1)?),
            Some(_) => {
                let (first, last) = (options.others.first(), options.others.last());
                Scope::Time {
                    begin_ns: first.map_or(here.0, |first| first.0.min(here.0)),
                    end_ns: last.map_or(here.1, |last| last.1.max(here.1)),
                }
            }
        })
    }

    /// Shows the table in all available space. `summary` is of all frames of a capture.
    pub(crate) fn show(
        &mut self,
        ui: &mut Ui,
        store: &Store,
        view: &View,
        theme: &Theme,
        summary: Option<&Summary>,
    ) {
        let scope = self.choose(store, view, summary);
        let Some((scope, (_, options))) = scope.zip(self.options.as_ref()) else {
            ui.weak("Pin a frame to see how it differs from the median frame.");
            return;
        };
        self.job
            .advance(ui, store, view.spans(), Some(scope), options);
        let number = view
            .pinned()
            .and_then(|id| store.frame(id))
            .map_or(0, |frame| frame.number);
        let length_ns = options.here.1.saturating_sub(options.here.0);
        ui.horizontal_wrapped(|ui| {
            ui.strong(format!(
                "frame {}, {}",
                units::count(number),
                units::duration(length_ns as f64)
            ));
            let count = units::count(options.others.len() as u64);
            ui.label(match summary.filter(|_| view.whole().is_some()) {
                Some(_) => format!("beside the median of {count} frames, spread over the capture"),
                None => format!("beside the median of {count} frames"),
            });
            if let Some(result) = self.job.output().filter(|result| result.left_out > 0) {
                let left_out = units::count(result.left_out);
                ui.colored_label(
                    theme.bad_text,
                    format!("{left_out} times are left out: too many"),
                );
            }
            if let Some(progress) = self.job.progress().filter(|_| self.job.is_dimmed()) {
                show_progress(ui, "counting", progress);
            }
            filter_field(ui, &mut self.filter, "filter explaining scopes");
            copy_buttons(ui, &TITLES, |sheet| {
                let rows = self.job.output().map_or(&[][..], |result| &result.rows);
                let shown = self.order.shown().iter();
                shown
                    .filter_map(|&i| rows.get(i))
                    .for_each(|row| sheet.row(fields(row)));
            });
        });
        let Some(result) = self.job.output() else {
            show_waiting(ui, view, Some(scope), "comparing", self.job.progress());
            return;
        };
        let generation = self.job.generation();
        if self.order.restart(generation, self.sort, &self.filter) {
            self.order.fill(
                &result.rows,
                |row, filter| filter.is_empty() || row.name.to_lowercase().contains(filter),
                compare,
                |a, b| (&a.name, a.kind, a.site).cmp(&(&b.name, b.kind, b.site)),
            );
        }
        let shown = self.order.shown().iter();
        let rows: Vec<&WhyRow> = shown.filter_map(|&i| result.rows.get(i)).collect();
        if rows.is_empty() {
            ui.weak("No scope is in these frames.");
            return;
        }
        let is_selected = |row: &WhyRow| {
            let selected = self.selected.as_ref();
            selected.is_some_and(|(name, kind)| (name, *kind) == (&row.name, row.kind))
        };
        let catalog = store.catalog();
        let grid = Grid {
            id: ui.scope_id().with("why"),
            columns: &COLUMNS,
            rows: rows.len(),
            selected: rows.iter().position(|row| is_selected(row)),
            dimmed: self.job.is_dimmed(),
            height: ui.available_height(),
            row_role: "explaining scope",
        };
        let response = grid.show(
            ui,
            theme,
            &mut self.sort,
            |i| rows[i].name.to_string(),
            |i, cells| {
                let row = rows[i];
                let note = match row.kind {
                    TrackKind::Scopes => "",
                    TrackKind::Tasks => "task",
                };
                cells.name(theme.site(catalog.site(row.site)), &row.name, note);
                let color = match (row.is_usual(), row.change_ns() > 0.0) {
                    (true, _) => theme.weak_text,
                    (false, true) => theme.bad_text,
                    (false, false) => theme.good_text,
                };
                cells.colored(&signed(row.change_ns(), units::duration), color);
                match row.change_interval_ns() {
                    Some((low, high)) => {
                        let text = format!(
                            "{} to {}",
                            signed(low, units::duration),
                            signed(high, units::duration)
                        );
                        cells.colored(&text, color);
                    }
                    None => cells.weak("–"),
                }
                cells.number(&units::duration(row.here_ns as f64));
                cells.number(&units::duration(row.median_ns));
                match row.kind {
                    TrackKind::Scopes => cells.number(&signed(row.self_change_ns, units::duration)),
                    TrackKind::Tasks => cells.weak("–"),
                }
                cells.number(&units::count(row.calls.0));
                cells.number(&units::three_digits(row.calls.1));
                cells.number(&percent(row.shorter));
            },
            |i, ui| {
                ui.strong(shortened(&rows[i].name));
            },
        );
        let chosen = response.clicked.or(response.moved_to);
        if let Some(row) = chosen.and_then(|row| rows.get(row)) {
            self.selected = Some((row.name.clone(), row.kind));
        }
    }
}

/// The titles of copied rows.
const TITLES: [&str; 10] = [
    "name",
    "kind",
    "change_ns",
    "least_change_ns",
    "greatest_change_ns",
    "ns",
    "median_ns",
    "self_change_ns",
    "calls",
    "usual_calls",
];

/// Returns a row to be copied.
fn fields(row: &WhyRow) -> [String; 10] {
    let ns = |ns: f64| format!("{ns:.1}");
    let interval = row.change_interval_ns();
    [
        row.name.to_string(),
        row.kind.of_span().to_owned(),
        ns(row.change_ns()),
        interval.map_or(String::new(), |(low, _)| ns(low)),
        interval.map_or(String::new(), |(_, high)| ns(high)),
        row.here_ns.to_string(),
        ns(row.median_ns),
        match row.kind {
            TrackKind::Scopes => ns(row.self_change_ns),
            TrackKind::Tasks => String::new(),
        },
        row.calls.0.to_string(),
        row.calls.1.to_string(),
    ]
}

/// Returns frames that are spread evenly over a capture, without the one to explain.
fn sampled(summary: &Summary, here: (i64, i64)) -> Arc<[(i64, i64)]> {
    let known = summary.durations_ms().len();
    let count = known.min(SAMPLE);
    // The middle of each of as many parts of the capture.
    let place = |i: usize| (i * 2 + 1) as u128 * known as u128 / (2 * count.max(1)) as u128;
    let middle_ns = here.0.midpoint(here.1);
    let mut until_ns = i64::MIN;
    let frames = (0..count).filter_map(|i| {
        let frame = place(i) as usize;
        let begin_ns = summary.begin_ns(frame as u64)?.max(until_ns);
        let length_ms = summary
            .durations_ms()
            .get(frame)
            .filter(|ms| ms.is_finite())?;
        let end_ns = begin_ns.saturating_add((f64::from(length_ms) * 1e6) as i64);
        let is_here = begin_ns <= middle_ns && middle_ns < end_ns;
        until_ns = end_ns;
        (!is_here).then_some((begin_ns, end_ns))
    });
    frames.collect()
}

fn compare(column: usize, a: &WhyRow, b: &WhyRow) -> Ordering {
    let interval = |row: &WhyRow| row.change_interval_ns().map_or(0.0, |(low, _)| low);
    match column {
        0 => a.name.to_lowercase().cmp(&b.name.to_lowercase()),
        1 => a.change_ns().total_cmp(&b.change_ns()),
        2 => interval(a).total_cmp(&interval(b)),
        3 => a.here_ns.cmp(&b.here_ns),
        4 => a.median_ns.total_cmp(&b.median_ns),
        5 => a.self_change_ns.total_cmp(&b.self_change_ns),
        6 => a.calls.0.cmp(&b.calls.0),
        7 => a.calls.1.total_cmp(&b.calls.1),
        _ => a.shorter.total_cmp(&b.shorter),
    }
}
