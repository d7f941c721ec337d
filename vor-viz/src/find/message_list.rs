//! The list of messages.

use egui::Ui;
use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::units;

use super::filters::MessageFilters;
use super::messages::{FoundMessages, MessageOptions, Messages};
use super::page::Order;
use super::paged::{Listing, Paged};
use super::pages::{PageFound, Step};
use crate::flame::{seek_moment, thread_name};
use crate::scopes::grid::{Column, Grid, Sort};
use crate::scopes::{scope_caption, show_waiting};
use crate::sheet::copy_buttons;
use crate::store::Store;
use crate::theme::Theme;
use crate::view::{Scope, View};

const COLUMNS: [Column; 3] = [
    Column {
        title: "message",
        hint: "Its text",
        digits: 0.0,
    },
    Column {
        title: "thread",
        hint: "The thread that wrote it",
        digits: 18.0,
    },
    Column {
        title: "time",
        hint: "When it was written, from the begin of the scale above the flame chart",
        digits: 12.0,
    },
];

/// The column by which messages are sorted.
const TIME: usize = 2;

/// The list.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageList {
    paged: Paged<Messages, MessageFilters>,
    filters: MessageFilters,
    is_latest_first: bool,
    selected: Option<(ThreadId, i64)>,
}

impl MessageList {
    /// Returns the messages that were found, unless others are being looked for.
    pub(super) fn found(&self) -> Option<&FoundMessages> {
        self.paged.found()
    }

    fn options(&mut self, catalog: &Catalog) -> MessageOptions {
        let mut options = MessageOptions::default();
        self.filters.apply(&mut options, catalog);
        if self.is_latest_first {
            options.order = Order::Latest;
        }
        options.after = self.paged.after();
        options
    }

    /// Does all work in one pass.
    pub(super) fn finish(&mut self, store: &Store, scope: Option<Scope>) {
        let options = self.options(store.catalog());
        self.paged.finish(store, scope, &options);
    }

    /// Goes to the next message or to the previous one. Returns whether there is one.
    pub(super) fn step(&mut self, store: &Store, view: &mut View, forward: bool) -> bool {
        let at = self.found().zip(self.selected);
        let at = at.and_then(|(found, place)| position(found, place));
        match self.paged.step(at, forward) {
            Step::Row(row) => self.go_to(row, store, view),
            Step::OtherPage => true,
            Step::Nowhere => false,
        }
    }

    fn go_to(&mut self, row: usize, store: &Store, view: &mut View) -> bool {
        let found = self.paged.output();
        let Some(message) = found.and_then(|found| found.listed.get(row)) else {
            return false;
        };
        self.selected = Some((message.thread, message.ns));
        seek_moment(store, view, message.thread, message.ns)
    }

    /// Shows the line above the list, with `choose` in it, and the list.
    pub(super) fn show(
        &mut self,
        ui: &mut Ui,
        store: &Store,
        view: &mut View,
        theme: &Theme,
        scope: Option<Scope>,
        choose: impl FnOnce(&mut Ui, &View),
    ) {
        self.paged.restart_for(scope, &self.filters);
        let options = self.options(store.catalog());
        if let Some(row) = self.paged.advance(ui, store, view, scope, &options) {
            self.go_to(row, store, view);
        }
        ui.horizontal_wrapped(|ui| {
            ui.strong(scope_caption(store, scope));
            choose(ui, view);
            self.filters.show(ui);
            self.paged.show_pages(ui, "messages");
            if let Some(found) = self.paged.output() {
                copy_buttons(ui, &["thread", "ns", "text"], |sheet| {
                    let zero_ns = view.zero_ns(store) as i64;
                    for message in &found.listed {
                        sheet.row([
                            &*thread_name(message.thread, store.catalog()),
                            &message.ns.saturating_sub(zero_ns).to_string(),
                            &message.text,
                        ]);
                    }
                });
            }
        });
        let Some(found) = self.paged.output() else {
            show_waiting(
                ui,
                view,
                scope,
                "looking for messages",
                self.paged.progress(),
            );
            return;
        };
        if found.listed.is_empty() {
            ui.weak(match self.filters.is_empty() {
                true => "There are no messages here.",
                false => "No message passes the filters.",
            });
            return;
        }
        if let Some(row) = self.list(ui, store, view, theme) {
            self.go_to(row, store, view);
        }
    }

    /// Shows the list; returns the row that was chosen in it.
    fn list(&mut self, ui: &mut Ui, store: &Store, view: &View, theme: &Theme) -> Option<usize> {
        let found = self.paged.output()?;
        let catalog = store.catalog();
        let zero_ns = view.zero_ns(store);
        let time = |row: usize| units::duration(found.listed[row].ns as f64 - zero_ns);
        let grid = Grid {
            id: ui.scope_id().with("messages"),
            columns: &COLUMNS,
            rows: found.listed.len(),
            selected: self.selected.and_then(|place| position(found, place)),
            dimmed: self.paged.is_dimmed(),
            height: ui.available_height(),
            row_role: "message",
        };
        let mut sort = Sort {
            column: TIME,
            descending: self.is_latest_first,
        };
        let response = grid.show(
            ui,
            theme,
            &mut sort,
            |row| format!("{} at {}", found.listed[row].text, time(row)),
            |row, cells| {
                let message = &found.listed[row];
                cells.name(theme.pin, &message.text, "");
                cells.number(&thread_name(message.thread, catalog));
                cells.number(&time(row));
            },
            |row, ui| {
                ui.label(&*found.listed[row].text);
                ui.weak("Click to show it in the flame chart; N and Shift+N go on from there.");
            },
        );
        if response.sorted && sort.column == TIME && self.is_latest_first != sort.descending {
            self.is_latest_first = sort.descending;
            self.paged.restart();
        }
        response.clicked.or(response.moved_to)
    }
}

impl Listing for FoundMessages {
    fn page(&self) -> PageFound {
        PageFound {
            rows: self.listed.len(),
            last: self.listed.last().map(|message| message.rank),
            before: self.before,
            count: self.count,
            all: self.all,
        }
    }
}

fn position(found: &FoundMessages, (thread, ns): (ThreadId, i64)) -> Option<usize> {
    let is_it = |message: &super::ListedMessage| (message.thread, message.ns) == (thread, ns);
    found.listed.iter().position(is_it)
}
