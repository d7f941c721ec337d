//! Two captures: one below the other, or compared.

use egui::{Panel, Ui};
use vor_viz::compare::{Compare, Side};
use vor_viz::replay::ReplayState;
use vor_viz::store::Extent;
use vor_viz::theme::{Theme, space};

/// The display of two captures.
#[derive(Debug, Default)]
pub(crate) struct Pair {
    compares: bool,
    compare: Compare,
    /// Which spans the comparison measures.
    extent: Extent,
}

impl Pair {
    /// Shows them.
    pub(crate) fn show(&mut self, ui: &mut Ui, one: &mut ReplayState, other: &mut ReplayState) {
        ui.horizontal(|ui| {
            ui.selectable_value(&mut self.compares, false, "Both captures")
                .on_hover_text("One below the other");
            ui.selectable_value(&mut self.compares, true, "Compare them")
                .on_hover_text("Scopes and stacks of both, and how they differ");
        });
        if self.compares {
            self.compare(ui, one, other);
        } else {
            both(ui, one, other);
        }
    }

    /// Shows the differences between two captures: of what is selected in each, else of all.
    fn compare(&mut self, ui: &mut Ui, one: &mut ReplayState, other: &mut ReplayState) {
        one.poll(ui.ctx());
        other.poll(ui.ctx());
        let theme = Theme::of(ui.visuals());
        match (side(one), side(other)) {
            (Some(left), Some(right)) => {
                self.compare
                    .show(ui, &left, &right, &mut self.extent, &theme);
            }
            _ => _ = ui.weak("Both captures must have a frame."),
        }
    }
}

fn side(replay: &ReplayState) -> Option<Side<'_>> {
    let frames = (!replay.is_searching()).then(|| replay.frames_total());
    replay.panel().side(replay.name(), frames)
}

fn both(ui: &mut Ui, one: &mut ReplayState, other: &mut ReplayState) {
    let margin = egui::Margin {
        bottom: space::CELL as i8,
        ..egui::Margin::ZERO
    };
    let first = Panel::top("vor-viz-first")
        .frame(egui::Frame::NONE.inner_margin(margin))
        .resizable(true)
        .default_size(ui.available_height() / 2.0);
    first.show(ui, |ui| {
        ui.push_id(0, |ui| one.show(ui));
        ui.allocate_space(ui.available_size());
    });
    ui.add_space(space::CELL);
    ui.push_id(1, |ui| other.show(ui));
}
