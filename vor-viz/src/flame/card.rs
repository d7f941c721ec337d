//! The card at the pointer, which describes the span under it.

use egui::{Color32, RichText, Ui};
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::SiteId;
use vor_capture::model::measures::{self, Measured, Measures};
use vor_capture::units;

use super::layout::thread_name;
use super::navigate::{inside, track_of};
use crate::holder::Holder;
use crate::sketch::shortened;
use crate::store::{Layer, Span, Store, TaskArgs, TrackId, TrackKind};
use crate::theme::Theme;
use crate::view::SpanRef;

/// Maximum number of spans inside that are summed; beyond it, no self time is shown.
const MAX_INNER_SPANS: usize = 200_000;

/// Maximum number of summed spans within a pixel.
const MAX_MERGED_SPANS: usize = 100_000;

/// The target under the pointer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HoverTarget {
    /// A span.
    Span(SpanRef),
    /// Spans too short to be drawn separately.
    MergedSpans(MergedSpans),
    /// Messages, or steps or polls of tasks, at one place.
    Texts(Vec<String>),
}

/// Spans within a pixel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MergedSpans {
    pub(super) count: usize,
    pub(super) total_ns: u64,
    pub(super) longest: SpanRef,
    /// Whether there are more spans than counted.
    pub(super) more: bool,
}

impl MergedSpans {
    /// Summarises spans; `None` if there are none.
    pub(super) fn new(
        spans: impl Iterator<Item = Span>,
        place: impl Fn(Span) -> SpanRef,
    ) -> Option<Self> {
        let mut count = 0;
        let mut total_ns = 0_u64;
        let mut longest: Option<Span> = None;
        for span in spans.take(MAX_MERGED_SPANS + 1) {
            count += 1;
            total_ns = total_ns.saturating_add(span.duration_ns);
            if longest.is_none_or(|longest| span.duration_ns > longest.duration_ns) {
                longest = Some(span);
            }
        }
        Some(Self {
            count: count.min(MAX_MERGED_SPANS),
            total_ns,
            longest: place(longest?),
            more: count > MAX_MERGED_SPANS,
        })
    }
}

/// Typical durations of a scope's calls, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypicalDurations {
    /// The number of calls.
    pub count: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 95th percentile.
    pub p95_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Returns the typical durations of a scope's calls or of a call site's tasks; `None` if they are
/// unknown.
pub type TypicalDurationsOf<'a> = &'a dyn Fn(SiteId, TrackKind) -> Option<TypicalDurations>;

/// Shows the card.
pub(super) fn show(
    ui: &mut Ui,
    pointed: &HoverTarget,
    store: &Store,
    theme: &Theme,
    usual: TypicalDurationsOf<'_>,
) {
    theme.dress(ui);
    ui.set_max_width(ui.available_width().min(420.0));
    match pointed {
        HoverTarget::Span(span) => span_card(ui, span, store, theme, usual),
        HoverTarget::MergedSpans(merged) => merged_card(ui, merged, store, theme),
        HoverTarget::Texts(texts) => {
            for text in texts.iter().take(12) {
                ui.label(shortened(text));
            }
            if texts.len() > 12 {
                ui.weak(format!(
                    "and {} more",
                    units::count(texts.len() as u64 - 12)
                ));
            }
        }
    }
}

fn title(ui: &mut Ui, span: &SpanRef, store: &Store, theme: &Theme) {
    let site = store.catalog().site(span.span.site);
    ui.horizontal(|ui| {
        swatch(ui, theme.site(site));
        ui.label(RichText::new(shortened(store.catalog().site_name(span.span.site))).strong());
    });
}

pub(super) fn swatch(ui: &mut Ui, color: Color32) {
    let (rect, _) = ui.allocate_exact_size(egui::vec2(10.0, 10.0), egui::Sense::hover());
    ui.painter().rect_filled(rect, 2.0, color);
}

fn line(ui: &mut Ui, name: &str, value: impl AsRef<str>) {
    ui.horizontal(|ui| {
        ui.weak(shortened(name));
        // Where it is cut, the whole text is shown on hover.
        ui.add(egui::Label::new(shortened(value.as_ref())).truncate());
    });
}

fn span_card(
    ui: &mut Ui,
    span: &SpanRef,
    store: &Store,
    theme: &Theme,
    usual: TypicalDurationsOf<'_>,
) {
    title(ui, span, store, theme);
    let duration_ns = span.span.duration_ns;
    line(ui, "duration", units::duration(duration_ns as f64));
    let time_ns = span.span.begin_ns..span.span.end_ns();
    let has_inside = store.layer().is_none_or(|layer| layer.has_all(&time_ns));
    if span.track.kind() == TrackKind::Scopes && has_inside {
        match inside(store, span, MAX_INNER_SPANS) {
            Some((inside_ns, children)) => {
                let self_ns = duration_ns.saturating_sub(inside_ns);
                let text = match children {
                    0 => "all of it, nothing inside".to_owned(),
                    _ => format!(
                        "{} ({:.1} %), {} inside",
                        units::duration(self_ns as f64),
                        percent(self_ns, duration_ns),
                        units::count(children as u64)
                    ),
                };
                line(ui, "self", text);
            }
            None => line(
                ui,
                "self",
                format!("not summed: over {MAX_INNER_SPANS} spans inside"),
            ),
        }
    }
    if let Some((frames, share)) = share_of_frames(&span.span, store) {
        line(ui, &frames, share);
    }
    if let Some(usual) = usual(span.span.site, span.track.kind()).filter(|usual| usual.count > 0) {
        line(ui, "this call", rank_text(duration_ns, &usual));
        let known = format!(
            "p50 {}, p99 {}, {}",
            units::duration(usual.p50_ns as f64),
            units::duration(usual.p99_ns as f64),
            units::counted(usual.count, "call")
        );
        line(ui, "its scope", known);
    }
    split(ui, span, store);
    args(ui, span, store);
    if let Some(site) = store.catalog().site(span.span.site) {
        if !site.file.is_empty() {
            line(ui, "at", format!("{}:{}", site.file, site.line));
        }
        if !site.category.is_empty() {
            line(ui, "category", &site.category);
        }
    }
    if let TrackId::Scopes(thread) = span.track {
        line(ui, "on", thread_name(thread, store.catalog()));
    }
}

/// Returns the name of the frames that a span overlaps, and its share of their time.
fn share_of_frames(span: &Span, store: &Store) -> Option<(String, String)> {
    // A span that ends together with a frame belongs to that frame.
    let last = store.frame_at(span.end_ns().saturating_sub(1))?;
    let first = store.frame_at(span.begin_ns)?.min(last);
    let time = store.time_of(first..last + 1)?;
    let number = |index: usize| store.frames()[index].number;
    let name = if first == last {
        format!("frame {}", number(last))
    } else {
        format!("frames {}–{}", number(first), number(last))
    };
    // The frames before the first one have left, and the span may have begun in them.
    let within = |ns: i64| ns.clamp(time.start, time.end);
    let inside_ns = within(span.end_ns()).abs_diff(within(span.begin_ns));
    let frames_ns = time.end.abs_diff(time.start);
    let share = format!(
        "{:.1} % of {}",
        percent(inside_ns, frames_ns),
        units::duration(frames_ns as f64)
    );
    Some((name, share))
}

/// Returns the rank of a call among those of its scope, as text.
fn rank_text(duration_ns: u64, usual: &TypicalDurations) -> String {
    let place = match duration_ns {
        ns if ns >= usual.max_ns => "the longest",
        ns if ns > usual.p99_ns => "above p99",
        ns if ns > usual.p95_ns => "above p95",
        ns if ns > usual.p50_ns => "above p50",
        _ => "up to p50",
    };
    if usual.p50_ns == 0 {
        return place.to_owned();
    }
    format!(
        "{place}, {} × p50",
        units::three_digits(duration_ns as f64 / usual.p50_ns as f64)
    )
}

/// Shows how long a scope ran, was queued and was blocked, if that was measured.
fn split(ui: &mut Ui, span: &SpanRef, store: &Store) {
    let site = store.catalog().site(span.span.site);
    let measures = site.map_or(Measures::NONE, Measures::of);
    // A thinned picture may lack the arguments.
    let is_thinned = store.layer().is_some_and(|layer| layer.bin_ns() > 0);
    let values = values(span, store);
    let is_known = !is_thinned || !values.is_empty();
    let Some(site) = site.filter(|_| measures.has(Measures::CPU) && is_known) else {
        return;
    };
    if span.track.kind() == TrackKind::Tasks {
        return;
    }
    let measured = Measured::of(site, values);
    let off_cpu_ns = measured.off_cpu_ns.min(span.span.duration_ns);
    let part = |ns: u64| {
        let share = percent(ns, span.span.duration_ns);
        format!("{} ({share:.1} %)", units::duration(ns as f64))
    };
    line(ui, "ran", part(span.span.duration_ns - off_cpu_ns));
    if measures.has(Measures::WAIT) {
        let [queued_ns, blocked_ns] = measured.queued_and_blocked_ns(off_cpu_ns);
        line(ui, "queued", part(queued_ns));
        line(ui, "blocked", part(blocked_ns));
    } else {
        line(ui, "off the CPU", part(off_cpu_ns));
    }
}

/// Returns the arguments of a span, as the store has them.
fn values<'a>(span: &SpanRef, store: &'a Store) -> &'a [ArgValue] {
    let row = track_of(store, span).and_then(|track| track.rows.get(span.row));
    row.map_or(&[], |row| row.args(&span.span))
}

fn args(ui: &mut Ui, span: &SpanRef, store: &Store) {
    let values = values(span, store);
    if span.track.kind() == TrackKind::Tasks {
        if let Some(task) = TaskArgs::read(values) {
            // vor's own id has no meaning for the program.
            if let Some(id) = task.given_id {
                line(ui, "task", id.to_string());
            }
            line(ui, "ended on", thread_name(task.thread, store.catalog()));
        }
        if let Some(holder) = Holder::of(values) {
            line(ui, "held by", holder.to_string());
        }
        return;
    }
    let site = store.catalog().site(span.span.site);
    let names = site.map_or(&[][..], |site| &site.arg_names);
    let measured = site.map_or(0, |site| Measures::of(site).arg_names().count());
    let own = names.len().saturating_sub(measured);
    for (i, value) in values.iter().enumerate().take(16) {
        let name = names.get(i).map_or("?", |name| name);
        // The parts of its time are shown.
        if i >= own && [measures::OFF_CPU_NS, measures::RUN_QUEUE_NS].contains(&name) {
            continue;
        }
        let text = match value {
            ArgValue::Str(text) => shortened(text),
            other => other.to_string().into(),
        };
        line(ui, &format!("{} =", shortened(name)), text);
    }
}

fn merged_card(ui: &mut Ui, merged: &MergedSpans, store: &Store, theme: &Theme) {
    if store.layer().is_some_and(Layer::lacks_spans) {
        ui.label(RichText::new("many spans here").strong());
    } else {
        let more = if merged.more { "over " } else { "" };
        let count = units::count(merged.count as u64);
        ui.label(RichText::new(format!("{more}{count} spans here")).strong());
        line(ui, "together", units::duration(merged.total_ns as f64));
    }
    ui.weak("the longest:");
    title(ui, &merged.longest, store, theme);
    line(
        ui,
        "duration",
        units::duration(merged.longest.span.duration_ns as f64),
    );
    ui.weak("zoom in to tell them apart");
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}
