//! `vor stats`: the time that each scope takes.
//!
//! Spans are read in the order in which they ended, so memory does not grow with the file. With
//! `--frames`, spans before the range are read too: a scope that ends within the range may contain
//! some of them, and their time is not part of its self time.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;
use vor_capture::model::catalog::{Catalog, MachineInfo};
use vor_capture::model::measures::{Measured, Measures};
use vor_capture::reader::Piece;
use vor_capture::stats::{FrameStats, ScopeStats, StatsBuilder};
use vor_capture::units;
use vor_export::thread_label;
use vor_recorder::setup::{calibrate, empty_span_ns};

use crate::command::Outcome;
use crate::command::failure::{Failure, warn};
use crate::command::json::{self, DamageJson};
use crate::command::modes::{Modes, NOT_RECORDED};
use crate::command::patterns::{Pattern, expect_known, expect_matches, is_selected};
use crate::command::progress::Progress;
use crate::command::range::FrameRange;
use crate::command::slowest;
use crate::command::source::{Source, WalkResult, no_spans};
use crate::command::table::{Column, Kind, printable, write_table};

/// Lists scopes by the time they take: total, self, mean, percentiles.
///
/// The total of a scope is the time during which at least one call was open, summed over threads: a
/// recursive call adds nothing to the call around it. Self is the time without the scopes directly
/// inside. Mean, percentiles and max describe single calls, including recursive ones.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The capture: a file, a folder of segments, or a pattern such as 'run-*.vor'.
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// Sorts the rows: the largest first, names from a to z.
    #[arg(long, value_name = "COLUMN", default_value = "self")]
    sort: Sort,
    /// Only spans that ended in these frames: 10..20 (without 20), 10..=20, 10.., ..20, or one
    /// number.
    #[arg(long, value_name = "A..B")]
    frames: Option<FrameRange>,
    /// Subtracts the cost of each scope: --corrected=19 subtracts 19 nanoseconds, --corrected alone
    /// what the capture says, or in an older capture, what a scope costs on this machine.
    #[arg(long, value_name = "NS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "auto")]
    corrected: Option<Correction>,
    /// Only the first N rows.
    #[arg(short = 'n', long, value_name = "N", value_parser = slowest::at_least_one)]
    limit: Option<usize>,
    /// Only threads with this name, in which * stands for any text and ? for any character; may be
    /// repeated.
    #[arg(long, value_name = "GLOB")]
    thread: Vec<Pattern>,
    /// Only scopes with this name, in which * stands for any text and ? for any character; may be
    /// repeated.
    #[arg(long, value_name = "GLOB")]
    name: Vec<Pattern>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    #[value(name = "self")]
    Own,
    Total,
    Mean,
    P50,
    P95,
    P99,
    Max,
    Count,
    /// CPU time, where it was measured.
    Cpu,
    /// Bytes allocated, where they were counted.
    Alloc,
    Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Correction {
    Auto,
    Ns(u64),
}

impl FromStr for Correction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse()
            .map(Self::Ns)
            .map_err(|_| format!("`{text}` is neither a number of nanoseconds nor `auto`"))
    }
}

#[derive(Debug, Serialize)]
struct StatsJson<'a> {
    file: String,
    version: u16,
    frames: FramesJson,
    spans: u64,
    dropped_spans: u64,
    corrected_ns: Option<u64>,
    estimated_self_times: u64,
    scopes: Vec<ScopeJson<'a>>,
    /// Scopes without spans that were not recorded as ever.
    not_recorded: Vec<NotRecordedJson<'a>>,
    damage: DamageJson,
}

#[derive(Debug, Serialize)]
struct FramesJson {
    first: Option<u64>,
    last: Option<u64>,
    count: u64,
    mean_ns: f64,
    p50_ns: u64,
    p95_ns: u64,
    p99_ns: u64,
}

#[derive(Debug, Serialize)]
struct ScopeJson<'a> {
    name: &'a str,
    site: u32,
    module_path: &'a str,
    file: &'a str,
    line: u32,
    count: u64,
    total_ns: u64,
    self_ns: u64,
    min_ns: u64,
    mean_ns: f64,
    p50_ns: u64,
    p95_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    child_spans: u64,
    descendant_spans: u64,
    nested_spans: u64,
    /// How the scope was recorded; absent if each one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'a str>,
    #[serde(flatten)]
    cpu: Option<CpuJson>,
    #[serde(flatten)]
    allocations: Option<AllocationsJson>,
}

/// A scope whose spans are missing because of a rule.
#[derive(Debug, Serialize)]
struct NotRecordedJson<'a> {
    name: &'a str,
    site: u32,
    module_path: &'a str,
    file: &'a str,
    line: u32,
    mode: &'a str,
}

/// CPU time of a scope that was measured.
#[derive(Debug, Serialize)]
struct CpuJson {
    cpu_ns: u64,
    self_cpu_ns: u64,
    off_cpu_ns: u64,
    /// Both are 0 unless the program requested the split.
    cpu_user_ns: u64,
    cpu_sys_ns: u64,
    /// Absent unless the program measured waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_queue_ns: Option<u64>,
    /// Absent too in captures of recorders that did not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    context_switches: Option<u64>,
}

/// Allocations of a scope, where they were counted.
#[derive(Debug, Serialize)]
struct AllocationsJson {
    alloc_objects: u64,
    alloc_bytes: u64,
    free_objects: u64,
    free_bytes: u64,
    self_alloc_objects: u64,
    self_alloc_bytes: u64,
}

/// Statistics of the selected frames.
#[derive(Debug, Default)]
struct SelectedStats {
    builder: StatsBuilder,
    durations: FrameStats,
    first: Option<u64>,
    last: Option<u64>,
    dropped_spans: u64,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let mut source = Source::open(&args.path)?;
    let (stats, walked) = gather(args, &mut source)?;
    source.warn_of(&walked.damage);
    let spans = stats.builder.span_count();
    let mut rows = stats.builder.scope_stats(&walked.catalog);
    let modes = Modes::of(&walked.catalog);
    if args.thread.is_empty() {
        rows.extend(modes.missing(&rows));
    }
    if rows.is_empty() {
        return Err(source.failure(no_rows(args, &stats)));
    }
    if stats.durations.count() == 0 {
        warn(&format!(
            "{}: no frames; the table has all spans of the recording",
            args.path.display()
        ));
    }
    let names = rows.iter().map(|row| row.name.as_str());
    expect_matches(&args.name, names, "scope", |what| source.failure(what))?;
    rows.retain(|row| is_selected(&args.name, &row.name));
    let machine = &source.capture.catalog().machine;
    let cost = args
        .corrected
        .map(|correction| cost_ns(correction, machine));
    let corrected_ns = cost.transpose()?;
    if let Some(cost_ns) = corrected_ns {
        for row in &mut rows {
            *row = row.corrected(cost_ns);
        }
    }
    rows.sort_by(|a, b| order(args.sort, a, b));
    rows.truncate(args.limit.unwrap_or(usize::MAX));
    if args.json {
        let report = StatsJson {
            file: args.path.display().to_string(),
            version: source.info.version,
            frames: FramesJson {
                first: stats.first,
                last: stats.last,
                count: stats.durations.count(),
                mean_ns: stats.durations.mean_ns(),
                p50_ns: stats.durations.p50_ns(),
                p95_ns: stats.durations.p95_ns(),
                p99_ns: stats.durations.p99_ns(),
            },
            spans,
            dropped_spans: stats.dropped_spans,
            corrected_ns,
            estimated_self_times: stats.builder.estimated_self_times(),
            scopes: rows
                .iter()
                .filter(|row| row.count > 0)
                .map(|row| scope_json(&walked.catalog, &modes, row))
                .collect(),
            not_recorded: rows
                .iter()
                .filter(|row| row.count == 0)
                .map(|row| not_recorded_json(&walked.catalog, &modes, row))
                .collect(),
            damage: DamageJson::new(&walked.damage),
        };
        json::write_pretty(out, &report)?;
    } else {
        print_summary(args, &stats, corrected_ns, out).map_err(Failure::output)?;
        print_table(args, &walked.catalog, &modes, &rows, out)?;
    }
    Ok(Outcome::Success)
}

fn gather(args: &Args, source: &mut Source) -> Result<(SelectedStats, WalkResult), Failure> {
    // Without a range, spans that ended after the last mark count too.
    let range = match args.frames {
        Some(range) => source.bounded(range)?,
        None => FrameRange::ALL,
    };
    expect_known(source, &args.thread, &[])?;
    let mut stats = gather_once(args, source, range, StatsBuilder::new())?;
    // If too many spans waited for their parents to be stored one by one, another pass starts with
    // the points at which to split them.
    for _ in 1..StatsBuilder::MAX_PASSES {
        let Some(builder) = stats.0.builder.for_second_pass() else {
            break;
        };
        stats = gather_once(args, source, range, builder)?;
    }
    Ok(stats)
}

fn gather_once(
    args: &Args,
    source: &mut Source,
    range: FrameRange,
    builder: StatsBuilder,
) -> Result<(SelectedStats, WalkResult), Failure> {
    let mut stats = SelectedStats {
        builder,
        ..SelectedStats::default()
    };
    let mut progress = Progress::new("reading", false);
    let walked = source.walk(&mut progress, |piece| {
        match piece {
            Piece::Batch(batch) => {
                for thread in &batch.threads {
                    let name = thread_label(&batch.catalog, thread.thread);
                    if is_selected(&args.thread, &name) {
                        stats.builder.add_thread(&batch.catalog, thread);
                    }
                }
            }
            Piece::Frame(recovered) if recovered.frame.frame_set == 0 => {
                let frame = &recovered.frame;
                if frame.index < range.from {
                    stats.builder.restart();
                }
                if range.contains(frame.index) {
                    let duration_ns = u64::try_from(frame.duration_ns()).unwrap_or(0);
                    stats.durations.record_ns(duration_ns);
                    stats.first.get_or_insert(frame.index);
                    stats.last = Some(frame.index);
                    // The numbers of a damaged capture may be anything.
                    stats.dropped_spans = stats.dropped_spans.saturating_add(frame.dropped_spans);
                }
                if range
                    .to
                    .is_some_and(|to| frame.index.saturating_add(1) >= to)
                {
                    return Ok(ControlFlow::Break(()));
                }
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((stats, walked))
}

/// Returns the error for a table without rows.
fn no_rows(args: &Args, stats: &SelectedStats) -> String {
    match (stats.durations.count(), &args.thread[..]) {
        (0, _) => "no frames".into(),
        (frames, []) => no_spans(frames),
        (frames, [thread, ..]) => format!(
            "no spans of thread `{thread}` in {}",
            units::counted(frames, "frame")
        ),
    }
}

/// Returns the cost of a scope: the given one, that in the capture, or else that on this machine.
fn cost_ns(correction: Correction, machine: &MachineInfo) -> Result<u64, Failure> {
    match correction {
        Correction::Ns(ns) => Ok(ns),
        Correction::Auto if machine.scope_ps > 0 => Ok(machine.scope_ps.div_ceil(1000)),
        Correction::Auto => {
            calibrate();
            match empty_span_ns() {
                0 => Err(Failure::Message(
                    "cannot measure the cost of a scope on this machine; give it as --corrected=NS"
                        .into(),
                )),
                ns => Ok(ns),
            }
        }
    }
}

fn order(sort: Sort, a: &ScopeStats, b: &ScopeStats) -> Ordering {
    let by = match sort {
        Sort::Own => b.self_ns.cmp(&a.self_ns),
        Sort::Total => b.total_ns.cmp(&a.total_ns),
        Sort::Mean => b.mean_ns.total_cmp(&a.mean_ns),
        Sort::P50 => b.p50_ns.cmp(&a.p50_ns),
        Sort::P95 => b.p95_ns.cmp(&a.p95_ns),
        Sort::P99 => b.p99_ns.cmp(&a.p99_ns),
        Sort::Max => b.max_ns.cmp(&a.max_ns),
        Sort::Count => b.count.cmp(&a.count),
        Sort::Cpu => b.self_cpu_ns().cmp(&a.self_cpu_ns()),
        Sort::Alloc => b
            .self_measured
            .alloc_bytes
            .cmp(&a.self_measured.alloc_bytes),
        Sort::Name => Ordering::Equal,
    };
    by.then_with(|| a.name.cmp(&b.name))
        .then_with(|| a.site.cmp(&b.site))
}

fn not_recorded_json<'a>(
    catalog: &'a Catalog,
    modes: &'a Modes<'_>,
    row: &'a ScopeStats,
) -> NotRecordedJson<'a> {
    let site = catalog.site(row.site);
    NotRecordedJson {
        name: &row.name,
        site: row.site.0,
        module_path: site.map_or("", |site| &site.module_path),
        file: site.map_or("", |site| &site.file),
        line: site.map_or(0, |site| site.line),
        mode: modes.of_site(row.site).unwrap_or_default(),
    }
}

fn scope_json<'a>(
    catalog: &'a Catalog,
    modes: &'a Modes<'_>,
    row: &'a ScopeStats,
) -> ScopeJson<'a> {
    let site = catalog.site(row.site);
    ScopeJson {
        name: &row.name,
        site: row.site.0,
        module_path: site.map_or("", |site| &site.module_path),
        file: site.map_or("", |site| &site.file),
        line: site.map_or(0, |site| site.line),
        count: row.count,
        total_ns: row.total_ns,
        self_ns: row.self_ns,
        min_ns: row.min_ns,
        mean_ns: row.mean_ns,
        p50_ns: row.p50_ns,
        p95_ns: row.p95_ns,
        p99_ns: row.p99_ns,
        max_ns: row.max_ns,
        child_spans: row.child_spans,
        descendant_spans: row.descendant_spans,
        nested_spans: row.nested_spans,
        mode: modes.of_site(row.site),
        cpu: row
            .cpu_ns()
            .zip(row.self_cpu_ns())
            .map(|(cpu_ns, self_cpu_ns)| CpuJson {
                cpu_ns,
                self_cpu_ns,
                off_cpu_ns: row.measured.off_cpu_ns,
                cpu_user_ns: row.measured.cpu_user_ns,
                cpu_sys_ns: row.measured.cpu_sys_ns,
                run_queue_ns: row
                    .measures
                    .has(Measures::WAIT)
                    .then_some(row.measured.run_queue_ns),
                context_switches: row
                    .measures
                    .has(Measures::SWITCHES)
                    .then_some(row.measured.context_switches),
            }),
        allocations: row
            .measures
            .has(Measures::ALLOC)
            .then_some(AllocationsJson {
                alloc_objects: row.measured.alloc_objects,
                alloc_bytes: row.measured.alloc_bytes,
                free_objects: row.measured.free_objects,
                free_bytes: row.measured.free_bytes,
                self_alloc_objects: row.self_measured.alloc_objects,
                self_alloc_bytes: row.self_measured.alloc_bytes,
            }),
    }
}

/// Prints the number of spans and frames, the frame times, and how complete the table is.
fn print_summary(
    args: &Args,
    stats: &SelectedStats,
    corrected_ns: Option<u64>,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let spans = units::counted(stats.builder.span_count(), "span");
    let durations = &stats.durations;
    match (stats.first, stats.last) {
        (Some(first), Some(last)) => {
            let frames = units::counted(durations.count(), "frame");
            writeln!(out, "{spans} in {frames} ({first} to {last})")?;
            let ns = |ns: u64| units::duration(ns as f64);
            writeln!(
                out,
                "frame time: mean {}, p50 {}, p95 {}, p99 {}",
                units::duration(durations.mean_ns()),
                ns(durations.p50_ns()),
                ns(durations.p95_ns()),
                ns(durations.p99_ns())
            )?;
        }
        _ => writeln!(out, "{spans}")?,
    }
    if !args.thread.is_empty() {
        let threads: Vec<String> = args.thread.iter().map(ToString::to_string).collect();
        let word = if threads.len() == 1 {
            "thread"
        } else {
            "threads"
        };
        writeln!(out, "only {word} {}", printable(&threads.join(", ")))?;
    }
    if let Some(ns) = corrected_ns {
        writeln!(out, "corrected for {ns} ns per scope")?;
    }
    if stats.dropped_spans > 0 {
        let dropped = units::counted(stats.dropped_spans, "span");
        writeln!(
            out,
            "{dropped} DROPPED while recording (a ring was full): counts and totals are too small"
        )?;
    }
    let estimated = stats.builder.estimated_self_times();
    if estimated > 0 {
        let estimated = units::counted(estimated, "self time");
        writeln!(out, "{estimated} estimated; the sum of all is exact")?;
    }
    writeln!(out)
}

fn print_table(
    args: &Args,
    catalog: &Catalog,
    modes: &Modes<'_>,
    rows: &[ScopeStats],
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut sites_by_name: HashMap<&str, u64> = HashMap::new();
    for row in rows {
        *sites_by_name.entry(&row.name).or_default() += 1;
    }
    let shown = |row: &ScopeStats| {
        shown_name(
            catalog,
            row,
            sites_by_name.get(row.name.as_str()) > Some(&1),
        )
    };
    let names: Vec<String> = rows.iter().map(shown).collect();
    // Columns are dropped before a name is cut to less than this.
    let name_width = names
        .iter()
        .map(|name| name.width())
        .max()
        .unwrap_or(0)
        .min(24);
    // The column by which the rows are sorted is always shown.
    let number = |head: &str, sort: Option<Sort>, rank: u8| {
        let rank = if sort == Some(args.sort) { 0 } else { rank };
        Column::new(head, Kind::Number, rank)
    };
    let measured = |measures: Measures| rows.iter().any(|row| row.measures.has(measures));
    let (has_cpu, has_alloc) = (measured(Measures::CPU), measured(Measures::ALLOC));
    let has_wait = measured(Measures::WAIT);
    let has_switches = measured(Measures::SWITCHES);
    let mut columns = vec![
        Column::new("scope", Kind::Text, 0).shrinking_to(name_width),
        number("count", Some(Sort::Count), 0),
        number("self", Some(Sort::Own), 0),
        number("%", None, 1),
        number("total", Some(Sort::Total), 0),
        number("mean", Some(Sort::Mean), 4),
        number("min", None, 7),
        number("p50", Some(Sort::P50), 2),
        number("p95", Some(Sort::P95), 5),
        number("p99", Some(Sort::P99), 2),
        number("max", Some(Sort::Max), 3),
    ];
    if has_cpu {
        columns.push(number("cpu", Some(Sort::Cpu), 0));
        if has_wait {
            columns.push(number("queued", None, 1));
            columns.push(number("blocked", None, 1));
        } else {
            columns.push(number("off cpu", None, 1));
        }
        if has_switches {
            columns.push(number("switches", None, 1));
        }
    }
    if has_alloc {
        columns.push(number("allocs", None, 1));
        columns.push(number("alloc", Some(Sort::Alloc), 0));
    }
    if !modes.is_empty() {
        columns.push(Column::new("mode", Kind::Text, 0));
    }
    columns.push(Column::new("where", Kind::Text, 6));
    let self_ns = rows.iter().map(|row| row.self_ns);
    let all_self_ns = self_ns.fold(0, u64::saturating_add);
    let ns = |ns: u64| units::duration(ns as f64);
    let cells = rows.iter().zip(names).map(|(row, name)| {
        let mut cells = vec![
            name,
            units::count(row.count),
            ns(row.self_ns),
            format!(
                "{:.1}",
                100.0 * row.self_ns as f64 / all_self_ns.max(1) as f64
            ),
            ns(row.total_ns),
            units::duration(row.mean_ns),
            ns(row.min_ns),
            ns(row.p50_ns),
            ns(row.p95_ns),
            ns(row.p99_ns),
            ns(row.max_ns),
        ];
        let cell =
            |is_measured: bool, text: String| if is_measured { text } else { "-".to_owned() };
        if has_cpu {
            let own = row.self_cpu_ns();
            cells.push(own.map_or("-".to_owned(), ns));
            let Measured {
                off_cpu_ns,
                run_queue_ns,
                context_switches,
                ..
            } = row.self_measured;
            if has_wait {
                let is_split = row.measures.has(Measures::WAIT);
                cells.push(cell(is_split, ns(run_queue_ns)));
                cells.push(cell(is_split, ns(off_cpu_ns.saturating_sub(run_queue_ns))));
            } else {
                cells.push(cell(own.is_some(), ns(off_cpu_ns)));
            }
            if has_switches {
                let is_counted = row.measures.has(Measures::SWITCHES);
                cells.push(cell(is_counted, units::count(context_switches)));
            }
        }
        if has_alloc {
            let is_counted = row.measures.has(Measures::ALLOC);
            cells.push(cell(
                is_counted,
                units::count(row.self_measured.alloc_objects),
            ));
            cells.push(cell(
                is_counted,
                units::bytes(row.self_measured.alloc_bytes),
            ));
        }
        if row.count == 0 {
            cells[1..].fill("-".to_owned());
            cells[1] = NOT_RECORDED.to_owned();
        }
        if !modes.is_empty() {
            cells.push(modes.of_site(row.site).unwrap_or("record").to_owned());
        }
        cells.push(place(catalog, row).unwrap_or_default());
        cells
    });
    let cells: Vec<Vec<String>> = cells.collect();
    write_table(out, &columns, &cells)
}

/// Returns the name of a row, with its place in the source if several call sites share the name.
fn shown_name(catalog: &Catalog, row: &ScopeStats, is_shared: bool) -> String {
    let name = printable(&row.name);
    match place(catalog, row) {
        Some(place) if is_shared => {
            let file = place.rsplit(['/', '\\']).next().unwrap_or(&place);
            format!("{name} {file}")
        }
        _ => name,
    }
}

/// Returns the place of a row's call site in the source; `None` for names made at run time.
fn place(catalog: &Catalog, row: &ScopeStats) -> Option<String> {
    let site = catalog
        .site(row.site)
        .filter(|site| !site.file.is_empty())?;
    Some(format!("{}:{}", printable(&site.file), site.line))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use vor_capture::filled;
    use vor_capture::model::batch::ThreadBatch;
    use vor_capture::model::catalog::SiteId;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// Many spans wait for parents, of which three of other scopes end in the only pass.
    #[test]
    fn estimated_self_times_are_counted_in_the_summary() {
        const LEAVES: u64 = 100_000;
        let thread = |spans: &[(u64, u64, u32)]| {
            filled!(ThreadBatch {
                start_ticks: spans.iter().map(|span| span.0).collect(),
                duration_ticks: spans.iter().map(|span| span.1).collect(),
                sites: spans.iter().map(|span| SiteId(span.2)).collect()
            })
        };
        let leaves: Vec<_> = (0..LEAVES).map(|leaf| (leaf * 10, 5, 1)).collect();
        let around = [(11, 2), (7, 3), (3, 4)];
        let around = around.map(|(before, site)| (before * 10 - 1, (LEAVES - before) * 10, site));
        let (mut stats, catalog) = (SelectedStats::default(), Catalog::default());
        stats.builder.add_thread(&catalog, &thread(&leaves));
        stats.builder.add_thread(&catalog, &thread(&around));
        let line = Line::parse_from(["stats", "run.vor"]);
        let mut out = Vec::new();
        print_summary(&line.args, &stats, None, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "100\u{202f}003 spans\n3 self times estimated; the sum of all is exact\n\n"
        );
    }
}
