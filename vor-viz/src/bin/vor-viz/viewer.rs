//! What the window shows: a bar to open captures with, and one capture or two.

use std::path::{Path, PathBuf};

use egui::{CentralPanel, Key, Panel, RichText, TextEdit, Ui};
use vor_viz::replay::ReplayState;
use vor_viz::theme::Theme;

use crate::pair::Pair;
use crate::recent::Recent;
use crate::save;

/// The viewer without its window.
#[derive(Debug)]
pub(crate) struct Viewer {
    /// The captures that are looked at, one below the other.
    shown: Vec<ReplayState>,
    recent: Recent,
    pair: Pair,
    /// The path that is typed.
    typed: String,
    /// Why something could not be done.
    problem: Option<String>,
    /// What was done.
    note: Option<String>,
}

impl Viewer {
    /// Makes a viewer of captures that are open already.
    pub(crate) fn new(shown: Vec<ReplayState>, mut recent: Recent) -> Self {
        for path in shown.iter().rev().filter_map(ReplayState::path) {
            recent.add(path);
        }
        Self {
            shown,
            recent,
            pair: Pair::default(),
            typed: String::new(),
            problem: None,
            note: None,
        }
    }

    /// Returns the captures that are shown.
    #[cfg(test)]
    #[allow(dead_code, reason = "tests of the window ask, those of the program do not")]
    pub(crate) fn shown(&self) -> &[ReplayState] {
        &self.shown
    }

    /// Returns whether nothing that is shown is still on its way.
    pub(crate) fn is_settled(&self) -> bool {
        self.shown.iter().all(ReplayState::is_settled)
    }

    /// Returns what the window is to be called.
    pub(crate) fn title(&self) -> String {
        match &self.shown[..] {
            [] => "vor".to_owned(),
            [one] => format!("{} – vor", one.name()),
            [one, other, ..] => format!("{} and {} – vor", one.name(), other.name()),
        }
    }

    /// Opens captures in the place of those that are shown, or says why not.
    pub(crate) fn open(&mut self, paths: &[PathBuf]) {
        let opened: Result<Vec<_>, _> = paths.iter().map(ReplayState::open).collect();
        match opened {
            Ok(opened) => {
                paths.iter().rev().for_each(|path| self.recent.add(path));
                self.shown = opened;
                self.problem = None;
                self.typed.clear();
            }
            Err(error) => self.problem = Some(error.to_string()),
        }
    }

    /// Shows everything.
    pub(crate) fn show(&mut self, ui: &mut Ui) {
        let dropped = ui.input(|input| {
            let files = input.raw.dropped_files.iter().take(2);
            files.map(|file| file.path().to_owned()).collect::<Vec<_>>()
        });
        if !dropped.is_empty() {
            self.open(&dropped);
        }
        Panel::top("vor-viz-bar").show(ui, |ui| {
            ui.add_space(2.0);
            self.bar(ui);
            self.problem_line(ui);
            ui.add_space(2.0);
        });
        CentralPanel::default().show(ui, |ui| match &mut self.shown[..] {
            [] => self.welcome(ui),
            [one] => one.show(ui),
            [one, other, ..] => self.pair.show(ui, one, other),
        });
        if ui.input(|input| !input.raw.hovered_files.is_empty()) {
            drop_hint(ui);
        }
    }

    fn bar(&mut self, ui: &mut Ui) {
        ui.horizontal(|ui| {
            let mut chosen = None;
            ui.add_enabled_ui(!self.recent.paths().is_empty(), |ui| {
                ui.menu_button("Recent", |ui| chosen = recent_menu(&self.recent, ui))
                    .response
                    .on_hover_text("Captures that were opened before")
                    .on_disabled_hover_text("No capture was opened before");
            });
            let mut exported = None;
            if let [one] = &self.shown[..] {
                exported = save::menu(ui, one);
            }
            match exported {
                Some(Ok(note)) => (self.note, self.problem) = (Some(note), None),
                Some(Err(problem)) => (self.note, self.problem) = (None, Some(problem)),
                None => {}
            }
            ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
                theme_switch(ui);
                let open = ui.button("Open").on_hover_text("Opens the capture at this path");
                let field = TextEdit::singleline(&mut self.typed)
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
            if let Some(path) = chosen {
                self.open(&[path]);
            }
        });
    }

    fn problem_line(&mut self, ui: &mut Ui) {
        let theme = Theme::of(ui.visuals());
        let (problem, color) = match (&self.problem, &self.note) {
            (Some(problem), _) => (problem, theme.bad),
            (None, Some(note)) => (note, theme.weak_text),
            (None, None) => return,
        };
        let mut is_read = false;
        ui.horizontal(|ui| {
            let text = RichText::new(problem).color(color);
            ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
                is_read = ui.small_button("Dismiss").clicked();
                ui.with_layout(egui::Layout::left_to_right(egui::Align::Center), |ui| {
                    ui.add(egui::Label::new(text).truncate()).on_hover_text(problem);
                });
            });
        });
        if is_read {
            self.problem = None;
            self.note = None;
        }
    }

    /// Says how to begin.
    fn welcome(&mut self, ui: &mut Ui) {
        let mut chosen = None;
        ui.vertical_centered(|ui| {
            ui.add_space(ui.available_height() * 0.25);
            ui.heading("No capture is open");
            ui.add_space(6.0);
            ui.label("Drop one on this window, type its path above, or record one:");
            ui.code("VOR_RECORD=run.vor your-program");
            if !self.recent.paths().is_empty() {
                ui.add_space(18.0);
                ui.label(RichText::new("Opened before").strong());
                chosen = recent_menu(&self.recent, ui);
            }
        });
        if let Some(path) = chosen {
            self.open(&[path]);
        }
    }
}

/// Lists the recent captures; returns the one that was clicked.
fn recent_menu(recent: &Recent, ui: &mut Ui) -> Option<PathBuf> {
    let mut chosen = None;
    for path in recent.paths() {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let folder = path.parent().unwrap_or(Path::new("")).display();
        let button = egui::Button::new(name).right_text(RichText::new(shortened(&folder.to_string())).weak());
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

/// Returns the end of a folder's path, which tells more than its begin.
fn shortened(folder: &str) -> String {
    const MOST: usize = 40;
    let count = folder.chars().count();
    if count <= MOST {
        return folder.to_owned();
    }
    let end: String = folder.chars().skip(count - MOST + 1).collect();
    format!("…{end}")
}

/// Adds a button that changes between light and dark.
fn theme_switch(ui: &mut Ui) {
    let is_dark = ui.visuals().dark_mode;
    let (name, to) = if is_dark {
        ("Light", egui::Theme::Light)
    } else {
        ("Dark", egui::Theme::Dark)
    };
    let button = ui
        .button(name)
        .on_hover_text("Changes between light and dark colours");
    if button.clicked() {
        ui.ctx().set_theme(to);
    }
}

/// Says over everything else that files may be let go here.
fn drop_hint(ui: &Ui) {
    let layer = egui::LayerId::new(egui::Order::Foreground, egui::Id::unique("vor-viz-drop"));
    let painter = ui.ctx().layer_painter(layer);
    let rect = ui.ctx().content_rect();
    painter.rect_filled(rect, 0.0, egui::Color32::from_black_alpha(190));
    let font = egui::FontId::proportional(28.0);
    painter.text(
        rect.center(),
        egui::Align2::CENTER_CENTER,
        "Drop to open",
        font,
        egui::Color32::WHITE,
    );
}
