//! The list of bookmarks.

use egui::{TextEdit, Ui};
use vor_capture::units;

use crate::scopes::grid::{Column, Grid, Sort};
use crate::sheet::copy_buttons;
use crate::store::Store;
use crate::theme::Theme;
use crate::view::View;

const COLUMNS: [Column; 3] = [
    Column {
        title: "note",
        hint: "What was noted",
        digits: 0.0,
    },
    Column {
        title: "begin",
        hint: "When its time begins, from the begin of the scale above the flame chart",
        digits: 12.0,
    },
    Column {
        title: "length",
        hint: "The length of its time",
        digits: 10.0,
    },
];

/// The list, and the note that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct BookmarkList {
    selected: Option<usize>,
    note: String,
    /// Whether the field of the note gets the keyboard focus in this pass.
    wants_focus: bool,
}

impl BookmarkList {
    /// Selects a bookmark, whose note is to be written.
    pub(super) fn write_note(&mut self, at: usize, view: &View) {
        self.select(at, view);
        self.wants_focus = true;
    }

    fn select(&mut self, at: usize, view: &View) {
        self.selected = Some(at);
        let bookmark = view.bookmarks.list().get(at);
        self.note = bookmark.map_or_else(String::new, |bookmark| bookmark.note.clone());
    }

    /// Goes to the next bookmark or to the previous one. Returns whether there is one.
    pub(super) fn step(&mut self, store: &Store, view: &mut View, forward: bool) -> bool {
        let count = view.bookmarks.list().len();
        let at = match (self.selected, forward) {
            (None, true) => Some(0),
            (None, false) => count.checked_sub(1),
            (Some(at), true) => Some(at + 1),
            (Some(at), false) => at.checked_sub(1),
        };
        let Some(at) = at.filter(|&at| at < count) else {
            return false;
        };
        self.go_to(at, store, view);
        true
    }

    fn go_to(&mut self, at: usize, store: &Store, view: &mut View) {
        self.select(at, view);
        if let Some(bookmark) = view.bookmarks.list().get(at) {
            let zero_ns = view.zero_ns(store) as i64;
            let (begin_ns, end_ns) = bookmark.time_ns;
            let begin_ns = begin_ns.saturating_add(zero_ns);
            view.go_to_time(store, begin_ns, end_ns.saturating_add(zero_ns));
        }
    }

    /// Shows the line above the list, with `choose` in it, and the list.
    pub(super) fn show(
        &mut self,
        ui: &mut Ui,
        store: &Store,
        view: &mut View,
        theme: &Theme,
        choose: impl FnOnce(&mut Ui, &View),
    ) {
        let count = view.bookmarks.list().len();
        self.selected = self.selected.filter(|&at| at < count);
        ui.horizontal_wrapped(|ui| {
            choose(ui, view);
            ui.weak(match count {
                1 => "1 bookmark".to_owned(),
                _ => format!("{} bookmarks", units::count(count as u64)),
            });
            copy_buttons(ui, &["note", "begin_ns", "end_ns"], |sheet| {
                for bookmark in view.bookmarks.list() {
                    let (begin_ns, end_ns) = bookmark.time_ns;
                    let times = [begin_ns, end_ns].map(|ns| ns.to_string());
                    sheet.row([&bookmark.note, &times[0], &times[1]]);
                }
            });
            let Some(at) = self.selected else {
                return;
            };
            let field = TextEdit::singleline(&mut self.note)
                .align(egui::Align2::LEFT_CENTER)
                .hint_text("note")
                .desired_width(320.0);
            let field = ui.add(field).accessible_name("note of the bookmark");
            if std::mem::take(&mut self.wants_focus) {
                field.request_focus();
            }
            if field.lost_focus() {
                view.bookmarks.set_note(at, &self.note);
            }
            if ui.button("Delete").clicked() {
                view.bookmarks.remove(at);
                self.selected = None;
            }
        });
        let list = view.bookmarks.list();
        if list.is_empty() {
            ui.weak(
                "B keeps the selected time, the span in focus, the pinned frame or the shown time \
                 as a bookmark.",
            );
            return;
        }
        let begin = |row: usize| units::duration(list[row].time_ns.0 as f64);
        let grid = Grid {
            id: ui.scope_id().with("bookmarks"),
            columns: &COLUMNS,
            rows: list.len(),
            selected: self.selected,
            dimmed: false,
            height: ui.available_height(),
            row_role: "bookmark",
        };
        // They come by time; there is no other order.
        let mut sort = Sort {
            column: 1,
            descending: false,
        };
        let response = grid.show(
            ui,
            theme,
            &mut sort,
            |row| format!("{} at {}", list[row].note, begin(row)),
            |row, cells| {
                let (begin_ns, end_ns) = list[row].time_ns;
                cells.name(theme.line, &list[row].note, "");
                cells.number(&begin(row));
                cells.number(&units::duration(end_ns.saturating_sub(begin_ns) as f64));
            },
            |row, ui| {
                ui.label(&list[row].note);
                ui.weak("Click to select its time; N and Shift+N go on from there.");
            },
        );
        if let Some(row) = response.clicked.or(response.moved_to) {
            self.go_to(row, store, view);
        }
    }
}
