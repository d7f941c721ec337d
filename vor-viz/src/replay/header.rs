//! The header of a replayed capture: its name and totals, and the navigation.

use egui::{Align, Align2, Key, Layout, RichText, TextEdit, Ui};
use vor_capture::units;

use super::{FrameNumbers, ReplayState};
use crate::frame_axis::NARROW_WIDTH;
use crate::theme::Theme;

/// Width of the field for a frame's number, in points.
const FIELD_WIDTH: f32 = 90.0;

/// The state of the input field.
#[derive(Clone, Debug, Default)]
pub(super) struct Header {
    typed: Option<String>,
}

impl Header {
    pub(super) fn show(&mut self, replay: &mut ReplayState, ui: &mut Ui) {
        let theme = Theme::of(ui.visuals());
        let is_narrow = ui.available_width() < NARROW_WIDTH;
        if is_narrow {
            ui.horizontal(|ui| facts(replay, ui, &theme));
        }
        ui.horizontal(|ui| {
            // The controls are on the right, so that a long name cannot push them out of view.
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                follow(replay, ui);
                ui.separator();
                self.navigation(replay, ui);
                if is_narrow {
                    return;
                }
                ui.separator();
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    facts(replay, ui, &theme)
                });
            });
        });
        if let Some(problem) = replay.problem() {
            let text = RichText::new(problem).color(theme.bad_text);
            ui.add(egui::Label::new(text).truncate())
                .on_hover_text(problem);
        } else if let Some(notice) = replay.notice() {
            let text = RichText::new(notice).color(theme.weak_text);
            ui.add(egui::Label::new(text).truncate());
        }
    }

    /// Shows the buttons and the field, from right to left.
    fn navigation(&mut self, replay: &mut ReplayState, ui: &mut Ui) {
        let total = replay.frames_total();
        let requested = replay.requested();
        // A frame that was asked for may still be on its way.
        let awaited = requested.filter(|frame| replay.id_of(*frame).is_none());
        let pinned = replay.panel().view().pinned();
        let pinned = pinned.and_then(|id| replay.frame_of(id));
        let current = awaited
            .or(pinned)
            .or(requested)
            .unwrap_or_else(|| replay.window().end.saturating_sub(1));
        ui.add_enabled_ui(total > 0 && !replay.is_searching(), |ui| {
            if button(ui, "›", "Next frame").clicked() {
                replay.go_to(current.saturating_add(1));
                self.typed = None;
            }
            if button(ui, "‹", "Previous frame").clicked() {
                replay.go_to(current.saturating_sub(1));
                self.typed = None;
            }
            let numbers = replay.summary().numbers();
            ui.label(of_all(numbers, total));
            let number = numbers.number(current);
            let mut text = self.typed.take().unwrap_or_else(|| number.to_string());
            let field = TextEdit::singleline(&mut text)
                .align(egui::Align2::LEFT_CENTER)
                .desired_width(FIELD_WIDTH)
                .align(Align2::RIGHT_CENTER);
            let field = ui.add(field);
            let label = ui.label("frame");
            let field = field.labelled_by(label.id).on_hover_text(
                "The program's number of the frame. Enter goes to the one that is typed, or \
                     else to the next one that was kept.",
            );
            if field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter)) {
                if let Some(number) = parsed(&text) {
                    replay.go_to_number(number);
                }
            } else if field.has_focus() {
                self.typed = Some(text);
            }
        });
    }
}

/// Returns the text after a frame's number: how many frames there are, or their numbers if these do
/// not count the frames.
fn of_all(numbers: &FrameNumbers, total: u64) -> String {
    if numbers.are_places() || total == 0 {
        return format!("of {}", units::count(total));
    }
    let [first, last] = [0, total - 1].map(|place| units::count(numbers.number(place)));
    format!("of {first}–{last}")
}

/// Shows the name and the totals of the capture.
fn facts(replay: &ReplayState, ui: &mut Ui, theme: &Theme) {
    let info = replay.info();
    let mut facts = match replay.is_searching() {
        true => "looking for its frames".to_owned(),
        false => units::counted(info.frames, "frame"),
    };
    if info.duration_ns > 0 {
        facts += &format!(", {}", units::duration(info.duration_ns as f64));
    }
    if replay.frames_known() < info.frames {
        let percent = replay.frames_known() as f64 / info.frames as f64 * 100.0;
        facts += &format!(", {percent:.0} % looked at");
    }
    if let Some(progress) = replay.survey_progress() {
        facts += &format!(", {:.0} % read", progress * 100.0);
    }
    let summary = replay.summary();
    let dropped = summary.dropped_spans().max(info.dropped_spans);
    let hover = |ui: &mut Ui| {
        if let Some(path) = replay.path() {
            ui.label(path.display().to_string());
        }
        ui.label(format!(
            "{} spans, {:.1} MB, format {}",
            units::count(info.spans.max(summary.spans())),
            info.file_bytes as f64 / 1e6,
            info.version
        ));
    };
    let facts_width = text_width(ui, &facts) + text_width(ui, "0 000 000 spans dropped") + 24.0;
    ui.scope(|ui| {
        ui.set_max_width((ui.available_width() - facts_width).max(80.0));
        let name = egui::Label::new(RichText::new(replay.name()).strong()).truncate();
        ui.add(name).on_hover_ui(hover);
    });
    ui.add(egui::Label::new(RichText::new(facts).color(theme.weak_text)).truncate());
    if dropped > 0 {
        let text = format!("{} spans dropped", units::count(dropped));
        ui.add(egui::Label::new(RichText::new(text).color(theme.bad_text)).truncate())
            .on_hover_text(
                "Their rings were full when they ended: record less, or drain more often.",
            );
    }
}

fn follow(replay: &mut ReplayState, ui: &mut Ui) {
    let mut follows = replay.follows() && replay.can_follow();
    let hover = if replay.can_follow() {
        "Shows the newest frames as they are written."
    } else {
        "The recorder has closed this capture: no frames will come."
    };
    let checkbox = egui::Checkbox::new(&mut follows, "Follow");
    let response = ui.add_enabled(replay.can_follow(), checkbox);
    let response = response.on_hover_text(hover).on_disabled_hover_text(hover);
    if response.changed() {
        replay.set_follow(follows);
    }
}

/// Adds a button with a symbol and an accessible name.
fn button(ui: &mut Ui, sign: &str, name: &str) -> egui::Response {
    let response = ui.button(sign).on_hover_text(name);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, ui.is_enabled(), name));
    response
}

fn text_width(ui: &Ui, text: &str) -> f32 {
    let font = egui::TextStyle::Body.resolve(ui.style());
    ui.painter()
        .layout_no_wrap(text.to_owned(), font, egui::Color32::WHITE)
        .size()
        .x
}

/// Returns the entered number; white space, commas, underscores and apostrophes are ignored.
fn parsed(text: &str) -> Option<u64> {
    let digits: String = text
        .chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, ',' | '_' | '\''))
        .collect();
    digits.parse().ok()
}
