//! The tab: what is listed, and the list.

use egui::{ComboBox, PopupCloseBehavior, ScrollArea, TextEdit, Ui};
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::units;

use super::bookmark_list::BookmarkList;
use super::call_list::CallList;
use super::instances::Found;
use super::message_list::MessageList;
use super::messages::FoundMessages;
use super::page::Order;
use super::slow_frames::SlowFrames;
use crate::replay::Summary;
use crate::sketch::shortened;
use crate::store::Store;
use crate::theme::Theme;
use crate::view::{Scope, View};

/// Most scopes in the menu; a text finds the others.
const MAX_CHOICES: usize = 200;

/// The contents of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listed {
    /// The slowest frames.
    #[default]
    Frames,
    /// Messages.
    Messages,
    /// Bookmarks.
    Bookmarks,
    /// The calls of a scope.
    Calls(SiteId),
}

/// The tab.
#[derive(Clone, Debug, Default)]
pub struct Find {
    listed: Listed,
    calls: CallList,
    messages: MessageList,
    bookmarks: BookmarkList,
    slow: SlowFrames,
    choice: Choice,
}

/// The choices in the tab.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FindAction {
    /// A frame of the capture, counted from 0.
    GoTo(u64),
}

impl Find {
    /// Lists something else from now on.
    pub fn list(&mut self, listed: Listed) {
        if self.listed != listed {
            self.listed = listed;
            self.calls = self.calls.in_same_order();
        }
    }

    /// Returns what is listed.
    #[must_use]
    pub fn listed(&self) -> Listed {
        self.listed
    }

    /// Returns the calls that were found, unless others are being looked for.
    #[must_use]
    pub fn found(&self) -> Option<&Found> {
        self.calls.found()
    }

    /// Returns the messages that were found, unless others are being looked for.
    #[must_use]
    pub fn found_messages(&self) -> Option<&FoundMessages> {
        self.messages.found()
    }

    /// Sets the order of calls.
    pub fn set_order(&mut self, order: Order) {
        self.calls.set_order(order);
    }

    /// Forgets everything that was found.
    pub(crate) fn forget(&mut self) {
        *self = Self {
            calls: self.calls.in_same_order(),
            ..Self::default()
        };
    }

    /// Returns the range of the list: the selected one, else everything, although a frame is
    /// pinned. Otherwise the list would end where one goes to a call.
    fn scope(store: &Store, view: &View) -> Option<Scope> {
        match view.time_selection() {
            Some(_) => view.scope(store),
            None => view.wide_scope(store),
        }
    }

    /// Does all work in one pass, for screenshots and tests.
    pub fn finish(&mut self, store: &Store, view: &View) {
        let scope = Self::scope(store, view);
        if view.asks(scope) {
            return;
        }
        match self.listed {
            Listed::Frames | Listed::Bookmarks => {}
            Listed::Messages => self.messages.finish(store, scope),
            Listed::Calls(site) => self.calls.finish(site, store, view, scope),
        }
    }

    /// Lists the bookmarks, with the note of one to be written.
    pub(crate) fn write_note(&mut self, at: usize, view: &View) {
        self.list(Listed::Bookmarks);
        self.bookmarks.write_note(at, view);
    }

    /// Goes to the next row of the list, or to the previous one; beyond the page, to the next or
    /// previous page. Returns whether there is one.
    pub fn step(&mut self, store: &Store, view: &mut View, forward: bool) -> bool {
        match self.listed {
            Listed::Frames => false,
            Listed::Messages => self.messages.step(store, view, forward),
            Listed::Bookmarks => self.bookmarks.step(store, view, forward),
            Listed::Calls(_) => self.calls.step(store, view, forward),
        }
    }

    /// Shows the tab in all available space. `summary` is of all frames of a capture.
    pub(crate) fn show(
        &mut self,
        ui: &mut Ui,
        store: &Store,
        view: &mut View,
        theme: &Theme,
        summary: Option<&Summary>,
    ) -> Option<FindAction> {
        let scope = Self::scope(store, view);
        let Self { listed, choice, .. } = self;
        let listed = *listed;
        let mut chosen = None;
        let choose = |ui: &mut Ui, view: &View| chosen = choice.show(ui, listed, store, view);
        let frame = match listed {
            Listed::Frames => {
                let of = (scope, summary);
                self.slow.show(ui, store, view, theme, of, choose)
            }
            Listed::Messages => {
                self.messages.show(ui, store, view, theme, scope, choose);
                None
            }
            Listed::Bookmarks => {
                self.bookmarks.show(ui, store, view, theme, choose);
                None
            }
            Listed::Calls(site) => {
                let of = (site, scope);
                self.calls.show(ui, store, view, theme, of, choose);
                None
            }
        };
        if let Some(chosen) = chosen {
            self.list(chosen);
        }
        frame.map(FindAction::GoTo)
    }
}

/// The menu of what is listed.
#[derive(Clone, Debug, Default)]
struct Choice {
    /// The text that names of scopes must contain.
    text: String,
}

impl Choice {
    /// Shows the menu, and a button for the calls of the span in focus. Returns what was chosen.
    fn show(&mut self, ui: &mut Ui, listed: Listed, store: &Store, view: &View) -> Option<Listed> {
        let catalog = store.catalog();
        let name = match listed {
            Listed::Frames => "slowest frames".to_owned(),
            Listed::Messages => "messages".to_owned(),
            Listed::Bookmarks => "bookmarks".to_owned(),
            Listed::Calls(site) => shortened(catalog.site_name(site)).into_owned(),
        };
        let mut chosen = None;
        let combo = ComboBox::from_id_salt("vor find")
            .selected_text(name)
            .width(220.0)
            .close_behavior(PopupCloseBehavior::CloseOnClickOutside)
            .show_ui(ui, |ui| {
                ui.add(
                    TextEdit::singleline(&mut self.text)
                        .align(egui::Align2::LEFT_CENTER)
                        .hint_text("name of a scope"),
                )
                .accessible_name("name of the scope to list");
                let lists = [
                    (Listed::Frames, "slowest frames"),
                    (Listed::Messages, "messages"),
                    (Listed::Bookmarks, "bookmarks"),
                ];
                // Only a capture has bookmarks.
                let count = lists.len() - usize::from(view.whole().is_none());
                for (one, name) in lists.into_iter().take(count) {
                    if ui.selectable_label(listed == one, name).clicked() {
                        chosen = Some(one);
                    }
                }
                ScrollArea::vertical().max_height(320.0).show(ui, |ui| {
                    let (names, more) = choices(catalog, &self.text);
                    for (site, name) in names {
                        let one = Listed::Calls(site);
                        if ui
                            .selectable_label(listed == one, shortened(name))
                            .clicked()
                        {
                            chosen = Some(one);
                        }
                    }
                    if more > 0 {
                        ui.weak(format!("{} more", units::count(more as u64)));
                    }
                });
                if chosen.is_some() {
                    ui.close();
                }
            });
        combo.response.accessible_name("what is listed");
        let focused = view.focus.map(|focus| focus.span.site);
        if let Some(site) = focused.filter(|site| Listed::Calls(*site) != listed) {
            let name = shortened(catalog.site_name(site)).into_owned();
            let button = ui.button(format!("calls of {name}"));
            if button
                .on_hover_text("Lists the calls of the span in focus")
                .clicked()
            {
                chosen = Some(Listed::Calls(site));
            }
        }
        chosen
    }
}

/// Returns the scopes whose names contain a text, by name, and the number of those left out.
fn choices<'a>(catalog: &'a Catalog, text: &str) -> (Vec<(SiteId, &'a str)>, usize) {
    let text = text.trim().to_lowercase();
    let sites = (1..).map(SiteId).zip(catalog.sites.iter());
    let named = sites.filter_map(|(id, site)| Some((id, &*site.as_ref()?.name)));
    let mut all: Vec<(SiteId, &str)> = named
        .filter(|(_, name)| text.is_empty() || name.to_lowercase().contains(&text))
        .collect();
    all.sort_by_key(|(id, name)| (*name, *id));
    let more = all.len().saturating_sub(MAX_CHOICES);
    all.truncate(MAX_CHOICES);
    (all, more)
}
