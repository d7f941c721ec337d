//! The whole capture: a picture of it at any zoom, and sums over any range of time.
//!
//! The reader of a capture makes a survey of it in the background, and then reads the ranges that
//! are looked at or asked about. All of it goes [backwards](backwards), because then the
//! surroundings of each span are known when it comes.
//!
//! ```text
//! Capture ─▶ parts, the last first ─▶ Backwards ─▶ Thinned ─▶ Layer of the store ─▶ flame chart
//!                                        └──────▶ RangeGather ─▶ Ticket ─▶ tables, flame graph
//! ```
//!
//! The survey of a large capture may be kept in a [file](SurveyFile) beside it.

mod archive;
mod backwards;
mod gathering;
mod part_times;
mod task_waits;
mod thinned;
cfg_select! {
    target_arch = "wasm32" => {
        mod survey_file_stub;
        use survey_file_stub as survey_file;
    }
    _ => {
        mod survey_file;
    }
}

pub(crate) use archive::{Archive, PictureReader, RangeRead, Survey};
pub use gathering::Spans;
pub(crate) use gathering::{Question, RangeScope, Ticket, overlaps};
pub(crate) use survey_file::{Stamp, SurveyFile};
pub(crate) use thinned::Thinned;

#[cfg(test)]
mod tests;
