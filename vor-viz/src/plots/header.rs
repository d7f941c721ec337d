//! The line above the rows of metrics: their filter and order, buttons that copy their values, and
//! the titles of these.

use egui::containers::menu::MenuButton;
use egui::{Align, Align2, FontId, Layout, Margin, Rect, TextEdit, Ui, UiBuilder, vec2};

use super::{Copied, Plots, row};
use crate::frame_axis::axis_rect;
use crate::sketch::{self, Ink};
use crate::theme::{Theme, space, text};

/// Number of rows from which on they can be filtered, sorted and grouped.
const ARRANGED_FROM: usize = 8;

/// Height of the line, in points.
const HEIGHT: f32 = 16.0;

/// Width of the button with the order, in points.
const ORDER_WIDTH: f32 = 40.0;

/// The order of the rows of metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RowOrder {
    /// As the metrics were recorded.
    #[default]
    Recorded,
    /// By name.
    Name,
}

impl RowOrder {
    /// All variants, in the order of the menu.
    pub const ALL: [Self; 2] = [Self::Recorded, Self::Name];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Recorded => "as recorded",
            Self::Name => "by name",
        }
    }
}

impl Plots {
    /// Shows the line.
    pub(super) fn header(
        &mut self,
        ui: &mut Ui,
        value_title: &str,
        rows: usize,
        theme: &Theme,
        copied: &Copied<'_>,
    ) {
        let width = ui.available_width().clamp(0.0, 32_768.0);
        let (_, rect) = ui.allocate_space(vec2(width, HEIGHT));
        if !ui.is_rect_visible(rect) {
            return;
        }
        let is_arranged = !self.filter.is_empty() || self.groups.is_on;
        if rows >= ARRANGED_FROM || is_arranged {
            self.arranging(ui, row::name_rect(rect).shrink2(vec2(space::TIGHT, 0.0)));
        }
        if rows > 0 {
            let place = UiBuilder::new().max_rect(axis_rect(rect));
            ui.scope_builder(place.layout(Layout::left_to_right(Align::Center)), |ui| {
                ui.style_mut().override_font_id = Some(FontId::proportional(text::SMALL));
                copied.buttons(ui);
            });
        }
        let ink = Ink {
            size: text::SMALL,
            color: theme.weak_text,
        };
        let titles = [value_title, "min", "mean", "max"];
        for (cell, title) in row::value_cells(rect).into_iter().zip(titles) {
            let (right, align) = (cell.right_center(), Align2::RIGHT_CENTER);
            let title = title.to_owned();
            sketch::text(ui.painter(), right, align, cell.width(), title, ink);
        }
    }

    /// Shows the filter, and the menu with order and groups.
    fn arranging(&mut self, ui: &mut Ui, place: Rect) {
        let middle = (place.right() - ORDER_WIDTH).max(place.left());
        let field = TextEdit::singleline(&mut self.filter)
            .align(egui::Align2::LEFT_CENTER)
            .hint_text("filter")
            .font(FontId::proportional(text::SMALL))
            .margin(Margin::symmetric(space::TEXT as i8, 0));
        let field = ui.put(place.with_max_x(middle - space::TIGHT), field);
        field.accessible_name("filter metrics");
        let menu = UiBuilder::new().max_rect(place.with_min_x(middle));
        ui.scope_builder(menu, |ui| {
            ui.spacing_mut().button_padding = vec2(space::TEXT, 0.0);
            let text = egui::RichText::new("order").size(text::SMALL);
            let (button, _) = MenuButton::new(text).ui(ui, |ui| {
                for order in RowOrder::ALL {
                    let is_it = self.order == order;
                    if ui.selectable_label(is_it, order.name()).clicked() {
                        self.set_order(order);
                    }
                }
                let mut is_grouped = self.groups.is_on;
                let field = ui.checkbox(&mut is_grouped, "group by the first word");
                if field.changed() {
                    self.set_grouped(is_grouped);
                }
            });
            button.on_hover_text("Sorts and groups the metrics");
        });
    }
}
