//! The menu of formats, in the window and in the page, and the names of the files.

use std::path::Path;

use egui::Ui;
use vor_viz::export::ExportFormat;
use vor_viz::replay::ReplayState;
use vor_viz::view::Scope;

/// The result of an export, as a line to show.
pub(crate) type Saved = Result<String, String>;

/// The part of a capture that is exported.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// Frames in memory, from the first index to the last.
    Frames(usize, usize),
    /// A selected time, in nanoseconds since the begin of the capture. It may be most of a capture,
    /// so it is read from the capture again.
    Time(i64, i64),
}

impl Part {
    /// Returns what is selected; `None` while there is no frame.
    pub(crate) fn selected(replay: &ReplayState) -> Option<Self> {
        let view = replay.panel().view();
        let (first, last) = view.table_frames(replay.store())?;
        let time = view.time_selection();
        Some(
            time.map_or(Self::Frames(first, last), |(begin_ns, end_ns)| {
                Self::Time(begin_ns, end_ns)
            }),
        )
    }

    /// Returns a description.
    fn caption(self, replay: &ReplayState) -> String {
        let scope = match self {
            Self::Frames(first, last) => Scope::Frames(first, last),
            Self::Time(begin_ns, end_ns) => Scope::Time { begin_ns, end_ns },
        };
        vor_viz::scopes::scope_caption(replay.store(), Some(scope))
    }

    /// Returns the name of a file without its extension: `run.frames-800-850` or, in nanoseconds,
    /// `run.time-20000-30000`.
    pub(crate) fn stem(self, replay: &ReplayState) -> String {
        let stem = Path::new(replay.name()).file_stem();
        let stem = stem.map_or_else(|| "capture".into(), |stem| stem.to_string_lossy());
        let frames = replay.store().frames();
        let number = |index: usize| frames.get(index).map_or(0, |frame| frame.number);
        match self {
            Self::Frames(first, last) if first == last => {
                format!("{stem}.frame-{}", number(first))
            }
            Self::Frames(first, last) => {
                format!("{stem}.frames-{}-{}", number(first), number(last))
            }
            Self::Time(begin_ns, end_ns) => format!("{stem}.time-{begin_ns}-{end_ns}"),
        }
    }
}

/// Shows the menu, with more choices from `others`; returns the chosen format.
pub(crate) fn menu(
    ui: &mut Ui,
    replay: &ReplayState,
    part: Part,
    hint: &str,
    others: impl FnOnce(&mut Ui),
) -> Option<ExportFormat> {
    let mut chosen = None;
    let button = ui.menu_button("Export", |ui| {
        ui.weak(part.caption(replay));
        for format in ExportFormat::ALL {
            if ui.button(format.name()).clicked() {
                chosen = Some(format);
            }
        }
        others(ui);
    });
    button.response.on_hover_text(hint);
    chosen
}

/// Returns the addition to a note about frames that could not be read.
pub(crate) fn lost_note(lost: u64) -> String {
    match lost {
        0 => String::new(),
        _ => {
            let frames = vor_capture::units::counted(lost, "frame");
            format!("; {frames} cannot be read and are missing")
        }
    }
}
