//! The pages of a list: which one is shown, and the steps from row to row over all of them.

use egui::{Button, Ui};
use vor_capture::units;

use super::page::{PAGE, Rank};
use crate::scopes::show_progress;

/// The sizes of a page, and of the whole list.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageFound {
    /// Number of its rows, and the place of the last one.
    pub(super) rows: usize,
    pub(super) last: Option<Rank>,
    /// Number of the items before it, of those that pass the filters, and of all.
    pub(super) before: u64,
    pub(super) count: u64,
    pub(super) all: u64,
}

impl PageFound {
    pub(super) fn has_more(&self) -> bool {
        self.before + (self.rows as u64) < self.count
    }
}

/// A row to go to as soon as its page is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    First,
    Last,
}

/// Where a step leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Row(usize),
    OtherPage,
    Nowhere,
}

/// The state of the pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    /// The last places of the pages before the shown one.
    before: Vec<Rank>,
    arriving: Option<Edge>,
}

impl Pages {
    /// Returns the place behind which the shown page begins.
    pub(super) fn after(&self) -> Option<Rank> {
        self.before.last().copied()
    }

    /// Shows the first page.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Returns the row to go to on a page that has just come.
    pub(super) fn arrive(&mut self, rows: usize) -> Option<usize> {
        match self.arriving.take()? {
            Edge::First => (rows > 0).then_some(0),
            Edge::Last => rows.checked_sub(1),
        }
    }

    /// Steps to the next row or to the previous one; beyond the page, to the next or previous page.
    /// After the last row comes the first one.
    pub(super) fn step(&mut self, at: Option<usize>, found: &PageFound, forward: bool) -> Step {
        let to = match (at, forward) {
            (None, true) => Some(0),
            (None, false) => found.rows.checked_sub(1),
            (Some(at), true) => Some(at + 1),
            (Some(at), false) => at.checked_sub(1),
        };
        if let Some(row) = to.filter(|&row| row < found.rows) {
            return Step::Row(row);
        }
        match (forward, found.last.filter(|_| found.has_more())) {
            (true, Some(last)) => {
                self.before.push(last);
                self.arriving = Some(Edge::First);
            }
            (true, None) if self.before.is_empty() => {
                return match found.rows {
                    0 => Step::Nowhere,
                    _ => Step::Row(0),
                };
            }
            (true, None) => {
                self.before.clear();
                self.arriving = Some(Edge::First);
            }
            (false, _) if self.before.pop().is_some() => self.arriving = Some(Edge::Last),
            (false, _) => return Step::Nowhere,
        }
        Step::OtherPage
    }

    /// Shows how many items there are, and the buttons for other pages. `progress` is that of a
    /// search whose result is not there yet.
    pub(super) fn show(
        &mut self,
        ui: &mut Ui,
        found: &PageFound,
        items: &str,
        progress: Option<f32>,
    ) {
        let count = |value: u64| units::count(value);
        ui.weak(match found.all == found.count {
            true => format!("{} {items}", count(found.count)),
            false => format!("{} of {} {items}", count(found.count), count(found.all)),
        });
        if found.has_more() || !self.before.is_empty() {
            let first = found.before + 1;
            let last = found.before + found.rows as u64;
            let next = found.last.filter(|_| found.has_more());
            let hint = format!("{} {items} are listed at a time", count(PAGE as u64));
            let back = ui.add_enabled(!self.before.is_empty(), Button::new("‹").small());
            ui.weak(format!("{} to {}", count(first), count(last)))
                .on_hover_text(&hint);
            let on = ui.add_enabled(next.is_some(), Button::new("›").small());
            if back
                .on_hover_text(format!("The {items} before these"))
                .clicked()
            {
                self.before.pop();
                self.arriving = None;
            }
            if on
                .on_hover_text(format!("The {items} after these"))
                .clicked()
            {
                self.before.extend(next);
                self.arriving = None;
            }
        }
        if let Some(progress) = progress {
            show_progress(ui, "looking", progress);
        }
    }
}
