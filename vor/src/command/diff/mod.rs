//! `vor diff`: what became slower from one capture to another, and how sure that is.
//!
//! Both captures are read at once, batch by batch, into statistics per call site ([`gather`]).
//! Scopes are found again by name ([`pairs`]), and each that is in both gets the change of one
//! measure with an interval ([`interval`]). They are listed ([`show`]) by how much they contribute.

mod gather;
mod interval;
mod pairs;
mod show;

use std::cmp::Ordering;
use std::io::Write;
use std::path::PathBuf;
use std::thread;

use clap::ValueEnum;
use vor_capture::model::catalog::Catalog;
use vor_capture::stats::ScopeStats;

use gather::{Side, gather};
use interval::{Change, Measure, change};
use pairs::{Pair, pair};

use crate::command::Outcome;
use crate::command::failure::{Failure, warn};
use crate::command::patterns::{Pattern, listed, wanted};
use crate::command::progress::Progress;
use crate::command::range::FrameRange;
use crate::command::table::printable;
use crate::command::units;

/// Compares two captures scope by scope: what became slower or faster, and how sure that is.
///
/// The interval holds the change with 95 % confidence as far as the scatter within the two
/// recordings tells. It knows nothing of what differs from one run of a program to the next, such
/// as other work of the machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The capture to compare with.
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The capture in question.
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// What is compared: the mean, the median or the 99th percentile of the lengths, or the mean of
    /// the self times.
    #[arg(long, value_name = "METRIC", default_value = "mean")]
    metric: Metric,
    /// Exit code 1 when a scope became slower by more than so many percent, with an interval that
    /// is all above 0.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,
    /// How to write it.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    /// Order of the rows: the largest first, names from a to z. `change` is the change of all self
    /// time together, up or down.
    #[arg(long, value_name = "COLUMN", default_value = "change")]
    sort: Sort,
    /// Only the first N rows; all scopes are judged nevertheless.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Only spans that ended in these frames of both: 10..20 (without 20), 10..=20, 10.., ..20, or
    /// a single number.
    #[arg(long, value_name = "A..B")]
    frames: Option<FrameRange>,
    /// Only scopes of this name, in which * stands for any text and ? for any character; may be
    /// given several times.
    #[arg(long, value_name = "GLOB")]
    name: Vec<Pattern>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Metric {
    Mean,
    P50,
    P99,
    #[value(name = "self")]
    Own,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For a pull request.
    Markdown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    Change,
    Percent,
    #[value(name = "self")]
    Own,
    Total,
    Mean,
    P50,
    P99,
    Count,
    Name,
}

/// Parses a percentage, with its sign or without.
fn percent(text: &str) -> Result<f64, String> {
    let number = text
        .strip_suffix('%')
        .unwrap_or(text)
        .trim_end()
        .parse()
        .ok();
    let usable = number.filter(|number: &f64| number.is_finite() && *number >= 0.0);
    usable.ok_or_else(|| format!("`{text}` is no percentage; write one like 5%"))
}

/// A scope of either capture.
#[derive(Debug)]
struct Row {
    pair: Pair,
    /// What became of the measure; `None` where the scope is new or gone, or was 0 before.
    change: Option<Change>,
    /// Change of the sum of all its self times, per frame or per recording.
    self_change_ns: f64,
    /// Whether it is slower than what was allowed.
    is_slower: bool,
}

/// Both captures, and what follows from them.
#[derive(Debug)]
struct Comparison {
    before: Side,
    after: Side,
    rows: Vec<Row>,
    /// Whether both have frames, so that sums can be told per frame.
    is_per_frame: bool,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let mut comparison = compare(args)?;
    let sides = [&comparison.before, &comparison.after];
    sides.iter().for_each(|side| side.warn_of_damage());
    let is_incomplete = sides.iter().any(|side| side.is_incomplete);
    comparison.rows.sort_by(|a, b| order(args.sort, a, b));
    let offenders = comparison.rows.iter().filter(|row| row.is_slower);
    let lines: Vec<String> = offenders
        .map(|row| accusation(args, &comparison, row))
        .collect();
    show::show(args, &comparison, out)?;
    // The rows come first where both go to one terminal.
    out.flush().map_err(Failure::output)?;
    lines.iter().for_each(|line| warn(line));
    Ok(if !lines.is_empty() {
        Outcome::Found
    } else if is_incomplete {
        Outcome::Incomplete
    } else {
        Outcome::Fine
    })
}

fn compare(args: &Args) -> Result<Comparison, Failure> {
    let (before, after) = read_both(args)?;
    for pattern in &args.name {
        if !before.knows(pattern) && !after.knows(pattern) {
            return Err(unknown(&before, &after, pattern));
        }
    }
    let is_per_frame = before.frames_with_spans > 0 && after.frames_with_spans > 0;
    let units = |side: &Side| {
        if is_per_frame {
            side.frames_with_spans as f64
        } else {
            1.0
        }
    };
    let own_ns = |stats: Option<&ScopeStats>| stats.map_or(0.0, |stats| stats.self_ns as f64);
    let stats = |side: &Side| -> Vec<ScopeStats> {
        let mut rows = side.stats.scope_stats(&side.catalog);
        rows.retain(|row| wanted(&args.name, &row.name));
        rows
    };
    let pairs = pair(
        (&before.catalog, stats(&before)),
        (&after.catalog, stats(&after)),
    );
    if pairs.is_empty() {
        return Err(after.failure("neither capture has spans of the chosen names"));
    }
    let changes = changes(args.metric.measure(), &pairs, &before, &after);
    let rows = pairs.into_iter().zip(changes).map(|(pair, change)| Row {
        self_change_ns: own_ns(pair.after()) / units(&after)
            - own_ns(pair.before()) / units(&before),
        is_slower: args
            .fail_above
            .is_some_and(|limit| is_slower(change, limit)),
        pair,
        change,
    });
    Ok(Comparison {
        rows: rows.collect(),
        before,
        after,
        is_per_frame,
    })
}

/// Reads both captures, each on a thread of its own.
fn read_both(args: &Args) -> Result<(Side, Side), Failure> {
    let keeps_histograms = matches!(args.metric, Metric::P50 | Metric::P99);
    let mut progress = Progress::new("reading", false);
    let mut beside = progress.beside();
    let (before, after) = thread::scope(|scope| {
        let after = scope.spawn(|| gather(&args.after, args.frames, keeps_histograms, &mut beside));
        let before = gather(&args.before, args.frames, keeps_histograms, &mut progress);
        (before, after.join())
    });
    let after = after.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    Ok((before?, after?))
}

/// Computes the change of every pair, on all processors: of thousands of scopes it takes longer
/// than reading.
fn changes(measure: Measure, pairs: &[Pair], before: &Side, after: &Side) -> Vec<Option<Change>> {
    let of = |pair: &Pair| {
        let old = before.blocks.get(pair.before()?.site)?;
        let new = after.blocks.get(pair.after()?.site)?;
        change(measure, old, new)
    };
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut changes = Vec::with_capacity(pairs.len());
    thread::scope(|scope| {
        let parts = pairs.chunks(pairs.len().div_ceil(threads).max(1));
        let parts = parts.map(|part| scope.spawn(move || part.iter().map(of).collect::<Vec<_>>()));
        // All of them are started before the first is waited for.
        for part in parts.collect::<Vec<_>>() {
            match part.join() {
                Ok(part) => changes.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    changes
}

fn is_slower(change: Option<Change>, limit_percent: f64) -> bool {
    change.is_some_and(|change| {
        change.change * 100.0 > limit_percent && change.interval.is_some_and(|(low, _)| low > 0.0)
    })
}

fn unknown(before: &Side, after: &Side, pattern: &Pattern) -> Failure {
    let mut known: Vec<String> = Vec::new();
    for catalog in [&before.catalog, &after.catalog] {
        known.extend(
            catalog
                .sites
                .iter()
                .flatten()
                .map(|site| site.name.to_string()),
        );
    }
    known.sort_unstable();
    known.dedup();
    after.failure(format!(
        "no scope is called `{pattern}` in either capture; there are {}",
        listed(&known)
    ))
}

/// Says of a scope that it is slower than what was allowed.
fn accusation(args: &Args, comparison: &Comparison, row: &Row) -> String {
    let limit = args.fail_above.unwrap_or_default();
    let change = row.change.map_or(0.0, |change| change.change);
    let interval = row.change.and_then(|change| change.interval);
    format!(
        "{}: {}: the {} is more than {limit} % above that of {}: {} ({})",
        comparison.after.path.display(),
        row.full_name(comparison),
        args.metric.words(),
        comparison.before.path.display(),
        show::percent(change),
        interval.map_or_else(String::new, show::interval),
    )
}

fn order(sort: Sort, a: &Row, b: &Row) -> Ordering {
    let number = |value: fn(&ScopeStats) -> f64| value(b.shown()).total_cmp(&value(a.shown()));
    let percent = |row: &Row| row.change.map_or(f64::NEG_INFINITY, |change| change.change);
    let by = match sort {
        Sort::Change => b.self_change_ns.abs().total_cmp(&a.self_change_ns.abs()),
        Sort::Percent => percent(b).total_cmp(&percent(a)),
        Sort::Own => number(|stats| stats.self_ns as f64),
        Sort::Total => number(|stats| stats.total_ns as f64),
        Sort::Mean => number(|stats| stats.mean_ns),
        Sort::P50 => number(|stats| stats.p50_ns as f64),
        Sort::P99 => number(|stats| stats.p99_ns as f64),
        Sort::Count => number(|stats| stats.count as f64),
        Sort::Name => Ordering::Equal,
    };
    let name = |row: &Row| (row.shown().name.clone(), row.shown().site);
    by.then_with(|| name(a).cmp(&name(b)))
}

impl Metric {
    fn measure(self) -> Measure {
        match self {
            Self::Mean => Measure::Mean,
            Self::P50 => Measure::Quantile(0.5),
            Self::P99 => Measure::Quantile(0.99),
            Self::Own => Measure::OwnMean,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Own => "mean self time",
        }
    }
}

impl Row {
    fn shown(&self) -> &ScopeStats {
        self.pair.shown()
    }

    /// Returns the catalog that knows the statistics that are shown.
    fn catalog<'a>(&self, comparison: &'a Comparison) -> &'a Catalog {
        match self.pair {
            Pair::Both { .. } | Pair::New(_) => &comparison.after.catalog,
            Pair::Gone(_) => &comparison.before.catalog,
        }
    }

    /// Returns where its call site stands in the source; nothing for names made at run time.
    fn place(&self, comparison: &Comparison) -> Option<String> {
        let site = self.catalog(comparison).site(self.shown().site);
        let site = site.filter(|site| !site.file.is_empty())?;
        Some(format!("{}:{}", printable(&site.file), site.line))
    }

    fn full_name(&self, comparison: &Comparison) -> String {
        let name = printable(&self.shown().name);
        match self.place(comparison) {
            Some(place) => format!("{name} ({place})"),
            None => name,
        }
    }
}

impl Comparison {
    /// Says how much was lost while recording, for those who read tables.
    fn losses(&self) -> Vec<String> {
        let lossy = [&self.before, &self.after].into_iter();
        let lossy = lossy.filter(|side| side.dropped_spans > 0);
        let said = lossy.map(|side| {
            let dropped = units::counted(side.dropped_spans, "span");
            format!(
                "{}: {dropped} DROPPED while recording (a ring was full): counts and totals are too small",
                side.path.display()
            )
        });
        said.collect()
    }
}
