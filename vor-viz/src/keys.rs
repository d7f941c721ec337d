//! The keyboard shortcuts, in one table: the panel looks keys up here, and the overlay shows it.

use egui::{Grid, Key, Modifiers, ScrollArea, Ui};

use crate::theme::{Theme, space};

/// A command to the panel from the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Pause on the newest frame, or resume.
    TogglePause,
    /// Go to the previous frame; with a span in focus, to the previous span.
    Previous,
    /// Go to the next frame; with a span in focus, to the next span.
    Next,
    /// Go to the span around the one in focus.
    Parent,
    /// Go to the first span inside the one in focus; without one, to the first span in view.
    Child,
    /// Go to the previous frame, even with a span in focus.
    PreviousFrame,
    /// Go to the next frame, even with a span in focus.
    NextFrame,
    /// Extend the selection of frames to the left.
    ExtendLeft,
    /// Extend the selection of frames to the right.
    ExtendRight,
    /// Go to the first frame.
    FirstFrame,
    /// Go to the last frame.
    LastFrame,
    /// Go to the slowest of the shown frames.
    SlowestFrame,
    /// Zoom in.
    ZoomIn,
    /// Zoom out.
    ZoomOut,
    /// Move the flame chart to earlier times.
    PanLeft,
    /// Move the flame chart to later times.
    PanRight,
    /// Zoom to the span in focus, or to the selected time.
    ZoomToFocus,
    /// Show the whole pinned frame, or all frames without a pin.
    ResetZoom,
    /// Enter the text of a search.
    Search,
    /// Go to the next call of the list of calls; without it, to the next span that matches the
    /// search.
    NextMatch,
    /// Go to the previous row of the list.
    PreviousMatch,
    /// Switch to the next meaning of colours.
    NextColors,
    /// Expand or collapse all tracks.
    ToggleTracks,
    /// Show or hide vor's own cost.
    ToggleLoad,
    /// Show the metrics below the flame chart.
    ShowMetrics,
    /// Show the table of scopes below the flame chart.
    ShowScopes,
    /// Show the aggregated flame graph below the flame chart.
    ShowIcicle,
    /// Show the comparison of frames below the flame chart.
    ShowCompare,
    /// Keep what is looked at as a bookmark.
    Bookmark,
    /// Move the focus along an arrow.
    AlongArrow,
    /// Move the focus back along an arrow.
    BackAlongArrow,
    /// Show the lists of calls, messages and frames below the flame chart.
    ShowFind,
    /// Show or hide this table.
    ToggleHelp,
    /// Leave the active state: help, focus, selection or pin.
    Leave,
}

/// A key with its command and the text of the overlay.
#[derive(Clone, Copy, Debug)]
pub struct Shortcut {
    /// The modifiers that must be held.
    pub modifiers: Modifiers,
    /// The key.
    pub key: Key,
    /// Its command.
    pub command: Command,
    /// The text in the overlay; empty for a second key of the same command.
    pub text: &'static str,
}

const fn key(key: Key, command: Command, text: &'static str) -> Shortcut {
    Shortcut {
        modifiers: Modifiers::NONE,
        key,
        command,
        text,
    }
}

const fn shift(key: Key, command: Command, text: &'static str) -> Shortcut {
    Shortcut {
        modifiers: Modifiers::SHIFT,
        key,
        command,
        text,
    }
}

/// All keys, in the order of the overlay. Keys with modifiers come before the same keys without.
pub const SHORTCUTS: &[Shortcut] = &[
    key(
        Key::Space,
        Command::TogglePause,
        "pause on the newest frame, or go on",
    ),
    shift(
        Key::ArrowLeft,
        Command::ExtendLeft,
        "extend the selection of frames to the left",
    ),
    shift(
        Key::ArrowRight,
        Command::ExtendRight,
        "extend the selection of frames to the right",
    ),
    key(
        Key::ArrowLeft,
        Command::Previous,
        "previous frame; with a span in focus, previous span",
    ),
    key(
        Key::ArrowRight,
        Command::Next,
        "next frame; with a span in focus, next span",
    ),
    key(
        Key::ArrowUp,
        Command::Parent,
        "the span around the one in focus",
    ),
    key(
        Key::ArrowDown,
        Command::Child,
        "the first span inside the one in focus, or in view",
    ),
    shift(
        Key::G,
        Command::BackAlongArrow,
        "back along an arrow to the span in focus",
    ),
    key(
        Key::G,
        Command::AlongArrow,
        "along an arrow from the span in focus",
    ),
    key(
        Key::B,
        Command::Bookmark,
        "keep what is looked at as a bookmark",
    ),
    key(Key::Comma, Command::PreviousFrame, "previous frame"),
    key(Key::Period, Command::NextFrame, "next frame"),
    key(Key::Home, Command::FirstFrame, "first frame"),
    key(Key::End, Command::LastFrame, "last frame"),
    key(
        Key::M,
        Command::SlowestFrame,
        "slowest frame of those shown",
    ),
    key(Key::W, Command::ZoomIn, "zoom in"),
    key(Key::S, Command::ZoomOut, "zoom out"),
    key(Key::A, Command::PanLeft, "earlier"),
    key(Key::D, Command::PanRight, "later"),
    key(
        Key::Z,
        Command::ZoomToFocus,
        "zoom to the span in focus, or to the selected time",
    ),
    key(Key::Enter, Command::ZoomToFocus, ""),
    key(
        Key::R,
        Command::ResetZoom,
        "the whole frame, all frames or the whole capture again",
    ),
    key(Key::Num0, Command::ResetZoom, ""),
    key(Key::F, Command::Search, "search for names"),
    key(Key::Slash, Command::Search, ""),
    shift(Key::N, Command::PreviousMatch, "previous row of the list"),
    key(
        Key::N,
        Command::NextMatch,
        "next row of the list, or next span that is searched for",
    ),
    key(
        Key::C,
        Command::NextColors,
        "colour by scope, thread, duration or wait",
    ),
    key(
        Key::E,
        Command::ToggleTracks,
        "collapse or expand all tracks",
    ),
    key(Key::L, Command::ToggleLoad, "vor's own cost per frame"),
    key(Key::Num1, Command::ShowMetrics, "metrics"),
    key(Key::Num2, Command::ShowScopes, "table of scopes"),
    key(Key::Num3, Command::ShowIcicle, "aggregated flame graph"),
    key(Key::Num4, Command::ShowCompare, "compare frames"),
    key(Key::Num5, Command::ShowFind, "find calls, messages, frames"),
    shift(Key::Questionmark, Command::ToggleHelp, ""),
    shift(Key::Slash, Command::ToggleHelp, ""),
    key(Key::Questionmark, Command::ToggleHelp, "this table"),
    key(
        Key::Escape,
        Command::Leave,
        "out of help, focus, selection, pin: one after the other",
    ),
];

/// The mouse gestures, for the overlay.
pub const MOUSE: &[(&str, &str)] = &[
    (
        "click a bar or plot",
        "pin that frame and pause; drag to scrub",
    ),
    (
        "shift-drag bars or plots",
        "show only those frames, pin the slowest",
    ),
    ("right-click bars or plots", "unpin and go on"),
    ("scroll over the flame chart", "zoom; with shift, move"),
    ("drag the flame chart", "move"),
    (
        "drag its scale, or shift-drag it",
        "select that time for tables and flame graphs",
    ),
    (
        "double-click the flame chart",
        "the whole frame, or all frames, again",
    ),
    (
        "click a span",
        "focus: details at the right, arrows walk from there",
    ),
    (
        "click a track's name",
        "collapse or expand; right-click moves it",
    ),
];

/// Returns the command of a pressed key, and consumes the key.
pub(crate) fn pressed(ui: &Ui) -> Option<Command> {
    ui.input_mut(|input| {
        let found = SHORTCUTS.iter().find(|shortcut| {
            input.modifiers.matches_exact(shortcut.modifiers) && input.key_pressed(shortcut.key)
        })?;
        input.consume_key(found.modifiers, found.key);
        Some(found.command)
    })
}

/// Width of the screen in points from which on the keys are in two columns.
const TWO_COLUMNS: f32 = 760.0;

/// Draws the overlay of a panel; returns whether it should be closed.
pub(crate) fn help(ui: &Ui, panel: (&str, u64)) -> bool {
    let screen = ui.ctx().content_rect();
    let columns = if screen.width() < TWO_COLUMNS { 1 } else { 2 };
    let modal = egui::Modal::new(egui::Id::unique(("vor help", panel))).show(ui.ctx(), |ui| {
        Theme::of(ui.visuals()).dress(ui);
        ui.heading("Keys and mouse");
        let height = (screen.height() - 140.0).max(80.0);
        let area = ScrollArea::vertical()
            .max_height(height)
            .min_scrolled_height(height);
        area.show(ui, |ui| {
            keys(ui, columns);
            ui.add_space(space::PART);
            gestures(ui, columns);
        });
        ui.add_space(space::TEXT);
        ui.button("Close").clicked()
    });
    modal.inner || modal.should_close()
}

fn table(name: &str, columns: usize) -> Grid {
    let spacing = [space::SECTION, space::TIGHT];
    Grid::new(name)
        .num_columns(columns)
        .min_row_height(0.0)
        .spacing(spacing)
        .striped(true)
}

/// Lists the keys; the list fills the first column from top to bottom, then the second.
fn keys(ui: &mut Ui, columns: usize) {
    let shown: Vec<&Shortcut> = SHORTCUTS
        .iter()
        .filter(|shortcut| !shortcut.text.is_empty())
        .collect();
    let rows = shown.len().div_ceil(columns);
    table("vor help keys", 2 * columns).show(ui, |ui| {
        for row in 0..rows {
            let of_columns = (0..columns).filter_map(|column| shown.get(column * rows + row));
            for shortcut in of_columns {
                ui.strong(name(shortcut));
                ui.label(shortcut.text);
            }
            ui.end_row();
        }
    });
}

/// Lists what the mouse does. On a narrow screen, each text is below its gesture.
fn gestures(ui: &mut Ui, columns: usize) {
    table("vor help mouse", columns).show(ui, |ui| {
        for (gesture, text) in MOUSE {
            ui.strong(*gesture);
            if columns == 1 {
                ui.end_row();
            }
            ui.label(*text);
            ui.end_row();
        }
    });
}

/// Returns the text of a shortcut: all keys of its command.
fn name(shortcut: &Shortcut) -> String {
    let alike = SHORTCUTS.iter().filter(|other| {
        other.command == shortcut.command && (other.text.is_empty() || other.key == shortcut.key)
    });
    let mut names: Vec<String> = Vec::new();
    for one in alike {
        let plain = match one.key {
            Key::ArrowLeft => "Left",
            Key::ArrowRight => "Right",
            Key::ArrowUp => "Up",
            Key::ArrowDown => "Down",
            Key::Questionmark => "?",
            Key::Slash if one.modifiers.shift => continue,
            other => other.symbol_or_name(),
        };
        let text = match one.modifiers.shift && one.key != Key::Questionmark {
            true => format!("Shift+{plain}"),
            false => plain.to_owned(),
        };
        if !names.contains(&text) {
            names.push(text);
        }
    }
    names.join(", ")
}
