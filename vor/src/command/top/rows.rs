//! The tables: rows of text and numbers, sorted and filtered.

use std::cmp::Ordering;

use vor_capture::model::catalog::{SiteId, ThreadId};
use vor_capture::units;
use vor_export::thread_label;

use super::model::{Model, Track};
use crate::command::table::printable;

/// A table of the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Scopes,
    Threads,
    Metrics,
    Waits,
}

impl Tab {
    pub(super) const ALL: [Self; 4] = [Self::Scopes, Self::Threads, Self::Metrics, Self::Waits];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Scopes => "scopes",
            Self::Threads => "threads",
            Self::Metrics => "metrics",
            Self::Waits => "waits",
        }
    }

    /// Returns the heads of its columns, the name first and the trend last.
    pub(super) fn heads(self) -> &'static [&'static str] {
        match self {
            Self::Scopes => &[
                "scope", "self/s", "total/s", "calls/s", "mean", "max", "trend",
            ],
            Self::Threads => &["thread", "busy", "spans/s", "spans", "trend"],
            Self::Metrics => &["metric", "now", "least", "most", "trend"],
            Self::Waits => &["waits for", "time/s", "waits/s", "mean", "max", "trend"],
        }
    }

    /// Returns the keys by which it can be sorted: indices of its columns without the trend.
    pub(super) fn sort_keys(self) -> usize {
        self.heads().len() - 1
    }
}

/// One row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The scope that Enter opens.
    pub(super) site: Option<SiteId>,
    pub(super) name: String,
    /// The columns between the name and the trend.
    pub(super) cells: Vec<String>,
    /// The column by which they are sorted.
    numbers: Vec<f64>,
    pub(super) trend: Vec<f64>,
}

/// Returns the rows of a table whose name contains `filter`, sorted by a column: the largest first,
/// names from A to Z.
pub(super) fn rows(model: &Model, tab: Tab, sort: usize, filter: &str) -> Vec<Row> {
    let mut rows = match tab {
        Tab::Scopes => scopes(model),
        Tab::Threads => threads(model),
        Tab::Metrics => metrics(model),
        Tab::Waits => waits(model),
    };
    let filter = filter.to_lowercase();
    rows.retain(|row| row.name.to_lowercase().contains(&filter));
    rows.sort_by(|a, b| {
        let by_number = match sort.checked_sub(1) {
            Some(at) => {
                let (a, b) = (a.numbers.get(at), b.numbers.get(at));
                b.partial_cmp(&a).unwrap_or(Ordering::Equal)
            }
            None => Ordering::Equal,
        };
        by_number
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| a.site.cmp(&b.site))
    });
    rows
}

fn ns(ns: u64) -> String {
    match ns {
        0 => "-".to_owned(),
        ns => units::duration(ns as f64),
    }
}

fn mean_ns(track: &Track) -> u64 {
    track.last.total_ns / track.last.count.max(1)
}

fn trend(track: &Track) -> Vec<f64> {
    track.history.iter().map(|ns| *ns as f64).collect()
}

fn scopes(model: &Model) -> Vec<Row> {
    let of = |(site, track): (&SiteId, &Track)| {
        let (last, mean) = (&track.last, mean_ns(track));
        Row {
            site: Some(*site),
            name: printable(model.catalog.site_name(*site)),
            cells: vec![
                ns(last.self_ns),
                ns(last.total_ns),
                units::count(last.count),
                ns(mean),
                ns(last.max_ns),
            ],
            numbers: vec![
                last.self_ns as f64,
                last.total_ns as f64,
                last.count as f64,
                mean as f64,
                last.max_ns as f64,
            ],
            trend: trend(track),
        }
    };
    let is_scope = |(site, _): &(&SiteId, &Track)| model.wait_of(**site).is_none();
    model.scopes.iter().filter(is_scope).map(of).collect()
}

fn threads(model: &Model) -> Vec<Row> {
    let of = |(thread, track): (&ThreadId, &Track)| {
        let busy = track.last.self_ns as f64 / 1e7;
        Row {
            site: None,
            name: printable(&thread_label(&model.catalog, *thread)),
            cells: vec![
                format!("{busy:.0} %"),
                units::count(track.last.count),
                units::count(track.all.count),
            ],
            numbers: vec![busy, track.last.count as f64, track.all.count as f64],
            trend: trend(track),
        }
    };
    model.threads.iter().map(of).collect()
}

fn metrics(model: &Model) -> Vec<Row> {
    let of = |(column, (value, history)): (&u32, &(f64, std::collections::VecDeque<f64>))| {
        let metric = &model.catalog.columns.get(*column as usize)?.metric;
        let least = history.iter().copied().fold(f64::INFINITY, f64::min);
        let most = history.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shown = |value| units::metric(value, &metric.unit, false);
        Some(Row {
            site: None,
            name: printable(&metric.name),
            cells: vec![shown(*value), shown(least), shown(most)],
            numbers: vec![*value, least, most],
            trend: history.iter().copied().collect(),
        })
    };
    model.metrics.iter().filter_map(of).collect()
}

fn waits(model: &Model) -> Vec<Row> {
    let of = |(site, track): (&SiteId, &Track)| {
        let wait = model.wait_of(*site)?;
        let (last, mean) = (&track.last, mean_ns(track));
        Some(Row {
            site: Some(*site),
            name: printable(wait.name),
            cells: vec![
                ns(last.total_ns),
                units::count(last.count),
                ns(mean),
                ns(last.max_ns),
            ],
            numbers: vec![
                last.total_ns as f64,
                last.count as f64,
                mean as f64,
                last.max_ns as f64,
            ],
            trend: trend(track),
        })
    };
    model.scopes.iter().filter_map(of).collect()
}

/// Draws the newest values as bars of a character each.
pub(super) fn sparkline(values: &[f64], width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(width)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| {
        if most <= 0.0 || *value <= 0.0 {
            return ' ';
        }
        // From 0 to 7: the quotient is at most 1.
        let step = (value / most * 8.0).ceil() as usize;
        BARS[step.clamp(1, 8) - 1]
    };
    let line: String = shown.iter().map(bar).collect();
    format!("{line:>width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_shows_the_newest_values() {
        assert_eq!(sparkline(&[9.0, 0.0, 1.0, 4.0, 8.0], 4), " ▁▄█");
        assert_eq!(sparkline(&[5.0], 3), "  █");
        assert_eq!(sparkline(&[0.0, f64::NAN, -1.0], 3), "   ");
        assert_eq!(sparkline(&[], 2), "  ");
    }
}
