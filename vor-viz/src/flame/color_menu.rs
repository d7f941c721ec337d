//! The menu of the meaning of colours, and the legend of waits.

use egui::{ComboBox, Ui};

use super::card::swatch;
use super::{ColorBy, FlameChart};
use crate::theme::{Theme, WaitMeaning};

impl FlameChart {
    /// Shows the menu. Where colours tell waits, a hover shows their legend.
    pub(crate) fn color_menu(&mut self, ui: &mut Ui, theme: &Theme) {
        let color_by = self.color_by();
        let combo = ComboBox::from_id_salt("vor colours")
            .selected_text(format!("Colour: {}", color_by.name()))
            .show_ui(ui, |ui| {
                for one in ColorBy::ALL {
                    let mut label = ui.selectable_label(one == color_by, one.name());
                    if one == ColorBy::Wait {
                        label = label.on_hover_ui(|ui| legend(ui, theme));
                    }
                    if label.clicked() {
                        self.set_color_by(one);
                    }
                }
            });
        let menu = combo.response.accessible_name("what colours tell");
        if color_by == ColorBy::Wait {
            menu.on_hover_ui(|ui| legend(ui, theme));
        }
    }
}

fn legend(ui: &mut Ui, theme: &Theme) {
    theme.dress(ui);
    for meaning in WaitMeaning::ALL {
        ui.horizontal(|ui| {
            swatch(ui, theme.wait(meaning));
            ui.label(meaning.text());
        });
    }
}
