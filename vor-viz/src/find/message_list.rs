//! The list of messages.

use egui::Ui;
use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::units;

use super::filters::MessageFilters;
use super::messages::{FoundMessages, MessageOptions, Messages};
use super::page::Order;
use super::pages::{PageFound, Pages, Step};
use crate::flame::{seek_moment, thread_name};
use crate::scopes::grid::{Column, Grid, Sort};
use crate::scopes::{Job, copy_buttons, scope_caption, waiting_text};
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
    job: Job<Messages>,
    filters: MessageFilters,
    is_latest_first: bool,
    pages: Pages,
    selected: Option<(ThreadId, i64)>,
    /// The range of the last pass, and the filters: others begin at the first page.
    listed_of: Option<(Option<Scope>, MessageFilters)>,
}

impl MessageList {
    /// Returns the messages that were found, unless others are being looked for.
    pub(super) fn found(&self) -> Option<&FoundMessages> {
        self.job.output().filter(|_| !self.job.is_dimmed())
    }

    fn options(&mut self, catalog: &Catalog) -> MessageOptions {
        let mut options = MessageOptions::default();
        self.filters.apply(&mut options, catalog);
        if self.is_latest_first {
            options.order = Order::Latest;
        }
        options.after = self.pages.after();
        options
    }

    /// Does all work in one pass.
    pub(super) fn finish(&mut self, store: &Store, scope: Option<Scope>) {
        let options = self.options(store.catalog());
        self.job.finish(store, scope, &options);
    }

    /// Goes to the next message or to the previous one. Returns whether there is one.
    pub(super) fn step(&mut self, store: &Store, view: &mut View, forward: bool) -> bool {
        let Some(found) = self.job.output().filter(|_| !self.job.is_dimmed()) else {
            return false;
        };
        let at = self.selected.and_then(|place| position(found, place));
        match self.pages.step(at, &page_of(found), forward) {
            Step::Row(row) => self.go_to(row, store, view),
            Step::OtherPage => true,
            Step::Nowhere => false,
        }
    }

    fn go_to(&mut self, row: usize, store: &Store, view: &mut View) -> bool {
        let Some(message) = self.job.output().and_then(|found| found.listed.get(row)) else {
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
        let now = (scope, self.filters.clone());
        if self.listed_of.as_ref() != Some(&now) {
            self.pages.reset();
            self.listed_of = Some(now);
        }
        let options = self.options(store.catalog());
        self.job.advance(ui, store, view.spans(), scope, &options);
        let page = self.found().map(page_of);
        if let Some(row) = page.and_then(|page| self.pages.arrive(page.rows)) {
            self.go_to(row, store, view);
        }
        ui.horizontal_wrapped(|ui| {
            ui.strong(scope_caption(store, scope));
            choose(ui, view);
            self.filters.show(ui);
            if let Some(found) = self.job.output() {
                let progress = self.job.progress().filter(|_| self.job.is_dimmed());
                self.pages.show(ui, &page_of(found), "messages", progress);
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
        let Some(found) = self.job.output() else {
            ui.weak(waiting_text(view, scope, "looking for messages"));
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
        let found = self.job.output()?;
        let catalog = store.catalog();
        let zero_ns = view.zero_ns(store);
        let time = |row: usize| units::duration(found.listed[row].ns as f64 - zero_ns);
        let grid = Grid {
            id: ui.scope_id().with("messages"),
            columns: &COLUMNS,
            rows: found.listed.len(),
            selected: self.selected.and_then(|place| position(found, place)),
            dimmed: self.job.is_dimmed(),
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
            self.pages.reset();
        }
        response.clicked.or(response.moved_to)
    }
}

fn page_of(found: &FoundMessages) -> PageFound {
    PageFound {
        rows: found.listed.len(),
        last: found.listed.last().map(|message| message.rank),
        before: found.before,
        count: found.count,
        all: found.all,
    }
}

fn position(found: &FoundMessages, (thread, ns): (ThreadId, i64)) -> Option<usize> {
    let is_it = |message: &super::ListedMessage| (message.thread, message.ns) == (thread, ns);
    found.listed.iter().position(is_it)
}
