//! The fields above the list, and what they mean.

use std::sync::Arc;

use egui::{RichText, TextEdit, Ui};
use vor_capture::model::catalog::{Catalog, ThreadId};

use super::instances::FindOptions;
use super::messages::MessageOptions;
use crate::flame::thread_name;
use crate::theme::Theme;
use crate::time_text::duration_ns;

/// The filters of calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Filters {
    least: String,
    most: String,
    threads: ThreadFilter,
    args: String,
}

impl Filters {
    /// Shows the fields.
    pub(super) fn show(&mut self, ui: &mut Ui, theme: &Theme) {
        let hint = "A duration with its unit, such as 20us or 1.5 ms; empty for any";
        for (text, name, placeholder) in [
            (&mut self.least, "shortest duration", "from"),
            (&mut self.most, "longest duration", "to"),
        ] {
            let is_wrong = !text.trim().is_empty() && duration_ns(text).is_none_or(|ns| ns < 0);
            let mut field = TextEdit::singleline(text)
                .align(egui::Align2::LEFT_CENTER)
                .hint_text(placeholder)
                .desired_width(64.0);
            if is_wrong {
                field = field.text_color(theme.bad_text);
            }
            ui.add(field).on_hover_text(hint).accessible_name(name);
            if is_wrong {
                ui.label(RichText::new("needs a unit: ms").color(theme.bad_text));
            }
        }
        self.threads.show(ui, "calls");
        let args = TextEdit::singleline(&mut self.args)
            .align(egui::Align2::LEFT_CENTER)
            .hint_text("arguments")
            .desired_width(100.0);
        ui.add(args)
            .on_hover_text("Only calls whose arguments contain this, such as `codec = lz4`")
            .accessible_name("arguments of the calls");
    }

    /// Returns whether nothing is filtered out.
    pub(super) fn is_empty(&self) -> bool {
        [&self.least, &self.most, &self.threads.text, &self.args]
            .iter()
            .all(|text| text.trim().is_empty())
    }

    /// Sets the filters of some options.
    pub(super) fn apply(&mut self, options: &mut FindOptions, catalog: &Catalog) {
        // A text that cannot be read filters nothing out, and is marked.
        let least_ns = ns(&self.least).unwrap_or(0);
        let most_ns = ns(&self.most).unwrap_or(u64::MAX);
        options.durations_ns = (least_ns, most_ns);
        options.args = self.args.trim().to_lowercase().into();
        options.threads = self.threads.matching(catalog);
    }
}

/// The filters of messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MessageFilters {
    text: String,
    threads: ThreadFilter,
}

impl MessageFilters {
    /// Shows the fields.
    pub(super) fn show(&mut self, ui: &mut Ui) {
        let text = TextEdit::singleline(&mut self.text)
            .align(egui::Align2::LEFT_CENTER)
            .hint_text("text")
            .desired_width(160.0);
        ui.add(text)
            .on_hover_text("Only messages that contain this, in upper or lower case")
            .accessible_name("text of the messages");
        self.threads.show(ui, "messages");
    }

    /// Returns whether nothing is filtered out.
    pub(super) fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.threads.text.trim().is_empty()
    }

    /// Sets the filters of some options.
    pub(super) fn apply(&mut self, options: &mut MessageOptions, catalog: &Catalog) {
        options.text = self.text.trim().to_lowercase().into();
        options.threads = self.threads.matching(catalog);
    }
}

/// A text that the names of threads must contain.
#[derive(Clone, Debug, Default, PartialEq)]
struct ThreadFilter {
    text: String,
    /// The threads whose names match, with the text and the number of threads that they are of.
    known: Option<(String, usize, Arc<[ThreadId]>)>,
}

impl ThreadFilter {
    /// Shows the field, for a list of `items`.
    fn show(&mut self, ui: &mut Ui, items: &str) {
        let field = TextEdit::singleline(&mut self.text)
            .align(egui::Align2::LEFT_CENTER)
            .hint_text("thread")
            .desired_width(100.0);
        let hint =
            format!("Only {items} on threads whose name contains this, in upper or lower case");
        ui.add(field)
            .on_hover_text(hint)
            .accessible_name(format!("thread of the {items}"));
    }

    /// Returns the threads that match, ascending; `None` for all.
    fn matching(&mut self, catalog: &Catalog) -> Option<Arc<[ThreadId]>> {
        let wanted = self.text.trim().to_lowercase();
        if wanted.is_empty() {
            self.known = None;
            return None;
        }
        let count = catalog.threads.len();
        let known = self.known.take();
        let known = known.filter(|(text, of, _)| (text, *of) == (&wanted, count));
        let (.., threads) = self.known.insert(known.unwrap_or_else(|| {
            let threads = (0..count as u32).map(ThreadId).filter(|&thread| {
                let name = thread_name(thread, catalog).to_lowercase();
                name.contains(&wanted)
            });
            let threads = threads.collect();
            (wanted, count, threads)
        }));
        Some(Arc::clone(threads))
    }
}

/// Returns the nanoseconds of a duration; `None` for a negative one.
fn ns(text: &str) -> Option<u64> {
    u64::try_from(duration_ns(text)?).ok()
}
