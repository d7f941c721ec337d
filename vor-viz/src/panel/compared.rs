//! The tab of comparisons: what is selected beside what was kept, or a frame beside the median one.

use egui::Ui;

use super::Panel;
use crate::compare::Side;
use crate::replay::Summary;
use crate::scopes::scope_caption;
use crate::store::{FrameId, Store};
use crate::theme::Theme;
use crate::view::Scope;

/// The part that was kept for a comparison. It stays the same when frames come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Baseline {
    Frames(FrameId, FrameId),
    /// A range of time, or the whole capture.
    Range(Scope),
}

impl Baseline {
    fn new(store: &Store, scope: Scope) -> Self {
        match scope {
            Scope::Frames(first, last) => Self::Frames(store.id_at(first), store.id_at(last)),
            _ => Self::Range(scope),
        }
    }

    /// Returns what it is now; `None` if it has left the store.
    fn scope(self, store: &Store) -> Option<Scope> {
        Some(match self {
            Self::Frames(first, last) => {
                Scope::Frames(store.index_of(first)?, store.index_of(last)?)
            }
            Self::Range(scope) => scope,
        })
    }
}

impl Panel {
    /// Returns what a comparison covers, as a side of it; `None` while there is nothing.
    /// `whole_frames` is the number of frames of the whole capture, if that is known.
    #[must_use]
    pub fn side<'a>(&'a self, name: &'a str, whole_frames: Option<u64>) -> Option<Side<'a>> {
        Some(Side {
            name,
            store: &self.store,
            scope: self.view.scope(&self.store)?,
            spans: self.view.spans(),
            whole_frames,
        })
    }

    /// Draws the tab of comparisons; `summary` is of all frames of a capture.
    pub(super) fn compared(&mut self, ui: &mut Ui, theme: &Theme, summary: Option<&Summary>) {
        ui.horizontal(|ui| {
            ui.selectable_value(&mut self.explains, false, "With what was kept")
                .on_hover_text("Other frames, or another selected time");
            ui.selectable_value(&mut self.explains, true, "Why this frame")
                .on_hover_text("The pinned frame beside the median frame");
        });
        match self.explains {
            true => self.why.show(ui, &self.store, &self.view, theme, summary),
            false => self.compare(ui, theme, summary.map(Summary::frames)),
        }
    }

    /// Draws the comparison of what is selected with the baseline.
    fn compare(&mut self, ui: &mut Ui, theme: &Theme, whole_frames: Option<u64>) {
        let Some(scope) = self.view.scope(&self.store) else {
            ui.weak("There are no frames to compare yet.");
            return;
        };
        let now = scope_caption(&self.store, Some(scope));
        let baseline = self
            .baseline
            .and_then(|baseline| baseline.scope(&self.store));
        ui.horizontal(|ui| {
            let hover = "Keeps what is selected or pinned: select something else, and they stand \
                beside each other";
            if ui
                .button(format!("Keep {now}"))
                .on_hover_text(hover)
                .clicked()
            {
                self.baseline = Some(Baseline::new(&self.store, scope));
            }
            match baseline {
                Some(baseline) => {
                    let caption = scope_caption(&self.store, Some(baseline));
                    ui.label(format!("kept: {caption}"));
                }
                None => {
                    ui.weak(
                        "Keep some frames or a selected time, then select others to compare them \
                        with.",
                    );
                }
            }
        });
        let Some(baseline) = baseline.filter(|baseline| *baseline != scope) else {
            return;
        };
        let mut extent = self.view.extent;
        let side = |name, scope| Side {
            name,
            store: &self.store,
            scope,
            spans: self.view.spans(),
            whole_frames,
        };
        let (kept, now) = (side("kept", baseline), side("now", scope));
        self.compare.show(ui, &kept, &now, &mut extent, theme);
        self.view.extent = extent;
    }
}
