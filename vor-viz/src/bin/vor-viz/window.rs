//! The viewer in a window.

use egui::{Ui, ViewportBuilder, ViewportCommand};

use crate::dialog;
use crate::glyphs::Glyphs;
use crate::viewer::Viewer;

#[derive(Debug)]
struct App {
    viewer: Viewer,
    glyphs: Glyphs,
    /// The current title of the window.
    title: String,
}

/// Opens a window, and returns when it is closed.
///
/// # Errors
///
/// There is no screen or no graphics support.
pub(crate) fn open(mut viewer: Viewer, theme: Option<egui::Theme>) -> eframe::Result {
    viewer.chooser_mut().set_dialog(dialog::ask);
    let title = viewer.title();
    let options = eframe::NativeOptions {
        viewport: ViewportBuilder::default()
            .with_title(&title)
            .with_app_id("vor-viz")
            .with_inner_size([1440.0, 900.0])
            .with_min_inner_size([480.0, 320.0]),
        ..eframe::NativeOptions::default()
    };
    let create = |creation: &eframe::CreationContext<'_>| {
        if let Some(theme) = theme {
            creation.egui_ctx.set_theme(theme);
        }
        let app: Box<dyn eframe::App> = Box::new(App {
            viewer,
            glyphs: Glyphs::default(),
            title,
        });
        Ok(app)
    };
    eframe::run_native("vor-viz", options, Box::new(create))
}

impl eframe::App for App {
    fn ui(&mut self, ui: &mut Ui, _: &mut eframe::Frame) {
        self.viewer.show(ui);
        self.glyphs.update(ui.ctx());
        let title = self.viewer.title();
        if self.title != title {
            ui.ctx()
                .send_viewport_cmd(ViewportCommand::Title(title.clone()));
            self.title = title;
        }
    }
}
