//! A comparison as a table, as Markdown and as JSON. `docs/command.md` documents the fields of
//! JSON, which are only ever added to.

use std::collections::HashMap;
use std::io::Write;

use serde::Serialize;
use unicode_width::UnicodeWidthStr;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::measures::{Measured, Measures};
use vor_capture::stats::ScopeStats;
use vor_capture::units;

use super::gather::Side;
use super::{Args, Comparison, Format, Metric, Row, Sort};
use crate::command::failure::Failure;
use crate::command::json::{self, DamageJson};
use crate::command::modes::NOT_RECORDED;
use crate::command::table::{Column, Kind, printable, room, wrap, write_table};

/// Writes a comparison in the requested format.
pub(super) fn show(
    args: &Args,
    comparison: &Comparison,
    out: &mut impl Write,
) -> Result<(), Failure> {
    match args.format {
        Format::Table => show_table(args, comparison, out),
        Format::Json => json::write_pretty(out, &DiffJson::new(args, comparison)),
        Format::Markdown => show_markdown(args, comparison, out).map_err(Failure::output),
    }
}

/// Formats a share as a percentage with its sign.
pub(super) fn percent(part: f64) -> String {
    let percent = part * 100.0;
    if percent.abs() < 0.05 {
        return "0.0 %".into();
    }
    let decimals = usize::from(percent.abs() < 999.95);
    format!("{percent:+.decimals$} %")
}

/// Formats an interval.
pub(super) fn interval((low, high): (f64, f64)) -> String {
    let end = |part: f64| percent(part).trim_end_matches(" %").to_owned();
    format!("{} to {}", end(low), percent(high))
}

/// Returns the rows that `--limit` leaves.
fn shown_rows<'a>(args: &Args, comparison: &'a Comparison) -> &'a [Row] {
    let most = args.limit.unwrap_or(usize::MAX).min(comparison.rows.len());
    &comparison.rows[..most]
}

fn show_table(args: &Args, comparison: &Comparison, out: &mut impl Write) -> Result<(), Failure> {
    let mut text = String::new();
    for (what, side) in [("before", &comparison.before), ("after", &comparison.after)] {
        text.push_str(&format!("{what}: {}\n", side_text(side)));
    }
    for line in comparison.losses() {
        text.push_str(&format!("{line}\n"));
    }
    text.push_str(&explanation(args, comparison));
    let room = room().unwrap_or(usize::MAX);
    for line in text.lines().flat_map(|line| wrap(line, room)) {
        writeln!(out, "{line}").map_err(Failure::output)?;
    }
    writeln!(out).map_err(Failure::output)?;
    let rows = shown_rows(args, comparison);
    let names = names(comparison, rows);
    // Columns are dropped before a name is cut to less than this.
    let name_width = names
        .iter()
        .map(|name| name.width())
        .max()
        .unwrap_or(0)
        .min(24);
    let mut columns = vec![Column::new("scope", Kind::Text, 0).shrinking_to(name_width)];
    let heads = heads(args, comparison);
    let mut ranks = [0, 0, 1, 2, 4, 5, 3, 6, 7, 2, 2];
    // The column by which the rows are sorted is always shown.
    if let Some(sorted) = sorting_column(args.sort) {
        ranks[sorted] = 0;
    }
    let heads = heads.iter().zip(ranks);
    columns.extend(heads.map(|(head, rank)| Column::new(head, Kind::Number, rank)));
    columns.push(Column::new("where", Kind::Text, 8));
    let cells = rows.iter().zip(names).map(|(row, name)| {
        let mut cells = vec![name];
        cells.extend(row_cells(args, comparison, row));
        cells.push(row.place(comparison).unwrap_or_default());
        cells
    });
    let cells: Vec<Vec<String>> = cells.collect();
    write_table(out, &columns, &cells)?;
    let left_out = comparison.rows.len() - rows.len();
    if left_out > 0 {
        let more = units::counted(left_out as u64, "more scope");
        writeln!(out, "and {more}").map_err(Failure::output)?;
    }
    Ok(())
}

/// Writes a table for a pull request, with its explanation below.
fn show_markdown(
    args: &Args,
    comparison: &Comparison,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let rows = shown_rows(args, comparison);
    let heads = heads(args, comparison);
    write!(out, "| scope |")?;
    heads.iter().try_for_each(|head| write!(out, " {head} |"))?;
    write!(out, "\n|---|")?;
    heads.iter().try_for_each(|_| write!(out, "---:|"))?;
    writeln!(out)?;
    for (row, name) in rows.iter().zip(names(comparison, rows)) {
        let name = escaped(&name);
        let name = if row.is_slower {
            format!("**{name}**")
        } else {
            name
        };
        write!(out, "| {name} |")?;
        for cell in row_cells(args, comparison, row) {
            write!(out, " {cell} |")?;
        }
        writeln!(out)?;
    }
    writeln!(out)?;
    let left_out = comparison.rows.len() - rows.len();
    if left_out > 0 {
        let more = units::counted(left_out as u64, "more scope");
        writeln!(out, "And {more}.\n")?;
    }
    if let Some(limit) = args.fail_above {
        let slower = comparison.rows.iter().filter(|row| row.is_slower).count();
        let slower = units::counted(slower as u64, "scope");
        writeln!(out, "Slower by more than {limit} %: {slower}.\n")?;
    }
    writeln!(out, "- before: {}", escaped(&side_text(&comparison.before)))?;
    writeln!(out, "- after: {}", escaped(&side_text(&comparison.after)))?;
    for line in comparison.losses() {
        writeln!(out, "- {}", escaped(&line))?;
    }
    writeln!(out, "- {}", explanation(args, comparison))
}

/// Describes a side: its path, spans and frames.
fn side_text(side: &Side) -> String {
    let spans = units::counted(side.stats.span_count(), "span");
    let path = printable(&side.path.display().to_string());
    match (side.first, side.last) {
        (Some(first), Some(last)) => {
            let frames = units::counted(side.frames, "frame");
            format!("{path}, {spans} in {frames} ({first} to {last})")
        }
        _ => format!("{path}, {spans}"),
    }
}

fn explanation(args: &Args, comparison: &Comparison) -> String {
    format!(
        "Δ {}: its change, with the 95 % confidence interval within these two recordings; \
         Δ self: change of the sum of self times, per {}",
        args.metric.name(),
        unit(comparison)
    )
}

fn unit(comparison: &Comparison) -> &'static str {
    if comparison.is_per_frame {
        "frame"
    } else {
        "recording"
    }
}

/// Returns the names of rows, with their places if several rows share a name.
fn names(comparison: &Comparison, rows: &[Row]) -> Vec<String> {
    let mut rows_by_name: HashMap<&str, u64> = HashMap::new();
    for row in &comparison.rows {
        *rows_by_name.entry(&row.shown().name).or_default() += 1;
    }
    let named = |row: &Row| {
        let name = printable(&row.shown().name);
        match row.place(comparison) {
            Some(place) if rows_by_name.get(row.shown().name.as_str()) > Some(&1) => {
                let file = place.rsplit(['/', '\\']).next().unwrap_or(&place);
                format!("{name} {file}")
            }
            _ => name,
        }
    };
    rows.iter().map(named).collect()
}

/// Returns the heads of the columns after the name; the last two only if waits were measured.
fn heads(args: &Args, comparison: &Comparison) -> Vec<String> {
    let measure = match args.metric {
        Metric::Mean => "mean",
        Metric::P50 => "p50",
        Metric::P99 => "p99",
        Metric::Own => "mean self",
    };
    // The compared measure has a column.
    let own = if args.metric == Metric::Own {
        measure
    } else {
        "self"
    };
    let mut heads = vec![
        format!("Δ self/{}", unit(comparison)),
        format!("Δ {measure}"),
        "95 % interval".into(),
        "mean".into(),
        "p50".into(),
        "p99".into(),
        "count".into(),
        "total".into(),
        own.into(),
    ];
    if has_waits(comparison) {
        heads.extend(["queued".into(), "blocked".into()]);
    }
    heads
}

/// Returns whether a scope of either side was divided into running and waiting.
fn has_waits(comparison: &Comparison) -> bool {
    let sides = |row: &Row| {
        row.pair.before().is_some_and(is_divided) || row.pair.after().is_some_and(is_divided)
    };
    comparison.rows.iter().any(sides)
}

fn is_divided(stats: &ScopeStats) -> bool {
    stats.measures.has(Measures::WAIT)
}

/// Returns how long a call was queued for a processor, and how long it was blocked, in the mean.
fn mean_waits_ns(stats: &ScopeStats) -> Option<[f64; 2]> {
    let Measured {
        off_cpu_ns,
        run_queue_ns,
        ..
    } = stats.measured;
    let sums = [run_queue_ns, off_cpu_ns.saturating_sub(run_queue_ns)];
    is_divided(stats).then(|| sums.map(|ns| ns as f64 / stats.count.max(1) as f64))
}

/// Returns the index in [`heads`] of the column that an order uses; names have none.
fn sorting_column(sort: Sort) -> Option<usize> {
    match sort {
        Sort::Change => Some(0),
        Sort::Percent => Some(1),
        Sort::Mean => Some(3),
        Sort::P50 => Some(4),
        Sort::P99 => Some(5),
        Sort::Count => Some(6),
        Sort::Total => Some(7),
        Sort::Own => Some(8),
        Sort::Name => None,
    }
}

/// Returns the cells of a row after its name, in the order of [`heads`].
fn row_cells(args: &Args, comparison: &Comparison, row: &Row) -> Vec<String> {
    let (before, after) = (row.pair.before(), row.pair.after());
    let cell = |text: &dyn Fn(&ScopeStats) -> String| match (before, after) {
        (Some(before), Some(after)) => format!("{} → {}", text(before), text(after)),
        (Some(one), None) | (None, Some(one)) => text(one),
        (None, None) => String::new(),
    };
    let ns = |ns: u64| units::duration(ns as f64);
    let change = match (before, after) {
        (None, _) if row.is_unrecorded(comparison) => "not recorded before".into(),
        (None, _) => "new".into(),
        (_, None) if row.is_unrecorded(comparison) => NOT_RECORDED.into(),
        (_, None) => "gone".into(),
        _ => row
            .change
            .map_or_else(|| "–".into(), |change| percent(change.change)),
    };
    let known = row.change.and_then(|change| change.interval);
    let own_mean =
        |stats: &ScopeStats| units::duration(stats.self_ns as f64 / stats.count.max(1) as f64);
    let mut cells = vec![
        signed_duration(row.self_change_ns),
        change,
        known.map_or_else(|| "–".into(), interval),
        cell(&|stats| units::duration(stats.mean_ns)),
        cell(&|stats| ns(stats.p50_ns)),
        cell(&|stats| ns(stats.p99_ns)),
        cell(&|stats| units::count(stats.count)),
        cell(&|stats| ns(stats.total_ns)),
        cell(&|stats| match args.metric {
            Metric::Own => own_mean(stats),
            _ => ns(stats.self_ns),
        }),
    ];
    if has_waits(comparison) {
        cells.extend([0, 1].map(|part| {
            cell(&|stats| match mean_waits_ns(stats) {
                Some(ns) => units::duration(ns[part]),
                None => "–".into(),
            })
        }));
    }
    cells
}

fn signed_duration(ns: f64) -> String {
    let size = units::duration(ns.abs());
    match size.as_str() {
        "0 ns" => size,
        _ if ns.is_sign_negative() => format!("-{size}"),
        _ => format!("+{size}"),
    }
}

/// Escapes the characters that are special in Markdown.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(
            c,
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '#' | '&' | '@'
        ) {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

#[derive(Debug, Serialize)]
struct DiffJson<'a> {
    before: SideJson,
    after: SideJson,
    metric: &'static str,
    confidence: f64,
    per: &'static str,
    fail_above_percent: Option<f64>,
    slower: u64,
    scopes: Vec<RowJson<'a>>,
}

#[derive(Debug, Serialize)]
struct SideJson {
    file: String,
    version: u16,
    frames: FramesJson,
    spans: u64,
    dropped_spans: u64,
    estimated_self_times: u64,
    damage: DamageJson,
}

#[derive(Debug, Serialize)]
struct FramesJson {
    first: Option<u64>,
    last: Option<u64>,
    count: u64,
}

#[derive(Debug, Serialize)]
struct RowJson<'a> {
    name: &'a str,
    status: &'static str,
    change_percent: Option<f64>,
    low_percent: Option<f64>,
    high_percent: Option<f64>,
    slower: bool,
    self_change_ns: f64,
    /// How the scope was recorded; absent if each one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    before_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_mode: Option<String>,
    before: Option<ScopeJson<'a>>,
    after: Option<ScopeJson<'a>>,
}

#[derive(Debug, Serialize)]
struct ScopeJson<'a> {
    site: u32,
    module_path: &'a str,
    file: &'a str,
    line: u32,
    count: u64,
    total_ns: u64,
    self_ns: u64,
    mean_ns: f64,
    p50_ns: u64,
    p99_ns: u64,
    /// Absent unless waits were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    off_cpu_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_queue_ns: Option<u64>,
}

impl<'a> DiffJson<'a> {
    fn new(args: &Args, comparison: &'a Comparison) -> Self {
        let rows = shown_rows(args, comparison).iter();
        let slower = comparison.rows.iter().filter(|row| row.is_slower);
        Self {
            before: SideJson::new(&comparison.before),
            after: SideJson::new(&comparison.after),
            metric: match args.metric {
                Metric::Mean => "mean",
                Metric::P50 => "p50",
                Metric::P99 => "p99",
                Metric::Own => "self",
            },
            confidence: 0.95,
            per: unit(comparison),
            fail_above_percent: args.fail_above,
            slower: slower.count() as u64,
            scopes: rows.map(|row| RowJson::new(comparison, row)).collect(),
        }
    }
}

impl SideJson {
    fn new(side: &Side) -> Self {
        Self {
            file: side.path.display().to_string(),
            version: side.version,
            frames: FramesJson {
                first: side.first,
                last: side.last,
                count: side.frames,
            },
            spans: side.stats.span_count(),
            dropped_spans: side.dropped_spans,
            estimated_self_times: side.stats.estimated_self_times(),
            damage: DamageJson::new(&side.damage),
        }
    }
}

impl<'a> RowJson<'a> {
    fn new(comparison: &'a Comparison, row: &'a Row) -> Self {
        let interval = row.change.and_then(|change| change.interval);
        let (before, after) = (row.pair.before(), row.pair.after());
        let scope = |side: &'a Side, stats: Option<&ScopeStats>| {
            stats.map(|stats| ScopeJson::new(&side.catalog, stats))
        };
        Self {
            name: &row.shown().name,
            status: match (before, after) {
                (None, _) | (_, None) if row.is_unrecorded(comparison) => "not_recorded",
                (None, _) => "new",
                (_, None) => "gone",
                _ => "both",
            },
            change_percent: row.change.map(|change| change.change * 100.0),
            low_percent: interval.map(|(low, _)| low * 100.0),
            high_percent: interval.map(|(_, high)| high * 100.0),
            slower: row.is_slower,
            self_change_ns: row.self_change_ns,
            before_mode: row.mode(comparison, &comparison.before),
            after_mode: row.mode(comparison, &comparison.after),
            before: scope(&comparison.before, before),
            after: scope(&comparison.after, after),
        }
    }
}

impl<'a> ScopeJson<'a> {
    fn new(catalog: &'a Catalog, stats: &ScopeStats) -> Self {
        let site = catalog.site(stats.site);
        Self {
            site: stats.site.0,
            module_path: site.map_or("", |site| &site.module_path),
            file: site.map_or("", |site| &site.file),
            line: site.map_or(0, |site| site.line),
            count: stats.count,
            total_ns: stats.total_ns,
            self_ns: stats.self_ns,
            mean_ns: stats.mean_ns,
            p50_ns: stats.p50_ns,
            p99_ns: stats.p99_ns,
            off_cpu_ns: is_divided(stats).then_some(stats.measured.off_cpu_ns),
            run_queue_ns: is_divided(stats).then_some(stats.measured.run_queue_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_have_a_sign_and_intervals_one_unit() {
        let cases = [
            (0.101, "+10.1 %"),
            (-0.5, "-50.0 %"),
            (0.000_49, "0.0 %"),
            (-0.000_49, "0.0 %"),
            (0.000_5, "+0.1 %"),
            (-0.000_5, "-0.1 %"),
            (9.9994, "+999.9 %"),
            (-9.9994, "-999.9 %"),
            (9.9996, "+1000 %"),
            (-9.9996, "-1000 %"),
            (41.5, "+4150 %"),
        ];
        for (part, text) in cases {
            assert_eq!(percent(part), text);
        }
        assert_eq!(interval((-0.01, 0.02)), "-1.0 to +2.0 %");
    }

    #[test]
    fn changes_of_a_duration_have_a_sign_unless_they_are_shown_as_0() {
        let cases = [
            (0.0, "0 ns"),
            (0.5, "0 ns"),
            (-0.5, "0 ns"),
            (0.51, "+1 ns"),
            (-0.51, "-1 ns"),
            (145.0, "+145 ns"),
            (-1_254.0, "-1.25 µs"),
        ];
        for (ns, text) in cases {
            assert_eq!(signed_duration(ns), text);
        }
    }

    #[test]
    fn names_cannot_break_a_markdown_table() {
        assert_eq!(escaped("a|b<T>::*"), "a\\|b\\<T\\>::\\*");
        assert_eq!(escaped("`_[]~#&@\\.-"), "\\`\\_\\[\\]\\~\\#\\&\\@\\\\.-");
    }
}
