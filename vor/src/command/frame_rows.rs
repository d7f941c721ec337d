//! A frame as a row of a table and as JSON, for `vor frames` and `vor tail`.

use std::io::Write;

use serde::Serialize;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::reader::Recovered;
use vor_capture::units;

use crate::command::failure::Failure;
use crate::command::frame_waits::Waits;
use crate::command::json::Values;
use crate::command::table::{Column, Kind, Layout, printable, room};

/// A frame in the output of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct FrameJson {
    index: u64,
    start_unix_ns: i64,
    duration_ns: i64,
    spans: u64,
    dropped_spans: u64,
    merged_marks: u64,
    lost_records: u64,
    system: Values,
    user: Values,
    /// Absent unless waits were measured in the frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waits: Option<Waits>,
    /// Present with `--slowest`, if the frame has spans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) top_scope: Option<TopScope>,
}

/// The scope that took most of a frame's time.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TopScope {
    pub(crate) name: String,
    pub(crate) thread: String,
    pub(crate) self_ns: u64,
}

impl FrameJson {
    pub(crate) fn new(recovered: &Recovered) -> Self {
        let frame = &recovered.frame;
        Self {
            index: frame.index,
            start_unix_ns: frame.catalog.unix_ns(frame.start_ticks),
            duration_ns: frame.duration_ns(),
            spans: frame.span_count,
            dropped_spans: frame.dropped_spans,
            merged_marks: frame.merged_marks,
            lost_records: recovered.lost_records,
            system: Values(values(frame, true)),
            user: Values(values(frame, false)),
            waits: None,
            top_scope: None,
        }
    }
}

fn values(frame: &FrameSnapshot, system: bool) -> Vec<(String, f64)> {
    let mut values = Vec::new();
    for value in &frame.metrics {
        if let Some(column) = frame.catalog.columns.get(value.column as usize)
            && column.system == system
        {
            values.push((column.metric.name.clone(), value.value));
        }
    }
    values
}

/// Prints frames as rows of a table. Rows arrive one by one, so the widths are fixed beforehand.
#[derive(Debug)]
pub(crate) struct FrameTable {
    layout: Layout,
    /// Metrics that have a column, as indices into the catalog's columns.
    metrics: Vec<usize>,
    with_waits: bool,
    with_top_scope: bool,
    /// Start times are relative to this one.
    origin_ns: i64,
}

/// Maximum number of metrics with a column; more would not fit a screen, and `--json` has all.
const MAX_METRICS: usize = 24;

impl FrameTable {
    pub(crate) fn new(
        catalog: &Catalog,
        with_waits: bool,
        with_top_scope: bool,
        origin_ns: i64,
    ) -> Self {
        // For the slowest frames, the scope matters more than the start.
        let start_rank = if with_top_scope { 2 } else { 0 };
        let mut columns = vec![
            Column::new("frame", Kind::Number, 0).at_least(8),
            Column::new("start", Kind::Number, start_rank).at_least(11),
            Column::new("duration", Kind::Number, 0).at_least(9),
            Column::new("spans", Kind::Number, 3).at_least(9),
        ];
        if with_waits {
            columns.push(Column::new("queued", Kind::Number, 3).at_least(8));
            columns.push(Column::new("blocked", Kind::Number, 3).at_least(8));
        }
        if with_top_scope {
            columns.push(Column::new("most time in", Kind::Text, 1).at_least(30));
        }
        // The program's own metrics come before those that vor samples. `frame_ms` repeats the
        // duration.
        let wanted = |system: bool| {
            let columns = catalog.columns.iter().enumerate();
            columns.filter(move |(_, column)| {
                column.system == system && (!system || column.metric.name != "frame_ms")
            })
        };
        let mut metrics = Vec::new();
        let shown = wanted(false).chain(wanted(true)).take(MAX_METRICS);
        for (rank, (i, column)) in (11..).zip(shown) {
            metrics.push(i);
            let head = heading(&column.metric.name, &column.metric.unit);
            columns.push(Column::new(head, Kind::Number, rank).at_least(7));
        }
        Self {
            layout: Layout::new(&columns, &[], room()),
            metrics,
            with_waits,
            with_top_scope,
            origin_ns,
        }
    }

    pub(crate) fn write_heads(&self, out: &mut impl Write) -> Result<(), Failure> {
        self.layout.write_heads(out)
    }

    pub(crate) fn write_frame(
        &self,
        out: &mut impl Write,
        recovered: &Recovered,
        waits: Option<Waits>,
        top_scope: Option<&TopScope>,
    ) -> Result<(), Failure> {
        let frame = &recovered.frame;
        let start_ns = frame
            .catalog
            .unix_ns(frame.start_ticks)
            .saturating_sub(self.origin_ns);
        let duration_ns = frame.duration_ns();
        let mut cells = vec![
            frame.index.to_string(),
            clock(start_ns),
            units::duration(duration_ns.max(0) as f64),
            units::count(frame.span_count),
        ];
        if self.with_waits {
            let cell = |ns: fn(Waits) -> u64| {
                waits.map_or_else(|| "-".to_owned(), |waits| units::duration(ns(waits) as f64))
            };
            cells.push(cell(|waits| waits.queued_ns));
            cells.push(cell(|waits| waits.blocked_ns));
        }
        if self.with_top_scope {
            cells.push(top_scope.map_or_else(String::new, |top| top.describe(duration_ns)));
        }
        for &column in &self.metrics {
            let value = frame
                .metrics
                .iter()
                .find(|value| value.column as usize == column);
            cells.push(value.map_or_else(String::new, |value| metric_cell(value.value)));
        }
        self.layout.write_row(out, &cells)?;
        self.write_note(out, recovered)
    }

    /// Writes drops and losses of a frame as a line under it.
    fn write_note(&self, out: &mut impl Write, recovered: &Recovered) -> Result<(), Failure> {
        let frame = &recovered.frame;
        let mut notes = Vec::new();
        if frame.dropped_spans > 0 {
            notes.push(format!(
                "{} dropped",
                units::counted(frame.dropped_spans, "span")
            ));
        }
        if frame.merged_marks > 0 {
            notes.push(format!(
                "{} merged into it",
                units::counted(frame.merged_marks, "mark")
            ));
        }
        if recovered.lost_records > 0 {
            notes.push(format!(
                "{} lost to damage",
                units::counted(recovered.lost_records, "record")
            ));
        }
        if notes.is_empty() {
            return Ok(());
        }
        writeln!(out, "          ^ {}", notes.join(", ")).map_err(Failure::output)
    }
}

impl TopScope {
    fn describe(&self, frame_ns: i64) -> String {
        let percent = 100.0 * self.self_ns as f64 / frame_ns.max(1) as f64;
        format!("{percent:.0} % {}", printable(&self.name))
    }
}

/// Returns a metric's name with its unit, unless the name ends with it.
fn heading(name: &str, unit: &str) -> String {
    let shown = printable(name);
    if unit.is_empty()
        || name
            .to_lowercase()
            .ends_with(&format!("_{}", unit.to_lowercase()))
    {
        shown
    } else {
        format!("{shown} {}", printable(unit))
    }
}

/// Formats the time since the first frame with a fixed number of digits, so that rows line up:
/// seconds, or hours, minutes and seconds.
fn clock(ns: i64) -> String {
    let us = ns.max(0) / 1_000;
    let (s, us) = (us / 1_000_000, us % 1_000_000);
    match (s / 3600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s}.{us:06} s"),
        (0, min, s) => format!("{min}:{s:02}.{:03}", us / 1_000),
        (h, min, s) => format!("{h}:{min:02}:{s:02}.{:03}", us / 1_000),
    }
}

/// Returns a metric's value for a cell: an integer with all its digits, any other number with
/// three, and `NaN` and `inf` as such.
fn metric_cell(value: f64) -> String {
    if !value.is_finite() {
        value.to_string()
    } else if value.fract() == 0.0 {
        units::metric(value, "", true)
    } else if (0.1..1.0).contains(&value.abs()) {
        format!("{value:.3}")
    } else {
        units::number(value)
    }
}

#[cfg(test)]
mod tests {
    use super::{TopScope, clock, heading, metric_cell};

    #[test]
    fn times_since_the_first_frame_have_a_fixed_number_of_digits() {
        for (ns, text) in [
            (-5_000, "0.000000 s"),
            (999, "0.000000 s"),
            (1_000, "0.000001 s"),
            (7_000_042_000, "7.000042 s"),
            (59_999_999_999, "59.999999 s"),
            (60_000_000_000, "1:00.000"),
            (605_078_901_234, "10:05.078"),
            (3_599_999_999_999, "59:59.999"),
            (3_600_000_000_000, "1:00:00.000"),
            (93_784_056_000_000, "26:03:04.056"),
        ] {
            assert_eq!(clock(ns), text, "{ns}");
        }
    }

    #[test]
    fn a_heading_has_the_unit_once() {
        for (name, unit, text) in [
            ("loss", "nats", "loss nats"),
            ("items", "", "items"),
            ("frame_ms", "ms", "frame_ms"),
            ("read_MB", "mb", "read_MB"),
            ("read_mb", "MB", "read_mb"),
            ("items_", "", "items_"),
            ("rooms", "ms", "rooms ms"),
            ("ms", "ms", "ms ms"),
            ("a\tb", "c\td", "a\\tb c\\td"),
        ] {
            assert_eq!(heading(name, unit), text);
        }
    }

    #[test]
    fn the_top_scope_has_its_share_of_the_frame() {
        let top = TopScope {
            name: "decode\n".into(),
            thread: "main".into(),
            self_ns: 375,
        };
        assert_eq!(top.describe(1_000), "38 % decode\\n");
        assert_eq!(top.describe(75), "500 % decode\\n");
        assert_eq!(top.describe(0), "37500 % decode\\n");
    }

    #[test]
    fn metrics_are_integers_or_have_three_digits() {
        for (value, text) in [
            (3.0, "3"),
            (0.0, "0"),
            (-26.0, "-26"),
            (5209.7, "5210"),
            (12_345.6, "12\u{202f}346"),
            (1.001, "1.00"),
            (0.2171, "0.217"),
            (0.0003, "0.000300"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(metric_cell(value), text);
        }
    }
}
