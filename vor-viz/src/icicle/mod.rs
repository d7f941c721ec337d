#![allow(missing_docs)]
use crate::{store::Store, theme::Theme, view::View};
#[derive(Clone, Debug, Default)]
pub struct Icicle;
impl Icicle {
    pub fn finish(&mut self, _: &Store, _: &View) {}
    pub fn show(&mut self, ui: &mut egui::Ui, _: &Store, _: &mut View, _: &Theme) {
        ui.label("soon");
    }
}
