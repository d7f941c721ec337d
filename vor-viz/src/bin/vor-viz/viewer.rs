//! The content of the window: a bar to open captures, and one capture or two.

use egui::{CentralPanel, Panel, RichText, Ui};
use vor_viz::replay::{Place, ReplayState};
use vor_viz::theme::{Theme, space, text};

#[cfg(not(target_arch = "wasm32"))]
use crate::bookmark_file;
use crate::chooser::{Chooser, Opened};
use crate::export_menu::Saved;
use crate::link;
use crate::pair::Pair;
use crate::save;

/// The viewer without its window or page.
#[derive(Debug)]
pub(crate) struct Viewer {
    /// The shown captures, one below the other.
    shown: Vec<ReplayState>,
    chooser: Chooser,
    pair: Pair,
    /// The latest error.
    problem: Option<String>,
    /// The result of the latest action.
    note: Option<String>,
    /// The place to go to in the next capture that is opened.
    awaited: Option<Place>,
    /// Folders of source files; `None` where none are looked for.
    #[cfg(not(target_arch = "wasm32"))]
    sources: Option<Vec<std::path::PathBuf>>,
    /// The path of a temporary capture, and what it is a copy of.
    #[cfg(not(target_arch = "wasm32"))]
    copy_of: Option<(std::path::PathBuf, String)>,
    /// An export that is being written.
    #[cfg(not(target_arch = "wasm32"))]
    exporting: Option<std::sync::mpsc::Receiver<Saved>>,
}

impl Viewer {
    /// Makes a viewer of opened captures.
    #[cfg_attr(target_arch = "wasm32", allow(unused_mut))]
    pub(crate) fn new(mut shown: Vec<ReplayState>, mut chooser: Chooser) -> Self {
        chooser.note(&shown);
        #[cfg(not(target_arch = "wasm32"))]
        shown.iter_mut().for_each(bookmark_file::read);
        Self {
            shown,
            chooser,
            pair: Pair::default(),
            problem: None,
            note: None,
            awaited: None,
            #[cfg(not(target_arch = "wasm32"))]
            sources: None,
            #[cfg(not(target_arch = "wasm32"))]
            copy_of: None,
            #[cfg(not(target_arch = "wasm32"))]
            exporting: None,
        }
    }

    /// Makes links lead to what the first capture is a copy of.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn copy_of(mut self, what: Option<String>) -> Self {
        let path = self.shown.first().and_then(ReplayState::path);
        self.copy_of = path.map(std::path::Path::to_owned).zip(what);
        self
    }

    /// Looks for source files in some folders, in the present one, and in those above each capture.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn with_sources(mut self, mut folders: Vec<std::path::PathBuf>) -> Self {
        folders.extend(std::env::current_dir());
        self.sources = Some(folders);
        self.tell_sources();
        self
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn tell_sources(&mut self) {
        let Some(folders) = &self.sources else {
            return;
        };
        for replay in &mut self.shown {
            let path = replay
                .path()
                .and_then(|path| std::path::absolute(path).ok());
            let above = path.iter().flat_map(|path| path.ancestors().skip(1));
            let above: Vec<_> = above.map(std::path::Path::to_owned).collect();
            let all = folders.iter().cloned().chain(above).collect();
            replay.panel_mut().chart_mut().set_source_folders(all);
        }
    }

    #[cfg(target_arch = "wasm32")]
    fn tell_sources(&mut self) {}

    /// Goes to a place in the next capture that is opened.
    #[cfg(target_arch = "wasm32")]
    pub(crate) fn go_to_when_opened(&mut self, place: Place) {
        self.awaited = Some(place);
    }

    /// Returns the shown captures.
    #[allow(dead_code, reason = "only the page and the tests of the window use it")]
    pub(crate) fn shown(&self) -> &[ReplayState] {
        &self.shown
    }

    /// Selects a time of the first capture, in nanoseconds.
    #[cfg(all(test, not(target_arch = "wasm32")))]
    pub(crate) fn select_time(&mut self, begin_ns: i64, end_ns: i64) {
        let panel = self.shown[0].panel_mut();
        let (store, view) = panel.parts();
        view.select_time(store, begin_ns, end_ns);
    }

    /// Returns whether everything shown is completely loaded.
    pub(crate) fn is_settled(&self) -> bool {
        self.chooser.is_idle() && self.shown.iter().all(ReplayState::is_settled)
    }

    /// Returns the title of the window.
    #[cfg(any(feature = "viewer", test))]
    pub(crate) fn title(&self) -> String {
        match &self.shown[..] {
            [] => "vor".to_owned(),
            [one] => format!("{} – vor", one.name()),
            [one, other, ..] => format!("{} and {} – vor", one.name(), other.name()),
        }
    }

    /// Returns the latest error, in one line.
    #[allow(dead_code, reason = "only the page and the tests of the window use it")]
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns the part that opens captures.
    #[allow(dead_code, reason = "only the tests of the window use it")]
    pub(crate) fn chooser_mut(&mut self) -> &mut Chooser {
        &mut self.chooser
    }

    /// Replaces the shown captures, or shows the error.
    pub(crate) fn take(&mut self, opened: Opened) {
        match opened {
            Ok(opened) => {
                self.shown = opened;
                self.problem = None;
                self.tell_sources();
                #[cfg(not(target_arch = "wasm32"))]
                self.shown.iter_mut().for_each(bookmark_file::read);
                if let (Some(place), Some(first)) = (self.awaited.take(), self.shown.first_mut()) {
                    first.go_to_place(place);
                }
            }
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// Shows everything.
    pub(crate) fn show(&mut self, ui: &mut Ui) {
        if let Some(opened) = self.chooser.begin_pass(ui) {
            self.take(opened);
        }
        Theme::of(ui.visuals()).dress(ui);
        Panel::top("vor-viz-bar").show(ui, |ui| {
            ui.add_space(space::TIGHT);
            self.bar(ui);
            self.problem_line(ui);
            ui.add_space(space::TIGHT);
        });
        CentralPanel::default().show(ui, |ui| match &mut self.shown[..] {
            [] => self.welcome(ui),
            [one] => one.show(ui),
            [one, other, ..] => self.pair.show(ui, one, other),
        });
        #[cfg(not(target_arch = "wasm32"))]
        for replay in &mut self.shown {
            if let Err(problem) = bookmark_file::keep(replay) {
                self.problem = Some(problem);
            }
        }
        if ui.input(|input| !input.raw.hovered_files.is_empty()) {
            drop_hint(ui);
        }
    }

    fn bar(&mut self, ui: &mut Ui) {
        let opened = ui.horizontal(|ui| {
            self.export(ui);
            self.copy_link(ui);
            self.chooser.bar(ui, theme_switch)
        });
        if let Some(opened) = opened.inner {
            self.take(opened);
        }
    }

    /// Shows a button that copies what opens the shown place again.
    fn copy_link(&mut self, ui: &mut Ui) {
        let [one] = &self.shown[..] else {
            return;
        };
        #[cfg(not(target_arch = "wasm32"))]
        let link = {
            let copied = self.copy_of.as_ref();
            let copied = copied.filter(|(path, _)| Some(path.as_path()) == one.path());
            link::to(one, copied.map(|(_, what)| what.as_str()), one.place())
        };
        #[cfg(target_arch = "wasm32")]
        let link = link::to(one.place());
        let Some(link) = link else {
            return;
        };
        let button = ui.button("Copy link").on_hover_text(format!(
            "Copies what opens the selected time, the pinned frame or the shown time again:\n{link}"
        ));
        if button.clicked() {
            self.note = Some(format!("copied: {link}"));
            ui.copy_text(link);
        }
    }

    /// Shows the export menu for a single capture.
    #[cfg(not(target_arch = "wasm32"))]
    fn export(&mut self, ui: &mut Ui) {
        let done = self
            .exporting
            .as_ref()
            .and_then(|saved| saved.try_recv().ok());
        if let Some(done) = done {
            self.exporting = None;
            self.note_saved(done);
        }
        if self.exporting.is_some() {
            ui.spinner();
            ui.weak("exporting …");
            return;
        }
        let [one] = &self.shown[..] else {
            return;
        };
        match save::menu(ui, one) {
            Some(save::Export::Done(saved)) => self.note_saved(saved),
            Some(save::Export::Running(saved)) => self.exporting = Some(saved),
            None => {}
        }
    }

    fn note_saved(&mut self, saved: Saved) {
        (self.note, self.problem) = match saved {
            Ok(note) => (Some(note), None),
            Err(problem) => (None, Some(problem)),
        };
    }

    /// Shows the export menu for a single capture.
    #[cfg(target_arch = "wasm32")]
    fn export(&mut self, ui: &mut Ui) {
        if let [one] = &self.shown[..]
            && let Some(saved) = save::menu(ui, one)
        {
            self.note_saved(saved);
        }
    }

    fn problem_line(&mut self, ui: &mut Ui) {
        let theme = Theme::of(ui.visuals());
        let (problem, color) = match (&self.problem, &self.note) {
            (Some(problem), _) => (problem, theme.bad_text),
            (None, Some(note)) => (note, theme.weak_text),
            (None, None) => return,
        };
        let mut is_read = false;
        ui.horizontal(|ui| {
            let text = RichText::new(problem).color(color);
            ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
                is_read = ui.small_button("Dismiss").clicked();
                ui.with_layout(egui::Layout::left_to_right(egui::Align::Center), |ui| {
                    ui.add(egui::Label::new(text).truncate())
                        .on_hover_text(problem);
                });
            });
        });
        if is_read {
            self.problem = None;
            self.note = None;
        }
    }

    /// Shows instructions to begin.
    fn welcome(&mut self, ui: &mut Ui) {
        let opened = ui.vertical_centered(|ui| {
            ui.add_space(ui.available_height() * 0.25);
            ui.heading("No capture is open");
            ui.add_space(space::PART);
            self.chooser.welcome(ui)
        });
        if let Some(opened) = opened.inner {
            self.take(opened);
        }
    }
}

/// Adds a button that switches between light and dark.
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

/// Shows over everything else that files can be dropped here.
fn drop_hint(ui: &Ui) {
    let layer = egui::LayerId::new(egui::Order::Foreground, egui::Id::unique("vor-viz-drop"));
    let painter = ui.ctx().layer_painter(layer);
    let rect = ui.ctx().content_rect();
    painter.rect_filled(rect, 0.0, egui::Color32::from_black_alpha(190));
    let font = egui::FontId::proportional(text::TITLE);
    painter.text(
        rect.center(),
        egui::Align2::CENTER_CENTER,
        "Drop to open",
        font,
        egui::Color32::WHITE,
    );
}
