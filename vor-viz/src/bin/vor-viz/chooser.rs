//! Selection of captures on systems with files: by path, from the recent ones, in the system's
//! dialog, or by drag and drop.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use egui::{Key, RichText, TextEdit, Ui};
use vor_viz::replay::ReplayState;
use vor_viz::theme::space;

use crate::recent::Recent;

/// Captures that were opened together, or a one-line error.
pub(crate) type Opened = Result<Vec<ReplayState>, String>;

/// Asks the user for files, and returns them.
pub(crate) type Dialog = fn() -> Vec<PathBuf>;

/// Number of captures that are shown together.
const MAX_SHOWN: usize = 2;

/// The part of the viewer that opens captures.
#[derive(Debug)]
pub(crate) struct Chooser {
    recent: Recent,
    /// The text in the path field.
    typed: String,
    dialog: Option<Dialog>,
    /// The answer of the dialog that is open.
    asked: Option<Receiver<Vec<PathBuf>>>,
}

impl Chooser {
    /// Makes a chooser with the list of recent captures.
    pub(crate) fn new(recent: Recent) -> Self {
        Self {
            recent,
            typed: String::new(),
            dialog: None,
            asked: None,
        }
    }

    /// Sets the dialog that a button opens; without one, there is no button.
    #[cfg(any(feature = "viewer", test))]
    pub(crate) fn set_dialog(&mut self, dialog: Dialog) {
        self.dialog = Some(dialog);
    }

    /// Moves the shown captures to the front of the recent list.
    pub(crate) fn note(&mut self, shown: &[ReplayState]) {
        for path in shown.iter().rev().filter_map(ReplayState::path) {
            self.recent.add(path);
        }
    }

    /// Returns whether no choice is pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.asked.is_none()
    }

    /// Opens captures.
    pub(crate) fn open(&mut self, paths: &[PathBuf]) -> Opened {
        let opened: Result<Vec<_>, _> = paths.iter().map(ReplayState::open_keeping).collect();
        let opened = opened.map_err(|error| error.to_string())?;
        paths.iter().rev().for_each(|path| self.recent.add(path));
        self.typed.clear();
        Ok(opened)
    }

    /// Opens files that were dropped on the window or chosen in the dialog since the last pass.
    pub(crate) fn begin_pass(&mut self, ui: &Ui) -> Option<Opened> {
        let mut files = ui.input(|input| {
            let files = input.raw.dropped_files.iter();
            files.map(|file| file.path().to_owned()).collect::<Vec<_>>()
        });
        files.extend(self.answer().into_iter().flatten());
        files.truncate(MAX_SHOWN);
        (!files.is_empty()).then(|| self.open(&files))
    }

    /// Opens the dialog on a thread of its own, since it blocks.
    fn ask(&mut self, dialog: Dialog, ui: &Ui) {
        let (sender, asked) = channel();
        let ctx = ui.ctx().clone();
        let ask = move || {
            // Nobody waits for the answer after the viewer has closed.
            _ = sender.send(dialog());
            ctx.request_repaint();
        };
        let thread = std::thread::Builder::new().name("dialog".to_owned());
        if thread.spawn(ask).is_ok() {
            self.asked = Some(asked);
        }
    }

    /// Returns the answer of the dialog, once it has one.
    fn answer(&mut self) -> Option<Vec<PathBuf>> {
        let answer = self.asked.as_ref()?.try_recv();
        if answer != Err(TryRecvError::Empty) {
            self.asked = None;
        }
        answer.ok()
    }

    /// Shows its part of the bar, to the left of `right`.
    pub(crate) fn bar(&mut self, ui: &mut Ui, right: impl FnOnce(&mut Ui)) -> Option<Opened> {
        let mut chosen = None;
        ui.add_enabled_ui(!self.recent.paths().is_empty(), |ui| {
            ui.menu_button("Recent", |ui| chosen = recent_menu(&self.recent, ui))
                .response
                .on_hover_text("Captures that were opened before")
                .on_disabled_hover_text("No capture was opened before");
        });
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            right(ui);
            if let Some(dialog) = self.dialog {
                let browse = egui::Button::new("Browse…");
                let browse = ui.add_enabled(self.asked.is_none(), browse);
                if browse
                    .on_hover_text("Chooses one capture, or two to compare")
                    .clicked()
                {
                    self.ask(dialog, ui);
                }
            }
            let open = ui
                .button("Open")
                .on_hover_text("Opens the capture at this path");
            let field = TextEdit::singleline(&mut self.typed)
                .align(egui::Align2::LEFT_CENTER)
                .hint_text("path of a capture, or drop one on the window")
                .desired_width(ui.available_width());
            let field = ui.add(field);
            field.widget_info(|| {
                egui::WidgetInfo::labeled(egui::Role::TextInput, true, "Path of a capture")
            });
            let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
            if (entered || open.clicked()) && !self.typed.trim().is_empty() {
                chosen = Some(PathBuf::from(self.typed.trim()));
            }
        });
        chosen.map(|path| self.open(&[path]))
    }

    /// Shows instructions to begin.
    pub(crate) fn welcome(&mut self, ui: &mut Ui) -> Option<Opened> {
        let mut chosen = None;
        ui.label(match self.dialog {
            Some(_) => "Drop one on this window, browse for one above, or record one:",
            None => "Drop one on this window, type its path above, or record one:",
        });
        ui.code("VOR_RECORD=run.vor VOR_RECORD_SPANS=1 your-program");
        if !self.recent.paths().is_empty() {
            ui.add_space(space::SECTION);
            ui.label(RichText::new("Opened before").strong());
            chosen = recent_menu(&self.recent, ui);
        }
        chosen.map(|path| self.open(&[path]))
    }
}

/// Lists the recent captures; returns the one that was clicked.
fn recent_menu(recent: &Recent, ui: &mut Ui) -> Option<PathBuf> {
    let mut chosen = None;
    for path in recent.paths() {
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        let folder = path.parent().unwrap_or(Path::new("")).display();
        let button = egui::Button::new(name)
            .right_text(RichText::new(shortened(&folder.to_string())).weak());
        if ui
            .add(button.truncate())
            .on_hover_text(path.display().to_string())
            .clicked()
        {
            chosen = Some(path.clone());
        }
    }
    chosen
}

/// Returns the end of a folder's path, which is more specific than its beginning.
fn shortened(folder: &str) -> String {
    const MAX_CHARS: usize = 40;
    let count = folder.chars().count();
    if count <= MAX_CHARS {
        return folder.to_owned();
    }
    let end: String = folder.chars().skip(count - MAX_CHARS + 1).collect();
    format!("…{end}")
}
