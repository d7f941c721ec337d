//! Which tracks are shown, and in which order: the user's choices, and their menu.

use egui::containers::menu::{MenuButton, MenuConfig};
use egui::{PopupCloseBehavior, ScrollArea, TextEdit, Ui};
use vor_capture::units;

use super::FlameChart;
use super::layout::{TrackOrder, track_name};
use crate::sketch::shortened;
use crate::store::{Store, TrackId};
use crate::view::SpanRef;

/// Most tracks in the menu; the filter finds the others.
const MAX_LISTED: usize = 200;

impl FlameChart {
    /// Returns whether a track is hidden by itself, apart from the filter.
    #[must_use]
    pub fn is_hidden(&self, track: TrackId) -> bool {
        self.arrangement.is_hidden(track)
    }

    /// Hides a track, or shows it again.
    pub fn set_hidden(&mut self, track: TrackId, hidden: bool) {
        self.arrangement.set_hidden(track, hidden);
    }

    /// Shows all tracks again.
    pub fn show_all_tracks(&mut self) {
        self.arrangement.show_all();
        self.track_filter.clear();
    }

    /// Returns whether a track is pinned above all others.
    #[must_use]
    pub fn is_pinned(&self, track: TrackId) -> bool {
        self.arrangement.is_pinned(track)
    }

    /// Pins a track above all others, or not.
    pub fn set_pinned(&mut self, track: TrackId, pinned: bool) {
        self.arrangement.set_pinned(track, pinned);
    }

    /// Shows only the tracks whose names contain a text, in upper or lower case, and pinned ones.
    pub fn set_track_filter(&mut self, filter: &str) {
        filter.clone_into(&mut self.track_filter);
        self.arrangement.set_filter(filter);
    }

    /// Makes the threads of each pool a group that collapses, or not: those whose names differ only
    /// in the number at their end. It is off at first.
    pub fn set_grouped(&mut self, is_grouped: bool) {
        self.arrangement.set_grouped(is_grouped);
    }

    /// Shows only the name of a group, or its tracks, too.
    pub fn set_group_collapsed(&mut self, group: &str, is_collapsed: bool) {
        self.arrangement.set_group_collapsed(group, is_collapsed);
    }

    /// Sets the order of the tracks; moved ones take their places in it.
    pub fn set_track_order(&mut self, order: TrackOrder) {
        self.arrangement.set_order(order);
    }

    /// Shows the track of a span, whatever hid it. Returns whether it was hidden.
    pub(super) fn reveal_track(&mut self, store: &Store, span: &SpanRef) -> bool {
        let is_placed = self.placed.iter().any(|placed| placed.id == span.track);
        if !is_placed {
            self.arrangement.reveal(span.track, store.catalog());
            if self.arrangement.has_no_filter() {
                self.track_filter.clear();
            }
        }
        !is_placed
    }

    /// Shows a button with the menu.
    pub(crate) fn track_menu(&mut self, ui: &mut Ui, store: &Store) {
        let hidden = self.arrangement.hidden_count(store);
        let text = match hidden {
            0 => "Tracks".to_owned(),
            _ => format!("Tracks ({} hidden)", units::count(hidden as u64)),
        };
        let config = MenuConfig::new().close_behavior(PopupCloseBehavior::CloseOnClickOutside);
        let (button, _) = MenuButton::new(text).config(config).ui(ui, |ui| {
            self.menu(ui, store);
        });
        button.on_hover_text("Filters, hides, pins and sorts the tracks of the flame chart");
    }

    fn menu(&mut self, ui: &mut Ui, store: &Store) {
        let mut filter = self.track_filter.clone();
        let field = TextEdit::singleline(&mut filter)
            .align(egui::Align2::LEFT_CENTER)
            .hint_text("filter by name");
        let field = ui.add(field).accessible_name("filter tracks");
        if field.changed() {
            self.set_track_filter(&filter);
        }
        ui.horizontal(|ui| {
            for order in TrackOrder::ALL {
                let is_it = self.arrangement.order() == order;
                if ui.selectable_label(is_it, order.name()).clicked() {
                    self.set_track_order(order);
                }
            }
        });
        ui.horizontal(|ui| {
            if ui.button("Show all").clicked() {
                self.show_all_tracks();
            }
            let mut is_grouped = self.arrangement.is_grouped();
            let field = ui.checkbox(&mut is_grouped, "group threads of a pool");
            let field = field.on_hover_text("Threads whose names differ only in a number");
            if field.changed() {
                self.set_grouped(is_grouped);
            }
        });
        ui.separator();
        let wanted = self.track_filter.trim().to_lowercase();
        let tracks = store.shown_tracks().iter();
        let named = tracks.map(|track| (track.id, track_name(track.id, store.catalog())));
        let mut listed: Vec<_> = named
            .filter(|(_, name)| wanted.is_empty() || name.to_lowercase().contains(&wanted))
            .collect();
        let more = listed.len().saturating_sub(MAX_LISTED);
        listed.truncate(MAX_LISTED);
        ScrollArea::vertical().max_height(360.0).show(ui, |ui| {
            for (id, name) in listed {
                ui.horizontal(|ui| {
                    let mut is_shown = !self.is_hidden(id);
                    if ui.checkbox(&mut is_shown, shortened(&name)).changed() {
                        self.set_hidden(id, !is_shown);
                    }
                    let mut is_pinned = self.is_pinned(id);
                    let pin = ui.toggle_value(&mut is_pinned, "pin");
                    let pin = pin.on_hover_text("Above the others, whatever the filter is");
                    if pin.changed() {
                        self.set_pinned(id, is_pinned);
                    }
                });
            }
            if more > 0 {
                ui.weak(format!("{} more", units::count(more as u64)));
            }
        });
    }
}
