//! The bars of all frames of a capture over the time that the flame chart shows.
//!
//! Where there are more frames than columns of pixels, a bar is as high as the longest frame that
//! is open in its column: exactly so, because the durations are in a [pyramid](MinMaxPyramid).
//! A click goes to the longest frame of a column.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use egui::{Role, Sense, Ui, WidgetInfo, vec2};
use rustc_hash::FxHasher;
use vor_capture::units;

use crate::bars::{self, Bar, MAX_SORTED, Picture, Thresholds, bars_rect};
use crate::frame_axis::{self, FrameAxis, axis_rect};
use crate::overview::OverviewMark;
use crate::pyramid::MinMaxPyramid;
use crate::replay::Summary;
use crate::store::Store;
use crate::theme::Theme;
use crate::view::View;

/// Maximum number of durations that are added up for the mean.
const MAX_SUMMED: usize = 1 << 20;

const HELP: &str = "A bar per frame, as high as the frame is long, over the time of the flame \
    chart. Where frames are too narrow, a bar stands for several, and is as high as the longest.\n\
    Click to go to the frame. Drag with shift to select time.\n\
    A triangle above: spans were dropped. A cross: records are damaged. \
    A notch: the bar is longer than there is room.";

/// Shows the frames of a capture as bars, `height` points high; returns the frame that was clicked,
/// counted from 0.
pub(crate) fn show(
    ui: &mut Ui,
    height: f32,
    summary: &Summary,
    store: &Store,
    view: &mut View,
    theme: &Theme,
    thresholds: Thresholds,
) -> Option<u64> {
    let width = ui.available_width().clamp(0.0, 32_768.0);
    let (_, rect) = ui.allocate_space(vec2(width, height.clamp(24.0, 4096.0)));
    let id = ui.make_persistent_id("frame bars");
    let time = view.flame_axis(store);
    let axis = FrameAxis::new(axis_rect(rect), time, ui.pixels_per_point());
    let response = ui.interact(axis.rect(), id, Sense::click_and_drag());
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "frame bars"));
    let x = frame_axis::interact_with_time(ui, &response, &axis, store, view);
    let column = x.map(|x| axis.column_at(x));
    let pointed = column.and_then(|column| longest_at(summary, &axis, column));
    let clicked = response.clicked().then_some(pointed).flatten();
    if let Some(frame) = pointed {
        let frames = column.map_or(1, |column| open_in(summary, &axis, column).count());
        response.on_hover_ui_at_pointer(|ui| {
            let duration_ms = duration_ms(summary, frame);
            ui.label(format!("frame {}", number(summary, frame)));
            let text = units::duration(duration_ms * 1e6);
            ui.colored_label(thresholds.color(duration_ms, theme), text);
            if frames > 1 {
                let frames = units::count(frames as u64);
                ui.weak(format!("the longest of {frames} frames here"));
            }
        });
    }
    if !ui.is_rect_visible(rect) {
        return clicked;
    }
    bars::explain_title(ui, rect, &axis, id, HELP);
    let painter = ui.painter().with_clip_rect(rect.intersect(ui.clip_rect()));
    painter.rect_filled(axis.rect(), 0.0, theme.ground);
    let mut picture = ui
        .data_mut(|data| data.remove_temp::<Picture>(id))
        .unwrap_or_default();
    update(&mut picture, summary, &axis, theme, thresholds);
    picture.paint(&painter, rect, &axis, thresholds, theme);
    let shown = frames_within(summary, &axis);
    let (strong_ms, which) = match pointed {
        Some(frame) => {
            let which = format!("frame {}, pointed at", number(summary, frame));
            (duration_ms(summary, frame), which)
        }
        None => (picture.longest_ms, "longest of those shown".to_owned()),
    };
    let mut rest = format!("longest {}", units::duration(picture.longest_ms * 1e6));
    if picture.mean_ms.is_finite() {
        rest = format!("mean {}, {rest}", units::duration(picture.mean_ms * 1e6));
    }
    ui.data_mut(|data| data.insert_temp(id, picture));
    let count = units::count((shown.end - shown.start) as u64);
    bars::paint_labels(
        &painter,
        rect,
        count,
        Some((strong_ms, [which, rest])),
        theme,
    );
    frame_axis::paint_cursors(&painter, &axis, store, view, theme);
    clicked
}

fn duration_ms(summary: &Summary, frame: u64) -> f64 {
    let known = usize::try_from(frame).ok();
    let known = known.and_then(|frame| summary.durations_ms().get(frame));
    known.map_or(f64::NAN, f64::from)
}

/// Returns the text of the number that the program gave a frame.
fn number(summary: &Summary, frame: u64) -> String {
    units::count(summary.numbers().number(frame))
}

/// Returns the number of frames that begin before a moment.
fn begun_before(summary: &Summary, ns: i64) -> usize {
    let last = summary.frame_at(ns.saturating_sub(1));
    last.map_or(0, |last| last as usize + 1)
}

/// Returns the frames that are open within the time of a column of pixels. At its begin, at most
/// one is.
fn open_in(summary: &Summary, axis: &FrameAxis, column: usize) -> Range<usize> {
    let (begin_ns, end_ns) = (axis.column_ns(column), axis.column_ns(column + 1));
    open_within(summary, begin_ns, end_ns)
}

fn open_within(summary: &Summary, begin_ns: f64, end_ns: f64) -> Range<usize> {
    let end = begun_before(summary, end_ns.ceil() as i64);
    let first = begun_before(summary, begin_ns.ceil() as i64).min(end);
    let is_open = |before: &usize| {
        let frame = *before as u64;
        let begin = summary.begin_ns(frame).unwrap_or(i64::MIN);
        begin as f64 + duration_ms(summary, frame) * 1e6 > begin_ns
    };
    let before = first.checked_sub(1).filter(is_open);
    before.unwrap_or(first)..end
}

/// Returns the frames that are open within the time of the axis.
fn frames_within(summary: &Summary, axis: &FrameAxis) -> Range<usize> {
    let end_ns = axis.column_ns(axis.width_px());
    open_within(summary, axis.column_ns(0), end_ns)
}

/// Returns the longest frame of a column; the first one wins a tie.
fn longest_at(summary: &Summary, axis: &FrameAxis, column: usize) -> Option<u64> {
    let frames = open_in(summary, axis, column);
    let durations: &MinMaxPyramid = summary.durations_ms();
    let (_, longest) = durations.min_max(frames.clone())?;
    let is_it = |frame: &usize| durations.get(*frame) == Some(longest);
    Some(frames.into_iter().find(is_it)? as u64)
}

/// Returns the bars, from left to right.
fn bars(summary: &Summary, axis: &FrameAxis) -> Vec<Bar> {
    let durations = summary.durations_ms();
    let longest = |frames: Range<usize>| Some(f64::from(durations.min_max(frames)?.1));
    let shown = frames_within(summary, axis);
    let mut bars: Vec<Bar> = if shown.len() > axis.width_px() {
        let columns = 0..axis.width_px();
        let bars = columns.filter_map(|column| {
            let longest_ms = longest(open_in(summary, axis, column))?;
            Some(Bar {
                first: column,
                end: column + 1,
                longest_ms,
                ..Bar::default()
            })
        });
        bars.collect()
    } else {
        let frames = shown.clone().filter_map(|frame| {
            let begin_ns = summary.begin_ns(frame as u64)?;
            let longest_ms = longest(frame..frame + 1)?;
            let end_ns = begin_ns.saturating_add((longest_ms * 1e6) as i64);
            let (first, end) = axis.columns(begin_ns, end_ns)?;
            Some(Bar {
                first,
                end,
                longest_ms,
                ..Bar::default()
            })
        });
        bars::merged(frames)
    };
    for &(frame, mark) in summary.troubled() {
        let Some(begin_ns) = summary
            .begin_ns(frame)
            .filter(|_| shown.contains(&(frame as usize)))
        else {
            continue;
        };
        let Some((column, _)) = axis.columns(begin_ns, begin_ns) else {
            continue;
        };
        let after = bars.partition_point(|bar| bar.first <= column);
        if let Some(bar) = after.checked_sub(1).and_then(|at| bars.get_mut(at)) {
            bar.has_drops |= mark == OverviewMark::Dropped;
            bar.is_damaged |= mark == OverviewMark::Damaged;
        }
    }
    bars
}

/// Makes the picture again if its inputs changed.
fn update(
    picture: &mut Picture,
    summary: &Summary,
    axis: &FrameAxis,
    theme: &Theme,
    thresholds: Thresholds,
) {
    let mut hasher = FxHasher::default();
    let rect = axis.rect();
    let points = [
        rect.left(),
        rect.top(),
        rect.right(),
        rect.bottom(),
        axis.pixel(),
    ];
    let time = [axis.column_ns(0), axis.column_ns(axis.width_px())];
    let numbers = [time[0], time[1], thresholds.good, thresholds.warn];
    (
        "capture",
        summary.frames(),
        summary.troubled_count(),
        theme.dark,
    )
        .hash(&mut hasher);
    points.map(f32::to_bits).hash(&mut hasher);
    numbers.map(f64::to_bits).hash(&mut hasher);
    if !picture.is_new(hasher.finish()) {
        return;
    }
    let shown = frames_within(summary, axis);
    let durations = summary.durations_ms();
    let known = |frame: usize| durations.get(frame).filter(|ms| ms.is_finite());
    let step = shown.len().div_ceil(MAX_SORTED).max(1);
    let sample: Vec<f32> = shown.clone().step_by(step).filter_map(known).collect();
    let longest_ms = durations
        .min_max(shown.clone())
        .map_or(0.0, |(_, longest)| longest);
    let mean_ms = match shown.len() {
        0 => f64::NAN,
        count if count > MAX_SUMMED => f64::NAN,
        _ => {
            let all = shown.filter_map(known).map(f64::from);
            let (sum, count) = all.fold((0.0, 0.0), |(sum, count), ms| (sum + ms, count + 1.0));
            sum / count
        }
    };
    picture.set_scale(sample, f64::from(longest_ms), mean_ms, thresholds);
    let bars = bars(summary, axis);
    picture.draw(bars.into_iter(), axis, bars_rect(axis), theme, thresholds);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use egui::{Rect, pos2};
    use proptest::prelude::*;

    use super::{axis_rect, bars, frames_within, longest_at};
    use crate::frame_axis::FrameAxis;
    use crate::replay::{FrameSummaryRow, Summary};
    use crate::view::TimeRange;

    /// Makes a summary of frames with gaps before them; those without a length are lost.
    fn summary(frames: &[(u32, u32)]) -> Summary {
        let mut summary = Summary::default();
        let mut begin_ns = 0;
        for &(gap_us, length_us) in frames {
            begin_ns += i64::from(gap_us) * 1000;
            let end_ns = begin_ns + i64::from(length_us) * 1000;
            summary.push(&FrameSummaryRow {
                number: Some(summary.frames()),
                time_ns: (length_us > 0).then_some((begin_ns, end_ns)),
                spans: 0,
                dropped_spans: 0,
                is_damaged: length_us == 0,
            });
            begin_ns = end_ns;
        }
        summary
    }

    proptest! {
        /// At any zoom, a column has a bar of the longest frame that is open in it.
        #[test]
        fn a_column_shows_the_longest_of_its_frames(
            frames in prop::collection::vec(
                (
                    prop_oneof![4 => Just(0), 1 => 0..90_u32],
                    prop_oneof![9 => 1..50_u32, 1 => Just(0)],
                ),
                1..900,
            ),
            (from, to) in (0.0..1.0_f64, 0.0..1.0_f64),
            width in 40..900_u32,
        ) {
            let summary = summary(&frames);
            let last = frames.len() as u64 - 1;
            let length = |frame: u64| {
                f64::from(summary.durations_ms().get(frame as usize).unwrap())
            };
            let span = |frame: u64| {
                let begin_ns = summary.begin_ns(frame).unwrap() as f64;
                (begin_ns, begin_ns + length(frame) * 1e6)
            };
            let all_ns = (0..=last).map(|frame| span(frame).1).fold(1.0, f64::max);
            let time = TimeRange {
                begin_ns: from.min(to) * all_ns,
                end_ns: from.max(to) * all_ns + 1.0,
            };
            let rect = Rect::from_min_max(pos2(0.0, 0.0), pos2(width as f32, 60.0));
            let axis = FrameAxis::new(axis_rect(rect), time, 1.0);
            let bars = bars(&summary, &axis);
            prop_assert!(bars.is_sorted_by_key(|bar| bar.first));
            let shown = frames_within(&summary, &axis);
            for column in 0..axis.width_px() {
                let (begin_ns, end_ns) = (axis.column_ns(column), axis.column_ns(column + 1));
                let open = (0..=last).filter(|&frame| {
                    let (begin, end) = span(frame);
                    begin < end_ns && end > begin_ns
                });
                let longest = open.clone().map(length).max_by(f64::total_cmp);
                let found = longest_at(&summary, &axis, column);
                prop_assert_eq!(found.map(length), longest, "column {}", column);
                prop_assert!(open.clone().all(|frame| shown.contains(&(frame as usize))));
                let drawn = bars.iter().find(|bar| (bar.first..bar.end).contains(&column));
                if shown.len() > axis.width_px() {
                    prop_assert_eq!(drawn.map(|bar| bar.longest_ms), longest);
                }
            }
            // A bar at its begin is at least as high as a frame that has room for itself.
            for frame in shown.clone().filter(|_| shown.len() <= axis.width_px()) {
                let (begin_ns, end_ns) = span(frame as u64);
                if end_ns.is_nan() {
                    continue;
                }
                if let Some((column, _)) = axis.columns(begin_ns as i64, end_ns as i64) {
                    let bar = bars.iter().find(|bar| (bar.first..bar.end).contains(&column));
                    prop_assert!(bar.unwrap().longest_ms >= length(frame as u64));
                }
            }
            let most = bars.iter().map(|bar| bar.longest_ms).fold(0.0, f64::max);
            let longest = shown.clone().map(|frame| length(frame as u64)).fold(0.0, f64::max);
            prop_assert_eq!(most, longest);
        }
    }
}
