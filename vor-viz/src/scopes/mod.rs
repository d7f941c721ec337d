//! A table of scopes, with a histogram and the slowest calls of each.
//!
//! All of it is computed from the spans of some frames, possibly millions. A [`Job`] processes some
//! ten thousand of them per pass of the UI, so that no pass takes long. It stores the result while
//! it is valid. A [`Gather`] defines the computation: sums per call site here ([`ScopeSums`]),
//! stacks in [`icicle`](crate::icicle).
//!
//! ```text
//! Store ─▶ Job (Walk, a slice per pass) ─▶ ScopeRows ─▶ ScopeTable ─▶ Details
//! ```

pub mod job;
pub mod sums;
mod measured_parts;
pub(crate) mod grid;
pub(crate) mod row_order;
mod table;
mod details;
pub(crate) mod histogram;

use egui::{ProgressBar, Ui};
use vor_capture::units;

use crate::store::Store;
use crate::view::{Scope, View};

pub use crate::whole::Spans;
pub use job::{Gather, Job};
pub use sums::{ScopeRow, ScopeRows, ScopeSums, SlowCall};
pub use table::ScopeTable;
pub(crate) use table::{extent_switch, filter_field, no_spans, percent};

/// Returns a number as text, with a sign for positive values as well.
pub(crate) fn signed(value: f64, text: impl Fn(f64) -> String) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{}", text(value))
}

/// Returns a caption of frames: `frame 812`, `frames 800–850 (51)` or `all 256 frames`. Of a store
/// that has only some of a capture's frames, it never says `all`.
#[must_use]
pub fn frames_caption(store: &Store, frames: Option<(usize, usize)>) -> String {
    let all = store.frames().len();
    let Some((first, last)) = frames.filter(|frames| frames.0 <= frames.1 && frames.1 < all) else {
        return "no frames yet".to_owned();
    };
    let number = |index: usize| store.frames()[index].number;
    let count = last - first + 1;
    if count == 1 {
        format!("frame {}", number(first))
    } else if count == all && store.layer().is_none() {
        format!("all {all} frames")
    } else {
        format!("frames {}–{} ({count})", number(first), number(last))
    }
}

/// Returns a caption of what tables cover: `selected 12.3 ms`, `whole capture`, or that of
/// [frames](frames_caption).
#[must_use]
pub fn scope_caption(store: &Store, scope: Option<Scope>) -> String {
    match scope {
        None => frames_caption(store, None),
        Some(Scope::Frames(first, last)) => frames_caption(store, Some((first, last))),
        Some(Scope::Whole) => "whole capture".to_owned(),
        Some(Scope::Time { begin_ns, end_ns }) => {
            let length_ns = end_ns.saturating_sub(begin_ns);
            format!("selected {}", units::duration(length_ns as f64))
        }
    }
}

/// Width of a bar of progress, in points.
const PROGRESS_WIDTH: f32 = 220.0;

/// Shows the progress of a result that is not there yet: of reading the capture, or that of the
/// work, which `progress` gives from 0 to 1.
pub(crate) fn show_waiting(
    ui: &mut Ui,
    view: &View,
    scope: Option<Scope>,
    verb: &str,
    progress: Option<f32>,
) {
    match (scope, view.whole()) {
        (None, _) => _ = ui.weak("Nothing was recorded yet."),
        (Some(Scope::Time { .. } | Scope::Whole), Some(whole)) if whole.progress < 1.0 => {
            show_progress(ui, "reading the capture", whole.progress);
        }
        _ => show_progress(ui, verb, progress.unwrap_or(0.0)),
    }
}

/// Shows a bar of the work that is done, from 0 to 1.
pub(crate) fn show_progress(ui: &mut Ui, verb: &str, progress: f32) {
    let text = format!("{verb} {:.0} %", progress * 100.0);
    let bar = ProgressBar::new(progress).desired_width(PROGRESS_WIDTH);
    ui.add(bar.text(text));
}
